"""What is said about the compiler's messages."""

import pytest

from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.errors import CompileError, Diagnostic
from backwarp.grading.compile_braces import wrong_line
from backwarp.grading.compile_errors import compile_error, with_warnings
from backwarp.grading.compile_remedies import remedy
from tests import ROOT

HEADERS = (ROOT / "puzzles" / "include",)

CALLS = "int i = blockIdx * 2;"


@pytest.mark.parametrize(
    ("message", "line", "column", "says"),
    [
        ('expected a ";"', "return;", 1, "The ; is missing at the end of line 1."),
        ('expected a ";"', "int i = 1 int", 11, "missing before int"),
        ('expected a ";"', "int i = 1 + ;", 13, ""),
        ('explicit type is missing ("int" assumed)', "= 3;", 1, ""),  # it points at no word
        ('no operator "*" matches; const uint3 * int', CALLS, 18, "blockIdx.x"),
        ('namespace "std" has no member "cout"', "std::cout << i;", 6, "printf"),
        ("unrecognized token", "int i\u00a0= 1;", 6, "U+00A0, a no-break space"),
        ("unrecognized token", "\u201chi\u201d", 1, "plain quotes"),
        ('expected a "}"', "", 0, "every { needs"),
        ("the size of an array must be greater than zero", "float a[TILE];", 9, "see where TILE is set"),
        (
            'more than one instance of overloaded function "max" matches the argument list: 4 fit\nargument types are: (int, const float)',
            "y = max(0, x);",
            5,
            "write fmaxf, or max(a, 0.0f)",
        ),
        (
            'more than one instance of overloaded function "min" matches the argument list: 2 fit\nargument types are: (long, int)',
            "y = min(0, x);",
            5,
            "types that fit only one",
        ),
        (
            'no instance of overloaded function "pow" matches the argument list\n (float)',
            "y = pow(x);",
            5,
            "No function pow",
        ),
    ],
)
def test_a_common_compiler_message_has_a_remedy(message, line, column, says):
    text = remedy(Diagnostic("error", message, "kernel.cu", 2, column, line), f"int x\n{line}\n")
    assert says in text and bool(says) == bool(text)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("A", "Do you mean a: capital and small letters are different?"),
        ("grad_ouput", "Do you mean grad_output?"),
        (
            "weight",
            "The block in which line 2 declares weight ends before line 3: declare it before that block.",
        ),
        ("later", "later is declared only in line 4."),
        ("__shfl_down", "It needs a mask of the lanes that take part: __shfl_down_sync(0xffffffff, ...)."),
        ("turn", "turn belongs to the loop in line 2, which has no braces: only one statement is in it."),
        ("x", ""),
    ],
)
def test_a_name_that_is_not_known_is_near_to_one_that_is(name, says):
    source = f"void f(float* a, float* grad_output) {{\n  {{ float weight = 1; }} for (int turn = 0; turn < 9; turn++) a[0] = 1;\n  a[0] = {name};\n  int later;\n}}"
    found = Diagnostic("error", f'identifier "{name}" is undefined', "kernel.cu", 3, 10, f"  a[0] = {name};")
    assert remedy(found, source) == says


def test_a_variable_without_a_type_is_told():
    found = Diagnostic("error", 'identifier "i" is undefined', "kernel.cu", 2, 3, "  i = threadIdx.x;")
    told = remedy(found, "void f() {\n  i = threadIdx.x;\n}")
    assert told == "A variable is declared with its type where it is first set, as in int i = ..."


@pytest.mark.parametrize(
    ("message", "source", "seen", "wrong"),
    [
        ('expected a ";"', "int i = 1  // one\n\n  return;", 3, 1),
        ('expected a ";"', "int i = 1\n#define N 2\n  return;", 3, 1),
        ('expected a ";"', "  return 1 2;", 1, 1),
        ('expected a "}"', "void f() {\n if (1) {\n}\n", 4, 0),
        ('identifier "c" is undefined', "void f(int c) {\n }}\n  c = 1;\n}", 3, 0),
        ('identifier "c" is undefined', "void f() {\n  f(c, '}'); // }\n}", 2, 2),
    ],
)
def test_the_line_to_correct_is_the_one_that_is_wrong(message, source, seen, wrong):
    text = source.split("\n")[seen - 1]
    found = Diagnostic("error", message, "kernel.cu", seen, len(text) - len(text.lstrip()) + 1, text)
    if "1 2" in source:
        found = Diagnostic("error", message, "kernel.cu", seen, 12, text)
    assert wrong_line(found, source) == wrong
    assert remedy(found, source) or wrong == seen


