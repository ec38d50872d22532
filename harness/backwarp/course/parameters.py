"""The parameters of a kernel: arrays with named axes, and scalars. Puzzles import them from `backwarp.course`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..errors import CourseError

if TYPE_CHECKING:
    import numpy as np

DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint32", "uint8")
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "__half",
    "int32": "int",
    "int64": "long long",
    "uint32": "unsigned int",
    "uint8": "unsigned char",
}


def require(condition: object, message: str) -> None:
    """Reports a wrong declaration unless a condition holds; the loader adds the file and line."""
    if not condition:
        raise CourseError(message)


@dataclass(frozen=True)
class Array:
    """An array parameter, declared with `In`, `Out` or `InOut`, or a variable of the file, with `Constant`.

    axes: (letter, dimension name or number) per axis, outermost first. values: how an input is
    filled: None (as the case says), "normal", "integers", "zeros", or `f(rng, a, d)` returning the
    array, where `a` has the inputs declared before it. merged: the axes that a merged axis counts through, by
    its letter. tiles: makes the tensor map (CUtensorMap) that the kernel gets in its place.
    """

    name: str
    role: str  # "in" | "out" | "inout" | "constant"
    axes: tuple[tuple[str, str | int], ...]
    dtype: str = "float32"
    values: str | Callable | None = None
    most: int = 0  # the capacity of a variable, in elements
    merged: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict, compare=False)
    tiles: Callable[[object, Mapping[str, int]], object] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require(self.axes, f"the array {self.name!r} has no axes; write for example In('x', n='N')")
        require(
            self.dtype in DTYPES,
            f"the array {self.name!r} has dtype {self.dtype!r}; known: {', '.join(DTYPES)}",
        )
        for letter, _ in self.axes:
            require(
                len(letter) == 1, f"the array {self.name!r} names an axis {letter!r}; axes are single letters"
            )

    @property
    def letters(self) -> str:
        return "".join(letter for letter, _ in self.axes)

    def merging(self, **merged: Mapping[str, str]) -> Array:
        """Declares that an axis counts through others, outermost first: `i={"c": "C_in", "r": "R", "s":
        "S"}`."""
        return replace(self, merged={letter: tuple(axes.items()) for letter, axes in merged.items()})

    def mapped(self, tiles: Callable[[object, Mapping[str, int]], object]) -> Array:
        """Declares that the kernel gets a tensor map, which is made of the array on a device and a case's dims:
        `lambda x, d: x.device.tensor_map(x, box=(64, 64))`."""
        return replace(self, tiles=tiles)

    @property
    def apart(self) -> Array:
        """The same array with merged axes split into the axes they count through."""
        axes = (part for axis in self.axes for part in self.merged.get(axis[0], (axis,)))
        return replace(self, axes=tuple(axes), merged={})

    @property
    def is_input(self) -> bool:
        return self.role in ("in", "inout", "constant")

    @property
    def is_output(self) -> bool:
        return self.role in ("out", "inout")

    @property
    def is_plain(self) -> bool:
        """Whether it holds any numbers with fractions."""
        return self.values is None and self.dtype.startswith("float")

    @property
    def declaration(self) -> str:
        if self.role == "constant":
            return f"__constant__ {C_TYPES[self.dtype]} {self.name}[{self.most}]"
        if self.tiles:
            return f"const __grid_constant__ CUtensorMap {self.name}"
        const = "const " if self.role == "in" else ""
        return f"{const}{C_TYPES[self.dtype]}* {self.name}"

    def shape(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """The shape in a case; `dims` includes the derived dimensions."""
        return tuple(size if isinstance(size, int) else dims[size] for _, size in self.axes)

    def argument(self, array: object, dims: Mapping[str, int]) -> object:
        """What the kernel gets for the array on a device."""
        return self.tiles(array, dims) if self.tiles else array


def In(
    name: str, *, dtype: str = "float32", values: str | Callable | None = None, **axes: str | int
) -> Array:
    """An input array, `const` in the kernel: `In("input", b="batch", c="C_in", h="H", w="W")`."""
    return Array(name, "in", tuple(axes.items()), dtype, values)


def Out(name: str, *, dtype: str = "float32", **axes: str | int) -> Array:
    """An output array: poison before the kernel runs, compared afterwards."""
    return Array(name, "out", tuple(axes.items()), dtype)


def InOut(
    name: str, *, dtype: str = "float32", values: str | Callable | None = None, **axes: str | int
) -> Array:
    """An array that the kernel updates in place; `values="zeros"` for one that it adds to."""
    return Array(name, "inout", tuple(axes.items()), dtype, values)


def Constant(
    name: str, most: int, *, dtype: str = "float32", values: str | Callable | None = None, **axes: str | int
) -> Array:
    """For `Kernel.constants`: an input in `__constant__` memory; the file has room for `most` elements."""
    return Array(name, "constant", tuple(axes.items()), dtype, values, most)


@dataclass(frozen=True)
class Scalar:
    """A scalar parameter, declared with `Int` or `Float`."""

    name: str
    dtype: str
    value: str | int | float | Callable | None = None  # default: the dimension of the same name

    @property
    def declaration(self) -> str:
        return f"{C_TYPES[self.dtype]} {self.name}"

    def resolve(self, dims: Mapping[str, int]) -> int | float:
        """The value in a case; `dims` includes the derived dimensions."""
        value = self.name if self.value is None else self.value
        if callable(value):
            return value(dims)
        return dims[value] if isinstance(value, str) else value

    def typed(self, dims: Mapping[str, int]) -> np.generic:
        """The value in its declared type."""
        import numpy as np  # commands that refuse do without

        return np.dtype(self.dtype).type(self.resolve(dims))


def Int(name: str, value: str | int | Callable | None = None, *, dtype: str = "int32") -> Scalar:
    """An int parameter: the dimension `name`, or `value` (a dimension, a number, a function of d)."""
    return Scalar(name, dtype, value)


def Float(name: str, value: str | float | Callable | None = None, *, dtype: str = "float32") -> Scalar:
    """A float parameter: `value` is a number, a dimension, or a function of d."""
    return Scalar(name, dtype, value)


Param = Array | Scalar
