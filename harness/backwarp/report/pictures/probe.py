"""A kernel of a puzzle, ready to run with chosen inputs, and what a thread touches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from backwarp.course.declare import Case, Kernel, Launch, Puzzle
from backwarp.course.inputs import make_inputs
from backwarp.cuda.values import tunables


@dataclass(frozen=True)
class Access:
    """One element that a thread touches. index: flat. kind: "read" | "write"."""

    array: str
    index: int
    kind: str


class Runner:
    """A kernel of a puzzle, ready to run in one case with chosen inputs."""

    def __init__(self, device, puzzle: Puzzle, case: Case, kernel: Kernel, source: str):
        self.device, self.kernel = device, kernel
        self.dims = puzzle.full_dims(case)
        self.launch: Launch = kernel.launch(self.dims, tunables(source))
        self.inputs = make_inputs(puzzle, case, kernel)
        module = device.compile(self.text(source), include_dirs=puzzle.include_dirs)
        # the same for all threads and runs
        self.constants = {p.name: self.inputs.pop(p.name) for p in kernel.constants}
        for name, values in self.constants.items():
            module.set_constant(name, values)
        self.function = module.get_function(kernel.name)

    def text(self, source: str) -> str:
        """The text that is compiled."""
        return source

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs after a run on these inputs. Unwritten elements are poison."""
        arrays = self.place(inputs)
        self.start(arrays)
        return {p.name: arrays[p.name].get() for p in self.kernel.outputs}

    def start(self, arrays: dict, *more) -> None:
        """Launches the kernel on arrays by name, with `more` appended to its arguments; its output goes to
        `printed`."""
        arguments = self.kernel.arguments(arrays, self.dims)
        self.printed = self.launch.of(self.function, (*arguments, *more)).stdout

    def place(self, inputs: dict[str, np.ndarray]) -> dict:
        """All arrays on the device: inputs with these values, outputs poisoned."""
        return {
            p.name: self.device.array(inputs[p.name], name=p.name, axes=p.letters)
            if p.name in inputs
            else self.device.empty(p.shape(self.dims), np.dtype(p.dtype), name=p.name, axes=p.letters)
            for p in self.kernel.passed
        }


def count(extent: int | tuple[int, ...]) -> int:
    """The number of blocks in a grid, or of threads in a block."""
    return extent if isinstance(extent, int) else math.prod(extent)
