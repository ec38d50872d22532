"""Random kernels under many schedules: the runtime finds the hazards that the oracle finds in the trace, and no others.

`python -m tests.soak.races --seconds S` tries programs for so long, prints what was tried, and every
disagreement with the smallest program that still shows it; ends with status 1 where there is one. Each program also runs without a trace, when accesses take shorter ways: the faults have to be the same.
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
from backwarp.devices.virtual.replay.record import Record
from backwarp.devices.virtual.runtime import abi
from tests.devices.virtual.runtime.race_oracle import (
    FURTHER,
    Access,
    Hazard,
    Steps,
    furthest,
    hazards,
    read_hazards,
    read_same_values,
    same_values,
)
from tests.devices.virtual.runtime.race_programs import BYTES, PROFILES, Program, program, source

SCHEDULES = 16
ROWS = 1 << 21
BATCH = 25  # programs in a file
RACES, HARMLESS = ("race", "warp-race"), ("same-write", "same-value", "exited-early")
ACCESSES = (abi.INFO_WRITE | abi.INFO_ATOMIC) * (1 | 1 << 32)  # of both sides, in Fault.extra


class Endless(Exception):
    """A random program that races may wait for ever: another line has written to the lock it takes."""


class Records:
    """In place of a Diagnosis: the faults as the runtime records them, without an explanation."""

    last: np.ndarray = ()

    def __init__(self, run):
        self.run = run

    def faults(self, records: np.ndarray):
        Records.last = records.copy()
        return [], []


class Bench:
    """A device with full checks, and the memory that all programs work on."""

    observation = True
    # a byte without a race on which the runtime reports one, because it lacks what a thread has observed
    example = ""

    def __init__(self):
        self.device = device.VirtualGPU("full")
        self.device.quick, self.device.several_orders = True, False
        self.device.time_limit = 3.0
        self.memory = self.device.array(np.zeros(BYTES, np.uint8), name="g")
        self.counts, self.files = Counter(), 0
        # what the oracle said of a trace; many schedules give the same
        self.seen: dict[bytes, tuple[set[Hazard], set[tuple]]] = {}

    def compile(self, programs: list[Program]) -> None:
        self.module = self.device.compile(source(programs))
        self.module.quick = False  # it is not worth optimising
        self.files += 1
        if self.files % 2:  # it takes as long as many programs run
            self.module.scout()

    def launch(self, program: Program, schedule: int, rows: int):
        """The record of the launch, and the races: (kind, line, other line, accesses, number of hazards)."""
        self.device.schedule, self.device.keep_rows = schedule, rows
        self.memory.set(0)
        self.program = program
        Records.last = ()
        kernel = self.module.get_function(program.name)
        with mock.patch.object(faults, "Diagnosis", Records):
            done = kernel(program.blocks, program.threads, (self.memory,))
        self.ran = kernel.for_blocks((program.threads, 1, 1)).module  # recorded, lanes, or single threads
        found = []
        for record in Records.last:
            kind = abi.FAULTS[record["kind"]]
            if kind == "timeout":
                raise Endless
            assert kind in RACES + HARMLESS, (
                f"{program.name}, schedule {schedule}: {kind}\n{program.source()}"
            )
            if kind in RACES:
                lines = self.line(record["site"]), self.line(record["other_site"])
                found.append((kind, *lines, hex(record["extra"] & ACCESSES), int(record["count"])))
        found.sort()
        return done.record, found

    def disagreement(self, program: Program, schedule: int) -> str:
        """Where the runtime and the oracle disagree; "" if nowhere."""
        try:
            return self.compared(program, schedule)
        except Endless:
            self.counts["endless"] += 1
            return ""

    def compared(self, program: Program, schedule: int) -> str:
        self.module.recorded.add(program.name)  # its launches have no epochs
        record, faults = self.launch(program, schedule, ROWS)
        kept, rows = self.device.arena.pool.hazards(), record["rows"]
        assert not record["full"]
        if (key := rows.tobytes()) not in self.seen:
            steps = Steps(Record(record)).found
            racy = furthest(hazards(steps, self.observation))
            self.seen[key] = racy, same_values(steps, self.observation, racy)
            self.counts["traces"] += 1
        (expected, alike), found = self.seen[key], read_hazards(kept, self.line)
        self.counts["executions"] += 1
        self.counts["rows"] += len(rows)
        self.counts["racy"] += bool(expected)
        self.counts["hazards"] += len(expected)
        if found != expected:
            if different := self.different(record, expected, found):
                return self.difference(record, expected, different)
        noted, racy = read_same_values(kept, self.line), {h[:4] for h in found}
        self.counts["of one value"] += bool(alike)
        if further := noted - racy - alike:  # see `different`
            further -= {h[:4] for h in hazards(Steps(Record(record)).found, values=False)}
        if further or alike - noted - racy:
            return f"stores of one value: {sorted(alike ^ noted)[:8]}"
        pairs = {tuple(sorted((h.a[0], h.b[0]))) for h in found}
        told = {tuple(sorted(fault[1:3])) for fault in faults}
        if not told <= pairs or told < pairs and len(Records.last) < abi.MAX_RECORDS:
            return f"hazards on lines {sorted(pairs)}, but the faults are {faults}"
        self.module.recorded.clear()  # so that each execution begins with epochs
        self.module.doubted.clear()  # and with lanes, where threads can run as such
        _, quick = self.launch(program, schedule, 0)
        info = self.module.get_function(program.name).info
        self.counts["in epochs"] += info.epochs
        lanes = info.scouts and info.fits((program.threads, 1, 1))
        self.counts["as lanes"] += lanes
        self.counts["as lanes without a doubt"] += lanes and not self.module.doubted
        self.counts["doubts without a race"] += bool(self.module.doubted) and not expected
        self.counts["repeated"] += bool(self.module.recorded)
        self.counts["repeated without a race"] += bool(self.module.recorded) and not expected
        if quick != faults:
            return "\n".join(
                [
                    "without a trace the faults differ:",
                    *(f"- {f}" for f in faults if f not in quick),
                    *(f"+ {f}" for f in quick if f not in faults),
                ]
            )
        return ""

    def different(self, record: dict, expected: set[Hazard], found: set[Hazard]) -> set[Hazard]:
        """Hazards missed, and false ones. Not every thread's value is kept, nor is all that each has observed, so that the
        runtime may name further pairs of instructions: on a byte that has a race ("more"), or on another ("strict")."""
        doubtful, racy = hazards(Steps(Record(record)).found, values=False), {h[:2] for h in expected}
        further = {h for h in found - expected if h in doubtful}
        self.counts["more"] += any(h[:2] in racy for h in further)
        if strict := {h for h in further if h[:2] not in racy}:
            self.counts["strict"] += 1
            self.example = (
                self.example or f"{self.program.source()}\n{self.difference(record, expected, strict)}"
            )
        return found - expected - further | {
            h for h in expected - found if h._replace(how=FURTHER) not in found
        }

    def difference(self, record: dict, expected: set[Hazard], different: set[Hazard]) -> str:
        """Hazards missed and false, and what led to the first of them."""
        lines = [f"missed {self.described(h)}" for h in sorted(different & expected)[:8]]
        lines += [f"false {self.described(h)}" for h in sorted(different - expected)[:8]]
        return "\n".join([*lines, *self.story(record, min(different))])

    def line(self, site: int) -> int:
        return self.ran.lowered.sites[site][0].line

    def described(self, hazard: Hazard) -> str:
        sides = " and ".join(f"line {line} (kind {kind:#x})" for line, kind in (hazard.a, hazard.b))
        where = f"byte {hazard.address:#x}" + f" of block {hazard.block}" * (
            hazard.address >= self.device.arena.size // 2
        )
        return f"{where}: {sides}, how {hazard.how}"

    def story(self, record: dict, hazard: Hazard) -> list[str]:
        """The accesses of a byte, and what orders threads."""
        lines = []
        for step in Steps(Record(record)).found:
            if isinstance(step, Access):
                near = step.address <= hazard.address < step.address + step.size
                if not (step.strong or near) or step.shared and step.block != hazard.block and near:
                    continue
                words = [
                    w
                    for w in ("reads", "writes", "strong", "acquire", "release", "shared", "blind")
                    if getattr(step, w)
                ]
                scope = f" scope {step.scope}" * step.strong
                value = f" value {step.value}" * (step.value is not None)
                lines.append(
                    f"{step[:2]} line {step.site}: {step.address:#x} + {step.size} {' '.join(words)}{scope}{value}"
                    + " <" * near
                )
            else:
                lines.append(str(step))
        return [line if len(line) < 400 else f"{line[:200]} ... {line[-100:]}" for line in lines[:200]]


def smallest(bench: Bench, program: Program, schedule: int, what: str) -> tuple[Program, str]:
    """The program without all that can be left out while the disagreement stays, and what that is."""
    for group in reversed(program.groups()):
        less = program.without({group})
        bench.compile([less])
        if now := bench.disagreement(less, schedule):
            program, what = less, now
    return program, what


def attempt(bench: Bench, profile: str, seeds: range, schedules: range = range(SCHEDULES)) -> list[str]:
    """Try the programs of some seeds; returns a text for each disagreement."""
    programs = [program(f"p{seed}", profile, seed) for seed in seeds]
    bench.compile(programs)
    failed = []
    for each in programs:
        bench.seen.clear()
        bench.counts["programs"] += 1
        for schedule in schedules:
            if what := bench.disagreement(each, schedule):
                failed.append((each, schedule, what))
                break
    found = []
    for each, schedule, what in failed:
        bench.counts["disagreements"] += 1
        less, what = smallest(bench, each, schedule, what)
        found.append(f"{profile} {each.name}, schedule {schedule}:\n{less.source()}\n{what}\n")
    return found


@click.command()
@click.option("--seconds", default=300.0, help="How long.")
@click.option("--seed", default=0, help="Of the first program.")
@click.option("--schedules", default=SCHEDULES, help="Of each program.")
@click.option("--only", multiple=True, type=click.Choice(list(PROFILES)), help="Programs of this kind.")
@click.option("--stop", default=5, help="After so many disagreements.")
def main(seconds: float, seed: int, schedules: int, only: tuple[str, ...], stop: int) -> None:
    """Compare the runtime's races with the oracle's."""
    build._store.put = nvrtc._store.put = lambda key, body: None  # such programs are not worth keeping
    build.SECONDS = 60  # a file has many of them
    bench, kinds, end = Bench(), only or tuple(PROFILES), time.monotonic() + seconds
    counts, batch = bench.counts, 0
    while time.monotonic() < end and counts["disagreements"] < stop:
        first = seed + batch // len(kinds) * BATCH
        for text in attempt(bench, kinds[batch % len(kinds)], range(first, first + BATCH), range(schedules)):
            click.echo(text)
        batch += 1
    if bench.example:
        click.echo(f"stricter than the memory model:\n{bench.example}")
    names = (
        "programs",
        "executions",
        "traces",
        "rows",
        "racy",
        "hazards",
        "more",
        "strict",
        "of one value",
        "endless",
        "in epochs",
        "as lanes",
        "as lanes without a doubt",
        "doubts without a race",
        "repeated",
        "repeated without a race",
        "disagreements",
    )
    click.echo(", ".join(f"{counts[name]} {name}" for name in names) + f"; {schedules} schedules each")
    sys.exit(bool(counts["disagreements"]))


if __name__ == "__main__":
    main()
