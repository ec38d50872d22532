"""The memory for counting, outside the arena, and the results (see runtime/counters.cu)."""

from __future__ import annotations

import mmap

import numpy as np

from ....errors import DeviceError
from ..compile.modules import CountedSegment
from ..explain.metrics import Request, collect
from ..runtime import abi
from .arena import reserve
from .workers import Workers

# bytes of address space for the entries of all warps: sizes to request, in order
_POOLS = (1 << 30, 1 << 28, 1 << 26)
_MOST = 32 << 20  # for one warp
_WARPS = abi.MAX_THREADS // 32
_ENTRY = abi.DTYPES["Entry"].itemsize
_LANES = 128  # bytes of an Entry for one access: an address of 4 bytes per lane

#: metrics OF_NO_LINE -> the fields of a Counting
_WHOLE = {
    "global_requests_busiest": "busiest",
    "async_copies_idle": "idle_copies",
    "bulk_bytes": "bulk_bytes",
    "flops_tensor_overlapped": "overlapped",
}


class Tally:
    """Counts launches, one at a time, on the workers of a device."""

    def __init__(self, workers: Workers):
        self.workers = workers
        for size in _POOLS:
            try:
                self._map = reserve(size)
                break
            except DeviceError:
                if size == _POOLS[-1]:
                    raise
        self._pool = np.frombuffer(self._map, np.uint8)
        self.segments, self._fresh, self._lines = None, (), set()

    def start(self, lowered, slots: int, keep: int = 0) -> None:
        """Before a launch of a module that uses a number of slots: resets everything. keep: requests to record."""
        segments, self.sites = lowered.segments, lowered.sites
        size = min(_MOST, self._pool.size // (slots * _WARPS))  # bytes per warp, a power of two
        self.tables = abi.array("Table", slots * _WARPS)
        base = self._pool.ctypes.data + np.arange(len(self.tables)) * size
        self.tables["base"], self.tables["end"], self.tables["index"] = (
            base,
            base + size * 3 // 4,
            base + size * 3 // 4,
        )
        each = _WARPS * self.tables.itemsize
        self.workers.envs["tables"][:slots] = self.tables.ctypes.data + np.arange(slots) * each
        if self.segments is not segments:
            self.segments, self._fresh = segments, segment_arrays(segments)
            self._lines = {line for segment in segments for line, _ in segment.kinds}
        self.counted, self.accesses, self.totals = (array.copy() for array in self._fresh)
        self.counting = abi.array("Counting", 1)
        self.counting["segments"], self.counting["accesses"] = (
            self.counted.ctypes.data,
            self.accesses.ctypes.data,
        )
        self.counting["totals"] = self.totals.ctypes.data
        self.complete = np.zeros(len(self.sites) + 1, np.uint64)
        self.counting["complete"] = self.complete.ctypes.data
        self.kept = abi.array("Request", keep)
        self.counting["kept"] = self.kept.ctypes.data
        self.counting["kept_end"] = self.kept.ctypes.data + keep * self.kept.itemsize
        self.workers.envs["counting"] = self.counting.ctypes.data

    def result(self) -> dict:
        """`launch.counters`."""
        self._map.madvise(mmap.MADV_DONTNEED)  # give back the memory
        split = int(self.counting["split"][0])
        more = {metric: int(self.counting[name][0]) for metric, name in _WHOLE.items()}
        complete = [(self.sites[i][0].line, int(self.complete[i])) for i in np.flatnonzero(self.complete)]
        return collect(self.segments, self.counted, self.totals, self._lines, split, more, complete)

    def requests(self) -> list[Request]:
        """The first requests of the launch: warp by warp from one barrier to the next, each warp's in order."""
        accesses = [a for s in self.segments for a in s.accesses]
        n = (int(self.counting["kept"][0]) - self.kept.ctypes.data) // self.kept.itemsize
        found = []
        for row in self.kept[:n]:
            a, addresses = accesses[row["access"]], row["addresses"].astype(np.int64)
            addresses[row["addresses"] == abi.NO_ADDRESS] = -1
            space = abi.SPACES[row["space"]]
            found.append(
                Request(a.line, a.kind, space, a.size, int(row["block"]), int(row["warp"]), addresses)
            )
        return found


def segment_arrays(segments: list[CountedSegment]):
    """(Segment[], Access[], Total[]) for the runtime, nothing counted yet."""
    accesses = [a for s in segments for a in s.accesses]
    infos, totals, counted = (
        abi.array(name, n)
        for name, n in (("Access", len(accesses)), ("Total", 3 * len(accesses)), ("Segment", len(segments)))
    )
    for info, access in zip(infos, accesses, strict=False):
        info["size"], info["space"], info["atomic"] = (
            access.size,
            abi.SPACE[access.space],
            access.kind == "atomic",
        )
    first = 0
    for row, segment in zip(counted, segments, strict=False):
        n = len(segment.accesses)
        row["first"], row["accesses"], row["bytes"] = first, n, _ENTRY + _LANES * n
        first += n
    return counted, infos, totals
