"""What a wrong kernel computes differently from the solution, compared by value, not by spelling or name: a
missing limit, a division rounded down, terms multiplied by something else. See `near_solution.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...cuda.evaluate import fingerprint
from ...cuda.follow import value_of
from ...cuda.parts import shown, sign_of
from ...cuda.pieces import Piece
from .array_steps import products
from .block_slips import is_the_same
from .findings import Slip


def lost_limits(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """`last = first + count`, where the solution takes the minimum of that and something that this kernel
    never compares or limits anything with."""
    own, right = values(mine), values(solution)
    used, named = ({fingerprint(e) for e in some} for some in (bounds(mine), right.values()))
    for value in right.values():
        for called, call in value.calls():
            inside = call.part("arguments")
            both = [fingerprint(p) for p in inside.parts] if inside else []
            if called not in ("min", "max") or call != value or len(both) != 2:
                continue
            for name, now in own.items():
                known = fingerprint(now)
                if known not in both or known in named or None in known:
                    continue
                if both[1 - both.index(known)] not in used:
                    least = "at or below" if called == "min" else "at or above"
                    yield Slip(
                        now.line,
                        f"Line {now.line} sets {name} to {shown(now)} alone: must it not be kept {least} something else as "
                        "well?",
                    )


def ends_at_a_thread(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """`for (k = 0; k < b; k++)`, where b is the thread's index and no loop of the solution ends like that."""
    if not any(numbers_of_threads(solution)):
        for loop, bound in list(numbers_of_threads(mine))[:1]:
            yield Slip(
                loop.line,
                f"The loop in line {loop.line} ends at {bound}, which is the number of the thread: is that how many iterations it needs?",
            )


def numbers_of_threads(bodies: list[Piece]) -> Iterator[tuple[Piece, str]]:
    """(loop, its end) of the loops that end at a variable computed from threadIdx and blockIdx."""
    for loop in (loop for body in bodies for loop in body.all("for_statement")):
        test = loop.part("condition")
        bound = test.part("right") if test and sign_of(test) in ("<", "<=") else None
        value = value_of(loop.file, bound.code, loop.start) if bound and bound.kind == "identifier" else None
        if value and {"threadIdx", "blockIdx"} <= {p.code for p in value.all("identifier")}:
            yield loop, bound.code


def bounds(bodies: list[Piece]) -> Iterator[Piece]:
    """The arguments of min and max, and the operands of comparisons."""
    for body in bodies:
        for called, call in body.calls():
            if called in ("min", "max") and (inside := call.part("arguments")):
                yield from inside.parts
    for e, *_ in comparisons(bodies):
        yield from (e.part("left"), e.part("right"))


