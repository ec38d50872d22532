"""Programs whose kernels have used up their full checks: right ones stay silent, and what memory checks and the host show is named."""

from __future__ import annotations

import pytest

from backwarp.programs.run import Asked
from backwarp.report.program import document, faults, spared

from .test_pairs import PAIRS, found, marks, needs_compiler, run

LONG = """
#include <cstdio>
__device__ int times;
__global__ void work(float* a, int n) {
    for (int k = 0; k < n; k++) a[threadIdx.x] += 1;
    if (!threadIdx.x) times++;
    SLIP
}
__global__ void after(const float* a, float* b) { if (a[threadIdx.x] > 0) b[threadIdx.x] = 1; }
int main() {
    float *a, *b, host[64];
    cudaMallocManaged(&a, sizeof host);
    cudaMalloc(&b, sizeof host);
    for (int i = 0; i < 64; i++) a[i] = 0;
    for (int i = 0; i < 3; i++) work<<<1, 64>>>(a, 100000);
    after<<<1, 64>>>(a, b);
    int n = 0;
    WAIT;
    cudaMemcpyFromSymbol(&n, times, sizeof n);
    bool right = n == 3;
    for (int i = 0; i < 64; i++) right = right && a[i] == 300000;
    cudaFree(a);
    cudaFree(b);
    return !right;
}
"""


@pytest.fixture
def long(tmp_path):
    path = tmp_path / "prog.cu"
    path.write_text(LONG)
    return lambda slip="", wait="cudaDeviceSynchronize()", **how: run(
        path, macros=(f"SLIP={slip}", f"WAIT={wait}"), **how
    )


@needs_compiler
@pytest.mark.parametrize("seconds", [0, 1e-9])
def test_a_program_does_its_work_once_and_the_report_says_what_was_checked(long, seconds):
    done = long(full_seconds=seconds)
    assert found(done) == set() and done.status == 0 and done.launches == 4
    assert done.spared["work"] == (0, 3)
    asked = Asked(PAIRS, full_seconds=seconds)
    assert "work" in spared(done, asked)[0]
    assert {"kernel": "work", "full": 0, "launches": 3} in document(done, asked)["spared"]
    assert [f["level"] for f in faults(done, asked)] == ["note"]


@needs_compiler
def test_full_checks_that_are_asked_for_never_end(long):
    done = long(checks="full", full_seconds=0)
    assert done.spared == {} and done.status == 0 and not spared(done, Asked(PAIRS))


@needs_compiler
def test_what_memory_checks_find_is_found(long):
    assert (7, "out-of-bounds") in found(long("if (n) a[threadIdx.x + 1] = 0;", full_seconds=0))


@needs_compiler
def test_what_a_stopped_launch_had_touched_is_known(long):
    assert {kind for _, kind in found(long(wait="n = a[0]", full_seconds=1e-9))} == {"under-way"}


@needs_compiler
@pytest.mark.parametrize("name", ["copies", "frees", "launches", "waits", "streams", "graphs"])
def test_nobody_is_accused(name):
    path = PAIRS / f"{name}.cu"
    right = run(path, full_seconds=0)
    assert found(right) == set() and right.exit_status == 0
    wrong = {
        f
        for f in found(run(path, macros=("WRONG",), full_seconds=0))
        if f[1] not in ("unset", "full", "leak")
    }
    assert wrong <= marks(path)
