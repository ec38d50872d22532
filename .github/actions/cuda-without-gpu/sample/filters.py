"""Two filters on CuPy arrays, whose kernels are in a file and in a string."""

from pathlib import Path

import cupy

_MODULE = cupy.RawModule(code=Path(__file__).with_name("filters.cu").read_text(), options=("-std=c++17",))
_THRESHOLD = cupy.RawKernel(
    r"""
    extern "C" __global__ void threshold(const float* x, bool* above, float limit, int n) {
        int i = blockDim.x * blockIdx.x + threadIdx.x;
        if (i < n) above[i] = x[i] > limit;
    }
    """,
    "threshold",
)


def blur(x):
    y = cupy.empty_like(x)
    _MODULE.get_function("blur")((-(-x.size // 64),), (64,), (x, y, x.size))
    return y


def threshold(x, limit):
    above = cupy.empty(x.shape, dtype=bool)
    _THRESHOLD((-(-x.size // 256),), (256,), (x, above, cupy.float32(limit), x.size))
    return above
