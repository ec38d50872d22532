"""The arena: all device memory of one virtual GPU, its shadow, and the owner of every address.

A device address is an offset into the arena. Every 4 bytes (a granule) have one shadow byte that says whether
they may be read or written. Between any two allocations lies an unowned red zone, at least as long as the
allocation before it, so that a stray index lands there and not in a neighbour.
"""

from __future__ import annotations

import bisect
import mmap
import resource
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ....errors import DeviceError
from ..analyse.padding import Padding
from ..runtime.abi import (
    DTYPES,
    GRANULE,
    INIT,
    LOCAL_START,
    PARTIAL,
    READ,
    SLOT_BYTES,
    WRITE,
)
from .guard import Guard
from .pool import Pool, reserve

MIB = 1 << 20
SHARED_GUARD = 2048  # after each shared array; a multiple of 32 banks x 4 bytes keeps the banks
LOCAL_BYTES = SLOT_BYTES - LOCAL_START
_FIRST = 1 * MIB
# address space, not memory: the first size that the system grants, or that fits into its share of a limit
_SIZES = tuple(n << 20 for n in (16384, 6144, 2048, 1024, 512, 256, 128))
_SMALL_SIZES = tuple(n << 20 for n in (4096, 1024, 512, 256, 128))  # if addresses have to fit into 32 bits
_PART, _PART_OF_RACES = (
    1 / 16,
    11 / 16,
)  # a device's share of a limit: one device checks for races, and others may be open as well
_MOST_POOL = 8 << 30  # of address space
_SLOTS = 2 << 30  # bytes for the memory of running blocks
# addresses on the two sides should not share a cache set, or its way prediction
_SHIFT = 0x5840


