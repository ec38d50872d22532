"""Launches and copies that are recorded once and run many times, like CUDA graphs:

    with device.graph() as graph:          # nothing runs yet
        first = kernel(grid, block, (x, y, numpy.float32(0.1)))
        other(grid, block, (y, z))
        x.set(0)
    graph.launch()                         # all of it, in this order
    first.change((x, y, numpy.float32(0.2)))
    graph.launch()

With CuPy this is `stream.begin_capture()` and `graph = stream.end_capture()`. As there, a graph keeps the
arrays, copied values and arguments it was recorded with, until `change` gives a launch new ones.

Source: CUDA C++ Programming Guide, "CUDA Graphs", stream capture.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ..errors import KernelFault, LaunchError
from .launching import Launch, constant_bytes


@dataclass(eq=False)
class LaunchNode:
    """A launch in a graph. request: the device's form of it; changed: whether it has changed since the device
    last ran it."""

    kernel: object
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple
    shared_mem: int
    request: object = None
    changed: bool = True

    def __post_init__(self):
        self.change(self.args)

    def change(self, args) -> None:
        """Use new arguments from the next launch of the graph on. Errors: LaunchError."""
        self.request = self.kernel.request(self.grid, self.block, args, self.shared_mem)
        self.args, self.changed = tuple(args), True

    def run(self) -> Launch:
        return self.kernel(self.grid, self.block, self.args, self.shared_mem)


@dataclass(eq=False)
class CopyNode:
    """Copies values into an array, or into a variable of a module."""

    target: object  # an array, or a module
    name: str  # the module's variable
    values: object  # host values, or a device array

    def run(self) -> Launch:
        if self.name:
            self.target.set_constant(self.name, self.values)
        else:
            self.target.set(self.values)
        return Launch()


class Graph:
    """A device's graph; in this base class its nodes run one after the other. seconds: how long each took
    last time."""

    def __init__(self, device):
        self.device, self.nodes, self.recorded = device, [], False
        self.seconds = np.zeros(0)

    # -- recording -----------------------------------------------------------------------------------

    def __enter__(self):
        if self.device.recording or self.recorded:
            raise LaunchError(
                "a graph is being recorded already"
                if self.device.recording
                else "this graph has been recorded",
                "cudaErrorIllegalState",
            )
        self.device.recording, self.recorded = self, True
        return self

    def __exit__(self, kind, *_) -> None:
        self.device.recording = None
        if kind:
            self.nodes = []
        self.seconds = np.zeros(len(self.nodes))

    def add(self, node):
        self.nodes.append(node)
        return node

    @property
    def launches(self) -> list[LaunchNode]:
        return [node for node in self.nodes if isinstance(node, LaunchNode)]

    def copy(self, array, values) -> None:
        """Record array.set(values)."""
        self.add(CopyNode(array, "", np.array(np.broadcast_to(values, array.shape), array.dtype, order="C")))

    def set_constant(self, module, name: str, values) -> None:
        """Record module.set_constant(name, values); a device array is read when the graph runs. Errors:
        LaunchError."""
        on_device = hasattr(values, "get")
        constant_bytes(module.compiled, name, np.empty(values.nbytes, np.uint8) if on_device else values)
        self.add(CopyNode(module, name, values if on_device else np.array(values)))

    # -- running ---------------------------------------------------------------------------------------

    def launch(self) -> Launch:
        """Run all nodes and wait. Their output and notes are combined in one record.

        Errors: LaunchError; KernelFault, whose `node` is the number of the node that faulted.
        """
        if self.device.recording:
            raise LaunchError("a graph cannot be launched while one is recorded", "cudaErrorIllegalState")
        return self._run()

    def _run(self) -> Launch:
        result, self.seconds = Launch(), np.zeros(len(self.nodes))
        for number, node in enumerate(self.nodes):
            started = time.perf_counter()
            try:
                done = node.run()
            except KernelFault as fault:
                fault.node = number
                raise
            self.seconds[number] = time.perf_counter() - started
            result.stdout += done.stdout
            result.stdout_dropped += done.stdout_dropped
            result.notes += done.notes
        return result


def refuse_while_recording(device) -> None:
    """Refuse an operation that a graph cannot contain. Errors: LaunchError."""
    if device.recording:
        raise LaunchError(
            "nothing runs while a graph is recorded, so there is nothing to read yet",
            "cudaErrorStreamCaptureUnsupported",
        )
