"""Where a NaN or an infinity first appears, by which operation, and from which values.

The kernel runs once more, and what its threads do is recorded: which is the first thread that has a result that is not a number,
or too large for one, while nothing that it was computed from is? The record holds these values; those of the operations within
the statement are computed from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from ...cuda.follow import names_in
from ...cuda.parts import index_of, reached, shown, sign_of
from ...cuda.pieces import Piece
from ...cuda.text import read
from ...cuda.types import FLOAT, kind_of
from ...devices.virtual.replay.expressions import Expression
from ...devices.virtual.replay.record import LOAD, Record, number
from ...devices.virtual.replay.replay import Replay
from ...devices.virtual.replay.session import WRONG
from ...devices.virtual.replay.variables import Frame
from ..findings import Finding
from ..race_timeline import kept

MOST = 6  # values that are shown
MOST_PLACES = 3  # index integers shown with them
TRIED, TRIED_OF_ONE = 256, 64  # values, of all threads and of one
PARTS = 16  # of a long launch
#: PTX type -> the bits of its exponent, all of which are set unless a number is finite
EXPONENTS = {"f16": 0x7C00, "f32": 0x7F800000, "f64": 0x7FF << 52}
SIGNS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
_SAID = {"the logarithm of": (np.log, np.log2, np.log10, np.log1p), "the exponential of": (np.exp, np.exp2)}
FUNCTIONS = {f.__name__: (says, f) for says, of in _SAID.items() for f in of}
FUNCTIONS |= {"sqrt": ("the square root of", np.sqrt), "pow": ("the power of", np.power)}
FUNCTIONS |= {"rsqrt": ("1 over the square root of", lambda x: 1 / np.sqrt(x))}
FUNCTIONS |= {"fdivide": ("the quotient of", np.divide)}
FUNCTIONS |= {f"{name}f": both for name, both in FUNCTIONS.items()}
FUNCTIONS |= {f"__{name}": FUNCTIONS[name] for name in ("logf", "expf", "powf", "fdividef")}
FUNCTIONS["__fsqrt_rn"] = FUNCTIONS["sqrt"]
INSIDE = ("subscript_expression", "subscript_argument_list", "call_expression", "field_expression")


@dataclass(frozen=True)
class Result:
    """A statement that assigns a variable or element. sign: of a compound assignment, else "". operands: what the value is computed
    from; places: the integers of its indices; steps: its operations, inner ones first."""

    statement: Piece
    name: Piece
    sign: str
    value: Piece
    operands: list[Piece]
    places: list[str]
    steps: list[Step]


@dataclass(frozen=True)
class Step:
    """One operation. whole: it, or the value of a compound assignment that it is; text: of its result; sign: the operator or the
    function's name; of: its operands."""

    whole: Piece
    text: str
    sign: str
    of: tuple[Piece, ...]


def explain(source: str, kernel: str, device, launch: Callable[[], object]) -> Finding | None:
    """None if nothing of the kind happens. launch: runs the file."""
    results = [r for function in reached(read(source), kernel) for r in results_of(function.body)]
    every = (at for record in records(device, launch) for at in islice(moments(record), TRIED))
    for at in every if results else ():
        here = [r for r in results if r.statement.line <= at.line <= r.statement.last_line]
        here = [r for r in here if at.variable in ("", r.name.code)]
        for r in here:
            gives = at.gives(r) if len(here) > 1 else None  # which of several statements is it?
            if (gives is None or not math.isfinite(gives)) and (found := described(r, at)):
                return found
    return None


def records(device, launch: Callable[[], object]) -> Iterator[Record]:
    """That of a launch; of a long one, those of its blocks, as many at a time as there is room for."""
    record = kept(device, launch)[1]
    if record and record.full:
        blocks, some = math.prod(record.grid), max(1, len(np.unique(record.rows["who"] >> 10)) - 1)
        parts = (kept(device, launch, n, some)[1] for n in range(0, blocks, some)[:PARTS])
        yield from filter(None, parts)
    elif record:
        yield record


