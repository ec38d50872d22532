"""Where a NaN or an infinity first appears, by which operation, and from which values.

The kernel runs again with every assignment of a float followed by a test: which is the first thread that has a result that
is not a number, or too large for one, while nothing that it was computed from is? Then once more: that thread notes the line,
these values, and those of the operation that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...cuda.follow import names_in
from ...cuda.parts import index_of, reached, shown, sign_of
from ...cuda.pieces import Piece
from ...cuda.text import edited, read
from ...cuda.types import FLOAT, kind_of
from ...errors import BackwarpError
from ..findings import Finding

MOST = 6  # values that are recorded
MOST_PLACES = 3  # index integers recorded with them
NOBODY = np.iinfo(np.uint64).max
PLACES = (
    "compound_statement",
    "for_statement",
    "while_statement",
    "if_statement",
    "else_clause",
    "do_statement",
)


SIGNS = ("+", "-", "*", "/")
FUNCTIONS = {
    **dict.fromkeys(("logf", "log", "__logf", "log2f", "log10f", "log1pf"), "the logarithm of"),
    **dict.fromkeys(("expf", "exp", "__expf", "exp2f", "exp10f"), "the exponential of"),
    **dict.fromkeys(("sqrtf", "sqrt", "__fsqrt_rn"), "the square root of"),
    **dict.fromkeys(("rsqrtf", "rsqrt"), "1 over the square root of"),
    **dict.fromkeys(("powf", "pow", "__powf"), "the power of"),
    **dict.fromkeys(("__fdividef", "fdividef"), "the quotient of"),
}
THREAD = (  # its number in the launch
    "((unsigned long long)((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * "
    "(blockDim.x * blockDim.y * blockDim.z) + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x)"
)


@dataclass(frozen=True)
class Result:
    """A statement that assigns a variable or element. operands: what the value is computed from; places: the
    integers of its indices; steps: its operations, inner ones first."""

    statement: Piece
    name: Piece
    value: Piece
    operands: list[Piece]
    places: list[str]
    steps: list[Step]
    declares: bool


@dataclass(frozen=True)
class Step:
    """One operation. text: of its result; sign: the operator or the function's name; from_: texts of its
    operands."""

    text: str
    sign: str
    from_: tuple[str, ...]


def explain(source: str, kernel: str, device, launch: Callable[[str], object]) -> Finding | None:
    """None if nothing of the kind happens. launch(source): runs this text in place of the
    file."""
    file = read(source)
    results = [
        r for function in reached(file, kernel) for r in results_of(function.body) if r.operands
    ]  # not of `float best = -INFINITY`
    if not results:
        return None
    steps = max(len(r.steps) for r in results)
    notes = device.array(np.full(4 + MOST + MOST_PLACES + 3 * steps, NOBODY), name="notes")
    try:
        for seek in (True, False):
            edits = [(r.statement, noting(r, i + 1, notes.pointer, seek)) for i, r in enumerate(results)]
            launch(edited(source, edits))
            if notes.get()[0] == NOBODY:
                return None
    except BackwarpError:  # the instrumented text may not compile if a value has an unusual type
        return None
    number, *values = notes.get()[1:]
    known = np.array(values, np.uint64).view(np.float64).tolist()
    return described(results[number - 1], *known) if number != NOBODY else None


def results_of(body: Piece) -> Iterator[Result]:
    for e in body.all("assignment_expression"):
        statement, name, value = e.outer, e.part("left"), e.part("right")
        if (
            statement.kind == "expression_statement"
            and statement.outer.kind in PLACES
            and plain(e, name, value)
        ):
            changes = e.part("operator").code != "="
            own = [name] * changes + operands(value)
            yield Result(statement, name, value, own, places(statement), steps(e, value), False)
    for e in body.all("init_declarator"):
        statement, name, value = e.outer, e.part("declarator"), e.part("value")
        one = statement.kind == "declaration" and statement.outer.kind == "compound_statement"
        if one and len(list(statement.all("init_declarator"))) == 1 and name.kind == "identifier" and value:
            known = e.file.variable_at(name.code, statement.end)
            local = (
                known and known.type in ("float", "const float") and not known.pointer and not known.extents
            )
            if local and not {"__shared__", "static"} & set(known.words) and plain(e, value):
                yield Result(
                    statement, name, value, operands(value), places(statement), steps(e, value), True
                )


def plain(e: Piece, *sides: Piece) -> bool:
    """Whether a value is of floats and can be computed twice without side effects."""
    changing = [
        p
        for side in sides
        for p in side.all("update_expression", "assignment_expression", "lambda_expression")
    ]
    return not changing and (e.kind == "init_declarator" or kind_of(sides[0]) == FLOAT or is_member(sides[0]))


def is_member(e: Piece) -> bool:
    """Whether it is a member of a structure of the file's own, whose type the text does not say."""
    base = e.part("argument") if e.kind == "field_expression" else None
    return (
        bool(base)
        and base.kind == "identifier"
        and bool(e.file.variable_at(base.code, e.start))
        and not kind_of(e)
    )


