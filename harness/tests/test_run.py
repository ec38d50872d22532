"""`backwarp run`: any kernel of a file, its arguments given as text."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from backwarp import run_overflow
from backwarp.cli import run_verb
from backwarp.errors import CourseError
from backwarp.process import guarded
from backwarp.run import Asked, run_file
from tests import ROOT

FILE = """#include <iostream>
#include "scale.cuh"
struct Pair { int a; float b; };
__constant__ float w[4];
__global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scaled(a) * x[i] + y[i];
}
__global__ void past_the_end(double* y, unsigned char last) { y[threadIdx.x + last] = w[0]; }
__global__ void pairs(Pair p, long long* out, bool flag) { if (threadIdx.x == 0) out[0] = flag ? p.a : -1; printf("b %g\\n", p.b); }
template <typename T, int N> __global__ void fill(T* out) { out[threadIdx.x] = N; }
int main() { saxpy<<<1, 32>>>(1, 2, 0, 0); helper(); std::cout << "done"; }
"""
HEADER = """#pragma once
#include <vector>
__device__ float scaled(float a) { return 2 * a; }
inline void helper() { std::vector<int> v; }
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.cu").write_text(FILE)
    (tmp_path / "scale.cuh").write_text(HEADER)
    return tmp_path / "mine.cu"


def test_a_kernel_runs_and_is_counted(file):
    asked = Asked(file, "saxpy", (3,), (32,), ("n=70", "a=1.5", "x=arange:70", "ones:70"))
    done = run_file(asked, "cpu")
    assert done.fault is None and done.changed == {"y"}
    assert done.arrays["y"].tolist() == [3 * i + 1 for i in range(70)]
    assert done.counters["lines"][7]["global_load_requests"] == 2 * 3
    assert done.notes == [
        f"This file has a main: `backwarp exec {file}` runs it.",
        "Host code in lines 1 and 12 is left out: only kernels and what they call run here.",
    ]
    with pytest.raises(CourseError, match="This file has a main: `backwarp exec .*` runs it."):
        run_file(Asked(file, "saxpy", (3,), (32,)), "cpu")


def test_a_fault_names_element_and_line(file):
    done = run_file(
        Asked(
            file,
            "past_the_end",
            block=(4,),
            arguments=("zeros:2x3", "last=3"),
            constants=("w=ones:4:float32",),
        ),
        "cpu",
    )
    assert (done.fault.kind, done.fault.line, done.fault.array) == ("out-of-bounds", 9, "y")
    assert any("last" in str(f) for f in done.values)
    assert done.arrays == {} and done.counters == {}


@pytest.mark.parametrize(
    ("row", "index", "too_large"),
    [
        ("int", "row * stride", ("row * stride", 2_147_520_000)),
        ("int", "(row + 1) * (2 * stride) - 8", ("(row + 1) * (2 * stride)", 4_295_120_000)),
        ("unsigned", "row * stride", None),  # wraps as C++ says
        ("int", "(long long)row * stride", None),
    ],
)
def test_an_index_that_an_int_does_not_hold(tmp_path, row, index, too_large):
    text = f"__global__ void k(float* y, int stride) {{\n    {row} row = 53688;\n    y[(long long)({index})] = 1;\n}}\n"
    (tmp_path / "k.cu").write_text(text)
    done = run_file(Asked(tmp_path / "k.cu", "k", arguments=("y=zeros:100", "stride=40000")), "cpu")
    assert done.fault.kind == "out-of-bounds"
    found = [(f.lines, f.facts["code"], f.facts["number"]) for f in done.values if f.kind == "too_large"]
    assert found == ([((3,), *too_large)] if too_large else [])


def test_structs_booleans_and_templates(file, tmp_path):
    np.save(tmp_path / "pair.npy", np.array([(5, 2.5)], [("a", "i4"), ("b", "f4")]))
    done = run_file(
        Asked(file, "pairs", arguments=(f"p={tmp_path}/pair.npy", "out=empty:1", "flag=true")), "cpu"
    )
    assert done.arrays["out"].tolist() == [5] and done.launch.stdout == "b 2.5\n"
    done = run_file(Asked(file, "fill<short, 7>", block=(4,), arguments=("out=empty:4",), count=False), "cpu")
    assert done.arrays["out"].dtype == np.int16 and done.arrays["out"].tolist() == [7] * 4


