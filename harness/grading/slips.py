"""Slips of the pen: code that compiles and cannot be meant, found in the text of a wrong kernel.

Each is a fact about the file that holds whatever else is wrong: `if (i = n)`, `if (...);`, `1 / n`, a loop that steps
another loop's variable. None occurs in a right kernel that anybody has written for this course or its tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..course.cuda_text import CudaText, Function, Piece, Variable, read
from ..course.cuda_tree import LOOPS
from ..course.cuda_types import FLOAT, INTEGER, kind_of

_COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
_BODIES = {"if_statement": "consequence", **dict.fromkeys(LOOPS, "body")}


@dataclass(frozen=True)
class Slip:
    """A sentence about a line."""

    line: int
    says: str


def slips(source: str, kernel: str) -> list[Slip]:
    """Those in a kernel and in the functions that it calls, in the order of the text."""
    file = read(source)
    found = [slip for function in reached(file, kernel) for detect in DETECTORS for slip in detect(function)]
    return sorted(dict.fromkeys(found), key=lambda slip: slip.line)


def reached(file: CudaText, kernel: str) -> list[Function]:
    """A kernel and the functions of the file that it calls, directly or not."""
    start = file.function(kernel)
    found = {start.name: start} if start else {}
    pending = list(found.values())
    while pending:
        for name, _ in pending.pop().body.calls():
            if name not in found and (called := file.function(name)):
                found[name] = called
                pending.append(called)
    return list(found.values())


def shown(piece: Piece) -> str:
    """Its text in one line, without the parentheses of a condition."""
    text = " ".join(piece.code.split())
    return text[1:-1].strip() if piece.kind in ("condition_clause", "parenthesized_expression") else text


# -- conditions and bodies ---------------------------------------------------------------------------------


def assigns_in_condition(function: Function) -> Iterator[Slip]:
    """`if (i = n)`; a second pair of parentheses says that it is meant."""
    for statement in function.body.all("if_statement", "while_statement", "for_statement"):
        inside = statement.part("condition")
        if inside and inside.kind == "condition_clause":
            inside = inside.part("value")
        if inside and inside.kind == "assignment_expression" and inside.part("operator").code == "=":
            left, right = inside.part("left"), inside.part("right")
            if left.kind == "identifier":
                yield Slip(
                    inside.line,
                    f"Line {inside.line} sets {left.code} to {shown(right)} with a single =; a comparison is "
                    f"written {left.code} == {shown(right)}, or with <, <=, > or >=.",
                )


def ends_at_once(function: Function) -> Iterator[Slip]:
    """`if (...);`, and `for (...);` before what was meant to be its body."""
    for statement in function.body.all("if_statement", "for_statement"):
        body = statement.part(_BODIES[statement.kind])
        if not body or body.code != ";" or statement.part("alternative"):
            continue
        word = "if" if statement.kind == "if_statement" else "for"
        after = Piece(
            function.file, body.node.next_named_sibling or statement.node.next_named_sibling or body.node
        )
        if word == "for" and not (after.kind == "compound_statement" or after.column > statement.column):
            continue
        yield Slip(
            body.line,
            f"Line {body.line} has a ; right after {word} (...): this ; is all that the {word} governs, and what "
            f"follows is done {'in any case' if word == 'if' else 'once'}. Remove it.",
        )


def compares_twice(function: Function) -> Iterator[Slip]:
    """`0 <= p < n`, which compares the result of a comparison."""
    for e in function.body.all("binary_expression"):
        left = e.part("left")
        if _sign(e) in ("<", ">", "<=", ">=") and _sign(left) in ("<", ">", "<=", ">="):
            middle = shown(left.part("right"))
            yield Slip(
                e.line,
                f"Line {e.line}: {shown(e)} compares the result of {shown(left)}, 0 or 1, with {shown(e.part('right'))}; "
                f"write {shown(left)} && {middle} {_sign(e)} {shown(e.part('right'))}.",
            )


def compares_with_itself(function: Function) -> Iterator[Slip]:
    for e in function.body.all("binary_expression"):
        left, right = e.part("left"), e.part("right")
        if _sign(e) in _COMPARISONS and left.code.split() == right.code.split() and kind_of(left) == INTEGER:
            if left.kind in ("identifier", "field_expression", "subscript_expression"):
                yield Slip(e.line, f"Line {e.line} compares {left.code} with itself: {shown(e)}.")


def _sign(e: Piece) -> str:
    return e.part("operator").code if e.kind == "binary_expression" else ""


# -- loops -------------------------------------------------------------------------------------------------


def steps_another(function: Function) -> Iterator[Slip]:
    """`for (int s = 0; s < F; r++)` and `for (int s = 0; r < F; s++)`, inside a loop over r."""
    for loop in function.body.all("for_statement"):
        own, condition, update = _counter(loop), loop.part("condition"), loop.part("update")
        around = {_counter(outer) for outer in function.file.around(loop.start, "for_statement")[1:]}
        tested = condition.part("left") if condition and _sign(condition) in _COMPARISONS else None
        stepped = next(update.all("identifier"), None) if update else None
        if not own or not tested or not stepped or own in around:
            continue
        if (
            stepped.code in around
            and stepped.code != own
            and own not in {p.code for p in update.all("identifier")}
        ):
            yield Slip(loop.line, f"The loop over {own} in line {loop.line} steps {stepped.code}, not {own}.")
        if tested.code in around and own not in {p.code for p in condition.all("identifier")}:
            yield Slip(loop.line, f"The loop over {own} in line {loop.line} tests {tested.code}, not {own}.")


def _counter(loop: Piece) -> str:
    """The variable that a `for` declares."""
    start = loop.part("initializer")
    declared = start.part("declarator") if start and start.kind == "declaration" else None
    name = declared.part("declarator") if declared and declared.kind == "init_declarator" else None
    return name.code if name and name.kind == "identifier" else ""


def takes_all_from_its_own(function: Function) -> Iterator[Slip]:
    """`for (int i = threadIdx.x; i < n; i++)`: the shares of a block's threads overlap."""
    for loop in function.body.all("for_statement"):
        start, update = loop.part("initializer"), loop.part("update")
        declared = start.part("declarator") if start and start.kind == "declaration" else None
        first = declared.part("value") if declared and declared.kind == "init_declarator" else None
        if first is None or update is None or update.kind != "update_expression":
            continue
        at = first
        if first.kind == "identifier":
            known = function.file.names_at(loop.start).get(first.code)
            at = known.value if known and known.value else first
        if at.code in ("threadIdx.x", "threadIdx.y"):
            yield Slip(
                loop.line,
                f"The loop in line {loop.line} begins at {first.code} and steps by 1, so that the threads do each "
                f"other's work again; where they share it, each steps by their number, blockDim.{at.code[-1]}.",
            )


