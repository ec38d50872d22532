"""The values that led to a bad access: `row = 4, k = 5, K = 5`, the guards, and who called.

The kernel runs once more, and what the faulting thread does is recorded: the record holds its variables when it came to the
access. `noting.py` says which of them determine it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ...course.array_names import by_name
from ...course.declare import Puzzle
from ...cuda.evaluate import integer_of, plain, substituted
from ...cuda.follow import added_in, pointer_values, value_of
from ...cuda.parts import all_indices, index_of, named, sign_of
from ...cuda.pieces import Piece
from ...cuda.text import CudaText, read
from ...cuda.tree import LOOPS
from ...cuda.values import tunables
from ...devices.launching import triple
from ...devices.virtual.replay.record import Record
from ...devices.virtual.replay.replay import Replay
from ...devices.virtual.replay.variables import Frame
from ...errors import KernelFault
from ..findings import Finding
from ..kinds import ENDS
from ..race_timeline import kept, linear
from ..runs import Outcome, Pace, Setup, Trial, start_again
from ..sentences import nth_line
from .noting import Probe, access_of, probe_of
from .outside_axis import axes_of, outside_of_axis, varies

MOST_VALUES = 8  # shown
MOST_OF_BOTH = 3  # of two threads
FEW_VALUES, LONGEST_VALUE = 5, 40  # values shown with their expressions; longest expression in characters
INT_MAX = 2**31 - 1
NOTED = {*ENDS, "uninitialised-read", "race"}


def explain(puzzle: Puzzle, source: str, failed: Outcome, setup: Setup, seed: int) -> list[Finding]:
    """What to say about the fault in an outcome; nothing for large cases, which would take long."""
    trial = Trial(Outcome(failed.case, failed.kernel), Pace())
    if failed.case.stress:
        return []
    trial.begin(puzzle, tunables(source), seed)
    launch = partial(start_again, trial, setup)
    shape = triple(trial.launch.grid, "grid"), triple(trial.launch.block, "block")
    fault = failed.error
    axes = next((a.axes for a in failed.kernel.arrays if a.name == fault.array), ())
    sizes = {letter: str(size) for letter, size in axes}
    own = read(source).function(failed.kernel.name)
    arrays = by_name(failed.kernel, own) if own else {}
    called = next((name for name, a in arrays.items() if a.name == fault.array), "")
    elements = {name: math.prod(a.shape(trial.dims)) for name, a in arrays.items()}
    return behind(fault, source, setup.device, *shape, launch, sizes, called, elements)


def behind(
    fault: KernelFault,
    source: str,
    device,
    grid,
    block,
    launch: Callable[[], object],
    sizes: Mapping[str, str] | None = None,
    called: str = "",
    elements: Mapping[str, int] | None = None,
) -> list[Finding]:
    """Nothing if it does not happen again. sizes: names of the array's sizes, by letter; called: its name in the file."""
    if not isinstance(fault, KernelFault) or fault.kind not in NOTED or device.kind != "cpu":
        return []
    if fault.source != nth_line(source, fault.line) or fault.thread is None:
        return []
    file, mine = read(source), replace(fault, array=called or fault.array)
    if fault.kind == "race":
        run = partial(_run, fault, device, launch, (grid, block))
        return _strays(file, fault, mine, run, (grid, block), sizes or {})
    probe = probe_of(file, fault.line, mine.array)
    if probe is None or fault.kind not in ENDS and not access_of(file, mine):  # which access was it?
        return []
    known, call = _run(fault, device, launch, (grid, block))
    values = {name: known[name] for name in probe.names if name in known}
    call = call if probe.calls else 0
    if not values and not call:
        return []
    values |= _built_in(fault, grid, block)
    outside, names = outside_of_axis(file, probe, values, fault, sizes or {})
    larger = _index_of_a_larger(probe, values, mine.array, elements or {})
    found = _where(file, probe, values, call) + _too_large(file, probe, values)
    found += _differences(file, probe, values, names) if fault.before else []
    if not larger and not _has_few_for_its_bytes(mine):
        outside += _guard(file, probe, values, names, fault.kind in ENDS and is_flat(fault, probe))
    return found + outside + larger


# -- the second run ---------------------------------------------------------------------------------------


