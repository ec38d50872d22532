"""How the opcodes of `ptx/isa` that only compute become LLVM.

A row's pattern is written in the manual's notation, as in `ptx/isa`, which says what operands it has. There are three
kinds of bodies:

* LLVM text, for `row`: instructions separated by `;`, the last one is the result; `{a}`, `{b}`, `{c}` are the
  operands as the row's type `{t}` (`{s}` in names of intrinsics), `{0}`, `{1}` earlier results;
* a function of (emitter, modifiers, operands as LLVM values) that returns the result, for `@row`;
* a function of (emitter, instruction, modifiers, operands as text) that sets the destination itself, for
  `@statement`: where operands or results are not all of the type named last.

The first two work on one value of the type; packed types (.f16x2), .ftz, .sat and .relu are added here.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cache

from ..ptx.spellings import compiled
from ..ptx.types import TYPES, is_float, llvm_type

PACKED = {"f16x2": "f16", "bf16x2": "bf16"}

#: the type as which an operand is read, if arithmetic is not done in LLVM's type of that name
REGISTER = {"bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "tf32": "b32"}

_INTRINSIC = {"half": "f16", "float": "f32", "double": "f64"}


@dataclass(frozen=True)
class Row:
    """pattern, body, whether the body sets the destination itself, and how many operands it can take."""

    pattern: str
    regex: re.Pattern
    body: object
    is_statement: bool
    operands: range


#: opcode up to its first dot -> its rows
ROWS: dict[str, list[Row]] = {}


def row(*patterns: str):
    """Register patterns for a body: `row("add.<int>")("add {t} {a}, {b}")`, or as a decorator."""

    def register(body):
        if callable(body):
            count = _parameters(body, 2, 1)
        else:
            used = len(set(re.findall(r"\{([abc])\}", body)))
            count = range(used + 1, used + 2)
        _register(patterns, body, False, count)
        return body

    return register


def statement(*patterns: str):
    """Register patterns for a function of (emitter, instruction, modifiers, operands...)."""

    def register(body):
        _register(patterns, body, True, _parameters(body, 3))
        return body

    return register


def _parameters(function, fixed: int, more: int = 0) -> range:
    """How many operands a body takes after its `fixed` parameters, and `more`; those with a default may be absent."""
    parameters = list(inspect.signature(function).parameters.values())[fixed:]
    needed = more + sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in parameters)
    open_ = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return range(needed, 1000 if open_ else more + len(parameters) + 1)


def _register(patterns, body, is_statement: bool, operands: range) -> None:
    for pattern in patterns:
        base = re.match(r"\w+", pattern)[0]
        ROWS.setdefault(base, []).append(Row(pattern, compiled(pattern), body, is_statement, operands))


@cache
def find(opcode: str) -> Row | None:
    """The row of a full opcode spelling."""
    for candidate in ROWS.get(opcode.split(".", 1)[0], ()):
        if candidate.regex.fullmatch(opcode):
            return candidate
    return None


# -- lowering ----------------------------------------------------------------------------------------


def emit(e, ins) -> bool:
    """Lower one instruction through the table. False: the table has no such row."""
    found = find(ins.opcode)
    if found is None:
        return False
    mods = list(ins.op.mods)
    if found.is_statement:
        found.body(e, ins, mods, *ins.operands)
    else:
        register = REGISTER.get(mods[-1], mods[-1])
        values = [e.value(operand, register) for operand in ins.operands[1:]]
        e.set(ins.operands[0], compute(e, found.body, mods, *values), register)
    return True


def compute(e, body, mods: list[str], *values: str) -> str:
    """A body applied to values of the type that `mods` ends in, with .ftz, .sat and .relu added."""
    type_ = mods[-1]
    if type_ in PACKED:
        scalar = mods[:-1] + [PACKED[type_]]
        halves = zip(*(unpack(e, v, PACKED[type_]) for v in values), strict=True)
        return pack(e, PACKED[type_], *(compute(e, body, scalar, *half) for half in halves))
    if "ftz" in mods:
        values = [flush(e, v, type_) for v in values]
    if callable(body):
        result = body(e, mods, *values)
    else:
        result = expand(e, body, type_, **dict(zip("abc", values, strict=False)))
    if "ftz" in mods:
        result = flush(e, result, type_)
    if "sat" in mods and is_float(type_):
        result = saturate(e, result, type_)
    return relu(e, result, type_) if "relu" in mods else result


def expand(e, body: str, type_: str, **values: str) -> str:
    """Emit the instructions of a template; returns the last result."""
    results: list[str] = []
    for line in _lines(body, type_):
        results.append(e.emit(line.format(*results, **values)))
    return results[-1]


@cache
def _lines(body: str, type_: str) -> list[str]:
    """The lines of a template, for a type."""
    t, bits = TYPES[type_]
    body = body.replace("{t}", t).replace("{s}", _INTRINSIC.get(t, f"i{bits}"))
    return [line.strip() for line in body.split(";")]


def unpack(e, value: str, scalar: str) -> list[str]:
    """The low and the high half of a 32-bit value as values of type `scalar`."""
    halves = [e.cast("trunc", "i32", v, "i16") for v in (value, e.op("lshr i32", value, 16))]
    return [e.cast("bitcast", "i16", h, "half") for h in halves] if scalar == "f16" else halves


def pack(e, scalar: str, low: str, high: str) -> str:
    halves = (e.cast("bitcast", "half", v, "i16") for v in (low, high)) if scalar == "f16" else (low, high)
    low, high = (e.cast("zext", "i16", h, "i32") for h in halves)
    return e.op("or i32", e.op("shl i32", high, 16), low)


# -- modifiers ---------------------------------------------------------------------------------------


def flush(e, value: str, type_: str) -> str:
    """.ftz: a subnormal becomes a zero of its sign."""
    if type_ == "f16":  # on its bits: LLVM 22 has no copysign of halves on x86
        raw = e.cast("bitcast", "half", value, "i16")
        zero = e.cast("bitcast", "i16", e.op("and i16", raw, -0x8000), "half")
        small = e.op("icmp ult i16", e.op("and i16", raw, 0x7FFF), 0x0400)
        return e.emit(f"select i1 {small}, half {zero}, half {value}")
    smallest = {"f32": "0x3810000000000000", "f64": "0x0010000000000000"}[type_]
    return expand(
        e,
        f"call {{t}} @llvm.fabs.{{s}}({{t}} {{a}}); fcmp olt {{t}} {{0}}, {smallest};"
        "call {t} @llvm.copysign.{s}({t} 0.0, {t} {a}); select i1 {1}, {t} {2}, {t} {a}",
        type_,
        a=value,
    )


def saturate(e, value: str, type_: str) -> str:
    """.sat: clamp to [0, 1]; NaN -> +0."""
    return expand(
        e,
        "fcmp ogt {t} {a}, 0.0; select i1 {0}, {t} {a}, {t} 0.0; fcmp olt {t} {1}, 1.0;"
        "select i1 {2}, {t} {1}, {t} 1.0",
        type_,
        a=value,
    )


def relu(e, value: str, type_: str) -> str:
    """.relu: anything not positive becomes +0, a NaN the canonical one. bf16 and tf32 are given as bits."""
    if type_ != "f16":
        t, nan, infinity = ("i16", 0x7FFF, 0x7F80) if type_ == "bf16" else ("i32", 0x7FFFFFFF, 0x7F800000)
        positive = e.emit(f"call {t} @llvm.smax.{t}({t} {value}, {t} 0)")
        is_nan = e.op(f"icmp ugt {t}", e.op(f"and {t}", value, nan), infinity)
        return e.emit(f"select i1 {is_nan}, {t} {nan}, {t} {positive}")
    positive = expand(e, "fcmp ogt {t} {a}, 0.0; select i1 {0}, {t} {a}, {t} 0.0", type_, a=value)
    return canonical_nan(e, positive, type_, value)


def canonical_nan(e, value: str, type_: str, *tested: str) -> str:
    """`value`, or the canonical NaN (all ones except the sign) if one of `tested` is a NaN."""
    t = llvm_type(type_)
    nan = {"half": "0xH7FFF", "float": "0x7FFFFFFFE0000000", "double": "0x7FFFFFFFFFFFFFFF"}[t]
    is_nan = e.op(f"fcmp uno {t}", tested[0], tested[-1])
    return e.emit(f"select i1 {is_nan}, {t} {nan}, {t} {value}")
