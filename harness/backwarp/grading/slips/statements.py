"""Slips: code that compiles but cannot be meant, found in the text of a wrong kernel.

Each is a fact about the file, whatever else is wrong: `if (...);`, `i < i`, `if (i = 0)`, a sum that is set again in every
iteration. None occurs in any right kernel written for this course or its tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...cuda.follow import is_set
from ...cuda.parts import reached, shown, sign_of
from ...cuda.pieces import Function, Piece
from ...cuda.text import read
from ...cuda.tree import LOOPS
from ...cuda.types import FLOAT, INTEGER, kind_of
from ..findings import Finding, distinct

COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
JOINED = ("&&", "||", "and", "or")
BODIES = {"if_statement": "consequence", **dict.fromkeys(LOOPS, "body")}


def slips(source: str, kernel: str) -> list[Finding]:
    """The slips in a kernel and in the functions that it calls, in source order."""
    file = read(source)
    all_ = [slip for function in reached(file, kernel) for detect in DETECTORS for slip in detect(function)]
    return sorted(distinct(all_), key=lambda slip: slip.lines[0])


# -- conditions and bodies ---------------------------------------------------------------------------------


def ends_at_once(function: Function) -> Iterator[Finding]:
    """`if (...);`, and `for (...);` before what was meant to be its body."""
    for statement in function.body.all("if_statement", "for_statement"):
        body = statement.part(BODIES[statement.kind])
        if not body or body.code != ";" or statement.part("alternative"):
            continue
        word = "if" if statement.kind == "if_statement" else "for"
        after = body.node.next_named_sibling or statement.node.next_named_sibling or body.node
        after = function.file.piece(after)
        if word == "for" and not (after.kind == "compound_statement" or after.column > statement.column):
            continue
        yield Finding.of("ends_at_once", body.line, word=word)


def compares_with_itself(function: Function) -> Iterator[Finding]:
    for e in function.body.all("binary_expression"):
        left, right = e.part("left"), e.part("right")
        if sign_of(e) in COMPARISONS and left.code.split() == right.code.split() and kind_of(left) == INTEGER:
            if left.kind in ("identifier", "field_expression", "subscript_expression"):
                yield Finding.of("compares_with_itself", e.line, name=left.code, code=shown(e))


def stores_in_a_condition(function: Function) -> Iterator[Finding]:
    """`if (x = e)`, and `right = k = label ? 1 : 0`; not in two parentheses, in a comparison, or with `x` or an atomic in `e`."""
    for asking in function.body.all("if_statement", *LOOPS, "conditional_expression"):
        condition, needs = asking.part("condition"), int(asking.kind != "for_statement")
        if condition and condition.kind == "condition_clause":
            condition, needs = condition.part("value"), 0
        for e in assigned(condition, needs) if condition else ():
            yield Finding.of("stores_in_a_condition", e.line, name=e.part("left").code, code=shown(e))
    for e in function.body.all("assignment_expression"):
        name, value = e.part("left"), e.part("right")
        asked = value.part("condition") if value.kind == "conditional_expression" else None
        if asked and e.outer.kind in ("init_declarator", "assignment_expression"):
            if kind_of(name) == kind_of(asked) == INTEGER != kind_of(value) and not sign_of(asked):
                code = f"{name.code} = {shown(asked)}"
                yield Finding.of("stores_in_a_condition", e.line, name=name.code, code=code)


def assigned(e: Piece, needs: int) -> Iterator[Piece]:
    """The assignments that a condition, or an operand of it, consists of. needs: how many parentheses it cannot be without."""
    bare, around = e, 0
    while bare.kind == "parenthesized_expression" and len(bare.parts) == 1:
        bare, around = bare.parts[0], around + 1
    if bare.kind == "assignment_expression" and bare.part("operator").code == "=" and around <= needs:
        name, value = bare.part("left"), bare.part("right")
        again = any(name.code.split() == p.code.split() for p in value.all(name.kind))
        if not again and not any(called.startswith("atomic") for called, _ in value.calls()):
            yield bare
    elif sign_of(bare) in JOINED:
        yield from assigned(bare.part("left"), 1)
        yield from assigned(bare.part("right"), 1)
    elif bare.kind == "unary_expression" and bare.part("operator").code in ("!", "not"):
        yield from assigned(bare.part("argument"), 1)


def keeps_only_the_last(function: Function) -> Iterator[Finding]:
    """`sum = a * b` in every iteration of a loop, where `sum` begins with 0 and is used after the loop."""
    for e in function.body.all("assignment_expression"):
        name, value, sign = e.part("left"), e.part("right"), e.part("operator").code
        loop = e.outer.outer
        while loop and loop.kind == "compound_statement":
            loop = loop.outer
        if sign != "=" or name.kind != "identifier" or not loop or loop.kind != "for_statement":
            continue
        known = function.file.named(name.code, e.start)
        begun = known[0].value if len(known) == 1 and function.body.holds(known[0]) else None
        if begun is None or begun.code.strip("fF.0") or loop.holds(known[0]) or kind_of(value) != FLOAT:
            continue
        outermost = function.file.around(e.start, *LOOPS)
        outermost = [around for around in outermost if around.start > known[0].end][-1]
        uses = [p for p in function.body.all("identifier") if p.code == name.code and p.start > known[0].end]
        inside = [p for p in uses if outermost.holds(p) and p != name]
        multiplies = value.kind == "binary_expression" and sign_of(value) == "*"
        if not inside and multiplies and any(p.start > outermost.end for p in uses):
            yield Finding.of("keeps_only_the_last", e.line, name=name.code)


def begins_again(function: Function) -> Iterator[Finding]:
    """`sum[i] = 0` in every iteration of a loop that does nothing but add to `sum`, which is used after the loop."""
    for e in function.body.all("assignment_expression"):
        if e.part("operator").code != "=" or not is_zero(e.part("right")):
            continue
        name = next(e.part("left").all("identifier"), None)
        known = function.file.named(name.code, e.start) if name else []
        if len(known) != 1 or not function.body.holds(known[0]):
            continue
        same = [p for p in function.body.all("identifier") if p.code == name.code and p.start > known[0].end]
        around = function.file.around(e.start, *LOOPS)
        for i, loop in enumerate(around):
            uses = [p for p in same if loop.holds(p) and not is_zeroed(p)]
            asked = any(map(loop.holds, function.file.around(e.start, "if_statement")))
            if loop.start < known[0].end or asked:
                break
            if uses:
                is_same = not is_another_in(loop, e.part("left"), around[:i])
                if is_same and all(map(adds_to, uses)) and any(p.start > loop.end for p in same):
                    yield Finding.of("begins_again", e.line, loop.line, name=name.code)
                break


def is_another_in(loop: Piece, target: Piece, inner: list[Piece]) -> bool:
    """Whether a target may be another element in each iteration of a loop. inner: loops in it, around the target."""
    for name in list(target.all("identifier"))[1:]:
        known = target.file.variable_at(name.code, target.start)
        if known and not any(each.holds(known) for each in inner):
            if loop.holds(known) or is_set(loop, name.code):
                return True
    return False


def is_zero(value: Piece) -> bool:
    """`0.0f`, `make_float4(0, 0, 0, 0)`."""
    called = {call.part("function") for _, call in value.calls()}
    numbers = [p.code for p in value.all("number_literal")]
    only_zeros = bool(numbers) and not any(n.strip("fF.0") for n in numbers)
    return only_zeros and all(p in called for p in value.all("identifier"))


def is_zeroed(name: Piece) -> bool:
    """Whether it is set to 0, alone or by `a = b = 0`."""
    around = name.file.around(name.start, "assignment_expression")
    e = next((e for e in around if e.part("left").holds(name)), None)
    while e is not None and e.part("right").kind == "assignment_expression":
        e = e.part("right")
    return e is not None and e.part("operator").code == "=" and is_zero(e.part("right"))


def adds_to(name: Piece) -> bool:
    """Whether a name stands where its value is changed, not used for anything else: `x += y`, `x = fmaf(a, b, x)`, `add(x, y)`."""
    for e in name.file.around(name.start, "assignment_expression", "call_expression", "update_expression"):
        if e.kind == "update_expression":
            return True
        if e.kind == "assignment_expression":
            target = next(e.part("left").all("identifier"))
            return target.code == name.code and (target == name or not e.part("left").holds(name))
        if e.outer.kind == "expression_statement":
            return changes(e, next(i for i, p in enumerate(e.part("arguments").parts) if p.holds(name)))
    return False


def changes(call: Piece, number: int) -> bool:
    """Whether a function may change an argument: by a reference or pointer, or as a product of matrices does."""
    name = call.part("function").code
    own = call.file.function(name)
    if own is None or len(own.parameters) <= number:
        return "mma" in name
    parameter = own.parameters[number]
    is_reference = "&" in own.file.text[parameter.outer.start : parameter.end]
    return (is_reference or parameter.pointer or bool(parameter.extents)) and "const" not in parameter.words


DETECTORS = (ends_at_once, compares_with_itself, stores_in_a_condition, keeps_only_the_last, begins_again)
