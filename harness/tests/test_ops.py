"""The operators against PyTorch: its stored results, and PyTorch itself where it is installed."""

from __future__ import annotations

import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from backwarp.reference import conv

from backwarp import ops
from backwarp.course.checkout import Course, source_hash
from backwarp.course.progress import Progress
from backwarp.devices.gpu import worker as gpu_worker
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import CompileError, KernelFault
from backwarp.grading.verdict import PASSED, Verdict
from backwarp.measure import kernel_calls
from backwarp.measure.kernel_calls import KernelCalls, instance
from tests import ROOT, convolutions
from tests.reference.torch_results import arrays, stored

PLAIN = (1, 0, 1, False, 0, 1)  # stride, padding, dilation, transposed, output_padding, groups
ALL = (True, True, True)


@pytest.fixture(scope="module")
def operators(unchecked_device):
    return ops.Operators(unchecked_device)


def normal(*shapes, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def same(got, wanted, **tolerance):
    """Both are None, or arrays of one type and shape with equal elements."""
    assert (got is None) == (wanted is None)
    if wanted is not None:
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, **{"rtol": 0, **tolerance})


# ---- every kind of convolution -----------------------------------------------------------------------------


def test_they_equal_the_results_of_pytorch_that_are_kept(operators):
    count = 0
    for layer, mask, seed, results in stored():
        x, w, b, grad = arrays(layer, results[0].shape, seed)
        got = [operators.convolution(x, w, b, *layer.aten)]
        got += operators.convolution_backward(grad, x, w, [layer.output_channels], *layer.aten, mask)
        for ours, theirs in zip(got, results, strict=True):
            same(ours, theirs)
        count += 1
    assert count == 300


@pytest.mark.parametrize("transposed", [False, True])
def test_a_convolution_equals_that_of_pytorch(operators, transposed):
    torch = pytest.importorskip("torch")
    for seed in range(150):
        rng = np.random.default_rng(seed)
        against_torch(torch, operators, convolutions.layer(rng, transposed), convolutions.mask(rng))


