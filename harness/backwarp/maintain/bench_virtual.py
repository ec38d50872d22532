"""How fast the virtual GPU runs: `python -m backwarp.maintain.bench_virtual [--only NAME] [--target avx2]
[--json FILE|-]`.

Measures multiply-adds per second on one core and on all, with "memory" and "full" checks and compiled for the
launch's sizes (as kernels that run for seconds are, with memory checks), and how much longer "full" takes
than "memory", with inputs that are read-only, as the grader's, and with ordinary arrays: for three kernels, for
LeNet's and those of parts 3 and 4, and for samples of other kinds. In
the same run it measures the same loops in C (-O3 -march=native) if there is a C compiler, and PyTorch's
operator if PyTorch is installed, both on one core. Each figure is the best of several launches, with the
variants alternating; single-core figures are processor time, so that other load hardly matters. --target avx2: the code
that a machine without AVX-512 would run, also for C. --ratios: what `bench_ratios` measures, compared with an earlier run.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import click
import numpy as np

from ..devices.launching import triple
from ..devices.virtual.compile.targets import target as processor
from ..devices.virtual.device import VirtualGPU
from ..devices.virtual.run.workers import available_cores
from . import course_workloads, workloads
from .bench_ratios import PARTS, Refused, costs, reasons, worse
from .workloads import REGISTERS, SAMPLES, TILED, Workload, product, sample, weight_gradient

REPEAT = 7
RATIOS = Path(__file__).with_name("bench_virtual.json")

WORKLOADS = {
    "naive weight gradient": weight_gradient,
    "tiled matrix product": lambda: product("tiled matrix product", TILED, 256, 16, (16, 16)),
    "register-tiled matrix product": lambda: product(
        "register-tiled matrix product", REGISTERS, 256, 128, 256
    ),
    **course_workloads.WORKLOADS,
    **{name: partial(sample, name) for name in SAMPLES},
}


class OnVirtualGPU:
    """One workload on one device; `run()` gives the (wall, processor) seconds of its launches."""

    def __init__(self, work: Workload, checks: str, cores: int, target: str = "", readonly: bool = True):
        """checks: the device's checks, or "sizes": "memory", with the kernels compiled for the launch's
        sizes. readonly: the inputs are. Kernels are compiled as they are after long launches, whatever the cache has."""
        device = VirtualGPU("memory" if checks == "sizes" else checks, cores=cores)
        device.time_limit, device.target = 120, target
        module, job = device.compile(work.source, include_dirs=work.include_dirs), work.job
        if checks == "full":
            module.scout(block=triple(job.launches[0].block, "block"))
        self.arrays = {name: device.array(x, name=name, readonly=readonly) for name, x in job.inputs.items()}
        self.arrays |= {name: device.empty(x.shape, x.dtype, name=name) for name, x in job.outputs.items()}
        self.arrays |= {name: device.array(before, name=name) for name, (before, _) in job.state.items()}
        for name in work.constants:
            module.set_constant(name, job.inputs[name])
        given = self.arrays | job.scalars
        self.launches = [
            (
                module.get_function(x.kernel),
                (x.grid, x.block, tuple(given[name] for name in x.args.split()), x.shared),
            )
            for x in job.launches
        ]
        if checks == "sizes":
            self.launches = [(kernel.fixed(launch[2], launch[1]), launch) for kernel, launch in self.launches]
            for kernel, _ in self.launches:
                for name in work.constants:
                    kernel.module.set_constant(name, job.inputs[name])
        if checks == "memory":
            for kernel, launch in self.launches:
                module.for_blocks(kernel.info.name, triple(launch[1], "block"))
        self.outputs = work.outputs

    def run(self) -> tuple[float, float]:
        start, used = time.perf_counter(), time.process_time()
        for kernel, launch in self.launches:
            kernel(*launch)
        return time.perf_counter() - start, time.process_time() - used

    def results(self) -> dict[str, np.ndarray]:
        return {name: self.arrays[name].get() for name in self.outputs}


class InC:
    """The same loops, compiled by the machine's C compiler."""

    def __init__(self, work: Workload, library: ctypes.CDLL):
        self.function, self.outputs = getattr(library, work.function), work.outputs
        self.arguments = work.arguments.split()
        self.arrays = {**work.job.inputs, **{name: np.zeros_like(x) for name, x in work.job.outputs.items()}}
        self.arrays |= {name: before.copy() for name, (before, _) in work.job.state.items()}
        self.args = [
            self.arrays[name].ctypes.data_as(ctypes.c_void_p)
            if name in self.arrays
            else ctypes.c_int(work.sizes[name])
            for name in self.arguments
        ]

    def run(self) -> tuple[float, float]:
        start, used = time.perf_counter(), time.process_time()
        self.function(*self.args)
        return time.perf_counter() - start, time.process_time() - used

    def results(self) -> dict[str, np.ndarray]:
        return {name: self.arrays[name] for name in self.outputs if name in self.arguments}


