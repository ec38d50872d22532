"""One launch on the virtual GPU: checks it, runs it, and reads its faults."""

from __future__ import annotations

import ctypes
import math
import time
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from ..launching import Launch
from .array import Array
from .run import orders, record
from .run.orders import Order
from .run.printf import Output
from .run.workers import block_order, opposite_order
from .runtime import abi

if TYPE_CHECKING:
    from .kernel import Kernel


#: the part of a launch, as its power of 2, that shows how long all of it takes; seconds between two looks for better code
TRIAL, SLICE = 4, 0.05
#: what a launch that goes on with other code keeps
SO_FAR = "next_block", "ticks", "now", "tag", "granted", "visits", "turns", "printf_open", "printf_lines"
#: in the time that a thread takes for a step: threads that the scheduler looks at, bytes of memory that are copied
VISITS_A_STEP, BYTES_A_STEP = 1 << 6, 1 << 12


class Stopwatch:
    """Seconds since it was made; on a busy machine, most of which are spent elsewhere, those of this process."""

    def __init__(self):
        self.started = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        return min(time.perf_counter() - self.started[0], time.process_time() - self.started[1])


class Execution:
    """One launch: checks what CUDA would check, sets up the state, runs, and reads the faults."""

    def __init__(
        self,
        kernel: Kernel,
        grid,
        block,
        args,
        shared_mem: int,
        pauses: bool = False,
        seconds: float = math.inf,
    ):
        """pauses: once it is known how long it will take, it may be worth compiling the kernel for these blocks. seconds: what it may
        take, with all its repetitions; see Spent."""
        self.seconds, self.watch = seconds, Stopwatch()
        self.asked, kernel, self.pauses = kernel, kernel.for_blocks(block), pauses
        self.kernel, self.module, self.device = kernel, kernel.module, kernel.module.device
        self.arena, self.workers = self.device.arena, self.device.workers
        self.grid, self.block, self.args, self.shared_mem = grid, block, args, shared_mem
        self.plan = kernel.own_plan(grid, block, shared_mem)
        self.guarded = False  # see run/guard
        self.recording: record.Recording | None = None
        packed = kernel.pack(args)
        self.device.parameters[: len(packed)] = packed

    def go(self) -> Launch:
        """Run, in several orders if threads observe other threads' work in memory: see `orders`. If something unset was
        read, run once more, with code that follows such values; if there may be a race, with records of all accesses.
        """
        if self.plan.plain:
            return self._launch()
        device = self.device
        self._guard()
        info = self.kernel.info
        depends = info.turns or device.agree and info.overwrites
        several = device.races and device.several_orders and bool(depends)
        unsure = self.epochs or device.unset_reads and not self.module.tracking
        limited = self.seconds < math.inf
        before = self.snapshot() if several or unsure or limited else []
        try:
            return self._in_several_orders(before) if several else self._launch()
        except Spent:
            self.arena.restore(before)
            raise
        except _Suspect as found:
            self.arena.restore(before)
            name = self.kernel.info.name
            if self.kernel.info.scouts and found.why != abi.SUSPECT_STORED:
                self.module.doubted.add(name)
            if found.why == abi.SUSPECT_STORED:
                self.module.unguarded.add(name)
            elif found.why == abi.SUSPECT_RACE:
                self.module.recorded.add(name)
            elif not self.kernel.info.scouts:
                self.module.track()
            how = self.grid, self.block, self.args, self.shared_mem
            return Execution(self.kernel, *how, seconds=device.full_seconds).go()

    def _guard(self) -> None:
        """Arrays that this launch cannot store to are read-only while it runs; lanes get to know."""
        info, guard, given = self.kernel.info, self.arena.guard, self.device.parameters
        known = info.stored is not None and info.name not in self.module.unguarded
        self.guarded = known and not self.module.tracking
        if not self.guarded:
            return guard.only()
        stored = {guard.holding(int.from_bytes(given[at : at + 8], "little")) for at in info.stored}
        if info.stores_variables:
            stored.add(self.module.variables_owner.start)
        guard.only(stored)
        if info.scouts and self.kernel.pack.bounds:
            for argument, parameter in zip(self.args, info.params, strict=True):
                if type(argument) is Array and guard.is_closed(argument.pointer):
                    at = info.bounds(parameter.name) + 16
                    given[at : at + 8] = argument.address
        return None

    def _in_several_orders(self, before: list) -> Launch:
        """The last one's result. Errors: KernelFault, also if the arrays do not agree."""
        from .explain.agreement import (
            Agreement,  # like all of explain: few launches need it, and it takes a while to load
        )

        device, memory = self.device, sum(len(values) for _, values, _ in before)
        self._launch(orders.AHEAD)
        agreement = Agreement(self) if device.agree else None
        turns = device.turns and bool(self.kernel.info.turns)
        between = orders.between(device.schedule, turns, lambda: self._work(memory))
        for order in chain(between, [orders.IN_STEP]):
            self.arena.restore(before)
            result = self._launch(order)
            if agreement:
                agreement.see(order)
        if agreement and agreement.found:
            after = self.snapshot()
            found = agreement.report(lambda order: self._traced(order, before))
            self.arena.restore(after)
            if found and found.severity == "error":
                found.launch = result
                raise found
            result.notes += [found] if found else []
        return result

    def _traced(self, order: Order, before: list) -> dict:
        """The record of an order."""
        from .explain.agreement import MOST_ROWS

        device = self.device
        self.arena.restore(before)
        kept = device.keep_rows, device.rows_first, device.rows_blocks, device.rows_pair
        device.keep_rows, device.rows_first, device.rows_blocks = MOST_ROWS, 0, record.MOST_BLOCKS
        device.rows_pair = ()
        try:
            kernel = self.kernel.for_blocks(self.block)
            again = Execution(kernel, self.grid, self.block, self.args, self.shared_mem)
            return again._launch(order).record
        finally:
            device.keep_rows, device.rows_first, device.rows_blocks, device.rows_pair = kept

    def snapshot(self) -> list:
        """A copy of everything the launch may change."""
        heap = self.device.heap
        return self.arena.snapshot(heap.parts(self.module.lowered.heap) if heap else ())

    def _work(self, memory: int) -> int:
        """How much the last launch did, in steps of threads; that much memory is restored after it."""
        launch = self.device.launch
        steps = self.plan.blocks * self.plan.threads + launch.now - launch.tag + launch.turns + launch.granted
        return steps + launch.visits // VISITS_A_STEP + memory // BYTES_A_STEP

    def _launch(self, order: Order = Order()) -> Launch:
        launch, plan = self.set_up(order), self.plan
        with self.device.output as output:
            if self.pauses and plan.plain and plan.slots == 1:
                self._run_in_slices(launch)
            else:
                self.workers.run(plan, launch)
        self.device.events = launch.now
        unsure = abi.SUSPECT_LANES if self.kernel.info.scouts and launch.kept else 0
        if launch.suspect or unsure:
            if self.device.races:
                self.arena.pool.end(launch)
            raise _Suspect(launch.suspect or unsure)
        return self._result(launch, output)

    def _run_in_slices(self, launch: abi.Launch) -> None:
        """Runs a part, to see how long it takes, and the rest by parts, the first of them short, as long as better code may come."""
        watch, module, blocks = Stopwatch(), self.asked.module, self.plan.shares
        key, launch.until = (self.asked.info.name, self.block), blocks >> TRIAL or abi.ALL
        self.workers.run(self.plan, launch)
        while launch.until <= launch.next_block < blocks and not launch.stop:
            seconds, launch.until = watch.seconds, abi.ALL
            each = max(seconds, 1e-9) / launch.next_block
            module.look_for_better(*key, each * blocks)
            if not launch.kept:
                self._switch(launch)
                if module.times_launches(*key):
                    launch.until = launch.next_block + int(max(SLICE, seconds / 2) / each)
            self.plan.seconds = each * blocks
            self.workers.run(self.plan, launch)
        self.plan.seconds = watch.seconds

    def _switch(self, launch: abi.Launch) -> None:
        """Goes on with the version of the kernel that there is by now."""
        kernel = self.asked.for_blocks(self.block)
        if kernel.module.executable is self.plan.executable:
            return
        plan = kernel.own_plan(self.grid, self.block, self.shared_mem)
        if plan.shares == self.plan.shares:
            self.kernel, self.module, self.plan = kernel, kernel.module, plan
            so_far = {name: getattr(launch, name) for name in SO_FAR}
            ctypes.pointer(launch)[0] = plan.launch
            for name, value in so_far.items():
                setattr(launch, name, value)

    def set_up(self, order: Order = Order()) -> abi.Launch:
        """The device's launch record, filled in for this launch."""
        device, plan, launch = self.device, self.plan, self.device.launch
        ctypes.pointer(launch)[0] = plan.launch
        launch.ticks = time.monotonic_ns()
        if self.seconds < math.inf:
            left = int(max(self.seconds - self.watch.seconds, 0) * 1e9)
            launch.time_limit = min(launch.time_limit, left)
        self.tag = launch.now = launch.tag = device.events + 1
        if plan.plain:
            return launch
        launch.guarded = self.guarded
        if plan.grid_sync:
            self.arena.clear(device.workspace.start, device.workspace.nbytes)
        if self.module.lowered.heap:
            device.heap.settle()
        if not order.steps:
            launch.chance = 0
        if order.reversed:
            launch.order = plan.reversed.ctypes.data
            launch.block_multiplier, launch.block_offset = opposite_order(
                launch.blocks // plan.cluster, launch.block_multiplier, launch.block_offset
            )
        elif order.seed and launch.chance:
            self.shuffled = plan.shuffled(order.seed)  # keeps it alive
            launch.order = self.shuffled.ctypes.data
            launch.block_multiplier, launch.block_offset = block_order(
                launch.blocks // plan.cluster, order.seed
            )
            launch.chance, launch.erratic = order.seed, 1
            launch.after, launch.before, launch.anything = order.after, order.before, order.anything
        if device.races:
            self._start_racecheck(launch)
        if device.tally:
            device.tally.start(self.module.lowered, plan.slots, device.keep_requests)
        if device.keep_rows:
            self.recording = record.Recording(self, launch)
        if self.module.tracking or self.arena.following:
            self._follow()
        self._set_padding(after=False)
        return launch

    def _set_padding(self, after: bool) -> None:
        """Of structs that the arguments point to; after a launch, also what unions may have left unset."""
        info = self.kernel.info
        for p in info.pointed:
            start = info.params[p.parameter].offset + p.place
            self.arena.set_padding(
                int.from_bytes(self.device.parameters[start : start + 8], "little"),
                p.slack if after else p.padding,
            )

    @property
    def epochs(self) -> bool:
        """Whether racecheck only detects whether there could be a race."""
        device, info = self.device, self.kernel.info
        return device.races and info.epochs and info.name not in self.module.recorded

    def _start_racecheck(self, launch: abi.Launch) -> None:
        launch.epochs = self.epochs
        for name, value in self.arena.pool.start().items():
            setattr(launch, name, value)
        if launch.now > abi.LATE:
            self.arena.forget_races()
            self.tag = launch.now = launch.tag = 1

    def _follow(self) -> None:
        arena, envs = self.arena, self.workers.envs
        arena.following = self.module.tracking
        envs["unset"] = envs["traces"] = 0
        if arena.following:
            arena.follow()
            envs["unset"], envs["traces"] = arena.unset.ctypes.data, arena.traces.ctypes.data

    def _result(self, launch: abi.Launch, output: Output) -> Launch:
        """The result of a launch; KernelFault if it found a fault."""
        result = Launch(output.text, launch.printf_lines)
        if self.kernel.info.products:
            from .explain import products

            result.notes += products.under_way(self)
        if self.plan.plain and not (launch.kept or launch.turns):
            return result
        if self.device.tally:
            result.counters = self.device.tally.result()
            result.requests = self.device.tally.requests()
        if launch.turns and launch.chance:
            result.turns = self.kernel.info.turns
        if self.device.races:
            self.arena.pool.end(launch)
        if self.recording:
            result.record = self.recording.taken(launch, output)
        if launch.kept or self.module.tracking:
            self.diagnose(launch, result)
        if self.plan.launch.grid_sync:
            from .explain import barriers

            result.notes.append(barriers.cooperative(self))
        if self.module.lowered.heap and self.device.heap.used:
            from .explain import faults, heap

            result.notes += heap.leaks(faults.Diagnosis(self))
        return result

    def diagnose(self, launch: abi.Launch, result: Launch) -> None:
        """Add a launch's records to its notes. Errors: KernelFault."""
        from .explain.faults import Diagnosis
        from .explain.unset import unset_outputs

        records = self.device.faults[: launch.kept].copy()
        spent = False
        if self.seconds < math.inf and launch.stop == abi.GIVEN_UP:
            late = (records["kind"] == abi.FAULT["timeout"]) & (records["extra"] != abi.TIMEOUT_WAITED)
            records, spent = records[~late], late.any()
        if self.module.tracking and launch.stop != abi.GIVEN_UP:
            self._set_padding(after=True)
            records = np.concatenate([records, unset_outputs(self.arena)])
        if len(records):
            faults, notes = Diagnosis(self).faults(records)
            result.notes += notes
            if faults:
                fault = faults[0]
                fault.more, fault.launch = faults[1:], result
                raise fault
        if spent:
            raise Spent


class Spent(Exception):
    """The seconds that full checks may take are over; memory is as it was before."""


class _Suspect(Exception):
    """The launch has to run again. why: SUSPECT_*."""

    def __init__(self, why: int):
        self.why = why