def begins_at_the_same(function: Function) -> Iterator[Slip]:
    """`for (int i = 0; i < n; i += blockDim.x)`, in which nothing depends on the thread: all threads do the same."""
    for loop in function.body.all("for_statement"):
        start, update = loop.part("initializer"), loop.part("update")
        declared = start.part("declarator") if start and start.kind == "declaration" else None
        first = declared.part("value") if declared and declared.kind == "init_declarator" else None
        step = update.part("right") if update and update.kind == "assignment_expression" else None
        if (
            first is None
            or first.kind != "number_literal"
            or step is None
            or step.code not in ("blockDim.x", "blockDim.y")
        ):
            continue
        known = function.file.names_at(loop.start)
        names = {p.code for p in loop.part("body").all("identifier")}
        origins = [known[n].value for n in names if n in known and known[n].value]
        if "threadIdx" not in names and not any(
            "threadIdx" in {p.code for p in o.all("identifier")} for o in origins
        ):
            yield Slip(
                loop.line,
                f"The loop in line {loop.line} begins at {first.code} in every thread, and steps by {step.code}: all threads "
                f"take the same elements. Begin at threadIdx.{step.code[-1]}.",
            )


def outside_its_loop(function: Function) -> Iterator[Slip]:
    """A statement indented like the only one that a loop or an `if` without braces governs."""
    for statement in function.body.all(*_BODIES):
        body = statement.part(_BODIES[statement.kind])
        after = statement.node.next_named_sibling
        if not body or body.kind == "compound_statement" or not after or statement.part("alternative"):
            continue
        after = Piece(function.file, after)
        below = body.line > statement.line and after.line > body.last_line
        indents = [_indent(piece) for piece in (body, after, statement)]
        if below and indents[0] == indents[1] > indents[2] and not after.kind.startswith("preproc"):
            word = statement.kind.split("_")[0]
            yield Slip(
                after.line,
                f"Line {after.line} is not in the {word} of line {statement.line}, though it is indented so: without "
                "braces only one statement is.",
            )


