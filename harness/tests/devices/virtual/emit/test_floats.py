"""Minimum and maximum where the compiler knows that an operand is no NaN, at every level of its optimisation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from backwarp.devices.virtual.compile.recipes import RECIPES
from backwarp.devices.virtual.device import VirtualGPU
from tests.conformance import exact
from tests.conformance.exact import NAN
from tests.conformance.ptx_rows import FORMATS, Case, check

#: type -> PTX that makes `e`, which cannot be a NaN, of a u16 `b`; the type of `e`'s pattern
KNOWN = {
    "f32": "cvt.rn.f32.u16 e, b",
    "f64": "cvt.rn.f64.u16 e, b",
    "f16": "cvt.rn.f16.u16 e, b",
    "bf16": "and.b16 e, b, 0x3FFF",
}


def known(type_: str, b: int) -> int:
    return b & 0x3FFF if type_ == "bf16" else FORMATS[type_].round(exact.Fraction(b))


def pick(sign: int, type_: str, nan: str, swapped: bool, a: int, b: int):
    f, e = FORMATS[type_], known(type_, b)
    result = exact.minimum(f, *((e, a) if swapped else (a, e)), bool(nan), sign)
    return f.infinity | (1 << f.fraction) - 1 if nan and result is NAN else result


def constant(sign: int, f: exact.Format, number: int, a: int):
    return exact.minimum(f, a, number, sign=sign)


CASES = [
    Case(
        f"{make}; {op}{nan}.{t} d, {'e, a' if swapped else 'a, e'}",
        f"{t} u16 -> {t}",
        partial(pick, sign, t, nan, swapped),
    )
    for t, make in KNOWN.items()
    for op, sign in (("min", 1), ("max", -1))
    for nan in ("", ".NaN")
    if (t, nan) != ("f64", ".NaN")
    for swapped in (False, True)
]
CASES += [
    Case(f"{op}.f32 d, a, 0f{number:08X}", "f32 -> f32", partial(constant, sign, exact.F32, number))
    for op, sign in (("min", 1), ("max", -1))
    for number in (0, 0x80000000, 0x3F800000, 0x7F800000, 0x7FC00000)
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("level", [0, 3, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2))])
def test_a_number_goes_before_a_nan(monkeypatch, level):
    monkeypatch.setitem(RECIPES, "none", replace(RECIPES["none"], llvm=level))
    with VirtualGPU("none") as device:
        check(device, CASES)
