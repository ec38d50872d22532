"""What a launch has touched of an array, as racecheck has left it behind: in words (epochs.cu), or in records (records.cu)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..runtime.abi import DTYPES, GRANULE, WHO_SEVERAL, WHO_WARP, WORD_WROTE
from .arena import Arena, Owner

RUNS = 1024  # of touched granules that are listed for an array
_WRITE, _ATOMIC = 1 << 24, 1 << 28  # of a record's key
_KEY, _LANES = 0, 4  # where they are in a Record
_PART = 1 << 16  # granules that are looked at together: their words fit in a cache
_LINK, _NODE = 2, 2 + 8  # words of a Node: before its Record, and all


def touched(arena: Arena, owner: Owner, since: int, recorded: bool) -> np.ndarray:
    """(first, end, how: 1 read, 2 stored to, 3 by atomics only) of the granules of an array that launches have touched after
    `since` events, in runs; (-1, 0, 0) if there are too many. recorded: whether the last one has made records."""
    granules = slice(owner.start // GRANULE, -(-(owner.start + owner.nbytes) // GRANULE))
    state = np.zeros(granules.stop - granules.start + 2, np.uint8)
    state[1:-1] = (_in_records if recorded else _in_words)(arena, granules, since)
    ends = np.flatnonzero(state[1:] != state[:-1])
    if len(ends) > 2 * RUNS:
        return np.array([(-1, 0, 0)], np.int64)
    runs = [(a, b, state[a + 1]) for a, b in zip(ends[:-1], ends[1:]) if state[a + 1]]
    return np.array(runs, np.int64).reshape(-1, 3)


def _in_words(arena: Arena, granules: slice, since: int) -> np.ndarray:
    words = arena.words.view(np.uint64)[granules]
    state = np.zeros(len(words), np.uint8)
    for first in range(0, len(words), _PART):
        part = words[first : first + _PART]
        new = part > np.uint64(since << 32 | 0xFFFFFFFF)
        if new.any():
            found = new.astype(np.uint8) + (new & (part & WORD_WROTE != 0))
            state[first : first + _PART] = found + (new & ((part >> 8) & WHO_SEVERAL == WHO_WARP + 32))
    return state


def _in_records(arena: Arena, granules: slice, since: int) -> np.ndarray:
    cells = arena.cells.view(DTYPES["Cell"])[granules]
    where = np.flatnonzero(cells["tag"] > since)
    state = np.zeros(len(cells), np.uint8)
    wrote, plain = state.astype(bool), state.astype(bool)
    for at, records in _records(arena, cells[where], arena.colds.view(DTYPES["Cold"])[granules][where]):
        key, used = records[:, _KEY], records[:, _LANES] != 0
        wrote[where[at]] |= used & (key & _WRITE != 0)
        plain[where[at]] |= used & (key & _ATOMIC == 0)
    state[where] = 1
    return state + wrote + (wrote & ~plain)


def _records(arena: Arena, cells: np.ndarray, colds: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Records of granules, each time one of some of them: (which granules, the records)."""
    yield np.arange(len(cells)), cells["record"]
    at = np.flatnonzero(cells["more"])
    yield at, colds["record"][at]
    pool = arena.pool.bytes[: arena.pool.bytes.size // 8 * 8].view(np.uint32)
    chains = colds["chain"][at].astype(np.int64)
    at, chains = at[chains != 0], chains[chains != 0]
    links = pool[2 * chains].astype(np.int64)  # places in the pool count 8 bytes
    while (more := links != 0).any():
        at, links = at[more], links[more]
        nodes = pool[(2 * links)[:, None] + np.arange(_NODE)]
        yield at, nodes[:, _LINK:]
        links = nodes[:, 0].astype(np.int64)