class InPyTorch:
    """PyTorch's operator, on one core. Errors: ImportError where there is no PyTorch."""

    def __init__(self, work: Workload):
        # else its threads keep the cores busy while ours work
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        import torch

        torch.set_num_threads(1)
        tensors = {name: torch.tensor(values) for name, values in work.job.inputs.items()}
        self.work = partial(work.torch, torch, tensors, work.sizes)

    def run(self) -> tuple[float, float]:
        start, used = time.perf_counter(), time.process_time()
        self.found = self.work()
        return time.perf_counter() - start, time.process_time() - used

    def results(self) -> dict[str, np.ndarray]:
        return {name: values.numpy() for name, values in self.found.items()}


def compile_c(target: str = "") -> ctypes.CDLL | None:
    """The C loops as a library, or None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "loops.c"), Path(folder, "loops.so")
        source.write_text(workloads.C + course_workloads.C)
        command = [
            compiler,
            "-O3",
            "-march=native",
            f"-DLANES={8 if target == 'avx2' or processor().masks != 'i1' else 16}",
            *["-mno-avx512f"] * (target == "avx2"),
            "-shared",
            "-fPIC",
            str(source),
            "-o",
            str(library),
            "-lm",
        ]
        if subprocess.run(command, capture_output=True).returncode:
            return None
        return ctypes.CDLL(str(library))


def measure(work: Workload, cores: int, library: ctypes.CDLL | None, target: str = "") -> dict:
    """Seconds of every variant, 10^9 multiply-adds per second where that applies, and ratios."""
    runners = {
        (checks, count): OnVirtualGPU(work, checks, count, target)
        for checks in ("memory", "full")
        for count in (1, cores)
    }
    runners["writable", 1] = OnVirtualGPU(work, "full", 1, target, readonly=False)
    if work.multiply_adds:
        runners |= {("sizes", count): OnVirtualGPU(work, "sizes", count, target) for count in (1, cores)}
    if library and work.function:
        runners["C", 1] = InC(work, library)
    if work.torch:
        with suppress(ImportError):
            runners["PyTorch", 1] = InPyTorch(work)
    wall, used = dict.fromkeys(runners, float("inf")), dict.fromkeys(runners, float("inf"))
    for i in range(REPEAT):
        for key, runner in runners.items():
            taken = runner.run()
            wall[key], used[key] = min(wall[key], taken[0]), min(used[key], taken[1])
        if not i:
            agree(work.name, [runner.results() for runner in runners.values()])
    row = {
        "workload": work.name,
        "memory_seconds": used["memory", 1],
        "full_seconds": used["full", 1],
        "full_over_memory_time": used["full", 1] / used["memory", 1],
        "writable_over_memory_time": used["writable", 1] / used["memory", 1],
        "speed_up": wall["memory", 1] / wall["memory", cores],
    }
    if work.multiply_adds:
        seconds = {"c": used.get(("C", 1))}
        for kind in ("memory", "sizes", "full"):
            seconds |= {kind: used[kind, 1], f"{kind}_all_cores": wall[kind, cores]}
        row |= {"multiply_adds": work.multiply_adds}
        row |= {name: work.multiply_adds / s / 1e9 for name, s in seconds.items() if s}
    for other, key in (("C", "c"), ("PyTorch", "pytorch")):
        if (seconds := used.get((other, 1))) is not None:
            row |= {f"{key}_seconds": seconds, f"{key}_over_memory_time": seconds / used["memory", 1]}
    if "c" in row:
        row |= {"ratio_to_c": row["memory"] / row["c"], "sizes_ratio_to_c": row["sizes"] / row["c"]}
    return row


def agree(name: str, results: list[dict[str, np.ndarray]]) -> None:
    """SystemExit if a result differs from the first runner's."""
    for result in results:
        for array, values in result.items():
            expected = results[0][array].ravel()
            if not np.allclose(values.ravel(), expected, rtol=1e-3, atol=1e-3, equal_nan=True):
                raise SystemExit(f"{name}: the variants do not agree on {array}")