def _run(
    fault: KernelFault, device, launch: Callable[[], object], shape: tuple, side: KernelFault | None = None
) -> tuple[dict[str, int], int]:
    """(integer variables, line of the call) of a thread when it comes to the access, if it does. side: of a race."""
    side = side or fault
    who = linear(side.thread, shape[1]) | linear(side.block, shape[0]) << 10
    again, record = kept(device, launch, pair=(who, who ^ 1))
    if not record or not isinstance(again, KernelFault) or not _same(again, fault):
        return {}, 0
    a = record.accesses
    mine = a[(a["who"] == who) & (a["line"] == fault.line)]
    if fault.kind not in ENDS:  # the thread goes on
        array, offset = _element(fault, record)
        here = (mine["offset"] <= offset) & (offset < mine["offset"] + mine["nbytes"])
        mine = mine[(mine["array"] == array) & here][:1]
    if not len(mine):
        return {}, 0
    row, replay = int(mine["row"][-1]), Replay(record, lockstep=False)
    step = replay.step_at(who, int(replay.time[row]))
    place = int(np.searchsorted(record.threads[who], row))
    known = Frame(replay, who, replace(step, end=place)).variables()
    lines = [record.points[point][1] for point in step.key[:-1]] or [line for _, line in step.frames[:-1]]
    return {n: int(v) for n, v in known.items() if isinstance(v, int)}, lines[-1] if lines else 0


def _element(fault: KernelFault, record: Record) -> tuple[int, int]:
    """(the number of its array, bytes from its start) of the element of a fault."""
    at, shape = ([int(n) for n in re.findall(r"\d+", text)] for text in (fault.index, fault.shape))
    known = [n for n, held in enumerate(record.arrays) if held.name == fault.array]
    if len(known) != 1 or not at or len(shape or at[:1]) != len(at):
        return -2, 0
    flat = sum(n * math.prod(shape[i + 1 :]) for i, n in enumerate(at))
    return known[0], flat * (fault.size or record.arrays[known[0]].dtype.itemsize)


def _strays(
    file: CudaText,
    fault: KernelFault,
    mine: KernelFault,
    run: Callable,
    shape: tuple,
    sizes: Mapping[str, str],
) -> list[Finding]:
    """The first of two threads that write one element which has none of its own. mine: with the file's name of the array."""
    if not fault.other or fault.line != fault.other.line:
        return []
    if fault.space == "shared" and "read" in (fault.access, fault.other.access):
        return []
    known: list[dict[str, int]] = []
    for at in (fault.other, fault):
        side = replace(fault, thread=at.thread, block=at.block)
        probe = probe_of(file, fault.line, mine.array)
        found = run(side)[0] if probe and access_of(file, mine) else {}
        if values := {name: found[name] for name in probe.names if name in found} if probe else {}:
            values |= _built_in(side, *shape)
            known.append(values)
            outside, names = outside_of_axis(file, probe, values, fault, sizes)
            if outside:
                who = ",".join(map(str, side.thread))
                return [replace(outside[0], where=f"In thread ({who})"), *_guard(file, probe, values, names)]
    return _of_both(file, probe, mine, known) if len(known) == 2 else []


def _of_both(
    file: CudaText, probe: Probe, fault: KernelFault, both: Sequence[dict[str, int]]
) -> list[Finding]:
    """How two threads arrive at the same element: `t / 32 is 0 / 32 and 1 / 32`."""
    place, access = probe.indices[0].start, access_of(file, fault)
    if left_out := _only_in_sizes(file, access, both):
        return [Finding.of("differ_only_in", access.line, index=left_out)]
    indices = [index for index in all_indices(access) if index.kind != "identifier"]
    names = list(dict.fromkeys(p.code for index in all_indices(access) for p in index.all("identifier")))
    apart = []
    if access.indexed.code != fault.array and (begins := value_of(file, access.indexed.code, place)):
        names += [p.code for p in begins.all("identifier") if p.code not in names]
        apart = [(name, *(str(values[name]) for values in both)) for name in names if name in both[0]]
    origins = [(f"{name} = ", v) for name in names if (v := value_of(file, name, place))]
    known = [(values, integer_of(file, values)) for values in both]
    for pieces in ([("", index) for index in indices], origins) if not apart else ():
        texts = [(f"{called}{plain(e)}", *(substituted(e, *each) for each in known)) for called, e in pieces]
        apart = apart or [each for each in texts if each[1] and each[2] and each[1] != each[2]]
    apart = [each for each in apart if each[1] != each[2]][:MOST_OF_BOTH]
    places = [(at.thread, at.block) for at in (fault.other, fault)]
    who = [[f"({','.join(map(str, at))})" for at in place] for place in places]
    apart_by = fault.block != fault.other.block
    who = [f"thread {thread}" + f" of block {block}" * apart_by for thread, block in who]
    return [Finding.of("both_indices", who=who, values=apart)] if apart else []


