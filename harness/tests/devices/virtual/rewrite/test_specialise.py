"""Kernels compiled for the values of their parameters: exactly the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices.virtual.ptx import parse as ptx
from backwarp.devices.virtual.rewrite import specialise
from tests.devices.virtual.launches import K, device

SOURCE = f"""
{K}sums(const float* x, float* out, int n, unsigned step, long long from, float factor, short small, int d) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (unsigned j = i % step; j < n; j += step) sum += factor * x[j] / (i + small);
    int wide = d * n, k = (i - 9) * 0x7fffff1;
    out[i] = sum + from;
    out[50 + i] = k / d + k % d;
    out[100 + i] = (unsigned)k / wide + k % wide;
}}
{K}other(float* out, int n) {{ out[n] = n; }}
"""
COUNTING = f"""
__device__ int calls;
{K}count(int* out, int n) {{ out[n] = ++calls; }}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("step", "begin", "d"), [(3, -5, 12), (7, 1 << 40, -7), (2**32 - 1, -(1 << 40), -1), (1, 0, 0)]
)
def test_a_fixed_kernel_gives_the_same_bits(step, begin, d):
    dev = device("memory")
    x = dev.array(np.random.default_rng(0).standard_normal(50).astype(np.float32))
    outs = [dev.empty((150,), np.float32) for _ in range(2)]
    kernel = dev.compile(SOURCE).get_function("sums")
    rest = np.int32(50), np.uint32(step), np.int64(begin), np.float32(0.3), np.int16(-60), np.int32(d)
    fixed = kernel.fixed((x, outs[1], *rest))
    assert fixed.module.functions == kernel.module.functions and list(fixed.module.lowered.kernels) == [
        "sums"
    ]
    kernel(2, 32, (x, outs[0], *rest))
    fixed(2, 32, (x, outs[1], *rest))
    assert outs[0].get().tobytes() == outs[1].get().tobytes()


def test_fixed_values_are_in_the_code_and_others_are_read():
    dev = device("memory")
    module = ptx.parse(dev.compile(SOURCE).compiled.text, "kernel.cu")
    specialise.run(module, "sums", (None, None, 50, 7, -1, None, -2, 12))
    body = [i for i in module.functions["sums"].body if isinstance(i, ptx.Instruction)]
    assert list(module.functions) == ["sums"]
    read = {i.operands[1] for i in body if i.opcode.startswith("ld.param")}
    assert read == {f"[sums_param_{n}]" for n in (0, 1, 5, 6)}  # pointers, the float, and the short
    assert {i.operands[1] for i in body if i.base == "mov"} >= {"50", "7", str(2**64 - 1)}
    assert {i.operands[2] for i in body if i.base in ("div", "rem")} >= {"7", "12", "600"}


def test_a_kernel_with_variables_that_others_share_stays_as_it_is():
    dev = device("memory")
    kernel = dev.compile(COUNTING).get_function("count")
    assert kernel.fixed((dev.empty((2,), np.int32), np.int32(1))) is kernel
