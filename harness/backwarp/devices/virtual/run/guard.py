"""Which arrays a launch may store to: with full checks, all others are read-only until a launch that may.

So nothing has to be examined where they are read, and none of them has to be copied before a launch that may have to run again.
A launch that stores to one nevertheless, through a pointer that it found in memory, ends there and runs again with all of them
writable.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..runtime.abi import GRANULE, INIT, WRITE

if TYPE_CHECKING:
    from .arena import Arena, Owner


class Guard:
    """areas: the arrays that kernels may store to, and the memory of each module's variables, by their starts. open: those that
    may be stored to now."""

    def __init__(self, arena: Arena):
        self.arena = arena
        self.areas: dict[int, tuple[Owner, ...]] = {}  # what may be written of each
        self.open: set[int] = set()
        self._sorted: list[int] = []
        self._written: set[int] = (
            set()
        )  # those that are known to be, completely: they stay so, but where an unset value is stored

    def add(self, start: int, parts: Iterable[Owner]) -> None:
        self.areas[start] = tuple(parts)
        self.open.add(start)
        bisect.insort(self._sorted, start)

    def remove(self, start: int) -> None:
        if self.areas.pop(start, None) is not None:
            del self._sorted[bisect.bisect_left(self._sorted, start)]
            self.open.discard(start)
            self._written.discard(start)

    def marked(self, start: int, writable: bool) -> None:
        """Its state has been set anew."""
        if writable and start in self.areas:
            self.open.add(start)

    def holding(self, address: int) -> int:
        """The start of the area that contains an address, or is the last one before it; 0: there is none."""
        if address in self.areas:
            return address
        i = bisect.bisect_right(self._sorted, address)
        return self._sorted[i - 1] if i else 0

    def only(self, starts: set[int] | None = None) -> None:
        """From now on, these alone may be stored to; None: all."""
        wanted = self.areas.keys() if starts is None else starts & self.areas.keys()
        if wanted == self.open:
            return
        for start in wanted ^ self.open:
            for part in self.areas[start]:
                self._let(part, start in wanted)
        self.open = set(wanted)

    def _let(self, part: Owner, store: bool) -> None:
        first, (whole, rest) = part.start // GRANULE, divmod(part.nbytes, GRANULE)
        for state, bit in (
            (self.arena.shadow[first : first + whole], WRITE),
            (self.arena.shadow[first + whole : first + whole + bool(rest)], INIT),
        ):
            if store:
                state |= np.uint8(bit)
            else:
                state &= np.uint8(~bit & 255)

    def is_closed(self, start: int) -> bool:
        """Whether an array may not be stored to now, and is written completely."""
        return start in self.areas and start not in self.open and self.is_written(start)

    def is_written(self, start: int) -> bool:
        """Whether an array that may be stored to is written completely."""
        if start not in self._written:
            ((part,), shadow) = self.areas[start], self.arena.shadow
            first, (whole, rest) = part.start // GRANULE, divmod(part.nbytes, GRANULE)
            all_ = np.bitwise_and.reduce(shadow[first : first + whole], initial=255)
            last = shadow[first + whole] if rest else 0
            if not all_ & INIT or rest and last >> 4 != (2 << rest) - 1:
                return False
            self._written.add(start)
        return True

    def written(self, starts: Iterable[int]) -> None:
        """These count as completely written from now on."""
        for start in {*starts} & self.areas.keys() - self._written:
            for part in self.areas[start]:
                self.arena.fill(part)
            self._written.add(start)

    def forget_written(self) -> None:
        self._written.clear()
