"""curand_kernel.h: Philox against Random123's known answers, XORWOW against what NVIDIA's samples print and against its
definition."""

from __future__ import annotations

import numpy as np
import pytest

from tests.devices.virtual.launches import device, zeros

SOURCE = """#include <curand_kernel.h>
#define KERNEL(T, name) extern "C" __global__ void name(T* out)
#define i threadIdx.x
KERNEL(uint4, known) {
    uint4 counters[3] = {make_uint4(0, 0, 0, 0), make_uint4(~0u, ~0u, ~0u, ~0u),
                         make_uint4(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344)};
    uint2 keys[3] = {make_uint2(0, 0), make_uint2(~0u, ~0u), make_uint2(0xa4093822, 0x299f31d0)};
    if (i < 3) out[i] = curand_Philox4x32_10(counters[i], keys[i]);
}
KERNEL(float, sample) {
    curandState state;
    curand_init(1234, i, 0, &state);
    out[i] = curand_uniform(&state);
}
template <class State> __device__ void skips(unsigned* out) {
    State a, b, c;
    curand_init(42, 3, 0, &a);
    for (int k = 0; k < 1027; k++) curand(&a);
    curand_init(42, 3, 1027, &b);
    curand_init(42, 0, 1000, &c);
    skipahead_sequence(3, &c);
    skipahead(27, &c);
    unsigned x = curand(&a);
    out[i] = x != curand(&b) || x != curand(&c) || curand(&a) != curand(&b);
}
KERNEL(unsigned, skips_xorwow) { skips<curandState>(out); }
KERNEL(unsigned, skips_philox) { skips<curandStatePhilox4_32_10_t>(out); }
template <class State> __device__ void moments(double* out) {
    State state;
    curand_init(7, i, 0, &state);
    double sums[6] = {};
    for (int k = 0; k < 400; k++) {
        double u = curand_uniform(&state), n = curand_normal(&state), d = curand_normal_double(&state);
        double values[6] = {u, u * u, n, n * n, d, d * d};
        for (int j = 0; j < 6; j++) sums[j] += values[j] / (400 * 32);
        if (!(u > 0 && u <= 1)) __trap();
    }
    for (int j = 0; j < 6; j++) atomicAdd(out + j, sums[j]);
}
KERNEL(double, moments_xorwow) { moments<curandStateXORWOW_t>(out); }
KERNEL(double, moments_philox) { moments<curandStatePhilox4_32_10_t>(out); }
KERNEL(unsigned, sizes) { unsigned s[] = {sizeof(curandState_t), sizeof(curandStatePhilox4_32_10_t)}; out[i] = s[i % 2]; }
KERNEL(float, fours) {
    curandStatePhilox4_32_10_t a, b;
    curand_init(5, i, 2, &a);
    curand_init(5, i, 2, &b);
    float4 four = curand_uniform4(&a), normal = curand_normal4(&a);
    bool same = four.x == curand_uniform(&b);
    for (int k = 0; k < 3; k++) curand(&b);
    float2 pair = curand_normal2(&b);
    out[i] = same && normal.x == pair.x && normal.y == pair.y && curand_log_normal(&b, 0, 1) > 0;
}
"""


#: with full checks every night: the header's code takes seconds to compile
@pytest.fixture(params=[pytest.param("full", marks=pytest.mark.soak), "memory"])
def launch(request):
    module = device(request.param).compile(SOURCE)

    def run(name: str, count: int, dtype) -> np.ndarray:
        out = zeros(count, dtype, checks=request.param)
        assert not module.get_function(name)(1, 32, (out,)).notes
        return out.get()

    return run


def test_numbers(launch):
    assert [f"{x:08x}" for x in launch("known", 12, np.uint32)] == (
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8 408f276d 41c83b0e a20bc7c6 6d5451fd d16cfe09 94fdcceb 5001e420 24126ea1".split()
    )
    # cuRAND's sample for XORWOW: seed 1234, the first number of each of ten subsequences
    printed = "0.145468 0.820181 0.550399 0.294830 0.914733 0.868979 0.321921 0.782857 0.011302 0.285450"
    assert " ".join(f"{x:.6f}" for x in launch("sample", 32, np.float32)[:10]) == printed
    assert launch("sizes", 32, np.uint32)[:2].tolist() == [48, 64]
    assert launch("fours", 32, np.float32).all()


@pytest.mark.parametrize("generator", ["xorwow", "philox"])
def test_places_in_the_sequence_and_distributions(launch, generator):
    assert not launch(f"skips_{generator}", 32, np.uint32).any()
    # means and mean squares of 12800 numbers, within five standard errors
    expected, width = [1 / 2, 1 / 3, 0, 1, 0, 1], [0.29, 0.3, 1, 1.42, 1, 1.42]
    errors = np.abs(launch(f"moments_{generator}", 6, np.float64) - expected) / width * np.sqrt(12800)
    assert (errors < 5).all()
