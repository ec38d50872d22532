"""What is added to a fault or a wrong output: the cause or the remedy, in one sentence."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
import pytest

from backwarp.course.checkout import Course, open_course
from backwarp.devices.virtual.explain.faults import NOTES, RACES
from backwarp.devices.virtual.runtime.abi import FAULTS
from backwarp.errors import KernelFault
from backwarp.grading.compare import Element, Mismatch
from backwarp.grading.sentences import (
    WORDS,
    fault,
    mismatch,
    printing,
    returned_early,
    surplus_thread,
    unwritten,
)
from backwarp.report.ticker import Ticker
from tests.devices.virtual.launches import K, run, zeros
from tests.grading.said import said
from tests.lenet.small import ROOT


def test_each_kind_of_fault_has_words():
    told_as_another = {"none", "trap", "went-round", "missing-block", "lanes-differ", "outside-surface"}
    assert {*FAULTS} - told_as_another - NOTES - RACES <= {*WORDS}


@pytest.mark.parametrize("follows, says", [(True, "Probably a consequence: "), (False, "Also: ")])
def test_a_consequence_is_told_from_a_fault_of_its_own(follows, says):
    reads = KernelFault("uninitialised-read", "", "", file="k.cu", line=2, follows=follows)
    found = KernelFault("out-of-bounds", "", "", file="k.cu", line=1, more=[reads])
    assert fault(found, "")[-1] == f"{says}the use of an uninitialised value in line 2."


@pytest.mark.parametrize(
    ("unwritten", "updated", "says"),
    [
        (2, False, ["w[i=0] was never written   (2 of 4 elements: exactly the elements with i<=1)"]),
        (
            2,
            True,
            [
                "w[i=0] still has its value from before the launch   (2 of 4 elements: exactly the elements with i<=1)"
            ],
        ),
        (
            1,
            False,
            [
                "w[i=0] = 1, expected 2   (2 of 4 elements differ)",
                "Wrong: exactly the elements with i<=1.",
                "1 of them was never written.",
            ],
        ),
    ],
)
def test_an_array_that_came_in_with_values_is_as_it_was(unwritten, updated, says):
    first = Element("i=0", 1.0, 2.0)
    m = Mismatch("w", 2, 4, first, first, unwritten, "exactly the elements with i<=1", updated=updated)
    assert mismatch([m]) == says


def test_nothing_stores_into_an_array_that_is_right_in_part_as_it_was():
    puzzle = Course(ROOT).load("04")
    text = puzzle.solution_path.read_text().replace("data[i] = 0.0f;", "i = n;")
    first, kernel = Element("i=0", -1.0, 0.0), puzzle.kernel("relu_inplace")
    (found,) = unwritten(puzzle, kernel, text, [Mismatch("data", 2, 4, first, first, 2, "", updated=True)])
    assert found.kind == "no_store"


@pytest.mark.parametrize(
    "got, expected, says", [(1.0, np.nan, "nan is expected"), (np.nan, 1.0, "nan is not a number")]
)
def test_a_number_in_place_of_nan_is_told_from_nan_in_place_of_a_number(got, expected, says):
    first = Element("i=3", got, expected)
    found = [Mismatch("y", 1, 4, first, first, 0, "")]
    assert any(line.startswith(says) for line in mismatch(found))
    of_inputs = any(" is not a number" in line for line in mismatch(found, special=True))
    assert not of_inputs, "where inputs are nan, none has to be computed"


def test_a_part_of_dynamic_shared_memory_is_not_taken_for_its_first():
    """The element belongs to `sums`, but its only name is that of the whole: no caret under the other."""
    whole, part = "extern __shared__ float pixels[];\n", "float* sums = pixels + 9;\n"
    found = KernelFault(
        "uninitialised-read", "", "", line=3, array="pixels", index="9", source="sums[0] * pixels[0]"
    )
    assert fault(found, whole + part)[2] == "      | ^"
    assert fault(found, whole + part)[-1].startswith("pixels is the whole dynamic shared memory")
    assert fault(found, whole + "\n")[2] == "      |           ^"
    assert fault(found, part)[2] == "      |           ^"
    own = "int at = threadIdx.x * 2; float* sums = pixels + at; sums[0] * pixels[0]\n"
    assert fault(found, whole + own)[-1] == ""


def test_threads_that_all_do_the_whole_loop_are_noted():
    out = zeros(4, name="c", axes="i")
    launch = run(
        f"{K}k(float* c, int n) {{ for (int i = 0; i < n; i++) c[i] = i; }}", out, np.int32(4), block=3
    )
    (note,) = launch.notes
    assert (note.kind, note.severity) == ("same-write", "note")
    assert (
        note.explanation
        == "Threads (0,0,0) and (1,0,0) both write c[i=0]; each element should belong to one thread."
    )


def test_the_ticker_speaks_late_on_a_terminal_only():
    terminal, file = io.StringIO(), io.StringIO()
    terminal.isatty = lambda: True
    for stream in (terminal, file):
        with Ticker(stream, 0.05) as tell:
            tell("case 1")
            assert stream.getvalue() == ""
            time.sleep(0.3)
            tell("case 2")
    assert "case 1 ..." in terminal.getvalue() and terminal.getvalue().endswith("\x1b[K")
    assert file.getvalue() == ""


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("", ["a thread without an element must return first."]),
        ("// return;\nc[0] = 1;", ["a thread without an element must return first."]),
        (
            "if (i > 99) return;",
            [
                "the test that makes threads without an element return lets this one through, by its comparison or by a size in it."
            ],
        ),
        ("__syncthreads();", []),
    ],
)
def test_a_thread_too_many_is_told_to_leave_where_threads_do_not_wait_for_one_another(body, says):
    puzzle = open_course(Path(__file__).resolve().parent).load("01")
    kernel, case = puzzle.kernels[0], puzzle.cases[0]
    threads = kernel.launch(puzzle.full_dims(case), {}).block
    fault = KernelFault("out-of-bounds", "", "", thread=(12 % threads, 0, 0), block=(12 // threads, 0, 0))
    source = f"{K}{kernel.name}(float* c) {{\n{body}\n}}\n"
    lines = said(surplus_thread(fault, kernel, case, puzzle, {}, source))
    assert [line.split(": ")[1] for line in lines] == says
    assert all(line.startswith("This is thread number 12 of the launch") for line in lines)


def test_no_thread_is_one_too_many_where_a_block_works_for_one_element():
    puzzle = Course(ROOT).load("19")
    fault = KernelFault("uninitialised-read", "", "", thread=(31, 0, 0), block=(0, 0, 0))
    source = f"{K}{puzzle.kernels[0].name}(float* c) {{\n}}\n"
    for case in puzzle.cases:
        assert not surplus_thread(fault, puzzle.kernels[0], case, puzzle, {}, source)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("  if (idx >= n) return;\n  part[i] = 0;\n  __syncthreads();", ["Line 2 lets threads return"]),
        ("  part[i] = 0;\n  __syncthreads();\n  if (idx >= n) return;", []),
        ("  // some return;\n  __syncthreads();", []),
        ("  if (idx >= n) return;", []),
        ("  int b = blockIdx.x * 4;\n  if (b >= 9) return;\n  __syncthreads();", []),
        (
            "  if (blockIdx.x) return; if (c[0] > threadIdx.x)\n return;\n  __syncthreads();",
            ["Line 3 lets threads return"],
        ),
    ],
)
def test_threads_that_have_returned_fill_nothing(body, says):
    kernel = open_course(Path(__file__).resolve().parent).load("19").kernels[0]
    source = f"{K}{kernel.name}(float* c) {{\n{body}\n}}\n"
    for space, expected in (("shared", says), ("global", [])):
        fault = KernelFault("uninitialised-read", "", "", space=space)
        assert [
            line[: len("Line 2 lets threads return")] for line in said(returned_early(fault, kernel, source))
        ] == expected


def test_what_prints_no_whole_line_is_counted_in_characters():
    assert "so much (3 lines in one launch)" in printing("1\n2\n", 1)[0]
    assert "so much (3 characters in one launch)" in printing("123", 0)[0]
