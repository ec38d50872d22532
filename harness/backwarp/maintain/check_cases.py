"""What the stub and the cases of a puzzle must have, so that students know what to do and wrong kernels fail."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ..course.declare import Kernel, Puzzle
from ..course.inputs import make_inputs
from ..course.stubs import solution_lines, stub_text
from ..cuda.values import tunables
from ..grading import gates
from ..grading.compare import expectations
from ..grading.derived import whole
from ..grading.runs import in_order

#: axes that cannot be long: sides of square filters, and what has to fit in shared or constant memory
SMALL = {"F", "24 C_in", "24 C_out", "33 R", "33 S", "33 W", "33 C_group"}


#: axes that stay the same where gates are counted again: the sums of a thread are those of the largest filter
SAME = {"22": {"F"}}


def tasks(puzzle: Puzzle) -> Iterator[str]:
    """The stub's length, its TODOs and its text."""
    if puzzle.program:
        return
    stub = stub_text(puzzle)
    given = puzzle.repair or "the tiles are filled for you" in stub
    part_6 = 33 * len(puzzle.kernels) if puzzle.part == 6 else 0
    longest = max(75 if given or part_6 else 40, 10 + 24 * len(puzzle.kernels), part_6)
    if not 15 <= (count := len(stub.splitlines())) <= longest:
        yield f"the stub has {count} lines, not 15 to {longest}"
    written = len(solution_lines(puzzle))
    if not 0.8 <= puzzle.lines / max(written, 1) <= 1.25:
        yield f"`lines` is {puzzle.lines}, but the solution adds {written}"
    numbers = [int(n) for n in re.findall(r"// TODO\((\d+)\):", stub)]
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        yield "the stub needs `// TODO(1):`, `// TODO(2):` and so on"
    says = (
        f"You will write about {puzzle.lines} lines",
        *(f"backwarp {v} {puzzle.number}" for v in ("grade", "hint")),
    )
    said = re.sub(r"\n//\s*", " ", stub)  # a sentence may go on in the next line
    yield from (f"the stub does not say: {text}" for text in says if text not in said)
    for kernel in puzzle.kernels:
        if f"__global__ void {kernel.signature}" not in re.sub(
            r"__(?:launch_bounds|cluster_dims)__\([^()]*\) |__restrict__ ", "", flat(stub)
        ):
            yield f"the stub does not declare __global__ void {kernel.signature}"


