"""The kernels of a convolution's passes as several puzzles declare them: arrays, references, and losses for their gradients.

Their scalar parameters say the rest: filters of F x F or R x S, and whether there are groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from backwarp.reference import conv

from .conv_cases import options, shape
from .declare import In, Kernel, Launch, Out, Scalar
from .sizes import Ints

Start = Callable[[dict[str, int], Mapping[str, int]], Launch]
Arrays = Mapping[str, np.ndarray]
INPUT = In("input", b="batch", c="C_in", h="H", w="W")
GRAD = In("grad_output", b="batch", k="C_out", p="H_out", q="W_out")


def filters(scalars: Sequence[Scalar]) -> dict[str, str]:
    """The axes of the weights."""
    names = {p.name for p in scalars}
    r, s = ("F", "F") if "F" in names else ("R", "S")
    return dict(k="C_out", c="C_group" if "groups" in names else "C_in", r=r, s=s)


def forward(name: str, launch: Start, scalars: Sequence[Scalar]) -> Kernel:
    """output [b, k, p, q] from input, weights and bias."""
    arrays = INPUT, In("weights", **filters(scalars)), In("bias", k="C_out")
    output = Out("output", b="batch", k="C_out", p="H_out", q="W_out")

    def right(a: Arrays, d: dict[str, int]) -> np.ndarray:
        return conv.forward(a["input"], a["weights"], a["bias"], **options(d))

    return Kernel(name, (*arrays, output, *scalars), launch, right)


def backward_input(name: str, launch: Start, scalars: Sequence[Scalar]) -> Kernel:
    """grad_input [b, c, h, w] from grad_output and weights."""
    output = Out("grad_input", b="batch", c="C_in", h="H", w="W")

    def right(a: Arrays, d: dict[str, int]) -> np.ndarray:
        return conv.backward_input(
            a["grad_output"], a["weights"], shape(d, "batch", "C_in", "H", "W"), **options(d)
        )

    return Kernel(name, (GRAD, In("weights", **filters(scalars)), output, *scalars), launch, right)


def solid_options(d: Mapping[str, int]) -> dict:
    """Stride and padding of three directions, as the reference expects them."""
    return {
        key: tuple(d[f"{name}_{side}"] for side in "dhw")
        for key, name in (("stride", "stride"), ("padding", "pad"))
    }


def backward_solid(name: str, launch: Start, channels_last: bool = False) -> Kernel:
    """grad_input [b, c, d, h, w] from grad_output and weights. channels_last: of the weights."""
    axes = dict(k="C_out", c="C_in", t="T", r="R", s="S")
    if channels_last:
        axes["c"] = axes.pop("c")
    grad = In("grad_output", b="batch", k="C_out", o="D_out", p="H_out", q="W_out")
    output = Out("grad_input", b="batch", c="C_in", d="D", h="H", w="W")
    names = "batch C_in D H W C_out T R S stride_d stride_h stride_w pad_d pad_h pad_w"

    def right(a: Arrays, d: dict[str, int]) -> np.ndarray:
        weights = np.moveaxis(a["weights"], -1, 1) if channels_last else a["weights"]
        return conv.backward_input(
            a["grad_output"], weights, shape(d, "batch", "C_in", "D", "H", "W"), **solid_options(d)
        )

    return Kernel(name, (grad, In("weights", **axes), output, *Ints(names)), launch, right)


def backward_weights(name: str, launch: Start, scalars: Sequence[Scalar]) -> Kernel:
    """grad_weights [k, c, r, s] from grad_output and input."""
    axes = filters(scalars)

    def right(a: Arrays, d: dict[str, int]) -> np.ndarray:
        return conv.backward_weights(a["grad_output"], a["input"], shape(d, *axes.values()), **options(d))

    return Kernel(name, (GRAD, INPUT, Out("grad_weights", **axes), *scalars), launch, right)


def backward_bias(name: str, launch: Start) -> Kernel:
    """grad_bias [k] from grad_output."""

    def right(a: Arrays, d: dict[str, int]) -> np.ndarray:
        return conv.backward_bias(a["grad_output"])

    return Kernel(name, (GRAD, Out("grad_bias", k="C_out"), *Ints("batch C_out H_out W_out")), launch, right)


def loss_of_weights(w: np.ndarray, a: Arrays, d: dict[str, int]) -> float:
    """A loss whose gradient at the convolution's output is grad_output, as a function of the weights."""
    return np.sum(a["grad_output"] * conv.forward(a["input"], w, **options(d)))


def loss_of_input(x: np.ndarray, a: Arrays, d: dict[str, int]) -> float:
    """The same as a function of the input."""
    return np.sum(a["grad_output"] * conv.forward(x, a["weights"], **options(d)))


def loss_of_solid(x: np.ndarray, a: Arrays, d: dict[str, int]) -> float:
    """That of `backward_solid`, as a function of the input; its weights have channels in second place."""
    return np.sum(a["grad_output"] * conv.forward(x, a["weights"], **solid_options(d)))


def loss_of_bias(bias: np.ndarray, a: Arrays, d: dict[str, int]) -> float:
    """That of a layer whose output is the bias and what does not depend on it."""
    return np.sum(a["grad_output"] * bias[:, None, None])


def loads_of_gradient(d: dict[str, int]) -> float:
    """Requests that bring every element of grad_output once, a float for each lane."""
    return d["batch"] * d["C_out"] * d["H_out"] * d["W_out"] / 32
