"""The gates of puzzles 18 to 35: other good designs pass; costs that lessons predict are counted.

That the rung below fails, and so does what only looks like the rung, is a mistake of each puzzle: test_check.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from backwarp.course.checkout import Course
from backwarp.course.inputs import make_inputs
from backwarp.grading.grade import Options, grade_file
from tests import ROOT, sampled
from tests.devices.virtual.launches import K, run

COURSE = Course(ROOT)


def edited(puzzle_id: str, *pairs: tuple[str, str]) -> str:
    """The solution with texts replaced; each must occur exactly once."""
    text = COURSE.load(puzzle_id).solution_path.read_text(encoding="utf-8")
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


PRODUCT_23 = """    float sum = 0.0f;
    for (int i = lane; i < n_in; i += 32) {
        sum += input[b * n_in + i] * weights[o * n_in + i];
    }
"""
SHARE_19 = """    for (int i = tid; i < batch * plane; i += blockDim.x) {
        int b = i / plane;
        sum += grad_output[(b * C_out + k) * plane + i % plane];
    }
"""
FOURS_19 = """    for (int i = 4 * tid; i < batch * plane; i += 4 * blockDim.x) {
        float4 v = *(const float4*)&grad_output[(i / plane * C_out + k) * plane + i % plane];
        sum += v.x + v.y + v.z + v.w;
    }
"""
TREE_19 = """        if (tid < n / 2) part[tid] += part[tid + half];
        __syncthreads();
"""
PATCH_28 = """            columns[row * width + column] = pixel;
"""
#: of 27: not expanded in place, the kernel is compiled in a third of the time
SHORT = [(f"__device__ {f}", f"__noinline__ __device__ {f}") for f in ("float4 load4", "void store4")]
#: (puzzle, design) -> the texts of the solution that differ
DESIGNS = {
    ("23", "four neighbouring floats per lane"): [
        (PRODUCT_23, """    float sum = 0.0f;
    if (n_in % 4 == 0) {
        const float4* x = reinterpret_cast<const float4*>(input + b * n_in);
        const float4* w = reinterpret_cast<const float4*>(weights + o * n_in);
        for (int i = lane; i < n_in / 4; i += 32) {
            float4 p = x[i], q = w[i];
            sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
        }
    } else {
        for (int i = lane; i < n_in; i += 32) sum += input[b * n_in + i] * weights[o * n_in + i];
    }
