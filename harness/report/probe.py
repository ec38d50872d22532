"""Which elements one thread reads and writes, found by running the kernel.

The kernel is run with all threads but one switched off. What it then writes is what this thread
writes; an input element that it uses is found by making it NaN: the output changes. An element
that is read without any influence on an output is not seen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from harness.checkout import tunables
from harness.compare import same_bits
from harness.course import Case, Kernel, Launch, Puzzle
from harness.errors import CourseError
from harness.inputs import make_inputs


@dataclass(frozen=True)
class Access:
    """One element that a thread touches. index: flat. kind: "read" | "write"."""

    array: str
    index: int
    kind: str


OWN_NUMBERS = {
    "blockIdx.x": "only_block % gridDim.x",
    "blockIdx.y": "only_block / gridDim.x",
    "threadIdx.x": "only_thread % blockDim.x",
    "threadIdx.y": "only_thread / blockDim.x",
}


def single_out(source: str, name: str) -> str:
    """`source`, with two more parameters of the kernel `name` that say which thread alone runs."""
    start = re.search(rf"\b{re.escape(name)}\s*\(", source)
    close = source.find(")", start.end()) if start else -1
    brace = source.find("{", close)
    if close < 0 or brace < 0:
        raise CourseError(f"the file has no kernel {name}(...) {{ ... }}")
    only = "if (" + " || ".join(f"{a} != {b}" for a, b in OWN_NUMBERS.items()) + ") return;"
    head = f"{source[:close]}, int only_block, int only_thread{source[close:brace]}"
    return f"{head}{{ {only}{source[brace + 1 :]}"


class Runner:
    """A kernel of a puzzle, ready to be run in one case, with inputs of one's own."""

    def __init__(self, device, puzzle: Puzzle, case: Case, kernel: Kernel, source: str):
        self.device, self.kernel = device, kernel
        self.dims = puzzle.full_dims(case)
        self.launch: Launch = kernel.launch(self.dims, tunables(source))
        self.inputs = make_inputs(puzzle, case, kernel)
        module = device.compile(self.text(source), include_dirs=puzzle.include_dirs)
        self.function = module.get_function(kernel.name)

    def text(self, source: str) -> str:
        """What is compiled."""
        return source

    def run(self, inputs: dict[str, np.ndarray], *more: int) -> dict[str, np.ndarray]:
        """The outputs after a run on these inputs, with `more` numbers after the kernel's arguments."""
        arrays, arguments = {}, []
        for p in self.kernel.params:
            if not hasattr(p, "role"):
                arguments.append(np.dtype(p.dtype).type(p.resolve(self.dims)))
                continue
            if p.name in inputs:
                array = self.device.array(inputs[p.name], name=p.name, axes=p.letters)
            else:
                array = self.device.empty(p.shape(self.dims), np.dtype(p.dtype), name=p.name, axes=p.letters)
            arrays[p.name] = array
            arguments.append(array)
        before = {p.name: arrays[p.name].get() for p in self.kernel.outputs}
        arguments += map(np.int32, more)
        launch = self.launch
        self.function(launch.grid, launch.block, tuple(arguments), shared_mem=launch.shared_mem)
        self.before = before
        return {p.name: arrays[p.name].get() for p in self.kernel.outputs}


class Probe(Runner):
    """A kernel of a puzzle, ready to be run thread by thread in one case.

    Blocks and threads are numbered row by row, x first; grids and blocks have an x and a y at most.
    """

    def text(self, source: str) -> str:
        return single_out(source, self.kernel.name)

    def accesses(self, block: int, thread: int) -> Iterator[Access]:
        """Every element that the thread writes, then every element that these results depend on."""
        right = self.run(self.inputs, block, thread)
        for name, values in right.items():
            for index in changed(values, self.before[name]):
                yield Access(name, int(index), "write")
        for name, values in self.inputs.items():
            for index in range(values.size):
                if any(self.differs(block, thread, right, name, s) for s in spoilt(values, index)):
                    yield Access(name, index, "read")

    def differs(self, block: int, thread: int, right: dict, name: str, values: np.ndarray) -> bool:
        """Are the results other than `right` when the input `name` holds these values?"""
        after = self.run({**self.inputs, name: values}, block, thread)
        if name in after:  # updated in place: where nothing was written, the other value still stands
            after[name] = np.where(same_bits(after[name], values), right[name], after[name])
        return any(changed(after[n], right[n]).size for n in right)

    def writers(self) -> list[list[bool]]:
        """For every block, for every thread: does it write anything?"""
        return [
            [self.writes_something(block, thread) for thread in range(count(self.launch.block))]
            for block in range(count(self.launch.grid))
        ]

    def writes_something(self, block: int, thread: int) -> bool:
        after = self.run(self.inputs, block, thread)
        return any(changed(after[n], self.before[n]).size for n in after)


def count(extent: int | tuple[int, ...]) -> int:
    """How many blocks or threads a grid or block has."""
    return extent if isinstance(extent, int) else math.prod(extent)


def spoilt(values: np.ndarray, index: int) -> Iterator[np.ndarray]:
    """Copies with another element at a flat index: NaN, or, where those cannot be, any other of the array."""
    floats = values.dtype.kind == "f"
    for other in [np.nan] if floats else np.setdiff1d(values, values.flat[index]):
        copy = values.copy()
        copy.flat[index] = other
        yield copy


def changed(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Flat indices at which the bits differ."""
    width = f"u{after.dtype.itemsize}"
    return np.flatnonzero(np.ascontiguousarray(after).view(width) != np.ascontiguousarray(before).view(width))
