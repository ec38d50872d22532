"""f32 and f64 arithmetic: bit for bit where PTX defines the bits, else within the documented error."""

from __future__ import annotations

import math
from functools import partial

import pytest

from tests.conformance import exact
from tests.conformance.exact import F32, F64, NAN
from tests.conformance.ptx_rows import FORMATS, Case, Near, check, compared, number

MODES = ("", ".rn", ".rz", ".rm", ".rp")
OPERANDS = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "mad": 3, "sqrt": 1, "rcp": 1}


def rcp(f, a: int, mode: str = "rn") -> int:
    return exact.div(f, f.one, a, mode)


FUNCTIONS = {
    "add": exact.add,
    "sub": exact.sub,
    "mul": exact.mul,
    "div": exact.div,
    "fma": exact.fma,
    "mad": exact.fma,
    "sqrt": exact.sqrt,
    "rcp": rcp,
}


def rounded(op: str, type_: str, mode: str, ftz: str, sat: str, *operands: int) -> int:
    f = FORMATS[type_]
    if ftz:
        operands = [f.flush(x) for x in operands]
    result = FUNCTIONS[op](f, *operands, mode[1:] or "rn")
    if ftz:
        result = f.flush(result)
    return f.saturate(result) if sat else result


def arithmetic(op: str, type_: str, mode: str, ftz: str = "", sat: str = "") -> Case:
    names = ", ".join("abc"[: OPERANDS[op]])
    types = " ".join([type_] * OPERANDS[op])
    return Case(
        f"{op}{mode}{ftz}{sat}.{type_} d, {names}",
        f"{types} -> {type_}",
        partial(rounded, op, type_, mode, ftz, sat),
    )


SINGLE = {
    mode or "default": [
        arithmetic(op, "f32", mode, ftz, sat)
        for op in ("add", "sub", "mul", "fma", "mad", "div", "sqrt", "rcp")
        for ftz in ("", ".ftz")
        for sat in ("", ".sat")
        if (mode or op in ("add", "sub", "mul")) and not (sat and op in ("div", "sqrt", "rcp"))
    ]
    for mode in MODES
}
DOUBLE = [
    arithmetic(op, "f64", mode) for op in OPERANDS for mode in MODES if mode or op in ("add", "sub", "mul")
]

# -- signs, minimum and maximum, properties ----------------------------------------------------------


def pick(sign: int, type_: str, ftz: str, nan: str, a: int, b: int) -> int:
    f = FORMATS[type_]
    if ftz:
        a, b = f.flush(a), f.flush(b)
    result = exact.minimum(f, a, b, bool(nan), sign)
    return f.infinity | (1 << f.fraction) - 1 if nan and result is NAN else result  # the canonical NaN


def one(function, type_: str, ftz: str, a: int) -> int:
    f = FORMATS[type_]
    return NAN if f.is_nan(a) else function(f, f.flush(a) if ftz else a)


PROPERTIES = {
    "finite": lambda f, x: not (f.is_nan(x) or f.is_infinite(x)),
    "infinite": lambda f, x: f.is_infinite(x),
    "number": lambda f, x: not f.is_nan(x),
    "notanumber": lambda f, x: f.is_nan(x),
    "normal": lambda f, x: not (f.is_nan(x) or f.is_infinite(x) or f.is_subnormal(x)),
    "subnormal": lambda f, x: f.is_subnormal(x),
}
SIGNS = []
for t, ftz in (("f32", ""), ("f32", ".ftz"), ("f64", "")):
    SIGNS.append(Case(f"neg{ftz}.{t} d, a", f"{t} -> {t}", partial(one, lambda f, x: x ^ f.sign, t, ftz)))
    SIGNS.append(Case(f"abs{ftz}.{t} d, a", f"{t} -> {t}", partial(one, lambda f, x: x & ~f.sign, t, ftz)))
    for op, sign in (("min", 1), ("max", -1)):
        SIGNS.append(Case(f"{op}{ftz}.{t} d, a, b", f"{t} {t} -> {t}", partial(pick, sign, t, ftz, "")))
        if t == "f32":
            SIGNS.append(
                Case(f"{op}{ftz}.NaN.f32 d, a, b", "f32 f32 -> f32", partial(pick, sign, t, ftz, "NaN"))
            )
