"""`cvt` between all pairs of types, in every rounding, with .ftz and .sat; the formats of neural networks."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import pytest

from tests.conformance import exact
from tests.conformance.exact import BF16, F16, F32, F64, NAN, Format
from tests.conformance.ptx_rows import FORMATS, Case, check, compared

ROUND = ("rn", "rz", "rm", "rp")
ROUND_TO_INTEGER = ("rni", "rzi", "rmi", "rpi")
INTS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
FLOATS = ("f16", "f32", "f64")
WIDTH = {**{t: int(t[1:]) for t in INTS}, "f16": 16, "f32": 32, "f64": 64}


def ends(type_: str) -> tuple[int, int]:
    n = WIDTH[type_]
    return (-(1 << n - 1), (1 << n - 1) - 1) if type_[0] == "s" else (0, (1 << n) - 1)


def wrap(x: int, type_: str) -> int:
    """The low bits of x as a value of an integer type."""
    n = WIDTH[type_]
    x &= (1 << n) - 1
    return x - (1 << n) if type_[0] == "s" and x >> n - 1 else x


def clamp(x: int, type_: str) -> int:
    low, high = ends(type_)
    return min(max(x, low), high)


def held(type_: str, fine: bool = False) -> str:
    """The type that the register of an 8-bit value has, and for floats the values to try."""
    if type_ in ("u8", "s8"):
        return "b32"
    return type_ + "i" if fine and type_ in ("f32", "f64") else type_


def case(mods: str, to: str, source: str, function) -> Case:
    return Case(f"cvt{mods}.{to}.{source} d, a", f"{held(source, fine=True)} -> {held(to)}", function)


# -- integers ----------------------------------------------------------------------------------------


def integer(to: str, source: str, sat: bool, a: int) -> int:
    a = wrap(a, source)
    return clamp(a, to) if sat else wrap(a, to)


INTEGERS = []
for source in INTS:
    for to in INTS:
        INTEGERS.append(case("", to, source, partial(integer, to, source, False)))
        if ends(to)[0] > ends(source)[0] or ends(to)[1] < ends(source)[1]:
            INTEGERS.append(case(".sat", to, source, partial(integer, to, source, True)))
WIDER = [  # the register of the result is wider than its type, or that of the source
    Case("cvt.s16.s32 d, a", "s32 -> b32", lambda a: wrap(a, "s16")),
    Case("cvt.u16.s32 d, a", "s32 -> b32", lambda a: a & 0xFFFF),
    Case("cvt.s64.s16 d, a", "b64 -> b64", lambda a: wrap(a, "s16")),
    Case("cvt.u32.u64 d, a", "b64 -> b64", lambda a: a & 0xFFFFFFFF),
    Case("cvt.rn.f32.s8 d, a", "b64 -> f32", lambda a: F32.round(Fraction(wrap(a, "s8")))),
    Case("cvt.s32.s8 d, a", "b16 -> b64", lambda a: wrap(a, "s8")),
]


# -- integers and floats -----------------------------------------------------------------------------


def to_float(to: str, source: str, mode: str, ftz: str, sat: str, a: int) -> int:
    f = FORMATS[to]
    result = f.round(Fraction(wrap(a, source)), mode)
    return f.saturate(result) if sat else result


def from_float(to: str, source: str, mode: str, ftz: str, sat: str, a: int) -> int:
    f = FORMATS[source]
    if f.is_nan(a):
        return wrap(1 << WIDTH[to] - 1, to) if WIDTH[to] == 64 or source == "f64" else 0
    low, high = ends(to)
    if f.is_infinite(a):
        return low if f.is_negative(a) else high
    return clamp(int(exact.to_integral(f, f.flush(a) if ftz else a, mode)), to)


def options(*types: str) -> list[tuple[str, str]]:
    """(.ftz or not, .sat or not): .ftz is for f32."""
    return [(ftz, sat) for ftz in ("", ".ftz") if not ftz or "f32" in types for sat in ("", ".sat")]


TO_FLOAT = [
    case(f".{mode}{ftz}{sat}", to, source, partial(to_float, to, source, mode, ftz, sat))
    for to in FLOATS
    for source in INTS
    for mode in ROUND
    for ftz, sat in options(to)
]
FROM_FLOAT = [
    case(f".{mode}{ftz}{sat}", to, source, partial(from_float, to, source, mode, ftz, sat))
    for to in INTS
    for source in FLOATS
    for mode in ROUND_TO_INTEGER
    for ftz, sat in options(source)
]

# -- floats ------------------------------------------------------------------------------------------


def between(to: str, source: str, mode: str, ftz: str, sat: str, a: int) -> int:
    f, s = FORMATS[to], FORMATS[source]
    if ftz and source == "f32":
        a = s.flush(a)
    if to == source and mode not in ("", ".rn") and not (s.is_nan(a) or s.is_infinite(a)):
        result = f.round(exact.to_integral(s, a, mode[1:]), "rn", s.is_negative(a))
    elif to == source:
        result = NAN if s.is_nan(a) else a
    else:
        result = exact.convert(s, f, a, mode[1:] or "rn")
    if ftz and to == "f32":
        result = f.flush(result)
    if sat:
        return f.saturate(result)
    return 0x7FFF if result is NAN and to == "f16" and source != "f16" else result


def modes(to: str, source: str) -> list[str]:
    if to == source:
        return ["", *(f".{m}" for m in ROUND_TO_INTEGER)]
    return [f".{m}" for m in ROUND] if WIDTH[to] < WIDTH[source] else [""]


BETWEEN_FLOATS = [
    case(f"{mode}{ftz}{sat}", to, source, partial(between, to, source, mode, ftz, sat))
    for to in FLOATS
    for source in FLOATS
    for mode in modes(to, source)
    for ftz, sat in options(to, source)
]

# -- bfloat16, pairs, tf32 ---------------------------------------------------------------------------


def half(f: Format, mode: str, relu: str, finite: str, a: int) -> int:
    result = exact.convert(F32, f, a, mode)
    if result is NAN:
        return 0x7FFF
    if relu and f.is_negative(result):
        return 0
    return result - 1 if finite and f.is_infinite(result) else result


def tf32(finite: str, a: int) -> int:
    """An 8-bit exponent and 10 bits of fraction, at the top of a word."""
    f = Format(8, 10)
    if F32.is_nan(a):
        return 0x7FFFFFFF
    result = exact.convert(F32, f, a, "rna")
    return result - 1 << 13 if finite and f.is_infinite(result) else result << 13


FORMATS_OF_NETWORKS = [Case("cvt.f32.bf16 d, a", "bf16 -> f32", lambda a: NAN if BF16.is_nan(a) else a << 16)]
for mode in ("rn", "rz"):
    for relu in ("", ".relu"):
        for finite in ("", ".satfinite"):
            for t, f in (("f16", F16), ("bf16", BF16)):
                convert = partial(half, f, mode, relu, finite)
                mods = f".{mode}{relu}{finite}"
                FORMATS_OF_NETWORKS += [
                    Case(f"cvt{mods}.{t}.f32 d, a", f"f32i -> {t}", convert),
                    Case(
                        f"cvt{mods}.{t}x2.f32 d, a, b",
                        f"f32 f32 -> {t}x2",
                        lambda a, b, convert=convert: (convert(b), convert(a)),
                    ),
                ]
FORMATS_OF_NETWORKS += [
    Case(f"cvt.rna{s}.tf32.f32 d, a", "f32i -> b32", partial(tf32, s)) for s in ("", ".satfinite")
]
FORMATS_OF_NETWORKS += [
    Case(
        "cvt.rn.f16x2.f32 d, 0f3F800000, a", "f32 -> f16x2", lambda a: (half(F16, "rn", "", "", a), F16.one)
    ),
    Case("cvt.rn.f32.s32 d, -16777217", "b32 -> f32", lambda a: 0xCB800000),
    Case("cvt.rzi.s64.f64 d, 0d7FF8000000000000", "b32 -> s64", lambda a: 1 << 63),
    Case(
        "cvt.rn.f16.f64 d, 0d400921FB54442D18",
        "b32 -> f16",
        lambda a: exact.convert(F64, F16, 0x400921FB54442D18),
    ),
]

GROUPS = {
    "integers": INTEGERS,
    "wider": WIDER,
    "to float": TO_FLOAT,
    "from float": FROM_FLOAT,
    "between floats": BETWEEN_FLOATS,
    "networks": FORMATS_OF_NETWORKS,
}


@compared
@pytest.mark.parametrize("group", GROUPS)
def test_conversions(unchecked_device, group, every):
    check(unchecked_device, GROUPS[group], every)
