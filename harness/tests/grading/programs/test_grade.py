"""Puzzles 37 and 38, which are solved in Python: stubs fail, what is wrong is explained.

Most files are checked in one process and on one device; a few also go through the whole grader. That the solutions pass,
and the mistakes fail, is checked in test_check.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from backwarp.course.checkout import Course
from backwarp.course.stubs import stub_text
from backwarp.grading.grade import Options, grade_file
from backwarp.grading.programs import program as programs
from backwarp.grading.programs.program import Program
from backwarp.lenet.requests import REQUESTS
from backwarp.maintain import check_mistakes
from backwarp.report.text import MOST_LINES, verdict_lines
from tests import ROOT
from tests.devices.virtual.launches import device

COURSE = Course(ROOT)
PUZZLES = [COURSE.load("37"), COURSE.load("38")]
each = pytest.mark.parametrize("puzzle", PUZZLES, ids=lambda p: p.id)


@pytest.fixture(scope="module")
def program():
    with Program(REQUESTS) as made:
        yield made


@pytest.fixture
def finding(program):
    return lambda puzzle, source: check_mistakes.finding(puzzle, source, device("memory"), program)


def solution(puzzle):
    return puzzle.solution_path.read_text(encoding="utf-8")


@pytest.fixture
def grade(tmp_path):
    """Grades a text as the file of a puzzle, through the child process; (verdict, report)."""

    def run(puzzle, source, seconds=None):
        if seconds:
            puzzle = replace(puzzle, program=replace(puzzle.program, seconds=seconds))
        path = tmp_path / puzzle.file
        path.write_text(source, encoding="utf-8")
        verdict = grade_file(puzzle, path, Options("cpu"))
        lines = ["".join(text for text, _ in line) for line in verdict_lines(verdict)]
        assert len(lines) <= MOST_LINES and "Traceback" not in "\n".join(lines)
        return verdict, "\n".join(lines)

    return run


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [176896312139197, 204308448745060])
def test_where_the_loss_has_a_kink_its_differences_prove_nothing(seed, program):
    """With these seeds, moving a measured element switches a ReLU or a maximum."""
    puzzle = PUZZLES[0]
    functions = program.load(solution(puzzle), puzzle.file, puzzle.program.functions, 60)
    case = next(case for case in puzzle.cases if case.check == "gradient")
    assert puzzle.program.check(functions, case, device("memory"), seed) is None


@pytest.mark.parametrize(("puzzle", "case", "seed"), [(0, "real_digits", 5007), (1, "own_steps", 1001)])
def test_where_rounding_switches_a_relu_or_a_maximum_a_right_file_is_right(puzzle, case, seed, program):
    puzzle = PUZZLES[puzzle]
    functions = program.load(solution(puzzle), puzzle.file, puzzle.program.functions, 60)
    case = next(c for c in puzzle.drawn(seed).cases if c.name == case)
    assert puzzle.program.check(functions, case, device("memory"), seed) is None


@each
def test_the_stub_runs_and_fails(puzzle, grade, finding):
    assert grade(puzzle, stub_text(puzzle))[0].kind == "untouched"
    assert finding(puzzle, "MINE = 1\n" + stub_text(puzzle)).kind in ("launch", "wrong", "unwritten")


@each
def test_the_stub_says_what_to_do(puzzle):
    stub, lesson = stub_text(puzzle), puzzle.lesson_path.read_text(encoding="utf-8")
    numbers = [int(n) for n in re.findall(r"# TODO\((\d+)\):", stub)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(stub.splitlines()) <= 50
    assert f"You will write about {puzzle.lines} lines" in stub
    assert f"backwarp grade {puzzle.number}" in stub and f"backwarp hint {puzzle.number}" in stub
    for signature in puzzle.program.functions:
        assert f"def {signature}:" in stub and signature in lesson


# ---- what a student reads ----------------------------------------------------------------------------------

STEP, TRAINING = PUZZLES


def edited(puzzle, old, new):
    assert solution(puzzle).count(old) == 1
    return solution(puzzle).replace(old, new)


def test_the_first_wrong_layer_is_named(grade):
    wrong = edited(STEP, 'fc_backward(net, "fc1", net.grad_fc1', 'fc_backward(net, "fc1", net.grad_relu3')
    verdict, text = grade(STEP, wrong)
    assert verdict.mistake == "fc2 takes the gradient behind relu4" and verdict.case == "one_image"
    assert "grad_fc1_weights[o=" in text and "back through the ReLU" in text
    assert "Next: backwarp hint 37 3" in text


def test_a_wrong_layer_without_a_known_cause_says_who_stored_it(grade, finding):
    extra = 'net.launch("relu_backward", net.grad_fc2, net.fc2, net.grad_fc2)\n    '
    wrong = edited(
        STEP, 'fc_backward(net, "fc2", net.grad_fc2', extra + 'fc_backward(net, "fc2", net.grad_fc2'
    )
    assert finding(STEP, wrong) is None  # twice is as good as once
    wrong = wrong.replace('"relu_backward", net.grad_fc2, net.fc2', '"relu_backward", net.relu4, net.fc2')
    text = grade(STEP, wrong)[1]
    assert "It is the first wrong array; relu_backward stored it." in text


def test_a_launch_that_reads_too_early_names_its_line(grade):
    swapped = edited(STEP, "net.fc1, net.relu3)", "net.relu3, net.fc1)")
    line = next(i for i, text in enumerate(swapped.splitlines(), 1) if "net.relu3, net.fc1)" in text)
    verdict, text = grade(STEP, swapped)
    assert f"step.py:{line}: relu_forward reads net.relu3 as input, but no launch has stored it yet" in text
    assert f"{line} |" in text and verdict.kind == "launch" and verdict.exit_status == 1


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("puzzle", "old", "new", "says"),
    [
        (
            STEP,
            "net.conv2_weights, net.grad_pool1",
            "net.conv_weights, net.grad_pool1",
            "did you mean net.conv",
        ),
        (STEP, '"conv2d_backward_input"', '"conv2d_backward"', "there is no kernel 'conv2d_backward'"),
        (
            STEP,
            "net.grad_pool2, net.places2",
            "net.grad_pool2, net.places1",
            "places1 as argmax makes C 6, but it is 16 in grad_pool2",
        ),
        (STEP, "net.relu2, net.pool2, net.places2", "net.relu2, net.pool2", "takes 3 arrays"),
        (TRAINING, "learning_rate=rate, ", "", "takes these numbers by name: learning_rate=..."),
        (
            TRAINING,
            "        net.load(images, labels)\n        net.forward()\n        net.backward()",
            "        net.forward()\n        net.backward()",
            "is there after net.load",
        ),
        (TRAINING, "argmax(axis=1) ==", "argmax(axis=1) = =", "train.py:"),
        (TRAINING, "    return losses\n", "    return 1 / 0\n", "ZeroDivisionError: division by zero"),
        (TRAINING, "    return losses\n", "    exit()\n", "the program ends itself here"),
        (TRAINING, "def accuracy", "def acuracy", "Rename acuracy to accuracy."),
    ],
)
def test_a_mistake_is_explained_in_a_sentence(puzzle, old, new, says, finding):
    assert says in "\n".join(finding(puzzle, edited(puzzle, old, new)).lines)


FIRST = '    net.launch("conv2d_forward", net.images,'  # the first case comes to it at once


def test_what_never_ends_is_stopped_at_its_line(grade):
    verdict, text = grade(STEP, edited(STEP, FIRST, "    while True:\n        pass\n" + FIRST), seconds=0.3)
    assert verdict.kind == "timeout" and re.search(r"step.py:\d+: its time is up here", text)


def test_what_cannot_be_stopped_is_ended(grade, monkeypatch):
    monkeypatch.setattr(programs, "GRACE", 0.2)
    stubborn = "    import signal\n    signal.setitimer(signal.ITIMER_REAL, 0)\n    while True: pass\n"
    verdict, text = grade(STEP, edited(STEP, FIRST, stubborn + FIRST), seconds=0.3)
    assert verdict.kind == "timeout" and "was ended" in text


def test_a_crash_is_no_crash_of_the_grader(grade):
    verdict, text = grade(STEP, "import os\nos.abort()\n")
    assert verdict.exit_status == 1 and "ended unexpectedly" in text


def test_what_the_file_prints_is_shown_and_cut(grade):
    verdict, text = grade(STEP, 'print("hello " * 9)\nfor i in range(5000): print(i)\n' + stub_text(STEP))
    assert "hello hello" in text and re.search(r"and [\d,]+ more lines, cut", text)


def test_what_a_program_builds_on_is_of_its_own_course_where_the_package_is_installed(monkeypatch, tmp_path):
    """And not of the folder that one happens to be in."""
    monkeypatch.setattr("backwarp.lenet.checks.CHECKOUT", None)
    monkeypatch.setattr("backwarp.course.checkout.CHECKOUT", None)
    monkeypatch.chdir(tmp_path)
    puzzle = COURSE.load("37")
    assert grade_file(puzzle, puzzle.solution_path, Options("cpu")).passed
