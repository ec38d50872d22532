"""How fast the virtual GPU runs: `python -m harness.bench_virtual [--json FILE|-]`.

Multiply-adds per second of two kernels on one core and on all, with "memory" and "full" checks, and, where a C
compiler is on the machine, as a ratio to the same loops in C (-O3 -march=native) measured in the same run. Each
figure is the best of several launches, the runs of C and of the kernels taken in turn.
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
from pathlib import Path

import click
import numpy as np

from .checkout import open_course
from .devices.virtual.device import VirtualGPU, available_cores

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

_C = """
void weights(const float* grad_output, const float* input, float* grad_weights, int batch, int C, int H, int W,
             int K, int F) {
    int P = H - F + 1, Q = W - F + 1;
    for (int k = 0; k < K; k++) for (int c = 0; c < C; c++) for (int r = 0; r < F; r++) for (int s = 0; s < F; s++) {
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


@dataclass
class Workload:
    """A kernel, its launch, its inputs and output, and the C function of the same arguments."""

    name: str
    source: str
    kernel: str
    function: str
    grid: object
    block: object
    inputs: tuple[np.ndarray, ...]
    output: tuple[int, ...]
    scalars: tuple[int, ...]
    multiply_adds: int


def weight_gradient() -> Workload:
    """Puzzle 09's solution on LeNet's second layer: `64,6,12,12 -> 16,5x5`, 75 blocks."""
    n, c, h, w, k, f = 64, 6, 12, 12, 16, 5
    p, q = h - f + 1, w - f + 1
    source = (open_course().root / "solutions" / "09_conv2d_backward_weights" / "kernel.cu").read_text()
    rng = np.random.default_rng(0)
    arrays = tuple(rng.standard_normal(s, np.float32) for s in ((n, k, p, q), (n, c, h, w)))
    return Workload("naive weight gradient", source, "conv2d_backward_weights", "weights", -(-k * c * f * f // 32), 32,
                    arrays, (k, c, f, f), (n, c, h, w, k, f), n * k * c * f * f * p * q)  # fmt: skip


def tiled_product() -> Workload:
    """A product of two 256x256 matrices by 16x16 tiles in shared memory, 256 blocks."""
    n = 256
    rng = np.random.default_rng(0)
    arrays = tuple(rng.standard_normal((n, n), np.float32) for _ in range(2))
    return Workload("tiled matrix product", _TILED, "matmul", "matmul", (n // 16, n // 16), (16, 16), arrays,
                    (n, n), (n,), n**3)  # fmt: skip


class OnVirtualGPU:
    """One workload on one device; `run()` gives the seconds of a launch."""

    def __init__(self, work: Workload, checks: str, cores: int):
        device = VirtualGPU(checks, cores=cores)
        device.time_limit = 120
        self.work, self.kernel = work, device.compile(work.source).get_function(work.kernel)
        self.output = device.empty(work.output)
        inputs = [device.array(x) for x in work.inputs]
        self.args = (*inputs, self.output, *(np.int32(s) for s in work.scalars))

    def run(self) -> float:
        start = time.perf_counter()
        self.kernel(self.work.grid, self.work.block, self.args)
        return time.perf_counter() - start

    def result(self) -> np.ndarray:
        return self.output.get()


class InC:
    """The same loops, compiled by the machine's C compiler."""

    def __init__(self, work: Workload, library: ctypes.CDLL):
        self.out = np.zeros(work.output, np.float32)
        self.function = getattr(library, work.function)
        arrays = [x.ctypes.data_as(ctypes.c_void_p) for x in (*work.inputs, self.out)]
        self.args = (*arrays, *(ctypes.c_int(s) for s in work.scalars))

    def run(self) -> float:
        start = time.perf_counter()
        self.function(*self.args)
        return time.perf_counter() - start

    def result(self) -> np.ndarray:
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
    """Giga multiply-adds per second of every variant, and their ratios."""
    runners = {
        (checks, count): OnVirtualGPU(work, checks, count) for checks in ("memory", "full") for count in (1, cores)
    }
    if library:
        runners["C", 1] = InC(work, library)
    best = dict.fromkeys(runners, float("inf"))
    for _ in range(REPEAT):
        for key, runner in runners.items():
            best[key] = min(best[key], runner.run())
    results = [runner.result() for runner in runners.values()]
    if not all(np.allclose(r, results[0], rtol=1e-3, atol=1e-3) for r in results):
        raise SystemExit(f"{work.name}: the variants do not agree")
    rate = {key: work.multiply_adds / seconds / 1e9 for key, seconds in best.items()}
    row = {"workload": work.name, "multiply_adds": work.multiply_adds}
    for checks in ("memory", "full"):
        row[checks] = rate[checks, 1]
        row[f"{checks}_all_cores"] = rate[checks, cores]
    row["speed_up"] = rate["memory", cores] / rate["memory", 1]
    row["full_over_memory_time"] = rate["memory", 1] / rate["full", 1]
    if library:
        row["c"] = rate["C", 1]
        row["ratio_to_c"] = rate["memory", 1] / rate["C", 1]
    return row


@click.command()
@click.option("--json", "target", metavar="FILE|-", help="Write the figures as JSON to FILE, or to standard output.")
def main(target: str | None) -> None:
    """Measure the virtual GPU on this machine."""
    cores = available_cores()
    library = compile_c()
    rows = [measure(work(), cores, library) for work in (weight_gradient, tiled_product)]
    report = {"machine": platform.processor() or platform.machine(), "cores": cores, "unit": "10^9 multiply-adds/s",
              "python": platform.python_version(), "rows": rows}  # fmt: skip
    if target == "-":
        json.dump(report, sys.stdout, indent=2)
        print()
        return
    if target:
        Path(target).write_text(json.dumps(report, indent=2) + "\n")
    print(f"10^9 multiply-adds per second, best of {REPEAT}; {cores} cores")
    for row in rows:
        print(f"\n{row['workload']}")
        print(f"  memory checks   one core {row['memory']:6.2f}   all cores {row['memory_all_cores']:6.2f}"
              f"   speed-up {row['speed_up']:.2f}")  # fmt: skip
        print(f"  full checks     one core {row['full']:6.2f}   all cores {row['full_all_cores']:6.2f}"
              f"   {row['full_over_memory_time']:.1f}x the time of memory")  # fmt: skip
        if library:
            print(f"  same loops in C one core {row['c']:6.2f}   memory checks reach {row['ratio_to_c']:.2f} of it")
        else:
            print("  same loops in C: no C compiler on this machine")


if __name__ == "__main__":
    main()
