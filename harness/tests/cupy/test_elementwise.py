"""ElementwiseKernel and ReductionKernel: types, broadcasting, raw arguments, outputs, and faults."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault


@pytest.fixture
def x(cp):
    return cp.arange(12, dtype=cp.float32).reshape(3, 4)


def test_elementwise(cp, x):
    kernel = cp.ElementwiseKernel("T x, T y", "T z", "T d = x - y; z = d * d + n", "squares")
    assert kernel(x, 2).tolist() == ((x.get() - 2) ** 2 + 12).tolist()
    assert kernel(x.T, x[:, 1]).dtype == cp.float32
    np.testing.assert_array_equal(kernel(x[::-1], x[0]).get(), (x.get()[::-1] - x.get()[0]) ** 2 + 12)
    assert kernel(3, 5).tolist() == 5 and kernel(3, 5).dtype == cp.int64
    z = cp.empty((4, 3), cp.float32).T
    assert kernel(x, x, z) is z and z.sum() == 144
    assert kernel.nin == 2 and kernel.nout == 1 and kernel.name == "squares"
    with pytest.raises(TypeError):
        kernel(x)
    with pytest.raises(TypeError):
        kernel(x, np.ones(4))
    with pytest.raises(TypeError):
        cp.ElementwiseKernel("X x", "Z z", "z = x", "unknown")(x)


def test_raw_arguments_and_several_outputs(cp, x):
    kernel = cp.ElementwiseKernel(
        "raw T x, int32 k", "T y, bool b", "y = x[_ind.size() - 1 - i] * scale(k); b = i % 2 == 0", "turned",
        preamble="__device__ int scale(int k) { return 2 * k; }",
    )  # fmt: skip
    y, b = kernel(x, 3, size=12)
    half = cp.ElementwiseKernel(
        "", "T h", "h = i < half", "half", loop_prep="const int half { (int)_ind.size() / 2 };"
    )
    assert half(cp.empty(4)).tolist() == [1, 1, 0, 0]
    assert y.tolist() == (6 * x.get().ravel()[::-1]).tolist() and b.sum() == 6
    count = cp.ElementwiseKernel(
        "int32 bin", "raw int32 counts", "atomicAdd(&counts[bin], 1)", "count", no_return=True
    )
    counts = cp.zeros(3, cp.int32)
    assert count(cp.asarray([0, 2, 2], cp.int32), counts) is None and counts.tolist() == [1, 0, 2]


def test_reduction(cp, x):
    norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    largest = cp.ReductionKernel("T x, T y", "float64 z", "max(x, y)", "max(a, b)", "z = a", None, "largest")
    mean = cp.ReductionKernel(
        "T x",
        "T y",
        "x",
        "a + b",
        "y = a * _out_ind.size() / _in_ind.size()",
        "0",
        "mean",
        reduce_type="double",
    )
    for axis in (None, 0, 1, -1, (0, 1)):
        np.testing.assert_allclose(norm(x, axis=axis).get(), np.sqrt((x.get() ** 2).sum(axis)), rtol=1e-6)
        np.testing.assert_allclose(largest(x, 5, axis=axis).get(), np.maximum(x.get(), 5).max(axis))
        np.testing.assert_allclose(mean(x, axis=axis, keepdims=True).get(), x.get().mean(axis, keepdims=True))
    out = cp.empty(4, cp.float32)
    assert norm(x, axis=0, out=out) is out and norm(x[:0], axis=0).tolist() == [0] * 4
    with pytest.raises(ValueError):
        largest(x[:0], 1)


def test_a_fault_is_in_the_users_text(cp, x):
    kernel = cp.ElementwiseKernel(
        "raw T x", "T y",
        """
        int next = i + 1;
        y = x[next];
        """,
        "shifted",
    )  # fmt: skip
    with pytest.raises(KernelFault) as caught:
        kernel(x, size=12)
    assert caught.value.array == "x" and caught.value.file.endswith("test_elementwise.py")


def test_an_output_that_is_not_written_stays_unset(cp, x):
    y = cp.ElementwiseKernel("T x", "T y", "if (x > 2) y = x", "some")(x)
    with pytest.raises(KernelFault) as caught:
        cp.ElementwiseKernel("T x", "T y", "y = x + 1", "more")(y)
    assert caught.value.kind == "uninitialised-read"
