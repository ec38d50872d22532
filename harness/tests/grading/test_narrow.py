"""Lines that keep a whole number in few bits, and the sizes that show whether that matters."""

from __future__ import annotations

import pytest

from backwarp.course.checkout import Course
from backwarp.devices import confined_device
from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.grading.grade import Options, grade_file, prepare
from backwarp.grading.narrow import cases, lines
from backwarp.grading.runs import Setup
from tests import ROOT

COURSE = Course(ROOT)

#: (a statement of a kernel with ints i and n, the kinds of it)
STATEMENTS = [
    ("short t = n / 16; y[t] = 1;", {"short"}),
    ("char t = n / 16; if (t == 3) y[i] = 1;", {"short"}),
    ("for (short r = 0; r < n; r++) y[r] = 1;", {"short"}),
    ("for (unsigned char r = 0; r < n; r += 2) y[r] = 1;", {"short"}),
    ("__shared__ short s[32]; s[threadIdx.x] = i; y[s[0]] = 1;", {"short"}),
    ("struct { short h, w; } p = {short(i), short(n)}; y[p.h] = p.w;", {"short"}),
    ("int both = i << 16 | n; y[both & 0xffff] = 1;", {"short", "number"}),
    ("y[(n << 16) >> 16] = 1;", {"short"}),
    ("union { int all; short half[2]; } u; u.all = n; y[u.half[0]] = 1;", {"short"}),
    ("struct { int h : 12, w : 20; } p; p.h = i; p.w = n; y[p.w] = p.h;", {"short", "24 bits"}),
    ("y[__byte_perm(n, 0, 0x10)] = 1;", {"short"}),
    ("y[__umul24(i, n)] = 1;", {"24 bits"}),
    ("y[__mul24(i, n)] = 1;", {"24 bits"}),
    ("y[n & 0xfffff] = 1;", {"24 bits"}),
    ("y[__float2int_rn(sqrtf(n))] = 1;", {"float"}),
    ("y[(int)ceilf((float)n / 4)] = 1;", {"float"}),
    ("double m = (float)n; if (i < m) y[i] = 1;", {"float"}),
    ("y[min(n, 30000)] = 1;", {"number"}),
    ("if (n < 20000) y[i] = 1;", {"number"}),
    ("y[n % 65536] = 1;", {"number"}),
    ("__shared__ float s[8 * 32]; s[n] = i; y[i] = s[n - 1] + n % 1024;", set()),
    ("for (float r = 0; r < n; r++) y[(int)r] = 1;", {"float"}),
    ("float m = n; if (i < m) y[i] = 1;", {"float"}),
    ("y[int(n / 3.0f)] = 1;", {"float"}),
    ("y[i] = 1.0f / n;", set()),
    ("bool in = i < n, own = i; if (in && own) y[i] = in;", set()),
    ("long long k = (long long)i * n; y[k % n] = k;", set()),
    ("double m = n; if (i < m) y[i] = i & 31;", set()),
    ("y[i] = y[n] > 0.5f ? expf(y[i]) : 1.0f;", set()),
]


def test_lines_that_keep_a_whole_number_in_few_bits():
    kernels = (
        f'extern "C" __global__ void k{k}(float* y, int n) {{ int i = blockIdx.x; {text} }}'
        for k, (text, _) in enumerate(STATEMENTS)
    )
    found = lines(compile_ptx("\n".join(kernels), "kernel.cu").text, "kernel.cu")
    for line, (text, kinds) in enumerate(STATEMENTS, 1):
        assert {kind for kind in found if line in found[kind]} == kinds, text


def test_an_array_in_which_only_a_long_axis_has_no_room():
    text = 'extern "C" __global__ void k(float* y, int n) {{ __shared__ float s[{n}]; s[n] = 1; y[n] = s[n - 1]; }}'
    for size, kinds in ((8192, set()), (9000, {"number"})):
        assert lines(compile_ptx(text.format(n=size), "kernel.cu").text, "kernel.cu").keys() == kinds


def test_no_solution_has_such_a_line():
    """But for numbers of bytes."""
    for id in COURSE.ids():
        puzzle = COURSE.load(id)
        if puzzle.kernels:
            text = puzzle.solution_path.read_text(encoding="utf-8")
            ptx = compile_ptx(text, "kernel.cu", include_dirs=puzzle.include_dirs).text
            found, source = lines(ptx, "kernel.cu"), ["", *text.splitlines()]
            numbers = found.pop("number", [])
            assert not found and all("sizeof" in source[line] for line in numbers), id


