"""Kernels run as vector lanes, compared bit by bit with one thread at a time.

`python -m tests.soak.lanes [--part NAME] [--only NAME] [--width N]` runs the course's solutions and the mistakes that
it declares, the samples, what the conformance tests run (rows of PTX, intrinsics, mathematical functions), kernels that make it
hard for lanes (lane_attacks.py), and random expressions and control flow (lane_branches.py) until `--seconds` have passed. It prints what differs and ends with
status 1 where that was anything but the order in which threads race, or which of several wrong threads is told first.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import click
import numpy as np

from backwarp.course.checkout import open_course
from backwarp.cuda.values import tunables
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import BackwarpError, CompileError, KernelFault
from backwarp.grading.runs import Outcome, Pace, Setup, Trial, run_once
from backwarp.maintain.check_mutants import wrong_ones
from tests import samples
from tests.conformance import (
    expressions,
    ptx_rows,
    test_comparisons,
    test_conversions,
    test_floats,
    test_half,
    test_integers,
    test_intrinsics,
    test_math_functions,
)
from tests.soak import lane_attacks, lane_branches

WIDTHS = (4, 8, 16, 32)
_TOGETHER = 4  # rows in a kernel: one that cannot be lanes takes few with it
_VALUES = 640  # of each row
_FILE = 12  # intrinsics
_ROWS = (test_comparisons, test_conversions, test_floats, test_half, test_integers)


@dataclass
class Subject:
    """A test subject: on a device, given a module, each step yields bits, or reports a fault."""

    name: str
    load: Callable[[VirtualGPU], object]
    steps: dict[str, Callable[[VirtualGPU, object], dict[str, bytes]]]


@dataclass
class Tally:
    """runs: of how many steps the bits were compared. differences: a line for each."""

    counts: Counter = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


# -- what is run ---------------------------------------------------------------------------------------------


def solutions() -> Iterator[Subject]:
    for puzzle in open_course().puzzles():
        if not puzzle.program:
            yield _of_puzzle(puzzle, puzzle.id, puzzle.solution_path.read_text(encoding="utf-8"))


def mistakes() -> Iterator[Subject]:
    for puzzle in open_course().puzzles():
        if not puzzle.program:
            source = puzzle.solution_path.read_text(encoding="utf-8")
            for mistake in wrong_ones(puzzle, every=8):
                yield _of_puzzle(puzzle, f"{puzzle.id} {mistake.name}", mistake.apply(source))


def _of_puzzle(puzzle, name: str, source: str) -> Subject:
    def step(case, kernel):
        def run(device, module):
            trial = Trial(Outcome(case, kernel), Pace())
            trial.begin(puzzle, tunables(source), 1)
            if not trial.launch:
                return {"no launch": str(trial.outcome.lines).encode()}
            setup = Setup(device, (0,), (), module, {kernel.name: module.get_function(kernel.name)})
            found = run_once(trial, setup, 0)
            if found is not None:
                return {array: values.tobytes() for array, values in found.results.items()}
            if isinstance(trial.outcome.error, KernelFault):
                raise trial.outcome.error
            return {"outcome": str((trial.outcome.kind, trial.outcome.lines)).encode()}

        return run

    steps = {f"{c.name} {k.name}": step(c, k) for c in puzzle.cases for k in puzzle.kernels_of(c)}
    return Subject(
        name, lambda device: device.compile(source, "kernel.cu", include_dirs=puzzle.include_dirs), steps
    )


def sample_files() -> Iterator[Subject]:
    for entry in samples.SAMPLES.values():

        def step(case, entry=entry):
            return lambda device, module: _bits(samples.run(entry.job(case), device, module)[0])

        steps = {str(case): step(case) for case in entry.cases}
        yield Subject(entry.name, lambda device, entry=entry: samples.compile_sample(device, entry), steps)


def rows() -> Iterator[Subject]:
    for tests in _ROWS:
        for group, cases in tests.GROUPS.items():
            made = [
                (operands, batch[i : i + _TOGETHER], ptx_rows.values(operands)[:_VALUES])
                for operands, batch in ptx_rows.batches(cases)
                for i in range(0, len(batch), _TOGETHER)
            ]
            kernels = [ptx_rows.kernel(f"k{i}", b, len(v), o) for i, (o, b, v) in enumerate(made)]

            def step(i, made=made):
                def run(device, module):
                    operands, batch, inputs = made[i]
                    out = device.empty((len(batch), len(inputs)), np.uint64)
                    ptx_rows.launch(device, module.get_function(f"k{i}"), operands, inputs, out)
                    return {case.line: row.tobytes() for case, row in zip(batch, out.get(), strict=True)}

                return run

            yield Subject(
                f"{tests.__name__.rpartition('.')[2]} {group}",
                lambda device, kernels=kernels: device.load_ptx(ptx_rows.module(kernels)),
                {f"k{i}": step(i) for i in range(len(made))},
            )


def intrinsics() -> Iterator[Subject]:
    for group, cases in test_intrinsics.GROUPS.items():
        for start in range(0, len(cases), _FILE):
            batch = cases[start : start + _FILE]

            def step(i, case):
                def run(device, module):
                    inputs = ptx_rows.values(case.operands)
                    out = device.empty(len(inputs), f"u{ptx_rows.size(case.result)}")
                    ptx_rows.launch(device, module.get_function(f"k{i}"), case.operands, inputs, out)
                    return {case.line: out.get().tobytes()}

                return run

            yield Subject(
                f"intrinsics {group} {start}",
                lambda device, batch=batch: device.compile(test_intrinsics.source(batch)),
                {case.line: step(i, case) for i, case in enumerate(batch)},
            )


def functions() -> Iterator[Subject]:
    for group, members in test_math_functions.GROUPS.items():
        operands = 2 if group == "two arguments" else 1
        for function in members:
            source = test_math_functions.source([function], "float", operands)
            inputs = test_math_functions.arguments(function, operands, np.dtype("f4"))

            def run(device, module, function=function, inputs=inputs):
                n = len(inputs[0])
                out = device.empty(n, np.float32)
                arrays = map(device.array, inputs)
                module.get_function(f"test_{function.name}")(-(-n // 128), 128, (out, *arrays, np.int32(n)))
                return {function.name: out.get().tobytes()}

            yield Subject(
                f"{function.name} {function.domain}",
                lambda device, source=source: device.compile(source),
                {"": run},
            )


def drawn(seeds: Iterator[int], each: int = 6) -> Iterator[Subject]:
    """Files of random expressions. each: so many a kernel."""
    for seed in seeds:
        kernels = expressions.kernels(seed, each)

        def step(i, kernel):
            return lambda device, module: {
                "": expressions.launch(device, module.get_function(f"k{i}"), kernel).tobytes()
            }

        yield Subject(
            f"expressions of seed {seed}",
            lambda device, kernels=kernels: device.compile(expressions.source(kernels)),
            {f"k{i}": step(i, kernel) for i, kernel in enumerate(kernels)},
        )


def branches(seeds: Iterator[int]) -> Iterator[Subject]:
    """Files of random control flow."""
    for seed in seeds:
        steps = {
            f"k{k}, blocks of {block}": lambda device, module, k=k, block=block: {
                "out": lane_branches.launch(device, module.get_function(f"k{k}"), block).tobytes()
            }
            for k in range(lane_branches.KERNELS)
            for block in lane_branches.BLOCKS
        }
        yield Subject(
            f"branches of seed {seed}",
            lambda device, seed=seed: device.compile(lane_branches.source(seed)),
            steps,
        )


def attacks() -> Iterator[Subject]:
    for name, source, launches in lane_attacks.subjects():
        steps = {
            label: lambda device, module, launch=launch: _bits(launch(device, module))
            for label, launch in launches.items()
        }
        yield Subject(name, lambda device, source=source: device.compile(source), steps)


PARTS = {
    "solutions": solutions,
    "mistakes": mistakes,
    "samples": sample_files,
    "rows": rows,
    "intrinsics": intrinsics,
    "functions": functions,
    "attacks": attacks,
}
DRAWN = {"expressions": drawn, "branches": branches}


def _bits(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in arrays.items()}


# -- how it is compared --------------------------------------------------------------------------------------


def compare(subject: Subject, devices: dict[int, VirtualGPU], tally: Tally) -> None:
    """devices: by how many lanes they have; the first has one."""
    modules = {}
    for width, device in devices.items():
        try:
            modules[width] = _loaded(subject, device)
        except CompileError as error:
            modules[width] = str(error)
    alone, *others = modules.items()
    refusals = {module if isinstance(module, str) else "" for module in modules.values()}
    if refusals != {""}:
        tally.counts["files that are refused"] += 1
        if len(refusals) > 1:
            tally.differences.append(f"{subject.name}: {modules}")
        return
    infos = {width: module.lowered.kernels.values() for width, module in modules.items()}
    tally.counts["kernels"] += len(infos[1])
    tally.counts["kernels as lanes"] += sum(k.lanes > 1 for k in infos[others[-1][0]])
    if 0 not in infos and not any(kernel.lanes > 1 for kernels in infos.values() for kernel in kernels):
        return
    tally.counts["files"] += 1
    for label, step in subject.steps.items():
        expected = _run(step, devices[1], alone[1])
        for width, module in others:
            got = _run(step, devices[width], module)
            tally.counts["kernels for blocks"] += sum(map(bool, module.of_blocks.values()))
            module.of_blocks = {}
            tally.counts["runs"] += 1
            if got == expected:
                continue
            if isinstance(got, KernelFault) and isinstance(expected, KernelFault):
                told = [(e.kind, e.line, e.thread, e.block, e.array, e.index) for e in (got, expected)]
                if told[0][0] == told[1][0]:
                    tally.counts["faults told of another thread"] += told[0] != told[1]
                    continue
            if isinstance(expected, KernelFault) and expected.kind == "timeout":
                tally.counts["runs too long for single threads"] += 1
                continue
            if _races(subject, step):
                tally.counts["runs that depend on the order of threads"] += 1
                continue
            names = (
                [n for n in expected if got.get(n) != expected[n]]
                if isinstance(got, dict) and isinstance(expected, dict)
                else (_told(got), _told(expected))
            )
            tally.differences.append(f"{subject.name}, {label}, {width} lanes: {names}")


def _loaded(subject: Subject, device: VirtualGPU):
    """The subject's module; with full checks, lanes look first. Errors: CompileError."""
    module = subject.load(device)
    if device.races and device.lanes > 1:
        module._built_again(device.lanes)  # `scout` does without lanes if they cannot be compiled
        module.scout()
    return module