def test_a_warning_that_may_be_the_cause_comes_after_the_first_line():
    warning = Diagnostic(
        "warning", 'variable "x" is used before its value is set', "kernel.cu", 1, 5, "x += 1;"
    )
    assert with_warnings(["c[i=0] = nan", "nan: not a number"], [warning], "x += 1;") == [
        "c[i=0] = nan",
        'The compiler warns of line 1: variable "x" is used before its value is set.',
        "    1 | x += 1;",
        "      |     ^",
        "nan: not a number",
    ]


def test_a_message_of_several_lines_is_one_sentence():
    found = Diagnostic(
        "error", "too deep; detected during:\n    A at line 1\n    B at line 2", "kernel.cu", 1
    )
    assert compile_error(CompileError("log", (found,)))[0] == (
        "kernel.cu:1: error: too deep; detected during: A at line 1; B at line 2"
    )


STUB = """__constant__ float table[64];
constexpr int WIDTH = 4;

extern "C" __global__ void rows(const float* x, float* y, int n, int F) {
    __shared__ float tile[WIDTH];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int last = n - 1;
    if (i >= n) return;
    float sum = 0.0f;
    for (int r = 0; r < F; r++) {
        sum += x[i * F + r] * table[r];
    }
    tile[threadIdx.x] = sum;
    __syncthreads();
    y[i] = tile[threadIdx.x] + last;
}
"""
SUM = "    float sum = 0.0f;"
#: what is edited, into what, what is said, and the line to correct if it is not the first one changed
SLIPS = [
    (SUM, f"<<<<<<< HEAD\n{SUM}\n=======\n{SUM}\n>>>>>>> mine", "A merge left both versions"),
    ("if (i >= n) return;", "if i >= n: return;", "A condition stands in parentheses, and braces"),
    ("for (int r = 0; r < F; r++)", "for r in range(F):", "for (int i = 0; i < n; i++)"),
    ("for (int r = 0; r < F; r++)", "for (int r = 0, r < F, r++)", "separated by semicolons"),
    ("for (int r = 0; r < F; r++)", "for (k = 0; k < F; k++)", "as in int k = ..."),
    (SUM, f"float patch[F][F]; {SUM}", "F is known only at the launch; the length"),
    (SUM, f"int m = F * F; float patch[m]; {SUM}", "m is known only when the kernel runs"),
    (SUM, f"int m = 25; float patch[m]; {SUM}", "constexpr int m = 25."),
    (
        "int last = n",
        "constexpr int last = WIDTH + n",
        "n is known only at the launch, so this is no constexpr",
    ),
    ("n - 1", "n % (float)F", "% is for whole numbers"),
    ("x[i * F + r]", "x[i * 1.0f + r]", "take whole numbers"),
    ("return;", "return 0;", "A kernel returns nothing: write return;"),
    ("__global__ void", "__global__ int", "so void stands before its name"),
    ("__global__ void", "__global__", "so void stands before its name"),
    ("__global__ void", "void", "rows is the kernel, so __global__"),
    ("threadIdx.x;", "threadidx.x;", "Do you mean threadIdx: capital"),
    ("threadIdx.x;", "threadIdx.X;", "members are x, y and z"),
    ("__syncthreads", "__syncthread", "Do you mean __syncthreads?"),
    ("__syncthreads", "syncthreads", "Do you mean __syncthreads?"),
    ("__shared__", "__share__", "Do you mean __shared__?"),
    ("float sum", "Float sum", "Do you mean float: capital"),
    ("float sum", "half sum", "#include <cuda_fp16.h>"),
    ("__constant__ float table[64];", "", "put back `__constant__ float table[64];`"),
    ("    int last = n - 1;\n", "", "put back `int last = n - 1;`"),
    ("int n, int F", "int n", "put back `int F`"),
    ("constexpr int WIDTH", "int WIDTH", "it is a constant: constexpr int WIDTH = 4;"),
    ("x[i * F + r]", "x[i * F + r]]", "Line 11 has a ] too many"),
    ("i >= n", "i >= N", "Do you mean n: capital"),
    (
        'extern "C"',
        '__device__ int f(int a) { int z = a; return z; }\n__device__ int g() { return z; }\nextern "C"',
        "The z of line 4 belongs to another function",
    ),
    (
        "const float* x",
        "const float x",
        "Line 4 declares x as one number; an array is declared with *: const float* x.",
    ),
    ("const float* x, float* y", "const int x, float* y", "Line 4 declares x as one number"),
    ("sum += x[", "const float img = x + 1; img += 1; sum += img[", "Line 11 declares img as one number"),
    (SUM, "const float sum = 0.0f;", "Line 9 declares sum const: leave out const"),
    (SUM, "float* z = x + 1; float sum = z[0];", "must be const float* too"),
    ("y[i] =", "x[i] =", "x is const, so it can only be read: write to the output"),
    ("y[i] =", "y =", "y is an array: one element of it is set"),
    ("y[i] =", "y(i) =", "y is an array: its elements are written with brackets"),
    ("y[i] =", "threadIdx.x = 1; y[i] =", "threadIdx is given"),
    ("y[i] =", "tile = y; y[i] =", "tile is an array: its elements are set"),
    ("sum += x[i * F + r] * table[r]", "sum = x", "written x[...]"),
    ("x[i * F + r]", "x[i][r]", "Arrays are flat here"),
    ("i >= n", "i >= y.size()", "knows neither length nor shape"),
    ("i >= n", "i >= len(y)", "does not know its length"),
    ("i >= n", "i => n", "It is written >="),
    ("F + r]", "F ** 2]", "C++ has no **"),
    ("n - 1", "n - 1(F)", "A product needs its *"),
    (SUM, "float sum = None;", "C++ has no None"),
    (SUM, f"if (n && i = 0) return; {SUM}", "= stores, and == compares."),
    (SUM, f"i + 1 = n; {SUM}", "Left of = stands one variable"),
    (SUM, f"float part; part[0] = 1.0f; {SUM}", "an array has its length there: float part[...]"),
    (
        SUM,
        f"switch (i) {{ case n: return; }} {SUM}",
        "n is known only at the launch, and here the compiler must know it",
    ),
    (SUM, f"flaot z = 1.0f; {SUM}", "Do you mean float?"),
    (SUM, f"retrun; {SUM}", "Do you mean return?"),
    (SUM, f"int last = 3; {SUM}", "last has its type already in line 7"),
    (SUM, "float[9] patch; float sum = 0.0f;", "The brackets follow the name: float patch[9]."),
    (SUM, "float sum = 0,5;", "A number has a point"),
    (SUM, "int a = 1, int b = 2;", "the type is not repeated"),
    (SUM, f"__device__ float f(float x) {{ return x; }} {SUM}", "A function stands outside of the kernel"),
    (
        "sum += x[",
        "total += x[",
        "Declare it before the loop, with its type and first value: float total = 0.0f;",
    ),
    (SUM, f"elif (i) return; {SUM}", "It is written else if"),
    (SUM, f"{SUM} # the sum", "A comment begins with //."),
    (SUM, f"/* {SUM}", "This comment has no end"),
    (SUM, f"printf('no'); {SUM}", "A text stands in double quotes"),
    (SUM, f"rows<<<1, 1>>>(x, y, n, F); {SUM}", "delete the call with <<< >>>"),
    ("__shared__ float tile[WIDTH];", "__shared__ float tile[4] = {0};", "no values at first"),
    ("__shared__ float tile[WIDTH];", "__shared__ float tile[];", "or extern __shared__"),
    ("tile[threadIdx.x] = sum;", "else tile[threadIdx.x] = sum;", "This else has no if"),
    ("* table[r]", "* (table[r]", "Line 11 has 1 ( and 0 )."),
    ("return;", "return", "The ; is missing at the end of line 8."),
    ("int n, int F", "int n int F", "missing before int"),
    ("    }\n", "", "the one in line 15 closes the { of line 10"),
    ("    }\n", "    }\n    }\n", "the one in line 13 closes the kernel"),
    ('extern "C"', '__device__ float f(float a, int b) { return a; }\nextern "C"', ""),
]