def rounded_down(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """`n / d` of sizes, if the solution rounds up more divisions than this file does. What a function is given is not known:
    its quotients are silent if the solution rounds down one with as many terms."""
    own, right = ([d for body in bodies for d in divisions(body)] for bodies in (mine, solution))
    known = {fingerprint(e) for e, up in right if not up}
    alike = {len(products(e.part("left"), shown)) for e, up in right if not up}
    down = [e for e, up in own if not up and is_the_same(e) and fingerprint(e) not in known]
    down = [e for e in down if mine[0].holds(e) or len(products(e.part("left"), shown)) not in alike]
    down = [e for e in down if not splits_a_number(e)]
    if sum(up for _, up in own) < sum(up for _, up in right) and len(down) == 1:
        e = down[0]
        yield Slip(
            e.line,
            f"Line {e.line}: {shown(e)} is rounded down, so what is left over belongs to nobody: must it not be rounded up?",
        )


def splits_a_number(e: Piece) -> bool:
    """Whether `n / d` is a digit, or the digits above one: what it leaves over is used as `n % d` or `n - quotient * d`, or
    there is a remainder of the quotient."""
    number, size, outer, inner = e.part("left"), e.part("right"), e.outer, e
    while outer.kind == "parenthesized_expression":
        outer, inner = outer.outer, outer
    if sign_of(outer) == "%" and outer.part("left") == inner:
        return True
    quotient = outer.part("declarator") if outer.kind == "init_declarator" else outer.part("left")
    name = quotient.code if quotient and outer.kind in ("init_declarator", "assignment_expression") else ""
    for other in e.file.around(e.start, "function_definition")[:1]:
        for p in other.all("binary_expression"):
            left, right = p.part("left"), p.part("right")
            if sign_of(p) == "%" and (left.code == name or equal(left, number) and equal(right, size)):
                return True
            if sign_of(p) == "-" and sign_of(right) == "*" and equal(left, number):
                if equal(right.part("left"), size) or equal(right.part("right"), size):
                    return True
    return False


def equal(a: Piece, b: Piece) -> bool:
    return a.code == b.code or fingerprint(a) == fingerprint(b) and None not in fingerprint(a)


def divisions(body: Piece) -> Iterator[tuple[Piece, bool]]:
    """(division by a name, whether it rounds up: `(n + d - 1) / d` or `(n - 1) / d + 1`)."""
    for e in body.all("binary_expression"):
        right = e.part("right")
        if sign_of(e) == "/" and right.kind == "identifier":
            terms = products(e.part("left"), shown)
            one_more = sign_of(e.outer) == "+" and "1" in (
                e.outer.part("left").code,
                e.outer.part("right").code,
            )
            yield e, ((1, (right.code,)) in terms or one_more) and (-1, ("1",)) in terms


def other_scales(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """`w = block * width + thread` for `w = thread * blocks + block`: the same terms, each multiplied by
    something else."""
    own, right = values(mine), values(solution)
    for name in [n for n in own if n in right]:
        terms = [products(e, shown) for e in (own[name], right[name])]
        common = set.intersection(*({n for _, names in some for n in names} for some in terms))
        common -= {p.code for p in right[name].all("identifier") if is_the_same(p)}
        parts = [sorted((sign, tuple(common.intersection(names))) for sign, names in some) for some in terms]
        worth = [fingerprint(e, frozenset(common)) for e in (own[name], right[name])]
        one_each = all(len(names) == 1 and names[0].isidentifier() for _, names in parts[0])
        if parts[0] == parts[1] and len(parts[0]) > 1 and one_each and worth[0] != worth[1]:
            if None not in (*worth[0], *worth[1]):
                yield Slip(
                    own[name].line,
                    f"Line {own[name].line}: is each part multiplied by what it should be in {name} = {shown(own[name])}?",
                )


FAMILIES = (
    ("exp", "exp2", "exp10"),
    ("log", "log2", "log10", "log1p"),
    ("sqrt", "rsqrt", "cbrt"),
    ("max", "min"),
    ("fmax", "fmin"),
)


def other_functions(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """`exp2f(x)`, where the solution has `expf` and never this call."""
    own, right = (
        {family(name): None for body in some for name, _ in body.calls()} for some in (mine, solution)
    )
    for body in mine:
        for name, call in body.calls():
            known = family(name)
            others = [other for other in right if known and other and other[0] == known[0]]
            with_same = [
                args_of(e) & args_of(call) for e in calls_of(solution, known) if len(args_of(call)) > 1
            ]
            if with_same and not any(with_same):  # of two numbers that the solution never compares
                continue
            if others and known not in others and not set(others) & own.keys():
                yield Slip(
                    call.line, f"Line {call.line}: is {name} the right function in {shown(call)}?", guess=True
                )
                return


def calls_of(bodies: list[Piece], known: tuple[int, str] | None) -> list[Piece]:
    """The calls of functions of one family."""
    found = [(family(name), call) for body in bodies for name, call in body.calls()]
    return [call for other, call in found if known and other and other[0] == known[0]]


def args_of(call: Piece) -> set[str]:
    return {shown(p) for p in call.part("arguments").parts}


def family(name: str) -> tuple[int, str] | None:
    """(number of the family, the member) of a function, the same for float and double."""
    plain = name.removeprefix("__").removesuffix("f")
    return next(((i, plain) for i, names in enumerate(FAMILIES) if plain in names), None)


def stores_the_same(mine: list[Piece], solution: list[Piece]) -> Iterator[Slip]:
    """`y[i] = tile[n]` in a loop over i that leaves `tile[n]` unchanged; if the solution does no such
    thing."""
    if not any(map(any, map(unchanging, solution))):
        for body in mine:
            for store, loop in list(unchanging(body))[:1]:
                value = shown(store.part("right"))
                yield Slip(
                    store.line,
                    f"Line {store.line} stores {value} in every iteration of the loop of line {loop.line}, and nothing in it "
                    "changes from one iteration to the next: all iterations store the same element.",
                )


def unchanging(body: Piece) -> Iterator[tuple[Piece, Piece]]:
    """(store, loop): stores of the same element of an array to different places in every iteration of a
    loop."""
    for e in body.all("assignment_expression"):
        left, right = e.part("left"), e.part("right")
        loops = e.file.around(e.start, "for_statement")
        copies = left.kind == right.kind == "subscript_expression" and e.part("operator").code == "="
        if not copies or not loops or not body.holds(loops[0]):
            continue
        changing = set_in(loops[0])
        read, written = ({p.code for p in side.all("identifier")} for side in (right, left))
        if (
            not changing & read
            and changing & written
            and not any(right.all("call_expression", "update_expression"))
        ):
            yield e, loops[0]


def set_in(loop: Piece) -> set[str]:
    """The variables that a loop declares or sets, and the arrays that it stores to."""
    found = {d.part("declarator").code.strip("* &") for d in loop.all("init_declarator")}
    found |= {e.part("left").indexed.code for e in loop.all("assignment_expression")}
    return found | {p.code for e in loop.all("update_expression") for p in e.all("identifier")}


def values(bodies: list[Piece]) -> dict[str, Piece]:
    """The first value of every variable that is declared once."""
    found: dict[str, list[Piece]] = {}
    for body in bodies:
        for d in body.all("init_declarator"):
            name, value = d.part("declarator"), d.part("value")
            if name and value and name.kind == "identifier":
                found.setdefault(name.code, []).append(value)
    return {name: pieces[0] for name, pieces in found.items() if len(pieces) == 1}


def comparisons(bodies: list[Piece]) -> Iterator[tuple[Piece, str, str]]:
    """(comparison, left side, right side) of all ordering comparisons."""
    for body in bodies:
        for e in body.all("binary_expression"):
            if e.part("operator").code in ("<", ">", "<=", ">="):
                left, bound = (" ".join(e.part(side).code.split()) for side in ("left", "right"))
                yield e, left, bound
