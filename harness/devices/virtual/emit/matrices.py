"""Matrix instructions of a warp: ldmatrix, stmatrix, mma.sync and wmma.mma.

The PTX ISA defines which lane holds which element for ldmatrix and mma (section 9.7.14.5); for wmma see
rewrite/fragments.py, which has made plain accesses of its loads and stores. The products themselves are computed in
runtime/matrix.cu.
"""

from __future__ import annotations

from ..ptx.types import BITS
from .collectives import wait

#: element type -> number in runtime/matrix.cu
_ELEMENTS = {name: i for i, name in enumerate("f16 bf16 tf32 f64 s8 u8 f32 s32".split())}
_A, _B, _C = 0, 8, 16  # where the operands are in Extra.data
_WMMA, _SATFINITE = 1, 2


def emit(e, ins) -> None:
    """Lower a matrix instruction."""
    if ins.op.address is None:
        return _multiply(e, ins)
    return (_ldmatrix if ins.op.has_result else _stmatrix)(e, ins)


# -- Extra.data of this thread ---------------------------------------------------------------


def _data(e, index: int) -> str:
    """Host pointer to one element of it."""
    return e.state.pointer("Extra", "data", 8 * index)


def _give(e, index: int, value: str) -> None:
    e.line(f"store i64 {value}, ptr {_data(e, index)}")


def _take(e, index: int) -> str:
    return e.emit(f"load i64, ptr {_data(e, index)}")


# -- ldmatrix, stmatrix -------------------------------------------------------------------------


def _ldmatrix(e, ins) -> None:
    """Every lane gets two halves of a row, or of a column, of each matrix."""
    for target, places in zip(ins.operands[0].parts, _places(e, ins), strict=True):
        bits = 32 // len(places)
        values = [e.emit(f"load i{bits}, ptr {place}") for place in places]
        e.set(target, _packed(e, values, bits), "b32")


def _stmatrix(e, ins) -> None:
    """And puts them there."""
    for source, places in zip(ins.operands[1].parts, _places(e, ins), strict=True):
        value = e.value(source, "b32")
        for place in places:
            bits = 32 // len(places)
            e.line(f"store i{bits} {e.resize(value, 'i32', f'i{bits}')}, ptr {place}")
            value = e.op("lshr i32", value, 16)


def _places(e, ins) -> list[list[str]]:
    """For each matrix, the host pointers of this lane's two halves: one where they are neighbours.

    Lanes 0 to 8 * count - 1 give the address of a row of 16 bytes each, which they have checked.
    """
    op, transposed = ins.op, "trans" in ins.op.mods
    address, lane = e.variables.address(ins.address, "shared"), e.value("%laneid", "u32")
    _give(e, 0, e.op("add i64", address, "%sharedbase"))
    e.module.exchanges = True
    flags = int(transposed) | 2 * (not op.has_result)
    wait(e, "warp", "exchange", ins, [str(op.moved_rows // 8), str(flags)], "-1")
    quarter = e.cast("zext", "i32", e.op("and i32", lane, 3), "i64")
    row = e.cast("zext", "i32", e.op("lshr i32", lane, 2), "i64")
    within, each = (e.op("mul i64", row, 2), 2) if transposed else (e.op("mul i64", quarter, 4), 1)

    def place(i: int) -> str:
        return e.emit(f"getelementptr i8, ptr %arena, i64 {e.op('add i64', _take(e, i), within)}")

    return [[place(each * i + k) for k in range(each)] for i in range(op.moved_rows // 8)]


def _packed(e, parts, bits: int) -> str:
    """Integers of `bits` bits, the lowest first, as one of 32."""
    whole = "0"
    for i, part in enumerate(parts):
        part = e.op("shl i32", e.resize(part, f"i{bits}", "i32"), i * bits)
        whole = e.op("or i32", whole, part)
    return whole


# -- mma, wmma.mma -------------------------------------------------------------------------------


def _multiply(e, ins) -> None:
    """D = A B + C over the warp."""
    op, type_ = ins.op, ins.op.elements
    (m, n, k), flags = op.shape, _WMMA * (op.base == "wmma") | _SATFINITE * ("satfinite" in op.mods)
    for name, start, elements in (("a", _A, m * k), ("b", _B, k * n), ("c", _C, m * n)):
        bits = BITS[type_[name]]
        needed, width = max(1, elements * bits // 1024), max(32, bits)
        for i, part in enumerate(ins.named[name].parts[:needed]):
            _give(e, start + i, e.resize(e.value(part, f"b{width}"), f"i{width}", "i64"))
    types = sum(_ELEMENTS[type_[name]] << 4 * i for i, name in enumerate("abcd"))
    e.module.exchanges = True
    wait(e, "warp", "matrix", ins, [str(types), str(m | n << 8 | k << 16), str(flags)], "-1")
    bits = max(32, BITS[type_["d"]])
    for i, target in enumerate(ins.named["d"].parts):
        value = _take(e, i)
        e.set(target, value if bits == 64 else e.cast("trunc", "i64", value, "i32"), f"b{bits}")
