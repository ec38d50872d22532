"""The events of a launch with full checks, in order: accesses checked by racecheck, and barriers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..runtime.abi import INFO_ATOMIC, INFO_WRITE, STEPS

_ACCESS, _START, _BARRIER = (STEPS.index(what) for what in ("access", "start", "barrier"))


@dataclass(frozen=True)
class Step:
    """kind: "read" | "write" | "atomic", or "barrier" when one opened, or "start" of a block.

    at: its number in the launch. interval: number of the barrier interval; each barrier of the block begins
    one. block, thread: linear. site: number of the instruction.
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

    rows: the runtime's Step[]. lines: lines of the student's file, by instruction number.
    """

    def __init__(self, rows: np.ndarray, lines: np.ndarray):
        self.rows, self.lines = rows, lines

    def of(self, block: int, thread: int) -> list[Step]:
        """The accesses of one thread."""
        rows = self.rows
        return self._steps((rows["block"] == block) & (rows["thread"] == thread) & (rows["what"] == _ACCESS))

    def accesses(self, block: int) -> np.ndarray:
        """The rows of the accesses of a block."""
        return self.rows[(self.rows["block"] == block) & (self.rows["what"] == _ACCESS)]

    def touching(self, address: int) -> set[int]:
        """The numbers of the accesses to the word at a device address."""
        first, size = self.rows["address"] & ~np.uint64(3), self.rows["info"] & 255
        inside = (
            (first <= address & ~3)
            & (address & ~3 < self.rows["address"] + size)
            & (self.rows["what"] == _ACCESS)
        )
        return set(np.flatnonzero(inside).tolist())

    def barriers(self, block: int) -> list[Step]:
        """The start of each barrier interval of a block."""
        rows = self.rows
        opened = (rows["block"] == block) & ((rows["what"] == _BARRIER) | (rows["what"] == _START))
        numbers = np.flatnonzero(opened)
        # there is one step per participating thread
        _, first = np.unique(rows["serial"][numbers], return_index=True)
        opened[np.delete(numbers, first)] = False
        return self._steps(opened)

    def _steps(self, wanted: np.ndarray) -> list[Step]:
        found = []
        for at, row in zip(np.flatnonzero(wanted).tolist(), self.rows[wanted], strict=True):
            what, info, site = int(row["what"]), int(row["info"]), int(row["site"])
            kind = "atomic" if info & INFO_ATOMIC else "write" if info & INFO_WRITE else "read"
            if what != _ACCESS:
                kind = STEPS[what]
            interval = int(row["interval"] if what == _ACCESS else row["serial"])
            place = int(row["block"]), int(row["thread"]), int(row["address"])
            found.append(Step(at, kind, int(self.lines[site]), interval, *place, site))
        return found
