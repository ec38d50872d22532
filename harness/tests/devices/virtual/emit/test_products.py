"""Every spelling of mma and wmma.mma against NumPy, bit for bit: the sums are those of doubles, one after the other."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest

from backwarp.devices.virtual.device import VirtualGPU
from backwarp.devices.virtual.ptx.spellings import find, rows
from backwarp.devices.virtual.ptx.types import BITS
from tests import sampled
from tests.conformance.test_table import spellings
from tests.devices.virtual.launches import K, Quick, device

_RAW = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_C = {"f32": ("f", "float"), "f64": ("d", "double"), "s32": ("r", "int"), "b32": ("r", "unsigned")}


def all_products() -> dict[str, str]:
    """Of the opcodes that multiply, one for each shape, types and saturation, and a name for its kernel."""
    found = {}
    for pattern, _, _ in rows():
        if pattern.startswith(("mma.", "wmma.mma.")):
            for opcode in spellings(pattern.replace("!", "")):
                op = find(opcode)
                found.setdefault((op.base, op.shape, *op.elements.values(), "satfinite" in op.mods), opcode)
    return {opcode: f"k{i}" for i, opcode in enumerate(found.values())}


PRODUCTS = all_products()


def some_products() -> list[str]:
    """One of each instruction and types of A and D."""
    ops = {opcode: find(opcode) for opcode in PRODUCTS}
    return list(
        {(op.base, op.elements["a"], op.elements["d"]): opcode for opcode, op in ops.items()}.values()
    )


def kernel(opcode: str, name: str) -> str:
    """Registers from memory, by register and lane: a[][32], b[][32], c[][32] -> d[][32]."""
    roles = {role.name: role for role in max(find(opcode).roles.items())[1]}
    lines, operands, bound, n = [], [], {"=": [], "": []}, 0
    for which in "dabc":
        letter, type_ = _C[roles[which].type]
        count = max(1, roles[which].vector)
        lines.append(f"{type_} {which}_[{count}];")
        if which != "d":
            lines.append(
                f"for (int i = 0; i < {count}; i++) {which}_[i] = (({type_}*){which})[32 * i + lane];"
            )
        names = ", ".join(f"%{n + i}" for i in range(count))
        operands.append(f"{{{names}}}" if count > 1 or roles[which].vector else names)
        mark = "=" if which == "d" else ""
        bound[mark] += [f'"{mark}{letter}"({which}_[{i}])' for i in range(count)]
        n += count
    text = (
        f'asm volatile("{opcode} {", ".join(operands)};" : {", ".join(bound["="])} : {", ".join(bound[""])});'
    )
    letter, type_ = _C[roles["d"].type]
    count = max(1, roles["d"].vector)
    lines += [text, f"for (int i = 0; i < {count}; i++) (({type_}*)d)[32 * i + lane] = d_[i];"]
    body = "\n    ".join(["int lane = threadIdx.x;", *lines])
    return f"{K}{name}(const void* a, const void* b, const void* c, void* d) {{\n    {body}\n}}\n"


@cache
def optimised(target: str) -> VirtualGPU:
    device = VirtualGPU("memory")
    device.target = target
    return device


@cache
def lanes() -> VirtualGPU:
    device = Quick("memory")
    device.lanes = 16
    return device


DEVICES = {
    "full": partial(device, "full"),
    "lanes": lanes,
    "this processor": partial(optimised, ""),
    "AVX2": partial(optimised, "avx2"),
}


# -- fragments -----------------------------------------------------------------------------------------------


def places(op, which: str) -> tuple[np.ndarray, np.ndarray, int]:
    """(rows, columns) of the elements of a lane, each [32][number], and how many a register holds."""
    m, n, k = op.shape
    rows, columns = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    each = max(1, 32 // BITS[op.elements[which]])
    lane, i = np.mgrid[:32, : rows * columns // 32]
    if op.base == "wmma":
        number = lane * (rows * columns // 32) + i
        return number // columns, number % columns, each
    group, quarter, register, sub = lane // 4, lane % 4, i // each, i % each
    if which == "a":
        tall = rows == 16
        row = group + 8 * (register % 2) * tall
        return row, quarter * each + sub + 4 * each * (register // 2 if tall else register), each
    if which == "b":
        return quarter * each + sub + 4 * each * register, group, each
    return group + 8 * (i // 2), quarter * 2 + i % 2, each


def fragments(op, which: str, matrix: np.ndarray) -> np.ndarray:
    """The bits of a matrix -> registers, [number][32]; those that hold nothing of it are all ones."""
    row, column, each = places(op, which)
    bits = matrix[row, column]  # [32][elements]
    words = np.ascontiguousarray(bits).view(_RAW[max(32, BITS[op.elements[which]])])
    role = next(r for r in max(op.roles.items())[1] if r.name == which)
    found = np.full((max(1, role.vector), 32), -1).astype(words.dtype)
    found[: words.shape[1]] = words.T
    return found


def matrix_of(op, registers: np.ndarray) -> np.ndarray:
    """The bits of D."""
    row, column, each = places(op, "d")
    bits = np.ascontiguousarray(registers.T).view(_RAW[BITS[op.elements["d"]]])
    found = np.zeros(op.shape[:2], bits.dtype)
    found[row, column] = bits[:, : row.shape[1]]
    return found


# -- the model -----------------------------------------------------------------------------------------------

_FINITE = {
    # 0, -0, the smallest denormal and a larger one, the largest number, 1, what TF32 cuts off
    "f16": (0, 0x8000, 1, 0x83FF, 0x7BFF, 0xFBFF, 0x3C00, 0x0400),
    "bf16": (0, 0x8000, 1, 0x807F, 0x7F7F, 0xFF7F, 0x3F80, 0x0080),
    "f32": (0, 1 << 31, 1, 0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0x00800000),
    "tf32": (0, 1 << 31, 1, 0x8000FFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F801FFF, 0x00803000),
    "f64": (0, 1 << 63, 1, (1 << 63) | 12345, (1 << 63) - (1 << 52) - 1, 1023 << 52, 1 << 52),
    "s8": (0, 0x80, 0x7F, 0xFF, 1),
    "u8": (0, 0x80, 0x7F, 0xFF, 1),
    "s32": (0, 1 << 31, (1 << 31) - 1, (1 << 32) - 1, 1),
}
_SPECIAL = {
    "f16": (0x7C00, 0xFC00, 0x7E01),
    "bf16": (0x7F80, 0xFF80, 0x7FC1),
    "f32": (0x7F800000, 0xFF800000, 0x7FC00001),
    "tf32": (0x7F800000, 0xFF800000, 0x7FC02000),
    "f64": (0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48 | 1),
}


def bits(element: str, shape, rng, kind: int) -> np.ndarray:
    """Random bits. kind: 0 numbers of usual size, 1 any finite ones and edges, 2 infinities and NaN now and then."""
    raw = _RAW[BITS[element]]
    if kind == 0 and element not in ("s8", "u8", "s32"):
        values = rng.standard_normal(shape)
        if element == "f16":
            return values.astype(np.float16).view(raw)
        if element == "f64":
            return values.view(raw)
        found = values.astype(np.float32).view(np.uint32)
        return (found >> 16).astype(raw) if element == "bf16" else found
    found = (
        rng.integers(0, 1 << BITS[element], shape, np.uint64, endpoint=False)
        if BITS[element] < 64
        else (rng.integers(0, (1 << 64) - 1, shape, np.uint64, endpoint=True))
    )
    if element in _SPECIAL:  # no infinity and no NaN
        fraction = {"f16": 10, "bf16": 7, "f64": 52}.get(element, 23)
        exponent = (1 << BITS[element] - 1 - fraction) - 1 << fraction
        found = np.where(found & np.uint64(exponent) == exponent, found ^ np.uint64(1 << fraction), found)
    edges = np.array(_FINITE[element], np.uint64)
    found = np.where(rng.random(shape) < 0.3, rng.choice(edges, shape), found)
    if kind == 2 and element in _SPECIAL:
        found = np.where(
            rng.random(shape) < 0.02, rng.choice(np.array(_SPECIAL[element], np.uint64), shape), found
        )
    return found.astype(raw)


def numbers(element: str, given: np.ndarray) -> np.ndarray:
    if element == "bf16":
        return (given.astype(np.uint32) << 16).view(np.float32).astype(float)
    if element == "tf32":
        return (given & np.uint32(0xFFFFE000)).view(np.float32).astype(float)
    types = dict(f16=np.float16, f32=np.float32, f64=float, s8=np.int8, u8=np.uint8, s32=np.int32)
    return given.view(types[element]).astype(np.int64 if element[0] in "su" else float)


def expected(op, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The bits of D; a product of two numbers is exact in double, but for those of doubles."""
    element = op.elements["d"]
    a, b, sums = (numbers(op.elements[x], y) for x, y in (("a", a), ("b", b), ("c", c)))
    with np.errstate(all="ignore"):
        for k in range(op.shape[2]):
            left, right = a[:, k, None], b[k]
            sums = fused(left, right, sums) if op.elements["a"] == "f64" else sums + left * right
        if element == "s32":
            if "satfinite" in op.mods:
                sums = sums.clip(-(1 << 31), (1 << 31) - 1)
            return sums.astype(np.int32).view(np.uint32)
        if element == "f64":
            return sums.view(np.uint64)
        sums = sums.astype(np.float32)
        return sums.view(np.uint32) if element == "f32" else sums.astype(np.float16).view(np.uint16)


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c, rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    return np.array([_fused(*map(float, x)) for x in zip(a.flat, b.flat, c.flat, strict=True)]).reshape(
        c.shape
    )


