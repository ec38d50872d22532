"""Slips in what a variable carries between iterations of a loop: a stale value, a pointer that is not
advanced, a buffer that is never switched, a sum that is never reset, a first element that is left out, a sum of
only one term.

See `slips.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...cuda.follow import meant, pointer_values
from ...cuda.parts import counter, index_of, shown, sign_of
from ...cuda.pieces import Function, Piece, Variable
from ...cuda.tree import LOOPS
from ...cuda.types import FLOAT, INTEGER, of_type
from ...cuda.values import Values
from .findings import Slip

LIMITS = {"INFINITY", "FLT_MAX", "FLT_MIN", "DBL_MAX", "INT_MIN", "INT_MAX", "HUGE_VALF"}
LARGER = ("max", "fmax", "fmaxf")


def keeps_the_turn_before(function: Function) -> Iterator[Slip]:
    """`if (inside) v = x[i];` and then `tile[t] = v;`, in a loop that does not set v in every iteration."""
    for v in scalars(function, FLOAT):
        sets = sets_of(v)
        loop = loop_around(v, sets[0]) if sets else None
        branch = branch_in(loop, sets[0]) if loop else None
        if not branch or branch.part("alternative") or taken_by_address(v):
            continue
        plain = all(branch.holds(e) and e.part("operator").code == "=" for e in sets)
        used = [p for p in uses(v) if not any(e.part("left") == p for e in sets)]
        later = [p for p in used if loop.holds(p) and p.start > branch.end]
        if plain and later and not any(branch.holds(p) for p in used):
            nearest = v.file.around(sets[0].start, "if_statement")[0]
            yield Slip(
                sets[0].line,
                f"Line {sets[0].line} sets {v.name} only where {shown(nearest.part('condition'))}, and line {later[0].line} takes "
                "it in every iteration of the loop: elsewhere it still has the value of an earlier iteration. Set it in every iteration.",
            )


def stays_behind(function: Function) -> Iterator[Slip]:
    """`if (inside) sum += *taps++ * x[i];` in a loop that begins after `taps` is declared."""
    for v in function.file.variables:
        stores = is_of_an_output(v, function)
        if not v.pointer or v.extents or not ("const" in v.words or stores) or not function.whole.holds(v):
            continue
        moves = [p.outer for p in uses(v) if moves_on(p)]
        loop = loop_around(v, moves[0]) if moves else None
        if not loop or loop.kind != "for_statement" or not all(loop.holds(move) for move in moves):
            continue
        branch, skips = branch_in(loop, moves[0]), turn_skipped(loop, moves[0])
        where, tests = "", [s.part("condition") for s in (branch, skips and skips.outer) if s]
        if stores and not any(map(leaves_out_in_between, tests)):
            continue
        if branch and not branch.part("alternative") and all(branch.holds(move) for move in moves):
            where = f"only where {shown(branch.part('condition'))}"
        elif skips and all(move.start > skips.end for move in moves):
            where = f"only where the continue in line {skips.line} does not skip it"
        if where:
            yield Slip(
                moves[0].line,
                f"Line {moves[0].line} moves {v.name} on {where}: in the other iterations of the loop in line {loop.line} it stays "
                f"behind, and what follows is {'stored at' if stores else 'taken from'} wrong places.",
            )


def is_of_an_output(v: Variable, function: Function) -> bool:
    """Whether a pointer begins in a parameter that is not const."""
    given = {p.name for p in function.parameters if p.pointer and "const" not in p.words}
    begins = pointer_values(v.file, v.name, v.end) if v.pointer and "const" not in v.words else ()
    return any(p.code in given for value in begins for p in value.all("identifier"))


def leaves_out_in_between(test: Piece | None) -> bool:
    """Whether it may fail first and hold later, as `h >= 0` may. What is at or beyond an end stays so, and so does a pointer
    there."""
    text = "".join(meant(test.file, test).code.split()) if test else ""
    return any(word in text for word in ("unsigned", "<0", ">=0", "0<=", "0>", "==", "!=", "%"))


def never_switched(function: Function) -> Iterator[Slip]:
    """`int cur = 0;` that chooses a part of `__shared__ float a[2][N]` in a loop, and never changes."""
    for v in function.file.variables:
        plain = function.body.holds(v) and not v.pointer and not v.extents and of_type(v.type) == INTEGER
        begins = v.value is not None and v.value.kind == "number_literal"
        if not plain or not begins or {"const", "constexpr"} & set(v.words) or may_change(v):
            continue
        for p in uses(v):
            access, loop = p.outer.outer, loop_around(v, p)
            if p.outer.kind != "subscript_argument_list" or access.parts[0].kind != "identifier" or not loop:
                continue
            name = access.parts[0].code
            array = v.file.variable_at(name, p.start)
            if array and "__shared__" in array.words and Values(v.file).extents(array)[:1] > (1,):
                yield Slip(
                    v.line,
                    f"Nothing changes {v.name} after line {v.line}: in every iteration of the loop in line {loop.line}, "
                    f"{name}[{v.name}] is {name}[{v.value.code}], so that its parts never take turns.",
                )
                break


def may_change(v: Variable) -> bool:
    """Whether a variable is set anywhere after its declaration, also by a function that it is passed to."""
    kinds = ("update_expression", "pointer_expression", "argument_list", "lambda_capture_specifier")
    return any(
        p.outer.kind in kinds or p.outer.kind == "assignment_expression" and p.outer.part("left") == p
        for p in uses(v)
    )


def never_reset(function: Function) -> Iterator[Slip]:
    """`total += part` or `y[i] = part` in a loop, where an inner loop adds to `part` and nothing sets it back."""
    for v in scalars(function, FLOAT):
        sets = sets_of(v)
        if not sets or not all(grows(e, v) for e in sets) or taken_by_address(v):
            continue
        for e in (p.outer for p in uses(v)):
            while e.kind in ("binary_expression", "parenthesized_expression", "conditional_expression"):
                e = e.outer
            loop = loop_around(v, e) if e.kind == "assignment_expression" and e not in sets else None
            inner = loop and all(
                loop.holds(s) and (own := loop_around(v, s)) and loop != own and not own.holds(e)
                for s in sets
            )
            if not inner:
                continue
            left, sign = e.part("left"), e.part("operator").code
            index = index_of(left) if left.kind == "subscript_expression" else None
            if left.kind == "identifier" and sign == "+=":
                says = f"adds {v.name} to {left.code} in every iteration of the loop in line {loop.line}"
            elif index and sign == "=" and depends(index, counter(loop), loop):
                says = f"stores {v.name} in every iteration of the loop in line {loop.line}"
            else:
                continue
            yield Slip(
                e.line,
                f"Line {e.line} {says}, and nothing sets {v.name} back in between: it still holds what was added "
                "to it in the iterations before.",
            )
            break


def grows(e: Piece, v: Variable) -> bool:
    """Whether an assignment to a variable keeps its value: `v += x`, `v = fmaf(a, b, v)`."""
    again = v.name in {p.code for p in e.part("right").all("identifier")}
    return e.part("operator").code in ("+=", "-=") or again


def begins_again(function: Function) -> Iterator[Slip]:
    """`for (...) { float sum = 0; sum += x[k]; y[i] = sum; }`, and a `sum = 0` in the loop that `sum` is used after."""
    for v in scalars(function, FLOAT):
        sets = sets_of(v)
        begins = [e for e in sets if not grows(e, v)] or [v]
        value = begins[0].part("right") if begins != [v] else v.value
        loop = next(iter(v.file.around(begins[0].start, *LOOPS)), None)
        name = counter(loop) if loop and function.body.holds(loop) else ""
        if not name or not value or len(begins) > 1 or taken_by_address(v) or depends(value, name, loop):
            continue
        added = [e for e in sets if grows(e, v)]
        later = added and all(loop.holds(e) and e.start > begins[0].start for e in added)
        others = [p for p in uses(v) if not any(e.holds(p) for e in sets)]
        if not later or not others or not any(depends(e, name, loop) for e in added):
            continue
        where = value.start if others[0].start > loop.end else others[0].start
        if is_in_all(loop, where) and all(p.start > loop.end or replaces(p, loop) for p in others):
            line = begins[0].line
            yield Slip(
                line,
                f"Line {line} sets {v.name} to {shown(value)} again in each iteration of the loop in line {loop.line}: what line "
                f"{others[0].line} uses is from the last iteration alone. Set {v.name} before the loop.",
            )


def is_in_all(loop: Piece, place: int) -> bool:
    """Whether all iterations of a loop come by a place in it, as far as its statements tell."""
    ends = [
        e
        for e in loop.all("break_statement", "continue_statement")
        if e.file.around(e.start, *LOOPS)[0] == loop
    ]
    branches = [b for b in loop.file.around(place, "if_statement", *LOOPS) if loop.holds(b) and b != loop]
    return not ends and not branches and not any(loop.all("return_statement", "goto_statement"))


def replaces(p: Piece, loop: Piece) -> bool:
    """Whether a variable is stored by `y[i] = v` over what an earlier iteration of a loop has stored, which nothing reads."""
    e = p.outer
    left = e.part("left") if e.kind == "assignment_expression" and e.part("operator").code == "=" else None
    if not left or left == p or left.kind != "subscript_expression" or any(left.all("call_expression")):
        return False
    changed = {counter(loop), *(v.name for v in p.file.variables if loop.holds(v))}
    changed |= {x.code for c in loop.all("assignment_expression", "update_expression") for x in c.parts}
    array = p.file.variable_at(left.indexed.code, left.start)
    read = [x for x in loop.all("identifier") if x.code == left.indexed.code]
    given = array and array in p.file.function_at(left.line).parameters
    return bool(given) and len(read) == 1 and not changed & {x.code for x in left.all("identifier")}


def leaves_out_the_first(function: Function) -> Iterator[Slip]:
    """`for (k = 1; k < n; k++) sum += x[k];` or `for (k = n - 1; k > 0; k--) sum += x[k];`, where `sum` begins as a number."""
    for loop in function.body.all("for_statement"):
        name, end = counter(loop), without_zero(loop)
        for v in scalars(function, FLOAT) if end else ():
            sets = sets_of(v)
            inside = [e for e in sets if loop.holds(e)]
            inside = [e for e in inside if adds(e, v) or adds_to_a_multiple(e, v) or keeps_the_larger(e, v)]
            whole = inside and len(inside) == len(sets) and not loop.holds(v)
            if (
                not whole
                or not begins_at_zero(v, loop, inside)
                and not all(keeps_the_larger(e, v) for e in inside)
            ):
                continue
            if begins_as_a_number(v) and any(depends(e, name, loop) for e in inside):
                yield Slip(
                    loop.line,
                    f"The loop over {name} in line {loop.line} {end}, and {v.name} is {shown(v.value)} before it: what "
                    f"belongs to {name} = 0 is left out.",
                )
                break


def adds_once(function: Function) -> Iterator[Slip]:
    """`total += x;` after the loop that it belongs into."""
    for v in scalars(function, FLOAT):
        sets = sets_of(v)
        if len(sets) != 1 or not adds(sets[0], v) or not v.value or v.value.code.strip("fF.0"):
            continue
        loops = [loop for loop in function.body.all("for_statement") if v.end < loop.start < sets[0].start]
        known = all(v.file.variable_at(p.code, p.start) for p in sets[0].all("identifier"))
        if loops and known and not loop_around(v, sets[0]) and not taken_by_address(v):
            yield Slip(
                sets[0].line,
                f"Line {sets[0].line} adds to {v.name} once, outside of every loop after line {v.line}: {v.name} is one term, "
                "not a sum.",
            )


def largest_from_zero(function: Function) -> Iterator[Slip]:
    """`float best = 0; for (...) if (x > best) best = x;`"""
    for v in scalars(function, FLOAT):
        sets = [e for e in sets_of(v) if keeps_the_larger(e, v)]
        from_zero = v.value and not v.value.code.strip("fF.0")
        sizes = any("abs" in name for e in sets for name, _ in e.outer.outer.calls()) or "abs" in v.name
        loop = loop_around(v, sets[0]) if sets else None
        sizes = sizes or any(also_where(e, v) for e in sets)
        if from_zero and loop and len(sets) == len(sets_of(v)) and not sizes and not without_zero(loop):
            yield Slip(
                v.line,
                f"Line {v.line} begins {v.name} at 0, and line {sets[0].line} keeps the larger one: where all are negative, 0 is "
                "left, which is none of them. Begin at -INFINITY.",
            )


# -- what a variable is ----------------------------------------------------------------------------------------


def scalars(function: Function, kind: str) -> Iterator[Variable]:
    """The scalar variables of a function, of this kind, that do not hide another one."""
    for v in function.file.variables:
        plain = function.body.holds(v) and not v.pointer and not v.extents and "__shared__" not in v.words
        if plain and of_type(v.type) == kind and v.scope.type != "for_statement":
            yield v


def uses(v: Variable) -> list[Piece]:
    """The uses of a variable after its declaration."""
    names = v.file.piece(v.scope).all("identifier")
    return [
        p for p in names if p.code == v.name and p.start > v.end and v in v.file.named(v.name, p.start)[-1:]
    ]


def sets_of(v: Variable) -> list[Piece]:
    """The assignments to it."""
    outer = (p.outer for p in uses(v))
    found = [
        p.outer for p in uses(v) if p.outer.kind == "assignment_expression" and p.outer.part("left") == p
    ]
    return found if not any(e.kind == "update_expression" for e in outer) else []


def loop_around(v: Variable, e: Piece) -> Piece | None:
    """The innermost loop around an expression that begins after the declaration of a variable."""
    return next((loop for loop in v.file.around(e.start, *LOOPS) if loop.start > v.start), None)


def without_zero(loop: Piece) -> str:
    """`begins at 1`, for a `for` whose variable is never 0, unless its body uses the previous index."""
    name, test, update = counter(loop), loop.part("condition"), loop.part("update")
    first = next(loop.part("initializer").all("init_declarator"), None) if name else None
    if not first or not test or not update or update.kind != "update_expression":
        return ""
    for e in loop.part("body").all("binary_expression"):
        left, right = ({p.code for p in (e.part(s), *e.part(s).all("identifier"))} for s in ("left", "right"))
        if sign_of(e) == "-" and (name in right or name in left and "1" in right):
            return ""
    if first.part("value").code == "1" and sign_of(test) == "<":
        return "begins at 1"
    down = "--" in update.code and "".join(test.code.split()) in (f"{name}>0", f"{name}>=1")
    return "ends at 1" if down else ""


def branch_in(loop: Piece, e: Piece) -> Piece | None:
    """The outermost `if` of a loop with an expression in its first branch."""
    branches = [b for b in e.file.around(e.start, "if_statement") if loop.holds(b)]
    return branches[-1] if branches and branches[-1].part("consequence").holds(e) else None


def turn_skipped(loop: Piece, e: Piece) -> Piece | None:
    """The first `continue` of a loop, if it comes before an expression."""
    found = (c for c in loop.all("continue_statement") if c.file.around(c.start, *LOOPS)[0] == loop)
    return next((c for c in found if c.end < e.start), None)


def taken_by_address(v: Variable) -> bool:
    return any(p.outer.kind == "pointer_expression" for p in uses(v))


def moves_on(name: Piece) -> bool:
    outer = name.outer
    added = outer.kind == "assignment_expression" and outer.part("operator").code == "+="
    return outer.kind == "update_expression" or added and outer.part("left") == name


def adds(e: Piece, v: Variable) -> bool:
    """`v += x` or `v = v + x`."""
    right = e.part("right")
    again = sign_of(right) == "+" and v.name in (right.part("left").code, right.part("right").code)
    return e.part("operator").code == "+=" or e.part("operator").code == "=" and again


def adds_to_a_multiple(e: Piece, v: Variable) -> bool:
    """`v = v * a + x`, as of a sum that is scaled when a larger element comes."""
    right = e.part("right")
    parts = [right.part(side) for side in ("left", "right")] if sign_of(right) == "+" else []
    multiples = [
        p for p in parts if sign_of(p) == "*" and v.name in (p.part("left").code, p.part("right").code)
    ]
    return e.part("operator").code == "=" and len(multiples) == 1


def keeps_the_larger(e: Piece, v: Variable) -> bool:
    """`if (x > v) v = x` or `v = max(v, x)`."""
    right = e.part("right")
    called = next((name for name, call in right.calls() if call == right), "")
    if e.part("operator").code != "=":
        return False
    if called in LARGER:
        return v.name in [p.code for p in right.part("arguments").parts]
    branch = next(iter(e.file.around(e.start, "if_statement")), None)
    tests = branch.part("condition").all("binary_expression") if branch else ()
    both = {v.name, right.code}
    return any(
        {t.part("left").code, t.part("right").code} == both
        and (t.part("right").code == v.name) == (sign_of(t) in (">", ">="))
        for t in tests
        if sign_of(t) in ("<", ">", "<=", ">=")
    )


def also_where(e: Piece, v: Variable) -> bool:
    """Whether `v = x` has another condition than that x is larger or no number: `if (place < 0 || x > v) v = x`."""
    branch = next(iter(e.file.around(e.start, "if_statement")), None)
    for either in branch.part("condition").all("binary_expression") if branch else ():
        for part in (either.part("left"), either.part("right")) if sign_of(either) == "||" else ():
            words = {p.code for p in part.all("identifier")}
            itself = sign_of(part) == "!=" and part.part("left").code == part.part("right").code
            if v.name not in words and "isnan" not in words and not itself:
                return True
    return False


def begins_as_a_number(v: Variable) -> bool:
    words = {p.code for p in v.value.all("identifier")} if v.value else {""}
    return words <= LIMITS and not any(v.value.all("call_expression", "subscript_expression"))


def begins_at_zero(v: Variable, loop: Piece, inside: list[Piece]) -> bool:
    """Whether a sum is 0 before its loop, and neither a number nor anything like its terms is added to it
    afterwards."""
    arrays = {access.indexed.code for e in inside for access in e.all("subscript_expression")}
    for e in (p.outer for p in uses(v) if not loop.holds(p)):
        for side in ("left", "right") if sign_of(e) == "+" else ():
            term = e.part(side)
            again = arrays & {access.indexed.code for access in term.all("subscript_expression")}
            if again or term.kind == "number_literal":
                return False
    return bool(v.value) and not v.value.code.strip("fF.0")


def depends(e: Piece, name: str, loop: Piece) -> bool:
    """Whether what is added depends on the loop's variable."""
    names, inside = (
        {p.code for p in e.all("identifier")},
        [v for v in e.file.variables if loop.holds(v) and v.value],
    )
    for v in reversed(inside):
        if v.name in names and v.scope.type != "for_statement":
            names |= {p.code for p in v.value.all("identifier")}
    return name in names


TURN_DETECTORS = (
    keeps_the_turn_before,
    stays_behind,
    never_switched,
    never_reset,
    begins_again,
    leaves_out_the_first,
    adds_once,
    largest_from_zero,
)
