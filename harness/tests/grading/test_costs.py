"""Why a line costs much: read from its requests, with the change that fits."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices.virtual.explain.metrics import Request
from backwarp.grading.costs import reason
from tests.devices.virtual.launches import K, device, line_of

TILE = f"""constexpr int COLUMNS = 64;
{K}k(float* out, const float* in) {{
    __shared__ __align__(16) float tile[16][COLUMNS + 4];
    int t = threadIdx.x, row = t / 4, column = t % 4 * 4;
    for (int j = 0; j < 4; j++) tile[column + j][row] = in[t];  // STORED
    __syncthreads();
    WIDE v = *(WIDE*)&tile[t / 16][t % 16 * PARTS];
    out[t] = SUM;
}}"""


def counted(source: str, *arrays, block=64, grid=1) -> list[Request]:
    dev = device("count")
    dev.keep_requests = 1 << 15
    try:
        return dev.compile(source).get_function("k")(grid, block, arrays).requests
    finally:
        dev.keep_requests = 0


def floats(n: int):
    return device("count").array(np.zeros(n, np.float32))


@pytest.mark.parametrize(
    ("wide", "total", "says"),
    [
        (
            "float4",
            "v.x + v.y + v.z + v.w",
            "Longer rows of tile do not help (its reads of 4 words at once need rows that are a multiple of 4 words",
        ),
        ("float2", "v.x + v.y", "with rows of 70 words instead of 68 in tile, 8 of the conflicts are gone."),
    ],
)
def test_conflicts_that_longer_rows_remove_and_others(wide, total, says):
    """Four steps of a row, 4 rows of the tile apart: 272 words, the half of the banks."""
    source = TILE.replace("WIDE", wide).replace("PARTS", wide[-1]).replace("SUM", total)
    found = counted(source, floats(64), floats(64))
    told = reason("shared_conflicts", line_of(source, "STORED"), source, found, 8)
    assert told.startswith(
        "In line 5, lanes 0 and 2 of a warp want different words of one bank, 544 words apart"
    )
    assert says in told


def test_elements_that_are_stored_twice():
    source = f"""{K}k(float* out) {{
    out[threadIdx.x] = 0;  // FIRST
    __syncthreads();
    if (threadIdx.x < 40) out[threadIdx.x] = 1;
}}"""
    told = reason("global_store_sectors", line_of(source, "FIRST"), source, counted(source, floats(64)), 1)
    assert told == (
        "40 of 64 elements are stored more than once, by lines 2 and 4: find the value first, then store it once."
    )


def test_requests_of_few_lanes():
    source = f"""{K}k(float* out) {{
    if (threadIdx.x % 32 == 5) out[threadIdx.x] = 1;  // ONE
}}"""
    told = reason("global_requests", line_of(source, "ONE"), source, counted(source, floats(64)), 1)
    assert told.startswith("In the 2 requests of line 2, 1 of 32 lanes takes part on average")


def test_a_tile_that_is_too_small():
    source = f"""constexpr int SIDE = 8;
{K}k(float* out, const float* in) {{
    __shared__ float tile[SIDE][SIDE];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * SIDE + threadIdx.x];  // LOADED
    __syncthreads();
    out[(blockIdx.x * SIDE + threadIdx.y) * SIDE + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}}"""
    found = counted(source, floats(64 * 6), floats(64), block=(8, 8), grid=6)
    told = reason("global_bytes", line_of(source, "LOADED"), source, found, 1)
    assert (
        told
        == "Line 4 reads each element 6 times, once for every tile that needs it: larger tiles share more (SIDE = 8)."
    )


def test_a_vector_that_the_compiler_split():
    source = f"""{K}k(float* out, const float* in) {{
    long long i = threadIdx.x;
    *(float4*)(out + 4 * i) = make_float4(in[i], 1, 2, 3);  // VECTOR
}}"""
    whole = counted(source, floats(256), floats(64))
    line = line_of(source, "VECTOR")
    assert reason("global_requests", line, source, whole, 1) == ""
    split = [Request(line, "store", "global", 4, 0, 0, np.arange(32) * 16) for _ in range(4)]
    assert reason("global_requests", line, source, split, 1) == (
        f"Line {line} names a float4, but the compiler made 4 accesses of 4 bytes of it. Its address is computed from long long"
        " indices (i in line 2): with int it stays whole."
    )


def test_what_is_done_well_has_no_reason():
    source = f"{K}k(float* out, const float* in) {{ out[threadIdx.x] = in[threadIdx.x]; }}"
    found = counted(source, floats(64), floats(64))
    assert reason("global_bytes", 1, source, found, 1) == reason("bank_conflicts", 1, source, found, 1) == ""


SUMS = f"""{K}k(float* out, const float* in) {{
    __shared__ float total;
    __shared__ int own;
    float sum = in[threadIdx.x];
    if (threadIdx.x == 0) total = own = 0;
    __syncthreads();
    for (int n = 16; n; n /= 2) sum += __shfl_down_sync(0xffffffff, sum, n);
    if (WHO) {{
        while (atomicCAS(&own, 0, 1)) {{}}
        total += sum;  // ADDED
        atomicExch(&own, 0);
    }}
    __syncthreads();
    if (threadIdx.x == 0) *out = total;
}}"""


@pytest.mark.parametrize(("who", "says"), [("threadIdx.x % 32 == 0", True), ("threadIdx.x % 16 == 0", False)])
def test_warps_that_add_one_number_each_are_not_told_to_add_up_within_the_warp(who, says):
    source = SUMS.replace("WHO", who)
    found = counted(source, floats(1), floats(64))
    told = reason("shared_load_requests", line_of(source, "ADDED"), source, found, 1)
    assert ("a place of its own" in told) == says and bool(told) == says
