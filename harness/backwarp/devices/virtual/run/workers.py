"""Runs a grid: blocks over CPU cores, warps of a block in a seeded order, with a watchdog.

Compiled code runs without Python's lock.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from functools import lru_cache, partial
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from ..runtime import abi
from .arena import Arena, reserve
from .crew import Crew, function

if TYPE_CHECKING:
    from ..compile.link import Executable
    from ..plan import Plan

STEP_BUDGET = 1 << 27  # loop iterations of one thread before the watchdog barks
SLOTS = 32  # blocks a worker runs in turns
FRAME_BYTES = 64 << 20  # address space for the coroutine frames of one block, if several run in turns
MOST_FRAMES = 256 << 20  # if one runs alone
INLINE_THREADS = 2048  # grids up to this size run in the calling thread at first,
INLINE_SECONDS = 0.0005  # but not those that took longer than this
LED_SECONDS = 0.05  # how long Ctrl-C may have to wait for a launch led by the calling thread
_MAIN = threading.main_thread()


def available_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class Workers:
    """The CPU threads of a device and their state, kept between launches."""

    def __init__(self, arena: Arena, count: int, launch: abi.Launch):
        self.arena, self.count = arena, min(count, arena.slots)
        # per worker, if blocks may wait for one another
        self.slots = min(arena.slots // self.count, SLOTS)
        slots = self.count * self.slots
        self.envs = np.zeros(slots, abi.DTYPES["Env"])
        self.threads = _zeros(slots, abi.MAX_THREADS, abi.DTYPES["Thread"])
        self.frames = _zeros(slots, FRAME_BYTES, np.dtype(np.uint8))
        self.extras = _zeros(slots, abi.MAX_THREADS, abi.DTYPES["Extra"])
        self.fragments = _zeros(slots, abi.MAX_THREADS // 32, abi.DTYPES["Fragments"])
        self.copies = _zeros(slots, abi.MAX_THREADS, abi.DTYPES["Copies"])
        self.groups = _zeros(slots, abi.MAX_THREADS // abi.WARPGROUP, abi.DTYPES["Group"])
        self.bulks = _zeros(slots, 1, abi.DTYPES["Bulks"])
        self.launch, self.first = launch, self.envs.ctypes.data
        self._crew: Crew | None = None
        self.envs["arena"], self.envs["shadow"] = arena.host(), arena.shadow.ctypes.data
        self.envs["arena_size"] = arena.size
        self.envs["shared_base"] = arena.shared_base(0) + np.arange(slots) * abi.SLOT_BYTES
        self.envs["local_base"] = arena.local_base(0) + np.arange(slots) * abi.SLOT_BYTES
        self.envs["threads"] = self.threads.ctypes.data + np.arange(slots) * self.threads[0].nbytes
        self.envs["extras"] = self.extras.ctypes.data + np.arange(slots) * self.extras[0].nbytes
        self.envs["fragments"] = self.fragments.ctypes.data + np.arange(slots) * self.fragments[0].nbytes
        self.envs["copies"] = self.copies.ctypes.data + np.arange(slots) * self.copies[0].nbytes
        self.envs["bulks"] = self.bulks.ctypes.data + np.arange(slots) * self.bulks[0].nbytes
        self.envs["groups"] = self.groups.ctypes.data + np.arange(slots) * self.groups[0].nbytes
        self.envs["slot"] = np.arange(slots)
        self.envs["worker"] = worker = np.arange(slots) // self.slots
        self.envs["frames"] = self.frames.ctypes.data + worker * self.slots * FRAME_BYTES
        self.envs["launch"] = ctypes.addressof(launch)
        if arena.cells is not None:
            self.envs["cells"], self.envs["colds"] = arena.cells.ctypes.data, arena.colds.ctypes.data
            self.envs["words"] = arena.words.ctypes.data

    def frames_size(self, slots: int) -> int:
        """Bytes for the frames of a slot, if a launch uses this many per worker."""
        return min(FRAME_BYTES * (self.slots // slots), MOST_FRAMES)

    def run(self, plan: Plan, launch: abi.Launch) -> None:
        """Call rt_run on every worker that has work; returns when the grid has ended.

        A small grid runs in the calling thread, which is faster, unless that took long last time, or would have. A launch
        known to be short is led by the calling thread, which cannot be interrupted meanwhile. Neither is done
        if device functions are recursive: only the crew's threads have large stacks.
        """
        started, count, last = time.perf_counter(), min(self.count, plan.shares), plan.seconds
        small = plan.blocks * plan.threads <= INLINE_THREADS and (count == 1 or plan.on_one <= INLINE_SECONDS)
        here = self._leads(last)
        if not plan.deep and (small or here and count == 1):
            count = 1
            function(plan.run)(self.first)
        else:
            crew = self._with_crew(plan.executable)
            crew.team.function, crew.team.workers = plan.run, count
            if here and not plan.deep:
                function(plan.executable.lead)(crew.leader)
            else:
                crew.call(plan.executable.lead, crew.leader, partial(end, launch))
        plan.seconds = time.perf_counter() - started
        plan.on_one = plan.seconds * count

    def _leads(self, last: float | None) -> bool:
        """Whether the calling thread leads a launch that took this many seconds last time."""
        return last is not None and last <= LED_SECONDS or threading.current_thread() is not _MAIN

    def describe(self, node: abi.GraphNode, plan: Plan) -> None:
        """Sets the workers of a launch in a graph, as `run` would choose them."""
        node.run, node.workers = plan.run, min(self.count, plan.shares)
        if plan.blocks * plan.threads <= INLINE_THREADS:
            node.small = int(INLINE_SECONDS * 1e9)

    def replay(self, graph: abi.Graph, executable: Executable, last: float | None, deep: bool) -> None:
        """Call rt_replay, in the calling thread or in the crew's first, as `run` would choose."""
        crew = self._with_crew(executable)
        graph.team, graph.launch = crew.leader, ctypes.addressof(self.launch)

        def stop() -> None:
            graph.stop = 1
            end(self.launch)

        if self._leads(last) and not deep:
            function(executable.replay)(ctypes.addressof(graph))
        else:
            crew.call(executable.replay, ctypes.addressof(graph), stop)

    def run_variants(self, executable: Executable, launch: abi.Launch, deep: bool) -> None:
        """Call rt_variants on one worker."""
        if deep:
            crew = self._with_crew(executable)
            crew.call(executable.variants, self.first, partial(end, launch))
        else:
            function(executable.variants)(self.first)

    def _with_crew(self, executable: Executable) -> Crew:
        if self._crew is None:
            stride = self.envs.dtype.itemsize * self.slots
            self._crew = Crew(self.first, stride, self.count, executable.serve)
        return self._crew

    def settle(self) -> None:
        """Wait for anything that a Ctrl-C stopped."""
        if self._crew:
            self._crew.settle()

    def close(self) -> None:
        self.settle()
        if self._crew:
            self._crew.close()
            self._crew = None


