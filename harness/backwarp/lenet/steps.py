"""The launches of a training step as one graph, which is cheaper than launching them one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import KernelFault
from .kernels import Bound, TwoPasses

Numbers = Mapping[str, float]
Waiting = Sequence[tuple[Bound | TwoPasses, Numbers]]


class Step:
    """A graph of launches that can be run again with new numbers."""

    def __init__(self, device, waiting: Waiting):
        self.functions = functions(waiting)
        self.ends, self.nodes = [], []
        with device.graph() as self.graph:
            for bound, numbers in waiting:
                self.nodes.append(bound.record(numbers))
                self.ends.append(len(self.graph.nodes))

    def run(self, waiting: Waiting) -> list[float]:
        """Runs the graph; returns the seconds of each launch. waiting: the same launches as before. Errors:
        KernelFault."""
        for (bound, numbers), nodes in zip(waiting, self.nodes):
            if numbers:
                bound.change(nodes, numbers)
        try:
            self.graph.launch()
        except KernelFault as fault:
            failed = next(i for i, end in enumerate(self.ends) if fault.node < end)
            raise waiting[failed][0].located(fault) from None
        seconds = self.graph.seconds.tolist()
        return [sum(seconds[start:end]) for start, end in zip([0, *self.ends], self.ends)]


def functions(waiting: Waiting) -> list:
    """The launched functions, which change when a kernel is compiled for its sizes."""
    return [function for bound, _ in waiting for function in bound.functions]
