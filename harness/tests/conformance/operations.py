"""Operations of CUDA C++ and their results, for `expressions.py`: those of test_intrinsics.py, and C++'s own.

Each thread evaluates a Case by itself. What is written here avoids what C++ leaves undefined (signed
overflow, a shift beyond the width, division by zero), and where the sign and the payload of a NaN would show,
which PTX leaves open.
"""

from __future__ import annotations

import operator
from functools import partial, reduce
from itertools import product

from tests.conformance import exact
from tests.conformance.exact import BF16, F16, F32, F64, NAN
from tests.conformance.ptx_rows import FORMATS, Case
from tests.conformance.test_conversions import between, ends, to_float, wrap
from tests.conformance.test_floats import PROPERTIES
from tests.conformance.test_integers import dp2a, dp4a, parts, product24, quotient
from tests.conformance.test_intrinsics import CONVERSIONS, HALVES, INTEGERS, ROUNDED, lanes

INTS = {
    "u8": "unsigned char",
    "s8": "signed char",
    "u16": "unsigned short",
    "s16": "short",
    "u32": "unsigned",
    "s32": "int",
    "u64": "unsigned long long",
    "s64": "long long",
}
C_TYPES = {
    **INTS,
    "f32": "float",
    "f64": "double",
    "f16": "__half",
    "bf16": "__nv_bfloat16",
    "f16x2": "__half2",
    "bf16x2": "__nv_bfloat162",
    "pred": "bool",
}
COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
#: signed overflow, `abs` of the lowest number, the bits of a NaN
_UNDEFINED = ("(a >> 3) + (b << 2)", "abs(a)", "__float_as_int(a)")

CASES = [
    case
    for cases in (INTEGERS, ROUNDED, CONVERSIONS, HALVES)
    for case in cases
    if case.line not in _UNDEFINED
]


# -- integers ------------------------------------------------------------------------------------------------

for t, c in INTS.items():
    n = int(t[1:])
    w = "unsigned long long" if n == 64 else "unsigned"
    for op, f in {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "&": operator.and_,
        "|": operator.or_,
        "^": operator.xor,
    }.items():
        CASES.append(Case(f"({c})(({w})a {op} ({w})b)", f"{t} {t} -> {t}", f))
    CASES += [
        Case(f"({c})(0 - ({w})a)", f"{t} -> {t}", operator.neg),
        Case(f"({c})~a", f"{t} -> {t}", operator.inv),
        Case(f"({c})(({w})a << (b & {n - 1}))", f"{t} u32 -> {t}", lambda a, b, n=n: a << b % n),
        Case(f"({c})(a >> (b & {n - 1}))", f"{t} u32 -> {t}", lambda a, b, n=n: a >> b % n),
        Case(
            f"b == 0 || b == ({c})-1 ? a : ({c})(a / b)",
            f"{t} {t} -> {t}",
            lambda a, b, n=n, t=t: a if b in (0, wrap(-1, t)) else quotient(a, b),
        ),
        Case(
            f"b == 0 || b == ({c})-1 ? a : ({c})(a % b)",
            f"{t} {t} -> {t}",
            lambda a, b, n=n, t=t: a if b in (0, wrap(-1, t)) else a - b * quotient(a, b),
        ),
        Case("(a < b ? a : b)", f"{t} {t} -> {t}", min),
        Case("(a > b ? a : b)", f"{t} {t} -> {t}", max),
    ]
    CASES += [Case(f"a {op} b", f"{t} {t} -> pred", f) for op, f in COMPARE.items()]
    CASES += [Case(f"({c})a", f"{s} -> {t}", int) for s in (*INTS, "pred") if s != t]
for t in ("s32", "u32", "s64", "u64"):
    CASES += [Case("min(a, b)", f"{t} {t} -> {t}", min), Case("max(a, b)", f"{t} {t} -> {t}", max)]
