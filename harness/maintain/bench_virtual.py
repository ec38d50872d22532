"""How fast the virtual GPU runs: `python -m harness.maintain.bench_virtual [--only NAME] [--json FILE|-]`.

Multiply-adds per second of three kernels on one core and on all, with "memory" and "full" checks and compiled
for their sizes, as kernels are that run for seconds (memory checks too), and, where a C compiler is on the
machine, as a ratio to the same loops in C (-O3 -march=native) measured in the same run; then, of samples of
other kinds, how much longer "full" takes than "memory". Each figure is the best of several launches, the
variants taken in turn; what runs on one core is measured in the processor's time, so that little else counts.
Inputs are read-only, as the grader's are.
"""

from __future__ import annotations

import ctypes
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import numpy as np

from ..course.checkout import open_course
from ..devices.virtual.device import VirtualGPU
from ..devices.virtual.run.workers import available_cores
from ..tests import samples

REPEAT = 7

_TILED = """
constexpr int TILE = 16;

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < n / TILE; t++) {
        tile_a[threadIdx.y][threadIdx.x] = a[row * n + t * TILE + threadIdx.x];
        tile_b[threadIdx.y][threadIdx.x] = b[(t * TILE + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
"""

_REGISTERS = """
constexpr int TILE = 128, DEPTH = 8, PER = 8, SIDE = TILE / PER;

__device__ float4& four(float& first) { return reinterpret_cast<float4&>(first); }

extern "C" __global__ void __launch_bounds__(SIDE * SIDE)
matmul(const float* a, const float* b, float* c, int n) {
    __shared__ __align__(16) float tile_a[DEPTH][TILE], tile_b[DEPTH][TILE];
    int t = threadIdx.x, x = t % SIDE * PER, y = t / SIDE * PER;
    const float* from_a = a + (blockIdx.y * TILE + t / 2) * n + t % 2 * 4;
    const float* from_b = b + t / 32 * n + blockIdx.x * TILE + t % 32 * 4;
    float sum[PER][PER] = {}, p[PER], q[PER];
    for (int k0 = 0; k0 < n; k0 += DEPTH) {
        float4 v = *reinterpret_cast<const float4*>(from_a + k0);
        for (int j = 0; j < 4; j++) tile_a[t % 2 * 4 + j][t / 2] = (&v.x)[j];
        four(tile_b[t / 32][t % 32 * 4]) = *reinterpret_cast<const float4*>(from_b + k0 * n);
        __syncthreads();
        for (int k = 0; k < DEPTH; k++) {
            for (int i = 0; i < PER; i += 4) {
                four(p[i]) = four(tile_a[k][y + i]);
                four(q[i]) = four(tile_b[k][x + i]);
            }
            for (int i = 0; i < PER; i++)
                for (int j = 0; j < PER; j++) sum[i][j] += p[i] * q[j];
        }
        __syncthreads();
    }
    float* to = c + (blockIdx.y * TILE + y) * n + blockIdx.x * TILE + x;
    for (int i = 0; i < PER; i++)
        for (int j = 0; j < PER; j += 4) *reinterpret_cast<float4*>(to + i * n + j) = four(sum[i][j]);
}
"""

_C = """
void weights(const float* grad_output, const float* input, float* grad_weights,
             int batch, int C, int H, int W, int K, int F) {
    int P = H - F + 1, Q = W - F + 1;
    for (int k = 0; k < K; k++) for (int c = 0; c < C; c++)
    for (int r = 0; r < F; r++) for (int s = 0; s < F; s++) {
        float sum = 0.0f;
        for (int b = 0; b < batch; b++) for (int p = 0; p < P; p++) for (int q = 0; q < Q; q++)
            sum += grad_output[((b * K + k) * P + p) * Q + q] * input[((b * C + c) * H + p + r) * W + q + s];
        grad_weights[((k * C + c) * F + r) * F + s] = sum;
    }
}
void matmul(const float* a, const float* b, float* c, int n) {
    enum { TILE = 16 };
    float tile_a[TILE][TILE], tile_b[TILE][TILE], sum[TILE][TILE];
    for (int y = 0; y < n; y += TILE) for (int x = 0; x < n; x += TILE) {
        for (int i = 0; i < TILE; i++) for (int j = 0; j < TILE; j++) sum[i][j] = 0.0f;
        for (int t = 0; t < n; t += TILE) {
            for (int i = 0; i < TILE; i++) for (int j = 0; j < TILE; j++) {
                tile_a[i][j] = a[(y + i) * n + t + j];
                tile_b[i][j] = b[(t + i) * n + x + j];
            }
            for (int i = 0; i < TILE; i++) for (int j = 0; j < TILE; j++)
                for (int k = 0; k < TILE; k++) sum[i][j] += tile_a[i][k] * tile_b[k][j];
        }
        for (int i = 0; i < TILE; i++) for (int j = 0; j < TILE; j++) c[(y + i) * n + x + j] = sum[i][j];
    }
}
"""


