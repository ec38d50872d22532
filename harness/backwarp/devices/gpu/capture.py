"""Launches and copies of a graph, captured on a CuPy stream of their own and launched as one CUDA graph.

Source: CuPy, `cupy.cuda.Stream.begin_capture`, `cupy.cuda.Graph`; CUDA C++ Programming Guide, "CUDA Graphs".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Sequence:
    """values: the handles of the arrays that hold values copied from the host."""

    def __init__(self, runtime, stream, nodes: list[Node], values: range):
        self.runtime, self.stream, self.nodes, self.values, self.captured = (
            runtime,
            stream,
            nodes,
            values,
            None,
        )

    def run(self, changed: Mapping[int, tuple]) -> list[float] | None:
        """Run everything and wait. If arguments have changed, every node is queued and timed separately;
        otherwise the captured graph is launched.
        """
        for i, values in changed.items():
            self.nodes[i].values = values
        self.runtime.deviceSynchronize()  # copies on the other stream have arrived
        if changed:
            self.captured = None
            return self._queue_timed()
        with self.stream:
            if self.captured is None:
                self.stream.begin_capture()
                for node in self.nodes:
                    node.put(self.stream)
                self.captured = self.stream.end_capture()
            self.captured.launch(self.stream)
        self.stream.synchronize()
        return None

    def _queue_timed(self) -> list[float]:
        runtime, stream = self.runtime, self.stream
        events = [runtime.eventCreate() for _ in range(len(self.nodes) + 1)]
        try:
            with stream:
                runtime.eventRecord(events[0], stream.ptr)
                for node, event in zip(self.nodes, events[1:]):
                    node.put(stream)
                    runtime.eventRecord(event, stream.ptr)
            stream.synchronize()
            between = zip(events, events[1:])
            return [float(runtime.eventElapsedTime(*pair)) / 1e3 for pair in between]
        finally:
            for event in events:
                runtime.eventDestroy(event)


class Node:
    """put(stream) queues it. values: the arguments of a launch."""

    def __init__(self, put: Callable, values: tuple = ()):
        self._put, self.values = put, values

    def put(self, stream) -> None:
        self._put(stream, self.values)
