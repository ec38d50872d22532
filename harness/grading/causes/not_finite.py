"""Where a NaN or an infinity arises first, and from which values.

The kernel runs once more with every assignment of a float followed by a test. The first result that is not a number, or
too large for one, while nothing that it was computed from is, notes its line and these values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...course.cuda_text import Piece, edited, read
from ...course.cuda_types import FLOAT, kind_of
from ...errors import BackwarpError
from .findings import reached, shown

MOST = 6  # values that are noted
ARISES = "arises first in line"
PLACES = (
    "compound_statement",
    "for_statement",
    "while_statement",
    "if_statement",
    "else_clause",
    "do_statement",
)


@dataclass(frozen=True)
class Result:
    """A statement that gives a variable or element a value. operands: what it is computed from."""

    statement: Piece
    name: Piece
    value: Piece
    operands: list[Piece]
    declares: bool


def told(source: str, kernel: str, device, launch: Callable[[str], object]) -> str:
    """The sentence; "" where nothing of the kind happens. launch(source): runs this text in place of the file."""
    file = read(source)
    results = [
        r for function in reached(file, kernel) for r in results_of(function.body) if r.operands
    ]  # not of `float best = -INFINITY`
    if not results:
        return ""
    notes = device.array(np.zeros(2 + MOST, np.float64), name="notes")
    try:
        launch(
            edited(source, [(r.statement, noting(r, i + 1, notes.pointer)) for i, r in enumerate(results)])
        )
    except BackwarpError:  # the noted text may not compile, where a value has an unusual type
        return ""
    found = notes.get()
    number = int(found[:1].view(np.int64)[0])
    return described(results[number - 1], *found[1:].tolist()) if number else ""


def results_of(body: Piece) -> Iterator[Result]:
    for e in body.all("assignment_expression"):
        statement, name, value = e.outer, e.part("left"), e.part("right")
        if (
            statement.kind == "expression_statement"
            and statement.outer.kind in PLACES
            and plain(e, name, value)
        ):
            changes = e.part("operator").code != "="
            yield Result(statement, name, value, [name] * changes + operands(value), False)
    for e in body.all("init_declarator"):
        statement, name, value = e.outer, e.part("declarator"), e.part("value")
        one = statement.kind == "declaration" and statement.outer.kind == "compound_statement"
        if one and len(list(statement.all("init_declarator"))) == 1 and name.kind == "identifier" and value:
            known = e.file.names_at(statement.end).get(name.code)
            local = (
                known and known.type in ("float", "const float") and not known.pointer and not known.extents
            )
            if local and not {"__shared__", "static"} & set(known.words) and plain(e, value):
                yield Result(statement, name, value, operands(value), True)


def plain(e: Piece, *sides: Piece) -> bool:
    """Whether a value may be computed twice, and is of floats."""
    changing = [
        p
        for side in sides
        for p in side.all("update_expression", "assignment_expression", "lambda_expression")
    ]
    return not changing and (e.kind == "init_declarator" or kind_of(sides[0]) == FLOAT)


def operands(value: Piece) -> list[Piece]:
    """The variables and elements of floats in an expression, each once; no element that may not exist."""
    kinds = (
        ("identifier",)
        if any(value.all("conditional_expression"))
        else ("identifier", "subscript_expression")
    )
    found: dict[str, Piece] = {}
    for p in (value, *value.all(*kinds)):
        outer = p.outer
        inside = outer.kind in (
            "subscript_expression",
            "subscript_argument_list",
            "call_expression",
            "field_expression",
        )
        if p.kind in kinds and kind_of(p) == FLOAT and not (inside and p != value):
            found.setdefault(shown(p), p)
    return list(found.values())[:MOST]


def noting(r: Result, number: int, address: int) -> str:
    """The statement and, behind it, the test. At the address: the number of the result, its value, its operands."""
    at, count = f"((volatile double*){address}ull)", len(r.operands)
    before = "".join(f"double was_{i} = ({p.code}); " for i, p in enumerate(r.operands))
    known = "".join(f" && was_{i} == was_{i}" for i in range(count))
    finite = "".join(f" && was_{i} - was_{i} == 0" for i in range(count))
    values = "".join(f" {at}[{2 + i}] = was_{i};" for i in range(count))
    test = (
        f"{{ double now = ({r.name.code}); if ((now != now{known}) || (now == now && now - now != 0{finite})) "
        f"if (atomicCAS((unsigned long long*){address}ull, 0ull, {number}ull) == 0ull) {{ {at}[1] = now;{values} }} }}"
    )
    if r.declares:
        return f"{r.statement.code} {{ {before}{test} }}"
    return f"{{ {before}{r.statement.code} {test} }}"


def described(r: Result, now: float, *values: float) -> str:
    word = "nan" if now != now else f"{now:g}"
    named = [f"{shown(p)} = {x:.5g}" for p, x in zip(r.operands, values, strict=False)]
    return f"{word} {ARISES} {r.statement.line}, {shown(r.statement).rstrip(';')}, where {', '.join(named)}."
