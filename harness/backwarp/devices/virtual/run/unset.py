"""Which elements of a host view of device memory are unset, for what the host itself reads and stores between launches."""

from __future__ import annotations

import numpy as np

from ..runtime.abi import GRANULE, INIT, PARTIAL
from .arena import Arena

_BYTES = 0xF0  # of a granule's state: which of its bytes are set, until all are


def elements(arena: Arena, view: np.ndarray) -> np.ndarray | None:
    """Which elements of the view hold bytes that nothing has stored to; None: all are set."""
    if not view.size:
        return None
    first, last = _extent(arena, view)
    granules = arena.shadow[first // GRANULE : -(-last // GRANULE)]
    if np.all((granules & (INIT | PARTIAL)) == INIT):
        return None
    unit, places = _places(arena, view)
    state = arena.shadow[places // GRANULE]
    stored = np.where((state & (INIT | PARTIAL)) == INIT, 15, state >> 4)
    stored = stored == 15 if unit == GRANULE else stored >> places % GRANULE & 1
    unset = ~stored.astype(bool).all(-1)
    return unset if unset.any() else None


def store(arena: Arena, view: np.ndarray, unset: np.ndarray | None = None) -> None:
    """The host has stored to the view; the elements that are unset hold what is to count as unset."""
    if not view.size:
        return
    first, last = _extent(arena, view)
    if unset is None and last - first == view.nbytes and not (first | last) % GRANULE:
        arena.shadow[first // GRANULE : last // GRANULE] |= INIT
        return
    unit, places = _places(arena, view)
    left = np.zeros(view.shape, bool) if unset is None else np.broadcast_to(unset, view.shape)
    stored, left = places[~left].ravel(), places[left].ravel()
    granules = stored // GRANULE
    if unit == GRANULE:
        arena.shadow[granules] |= INIT
        arena.shadow[left // GRANULE] &= ~(INIT | _BYTES) & 255
        arena.guard.forget_written()
        return
    np.bitwise_or.at(arena.shadow, granules, (16 << stored % GRANULE).astype(np.uint8))
    whole = (arena.shadow[granules] & (PARTIAL | _BYTES)) == _BYTES
    arena.shadow[granules[whole]] |= INIT
    if left.size:
        arena.forget(left)


def _extent(arena: Arena, view: np.ndarray) -> tuple[int, int]:
    steps = [(n - 1) * stride for n, stride in zip(view.shape, view.strides)]
    first = _start(arena, view) + sum(step for step in steps if step < 0)
    return first, first + sum(map(abs, steps)) + view.itemsize


def _start(arena: Arena, view: np.ndarray) -> int:
    return view.__array_interface__["data"][0] - arena.host()


def _places(arena: Arena, view: np.ndarray) -> tuple[int, np.ndarray]:
    """(bytes in a unit, the address of each unit of each element): whole granules, or bytes where elements do not consist of
    granules."""
    start = _start(arena, view)
    unit = 1 if any(n % GRANULE for n in (start, view.itemsize, *view.strides)) else GRANULE
    places = np.int64(start)
    for n, stride in zip((*view.shape, view.itemsize // unit), (*view.strides, unit)):
        places = np.add.outer(places, np.arange(n) * stride)
    return unit, places
