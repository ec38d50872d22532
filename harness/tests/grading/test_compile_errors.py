"""What is said about the compiler's messages."""

import pytest

from harness.errors import CompileError, Diagnostic
from harness.grading.compile_errors import compile_error, remedy, with_warnings, wrong_line

CALLS = "int i = blockIdx * 2;"


@pytest.mark.parametrize(
    ("message", "line", "column", "says"),
    [
        ('expected a ";"', "return;", 1, "The ; is missing at the end of line 1."),
        ('expected a ";"', "int i = 1 int", 11, ""),
        ("expression must be a modifiable lvalue", "a[i] = 1;", 1, "a is const"),
        ('no operator "*" matches; const uint3 * int', CALLS, 18, "blockIdx.x"),
        (
            'expression must have pointer-to-object type but it has type "float"',
            "c[i][1] = 2;",
            1,
            "c[position]",
        ),
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
    assert bool(remedy(found, source)) == (wrong != seen)


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