@pytest.mark.parametrize(
    "kernel, arguments, says",
    [
        ("", (), "say which kernel to run: saxpy, past_the_end, pairs"),
        ("saxpy", ("n=3",), r"needs --arg for a, x, y"),
        ("saxpy", ("m=3",), "no parameter m; it has n, a, x, y"),
        ("saxpy", ("n=3", "n=4"), "n is given twice"),
        ("saxpy", ("n=3", "a=1", "x=1", "y=ones:3"), "x is an array"),
        ("saxpy", ("n=ones:3", "a=1", "x=ones:3", "y=ones:3"), "n is a number"),
        ("saxpy", ("n=2.5", "a=1", "x=ones:3", "y=ones:3"), "not a value of its type, int32"),
        ("saxpy", ("n=99999999999", "a=1", "x=ones:3", "y=ones:3"), "not a value of its type, int32"),
        ("saxpy", ("n=3", "a=1", "x=ones:", "y=ones:3"), "not a shape"),
        ("saxpy", ("n=3", "a=1", "x=ones:3:floot", "y=ones:3"), "floot is not a type of numbers"),
        ("saxpy", ("n=3", "a=1", "x=ones:99999x99999", "y=ones:3"), "more than 4 GiB"),
        ("saxpy", ("n=3", "a=1", "x=nowhere.npy", "y=ones:3"), "nowhere.npy cannot be read"),
        ("pairs", ("p=3", "out=empty:1", "flag=0"), "its type is not known; write 3:float32"),
    ],
)
def test_what_cannot_be_asked_for(file, kernel, arguments, says):
    with pytest.raises(CourseError, match=says):
        run_file(Asked(file, kernel, arguments=arguments), "cpu")


def test_the_command(file, tmp_path, capsys):
    def backwarp(*words):
        status = guarded(lambda: run_verb(["run", str(file), *words, "--device", "cpu"]))
        return status, capsys.readouterr().out

    given = [
        "--grid",
        "2",
        "--block",
        "32,1",
        "--arg",
        "n=64",
        "--arg",
        "a=1",
        "--arg",
        "x=random:64",
        "--arg",
        "y=zeros:64",
    ]
    status, out = backwarp("saxpy", *given, "--save", str(tmp_path / "out"))
    assert status == 0 and "ok saxpy<<<2, 32>>>" in out and "x: float32 [64], unchanged" in out
    assert "global" in out and np.load(tmp_path / "out" / "y.npy").shape == (64,)
    status, out = backwarp("past_the_end", "--arg", "zeros:2", "--arg", "200")
    assert status == 1 and "y[200]" in out and "threadIdx.x + last" in out
    assert json.loads(backwarp("saxpy", *given, "--json")[1])["arrays"]["y"]["changed"] is True
    assert backwarp("saxpy", "--grid", "1,2,3,4")[0] == 2


def test_the_readme_s_example(tmp_path, monkeypatch):
    """What it suggests for kernels of CuPy, and for your own."""
    text = (ROOT / "README.md").read_text()
    blocks = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    (tmp_path / "saxpy.cu").write_text(
        "__global__ void saxpy(int n, float a, const float* x, float* y) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = a * x[i] + y[i];\n}\n"
    )
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(block, names)
    names["test_saxpy"]()


def test_a_file_that_does_not_compile(file, tmp_path, capsys):
    (tmp_path / "wrong.cu").write_text("__global__ void k(int* x) {\n    x[0] = nothing;\n}\n")
    assert guarded(lambda: run_verb(["run", str(tmp_path / "wrong.cu"), "--arg", "zeros:1"])) == 1
    out = capsys.readouterr().out
    assert "x wrong.cu   does not compile" in out and "2 |     x[0] = nothing;" in out


