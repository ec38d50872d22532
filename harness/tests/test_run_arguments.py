"""Arguments given as text, of every kind that a kernel may take, and what is said of its results."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from backwarp.errors import CourseError
from backwarp.report.run import print_run
from backwarp.run import Asked, run_file
from backwarp.run_arguments import declared_type, struct_layout
from backwarp.run_results import Expectation

KERNEL = """struct Dims { int n, m; };
struct Inner { float a[2]; };
typedef struct { char c; double d; Inner in; const float* p; } Odd;
__constant__ float mask[4];
__device__ float total;
__device__ int calls[2];
__global__ void k(float* y, Dims d, Odd o, const float* bias, float** rows, int pad[], int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = d.n * 10 + d.m + o.d + o.in.a[1] + (bias ? bias[i] : 100) + rows[i / 8][i % 8] + mask[1];
    pad[i] = -1;
    if (i == 0) { total += mask[0]; calls[1] = 7; }
}
"""
ARGUMENTS = dict(
    y="y=empty:32",
    d="d={3, 4}",
    o="o={1, 2.5, {7, 8}, 0}",
    bias="bias=null",
    rows="rows=[ones:8; arange:8]",
    pad="pad=empty:16",
    n="n=12",
)


@pytest.fixture
def asked(tmp_path):
    (tmp_path / "k.cu").write_text(KERNEL)

    def asked(*expected, **changed) -> Asked:
        given = tuple((ARGUMENTS | changed).values())
        constants = ("mask=ones:4", "total=3")
        return Asked(tmp_path / "k.cu", "k", (1,), (16,), given, constants, expected, count=False, once=True)

    return asked


def test_structs_null_pointers_arrays_of_pointers_and_variables(asked):
    done = run_file(asked("y=where(arange(32) < 8, 146.5, 145.5 + arange(32) % 8)", "pad=-ones(16)"), "cpu")
    assert done.fault is None
    assert done.arrays["y"][:12].tolist() == [146.5] * 8 + [145.5, 146.5, 147.5, 148.5]
    assert (done.arrays["total"].tolist(), done.arrays["calls"].tolist()) == ([4], [0, 7])
    assert done.changed == {"y", "pad", "total", "calls"}
    assert "20 of 32 elements of y were never written, the first is y[12]." in done.notes
    assert not any(" of pad " in note for note in done.notes)  # -1 is what unset memory holds
    assert done.differences == [
        "y[i=12] was never written   (20 of 32 elements: exactly the elements with i>=12)"
    ]
    assert done.met == ["pad"]
    said = io.StringIO()
    print_run(Console(file=said), done, 80)
    assert "pad is as expected: all 16 elements." in said.getvalue()
    same = run_file(asked(d="d=bytes:0300000004000000", bias="bias=zeros:16", rows="rows=[ones:8]*2"), "cpu")
    assert same.arrays["y"][:12].tolist() == [46.5] * 12


@pytest.mark.parametrize(
    "changed, says",
    [
        (dict(d="d={3}"), "Dims has 2 members; 1 values were given"),
        (dict(d="d={3, x}"), "x is not a number"),
        (dict(d="d=bytes:03"), "d has 8 bytes: write 16 hexadecimal digits"),
        (dict(rows="rows=[[ones:8]]"), "not further pointers"),
        (dict(n="n=null"), "n is a number"),
        (dict(bias="bias=nothing"), "bias is an array; write"),
    ],
)
def test_arguments_that_do_not_fit(asked, changed, says):
    with pytest.raises(CourseError, match=says):
        run_file(asked(**changed), "cpu")


def test_layouts_of_structs_and_types_of_variables():
    assert struct_layout(KERNEL, "Odd").itemsize == 32 and struct_layout(KERNEL, "Dims").itemsize == 8
    for text in (
        "struct S { float4 v; };",
        "struct S { int f(); };",
        "struct S { T x; };",
        "struct T { int x; };",
    ):
        assert struct_layout(text, "S") is None
    assert (declared_type(KERNEL, "mask"), declared_type(KERNEL, "calls"), declared_type(KERNEL, "d")) == (
        "f4",
        "i4",
        "",
    )


@pytest.mark.parametrize(
    "text, right",
    [
        ("y=2*x+a", True),
        ("y=2*x", False),
        ("y=x*(x-x)+a+2*x+1e-7", True),
        ("y=a+2*x+1e-3", False),
        ("y=x[::-1]", False),
    ],
)
def test_expressions(text, right):
    x = np.arange(5, dtype=np.float32)
    given = {"x": x, "a": np.int32(3), "y": np.zeros(5, np.float32)}
    expectation = Expectation(text, ["x", "y"])
    assert (expectation.difference(given, 2 * x + 3, None) == []) == right


@pytest.mark.parametrize(
    "text, says",
    [
        ("y", "write NAME=FILE.npy"),
        ("z=1", "the arrays are x, y"),
        ("y=__import__('os')", "is not defined"),
        ("y=x.__class__", "neither a .npy file nor such an expression"),
        ("y=[q for q in x]", "neither a .npy file nor such an expression"),
        ("y=ones(7)", r"has the shape \(7,\), y has \(5,\)"),
        ("y=gone.npy", "cannot be read"),
        ("y=" + "(" * 3000, "neither a .npy file"),
        ("y='a'", "has the shape"),
    ],
)
def test_what_is_no_expectation(text, says):
    with pytest.raises(CourseError, match=says):
        Expectation(text, ["x", "y"]).difference({"x": np.ones(5)}, np.ones(5), None)
