"""A map of accesses: which elements the threads of a wrong kernel read and store, and which they should.

A thread of a right kernel that computes elements of its own reads all that these depend on, however the kernel is written.
What it reads instead of such an element is wrong, or else what it stores. Where threads combine what they have computed, this
holds for a block; where they multiply matrices, for a warp, and each register must hold what fits the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

import numpy as np

from ...course.declare import Case, Kernel, Puzzle
from ...devices.virtual.instrument import notes
from ...devices.virtual.ptx import parse
from ...errors import CompileError
from ..compare import Expected
from ..findings import Finding
from ..runs import Setup
from ..verdict import Verdict
from .indices import Index
from .noted import FACTOR, WARP, Launch, Stored, Use, Where, launched, small

TRIED = 6  # cases
KINDS = {"wrong", "unwritten", "out-of-bounds", "race"}  # of verdicts that it looks into
MOST, MOST_PAIRS = 4000, 200  # accesses, and products, that are looked at
Cells = dict[tuple[int, int], tuple[Use, str, int]]


@dataclass(frozen=True)
class Access:
    """A wrong access. kind: "store" of what belongs elsewhere; "read" of another element; "missing": an element that is never read;
    "twice": or one that is read twice (also in line `filled`) in its place;
    "fragment": a register of a product of matrices; "product": of two registers, that the result has none of.

    line: of the access; array: that of the elements found and right; output: what the thread computes; filled: the line of the
    store into the tile that is read; register: its name. variable, axis: what the index has along an axis where it is wrong, set in
    lines set_in; or else, by how much a step of the variable moves the index, and by how much it should. 0 or "": not known.
    warps: all warps read the same places there, of a tile, which are right for one of them, as the tile is.
    case: the name of the one in which it is seen.
    """

    kind: str
    line: int
    array: str
    found: str
    right: str
    output: str = ""
    filled: int = 0
    register: str = ""
    axis: str = ""
    variable: str = ""
    set_in: tuple[int, ...] = ()
    step: int = 0
    right_step: int = 0
    warps: bool = False
    case: str = ""

    @property
    def finding(self) -> Finding:
        places = dict.fromkeys((self.line, *self.set_in, self.filled))
        return Finding("wrong_access", tuple(line for line in places if line), asdict(self))


@dataclass(frozen=True)
class Overwrite:
    """A store over what another thread keeps in shared memory. lines: of the store, and where that thread stores and reads. given:
    the variables that the index is computed from, as they are there."""

    lines: tuple[int, int, int]
    given: dict[str, int]
    case: str = ""
    kind = "overwritten"

    @property
    def finding(self) -> Finding:
        return Finding(self.kind, self.lines, {"given": self.given, "case": self.case})


def may_tell(verdict: Verdict) -> bool:
    """Whether nothing that is known of a kernel has a line, and its accesses may show one."""
    kind = verdict.fault["kind"] if verdict.fault else verdict.kind
    stated = [f for f in verdict.findings if f.row.explains and not f.asks]
    return kind in KINDS and not any(f.all_lines or f.kind == "mistake" for f in stated)


def wrong_accesses(
    puzzle: Puzzle, kernel: Kernel, source: str, cases: Sequence[Case], setup: Setup, raced: bool
) -> list[Finding]:
    """The first that is found. cases: that go wrong, first the one that is shown. setup: of the file as it is. raced: threads race, so that nothing but what they
    store is sure. Errors: DeviceError."""
    if not hasattr(setup.module, "compiled"):  # a device that does not run code
        return []
    with type(setup.device)(notes.BUILD) as device, suppress(CompileError):
        options = dict(name=setup.module.name, include_dirs=puzzle.include_dirs)
        module = device.compile(source + notes.DECLARATION, **options)
        found = of_module(puzzle, kernel, cases, module, raced)
        return [replace(f, case=f.case if f.case != cases[0].name else "").finding for f in found]
    return []


def of_module(
    puzzle: Puzzle, kernel: Kernel, cases: Sequence[Case], module, raced: bool = False
) -> list[Access | Overwrite]:
    """module: with notes. raced: see `wrong_accesses`. What is read or stored wrongly in any case tells more than what is never read."""
    sites, others, tried = notes.run(parse.parse(module.compiled.text, module.name)), [], 0
    for case in small(puzzle, kernel, cases, sites)[: 2 * TRIED]:
        launch = launched(puzzle, kernel, case, module, sites) if tried < TRIED else None
        if launch:
            tried += not launch.partial
            stored, sure = misplaced(launch)
            found = stored if sure else []
            if not sure and not raced:
                found = overwrites(launch) or fragments(launch) or strays(launch)
            stored, found = ([replace(x, case=case.name) for x in some] for some in (stored, found))
            if found and found[0].kind not in ("missing", "twice"):
                return found
            others = others or ([] if raced else stored or found)
    return others


def misplaced(launch: Launch) -> tuple[list[Access], bool]:
    """All numbers that are stored are right, but some for another element. Also whether it must be the store that is wrong: with
    another step all would be, or a thread stores several in one place, or none where the number belongs; else it may be what is
    read."""
    targets = {x.array.name: x for x in launch.trial.targets}
    last = {(s.thread, s.at): s for s in launch.stores if not launch.partial}
    belongs: dict = {}
    for key, s in last.items():
        places = places_of(launch, s, targets)
        if launch.site(s.row).kind != "store" or not len(places) and s.number:
            return [], False
        if len(places):  # else a 0 that is beyond what is computed
            belongs[key] = places
    wrong = [last[key] for key, places in belongs.items() if key[1][1] not in places]
    if not wrong:
        over = stored_over(launch, last, targets)
        return over, bool(over)
    first = min(wrong, key=lambda s: len(belongs[s.thread, s.at]))
    places, w = belongs[first.thread, first.at], launch.arrays[first.at[0]]
    site = launch.rows["site"][first.row]
    mine = [last[key] for key in belongs if launch.rows["site"][last[key].row] == site]
    may = np.array([np.isin(np.arange(w.size), belongs[s.thread, s.at]) for s in mine])
    index = Index(launch, first.at[0], [s.row for s in mine])
    facts = index.right_step(may)
    single = Counter((at[0], places[0]) for (_, at), places in belongs.items() if len(places) == 1)
    if not facts and (len(places) > 1 or max(single.values()) > 1):  # what is computed twice is not misplaced
        return [], False
    found, right = launch.called(first.at), w.called(int(places[0]))
    access = Access("store", launch.lines[first.row], w.array.name, found, right, **facts or index.along(may))
    filled = {at for _, at in last}
    lost = any((at[0], at_[0]) not in filled for (_, at), at_ in belongs.items() if len(at_) == 1)
    numbers = {(s.thread, s.at, s.number) for s in launch.stores}
    return [access], bool(facts) or lost or len(numbers) > len(last)


def places_of(launch: Launch, s: Stored, targets: Mapping[str, Expected]) -> np.ndarray:
    """The elements of the output for which a stored number is right."""
    want = targets[launch.arrays[s.at[0]].array.name]
    apart = np.abs(np.asarray(want.values, float) - s.number) - want.tolerance
    return np.flatnonzero(apart <= 1e-6 * abs(s.number))


def stored_over(launch: Launch, last: Mapping, targets: Mapping[str, Expected]) -> list[Access]:
    """The first right number in a place where its thread stores another one afterwards, and which nobody stores where it belongs."""
    filled = {at for _, at in last}
    for s in launch.stores:
        if s.number and last.get((s.thread, s.at), s).row != s.row and launch.site(s.row).kind == "store":
            places = [int(e) for e in places_of(launch, s, targets)]
            if len(places) == 1 and (s.at[0], places[0]) not in filled:
                w = launch.arrays[s.at[0]]
                elements = launch.called(s.at), w.called(places[0])
                return [Access("store", launch.lines[s.row], w.array.name, *elements)]
    return []


def overwrites(launch: Launch) -> list[Overwrite]:
    """The first store over what a thread keeps for itself."""
    for lost in launch.lost[:1]:
        names = launch.site(lost.store).names
        noted = launch.rows["names"][lost.store].astype(np.int32).tolist()
        given = {name: value for (name, bits), value in zip(names, noted, strict=False) if bits == 32}
        lines = launch.lines[lost.store], launch.lines[lost.own], launch.lines[lost.read]
        return [Overwrite(lines, given)]
    return []


def strays(launch: Launch) -> list[Access]:
    """Reads of what a thread's results do not depend on, where it never reads something that they do; or only the latter."""
    if launch.partial and not launch.faulted:
        return []
    level = launch.block if launch.combined else WARP if launch.factors else 1
    outputs, writers, plain = defaultdict(set), defaultdict(set), set()
    for s in launch.stores:
        outputs[s.thread // level].add(s.at)
        writers[s.at].add(s.thread // level)
        plain |= {s.at} if launch.site(s.row).kind == "store" else set()
    met = {at for at in plain if len(writers[at]) > 1}  # one of these stores is in another's place
    tiled = {u.array for u in launch.uses if u.stored >= 0} if level < launch.block else set()
    multiplied = {u.array for u in launch.uses if u.stored == FACTOR} - tiled if level == WARP else set()
    reads: dict[int, dict[int, list[Use]]] = {array: defaultdict(list) for array in launch.needs}
    for u in launch.uses:
        if u.stored == FACTOR if u.array in multiplied else (u.stored >= 0) == (u.array in tiled):
            reads[u.array][u.thread // level].append(u)
    alone = not launch.combined and all(len(w) == 1 for w in writers.values())
    found: dict[str, list] = {"read": [], "missing": []}
    for array, by in reads.items():
        idle = {u.element for who, uses in by.items() if who not in outputs for u in uses}
        wanted = {who: launch.needed(array, own) for who, own in sorted(outputs.items())}
        elements = np.arange(launch.arrays[array].size)
        missing = {who: w & ~np.isin(elements, [u.element for u in by[who]]) for who, w in wanted.items()}
        some = ((who, elements[m].tolist()) for who, m in missing.items() if alone and m.any())
        never = {who for who, lacking in some if idle.isdisjoint(lacking)}
        for who, own in outputs.items():
            wrong = [u for u in by[who] if not wanted[who][u.element]] if own.isdisjoint(met) else []
            if wrong and (never or missing[who].any()):
                found["read"] += [(u, own, wanted[who], missing[who]) for u in wrong]
            elif who in never:
                found["missing"] += [(u, own, missing[who], missing[who]) for u in by[who]]
    kind = next((kind for kind, strays in found.items() if strays), "")
    return [most_of(launch, kind, found[kind], reads, level)] if kind else []


def most_of(launch: Launch, kind: str, found: list, reads: dict, level: int) -> Access:
    """The instruction and the array with most strays. found: (the use, the thread's outputs, the elements of the array that it may be
    of, those that are never read)."""
    sites = launch.rows["site"]
    (array, number), _ = Counter((u.array, sites[u.row]) for u, *_ in found).most_common(1)[0]
    again = read_again(found, array, sites) if kind == "missing" else ()
    number = again[0] if again else number
    mine = [f for f in found if (f[0].array, sites[f[0].row]) == (array, number)]
    use, own, _, missing = next((f for f in mine if f[3].any()), mine[0])
    astray = {u.thread // WARP for u, *_ in mine}
    w, facts = launch.arrays[array], {}
    never = sorted(np.flatnonzero(missing).tolist(), key=lambda m: ((w.at(m) != w.at(use.element)).sum(), m))
    if use.source >= 0:
        of_thread = {u.thread // level: may for u, _, may, _ in found if u.array == array}
        mine = [u for uses in reads[array].values() for u in uses if u.source >= 0]
        mine = [u for u in mine if sites[u.source] == sites[use.source]][:MOST]
        if kind == "missing":
            mine = [u for u in mine if u.thread // level in of_thread]
        may = np.array([of_thread.get(u.thread // level, np.arange(w.size) == u.element) for u in mine])
        index = Index(launch, array, [u.source for u in mine])
        facts = index.right_step(may, [u.thread // level for u in mine]) if kind == "read" else {}
        facts = facts or index.along(may)
    axis = facts.get("axis") if never else None
    if axis and (w.at(use.element) == w.at(never[0]))[w.array.letters.index(axis)]:
        facts = {}  # here it is another one
    filled = launch.lines[use.stored] if use.stored >= 0 else 0
    output = next((e for e in sorted(own) if never and launch.needed(array, {e})[never[0]]), min(own))
    elements = w.called(use.element), w.called(never[0]) if never else "", launch.called(output)
    if again:
        other = next(launch.lines[u.row] for u, *_ in found if (u.array, sites[u.row]) == (array, again[1]))
        return Access("twice", launch.lines[use.row], w.array.name, *elements, filled=other)
    lacking = bool(never) and use.source >= 0 and is_loaded(launch, use, w, never[0])
    facts["warps"] = kind == "read" and lacking and alike_in_warps(launch, number, astray)
    return Access(kind, launch.lines[use.row], w.array.name, *elements, filled=filled, **facts)


def read_again(found: list, array: int, sites: np.ndarray) -> tuple[int, ...]:
    """Instructions that read nothing but what their threads also read with others: that one, and another that reads the same."""
    by: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for u, *_ in found:
        if u.array == array:
            by[int(sites[u.row])].add((u.thread, u.element))
    pairs = ((n, other) for n in sorted(by, reverse=True) for other in by)
    return next(((n, other) for n, other in pairs if other != n and by[n] <= by[other]), ())


def is_loaded(launch: Launch, use: Use, where: Where, element: int) -> bool:
    """Whether the use's block reads this element with the same instruction as the use's own."""
    rows, block = launch.rows, launch.rows["block"][use.row]
    mine = (rows["site"] == rows["site"][use.source]) & (rows["block"] == block)
    return bool((rows["address"][mine] == where.start + element * where.itemsize).any())


def alike_in_warps(launch: Launch, number: int, astray: set[int]) -> bool:
    """Whether all warps of a block access the same places with an instruction, lane by lane. astray: those for which they are wrong."""
    rows = launch.rows[launch.rows["site"] == number]
    places: dict[tuple[int, int], list] = defaultdict(list)
    for block, thread, address in rows[["block", "thread", "address"]].tolist():
        places[block, thread // WARP].append((thread % WARP, address))
    first = min(places)[0]
    own = {warp: sorted(at) for (block, warp), at in places.items() if block == first}
    wrong = {first * launch.block // WARP + warp for warp in own} <= astray
    return len(own) > 1 and not wrong and all(at == own[min(own)] for at in own.values())


def fragments(launch: Launch) -> list[Access]:
    """Registers of a product of matrices that hold what does not fit the others: the index along an axis of the output must be that of
    a row of A or a column of B; along an axis that both factors have, that of a place in the sum. Or else two that are
    multiplied, and no element of the output has this product.

    Source: PTX ISA, section 9.7.14.5 (fragments of mma): lane 4 * g + t holds rows g and g + 8 of A, and column g of B.
    """
    held: dict[tuple, dict[str, Cells]] = defaultdict(lambda: {"A": {}, "B": {}})
    for time, byte, use, line in launch.factors:
        number, lane = launch.rows["site"][use.row], use.thread % launch.block % WARP
        of_a, each = len(launch.site(use.row).names) * 2 // 3, 4 // launch.arrays[use.array].itemsize
        i, factor = (byte // 4, "A") if byte // 4 < of_a else (byte // 4 - of_a, "B")
        place = each * (lane % 4) + byte % 4 * each // 4 + 4 * each * (i // 2 if factor == "A" else i)
        side = lane // 4 + 8 * (i % 2) * (factor == "A")
        register = f"register {i} of {factor} of lane {lane}"
        held[number, time, use.thread // WARP][factor][place, side] = use, register, line
    factors = [cells for both in held.values() for cells in both.values() if cells]
    found = next((access for cells in factors if (access := unfitting(launch, cells))), None)
    return [found] if found else of_no_product(launch, held.values())


def unfitting(launch: Launch, cells: Cells) -> Access | None:
    """cells: of one factor, by (place in the sum, row or column)."""
    array = next(iter(cells.values()))[0].array
    outer = {c for p in launch.trial.outcome.kernel.outputs for c in p.apart.letters}
    others = {c for i, o in launch.inputs if i != array for c in o.array.letters}
    w = launch.arrays[array]
    own = {at: tuple(w.at(use.element).tolist()) for at, (use, *_) in cells.items() if use.array == array}
    sides = [1 if c in outer else 0 if c in others else None for c in w.array.letters]
    kept = [(axis, side) for axis, side in enumerate(sides) if side is not None]
    if all(len({(at[s], own[at][x]) for at in own}) == len({at[s] for at in own}) for x, s in kept):
        return None
    first, free = min(own), None in sides
    for at in sorted(own):
        right = list(own[at])
        for axis, side in kept:
            same = [own[a][axis] for a in sorted(own) if a[side] == at[side]]
            straight = {own[first][axis] + a[side] - first[side] for a in own}
            inside = min(straight) >= 0 and max(straight) < w.shape[axis]
            straight_on = own[first][axis] + at[side] - first[side]
            right[axis] = straight_on if inside else Counter(same).most_common(1)[0][0]
        if tuple(right) != own[at]:
            use, register, line = cells[at]
            some = [f"{c}={n}" for c, n, had in zip(w.array.letters, right, own[at], strict=True) if n != had]
            should = f"one with {','.join(some)}" if free else w.called(int(np.dot(right, w.steps)))
            return Access("fragment", line, w.array.name, w.called(use.element), should, register=register)
    return None


def of_no_product(launch: Launch, held: Iterable[dict[str, Cells]]) -> list[Access]:
    """The first of the pairs that are multiplied without need."""
    zeros = {name: x * 0 if x.dtype.kind == "f" else x for name, x in launch.trial.arrays.items()}
    pairs = {
        ((a[0].array, a[0].element), (b[0].array, b[0].element)): (a, b)
        for both in held
        for (place, _), a in sorted(both["A"].items())
        for (other, _), b in sorted(both["B"].items())
        if place == other
    }
    some = list(pairs.items())
    for (one, two), (a, b) in some[:: len(some) // MOST_PAIRS + 1]:
        inputs = {name: x.copy() for name, x in zeros.items()}
        for array, element in (one, two):
            inputs[launch.arrays[array].array.name].flat[element] = 1
        if not launch.right(inputs).any():
            text = f"{b[1]} is multiplied by {a[1]} (line {a[2]})"
            elements = launch.arrays[two[0]].array.name, launch.called(two), launch.called(one)
            return [Access("product", b[2], *elements, register=text)]
    return []
