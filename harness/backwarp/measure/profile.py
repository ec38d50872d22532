"""Counts a puzzle's kernels: file -> compile -> launch with counters -> Profile; no printing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..course.checkout import seed_of
from ..course.declare import Case, Kernel, Puzzle
from ..cuda.values import Tunables, tunables
from ..devices.nvrtc import ptxas
from ..devices.virtual.explain import metrics
from ..errors import CourseError
from ..grading.gates import Measure, chosen_case, count, gates_of, names, weigh
from ..grading.grade import Stop, checked_source, conclude, end, prepare, shown_path
from ..grading.runs import Outcome, Pace, Setup, in_order, try_kernel
from ..grading.verdict import Verdict

LONGEST = 3.0  # seconds of a launch of a small case


@dataclass
class KernelProfile:
    """One kernel in one case. counters: see devices/virtual/explain/metrics.py; the last two: from ptxas, or
    None."""

    kernel: str
    case: str
    dims: dict[str, int]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    counters: dict
    resources: ptxas.Resources | None = None
    occupancy: ptxas.Occupancy | None = None


@dataclass
class Profile:
    """verdict: on the cases that were run; wrong results are counted all the same. endless: kernels that were stopped, and are
    not counted."""

    verdict: Verdict
    source: str = ""
    kernels: list[KernelProfile] = field(default_factory=list)
    targets: list[Measure] = field(default_factory=list)  # from the gates that apply to these cases
    endless: tuple[str, ...] = ()
    no_resources: str = ""  # why registers and occupancy are not known, for "Registers and occupancy ..."


def profile_file(puzzle: Puzzle, path: Path, case: str = "", opener=None) -> Profile:
    """Count the kernels of a file, each in the requested case, else in its gates' case, else in its largest.

    opener: replaces devices.confined_device. Errors: CourseError for an unknown case; DeviceError.
    """
    if opener is None:
        from ..devices import confined_device as opener
    if puzzle.program:
        raise CourseError(
            f"{puzzle.id} has no kernels to count; `backwarp train` and `backwarp picture 44` show times"
        )
    verdict = Verdict(puzzle=puzzle.id, title=puzzle.title, file=shown_path(puzzle, path))
    verdict.next = f"backwarp hint {puzzle.number}"
    try:
        source = checked_source(puzzle, path, verdict)
        seed = verdict.seed = seed_of(source)
        puzzle = puzzle.drawn(seed)
        todo = [(chosen_case(puzzle, k, case or gated_case(puzzle, k)), k) for k in puzzle.kernels]
        todo = [(c, kernel) for c, kernel in todo if c]
        with opener("cpu", checks="count", seed=seed) as device:
            device.quick = True
            verdict.device, verdict.device_kind, verdict.device_reason = (
                device.name,
                device.kind,
                device.reason,
            )
            setup = Setup(device, (2 * seed + 1,))
            prepare(setup, puzzle, source, path.name)
            t = tunables(source)
            stopped = _endless(puzzle, todo, setup, t, seed)
            endless = tuple(o.kernel.name for o in stopped)
            outcomes = count(puzzle, [(c, k) for c, k in todo if k.name not in endless], setup, t, seed)
            endless += tuple(o.kernel.name for o in outcomes if o.timed_out)
            verdict = conclude(puzzle, source, stopped + outcomes, [], verdict)
            kernels, missing = _kernels(puzzle, setup, outcomes, t)
            return Profile(verdict, source, kernels, _targets(puzzle, outcomes, t), endless, missing)
    except Stop as stop:
        return Profile(end(verdict, stop))


def _endless(puzzle: Puzzle, todo: list[tuple[Case, Kernel]], setup: Setup, t: Tunables, seed: int):
    """The outcomes of the kernels that do not end in their smallest case either."""
    smallest = [(next(c for c in in_order(puzzle) if k in puzzle.kernels_of(c)), k) for _, k in todo]
    tried = [try_kernel(puzzle, c, k, setup, t, seed, Pace(longest=LONGEST)) for c, k in smallest]
    return [outcome for outcome in tried if outcome.timed_out]


def gated_case(puzzle: Puzzle, kernel: Kernel) -> str:
    """The name of the case of a kernel's first gate, or ""."""
    return next((gate.case for gate in puzzle.gates if kernel.name in names(gate, puzzle)), "")


def _targets(puzzle: Puzzle, outcomes: list[Outcome], t: Tunables) -> list[Measure]:
    """The gates of the puzzle whose kernels were counted in their cases."""
    counted = {(o.case.name, o.kernel.name): o.counters for o in outcomes if o.counters}
    found = []
    for gate in gates_of(puzzle):
        pairs = [(chosen_case(puzzle, puzzle.kernel(name), gate.case), name) for name in names(gate, puzzle)]
        launches = [counted.get((case.name, name)) for case, name in pairs]
        if all(launches):
            found.append(weigh(gate, puzzle, pairs[0][0], t, metrics.add(*launches)))
    return found


def _kernels(puzzle: Puzzle, setup: Setup, outcomes: list[Outcome], t) -> tuple[list[KernelProfile], str]:
    arch = ptxas.target(setup.module.compiled.text)
    needs, problem = ptxas.resources(setup.module.compiled.text, arch)
    found = []
    for outcome in outcomes:
        if not outcome.counters:
            continue
        launch = outcome.kernel.launch(puzzle.full_dims(outcome.case), t)
        grid, block = (tuple(x) if isinstance(x, tuple | list) else (x,) for x in (launch.grid, launch.block))
        profile = KernelProfile(
            outcome.kernel.name, outcome.case.name, outcome.case.dims, grid, block, outcome.counters
        )
        if profile_needs := needs.get(setup.module.compiled.names.get(outcome.kernel.name, "")):
            threads = 1
            for n in block:
                threads *= n
            profile.resources = profile_needs
            profile.occupancy = ptxas.occupancy(profile_needs, threads, launch.shared_mem, arch)
        found.append(profile)
    return found, problem


def document(profile: Profile) -> dict:
    """For `--json`: counters under our names, and the totals again under those of Nsight Compute."""
    kernels = []
    for k in profile.kernels:
        entry = {
            "kernel": k.kernel,
            "case": k.case,
            "dims": k.dims,
            "grid": k.grid,
            "block": k.block,
            "sectors_per_load_request": metrics.sectors_per_request(k.counters),
            "sectors_per_store_request": metrics.sectors_per_request(k.counters, "store"),
            "shared_conflicts": metrics.shared_conflicts(k.counters),
            "arithmetic_intensity": metrics.arithmetic_intensity(k.counters),
            "branch_efficiency": metrics.branch_efficiency(k.counters),
            "counters": k.counters,
            "nsight_compute": {m.ncu: k.counters[name] for name, m in metrics.METRICS.items() if m.ncu},
            "resources": asdict(k.resources) if k.resources else None,
            "occupancy": asdict(k.occupancy) | {"share": k.occupancy.share} if k.occupancy else None,
        }
        kernels.append(entry)
    v = profile.verdict
    return {
        "format": 1,
        "puzzle": v.puzzle,
        "file": v.file,
        "status": v.status,
        "kind": v.kind,
        "lines": v.lines,
        "kernels": kernels,
    }
