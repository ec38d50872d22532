"""Which elements of a host view of device memory are unset, for what the host itself reads and stores between launches."""

from __future__ import annotations

import numpy as np

from ..runtime.abi import GRANULE, INIT, PARTIAL
from .arena import Arena


def elements(arena: Arena, view: np.ndarray) -> np.ndarray | None:
    """Which elements of the view hold bytes that nothing has stored to; None: all are set."""
    if not view.size:
        return None
    first, last = _extent(arena, view)
    granules = arena.shadow[first // GRANULE : -(-last // GRANULE)]
    if np.all((granules & (INIT | PARTIAL)) == INIT):
        return None
    places = _places(arena, view)
    state = arena.shadow[places // GRANULE]
    stored = np.where((state & (INIT | PARTIAL)) == INIT, 15, state >> 4) >> places % GRANULE & 1
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
    places = _places(arena, view)
    left = np.zeros(view.shape, bool) if unset is None else np.broadcast_to(unset, view.shape)
    stored = places[~left].ravel()
    np.bitwise_or.at(arena.shadow, stored // GRANULE, (16 << stored % GRANULE).astype(np.uint8))
    granules = stored // GRANULE
    whole = (arena.shadow[granules] & (PARTIAL | 0xF0)) == 0xF0
    arena.shadow[granules[whole]] |= INIT
    if left.any():
        arena.forget(places[left].ravel())


def _extent(arena: Arena, view: np.ndarray) -> tuple[int, int]:
    steps = [(n - 1) * stride for n, stride in zip(view.shape, view.strides)]
    first = _start(arena, view) + sum(step for step in steps if step < 0)
    return first, first + sum(map(abs, steps)) + view.itemsize


def _start(arena: Arena, view: np.ndarray) -> int:
    return view.__array_interface__["data"][0] - arena.host()


def _places(arena: Arena, view: np.ndarray) -> np.ndarray:
    """The address of each byte of each element."""
    places = np.int64(_start(arena, view))
    for n, stride in zip((*view.shape, view.itemsize), (*view.strides, 1)):
        places = np.add.outer(places, np.arange(n) * stride)
    return places
