"""The heap from which kernels allocate with malloc(), as laid out by runtime/heap.cu."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..runtime import abi
from .arena import Arena, Owner

_TABLE = abi.DTYPES["Heap"].itemsize
_DATA = _TABLE + abi.HEAP_BLOCKS * abi.DTYPES["Block"].itemsize


class Heap:
    """The heap in device memory, at the address `start`."""

    def __init__(self, arena: Arena):
        nbytes = _DATA + abi.HEAP_BYTES
        self.arena = arena
        self.owner = arena.allocate(
            lambda start: Owner("the heap", start, nbytes, "heap"), nbytes, module=True
        )
        self.start = self.owner.start
        arena.unmark(self.start, nbytes)
        arena.clear(self.start, nbytes)
        self._head = arena.bytes[self.start :][:_TABLE].view(abi.DTYPES["Heap"])[0]

    @property
    def used(self) -> int:
        """Bytes that have been allocated, including freed ones."""
        return int(self._head["top"])

    def settle(self) -> None:
        """Before a launch: if all blocks have been freed, start over with an empty heap."""
        if self.used and self.blocks["freed"].all():
            self.arena.bytes[self.start :][:_TABLE] = 0

    def parts(self, grows: bool) -> list[Owner]:
        """The memory a launch may change: all of it if the kernel can allocate, else only the allocated
        part."""
        if grows:
            return [self.owner]
        return [replace(self.owner, start=self.start + _DATA, nbytes=self.used)] * bool(self.used)

    @property
    def blocks(self) -> np.ndarray:
        """All allocated blocks, including freed ones, by address."""
        count = min(int(self._head["blocks"]), abi.HEAP_BLOCKS)
        size = count * abi.DTYPES["Block"].itemsize
        return self.arena.bytes[self.start + _TABLE :][:size].view(abi.DTYPES["Block"])

    def block(self, address: int) -> np.void | None:
        """The block that contains an address, or precedes it."""
        blocks = self.blocks
        i = int(np.searchsorted(blocks["address"], address, "right")) - 1
        return blocks[i] if i >= 0 else None