def shuffles_too_far(function: Function) -> Iterator[Slip]:
    """A shuffle by 32 lanes or more, where a warp ends."""
    for name, call in function.body.calls():
        if (
            name not in ("__shfl_down_sync", "__shfl_up_sync", "__shfl_xor_sync")
            or len(call.part("arguments").parts) < 3
        ):
            continue
        by = call.part("arguments").parts[2]
        loops = [
            loop for loop in function.file.around(call.start, "for_statement") if _counter(loop) == by.code
        ]
        start = loops[0].part("initializer").part("declarator").part("value") if loops else by
        if start.kind == "number_literal" and start.code.isdecimal() and int(start.code) >= 32:
            what = f"begins at {start.code}" if loops else f"shuffles by {start.code} lanes"
            line = loops[0].line if loops else call.line
            yield Slip(
                line,
                f"Line {line} {what}; a warp has 32 lanes, and a lane that asks for one outside gets its own value back. "
                "The furthest step is 16.",
            )


def _indent(piece: Piece) -> int:
    """Of the line that it begins in."""
    text = piece.file.lines[piece.line - 1].expandtabs(4)
    return len(text) - len(text.lstrip())


# -- variables ---------------------------------------------------------------------------------------------


def hides_the_sum(function: Function) -> Iterator[Slip]:
    """A variable declared anew in a loop or block, where that of the same name outside is read afterwards."""
    local = [v for v in function.file.variables if function.body.holds(v) and not v.extents]
    for inner in local:
        hidden = [
            v for v in function.file.named(inner.name, inner.scope.start_byte) if function.body.holds(v)
        ]
        outer = hidden[0] if len(hidden) == 1 else None
        if not outer or inner.scope.type == "for_statement" or outer.scope.type == "for_statement":
            continue
        if inner.scope == outer.scope or not _set_later(inner) or _set_later(outer):
            continue
        if any(
            p.code == inner.name and p.start > inner.scope.end_byte for p in function.body.all("identifier")
        ):
            yield Slip(
                inner.line,
                f"Line {inner.line} declares a second {inner.name}, which ends with its block; that of line "
                f"{outer.line} never changes. Leave out the type: {inner.name} = ...",
            )


def _set_later(v: Variable) -> bool:
    """Whether anything but its declaration gives a variable a value."""
    for p in Piece(v.file, v.scope).all("identifier"):
        if p.code == v.name and p.start > v.end and v in v.file.named(v.name, p.start):
            outer = p.outer
            if outer.kind == "update_expression" or outer.kind == "pointer_expression":
                return True
            if outer.kind == "assignment_expression" and outer.part("left") == p:
                return True
    return False


def keeps_only_the_last(function: Function) -> Iterator[Slip]:
    """`sum = a * b` in every turn of a loop, where `sum` begins with 0 and is used after the loop."""
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
        multiplies = value.kind == "binary_expression" and _sign(value) == "*"
        if not inside and multiplies and any(p.start > outermost.end for p in uses):
            yield Slip(
                e.line,
                f"Line {e.line} sets {name.code} anew in every turn of the loop, so that only the last product is left; "
                "add with +=.",
            )


