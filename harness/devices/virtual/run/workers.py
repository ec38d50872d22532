"""Runs a grid: blocks over CPU cores, warps of a block in a seeded order, with a watchdog.

Compiled code runs without Python's lock, so a worker is a Python thread that makes a single call.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from functools import lru_cache
from math import gcd
from queue import Empty, SimpleQueue

import numpy as np

from ..runtime import abi
from .arena import Arena, reserve

STEP_BUDGET = 1 << 27  # loop iterations of one thread before the watchdog barks
SLOTS = 32  # blocks a worker runs in turns
FRAME_BYTES = 64 << 20  # address space for the coroutine frames of one block, where several run in turns
MOST_FRAMES = 256 << 20  # where one runs alone
_STACK = 64 << 20
INLINE_THREADS = 2048  # grids up to this size run in the calling thread at first,
INLINE_SECONDS = 0.0005  # but not those that took longer than this
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


def available_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class Workers:
    """The CPU threads of a device and their state, kept between launches."""

    def __init__(self, arena: Arena, count: int, launch: abi.Launch):
        self.arena, self.count = arena, min(count, arena.slots)
        # of each worker, if blocks may wait for one another
        self.slots = min(arena.slots // self.count, SLOTS)
        slots = self.count * self.slots
        self.envs = np.zeros(slots, abi.DTYPES["Env"])
        self.threads = _zeros(slots, abi.MAX_THREADS, abi.DTYPES["Thread"])
        self.frames = _zeros(slots, FRAME_BYTES, np.dtype(np.uint8))
        self.extras = _zeros(slots, abi.MAX_THREADS, abi.DTYPES["Extra"])
        self._crew: Crew | None = None
        self.envs["arena"], self.envs["shadow"] = arena.host(), arena.shadow.ctypes.data
        self.envs["arena_size"] = arena.size
        self.envs["shared_base"] = arena.shared_base(0) + np.arange(slots) * abi.SLOT_BYTES
        self.envs["local_base"] = arena.local_base(0) + np.arange(slots) * abi.SLOT_BYTES
        self.envs["threads"] = self.threads.ctypes.data + np.arange(slots) * self.threads[0].nbytes
        self.envs["extras"] = self.extras.ctypes.data + np.arange(slots) * self.extras[0].nbytes
        self.envs["slot"] = np.arange(slots)
        self.envs["worker"] = worker = np.arange(slots) // self.slots
        self.envs["frames"] = self.frames.ctypes.data + worker * self.slots * FRAME_BYTES
        self.envs["launch"] = ctypes.addressof(launch)
        if arena.cells is not None:
            self.envs["cells"], self.envs["colds"] = arena.cells.ctypes.data, arena.colds.ctypes.data
            self.envs["quiet"] = arena.quiet.ctypes.data

    def frames_size(self, slots: int) -> int:
        """Bytes for the frames of a slot, where a launch uses so many of each worker."""
        return min(FRAME_BYTES * (self.slots // slots), MOST_FRAMES)

    def run(self, plan, launch: abi.Launch) -> None:
        """Call rt_run on every worker that has work; returns when the grid has ended.

        A small grid runs in the calling thread, which is faster, unless it took long last time. Where device functions
        call themselves it does not: only threads of the crew have a large stack.
        """
        function, count = _RUN(plan.run), min(self.count, plan.blocks)
        first, stride = self.envs.ctypes.data, self.envs.dtype.itemsize * self.slots
        small = plan.blocks * plan.threads <= INLINE_THREADS and (
            count == 1 or plan.seconds <= INLINE_SECONDS
        )
        alone = count == 1 and threading.current_thread() is not threading.main_thread()
        started = time.perf_counter()
        if (small or alone) and not plan.deep:
            function(first)
        else:
            self._share(function, [first + i * stride for i in range(count)], launch)
        plan.seconds = time.perf_counter() - started

    def run_variants(self, address: int, launch: abi.Launch, deep: bool) -> None:
        """Call rt_variants on one worker."""
        if deep:
            self._share(_RUN(address), [self.envs.ctypes.data], launch)
        else:
            _RUN(address)(self.envs.ctypes.data)

    def _share(self, function, envs: list[int], launch: abi.Launch) -> None:
        self._crew = self._crew or Crew(self.count)
        self._crew.start(function, envs)
        try:
            self._crew.wait()
        except BaseException:  # Ctrl-C: stop the grid, then go on with the interruption
            launch.stop = abi.GIVEN_UP
            self._crew.wait()
            raise

    def close(self) -> None:
        if self._crew:
            self._crew.close()
            self._crew = None


class Crew:
    """Threads that call compiled code, and have a large stack for it."""

    def __init__(self, count: int):
        self.tasks = [SimpleQueue() for _ in range(count)]
        # the number of the last call that each thread has finished
        self.finished, self.serial = [0] * count, 0
        self.woken = SimpleQueue()
        before = threading.stack_size(_STACK)
        try:
            for i, tasks in enumerate(self.tasks):
                arguments = i, tasks, self.finished, self.woken
                threading.Thread(target=_serve, args=arguments, name=f"virtual-gpu-{i}", daemon=True).start()
        finally:
            threading.stack_size(before)
        self.close = weakref.finalize(self, _dismiss, self.tasks)

    def start(self, function, addresses: list[int]) -> None:
        """Calls function(address) for every address, each in a thread of its own."""
        self.serial += 1
        while not self.woken.empty():  # by a thread already known to have finished
            self.woken.get()
        for i, tasks in enumerate(self.tasks):
            if i < len(addresses):
                tasks.put((self.serial, function, addresses[i]))
            else:
                self.finished[i] = self.serial

    def wait(self) -> None:
        """Wait until all calls have returned; may be interrupted and called again."""
        while self.finished.count(self.serial) < len(self.finished):
            try:
                self.woken.get(timeout=0.5)  # a signal just before would not end the wait
            except Empty:
                pass


def _serve(i: int, tasks: SimpleQueue, finished: list[int], woken: SimpleQueue) -> None:
    while task := tasks.get():
        serial, function, address = task
        function(address)
        finished[i] = serial
        woken.put(None)


def _dismiss(tasks: list[SimpleQueue]) -> None:
    for queue in tasks:
        queue.put(None)


def _zeros(rows: int, columns: int, dtype: np.dtype) -> np.ndarray:
    """Page-aligned zeros, which use memory only where they are written. Errors: DeviceError."""
    return np.frombuffer(reserve(rows * columns * dtype.itemsize), dtype).reshape(rows, columns)


@lru_cache(maxsize=64)
def thread_order(threads: int, seed: int, together: int = 1) -> np.ndarray:
    """Linear thread ids of a block in the order they run: warps shuffled, lanes of odd seeds backwards.

    together: threads that run together, represented by the first.
    """
    warps = np.arange(-(-threads // 32))
    if seed:
        np.random.default_rng(seed).shuffle(warps)
    lanes = np.arange(32)[:: -1 if seed % 2 else 1]
    order = (warps[:, None] * 32 + lanes).ravel()
    order = order[(order < threads) & (order % together == 0)].astype(np.uint32)
    order.flags.writeable = False
    return order


@lru_cache(maxsize=256)
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


def opposite_order(blocks: int, multiplier: int, offset: int) -> tuple[int, int]:
    """The same blocks in reverse; unchanged if there are too many to count that way."""
    if blocks > 1 << 31:
        return multiplier, offset
    return -multiplier % blocks, (offset + (blocks - 1) * multiplier) % blocks


def spread_order(blocks: int) -> tuple[int, int]:
    """Like block_order, but any stretch of blocks is spread evenly over the grid, by the golden ratio."""
    multiplier = round(0.618034 * blocks) or 1
    while gcd(multiplier, blocks) != 1:
        multiplier += 1
    return multiplier, 0
