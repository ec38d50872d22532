"""RawKernel and RawModule: what CuPy's documentation shows, arguments, options, and faults."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from backwarp.cupy import core, raw
from backwarp.errors import CompileError, KernelFault, LaunchError

SCALE = r"""
extern "C" __global__
void scale(const float* x, float* y, int n, float s) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) y[i] = x[i] * s;
}
"""
BEYOND = r"""
extern "C" __global__ void beyond(const float* values, float* sums, int n) {
    int i = threadIdx.x;
    sums[i] = values[i] + values[i + 1];
}
"""


@pytest.fixture(scope="module")
def scale(cp):
    return cp.RawKernel(SCALE, "scale", options=("-std=c++17", "-O3", "-lineinfo", "--maxrregcount=64"))


def test_a_kernel(cp, scale):
    x = cp.arange(40, dtype=cp.float32).reshape(5, 8)
    y = cp.empty_like(x)
    scale((2,), (32,), (x, y, x.size, cp.float32(3)))
    assert cp.array_equal(y, 3 * x) and scale.name == "scale" and scale.code == SCALE
    scale((1,), (32,), (x[4:], y[0], 8, np.float32(1)), shared_mem=0, stream=cp.cuda.Stream.null)
    assert cp.array_equal(y[0], x[4])
    assert scale.max_threads_per_block == 1024 and scale.attributes["shared_size_bytes"] == 0


def test_python_numbers_are_cast_by_the_signature(cp, scale):
    x, y = cp.ones(4, cp.float32), cp.zeros(4, cp.float32)
    with pytest.warns(UserWarning, match="float32"):  # CuPy would pass a double
        scale((1,), (4,), (x, y, 4, 2.5))
    assert y.tolist() == [2.5] * 4
    scale((1,), (4,), (x, y, np.int64(4), np.float32(2)))
    assert y.tolist() == [2] * 4
    for wrong in (
        (x, y, 1 << 40, np.float32(1)),
        (x, y, 4, np.float64(1)),
        (x, y, 4),
        (x, np.ones(4), 4, 1.0),
    ):
        with pytest.raises((LaunchError, TypeError)):
            scale((1,), (4,), wrong)
    for array, size in ((x, 8), (np.int64(1), 4)):
        with pytest.raises(LaunchError):
            cp.RawKernel(f'extern "C" __global__ void f({"double" if size == 8 else "float"} x) {{}}', "f")(
                (1,), (1,), (array,)
            )
    with pytest.raises(LaunchError):
        scale((1,), (4,), (x, 1.5, 4, np.float32(1)))
    with pytest.raises(TypeError):
        scale(1, (4,), (x, y, 4, np.float32(1)))


@pytest.mark.parametrize(
    "value, kind, size, expected",
    [
        (7, "i4", 4, np.int32(7)),
        (0xDEADBEEF, "i4", 4, np.int32(-559038737)),
        (-1, "u4", 4, np.uint32(0xFFFFFFFF)),
        (7, "", 8, np.int64(7)),
        (1.5, "f8", 8, np.float64(1.5)),
        (True, "?", 1, np.bool_(True)),
        (None, None, 8, np.uint64(0)),
        (np.float16(2), "f2", 2, np.float16(2)),
    ],
)
def test_arguments(value, kind, size, expected):
    got = raw.argument(value, "n of f", kind, size)
    assert got == expected and got.dtype == expected.dtype


def test_a_gpu_ignores_arguments_beyond_the_last(cp, scale):
    x, y = cp.ones(4, cp.float32), cp.zeros(4, cp.float32)
    with pytest.warns(UserWarning, match="5 were given"):
        scale((1,), (4,), (x, y, 4, np.float32(2), 7))
    assert y.sum() == 8


def test_names_are_those_of_a_gpu(cp):
    code = "template <typename T> __global__ void f(T* x) {}\n__global__ void g(int* x) { x[0] = 3; }"
    for name in ("f<int>", "g"):
        with pytest.raises(cp.cuda.driver.CUDADriverError, match="extern"):
            cp.RawKernel(code, name).compile()
    x = cp.zeros(1, cp.int32)
    cp.RawModule(code=code, name_expressions=("g",)).get_function("g")((1,), (1,), (x,))
    assert x[0] == 3


def test_more_shared_memory_is_asked_for(cp):
    code = r"""
    extern "C" __global__ void f(int* x) {
        extern __shared__ int tile[];
        tile[threadIdx.x * 64] = threadIdx.x;
        __syncthreads();
        x[threadIdx.x] = tile[(255 - threadIdx.x) * 64];
    }
    """
    kernel, x = cp.RawKernel(code, "f"), cp.empty(256, cp.int32)
    with pytest.raises(cp.cuda.driver.CUDADriverError):
        kernel((1,), (256,), (x,), shared_mem=65536)
    kernel.max_dynamic_shared_size_bytes = 65536
    kernel((1,), (256,), (x,), shared_mem=65536)
    assert x.tolist() == list(range(255, -1, -1))


def test_structs_by_value(cp):
    kernel = cp.RawKernel(
        "struct Pair { int a; float b; };\n"
        'extern "C" __global__ void f(Pair p, float* y, float4 v) { y[0] = p.a + p.b + v.w; }',
        "f",
    )
    pair = np.array([(3, 0.5)], np.dtype([("a", "i4"), ("b", "f4")]))
    y = cp.zeros(1, cp.float32)
    kernel((1,), (1,), (pair, y, np.array([(1, 2, 3, 4)], "f4,f4,f4,f4")))
    assert y[0] == 7.5
    with pytest.raises(LaunchError):
        kernel((1,), (1,), (pair, y, 4.0))


def test_complex_numbers(cp):
    kernel = cp.RawKernel(
        "#include <cupy/complex.cuh>\n"
        'extern "C" __global__ void f(complex<float>* z, thrust::complex<double> w) { z[0] *= w.real() + abs(w); }',
        "f",
    )
    z = cp.asarray([1 + 2j], cp.complex64)
    kernel((1,), (1,), (z, 3 + 4j))
    assert z[0] == 8 + 16j


def test_a_module(cp):
    module = cp.RawModule(
        code=r"""
        __constant__ float weights[2];
        __device__ int calls = 4;
        template <typename T> __global__ void add(T* x) { x[threadIdx.x] += weights[1] + BIAS; }
        extern "C" __global__ void count() { atomicAdd(&calls, 1); }
        """,
        backend="nvcc",
        options=("-D BIAS=10", "-DUNUSED", "-UUNUSED"),
        name_expressions=["add<float>", "add<double>"],
    )
    weights = cp.ndarray((2,), cp.float32, module.get_global("weights"))
    weights[...] = cp.asarray([1, 2], cp.float32)
    for dtype, name in ((cp.float32, "add<float>"), (cp.float64, "add<double>")):
        x = cp.zeros(3, dtype)
        module.get_function(name)((1,), (3,), (x,))
        assert x.tolist() == [12] * 3
    module.get_function("count")((1,), (8,), ())
    assert cp.ndarray((1,), cp.int32, module.get_global("calls"))[0] == 12
    for missing in (module.get_function, module.get_global):
        with pytest.raises(cp.cuda.driver.CUDADriverError, match="CUDA_ERROR_NOT_FOUND"):
            missing("add<int>")
    again = pickle.loads(pickle.dumps(module.get_function("add<float>")))
    again((1,), (3,), (cp.zeros(3, cp.float32),))
    with pytest.raises(TypeError):
        cp.RawModule()


def test_headers_and_ptx(cp, tmp_path):
    (tmp_path / "twice.cuh").write_text("__device__ int twice(int x) { return 2 * x; }\n")
    code = '#include "twice.cuh"\nextern "C" __global__ void f(int* x) { x[0] = twice(21); }'
    x = cp.zeros(1, cp.int32)
    cp.RawKernel(code, "f", (f"-I{tmp_path}",))((1,), (1,), (x,))
    assert x[0] == 42
    with pytest.raises(cp.cuda.compiler.CompileException, match="twice.cuh"):
        cp.RawKernel(code, "f").compile()
    from backwarp.devices.nvrtc.compiler import compile_ptx

    (tmp_path / "k.ptx").write_text(compile_ptx('extern "C" __global__ void g(int* x) { x[0] = 7; }').text)
    cp.RawModule(path=str(tmp_path / "k.ptx")).get_function("g")((1,), (1,), (x,))
    assert x[0] == 7
    (tmp_path / "k.cubin").write_bytes(b"\x7fELF")
    with pytest.raises(CompileError):
        cp.RawModule(path=tmp_path / "k.cubin").get_function("g")


def test_options():
    options = (
        "-DA=1",
        "-I",
        "one",
        "-I two",
        "--define-macro=B(x)=x",
        "-std=c++14",
        "-arch sm_90",
        "-UB",
        "-Xptxas=-v",
    )
    macros, folders = raw.parsed(options)
    assert macros == ["-DA=1"] and [f.name for f in folders] == ["one", "two"]
    with pytest.warns(UserWarning, match="fast_math"):
        raw.parsed(("--use_fast_math",))
    with pytest.raises(CompileError):
        raw.parsed(("--unheard-of",))


def test_a_fault_names_parameter_thread_and_line(cp):
    x, y = cp.ones((4, 8), cp.float32), cp.empty(32, cp.float32)
    kernel = cp.RawKernel(BEYOND, "beyond")
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError) as caught:
        kernel((1,), (32,), (x, y, 32))
    fault = caught.value
    assert isinstance(fault, KernelFault) and fault.kind == "out-of-bounds" and fault.array == "values"
    assert fault.thread == (31, 0, 0) and "(31,0,0)" in str(fault)
    lines = open(__file__).read().splitlines()
    assert fault.file.endswith("test_raw.py") and "values[i + 1]" in lines[fault.line - 1] == fault.source


def test_what_empty_leaves_unset_is_reported(cp, scale):
    x, y = cp.empty(8, cp.float32), cp.empty(8, cp.float32)
    x[:4] = 1
    scale((1,), (4,), (x, y, 4, np.float32(1)))
    with pytest.raises(KernelFault) as caught:
        scale((1,), (4,), ((x.reshape(2, 4) + 1)[1], cp.empty_like(y), 4, np.float32(1)))
    assert caught.value.kind == "uninitialised-read"
    assert core._left(y).tolist() == [False] * 4 + [True] * 4


def test_a_file_is_found_by_its_text(cp, tmp_path, monkeypatch):
    (tmp_path / "mine.cu").write_text(BEYOND + "// in a file of its own\n")
    (tmp_path / "use.py").write_text(
        "from pathlib import Path\n"
        "def make(cp):\n    return cp.RawKernel(Path(__file__).with_name('mine.cu').read_text(), 'beyond')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import use

    x = cp.ones(2, cp.float32)
    with pytest.raises(KernelFault) as caught:
        use.make(cp)((1,), (2,), (x, x, 2))
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "mine.cu"), 4)


def test_printf(cp, capsys):
    cp.RawKernel(r'extern "C" __global__ void f() { printf("%d\n", threadIdx.x); }', "f")((1,), (2,), ())
    assert sorted(capsys.readouterr().out.split()) == ["0", "1"]


def test_notes_are_warnings(cp):
    code = r"""
    #include <cooperative_groups.h>
    extern "C" __global__ void f(int* x) { cooperative_groups::this_grid().sync(); x[blockIdx.x] = 1; }
    """
    x = cp.zeros(2, cp.int32)
    cp.RawKernel(code, "f", enable_cooperative_groups=True)((2,), (1,), (x,))
    with pytest.warns(UserWarning, match="cooperative"):
        cp.RawKernel(code, "f")((2,), (1,), (x,))
    assert x.tolist() == [1, 1]