def _only_in_sizes(file: CudaText, access: Piece, both: Sequence[dict[str, int]]) -> str:
    """The only built-in number in which two threads differ, if nothing that is computed from it is part of an index."""
    points = [n for n in both[0] if n.startswith(("threadIdx.", "blockIdx."))]
    apart = [n for n in points if both[0][n] != both[1][n]]
    if len(apart) != 1:
        return ""
    pieces = [*all_indices(access), *pointer_values(file, named(access), access.start)]
    base = file.variable_at(named(access), access.start)
    moves = base and base.value and not value_of(file, base.name, access.start)
    if access.kind != "subscript_expression" or None in pieces or moves:
        return ""
    known = [added_in(piece, depth=8) for piece in pieces]
    return apart[0] if None not in known and apart[0] not in set().union(*known) else ""


def _built_in(fault: KernelFault, grid, block) -> dict[str, int]:
    points = {"threadIdx": fault.thread, "blockIdx": fault.block, "blockDim": block, "gridDim": grid}
    return {f"{name}.{axis}": point[i] for name, point in points.items() for i, axis in enumerate("xyz")}


def _same(a: KernelFault, b: KernelFault) -> bool:
    return all(getattr(a, f) == getattr(b, f) for f in ("kind", "line", "thread", "block", "array", "index"))


# -- what to say ------------------------------------------------------------------------------------------


def _where(file: CudaText, probe: Probe, values: dict[str, int], call: int) -> list[Finding]:
    """`There idx = 12 = blockIdx.x * blockDim.x + threadIdx.x.` Values that vary come first, sizes if there is room."""
    place = probe.indices[0].start
    mine = [name for name in (*probe.own, *probe.behind) if name in values]
    loops = [name for name in probe.others if name in values and _is_of_loop(file, name, place)]
    sizes = [name for name in (*mine, *loops) if not varies(file, probe.function, name, place)]
    names = dict.fromkeys(sorted((*mine, *loops), key=lambda name: name in sizes))
    shown = list(names)[:MOST_VALUES]
    texts = []
    for name in shown:
        value = value_of(file, name, place) if name in probe.own else None
        written = value and value.kind != "number_literal" and len(value.code) <= LONGEST_VALUE
        written = written and (len(shown) <= FEW_VALUES or name in sizes)
        computed = f" = {' '.join(value.code.split())}" if written else ""
        texts.append(f"{name}{computed} = {values[name]}")
    there = [Finding.of("values", values=texts)] if texts else []
    return there + [Finding.of("called_from", call, function=probe.function.name)] * bool(call)


def _is_of_loop(file: CudaText, name: str, place: int) -> bool:
    updates = (loop.part("update") for loop in file.around(place, *LOOPS))
    return any(name in {p.code for p in update.all("identifier")} for update in updates if update)


def _too_large(file: CudaText, probe: Probe, values: dict[str, int]) -> list[Finding]:
    """The smallest part of an index, or of what its variables are computed from, that an int does not hold, if all in it are ints."""
    place, integer = probe.indices[0].start, integer_of(file, values)
    origins = [v for name in (*probe.own, *probe.behind) if (v := value_of(file, name, place))]
    parts = [p for piece in (*probe.indices, *origins) for p in piece.all("binary_expression")]
    found = [(p, n) for p in parts if _is_of_ints(file, p, values) and (n := integer(p)) is not None]
    beyond = [(p, n) for p, n in found if not -INT_MAX <= n <= INT_MAX]
    if not beyond:
        return []
    part, number = min(beyond, key=lambda found: len(found[0].code))
    return [Finding.of("too_large", part.line, code=plain(part), number=number)]


def _is_of_ints(file: CudaText, part: Piece, values: dict[str, int]) -> bool:
    """Whether it is made of nothing but known variables of type int, numbers, and + - * ( )."""
    names = [token.code for token in part.tokens if not token.code.isdecimal() and token.code not in "+-*()"]
    known = [file.variable_at(name, part.start) for name in names if name in values]
    plain_ints = (v and v.type in ("int", "int32_t") and not v.pointer and not v.extents for v in known)
    return len(known) == len(names) > 0 and all(plain_ints)


