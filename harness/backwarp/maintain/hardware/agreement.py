"""Compares what a GPU counted and computed with what the virtual GPU does for the same launch."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import numpy as np

from ...course.checkout import seed_of
from ...course.declare import Puzzle
from ...cuda.values import tunables
from ...devices import open_device
from ...devices.virtual.explain.metrics import METRICS
from ...grading.grade import prepare
from ...grading.runs import Outcome, Pace, Setup, Trial, run_once
from .launcher import summary
from .work import text_of


class Patient(Pace):
    """A pace with long limits, since counting is slow."""

    def limit(self, nbytes: int) -> float:
        return 60.0


def compared(puzzle: Puzzle, launches: list[dict]) -> Iterator[dict]:
    """For each launch {"kernel", "case", "counters": {name: (ours, the GPU's)}, "bits", "ulp"}.

    bits: whether all outputs agree to the last bit; ulp: the largest difference among the stored elements, in
    units in the last place.
    """
    source = text_of(puzzle)
    seed = seed_of(source)
    drawn = puzzle.drawn(seed)
    for launch in launches:
        if "error" in launch:
            yield launch
            continue
        kernel = drawn.kernel(launch["kernel"])
        case = next(c for c in drawn.cases if c.name == launch["case"])
        trials = {}
        for checks in ("count", "memory"):
            with open_device("cpu", checks=checks, seed=seed) as device:
                device.quick = True
                setup = Setup(device, (0,))
                prepare(setup, drawn, source, puzzle.file)
                trial = trials[checks] = Trial(Outcome(case, kernel), Patient())
                trial.begin(drawn, tunables(source), seed)
                trial.runs.append(run_once(trial, setup, 0))
        ours, results = trials["count"].outcome.counters, trials["memory"].runs[0].results
        counters = {
            name: (ours[name], sum(found))
            for name, metric in METRICS.items()
            if metric.ncu
            and None not in (found := [launch["ncu"].get(part) for part in metric.ncu.split(" + ")])
        }
        outputs = [summary(results[p.name]) for p in kernel.params if p.name in results]
        yield {
            "kernel": kernel.name,
            "case": case.name,
            "counters": counters,
            "bits": [o["sha256"] for o in outputs] == [o["sha256"] for o in launch["outputs"]],
            "ulp": max(map(apart, outputs, launch["outputs"]), default=0),
        }


def apart(a: dict, b: dict) -> int:
    """The largest distance between two outputs' elements, counted in representable numbers."""
    dtype = np.dtype(a["dtype"])
    x, y = (
        np.frombuffer(base64.b64decode(o["first"]), f"i{dtype.itemsize}").astype(np.int64) for o in (a, b)
    )
    if dtype.kind == "f":
        lowest = -(1 << 8 * dtype.itemsize - 1)
        x, y = (np.where(v < 0, lowest - v, v) for v in (x, y))
    return int(np.abs(x - y).max(initial=0))
