"""Slips in loops: one that steps or tests the variable of another, overlapping shares, a missing brace.

See `slips.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...course.cuda_pieces import Function, Piece
from ...course.cuda_tree import LOOPS
from ...course.cuda_types import FLOAT, kind_of
from ...course.cuda_values import Values
from .array_steps import products
from .expression_values import substituted
from .findings import Slip, counter, shown, sign_of, start_of
from .noting import index_of, value_of

COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
BODIES = {"if_statement": "consequence", **dict.fromkeys(LOOPS, "body")}


def steps_another(function: Function) -> Iterator[Slip]:
    """`for (int s = 0; s < F; r++)` and `for (int s = 0; r < F; s++)`, inside a loop over r."""
    for loop in function.body.all("for_statement"):
        own, condition, update = counter(loop), loop.part("condition"), loop.part("update")
        around = {counter(outer) for outer in function.file.around(loop.start, "for_statement")[1:]}
        tested = condition.part("left") if condition and sign_of(condition) in COMPARISONS else None
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
            known = function.file.variable_at(first.code, loop.start)
            at = known.value if known and known.value else first
        if at.code in ("threadIdx.x", "threadIdx.y"):
            yield Slip(
                loop.line,
                f"The loop in line {loop.line} begins at {first.code} and steps by 1, so that the threads do each "
                f"other's work again; where they share it, each steps by their number, blockDim.{at.code[-1]}.",
            )


def steps_by_less_than_the_grid(function: Function) -> Iterator[Slip]:
    """`for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x)`: other threads begin where this one goes
    on."""
    for loop in function.body.all("for_statement"):
        first, update = start_of(loop), loop.part("update")
        if first is not None and first.kind == "identifier":
            first = value_of(first.file, first.code, loop.start)
        adds = update and update.kind == "assignment_expression" and update.part("operator").code == "+="
        step = update.part("right").code if adds else ""
        if (
            first is None
            or step not in ("blockDim.x", "gridDim.x")
            or {"threadIdx", "blockIdx"} - names_of(first)
        ):
            continue
        terms = [tuple(sorted(names)) for _, names in products(first)]
        if sorted(terms) == [("blockDim.x", "blockIdx.x"), ("threadIdx.x",)]:
            yield Slip(
                loop.line,
                f"The loop in line {loop.line} begins at the thread's number in the whole launch and steps by {step}, so that "
                "several threads take the same elements. There are gridDim.x * blockDim.x threads: step by that.",
            )


def one_turn_too_many(function: Function) -> Iterator[Slip]:
    """`for (int i = n; i >= 0; i--)` and `for (int i = 0; i <= n; i++)`, where nothing uses i: it only counts n iterations."""
    given = {v.name for v in function.parameters}
    for loop in function.body.all("for_statement"):
        name, first = counter(loop), start_of(loop)
        test, update = loop.part("condition"), loop.part("update")
        compared = test and update and sign_of(test) in ("<=", ">=") and test.part("left").code == name
        if not name or not compared or first is None:
            continue
        ends = sign_of(test), test.part("right").code
        down = first.code in given and ends == (">=", "0") and "--" in update.code
        up = first.code == "0" and ends[0] == "<=" and ends[1] in given and "++" in update.code
        if (down or up) and name not in names_of(loop.part("body")):
            size = first.code if down else ends[1]
            yield Slip(
                loop.line,
                f"The loop over {name} in line {loop.line} has {size} + 1 iterations: it begins at {first.code} and also has one for "
                f"{name} = {'0' if down else size}.",
            )


def names_of(e: Piece) -> set[str]:
    return {p.code for p in e.all("identifier")}


def begins_at_the_same(function: Function) -> Iterator[Slip]:
    """`for (int i = 0; i < n; i += blockDim.x)`, in which nothing depends on the thread: all threads do the
    same work."""
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
    """A statement indented like the single body statement of a loop or an `if` without braces."""
    for statement in function.body.all(*BODIES):
        body = statement.part(BODIES[statement.kind])
        after = statement.node.next_named_sibling
        if not body or body.kind == "compound_statement" or not after or statement.part("alternative"):
            continue
        after = function.file.piece(after)
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
    """A shuffle by at least the width of a warp, or of its last argument."""
    for name, call in function.body.calls():
        arguments = call.part("arguments").parts
        if name not in ("__shfl_down_sync", "__shfl_up_sync", "__shfl_xor_sync") or len(arguments) < 3:
            continue
        by, width = arguments[2], arguments[3].code if arguments[3:] else "32"
        loops = [
            loop for loop in function.file.around(call.start, "for_statement") if counter(loop) == by.code
        ]
        start = loops[0].part("initializer").part("declarator").part("value") if loops else by
        if not (start.code.isdecimal() and width.isdecimal()) or int(start.code) < int(width):
            continue
        what = f"begins at {start.code}" if loops else f"shuffles by {start.code} lanes"
        line = loops[0].line if loops else call.line
        size = (
            "a warp has 32 lanes"
            if width == "32"
            else f"it takes {width} lanes as a group (its last argument)"
        )
        yield Slip(
            line,
            f"Line {line} {what}; {size}, and a lane that asks for one outside gets its own value back. The furthest step "
            f"is {int(width) // 2}.",
        )


def divides_too_early(function: Function) -> Iterator[Slip]:
    """`total += x[k]; y[k] = x[k] / total;` in one loop: the divisor is not complete yet."""
    for loop in function.body.all("for_statement"):
        added = {}
        for e in loop.part("body").all("assignment_expression"):
            name = e.part("left")
            if e.part("operator").code == "+=" and function.file.around(e.start, *LOOPS)[0] == loop:
                known = function.file.named(name.code, e.start) if name.kind == "identifier" else []
                counts = e.part("right").kind == "number_literal"
                if len(known) == 1 and not loop.holds(known[0]) and kind_of(name) == FLOAT and not counts:
                    added[name.code] = e
        for e in loop.part("body").all("binary_expression", "assignment_expression"):
            by, sum_of = e.part("right").code, added.get(e.part("right").code)
            if e.part("operator").code in ("/", "/=") and sum_of and e.start > sum_of.end:
                yield Slip(
                    e.line,
                    f"Line {e.line} divides by {by} in the loop that still adds to it (line {sum_of.line}): it is complete only "
                    "after the loop.",
                )


def sets_again_what_comes_round(function: Function) -> Iterator[Slip]:
    """`part[b & 3] = x[b]` in a loop over b: when the slot is used again, its value is lost."""
    for e in function.body.all("assignment_expression"):
        left, loops = e.part("left"), function.file.around(e.start, "for_statement")
        array = function.file.variable_at(left.indexed.code, e.start)
        if left.kind != "subscript_expression" or e.part("operator").code != "=" or not loops or not array:
            continue
        if e.part("right").kind == "number_literal":
            continue
        index = index_of(left)
        around = index and sign_of(index) in ("%", "&") and index.part("left").code == counter(loops[0])
        own = len(array.extents) == 1 and "__shared__" not in array.words and function.body.holds(array)
        read_inside = [p for p in loops[0].all("identifier") if p.code == array.name and not left.holds(p)]
        if around and own and not loops[0].holds(array) and not read_inside and kind_of(left) == FLOAT:
            yield Slip(
                e.line,
                f"Line {e.line} sets {shown(left)} again each time that {shown(index)} comes round again, and what was there is "
                "lost; add with +=.",
            )


def never_runs(function: Function) -> Iterator[Slip]:
    """`for (int i = 0; i < ROWS / TILE; i++)`, where ROWS / TILE is 0. Of a plain constant it may be meant."""
    values = Values(function.file)
    for loop in function.body.all("for_statement"):
        first, test = values.integer(start_of(loop)), loop.part("condition")
        bound = test.part("right") if test and sign_of(test) == "<" else None
        if first is None or not bound or test.part("left").code != counter(loop):
            continue
        end, value = values.integer(bound), value_of(bound.file, bound.code, bound.start) or bound
        if end is None or end > first or not any(sign_of(e) == "/" for e in value.all("binary_expression")):
            continue
        known = {p.code: at for p in value.all("identifier") if (at := values.integer(p)) is not None}
        text = substituted(value, known, values.integer)
        told = dict.fromkeys((shown(bound), shown(value), text, str(end)))
        yield Slip(
            loop.line,
            f"The loop in line {loop.line} has no iteration: it begins at {first}, and {' = '.join(filter(None, told))}.",
        )


def _indent(piece: Piece) -> int:
    """Of the line that a piece begins in."""
    text = piece.file.lines[piece.line - 1].expandtabs(4)
    return len(text) - len(text.lstrip())


LOOP_DETECTORS = (
    steps_another,
    takes_all_from_its_own,
    begins_at_the_same,
    steps_by_less_than_the_grid,
    one_turn_too_many,
    outside_its_loop,
    shuffles_too_far,
    divides_too_early,
    sets_again_what_comes_round,
    never_runs,
)