def operands(value: Piece) -> list[Piece]:
    """The float variables and elements in an expression, each once; no element that may not exist."""
    kinds = (
        ("identifier", "field_expression")
        if any(value.all("conditional_expression"))
        else ("identifier", "subscript_expression", "field_expression")
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
        float_ = kind_of(p) == FLOAT or is_member(p)
        if p.kind in kinds and float_ and not (inside and p != value):
            found.setdefault(shown(p), p)
    return list(found.values())[:MOST]


def places(statement: Piece) -> list[str]:
    """The integer variables of the indices in a statement."""
    indices = [i for access in statement.all("subscript_expression") if (i := index_of(access))]
    names = (name for index in indices for name in names_in(index.file, index, statement.start))
    return list(dict.fromkeys(names))[:MOST_PLACES]


def steps(e: Piece, value: Piece) -> list[Step]:
    """The operations of a value, and of the compound assignment around it; none if the value has a
    conditional, as one of its sides may not be computable."""
    if any(value.all("conditional_expression", "lambda_expression")):
        return []
    found = []
    for p in (value, *value.all("binary_expression", "call_expression")):
        called = p.part("function") if p.kind == "call_expression" else None
        sides = (
            p.part("arguments").parts if called else [p.part("left"), p.part("right")] if sign_of(p) else []
        )
        known = sign_of(p) in SIGNS or called and called.code in FUNCTIONS
        if known and 0 < len(sides) < 3 and kind_of(p) == FLOAT:
            step = Step(shown(p), called.code if called else sign_of(p), tuple(side.code for side in sides))
            found.append((p.end - p.start, step))
    found = [
        step for _, step in sorted(dict.fromkeys(found), key=lambda f: f[0])
    ]  # inner operations are shorter
    if e.kind == "assignment_expression" and (sign := e.part("operator").code.rstrip("=")) in SIGNS:
        name = e.part("left")
        found.append(Step(f"{shown(name)} {sign} {shown(value)}", sign, (name.code, value.code)))
    return found


def noting(r: Result, number: int, address: int, seek: bool) -> str:
    """The statement followed by the test. At the address: the first thread found; then that thread's result
    number, value, places, operands, and two operands and a result for each step. seek: the thread."""
    at, word = f"((volatile double*){address}ull)", f"((unsigned long long*){address}ull)"
    before = [f"double was_{i} = ({p.code});" for i, p in enumerate(r.operands)]
    known = "".join(f" && was_{i} == was_{i}" for i in range(len(r.operands)))
    finite = "".join(f" && was_{i} - was_{i} == 0" for i in range(len(r.operands)))
    if seek:
        note = f"atomicMin({word}, {THREAD});"
    else:
        values = [*r.places, *(f"was_{i}" for i in range(len(r.operands)))]
        for i, step in enumerate(r.steps):
            for name, text in zip("abc", (step.from_[0], step.from_[-1], step.text), strict=True):
                before.append(f"double {name}_{i} = ({text});")
                values.append(f"{name}_{i}")
        stores = "".join(f" {at}[{3 + i}] = {value};" for i, value in enumerate(values))
        note = f"if ({word}[0] == {THREAD} && {word}[1] == ~0ull) {{ {word}[1] = {number}; {at}[2] = now;{stores} }}"
    test = f"{{ double now = ({r.name.code}); if ((now != now{known}) || (now == now && now - now != 0{finite})) {{ {note} }} }}"
    if r.declares:
        return f"{r.statement.code} {{ {' '.join(before)} {test} }}"
    return f"{{ {' '.join(before)} {r.statement.code} {test} }}"


def described(r: Result, now: float, *values: float) -> Finding:
    at, own = values[: len(r.places)], values[len(r.places) :]
    where = ", ".join(f"{name} = {x:g}" for name, x in zip(r.places, at, strict=True))
    named = [f"{shown(p)} = {x:.5g}" for p, x in zip(r.operands, own, strict=False)]
    facts = dict(value=now, at=where, code=shown(r.statement).rstrip(";"), operands=named)
    for i, step in enumerate(r.steps):
        a, b, c = own[len(r.operands) + 3 * i : len(r.operands) + 3 * i + 3]
        made = c != c and now != now or np.isinf([c, now]).all() and np.isfinite([a, b]).all()
        if made and a == a and b == b:
            name, two = FUNCTIONS.get(step.sign, ""), len(step.from_) == 2
            operation = dict(step=step.text, name=name or step.sign, operands=[a, b] if two else [a])
            return Finding.of("not_finite", r.statement.line, operation=operation, **facts)
    return Finding.of("not_finite", r.statement.line, operation=None, **facts)
