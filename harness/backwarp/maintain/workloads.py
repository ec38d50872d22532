"""What bench_virtual measures besides the course's kernels: two products, a gradient, samples of other
kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tests import samples

from ..course.checkout import open_course


@dataclass
class Workload:
    """What to launch from a file.

    arguments: the C function's arguments, by name: arrays and sizes. torch: (torch, tensors by name, sizes)
    -> outputs by name. constants: module variables by the names of their arrays.
    """

    name: str
    source: str
    job: samples.Job
    multiply_adds: int = 0
    function: str = ""
    arguments: str = ""
    torch: Callable[[object, Mapping, Mapping], dict] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    constants: tuple[str, ...] = ()
    include_dirs: tuple = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return (*self.job.outputs, *self.job.state)


TILED = """
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

REGISTERS = """
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

C = """
int lanes = LANES;
float peak(long n) {  // 12 sums, as many as hide the latency of a multiply-add
    typedef float vector __attribute__((vector_size(LANES * 4)));
    vector sum[12], x, y;
    for (int j = 0; j < LANES; j++) {
        x[j] = 0.999f;
        y[j] = 0.001f;
        for (int k = 0; k < 12; k++) sum[k][j] = k;
    }
    for (long i = 0; i < n; i++)
        for (int k = 0; k < 12; k++) sum[k] = sum[k] * x + y;
    float all = 0;
    for (int k = 0; k < 12; k++) all += sum[k][k % LANES];
    return all;
}
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


#: samples of other kinds, in sizes that take some milliseconds
SAMPLES = {
    "transpose": dict(height=384, width=400),
    "stencil_3d": dict(nx=80, ny=64, nz=24),
    "online_softmax": dict(rows=64, columns=1500),
    "histogram": dict(n=150_000),
    "block_scan": dict(n=32_000),
    "bitonic_sort": dict(n=4096),
}


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
    return Workload(name, source, job, n**3, "matmul", "a b c n", sizes=dict(n=n))


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
    arguments = f"grad_output input out {' '.join(dims)}"
    count = 64 * 16 * 6 * 25 * p * q
    return Workload("naive weight gradient", source, job, count, "weights", arguments, sizes=dims)


def sample(name: str) -> Workload:
    return Workload(name, samples.SAMPLES[name].source, samples.SAMPLES[name].job(SAMPLES[name]))
