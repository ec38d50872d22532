"""The values that led to a bad access, from a second run: `row = 4, k = 5, K = 5`, the guards, and who called.

The kernel is compiled again with its accesses on that line written so that the thread that failed notes its variables
first: `A[row * K + k]` becomes `A[(at[1] = row, at[2] = K, at[3] = k, row * K + k)]`. What stands there when the thread
is stopped are the values of the access that failed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..course.cuda_text import CudaText, Function, Piece, Variable, edited, read
from ..course.cuda_tree import LOOPS
from ..course.cuda_values import Values, tunables
from ..course.declare import Launch, Puzzle
from ..devices.launching import triple
from ..errors import BackwarpError, KernelFault
from .runs import Outcome, Pace, Setup, Trial, place, start
from .sentences import ENDS, nth_line

MOST_VALUES, MOST_NOTES = 8, 32  # shown; noted
FEW_VALUES, LONGEST_VALUE = (
    5,
    40,
)  # so many are shown with the expressions that gave them, of so many characters
_INTEGERS = set(
    "int unsigned signed long short char bool size_t auto ptrdiff_t int8_t int16_t int32_t int64_t".split()
)
_INTEGERS |= {f"u{name}" for name in _INTEGERS}
NOTED = {*ENDS, "uninitialised-read"}
_JUMPS = ("return_statement", "continue_statement", "break_statement")
_AROUND = (*LOOPS, "if_statement", "conditional_expression")


@dataclass(frozen=True)
class Probe:
    """What is noted where. indices: pieces of the line before which it is done. own: the integer variables of the
    index; behind: those from which they were computed; others: of loops and guards around. calls: of the function, if
    it is no kernel."""

    function: Function
    indices: list[Piece]
    own: list[str]
    behind: list[str]
    others: list[str]
    guards: list[Piece]
    calls: list[Piece]
    element: str = ""  # a condition: that the access is of this element

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys((*self.own, *self.behind, *self.others)))[:MOST_NOTES]


def insert(lines: list[str], puzzle: Puzzle, source: str, failed: Outcome, setup: Setup, seed: int) -> None:
    """Adds what there is to say to the lines of a verdict on a fault, after what they explain."""
    after = lines.index(failed.error.explanation) + 1
    while lines[after : after + 1] and lines[after].startswith("    "):  # the other line of the fault
        after += 1
    lines[after:after] = told(puzzle, source, failed, setup, seed)


def told(puzzle: Puzzle, source: str, failed: Outcome, setup: Setup, seed: int) -> list[str]:
    """What to say of the values behind a fault; nothing if it does not happen again as it was, or has no index."""
    fault = failed.error
    if not isinstance(fault, KernelFault) or fault.kind not in NOTED or setup.device.kind != "cpu":
        return []
    if fault.source != nth_line(source, fault.line) or fault.thread is None or failed.case.stress:
        return []
    file = read(source)
    probe = probe_of(file, fault.line, fault.array)
    if probe and fault.kind not in ENDS:  # the thread goes on: which of its accesses was it?
        probe = replace(probe, element=_element(file, fault))
        probe = probe if probe.element else None
    if probe is None:
        return []
    values, call = _run(puzzle, source, probe, failed, setup, seed)
    if not values and not call:
        return []
    return [
        *_where(file, probe, values, call),
        *_differences(file, probe, values),
        *_guard(file, probe, values),
    ]


# -- what to note ---------------------------------------------------------------------------------------


def probe_of(file: CudaText, line: int, array: str) -> Probe | None:
    function = file.function_at(line)
    if function is None:
        return None
    inside = [
        access
        for access in function.body.all("subscript_expression", "pointer_expression")
        if access.line <= line <= access.last_line and _index(access)
    ]
    inside = [access for access in inside if _base(access).code == array] or inside
    calls = [] if function.is_kernel else [call for name, call in file.whole.calls() if name == function.name]
    if not inside:
        return None
    place = inside[0].start
    indices = [_index(access) for access in inside]
    own = _unique(_names(file, index, place) for index in indices)
    origins = [v for name in own if (v := _value(file, name, place))]
    origins += [v for access in inside if (v := _value(file, _base(access).code, place))]
    behind = _unique(_names(file, value, place) for value in origins)
    around = list(guards(file, function, inside[0]))
    loops = [
        u for loop in file.around(place, *LOOPS) if loop.start > function.start and (u := loop.part("update"))
    ]
    others = _unique(_names(file, piece, place) for piece in (*loops, *around))
    probe = Probe(function, indices, own, behind, others, around, calls)
    return probe if probe.names or calls else None


def _index(access: Piece) -> Piece | None:
    """The index of `a[index]`, or the address of `*address`."""
    if access.kind == "pointer_expression":
        star = access.part("operator")
        return access.part("argument") if star and star.code == "*" else None
    inside = next((p for p in access.parts if p.kind == "subscript_argument_list"), None)
    return inside.parts[0] if inside and len(inside.parts) == 1 else None


def _element(file: CudaText, fault: KernelFault) -> str:
    """The condition that an access is of the element of a fault; "" where it cannot be said."""
    found, at = file.subscripts(fault.array, fault.line), fault.index.split(",")
    if len(found) != 1 or not all(n.isdecimal() for n in at):
        return ""
    access, indices = found[0], []
    while access.kind == "subscript_expression":
        indices.append(_index(access))
        access = access.parts[0]
    if len(indices) != len(at) or not all(indices) or any(_changes(index) for index in indices):
        return ""
    return " && ".join(f"({i.code}) == {n}" for i, n in zip(reversed(indices), at, strict=True))


def _changes(index: Piece) -> bool:
    return any(index.all("update_expression", "assignment_expression", "call_expression"))


def _base(access: Piece) -> Piece:
    """What is indexed: `a` of `a[i][j]`."""
    while access.kind == "subscript_expression":
        access = access.parts[0]
    return access


def _unique(found: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for names in found for name in names))


def _names(file: CudaText, piece: Piece, place: int) -> Iterator[str]:
    """The integer variables that a piece reads and that can be named at a place."""
    known = file.names_at(place)
    for p in piece.all("identifier"):
        if p.code in known and _is_integer(known[p.code]):
            yield p.code


def _is_integer(variable: Variable) -> bool:
    words = variable.type.replace("std::", "").split()
    plain = not variable.pointer and not variable.extents and bool(words) and set(words) <= _INTEGERS
    constant = {"const", "constexpr"} & set(variable.words) and variable.scope.type == "translation_unit"
    return plain and not constant and "__shared__" not in variable.words


def _value(file: CudaText, name: str, place: int) -> Piece | None:
    """What a local variable was set to where it is declared; not for one that is changed later."""
    declared = file.names_at(place).get(name)
    if not declared or not declared.value or declared.scope.type == "for_statement":
        return None
    scope = Piece(file, declared.scope)
    changed = any(p.code == name and _is_set(p) for p in scope.all("identifier"))
    return None if changed else declared.value


def _is_set(name: Piece) -> bool:
    outer = name.outer
    if outer.kind == "assignment_expression":
        return outer.part("left") == name
    return outer.kind == "update_expression" or outer.kind == "pointer_expression"


def guards(file: CudaText, function: Function, access: Piece) -> Iterator[Piece]:
    """The conditions that let an access happen, the nearest first: of the loops and `if`s around it, and of the `if`s
    before it that leave."""
    inner = access
    while (outer := inner.outer) and inner.start > function.start:
        if outer.kind in _AROUND and (condition := outer.part("condition")) and not condition.holds(inner):
            yield condition
        if outer.kind == "compound_statement":
            for before in reversed(outer.parts):
                if before.end <= inner.start and before.kind == "if_statement" and _leaves(before):
                    yield before.part("condition")
        inner = outer


def _leaves(statement: Piece) -> bool:
    body = statement.part("consequence")
    last = body.parts[-1] if body and body.kind == "compound_statement" and body.parts else body
    return bool(last) and last.kind in _JUMPS and not statement.part("alternative")


# -- the second run ---------------------------------------------------------------------------------------


def _run(
    puzzle: Puzzle, source: str, probe: Probe, failed: Outcome, setup: Setup, seed: int
) -> tuple[dict[str, int], int]:
    """(the variables' values, the line of the call); nothing if the fault does not happen again."""
    fault, device = failed.error, setup.device
    trial = Trial(Outcome(failed.case, failed.kernel), Pace())
    notes = device.array(np.zeros(2 + len(probe.names), np.int64), name="notes")
    with contextlib.suppress(BackwarpError):
        trial.begin(puzzle, tunables(source), seed)
        noted = noting(source, probe, notes.pointer, fault)
        own = Setup(device, setup.schedules)
        own.module = device.compile(noted, name=setup.module.name, include_dirs=puzzle.include_dirs)
        own.kernels[failed.kernel.name] = own.module.get_function(failed.kernel.name)
        arrays = {p.name: place(device, p, trial) for p in failed.kernel.passed}
        try:
            start(trial, own, setup.schedules[0], arrays)
        except KernelFault as again:
            if _same(again, fault):
                seen, call, *values = map(int, notes.get())
                own = dict(zip(probe.names, values, strict=True)) | _built_in(fault, trial.launch)
                return (own if seen else {}), call
    return {}, 0


def _built_in(fault: KernelFault, launch: Launch) -> dict[str, int]:
    points = {"threadIdx": fault.thread, "blockIdx": fault.block}
    points |= {"blockDim": triple(launch.block, "block"), "gridDim": triple(launch.grid, "grid")}
    return {
        f"{name}.{axis}": at for name, point in points.items() for axis, at in zip("xyz", point, strict=True)
    }


def _same(a: KernelFault, b: KernelFault) -> bool:
    return all(getattr(a, f) == getattr(b, f) for f in ("kind", "line", "thread", "block", "array", "index"))


def noting(source: str, probe: Probe, address: int, fault: KernelFault) -> str:
    """The source with the notes. address: of an array of 64-bit integers: whether there are notes, the line of the
    call, the values."""
    here = " && ".join(
        f"{builtin}.{axis} == {at}"
        for builtin, point in (("threadIdx", fault.thread), ("blockIdx", fault.block))
        for axis, at in zip("xyz", point, strict=True)
    )
    at = f"((volatile long long*){address}ull)"
    if probe.element:
        here = f"{at}[0] == 0 && {here}"  # the first time

    def note(values: Iterable[tuple[int, str]]) -> str:
        return (
            f"(({here}) ? (void)({', '.join(f'{at}[{i}] = (long long)({v})' for i, v in values)}) : (void)0)"
        )

    seen = note([*((2 + i, name) for i, name in enumerate(probe.names)), (0, probe.element or "1")])
    edits = [(index, f"({seen}, ({index.code}))") for index in outermost(probe.indices)]
    edits += [(call, f"({note([(1, str(call.line))])}, {call.code})") for call in outermost(probe.calls)]
    return edited(source, edits)


def outermost(pieces: Iterable[Piece]) -> list[Piece]:
    """Those that lie in no other: edits must not overlap."""
    found: list[Piece] = []
    for piece in sorted(pieces, key=lambda p: (p.start, -p.end)):
        if not found or piece.start >= found[-1].end:
            found.append(piece)
    return found


# -- what to say ------------------------------------------------------------------------------------------


def _where(file: CudaText, probe: Probe, values: dict[str, int], call: int) -> list[str]:
    """`There idx = 12 = blockIdx.x * blockDim.x + threadIdx.x.` What varies comes first, sizes where there is room."""
    place = probe.indices[0].start
    mine = [name for name in (*probe.own, *probe.behind) if name in values]
    loops = [name for name in probe.others if name in values and _is_of_loop(file, name, place)]
    sizes = [name for name in (*mine, *loops) if not _varies(file, probe.function, name, place)]
    names = dict.fromkeys(sorted((*mine, *loops), key=lambda name: name in sizes))
    shown = list(names)[:MOST_VALUES]
    texts = []
    for name in shown:
        value = _value(file, name, place) if name in probe.own else None
        told = value and value.kind != "number_literal" and len(value.code) <= LONGEST_VALUE
        told = told and (len(shown) <= FEW_VALUES or name in sizes)
        computed = f" = {' '.join(value.code.split())}" if told else ""
        texts.append(f"{name}{computed} = {values[name]}")
    found = [f"There {', '.join(texts)}."] if texts else []
    return found + [f"{probe.function.name} was called from line {call}."] * bool(call)


def _varies(file: CudaText, function: Function, name: str, place: int) -> bool:
    """Whether a variable is not the same in all threads all the time, as a kernel's parameters are."""
    declared = file.names_at(place).get(name)
    if declared is None or declared.scope.type == "translation_unit":
        return False
    if name in {v.name for v in function.parameters}:
        return not function.is_kernel
    value = _value(file, name, place)
    return not value or any(
        p.code in ("threadIdx", "blockIdx") or p.code != name and _varies(file, function, p.code, value.start)
        for p in value.all("identifier")
    )


def _is_of_loop(file: CudaText, name: str, place: int) -> bool:
    updates = (loop.part("update") for loop in file.around(place, *LOOPS))
    return any(name in {p.code for p in update.all("identifier")} for update in updates if update)


def _differences(file: CudaText, probe: Probe, values: dict[str, int]) -> list[str]:
    """The differences in an index that are negative: `q - s is 0 - 1 = -1`."""
    place, found, integer = probe.indices[0].start, {}, _integer(file, values)
    origins = [v for name in probe.own if values.get(name, 0) < 0 and (v := _value(file, name, place))]
    for piece in (*probe.indices, *origins):
        for part in piece.all("binary_expression"):
            left, right = part.part("left"), part.part("right")
            if left.kind == "binary_expression" and left.part("operator").code == "+":
                left = left.part("right")  # of `row * W + q - s`, q - s
            a, b = integer(left), integer(right)
            if part.part("operator").code == "-" and a is not None and b is not None and a < b:
                text = f"{_plain(left)} - {_plain(right)}"
                found[text] = f"{text} is {a} - {b} = {a - b}"
    return [f"{'; '.join(list(found.values())[:3])}."] if found else []


def _guard(file: CudaText, probe: Probe, values: dict[str, int]) -> list[str]:
    """The guard that should have stopped it, with values for its variables: one that stops an element too late, else one
    that looks at a variable of the index."""
    ranked, place, integer = [], probe.indices[0].start, _integer(file, values)
    own, behind = (
        {name for name in names if _varies(file, probe.function, name, place)}
        for names in (probe.own, probe.behind)
    )
    origins = [v for name in own if (v := _value(file, name, place))]
    points = {word for piece in (*probe.indices, *origins) for word in _points(piece)}
    for guard in probe.guards:
        names = set(_names(file, guard, place))
        text, loop = _substituted(guard, values, integer), guard.outer.kind in LOOPS
        late = any(_is_late(part, integer) for part in guard.all("binary_expression"))
        looks = names & own or points & set(_points(guard))
        if text and (late and names & (own | behind) or looks and not loop):
            ranked.append((not late, f"Line {guard.line} lets it through: {_plain(guard)} is {text} here."))
    return [says for _, says in sorted(ranked, key=lambda r: r[0])[:1]]


def _points(piece: Piece) -> Iterator[str]:
    """Which of threadIdx and blockIdx an expression reads."""
    return (p.code for p in piece.all("identifier") if p.code in ("threadIdx", "blockIdx"))


def _integer(file: CudaText, values: dict[str, int]) -> Callable[[Piece], int | None]:
    """What an expression of these variables and of constants is worth."""
    return Values(file, {name: str(value) for name, value in values.items()}).integer


def _is_late(comparison: Piece, integer: Callable[[Piece], int | None]) -> bool:
    """Whether it compares two equal values, and takes the one for inside the other."""
    if comparison.part("operator").code not in ("<=", ">", ">=", "<"):
        return False
    left, right = (integer(comparison.part(side)) for side in ("left", "right"))
    return left is not None and left == right and left > 0


def _plain(piece: Piece) -> str:
    text = " ".join(piece.code.split())
    return text[1:-1] if piece.kind == "condition_clause" else text


def _substituted(piece: Piece, values: dict[str, int], integer: Callable[[Piece], int | None]) -> str:
    """An expression with values for its variables; constants keep their names. "" if the value of one is not known."""
    start, text = piece.start, piece.code
    for name in reversed(list(piece.all("identifier", "field_expression"))):
        if name.code in values:
            text = text[: name.start - start] + str(values[name.code]) + text[name.end - start :]
        elif integer(name) is None and name.outer.code not in values:
            return ""
    text = " ".join(text.split())
    return text[1:-1] if piece.kind == "condition_clause" else text