def slots_start(size: int) -> int:
    """Where the memory of running blocks begins: at the same address in every build, however large the
    arena is."""
    return min(size // 2, _SLOTS)


@dataclass(unsafe_hash=True)
class Owner:
    """The owner, or intended owner, of a device address. Only its name and shape ever change, and only between launches."""

    name: str = field(hash=False)
    start: int
    nbytes: int
    space: str  # "global" | "const" | "shared" | "local" | "param" | "heap"
    shape: tuple[int, ...] = field(default=(), hash=False)
    itemsize: int = 1
    axes: str = ""
    readonly: bool = False
    remark: str = ""  # for messages
    dtype: str = ""  # NumPy's name of its elements, where that is known

    def contains(self, address: int) -> bool:
        return self.start <= address < self.start + self.nbytes

    def element(self, address: int) -> str:
        """The index of the element at `address`: `b=0,c=2,h=7,w=0`; outside the array, the first axis
        overflows."""
        flat = (address - self.start) // self.itemsize
        if len(self.shape) < 2 or 0 in self.shape:
            return f"{self.axes}={flat}" if len(self.axes) == 1 else str(flat)
        index = []
        for extent in self.shape[:0:-1]:
            index.append(flat % extent)
            flat //= extent
        index.append(flat)
        names = self.axes if len(self.axes) == len(self.shape) else None
        return ",".join(f"{names[i]}={v}" if names else str(v) for i, v in enumerate(reversed(index)))

    def describe_shape(self) -> str:
        """`b x c x h x w = 1 x 1 x 3 x 3`: unlike an index, which reads `b=0,c=0,h=2,w=1`."""
        if not self.shape:
            return ""
        if len(self.axes) == len(self.shape) and self.shape:
            return f"{' x '.join(self.axes)} = {' x '.join(map(str, self.shape))}"
        return " x ".join(map(str, self.shape))


def arena_sizes(checks: str) -> tuple[int, ...]:
    """The sizes of device memory to try with these checks, largest first."""
    return _affordable(_SMALL_SIZES if checks in ("full", "count") else _SIZES, checks == "full")


def _affordable(sizes: tuple[int, ...], races: bool) -> tuple[int, ...]:
    """The sizes that fit into this process's address-space limit (`ulimit -v`), including the bookkeeping per
    byte; at least the smallest."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return sizes
    each, part = 1 + 1 / GRANULE, _PART
    if races:
        structs = sum(DTYPES[name].itemsize for name in ("Cell", "Cold", "Trace"))
        each, part = each + 2 + 1 + structs / GRANULE + _pool_bytes(1), _PART_OF_RACES
    return tuple(n for n in sizes if n * each <= part * limit) or sizes[-1:]


def _pool_bytes(size: int) -> int:
    return min(2 * size, _MOST_POOL)


def _whole_pages(start: int, nbytes: int) -> tuple[int, int]:
    """The first page that begins there or later, and the end of the last that ends within; some ARM systems have large ones."""
    return -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, (start + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE


class Arena:
    """Device memory. `bytes` and `shadow` are NumPy views of all of it; pages cost memory when touched.

    races: also `cells`, `colds`, `words` and `pool`, racecheck's memory of who touched which granule. small:
    every address fits into 32 bits. unset, traces: if unset values are tracked (see initialised.py), the
    unset bits of each byte, and a Trace for each granule. guard: with full checks, see Guard. shared: the open file that
    is its memory, for a process that maps it too.
    """

    def __init__(self, races: bool = False, small: bool = False, shared: int | None = None):
        self._drop = mmap.MADV_DONTNEED if shared is None else mmap.MADV_REMOVE
        self.cells = self.colds = self.words = self.pool = self.unset = self.traces = None
        self.following = False  # whether the current launch tracks unset values
        cell, cold = DTYPES["Cell"].itemsize, DTYPES["Cold"].itemsize
        sizes = _affordable(_SMALL_SIZES if races or small else _SIZES, races)
        for size in sizes:
            try:
                self._map = reserve(size, shared)
                self._shadow_map = reserve(size // GRANULE)
                if races:
                    granules = size // GRANULE
                    self._race_maps = (
                        reserve(granules * cell),
                        reserve(granules * cold),
                        reserve(2 * size + _SHIFT),
                    )
                    self.cells, self.colds, words = (np.frombuffer(m, np.uint8) for m in self._race_maps)
                    self.words = words[_SHIFT:]
                    self.pool = Pool(_pool_bytes(size))
                break
            except DeviceError:
                self._map = self._shadow_map = None
                if size == sizes[-1]:
                    raise
        self.size = size
        self.bytes = np.frombuffer(self._map, np.uint8)
        self.shadow = np.frombuffer(self._shadow_map, np.uint8)
        self.slots_start = slots_start(size)
        self.slots_end = 2 * self.slots_start
        self.slots = self.slots_start // SLOT_BYTES
        self.room = size - self.slots_start  # bytes for arrays
        self._top, self._end = _FIRST, self.slots_start  # free memory, below that of the blocks
        self._owners: list[Owner] = []  # sorted by start
        self._free: dict[int, list[int]] = {}  # extent -> starts, for reuse
        self.guard = Guard(self)
        self._released: deque[Owner] = deque()
        self._lock = threading.Lock()

    def shared_base(self, slot: int) -> int:
        return self.slots_start + slot * SLOT_BYTES

    def local_base(self, slot: int) -> int:
        return self.shared_base(slot) + LOCAL_START

    def host(self, address: int = 0) -> int:
        return self.bytes.ctypes.data + address

    def allocate(
        self, owner_of, nbytes: int, writable: bool = True, written: bool = True, module: bool = False
    ) -> Owner:
        """Reserve `nbytes`. owner_of(start) -> Owner. Errors: DeviceError when the arena is full.

        module: for the variables of a module. One build may have more of them than another, so they go at the
        end, which keeps arrays at the same place in all builds.
        """
        extent = _extent(nbytes)
        with self._lock:
            self._settle()
            if starts := self._free.get(extent):
                start = starts.pop()
            elif module and self._end - extent >= self._top:
                start = self._end = self._end - extent
            else:
                start = self._top
                if start < self.slots_end and start + extent > self._end:
                    start = self.slots_end
                if start + extent > self.size:
                    raise DeviceError(
                        f"out of device memory: {nbytes} bytes do not fit into the virtual GPU's arena"
                    )
                self._top = start + extent
            owner = owner_of(start)
            bisect.insort(self._owners, owner, key=lambda o: o.start)
            self.mark(start, nbytes, writable, written)
        return owner

    def release(self, owner: Owner) -> None:
        """Free an allocation later: for finalizers, which may run at any moment."""
        self._released.append(owner)

    def settle(self) -> None:
        """Free what has been released."""
        if not self._released:
            return
        with self._lock:
            self._settle()

    def _settle(self) -> None:
        while self._released:
            self.free(self._released.popleft())

    def free(self, owner: Owner) -> None:
        i = bisect.bisect_left(self._owners, owner.start, key=lambda o: o.start)
        if i == len(self._owners) or self._owners[i] is not owner:
            return
        del self._owners[i]
        self.guard.remove(owner.start)
        self.unmark(owner.start, owner.nbytes)
        extent = _extent(owner.nbytes)
        if extent > MIB:  # return the pages to the system
            first, last = _whole_pages(owner.start, extent)
            self._map.madvise(self._drop, first, last - first)
        self._free.setdefault(extent, []).append(owner.start)
        if not self._owners:
            self._top, self._end, self._free = _FIRST, self.slots_start, {}

    def clear(self, start: int, nbytes: int) -> None:
        """Zero bytes; whole pages are returned to the system instead of written."""
        first, last = _whole_pages(start, nbytes)
        if last - first <= MIB:
            self.bytes[start : start + nbytes] = 0
            return
        self.bytes[start:first] = self.bytes[last : start + nbytes] = 0
        self._map.madvise(self._drop, first, last - first)

    def mark(self, start: int, nbytes: int, writable: bool = True, written: bool = True) -> None:
        """Make [start, start + nbytes) valid; start is a multiple of 4. written: it holds values, not poison."""
        self.guard.marked(start, writable)
        whole, rest = divmod(nbytes, GRANULE)
        first = start // GRANULE
        self.shadow[first : first + whole] = READ | (WRITE if writable else 0) | (INIT if written else 0)
        if rest:
            self.shadow[first + whole] = (
                PARTIAL | (INIT if writable else 0) | (1 << rest | ((1 << rest) - 1) * written) << 4
            )

    def written(self, start: int, nbytes: int) -> np.ndarray:
        """Which of these bytes have been written; start is a multiple of 4. An incomplete last granule of an
        array counts as unwritten."""
        granules = self.shadow[start // GRANULE : -(-(start + nbytes) // GRANULE)]
        whole = (granules & INIT).astype(bool) & ~(granules & PARTIAL).astype(bool)
        each = granules[:, None] >> 4 & 1 << np.arange(GRANULE, dtype=np.uint8) > 0
        each &= ~(granules & PARTIAL).astype(bool)[:, None]
        return (each | whole[:, None]).ravel()[:nbytes]

    def store(self, start: int, nbytes: int) -> None:
        """Bytes of an array have been written by the host."""
        end = start + nbytes
        first, last = -(-start // GRANULE), end // GRANULE
        self.shadow[first:last] |= np.uint8(INIT)
        for at in {start // GRANULE, end // GRANULE} if nbytes else ():
            bits = 15 << max(start - at * GRANULE, 0) & (1 << max(end - at * GRANULE, 0)) - 1 & 15
            if first <= at < last or not bits:
                continue
            state = int(self.shadow[at])
            if state & PARTIAL:  # the highest bit says how many bytes of the granule are the array's
                state |= (bits & (1 << (state >> 4).bit_length() - 1) - 1) << 4
            else:
                state |= bits << 4
                state |= INIT if state >> 4 == 15 else 0
            self.shadow[at] = state

    def fill(self, owner: Owner) -> None:
        """What there is of it counts as written."""
        self.shadow[_granules(owner)] = _FILLED[self.shadow[_granules(owner)]]

    def unmark(self, start: int, nbytes: int) -> None:
        self.shadow[start // GRANULE : -(-(start + nbytes) // GRANULE)] = 0

    def forget_races(self) -> None:
        """Empties all cells and words."""
        for memory in self._race_maps:
            memory.madvise(mmap.MADV_DONTNEED)

    # -- unset values --------------------------------------------------------------------------------

    def snapshot(self, heap: Iterable[Owner] = ()) -> list[tuple[Owner, np.ndarray, np.ndarray]]:
        """A copy of everything a kernel may change now: each array and its shadow, and these parts of the
        heap."""
        closed = self.guard.areas.keys() - self.guard.open
        arrays = (o for o in self._owners if not o.readonly and o.space not in ("param", "heap"))
        arrays = [o for o in arrays if o.start not in closed]
        return [
            (o, self.bytes[o.start : o.start + o.nbytes].copy(), self.shadow[_granules(o)].copy())
            for o in (*arrays, *heap)
        ]

    def arrays(self) -> list[Owner]:
        """Those that a kernel may write to."""
        return [o for o in self._owners if o.dtype and not o.readonly]

    def restore(self, snapshot) -> None:
        for owner, values, shadow in snapshot:
            self.bytes[owner.start : owner.start + owner.nbytes] = values
            self.shadow[_granules(owner)] = shadow

    def follow(self) -> None:
        """Before a launch that tracks unset values: mark the unset bytes of all arrays."""
        if self.unset is None:
            self.unset = np.frombuffer(reserve(self.size), np.uint8)
            self.traces = np.frombuffer(
                reserve(self.size // GRANULE * DTYPES["Trace"].itemsize), DTYPES["Trace"]
            )
        for owner in self._owners:
            part = self.unset[owner.start : owner.start + owner.nbytes]
            part[:] = 0
            if owner.space == "global":
                state = self.shadow[_granules(owner)]
                written = np.where((state & (INIT | PARTIAL)) == INIT, 15, state >> 4)
                part[:] = 255 * (
                    1
                    - np.unpackbits(written[:, None], axis=1, count=4, bitorder="little").ravel()[
                        : owner.nbytes
                    ]
                )
            self.traces["origin"][_granules(owner)] = 0

    def stored_unset(self):
        """(owner, addresses) of the bytes in each array in which a launch stored an unset value.

        Later launches treat these bytes as never written.
        """
        for owner in self._owners:
            places = owner.start + np.flatnonzero(self.unset[owner.start : owner.start + owner.nbytes])
            places = places[self.traces["origin"][places // GRANULE] != 0]
            if places.size and not owner.readonly and owner.space != "heap":
                if owner.space == "global":
                    self.forget(places)
                yield owner, places

    def forget(self, places: np.ndarray) -> None:
        """These bytes count as never written."""
        self.guard.forget_written()
        granules = np.unique(places // GRANULE)
        state = self.shadow[granules]
        whole = (state & PARTIAL) == 0
        kept = np.where(
            whole, (state & (READ | WRITE)) | np.where(state & INIT, 0xF0, state & 0xF0), state
        ).astype(np.uint8)
        np.bitwise_and.at(
            kept, np.searchsorted(granules, places // GRANULE), ~(1 << 4 + places % GRANULE).astype(np.uint8)
        )
        self.shadow[granules] = kept

    def set_padding(self, address: int, padding: Sequence[Padding]) -> None:
        """What no member of a struct uses counts as written, in the whole array in which the address is. It is that of a
        struct."""
        owner = self.nearest(address)
        if not padding or owner is None or owner.space != "global" or not owner.contains(address):
            return
        if not self.following and np.bitwise_and.reduce(self.shadow[_granules(owner)]) & INIT:
            return
        stride = padding[0].stride
        first = owner.start + (address - owner.start) % stride
        elements = np.arange(first, owner.start + owner.nbytes - stride + 1, stride)
        for p, i in ((p, i) for p in padding for i in range(p.nbytes)):
            places = elements + (p.offset + i)
            if self.following:
                self.unset[places] &= ~p.bits & 255
            if p.bits == 255:
                granules, bits = places // GRANULE, 16 << places % GRANULE
                state = self.shadow[granules] | bits.astype(np.uint8)
                state |= np.where((state & (PARTIAL | 240)) == 240, INIT, 0).astype(np.uint8)
                self.shadow[granules] = state

    def is_unset(self, start: int, nbytes: int) -> bool:
        """Whether an unset value is stored there, in a launch that tracks them."""
        return (
            self.following
            and 0 <= start <= self.size - nbytes
            and bool(self.unset[start : start + nbytes].any())
        )

    def nearest(self, address: int) -> Owner | None:
        """The owner of `address`, or of the red zone it lies in, just before or after an array."""
        i = bisect.bisect_right(self._owners, address, key=lambda o: o.start) - 1
        before = self._owners[i] if i >= 0 else None
        if before and address < before.start + before.nbytes + max(_gap(before.nbytes) // 2, 1):
            return before
        after = self._owners[i + 1] if i + 1 < len(self._owners) else None
        if after and after.start - address <= max(_gap(after.nbytes), before and _gap(before.nbytes) or 0):
            return after
        return before

    def red_zone(self, owner: Owner) -> int:
        """Unowned bytes after an allocation."""
        return _gap(owner.nbytes)

    def close(self) -> None:
        self.bytes = self.shadow = self.unset = self.traces = (
            None  # the mappings are freed with the last view
        )
        self._owners, self._free = [], {}


def _gap(nbytes: int) -> int:
    """Length of the red zone after an allocation of `nbytes`."""
    return min(max(64 << 10, nbytes), 64 * MIB)


def _filled(state: int) -> int:
    """The state of a granule, written."""
    if state & PARTIAL:  # the highest bit says how many of its bytes there are
        return state | (1 << max((state >> 4).bit_length() - 1, 0)) - 1 << 4
    return state | INIT if state & READ else state


_FILLED = np.array([_filled(state) for state in range(256)], np.uint8)


def _granules(owner: Owner) -> slice:
    return slice(owner.start // GRANULE, -(-(owner.start + owner.nbytes) // GRANULE))


def _extent(nbytes: int) -> int:
    """Bytes of an allocation with its red zone, in whole pages; an extra page separates the two ends."""
    return -(-(nbytes + _gap(nbytes)) // 4096) * 4096
