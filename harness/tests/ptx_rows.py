"""Runs PTX instructions one by one over many values, for the tests of the opcode table.

A case is a line of PTX in which `a`, `b`, `c` are the operands and `d` the result, the types of these, and a
function of Python numbers that says what must come out:

    Case("add.sat.s32 d, a, b", "s32 s32 -> s32", lambda a, b: clamp(a + b))

Values: s* are signed and u*, b* unsigned Python ints; floats are their bit patterns; "pred" is a bool. The
result is taken modulo its width, or is `exact.NAN`, "any NaN". Further types name what values to try:
"n" and "n64" are u32 that matter as bit positions, "f32i" and "f64i" floats around the ranges of integers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice, product

import numpy as np

from harness.tests import exact

_PER_KERNEL = 40  # cases; LLVM's time grows faster than the length of a function
_RANDOM = 60  # random values of each operand
_DRAWS = 600  # random tuples of operands


@dataclass(frozen=True)
class Case:
    line: str
    types: str
    expected: Callable | None = None

    @cached_property
    def opcodes(self) -> list[str]:
        return [part.split()[0] for part in self.line.split(";") if part.strip() and part.strip()[0] != "."]

    @cached_property
    def operands(self) -> tuple[str, ...]:
        return tuple(self.types.split("->")[0].split())

    @cached_property
    def result(self) -> str:
        return self.types.split("->")[1].strip()


@dataclass(frozen=True)
class Near:
    """A number and how far from it a result may be: absolutely, or relatively to it."""

    number: float
    relative: float = 0.0
    absolute: float = 0.0

    def matches(self, got: float) -> bool:
        if math.isinf(self.number) or math.isnan(self.number):
            return got == self.number or math.isnan(got) and math.isnan(self.number)
        return abs(got - self.number) <= max(self.absolute, self.relative * abs(self.number))


# -- values ----------------------------------------------------------------------------------------------

_EDGES = (0, 1, 2, 3, 5, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 127, 128, 255, 256, 1000)
_POSITIONS = (*range(36), 62, 63, 64, 65, 127, 128, 254, 255, 256, 257, 288, 1 << 31, (1 << 32) - 1)
FORMATS = {"f16": exact.F16, "bf16": exact.BF16, "f32": exact.F32, "f64": exact.F64}


def _integers(bits: int) -> list[int]:
    mask = (1 << bits) - 1
    edges = [v & mask for v in _EDGES] + [-v & mask for v in _EDGES]
    edges += [(1 << bits - 1) + v for v in (-2, -1, 0, 1)]
    edges += [0x5555555555555555 & mask, 0xAAAAAAAAAAAAAAAA & mask, 0x0123456789ABCDEF & mask, 0xFEDCBA9876543210 & mask]
    return edges


def _floats(f: exact.Format) -> list[int]:
    """Zeros, ones, the ends of each range, neighbours, ties, infinities and NaNs, of both signs."""
    least_normal, one = 1 << f.fraction, f.one
    two, half = one + least_normal, one - least_normal
    sizes = [0, 1, 2, 3, least_normal >> 1, least_normal - 1, least_normal, least_normal + 1, least_normal << 1,
             half, one - 1, one, one + 1, one + 2, one + (least_normal >> 1), two, two + (least_normal >> 2),
             one + (f.fraction << f.fraction), one + (f.fraction + 1 << f.fraction) + 1,
             f.infinity - 1, f.infinity - 2, f.infinity - least_normal,
             f.infinity, f.infinity | least_normal >> 1, (f.infinity | least_normal - 1)]  # fmt: skip
    return sizes + [f.sign | size for size in sizes]


def _around_integers(f: exact.Format) -> list[int]:
    """Floats at and beside halves, and at and beside the ends of the integer types."""
    values = []
    for number in (0.5, 1, 1.5, 2.5, 3.5, 99.25, *(float(1 << n) for n in (7, 8, 15, 16, 24, 31, 32, 52, 53, 63, 64))):
        pattern = f.round(exact.Fraction(number))
        values += [pattern - 1, pattern, pattern + 1]
        values += [f.round(exact.Fraction(number) + exact.Fraction(d, 2)) for d in (-2, -1, 1)]
    return values + [f.sign | v for v in values] + _floats(f)


def _random(bits: int, count: int, rng) -> list[int]:
    return [int(v) & (1 << bits) - 1 for v in rng.integers(0, 1 << 64, count, dtype=np.uint64)]


@cache
def width(type_: str) -> int:
    """Bits of a type of a case."""
    return 1 if type_ == "pred" else 32 if type_ == "n" or type_.endswith("x2") else int(re.search(r"\d+", type_)[0])


def _samples(type_: str, rng) -> tuple[list[int], list[int]]:
    """(values that matter, further ones) to try as an operand of a type, as patterns."""
    if type_ == "pred":
        return [0, 1], []
    if type_ == "n":
        return list(_POSITIONS), []
    if type_[-1] == "i":
        return _around_integers(FORMATS[type_[:-1]]), _random(FORMATS[type_[:-1]].bits, _RANDOM, rng)
    if type_.endswith("x2"):
        lanes = _floats(FORMATS[type_[:-2]])
        return [int(rng.choice(lanes)) << 16 | lane for lane in lanes], _random(32, _RANDOM, rng)
    if type_ in FORMATS:
        f = FORMATS[type_]
        spread = (16 << f.fraction) - 1  # within a factor of 256 of 1
        near_one = [f.one - (8 << f.fraction) + (v & spread) | v & f.sign for v in _random(64, _RANDOM, rng)]
        return _floats(f), near_one + _random(f.bits, _RANDOM, rng)
    return _integers(width(type_)), _random(width(type_), _RANDOM, rng)


def values(types: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Operand tuples: all those of one or two values that matter, and a draw that is the same every time."""
    rng = np.random.default_rng(sum(map(ord, "".join(types))))
    samples = [_samples(t, rng) for t in types]
    columns = [edges + others for edges, others in samples]
    chosen = list(product(*(edges for edges, _ in samples))) if len(types) <= 2 else []
    draws = rng.integers(0, [len(c) for c in columns], (_DRAWS, len(columns)))
    return chosen + [tuple(c[i] for c, i in zip(columns, draw, strict=True)) for draw in draws.tolist()]


