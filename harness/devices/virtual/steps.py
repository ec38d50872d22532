"""What happened in a launch with full checks, one after the other: accesses that racecheck looked at, and barriers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .state import INFO_ATOMIC, INFO_WRITE


@dataclass(frozen=True)
class Step:
    """kind: "read" | "write" | "atomic", or "barrier" where one opened, or "start" of a block.

    at: its number in the launch. interval: number of the barrier interval, which a barrier begins. block, thread:
    linear. site: number of the instruction.
    """

    at: int
    kind: str
    line: int
    interval: int
    block: int
    thread: int
    address: int
    site: int


class Steps:
    """The steps of a launch. Reads of memory that the kernel may not write to are left out.

    memory: Step[] of the runtime. launch: its record after the run. sites: of the module.
    """

    def __init__(self, memory: np.ndarray, launch: np.ndarray, sites):
        self.rows = memory[: (int(launch["steps"][0]) - memory.ctypes.data) // memory.itemsize]
        self.sites = sites

    def of(self, block: int, thread: int) -> list[Step]:
        """The accesses of one thread."""
        return self._steps((self.rows["block"] == block) & (self.rows["thread"] == thread) & (self.rows["info"] > 0))

    def touching(self, address: int) -> set[int]:
        """The numbers of the accesses to the word at a device address."""
        first, size = self.rows["address"] & ~np.uint64(3), self.rows["info"] & 255
        inside = (first <= address & ~3) & (address & ~3 < self.rows["address"] + size) & (size > 0)
        return set(np.flatnonzero(inside).tolist())

    def barriers(self, block: int) -> list[Step]:
        """Where each barrier interval of a block begins."""
        return self._steps((self.rows["block"] == block) & (self.rows["info"] == 0))

    def _steps(self, wanted: np.ndarray) -> list[Step]:
        numbers, found = np.flatnonzero(wanted).tolist(), []
        for at, (address, block, site, thread, interval, info) in zip(numbers, self.rows[wanted].tolist(), strict=True):
            kind = "atomic" if info & INFO_ATOMIC else "write" if info & INFO_WRITE else "read"
            if not info:
                kind = "barrier" if site else "start"
            found.append(Step(at, kind, self.sites[site][0].line, interval, block, thread, address, site))
        return found
