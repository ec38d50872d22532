"""The course for students: what is in it, what is not, and that it works."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import defaultdict
from functools import cache

import pytest
from click.testing import CliRunner
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from backwarp.cli import cli
from backwarp.course import walkthrough
from backwarp.course.checkout import Course, open_course, source_hash
from backwarp.course.progress import Progress
from backwarp.course.stubs import solution_lines, stub_text
from backwarp.errors import CourseError, NoSolution
from backwarp.grading.grade import Options, grade_file
from backwarp.lenet import checks
from backwarp.lenet.choices import ROLES
from backwarp.lenet.program import choose_program
from backwarp.maintain import export as exporting
from backwarp.maintain.export import export, of_students, telling_lines, unrevealing
from backwarp.measure.kernel_calls import KernelCalls
from backwarp.notebook import CourseMagics
from backwarp.report.pictures.kinds import save_picture
from backwarp.report.predictions import answer
from backwarp.report.text import verdict_lines

WHOLE = open_course()


@pytest.fixture(scope="module")
def students(tmp_path_factory):
    """Of the predictions only those of puzzle 01 are counted: test_notebooks has all."""
    target = tmp_path_factory.mktemp("exported") / "course"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            exporting, "answer", lambda p, asked: answer(p, asked) if not p or p.number == "01" else 0.0
        )
        export(WHOLE, target)
    return Course(target)


def files(course):
    return [path for path in course.root.rglob("*") if path.is_file()]


def run(course, *arguments):
    """(exit status or exception, output) of a verb."""
    before = os.getcwd()
    os.chdir(course.root)
    try:
        done = CliRunner().invoke(cli, arguments)
    finally:
        os.chdir(before)
    return done.exception, done.output


# ---- nothing of the answers --------------------------------------------------------------------------------


def test_no_file_has_a_line_of_a_solution(students):
    """Pictures have texts too. A stub may continue an earlier kernel."""
    squeezed = {path: b"".join(path.read_bytes().split()) for path in files(students)}
    squeezed = {path: data.replace(b"\\n", b"").replace(b'\\"', b'"') for path, data in squeezed.items()}
    stubs = b" ".join(squeezed[p.stub_path] for p in students.puzzles())
    holders = defaultdict(set)  # the files that a word is in
    for path, data in squeezed.items():
        for word in set(re.findall(rb"\w+", data)):
            holders[word].add(path)

    @cache
    def told(line):
        """The files that a line is in."""
        words = re.findall(rb"(?<=\W)\w+(?=\W)", line)
        return {
            p for p in set(squeezed).intersection(*(holders[word] for word in words)) if line in squeezed[p]
        }

    assert len(squeezed) > 300
    for puzzle in WHOLE.puzzles():
        anywhere, here = ([line.encode() for line in telling_lines(puzzle, least)] for least in (24, 12))
        assert here, puzzle.id
        own = students.root / "puzzles" / puzzle.id
        for line in here:
            assert not [path for path in told(line) if path.is_relative_to(own)], line
        for line in anywhere:
            elsewhere = [path for path in told(line) if not path.is_relative_to(own)]
            assert puzzle.program or line in stubs or not elsewhere, line


def test_lines_count_as_telling_but_for_the_shortest():
    lines = [line for puzzle in WHOLE.puzzles() for line in solution_lines(puzzle)]
    telling = [line for puzzle in WHOLE.puzzles() for line in telling_lines(puzzle)]
    assert len(telling) > 0.3 * len(lines) and "sum+=A[row*K+k]*B[k*N+col];" in telling


def test_neither_mistakes_nor_hidden_cases_nor_what_is_the_teachers(students):
    for whole, puzzle in zip(WHOLE.puzzles(), students.puzzles(), strict=True):
        kept = [c.name for c in whole.cases if not c.stress and not c.hidden]
        assert not puzzle.mistakes and [c.name for c in puzzle.cases] == kept
        assert puzzle.hints == whole.hints and len(puzzle.gates) == len(whole.gates)
        assert stub_text(puzzle) == stub_text(whole) == puzzle.stub_path.read_text()
    names = {path.name for path in students.root.iterdir()}
    assert not names & {"solutions", ".git", ".ci", ".backwarp"}
    assert not any((students.root / name).exists() for name in ("harness/tests", ".github/workflows"))
    readme = (students.root / "README.md").read_text()
    assert "TEACH" not in readme and "pytest" not in readme and "STUDENT" not in readme
    assert (
        "pip install -e . &&" in readme
        and "`backwarp hint`" in readme
        and not re.search(r"\bsolution", readme)
    )
    links = [
        link
        for link in (".github/ladder.png", "puzzles/30_implicit_gemm_forward/walk.gif", "LICENSE")
        if link in readme
    ]
    assert len(links) == 3 and all((students.root / link).is_file() for link in links)


def test_a_notebook_goes_without_cells_and_outputs_that_reveal_a_line():
    telling = ["sum+=A[row*K+k]*B[k*N+col];"]
    shown = {"text/html": ["<pre>12 | sum += <b>A</b>[row * K + k]\n", " * B[k * N + col];</pre>"]}
    cells = [
        {"cell_type": "code", "source": ["%profile 02"], "outputs": [{"data": shown}, {"text": ["kept"]}]},
        {
            "cell_type": "code",
            "source": ["%%kernel 02\n", "  sum += A[row*K + k] * B[k*N + col];"],
            "outputs": [],
        },
        {"cell_type": "markdown", "source": ["sum"]},
    ]
    left = json.loads(unrevealing(json.dumps({"cells": cells}).encode(), telling))["cells"]
    assert left == [{**cells[0], "outputs": [{"text": ["kept"]}]}, cells[2]]


def test_notebooks_keep_what_runs_of_solutions_have_shown(students, monkeypatch):
    """The guesses are judged and the runs are shown without one."""
    asked, found = (walkthrough.predictions(c.root, "01")[0] for c in (WHOLE, students))
    assert not asked.answer.isdecimal() and found.why == asked.why
    assert answer(students.load("01"), found) == float(found.answer) == answer(WHOLE.load("01"), asked)
    magics, shown = CourseMagics(InteractiveShell(), students), []
    monkeypatch.setattr("backwarp.notebook.display", shown.append)
    magics.explore("01 --solution")
    assert "<script" in shown[0]._repr_html_() or "<iframe" in shown[0]._repr_html_()
    magics.explore("02 --solution --case none")
    assert "this copy of the course has no solutions" in repr(shown[1])
    for magic in (magics.picture, magics.profile, magics.counters, magics.kernel_from):
        with pytest.raises(UsageError, match="no solutions"):
            magic("01 --solution")


def test_the_readme_of_students():
    text = "a\n<!-- TEACHER -->\nb\n<!-- END TEACHER -->\nc\n<!-- STUDENT\nd\n-->\ne\n| `backwarp check 9` | x |\nf\n"
    assert of_students(text) == "a\nc\nd\ne\nf\n"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("number", "slip"), [("01", ("blockIdx.x * blockDim.x + ", "")), ("12", ("", ""))])
def test_a_verdict_printed_in_a_lesson_is_what_students_see(students, tmp_path, number, slip):
    """In the whole course as in the exported one, whose grader knows fewer cases and no mistakes."""
    text = stub_text(WHOLE.load(number))
    if number == "01":
        lines = WHOLE.load(number).solution_path.read_text().splitlines(keepends=True)
        text = "".join(line for line in lines if "SOLUTION" not in line)
    path = tmp_path / "kernel.cu"
    path.write_text(text.replace(*slip))
    lesson = (WHOLE.root / "puzzles" / WHOLE.load(number).id / "README.md").read_text()
    for course, told in ((WHOLE, lesson.partition("<!-- STUDENT")[0]), (students, None)):
        told = told or course.load(number).lesson_path.read_text()
        assert "STUDENT" not in told
        (printed,) = re.findall(r"^ *```\n( *x \d\d_.*?)^ *```$", told, re.MULTILINE | re.DOTALL)
        if "Next:" in printed:  # with what the program says beside the verdict
            _, found = run(course, "grade", number, "--file", str(path))
        else:
            lines = verdict_lines(grade_file(course.load(number), path, Options("cpu")))
            found = "\n".join("".join(text for text, _ in line) for line in lines)
        found = found.replace(f" --file {path}", "")
        assert " ".join(found.split()).startswith(" ".join(printed.split()))


# ---- where it goes -----------------------------------------------------------------------------------------


def test_nothing_is_overwritten(students, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    for name in ("file", "link", "folder", "."):
        with pytest.raises(CourseError, match="exists already: name a folder that does not"):
            export(WHOLE, tmp_path / name)
    with pytest.raises(CourseError, match="there is no folder .*absent"):
        export(WHOLE, tmp_path / "absent" / "course")
    with pytest.raises(NoSolution, match="for students already"):
        export(students, tmp_path / "again")
    assert {p.name for p in tmp_path.iterdir()} == {"file", "link", "folder"}
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def small(tmp_path):
    """A course of one puzzle, in which somebody has worked."""
    root = tmp_path / "small"
    for part in ("puzzles", "solutions"):
        shutil.copytree(WHOLE.root / part / "02_matmul", root / part / "02_matmul")
    (root / "README.md").write_text("# A course\n")
    return Course(root)


def test_the_stub_goes_along_as_it_was_and_what_was_left_behind_does_not(small, tmp_path):
    puzzle = small.load("02")
    shutil.copy(puzzle.solution_path, puzzle.stub_path)
    shutil.copy(puzzle.solution_path, puzzle.folder / "kernel.cu.bak-1")
    export(small, tmp_path / "course")
    made = Course(tmp_path / "course").load("02")
    assert made.stub_path.read_text() == stub_text(puzzle) and not list(made.folder.glob("*.bak*"))


def test_a_file_with_a_line_of_a_solution_is_named_and_nothing_is_made(small, tmp_path):
    shutil.copy(small.load("02").solution_path, small.root / "puzzles" / "02_matmul" / "best.cu")
    with pytest.raises(
        CourseError, match=r"puzzles/02_matmul/best.cu has a line of the solution of 02_matmul \("
    ):
        export(small, tmp_path / "course")
    assert [p.name for p in tmp_path.iterdir()] == ["small"]


def test_a_link_to_a_folder_is_refused(small, tmp_path):
    (small.root / "puzzles" / "03_mine").symlink_to(tmp_path)
    with pytest.raises(CourseError, match="puzzles/03_mine is a link to a folder"):
        export(small, tmp_path / "course")


# ---- it works ----------------------------------------------------------------------------------------------


def test_what_needs_a_solution_says_so(students, tmp_path):
    for arguments in (
        ("grade", "09", "--solution"),
        ("profile", "09", "--solution"),
        ("picture", "09", "--solution", "-o", str(tmp_path / "x.png")),
        ("bench", "27", "--solution"),
        ("solution", "09", "--force"),
        ("check", "09"),
        ("train", "--kernels", "solutions"),
    ):
        error, _ = run(students, *arguments)
        assert isinstance(error, NoSolution), arguments
        assert "this copy of the course has no solutions" in str(error)
    with pytest.raises(NoSolution, match="^14 is not solved yet"):
        KernelCalls("cpu", course=students).source(students.load("14"))
    error, _ = run(students, "train")
    assert str(error).startswith("03, 04, 05, 06, 07, 08, 09, 10, 11 are not solved yet\n")


def test_students_grade_reset_and_draw(students, tmp_path):
    puzzle, whole = students.load("02"), WHOLE.load("02")
    assert grade_file(puzzle, puzzle.stub_path, Options("cpu")).kind == "untouched"
    puzzle.stub_path.write_text(whole.mistakes[0].apply(whole.solution_path.read_text()))
    verdict = grade_file(puzzle, puzzle.stub_path, Options("cpu"))
    assert verdict.status == "failed" and verdict.lines and not verdict.mistake
    puzzle.stub_path.write_text(whole.solution_path.read_text())
    assert grade_file(puzzle, puzzle.stub_path, Options("cpu")).passed
    save_picture(puzzle, puzzle.stub_path, tmp_path / "x.png")
    error, output = run(students, "reset", "02")
    assert not error and puzzle.stub_path.read_text() == stub_text(whole)


def test_lenet_runs_on_ones_own_kernels(students, monkeypatch):
    monkeypatch.setattr(checks, "this_course", lambda: students)
    progress, puzzle = Progress(students.root), students.load("37")
    puzzle.stub_path.write_text(WHOLE.load("37").solution_path.read_text())
    verdict = grade_file(puzzle, puzzle.stub_path, Options("cpu"))
    assert (verdict.status, verdict.kind) == ("error", "kernels")
    assert verdict.lines[0] == "03, 04, 05, 06, 07, 08, 09, 10, 11 are not solved yet"
    assert progress.record(verdict).attempts == 0
    for number in sorted(set(ROLES.values())):
        own, text = students.load(number), WHOLE.load(number).solution_path.read_text()
        own.stub_path.write_text(text)
        solved = {"when": "2026-01-01", "device": "cpu", "hash": source_hash(text)}
        progress.update(own.id, lambda entry, solved=solved: setattr(entry, "solved", solved))
    assert grade_file(puzzle, puzzle.stub_path, Options("cpu")).passed
    solved = {"when": "2026-01-01", "device": "cpu", "hash": source_hash(puzzle.stub_path.read_text())}
    progress.update(puzzle.id, lambda entry: setattr(entry, "solved", solved))
    with choose_program(students, progress.all()) as program:  # before puzzle 38 is solved
        assert [f"{part.whose} {part.number}" for part in program.parts] == [
            "yours 37",
            "plain steps in place of 38",
        ]
        assert {"forward", "backward", "update", "learning_rate"} <= set(program.functions)
