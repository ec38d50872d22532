"""Kernels of part 1 on tensors: values, types, and tensors that kernels cannot take."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp import tensors
from backwarp.errors import LaunchMistake
from backwarp.lenet.checks import this_course
from backwarp.lenet.choices import choose
from tests.devices.virtual.launches import device
from tests.test_ops import cupy, to_the_gpu  # noqa: F401

CHOICES = choose(this_course(), {}, mine=False)


@pytest.fixture(scope="module")
def launches():
    return tensors.Launches(device("memory"), CHOICES)


@pytest.fixture
def torch(launches, monkeypatch):
    monkeypatch.setattr(tensors, "elsewhere", launches)
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", tensors.FLOATS)
def test_a_launch_fills_the_outputs_in_their_type(torch, dtype):
    x = torch.tensor([[1.5, -2.0], [0.1, -0.1]], dtype=getattr(torch, dtype))
    y, third = torch.empty_like(x), torch.full((1, 3), 1 / 3, dtype=x.dtype)
    tensors.launch("relu_forward", x, y)
    assert torch.equal(y, x.clamp(min=0))
    out, ones = torch.empty(1, 1, dtype=x.dtype), torch.ones(1, 3, dtype=x.dtype)
    tensors.launch("fc_forward", third, ones, torch.zeros(1, dtype=x.dtype), out)
    assert abs(out.item() - 1) < (1e-15 if dtype == "float64" else 1e-6)


def test_what_a_kernel_reads_and_stores_is_both(torch):
    weights, velocity = torch.tensor([1.0, 2.0]), torch.zeros(2)
    numbers = {"learning_rate": 0.5, "momentum": 0.0, "weight_decay": 0.0}
    tensors.launch("sgd_step", weights, velocity, torch.tensor([2.0, 4.0]), **numbers)
    assert weights.tolist() == [0.0, 0.0] and velocity.tolist() == [2.0, 4.0]


def test_tensors_that_no_kernel_can_have_are_refused(torch):
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = torch.ones(4)
    with FakeTensorMode() as mode:
        traced = mode.from_tensor(x)
    for given, says in (
        ([np.ones(4), x], "array 1 is a ndarray, not a tensor"),
        (
            [x, torch.ones(()).expand(4)],
            r"array 2 is not stored row by row \(its strides are 0\): pass a contiguous",
        ),
        ([torch.ones(4, 2)[:, 0], x], r"array 1 is not stored row by row \(its strides are 2\)"),
        ([traced, x], "array 1 is a FakeTensor: PyTorch only traces here"),
        ([x], "relu_forward takes 2 arrays"),
        ([x.sum(), x], r"array 1 has the shape \(\): nothing to launch on"),
        ([x[:0], x[:0]], r"array 1 has the shape \(0,\): nothing to launch on"),
        ([x, torch.ones(3)], "array 2 as output makes n 3, but it is 4 in array 1 as input"),
        ([x, x.double()], "output holds float32, but array 2 holds float64"),
        ([x.double(), x], "holds float64, but array 2 holds float32"),
    ):
        with pytest.raises(LaunchMistake, match=says):
            tensors.launch("relu_forward", *given)
    with pytest.raises(LaunchMistake, match="no kernel 'relu_foward'; did you mean relu_forward"):
        tensors.launch("relu_foward", x, x)


def test_cuda_arrays_stay_where_they_are(cupy, launches):  # noqa: F811
    on_cuda = tensors.OnCuda(tensors.CudaDevice(), CHOICES)
    x, w = (
        np.random.default_rng(i).standard_normal(s).astype(np.float32) for i, s in enumerate([(2, 3), (4, 3)])
    )
    b, y = np.ones(4, np.float32), to_the_gpu(np.zeros((2, 4), np.float32))
    stored = on_cuda("fc_forward", [*map(to_the_gpu, (x, w, b)), y], {})
    assert stored[3] is y
    np.testing.assert_allclose(np.asarray(y), x @ w.T + b, rtol=1e-5)


@pytest.mark.gpu
def test_cuda_tensors_are_computed_on_pytorchs_stream():
    torch = pytest.importorskip("torch")
    pytest.importorskip("cupy")
    x = torch.randn(1000, device="cuda")
    y, stream = torch.empty_like(x), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensors.launch("relu_forward", x * 2, y)
        z = y + 1
    stream.synchronize()
    assert torch.equal(z, (x * 2).clamp(min=0) + 1)
