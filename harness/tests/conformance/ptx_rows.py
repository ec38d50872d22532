"""Runs PTX instructions one by one over many values, for the tests of the opcode table.

A case is a line of PTX in which `a`, `b`, `c` are the operands and `d` the result, the types of these, and a
function of Python numbers that says what must come out:

    Case("add.sat.s32 d, a, b", "s32 s32 -> s32", lambda a, b: clamp(a + b))

Values: s* are signed and u*, b* unsigned Python ints; floats are their bit patterns; "pred" is a bool. The
result is taken modulo its width, or is `exact.NAN`, "any NaN". Further types name what values to try:
"n" is a u32 that matters as a bit position, "f32i" and "f64i" are floats that are interesting to convert.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import product

import numpy as np
import pytest

from tests.conformance import exact

_PER_KERNEL = 40  # cases; LLVM's time grows faster than the length of a function
_RANDOM = 60  # random values of each operand
_DRAWS = 600  # random tuples of operands
_FIRST = (
    100  # tuples of operands whose results are always compared: all the values that matter of one operand
)
#: of the others' results, every fifth is compared by day, other ones in each case; all of them every night
compared = pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.soak, id="all")])


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


# -- values ------------------------------------------------------------------------------------------

_EDGES = (0, 1, 2, 3, 5, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 127, 128, 255, 256, 1000)
_POSITIONS = (*range(36), 62, 63, 64, 65, 127, 128, 254, 255, 256, 257, 288, 1 << 31, (1 << 32) - 1)
_FLOAT_TIES = (
    2049,
    2051,
    (1 << 24) + 1,
    (1 << 24) + 3,
    (1 << 53) + 1,
    (1 << 53) + 3,
    (1 << 63) + (1 << 39),
    (1 << 63) + 1024,
)
FORMATS = {"f16": exact.F16, "bf16": exact.BF16, "f32": exact.F32, "f64": exact.F64}


def _integers(bits: int) -> list[int]:
    mask = (1 << bits) - 1
    edges = [v & mask for v in _EDGES] + [-v & mask for v in _EDGES]
    edges += [(1 << bits - 1) + v for v in (-2, -1, 0, 1)]
    edges += [v for v in _FLOAT_TIES if v <= mask]
    edges += [
        0x5555555555555555 & mask,
        0xAAAAAAAAAAAAAAAA & mask,
        0x0123456789ABCDEF & mask,
        0xFEDCBA9876543210 & mask,
    ]
    return edges


def _floats(f: exact.Format) -> list[int]:
    """Zeros, ones, the ends of each range, neighbours, ties, infinities and NaNs, of both signs."""
    least_normal, one = 1 << f.fraction, f.one
    two, half = one + least_normal, one - least_normal
    sizes = [0, 1, 2, 3, least_normal >> 1, least_normal - 1, least_normal, least_normal + 1]
    sizes += [least_normal << 1, half, one - 1, one, one + 1, one + 2, one + (least_normal >> 1), two]
    sizes += [
        two + (least_normal >> 2),
        one + (f.fraction << f.fraction),
        one + (f.fraction + 1 << f.fraction) + 1,
    ]
    sizes += [f.infinity + d for d in (-least_normal, -2, -1, 0, least_normal >> 1, least_normal - 1)]
    return sizes + [f.sign | x for x in sizes]


def _for_conversion(f: exact.Format) -> list[int]:
    """Floats at and beside halves, the ends of the integer types, and the ties of narrower formats."""
    numbers = [Fraction(n) for n in (0.5, 1, 1.5, 2.5, 3.5, 99.25)]
    numbers += [Fraction(1 << n) for n in (7, 8, 15, 16, 24, 31, 32, 52, 53, 63, 64)]
    numbers += [n + Fraction(d, 2) for n in numbers for d in (-2, -1, 1)]
    for narrow in FORMATS.values():
        if narrow.fraction < f.fraction:
            for pattern in (0, 1, 2, narrow.one, narrow.one + 1, narrow.infinity - 2):
                numbers.append((narrow.value(pattern) + narrow.value(pattern + 1)) / 2)
            largest = narrow.value(narrow.infinity - 1)
            numbers.append(largest + (largest - narrow.value(narrow.infinity - 2)) / 2)
    values = [pattern + d for pattern in map(f.round, numbers) for d in (-1, 0, 1)]
    return [v for v in values + [f.sign | v for v in values] if v >= 0] + _floats(f)


def _random(bits: int, count: int, rng) -> list[int]:
    return [int(v) & (1 << bits) - 1 for v in rng.integers(0, 1 << 64, count, dtype=np.uint64)]


@cache
def width(type_: str) -> int:
    """Bits of a type of a case."""
    return (
        1
        if type_ == "pred"
        else 32
        if type_ == "n" or type_.endswith("x2")
        else int(re.search(r"\d+", type_)[0])
    )


def _samples(type_: str, rng) -> tuple[list[int], list[int]]:
    """(values that matter, further ones) to try as an operand of a type, as patterns."""
    if type_ == "pred":
        return [0, 1], []
    if type_ == "n":
        return list(_POSITIONS), []
    if type_[-1] == "i":
        return _for_conversion(FORMATS[type_[:-1]]), _random(FORMATS[type_[:-1]].bits, _RANDOM, rng)
    if type_.endswith("x2"):
        lanes = _floats(FORMATS[type_[:-2]])
        return [int(rng.choice(lanes)) << 16 | lane for lane in lanes], _random(32, _RANDOM, rng)
    if type_ in FORMATS:
        f = FORMATS[type_]
        spread = (16 << f.fraction) - 1  # within a factor of 256 of 1
        near_one = [f.one - (8 << f.fraction) + (v & spread) | v & f.sign for v in _random(64, _RANDOM, rng)]
        return _floats(f), near_one + _random(f.bits, _RANDOM, rng)
    return _integers(width(type_)), _random(width(type_), _RANDOM, rng)


@cache
def values(types: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Operand tuples: all those of one or two values that matter, and a draw that is the same every time."""
    rng = np.random.default_rng(sum(map(ord, "".join(types))))
    samples = [_samples(t, rng) for t in types]
    columns = [edges + others for edges, others in samples]
    chosen = list(product(*(edges for edges, _ in samples))) if len(types) <= 2 else []
    draws = rng.integers(0, [len(c) for c in columns], (_DRAWS, len(columns)))
    return chosen + [tuple(c[i] for c, i in zip(columns, draw, strict=True)) for draw in draws.tolist()]


