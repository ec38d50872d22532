"""Slips in warp reductions by shuffles: which lane has the sum afterwards, and which stores it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...course.cuda_pieces import Function, Piece
from ...course.cuda_tree import LOOPS
from ...course.cuda_types import FLOAT, kind_of
from .expression_values import computed
from .findings import Slip, shown
from .noting import value_of

WARPS = 2  # examined
DOWN = "__shfl_down_sync"


def stored_by_others(function: Function) -> Iterator[Slip]:
    """`sum = warp_sum(sum); if (t < 32) slot[t] = sum;`: after shuffles down, only lane 0 has the sum of its
    warp."""
    for e in function.body.all("assignment_expression"):
        left, name = e.part("left"), e.part("right")
        added = list(added_up(function, name)) if name.kind == "identifier" else []
        if left.kind != "subscript_expression" or not added or added[-1] > e.start:
            continue
        tests = [
            part
            for branch in function.file.around(e.start, "if_statement")
            if branch.part("consequence").holds(e) and branch.start > added[-1]
            for part in conjuncts(branch.part("condition"))
        ]
        who = [t for t in range(32 * WARPS) if all(holds(test, t) for test in tests)]
        wrong = [t for t in who if t % 32]
        if wrong and any("threadIdx" in test_names(test) for test in tests):
            yield Slip(
                e.line,
                f"Line {e.line} lets thread {wrong[0]} store {name.code}: after {DOWN}, only lane 0 of a warp has the sum of its "
                "warp.",
            )
            return


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


def added_up(function: Function, name: Piece) -> Iterator[int]:
    """Where a variable becomes the sum of a warp by shuffles down: in a loop, or by a call of a function that
    has one."""
    variable = function.file.variable_at(name.code, name.start)
    for e in function.body.all("assignment_expression", "init_declarator"):
        to, value = (e.part(a) or e.part(b) for a, b in (("left", "declarator"), ("right", "value")))
        same = to.code == name.code and function.file.variable_at(name.code, e.end) == variable
        if (
            same
            and value
            and kind_of(name) == FLOAT
            and any(adds_down(call, at) for call, at in value.calls())
        ):
            yield e.end


def adds_down(name: str, call: Piece) -> bool:
    called = call.file.function(name)
    if called:
        return any(inner == DOWN for inner, _ in called.body.calls())
    return name == DOWN and bool(call.file.around(call.start, *LOOPS))


def conjuncts(test: Piece) -> Iterator[Piece]:
    inside = test.part("value") if test.kind == "condition_clause" else test
    while inside.kind == "parenthesized_expression" and len(inside.parts) == 1:
        inside = inside.parts[0]
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
