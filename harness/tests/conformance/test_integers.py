"""Integer arithmetic, logic, shifts and bit fields, bit for bit."""

from __future__ import annotations

from functools import partial, reduce
from operator import or_

import pytest

from tests.conformance.ptx_rows import Case, check, compared

INTS = ("u16", "s16", "u32", "s32", "u64", "s64")
BITS = ("b16", "b32", "b64")


def bits(type_: str) -> int:
    return int(type_[1:])


def clamp(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def int32(x: int) -> int:
    return clamp(x, -(1 << 31), (1 << 31) - 1)


def signed(x: int, n: int) -> int:
    x &= (1 << n) - 1
    return x - (1 << n) if x >> n - 1 else x


# -- arithmetic and logic ----------------------------------------------------------------------------

ARITHMETIC = [
    Case(f"{op}.{t} d, a, b", f"{t} {t} -> {t}", f)
    for t in INTS
    for op, f in {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul.lo": lambda a, b: a * b,
        "mul.hi": lambda a, b, t=t: a * b >> bits(t),
        "min": min,
        "max": max,
    }.items()
]
ARITHMETIC += [
    Case(f"{op}.{t} d, a, b, c", f"{t} {t} {t} -> {t}", f)
    for t in INTS
    for op, f in {
        "mad.lo": lambda a, b, c: a * b + c,
        "mad.hi": lambda a, b, c, t=t: (a * b >> bits(t)) + c,
        "sad": lambda a, b, c: abs(a - b) + c,
    }.items()
]
for t in ("u16", "s16", "u32", "s32"):
    w = f"{t[0]}{2 * bits(t)}"
    ARITHMETIC.append(Case(f"mul.wide.{t} d, a, b", f"{t} {t} -> {w}", lambda a, b: a * b))
    ARITHMETIC.append(Case(f"mad.wide.{t} d, a, b, c", f"{t} {t} {w} -> {w}", lambda a, b, c: a * b + c))
for t in ("s16", "s32", "s64"):
    ARITHMETIC.append(Case(f"neg.{t} d, a", f"{t} -> {t}", lambda a: -a))
    ARITHMETIC.append(Case(f"abs.{t} d, a", f"{t} -> {t}", abs))
ARITHMETIC += [
    Case("add.sat.s32 d, a, b", "s32 s32 -> s32", lambda a, b: int32(a + b)),
    Case("sub.sat.s32 d, a, b", "s32 s32 -> s32", lambda a, b: int32(a - b)),
    Case("mad.hi.sat.s32 d, a, b, c", "s32 s32 s32 -> s32", lambda a, b, c: int32((a * b >> 32) + c)),
]

LOGIC = [
    Case(f"{op}.{t} d, a, b", f"{t} {t} -> {t}", f)
    for t in (*BITS, "pred")
    for op, f in {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}.items()
]
LOGIC += [Case(f"not.{t} d, a", f"{t} -> {t}", lambda a: ~a) for t in BITS]
LOGIC += [Case(f"cnot.{t} d, a", f"{t} -> {t}", lambda a: a == 0) for t in BITS]
LOGIC += [
    Case("not.pred d, a", "pred -> pred", lambda a: not a),
    Case("and.pred d, a, !b", "pred pred -> pred", lambda a, b: a and not b),
]


# -- 24-bit and byte products ------------------------------------------------------------------------


def product24(type_: str, a: int, b: int) -> int:
    if type_ == "s32":
        return signed(a, 24) * signed(b, 24)
    return (a & 0xFFFFFF) * (b & 0xFFFFFF)


def parts(x: int, type_: str, n: int) -> list[int]:
    """The n-bit parts of a 32-bit word, the low one first."""
    fields = [x >> i & (1 << n) - 1 for i in range(0, 32, n)]
    return [signed(f, n) for f in fields] if type_ == "s32" else fields


def dp4a(t: str, u: str, a: int, b: int, c: int) -> int:
    return c + sum(x * y for x, y in zip(parts(a, t, 8), parts(b, u, 8), strict=True))


def dp2a(t: str, u: str, skip: int, a: int, b: int, c: int) -> int:
    return c + sum(x * y for x, y in zip(parts(a, t, 16), parts(b, u, 8)[skip : skip + 2], strict=True))


PRODUCTS = []
for t in ("u32", "s32"):
    f = partial(product24, t)
    PRODUCTS += [
        Case(f"mul24.lo.{t} d, a, b", f"{t} {t} -> {t}", f),
        Case(f"mul24.hi.{t} d, a, b", f"{t} {t} -> {t}", lambda a, b, f=f: f(a, b) >> 16),
        Case(f"mad24.lo.{t} d, a, b, c", f"{t} {t} {t} -> {t}", lambda a, b, c, f=f: f(a, b) + c),
        Case(f"mad24.hi.{t} d, a, b, c", f"{t} {t} {t} -> {t}", lambda a, b, c, f=f: (f(a, b) >> 16) + c),
    ]
    for u in ("u32", "s32"):
        PRODUCTS += [
            Case(f"dp4a.{t}.{u} d, a, b, c", "b32 b32 b32 -> b32", partial(dp4a, t, u)),
            Case(f"dp2a.lo.{t}.{u} d, a, b, c", "b32 b32 b32 -> b32", partial(dp2a, t, u, 0)),
            Case(f"dp2a.hi.{t}.{u} d, a, b, c", "b32 b32 b32 -> b32", partial(dp2a, t, u, 2)),
        ]
PRODUCTS.append(
    Case(
        "mad24.hi.sat.s32 d, a, b, c",
        "s32 s32 s32 -> s32",
        lambda a, b, c: int32(signed(product24("s32", a, b) >> 16, 32) + c),
    )
)


# -- division ----------------------------------------------------------------------------------------


def quotient(a: int, b: int) -> int:
    """Towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def by_zero(n: int, a: int) -> int:
    """Quotient and remainder as observed on hardware: all ones; of a short 64-bit dividend, in 32 bits."""
    return (1 << 32) - 1 if n == 64 and 0 <= a < 1 << 32 else -1


DIVISION = []
for t in INTS:
    DIVISION += [
        Case(
            f"div.{t} d, a, b",
            f"{t} {t} -> {t}",
            lambda a, b, n=bits(t): quotient(a, b) if b else by_zero(n, a),
        ),
        Case(
            f"rem.{t} d, a, b",
            f"{t} {t} -> {t}",
            lambda a, b, n=bits(t): a - b * quotient(a, b) if b else by_zero(n, a),
        ),
    ]

# -- chains of carries: 128-bit and 96-bit numbers from the pieces that are there --------------------

_PARTS = ".reg .b32 %l, %h, %m, %k, %r, %s; mov.b64 {%l, %h}, a; mov.b64 {%m, %k}, b; "


def high_borrow(a: int, b: int) -> int:
    """(a - b) >> 32 less one for a borrow out of 64 bits."""
    return (a - b >> 32 & 0xFFFFFFFF) + ((a < b) << 32)


CARRIES = []
for t in ("u32", "s32"):
    for chain, expected in {
        f"add.cc.{t} %r, %l, %m; addc.{t} %s, %h, %k": lambda a, b: a + b,
        f"sub.cc.{t} %r, %l, %m; subc.{t} %s, %h, %k": lambda a, b: a - b,
        f"add.cc.{t} %r, %l, %m; addc.cc.{t} %r, %h, %k; addc.{t} %s, 0, 0": lambda a, b: a + b >> 32,
        f"sub.cc.{t} %r, %l, %m; subc.cc.{t} %r, %h, %k; subc.{t} %s, 0, 0; neg.s32 %s, %s": high_borrow,
    }.items():
        CARRIES.append(Case(f"{_PARTS}{chain}; mov.b64 d, {{%r, %s}}", "b64 b64 -> b64", expected))
for t in ("u64", "s64"):
    CARRIES += [
        Case(f"add.cc.{t} d, a, b; addc.{t} d, 0, 0", f"b64 b64 -> {t}", lambda a, b: a + b >> 64),
        Case(
            f"add.cc.{t} d, a, b; addc.cc.{t} d, a, b; addc.{t} d, 0, 0",
            f"b64 b64 -> {t}",
            lambda a, b: a + b + (a + b >> 64) >> 64,
        ),
        Case(f"sub.cc.{t} d, a, b; subc.{t} d, 0, 0", f"b64 b64 -> {t}", lambda a, b: -(a < b)),
        Case(
            f"sub.cc.{t} d, a, b; subc.cc.{t} d, a, b; subc.{t} d, 0, 0",
            f"b64 b64 -> {t}",
            lambda a, b: -(a < b + (a < b)),
        ),
    ]
for t in ("u32", "s32", "u64", "s64"):
    n = bits(t)
    low = lambda x, n=n: x & (1 << n) - 1  # noqa: E731
    CARRIES += [
        Case(f"mad.lo.cc.{t} d, a, b, c", f"{t} {t} {t} -> {t}", lambda a, b, c: a * b + c),
        Case(
            f"mad.lo.cc.{t} d, a, b, c; addc.{t} d, 0, 0",
            f"{t} {t} {t} -> {t}",
            lambda a, b, c, low=low, n=n: low(a * b) + low(c) >> n,
        ),
        Case(f"mad.hi.cc.{t} d, a, b, c", f"{t} {t} {t} -> {t}", lambda a, b, c, n=n: (a * b >> n) + c),
        Case(
            f"mad.hi.cc.{t} d, a, b, c; addc.{t} d, 0, 0",
            f"{t} {t} {t} -> {t}",
            lambda a, b, c, low=low, n=n: low(a * b >> n) + low(c) >> n,
        ),
        Case(
            f"add.cc.{t} d, a, b; madc.lo.{t} d, a, b, c",
            f"{t} {t} {t} -> {t}",
            lambda a, b, c, low=low, n=n: a * b + c + (low(a) + low(b) >> n),
        ),
        Case(
            f"add.cc.{t} d, a, b; madc.hi.{t} d, a, b, c",
            f"{t} {t} {t} -> {t}",
            lambda a, b, c, low=low, n=n: (a * b >> n) + c + (low(a) + low(b) >> n),
        ),
        Case(
            f"add.cc.{t} d, a, b; madc.hi.cc.{t} d, a, b, c; addc.{t} d, 0, 0",
            f"{t} {t} {t} -> {t}",
            lambda a, b, c, low=low, n=n: low(a * b >> n) + low(c) + (low(a) + low(b) >> n) >> n,
        ),
        Case(
            f"add.cc.{t} d, a, b; madc.lo.cc.{t} d, a, b, c; addc.{t} d, 0, 0",
            f"{t} {t} {t} -> {t}",
            lambda a, b, c, low=low, n=n: low(a * b) + low(c) + (low(a) + low(b) >> n) >> n,
        ),
    ]

# -- shifts ------------------------------------------------------------------------------------------

SHIFTS = []
for t in BITS:
    n = bits(t)
    SHIFTS.append(Case(f"shl.{t} d, a, b", f"{t} n -> {t}", lambda a, b, n=n: a << min(b, n)))
for t in (*BITS, *INTS):
    n = bits(t)
    SHIFTS.append(Case(f"shr.{t} d, a, b", f"{t} n -> {t}", lambda a, b, n=n: a >> min(b, n)))


def funnel(left: bool, wrap: bool, a: int, b: int, n: int) -> int:
    n = n & 31 if wrap else min(n, 32)
    both = b << 32 | a
    return both << n >> 32 if left else both >> n


for left in (False, True):
    for wrap in (False, True):
        opcode = f"shf.{'l' if left else 'r'}.{'wrap' if wrap else 'clamp'}.b32"
        SHIFTS.append(Case(f"{opcode} d, a, b, c", "b32 b32 n -> b32", partial(funnel, left, wrap)))

# -- counting and fields -----------------------------------------------------------------------------


def highest(a: int, n: int) -> int:
    """Position of the highest bit that differs from the sign; -1 if there is none."""
    return (~a if a < 0 else a).bit_length() - 1


def nth_set(mask: int, base: int, offset: int) -> int:
    if offset == 0:
        return base if mask >> base & 1 else -1
    order = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [i for i in order if mask >> i & 1]
    return found[abs(offset) - 1] if abs(offset) <= len(found) else -1


def extract(n: int, is_signed: bool, a: int, start: int, length: int) -> int:
    start, length = start & 255, length & 255
    top = min(start + length - 1, n - 1)
    sign = a >> top & 1 if is_signed and length else 0
    return sum((a >> start + i & 1 if i < length and start + i < n else sign) << i for i in range(n))


def insert(n: int, a: int, b: int, start: int, length: int) -> int:
    for i in range(min(length & 255, n - (start & 255))):
        place = (start & 255) + i
        b = b & ~(1 << place) | (a >> i & 1) << place
    return b


def mask(wrap: bool, start: int, length: int) -> int:
    if wrap:
        start, length = start & 31, length & 31
    return ((1 << min(length, 32)) - 1 << min(start, 32)) & 0xFFFFFFFF


def extend(wrap: bool, is_signed: bool, a: int, n: int) -> int:
    n = n & 31 if wrap else min(n, 32)
    if n == 0:
        return 0
    return signed(a, n) if is_signed else a & (1 << n) - 1


FIELDS = [
    Case(
        ".reg .b32 %y; and.b32 %y, b, 31; fns.b32 d, a, %y, c",
        "b32 u32 s32 -> b32",
        lambda a, b, c: nth_set(a, b & 31, c),
    )
]
FIELDS += [
    Case(f"fns.b32 d, a, {i}, {j}", "b32 -> b32", lambda a, i=i, j=j: nth_set(a, i, j))
    for i in (0, 3, 16, 31)
    for j in (0, 1, -1, 2, -2, 5, -7, 32, -32)
]
for n in (32, 64):
    FIELDS += [
        Case(f"popc.b{n} d, a", f"b{n} -> u32", lambda a: a.bit_count()),
        Case(f"clz.b{n} d, a", f"b{n} -> u32", lambda a, n=n: n - a.bit_length()),
        Case(f"brev.b{n} d, a", f"b{n} -> b{n}", lambda a, n=n: int(f"{a:0{n}b}"[::-1], 2)),
    ]
    for t in (f"u{n}", f"s{n}"):
        FIELDS += [
            Case(f"bfind.{t} d, a", f"{t} -> u32", lambda a, n=n: highest(a, n)),
            Case(
                f"bfind.shiftamt.{t} d, a",
                f"{t} -> u32",
                lambda a, n=n: n - 1 - highest(a, n) if highest(a, n) >= 0 else -1,
            ),
            Case(f"bfe.{t} d, a, b, c", f"{t} n n -> {t}", partial(extract, n, t[0] == "s")),
        ]
    FIELDS += [
        Case(
            f"bfi.b{n} d, a, b, {start}, c",
            f"b{n} b{n} n -> b{n}",
            lambda a, b, c, n=n, s=start: insert(n, a, b, s, c),
        )
        for start in (0, 5, 31, 32, 63, 64, 200)
    ]
    FIELDS += [
        Case(
            f"bfi.b{n} d, a, b, c, {length}",
            f"b{n} b{n} n -> b{n}",
            lambda a, b, c, n=n, k=length: insert(n, a, b, c, k),
        )
        for length in (0, 1, 9, 32, 64, 255)
    ]
for mode in ("clamp", "wrap"):
    FIELDS.append(Case(f"bmsk.{mode}.b32 d, a, b", "n n -> b32", partial(mask, mode == "wrap")))
    for t in ("u32", "s32"):
        FIELDS.append(
            Case(f"szext.{mode}.{t} d, a, b", "b32 n -> b32", partial(extend, mode == "wrap", t == "s32"))
        )

# -- permutation and truth tables --------------------------------------------------------------------


def permute(a: int, b: int, selector: int) -> int:
    both, result = b << 32 | a, 0
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = both >> 8 * (nibble & 7) & 255
        if nibble & 8:
            byte = 255 * (byte >> 7)
        result |= byte << 8 * i
    return result


#: the manual's table: which bytes make the result, the highest first, for a selector of 0, 1, 2, 3
PERMUTATIONS = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


def permute_by(mode: str, a: int, b: int, selector: int) -> int:
    both = (b << 32 | a).to_bytes(8, "little")
    return int.from_bytes(bytes(both[int(i)] for i in PERMUTATIONS[mode][selector & 3]), "big")


def truth(table: int, a: int, b: int, c: int) -> int:
    """The manual's construction: bit i of the table says what comes out where the bits of a, b, c are i's."""
    minterms = (
        (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c) for i in range(8) if table >> i & 1
    )
    return reduce(or_, minterms, 0)


def lop3_bool(table: str, op: str, a: int, b: int, c: int, q: bool) -> bool:
    value = truth(int(table, 0), a, b, c) != 0
    return value or q if op == "or" else value and q


PERMUTE = [Case("prmt.b32 d, a, b, c", "b32 b32 b32 -> b32", permute)]
PERMUTE += [
    Case(f"prmt.b32 d, a, b, {s:#x}", "b32 b32 -> b32", lambda a, b, s=s: permute(a, b, s))
    for s in (0x3210, 0x0123, 0x7531, 0xBA98, 0x5410, 0x1032)
]
PERMUTE += [
    Case(f"prmt.b32.{m} d, a, b, c", "b32 b32 n -> b32", partial(permute_by, m)) for m in PERMUTATIONS
]
_Q = ".reg .pred %q, %w; setp.lt.u32 %q, a, 99; "
PERMUTE += [
    Case(
        _Q + f"lop3.{op}.b32 %t|d, a, b, c, {table}, {q}%q",
        "b32 b32 b32 -> pred",
        lambda a, b, c, op=op, table=table, q=q: lop3_bool(table, op, a, b, c, (a < 99) != bool(q)),
    )
    for op in ("or", "and")
    for table in ("0x80", "0x96")
    for q in ("", "!")
]
TRUTH_TABLES = [
    Case(f"lop3.b32 d, a, b, c, {t:#x}", "b32 b32 b32 -> b32", partial(truth, t)) for t in range(256)
]

# -- SIMD within a word ------------------------------------------------------------------------------

LANE = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "avrg": lambda x, y: x + y + 1 >> 1 if x + y >= 0 else x + y >> 1,
    "absdiff": lambda x, y: abs(x - y),
    "min": min,
    "max": max,
}


def simd(op: str, n: int, types: str, mode: str, a: int, b: int, c: int) -> int:
    to, x, y = types.split(".")
    width = 32 // n
    lanes = [LANE[op](p, q) for p, q in zip(parts(a, x, width), parts(b, y, width), strict=True)]
    if mode == ".add":
        return c + sum(lanes)
    if mode == ".sat":
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if to == "s32" else (0, (1 << width) - 1)
        lanes = [clamp(v, low, high) for v in lanes]
    return sum((v & (1 << width) - 1) << width * i for i, v in enumerate(lanes))


SIMD = [
    Case(f"v{op}{n}.{types}{mode} d, a, b, c", "b32 b32 b32 -> b32", partial(simd, op, n, types, mode))
    for op in LANE
    for n in (2, 4)
    for types in ("u32.u32.u32", "s32.s32.s32", "s32.u32.s32", "u32.s32.u32")
    for mode in ("", ".sat", ".add")
]

# -- constants in place of registers -----------------------------------------------------------------

CONSTANTS = [
    Case("add.s32 d, a, -7", "s32 -> s32", lambda a: a - 7),
    Case("sub.s64 d, 0x7fffffffffffffff, a", "s64 -> s64", lambda a: (1 << 63) - 1 - a),
    Case("mul.lo.s16 d, a, -3", "s16 -> s16", lambda a: -3 * a),
    Case("mad.lo.u32 d, a, 4294967295, 0xFFFFFFFFU", "u32 -> u32", lambda a: -a - 1),
    Case("mul.wide.s32 d, a, -2147483648", "s32 -> s64", lambda a: a * -(1 << 31)),
    Case("mul.hi.u64 d, a, 0xFFFFFFFFFFFFFFFF", "u64 -> u64", lambda a: a * ((1 << 64) - 1) >> 64),
    Case("div.s32 d, a, 7", "s32 -> s32", lambda a: quotient(a, 7)),
    Case("div.s32 d, a, -1", "s32 -> s32", lambda a: quotient(a, -1)),
    Case("div.u64 d, a, 0", "u64 -> u64", partial(by_zero, 64)),
    Case("rem.s32 d, a, 0", "s32 -> s32", partial(by_zero, 32)),
    Case(
        "rem.s64 d, -9223372036854775808, a",
        "s64 -> s64",
        lambda a: -(1 << 63) - a * quotient(-(1 << 63), a) if a else -1,
    ),
    Case("shl.b32 d, a, 33", "b32 -> b32", lambda a: 0),
    Case("shr.s32 d, a, 33", "s32 -> s32", lambda a: -1 if a < 0 else 0),
    Case("shr.u64 d, a, 63", "u64 -> u64", lambda a: a >> 63),
    Case("shr.s64 d, a, 64", "s64 -> s64", lambda a: a >> 63),
    Case("shl.b16 d, a, 15", "b16 -> b16", lambda a: a << 15),
    Case("shl.b16 d, a, 16", "b16 -> b16", lambda a: 0),
    Case("shr.s16 d, a, 0", "s16 -> s16", lambda a: a),
    Case("shl.b64 d, a, 2", "b64 -> b64", lambda a: a << 2),
    Case("bfe.u32 d, a, 5, 40", "u32 -> u32", lambda a: a >> 5),
    Case("bfe.s64 d, a, 60, 2", "s64 -> s64", lambda a: signed(a >> 60, 2)),
    Case("and.b32 d, a, 017", "b32 -> b32", lambda a: a & 15),
    Case("and.b32 d, a, 0b1010", "b32 -> b32", lambda a: a & 10),
    Case("or.b64 d, a, -2", "b64 -> b64", lambda a: a | -2),
    Case("xor.b16 d, a, -1", "b16 -> b16", lambda a: ~a),
    Case("min.s32 d, -5, a", "s32 -> s32", lambda a: min(-5, a)),
    Case("max.u16 d, a, 65000", "u16 -> u16", lambda a: max(a, 65000)),
    Case("shf.l.wrap.b32 d, a, a, 7", "b32 -> b32", lambda a: a << 7 | a >> 25),
]

GROUPS = {
    "arithmetic": ARITHMETIC,
    "logic": LOGIC,
    "products": PRODUCTS,
    "division": DIVISION,
    "carries": CARRIES,
    "shifts": SHIFTS,
    "fields": FIELDS,
    "permute": PERMUTE,
    "truth tables": TRUTH_TABLES,
    "simd": SIMD,
    "constants": CONSTANTS,
}


@compared
@pytest.mark.parametrize("group", GROUPS)
def test_integers(unchecked_device, group, every):
    check(unchecked_device, GROUPS[group], every)