# -- kernels -----------------------------------------------------------------------------------------


def size(type_: str) -> int:
    """Bytes of an operand in memory."""
    return 4 if type_ == "pred" else max(width(type_), 16) // 8


def register(type_: str) -> str:
    """The PTX register type for a type of a case."""
    if type_ == "pred":
        return "pred"
    plain = type_.rstrip("i")
    return plain if plain in ("f32", "f64") else f"b{max(width(type_), 16)}"


_PROLOGUE = """
	.reg .b32 %i, %n, %t;
	.reg .b64 %p<5>, %o<5>, %q<5>;
	.reg .pred %end;
	mov.u32 %i, %ctaid.x;
	mov.u32 %n, %ntid.x;
	mov.u32 %t, %tid.x;
	mad.lo.u32 %i, %i, %n, %t;
	setp.ge.u32 %end, %i, {count};
	@%end bra $L_end;
"""


def kernel(name: str, cases: list[Case], count: int, operands: tuple[str, ...]) -> str:
    """A kernel that loads the operands, executes each case, stores its result as 8 bytes at out[case][i]."""
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(operands) + 1))
    lines = []
    for i, (letter, type_) in enumerate(zip("abc", operands, strict=False)):
        lines += [f".reg .{register(type_)} %{letter};", *_point(i, size(type_))]
        if type_ == "pred":
            lines += [f"ld.global.u32 %t, [%p{i}];", f"setp.ne.u32 %{letter}, %t, 0;"]
        else:
            lines.append(f"ld.global.{register(type_)} %{letter}, [%p{i}];")
    lines += _point(len(operands), 8)
    for k, case in enumerate(cases):
        body = re.sub(r"(?<![\w.%])([a-e])(?!\w)", r"%\1", case.line)
        lines += ["{", f".reg .{register(case.result.split('|')[0])} %d, %e;", ".reg .b64 %x;"]
        lines += ["mov.u64 %x, 0;", f"{body};"]
        lines += [*_widen(case.result), f"st.global.u64 [%p{len(operands)}+{8 * k * count}], %x;", "}"]
    body = _PROLOGUE.format(count=count) + "\t" + "\n\t".join(lines)
    return f".visible .entry {name}({parameters})\n{{{body}\n$L_end:\n\tret;\n}}\n"