def _fused(a: float, b: float, c: float) -> float:
    if not math.isfinite(a) or not math.isfinite(b) or not (a and b):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:  # of zeros the sign of both, of others plus
        return 0.0 if c else a * b + c
    try:
        return float(exact) or (0.0 if exact > 0 else -0.0)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def is_nan(element: str, given: np.ndarray) -> np.ndarray:
    return np.isnan(numbers(element, given)) if element in _SPECIAL else np.zeros(given.shape, bool)


def agree(element: str, got: np.ndarray, wanted: np.ndarray) -> bool:
    """The same bits, or both NaN, whose payload PTX leaves open."""
    return bool(((got == wanted) | is_nan(element, got) & is_nan(element, wanted)).all())


def compare(dev: VirtualGPU, opcodes: list[str]) -> None:
    """Random products of a device against the model."""
    source = "".join(kernel(opcode, PRODUCTS[opcode]) for opcode in opcodes)
    module, rng, wrong = dev.compile(source), np.random.default_rng(3), []
    for opcode in opcodes:
        op = find(opcode)
        m, n, k = op.shape
        shapes, element = dict(a=(m, k), b=(k, n), c=(m, n)), op.elements["d"]
        nothing = fragments(op, "d", np.zeros((m, n), _RAW[BITS[element]]))
        product = module.get_function(PRODUCTS[opcode])
        as_lanes = (dev.lanes > 1 or not dev.quick) and op.base == "mma"
        assert product.info.lanes == (32 if as_lanes else 1)
        for kind in range(3):
            given = {x: bits(op.elements[x], shape, rng, kind) for x, shape in shapes.items()}
            registers = [dev.array(fragments(op, x, matrix)) for x, matrix in given.items()]
            out = dev.array(nothing, name="d")
            product(1, 32, (*registers, out))
            if not agree(element, matrix_of(op, out.get()), expected(op, *given.values())):
                wrong.append((opcode, kind))
    assert not wrong


@pytest.mark.soak
def test_every_product():
    assert len(PRODUCTS) == 74
    compare(device("memory"), list(PRODUCTS))


#: what LLVM's optimiser does, and what AVX2 has instead of AVX-512, is not about products: emit/lanes
@pytest.mark.parametrize("name", sampled(DEVICES, always=("full", "lanes"), every=0))
def test_products(name):
    compare(DEVICES[name](), some_products())
