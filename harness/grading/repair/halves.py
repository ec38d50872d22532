"""Sums and values kept in half precision, changed to float."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...cuda.pieces import Function, Piece, Variable
from .edits import Edit, strength_of

_HALF = r"(?:__half|half|__nv_bfloat16|nv_bfloat16)"
#: `__float2half(x)`, `half(x)`
_CONVERTS = re.compile(
    rf"__float2half\w*|__half2float|__float2bfloat16\w*|__bfloat162float|{_HALF}|static_cast<{_HALF}>"
)
_COMPUTES = {
    "__hadd": "{} + {}",
    "__hsub": "{} - {}",
    "__hmul": "{} * {}",
    "__hdiv": "{} / {}",
    "__hfma": "{} * {} + {}",
    "__hmax": "fmaxf({}, {})",
    "__hmin": "fminf({}, {})",
}


def as_floats(function: Function) -> Iterator[tuple[Edit, ...]]:
    """For every local variable of a half type: its type and what is computed with it, in float."""
    for v in (v for v in function.file.variables if function.body.holds(v)):
        type_ = v.outer.part("type") if v.outer else None
        if type_ is not None and re.fullmatch(_HALF, type_.code) and not v.pointer:
            found = [Edit(type_.start, type_.end, "float", "a type")]
            found += [Edit(e.start, e.end, in_float(e), "a type") for e in _outermost(function, v)]
            yield tuple(found)


def _outermost(function: Function, v: Variable) -> Iterator[Piece]:
    """The outermost half-precision expressions in the statements that name a variable."""
    end = 0
    for e in function.body.all("call_expression", "cast_expression"):
        around = e.file.around(e.start, "expression_statement", "declaration", "return_statement")
        named = any(n.code == v.name for n in around[0].all("identifier")) if around else False
        if named and e.start >= end and (_converted(e) or _computed(e)):
            end = e.end
            yield e


def in_float(e: Piece) -> str:
    """An expression without conversions, with float operators."""
    if inner := _converted(e):
        return in_float(inner)
    if plain := _computed(e):
        texts = map(in_float, e.part("arguments").parts)
        return plain.format(*(f"({t})" if strength_of(t) < 11 and "(" not in plain else t for t in texts))
    text, at = "", e.start
    for part in e.parts:
        text += e.file.text[at : part.start] + in_float(part)
        at = part.end
    return text + e.file.text[at : e.end]


def _converted(e: Piece) -> Piece | None:
    """The operand, if it is a conversion."""
    if e.kind == "cast_expression":
        return e.part("value") if re.fullmatch(_HALF, e.part("type").code) else None
    name = e.part("function") if e.kind == "call_expression" else None
    of_one = name is not None and len(e.part("arguments").parts) == 1
    return e.part("arguments").parts[0] if of_one and _CONVERTS.fullmatch(name.code) else None


def _computed(e: Piece) -> str:
    """The same in float; "" if it is not a sum, product ... of halves."""
    plain = _COMPUTES.get(e.part("function").code, "") if e.kind == "call_expression" else ""
    return plain if plain and len(e.part("arguments").parts) == plain.count("{}") else ""
