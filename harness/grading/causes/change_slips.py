"""Elements that are changed once too often, too early, or by more than was meant."""

from __future__ import annotations

from collections.abc import Iterator

from ...course.cuda_pieces import Function, Piece
from ...course.cuda_tree import LOOPS
from ...course.cuda_types import FLOAT, kind_of
from ...course.declare import Kernel
from .findings import Slip, counter, shown, sign_of

BRANCHES = ("if_statement", "switch_statement", "conditional_expression", "while_statement", "do_statement")
LEAVES = ("continue_statement", "break_statement", "return_statement", "goto_statement")
WORDS = {"+=": "added to", "-=": "subtracted from"}


def change_slips(kernel: Kernel, own: Function, solution: Function) -> Iterator[Slip]:
    """solution: with the student's names for the parameters."""
    yield from repeated_changes(own)
    yield from multiplied_by_a_sum(own, solution)
    yield from changed_too_early(kernel, own, solution)


def repeated_changes(own: Function) -> Iterator[Slip]:
    """`g[label] -= 1 / batch` in a loop over k: neither the element nor the number changes with k."""
    for e in own.body.all("assignment_expression"):
        target, value, sign = e.part("left"), e.part("right"), e.part("operator").code
        if sign not in WORDS or target.kind != "subscript_expression" or kind_of(target) != FLOAT:
            continue
        loops = [loop for loop in own.file.around(e.start, *LOOPS) if loop.start > own.start]
        loop = max(loops, key=lambda piece: piece.start, default=None)
        if not loop or loop.kind != "for_statement" or not (name := counter(loop)):
            continue
        inside = [p for p in loop.part("body").all(*BRANCHES) if p.holds(e)]
        if inside or any(loop.part("body").all(*LEAVES)) or any(e.calls()):
            continue
        used = {p.code for part in (target, value) for p in part.all("identifier")}
        again = {p.code for p in value.all("identifier")}
        if used & changed_in(loop) or target.indexed.code in again:
            continue
        yield Slip(
            e.line,
            f"Line {e.line} stands in the loop over {name} (line {loop.line}), but nothing in it depends on {name}: {shown(value)} is "
            f"{WORDS[sign]} {shown(target)} again in every iteration.",
        )


def changed_in(loop: Piece) -> set[str]:
    """The variables that get a value in a loop."""
    found = {counter(loop)}
    for e in loop.all("assignment_expression", "update_expression", "init_declarator"):
        left = e.part("left") or e.part("argument") or e.part("declarator")
        if left and left.kind != "subscript_expression":
            found |= {p.code for p in left.all("identifier")}
    return found


def multiplied_by_a_sum(own: Function, solution: Function) -> Iterator[Slip]:
    """`v *= m + g`, if nothing is multiplied by a sum in the solution."""
    sums = [e for e in own.body.all("assignment_expression") if e.part("operator").code == "*="]
    sums = [e for e in sums if sign_of(e.part("right")) in ("+", "-") and kind_of(e.part("left")) == FLOAT]
    if not sums or any(map(is_factor, solution.body.all("parenthesized_expression"))):
        return
    for e in sums:
        left, right = shown(e.part("left")), shown(e.part("right"))
        yield Slip(
            e.line, f"Line {e.line}: {left} *= ... multiplies {left} by the whole right side, ({right})."
        )


def is_factor(e: Piece) -> bool:
    """Whether it is a sum that something is multiplied by, other than in an index."""
    outer = e.outer
    times = sign_of(outer) == "*" or (
        outer.kind == "assignment_expression" and outer.part("operator").code == "*="
    )
    indices = any(a.kind == "subscript_argument_list" for a in above(e))
    return times and not indices and any(sign_of(p) in ("+", "-") for p in e.parts)


def above(e: Piece) -> Iterator[Piece]:
    while (e := e.outer) is not None:
        yield e


def changed_too_early(kernel: Kernel, own: Function, solution: Function) -> Iterator[Slip]:
    """`w[i] -= ...` before `v[i] = ... w[i]`, where the solution stores v before w."""
    names = [v.name for p, v in zip(kernel.params, own.parameters, strict=False) if p in kernel.outputs]
    mine, right = ({name: stores(f, name) for name in names} for f in (own, solution))
    for early in names:
        for late in names:
            if early == late or not all(
                len(found) == 1 for s in (mine, right) for found in (s[early], s[late])
            ):
                continue
            (first,), (then,) = mine[early], mine[late]
            if first.start >= then.start or right[early][0].start <= right[late][0].start:
                continue
            reads = [
                e
                for e in own.body.all("subscript_expression")
                if first.end <= e.start < then.end and e.indexed.code == early
            ]
            before = any(
                e.indexed.code == early and e.start < right[late][0].end
                for e in solution.body.all("subscript_expression")
            )
            if reads and before:
                yield Slip(
                    reads[0].line,
                    f"Line {first.line} changes {shown(first.part('left'))}, and line {reads[0].line} then uses the new value; "
                    f"{late} needs the old one.",
                )
                return


def stores(function: Function, name: str) -> list[Piece]:
    assigned = function.body.all("assignment_expression")
    return [
        e
        for e in assigned
        if e.part("left").kind == "subscript_expression" and e.part("left").indexed.code == name
    ]
