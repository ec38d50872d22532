"""Random idioms of synchronisation: a launch finds the races that any order of their accesses has, and no others.

`python -m tests.soak.idioms --seconds S` tries programs for so long and prints how many of the racy ones are found in
the orders of one launch, and each false alarm; ends with status 1 where there is one, or where fewer are found than FOUND.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from unittest import mock

import click
import numpy as np

from backwarp.devices.nvrtc import compiler as nvrtc
from backwarp.devices.virtual import device
from backwarp.devices.virtual.compile import build
from backwarp.devices.virtual.explain import faults
from backwarp.devices.virtual.runtime import abi
from tests.devices.virtual.runtime.race_idioms import idiom
from tests.devices.virtual.runtime.race_statements import HEAD, WORDS, Hangs, Idiom, races

FOUND = 0.99  # of racy launches
BATCH = 40  # programs in a file
SEEDS = 2  # launches of each


class Bench:
    """A device with full checks, as for grading. found: (idiom, whether it races) -> launches that report a race, and all."""

    def __init__(self):
        self.device = device.VirtualGPU("full")
        self.device.quick, self.device.agree, self.device.time_limit = True, False, 3.0
        self.memory = self.device.array(np.zeros(WORDS, np.int32), name="m")
        self.found: dict[tuple[str, bool], Counter] = {}
        self.missed: list[Idiom] = []
        self.wrong: list[str] = []
        self.hanging = 0

    def attempt(self, seeds: range, launches: int = SEEDS) -> None:
        """Try the idioms of some seeds."""
        racy = {}
        for one in (idiom(f"i{seed}", seed) for seed in seeds):
            try:
                racy[one] = races(one)
            except Hangs:
                self.hanging += 1
        module = self.device.compile(HEAD + "\n".join(one.source() for one in racy))
        module.quick = False  # it is not worth optimising
        for one, expected in racy.items():
            kernel = module.get_function(one.name)
            for self.device.schedule in range(launches):
                self.judge(one, expected, self.kinds(kernel, one))

    def kinds(self, kernel, one: Idiom) -> set[str]:
        """The kinds of all faults, in all orders."""
        kinds = set()

        class Records:
            """In place of a Diagnosis, which would end the launch and explain."""

            def __init__(self, run):
                pass

            def faults(self, records: np.ndarray):
                kinds.update(abi.FAULTS[kind] for kind in records["kind"])
                return [], []

        self.memory.set(0)
        with mock.patch.object(faults, "Diagnosis", Records):
            kernel(one.blocks, one.size, (self.memory,))
        return kinds

    def judge(self, one: Idiom, expected: bool, kinds: set[str]) -> None:
        found = bool(kinds & {"race", "warp-race"})
        counts = self.found.setdefault((one.name.partition("_")[2], expected), Counter())
        counts["found"] += found
        counts["launches"] += 1
        if expected and not found:
            self.missed.append(one)
        if other := kinds - {"race", "warp-race"} or kinds and not expected:
            self.wrong.append(f"{other or kinds}, schedule {self.device.schedule}:\n{one.source()}\n")

    def sums(self, racy: bool) -> tuple[int, int]:
        """Of all idioms: launches that report a race, and all."""
        counts = [c for (_, expected), c in self.found.items() if expected == racy]
        return sum(c["found"] for c in counts), sum(c["launches"] for c in counts)


@click.command()
@click.option("--seconds", default=300.0, help="How long.")
@click.option("--seed", default=0, help="Of the first program.")
@click.option("--launches", default=SEEDS, help="Of each program.")
@click.option("--show", default=3, help="So many of those missed.")
def main(seconds: float, seed: int, launches: int, show: int) -> None:
    """Compare what launches find with what all interleavings have."""
    build._store.put = nvrtc._store.put = lambda key, body: None  # such programs are not worth keeping
    build.SECONDS = 60  # a file has many of them
    bench, end = Bench(), time.monotonic() + seconds
    while time.monotonic() < end:
        bench.attempt(range(seed, seed := seed + BATCH), launches)
    click.echo("\n".join(bench.wrong))
    for one in bench.missed[:show]:
        click.echo(f"missed:\n{one.source()}\n")
    for name, expected in sorted(bench.found):
        if expected:
            counts = bench.found[name, True]
            click.echo(f"{name:20} {counts['found']:6} of {counts['launches']}")
    (found, racy), (_, free) = bench.sums(True), bench.sums(False)
    click.echo(
        f"{found} of {racy} launches of racy programs found, {len(bench.wrong)} of {free} others accused; "
        f"{bench.hanging} programs may hang and were not run"
    )
    sys.exit(bool(bench.wrong) or found < FOUND * racy)


if __name__ == "__main__":
    main()