def against_torch(torch, operators, layer, mask):
    channels = layer.output_channels
    x, w, b = map(torch.from_numpy, normal(layer.input, layer.weight, (channels,), dtype="float64"))
    y = torch.ops.aten.convolution(x, w, b, *layer.aten)
    grad = torch.from_numpy(normal(tuple(y.shape), dtype="float64", seed=1)[0])
    theirs = torch.ops.aten.convolution_backward(grad, x, w, [channels], *layer.aten, mask)
    ours = operators.convolution_backward(grad, x, w, [channels], *layer.aten, mask)
    for got, wanted in zip((operators.convolution(x, w, b, *layer.aten), *ours), (y, *theirs), strict=True):
        same(got, None if wanted is None else wanted.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shapes", [((2, 3, 7, 5), (4, 3, 3, 2)), ((2, 3, 6), (4, 3, 3))])
def test_sums_of_half_are_added_up_in_float(operators, shapes):
    """And rounded once, at the end."""
    x, w = normal(*shapes, dtype="float16")
    y = operators.convolution(x, w, None, *PLAIN)
    grad = normal(y.shape, dtype="float16", seed=1)[0]
    ours = y, *operators.convolution_backward(grad, x, w, [4], *PLAIN, ALL)
    right = conv.forward(x, w), *conv.convolution_backward(grad, x, w, [4], *PLAIN, ALL)
    for got, exact in zip(ours, right):
        assert got.dtype == np.float16
        assert np.all(np.abs(got - exact) <= 2**-11 * np.abs(exact) + 1e-5)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_batch_may_be_empty(operators, transposed):
    aten = (1, 0, 1, transposed, 0, 1)
    x, w, b = normal((0, 3, 5, 4), (3, 3, 2, 2), (3,))
    y = operators.convolution(x, w, b, *aten)
    assert y.shape == ((0, 3, 6, 5) if transposed else (0, 3, 4, 3))
    gradients = operators.convolution_backward(y, x, w, [3], *aten, ALL)
    assert [g.shape for g in gradients] == [x.shape, w.shape, b.shape]
    assert not gradients[1].any() and not gradients[2].any()


def test_arrays_may_lie_in_memory_in_any_order(operators):
    x, w = normal((2, 6, 5, 3), (4, 3, 2, 2))
    turned = x.transpose(0, 3, 1, 2)
    y = operators.convolution(turned, w, None, *PLAIN)
    same(y, operators.convolution(np.ascontiguousarray(turned), w, None, *PLAIN))


def test_the_functions_of_the_module_are_the_operators(monkeypatch, operators):
    monkeypatch.setattr(ops, "default", lambda: operators)
    x, w, b = normal((1, 2, 4, 4), (3, 2, 2, 2), (3,))
    y = ops.convolution(x, w, b, *PLAIN)
    same(y, operators.convolution(x, w, b, *PLAIN))
    for got, wanted in zip(
        ops.convolution_backward(y, x, w, None, *PLAIN, ALL),
        operators.convolution_backward(y, x, w, None, *PLAIN, ALL),
    ):
        same(got, wanted)


# ---- what does not go together -----------------------------------------------------------------------------


X, W, G = normal((2, 4, 5, 5), (6, 4, 3, 3), (2, 6, 3, 3))
MISTAKES = {
    "types": ((G, X.astype("float64"), W, [6], *PLAIN, ALL), "weight holds float32, but input holds float64"),
    "integers": ((G, X.astype(int), W, [6], *PLAIN, ALL), "input holds int64; it must hold one of float64"),
    "grad_output": ((X, X, W, [6], *PLAIN, ALL), "grad_output.shape is"),
    "groups": ((G, X, W, [6], 1, 0, 1, False, 0, 3, ALL), "cannot be divided into groups=3"),
    "stride": ((G, X, W, [6], 0, 0, 1, False, 0, 1, ALL), "stride is 0; it must be at least 1"),
    "padding": ((G, X, W, [6], 1, ((1, 2), 0), 1, False, 0, 1, ALL), "padding is"),
    "output_padding": ((G, X, W, [6], 1, 0, 1, False, 1, 1, ALL), "is not transposed"),
    "mask": ((G, X, W, [6], *PLAIN, (True, True)), "output_mask has 2 entries"),
    "bias": ((G, X, W, [5], *PLAIN, ALL), "bias_sizes is"),
    "no batch": ((G[0], X[0], W, [6], *PLAIN, ALL), "with the batch size N even when it is 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_value_error_that_says_what_does_not_go_together(operators, name):
    arguments, says = MISTAKES[name]
    with pytest.raises(ValueError, match=re.escape(says)):
        operators.convolution_backward(*arguments)


def test_a_bias_of_the_wrong_size_is_refused(operators):
    with pytest.raises(ValueError, match=re.escape("bias.shape is (4,)")):
        operators.convolution(X, W, X[0, :, 0, 0], *PLAIN)


# ---- whose kernels -----------------------------------------------------------------------------------------


def test_instances_of_a_kernel_file():
    source = '// one float\n\nextern "C" __global__ void f(const float* x, float *y) { float s = x[0]; y[0] = s; }\n'
    assert instance(source, "float32") == source
    assert "const double* x, double *y) { double s" in instance(source, "float64")
    half = instance(source, "float16")
    assert "const __half* x, __half *y) { float s" in half
    assert half.splitlines()[1] == "#include <cuda_fp16.h>" and half.count("\n") == source.count("\n")
    assert instance("float* a;", "float16").startswith("#include <cuda_fp16.h>")


@pytest.fixture
def school(tmp_path):
    """A checkout with puzzle 13, in which a student has solved it with what `solved(text)` gets."""
    for tree in ("puzzles", "solutions"):
        shutil.copytree(ROOT / tree / "13_conv2d_general", tmp_path / tree / "13_conv2d_general")
    course = Course(tmp_path)
    puzzle = course.load("13")

    def solved(text):
        puzzle.stub_path.write_text(text)
        Progress(tmp_path).record(Verdict(puzzle.id, "", PASSED, source_hash=source_hash(text)))
        return course, puzzle.solution_path.read_text()

    return solved


def changed(school, old, new):
    """A course in which the student's file differs from the solution in one place."""
    _, text = school("")
    assert old in text
    return school(text.replace(old, new))[0]


def test_the_kernels_may_be_those_of_the_student(school, unchecked_device):
    course = changed(school, "output[idx] = sum;", "output[idx] = 2 * sum;")
    yours = ops.Operators(unchecked_device, mine=True, course=course).convolution(X, W, None, *PLAIN)
    theirs = ops.Operators(unchecked_device, course=course).convolution(X, W, None, *PLAIN)
    same(yours, 2 * theirs, atol=1e-5)


def test_a_file_that_has_changed_since_it_passed_is_not_taken(school, unchecked_device):
    course = changed(school, "output[idx] = sum;", "output[idx] = 2 * sum;")
    stub = course.load("13").stub_path
    stub.write_text(stub.read_text() + "// later\n")
    _, whose = KernelCalls(unchecked_device, True, course).source(course.load("13"))
    assert whose == "the solution's"


def test_a_kernel_without_an_instance_is_named(school, unchecked_device):
    course = changed(
        school, "float sum = bias[k];", "float sum = bias[k] + sizeof(float[5 - sizeof(float)]);"
    )
    operators = ops.Operators(unchecked_device, mine=True, course=course)
    x, w = normal((1, 1, 2, 2), (1, 1, 1, 1), dtype="float64")
    with pytest.raises(CompileError, match="yours 13_conv2d_general/kernel.cu, for float64"):
        operators.convolution(x, w, None, *PLAIN)


def test_a_fault_names_the_array_of_the_student(school):
    course = changed(
        school,
        "if (h < 0 || h >= H || w < 0 || w >= W) continue;\n                float pixel",
        "float pixel",
    )
    with pytest.raises(KernelFault) as found:
        ops.Operators("cpu", mine=True, course=course).convolution(X, W, None, 1, 1, 1, False, 0, 1)
    assert found.value.array == "input" and found.value.file == "13_conv2d_general/kernel.cu"


def test_a_launch_that_takes_long_begins_again_with_optimised_code(unchecked_device, monkeypatch):
    x, w = normal((2, 8, 64, 64), (16, 8, 5, 5))
    found, limit = [], unchecked_device.time_limit
    for seconds, quick in ((60.0, True), (0.0, False)):
        monkeypatch.setattr(kernel_calls, "QUICK", seconds)
        operators = ops.Operators(unchecked_device)
        found.append(operators.convolution(x, w, None, *PLAIN))
        ((module, _),) = operators.kernels.modules.values()
        assert module.quick is quick and unchecked_device.time_limit == limit
    same(*found)


# ---- arrays on the GPU, as far as they can be had without one ----------------------------------------------


class OnTheGpu(np.ndarray):
    """A stand-in for CuPy's array."""

    __cuda_array_interface__: dict = {}

    def __dlpack_device__(self):
        return 2, 0

    @property
    def data(self):
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])


class OnTheVirtualGpu:
    """A stand-in for the GPU: kernels get pointers, and run on the virtual one."""

    def __init__(self, output):
        self.known: dict[int, np.ndarray] = {}
        self.device = VirtualGPU("none")
        self.device.quick = True

    def hello(self):
        return {}

    def compile(self, source, name, include_dirs, name_expressions):
        return self.device.compile(source, name, include_dirs), SimpleNamespace(find=lambda name: name)

    def _function(self, module, name):
        def run(grid, block, values, shared_mem):
            assert all(isinstance(v, np.ndarray) and v.ndim == 0 for v in values)
            arrays = [MADE[int(v)] if v.dtype == np.uint64 else None for v in values]
            there = [v[()] if a is None else self.device.array(a) for v, a in zip(values, arrays)]
            module.get_function(name)(grid, block, there, shared_mem)
            for array, copy in zip(arrays, there):
                if array is not None:
                    array[...] = copy.get()

        return run


MADE: dict[int, np.ndarray] = {}  # address -> array


def to_the_gpu(array):
    there = np.array(array, order="C").view(OnTheGpu)
    MADE[there.data.ptr] = there
    return there


@pytest.fixture
def cupy(monkeypatch):
    """Stand-ins for CuPy and for CUDA in this process."""
    stream = SimpleNamespace(synchronize=lambda: None)
    made = {
        name: lambda *a, make=getattr(np, name): to_the_gpu(make(*a)) for name in ("zeros", "empty", "pad")
    }
    module = SimpleNamespace(
        ndarray=OnTheGpu,
        from_dlpack=lambda x: x,
        ascontiguousarray=lambda a: a,
        **made,
        cuda=SimpleNamespace(get_current_stream=lambda: stream),
    )
    monkeypatch.setattr(kernel_calls, "cupy", lambda: module)
    monkeypatch.setattr(gpu_worker, "Context", OnTheVirtualGpu)
    yield
    MADE.clear()


@pytest.mark.parametrize(
    "case", [("13", (2, 3, 5, 4), (4, 3, 3, 2), False), ("15", (2, 3, 6), (3, 4, 3), True)]
)
def test_arrays_on_the_gpu_are_computed_there(cupy, operators, case):
    _, *shapes, transposed = case
    aten = (2, 1, 1, transposed, 0, 1)
    x, w, b = normal(*shapes, (4,))
    on_gpu = ops.Operators("no device is opened")
    y = on_gpu.convolution(*map(to_the_gpu, (x, w, b)), *aten)
    assert isinstance(y, OnTheGpu)
    same(np.asarray(y), operators.convolution(x, w, b, *aten), atol=1e-6)
    grad = normal(y.shape, seed=1)[0]
    ours = on_gpu.convolution_backward(*map(to_the_gpu, (grad, x, w)), [4], *aten, ALL)
    for got, wanted in zip(ours, operators.convolution_backward(grad, x, w, [4], *aten, ALL)):
        assert isinstance(got, OnTheGpu)
        same(np.asarray(got), wanted, atol=1e-5)
    with pytest.raises(ValueError, match="of weight and input, only one is in the GPU's memory"):
        on_gpu.convolution(to_the_gpu(x), w, None, *aten)


# ---- what the lessons show ---------------------------------------------------------------------------------


def program_of(lesson):
    """The names that the Python of a lesson defines."""
    text = (ROOT / "puzzles" / lesson / "README.md").read_text()
    program, names = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], {}
    assert program.count('Operators("auto", mine=True)') == 1
    exec(program.replace('"auto", mine=True', '"cpu"'), names)
    return names