def _told(found) -> str:
    return str(found).splitlines()[0] if isinstance(found, BackwarpError) else "ran"


def _run(step, device: VirtualGPU, module):
    try:
        return step(device, module)
    except BackwarpError as error:
        return error


def _races(subject: Subject, step) -> bool:
    with VirtualGPU("full", cores=1) as device:
        device.quick, device.time_limit = True, 60
        error = _run(step, device, subject.load(device))
        return isinstance(error, KernelFault) and error.kind == "race"


class ForBlocks(VirtualGPU):
    """Kernels are compiled for the shape of the blocks of each launch."""

    def compile(self, *args, **options):
        module = super().compile(*args, **options)
        module.optimise_when_due = module.for_blocks
        return module


def open_devices(
    widths, target: str = "", checks: str = "memory", blocks: bool = False
) -> dict[int, VirtualGPU]:
    """blocks: all but the first as ForBlocks; then a width of 0 is one lane, too."""
    devices = {}
    for width in widths:
        devices[width] = (ForBlocks if blocks and devices else VirtualGPU)(checks, cores=1)
        devices[width].lanes, devices[width].target = max(width, 1), target
        devices[width].step_budget = 1 << 22
    return devices


def _seeds(first: int, end: float) -> Iterator[int]:
    """At least one, and more until then."""
    yield first
    for seed in count(first + 1):
        if time.monotonic() > end:
            return
        yield seed