CASES += [
    Case("__usad(a, b, c)", "u32 u32 u32 -> u32", lambda a, b, c: abs(a - b) + c),
    Case("__urhadd(a, b)", "u32 u32 -> u32", lambda a, b: a + b + 1 >> 1),
    Case("__umulhi(a, b)", "u32 u32 -> u32", lambda a, b: a * b >> 32),
    Case("__vimax3_s32(a, b, c)", "s32 s32 s32 -> s32", max),
    Case("__vimin3_u32(a, b, c)", "u32 u32 u32 -> u32", min),
    Case("__vimin_s32_relu(a, b)", "s32 s32 -> s32", lambda a, b: max(min(a, b), 0)),
    Case("__dp2a_hi(a, b, c)", "s32 s32 s32 -> s32", partial(dp2a, "s32", "s32", 2)),
    Case("__dp2a_lo(a, b, c)", "u32 u32 u32 -> u32", partial(dp2a, "u32", "u32", 0)),
    Case(
        "__dp4a(a, (int)b, c) + __umul24(a, c)",
        "s32 u32 s32 -> u32",
        lambda a, b, c: dp4a("s32", "s32", a & 0xFFFFFFFF, b, c) + product24("u32", a, c),
    ),
    Case("(a & 1) && b", "u32 pred -> pred", lambda a, b: bool(a & 1) and b),
    Case("a != b", "pred pred -> pred", operator.ne),
    Case("!a", "pred -> pred", operator.not_),
]

# -- words as vectors of bytes and shorts --------------------------------------------------------------------


def simd(n: int, signed: bool, function, a: int, b: int = 0) -> int:
    """A function of the n-bit parts of words, whose results are cut to n bits."""
    t = "s32" if signed else "u32"
    pairs = zip(parts(a, t, n), parts(b, t, n), strict=True)
    return sum((int(function(x, y)) & (1 << n) - 1) << n * i for i, (x, y) in enumerate(pairs))


def clamped(n: int, signed: bool, function):
    low, high = ends(f"{'s' if signed else 'u'}{n}")
    return lambda x, y: min(max(function(x, y), low), high)


for n, count in ((8, 4), (16, 2)):
    both = {"add": operator.add, "sub": operator.sub}
    for name, f in both.items():
        CASES += [
            Case(f"__v{name}{count}(a, b)", "u32 u32 -> u32", partial(simd, n, False, f)),
            Case(f"__v{name}ss{count}(a, b)", "u32 u32 -> u32", partial(simd, n, True, clamped(n, True, f))),
        ]
        # CUDA's header makes two halves by a signed shift that overflows, which NVRTC takes as a promise
        if n == 8:
            CASES.append(
                Case(f"__v{name}us4(a, b)", "u32 u32 -> u32", partial(simd, 8, False, clamped(8, False, f)))
            )
    for k, signed in (("s", True), ("u", False)):
        CASES += [
            Case(f"__vmin{k}{count}(a, b)", "u32 u32 -> u32", partial(simd, n, signed, min)),
            Case(f"__vmax{k}{count}(a, b)", "u32 u32 -> u32", partial(simd, n, signed, max)),
            Case(
                f"__vabsdiff{k}{count}(a, b)",
                "u32 u32 -> u32",
                partial(simd, n, signed, lambda x, y: abs(x - y)),
            ),
            Case(
                f"__vcmpgt{k}{count}(a, b)", "u32 u32 -> u32", partial(simd, n, signed, lambda x, y: -(x > y))
            ),
            Case(f"__vsetle{k}{count}(a, b)", "u32 u32 -> u32", partial(simd, n, signed, operator.le)),
        ]
    CASES += [
        Case(f"__vcmpeq{count}(a, b)", "u32 u32 -> u32", partial(simd, n, False, lambda x, y: -(x == y))),
        Case(f"__vavgu{count}(a, b)", "u32 u32 -> u32", partial(simd, n, False, lambda x, y: x + y + 1 >> 1)),
        Case(f"__vhaddu{count}(a, b)", "u32 u32 -> u32", partial(simd, n, False, lambda x, y: x + y >> 1)),
        Case(f"__vneg{count}(a)", "u32 -> u32", partial(simd, n, True, lambda x, y: -x)),
        Case(f"__vabs{count}(a)", "u32 -> u32", partial(simd, n, True, lambda x, y: abs(x))),
        Case(
            f"__vsadu{count}(a, b)",
            "u32 u32 -> u32",
            lambda a, b, n=n: sum(
                abs(x - y) for x, y in zip(parts(a, "u32", n), parts(b, "u32", n), strict=True)
            ),
        ),
    ]

