"""The value of an integer expression of a kernel's text."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import lru_cache

from .follow import Passed, returned, value_of
from .parts import index_of, shown, sign_of
from .pieces import Piece, remembered
from .text import CudaText
from .values import OPERATORS, Values

SIGNS = {sign: OPERATORS[sign] for sign in "+ - * / % < > <= >= == != & && ||".split()}
SIGNS[">>"] = lambda a, b: a >> b if 0 <= b < 64 else 0
LARGEST = 1 << 1000  # more than any product of sizes
MOST_TERMS = 64  # of an expression that is multiplied out
Product = tuple[int, tuple[str, ...]]  # 1 or -1, and names and numbers in order


class Given(dict):
    """An arbitrary but fixed value for each name. whole: names that are not replaced by what they are
    computed from."""

    def __init__(self, seed: int, whole: frozenset[str] = frozenset()):
        super().__init__()
        self.seed, self.whole = seed, whole

    def __missing__(self, name: str) -> int:
        return 32 if name == "warpSize" else arbitrary(name, self.seed)


@lru_cache(1 << 14)
def arbitrary(name: str, seed: int) -> int:
    return random.Random(f"{name} {seed}").randint(2, 1 << 20)


@remembered
def fingerprint(e: Piece, whole: frozenset[str] = frozenset()) -> tuple[int | None, ...]:
    """The values of an expression for arbitrary values of its names: equal for equivalent expressions,
    however they are written. Some are None if it is not an integer expression. whole: see `Given`."""
    return tuple(computed(e, Given(seed, whole)) for seed in range(3))


def computed(e: Piece, known: Mapping[str, int | None]) -> int | None:
    """The value of an integer expression, or where a pointer points. known: gives the values that are not
    computed here."""
    return _computed(e, known, {})


def _computed(e: Piece, known: Mapping[str, int | None], found: dict[int, int | None]) -> int | None:
    """found: the values of variables, by where they begin in the file: each may be used often, and so may those in it."""
    if e.kind in ("identifier", "field_expression"):
        plain = e.kind == "identifier" and e.code not in getattr(known, "whole", ())
        value = value_of(e.file, e.code, e.start) if plain else None
        if value and value.start not in found:
            found[value.start] = _computed(value, known, found)
        number = found[value.start] if value else None
        return known[e.code] if number is None else number
    if e.kind == "pointer_expression" and e.parts[0].kind == "subscript_expression" and index_of(e.parts[0]):
        both = [_computed(p, known, found) for p in (e.parts[0].parts[0], index_of(e.parts[0]))]
        return None if None in both else sum(both)
    if e.kind in ("parenthesized_expression", "condition_clause") and len(e.parts) == 1:
        return _computed(e.parts[0], known, found)
    if e.kind == "number_literal":
        return int(e.code) if e.code.isdecimal() else None
    if e.kind == "conditional_expression":
        test = _computed(e.part("condition"), known, found)
        return (
            None
            if test is None
            else _computed(e.part("consequence" if test else "alternative"), known, found)
        )
    if e.kind == "call_expression" and (inside := returned(e)):
        values = {name: _computed(p, known, found) for name, p in inside[1].items()}
        return None if None in values.values() else _computed(inside[0], Passed(values, known), {})
    sign = sign_of(e)
    if sign not in SIGNS:
        return None
    left, right = (_computed(e.part(side), known, found) for side in ("left", "right"))
    if left is None or right is None or sign in "/%" and not right:
        return None
    return value if abs(value := SIGNS[sign](left, right)) < LARGEST else None


# -- with the values that variables had ----------------------------------------------------------------------


def integer_of(file: CudaText, values: dict[str, int]) -> Callable[[Piece], int | None]:
    """The value of an expression of these variables and constants."""
    return Values(file, {name: str(value) for name, value in values.items()}).integer


def plain(piece: Piece) -> str:
    text = " ".join(piece.code.split())
    return text[1:-1] if piece.kind == "condition_clause" else text


def substituted(piece: Piece, values: dict[str, int], integer: Callable[[Piece], int | None]) -> str:
    """An expression with its variables replaced by values; constants keep their names. "" if a value is
    unknown."""
    start, text = piece.start, piece.code
    for name in reversed(list(piece.all("identifier", "field_expression"))):
        if name.code in values:
            text = text[: name.start - start] + str(values[name.code]) + text[name.end - start :]
        elif integer(name) is None and name.outer.code not in values:
            return ""
    text = " ".join(text.split())
    return text[1:-1] if piece.kind == "condition_clause" else text


def products(e: Piece, other: Callable[[Piece], str] = lambda e: "") -> list[Product]:
    """All terms of an expression. other: replaces whatever is not a name, number, sum or product."""
    match e.kind:
        case "identifier":
            return [(1, (e.code,))]
        case "number_literal" if e.code.isdecimal():
            return [(1, (e.code,))]
        case "field_expression":
            return [(1, (shown(e),))]
        case "parenthesized_expression" if len(e.parts) == 1:
            return products(e.parts[0], other)
        case "cast_expression":
            return products(e.part("value"), other)
        case "binary_expression" if e.part("operator").code in ("+", "-"):
            sign = -1 if e.part("operator").code == "-" else 1
            right = [(sign * s, names) for s, names in products(e.part("right"), other)]
            return (products(e.part("left"), other) + right)[:MOST_TERMS]
        case "binary_expression" if e.part("operator").code == "*":
            left, right = products(e.part("left"), other), products(e.part("right"), other)
            return [(s * t, a + b) for s, a in left for t, b in right][:MOST_TERMS]
        case "call_expression" if inside := returned(e):
            inner = products(inside[0])
            if not any("" in names for _, names in inner):
                given = {name: products(piece, other) for name, piece in inside[1].items()}
                return [term for each in inner for term in passed(each, given)][:MOST_TERMS]
    return [(1, (other(e),))]


def passed(term: Product, given: Mapping[str, list[Product]]) -> list[Product]:
    """A term of a function with the arguments, of these terms, in place of its parameters."""
    sign, names = term
    found: list[Product] = [(sign, ())]
    for name in names:
        each = given.get(name, [(1, (name,))])
        found = [(s * t, a + b) for s, a in found for t, b in each][:MOST_TERMS]
    return found