@click.command()
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice([*PARTS, *DRAWN]),
    help="Only this; several times.",
)
@click.option("--only", default="", help="What the names contain.")
@click.option("--width", "widths", multiple=True, type=int, help="How many lanes; several times.")
@click.option("--target", default="", help="The processor, see compile/targets.")
@click.option("--checks", default="memory", type=click.Choice(["memory", "none", "full"]))
@click.option("--blocks", is_flag=True, help="Kernels are compiled for the blocks of each launch.")
@click.option("--seconds", default=300.0, help="Until when files are drawn; at least one is.")
@click.option("--seed", default=0, help="Of the first file that is drawn.")
def main(
    parts: tuple[str, ...],
    only: str,
    widths: tuple[int, ...],
    target: str,
    checks: str,
    blocks: bool,
    seconds: float,
    seed: int,
) -> None:
    """Compare lanes of vectors with single threads."""
    devices = open_devices((1, *(widths or ((0,) * blocks + WIDTHS))), target, checks, blocks)
    wrong, end = 0, time.monotonic() + seconds
    for part in parts or (*PARTS, *DRAWN):
        tally = Tally()
        for subject in DRAWN[part](_seeds(seed, end)) if part in DRAWN else PARTS[part]():
            if only in subject.name:
                before = len(tally.differences)
                compare(subject, devices, tally)
                for line in tally.differences[before:]:
                    click.echo(line)
        wrong += len(tally.differences)
        click.echo(f"{part}: " + ", ".join(f"{n} {what}" for what, n in tally.counts.items()))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