for t in ("f32", "f64"):
    f = FORMATS[t]
    SIGNS.append(Case(f"copysign.{t} d, a, b", f"{t} {t} -> {t}", lambda a, b, f=f: a & f.sign | b & ~f.sign))
    SIGNS += [Case(f"testp.{p}.{t} d, a", f"{t} -> pred", partial(test, f)) for p, test in PROPERTIES.items()]

# -- constants ---------------------------------------------------------------------------------------

PI32, PI64 = 0x40490FDB, 0x400921FB54442D18
CONSTANTS = [
    Case("add.f32 d, a, 0f40490FDB", "f32 -> f32", lambda a: exact.add(F32, a, PI32)),
    Case("mul.f64 d, 0d400921FB54442D18, a", "f64 -> f64", lambda a: exact.mul(F64, a, PI64)),
    Case("add.f32 d, a, 0d400921FB54442D18", "f32 -> f32", lambda a: exact.add(F32, a, PI32)),
    Case(
        "add.f64 d, a, 0f40490FDB", "f64 -> f64", lambda a: exact.add(F64, a, exact.convert(F32, F64, PI32))
    ),
    Case("mul.f32 d, a, 0.1", "f32 -> f32", lambda a: exact.mul(F32, a, 0x3DCCCCCD)),
    Case("mul.f64 d, a, -2.5e-1", "f64 -> f64", lambda a: exact.mul(F64, a, 0xBFD0000000000000)),
    Case("fma.rn.f32 d, a, 2.0, 0f00000000", "f32 -> f32", lambda a: exact.fma(F32, a, 0x40000000, 0)),
    Case("add.rm.f32 d, 1.0, a", "f32 -> f32", lambda a: exact.add(F32, F32.one, a, "rm")),
    Case("div.rn.f32 d, 0f00000000, a", "f32 -> f32", lambda a: exact.div(F32, 0, a)),
    Case("min.f32 d, a, 0fFF800000", "f32 -> f32", lambda a: 0xFF800000),
    Case("max.f32 d, a, 0f7FC00000", "f32 -> f32", lambda a: NAN if F32.is_nan(a) else a),
    Case("mul.f32 d, a, 0f00000001", "f32 -> f32", lambda a: exact.mul(F32, a, 1)),
    Case(
        "fma.rz.f64 d, a, 0d3FF0000000000001, a",
        "f64 -> f64",
        lambda a: exact.fma(F64, a, F64.one + 1, a, "rz"),
    ),
]

# -- approximations: the documented error, and the documented results at the ends --------------------


def approximate(function, f, error: dict, ftz: str, a: int):
    if ftz:
        a = f.flush(a)
    if f.is_nan(a):
        return NAN
    with_sign = function(number(f, a))
    if with_sign is None or math.isnan(with_sign):
        return NAN
    result = Near(with_sign, **error)
    if ftz and abs(with_sign) < 2.0**-126:  # flushed, or not quite small enough to be
        return Near(0.0, absolute=2.0**-126)
    return result


def exp2(x: float) -> float:
    return 2.0**x if x < 1000 else math.inf


def log2(x: float) -> float:
    return -math.inf if x == 0 else math.nan if x < 0 else math.log2(x)


