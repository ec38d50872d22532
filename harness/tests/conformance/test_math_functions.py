"""CUDA's math functions, compiled in both flavours, against NumPy, within the error that CUDA documents.

The bounds are those of the CUDA C++ Programming Guide, "Mathematical Functions", in units in the last place.
Float results are compared with double arithmetic, double results with long double; where the reference for a
double is itself one, its own error of up to one unit is allowed for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from backwarp.devices.virtual.device import VirtualGPU

N = 1024
WIDE = np.longdouble if np.finfo(np.longdouble).nmant > 60 else np.float64


@dataclass(frozen=True)
class Function:
    """name: of the float version, ending in f. ulps: documented for (float, double). reference: of arrays.

    domain: what arguments are drawn from: an interval, or POSITIVE, ANY or LARGE. edges: arguments tried
    besides, in all combinations. python: the reference computes in Python's floats.
    """

    name: str
    ulps: tuple[int, int]
    reference: object
    domain: tuple | str = (-10.0, 10.0)
    edges: tuple = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0)
    python: bool = False


def from_python(function):
    """A function of Python floats as one of arrays; where it refuses, NaN."""

    def one(*values: float) -> float:
        try:
            return function(*map(float, values))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return lambda *arrays: np.array([one(*v) for v in zip(*arrays, strict=True)])


def lgamma(x: np.ndarray) -> np.ndarray:
    """Stirling's series at x + 24, less the factors between (Abramowitz and Stegun, 6.1.15 and 6.1.41)."""
    shifted, skipped = x + 24, np.log(np.prod([x + i for i in range(24)], axis=0))
    terms = ((1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360))
    series = sum(x.dtype.type(a) / (b * shifted ** (2 * k + 1)) for k, (a, b) in enumerate(terms))
    pi = 4 * np.arctan(x.dtype.type(1))
    value = (shifted - 0.5) * np.log(shifted) - shifted + np.log(2 * pi) / 2 + series - skipped
    value = np.where((x == 1) | (x == 2), 0, value)
    return np.where((x == np.floor(x)) & (x <= 0) | np.isinf(x), np.inf, value)


def tgamma(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else math.gamma(x)


def away_from_ties(x: np.ndarray) -> np.ndarray:
    """round(): to the nearest integer, ties away from zero."""
    x = x.astype(np.float64)
    return np.trunc(x + np.copysign(np.nextafter(0.5, 0), x))


LARGE = "large"  # magnitudes of 1e5 to 1e30, and small ones
POSITIVE = "positive"  # over all exponents
ANY = "any"  # over all exponents, both signs

ONE_ARGUMENT = (
    Function("sqrtf", (0, 0), np.sqrt, POSITIVE),
    Function("rsqrtf", (2, 1), lambda x: 1 / np.sqrt(x), POSITIVE),
    Function("cbrtf", (1, 1), np.cbrt, ANY),
    Function("rcbrtf", (1, 1), lambda x: 1 / np.cbrt(x), ANY),
    Function("expf", (2, 1), np.exp, (-110.0, 95.0)),
    Function("exp2f", (2, 1), np.exp2, (-155.0, 130.0)),
    Function("exp10f", (2, 1), lambda x: np.power(x.dtype.type(10), x), (-46.0, 39.0)),
    Function("expm1f", (1, 1), np.expm1, (-3.0, 3.0)),
    Function("logf", (1, 1), np.log, POSITIVE),
    Function("log2f", (1, 1), np.log2, POSITIVE),
    Function("log10f", (2, 1), np.log10, POSITIVE),
    Function("log1pf", (1, 1), np.log1p, (-0.99, 5.0)),
    Function("sinf", (2, 2), np.sin),
    Function("cosf", (2, 2), np.cos),
    Function("tanf", (4, 2), np.tan),
    Function("asinf", (2, 2), np.arcsin, (-1.0, 1.0)),
    Function("acosf", (2, 2), np.arccos, (-1.0, 1.0)),
    Function("atanf", (2, 2), np.arctan, ANY),
    Function("sinhf", (3, 2), np.sinh),
    Function("coshf", (2, 1), np.cosh),
    Function("tanhf", (2, 1), np.tanh, (-4.0, 4.0)),
    Function("asinhf", (3, 3), np.arcsinh, ANY),
    Function("acoshf", (4, 3), np.arccosh, (1.0, 50.0)),
    Function("atanhf", (3, 2), np.arctanh, (-0.999, 0.999)),
    Function("erff", (2, 2), from_python(math.erf), (-4.0, 4.0), python=True),
    Function("erfcf", (4, 5), from_python(math.erfc), (-4.0, 9.0), python=True),
    Function("lgammaf", (6, 4), lgamma, (2.5, 40.0)),  # near 1 and 2 the reference loses its spare digits
    Function("lgammaf", (6, 4), lgamma, (0.01, 0.7)),
    Function("tgammaf", (5, 10), from_python(tgamma), (0.05, 33.0), python=True),
)
LARGE_ARGUMENTS = tuple(
    Function(name, ulps, function, LARGE)
    for name, ulps, function in (("sinf", (2, 2), np.sin), ("cosf", (2, 2), np.cos), ("tanf", (4, 2), np.tan))
)
EXACT = tuple(
    Function(name, (0, 0), function, domain)
    for name, function in (
        ("floorf", np.floor),
        ("ceilf", np.ceil),
        ("truncf", np.trunc),
        ("rintf", np.rint),
        ("fabsf", np.abs),
        ("nearbyintf", np.rint),
        ("roundf", away_from_ties),
    )
    for domain in ((-70.0, 70.0), ANY)
)
TWO_ARGUMENTS = (
    Function("powf", (4, 2), np.power, (0.01, 20.0)),
    Function("atan2f", (3, 2), np.arctan2, ANY),
    Function("hypotf", (3, 2), np.hypot, (-1e5, 1e5)),
    Function("fmodf", (0, 0), from_python(math.fmod), (-1e4, 1e4), python=True),
    Function("remainderf", (0, 0), from_python(math.remainder), (-1e4, 1e4), python=True),
    Function("fmaxf", (0, 0), np.fmax, ANY),
    Function("fminf", (0, 0), np.fmin, ANY),
    Function(
        "fdimf", (0, 0), lambda x, y: np.where(x > y, x - y, x * 0 + y * 0), (-10.0, 10.0), (0.0, 1.0, -1.0)
    ),
    Function("copysignf", (0, 0), np.copysign, ANY),
)
GROUPS = {
    "one argument": ONE_ARGUMENT,
    "large arguments": LARGE_ARGUMENTS,
    "exact": EXACT,
    "two arguments": TWO_ARGUMENTS,
}


def draw(domain, dtype, rng) -> np.ndarray:
    if isinstance(domain, tuple):
        return rng.uniform(*domain, N).astype(dtype)
    sign = 1 if domain == POSITIVE else rng.choice([-1, 1], N)
    if domain == LARGE:
        return (sign * 10.0 ** rng.uniform(-3, 30, N)).astype(dtype)
    pattern = f"u{dtype.itemsize}"
    patterns = rng.integers(0, np.array(np.finfo(dtype).max).view(pattern), N, pattern)
    return (sign * patterns.view(dtype)).astype(dtype)


def arguments(function: Function, count: int, dtype) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(map(ord, function.name)))
    edges = np.array(list(product(function.edges, repeat=count)), dtype).T
    return [np.concatenate([e, draw(function.domain, dtype, rng)]) for e in edges]


