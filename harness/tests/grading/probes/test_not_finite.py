"""Where NaN and infinity arise first: kernels run on the virtual GPU."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices import open_device
from backwarp.grading.probes.not_finite import explain

SOURCE = """
extern "C" __global__ void finite(const float* x, float* y) {
    float best = -INFINITY;
    for (int i = 0; i < 3; i++) best = fmaxf(best, x[i]);
    y[0] = best;
}
extern "C" __global__ void rescaled(const float* x, float* y) {
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < 3; i++) {
        float next = fmaxf(top, x[i]);
        sum = sum * expf(next - top) + 1;
        top = next;
    }
    y[0] = sum;
}
extern "C" __global__ void grows(const float* x, float* y) {
    float sum = 0;
    for (int i = 0; i < 3; i++)
        sum += expf(x[i]);
    y[0] = logf(sum);
}
struct Running { float top, sum; };
__device__ Running scan(const float* x) {
    Running r = {-INFINITY, 0.0f};
    r.sum = r.sum * expf(1 - r.top) + x[0];
    return r;
}
extern "C" __global__ void members(const float* x, float* y) { Running r = scan(x); y[0] = logf(r.sum) + x[1]; }
__device__ float share(float part, float whole) {
    float quotient = part / whole;
    return quotient;
}
extern "C" __global__ void divides(const float* x, float* y) { y[0] = share(x[0] - 1, x[1] - 2); }
extern "C" __global__ void given(const float* x, float* y) { y[0] = x[0] > 0 ? x[0] : x[5000]; y[0] += NAN; }
extern "C" __global__ void roots(const float* x, float* y) {
    int i = threadIdx.x + 1;
    float root = logf(-2) * x[i] + sqrtf(x[i]);
    y[0] = root;
}
extern "C" __global__ void cancels(const float* x, float* y) {
    float big = INFINITY;
    y[0] = 1;
    y[0] = big - big * 2;
}
extern "C" __global__ void chooses(const float* x, float* y) {
    int n = 0;
    float none = 0, some = n == 1 ? none / none : n == 0 ? sqrtf(n - x[0]) : logf(n - x[1]), more = none / none;
    y[0] = some + more;
}
extern "C" __global__ void array(const float* x, float* y) {
    float part[2] = {x[1], 0.0f};
    for (int i = 0; i < 2; i++) part[i] *= part[i] * 1e38f;
    y[0] = part[0] + part[1];
}
"""


@pytest.fixture(scope="module")
def device():
    with open_device("cpu", checks="full") as device:
        device.quick = True
        yield device


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("finite", ""),
        (
            "rescaled",
            "nan arises first in line 11: sum = sum * expf(next - top) + 1, where sum = 0, next = 1, top = -inf. "
            "sum * expf(next - top) is 0 * inf.",
        ),
        (
            "grows",
            "inf arises first in line 19 for i = 2: sum += expf(x[i]), where sum = 10.107, x[i] = 300. "
            "expf(x[i]) is the exponential of 300, which is too large for a float.",
        ),
        (
            "members",
            "nan arises first in line 25: r.sum = r.sum * expf(1 - r.top) + x[0], where r.sum = 0, r.top = -inf, x[0] = 1. "
            "r.sum * expf(1 - r.top) is 0 * inf.",
        ),
        (
            "divides",
            "nan arises first in line 30: float quotient = part / whole, where part = 0, whole = 0. part / whole is 0 / 0.",
        ),
        ("given", "nan arises first in line 34: y[0] += NAN, where y[0] = 1."),
        (
            "roots",
            "nan arises first in line 37 for i = 1: float root = logf(-2) * x[i] + sqrtf(x[i]), where x[i] = 2. "
            "logf(-2) is the logarithm of -2, a negative number.",
        ),
        (
            "cancels",
            "nan arises first in line 43: y[0] = big - big * 2, where big = inf. big - big * 2 is inf - inf.",
        ),
        (
            "chooses",
            "nan arises first in line 47: float none = 0, some = n == 1 ? none / none : n == 0 ? sqrtf(n - x[0]) : "
            "logf(n - x[1]), more = none / none, where none = 0, x[0] = 1. "
            "sqrtf(n - x[0]) is the square root of -1, a negative number.",
        ),
        (
            "array",
            "inf arises first in line 52 for i = 0: part[i] *= part[i] * 1e38f, where part[i] = 2. "
            "part[i] * part[i] * 1e38f is 2 * 2e+38.",
        ),
    ],
)
def test_the_first_is_told_with_what_it_is_computed_from(device, kernel, says):
    def launch():
        x = device.array(np.array([1, 2, 300], np.float32), name="x")
        y = device.empty((1,), np.float32, name="y")
        return device.compile(SOURCE, name="kernel.cu").get_function(kernel)(1, 1, (x, y))

    assert str(explain(SOURCE, kernel, device, launch) or "") == says


def test_the_first_thread_is_told_whichever_comes_first(device):
    """Blocks run side by side: what is told is the same each time."""

    def launch():
        x = device.array(np.zeros(4096, np.float32), name="x")
        y = device.empty((4096,), np.float32, name="y")
        kernel = device.compile(source, name="kernel.cu").get_function("all")
        return kernel(64, 64, (x, y))

    source = """
    extern "C" __global__ void all(const float* x, float* y) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        y[i] = (i < 1000 ? 1 : x[i]);
        if (i >= 1000) y[i] = x[i] / x[i - 1];
    }"""
    for _ in range(3):
        assert str(explain(source, "all", device, launch)).startswith(
            "nan arises first in line 5 for i = 1000: y[i] ="
        )
