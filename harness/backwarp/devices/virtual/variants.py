"""Many launches of one kernel that differ only in a __constant__ variable. Each is judged on the spot and
ended at the first part that goes wrong.

The loop is in the runtime (variants.cu), since most of these launches take a few microseconds. The part that
is wrong in the unchanged kernel runs first: one thread of one block if no thread waits for others, else one
block.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ...errors import LaunchError
from ..launching import constant_bytes
from .array import Array
from .compile.recipes import Check
from .launch import Execution
from .run.workers import thread_order
from .runtime import abi

#: the value of unwritten output elements: also a NaN, but not one that results from reading poison
POISON, UNWRITTEN = 0xFFFFFFFF, 0xFFFFFFFE
FAULTS, WRONG, RIGHT = range(3)  # the result of a launch


@dataclass(frozen=True)
class Wanted:
    """The expected output: float64 values, and the allowed error of each; special: it may contain infinity
    and NaN."""

    array: Array
    values: np.ndarray
    tolerances: np.ndarray
    special: bool = False


class Batch:
    """The launches of one request. apart: no element gets its value from several threads or blocks."""

    def __init__(self, execution: Execution, constant: str, outputs: Sequence[Wanted], apart: bool):
        self.execution, self.device = execution, execution.device
        self.arena, module = self.device.arena, execution.module
        self.symbol, fits = constant_bytes(module.compiled, constant, np.zeros(1, np.uint8))
        self.row_bytes = fits.size
        self.constant = module.variables_owner.start + module.lowered.variables[self.symbol][0]
        self.outputs = outputs
        self._mark(POISON, UNWRITTEN)
        self.arena.guard.only()
        self.before = execution.snapshot()
        self.kept = [values.ctypes.data for _, values, _ in self.before]
        self.targets = self._targets(outputs)
        marks = {Check.INITIALISED, Check.RACES, Check.SEGMENTS}
        self.fresh_state = bool(self.device.recipe.checks & marks)  # each launch needs it reset
        info = execution.kernel.info
        self.alone = info.lanes > 1 and not info.coroutine  # parts consist of single threads
        self.together = not apart or bool(execution.kernel.info.resident)

    def run(self, rows: np.ndarray, seconds: float) -> np.ndarray:
        """FAULTS, WRONG or RIGHT for each row, until `seconds` run out. Zeros stand for the unchanged
        kernel."""
        end = time.monotonic_ns() + int(seconds * 1e9)
        rows = np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8)
        if rows.shape[1] > self.row_bytes:
            raise LaunchError(f"a row has {rows.shape[1]} bytes, more than the variable")
        rows = np.pad(rows, ((0, 0), (0, self.row_bytes - rows.shape[1])))
        parts = self._parts()
        each = 1 if self.fresh_state else max(len(rows), 1)
        found = []
        for at in range(0, len(rows), each):
            found.append(self._launched(rows[at : at + each], parts, end))
            if len(found[-1]) < each:
                break
        self._mark(UNWRITTEN, POISON)
        found = np.concatenate(found) if found else np.zeros(0, np.uint32)
        faulty = found & np.uint32(abi.FAULTY) != 0
        return np.where(found == abi.ALL_RIGHT, RIGHT, np.where(faulty, FAULTS, WRONG)).astype(np.uint8)

    def _mark(self, old: int, new: int) -> None:
        for output in self.outputs:
            if output.array.dtype == np.float32:
                words = output.array._view().view(np.uint32)
                words[words == old] = new

    # -- what runs first ------------------------------------------------------------------------------

    def _parts(self) -> np.ndarray:
        """First the part that is wrong in the unchanged kernel, then the rest."""
        execution = self.execution
        order, blocks = execution.plan.order, prod(execution.grid)
        if self.alone:
            order = thread_order(execution.plan.threads, self.device.schedule)
        if self.together:
            return _parts([(0, blocks, order)])
        each = [(block, block + 1, order) for block in range(blocks)]
        if (first := self._first_wrong(each)) is None:
            return _parts(each)
        wrong = each.pop(first)
        if execution.kernel.info.coroutine:
            return _parts([wrong, *each])
        threads = [(*wrong[:2], order[i : i + 1]) for i in range(len(order))]
        if (thread := self._first_wrong(threads)) is None or len(order) == 1:
            return _parts([wrong, *each])
        self.others = np.delete(order, thread)
        return _parts([threads[thread], (*wrong[:2], self.others), *each])

    def _first_wrong(self, parts: list[tuple]) -> int | None:
        """The first wrong part of the unchanged kernel; elements that it does not write do not count."""
        row = np.zeros((1, self.row_bytes), np.uint8)
        (found,) = self._launched(row, _parts(parts), time.monotonic_ns() + (1 << 40), probes=True)
        return None if found == abi.ALL_RIGHT else int(found) & ~abi.FAULTY

    # -- launches -------------------------------------------------------------------------------------

    def _launched(self, rows: np.ndarray, parts: np.ndarray, end: int, probes: bool = False) -> np.ndarray:
        """The result for each row that was run, as from `run`."""
        execution = self.execution
        launch = execution.set_up()
        launch.printf_open = launch.epochs = 0  # epochs would end the launch at a merely possible race
        launch.pieces, launch.piece = 1, abi.WHOLE
        if self.alone:
            launch.coarsening = 1
        if not self.together:
            launch.block_multiplier, launch.block_offset = 1, 0
        regions, results = self._regions(), np.zeros(len(rows), np.uint32)
        fresh, batch = abi.Launch.from_buffer_copy(launch), np.zeros(1, abi.DTYPES["Batch"])
        values = {
            "rows": rows.ctypes.data,
            "row_bytes": self.row_bytes,
            "count": len(rows),
            "constant": self.arena.host(self.constant),
            "results": results.ctypes.data,
            "end": end,
            "fresh": ctypes.addressof(fresh),
            "parts": parts.ctypes.data,
            "regions": regions.ctypes.data,
            "targets": self.targets.ctypes.data,
            "part_count": len(parts),
            "region_count": len(regions),
            "target_count": len(self.targets),
            "probes": probes,
        }
        for name, value in values.items():
            batch[name] = value
        fresh.batch = launch.batch = batch.ctypes.data
        kernel = execution.kernel
        execution.workers.run_variants(execution.module.executable, launch, kernel.info.recursive)
        self.device.events = launch.now
        if self.arena.pool:
            self.arena.pool.end(launch)
        return results[: int(batch["done"][0])]

    def _regions(self) -> np.ndarray:
        regions = []
        for owner, values, shadow in self.before:
            first = owner.start // abi.GRANULE
            regions.append((self.arena.host(owner.start), values.ctypes.data, values.nbytes))
            if self.fresh_state:
                regions.append((self.arena.shadow.ctypes.data + first, shadow.ctypes.data, shadow.nbytes))
        return np.array(regions, abi.DTYPES["Region"])

    def _targets(self, outputs: Sequence[Wanted]) -> np.ndarray:
        starts = {owner.start: values for owner, values, _ in self.before}
        targets = np.zeros(len(outputs), abi.DTYPES["Target"])
        self.wanted = []
        for target, output in zip(targets, outputs):
            array = output.array
            if array.dtype not in (np.float32, np.int32):
                raise LaunchError(f"variants cannot be judged by an output of {array.dtype}")
            values, tolerances = (
                np.ascontiguousarray(np.broadcast_to(x, array.shape), np.float64).reshape(-1)
                for x in (output.values, output.tolerances)
            )
            self.wanted += [values, tolerances]
            target["at"], target["before"] = self.arena.host(array.pointer), starts[array.pointer].ctypes.data
            target["count"], target["special"] = array.size, output.special
            target["values"], target["tolerances"] = values.ctypes.data, tolerances.ctypes.data
            target["is_integer"] = array.dtype.kind == "i"
        return targets


def _parts(parts: Sequence[tuple[int, int, np.ndarray]]) -> np.ndarray:
    """(first block, end, threads in their order) of each."""
    rows = [(first, end, order.ctypes.data, len(order), 0) for first, end, order in parts]
    return np.array(rows, abi.DTYPES["Part"])
