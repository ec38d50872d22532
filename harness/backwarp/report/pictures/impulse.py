"""Pictures of an impulse: one input element is 1, all others are 0, and the output shows where it goes.

If the weights are numbered, each output shows the number of the tap that lay on the element.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from backwarp.course.declare import Case, Kernel, Puzzle, require
from backwarp.course.inputs import make_inputs
from backwarp.grading.compare import axis_index

from .canvas import COLOURS, FAINT, LEFT, LETTER, READABLE, Pen, arrange, draw_array, of_case
from .probe import Runner

TOP = 75  # above the first array, in pixels
PARAMETERS = (
    ("stride", "stride", 1),
    ("pad", "padding", 0),
    ("dilation", "dilation", 1),
    ("out_pad", "output_padding", 0),
)


def draw_impulse(puzzle: Puzzle, case: Case, kernel: Kernel, source: str) -> Figure:
    """The arrays of a kernel, with the one input element that is 1 and the outputs that it reaches.

    Raises CourseError if the kernel's first input has other elements that are not 0.
    """
    from backwarp.devices import confined_device

    inputs = make_inputs(puzzle, case, kernel)
    array, output = kernel.arrays[0], kernel.outputs[0]
    ones = np.flatnonzero(inputs[array.name])
    require(len(ones) == 1, f"case {case.name}: {len(ones)} elements of {array.name} are not 0; one must be")
    with confined_device("cpu", checks="memory") as device:
        device.quick = True
        runner = Runner(device, puzzle, case, kernel, source)
        plain = runner.run(inputs)
        spoilt = inputs[array.name].copy()
        spoilt.flat[ones] = np.nan
        reached = np.flatnonzero(np.isnan(runner.run({**inputs, array.name: spoilt})[output.name]))
    kinds = {(array.name, int(ones[0])): "write", **{(output.name, int(i)): "read" for i in reached}}
    return impulse_picture(puzzle, case, kernel, kinds, {**inputs, **plain})


def one_pixel(puzzle: Puzzle, source: str) -> Figure:
    """The impulse of a puzzle's first kernel in its case `one_pixel`."""
    return draw_impulse(
        puzzle, next(c for c in puzzle.cases if c.name == "one_pixel"), puzzle.kernels[0], source
    )


def impulse_picture(
    puzzle: Puzzle, case: Case, kernel: Kernel, kinds: Mapping, values: Mapping[str, np.ndarray]
) -> Figure:
    """kinds: (array, flat index) -> "write" for the element, "read" for what it reaches."""
    dims = puzzle.full_dims(case)
    shown = [p for p in kernel.arrays if len(p.axes) > 1]
    shapes = {p.name: p.shape(dims) for p in shown}
    cell, places, bottom = arrange(kernel, shapes, TOP)
    if cell < READABLE:
        cell, places, bottom = arrange(kernel, shapes, TOP, READABLE + 6, stacked=True)
    pen = Pen(bottom + 50, cell)
    (name, flat), *_ = (key for key, kind in kinds.items() if kind == "write")
    letters = next(p.letters for p in shown if p.name == name)
    index = axis_index(letters, np.unravel_index(flat, shapes[name]))
    pen.text(LEFT, 24, f"{kernel.name}: where {name}[{index}] goes", "title")
    pen.text(LEFT, 50, of_case(case.name, parameters(dims), ": "), "label", FAINT)
    for p in shown:
        draw_array(pen, kernel, p, shapes[p.name], places[p.name], kinds, values.get(p.name))
    x = float(LEFT)
    for kind, says in (("write", "1; all other inputs are 0"), ("read", "an output that changes with it")):
        pen.cell(x, bottom + 17, COLOURS[kind], side=16)
        pen.text(x + 22, bottom + 25, says, "label")
        x += 22 + LETTER * len(says) + 14
    return pen.figure


def parameters(dims: Mapping[str, int]) -> str:
    """`stride 2, 1; padding 1, 1`, rows before columns, and `groups 2`: everything that differs from the
    default."""
    said = []
    for ours, name, usual in PARAMETERS:
        pair = dims.get(f"{ours}_h", usual), dims.get(f"{ours}_w", usual)
        if pair != (usual, usual):
            said.append(f"{name} {pair[0]}, {pair[1]}")
    if dims.get("groups", 1) > 1:
        said.append(f"groups {dims['groups']}")
    return "; ".join(said)
