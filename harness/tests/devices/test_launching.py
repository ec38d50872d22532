"""Variables of a module and macros, set from the host: on both devices, in grading, and in LeNet."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.course.checkout import Course
from backwarp.course.declare import Constant, CourseError, Kernel, Out
from backwarp.devices import open_device
from backwarp.devices.launching import constant_bytes
from backwarp.devices.nvrtc.compiler import Ptx, gather
from backwarp.errors import CompileError, LaunchError
from backwarp.grading.grade import Options, grade_file
from backwarp.lenet.choices import SOLUTION, Choice, counterpart
from backwarp.lenet.kernels import Kernels
from tests import ROOT
from tests.devices.virtual.launches import FLAVOURS, K, device

COURSE = Course(ROOT)
SOURCE = f"""__constant__ float table[6];
__constant__ int one = 7;
{K}copy(float* out) {{ out[threadIdx.x] = table[threadIdx.x] + one; }}
"""


@pytest.mark.parametrize("checks", [*FLAVOURS, "count"])
def test_a_variable_is_filled_from_its_start_and_the_rest_is_poison(checks):
    module = device(checks).compile(SOURCE)
    assert module.constants == {"table": 24, "one": 4}
    out = device(checks).empty((6,))
    for values in (np.arange(4, dtype=np.float32), np.float32([5, 6])):
        module.set_constant("table", values)
        module.get_function("copy")(1, 6, (out,))
        got = out.get()
        assert np.array_equal(got[: len(values)], values + 7) and np.isnan(got[len(values) :]).all()


def test_a_variable_that_is_missing_or_too_small_is_refused():
    module = device().compile(SOURCE)
    with pytest.raises(LaunchError, match="there is no variable weights"):
        module.set_constant("weights", np.zeros(2, np.float32))
    with pytest.raises(LaunchError, match="table has 24 bytes; 28 do not fit"):
        module.set_constant("table", np.zeros(7, np.float32))


def test_variables_are_found_in_the_ptx_by_their_plain_names():
    text = """.const .align 4 .b8 weights[64];
.visible .const .align 8 .f64 _ZN5inner5scaleE = 0d3FF0000000000000;
.global .align 4 .b8 other[16];
"""
    assert Ptx(text).constants == {"weights": ("weights", 64), "scale": ("_ZN5inner5scaleE", 8)}
    symbol, data = constant_bytes(Ptx(text), "weights", np.ones((2, 3), np.float32))
    assert symbol == "weights" and len(data) == 64 and data[24:].tolist() == [255] * 40


def test_a_declaration_has_room_and_a_name_of_its_own():
    table = Constant("table", 6, i="n")
    assert table.declaration == "__constant__ float table[6]" and table.is_input and not table.is_output
    with pytest.raises(CourseError, match="occurs twice"):
        Kernel("k", (Out("table", i="n"),), lambda d, t: None, lambda a, d: None, constants=(table,))


def graded(tmp_path, old, new):
    puzzle = COURSE.load("24")
    text = puzzle.solution_path.read_text(encoding="utf-8")
    assert text.count(old)
    path = tmp_path / "kernel.cu"
    path.write_text(text.replace(old, new))
    return grade_file(puzzle, path, Options("cpu"))


@pytest.mark.parametrize(("old", "new"), [("weights[", "filter["), ("weights[4096]", "weights[600]")])
def test_a_file_without_room_for_a_constant_is_told_what_to_declare(tmp_path, old, new):
    verdict = graded(tmp_path, old, new)
    assert (verdict.status, verdict.kind) == ("failed", "missing-constant")
    assert "as: __constant__ float weights[4096];" in verdict.lines[1]


def test_a_namespace_around_the_constant_does_no_harm(tmp_path):
    declared = "__constant__ float weights[4096];"
    assert graded(tmp_path, declared, f"namespace {{ {declared} }}").passed


def test_a_kernel_with_a_constant_stands_in_for_one_that_is_given_the_array():
    home, other = COURSE.load("07").kernels[0], COURSE.load("24")
    kernel = counterpart(home, other)
    assert kernel is other.kernels[0]
    dev, rng = device("memory"), np.random.default_rng(1)
    shapes = {"input": (2, 3, 7, 6), "weights": (4, 3, 2, 2), "bias": (4,), "output": (2, 4, 6, 5)}
    values = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    arrays = {name: dev.array(v, name=name) for name, v in values.items()}
    source = other.solution_path.read_text(encoding="utf-8")
    chosen = Choice(home.name, home, other, kernel, source, SOLUTION)
    bound = Kernels(dev, {home.name: chosen}).bind(home.name, tuple(arrays.values()))
    for factor in (1, 2):  # the weights of the moment
        arrays["weights"].set(factor * values["weights"])
        bound({})
        inputs = {n: v.astype(np.float64) for n, v in values.items() if n != "output"}
        inputs["weights"] *= factor
        assert np.allclose(arrays["output"].get(), kernel.reference(inputs, {}), atol=1e-5)


VARIABLES = """
__constant__ float scale[2] = {3, 4};
__device__ int count = 5;
__managed__ double sums[3];
__global__ void add(int* out) {
    atomicAdd(&count, STEP);
    sums[threadIdx.x % 3] = scale[1];
    out[threadIdx.x] = PLUS(threadIdx.x);
}
"""


@pytest.mark.parametrize("confined", [False, True])
def test_variables_are_read_and_written_by_name(confined):
    options = ("-DSTEP=2", "-D PLUS(x)=x + 1")
    with open_device("cpu", checks="full", confined=confined) as device:
        device.quick = True
        module = device.compile(VARIABLES, options=options)
        assert module.variables == {"scale": 8, "count": 4, "sums": 24}
        count, scale = module.get_global("count", np.int32), module.get_global("scale", np.float32)
        assert count.get().tolist() == [5] and scale.get().tolist() == [3, 4]
        count.set(40)
        scale.set([0, 7])
        out = device.array(np.zeros(4, np.int32), name="out")
        module.get_function("add")(1, 4, (out,))
        assert count.get().tolist() == [48] and out.get().tolist() == [1, 2, 3, 4]
        assert module.get_global("sums", np.float64).get().tolist() == [7, 7, 7]
        module.set_constant("count", np.int32(1))
        assert module.get_global("count").get().tolist() == [1, 0, 0, 0]
        with pytest.raises(LaunchError, match="there is no variable total; the file has count, scale, sums"):
            module.get_global("total")
        with pytest.raises(LaunchError, match="count has 4 bytes"):
            module.get_global("count", np.float64)


@pytest.mark.parametrize(
    "option", ["-lineinfo", "-DA=1\n#include <x>", "-D1", "-DA=\\", "-I/etc", "-DA=__has_include(<x>)"]
)
def test_options_that_are_refused(option):
    with pytest.raises(CompileError, match="option|asks for files"):
        gather("__global__ void k() {}", options=(option,))
