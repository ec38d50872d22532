"""Fragments: which lane of a warp holds which element of the matrices of an mma.sync, taken from a run.

The wrappers of `puzzles/include/mma.cuh` are made to print their registers. All elements of the inputs
differ, so a register says which one it holds, and so do the sums, once they are found among the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from backwarp.course.declare import Kernel, Puzzle
from backwarp.course.inputs import derive_seed
from backwarp.cuda.text import edited, read
from backwarp.errors import CourseError

from .canvas import WIDTH, of_case
from .panels import EDGE, Panel, blank, draw
from .probe import Runner

#: kernel -> for A, B and C (or D) the axes of their array that make up rows and columns of the matrix
MATRICES = {
    "conv2d_backward_weights_tf32": (("k", "bpq"), ("bhw", "c"), ("k", "crs")),
    "matmul_half": (("m", "k"), ("k", "n"), ("m", "n")),
}
CASE = "drawn"  # its matrices are those of one mma
REGISTERS = {"a": 4, "b": 2, "d": 4}
FIRST_WARP = "blockIdx.x + blockIdx.y == 0 && threadIdx.x < 32"
ATTEMPTS = 20  # to find inputs whose sums all differ
LARGEST_CELL = 24
INKS = ("step 0", "step 1", "step 2", "other")


def talking(header: str) -> str:
    """mma.cuh with wrappers that print a lane's fragments of A and B, and those of D after the product."""

    def printing(name: str) -> str:
        words = "".join(f", ((const unsigned*){name})[{i}]" for i in range(REGISTERS[name]))
        return f'printf("{name} %d{" %x" * REGISTERS[name]}\\n", threadIdx.x % 32{words});'

    before = f" if ({FIRST_WARP}) {{ {printing('a')} {printing('b')} }}"
    after = f" if ({FIRST_WARP}) {printing('d')}\n"
    for wrapper in reversed([f for f in read(header).functions if f.name.startswith("mma_")]):
        body = wrapper.body
        header = f"{header[: body.start + 1]}{before}{body.code[1:-1]}{after}{header[body.end - 1 :]}"
    return header.replace("#pragma once", "")


class Listener(Runner):
    """A kernel of a puzzle with printing wrappers."""

    def __init__(self, device, puzzle: Puzzle, kernel: Kernel, source: str):
        self.header = (puzzle.include_dirs[0] / "mma.cuh").read_text(encoding="utf-8")
        self.others = [k.name for k in puzzle.kernels if k is not kernel]
        super().__init__(device, puzzle, next(c for c in puzzle.cases if c.name == CASE), kernel, source)

    def text(self, source: str) -> str:
        file = read(source)
        # the other kernels are not needed, and slow to compile
        edits = [(f.whole, "") for f in file.functions if f.name in self.others]
        for include in file.whole.all("preproc_include"):
            if include.part("path").code == '"mma.cuh"':
                edits.append((include, talking(self.header) + "\n"))
        return edited(source, edits)

    def registers(self) -> dict[str, np.ndarray]:
        """ "a", "b" and "d" -> [lane, register], the bits in the first mma of every lane."""
        found = {name: np.zeros((32, n), np.uint32) for name, n in REGISTERS.items()}
        seen = set()
        for name, lane, *words in map(str.split, self.printed.splitlines()):
            if name in found and (name, lane) not in seen:
                seen.add((name, lane))
                found[name][int(lane)] = [int(word, 16) for word in words]
        return found


def numbered(inputs: Mapping[str, np.ndarray], attempt: int) -> dict[str, np.ndarray]:
    """Distinct whole numbers from 1, exact in TF32 and half, in random order."""
    orders = {name: np.random.default_rng(derive_seed("fragments", name, attempt)) for name in inputs}
    return {n: 1 + orders[n].permutation(a.size).astype(a.dtype).reshape(a.shape) for n, a in inputs.items()}


def owners(puzzle: Puzzle, kernel: Kernel, source: str) -> list[np.ndarray]:
    """For A, B and D: [row, column] -> (lane, register) of the element in the first mma; -1, -1 if no lane
    holds it.

    Errors: CompileError, KernelFault; CourseError if the kernel executes no mma.
    """
    from backwarp.devices import confined_device

    with confined_device("cpu", checks="memory") as device:
        device.quick = True
        listener = Listener(device, puzzle, kernel, source)
        for attempt in range(ATTEMPTS):
            inputs = numbered(listener.inputs, attempt)
            outputs = listener.run(inputs)
            if all(np.unique(output).size == output.size for output in outputs.values()):
                break
    held = listener.registers()
    if not held["a"].any():
        raise CourseError(f"{kernel.name} calls no mma of mma.cuh in its first warp")
    arrays, found = {**inputs, **outputs}, []
    for p, bits, axes in zip(kernel.passed, held.values(), MATRICES[kernel.name], strict=True):
        numbers = np.ascontiguousarray(bits).view(arrays[p.name].dtype).reshape(32, bits.shape[1], -1)
        found.append(places(as_matrix(arrays[p.name], p.letters, axes), numbers))
    return found


def as_matrix(array: np.ndarray, letters: str, axes: Sequence[str]) -> np.ndarray:
    """An array with axes `letters` as a matrix. axes: those of the rows, and those of the columns."""
    rows = int(np.prod([array.shape[letters.index(letter)] for letter in axes[0]]))
    return array.transpose([letters.index(letter) for letter in "".join(axes)]).reshape(rows, -1)


def places(matrix: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """[row, column] -> (lane, register) of an element. numbers: [lane, register, place in the register]."""
    found = np.full((*matrix.shape, 2), -1)
    for lane, register, within in np.ndindex(numbers.shape):
        number = numbers[lane, register, within]
        if number != 0:
            found[matrix == number] = lane, register
    return found


def fragment_picture(puzzle: Puzzle, kernel: Kernel, source: str) -> Figure:
    """The three matrices of an mma; in each cell the lane that holds it, its colour the register."""
    found = owners(puzzle, kernel, source)
    side = min(LARGEST_CELL, (WIDTH - EDGE * (len(found) + 1)) // sum(held.shape[1] for held in found))
    panels = []
    names = ("A", "m", "k"), ("B", "k", "n"), ("C and D", "m", "n")
    for (name, down, across), p, held in zip(names, kernel.passed, found, strict=True):
        cells, texts = blank(*held.shape[:2]), {}
        for row, column in np.argwhere(held[..., 0] >= 0):
            lane, register = held[row, column]
            cells[row, column], texts[row, column] = INKS[register], str(lane)
        heading = [f"{name}, {down} x {across} = {held.shape[0]} x {held.shape[1]}"]
        heading += [f"in {p.name}"] * (p.name not in name)
        axes = {"across": [(0, f"{across}=0")], "down": [(0, f"{down}=0"), (8, "8")][: held.shape[0] // 8]}
        panels.append([Panel(heading, cells, side, texts, rule=(8, 8), **axes)])
    legend = {ink: f"register {i}" for i, ink in enumerate(INKS)}
    note = of_case(CASE, "the number is the lane that holds an element, the colour its register")
    return draw(f"{kernel.name}: the first mma of a warp", note, panels, legend)