def test_lines_of_a_kernel_are_those_of_what_it_calls():
    text = """
__device__ int leaf(int n) { short s = n; return s; }
__device__ int mid(int n) { return leaf(n) + 1; }
extern "C" __global__ void a(float* y, int n) { y[mid(n)] = 1; }
__global__ void b(float* y, int n) { y[n] = 1; }
__device__ void store(float* y, int n) { char q = n; y[q] = 1; }
__global__ void c(float* y, int n) { store(y, n); }
__device__ int (*f)(int) = mid;
__global__ void d(float* y, int n) { y[f(n)] = 1; }
"""
    ptx = compile_ptx(text, "kernel.cu").text
    found = {kernel: lines(ptx, "kernel.cu", kernel).get("short", []) for kernel in "abcd"}
    assert found == {"a": [2], "b": [], "c": [6], "d": [2, 6]}


SUM = "sum += A[row * K + k] * B[k * N + col];"
#: (puzzle, text, its replacement, how the case is called that shows it)
WRONG = [
    ("31", "int class_h", "short class_h", "greatest_stride_h"),
    ("32", "int across", "short across", "greatest_R"),
    (
        "32",
        "int across = (columns + TILE - 1) / TILE",
        "int across = ((columns + TILE - 1) / TILE) << 16 >> 16",
        "greatest_R",
    ),
    ("02", "A[row * K + k]", "A[__umul24(row, K) + k]", "greatest_K"),
    ("34", "for (int step = 1", "for (short step = 1", "greatest_C_in"),
    ("17", "for (int r", "for (short r", "greatest_R"),
    (
        "02",
        "for (int k = 0; k < K; k++) {",
        f"for (float f = 0; f < K; f++) {{ int k = f; {SUM} }}\n{{ int k = 0;",
        "greatest_K",
    ),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("number", "old", "new", "case"), WRONG)
def test_what_only_the_greatest_sizes_show_is_wrong(tmp_path, number, old, new, case):
    puzzle = COURSE.load(COURSE.resolve(number))
    text = puzzle.solution_path.read_text(encoding="utf-8")
    text = text.replace(SUM, "sum += 0 * k;") if old[-1] == "{" else text
    (tmp_path / "kernel.cu").write_text(text.replace(old, new, 1), encoding="utf-8")
    verdict = grade_file(puzzle, tmp_path / "kernel.cu", Options("cpu"))
    line = text[: text.index(old)].count("\n") + 1
    assert not verdict.passed and verdict.case.startswith(case)
    assert any("Every smaller case is right" in says and f"line {line}" in says for says in verdict.lines)


#: (statement at the start of puzzle 02's kernel, the axes along which what it keeps grows)
HARMLESS = [
    ("char c = threadIdx.x % 8; float f = blockDim.x; if (c == 100 || (int)f == 77777) return;", set()),
    ("short tiles = (K + 31) / 32; if (tiles < 0) return;", {"K"}),
    ("if ((int)((float)N / 2) < 0) return;", {"N"}),
]


@pytest.mark.parametrize(("statement", "axes"), HARMLESS)
def test_cases_are_only_those_in_which_what_is_kept_becomes_larger(statement, axes):
    puzzle = COURSE.load(COURSE.resolve("02"))
    text = puzzle.solution_path.read_text(encoding="utf-8")
    text = text.replace("    int row", f"    {statement}\n    int row", 1)
    assert statement in text
    with confined_device("cpu", checks="full", seed=1) as device:
        setup = Setup(device, (1,))
        prepare(setup, puzzle, text, "kernel.cu")
        found = cases(puzzle, {}, setup, setup.module.compiled.text, "kernel.cu")
        assert {case.note.partition(" ")[0] for case in found} == axes


def test_narrow_variables_that_are_never_too_narrow_pass(tmp_path):
    puzzle = COURSE.load(COURSE.resolve("26"))
    text = puzzle.solution_path.read_text(encoding="utf-8")
    text = text.replace(
        "int x = threadIdx.x, y = threadIdx.y;", "unsigned char x = threadIdx.x, y = threadIdx.y;"
    )
    assert "char" in text
    (tmp_path / "kernel.cu").write_text(text, encoding="utf-8")
    verdict = grade_file(puzzle, tmp_path / "kernel.cu", Options("cpu"))
    assert verdict.passed and any(case.name.startswith("greatest") for case in verdict.cases)