def end(launch: abi.Launch) -> None:
    """Makes a launch's threads stop at their next time slice."""
    launch.stop = abi.GIVEN_UP


def _zeros(rows: int, columns: int, dtype: np.dtype) -> np.ndarray:
    """Page-aligned zeros, which use memory only where they are written. Errors: DeviceError."""
    return np.frombuffer(reserve(rows * columns * dtype.itemsize), dtype).reshape(rows, columns)


@lru_cache(maxsize=64)
def thread_order(threads: int, seed: int, together: int = 1, rows: int = 1, row: int = 1) -> np.ndarray:
    """Linear thread ids of a block in the order they run: warps shuffled, lanes of odd seeds backwards.

    together: neighbours that run together, represented by the first. Threads left over come last, one by one.
    rows: how many rows of neighbours run together, if a row of the block has `row` threads.
    """
    warps = np.arange(-(-threads // 32))
    if seed:
        np.random.default_rng(seed).shuffle(warps)
    lanes = np.arange(32)[:: -1 if seed % 2 else 1]
    order = (warps[:, None] * 32 + lanes).ravel()
    whole = threads // together * together
    groups = order[(order < whole) & (order % together == 0) & (order // row % rows == 0)]
    order = np.concatenate([groups, order[(order >= whole) & (order < threads)]]).astype(np.uint32)
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
    """Like block_order, but any run of consecutive blocks is spread evenly over the grid, by the golden
    ratio."""
    multiplier = round(0.618034 * blocks) or 1
    while gcd(multiplier, blocks) != 1:
        multiplier += 1
    return multiplier, 0