def lines(row: dict, naive: float | None) -> list[str]:
    """A row as text. naive: the rate of the naive gradient's loops in C."""
    longer = f"{row['full_over_memory_time']:5.1f}x the time of memory, {row['writable_over_memory_time']:.1f}x on own arrays"
    if "memory" not in row:
        memory, full = 1e3 * row["memory_seconds"], 1e3 * row["full_seconds"]
        return [f"\n{row['workload']:16} memory {memory:7.2f} ms   full {full:8.2f} ms{longer}", *others(row)]
    text = [
        f"\n{row['workload']}",
        f"  memory checks   one core {row['memory']:6.2f}   all cores {row['memory_all_cores']:6.2f}"
        f"   speed-up {row['speed_up']:.2f}",
        f"  for its sizes   one core {row['sizes']:6.2f}   all cores {row['sizes_all_cores']:6.2f}",
        f"  full checks     one core {row['full']:6.2f}   all cores {row['full_all_cores']:6.2f}{longer}",
    ]
    if "c" not in row:
        return [*text, "  same loops in C: no C compiler on this machine", *others(row)]
    text.append(
        f"  same loops in C one core {row['c']:6.2f}   memory checks reach {row['ratio_to_c']:.2f} of it,"
        f" for its sizes {row['sizes_ratio_to_c']:.2f}"
    )
    if naive and naive != row["c"]:
        shares = row["memory"] / naive, row["sizes"] / naive
        text.append("  of the naive gradient's loops in C: {:.2f}, for its sizes {:.2f}".format(*shares))
    return text + others(row)


def others(row: dict) -> list[str]:
    """The time of C and PyTorch, relative to the time with memory checks."""
    names = {"c": "C", "pytorch": "PyTorch"}
    told = (
        f"{name} {row[f'{key}_over_memory_time']:.2f}"
        for key, name in names.items()
        if f"{key}_seconds" in row
    )
    text = ", ".join(told)
    return [f"  of the time with memory checks: {text}"] if text else []


def compare(parts: Iterable[str], target: str, kept: Path, keep: bool) -> None:
    """Measures and prints these parts of `bench_ratios`. SystemExit if any ratio is much worse than the one that was kept."""
    library, found, before = compile_c(target), {}, json.loads(kept.read_text())
    on = partial(OnVirtualGPU, target=target, readonly=False)
    for part in parts:
        try:
            for name, ratio in PARTS[part](on, library):
                found[name] = round(ratio, 3)
                print(f"{ratio:8.2f}  {name}", flush=True)
        except Refused as why:
            print(f"{part}: not measured, as {why}")
    if "puzzles" in parts:
        print("\nnot as lanes with full checks:", *reasons(), sep="\n  ")
    if "growth" in parts:
        print("\nwhat launches cost:", *costs(), sep="\n  ")
    if keep:
        kept.write_text(json.dumps(before | found, indent=1) + "\n")
    elif lines := worse(found, before):
        raise SystemExit("\n".join(["worse than before:", *lines]))


@click.command()
@click.option(
    "--only", multiple=True, type=click.Choice(list(WORKLOADS)), help="Measure this; may be repeated."
)
@click.option("--target", default="", type=click.Choice(["", "avx2"]), help="Do without AVX-512.")
@click.option(
    "--json", "to", metavar="FILE|-", help="Write the figures as JSON to FILE, or to standard output."
)
@click.option(
    "--ratios",
    multiple=True,
    type=click.Choice(["all", *PARTS]),
    help="Measure these instead; may be repeated.",
)
@click.option(
    "--against", type=click.Path(exists=True), default=RATIOS, help="Ratios that are to be no worse."
)
@click.option("--keep", is_flag=True, help="Write the ratios there.")
def main(
    only: tuple[str, ...], target: str, to: str | None, ratios: tuple[str, ...], against: str, keep: bool
) -> None:
    """Measure the virtual GPU on this machine."""
    cores = available_cores()
    if ratios:
        return compare(PARTS if "all" in ratios else ratios, target, Path(against), keep)
    library, rows = compile_c(target), []
    if to != "-":
        print(f"10^9 multiply-adds per second, best of {REPEAT}; {cores} cores")
    for name, work in WORKLOADS.items():
        if not only or name in only:
            rows.append(measure(work(), cores, library, target))
            if to != "-":
                print("\n".join(lines(rows[-1], rows[0].get("c"))), flush=True)
    report = {
        "machine": platform.processor() or platform.machine(),
        "cores": cores,
        "target": target,
        "unit": "10^9 multiply-adds/s",
        "python": platform.python_version(),
        "rows": rows,
    }
    if to == "-":
        json.dump(report, sys.stdout, indent=2)
        print()
    elif to:
        Path(to).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
