"""Where to look further at a kernel that failed: the command that shows the run; a tiny case as numbers."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..course.declare import Array, Case, Puzzle
from .compare import NUMBERED
from .probes.budget import Spent
from .probes.summed import of_element
from .runs import SMALL, Outcome, Trial, in_order
from .verdict import Verdict


def command(puzzle: Puzzle, source: str, outcomes: Sequence[Outcome], verdict: Verdict) -> str:
    """`backwarp trace 09 --element k=0,c=0,r=0,s=1`, or step; "" for what a record of the run with all checks does not show. Of
    the student's file; see `of_file`."""
    failed = [o for o in outcomes if o.kind]
    shown = next(o for o in failed if (o.case.name, o.kernel.name) == (verdict.case, verdict.kernel))
    if shown.case not in puzzle.cases or shown.kind not in ("fault", "wrong", "unwritten"):
        return ""
    verb, words = "step", []
    if shown is not failed[0] or not _is_found(puzzle, shown.case):
        words = ["--case", verdict.case, "--kernel", verdict.kernel]
    if shown.mismatches:
        first = shown.mismatches[0]
        with suppress(Spent):
            dims, arrays = puzzle.full_dims(shown.case), shown.observation.arrays
            terms = of_element(shown.kernel, dims, arrays, first.array, 0)
            verb = verb if terms is None or puzzle.is_hopper else "trace"
        alone = verb == "trace" and len(shown.kernel.outputs) == 1
        index = first.first.index if alone else f"{first.array}[{first.first.index}]"
        if verb == "trace" or shown.kind == "wrong":
            words += ["--element" if verb == "trace" else "--to", index]
    return shlex.join(["backwarp", verb, puzzle.number, *words])


def of_file(puzzle: Puzzle, path: Path, command: str) -> str:
    """A command for the student's file, for another one."""
    how = ["--solution"] if puzzle.has_solution and path == puzzle.solution_path else ["--file", str(path)]
    first = " ".join(command.split(" ")[:3])
    return command if path == puzzle.stub_path else command.replace(first, f"{first} {shlex.join(how)}", 1)


def _is_found(puzzle: Puzzle, case: Case) -> bool:
    """Whether the first run that fails is looked for in a case: see recorded."""

    def nbytes(other: Case) -> int:
        dims, arrays = puzzle.full_dims(other), (a for k in puzzle.kernels_of(other) for a in k.arrays)
        return sum(math.prod(a.shape(dims)) * np.dtype(a.dtype).itemsize for a in arrays)

    cases = in_order(puzzle)
    return all(nbytes(other) <= SMALL for other in cases[: cases.index(case)])


def numbers(trials: Iterable[Trial]) -> list[dict[str, Any]]:
    """Of each kernel whose arrays are tiny: "kernel"; "arrays": its inputs, and its outputs with "expected" and "right" in the
    place of each element. values: None if the kernel did not end."""
    found = []
    for trial in trials:
        kernel, seen = trial.outcome.kernel, trial.outcome.observation
        if not trial.launch or sum(math.prod(a.shape(trial.dims)) for a in kernel.arrays) > NUMBERED:
            continue
        arrays = [_listed(a, trial.arrays[a.name]) for a in kernel.arrays if a.is_input]
        for target in trial.targets:
            got = seen.results[target.array.name] if seen else None
            right = {"expected": target.values.ravel().tolist()}
            right |= {} if got is None else {"right": target.right(got).ravel().tolist()}
            shape = {"shape": [*target.values.shape]}
            arrays.append(_listed(target.array, got) | shape | right)
        found.append({"kernel": kernel.name, "arrays": arrays})
    return found


def _listed(array: Array, values: np.ndarray | None) -> dict[str, Any]:
    about = {"name": array.name, "axes": array.letters, "values": None}
    return about if values is None else about | {"shape": [*values.shape], "values": values.ravel().tolist()}
