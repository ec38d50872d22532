"""Which `if` keeps lanes of a warp from a shuffle or vote whose mask names them, and from where a helper that has it is
called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...cuda.evaluate import computed
from ...cuda.follow import test_names
from ...cuda.parts import shown
from ...cuda.pieces import Piece
from ...cuda.text import CudaText, read
from ...errors import KernelFault
from ..findings import Finding

WARPS = 2  # examined
SHOWN = 50  # characters of a condition


def kept_away(fault: KernelFault, kernel: str, source: str) -> list[Finding]:
    """`Line 30 calls all_sum only where tid < warps (line 28).`"""
    if fault.kind != "shuffle-mask" or not fault.absent:
        return []
    file = read(source)
    within, own = file.function_at(fault.line), file.function(kernel)
    if not within or not own:
        return []
    joint = (c for name, c in within.body.calls() if name.endswith("_sync"))
    here = [c for c in joint if c.line <= fault.line <= c.last_line]
    for call in here[:1]:
        for test in tests_around(call):
            if splits(test) or "threadIdx" in test_names(test) and all(map(unknown, conjuncts(test))):
                return [Finding.of("called_only_where", test.line, test.line, who="", test=in_short(test))]
    helper = within.name != own.name
    calls = [c for name, c in own.body.calls() if name == within.name] if helper else here[:1]
    found = [(c, test, "") for c in calls for test in tests_around(c) if helper and splits(test)]
    before = ((c, test) for c in calls for test in tests_of_returns(file, c, own.start))
    found += [(c, test, "return") for c, test in before if splits(test)]
    if len({test.start for _, test, _ in found}) != 1:
        return []
    call, test, leaves = found[0]
    who = within.name if helper else ""
    if leaves:
        return [Finding.of("lanes_return", test.line, call.line, who=who, test=in_short(test))]
    return [Finding.of("called_only_where", call.line, test.line, who=who, test=in_short(test))]


def tests_around(call: Piece) -> Iterator[Piece]:
    """The conditions of the `if` statements whose first branch a call stands in."""
    for branch in call.file.around(call.start, "if_statement"):
        if branch.part("consequence").holds(call):
            yield branch.part("condition")


def tests_of_returns(file: CudaText, call: Piece, start: int) -> Iterator[Piece]:
    """The conditions under which threads have returned before a call."""
    for leave in file.function_at(call.line).body.all("return_statement"):
        branches = [b for b in file.around(leave.start, "if_statement") if b.start > start]
        if leave.start < call.start and len(branches) == 1 and branches[0].part("consequence").holds(leave):
            yield branches[0].part("condition")


def splits(test: Piece) -> bool:
    """Whether a condition holds for some lanes of a warp only, in a block of a few warps."""
    who = [all(holds(part, t) for part in conjuncts(test)) for t in range(32 * WARPS)]
    return any(len(set(who[32 * warp : 32 * warp + 32])) > 1 for warp in range(WARPS))


def unknown(part: Piece) -> bool:
    """Whether it holds for all threads as far as is known, though it is asked of each."""
    return all(holds(part, t) for t in range(32 * WARPS))


def in_short(test: Piece) -> str:
    text = shown(test)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def conjuncts(test: Piece) -> Iterator[Piece]:
    inside = (test.part("value") if test.kind == "condition_clause" else test).bare
    if inside.kind == "binary_expression" and inside.part("operator").code == "&&":
        yield from conjuncts(inside.part("left"))
        yield from conjuncts(inside.part("right"))
    else:
        yield inside


def holds(test: Piece, thread: int) -> bool:
    """Whether a condition holds for a thread; if that cannot be known, yes."""
    built_in = {"threadIdx.x": thread, "threadIdx.y": 0, "blockIdx.x": 0, "blockDim.x": 32 * WARPS}
    known = defaultdict(lambda: None, built_in)
    if test.kind == "unary_expression" and test.code.startswith("!"):
        inner = computed(test.part("argument"), known)
        return inner is None or not inner
    value = computed(test, known)
    return value is None or bool(value)
