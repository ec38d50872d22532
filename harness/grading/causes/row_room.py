"""A shared array with room for shorter rows than its indices have: `float s[TILE * TILE]` with `s[y * PITCH + x]`."""

from __future__ import annotations

from collections.abc import Iterator

from ...course.cuda_pieces import Piece, Variable
from ...course.cuda_text import read
from ...course.cuda_values import Values
from ...course.declare import Kernel
from ...errors import KernelFault
from .block_slips import row_length, shared_accesses
from .findings import reached, shown, sign_of


def rows_too_long(fault: KernelFault, kernel: Kernel, source: str) -> list[str]:
    """The sentence on an access outside an array that has room for as many rows of this length."""
    if fault.kind != "out-of-bounds" or not fault.index.isdecimal():
        return []
    file = read(source)
    values, found = Values(file), []
    for function in reached(file, kernel.name):
        own = [(array, index) for _, array, index in shared_accesses(function) if array.name == fault.array]
        lengths = [row_length(index) for _, index in own]
        if lengths and None not in lengths and len({array for array, _ in own}) == 1:
            found.append((own[0][0], lengths))
    if len(found) != 1 or len({values.integer(length) for length in found[0][1]}) != 1:
        return []
    array, (length, *_) = found[0]
    long, rows = values.integer(length), list(rows_of(array, values))
    if long is None or long in [short for _, _, short in rows]:
        return []
    needed = {
        count * long: factor
        for factor, count, short in rows
        if short < long and int(fault.index) < count * long
    }
    if len(needed) != 1:
        return []
    ((most, factor),) = needed.items()
    return [
        f"{array.name} (line {array.line}) has {valued(array.extents[0], values)} elements, and its rows are {valued(length, values)} "
        f"long: {shown(factor)} of them need {factor.code} * {length.code} = {most}."
    ]


def rows_of(array: Variable, values: Values) -> Iterator[tuple[Piece, int, int]]:
    """(a factor of the extent, its value, that of the other) for `ROWS * WIDTH`."""
    product = array.extents[0] if len(array.extents) == 1 else None
    if product and sign_of(product) == "*":
        both = product.part("left"), product.part("right")
        for factor, other in (both, both[::-1]):
            counts = values.integer(factor), values.integer(other)
            if None not in counts:
                yield factor, *counts


def valued(e: Piece, values: Values) -> str:
    """`TILE * TILE = 1024`."""
    text, value = shown(e), str(values.integer(e))
    return text if text == value else f"{text} = {value}"