"""),
    ],
    ("23", "every lane has the sum"): [
        ("__shfl_down_sync", "__shfl_xor_sync"),
        ("if (lane == 0) output", "if (lane == 31) output"),
    ],
    ("24", "taller tiles"): [("int HEIGHT = 8", "int HEIGHT = 16")],
    ("24", "copied by number"): [
        ("for (int i = y; i < down && top + i < H; i += HEIGHT) {",
         "for (int n = y * WIDTH + x; n < down * across; n += WIDTH * HEIGHT) {"),
        ("for (int j = x; j < across && left + j < W; j += WIDTH) {",
         "int i = n / across, j = n % across; if (top + i < H && left + j < W) {"),
    ],
    ("25", "words of a row exchanged"): [
        ("tile[TILE][TILE + 1]", "tile[TILE][TILE]"),
        ("tile[i][threadIdx.x] =", "tile[i][threadIdx.x ^ i] ="),
        ("= tile[threadIdx.x][i]", "= tile[threadIdx.x][i ^ threadIdx.x]"),
    ],
    ("25", "turned while it is read"): [
        ("tile[i][threadIdx.x] =", "tile[threadIdx.x][i] ="),
        ("= tile[threadIdx.x][i]", "= tile[i][threadIdx.x]"),
    ],
    ("25", "five words too many"): [("tile[TILE][TILE + 1]", "tile[TILE][TILE + 5]")],
    ("25", "16 rows of threads"): [("int HEIGHT = 8", "int HEIGHT = 16")],
    ("26", "larger tiles"): [("int TILE = 16", "int TILE = 32")],
    ("26", "both tiles twice, one barrier"): [
        ("a[TILE][TILE], b[TILE][TILE];", "as[2][TILE][TILE], bs[2][TILE][TILE];"),
        ("a[y][x] = row", "auto &a = as[start / TILE % 2], &b = bs[start / TILE % 2];\n        a[y][x] = row"),
        ("        __syncthreads();  // nobody needs them any more\n", ""),
    ],
    ("27", "4 x 4 sums per thread"): [
        ("int TM = 8", "int TM = 4"), ("int TN = 8", "int TN = 4"), *SHORT,
    ],
    ("27", "taken from the tiles one by one"): [
        ("*reinterpret_cast<float4*>(&p[i]) = *reinterpret_cast<float4*>(&a[k][i * BM / TM + 4 * y]);",
         "for (int e = 0; e < 4; e++) p[i + e] = a[k][i * BM / TM + 4 * y + e];"),
        ("*reinterpret_cast<float4*>(&q[j]) = *reinterpret_cast<float4*>(&b[k][j * BN / TN + 4 * x]);",
         "for (int e = 0; e < 4; e++) q[j + e] = b[k][j * BN / TN + 4 * x + e];"),
        *SHORT,
    ],
    ("34", "two buffers, CUDA's own functions, zeros copied after the last tile"): [
        ("if (next < steps) {", "{"),
        ("int STAGES = 3", "int STAGES = 2"), ('"async.cuh"', "<cuda_pipeline.h>"),
        ("commit_copies()", "__pipeline_commit()"),
        ("wait_copies<STAGES - 2>()", "__pipeline_wait_prior(STAGES - 2)"),
        ("copy_async(&filters[to][y][x], &weights[k * rows + i], k < C_out && i < rows)",
         "__pipeline_memcpy_async(&filters[to][y][x], &weights[k * rows + i], 4, k < C_out && i < rows ? 0 : 4)"),
        ("copy_async(&patches[to][y][x], &input[((b * C_in + c) * H + h) * W + w], inside)",
         "__pipeline_memcpy_async(&patches[to][y][x], &input[((b * C_in + c) * H + h) * W + w], 4, inside ? 0 : 4)"),
    ],
    ("33", "smaller tiles, whole images in the ring"): [
        ("int TILE = 16", "int TILE = 8"), ("int ROWS = 8", "int ROWS = 64"), ("int THREADS = 128", "int THREADS = 96"),
    ],
    ("26", "an unused column"): [
        ("a[TILE][TILE], b[TILE][TILE];", "a[TILE][TILE + 1], b[TILE][TILE + 1];"),
    ],
    ("18", "blocks numbered down the matrix"): [
        ("column = idx % across * 4", "row = idx % down * 4"),
        ("row = idx / across % down * 4", "column = idx / down % across * 4"),
    ],
    ("19", "four neighbouring floats per thread"): [(SHARE_19, FOURS_19)],
    ("19", "read, wait, write in every step of the tree"): [
        (TREE_19, "        float other = tid < n / 2 ? part[tid + half] : 0.0f;\n        __syncthreads();\n"
                  "        if (tid < n / 2) part[tid] += other;\n        __syncthreads();\n"),
    ],
    ("20", "four neighbouring floats per thread"): [
        (SHARE_19.replace("tid", "threadIdx.x"), FOURS_19.replace("tid", "threadIdx.x")),
    ],
    ("20", "every warp adds up the slots"): [
        ("if (warp == 0) {", "{"), ("if (lane == 0) grad_bias[k] = sum;", "if (threadIdx.x == 0) grad_bias[k] = sum;"),
    ],
    ("21", "a warp per row"): [
        ("for (int i = threadIdx.x; i < batch * H_out * W_out; i += blockDim.x) {",
         "for (int i = warp * W_out + lane; lane < W_out && i < batch * H_out * W_out; i += blockDim.x / 32 * W_out) {"),
    ],
    ("22", "image after image"): [
        ("for (int i = first * H_out * W_out + threadIdx.x; i < last * H_out * W_out; i += blockDim.x) {",
         "for (int b = first; b < last; b++) for (int i = threadIdx.x; i < H_out * W_out; i += blockDim.x) {"),
        ("        int b = i / (W_out * H_out);\n", ""),
    ],
    ("23", "the input shared by the warps of the block"): [
        ("    if (o >= n_out) return;\n", ""),
        (PRODUCT_23, """    __shared__ float row[1024];
    for (int i = threadIdx.y * 32 + lane; i < n_in; i += 32 * blockDim.y) row[i] = input[b * n_in + i];
    __syncthreads();
    if (o >= n_out) return;
    float sum = 0.0f;
    for (int i = lane; i < n_in; i += 32) sum += row[i] * weights[o * n_in + i];
