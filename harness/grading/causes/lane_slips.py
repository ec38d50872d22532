"""Slips in warp reductions by shuffles: which lane has the sum afterwards, and which stores it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...course.cuda_pieces import Function, Piece
from ...course.cuda_tree import LOOPS
from ...course.cuda_types import FLOAT, kind_of
from .expression_values import computed
from .findings import Slip, shown
from .noting import sets, value_of

WARPS = 2  # examined
DOWN = "__shfl_down_sync"
UNROLLED = 5  # shuffles that add up a warp without a loop
LANE_0 = f"after {DOWN}, only lane 0 of a warp has the sum of its warp"
LEAVES = ("return_statement", "continue_statement", "break_statement", "goto_statement")


def stored_by_others(function: Function) -> Iterator[Slip]:
    """`sum = warp_sum(sum); if (t < 32) slot[t] = sum;`: after shuffles down, only lane 0 has the sum of its
    warp."""
    for e in function.body.all("assignment_expression"):
        left, names = e.part("left"), e.part("right").all("identifier")
        sums = [(n, added) for n in names if (added := list(added_up(function, n, e.start)))]
        name, added = sums[0] if sums else (None, [])
        if left.kind != "subscript_expression" or not added:
            continue
        if set_between(function, name, added[-1]):
            continue
        tests = [
            part
            for branch in function.file.around(e.start, "if_statement")
            if branch.part("consequence").holds(e) and branch.start > added[-1]
            for part in conjuncts(branch.part("condition"))
        ]
        who = [t for t in range(32 * WARPS) if all(holds(test, t) for test in tests)]
        wrong = [t for t in who if t % 32]
        asked = [test for test in tests if "threadIdx" in test_names(test)]
        if wrong and asked:
            line = asked[0].line
            yield Slip(line, f"Line {line} lets thread {wrong[0]} store {name.code}: {LANE_0}.")
            return


def added_by_all(function: Function) -> Iterator[Slip]:
    """`sum = warp_sum(sum); atomicAdd(&total, sum);` by all lanes, where no condition and nothing that leaves stands between the
    two."""
    for called, call in function.body.calls():
        arguments = call.part("arguments").parts if call.part("arguments") else ()
        name = arguments[-1] if called == "atomicAdd" and len(arguments) == 2 else None
        added = list(added_up(function, name, call.start)) if name and name.kind == "identifier" else []
        if not added or set_between(function, name, added[-1]):
            continue
        between = [
            p
            for p in function.body.all("if_statement", "conditional_expression", *LEAVES)
            if added[-1] < p.start < call.start
        ]
        if not between:
            yield Slip(call.line, f"Line {call.line} lets every lane add its {name.code}: {LANE_0}.")
            return


def set_between(function: Function, name: Piece, place: int) -> bool:
    """Whether a variable is set between a place and its use: `sum = __shfl_sync(ALL, sum, 0)` gives all lanes the sum."""
    return any(
        p.code == name.code and place < p.start < name.start and sets(p)
        for p in function.body.all("identifier")
    )


def lane_for_a_distance(function: Function) -> Iterator[Slip]:
    """`for (m = 16; m > 0; m /= 2) v += __shfl_sync(ALL, v, m)`: the third argument is a lane, not how far away it is."""
    for name, call in function.body.calls():
        arguments = call.part("arguments").parts
        loops = function.file.around(call.start, "for_statement")
        update = loops[0].part("update") if loops and name == "__shfl_sync" and len(arguments) > 2 else None
        if (
            not update
            or update.kind != "assignment_expression"
            or update.part("left").code != arguments[2].code
        ):
            continue
        by = update.part("operator").code
        if (
            by in ("<<=", ">>=", "*=", "/=")
            or by == "="
            and any(s in update.code for s in ("<<", ">>", "*", "/"))
        ):
            distance = arguments[2].code
            yield Slip(
                call.line,
                f"Line {call.line}: the third argument of __shfl_sync is the number of a lane, so every lane gets "
                f"{shown(arguments[1])} of lane {distance}. To take it from a lane {distance} away, use __shfl_down_sync or "
                "__shfl_xor_sync.",
            )


def added_up(function: Function, name: Piece, before: int) -> Iterator[int]:
    """Where, before a place, a variable becomes the sum of a warp by shuffles down: in a loop, by several in turn, or by a
    call of a function that does no other shuffles."""
    variable, found = function.file.variable_at(name.code, name.start), []
    pieces = function.body.all("assignment_expression", "init_declarator") if kind_of(name) == FLOAT else ()
    for e in pieces:
        to, value = (e.part(a) or e.part(b) for a, b in (("left", "declarator"), ("right", "value")))
        same = to.code == name.code and function.file.variable_at(name.code, e.end) == variable
        if same and value and e.end <= before:
            found += [
                (e.end, adds_down(call, at))
                for call, at in value.calls()
                if call == DOWN or adds_down(call, at)
            ]
    if len(found) >= UNROLLED or any(whole for _, whole in found):
        yield from (end for end, _ in found)


def adds_down(name: str, call: Piece) -> bool:
    """Whether a call adds up a warp, as part of a loop or in a function of the file."""
    called = call.file.function(name)
    if called:
        inner = [
            other
            for other, _ in called.body.calls()
            if other.startswith("__shfl") or call.file.function(other)
        ]
        return set(inner) == {DOWN}
    return name == DOWN and bool(call.file.around(call.start, *LOOPS))


def conjuncts(test: Piece) -> Iterator[Piece]:
    inside = (test.part("value") if test.kind == "condition_clause" else test).bare
    if inside.kind == "binary_expression" and inside.part("operator").code == "&&":
        yield from conjuncts(inside.part("left"))
        yield from conjuncts(inside.part("right"))
    else:
        yield inside


def holds(test: Piece, thread: int) -> bool:
    """Whether a condition holds for a thread; if that cannot be known, yes."""
    known = defaultdict(
        lambda: None, {"threadIdx.x": thread, "threadIdx.y": 0, "blockIdx.x": 0, "blockDim.x": 32 * WARPS}
    )
    if test.kind == "unary_expression" and test.code.startswith("!"):
        inner = computed(test.part("argument"), known)
        return inner is None or not inner
    worth = computed(test, known)
    return worth is None or bool(worth)


def test_names(test: Piece) -> set[str]:
    """The names in a condition and in the values of its variables."""
    names, pending = set(), [test]
    while pending:
        for p in pending.pop().all("identifier"):
            if p.code not in names:
                names.add(p.code)
                pending += [v] if (v := value_of(p.file, p.code, p.start)) else []
    return names