def _differences(file: CudaText, probe: Probe, values: dict[str, int], outside: set[str]) -> list[Finding]:
    """Negative differences in an index: `q - s is 0 - 1 = -1`. outside: its variables that are explained further."""
    place, negative, integer = probe.indices[0].start, {}, integer_of(file, values)
    origins = [v for name in probe.own if values.get(name, 0) < 0 and (v := value_of(file, name, place))]
    for piece in (*([] if outside else probe.indices), *origins):
        for part in piece.all("binary_expression"):
            left, right = part.part("left"), part.part("right")
            if left.kind == "binary_expression" and left.part("operator").code == "+":
                left = left.part("right")  # of `row * W + q - s`, q - s
            a, b = integer(left), integer(right)
            if part.part("operator").code == "-" and a is not None and b is not None and a < b:
                text = f"{plain(left)} - {plain(right)}"
                negative[text] = text, a, b
    return [Finding.of("negative", differences=list(negative.values())[:3])] if negative else []


def _guard(
    file: CudaText, probe: Probe, values: dict[str, int], outside: set[str], flat: bool = False
) -> list[Finding]:
    """The guard that should have stopped it, with values for its variables: one with a part that detects
    this, one that stops an element too late, or one that tests the part of the index that is outside its
    axis.

    If the index is wrong, the guard may still be right; then nothing is said about it. outside: the only
    variables to look at, if there are any. flat: see `is_flat`.
    """
    ranked, place, integer = [], probe.indices[0].start, integer_of(file, values)
    own = {name for name in probe.own if varies(file, probe.function, name, place)}
    behind = {name for name in probe.behind if varies(file, probe.function, name, place)}
    looked = outside | {
        p.code
        for n in outside
        if (v := value_of(file, n, place)) and sign_of(v) != "%"  # a remainder stays below its size anyway
        for p in v.all("identifier")
        if p.code in ("threadIdx", "blockIdx") or varies(file, probe.function, p.code, place)
    }
    origins = [v for name in own if (v := value_of(file, name, place))]
    points = {word for piece in (*probe.indices, *origins) for word in _points(piece)}
    for guard in probe.guards:
        names = {p.code for p in guard.all("identifier")}
        text = substituted(guard, values, integer)
        late = any(_is_late(part, integer) for part in guard.all("binary_expression"))
        halves = any(_is_half(part, integer) for part in guard.all("binary_expression"))
        looks = names & own or points & set(_points(guard))
        if outside:
            tells = looked & names and (late or looks and guard.outer.kind not in LOOPS)
        else:
            here = flat and looks and guard.outer.kind not in LOOPS
            tells = here or (late or halves) and (looks or names & behind)
        if text and tells:
            ranked.append((not late, Finding.of("guard_passes", guard.line, test=plain(guard), numbers=text)))
    return [what for _, what in sorted(ranked, key=lambda r: r[0])[:1]]


def _has_few_for_its_bytes(fault: KernelFault) -> bool:
    """Whether shared memory of the launch is taken as elements of 8 bytes: an array of these may be wrong, not the guard."""
    return fault.space == "shared" and not fault.shape and fault.size == 8


def _index_of_a_larger(
    probe: Probe, values: Mapping[str, int], array: str, elements: Mapping[str, int]
) -> list[Finding]:
    """Of an index that is one variable: the array with more elements that it is an index of, too. Its guard is for that."""
    index = probe.indices[0]
    at = values.get(index.code, -1) if index.kind == "identifier" else -1
    for access in probe.function.body.all("subscript_expression") if at >= 0 else ():
        name, other = access.indexed.code, index_of(access)
        if name != array and other and other.code == index.code and elements.get(name, 0) > at:
            facts = dict(name=index.code, array=name, elements=elements[name])
            return [Finding.of("index_of_a_larger", access.line, **facts)]
    return []


def is_flat(fault: KernelFault, probe: Probe) -> bool:
    """Whether the array has one axis, or is indexed by one variable that counts all its elements."""
    return len(axes_of(fault)[1]) < 2 or [index.kind for index in probe.indices] == ["identifier"]


def _points(piece: Piece) -> Iterator[str]:
    """The components of threadIdx and blockIdx that an expression reads."""
    return (p.code for p in piece.all("identifier") if p.code in ("threadIdx", "blockIdx"))


def _is_late(comparison: Piece, integer: Callable[[Piece], int | None]) -> bool:
    """Whether it compares two equal values and lets them pass: off by one."""
    if comparison.part("operator").code not in ("<=", ">", ">=", "<"):
        return False
    left, right = (integer(comparison.part(side)) for side in ("left", "right"))
    return left is not None and left == right and left > 0


def _is_half(both: Piece, integer: Callable[[Piece], int | None]) -> bool:
    """Whether it combines two conditions and only one of them holds."""
    if both.part("operator").code not in ("&&", "||"):
        return False
    left, right = (integer(both.part(side)) for side in ("left", "right"))
    return None not in (left, right) and bool(left) != bool(right)