# -- floating point ------------------------------------------------------------------------------------------


def ordered(f: exact.Format, compare, if_nan: bool, a: int, b: int) -> bool:
    if f.is_nan(a) or f.is_nan(b):
        return if_nan
    numbers = [0 if x == f.sign else exact.order(f, x) for x in (a, b)]
    return compare(*numbers)


def one(function, f: exact.Format, a: int):
    return NAN if f.is_nan(a) else function(f, a)


def bits(f: exact.Format, a: int) -> int:
    return f.infinity | (1 << f.fraction) - 1 if f.is_nan(a) else a


def chosen(f: exact.Format, nan: bool, sign: int, a: int, b: int):
    result = exact.minimum(f, a, b, nan, sign)
    return result if result is NAN else bits(f, result)


def remainder(f: exact.Format, a: int, b: int):
    """fmod: exact, with the sign of a."""
    if f.is_nan(a) or f.is_nan(b) or f.is_infinite(a) or not b & ~f.sign:
        return NAN
    if f.is_infinite(b):
        return a
    x, y = f.value(a), abs(f.value(b))
    return f.round(abs(x) % y * (-1 if x < 0 else 1), "rn", f.is_negative(a))


FLOATS = {
    "f32": ("f", "__uint_as_float(0x7fffffffu)", "__float_as_uint"),
    "f64": ("", "__longlong_as_double(0x7fffffffffffffffll)", "__double_as_longlong"),
}
for t, (suffix, nan, as_bits) in FLOATS.items():
    f, integer = FORMATS[t], {"f32": "u32", "f64": "u64"}[t]
    CASES += [
        Case(f"a {op} b", f"{t} {t} -> pred", partial(ordered, f, compare, op == "!="))
        for op, compare in COMPARE.items()
    ]
    CASES += [
        Case("a + b", f"{t} {t} -> {t}", partial(exact.add, f)),
        Case("a - b", f"{t} {t} -> {t}", partial(exact.sub, f)),
        Case("a / b", f"{t} {t} -> {t}", partial(exact.div, f)),
        Case(f"sqrt{suffix}(a)", f"{t} -> {t}", partial(exact.sqrt, f)),
        Case(f"fma{suffix}(a, b, c)", f"{t} {t} {t} -> {t}", partial(exact.fma, f)),
        Case(f"fmod{suffix}(a, b)", f"{t} {t} -> {t}", partial(remainder, f)),
        Case("-a", f"{t} -> {t}", partial(one, lambda f, x: x ^ f.sign, f)),
        Case(f"fabs{suffix}(a)", f"{t} -> {t}", partial(one, lambda f, x: x & ~f.sign, f)),
        Case(
            f"copysign{suffix}(a, b == b ? b : 1)",
            f"{t} {t} -> {t}",
            lambda a, b, f=f: NAN if f.is_nan(a) else a & ~f.sign | (0 if f.is_nan(b) else b & f.sign),
        ),
        Case("isnan(a)", f"{t} -> pred", partial(PROPERTIES["notanumber"], f)),
        Case("isinf(a)", f"{t} -> pred", partial(PROPERTIES["infinite"], f)),
        Case("isfinite(a)", f"{t} -> pred", partial(PROPERTIES["finite"], f)),
        Case(f"{as_bits}(a == a ? a : {nan})", f"{t} -> {integer}", partial(bits, f)),
    ]
    # one operand may be known to be a number, or both
    for name, sign in (("fmin", 1), ("fmax", -1)):
        CASES += [
            Case(f"{name}{suffix}(a, b)", f"{t} {t} -> {t}", partial(exact.minimum, f, sign=sign)),
            Case(
                f"{name}{suffix}(a, 0)",
                f"{t} -> {t}",
                lambda a, f=f, sign=sign: exact.minimum(f, a, 0, sign=sign),
            ),
            Case(
                f"{name}{suffix}(a, ({C_TYPES[t]})b)",
                f"{t} u32 -> {t}",
                lambda a, b, t=t, f=f, sign=sign: exact.minimum(
                    f, a, to_float(t, "u32", "rn", "", "", b), sign=sign
                ),
            ),
            Case(
                f"{name}{suffix}(({C_TYPES[t]})a, b)",
                f"s32 {t} -> {t}",
                lambda a, b, t=t, f=f, sign=sign: exact.minimum(
                    f, to_float(t, "s32", "rn", "", "", a), b, sign=sign
                ),
            ),
        ]
    for name, mode in (("floor", "rmi"), ("ceil", "rpi"), ("trunc", "rzi"), ("rint", "rni")):
        CASES.append(Case(f"{name}{suffix}(a)", f"{t} -> {t}", partial(between, t, t, f".{mode}", "", "")))
    CASES += [Case(f"({C_TYPES[t]})a", f"{s} -> {t}", partial(to_float, t, s, "rn", "", "")) for s in INTS]