def test_textures_and_surfaces(tmp_path):
    file = tmp_path / "blur.cu"
    file.write_text("""__global__ void blur(cudaTextureObject_t image, cudaTextureObject_t line, cudaSurfaceObject_t to) {
    int x = threadIdx.x, y = blockIdx.x;
    surf2Dwrite(tex2D<float>(image, x + 1, y + .5f) + tex1Dfetch<int>(line, x), to, x * sizeof(float), y);
}
""")

    def asked(
        image="texture,linear:arange:2x4", line="texture,memory:arange:4:int32", to="surface:zeros:2x4"
    ):
        return Asked(file, "", (2,), (4,), (f"image={image}", f"line={line}", f"to={to}"))

    done = run_file(asked(), "cpu")
    assert done.fault is None and done.changed == {"to"}
    assert done.arrays["to"].tolist() == [[0.5, 2.5, 4.5, 6], [4.5, 6.5, 8.5, 10]]
    assert run_file(asked(to="surface:empty:2x4"), "cpu").changed == {"to"}
    unset = run_file(asked("texture:empty:2x4"), "cpu").fault
    assert (unset.kind, unset.array) == ("uninitialised-read", "image")
    assert "x = 12 bytes" in run_file(asked(to="surface:zeros:2x3"), "cpu").fault.explanation
    for how, says in (
        (dict(image="zeros:2x4"), r"image is a texture object; write image=texture\[,linear\]"),
        (dict(to="texture:zeros:2x4"), "to is a surface object"),
        (
            dict(image="texture,linear:zeros:2x4:int32"),
            "linear filtering needs a texture that returns floats",
        ),
        (dict(image="texture,soft:zeros:2x4"), "soft is not an option of a texture"),
        (dict(image="texture:zeros:2x4x2x2"), "an array of 4 dimensions"),
        (dict(to="surface:zeros:2x4:float64"), "texel has 1, 2 or 4 channels"),
    ):
        with pytest.raises(CourseError, match=says):
            run_file(asked(**how), "cpu")


def test_arrays_that_cannot_be_saved(file, capsys):
    words = ["run", str(file), "fill<int, 3>", "--arg", "zeros:32", "--save", str(file), "--device", "cpu"]
    assert guarded(lambda: run_verb(words)) == 2
    assert "cannot be written: File exists" in capsys.readouterr().err


def test_macros_and_variables(tmp_path):
    file = tmp_path / "k.cu"
    file.write_text("__device__ int calls[2];\n__global__ void k(int* out) { out[0] = N + calls[1]; }\n")
    asked = dict(arguments=("zeros:1",), constants=("calls=arange:2:int32",), count=False)
    assert run_file(Asked(file, macros=("N=3",), **asked), "cpu").arrays["out"].tolist() == [4]
    assert "N" in run_file(Asked(file, **asked), "cpu").errors[0]