def reciprocal(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else single(1 / x)


def single(x: float) -> float:
    """A number beyond the largest float is an infinity."""
    return x if abs(x) < 2.0**128 * (1 - 2.0**-25) else math.copysign(math.inf, x)


def square_root(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def reciprocal_root(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else math.nan if x < 0 else 1 / math.sqrt(x)


def periodic(function, x: float) -> float:
    return math.nan if math.isinf(x) else function(x)


TINY = 2.0**-149
#: the manual's bounds for the primary range; one unit in the last place of subnormal results beside
ERRORS = {
    "ex2.approx": (lambda x: single(exp2(x)), {"relative": 2.0**-22.5, "absolute": TINY}),
    "lg2.approx": (log2, {"relative": 2.0**-22.6, "absolute": 2.0**-22.6}),
    "sin.approx": (partial(periodic, math.sin), {"absolute": 2.0**-20.9}),
    "cos.approx": (partial(periodic, math.cos), {"absolute": 2.0**-20.9}),
    "rcp.approx": (reciprocal, {"relative": 2.0**-23, "absolute": TINY}),
    "sqrt.approx": (square_root, {"relative": 2.0**-23}),
    "rsqrt.approx": (reciprocal_root, {"relative": 2.0**-22.9}),
}
APPROXIMATE = [
    Case(f"{op}{ftz}.f32 d, a", "f32 -> f32", partial(approximate, function, F32, error, ftz))
    for op, (function, error) in ERRORS.items()
    for ftz in ("", ".ftz")
]
APPROXIMATE += [
    Case(
        "tanh.approx.f32 d, a", "f32 -> f32", partial(approximate, math.tanh, F32, {"relative": 2.0**-11}, "")
    ),
    Case(
        "rsqrt.approx.f64 d, a",
        "f64 -> f64",
        partial(approximate, reciprocal_root, F64, {"relative": 2.0**-52}, ""),
    ),
]


def quotient(kind: str, ftz: str, a: int, b: int):
    """Within two units of a / b; with .approx a reciprocal of more than 2**126 is lost."""
    if ftz:
        a, b = F32.flush(a), F32.flush(b)
    right = exact.div(F32, a, b)
    lost = kind == "approx" and 2.0**126 < abs(number(F32, b)) < math.inf
    if right is NAN or lost and F32.is_infinite(a):
        return NAN
    if lost:
        return Near(0.0)
    if ftz and abs(number(F32, right)) <= 2.0**-126:
        return Near(0.0, absolute=2.0**-126)
    return Near(number(F32, right), relative=2.0**-22, absolute=2 * TINY)


APPROXIMATE += [
    Case(f"div.{kind}{ftz}.f32 d, a, b", "f32 f32 -> f32", partial(quotient, kind, ftz))
    for kind in ("approx", "full")
    for ftz in ("", ".ftz")
]


def upper_word(function, a: int):
    """The upper word of a counts, and the lower word of the result is zero."""
    a &= -(1 << 32)
    if F64.is_nan(a):
        return 0x7FFFFFFF00000000
    a = F64.flush(a)
    if not a & ~F64.sign:
        return a | F64.infinity
    result = function(number(F64, a))
    if math.isnan(result):
        return 0x7FFFFFFF00000000
    return a & F64.sign if abs(result) < 2.0**-1022 else Near(result, relative=2.0**-19)


UPPER = [
    Case("rcp.approx.ftz.f64 d, a", "f64 -> f64", partial(upper_word, lambda x: 1 / x)),
    Case("rsqrt.approx.ftz.f64 d, a", "f64 -> f64", partial(upper_word, reciprocal_root)),
    Case("rcp.approx.ftz.f64 d, a; mov.b64 {%n, %t}, d; cvt.u64.u32 d, %n", "b64 -> b64", lambda a: 0),
    Case("rsqrt.approx.ftz.f64 d, a; mov.b64 {%n, %t}, d; cvt.u64.u32 d, %n", "b64 -> b64", lambda a: 0),
]

GROUPS = {
    **{f"f32 {mode}": cases for mode, cases in SINGLE.items()},
    "f64": DOUBLE,
    "signs": SIGNS,
    "constants": CONSTANTS,
    "approximate": APPROXIMATE,
    "upper word": UPPER,
}


@compared
@pytest.mark.parametrize("group", GROUPS)
def test_floats(unchecked_device, group, every):
    check(unchecked_device, GROUPS[group], every)
