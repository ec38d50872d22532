"""What a wrong convolution kernel computes, in NumPy: for misconceptions of puzzles 13, 14, 16, 28 to 30, 34.

The names are those of `reference.conv`: the *image* is the side that gets padded, the *grid* the side that
counts the positions of the filter. A wrong kernel is a layer with different numbers
(`layer.but(stride_h=1)`), or one that finds its places by a different rule (`layer.but(place=...)`), on
arrays of unchanged shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from reference import conv

from .conv_cases import as_columns, one_tap_filters, options


def place(p, r, stride, pad, dilation):
    """The row of the image under tap r of the filter at position p."""
    return p * stride - pad + r * dilation


def position(h, r, stride, pad, dilation):
    """The position at which tap r lies on row h of the image; -1 if there is none."""
    steps = h + pad - r * dilation
    return np.where((steps >= 0) & (steps % stride == 0), steps // stride, -1)


def truncated(steps, stride):
    """steps / stride and steps % stride as in C: towards zero, the remainder with the sign of steps."""
    return np.fix(steps / stride).astype(int), np.fmod(steps, stride)


def remainder_ignored(h, r, stride, pad, dilation):
    """The position as in C, with no test of the remainder."""
    steps = h + pad - r * dilation
    return np.where(steps < 0, -1, steps // stride)


def remainder_of_the_element(h, r, stride, pad, dilation):
    """Tests h % stride instead of (h + pad - r * dilation) % stride."""
    steps = h + pad - r * dilation
    return np.where((h % stride == 0) & (steps >= 0), steps // stride, -1)


def remainder_positive_only(h, r, stride, pad, dilation):
    """Skipped if steps % stride > 0; in C, -1 % 2 is -1 and -1 / 2 is 0."""
    quotient, remainder = truncated(h + pad - r * dilation, stride)
    return np.where(remainder > 0, -1, quotient)


@dataclass(frozen=True)
class Layer:
    """One convolution: sizes, parameters, and the rules by which a kernel finds rows, columns and channels.

    C, H, W: of the image; K, P, Q: of the grid. image_channel(k, j) and grid_channel(c, j): the channels that
    are summed over, j = 0, 1, ... counting those of a group. weight_channel(c): the weights' second index.
    """

    C: int
    K: int
    H: int
    W: int
    P: int
    Q: int
    R: int
    S: int
    stride_h: int = 1
    stride_w: int = 1
    pad_h: int = 0
    pad_w: int = 0
    dilation_h: int = 1
    dilation_w: int = 1
    groups: int = 1
    place: Callable = place
    position: Callable = position
    image_channel: Callable | None = None
    grid_channel: Callable | None = None
    weight_channel: Callable | None = None

    def but(self, **other) -> Layer:
        return replace(self, **other)

    def swapped(self, *names: str) -> Layer:
        """Uses the parameter of the rows for the columns and vice versa: `swapped("stride", "pad")`."""
        pairs = [(f"{name}_h", f"{name}_w") for name in names]
        return self.but(**{a: getattr(self, b) for pair in pairs for a, b in (pair, pair[::-1])})

    @property
    def rows(self):
        return self.stride_h, self.pad_h, self.dilation_h

    @property
    def columns(self):
        return self.stride_w, self.pad_w, self.dilation_w


def convolution(d: Mapping[str, int]) -> Layer:
    """The layer of a case: the image is the input."""
    return Layer(d["C_in"], d["C_out"], d["H"], d["W"], d["H_out"], d["W_out"], **parameters(d))


def transposed(d: Mapping[str, int]) -> Layer:
    """The layer of a case with a transposed convolution: the image is the output."""
    return Layer(d["C_out"], d["C_in"], d["H_out"], d["W_out"], d["H"], d["W"], **parameters(d))


def parameters(d: Mapping[str, int]) -> dict[str, int]:
    sizes = {f.name for f in fields(Layer)} - {"C", "K", "H", "W", "P", "Q"}
    return {name: value for name, value in d.items() if name in sizes}


# ---- the three sums, each gathered by the side that it is written to ---------------------------------------


def grid_sum(layer: Layer, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """grid[n,k,p,q]: the sum over j, r, s of an image element times weights[k,j,r,s]."""
    under = under_the_taps(layer, image)
    channels = image_channels(layer)
    sums = [np.einsum("njprqs,jrs->npq", under[:, channels[k]], weights[k]) for k in range(layer.K)]
    return np.stack(sums, axis=1)


def weight_sum(layer: Layer, grid: np.ndarray, image: np.ndarray) -> np.ndarray:
    """weights[k,j,r,s]: the sum over n, p, q of grid[n,k,p,q] times an image element."""
    under = under_the_taps(layer, image)
    channels = image_channels(layer)
    return np.stack([np.einsum("npq,njprqs->jrs", grid[:, k], under[:, channels[k]]) for k in range(layer.K)])


def image_sum(layer: Layer, grid: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """image[n,c,h,w]: the sum over j, r, s of a grid element times a weight."""
    p = table(layer.position, layer.H, layer.R, layer.rows)
    q = table(layer.position, layer.W, layer.S, layer.columns)
    met = gather(grid, p, q)
    j = np.arange(layer.K // layer.groups)
    of_a_group = layer.C // layer.groups
    grid_channel = layer.grid_channel or (lambda c, j: c // of_a_group * len(j) + j)
    weight_channel = layer.weight_channel or (lambda c: c % of_a_group)
    sums = []
    for c in range(layer.C):
        k = grid_channel(c, j)
        sums.append(np.einsum("njhrws,jrs->nhw", met[:, k], weights[k, weight_channel(c)]))
    return np.stack(sums, axis=1)


def image_channels(layer: Layer) -> np.ndarray:
    """[k, j] -> the channel of the image."""
    j = np.arange(layer.C // layer.groups)
    of_a_group = layer.K // layer.groups
    rule = layer.image_channel or (lambda k, j: k // of_a_group * len(j) + j)
    return np.stack([rule(k, j) for k in range(layer.K)])


def under_the_taps(layer: Layer, image: np.ndarray) -> np.ndarray:
    """[n, c, p, r, q, s]: the image element under tap (r, s) of the filter at (p, q), or 0."""
    h = table(layer.place, layer.P, layer.R, layer.rows)
    w = table(layer.place, layer.Q, layer.S, layer.columns)
    return gather(image, h, w)


def table(rule: Callable, size: int, taps: int, parameters: tuple[int, int, int]) -> np.ndarray:
    """[i, tap] -> rule(i, tap, stride, pad, dilation)."""
    return rule(np.arange(size)[:, None], np.arange(taps), *parameters) + np.zeros((size, taps), int)


def gather(array: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """array[:, :, rows, columns] as [n, c, *rows' axes, *columns' axes]; 0 at places outside."""
    height, width = array.shape[2:]
    inside = ((rows >= 0) & (rows < height))[..., None, None] & (columns >= 0) & (columns < width)
    rows, columns = rows.clip(0, height - 1), columns.clip(0, width - 1)
    return array[:, :, rows[..., None, None], columns] * inside


# ---- of a convolution, from a case's arrays ---------------------------------------------------------------


def forward(a: Mapping[str, np.ndarray], layer: Layer) -> np.ndarray:
    return grid_sum(layer, a["input"], a["weights"]) + a["bias"][:, None, None]


def input_gradient(a: Mapping[str, np.ndarray], layer: Layer) -> np.ndarray:
    return image_sum(layer, a["grad_output"], a["weights"])


def weight_gradient(a: Mapping[str, np.ndarray], layer: Layer) -> np.ndarray:
    return weight_sum(layer, a["grad_output"], a["input"])


# ---- of a product with the column matrix -----------------------------------------------------------------


def matrices(a: Mapping[str, np.ndarray], d: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Weights [C_out, rows] and columns [rows, width]."""
    columns = as_columns(conv.forward(a["input"], one_tap_filters(d), **options(d)))
    return a["weights"].reshape(d["C_out"], -1), columns