def tile_of_its_own(function: Function) -> Iterator[Slip]:
    """An array without __shared__ that is indexed by threadIdx, in a kernel whose threads wait for one another."""
    if not any(name == "__syncthreads" for name, _ in function.body.calls()):
        return
    for v in function.file.variables:
        if not function.body.holds(v) or not v.extents or {"__shared__", "static"} & set(v.words):
            continue
        for access in function.body.all("subscript_expression"):
            base = access
            while base.kind == "subscript_expression":
                base = base.parts[0]
            if base.code == v.name and _is_set(access) and _by_thread(access, base):
                yield Slip(
                    v.line,
                    f"Line {v.line} declares {v.name} without __shared__: every thread has one of its own, and sees "
                    "nothing of what the others put into theirs.",
                )
                break


def _is_set(access: Piece) -> bool:
    outer = access.outer
    return outer.kind == "assignment_expression" and outer.part("left") == access


def _by_thread(access: Piece, base: Piece) -> bool:
    """Whether threadIdx, or a variable that is nothing but it, stands in an index."""
    names = {p.code: p for p in access.all("identifier") if p.start > base.end}
    known = access.file.names_at(access.start)
    values = [known[name].value for name in names if name in known and known[name].value]
    return "threadIdx" in names or any(value.code.startswith("threadIdx.") for value in values)


# -- integers where fractions are meant -----------------------------------------------------------------------


def drops_the_fraction(function: Function) -> Iterator[Slip]:
    """`1 / n` and `1 / 2` in a calculation with floats."""
    for e in function.body.all("binary_expression"):
        left, right = e.part("left"), e.part("right")
        if _sign(e) != "/" or kind_of(left) != INTEGER or kind_of(right) != INTEGER or not _among_floats(e):
            continue
        if left.kind != "number_literal":
            continue
        whole = right.kind == "number_literal"
        if whole and int(left.code.rstrip("uUlL"), 0) % (int(right.code.rstrip("uUlL"), 0) or 1) == 0:
            continue
        text, value = shown(e), f"{left.code}.0f / {shown(right)}"
        yield Slip(
            e.line,
            f"Line {e.line}: {text} divides two integers, which drops the fraction"
            + ("" if whole else f": it is 0 wherever {shown(right)} is greater than {left.code}")
            + f". Write {value}.",
        )


def _among_floats(e: Piece) -> bool:
    """Whether an expression becomes part of a calculation with floats as it is."""
    outer = e.outer
    while outer.kind == "parenthesized_expression":
        e, outer = outer, outer.outer
    if outer.kind == "binary_expression" and _sign(outer) in ("+", "-", "*", "/"):
        other = outer.part("right") if outer.part("left") == e else outer.part("left")
        return kind_of(other) == FLOAT or _among_floats(outer)
    if outer.kind == "assignment_expression":
        return outer.part("right") == e and kind_of(outer.part("left")) == FLOAT
    if outer.kind == "init_declarator":
        name = outer.part("declarator")
        known = [v for v in e.file.variables if v.start == outer.start and v.name == name.code]
        return bool(known) and known[0].type in ("float", "double") and not known[0].pointer
    return False


def counts_in_integers(function: Function) -> Iterator[Slip]:
    """`int sum`, to which floats are added."""
    told = set()
    for e in function.body.all("assignment_expression"):
        left, right = e.part("left"), e.part("right")
        adds = e.part("operator").code in ("+=", "-=") or (
            _sign(right) in ("+", "-") and left.code in (right.part("left").code, right.part("right").code)
        )
        if left.kind == "identifier" and adds and kind_of(left) == INTEGER and kind_of(right) == FLOAT:
            known = function.file.named(left.code, left.start)
            if known and known[0].start not in told:
                told.add(known[0].start)
                yield Slip(
                    known[0].line,
                    f"Line {known[0].line} declares {left.code} as {known[0].type}: every fraction that is added to "
                    "it is dropped. Declare it as float.",
                )


DETECTORS = (
    assigns_in_condition,
    ends_at_once,
    compares_twice,
    compares_with_itself,
    steps_another,
    takes_all_from_its_own,
    begins_at_the_same,
    outside_its_loop,
    shuffles_too_far,
    hides_the_sum,
    keeps_only_the_last,
    tile_of_its_own,
    drops_the_fraction,
    counts_in_integers,
)
