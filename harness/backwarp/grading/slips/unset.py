"""Why an element has no value when it is read, or none at the end, according to the kernel's text."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from ...course.array_names import name_in_file
from ...course.declare import Kernel, Launch
from ...cuda.accesses import access_at
from ...cuda.text import read
from ...cuda.tree import LOOPS
from ...devices.launching import triple
from ...devices.virtual.explain.wording import threads_of
from ...errors import KernelFault
from ..compare import untouched
from ..findings import Finding
from ..sentences import nth_line

if TYPE_CHECKING:
    from ..results.naming import Observation


def read_unset(fault: KernelFault, kernel: Kernel, source: str) -> list[Finding]:
    """An output that is read or added to before anything is stored in it."""
    if fault.kind != "uninitialised-read" or not fault.array:
        return []
    if not any(p.name == fault.array and p.role == "out" for p in kernel.arrays):
        return []
    access = access_at(read(source), fault.line, name_in_file(fault.array, kernel, source))
    if access and access.is_updated:
        return [Finding.of("output_updated", array=fault.array)]
    atomic = re.search(r"\batomic\w+\s*\(", nth_line(source, fault.line))
    return [Finding.of("output_in_an_atomic" if atomic else "output_read", array=fault.array)]


def too_few_threads(seen: Observation, launch: Launch) -> list[Finding]:
    """Only the first elements have a value, as many as there are threads."""
    threads = prod(triple(launch.block, "block")) * prod(triple(launch.grid, "grid"))
    for target in seen.targets:
        name = target.array.name
        left = untouched(target, seen.results[name], seen.before[name], seen.written.get(name)).ravel()
        if left[threads:].any() and left[threads:].all() and not left[:threads].any():
            return [Finding.of("one_each", threads=threads, array=name, elements=left.size)]
    return []


def left_in_a_loop(kernel: Kernel, source: str) -> list[Finding]:
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
            return [Finding.of("left_in_a_loop", leave.line, after[0].line)]
    return []


def written_twice(fault: KernelFault) -> list[Finding]:
    """While other elements are never written, two threads write the same one."""
    both = threads_of(fault.other, fault)
    return [Finding.of("written_twice", fault.line, who=both, element=fault.element or "the same address")]