#: samples of other kinds, in a size that takes some milliseconds
SAMPLES = {
    "transpose": dict(height=384, width=400),
    "stencil_3d": dict(nx=80, ny=64, nz=24),
    "online_softmax": dict(rows=64, columns=1500),
    "histogram": dict(n=150_000),
    "block_scan": dict(n=32_000),
    "bitonic_sort": dict(n=4096),
}


@dataclass
class Workload:
    """What is launched of a file. function: the same in C, of the same arrays and scalars."""

    name: str
    source: str
    job: samples.Job
    multiply_adds: int = 0
    function: str = ""


def product(name: str, source: str, n: int, tile: int, block) -> Workload:
    """A product of two n x n matrices, `tile` x `tile` elements a block."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), np.float32) for _ in range(2))
    job = samples.Job(
        [samples.Launch("matmul", (n // tile, n // tile), block, "a b c n")],
        dict(a=a, b=b),
        dict(c=a @ b),
        scalars=samples.i32(n=n),
        rtol=1e-3,
        atol=1e-3,
    )
    return Workload(name, source, job, n**3, "matmul")


def weight_gradient() -> Workload:
    """Puzzle 09's solution on LeNet's second layer: `64,6,12,12 -> 16,5x5`, 75 blocks."""
    course, rng = open_course(), np.random.default_rng(0)
    puzzle = course.load("09")
    dims = dict(batch=64, C_in=6, H=12, W=12, C_out=16, F=5)
    p = q = 8
    arrays = dict(
        grad_output=rng.standard_normal((64, 16, p, q), np.float32),
        input=rng.standard_normal((64, 6, 12, 12), np.float32),
    )
    launch = samples.Launch(
        "conv2d_backward_weights", -(-16 * 6 * 25 // 32), 32, f"grad_output input out {' '.join(dims)}"
    )
    job = samples.Job(
        [launch], arrays, dict(out=np.zeros((16, 6, 5, 5), np.float32)), scalars=samples.i32(**dims)
    )
    source = puzzle.solution_path.read_text(encoding="utf-8")
    return Workload("naive weight gradient", source, job, 64 * 16 * 6 * 25 * p * q, "weights")


def sample(name: str) -> Workload:
    return Workload(name, samples.SAMPLES[name].source, samples.SAMPLES[name].job(SAMPLES[name]))


WORKLOADS = {
    "naive weight gradient": weight_gradient,
    "tiled matrix product": lambda: product("tiled matrix product", _TILED, 256, 16, (16, 16)),
    "register-tiled matrix product": lambda: product(
        "register-tiled matrix product", _REGISTERS, 256, 128, 256
    ),
    **{name: partial(sample, name) for name in SAMPLES},
}


class OnVirtualGPU:
    """One workload on one device; `run()` gives the (wall, processor) seconds of its launches."""

    def __init__(self, work: Workload, checks: str, cores: int):
        """checks: those of the device, or "sizes": "memory", and the kernels compiled for their sizes."""
        device = VirtualGPU("memory" if checks == "sizes" else checks, cores=cores)
        device.time_limit = 120
        module, job = device.compile(work.source), work.job
        self.arrays = {name: device.array(x, name=name, readonly=True) for name, x in job.inputs.items()}
        self.arrays |= {name: device.empty(x.shape, x.dtype, name=name) for name, x in job.outputs.items()}
        self.arrays |= {name: device.array(before, name=name) for name, (before, _) in job.state.items()}
        given = self.arrays | job.scalars
        self.launches = [
            (
                module.get_function(x.kernel),
                (x.grid, x.block, tuple(given[name] for name in x.args.split()), x.shared),
            )
            for x in job.launches
        ]
        if checks == "sizes":
            self.launches = [(kernel.fixed(launch[2]), launch) for kernel, launch in self.launches]
        self.outputs = (*job.outputs, *job.state)

    def run(self) -> tuple[float, float]:
        start, used = time.perf_counter(), time.process_time()
        for kernel, launch in self.launches:
            kernel(*launch)
        return time.perf_counter() - start, time.process_time() - used

    def results(self) -> list[np.ndarray]:
        return [self.arrays[name].get() for name in self.outputs]


class InC:
    """The same loops, compiled by the machine's C compiler."""

    def __init__(self, work: Workload, library: ctypes.CDLL):
        self.function, job = getattr(library, work.function), work.job
        self.out = [np.zeros_like(x) for x in job.outputs.values()]
        arrays = [x.ctypes.data_as(ctypes.c_void_p) for x in (*job.inputs.values(), *self.out)]
        self.args = (*arrays, *(ctypes.c_int(s) for s in job.scalars.values()))

    def run(self) -> tuple[float, float]:
        start, used = time.perf_counter(), time.process_time()
        self.function(*self.args)
        return time.perf_counter() - start, time.process_time() - used

    def results(self) -> list[np.ndarray]:
        return self.out


