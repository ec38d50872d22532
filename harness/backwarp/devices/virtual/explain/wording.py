"""How messages write threads, lanes and elements."""

from __future__ import annotations

from ....errors import KernelFault, Place
from ..run.arena import Owner
from .owners import element

ONE_THREAD = "Each element must belong to one thread: does its index use"
_SPACES = {"shared": "__shared__", "local": "__local__", "const": "__constant__"}  # any other is __global__


def space_name(owner: Owner | None) -> str:
    return _SPACES.get(owner.space, "__global__") if owner else "__global__"


def named(owner: Owner, address: int) -> dict:
    """The fields that name an element; a variable that is not an array has no index."""
    index = "" if element(owner, address) == owner.name else owner.element(address)
    return dict(array=owner.name, index=index, shape=owner.describe_shape())


def lanes_of(mask: int) -> str:
    """`lane 3`, `lanes 0-15`, `16 lanes`."""
    lanes = [i for i in range(32) if mask >> i & 1]
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes and lanes[-1] - lanes[0] == len(lanes) - 1:
        return f"lanes {lanes[0]}-{lanes[-1]}"
    return f"{len(lanes)} lanes"


def triple(c: tuple[int, int, int]) -> str:
    return f"({','.join(map(str, c))})"


def threads_of(here: Place | KernelFault, other: Place | KernelFault) -> str:
    """`Threads (0,0,0) and (1,0,0)`, with their blocks where those differ."""
    if here.block == other.block:
        first, second = sorted((here.thread, other.thread))
        return f"Threads {triple(first)} and {triple(second)}"
    first, second = sorted((here, other), key=lambda p: p.block[::-1])
    return f"Thread {triple(first.thread)} of block {triple(first.block)} and thread {triple(second.thread)} of block {triple(second.block)}"


def coordinates(linear: int, extent: tuple[int, int, int]) -> tuple[int, int, int]:
    linear = int(linear)
    return linear % extent[0], linear // extent[0] % extent[1], linear // (extent[0] * extent[1])