# -- kernels ---------------------------------------------------------------------------------------------


def register(type_: str) -> str:
    """The PTX register type for a type of a case."""
    if type_ == "pred":
        return "pred"
    plain = type_.rstrip("i")
    return plain if plain in ("f32", "f64") else f"b{max(width(type_), 16)}"


def kernel(name: str, cases: list[Case], count: int, operands: tuple[str, ...]) -> str:
    """A kernel that loads the operands, executes each case and stores each result as 8 bytes at out[case][i]."""
    pointers = ", ".join(f".param .u64 p{i}" for i in range(len(operands) + 1))
    lines = ["mov.u32 %i, %ctaid.x;", "mov.u32 %n, %ntid.x;", "mov.u32 %t, %tid.x;", "mad.lo.u32 %i, %i, %n, %t;",
             f"setp.ge.u32 %end, %i, {count};", "@%end bra $L_end;"]  # fmt: skip
    for i, type_ in enumerate(operands):
        size = 4 if type_ == "pred" else max(width(type_), 16) // 8
        lines += [f"ld.param.u64 %p, [p{i}];", f"mul.wide.u32 %o, %i, {size};", "add.u64 %p, %p, %o;"]
        letter = "abc"[i]
        if type_ == "pred":
            lines += ["ld.global.u32 %t, [%p];", f"setp.ne.u32 %{letter}, %t, 0;"]
        else:
            lines.append(f"ld.global.{register(type_)} %{letter}, [%p];")
    lines += [f"ld.param.u64 %p, [p{len(operands)}];", "mul.wide.u32 %o, %i, 8;", "add.u64 %p, %p, %o;"]
    declared = [f".reg .{register(t)} %{'abc'[i]};" for i, t in enumerate(operands)]
    for k, case in enumerate(cases):
        lines += ["{", f".reg .{register(case.result.split('|')[0])} %d, %e;", "mov.u64 %x, 0;"]
        lines += [part.strip() + ";" for part in re.sub(r"(?<![\w.%])([a-e])(?!\w)", r"%\1", case.line).split(";") if part.strip()]
        lines += [*_widen(case.result), f"st.global.u64 [%p+{8 * k * count}], %x;", "}"]
    body = "\n\t".join([".reg .b32 %i, %n, %t;", ".reg .b64 %p, %o, %x;", ".reg .pred %end;", *declared, *lines])
    return f".visible .entry {name}({pointers})\n{{\n\t{body}\n$L_end:\n\tret;\n}}\n"