def moments(record: Record) -> Iterator[Moment]:
    """Where a variable gets, or a store is given, what is not finite; the first thread's first."""
    types = [p[-1] if p[0] in ("var", "given") else "" for p in record.points]
    bits = np.array([EXPONENTS.get(t, 0) for t in types], np.uint64)[record.point]
    bad = (bits > 0) & (record.rows["value"] & bits == bits)
    for who in np.unique(record.rows["who"][bad]).tolist():
        rows = record.threads[who]
        replay = Replay(record.of_thread(who), lockstep=False)
        yield from (Moment(replay, who, row) for row in np.flatnonzero(bad[rows])[:TRIED_OF_ONE].tolist())


class Moment:
    """A thread just before it has a value: that of a row. replay: of this thread alone. variable: what gets it; "": memory."""

    def __init__(self, replay: Replay, who: int, row: int):
        self.replay, self.record, self.who, self.row = replay, replay.record, who, row
        kind, self.line, _, _, of, *_ = point = self.record.of(row)
        known = self.record.scopes.variables
        self.variable = "" if kind == "given" else known[of].name if of >= 0 else "?"
        self.now = float(number(int(self.record.rows["value"][row]), point[-1]))
        self.step = replay.step_at(who, int(replay.time[row]))

    @cached_property
    def names(self) -> dict[str, object]:
        frame = Frame(self.replay, self.who, replace(self.step, end=self.row))
        return self.replay.built_in(self.who) | frame.variables()

    @cached_property
    def reads(self) -> np.ndarray:
        """ACCESS[]: the loads of this line so far."""
        a = self.record.accesses
        return a[(a["how"] == LOAD) & (self.step.first <= a["row"]) & (a["row"] < self.row)]

    def element(self, array: str, index: list[int]) -> float:
        """What the thread has just read. Errors: LookupError."""
        n = self.record.number(array)
        held = self.record.arrays[n]
        flat = int(np.ravel_multi_index(index, held.shape)) if len(index) > 1 else index[0]
        for a in self.reads[self.reads["array"] == n][::-1]:
            values, at = self.record.values(a), flat - int(a["offset"]) // held.dtype.itemsize
            if 0 <= at < len(values):
                return float(values[at])
        raise LookupError(array)

    def value(self, e: Piece) -> float | None:
        """Of an expression, in single precision; None if it is not known."""
        while e.kind == "parenthesized_expression":
            e = e.parts[0]
        if e.kind == "conditional_expression":
            held = self.known(e.part("condition").code)
            return None if held is None else self.value(e.part("consequence" if held else "alternative"))
        sign, of = operation(e)
        if of and kind_of(e) == FLOAT:
            return self.computed(sign, of)
        return self.known(e.code)

    def gives(self, r: Result) -> float | None:
        """What a statement assigns here."""
        return self.computed(r.sign, (r.name, r.value)) if r.sign in SIGNS else self.value(r.value)

    def known(self, text: str) -> int | float | None:
        try:
            found = Expression(text).value(self.names, self.element)
        except WRONG:
            return None
        return found if isinstance(found, int | float) else None

    def comes_to(self, e: Piece, statement: Piece) -> bool:
        """Whether the conditions between the statement and a part of it lead there; not if they are not known."""
        while e != statement:
            inner, e = e, e.outer
            if e.kind == "conditional_expression" and inner != e.part("condition"):
                held = self.known(e.part("condition").code)
                if held is None or bool(held) != (inner == e.part("consequence")):
                    return False
        return True

    def computed(self, sign: str, of: tuple[Piece, ...]) -> float | None:
        values = [self.value(e) for e in of]
        if None in values:
            return None
        function = SIGNS.get(sign) or FUNCTIONS[sign][1]
        with np.errstate(all="ignore"):
            return float(function(*map(np.float32, values)))


def operation(e: Piece) -> tuple[str, tuple[Piece, ...]]:
    """(the operator or the function's name, its operands) of an expression; no operands if it is none that is known."""
    if e.kind == "call_expression":
        name, of = e.part("function").code, tuple(e.part("arguments").parts)
        return name, of if name in FUNCTIONS and 0 < len(of) < 3 else ()
    sign = sign_of(e)
    return sign, (e.part("left"), e.part("right")) if sign in SIGNS else ()