CASES += [
    Case("(double)a", "f32 -> f64", partial(exact.convert, F32, F64)),
    Case("(float)a", "f64 -> f32", partial(exact.convert, F64, F32)),
    Case("__uint_as_float(a)", "u32 -> f32", lambda a: a),
    Case("__longlong_as_double(a)", "s64 -> f64", lambda a: a & (1 << 64) - 1),
]

# -- halves --------------------------------------------------------------------------------------------------


def saturated(op, f: exact.Format, *operands: int) -> int:
    return f.saturate(op(f, *operands))


def relu(op, f: exact.Format, *operands: int):
    result = op(f, *operands)
    return result if result is NAN or not f.is_negative(result) else 0


HALF = {
    "f16": (F16, "__ushort_as_half", "__half_as_ushort"),
    "bf16": (BF16, "__ushort_as_bfloat16", "__bfloat16_as_ushort"),
}
for t, (f, from_bits, as_bits) in HALF.items():
    two = f"{t}x2"
    pair = "halves2" + {"f16": "half2", "bf16": "bfloat162"}[t]
    low, high = {"f16": ("__low2half", "__high2half"), "bf16": ("__low2bfloat16", "__high2bfloat16")}[t]
    CASES += [
        Case(f"__{pair}(a, b)", f"{t} {t} -> {two}", lambda a, b: b << 16 | a),
        Case(f"{low}(a)", f"{two} -> {t}", lambda a: a & 0xFFFF),
        Case(f"{high}(a)", f"{two} -> {t}", lambda a: a >> 16),
        Case("__lowhigh2highlow(a)", f"{two} -> {two}", lambda a: a >> 16 | (a & 0xFFFF) << 16),
        Case(f"{from_bits}(a)", f"u16 -> {t}", lambda a: a),
        Case(
            f"{as_bits}(__hisnan(a) ? {from_bits}((unsigned short)0x7fff) : a)",
            f"{t} -> u16",
            lambda a, f=f: 0x7FFF if f.is_nan(a) else a,
        ),
        Case("__hisnan(a)", f"{t} -> pred", f.is_nan),
    ]
    for name, g, _ in (("neg", lambda f, x: x ^ f.sign, 1), ("abs", lambda f, x: x & ~f.sign, 1)):
        g = partial(one, g, f)
        CASES += [
            Case(f"__h{name}(a)", f"{t} -> {t}", g),
            Case(f"__h{name}2(a)", f"{two} -> {two}", lanes(g)),
        ]
    for name, sign in (("min", 1), ("max", -1)):
        for nan in ("", "_nan"):
            g = partial(chosen, f, bool(nan), sign)
            CASES += [
                Case(f"__h{name}{nan}(a, b)", f"{t} {t} -> {t}", g),
                Case(f"__h{name}2{nan}(a, b)", f"{two} {two} -> {two}", lanes(g)),
            ]
    for name, op in (("lt", operator.lt), ("ge", operator.ge), ("eq", operator.eq), ("ne", operator.ne)):
        for unordered in ("", "u"):
            g = partial(ordered, f, op, bool(unordered))
            CASES.append(Case(f"__h{name}{unordered}(a, b)", f"{t} {t} -> pred", g))
            CASES.append(
                Case(
                    f"__h{name}{unordered}2(a, b)",
                    f"{two} {two} -> {two}",
                    lambda a, b, g=g, f=f: lanes(lambda x, y: f.one * g(x, y))(a, b),
                )
            )
    for name, mode in (("floor", "rmi"), ("ceil", "rpi"), ("trunc", "rzi"), ("rint", "rni")):

        def integral(a, f=f, mode=mode):
            if f.is_nan(a) or f.is_infinite(a):
                return NAN if f.is_nan(a) else a
            return f.round(exact.to_integral(f, a, mode), "rn", f.is_negative(a))

        CASES.append(Case(f"h{name}(a)", f"{t} -> {t}", integral))
    CASES += [
        Case("__hfma_relu(a, b, c)", f"{t} {t} {t} -> {t}", partial(relu, exact.fma, f)),
        Case("__hfma2_relu(a, b, c)", f"{two} {two} {two} -> {two}", lanes(partial(relu, exact.fma, f))),
        Case("__hfma_sat(a, b, c)", f"{t} {t} {t} -> {t}", partial(saturated, exact.fma, f)),
        Case("__hadd_sat(a, b)", f"{t} {t} -> {t}", partial(saturated, exact.add, f)),
        Case("__hmul2_sat(a, b)", f"{two} {two} -> {two}", lanes(partial(saturated, exact.mul, f))),
    ]
