"""The kernels of a convolution's passes, and a product, as several puzzles declare them: arrays, references, and losses for their gradients.

Their scalar parameters say the rest: filters of F x F or R x S, and whether there are groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from backwarp.reference import conv, dense

from .conv_cases import options, shape
from .declare import In, Kernel, Launch, Out, Scalar
from .sizes import Ints

Start = Callable[[dict[str, int], Mapping[str, int]], Launch]
Arrays = Mapping[str, np.ndarray]
INPUT = In("input", b="batch", c="C_in", h="H", w="W")
GRAD = In("grad_output", b="batch", k="C_out", p="H_out", q="W_out")


class Shapes:
    """The axes of a convolution's arrays, in two directions or, where there is a D, in three."""

    def __init__(self, scalars: Sequence[Scalar]):
        names = {p.name for p in scalars}
        solid, r, s = "D" in names, *("FF" if "F" in names else "RS")
        self.sides = "dhw" if solid else "hw"
        self.input = dict(b="batch", c="C_in", **({"d": "D"} if solid else {}), h="H", w="W")
        self.output = dict(b="batch", k="C_out", **({"o": "D_out"} if solid else {}), p="H_out", q="W_out")
        channels = "C_group" if "groups" in names else "C_in"
        self.weights = dict(k="C_out", c=channels, **({"t": "T"} if solid else {}), r=r, s=s)


def forward(name: str, launch: Start, scalars: Sequence[Scalar], bias: bool = True) -> Kernel:
    """output [b, k, p, q] from input, weights and bias."""
    of = Shapes(scalars)
    arrays = In("input", **of.input), In("weights", **of.weights), *([In("bias", k="C_out")] if bias else [])

    def right(a: Arrays, d: dict[str, int]) -> np.ndarray:
        return conv.forward(a["input"], a["weights"], a.get("bias"), **options(d, of.sides))

    return Kernel(name, (*arrays, Out("output", **of.output), *scalars), launch, right)


def backward_input(
    name: str, launch: Start, scalars: Sequence[Scalar], channels_last: bool = False
) -> Kernel:
    """grad_input [b, c, h, w] from grad_output and weights. channels_last: of the weights."""
    of = Shapes(scalars)
    axes = dict(of.weights)
    if channels_last:
        axes["c"] = axes.pop("c")

    def right(a: Arrays, d: dict[str, int]) -> np.ndarray:
        weights = np.moveaxis(a["weights"], -1, 1) if channels_last else a["weights"]
        image = shape(d, *of.input.values())
        return conv.backward_input(a["grad_output"], weights, image, **options(d, of.sides))

    params = In("grad_output", **of.output), In("weights", **axes), Out("grad_input", **of.input), *scalars
    return Kernel(name, params, launch, right)


def backward_weights(name: str, launch: Start, scalars: Sequence[Scalar], channels: str = "") -> Kernel:
    """grad_weights [k, c, r, s] from grad_output and input. channels: the size of c, if the scalars do not say it."""
    of = Shapes(scalars)
    axes = {**of.weights, "c": channels or of.weights["c"]}

    def right(a: Arrays, d: dict[str, int]) -> np.ndarray:
        filters = shape(d, *axes.values())
        return conv.backward_weights(a["grad_output"], a["input"], filters, **options(d, of.sides))

    arrays = In("grad_output", **of.output), In("input", **of.input), Out("grad_weights", **axes)
    return Kernel(name, (*arrays, *scalars), launch, right)


def backward_bias(name: str, launch: Start) -> Kernel:
    """grad_bias [k] from grad_output."""

    def right(a: Arrays, d: dict[str, int]) -> np.ndarray:
        return conv.backward_bias(a["grad_output"])

    return Kernel(name, (GRAD, Out("grad_bias", k="C_out"), *Ints("batch C_out H_out W_out")), launch, right)


def sides_of(array: np.ndarray) -> str:
    return "dhw"[5 - array.ndim :]


def loss_of_weights(w: np.ndarray, a: Arrays, d: dict[str, int]) -> float:
    """A loss whose gradient at the convolution's output is grad_output, as a function of the weights."""
    return np.sum(a["grad_output"] * conv.forward(a["input"], w, **options(d, sides_of(w))))


def loss_of_input(x: np.ndarray, a: Arrays, d: dict[str, int]) -> float:
    """The same as a function of the input."""
    return np.sum(a["grad_output"] * conv.forward(x, a["weights"], **options(d, sides_of(x))))


def loss_of_bias(bias: np.ndarray, a: Arrays, d: dict[str, int]) -> float:
    """That of a layer whose output is the bias and what does not depend on it."""
    return np.sum(a["grad_output"] * bias[:, None, None])


def loads_of_gradient(d: dict[str, int]) -> float:
    """Requests that bring every element of grad_output once, a float for each lane."""
    return d["batch"] * d["C_out"] * d["H_out"] * d["W_out"] / 32


def matmul(name: str, launch: Start) -> Kernel:
    """C [m, n] from A [m, k] and B [k, n]."""
    arrays = In("A", m="M", k="K"), In("B", k="K", n="N"), Out("C", m="M", n="N")
    return Kernel(name, (*arrays, *Ints("M N K")), launch, lambda a, d: dense.matmul(a["A"], a["B"]))
