"""A graph on the GPU: one request to the process that owns it, which captures the launches on a CuPy
stream."""

from __future__ import annotations

import weakref

import numpy

from ...errors import KernelFault
from ..graphs import CopyNode, Graph, LaunchNode
from ..launching import Launch, constant_bytes


class GpuGraph(Graph):
    """See graphs.Graph. Launches run one by one, as outside a graph, the first time, and whenever each must
    be checked for writes outside its arrays.
    """

    _ran = 0  # the process generation in which every launch has already run
    _known = (0, 0)  # (generation, the graph's number there)

    def _run(self) -> Launch:
        device = self.device
        with device._lock:
            ran = self._ran == device._generation and device._process is not None
            if device.checks != "none" or not ran or not self.launches:
                result, self._ran = super()._run(), device._generation
                return result
            changed = self._changed()
            limit = device.time_limit * len(self.launches)
            try:
                text, dropped, seconds = device._ask("replay", self._known[1], changed, limit=limit)
            except TimeoutError:
                raise KernelFault(
                    "timeout",
                    "the graph timed out and was terminated (cudaErrorLaunchTimeout)",
                    f"It ran for more than {limit:g} seconds: does a loop in one of its kernels never end?",
                    file=self.launches[0].kernel.module.request[1],
                ) from None
            except KernelFault as fault:
                names = ", ".join(dict.fromkeys(node.kernel.name for node in self.launches))
                fault.explanation += f". It is one of the kernels of a graph: {names}"
                fault.file = fault.file if fault.line else self.launches[0].kernel.module.request[1]
                raise
        if seconds is not None:
            self.seconds = numpy.array(seconds)
        return Launch(text, dropped)

    def _changed(self) -> dict[int, list]:
        """The arguments that have changed since they were last sent to the process."""
        device, changed = self.device, {}
        if self._known[0] != device._generation:
            self._known = device._generation, device._ask("graph", [_described(node) for node in self.nodes])
            weakref.finalize(self, device._unused.append, self._known).atexit = False
        for i, node in enumerate(self.nodes):
            if isinstance(node, LaunchNode) and node.changed:
                changed[i], node.changed = node.request[4], False
        return changed


def _described(node: LaunchNode | CopyNode) -> tuple:
    """A node, as it is sent to the process."""
    if isinstance(node, LaunchNode):
        node.changed = False
        return "launch", *node.request
    if not node.name:
        return "copy", ("array", node.target.handle), ("value", node.values)
    module, values = node.target, node.values
    if hasattr(values, "get"):
        symbol = module.compiled.variables[node.name][0]
        return "copy", ("variable", (module.load(), symbol)), ("array", values.handle)
    symbol, values = constant_bytes(module.compiled, node.name, values)
    return "copy", ("variable", (module.load(), symbol)), ("value", values)