CASES += [
    Case(
        "__floats2half2_rn(a, b)",
        "f32 f32 -> f16x2",
        lambda a, b: (exact.convert(F32, F16, a), exact.convert(F32, F16, b)),
    ),
    Case(
        "__floats2bfloat162_rn(a, b)",
        "f32 f32 -> bf16x2",
        lambda a, b: (exact.convert(F32, BF16, a), exact.convert(F32, BF16, b)),
    ),
    Case("__low2float(a)", "f16x2 -> f32", lambda a: exact.convert(F16, F32, a & 0xFFFF)),
    Case("__high2float(a)", "bf16x2 -> f32", lambda a: exact.convert(BF16, F32, a >> 16)),
    Case("__double2half(a)", "f64i -> f16", partial(exact.convert, F64, F16)),
]

# -- of any type ---------------------------------------------------------------------------------------------

for t in C_TYPES:
    CASES += [
        Case("(c ? a : b)", f"{t} {t} pred -> {t}", lambda a, b, c: a if c else b),
        Case("picked(a, b, c)", f"{t} {t} u32 -> {t}", lambda a, b, c: (a, b, a)[c % 3]),
    ]
CASES += [
    Case("joined(a, b)", "u8 s16 -> u32", lambda a, b: a | (b & 0xFFFF) << 16),
]

