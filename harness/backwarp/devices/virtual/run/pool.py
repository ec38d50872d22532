"""Host address space, and racecheck's memory in it."""

from __future__ import annotations

import mmap

import numpy as np

from ....errors import DeviceError
from ..runtime import abi
from ..runtime.abi import DTYPES, Launch

_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


class Pool:
    """Memory for racecheck during a launch: two tables, the occupied places of the first, then the records
    that tables and cells point to.

    hazards: the Hazards of the last launch. Errors: DeviceError.
    """

    _TABLES = abi.HAZARDS * DTYPES["Hazard"].itemsize, 4 * (abi.PLACES + abi.PHASES), 2 * abi.HAZARDS

    def __init__(self, nbytes: int):
        self._map = reserve(nbytes)
        self.bytes = np.frombuffer(self._map, np.uint8)
        self._used = self._hazards = 0

    def start(self) -> dict[str, int]:
        """The fields of a Launch; the previous launch's contents are discarded."""
        if self._used:
            self._map.madvise(mmap.MADV_DONTNEED, 0, self._used)
        self._used, host = 0, self.bytes.ctypes.data
        return {
            "pool": host,
            "pool_used": sum(self._TABLES),
            "pool_size": self.bytes.size,
            "hazards": host,
            "places": host + self._TABLES[0],
        }

    def end(self, launch: Launch) -> None:
        used, self._hazards = launch.pool_used, launch.hazard_count
        if used > sum(self._TABLES) or self._hazards:
            self._used = used

    def hazards(self) -> np.ndarray:
        """A copy of the Hazards found, in no particular order."""
        table = self.bytes[: self._TABLES[0]].view(DTYPES["Hazard"])
        return table[self.bytes[sum(self._TABLES[:2]) :][: 4 * self._hazards].view(np.uint32)]


def reserve(size: int, shared: int | None = None) -> mmap.mmap:
    """Zeroed address space; memory is used only when a page is touched. shared: an open file of that size, whose contents
    these are, instead. Errors: DeviceError if there is not enough."""
    try:
        if shared is not None:
            return mmap.mmap(shared, size)
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
    except (OSError, ValueError, OverflowError):
        raise DeviceError(
            f"the virtual GPU cannot have {size / (1 << 30):.1f} GiB of address space: is there a limit (`ulimit -v`)?"
        ) from None