def results_of(body: Piece) -> Iterator[Result]:
    for e in body.all("assignment_expression", "init_declarator"):
        name, value = e.part("left") or e.part("declarator"), e.part("right") or e.part("value")
        sign = e.part("operator").code[:-1] if e.kind == "assignment_expression" else ""
        if value and (FLOAT in (kind_of(name), kind_of(value)) or is_member(name)):
            statement = e.outer if e.outer.kind in ("expression_statement", "declaration") else e
            own = [name] * bool(sign) + operands(value)
            yield Result(statement, name, sign, value, own, places(statement), steps(sign, name, value))


def is_member(e: Piece) -> bool:
    """Whether it is a member of a structure of the file's own, whose type the text does not say."""
    base = e.part("argument") if e.kind == "field_expression" else None
    is_name = bool(base) and base.kind == "identifier"
    return is_name and bool(e.file.variable_at(base.code, e.start)) and not kind_of(e)


def operands(value: Piece) -> list[Piece]:
    """The float variables and elements in an expression, each once."""
    kinds = ("identifier", "subscript_expression", "field_expression")
    found: dict[str, Piece] = {}
    for p in (value, *value.all(*kinds)):
        alone = p == value or p.outer.kind not in INSIDE
        if alone and p.kind in kinds and (kind_of(p) == FLOAT or is_member(p)):
            found.setdefault(shown(p), p)
    return list(found.values())[:MOST]


def places(statement: Piece) -> list[str]:
    """The integer variables of the indices in a statement."""
    indices = [i for access in statement.all("subscript_expression") if (i := index_of(access))]
    names = (name for index in indices for name in names_in(index.file, index, statement.start))
    return list(dict.fromkeys(names))[:MOST_PLACES]


def steps(sign: str, name: Piece, value: Piece) -> list[Step]:
    """The operations of a value, inner ones first, and that of a compound assignment."""
    found = {}
    for p in (value, *value.all("binary_expression", "call_expression")):
        own, of = operation(p)
        if of and kind_of(p) == FLOAT:
            found[p.start, p.end] = Step(p, shown(p), own, of)
    inner = sorted(found, key=lambda at: at[1] - at[0])  # they are shorter
    whole = [Step(value, f"{shown(name)} {sign} {shown(value)}", sign, (name, value))] * (sign in SIGNS)
    return [*(found[at] for at in inner), *whole]


def described(r: Result, at: Moment) -> Finding | None:
    """None if the value comes from others that are no better."""
    values = {shown(e): x for e in r.operands if (x := at.value(e)) is not None}
    read = [float(x) for a in at.reads[at.reads["array"] >= 0] for x in at.record.values(a)]
    worse = math.isnan if math.isnan(at.now) else lambda x: not math.isfinite(x)
    if any(worse(x) for x in (*values.values(), *read)):
        return None
    made = next(operations(r, at), None)
    if not values and (not made or math.isinf(at.now)):  # as `float best = -1.0f / 0.0f`
        return None
    known = ((name, at.known(name)) for name in r.places)
    where = ", ".join(f"{name} = {x:g}" for name, x in known if isinstance(x, int))
    named = [f"{name} = {x:.5g}" for name, x in values.items()]
    facts = dict(value=at.now, at=where, code=shown(r.statement).rstrip(";"), operands=named)
    return Finding.of("not_finite", r.statement.line, operation=made, **facts)


def operations(r: Result, at: Moment) -> Iterator[dict]:
    """Those whose result is not finite, or no number, though their operands are."""
    for step in r.steps:
        values, c = [at.value(e) for e in step.of], at.computed(step.sign, step.of)
        if c is None or any(map(math.isnan, values)) or not at.comes_to(step.whole, r.statement):
            continue
        both = math.isnan(c) and math.isnan(at.now)
        if both or math.isinf(c) and math.isinf(at.now) and all(map(math.isfinite, values)):
            name = step.sign if step.sign in SIGNS else FUNCTIONS[step.sign][0]
            yield dict(step=step.text, name=name, operands=values)