#: helpers that cases and `exchanges` call
HELPERS = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef unsigned long long u64;
template <class T> __device__ T picked(T a, T b, unsigned i) { T x[3] = {a, b, a}; return x[i % 3]; }
__device__ unsigned joined(unsigned char a, short b) {
    unsigned char bytes[4] = {a, 0, (unsigned char)b, (unsigned char)(b >> 8)};
    unsigned result = 0;
    for (int i = 3; i >= 0; i--) result = result << 8 | bytes[i];
    return result;
}
template <class T> __device__ T moved(T value, unsigned from) {
    __shared__ T tile[64];
    tile[threadIdx.x] = value;
    __syncthreads();
    T got = tile[from % 64];
    __syncthreads();
    return got;
}
__device__ unsigned quarter(unsigned a, unsigned b, unsigned from) {
    __shared__ uint4 tile[64];
    tile[threadIdx.x] = make_uint4(a, b, a ^ b, ~a);
    __syncthreads();
    uint4 got = tile[from % 64];
    __syncthreads();
    return got.x + 3 * got.y + 5 * got.z + 7 * got.w;
}
__device__ unsigned char byte_of(u64 value, unsigned at) {
    __shared__ u64 tile[64];
    tile[threadIdx.x] = value;
    __syncthreads();
    unsigned char got = ((unsigned char*)tile)[at % 512];
    __syncthreads();
    return got;
}
__device__ u64 gathered(unsigned char value, unsigned at) {
    __shared__ u64 tile[8];
    ((unsigned char*)tile)[threadIdx.x] = value;
    __syncthreads();
    u64 got = tile[at % 8];
    __syncthreads();
    return got;
}
"""


# -- between threads -----------------------------------------------------------------------------------------

WARP, BLOCK = 32, 64


def _exchange(line: str, types: str, group: int, function) -> tuple[Case, int]:
    """A Case whose function takes the values of all threads of a group, as lists, and returns their results."""
    return Case(line, types, function), group


def shuffled(source, width: int):
    """source(lane, operand) -> the lane asked for within its part of `width` lanes; None: its own."""

    def function(a, *b):
        lanes_ = [source(lane % width, *(x[lane] for x in b)) for lane in range(WARP)]
        return [
            a[lane // width * width + at] if at is not None and 0 <= at < width else a[lane]
            for lane, at in enumerate(lanes_)
        ]

    return function


EXCHANGES = []
for t in ("s32", "u32", "s64", "u64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"):
    for width, n in product((8, 32), (1, 3, 12)):
        if n < width:
            EXCHANGES += [
                _exchange(
                    f"__shfl_xor_sync(~0u, a, {n}, {width})",
                    f"{t} -> {t}",
                    WARP,
                    shuffled(lambda i, n=n: i ^ n, width),
                ),
                _exchange(
                    f"__shfl_up_sync(~0u, a, {n}, {width})",
                    f"{t} -> {t}",
                    WARP,
                    shuffled(lambda i, n=n: i - n, width),
                ),
                _exchange(
                    f"__shfl_down_sync(~0u, a, {n}, {width})",
                    f"{t} -> {t}",
                    WARP,
                    shuffled(lambda i, n=n: i + n, width),
                ),
            ]
    EXCHANGES.append(
        _exchange(
            "__shfl_sync(~0u, a, b & 31, 16)", f"{t} u32 -> {t}", WARP, shuffled(lambda i, b: b % 16, 16)
        )
    )
for t in C_TYPES:
    EXCHANGES += [
        _exchange("moved(a, b)", f"{t} u32 -> {t}", BLOCK, lambda a, b: [a[i % 64] for i in b]),
        _exchange(
            "moved(a, threadIdx.x * 5 + 3)",
            f"{t} -> {t}",
            BLOCK,
            lambda a: [a[(i * 5 + 3) % 64] for i in range(64)],
        ),
    ]


def bytes_of(values, nbytes: int) -> bytes:
    return b"".join((v & (1 << 8 * nbytes) - 1).to_bytes(nbytes, "little") for v in values)


def quarters(a, b, c):
    return [
        a[i % 64] + 3 * b[i % 64] + 5 * (a[i % 64] ^ b[i % 64]) + 7 * (~a[i % 64] & 0xFFFFFFFF) for i in c
    ]


def ballot(a) -> int:
    return sum(bool(x) << i for i, x in enumerate(a))


def alike(a):
    return [ballot(y == x for y in a) for x in a]


def everywhere(function):
    """A function of the warp's values that gives all of them the same."""
    return lambda a: [function(a)] * WARP


EXCHANGES += [
    _exchange("byte_of(a, b)", "u64 u32 -> u8", BLOCK, lambda a, b: [bytes_of(a, 8)[i % 512] for i in b]),
    _exchange(
        "gathered(a, b)",
        "u8 u32 -> u64",
        BLOCK,
        lambda a, b: [int.from_bytes(bytes(a)[i % 8 * 8 :][:8], "little") for i in b],
    ),
    _exchange("quarter(a, b, c)", "u32 u32 u32 -> u32", BLOCK, quarters),
    _exchange("__ballot_sync(~0u, a)", "pred -> u32", WARP, everywhere(ballot)),
    _exchange("__any_sync(~0u, a)", "pred -> pred", WARP, everywhere(any)),
    _exchange("__all_sync(~0u, a)", "pred -> pred", WARP, everywhere(all)),
    _exchange("__match_any_sync(~0u, a & 3)", "u32 -> u32", WARP, lambda a: alike([x & 3 for x in a])),
    _exchange("__match_any_sync(~0u, a)", "u64 -> u32", WARP, alike),
    *(
        _exchange(f"__reduce_{op}_sync(~0u, a)", f"{t} -> {t}", WARP, everywhere(f))
        for t in ("u32", "s32")
        for op, f in (("add", sum), ("min", min), ("max", max))
    ),
    *(
        _exchange(f"__reduce_{op}_sync(~0u, a)", "u32 -> u32", WARP, everywhere(lambda a, f=f: reduce(f, a)))
        for op, f in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor))
    ),
]