def flat(text: str) -> str:
    """Text on one line, without comments, so that a signature is found however it is wrapped."""
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", text)).replace("( ", "(")


def cases(puzzle: Puzzle) -> Iterator[str]:
    yield from drawn(puzzle)
    yield from counted(puzzle)
    if puzzle.kernels:
        for check in (coverage, large, spread):
            yield from check(puzzle)


def coverage(puzzle: Puzzle) -> Iterator[str]:
    """A case for each thing that a kernel can get wrong."""
    cases = [puzzle.full_dims(case) for case in puzzle.cases]
    cases = [{name: d.get(name, 0) for name in {*d, *cases[0]}} for d in cases]  # some lack some sizes
    has = cases[0].keys()
    wanted = {
        "whose `inputs` are given: the first one, done by hand in the lesson": bool(puzzle.cases[0].inputs),
        'with values="integers", whose sums are exact': any(c.values == "integers" for c in puzzle.cases),
    }
    if puzzle.gradient_of:
        wanted['with check="gradient"'] = any(c.check == "gradient" for c in puzzle.cases)
    if "batch" in has:
        wanted["with a batch of more than 1"] = any(d["batch"] > 1 for d in cases)
    if {"H", "W"} <= has:
        wanted["with H > W"], wanted["with H < W"] = (
            any(s * (d["H"] - d["W"]) > 0 for d in cases) for s in (1, -1)
        )
    if {"H_out", "W_out"} <= has:
        wanted["with an output of 1 x 1"] = any(
            d["H_out"] == d["W_out"] == 1 or d.get("H_pool") == d.get("W_pool") == 1 for d in cases
        )
    if {"C_in", "C_out"} <= has:
        wanted["with one channel and several images"] = any(d["C_in"] == 1 and d["batch"] > 1 for d in cases)
        wanted["with C_in unlike C_out"] = any(d["C_in"] != d["C_out"] > 1 for d in cases)
    yield from (f"there is no case {what}" for what, there in wanted.items() if not there)


def drawn(puzzle: Puzzle) -> Iterator[str]:
    """There are cases whose sizes no file can know in advance."""
    draws = [c for c in puzzle.cases if c.draw]
    for case in draws:
        if len({tuple(case.drawn(seed).dims.items()) for seed in range(12)}) < 4:
            yield f"case {case.name} draws nearly the same sizes for every seed"
    named = {k.name for c in draws for k in puzzle.kernels_of(c)}
    if not draws:
        yield "there is no case that draws its sizes: Case(..., draw=lambda pick: dict(n=pick(300, 3000)))"
        return
    yield from (
        f"there is no case that draws sizes for {k.name}" for k in puzzle.kernels if k.name not in named
    )


def counted(puzzle: Puzzle) -> Iterator[str]:
    """Where there are limits, a file is counted with two sizes of every axis: one that is fast only at the sizes of a case is
    not fast."""
    for name in dict.fromkeys(gate.case for gate in puzzle.gates):
        case = next(c for c in puzzle.cases if c.name == name)
        if case.again is None:
            yield f"the gates of {name} are counted with its sizes alone: Case(..., again=lambda pick: dict(n=pick(300, 3000)))"
            continue
        gated = {k for gate in puzzle.gates if gate.case == name for k in gates.names(gate, puzzle)}
        axes = {size for k in gated for a in puzzle.kernel(k).arrays for _, size in a.apart.axes}
        others = [case.counted_again(seed).dims for seed in range(12)]
        for axis in axes & case.dims.keys() - SAME.get(puzzle.number, set()):
            if any(dims[axis] == case.dims[axis] for dims in others):
                yield f"the gates of {name} are counted again with the same {axis}"


def large(puzzle: Puzzle) -> Iterator[str]:
    """Every axis has a case that is long enough to catch a kernel that keeps an index in a `short`, unless the kernel says
    that this takes too long."""
    for kernel in puzzle.kernels:
        cases = sizes(puzzle, kernel)
        axes = {name for a in kernel.arrays for _, name in a.axes if isinstance(name, str)} - {*kernel.short}
        for name in sorted(axes):
            if max(d[name] for d in cases) < 1 << 15 and not {name, f"{puzzle.number} {name}"} & SMALL:
                yield f"in no case of {kernel.name} is {name} larger than 32,767: an index in a short would pass"


def spread(puzzle: Puzzle) -> Iterator[str]:
    """There are several blocks in every grid dimension, to catch a kernel that leaves out a blockIdx."""
    t = tunables(puzzle.solution_path.read_text(encoding="utf-8"))
    for kernel in puzzle.kernels:
        grids = [kernel.launch(dict(d), t).grid for d in sizes(puzzle, kernel)]
        most = [max(axis) for axis in zip(*(g if isinstance(g, tuple) else (g,) for g in grids))]
        if min(most) < 2 and kernel.name != "mean_loss":
            yield f"{kernel.name} has one block in some direction of the grid, in every case"


def references(puzzle: Puzzle) -> Iterator[str]:
    """References give finite numbers in every case, and no value exceeds the bound that its tolerance is
    derived from."""
    for case in in_order(puzzle):
        for kernel in puzzle.kernels_of(case):
            for target in expectations(puzzle, case, kernel, make_inputs(puzzle, case, kernel)):
                what = f"{target.array.name} of {kernel.name} in case {case.name}"
                finite = np.isfinite(target.values)
                if not (finite.all() or case.special) or not np.isfinite(target.tolerance).all():
                    yield f"the reference gives NaN or infinity in {what}; mark a case about these `special=True`"
                elif (np.abs(target.values) * (1 - 1e-6) > target.magnitude + target.tolerance)[finite].any():
                    yield f"values exceed the reference of |inputs| in {what}: the kernel needs a `magnitude`"


def sizes(puzzle: Puzzle, kernel: Kernel) -> list[dict[str, int]]:
    """The dims of every case of a kernel; for drawn cases, with a few seeds."""
    t = tunables(puzzle.solution_path.read_text(encoding="utf-8"))
    drawn = [whole(puzzle, 0, t), *(puzzle.drawn(seed) for seed in range(1, 8))]
    return [
        p.full_dims(c)
        for p in drawn
        for c in p.cases
        if kernel in p.kernels_of(c) and (c.draw or p is drawn[0])
    ]
