"""Runs a grid: blocks over CPU cores, warps of a block in a seeded order, with a watchdog.

Compiled code runs without Python's lock, so a worker is a Python thread that makes one call.
"""

from __future__ import annotations

import ctypes
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from math import gcd

import numpy as np

from . import state
from .memory import LOCAL_BYTES, Arena

STEP_BUDGET = 1 << 27  # loop iterations of one thread before the watchdog barks
SLOTS = 32  # blocks a worker runs in turns
FRAME_BYTES = 64 << 20  # address space for the coroutine frames of one block
_STACK = 64 << 20
INLINE_THREADS = 2048  # grids up to this size run in the calling thread
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


class Workers:
    """The CPU threads of a device and their state, kept between launches."""

    def __init__(self, arena: Arena, count: int):
        self.arena, self.count = arena, min(count, arena.slots)
        self.slots = min(arena.slots // self.count, SLOTS)  # of each worker, where blocks may wait for one another
        slots = self.count * self.slots
        self.envs = np.zeros(slots, state.DTYPES["Env"])
        self.threads = _aligned(slots * state.MAX_THREADS, state.DTYPES["Thread"]).reshape(slots, -1)
        self.frames = _aligned(slots * FRAME_BYTES, np.dtype(np.uint8)).reshape(slots, -1)
        self.extras = np.zeros((slots, state.MAX_THREADS), state.DTYPES["Extra"])
        self._pool: ThreadPoolExecutor | None = None
        self._shapes: dict[int, tuple] = {}  # slot -> the block it is prepared for
        self.envs["arena"], self.envs["shadow"] = arena.host(), arena.shadow.ctypes.data
        self.envs["arena_size"] = arena.size
        self.envs["shared_base"] = arena.shared_base(0) + np.arange(slots) * state.SLOT_BYTES
        self.envs["local_base"] = arena.local_base(0) + np.arange(slots) * state.SLOT_BYTES
        self.envs["threads"] = self.threads.ctypes.data + np.arange(slots) * self.threads[0].nbytes
        self.envs["extras"] = self.extras.ctypes.data + np.arange(slots) * self.extras[0].nbytes
        self.envs["frames"] = self.frames.ctypes.data + np.arange(slots) * FRAME_BYTES
        self.envs["frames_size"] = FRAME_BYTES
        self.envs["slot"] = np.arange(slots)
        self.envs["worker"] = np.arange(slots) // self.slots
        if arena.cells is not None:
            self.envs["cells"] = arena.cells.ctypes.data

    def in_use(self, slots: int) -> list[int]:
        """The slots of a launch in which every worker uses `slots`."""
        return [worker * self.slots + i for worker in range(self.count) for i in range(slots)]

    def shape_threads(self, block: tuple[int, int, int], slots: int) -> None:
        """Coordinates and local memory of every thread of a block, in every slot that is used."""
        n = block[0] * block[1] * block[2]
        linear = np.arange(n)
        each = LOCAL_BYTES // n // 4096 * 4096
        for slot in self.in_use(slots):
            if self._shapes.get(slot) == block:
                continue
            threads = self.threads[slot][:n]
            threads["linear"] = linear
            threads["tid_x"] = linear % block[0]
            threads["tid_y"] = linear // block[0] % block[1]
            threads["tid_z"] = linear // (block[0] * block[1])
            threads["local"] = self.arena.local_base(slot) + linear * each
            threads["local_end"] = threads["local"] + each
            threads["local_top"] = threads["local"]
            self.arena.forget_local(slot)
            self._shapes[slot] = block

    def run(self, run_address: int, launch: np.ndarray, inline: bool, deep: bool = False) -> None:
        """Call rt_run on every worker that is of use; returns when the grid has ended.

        inline: in the calling thread, which is quicker. deep: only in threads of the pool, which have a large stack.
        """
        function = _RUN(run_address)
        stride = self.envs.dtype.itemsize * self.slots
        addresses = [self.envs.ctypes.data + i * stride for i in range(self.count)]
        count = min(self.count, int(launch["blocks"][0]))
        if not deep and (inline or count == 1 and threading.current_thread() is not threading.main_thread()):
            function(addresses[0])
            return
        futures = [self._workers().submit(function, address) for address in addresses[:count]]
        try:
            while wait(futures, timeout=0.5).not_done:  # a signal just before the wait would not end it
                pass
        except BaseException:  # Ctrl-C: stop the grid, then go on with the interruption
            launch["stop"] = 2
            wait(futures)
            raise

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            before = threading.stack_size(_STACK)
            try:
                self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="virtual-gpu")
                ready = threading.Barrier(self.count)  # start all threads now, with this stack size
                wait([self._pool.submit(ready.wait) for _ in range(self.count)])
            finally:
                threading.stack_size(before)
        return self._pool

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown(wait=False)
            self._pool = None


def _aligned(n: int, dtype: np.dtype) -> np.ndarray:
    """Zeros that start at a cache line."""
    memory = np.zeros(n * dtype.itemsize + state.CACHE_LINE, np.uint8)
    return memory[-memory.ctypes.data % state.CACHE_LINE :][: n * dtype.itemsize].view(dtype)


def thread_order(threads: int, seed: int) -> np.ndarray:
    """Linear thread ids of a block in the order they run: warps shuffled, lanes of odd seeds backwards."""
    warps = np.arange(-(-threads // 32))
    if seed:
        np.random.default_rng(seed).shuffle(warps)
    lanes = np.arange(32)[:: -1 if seed % 2 else 1]
    order = (warps[:, None] * 32 + lanes).ravel()
    return order[order < threads].astype(np.uint32)


def block_order(blocks: int, seed: int) -> tuple[int, int]:
    """(multiplier, offset) of a permutation of the blocks: i -> (i * multiplier + offset) % blocks."""
    if not seed or blocks < 2:
        return 1, 0
    rng = np.random.default_rng(seed)
    offset = int(rng.integers(blocks))
    if blocks > 1 << 31:
        return 1, 0  # the product must fit into 64 bits
    multiplier = int(rng.integers(1, blocks)) | 1
    while gcd(multiplier, blocks) != 1:
        multiplier += 1
    return multiplier, offset


def deadline(seconds: float) -> int:
    return time.monotonic_ns() + int(seconds * 1e9)