def product(
    a: Mapping[str, np.ndarray], d: Mapping[str, int], filters: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """The output of a product of two matrices."""
    return outputs(a, d, filters @ columns)


def outputs(a: Mapping[str, np.ndarray], d: Mapping[str, int], sums: np.ndarray) -> np.ndarray:
    """The output of the sums [C_out, width]."""
    found = sums.reshape(d["C_out"], d["batch"], d["H_out"], d["W_out"])
    return found.swapaxes(0, 1) + a["bias"][:, None, None]


def fetched(a: Mapping[str, np.ndarray], d: Mapping[str, int], c, r, s) -> np.ndarray:
    """The columns [rows, width], where row i holds what is under tap (r[i], s[i]) in channel c[i], or 0.

    The tap or channel need not exist: whatever leads to an element of the input is fetched.
    """
    h = place(np.arange(d["H_out"]), r[:, None], d["stride_h"], d["pad_h"], d["dilation_h"])
    w = place(np.arange(d["W_out"]), s[:, None], d["stride_w"], d["pad_w"], d["dilation_w"])
    there = ((h >= 0) & (h < d["H"]))[:, :, None] & ((w >= 0) & (w < d["W"]))[:, None]
    there &= (c < d["C_in"])[:, None, None]
    c, h, w = c.clip(0, d["C_in"] - 1), h.clip(0, d["H"] - 1), w.clip(0, d["W"] - 1)
    return as_columns(a["input"][:, c[:, None, None], h[:, :, None], w[:, None]] * there)


def some_rows(a: Mapping[str, np.ndarray], d: Mapping[str, int], keep: Callable) -> np.ndarray:
    """The right answer computed only from the rows i for which keep(i) holds."""
    filters, columns = matrices(a, d)
    return product(a, d, filters * keep(np.arange(d["rows"])), columns)
