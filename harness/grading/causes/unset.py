"""Why an element has no value when it is read, or none at the end, according to the kernel's text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...course.array_names import name_in_file
from ...course.declare import Kernel, Launch
from ...cuda.accesses import access_at
from ...cuda.text import read
from ...cuda.tree import LOOPS
from ...devices.launching import triple
from ...errors import KernelFault
from ..compare import untouched
from ..sentences import nth_line

if TYPE_CHECKING:
    from .naming import Observation


def read_unset(found: KernelFault, kernel: Kernel, source: str) -> list[str]:
    """An output that is read or added to before anything is stored in it."""
    if found.kind != "uninitialised-read" or not found.array:
        return []
    file = read(source)
    if any(p.name == found.array and p.role == "out" for p in kernel.arrays):
        access = access_at(file, found.line, name_in_file(found.array, kernel, source))
        if access and access.is_updated:
            return [
                f"{found.array} comes without values: store the result with =, or add up in a variable that begins at 0."
            ]
        if re.search(r"\batomic\w+\s*\(", nth_line(source, found.line)):
            return [
                f"{found.array} comes without values, and an atomic changes what is there: let one thread store the result with =."
            ]
        return [
            f"{found.array} comes without values: a kernel can read only what it has stored there before."
        ]
    return []


def too_few_threads(seen: Observation, launch: Launch) -> list[str]:
    """Only the first elements have a value, as many as there are threads."""
    threads = prod(triple(launch.block, "block")) * prod(triple(launch.grid, "grid"))
    for target in seen.targets:
        name = target.array.name
        left = untouched(target, seen.results[name], seen.before[name], seen.written.get(name)).ravel()
        if left[threads:].any() and left[threads:].all() and not left[:threads].any():
            return [
                f"The launch has {threads} threads, and {name} has {left.size} elements: one each is too few. A thread "
                "stores several."
            ]
    return []


def left_in_a_loop(kernel: Kernel, source: str) -> list[str]:
    """A `return` inside a loop, which leaves the kernel before its store."""
    file = read(source)
    own, outputs = file.function(kernel.name), {name_in_file(p.name, kernel, source) for p in kernel.outputs}
    if own is None:
        return []
    stores = [a for a in own.body.all("assignment_expression") if a.part("left").indexed.code in outputs]
    for leave in own.body.all("return_statement"):
        loops = [loop for loop in file.around(leave.start, *LOOPS) if loop.start > own.start]
        after = [store for store in stores if loops and store.start > loops[-1].end]
        if after:
            return [
                f"The return in line {leave.line} leaves the kernel from inside a loop, before the store in line "
                f"{after[0].line}; to skip one iteration of the loop, write continue."
            ]
    return []


def zeros_left_out(seen: Sequence[Observation]) -> list[str]:
    """Whether all elements that were never written should be 0 and most others should not."""
    name, nan = "", False
    for o, target in ((o, t) for o in seen for t in o.targets):
        got = o.results[target.array.name]
        left = untouched(target, got, o.before[target.array.name], o.written.get(target.array.name))
        if target.array.is_input or np.nan_to_num(target.values[left]).any():
            return []
        if left.any() and 2 * np.count_nonzero(target.values[~left]) > np.count_nonzero(~left):
            name = target.array.name
        nan |= bool(np.isnan(target.values[left]).any())
    says = f"Every element of {name} that was never written should be 0{' or nan' * nan}: that has to be stored, too."
    return [says] * bool(name)


def written_twice(found: KernelFault) -> str:
    """While other elements are never written, two threads write the same one."""
    who, _, rest = found.explanation.partition(" both write ")
    element = re.split("; |, the same value", rest)[0]
    return f"{who} both write {element} (line {found.line}): do they compute their places as they should?"