def source(functions, type_: str, count: int) -> str:
    names = dict.fromkeys(f.name if type_ == "float" else f.name.removesuffix("f") for f in functions)
    values = ", ".join(f"x{i}[i]" for i in range(count))
    parameters = ", ".join(f"const {type_}* x{i}" for i in range(count))
    return "\n".join(
        f'extern "C" __global__ void test_{name}({type_}* y, {parameters}, int n) {{\n'
        f"    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = {name}({values});\n}}"
        for name in names
    )


def ulps(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How many floating-point numbers lie between each result and the rounded exact one; 0 for two NaNs."""
    got, rounded = (order(x) for x in (got, wanted.astype(got.dtype)))
    return np.abs(got - rounded)


def order(x: np.ndarray) -> np.ndarray:
    """Numbers that are consecutive for neighbouring floats; one for all NaNs, and far from any other."""
    size = np.abs(x).view(f"i{x.itemsize}").astype(object)
    return np.where(np.isnan(x), 1 << 80, np.where(x < 0, -size, size))


#: both builds have the same functions of libdevice, whose opcodes test_table has: one group is enough as lanes
BOTH = "two arguments", "float"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("group", "type_", "checks"),
    [
        pytest.param(*how, checks, marks=[pytest.mark.soak] * (checks == "memory" and how != BOTH))
        for how in product(GROUPS, ("float", "double"))
        for checks in ("memory", "full")
    ],
)
def test_math_functions(group, type_, checks):
    functions, dtype = GROUPS[group], np.dtype("f4" if type_ == "float" else "f8")
    count = 2 if group == "two arguments" else 1
    if type_ == "double" and WIDE is np.float64:
        pytest.skip("no reference is more precise than double on this machine")
    wrong = []
    with VirtualGPU(checks) as device, np.errstate(all="ignore"):
        device.quick = checks == "full" or type_ == "double"  # optimising those of two doubles takes seconds
        module = device.compile(source(functions, type_, count))
        for function in functions:
            inputs = arguments(function, count, dtype)
            out = device.empty(len(inputs[0]), dtype)
            kernel = module.get_function(
                "test_" + (function.name if type_ == "float" else function.name.removesuffix("f"))
            )
            n = len(inputs[0])
            kernel(-(-n // 128), 128, (out, *map(device.array, inputs), np.int32(n)))
            wide = np.float64 if type_ == "float" else WIDE
            wanted = np.asarray(function.reference(*(x.astype(wide) for x in inputs)))
            bound = function.ulps[type_ == "double"]
            if bound and type_ == "double" and function.python:
                bound += 1  # of the reference, which is no more precise
            off = ulps(out.get(), wanted)
            worst = int(np.argmax(off))
            if off[worst] > bound:
                values = ", ".join(str(x[worst]) for x in inputs)
                wrong.append(
                    f"{function.name}({values}) = {out.get()[worst]}, not {wanted[worst]}: {off[worst]} ulp"
                )
    assert not wrong, "\n" + "\n".join(wrong)
