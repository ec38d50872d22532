"""A graph on the virtual GPU: the runtime goes from node to node (runtime/graph.cu), without Python."""

from __future__ import annotations

import ctypes
import time

import numpy as np

from ...errors import KernelFault
from .. import graphs
from ..graphs import CopyNode, LaunchNode
from ..launching import Launch, constant_bytes
from .array import Array
from .launch import Execution
from .plan import Plan, is_plain
from .runtime import abi


class Graph(graphs.Graph):
    """See backwarp.devices.graphs.Graph."""

    _made: tuple = ()  # the settings the rows were made for
    last: float | None = None  # seconds that it took last time

    def _run(self) -> Launch:
        launches = self.launches
        if not launches or not all(is_plain(node.kernel) for node in launches):
            return super()._run()
        with self.device.launching:
            self.device.settle()
            self._prepare(launches)
            return self._replay()

    # -- what the runtime reads ------------------------------------------------------------------------

    def _prepare(self, launches: list[LaunchNode]) -> None:
        self.modules = {node.kernel.module for node in launches}
        for module in self.modules:
            module.optimise_when_due()
        made = self.device.settings, [module.executable for module in self.modules]
        if made != self._made:
            self._made, self.rows, self.kept = made, (abi.GraphNode * len(self.nodes))(), []
            for row, node in zip(self.rows, self.nodes):
                if isinstance(node, LaunchNode):
                    self._fill_launch(row, node)
                else:
                    self._fill_copy(row, node)
            self.launched = [(row, node) for row, node in zip(self.rows, self.nodes) if row.launch]
            plans = [one for one in self.kept if isinstance(one, Plan)]
            self.executable, self.deep = plans[0].executable, any(plan.deep for plan in plans)
            self.nanoseconds = np.frombuffer(self.rows, abi.DTYPES["GraphNode"])["nanoseconds"]
        for row, node in self.launched:
            if node.changed:
                ctypes.memmove(row.source, node.request, len(node.request))
                node.changed = False

    def _fill_launch(self, row: abi.GraphNode, node: LaunchNode) -> None:
        plan = node.kernel.plan(node.grid, node.block, node.shared_mem)
        buffer = ctypes.create_string_buffer(len(node.request) + 1)
        self.kept += [plan, buffer]
        self.device.workers.describe(row, plan)
        row.to, row.source = self.device.arena.host(self.device.params.start), ctypes.addressof(buffer)
        row.bytes, row.launch, node.changed = len(node.request), ctypes.addressof(plan.launch), True

    def _fill_copy(self, row: abi.GraphNode, node: CopyNode) -> None:
        host, target, values = self.device.arena.host, node.target, node.values
        row.to = host(target.start_of(node.name) if node.name else target.pointer)
        if isinstance(values, Array):
            row.source = host(values.pointer)
        else:
            values = constant_bytes(target.compiled, node.name, values)[1] if node.name else values
            self.kept.append(values)
            row.source = values.ctypes.data
        row.bytes = values.nbytes

    # -- running ---------------------------------------------------------------------------------------

    def _replay(self) -> Launch:
        device, result, started = self.device, Launch(), time.perf_counter()
        graph = abi.Graph(nodes=ctypes.addressof(self.rows), count=len(self.rows), events=device.events)
        while graph.done < graph.count:
            with device.output as output:
                device.workers.replay(graph, self.executable, self.last, self.deep)
            device.events = graph.events
            result.stdout += output.text
            if graph.done < graph.count:
                self._look_at(graph.done, result)
                graph.done += 1
        result.stdout_dropped = graph.printf_lines
        self.seconds = self.nanoseconds * 1e-9
        self.last = time.perf_counter() - started
        for module in self.modules:
            module.seconds += self.last
        return result

    def _look_at(self, number: int, result: Launch) -> None:
        """Diagnoses the launch that ended the graph. Errors: KernelFault."""
        node, launch = self.nodes[number], self.device.launch
        execution = Execution(node.kernel, node.grid, node.block, node.args, node.shared_mem)
        execution.tag = launch.tag
        try:
            execution.diagnose(launch, result)
        except KernelFault as fault:
            fault.node = number
            raise