def _widen(result: str) -> list[str]:
    """%d, or two predicates, as the 64 bits of %x."""
    if result == "pred":
        return ["selp.u64 %x, 1, 0, %d;"]
    if result == "pred|pred":
        return ["selp.u64 %x, 1, 0, %d;", "@%e add.u64 %x, %x, 2;"]
    move = {"f32": "mov.b32 %t, %d;", "f64": "mov.b64 %x, %d;", "b64": "mov.b64 %x, %d;"}.get(register(result))
    if move is None or register(result) == "f32":
        source = "%t" if move else "%d"
        return [*([move] if move else []), f"cvt.u64.u{16 if register(result) == 'b16' else 32} %x, {source};"]
    return [move]


def module(kernels: list[str]) -> str:
    return ".version 8.0\n.target sm_80\n.address_size 64\n" + "\n".join(kernels)


# -- running -----------------------------------------------------------------------------------------------


def check(device, cases: list[Case]) -> None:
    """Run every case over its values. AssertionError: which line, with which operands, gave what instead of what."""
    made = [(operands, batch, values(operands)) for operands, batch in batches(cases)]
    loaded = device.load_ptx(module([kernel(f"k{i}", b, len(v), o) for i, (o, b, v) in enumerate(made)]))
    wrong = []
    for i, (operands, batch, inputs) in enumerate(made):
        results = _launch(device, loaded.get_function(f"k{i}"), operands, inputs, len(batch))
        seen = [tuple(map(operand, patterns, operands)) for patterns in inputs]
        for case, got in zip(batch, results, strict=True):
            wrong += [_describe(case, inputs[j], *what) for j, *what in islice(_mismatches(case, seen, got), 3)]
    assert not wrong, "\n" + "\n".join(wrong[:40])


def batches(cases: list[Case]):
    """(operand types, cases that share a kernel)."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        groups.setdefault(case.operands, []).append(case)
    for operands, group in groups.items():
        for start in range(0, len(group), _PER_KERNEL):
            yield operands, group[start : start + _PER_KERNEL]


def _launch(device, function, operands, inputs, count: int) -> np.ndarray:
    arrays = []
    for i, type_ in enumerate(operands):
        size = 4 if type_ == "pred" else max(width(type_), 16) // 8
        arrays.append(device.array(np.array([v[i] for v in inputs], f"u{size}")))
    out = device.empty((count, len(inputs)), np.uint64)
    function(-(-len(inputs) // 128), 128, (*arrays, out))
    return out.get()


def operand(pattern: int, type_: str):
    """A pattern as the Python value that the function of a case sees."""
    if type_ == "pred":
        return bool(pattern)
    if type_[0] == "s" and pattern >> width(type_) - 1:
        return pattern - (1 << width(type_))
    return pattern


def _mismatches(case: Case, inputs, results):
    """(position, result, expected) of what is wrong."""
    two = case.result == "pred|pred"
    bits = 2 if two else width(case.result)
    mask = (1 << bits) - 1
    for i, (values_, got) in enumerate(zip(inputs, results.tolist(), strict=True)):
        expected = case.expected(*values_)
        if two:
            expected = expected[0] + 2 * expected[1]
        got &= mask
        if isinstance(expected, int):
            if got != expected & mask:
                yield i, got, hex(expected & mask)
        elif not _agrees(got, expected, case.result):
            yield i, got, expected


def _describe(case: Case, patterns, got: int, expected) -> str:
    shown = ", ".join(f"{n}={p:#x}" for n, p in zip("abc", patterns, strict=False))
    return f"{case.line} ({shown}): {got:#x} instead of {expected}"


def _agrees(got: int, expected, type_: str) -> bool:
    """Whether a pattern is an int, some NaN, Near a number, or lane by lane (the low one first) one of these."""
    if isinstance(expected, tuple):
        return all(_agrees(got >> 16 * i & 0xFFFF, lane, type_[:-2]) for i, lane in enumerate(expected))
    if expected is exact.NAN:
        return FORMATS[type_].is_nan(got)
    if isinstance(expected, Near):
        return expected.matches(number(FORMATS[type_], got))
    return got == expected


def number(f: exact.Format, pattern: int) -> float:
    """A pattern as a Python float; every format here fits into one."""
    if f.is_nan(pattern):
        return math.nan
    if f.is_infinite(pattern):
        return -math.inf if f.is_negative(pattern) else math.inf
    size = float(abs(f.value(pattern)))
    return -size if f.is_negative(pattern) else size
