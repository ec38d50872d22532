"""The layouts of images and filters: the order of an array's axes in memory.

A layout is named by its letters, outermost axis first; elements along the last axis are neighbours.

    NCHW, NHWC          batch, channels, height, width
    KCRS, KRSC, RSCK    filters (output channels), channels, filter height, filter width

RSCK is also known as RSCF or HWIO, with F or O for the output channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def convert(array: ArrayLike, source: str, target: str) -> NDArray:
    """The array, whose axes are those of `source`, with the axes in the order of `target`; in new memory.

    convert(x, "NCHW", "NHWC")[n, h, w, c] = x[n, c, h, w]

    Any letters may be used, in upper or lower case. The dtype is kept. Raises ValueError if the layouts
    differ in their letters, or do not have as many as the array has axes.
    """
    array = np.asarray(array)
    source, target = _letters(source), _letters(target)
    if sorted(source) != sorted(target):
        raise ValueError(f"{source} and {target} have different axes; a layout only changes their order")
    if array.ndim != len(source):
        raise ValueError(f"the array has {array.ndim} axes, shape {array.shape}; {source} has {len(source)}")
    return array.transpose([source.index(axis) for axis in target]).copy()


def steps(layout: str, sizes: Sequence[int]) -> dict[str, int]:
    """The distance in elements from one element to the next along each axis: {axis: step}.

    sizes: in the order of `layout`. steps("NCHW", (2, 3, 5, 7)) is {"N": 105, "C": 35, "H": 7, "W": 1}.
    """
    layout = _letters(layout)
    if len(sizes) != len(layout):
        raise ValueError(f"{layout} needs {len(layout)} sizes, not {len(sizes)}: {tuple(sizes)}")
    return {axis: int(np.prod(sizes[i + 1 :], dtype=int)) for i, axis in enumerate(layout)}


def _letters(layout: str) -> str:
    layout = layout.upper()
    if len(set(layout)) != len(layout):
        raise ValueError(f"{layout} names an axis twice; every axis has a letter of its own")
    return layout