def _point(parameter: int, nbytes: int) -> list[str]:
    """%pN: the address of element %i of an array."""
    n = parameter
    return [
        f"ld.param.u64 %q{n}, [p{n}];",
        f"mul.wide.u32 %o{n}, %i, {nbytes};",
        f"add.u64 %p{n}, %q{n}, %o{n};",
    ]


def _widen(result: str) -> list[str]:
    """%d, or two predicates %d and %e, as the 64 bits of %x."""
    if result == "pred|pred":
        return ["selp.u64 %x, 1, 0, %d;", "@%e add.u64 %x, %x, 2;"]
    return {
        "pred": ["selp.u64 %x, 1, 0, %d;"],
        "b16": ["cvt.u64.u16 %x, %d;"],
        "b32": ["cvt.u64.u32 %x, %d;"],
        "f32": ["mov.b32 %t, %d;", "cvt.u64.u32 %x, %t;"],
        "b64": ["mov.b64 %x, %d;"],
        "f64": ["mov.b64 %x, %d;"],
    }[register(result)]


def module(kernels: list[str]) -> str:
    return ".version 8.0\n.target sm_80\n.address_size 64\n" + "\n".join(kernels)


# -- running -----------------------------------------------------------------------------------------


def check(device, cases: list[Case], every: int = 1) -> None:
    """Run every case over its values. every: see `compared`.

    AssertionError: which line, with which operands, gave what instead of what.
    """
    made = [(operands, batch, values(operands)) for operands, batch in batches(cases)]
    loaded = device.load_ptx(module([kernel(f"k{i}", b, len(v), o) for i, (o, b, v) in enumerate(made)]))
    wrong = []
    for i, (operands, batch, inputs) in enumerate(made):
        out = device.empty((len(batch), len(inputs)), np.uint64)
        launch(device, loaded.get_function(f"k{i}"), operands, inputs, out)
        results = out.get().tolist()
        for k in range(every):
            shown = some(inputs, k, every)
            for case, got in zip(batch[k::every], results[k::every], strict=True):
                wrong += mismatches(case, shown, some(got, k, every))
    assert not wrong, "\n" + "\n".join(wrong[:40])


def some(results: list, first: int, every: int) -> list:
    return results[:_FIRST] + results[_FIRST + first :: every]


def batches(cases: list[Case]):
    """(operand types, cases that share a kernel)."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        groups.setdefault(case.operands, []).append(case)
    for operands, group in groups.items():
        for start in range(0, len(group), _PER_KERNEL):
            yield operands, group[start : start + _PER_KERNEL]


def launch(device, function, operands, inputs, out) -> None:
    """Call kernel(operand arrays..., out) with one thread for each tuple of operands."""
    columns = zip(*inputs, strict=True)
    arrays = [device.array(np.array(c, f"u{size(t)}")) for c, t in zip(columns, operands, strict=True)]
    function(-(-len(inputs) // 128), 128, (*arrays, out))


def operand(pattern: int, type_: str):
    """A pattern as the Python value that the function of a case sees."""
    if type_ == "pred":
        return bool(pattern)
    if type_[0] == "s" and pattern >> width(type_) - 1:
        return pattern - (1 << width(type_))
    return pattern


def mismatches(case: Case, inputs, results, limit: int = 3) -> list[str]:
    """A line for each of the first wrong results; none if all are right."""
    found, pair = [], case.result == "pred|pred"
    mask = (1 << (2 if pair else width(case.result))) - 1
    for patterns, arguments, got in zip(inputs, _arguments(case.operands, inputs), results, strict=True):
        expected = case.expected(*arguments)
        if pair:
            expected = expected[0] + 2 * expected[1]
        if isinstance(expected, int):
            got, expected = got & mask, expected & mask
        if got != expected and (isinstance(expected, int) or not _agrees(got, expected, case.result)):
            shown = ", ".join(f"{n}={p:#x}" for n, p in zip("abc", patterns, strict=False))
            want = hex(expected) if isinstance(expected, int) else expected
            found.append(f"{case.line} ({shown}): {got:#x} instead of {want}")
            if len(found) == limit:
                break
    return found


def _arguments(types: tuple[str, ...], inputs) -> list[tuple]:
    """Operand tuples as the cases' functions see them; cached for consecutive cases."""
    if _last[:2] != [types, inputs]:
        _last[:] = types, inputs, [tuple(map(operand, patterns, types)) for patterns in inputs]
    return _last[2]


_last: list = [None, None, None]


def _agrees(got: int, expected, type_: str) -> bool:
    """Whether a pattern is as expected: an int, NAN, Near, or these lane by lane, the low one first."""
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
