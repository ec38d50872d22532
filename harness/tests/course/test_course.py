"""Declarations, stubs, discovery, tunables and reading the student's file."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from backwarp.course.checkout import Course, open_course, read_source
from backwarp.course.declare import (
    Case,
    Float,
    Gate,
    In,
    InOut,
    Int,
    Kernel,
    Launch,
    Mistake,
    Out,
    Puzzle,
    ceil_div,
)
from backwarp.course.sizes import Ints, drawn, gradient_check, integers, own_sizes
from backwarp.course.stubs import strip_solution, stub_text
from backwarp.errors import CourseError

DECLARATION = """\
from backwarp.course import Case, In, Int, Kernel, Launch, Out, Puzzle
PUZZLE = Puzzle(title="t", part=1, teaches="x", hints=("h",),
    kernels=(Kernel("k", (In("x", n="N"), Out("y", n="N"), Int("N")),
                    lambda d, t: Launch(1, 32), lambda a, d: a["x"]),),
    cases=(Case("c", {"N": 3}),))
"""
SOLUTION = "a\n  // BEGIN SOLUTION\nsecret\n  // END SOLUTION\nb\n"


def checkout(root, *names, declaration=DECLARATION):
    for name in names:
        for folder in (root / "puzzles" / name, root / "solutions" / name):
            folder.mkdir(parents=True)
        (root / "puzzles" / name / "puzzle.py").write_text(declaration)
        (root / "solutions" / name / "kernel.cu").write_text(SOLUTION)
    return Course(root)


def kernel(**changes):
    params = (In("x", b="B", n="N"), Out("y", n="N"), Int("N"), Float("scale", 0.5))
    return Kernel(
        **{"name": "k", "params": params, "launch": lambda d, t: Launch(1, 1), "reference": len} | changes
    )


def puzzle(**changes):
    fields = {"title": "t", "part": 1, "teaches": "x", "hints": ("h",), "kernels": (kernel(),)}
    return Puzzle(**fields | {"cases": (Case("c", {"B": 2, "N": 3}),)} | changes)


def test_ceil_div():
    assert [ceil_div(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_a_parameter_knows_its_shape_and_its_declaration():
    array = In("x", b="B", n="N", s=3)
    assert array.shape({"B": 2, "N": 5}) == (2, 5, 3)
    assert (array.letters, array.declaration) == ("bns", "const float* x")
    assert Out("y", dtype="int32", n="N").declaration == "int* y"
    assert InOut("z", n="N").is_input and InOut("z", n="N").is_output
    assert Int("n", "N").resolve({"N": 4}) == 4
    assert Int("n", lambda d: d["N"] * 2).resolve({"N": 4}) == 8
    assert Float("rate", 0.1).resolve({}) == 0.1


def test_sizes_are_drawn_by_the_seed_and_declared_ones_stay():
    draw = Case("own", draw=lambda pick: {"B": pick(1, 3), "N": pick(101, 999, 2)})
    both = puzzle(cases=(Case("c", {"B": 2, "N": 3}), draw))
    assert both.cases == both.drawn(0).cases == both.drawn(5).drawn(0).cases
    sizes = [both.drawn(seed).cases[1].dims for seed in range(60)]
    assert {d["B"] for d in sizes} == {1, 2, 3} and len({d["N"] for d in sizes}) > 40
    assert all(101 <= d["N"] <= 999 and d["N"] % 2 for d in sizes)
    assert both.drawn(5).cases[0] is both.cases[0]
    with pytest.raises(CourseError, match="case own: parameter 'x' of .* needs the dimension 'B'"):
        puzzle(cases=(Case("own", draw=lambda pick: {"N": pick(1, 3)}),))


def test_sizes_in_one_line_are_those_written_out():
    assert Ints("N B") == (Int("N"), Int("B"))
    short = own_sizes(B=(1, 3), N=(101, 999, 2), K=7)
    long = replace(short, draw=lambda pick: {"B": pick(1, 3), "N": pick(101, 999, 2), "K": 7})
    assert [short.drawn(seed).dims for seed in range(9)] == [long.drawn(seed).dims for seed in range(9)]
    assert integers({"N": 3}).values == "integers" and gradient_check("g", {"N": 3}).check == "gradient"


def test_gates_count_in_the_case_that_is_counted_again():
    gates = Gate("flops", 1), Gate("flops", 1, case="c")
    cases = tuple(
        Case(name, {"B": 2, "N": 3}, again=again) for name, again in (("c", None), ("counted", drawn(N=4)))
    )
    assert [gate.case for gate in puzzle(gates=gates, cases=cases).gates] == ["counted", "c"]
    assert [gate.case for gate in puzzle(gates=gates).gates] == ["", "c"]


def test_a_kernel_shows_its_signature():
    assert kernel().signature == "k(const float* x, float* y, int N, float scale)"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: In("x"), "no axes"),
        (lambda: In("x", batch="N"), "single letters"),
        (lambda: In("x", dtype="float", n="N"), "dtype"),
        (lambda: Case("c", {}, values="ones"), "values"),
        (lambda: Case("c", {}, check="torch"), "check"),
        (lambda: kernel(params=(In("x", n="N"),)), "no Out"),
        (lambda: kernel(params=(In("x", n="N"), Out("x", n="N"))), "twice"),
        (lambda: puzzle(cases=(Case("c", {"N": 3}),)), "'B'"),
        (lambda: puzzle(cases=(Case("c", {"B": 2, "N": 3}, check="gradient"),)), "gradient_of"),
        (lambda: puzzle(cases=(Case("c", {"B": 2, "N": 3}),) * 2), "same name"),
        (
            lambda: puzzle(
                kernels=(kernel(), kernel(name="l")), mistakes=(Mistake("m", ("a", "b"), kernel="m"),)
            ),
            "no kernel 'm'",
        ),
        (lambda: puzzle(mistakes=(Mistake("m", ("a", "b"), hint=2),)), "no hint 2"),
    ],
)
def test_a_wrong_declaration_says_what_is_wrong(make, says):
    with pytest.raises(CourseError, match=says):
        make()


def test_the_stub_is_the_solution_without_the_marked_lines(tmp_path):
    assert stub_text(checkout(tmp_path, "01_a").load("1")) == "a\nb\n"


def test_a_stub_may_have_lines_of_its_own():
    text = "a\n  // BEGIN SOLUTION\n  right\n  // END SOLUTION\n"
    text += "  // BEGIN STUB\n  // wrong;  // c\n  //   x\n  // END STUB\nb\n"
    assert strip_solution(text) == "a\n  wrong;  // c\n    x\nb\n"


@pytest.mark.parametrize(
    "text",
    [
        "// BEGIN SOLUTION\n// END STUB\n",
        "// BEGIN SOLUTION\n// BEGIN STUB\n// END STUB\n// END SOLUTION\n",
        "// BEGIN SOLUTION\n// END SOLUTION\n// BEGIN STUB\n",
        "// BEGIN SOLUTION\n// END SOLUTION\n// END STUB\n",
    ],
)
def test_unpaired_stub_markers_are_refused(text):
    with pytest.raises(CourseError, match="without"):
        strip_solution(text)


def test_a_line_of_the_stub_is_a_comment_in_the_solution():
    with pytest.raises(CourseError, match="kernel.cu:4: a line of the stub must be a comment: 'x'"):
        strip_solution("// BEGIN SOLUTION\n// END SOLUTION\n// BEGIN STUB\nx\n// END STUB\n")


@pytest.mark.parametrize(
    "text",
    [
        "// BEGIN SOLUTION\n",
        "// END SOLUTION\n",
        "// BEGIN SOLUTION\n// BEGIN SOLUTION\n// END SOLUTION\n",
        "x\n",
    ],
)
def test_unpaired_markers_are_refused(text):
    with pytest.raises(CourseError, match="SOLUTION"):
        strip_solution(text)


@pytest.mark.parametrize(
    "text", ["09", "9", "009", "09_conv_backward", "conv_backward", "BACKWARD", "09_conv_backward/"]
)
def test_an_id_is_found_by_number_name_or_fragment(tmp_path, text):
    assert (
        checkout(tmp_path, "01_add", "07_conv_forward", "09_conv_backward").resolve(text)
        == "09_conv_backward"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("09_conv_bakward", "did you mean 09_conv_backward"),
        ("vector_ad_", "did you mean 01_vector_add"),
        ("8", "there is no puzzle 8 yet"),
        ("38", "38_lenet_training is not written yet"),
        ("conv", "could be 07_conv_forward, 09_conv_backward"),
        ("", "list"),
        ("zzz", "list"),
        ("../07_conv_forward", "did you mean 07_conv_forward"),
    ],
)
def test_an_unknown_id_suggests_the_nearest(tmp_path, text, says):
    with pytest.raises(CourseError, match=says):
        course = checkout(tmp_path, "01_vector_add", "07_conv_forward", "09_conv_backward")
        (course.root / "README.md").write_text("| 5 LeNet | 37 lenet_step, 38 lenet_training |\n")
        course.resolve(text)


def test_a_word_that_one_puzzle_alone_has_is_near_enough(tmp_path):
    course = checkout(tmp_path / "a", "23_coalescing", "34_async_pipeline", "35_async_again")
    with pytest.raises(CourseError, match="did you mean 34_async_pipeline"):
        course.resolve("pipline")
    course = checkout(tmp_path / "b", "23_coalescing", "34_async_pipeline")
    with pytest.raises(CourseError, match="did you mean 34_async_pipeline"):
        course.resolve("asinc")
    with pytest.raises(CourseError, match="backwarp list"):
        course.resolve("nothing")


def test_an_id_may_be_a_path_as_the_shell_completes_it(tmp_path):
    course = checkout(tmp_path, "01_vector_add")
    for text in ("puzzles/01_vector_add/", "./puzzles/01_vector_add/kernel.cu", "01_vector_add/"):
        assert course.resolve(text) == "01_vector_add"


def test_the_folder_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("backwarp.course.checkout.CHECKOUT", None)
    (tmp_path / "puzzles").mkdir()
    (tmp_path / "pyproject.toml").touch()
    with pytest.raises(CourseError, match="no solutions/ folder"):
        open_course(tmp_path)


def test_folders_without_a_declaration_are_not_puzzles(tmp_path):
    course = checkout(tmp_path, "10_b", "02_a")
    (tmp_path / "puzzles" / "include").mkdir()
    (tmp_path / "puzzles" / "03_empty").mkdir()
    assert course.ids() == ("02_a", "10_b")


@pytest.mark.parametrize(
    ("declaration", "says"),
    [
        ("x = 1\nPUZZLE = oops\n", r"puzzles/01_a/puzzle.py:2: NameError"),
        ("x = (\n", r"puzzles/01_a/puzzle.py:1: SyntaxError"),
        ("x = 1\n", r"puzzles/01_a/puzzle.py: it does not define PUZZLE"),
        (
            "from backwarp.course import In\n\nIn('x')\n",
            r"puzzles/01_a/puzzle.py:3: the array 'x' has no axes",
        ),
    ],
)
def test_a_broken_declaration_names_its_file_and_line(tmp_path, declaration, says):
    with pytest.raises(CourseError, match=says):
        checkout(tmp_path, "01_a", declaration=declaration).load("1")


def test_the_checkout_is_found_from_a_folder_inside_it(tmp_path):
    checkout(tmp_path, "01_a")
    assert open_course(tmp_path / "puzzles" / "01_a").root == tmp_path.resolve()


def test_where_no_course_is_init_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("backwarp.course.checkout.CHECKOUT", None)
    with pytest.raises(CourseError, match="backwarp init"):
        open_course(tmp_path)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"int a;\n// caf\xe9\n", "kernel.cu:2: byte 0xe9 is not UTF-8"),
        ("int a;".encode("utf-16"), "this is UTF-16; save it as UTF-8"),
        (b"int a;\n\0", "kernel.cu:2: .*zero byte"),
        (b"x" * 300_000, "has 292 KB; more than 256 KB"),
    ],
)
def test_a_file_that_is_no_kernel_says_why(tmp_path, data, says):
    (tmp_path / "kernel.cu").write_bytes(data)
    with pytest.raises(CourseError, match=says):
        read_source(tmp_path / "kernel.cu")


def test_a_missing_file_a_folder_and_a_pipe_are_told_apart(tmp_path):
    with pytest.raises(CourseError, match="does not exist"):
        read_source(tmp_path / "kernel.cu")
    with pytest.raises(CourseError, match="is a folder"):
        read_source(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CourseError, match="not a regular file"):
        read_source(tmp_path / "pipe")


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_byte_order_mark_and_other_line_ends_are_no_obstacle(tmp_path, end):
    (tmp_path / "kernel.cu").write_bytes(b"\xef\xbb\xbfint a;" + end + b"int b;" + end)
    assert read_source(tmp_path / "kernel.cu") == "int a;\nint b;\n"
