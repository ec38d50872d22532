"""Launches of a training step as one graph, which costs less than to launch them one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import KernelFault
from .kernels import Bound, TwoPasses

Numbers = Mapping[str, float]
Waiting = Sequence[tuple[Bound | TwoPasses, Numbers]]


class Step:
    """A graph of launches, to be run again with other numbers."""

    def __init__(self, device, waiting: Waiting):
        self.functions = functions(waiting)
        self.ends, self.nodes = [], []
        with device.graph() as self.graph:
            for bound, numbers in waiting:
                self.nodes.append(bound.record(numbers))
                self.ends.append(len(self.graph.nodes))

    def run(self, waiting: Waiting) -> list[float]:
        """Seconds of each. waiting: the same launches as before. Errors: KernelFault."""
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
    """What is launched: another function once a kernel has been compiled for its sizes."""
    return [function for bound, _ in waiting for function in bound.functions]