def test_headers_in_other_folders(tmp_path):
    """Beside the file that includes them, or above; but no other files, and none outside the project."""
    for name, text in {
        "project/.git/x": "",
        "project/src/deep/k.cu": '#include "../../common/a.cuh"\n#include "b.cuh"\n'
        "__global__ void k(int* out) { out[0] = a() + b(); }\n",
        "project/src/deep/b.cuh": "__device__ int b() { return 1; }\n",
        "project/common/a.cuh": '#pragma once\n#include "more/c.cuh"\n__device__ int a() { return 10 * c(); }\n',
        "project/common/more/c.cuh": '#include "../a.cuh"\n__device__ int c() { return 2; }\n',
        "outside.cuh": "__device__ int out() { return 2; }\n",
        "project/secret.txt": "no header",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    file = tmp_path / "project/src/deep/k.cu"
    asked = Asked(file, arguments=("out=zeros:1",), count=False)
    assert run_file(asked, "cpu").arrays["out"].tolist() == [21]
    (tmp_path / "project/common/more/c.cuh").write_text("__device__ int c() { return nothing; }\n")
    said = run_file(asked, "cpu").errors
    assert (
        "in ../../common/more/c.cuh(1): identifier" in said[0] and '#include "../../common/a.cuh"' in said[1]
    )
    for name in ("../../../outside.cuh", "../../secret.txt", "link.cuh"):
        (file.parent / "link.cuh").unlink(missing_ok=True)
        (file.parent / "link.cuh").symlink_to(tmp_path / "outside.cuh")
        file.write_text(f'#include "{name}"\n__global__ void k(int* o) {{ o[0] = out(); }}\n')
        said = " ".join(run_file(asked, "cpu").errors)
        assert f'"{name}" is not beside the file' in said and "no header" not in said


def test_headers_that_are_refused_and_headers_in_other_alphabets(tmp_path):
    (tmp_path / "k.cu").write_text('#include "a.cuh"\n__global__ void k() { f(); }\n')
    (tmp_path / "a.cuh").write_bytes(b"// caf\xe9\n#include NAME\n")
    asked = Asked(tmp_path / "k.cu", count=False)
    assert "a.cuh:2" in " ".join(run_file(asked, "cpu").errors)
    (tmp_path / "a.cuh").write_bytes(b"// caf\xe9\n__device__ void f() {}\n")
    assert run_file(asked, "cpu").fault is None


def test_a_result_that_depends_on_the_order_of_threads(tmp_path):
    file = tmp_path / "sum.cu"
    file.write_text("""__global__ void sum(volatile int* y) {
    *y = *y + 1;
}""")
    asked = Asked(file, block=(32,), arguments=("zeros:1",), count=False)
    fault = run_file(asked, "cpu").fault
    assert (fault.kind, fault.line, fault.array, fault.index) == ("order-dependent", 2, "y", "0")
    assert run_file(replace(asked, once=True), "cpu").fault is None


TOO_LARGE = """#include <cuda_fp16.h>
#define SUM(a, b) a + b
template <class T> __device__ T flat(T r, T w, T c) { return r * w + c; }  // !
struct Size { int h, w; };
__device__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y, a.z, a.w); }
__global__ void k(float* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0, at;
    unsigned g = blockIdx.x * blockDim.x + threadIdx.x, h = i * 2654435761u, s = (i * 1103515245 + 12345) & 0x7fffffff;
    constexpr int W = 16 * 16; __half p = __float2half(n); Size d = {n, m}; size_t w = n;
    y[i] = flat(n, m, i) + flat((long long)n, 1ll * m, 0ll) + __half2float(p * p) + (make_float4(n, 1, 1, 1) + make_float4(m, 1, 1, 1)).x;
    h ^= h << 13; h = h * 31 + g; s = s * 1664525u + 1013904223u; y[i] += h % n + s % n + ((long long)i * n * m) % W + 2 * SUM(n, m);
    at = i * n * m;                                                 // !
    int mixed = threadIdx.x * n * m;                                // !
    y[i] += (g * n * m & 63) + ((threadIdx.x - 1 + n) % n) + at;    // of its bits only some, and a difference that wraps back
    int counted = g * n * m;                                        // !
    for (int j = 0; j < 2 * n; j++) sum += n;                       // !
    at = d.h * d.w;                                                 // !
    int narrow = w * m;                                             // !
    unsigned kept = 50000u * 60000u + (blockIdx.x + 1) * n * 30000, wrapped = (blockIdx.x + 1) * n * m;  // !
    int bit = 1 << 31, shifted = n << 16;                           // !
    y[i] += (n * m > i) + mixed + counted + sum + narrow + kept + wrapped + bit + shifted;  // !
}
"""


def test_numbers_that_an_int_does_not_hold_though_nothing_faults(tmp_path, monkeypatch):
    """In lines with a "!", and no others: where numbers are unsigned, may wrap, are of other types, or only some bits are used."""
    (tmp_path / "k.cu").write_text(TOO_LARGE)
    monkeypatch.setattr(run_overflow, "MOST_NOTES", 99)
    done = run_file(Asked(tmp_path / "k.cu", "k", (2,), (2,), ("y=zeros:4", "n=70000", "m=70000")), "cpu")
    found = [note.split(":")[0] for note in done.notes if "fit into an int" in note]
    assert found == [f"line {i}" for i, line in enumerate(TOO_LARGE.splitlines(), 1) if "// !" in line]
    assert any(
        "line 3: r * w is 4,900,000,000, which" in note and "as (long long)r * w," in note
        for note in done.notes
    )