@pytest.mark.parametrize(("before", "after", "says"), SLIPS, ids=[slip[2][:40] for slip in SLIPS])
def test_a_slip_is_told_with_its_remedy(before, after, says, runtime):
    assert before in STUB
    source = STUB.replace(before, after, 1)
    if not says:
        source, says = source.replace("= 0.0f", "= f(1.0f)"), "f, in line 4, takes (float a, int b)."
    with pytest.raises(CompileError) as found:
        compile_ptx(source)
    lines = compile_error(found.value, source, STUB)
    first = [line for line in lines if not line.startswith("    ")]
    assert says in first[1] and len(lines) <= 10, lines


@pytest.mark.parametrize(
    ("includes", "name", "says"),
    [
        ((), "wait_for_phase", 'include "hopper.cuh"'),
        (('"async.cuh"',), "Barrier", 'include "hopper.cuh"'),
        (('"hopper.cuh"',), "wait_for_phases", "Do you mean wait_for_phase?"),
        (('"hopper.cuh"',), "copy4_async", 'include "async.cuh"'),
        (('"mma.cuh"',), "__half", 'include "hopper.cuh"'),  # the one that the stub includes
    ],
)
def test_what_a_header_of_the_course_declares_is_told_with_the_header(includes, name, says):
    source = "\n".join((*(f"#include {header}" for header in includes), f"{name}(a);"))
    found = Diagnostic("error", f'identifier "{name}" is undefined', line=len(includes) + 1, column=1)
    assert says in remedy(found, source, '#include "hopper.cuh"', HEADERS)
    if name == "__half":
        assert "<cuda_fp16.h>" in remedy(found, source, "", HEADERS)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SUM, "float sum = floats;"),  # like float, and no type
        (SUM, f"printf(i); {SUM}"),  # no text in single quotes
        (SUM, f"float4 v = {{}}; const float4 u = v; u.x = 1; {SUM}"),
        ('extern "C"', '__device__ int* f(int a) { return a > 1.0f ? 2.0f : 1.0f; }\nextern "C"'),
    ],
)
def test_what_is_not_sure_is_not_told(before, after, runtime):
    source = STUB.replace(before, after, 1)
    with pytest.raises(CompileError) as found:
        compile_ptx(source)
    lines = compile_error(found.value, source, STUB)
    assert len([line for line in lines if not line.startswith("    ")]) == 1, lines


