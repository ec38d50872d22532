"""A number that is decomposed by sizes that do not fit together: `x = i % W` and `y = i / H`.

After the remainder by W comes the quotient by W. A quotient by something that is not a multiple of W is
rarely meant. Only sizes that a launch decides are looked at: tiles are decomposed in many ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from ...cuda.follow import value_of
from ...cuda.parts import index_of, shown, sign_of
from ...cuda.pieces import Function, Piece
from ..findings import Finding
from .array_steps import products

LEAVES = {"continue_statement", "return_statement"}


@dataclass(frozen=True)
class Digit:
    """`number / divisor % count`; count: None if there is no remainder."""

    number: str
    divisor: Counter
    count: Counter | None
    piece: Piece


def mixed_digits(function: Function) -> Iterator[Finding]:
    digits: dict[str, list[Digit]] = {}
    for digit in digits_of(function):
        digits.setdefault(digit.number, []).append(digit)
    for number, found in digits.items():
        if number in set_again(function):
            continue
        yield from taken_twice(found)
        yield from beyond_its_range(function, number, found)
        known: list[Counter] = [Counter()]
        for _ in found:
            known += [
                whole
                for d in found
                if d.count is not None and d.divisor in known and (whole := d.divisor + d.count) not in known
            ]
        most = max(sum(k.values()) for k in known)
        longest = [k for k in known if sum(k.values()) == most]
        for d in found:
            if d.divisor in known or any(k <= d.divisor for k in longest) or not most:
                continue
            fits = (f for f in found if f.count is not None and f.divisor in known)
            first = max(fits, key=lambda f: sum((f.divisor + f.count).values()))
            yield Finding.of(
                "mixed_digits",
                d.piece.line,
                text=f"{both(d.piece, first.piece)}: the quotient after a remainder divides by the size of that, too; do these sizes fit "
                "together?",
            )
            break
    yield from in_turn(function)
    yield from by_subtraction(function)
    yield from counted_twice(function)
    yield from asked_for_a_remainder(function)


def taken_twice(found: list[Digit]) -> Iterator[Finding]:
    """`y = i / W % H` and `z = i / W % D`."""
    for a, b in combinations(found, 2):
        if a.count and b.count and a.divisor == b.divisor and not (a.count <= b.count or b.count <= a.count):
            yield Finding.of(
                "taken_twice",
                b.piece.line,
                text=f"{both(b.piece, a.piece)}: two remainders of one number, by different sizes: must one be divided away before the other?",
            )
            return


def beyond_its_range(function: Function, number: str, found: list[Digit]) -> Iterator[Finding]:
    """`k = i / (R * S)`, where `i < C * taps`: i does not count through R * S."""
    bounds = [
        e.part("right")
        for e in function.body.all("binary_expression")
        if sign_of(e) in ("<", ">=") and e.part("left").code == number
    ]
    ranges = [whole for b in bounds if (whole := factors(b)) and sum(whole.values()) > 1]
    for d in found:
        if not d.divisor or d.count is not None or len(ranges) != len(bounds) or not bounds:
            continue
        if not any(d.divisor <= whole for whole in ranges):
            by = " * ".join(f if f.isidentifier() or "." in f else f"({f})" for f in d.divisor.elements())
            runs = f"{number} runs up to {shown(bounds[0])}"
            value = value_of(bounds[0].file, bounds[0].code, bounds[0].start)
            runs += f" = {shown(value)}" if value else ""
            yield Finding.of(
                "beyond_its_range",
                d.piece.line,
                bounds[0].line,
                text=f"Line {d.piece.line} has {shown(d.piece)}, and {runs} (line {bounds[0].line}): {by} is not among its factors.",
            )
            return


def both(a: Piece, b: Piece) -> str:
    """`Line 7 has i / H, and line 6 i % W`."""
    where = "" if a.line == b.line else f"line {b.line} "
    return f"Line {a.line} has {shown(a)}, and {where}{shown(b)}"


def in_turn(function: Function) -> Iterator[Finding]:
    """`x = rest % W; rest /= H;`"""
    last: dict[str, Piece] = {}
    divided: set[str] = set()
    for e in function.body.all("binary_expression", "assignment_expression"):
        name, sign = e.part("left").code, e.part("operator").code
        if sign == "%" and e.kind == "binary_expression":
            if name in divided and name in last:
                yield from taken_twice([d for d in map(digit_of, (last[name], e)) if d])
            last[name] = e
        elif sign == "=":
            last.pop(name, None)
        elif sign == "/=" and name in last:
            divided.add(name)
            taken = last.pop(name)
            sizes = [factors(each.part("right")) for each in (taken, e)]
            if None not in sizes and sizes[0] != sizes[1]:
                yield Finding.of(
                    "in_turn",
                    e.line,
                    taken.line,
                    text=f"Line {taken.line} takes {shown(taken)}, then line {e.line} divides {name} by {shown(e.part('right'))}: after "
                    f"that remainder, what is left is {name} / {shown(taken.part('right'))}.",
                )


def by_subtraction(function: Function) -> Iterator[Finding]:
    """`x = i - y * H`, where `y = i / W`."""
    for e in function.body.all("binary_expression"):
        terms = [(sign, list(names)) for sign, names in products(e)] if sign_of(e) == "-" else []
        if [sign for sign, _ in terms] != [1, -1]:
            continue
        (whole,), taken = (terms[0][1] if len(terms[0][1]) == 1 else ("",)), terms[1][1]
        for name in taken if whole else ():
            value = value_of(e.file, name, e.start) if name.isidentifier() else None
            value = value.bare if value else None
            if not value or sign_of(value) != "/" or value.part("left").code != whole:
                continue
            by, rest = factors(value.part("right")), e.part("right")
            sizes = [
                p for p in rest.all("identifier", "field_expression") if p.code != name and not in_field(p)
            ]
            times = [factors(p) for p in sizes]
            members = any(p.kind == "field_expression" for p in (value.part("right"), *sizes))
            if (
                by
                and times
                and None not in times
                and by != sum(times, Counter())
                and len(sizes) == len(taken) - 1
                and not (members and sum(by.values()) != len(sizes))  # a member may hold a product
            ):
                yield Finding.of(
                    "by_subtraction",
                    e.line,
                    text=f"Line {e.line} has {shown(e)}, where {name} is {shown(value)}: the remainder is {whole} - {name} * "
                    f"{bracketed(value.part('right'))}.",
                )


def in_field(e: Piece) -> bool:
    """Whether it is the `g` of `g.W`."""
    return e.outer.kind == "field_expression"


def counted_twice(function: Function) -> Iterator[Finding]:
    """`y[n * C * P + c * P + i]`, where `n = i / P`: n is counted again in i."""
    for access in function.body.all("subscript_expression"):
        array, index = function.file.variable_at(access.indexed.code, access.start), index_of(access)
        terms = products(index) if array and array.pointer and index else []
        alone = {names[0] for sign, names in terms if len(names) == 1 and sign > 0}
        if any(sign < 0 for sign, _ in terms):
            continue
        for name in (name for _, names in terms for name in names if len(names) > 1):
            value = value_of(function.file, name, access.start) if name.isidentifier() else None
            value = value.bare if value else None
            whole = value.part("left").code if value and sign_of(value) == "/" else ""
            if whole and whole in alone and name not in alone and factors(value.part("right")):
                yield Finding.of(
                    "counted_twice",
                    access.line,
                    text=f"Line {access.line} uses {name} = {shown(value)} and then adds all of {whole}, so {name} is counted twice. Add "
                    f"{whole} % {bracketed(value.part('right'))}.",
                )
                return


def asked_for_a_remainder(function: Function) -> Iterator[Finding]:
    """`if (d % s == 0) continue;` before `d / s`; and `if (d % s) continue;` where `d / s` is never
    computed."""
    given = {v.name for v in function.parameters}
    for e in function.body.all("binary_expression"):
        tests = function.file.around(e.start, "condition_clause")
        body = tests[0].outer.part("consequence") if tests else None
        leaves = body and any(body.all(*LEAVES))
        name, by = e.part("left").code, e.part("right").code
        if sign_of(e) != "%" or by not in given or not leaves or e.part("left").kind != "identifier":
            continue
        if passed_in(tests[0], e):
            continue
        taken = [p for p in divided(function) if (p.part("left").code, p.part("right").code) == (name, by)]
        later = [p for p in taken if p.start > tests[0].end]
        zero = (
            sign_of(e.outer) == "=="
            and e.outer.part("right").code == "0"
            and sign_of(e.outer.outer) in ("", "||")
        )
        if zero and later:
            yield Finding.of(
                "remainder_the_other_way",
                e.line,
                later[0].line,
                text=f"Line {e.line} leaves out where {shown(e)} is 0, so that line {later[0].line} takes {shown(later[0])} only where the "
                "division leaves a remainder: is it not the other way round?",
            )
        elif not zero and not taken and sign_of(e.outer) in ("", "!=", "||"):
            yield Finding.of(
                "multiple_for_nothing",
                e.line,
                text=f"Line {e.line} asks whether {name} is a multiple of {by}, and nothing is computed from {name} / {by}.",
            )


def divided(function: Function) -> Iterator[Piece]:
    """The divisions that are not part of a condition, but for those that it passes to a function."""
    for e in function.body.all("binary_expression", "assignment_expression"):
        tests = function.file.around(e.start, "condition_clause")
        if e.part("operator").code in ("/", "/=") and (not tests or passed_in(tests[0], e)):
            yield e


def passed_in(test: Piece, e: Piece) -> bool:
    """Whether a condition passes an expression to a function, instead of asking for it."""
    return any(arguments.holds(e) for arguments in test.all("argument_list"))


def bracketed(e: Piece) -> str:
    return f"({shown(e)})" if sign_of(e.bare) else shown(e)


def digits_of(function: Function) -> Iterator[Digit]:
    for e in function.body.all("binary_expression"):
        outer = plain_outer(e)
        part = outer.kind == "binary_expression" and sign_of(outer) in "/%"
        if (sign_of(e) == "%" or sign_of(e) == "/" and not part) and (digit := digit_of(e)):
            yield digit


def digit_of(e: Piece) -> Digit | None:
    """Of a quotient or a remainder; None if it is not a variable divided by sizes."""
    remainder = sign_of(e) == "%"
    inner, count = (e.part("left"), factors(e.part("right"))) if remainder else (e, Counter())
    divisors = []
    while sign_of(inner := inner.bare) == "/":
        divisors.append(inner.part("right"))
        inner = inner.part("left")
    each = [factors(d) for d in divisors]
    if inner.kind != "identifier" or count is None or None in each:
        return None
    return Digit(inner.code, sum(each, Counter()), count if remainder else None, e)


def factors(size: Piece) -> Counter | None:
    """The factors of a product of sizes, each as it was computed; None if one is a number or a constant."""
    size = size.bare
    if sign_of(size) == "*":
        both = [factors(size.part(side)) for side in ("left", "right")]
        return None if None in both else both[0] + both[1]
    if size.kind == "field_expression":
        return Counter([size.code])
    if size.kind != "identifier":
        return None
    declared = size.file.variable_at(size.code, size.start)
    if declared is None or declared.scope.type == "translation_unit":
        return None
    value = value_of(size.file, size.code, size.start)
    if value and sign_of(value.bare) == "*":
        return factors(value)
    return Counter(["".join(value.code.split()) if value else size.code])


def set_again(function: Function) -> set[str]:
    """The names that are assigned again, except by a loop's step."""
    assigned = (e for e in function.body.all("assignment_expression") if e.outer.kind != "for_statement")
    return {e.part("left").code for e in assigned if e.part("operator").code not in ("+=", "-=")}


def plain_outer(e: Piece) -> Piece:
    outer = e.outer
    while outer.kind == "parenthesized_expression":
        outer = outer.outer
    return outer
