"""Edits that make the accesses of an array in shared memory alike: the same row length in all of them, and the same XOR swizzle.

Either side may be the wrong one, but only one of the two changes leaves the tile free of bank conflicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from ...cuda.follow import value_of
from ...cuda.parts import all_indices, sign_of
from ...cuda.pieces import Piece
from ...cuda.text import read
from ..causes.block_slips import is_the_same, row_length, shared_accesses, worth_of
from .edits import Edit

SAYS = "a place in memory"
ROW = "\0"  # stands for the row in a swizzle


def edits(source: str, kernel: str) -> Iterator[tuple[Edit, ...]]:
    """Of a kernel and of the functions of its file: each changes all accesses of an array that are unlike the others."""
    file = read(source)
    others = {k.name for k in file.kernels} - {kernel}
    for function in (f for f in file.functions if f.name not in others):
        found: dict[str, list[Piece]] = {}
        for access, array, _ in shared_accesses(function):
            if access.outer.kind != "subscript_expression":  # the whole of `a[i][j]`
                found.setdefault(array.name, []).append(access)
        for accesses in found.values():
            yield from chain(_of_one_length(accesses), _of_one_swizzle(accesses))


def _of_one_length(accesses: Sequence[Piece]) -> Iterator[tuple[Edit, ...]]:
    """`tile[x * (W + 1) + y]` where another access has `tile[y * (W + 1) + x]`, and the other way round."""
    lengths: dict[int | None, dict[int, Piece]] = {}
    for access in accesses:
        indices = all_indices(access)
        length = row_length(indices[0]) if len(indices) == 1 and indices[0] else None
        if length:
            lengths.setdefault(worth_of(length), {})[length.start] = length
    if len(lengths) != 2 or None in lengths:
        return
    one, other = (list(pieces.values()) for pieces in lengths.values())
    for these, those in ((other, one), (one, other)):
        yield tuple(Edit(e.start, e.end, _as_operand(those[0].code), SAYS) for e in these)


def _of_one_swizzle(accesses: Sequence[Piece]) -> Iterator[tuple[Edit, ...]]:
    """`tile[x][y ^ x]` where another access has `tile[y][x ^ y]`."""
    swizzle, plain, changed = "", [], []
    for access in accesses:
        if (both := _row_and_column(access)) is None:
            return
        row, column = both
        if sign_of(column) != "^":
            plain.append(both)
        elif not swizzle:
            swizzle = _of_the_row(row, column)
    for row, column in plain if swizzle else ():
        text = f"{_as_operand(column.code)} ^ {swizzle.replace(ROW, _as_operand(row.code))}"
        whole = column.outer.kind in (
            "subscript_argument_list",
            "init_declarator",
            "parenthesized_expression",
        )
        changed.append(Edit(column.start, column.end, text if whole else f"({text})", SAYS))
    if changed:
        yield tuple({edit.start: edit for edit in changed}.values())


def _row_and_column(access: Piece) -> tuple[Piece, Piece] | None:
    """`y` and `x` of `tile[y][x]` and of `tile[y * W + x]`."""
    indices = all_indices(access)
    if None in indices or len(indices) > 2:
        return None
    if len(indices) == 2:
        return indices[0], indices[1].bare
    index = indices[0]
    if index.kind == "identifier":
        index = value_of(index.file, index.code, index.start) or index
    product = index.part("left") if sign_of(index) == "+" else None
    if product is None or sign_of(product) != "*":
        return None
    rows = [p for p in (product.part("left"), product.part("right")) if not is_the_same(p)]
    return (rows[0].bare, index.part("right").bare) if len(rows) == 1 else None


def _of_the_row(row: Piece, column: Piece) -> str:
    """`y & 7` of `x ^ (y & 7)`, with ROW for y; "" if neither side depends on the row alone."""
    names = {p.code for p in row.all("identifier")}
    for side in (column.part("right"), column.part("left")):
        text = re.sub(rf"(?<!\w){re.escape(row.code)}(?!\w)", ROW, side.code)
        if ROW in text and not names & set(re.findall(r"\w+", text)):
            return text
    return ""


def _as_operand(code: str) -> str:
    return code if re.fullmatch(r"\w+|\w+\.\w+|\(.*\)", code) else f"({code})"
