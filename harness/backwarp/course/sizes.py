"""What puzzles say in one line: int parameters, launches, sizes that are drawn, and cases that nearly every puzzle has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from .declare import Case, Int, Launch, Pick, Scalar, ceil_div

#: of a drawn size: a number, or (low, high) or (low, high, step) for a Pick
Range = int | tuple[int, ...]


def Ints(names: str) -> tuple[Scalar, ...]:
    """Several int parameters, each the dimension of its name: `*Ints("batch C_in H W")`."""
    return tuple(map(Int, names.split()))


def one_thread_each(*axes: str) -> Callable[[Mapping[str, int], Mapping], Launch]:
    """A launch with one thread per element of an array with these dimensions."""
    return lambda d, t: Launch(ceil_div(prod(d[axis] for axis in axes), d["threads"]), d["threads"])


def drawn(**sizes: Range) -> Callable[[Pick], dict[str, int]]:
    """Sizes drawn by name, for `Case.draw` and `Case.again`."""
    return lambda pick: {name: n if isinstance(n, int) else pick(*n) for name, n in sizes.items()}


def own_sizes(draw: Callable[[Pick], dict[str, int]] | None = None, **sizes: Range) -> Case:
    """The case whose sizes are drawn from the file's text; `draw` where some depend on others."""
    return Case("own_sizes", note="sizes drawn from your file's text", draw=draw or drawn(**sizes))


def integers(dims: Mapping[str, int], note: str = "exact sums", **more: Any) -> Case:
    """The case of small whole numbers, which must come out to the last bit. more: further fields of Case."""
    return Case("integers", dims, note=note, values="integers", **more)


def with_inputs(
    name: str,
    dims: Mapping[str, int],
    note: str = "",
    kernels: tuple[str, ...] = (),
    special: bool = False,
    **inputs: Any,
) -> Case:
    """A case with values of its own, by array: see Case."""
    return Case(name, dims, note, inputs=inputs, kernels=kernels, special=special)


def by_hand(name: str, dims: Mapping[str, int], kernels: tuple[str, ...] = (), **inputs: Any) -> Case:
    """The lesson's first case."""
    return with_inputs(name, dims, "done by hand in the lesson", kernels, **inputs)


def gradient_check(
    name: str, dims: Mapping[str, int], note: str = "each number moved by epsilon", **more: Any
) -> Case:
    """A case whose expected values are finite differences, see Gradient."""
    return Case(name, dims, note=note, check="gradient", **more)


def only(kernels: tuple[str, ...], *cases: Case) -> tuple[Case, ...]:
    """Cases of these kernels, but for those that name their own."""
    return tuple(replace(case, kernels=case.kernels or kernels) for case in cases)


def tiled(columns: str, rows: str) -> Callable[[Mapping[str, int], Mapping], Launch]:
    """A launch with one thread per element of a matrix with these dimensions, in blocks of tx x ty."""
    return lambda d, t: Launch(
        (ceil_div(d[columns], d["tx"]), ceil_div(d[rows], d["ty"])), (d["tx"], d["ty"])
    )
