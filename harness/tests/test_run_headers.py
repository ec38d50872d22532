"""Files and headers as engineers have them: what only host code needs is left out, wherever it is."""

from __future__ import annotations

import pytest

from backwarp.devices.nvrtc import compiler, host_code, host_signs
from backwarp.errors import CompileError
from backwarp.run_arguments import Wanted
from backwarp.run_headers import gather

API = """#pragma once
#define FORMAT(...) __attribute__((format(printf, __VA_ARGS__)))
#define OLD(declaration, hint) declaration __attribute__((deprecated(hint)))
#define TABLE_BEGIN(type, name, size) static const __device__ type name[size] = {
#define TABLE_END() };
void launch(float* y);
unsigned int count(const float* x, unsigned int n);
    FORMAT(3, 4)
    void app_abort(const char* file, int line, const char* fmt, ...);
OLD(int before(struct tensor* t), "use (after)");
TABLE_BEGIN(int, powers, 3)
    1, 2, 4
TABLE_END()
using namespace far_away;
constexpr int tripled(int x) { return 3 * x; }
extern cudaDeviceProp properties;
"""
SHAPES = """#include "no_such_header.h"
#include <torch/extension.h>
struct Base {
    virtual ~Base() {}
    void* operator new(size_t n) { void* p; cudaMallocManaged(&p, n); return p; }
};
template <class T> struct Shape : Base {
    T n, m;
    Shape(T n, T m) : n(n), m(m) { printf("made"); }
    Shape(const std::string& text);
    Shape(const Shape&);
    template <class U> U size(U more) { return rand() + more; }
    std::string name() const;
    friend std::ostream& operator<<(std::ostream& o, const Shape& s);
    __host__ __device__ T area() const { return n * m; }
};
template <class T> Shape<T>::Shape(const Shape& other) : n(other.n), m(other.m) {}
struct Other { int size(int x) { return rand(); } __device__ int area() const { return 1; } };
"""
KERNEL = """#include "api.h"
#include "shapes.hpp"
#include "found.h"
#define LAUNCHER(T) void launch_##T(torch::Tensor x) { \\
    kernel<<<1, 32>>>(x.data_ptr()); \\
}
__host__ float f(float x) { return rand() / x; }
__device__ float f(int x) { return 2.f * x; }
__device__ unsigned int count(const float* x, const float* y, unsigned int n) { return x[0] < y[0] ? n : 0; }
struct Pixel { float r, g; };
__device__ Pixel pixel(int x) { return (struct Pixel){1.f, (float)x}; }
__device__ Pixel other(int x) { return {.r = 1.f, .g = 2.f}; }
__global__ void k(Shape<int> s, Other o, float* y, const float* x) {
    register int i = threadIdx.x;
    y[i] = s.area() + o.area() + f(i) + count(x, y, 1) + powers[1] + pixel(i).r + other(i).g + FOUND + tripled(1);
}
LAUNCHER(float)
PYBIND11_MODULE(NAME, m) { m.def("launch", &launch_float); }
void op(struct tensor* t) { k<<<1, 32>>>(Shape<int>(1, 2), Other(), (float*)0, (float*)0); }
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project/.git").mkdir(parents=True)
    (tmp_path / "project/far/inside").mkdir(parents=True)
    folder = tmp_path / "project/src"
    folder.mkdir()
    for name, text in {
        "api.h": API,
        "shapes.hpp": SHAPES,
        "k.cu": KERNEL,
        "../far/inside/found.h": "#define FOUND 1\n",
    }.items():
        (folder / name).write_text(text)
    return folder


def compiled(folder, into, change=("", "")):
    into.mkdir(exist_ok=True)
    source = (folder / "k.cu").read_text().replace(*change)
    made = gather(source, folder / "k.cu", (), into)
    return made, compiler.compile_ptx(made.source, "k.cu", "draft", (into,), options=(host_signs.PARTED,))


def test_host_code_in_headers_without_a_sign_of_cuda(project, tmp_path):
    made, ptx = compiled(project, tmp_path / "into")
    assert ptx.kernels == ("k",)
    assert any("found.h in far/inside/found.h" in note for note in made.notes)
    assert any(
        '"no_such_header.h" (shapes.hpp:1), <torch/extension.h> (shapes.hpp:2)' in n for n in made.notes
    )
    assert made.source.count("\n") == KERNEL.count("\n")
    shapes = (tmp_path / "into/shapes.hpp").read_text()
    assert shapes.count("\n") == SHAPES.count("\n") and shapes.count("= delete;") == 3
    assert shapes.count("area() const {") == 2 and not any(
        w in shapes for w in ("made", "rand", "std::", "other.n")
    )


@pytest.mark.parametrize(
    "change, said",
    [
        ("o.area() + size_t(Shape<int>(1, 2).n)", "cannot be referenced -- it is a deleted function"),
        ("o.area() + o.size(1)", "without execution space annotations"),
        ("o.area() + missing", 'identifier "missing" is undefined'),
    ],
)
def test_host_code_that_a_kernel_calls_is_an_error(project, tmp_path, change, said):
    with pytest.raises(CompileError) as error:
        compiled(project, tmp_path / "into", ("o.area()", change))
    assert any(said in d.message for d in error.value.diagnostics)


def test_a_header_that_a_kernel_needs_is_named_first(project, tmp_path):
    source = '#include "solver.h"\n__global__ void k(float* y) { y[0] = solved(1); }\n'
    made = gather(source, project / "k.cu", (), tmp_path)
    with pytest.raises(CompileError) as error:
        compiler.compile_ptx(made.source, "k.cu", "draft", (tmp_path,), options=(host_signs.PARTED,))
    first, *rest = made.explained(error.value).diagnostics
    assert first.line == 1 and first.message.startswith('"solver.h" is not beside the file') and rest


@pytest.mark.parametrize(
    "source",
    [
        "#define LOOP_END } }\n#define SYNC(x) x\n__global__ void k(float* y) { for (;;) { y[0] = 1;\nLOOP_END\n"
        "SYNC(__syncthreads();)\nSTORE(y);\n    y[1] = 2;\n}\n",
        "#define CHECK(x) x\n__global__ void k(float* y, int n WEIRD(a {) ) {\nCHECK(y[0] = 1);\nFOO(y);\n"
        "    CHECK(foo(y));\n}\n",
    ],
)
def test_nothing_of_a_kernel_that_cannot_be_parsed_is_left_out(source):
    assert host_code.without(source, "k.cu", compiler.is_here, "") == (source, ())


@pytest.mark.parametrize(
    "source",
    [
        "#include <cudaTypedefs.h>\n#include <cuda.h>\n__global__ void k(float* y) { y[0] = 1; }\nint main() {}",
        "#include <cublas_v2.h>\n#include <cufft.h>\n__global__ void k(__nv_bfloat16* y, cufftComplex z) { y[0] = z.x; }",
        "#include <cmath>\n#include <limits>\n__global__ void k(float* y) { y[0] = std::fmaxf(y[1], 1.f) + "
        "std::numeric_limits<float>::max(); }\nint main() {}",
        "#include <cub/cub.cuh>\n__global__ void k(const int* x, int* y) { __shared__ cub::BlockReduce<int, 128>::TempStorage"
        " t; y[0] = cub::BlockReduce<int, 128>(t).Sum(x[threadIdx.x]); }",
    ],
)
def test_headers_of_the_toolkit(source, tmp_path):
    made = gather(source, tmp_path / "k.cu", (), tmp_path)
    assert compiler.compile_ptx(made.source, "k.cu", "draft", (), options=(host_signs.PARTED,)).kernels == (
        "k",
    )


def test_a_header_of_megabytes_and_one_that_is_too_large(tmp_path):
    lines = "".join(f"static int unused_{i}(int x) {{ return rand() + x; }}\n" for i in range(9000))
    (tmp_path / "big.h").write_text("#pragma once\n" + lines + "__device__ int used() { return 1; }\n")
    source = '#include "big.h"\n__global__ void k(int* y) { y[0] = used(); }\n'
    made = gather(source, tmp_path / "k.cu", (), tmp_path / "into")
    assert (
        tmp_path / "into/big.h"
    ).read_text().split() == "#pragma once __device__ int used() { return 1; }".split()
    assert made.source == source
    parameters = '#include "big.h"\n', made.text.replace("used() {", "used(int x, float y) {")
    for text in ((source, made.text, "k", (8,)), (*parameters, "used", (4, 4))):
        assert Wanted(*text).names in (["y"], ["x", "y"])
    (tmp_path / "big.h").write_bytes(b"")
    with open(tmp_path / "big.h", "r+b") as file:
        file.truncate(400 << 20)
    with pytest.raises(Exception, match="409600 KB; more than 4096 KB is not a header"):
        gather(source, tmp_path / "k.cu", (), tmp_path / "into")
