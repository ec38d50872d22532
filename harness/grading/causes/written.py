"""Which elements of a shared-memory tile had been written before one was read that had not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

import numpy as np

from ...course.cuda_pieces import Piece
from ...course.cuda_text import CudaText, read
from ...course.declare import Puzzle
from ...devices.virtual.run.trace import Steps
from ...errors import KernelFault
from ..race_timeline import linear, recorded
from ..runs import Outcome, Setup
from .summed import MOST_STEPS

ORDINALS = "first", "second", "third", "fourth"


def of_trial(puzzle: Puzzle, source: str, failed: Outcome, setup: Setup, seed: int) -> list[str]:
    """What to say about the fault in an outcome, which is reproduced with all accesses recorded."""
    fault = failed.error
    if fault.kind != "uninitialised-read" or "__shared__" not in fault.headline or failed.case.stress:
        return []
    _, shape, steps = recorded(puzzle, source, failed, setup, seed, MOST_STEPS)
    return told(fault, source, steps, *shape) if steps and len(steps.rows) < MOST_STEPS else []


def told(
    fault: KernelFault, source: str, steps: Steps, grid: Sequence[int], block: Sequence[int]
) -> list[str]:
    """`By then, line 30 has written only elements from tile[0] to tile[271].`"""
    file, at = read(source), [int(n) for n in re.findall(r"\d+", fault.index)]
    shape = [int(n) for n in re.findall(r"\d+", fault.shape)] or [0]
    size = re.search(r"of size (\d+) bytes", fault.headline)
    uses = [p for p in file.whole.all("identifier") if p.code == fault.array]
    stores = {line for p in uses if (line := stored_in(p))}
    plain = not any(map(handed_on, uses)) and alone(file, fault.array, {*stores, fault.line})
    plain = plain and len(file.subscripts(fault.array, fault.line)) == 1
    if not size or not stores or not plain or len(shape) != len(at) or len(at) > len(ORDINALS):
        return []
    bytes_, flat = int(size[1]), sum(n * prod(shape[i + 1 :]) for i, n in enumerate(at))
    written: dict[int, int] = {}  # the line that wrote it, by address
    for s in steps.in_lines(linear(fault.block, grid), {*stores, fault.line}):
        if s.kind == "write" and s.line in stores:
            written[s.address] = s.line
        elif s.thread == linear(fault.thread, block) and s.line == fault.line and s.address not in written:
            base = s.address - bytes_ * flat
            places = [(a - base) // bytes_ for a in written]
            if all(place >= 0 and (shape == [0] or place < prod(shape)) for place in places):
                return described(fault.array, at, places, shape, sorted(set(written.values())))
            return []
    return []


def stored_in(name: Piece) -> int:
    """The line in which an element of an array is set; 0 if it is not set in this file."""
    access = name
    while access.outer.kind == "subscript_expression" and access.outer.parts[0] == access:
        access = access.outer
    outer = access.outer
    return (
        access.line if outer.kind == "assignment_expression" and outer.part("left") == access != name else 0
    )


def handed_on(name: Piece) -> bool:
    """Whether an array or the address of an element is passed to something that may fill it."""
    access = name
    while access.outer.kind == "subscript_expression" and access.outer.parts[0] == access:
        access = access.outer
    declared = access.outer.kind in ("array_declarator", "init_declarator")
    return access == name and not declared or access.outer.code.startswith("&")


def alone(file: CudaText, array: str, lines: set[int]) -> bool:
    """Whether these lines name no other shared array; with two it would be unknown which one an access is
    to."""
    shared = {v.name for v in file.variables if "__shared__" in v.words}
    pointers = {v.name for v in file.variables if v.pointer and v.value and v.file.function_at(v.line)}
    named = {p.code for p in file.whole.all("identifier") if p.line in lines}
    return not named & (shared | pointers) - {array}


def described(
    array: str, at: Sequence[int], places: Sequence[int], shape: Sequence[int], lines: Sequence[int]
) -> list[str]:
    """at: the element read; places: those written. shape: [0] for one axis of any length."""
    if not places:
        return [f"By then, nothing of {array} has been written."]
    who = (
        f"line {lines[0]} has"
        if len(lines) == 1
        else f"lines {', '.join(map(str, lines[:-1]))} and {lines[-1]} have"
    )
    axes = np.unravel_index(places, shape) if shape != [0] else [np.array(places)]
    ends = [(int(x.min()), int(x.max())) for x in axes]
    outside = [i for i, (first, last) in enumerate(ends) if not first <= at[i] <= last]
    if not outside:
        return []
    if len(at) == 1:
        first, last = (f"{array}[{end}]" for end in ends[0])
        only = first if first == last else f"elements from {first} to {last}"
        return [f"By then, {who} written only {only}."]
    some = [
        f"{ORDINALS[i]} index {ends[i][0]}" + f" to {ends[i][1]}" * (ends[i][1] > ends[i][0]) for i in outside
    ]
    return [f"By then, {who} written only elements of {array} with {' and '.join(some)}."]
