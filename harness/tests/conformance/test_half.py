"""Half precision and bfloat16, one by one and packed in pairs."""

from __future__ import annotations

import math
from functools import partial

import pytest

from tests.conformance import exact
from tests.conformance.exact import BF16, F16, NAN
from tests.conformance.ptx_rows import FORMATS, Case, Near, check, compared, number

FUNCTIONS = {"add": exact.add, "sub": exact.sub, "mul": exact.mul, "fma": exact.fma}
CANONICAL = 0x7FFF


def scalar_and_packed(opcode: str, type_: str, operands: int, function) -> list[Case]:
    """`opcode.f16` with a function of patterns, and `opcode.f16x2`, which does the same in both halves."""

    def packed(*words: int) -> tuple:
        halves = ([w & 0xFFFF for w in words], [w >> 16 for w in words])
        return tuple(function(*lane) for lane in halves)

    names = ", ".join("abc"[:operands])
    return [
        Case(f"{opcode}.{type_} d, {names}", f"{' '.join([type_] * operands)} -> {type_}", function),
        Case(f"{opcode}.{type_}x2 d, {names}", f"{' '.join([type_ + 'x2'] * operands)} -> {type_}x2", packed),
    ]


def relu(f, x: int) -> int:
    if x is NAN or f.is_nan(x):
        return CANONICAL
    return 0 if f.is_negative(x) else x


def arithmetic(op: str, type_: str, ftz: str, end: str, *operands: int) -> int:
    f = FORMATS[type_]
    if ftz:
        operands = [f.flush(x) for x in operands]
    result = FUNCTIONS[op](f, *operands)
    result = f.flush(result) if ftz else result
    return {"": lambda: result, ".sat": lambda: f.saturate(result), ".relu": lambda: relu(f, result)}[end]()


ARITHMETIC = []
for op in ("add", "sub", "mul"):
    for mode in ("", ".rn"):
        for ftz in ("", ".ftz"):
            for sat in ("", ".sat"):
                ARITHMETIC += scalar_and_packed(
                    op + mode + ftz + sat, "f16", 2, partial(arithmetic, op, "f16", ftz, sat)
                )
FUSED = []
for ftz in ("", ".ftz"):
    for end in ("", ".sat", ".relu"):
        FUSED += scalar_and_packed(f"fma.rn{ftz}{end}", "f16", 3, partial(arithmetic, "fma", "f16", ftz, end))
for end in ("", ".relu"):
    FUSED += scalar_and_packed(f"fma.rn{end}", "bf16", 3, partial(arithmetic, "fma", "bf16", "", end))

#: products that are ties, moved by an addend, for bfloat16 one beyond the precision of double
TIES = [
    Case("fma.rn.bf16 d, a, 0x3F81, 0x1000", "bf16 -> bf16", lambda a: exact.fma(BF16, a, 0x3F81, 0x1000)),
    Case("fma.rn.bf16 d, a, 0x3F81, 0x9000", "bf16 -> bf16", lambda a: exact.fma(BF16, a, 0x3F81, 0x9000)),
    Case("fma.rn.bf16 d, a, a, 0x0001", "bf16 -> bf16", lambda a: exact.fma(BF16, a, a, 1)),
    Case("fma.rn.f16 d, a, 0x3C01, 0x0001", "f16 -> f16", lambda a: exact.fma(F16, a, 0x3C01, 1)),
    Case("fma.rn.f16 d, a, 0x0001, 0x3C00", "f16 -> f16", lambda a: exact.fma(F16, a, 1, F16.one)),
    Case("fma.rn.f16 d, a, a, 0x8001", "f16 -> f16", lambda a: exact.fma(F16, a, a, 0x8001)),
]


def pick(sign: int, type_: str, ftz: str, nan: str, a: int, b: int) -> int:
    f = FORMATS[type_]
    if ftz:
        a, b = f.flush(a), f.flush(b)
    result = exact.minimum(f, a, b, bool(nan), sign)
    return CANONICAL if nan and result is NAN else result


def one(function, type_: str, ftz: str, a: int) -> int:
    f = FORMATS[type_]
    return NAN if f.is_nan(a) else function(f, f.flush(a) if ftz else a)


SIGNS = []
for t in ("f16", "bf16"):
    for ftz in ("", ".ftz") if t == "f16" else ("",):
        SIGNS += scalar_and_packed("neg" + ftz, t, 1, partial(one, lambda f, x: x ^ f.sign, t, ftz))
        SIGNS += scalar_and_packed("abs" + ftz, t, 1, partial(one, lambda f, x: x & ~f.sign, t, ftz))
        for op, sign in (("min", 1), ("max", -1)):
            for nan in ("", ".NaN"):
                SIGNS += scalar_and_packed(op + ftz + nan, t, 2, partial(pick, sign, t, ftz, nan))


def near(function, error: dict, a: int):
    if F16.is_nan(a):
        return NAN
    value = function(number(F16, a))
    return Near(math.inf if value >= 65520 else value, **error)


#: the manual's errors, and half a unit in the last place of the result
EXP2 = partial(near, lambda x: 2.0**x if x < 100 else math.inf, {"relative": 2.0**-9.9, "absolute": 2.0**-24})
TANH = partial(near, math.tanh, {"absolute": 2.0**-10.987})
APPROXIMATE = [
    *scalar_and_packed("ex2.approx", "f16", 1, EXP2),
    *scalar_and_packed("tanh.approx", "f16", 1, TANH),
]

GROUPS = {"arithmetic": ARITHMETIC, "fused": FUSED, "ties": TIES, "signs": SIGNS, "approximate": APPROXIMATE}


@compared
@pytest.mark.parametrize("group", GROUPS)
def test_half(unchecked_device, group, every):
    check(unchecked_device, GROUPS[group], every)
