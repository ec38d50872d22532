"""What a wrong product through tiles computes, in NumPy: for misconceptions of puzzles 26, 30, 32 and 34.

`left` [M, K] times `right` [K, N]: a block of tile x tile threads has tile x tile elements. Thread (x, y) puts
left[row of y, start + x] and right[start + y, column of x] into the tiles; what does not exist is 0 there.
"""

from __future__ import annotations

import numpy as np

from .declare import ceil_div


def turned(matrix: np.ndarray, tile: int) -> np.ndarray:
    """A matrix with every tile transposed, and 0 where it has no element."""
    padded = np.pad(matrix, [(0, -n % tile) for n in matrix.shape])
    rows, columns = (n // tile for n in padded.shape)
    return padded.reshape(rows, tile, columns, tile).swapaxes(1, 3).reshape(padded.shape)


def multiplied(left: np.ndarray, right: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The product of matrices, some of them padded with 0, cut to [rows, columns]."""
    depth = max(left.shape[1], right.shape[0])
    left = np.pad(left, [(0, 0), (0, depth - left.shape[1])])
    right = np.pad(right, [(0, depth - right.shape[0]), (0, 0)])
    return (left @ right)[:rows, :columns]


def rows_by_x(left: np.ndarray, right: np.ndarray, tile: int) -> np.ndarray:
    """x counts the rows of `right` as well as its columns: thread (x, y) fetches right[start + x, column of x]."""
    depth = -left.shape[1] % tile
    left, right = np.pad(left, [(0, 0), (0, depth)]), np.pad(right, [(0, depth), (0, 0)])
    column = np.arange(right.shape[1])
    starts = range(0, right.shape[0], tile)
    return sum(np.outer(left[:, s : s + tile].sum(1), right[s + column % tile, column]) for s in starts)


def columns_by_y(left: np.ndarray, right: np.ndarray, tile: int) -> np.ndarray:
    """y counts the columns of `left` as well as its rows: thread (x, y) fetches left[row of y, start + y]."""
    return rows_by_x(right.T, left.T, tile).T


def blocks_exchanged(right: np.ndarray, tile: int) -> np.ndarray:
    """The product, where block (x, y) takes the rows of tile x and the columns of tile y; NaN where there is no block."""
    rows, columns = right.shape
    down, across = np.indices(right.shape) // tile
    return np.where((down < ceil_div(columns, tile)) & (across < ceil_div(rows, tile)), right, np.nan)
