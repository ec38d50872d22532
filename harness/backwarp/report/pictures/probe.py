"""Which elements one thread reads and writes, found by running the kernel.

All threads run, so cooperating threads still cooperate. The chosen thread gets private copies of the arrays:
its writes show up in the copies, and the input elements it uses are found by setting one at a time to NaN in
its copy, which changes some output. An element that is read without affecting an output is not found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from backwarp.course.declare import Case, Kernel, Launch, Puzzle
from backwarp.course.inputs import make_inputs
from backwarp.cuda.text import read
from backwarp.cuda.values import tunables
from backwarp.errors import CourseError, KernelFault
from backwarp.grading.compare import same_bits
from backwarp.grading.kinds import ENDS


@dataclass(frozen=True)
class Access:
    """One element that a thread touches. index: flat. kind: "read" | "write"."""

    array: str
    index: int
    kind: str


THIS_THREAD = (
    "blockIdx.x == only_block % gridDim.x && "
    "blockIdx.y + gridDim.y * blockIdx.z == only_block / gridDim.x && "
    "threadIdx.x == only_thread % blockDim.x && threadIdx.y == only_thread / blockDim.x"
)


def isolated(source: str, name: str) -> str:
    """`source`, with extra parameters for the kernel `name`: a block, a thread, and this thread's arrays."""
    kernel = read(source).function(name)
    if kernel is None:
        raise CourseError(f"the file has no kernel {name}(...) {{ ... }}")
    names = [p.name for p in kernel.parameters if p.pointer]
    declared = [" ".join(p.outer.code.split()) for p in kernel.parameters if p.pointer]
    own = [f"{text.removesuffix(name)}own_{name}" for name, text in zip(names, declared)]
    swap = f"if ({THIS_THREAD}) {{ {' '.join(f'{n} = own_{n};' for n in names)} }}"
    close, inside = next(kernel.all("parameter_list")).end - 1, kernel.body.start + 1
    more = f", int only_block, int only_thread, {', '.join(own)}"
    return f"{source[:close]}{more}{source[close:inside]} {swap}{source[inside:]}"


@dataclass(frozen=True)
class Outputs:
    """The result of a run. own: the chosen thread's copies; others: what all other threads wrote."""

    own: dict[str, np.ndarray]
    others: dict[str, np.ndarray]


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
        arguments = [
            arrays[p.name] if p.name in arrays else np.dtype(p.dtype).type(p.resolve(self.dims))
            for p in self.kernel.params
        ]
        size = self.launch.shared_mem
        self.printed = self.function(
            self.launch.grid, self.launch.block, (*arguments, *more), shared_mem=size
        ).stdout

    def place(self, inputs: dict[str, np.ndarray]) -> dict:
        """All arrays on the device: inputs with these values, outputs poisoned."""
        return {
            p.name: self.device.array(inputs[p.name], name=p.name, axes=p.letters)
            if p.name in inputs
            else self.device.empty(p.shape(self.dims), np.dtype(p.dtype), name=p.name, axes=p.letters)
            for p in self.kernel.passed
        }


class Probe(Runner):
    """A kernel of a puzzle, ready to run with one thread isolated.

    Blocks and threads are numbered row by row, x first; grids and blocks have at most two dimensions. A fault that
    ends only its thread is kept in `fault`; the others run on.
    """

    fault: KernelFault | None = None

    def text(self, source: str) -> str:
        return isolated(source, self.kernel.name)

    def start(self, arrays: dict, *more) -> None:
        try:
            super().start(arrays, *more)
        except KernelFault as fault:
            if fault.kind not in ENDS:
                raise
            self.fault = self.fault or fault

    def run_isolated(self, block: int, thread: int, inputs: dict[str, np.ndarray]) -> Outputs:
        """The outputs if the chosen thread sees `inputs`. Unwritten elements are poison."""
        others, own = self.place(self.inputs), self.place(inputs)
        names = [p.name for p in self.kernel.outputs]
        self.before = {n: own[n].get() for n in names}
        self.start(others, np.int32(block), np.int32(thread), *own.values())
        return Outputs({n: own[n].get() for n in names}, {n: others[n].get() for n in names})

    def results(self) -> dict[str, np.ma.MaskedArray]:
        """What the kernel writes with no thread isolated; unwritten elements are masked."""
        after = self.run_isolated(count(self.launch.grid), 0, self.inputs).others
        updated = {p.name for p in self.kernel.outputs if p.is_input}
        unwritten = {n: same_bits(a, self.before[n]) & (n not in updated) for n, a in after.items()}
        return {n: np.ma.MaskedArray(a, unwritten[n]) for n, a in after.items()}

    def accesses(self, block: int, thread: int) -> Iterator[Access]:
        """Every element that the thread writes, then every element that affects a result through this
        thread."""
        right = self.run_isolated(block, thread, self.inputs)
        for name, values in right.own.items():
            for index in changed(values, self.before[name]):
                yield Access(name, int(index), "write")
        for name, values in self.inputs.items():
            for index in range(values.size):
                if any(self.differs(block, thread, right, name, s) for s in spoilt(values, index)):
                    yield Access(name, index, "read")

    def differs(self, block: int, thread: int, right: Outputs, name: str, values: np.ndarray) -> bool:
        """Do the results differ from `right` if the thread's own `name` holds these values?"""
        after = self.run_isolated(block, thread, {**self.inputs, name: values})
        own = dict(after.own)
        if name in own:  # updated in place: unwritten elements still hold the altered value
            own[name] = np.where(same_bits(own[name], values), right.own[name], own[name])
        pairs = [(own[n], right.own[n]) for n in own] + [(after.others[n], right.others[n]) for n in own]
        return any(changed(a, b).size for a, b in pairs)

    def writers(self) -> list[list[bool]]:
        """For every block, for every thread: does it write anything?"""
        return [
            [self.writes_something(block, thread) for thread in range(count(self.launch.block))]
            for block in range(count(self.launch.grid))
        ]

    def writes_something(self, block: int, thread: int) -> bool:
        own = self.run_isolated(block, thread, self.inputs).own
        return any(changed(own[n], self.before[n]).size for n in own)


def count(extent: int | tuple[int, ...]) -> int:
    """The number of blocks in a grid, or of threads in a block."""
    return extent if isinstance(extent, int) else math.prod(extent)


def spoilt(values: np.ndarray, index: int) -> Iterator[np.ndarray]:
    """Copies with a different value at a flat index: NaN, or the array's other values if the type has no
    NaN."""
    floats = values.dtype.kind == "f"
    for other in [np.nan] if floats else np.setdiff1d(values, values.flat[index]):
        copy = values.copy()
        copy.flat[index] = other
        yield copy


def changed(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Flat indices at which the bits differ."""
    width = f"u{after.dtype.itemsize}"
    return np.flatnonzero(np.ascontiguousarray(after).view(width) != np.ascontiguousarray(before).view(width))
