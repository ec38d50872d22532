"""CuPy's streams for its stand-ins: work runs at once, unless it is captured."""

from __future__ import annotations

from functools import wraps


class Stream:
    """Only the one that a `with` has made current captures."""

    current = None
    synchronized = None  # what a stand-in does then

    def __init__(self, non_blocking=False):
        assert non_blocking  # CUDA captures no stream that waits for the default one
        self.ptr, self.captured = 7, None

    def __enter__(self):
        Stream.current = self
        return self

    def __exit__(self, *_):
        Stream.current = None

    def begin_capture(self):
        self.captured = []

    def end_capture(self):
        graph, self.captured = Graph(self.captured), None
        return graph

    def synchronize(self):
        Stream.synchronized()


class Graph:
    def __init__(self, work):
        self.work = work

    def launch(self, stream):
        for work in self.work:
            work()


def queued(function):
    """Of a launch or a copy."""

    @wraps(function)
    def run(*given, **named):
        stream = Stream.current
        if stream is None or stream.captured is None:
            return function(*given, **named)
        stream.captured.append(lambda: function(*given, **named))

    return run
