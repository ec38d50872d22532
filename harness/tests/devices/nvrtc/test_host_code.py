"""Files for nvcc: host code is blanked out, kernels keep their text and place."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices.nvrtc import compiler, host_code
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import CompileError

WHOLE = """#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) exit(1); } while (0)
#define BLOCK 32
using std::vector;
struct Sizes { int n; __device__ int twice() const { return 2 * n; } void print() { printf("%d", n); } };
struct Timer { cudaEvent_t start; Timer() { cudaEventCreate(&start); } };
static int runs = 0;
const int offset = 1;
__device__ int shifted(int x) { return x + offset; }
template <typename T> __global__ void fill(T* out, Sizes sizes) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < sizes.n) out[i] = shifted(sizes.twice());
}
extern "C" __global__ void first(int* out, Sizes sizes) { if (threadIdx.x == 0) out[0] = sizes.n; }
template <typename T> void launch(vector<T>& v) {
    fill<T><<<1, BLOCK>>>(v.data(), Sizes{3});
}
namespace host { double seconds() { return runs; } }
int main(int argc, char** argv) {
    vector<int> v(3); Timer t;
    CHECK(cudaMalloc(&v, 12));
    launch(v);
    return 0;
}
"""


def test_kernels_of_a_whole_program_run():
    device = VirtualGPU("full")
    module = device.compile(WHOLE)
    out = device.array(np.zeros(4, np.int32), name="out")
    module.get_function("first")(1, 32, (out, np.int32(7)))
    assert out.get().tolist() == [7, 0, 0, 0]
    (note,) = [w for w in module.warnings if w.severity == "note"]
    assert note.message.startswith("Host code in ") and note.line == 2


def test_lines_and_columns_stay():
    text, _ = host_code.without(WHOLE, "k.cu", compiler.has_header)
    assert len(text) == len(WHOLE)
    for mine, theirs in zip(text.split("\n"), WHOLE.split("\n"), strict=True):
        assert all(a in (b, " ") for a, b in zip(mine, theirs, strict=True))
    kept = {line.strip() for line in text.split("\n")}
    assert "int i = blockIdx.x * BLOCK + threadIdx.x;" in kept and "const int offset = 1;" in kept
    assert not any(
        word in text for word in ("main", "Timer t", "vector", "cudaMalloc(&v", "print", "seconds")
    )


@pytest.mark.parametrize(
    "source",
    [
        "__global__ void k(int* x) { x[0] = helper(1); }  int helper(int a) { return a; }",
        "#include <cuda_fp16.h>\n// main() calls cudaMalloc\n#define DEVICE __device__\nDEVICE int f() { return 1; }\n",
        "constexpr int square(int x) { return x * x; }\n__constant__ float w[4];\n__global__ void k(int* x) { x[0] = square(3); }",
    ],
)
def test_device_code_stays(source):
    """Even where `__device__` is missing: the compiler's error says so."""
    assert host_code.without(source, "k.cu", compiler.has_header) == (source, ())
    with_main = source + "\nint main() { return 0; }"
    assert host_code.without(with_main, "k.cu", compiler.has_header)[0].startswith(source)


def test_a_helper_without_device_is_named():
    source = "int helper(int a) { return a; }\n__global__ void k(int* x) { x[0] = helper(1); }\nint main() {}"
    with pytest.raises(CompileError) as error:
        compiler.compile_ptx(source)
    assert any("write __device__ before a function" in d.message for d in error.value.diagnostics)
    assert (
        error.value.diagnostics[-1].message
        == "Host code in line 3 is left out: only kernels and what they call run here."
    )


@pytest.mark.parametrize(
    "guard, kept",
    [
        ("#ifndef __CUDACC_RTC__\n{0}#else\n{1}#endif\n", 1),
        ("#ifdef __CUDACC_RTC__\n{0}#else\n{1}#endif\n", 0),
        ("#if !defined(__CUDACC_RTC__)\n{0}#else\n{1}#endif\n", 1),
        ("#if defined(__CUDACC_RTC__)\n{0}#else\n{1}#endif\n", 0),
    ],
)
def test_guards_for_this_compiler(guard, kept):
    sides = [
        "#include <strange_header>\n__device__ int a() { return 1; }\n",
        "__device__ int b() { return 2; }\n",
    ]
    sides = sides if kept else sides[::-1]
    source = guard.format(*sides) + 'extern "C" __global__ void k(int* x) { x[0] = b(); }\n'
    text, _ = host_code.without(source, "k.cu", compiler.has_header)
    assert "strange_header" not in text and "int b()" in text
    assert "k" in compiler.compile_ptx(source).kernels


def test_a_program_may_include_any_library():
    source = """#include <GL/glut.h>
extern "C" bool is_power(unsigned x);
extern "C" __global__ void k(int* x) { x[0] = 1; }
using namespace std::chrono;
extern "C" void run() { k<<<1, 1>>>(0); }
"""
    assert compiler.compile_ptx(source).kernels == ("k",)
    with pytest.raises(CompileError, match="not a header"):
        compiler.compile_ptx("#include <GL/glut.h>\n__global__ void k(int* x) {}")


@pytest.mark.parametrize(
    "header, said",
    [
        ('"common.h"', "A kernel file must be self-contained"),
        ("<curand_discrete.h>", "<curand_kernel.h> is here"),
        ("<cutlass/cutlass.h>", "CUTLASS is not installed"),
    ],
)
def test_headers_that_are_not_there(header, said):
    with pytest.raises(CompileError, match=said):
        compiler.compile_ptx(f"#include {header}\n__global__ void k(int* x) {{}}\nint main() {{}}")


def test_an_include_of_another_folder_is_still_refused():
    with pytest.raises(CompileError, match="not a header that a kernel may include"):
        compiler.compile_ptx('#include <vector>\n#include "/etc/passwd"\n__global__ void k(int* x) {}')


def test_vector_operators_of_the_samples():
    device = VirtualGPU("full")
    source = """#include <helper_math.h>
extern "C" __global__ void k(float* out) {
    float3 a = make_float3(1, 2, 3), b = make_float3(4.0f);
    float4 c = make_float4(a * b - 1.0f, dot(a, b));
    out[0] = c.x; out[1] = c.y; out[2] = c.z; out[3] = c.w;
    int2 d = make_int2(7, -9) / 2;
    out[4] = d.x; out[5] = d.y; out[6] = length(make_float2(3, 4));
    out[7] = clamp(make_float2(3, 4), 0, 3.5f).y; out[8] = cross(a, -b).x; out[9] = lerp(a, b, 0.5f).z;
    a += a; a *= 2; out[10] = a.y; out[11] = max(make_uint2(1, 5), make_uint2(3)).y;
}"""
    out = device.array(np.zeros(12, np.float32), name="out")
    device.compile(source).get_function("k")(1, 1, (out,))
    assert out.get().tolist() == [3, 7, 11, 24, 3, -4, 5, 3.5, 4, 3.5, 8, 5]


def test_an_instance_of_a_host_template_goes_with_it():
    source = """template <class T> __global__ void k(T* x) { *x = 1; }
template <class T> void run(T* x) { k<T><<<1, 1>>>(x); }
template void run<int>(int* x);
template __global__ void k<float>(float* x);
"""
    ptx = compiler.compile_ptx(source)
    assert ptx.kernels == ("k",) and "lines 2-3" in ptx.warnings[0].message
