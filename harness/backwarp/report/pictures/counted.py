"""A counted run of a kernel, and the elements that its requests touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from backwarp.course.declare import Kernel, Launch, Puzzle
from backwarp.course.inputs import make_inputs
from backwarp.cuda.text import edited, read
from backwarp.cuda.values import tunables
from backwarp.devices import confined_device
from backwarp.devices.virtual.explain.metrics import Request
from backwarp.errors import CourseError, KernelFault
from backwarp.grading.kinds import ENDS
from backwarp.grading.sentences import WORDS

MOST_REQUESTS = 100_000


@dataclass
class CountedRun:
    """The requests of one launch, and the data for finding the elements they touch. fault: what ended threads early."""

    requests: list[Request]
    arrays: dict[str, tuple[int, tuple[int, ...]]]  # name -> device address, shape
    values: Mapping[str, np.ndarray] = field(default_factory=dict)  # of the arrays, after the launch
    launch: Launch = Launch(1, 1)
    counters: Mapping[str, int] = field(default_factory=dict)
    fault: KernelFault | None = None

    def touching(self, name: str, **wanted) -> list[tuple[Request, np.ndarray]]:
        """The requests to an array, in order, each with its lanes' elements (-1: none). wanted: fields of
        Request."""
        wanted_ones = (r for r in self.requests if all(getattr(r, k) == v for k, v in wanted.items()))
        found = ((r, self.elements(name, r)) for r in wanted_ones)
        return [(r, elements) for r, elements in found if (elements >= 0).any()]

    def elements(self, name: str, r: Request) -> np.ndarray:
        """The element of an array that each lane touches in a request (-1: none)."""
        start, shape = self.arrays[name]
        size = self.values[name].itemsize if name in self.values else 4
        end = start + size * np.prod(shape, dtype=int)
        inside = (r.space == "global") & (r.addresses >= start) & (r.addresses < end)
        return np.where(inside, (r.addresses - start) // size, -1)


def counted_run(puzzle: Puzzle, case_name: str, kernel: Kernel, source: str) -> CountedRun:
    """Runs a kernel once, counted. Errors: CourseError if it touches no memory; CompileError; KernelFault if it ends all
    threads."""
    case = next(c for c in puzzle.cases if c.name == case_name)
    dims, inputs = puzzle.full_dims(case), make_inputs(puzzle, case, kernel)
    with confined_device("cpu", checks="count") as device:
        device.quick = True
        device.keep_requests = MOST_REQUESTS
        function = device.compile(source, include_dirs=puzzle.include_dirs).get_function(kernel.name)
        arrays = {
            p.name: device.array(inputs[p.name], name=p.name, axes=p.letters)
            if p.is_input
            else device.empty(p.shape(dims), np.dtype(p.dtype), name=p.name, axes=p.letters)
            for p in kernel.passed
        }
        for p in kernel.constants:
            function.module.set_constant(p.name, inputs[p.name])
        launch = kernel.launch(dims, tunables(source))
        args = kernel.arguments(arrays, dims)
        fault = None
        try:
            done = launch.of(function, args)
        except KernelFault as found:
            if found.kind not in ENDS or not found.launch:
                raise
            done, fault = found.launch, found
        if not done.requests:
            raise CourseError(f"{kernel.name} touches no memory: there is nothing to draw")
        places = {n: (a.pointer, a.shape) for n, a in arrays.items()}
        values = {n: a.get() for n, a in arrays.items()}
        return CountedRun(done.requests, places, values, launch, done.counters, fault)


def ended(fault: KernelFault, launch: Launch) -> str:
    """Which thread a fault ended, and where."""
    sizes = zip((launch.block, launch.grid), (fault.thread or (0, 0, 0), fault.block or (0, 0, 0)))
    thread, block = (f"({x},{y})" if isinstance(n, tuple) else str(x) for n, (x, y, _) in sizes)
    element = f", at {fault.array}[{fault.index}]" if fault.index else ""
    others = f", as {fault.count - 1} more do{'es' * (fault.count == 2)}" if fault.count > 1 else ""
    return f"thread {thread} of block {block} ends in line {fault.line}{element}, {WORDS[fault.kind]}{others}"


def with_mistake(puzzle: Puzzle, name: str) -> str:
    """The solution with the mistake `name` applied."""
    mistake = next(m for m in puzzle.mistakes if m.name == name)
    return mistake.apply(puzzle.solution_path.read_text(encoding="utf-8"))


def solved(puzzle: Puzzle) -> str:
    return puzzle.solution_path.read_text(encoding="utf-8")


def small_tiles(source: str, side: int = 4, name: str = "TILE") -> str:
    """The kernel with a different tile size."""
    values = [
        v.value for v in read(source).variables if v.name == name and "constexpr" in v.words and v.value
    ]
    return edited(source, [(value, str(side)) for value in values])
