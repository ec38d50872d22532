"""What a file calls the arrays of a kernel: its parameters are told apart by their positions."""

from __future__ import annotations

from ..cuda.pieces import Function
from ..cuda.text import read
from .declare import Kernel
from .parameters import Array


def name_in_file(array: str, kernel: Kernel, source: str) -> str:
    """What the file calls an array of the kernel: its parameters are told apart by their positions."""
    own = read(source).function(kernel.name)
    return (
        next((name for name, a in by_name(kernel, own).items() if a.name == array), array) if own else array
    )


def by_name(kernel: Kernel, own: Function) -> dict[str, Array]:
    """The arrays under the names that the file gives to the parameters."""
    found = {a.name: a for a in kernel.constants}
    for variable, p in zip(own.parameters, kernel.params, strict=False):
        if isinstance(p, Array):
            found[variable.name] = p
    return found
