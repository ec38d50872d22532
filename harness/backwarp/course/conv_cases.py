"""What the puzzles on 2-D convolutions have in common: the dims of a case, scalar parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from . import sizes
from .declare import Case, Int, Pick, Scalar
from .sizes import Range, drawn

Pair = tuple[int, int]
#: of `square`, to be drawn: many images, everything else small
SMALL_SQUARES = dict(batch=(257, 290), C_in=(2, 4), H=(4, 8), W=(4, 8), C_out=(2, 5), F=(1, 3))
FEW_CHANNELS = dict(batch=(257, 270), C_in=(1, 3), H=(4, 6), W=(4, 6), C_out=(1, 3), F=(1, 3))


def size(
    batch: int,
    C_in: int,
    H: int,
    W: int,
    C_out: int,
    R: int,
    S: int,
    stride: Pair = (1, 1),
    pad: Pair = (0, 0),
    dilation: Pair = (1, 1),
    **more: int,
) -> dict[str, int]:
    """The dims of a case; pairs are (rows, columns). more: groups and the like."""
    pairs = {"stride": stride, "pad": pad, "dilation": dilation}
    both = {f"{name}_{axis}": n for name, pair in pairs.items() for axis, n in zip("hw", pair)}
    return dict(batch=batch, C_in=C_in, H=H, W=W, C_out=C_out, R=R, S=S, **both, **more)


def square(batch: int, C_in: int, H: int, W: int, C_out: int, F: int, **more: int) -> dict[str, int]:
    """The dims of a case with filters of F x F."""
    return dict(batch=batch, C_in=C_in, H=H, W=W, C_out=C_out, F=F, **more)


#: each option alone, then all together
ALONE = (
    Case("stride_alone", size(2, 3, 9, 7, 4, 3, 2, stride=(2, 3)), "rows by 2, columns by 3"),
    Case("padding_alone", size(2, 3, 4, 6, 2, 3, 2, pad=(1, 2)), "1 row, 2 columns of zeros"),
    Case("dilation_alone", size(2, 2, 8, 9, 3, 3, 3, dilation=(2, 3)), "gaps of 1 and of 2"),
    Case(
        "all_asymmetric",
        size(2, 3, 9, 8, 4, 3, 2, stride=(2, 3), pad=(2, 1), dilation=(3, 2)),
        "no two parameters of rows and columns agree",
    ),
)
COUNTED_IN_TILES = Case(
    "counted",
    size(1, 16, 8, 8, 32, 3, 3, pad=(1, 1)),
    "2 x 4 blocks, 9 pairs of tiles; this one is counted",
    again=lambda pick: size(2, pick(7, 10), 4, 16, 64, 5, S := pick(5, 7, 2), pad=(2, S // 2)),
)
COUNTED_BIAS = Case(
    "counted",
    dict(batch=4, C_out=32, H_out=8, W_out=16),
    "the case of the gates",
    again=drawn(batch=(5, 7), C_out=(33, 47), H_out=(12, 20, 4), W_out=(24, 40, 8)),
)


def ints(*more: str) -> tuple[Scalar, ...]:
    """The scalar parameters of a kernel: sizes, stride, padding, dilation, then `more`."""
    names = "batch C_in H W C_out R S stride_h stride_w pad_h pad_w dilation_h dilation_w".split()
    return tuple(map(Int, (*names, *more)))


def solid_ints(*more: str) -> tuple[Scalar, ...]:
    """Those of a convolution in three directions, without dilation."""
    names = "batch C_in D H W C_out T R S stride_d stride_h stride_w pad_d pad_h pad_w".split()
    return tuple(map(Int, (*names, *more)))


def output_sizes(d: Mapping[str, int]) -> dict[str, int]:
    """H_out and W_out, rounded down: rows are left over if the filter does not fit once more."""
    H_out = (d["H"] + 2 * d["pad_h"] - d["dilation_h"] * (d["R"] - 1) - 1) // d["stride_h"] + 1
    W_out = (d["W"] + 2 * d["pad_w"] - d["dilation_w"] * (d["S"] - 1) - 1) // d["stride_w"] + 1
    return {"H_out": H_out, "W_out": W_out}


def solid(d: Mapping[str, int]) -> dict[str, int]:
    """The dims of a case with a third direction in front, D long and with a filter of T: one slice where it has none."""
    d = {"D": 1, "T": 1, "stride_d": 1, "pad_d": 0, **d}
    return {"D_out": (d["D"] + 2 * d["pad_d"] - d["T"]) // d["stride_d"] + 1, **d}


def transposed_output_sizes(d: Mapping[str, int]) -> dict[str, int]:
    """H_out and W_out of a transposed convolution."""
    H_out = (d["H"] - 1) * d["stride_h"] - 2 * d["pad_h"] + d["dilation_h"] * (d["R"] - 1) + 1
    W_out = (d["W"] - 1) * d["stride_w"] - 2 * d["pad_w"] + d["dilation_w"] * (d["S"] - 1) + 1
    return {"H_out": H_out + d["out_pad_h"], "W_out": W_out + d["out_pad_w"]}


def options(d: Mapping[str, int], sides: str = "hw") -> dict:
    """Stride, padding, dilation and groups, as the reference expects them; sides: those of the image."""
    usual = ("stride", "stride", 1), ("padding", "pad", 0), ("dilation", "dilation", 1)
    each = {key: tuple(d.get(f"{name}_{side}", n) for side in sides) for key, name, n in usual}
    return {**each, "groups": d.get("groups", 1)}


def own_sizes(**more: Range) -> Case:
    """The case whose sizes are drawn: many images, everything else small. more: further sizes, or other ones."""

    def draw(pick: Pick) -> dict[str, int]:
        own = drawn(**more)(pick)
        sides = [pick(1, 3), pick(3, 6), pick(3, 6), pick(2, 4), pick(1, 3), pick(1, 3)]
        steps = (pick(1, 3), pick(1, 3)), (pick(0, 2), pick(0, 2))
        return size(pick(257, 270), *sides, *steps) | own

    return sizes.own_sizes(draw)


def shape(d: Mapping[str, int], *axes: str) -> tuple[int, ...]:
    return tuple(d[axis] for axis in axes)


# ---- the column matrix: a row for every (c, r, s), a column for every (b, p, q) ----------------------------


def column_case(batch: int, C_in: int, H: int, W: int, R: int, S: int, **more: Pair) -> dict[str, int]:
    """The dims of a case without filters: `size` without C_out."""
    return {name: n for name, n in size(batch, C_in, H, W, 0, R, S, **more).items() if name != "C_out"}


ALONE_IN_COLUMNS = tuple(
    replace(case, dims={name: n for name, n in case.dims.items() if name != "C_out"}) for case in ALONE
)
COUNTED_COLUMNS = Case(
    "counted",
    column_case(2, 16, 8, 8, 3, 3, pad=(1, 1)),
    "144 x 128 elements, and 16 x 128 pixels; this one is counted",
    again=lambda pick: column_case(
        3, pick(9, 13), 4 * pick(3, 4), 16, 5, S := pick(5, 7, 2), pad=(2, S // 2)
    ),
)


def column_ints() -> tuple[Scalar, ...]:
    return tuple(p for p in ints() if p.name != "C_out")


def column_sizes(d: Mapping[str, int]) -> dict[str, int]:
    """The output's sizes, and the matrix's: rows = C_in * R * S, width = batch * H_out * W_out."""
    out = output_sizes(d)
    return {**out, "rows": d["C_in"] * d["R"] * d["S"], "width": d["batch"] * out["H_out"] * out["W_out"]}


#: the axes that the column matrix's axes count through
MATRIX = {"i": {"c": "C_in", "r": "R", "s": "S"}, "j": {"b": "batch", "p": "H_out", "q": "W_out"}}


def as_columns(output: np.ndarray) -> np.ndarray:
    """Patches as of `conv.unfold` as the matrix [rows, width]."""
    return output.swapaxes(0, 1).reshape(output.shape[1], -1)


def from_columns(columns: np.ndarray, d: Mapping[str, int]) -> np.ndarray:
    """The matrix [rows, width] as patches."""
    return columns.reshape(d["rows"], d["batch"], -1).swapaxes(0, 1)


def unfolding(d: Mapping[str, int]) -> dict:
    """The filter and its steps, as `conv.unfold` and `conv.fold` expect them."""
    return {
        "filter": shape(d, "R", "S"),
        **{name: options(d)[name] for name in ("stride", "padding", "dilation")},
    }