"""),
    ],
    ("24", "wider tiles"): [("int WIDTH = 32", "int WIDTH = 64")],
    ("24", "zeros in the tile, every thread computes"): [
        ("i < down && top + i < H;", "i < down;"), ("j < across && left + j < W;", "j < across;"),
        ("= input[((b * C_in + c) * H + top + i) * W + left + j];",
         "= top + i < H && left + j < W ? input[((b * C_in + c) * H + top + i) * W + left + j] : 0.0f;"),
        ("r < F && has_output", "r < F"),
    ],
    ("25", "rows rotated"): [
        ("tile[TILE][TILE + 1]", "tile[TILE][TILE]"), ("tile[i][threadIdx.x] =", "tile[i][(threadIdx.x + i) % TILE] ="),
        ("= tile[threadIdx.x][i]", "= tile[threadIdx.x][(i + threadIdx.x) % TILE]"),
    ],
    ("25", "one row of threads"): [("int HEIGHT = 8", "int HEIGHT = 1")],
    ("26", "tile of A turned and padded"): [
        ("a[TILE][TILE], b", "a[TILE][TILE + 1], b"), ("a[y][x] = row", "a[x][y] = row"), ("a[y][k]", "a[k][y]"),
    ],
    ("27", "128 x 128"): [("int BM = 64", "int BM = 128"), ("int BN = 64", "int BN = 128"), *SHORT],
    ("27", "deeper tiles, words of a row exchanged"): [
        ("int BK = 8", "int BK = 16"), ("a[BK][BM + 4]", "a[BK][BM]"), *SHORT,
        ("a[k][m] = v.x, a[k + 1][m] = v.y, a[k + 2][m] = v.z, a[k + 3][m] = v.w;",
         "int z = m ^ k / 4 * 8; a[k][z] = v.x, a[k + 1][z] = v.y, a[k + 2][z] = v.z, a[k + 3][z] = v.w;"),
        ("&a[k][i * BM / TM + 4 * y]", "&a[k][i * BM / TM + 4 * y ^ k / 4 * 8]"),
    ],
    ("28", "image after image, four patches a thread"): [
        ("    int idx = blockIdx.x * blockDim.x + threadIdx.x;\n",
         "    for (int idx = blockIdx.x * blockDim.x * 4 + threadIdx.x, n = 0; n < 4; n++, idx += blockDim.x) {\n"),
        ("if (idx >= C_in * width) return;", "if (idx >= C_in * width) continue;"), (PATCH_28, PATCH_28 + "    }\n"),
    ],
    ("29", "padding adds zeros"): [
        ("if (right < 0 || right % stride_w != 0 || right / stride_w >= W_out) continue;",
         "bool there = right >= 0 && right % stride_w == 0 && right / stride_w < W_out;"),
        ("sum += grad_columns[row * width + column];", "sum += there ? grad_columns[row * width + column] : 0.0f;"),
    ],
    **{(n, "larger tiles"): [("int TILE = 16", "int TILE = 32")] for n in ("30", "31", "32", "34")},
    ("32", "words of a row exchanged"): [
        ("windows[TILE][TILE + 1]", "windows[TILE][TILE]"), ("windows[y][x] = i < last", "windows[y][x ^ y] = i < last"),
        ("windows[x][n]", "windows[x][n ^ x]"),
    ],
    ("30", "padded tiles, zeros first"): [
        ("filters[TILE][TILE], patches[TILE][TILE]", "filters[TILE][TILE + 1], patches[TILE][TILE + 1]"),
        ("filters[y][x] = k < C_out && start + x < rows ? weights[k * rows + start + x] : 0.0f;",
         "filters[y][x] = 0.0f;\n        if (k < C_out && start + x < rows) filters[y][x] = weights[k * rows + start + x];"),
        ("patches[y][x] = inside ? input[((b * C_in + c) * H + h) * W + w] : 0.0f;",
         "patches[y][x] = 0.0f;\n        if (inside) patches[y][x] = input[((b * C_in + c) * H + h) * W + w];"),
    ],
    ("32", "padded tiles, zeros first"): [
        ("grads[TILE][TILE],", "grads[TILE][TILE + 1],"),
        ("grads[y][x] = i < last && k < C_out ? grad_output[((b * C_out + k) * H_out + p) * W_out + q] : 0.0f;",
         "grads[y][x] = windows[y][x] = 0.0f;\n"
         "        if (i < last && k < C_out) grads[y][x] = grad_output[((b * C_out + k) * H_out + p) * W_out + q];"),
        ("windows[y][x] = i < last && inside ? input[((b * C_in + c) * H + h) * W + w] : 0.0f;",
         "if (i < last && inside) windows[y][x] = input[((b * C_in + c) * H + h) * W + w];"),
    ],
    ("33", "larger blocks"): [("int TILE = 16", "int TILE = 8"), ("int THREADS = 128", "int THREADS = 256")],
    ("35", "longer rows, pieces rotated"): [
        ("int PAD = 4", "int PAD = 12"), ("(piece ^ row % 8) * 8", "(piece + row) % 8 * 8"),
    ],
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize(("number", "design"), sampled(DESIGNS))
def test_another_good_design_passes(number, design, tmp_path):
    path = tmp_path / "kernel.cu"
    path.write_text(edited(number, *DESIGNS[number, design]))
    puzzle = COURSE.load(number)
    cases = tuple(c for c in puzzle.cases if c.name in {gate.case for gate in puzzle.gates})
    verdict = grade_file(replace(puzzle, cases=cases), path, Options("cpu", optimised=False))
    assert verdict.passed and verdict.gates, verdict.lines


def test_what_the_first_kernel_of_23_predicts_is_what_is_counted():
    puzzle = COURSE.load("23")
    patterns = make_inputs(puzzle, puzzle.cases[0], puzzle.kernels[0])
    predicted = puzzle.kernels[0].reference(patterns, puzzle.full_dims(puzzle.cases[0]))
    body = "{ y[0] = x[start + threadIdx.x * stride]; }"
    source = f"{K}walk(const float* x, float* y, int start, int stride) {body}"
    memory, out = np.ones(8192, np.float32), np.ones(1, np.float32)
    for sectors, *pattern in zip(predicted, patterns["start"], patterns["stride"], strict=True):
        assert run(source, memory, out, *pattern, checks="count").counters["global_load_sectors"] == sectors