def test_a_warning_takes_no_place_from_what_a_fault_says():
    warning = Diagnostic("warning", "expression has no effect", "kernel.cu", 1, 5, "    __syncthreads;")
    fault = [
        "Race reported",
        "    2 | a[0] = 1;",
        "      | ^",
        "Thread 1 writes a[0], and this thread reads it.",
    ]
    told = with_warnings(fault, [warning], "    __syncthreads;", faulted=True)
    assert told[3] == fault[3] and told[4].startswith("The compiler warns")


def test_a_constant_that_only_the_launch_uses_is_no_news():
    line = "constexpr int TM = 4; int y = 1;"
    unused = [
        Diagnostic(
            "warning", f'variable "{name}" was declared but never referenced', "kernel.cu", 1, 15, line
        )
        for name in ("TM", "y")
    ]
    told = "".join(with_warnings(["c[0] = 1"], unused, line))
    assert '"y"' in told and '"TM"' not in told


def test_a_warning_comes_once_and_with_its_remedy():
    line = "    y = x[b, c, d];"
    warning = Diagnostic("warning", "expression has no effect", "kernel.cu", 1, 11, line)
    told = with_warnings(["y[0] = 1"], [warning, warning], line)
    assert len(told) == 5 and told[4].startswith("Of a, b in brackets only b counts")
    line = "    __syncthreads;"
    told = with_warnings(
        ["a race"], [Diagnostic("warning", "expression has no effect", "kernel.cu", 1, 5, line)], line
    )
    assert told[-1] == "__syncthreads without ( ) is not called."
