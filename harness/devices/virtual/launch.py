"""One launch on the virtual GPU: checked, run, and its faults read."""

from __future__ import annotations

import time
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...errors import LaunchError
from ..launching import Launch, Limits, check_arguments, check_shape
from ..texture import SurfaceObject
from .array import Array
from .compile.recipes import Check
from .explain import heap
from .explain.faults import Diagnosis
from .explain.unset import unset_outputs
from .run.printf import Output
from .run.trace import Steps
from .run.workers import block_order, opposite_order, spread_order, thread_order
from .runtime import abi

if TYPE_CHECKING:
    from .device import Kernel

LIMITS = Limits()


class Execution:
    """One launch: checks what CUDA would check, sets up the state, runs, and reads the faults."""

    def __init__(self, kernel: Kernel, grid, block, args, shared_mem: int):
        self.kernel, self.module, self.device = kernel, kernel.module, kernel.module.device
        self.arena, self.workers = self.device.arena, self.device.workers
        self.grid, self.block, self.args, self.shared_mem = grid, block, args, shared_mem
        self.coarsening = kernel.info.coarsening if block[0] % kernel.info.coarsening == 0 else 1
        blocks, resident = grid[0] * grid[1] * grid[2], self.workers.slots * self.workers.count
        if kernel.info.grid_sync and blocks > resident:
            raise LaunchError(
                f"{blocks} blocks synchronise as a grid; {resident} fit on the virtual GPU together",
                "cudaErrorCooperativeLaunchTooLarge",
            )
        self.slots = min(self.workers.slots, blocks) if kernel.info.resident else 1
        check_launch(kernel, grid, block, shared_mem)
        self._write_params(args)

    def go(self) -> Launch:
        """Run. If threads observe other threads' work in memory, run in the opposite order as well: which
        thread takes a lock first may decide whether a race shows. If something unset was read, run once more,
        with code that follows such values.
        """
        recipe = self.device.recipe
        both = Check.RACES in recipe and self.device.both_orders and bool(self.kernel.info.turns)
        unsure = Check.INITIALISED in recipe and not self.module.tracking
        before = self.arena.snapshot() if both or unsure else []
        try:
            result = self._launch()
            if both:
                self.arena.restore(before)
                result = self._launch(opposite=True)
            return result
        except _Suspect:
            self.arena.restore(before)
            self.module.track()
            return Execution(self.kernel, self.grid, self.block, self.args, self.shared_mem).go()

    def _launch(self, opposite: bool = False) -> Launch:
        launch, block = self.set_up(opposite)
        with Output(self.arena, launch) as output:
            self.workers.run(self.module.executable.run, block, launch, self.kernel.info.recursive)
        self.device.events = int(launch["now"][0])
        if launch["suspect"][0]:
            if self.arena.pool:
                self.arena.pool.end(launch)
            raise _Suspect
        return self._result(launch, output)

    def set_up(self, opposite: bool = False) -> tuple[np.ndarray, int]:
        """The record of a launch, and the address of what runs a block."""
        self.arena.bytes[self.device._workspace.start :][:64] = 0
        self._mark_shared()
        self.workers.shape_threads(self.block, self.slots)
        envs = self.workers.envs
        launch = self._launch_record(opposite)
        envs["launch"] = launch.ctypes.data
        envs["globals_base"] = self.module.variables_owner.start
        if self.device.heap:
            self.device.heap.settle()
            envs["heap"] = self.device.heap.start
        info, executable = self.kernel.info, self.module.executable
        envs["block_function"] = block = executable.address(f"{info.name}.block")
        start = "start" if self.coarsening == 1 else "together"
        envs["start_function"] = executable.address(f"{info.name}.{start}") if info.coroutine else 0
        if self.device.tally:
            self.device.tally.start(self.module.lowered.segments, self.slots, self.device.keep_requests)
        self._follow()
        return launch, block

    def _records(self, launch: np.ndarray) -> np.ndarray:
        return self._memory[launch.nbytes :].view(abi.DTYPES["Fault"])[: int(launch["kept"][0])]

    def _result(self, launch: np.ndarray, output: Output) -> Launch:
        """What a launch has found; KernelFault if that is a fault."""
        result = Launch(output.text, int(launch["printf_lines"][0]))
        if self.device.tally:
            result.counters = self.device.tally.result()
            result.requests = self.device.tally.requests()
        if launch["turns"][0]:
            result.turns = self.kernel.info.turns
        if self.arena.pool:
            self.arena.pool.end(launch)
        if self.device.keep_steps:
            rows = self._steps[: (int(launch["steps"][0]) - self._steps.ctypes.data) // self._steps.itemsize]
            lines = np.array([at.line for at, _ in self.module.lowered.sites], np.int64)
            result.steps = Steps(rows, lines)
            result.hazards = self.arena.pool.hazards()
        diagnosis = Diagnosis(self)
        records = self._records(launch)
        if self.module.tracking and launch["stop"][0] != abi.GIVEN_UP:
            records = np.concatenate([records, unset_outputs(self.arena)])
        if len(records):
            faults, result.notes = diagnosis.faults(records)
            if faults:
                fault = faults[0]
                fault.more, fault.launch = faults[1:], result
                raise fault
        result.notes += heap.leaks(diagnosis)
        return result

    def _follow(self) -> None:
        arena, envs = self.arena, self.workers.envs
        arena.following = self.module.tracking
        envs["unset"] = envs["traces"] = 0
        if arena.following:
            arena.follow()
            envs["unset"], envs["traces"] = arena.unset.ctypes.data, arena.traces.ctypes.data

    # -- setting up ---------------------------------------------------------------------------------------

    def _write_params(self, args) -> None:
        check_arguments(self.kernel.name, self.kernel.params, tuple(args), Array, self.device)
        data = bytearray(abi.PARAM_BYTES)
        end = 0
        for parameter, argument in zip(self.kernel.info.params, args, strict=True):
            end = parameter.offset + parameter.size
            data[parameter.offset : end] = argument_bytes(argument)
        self.arena.bytes[self.device._params.start :][:end] = data[:end]

    def _mark_shared(self) -> None:
        info = self.kernel.info
        layout = [(offset, size, False) for _, offset, size in info.shared]
        layout.append((info.dynamic_offset, self.shared_mem, False))
        if info.reserved:
            layout.append((abi.RESERVED["begin"], abi.RESERVED_BYTES, True))
        self.shared_end = info.dynamic_offset + self.shared_mem
        if Check.INITIALISED not in self.device.recipe and self.device._marked == (layout, self.slots):
            return
        self.device._marked = layout, self.slots
        for slot in self.workers.in_use(self.slots):
            base = self.arena.shared_base(slot)
            self.arena.unmark(base, abi.SHARED_WINDOW)
            for offset, size, written in layout:
                self.arena.mark(base + offset, size, written=written)

    def _launch_record(self, opposite: bool) -> np.ndarray:
        dtype = abi.DTYPES["Launch"]
        self._memory = np.zeros(dtype.itemsize + abi.MAX_RECORDS * abi.DTYPES["Fault"].itemsize, np.uint8)
        launch = self._memory[: dtype.itemsize].view(dtype)
        info, device = self.kernel.info, self.device
        barriers, races = (check in device.recipe for check in (Check.BARRIERS, Check.RACES))
        values = self._order_of_blocks(opposite) | self._extents()
        values |= {
            "step_budget": device.step_budget,
            "time_limit": int(device.time_limit * 1e9),
            "printf_open": 1,
            "check_sync": barriers,
            "grid_sync": barriers and info.grid_sync,
            "grid_workspace": device._workspace.start,
            "slots": self.slots,
            "ticks": time.monotonic_ns(),
            "now": device.events + 1,
            "tag": device.events + 1,
            "symmetric": info.symmetric,
            "ordered": info.ordered,
            "finals": info.finals,
            "most_looks": abi.FEW_LOOKS,
            "chance": device.turns and device.schedule + 1,
            "site_lines": self.module.site_lines.ctypes.data if races else 0,
        }
        if self.arena.pool:
            values |= self.arena.pool.start()
            if values["now"] > abi.LATE:
                self.arena.forget_races()
                values["now"] = values["tag"] = 1
        self.tag = values["tag"]
        if self.device.keep_steps:
            self._steps = abi.array("Step", self.device.keep_steps)
            values["steps"] = self._steps.ctypes.data
            values["steps_end"] = values["steps"] + self._steps.nbytes
        launch[0] = tuple([values.get(name, 0) for name in dtype.names])  # faster than one by one
        return launch

    def _order_of_blocks(self, opposite: bool) -> dict[str, int]:
        """And of the threads of a block."""
        threads, blocks, seed = prod(self.block), prod(self.grid), self.device.schedule
        self.order = thread_order(threads, seed, self.coarsening if self.kernel.info.coroutine else 1)
        multiplier, offset = block_order(blocks, seed)
        first = max(0, blocks - self.device.sample_blocks) if self.device.sample_blocks else 0
        if first:
            multiplier, offset = spread_order(blocks)
        if opposite:
            self.order = np.ascontiguousarray(self.order[::-1])
            multiplier, offset = opposite_order(blocks, multiplier, offset)
        return {
            "next_block": first,
            "blocks": blocks,
            "block_multiplier": multiplier,
            "block_offset": offset,
            "order": self.order.ctypes.data,
        }

    def _extents(self) -> dict[str, int]:
        """Of the grid, a block and its shared memory."""
        info = self.kernel.info
        shared = info.shared or self.shared_mem
        found = {
            "threads": prod(self.block),
            "coarsening": self.coarsening,
            "shared_bytes": max(0, self.shared_end - abi.SHARED_START) if shared else 0,
            "shared_static": info.shared_static,
            "shared_dynamic": self.shared_mem,
        }
        for name, extent in (("grid", self.grid), ("block", self.block)):
            found |= {f"{name}_{axis}": size for axis, size in zip("xyz", extent)}
        return found


class _Suspect(Exception):
    """A launch has read something unset."""


def check_launch(kernel: Kernel, grid, block, shared_mem: int) -> None:
    """Refuse what CUDA refuses, in CUDA's terms. Errors: LaunchError."""
    static = kernel.info.shared_static
    check_shape(grid, block, static + max(shared_mem, 0), LIMITS)
    threads = block[0] * block[1] * block[2]
    if kernel.info.max_threads and threads > kernel.info.max_threads:
        raise LaunchError(
            f"the block has {threads} threads; __launch_bounds__ of {kernel.name} allows {kernel.info.max_threads}",
            "cudaErrorInvalidConfiguration",
        )
    if not 0 <= shared_mem <= kernel.max_dynamic_shared_size_bytes:
        raise LaunchError(
            f"{static} bytes of static and {shared_mem} of dynamic shared memory; a block has {LIMITS.shared_per_block}"
            f" (up to {LIMITS.shared_per_block_optin} where the kernel opts in)"
        )


def argument_bytes(argument) -> bytes:
    if isinstance(argument, Array):
        return argument.pointer.to_bytes(8, "little")
    if isinstance(argument, SurfaceObject):
        return argument.ptr.to_bytes(8, "little")
    return argument.tobytes()