def compile_c() -> ctypes.CDLL | None:
    """The C loops as a library, or None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "loops.c"), Path(folder, "loops.so")
        source.write_text(_C)
        command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", str(source), "-o", str(library)]
        if subprocess.run(command, capture_output=True).returncode:
            return None
        return ctypes.CDLL(str(library))


def measure(work: Workload, cores: int, library: ctypes.CDLL | None) -> dict:
    """Seconds of every variant, giga multiply-adds per second where it makes them, and their ratios."""
    runners = {
        (checks, count): OnVirtualGPU(work, checks, count)
        for checks in ("memory", "full")
        for count in (1, cores)
    }
    if work.multiply_adds:
        runners |= {("sizes", count): OnVirtualGPU(work, "sizes", count) for count in (1, cores)}
    if library and work.function:
        runners["C", 1] = InC(work, library)
    wall, used = dict.fromkeys(runners, float("inf")), dict.fromkeys(runners, float("inf"))
    for i in range(REPEAT):
        for key, runner in runners.items():
            taken = runner.run()
            wall[key], used[key] = min(wall[key], taken[0]), min(used[key], taken[1])
        results = [runner.results() for runner in runners.values()] if not i else []
        for result in results:
            for a, b in zip(result, results[0], strict=True):
                if not np.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True):
                    raise SystemExit(f"{work.name}: the variants do not agree")
    row = {
        "workload": work.name,
        "memory_seconds": used["memory", 1],
        "full_seconds": used["full", 1],
        "full_over_memory_time": used["full", 1] / used["memory", 1],
        "speed_up": wall["memory", 1] / wall["memory", cores],
    }
    if work.multiply_adds:
        seconds = {"c": used.get(("C", 1))}
        for kind in ("memory", "sizes", "full"):
            seconds |= {kind: used[kind, 1], f"{kind}_all_cores": wall[kind, cores]}
        row |= {"multiply_adds": work.multiply_adds}
        row |= {name: work.multiply_adds / s / 1e9 for name, s in seconds.items() if s}
    if "c" in row:
        row |= {"ratio_to_c": row["memory"] / row["c"], "sizes_ratio_to_c": row["sizes"] / row["c"]}
    return row


def lines(row: dict, naive: float | None) -> list[str]:
    """A row as text. naive: the rate of the naive gradient's loops in C."""
    longer = f"{row['full_over_memory_time']:5.1f}x the time of memory"
    if "memory" not in row:
        memory, full = 1e3 * row["memory_seconds"], 1e3 * row["full_seconds"]
        return [f"{row['workload']:16} memory {memory:7.2f} ms   full {full:8.2f} ms{longer}"]
    text = [
        f"\n{row['workload']}",
        f"  memory checks   one core {row['memory']:6.2f}   all cores {row['memory_all_cores']:6.2f}"
        f"   speed-up {row['speed_up']:.2f}",
        f"  for its sizes   one core {row['sizes']:6.2f}   all cores {row['sizes_all_cores']:6.2f}",
        f"  full checks     one core {row['full']:6.2f}   all cores {row['full_all_cores']:6.2f}{longer}",
    ]
    if "c" not in row:
        return [*text, "  same loops in C: no C compiler on this machine"]
    text.append(
        f"  same loops in C one core {row['c']:6.2f}   memory checks reach {row['ratio_to_c']:.2f} of it,"
        f" for its sizes {row['sizes_ratio_to_c']:.2f}"
    )
    if naive and naive != row["c"]:
        shares = row["memory"] / naive, row["sizes"] / naive
        text.append("  of the naive gradient's loops in C: {:.2f}, for its sizes {:.2f}".format(*shares))
    return text


@click.command()
@click.option(
    "--only", multiple=True, type=click.Choice(list(WORKLOADS)), help="Measure this; may be repeated."
)
@click.option(
    "--json", "target", metavar="FILE|-", help="Write the figures as JSON to FILE, or to standard output."
)
def main(only: tuple[str, ...], target: str | None) -> None:
    """Measure the virtual GPU on this machine."""
    cores = available_cores()
    library, rows = compile_c(), []
    if target != "-":
        print(f"10^9 multiply-adds per second, best of {REPEAT}; {cores} cores")
    for name, work in WORKLOADS.items():
        if not only or name in only:
            rows.append(measure(work(), cores, library))
            if target != "-":
                print(
                    "\n" * (name == next(iter(SAMPLES))) + "\n".join(lines(rows[-1], rows[0].get("c"))),
                    flush=True,
                )
    report = {
        "machine": platform.processor() or platform.machine(),
        "cores": cores,
        "unit": "10^9 multiply-adds/s",
        "python": platform.python_version(),
        "rows": rows,
    }
    if target == "-":
        json.dump(report, sys.stdout, indent=2)
        print()
    elif target:
        Path(target).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
