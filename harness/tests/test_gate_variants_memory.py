"""The gates of puzzles 23 to 27, 33 and 34: other good designs pass; costs that lessons predict are counted.

That the rung below fails, with the line that costs most, is a mutant of each puzzle: test_grade_puzzles.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import harness
from harness.checkout import Course
from harness.grade import Options, grade_file
from harness.inputs import make_inputs

from .virtual import K, run

COURSE = Course(Path(harness.__file__).resolve().parent.parent)


def edited(puzzle_id: str, *pairs: tuple[str, str]) -> str:
    """The solution with texts replaced, each of which it has once."""
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
}  # fmt: skip


@pytest.mark.parametrize(("number", "design"), DESIGNS)
def test_another_good_design_passes(number, design, tmp_path):
    path = tmp_path / "kernel.cu"
    path.write_text(edited(number, *DESIGNS[number, design]))
    verdict = grade_file(COURSE.load(number), path, Options("cpu"))
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