def test_the_exercise_of_puzzle_14():
    names = program_of("14_conv2d_grouped")
    kernels, (x, depthwise, pointwise) = names["kernels"], normal((2, 3, 5, 4), (3, 1, 3, 3), (4, 3, 1, 1))
    y, between = names["separable"](x, depthwise, pointwise)
    dense = pointwise * depthwise[:, 0]
    same(y, kernels.convolution(x, dense, None, 1, 1, 1, False, 0, 1), atol=1e-5)
    grad = normal(y.shape, seed=1)[0]
    inner, *_ = kernels.convolution_backward(grad, between, pointwise, None, *PLAIN, ALL)
    outer, *_ = kernels.convolution_backward(inner, x, depthwise, None, 1, 1, 1, False, 0, 3, ALL)
    right, *_ = kernels.convolution_backward(grad, x, dense, None, 1, 1, 1, False, 0, 1, ALL)
    same(outer, right, atol=1e-5)


@pytest.fixture(scope="module")
def layer():
    """(torch, the custom operator of puzzle 13's lesson)"""
    return pytest.importorskip("torch"), program_of("13_conv2d_general")["conv2d"]


OPTIONS = [2, 1], [1, 0], [1, 2]


def test_gradcheck_passes_on_the_custom_operator(layer):
    torch, conv2d = layer
    x, w, b = map(torch.from_numpy, normal((2, 2, 4, 5), (3, 2, 2, 2), (3,), dtype="float64"))
    arguments = [a.requires_grad_() for a in (x, w, b)]
    assert torch.autograd.gradcheck(lambda *xs: conv2d(*xs, *OPTIONS), arguments)
    y = conv2d(x, w, b, *OPTIONS)
    same(y.detach().numpy(), torch.conv2d(x, w, b, *OPTIONS).detach().numpy(), atol=1e-12)


def test_the_custom_operator_keeps_the_rules_of_pytorch(layer):
    torch, conv2d = layer
    x, w, b = map(torch.from_numpy, normal((1, 2, 4, 5), (3, 2, 2, 2), (3,)))
    w.requires_grad_()  # alone
    tests = "test_schema", "test_autograd_registration"
    torch.library.opcheck(conv2d, (x, w, b, *OPTIONS), test_utils=tests)
    conv2d(x, w, b, *OPTIONS).sum().backward()
    assert x.grad is None and w.grad.shape == w.shape


@pytest.mark.gpu
def test_tensors_on_the_gpu_stay_there(layer):
    torch, conv2d = layer
    pytest.importorskip("cupy")
    x, w, b = (torch.from_numpy(a).cuda() for a in normal((2, 2, 4, 5), (3, 2, 2, 2), (3,), dtype="float64"))
    arguments = [a.requires_grad_() for a in (x, w, b)]
    assert conv2d(*arguments, *OPTIONS).is_cuda
    assert torch.autograd.gradcheck(lambda *xs: conv2d(*xs, *OPTIONS), arguments)
