"""The notebooks run from top to bottom without a GPU; the magics grade, explain and survive."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from IPython import get_ipython
from IPython.core.error import UsageError
from IPython.testing.globalipapp import start_ipython
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from backwarp import notebook
from backwarp.course import walkthrough
from backwarp.course.cells import in_cell
from backwarp.course.checkout import Course, source_hash
from backwarp.course.stubs import solution_lines, stub_text
from backwarp.errors import NoCourse
from backwarp.jupyterlab import install
from backwarp.maintain.notebooks import address, copy_course, executed, made
from backwarp.notebook import CourseMagics, load_ipython_extension
from backwarp.report import predictions
from tests import ROOT
from tests.test_cli import DECLARATION, SOLUTION, STUB

SOURCES = walkthrough.sources(ROOT)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EPOCHS = (
    '\\"--epochs\\", \\"3\\"',
    '\\"--epochs\\", \\"1\\", \\"--batch\\", \\"256\\"',
)  # three show a student more than they test


@pytest.mark.soak
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, runtime):
    runs(path, tmp_path)


def test_a_notebook_of_puzzles_runs_until_its_second_is_solved(tmp_path, runtime):
    """What the rest shows is tested elsewhere: verdicts of solutions and stubs (test_check), pictures, guesses, magics
    (below)."""
    runs(ROOT / "notebooks" / "03_reductions.ipynb", tmp_path, "%step 20\n")


def runs(path, folder, until=None):
    """until: what the last cell begins with."""
    copy_course(ROOT, folder)
    committed = nbformat.read(path, 4)
    shorter = nbformat.reads(path.read_text(encoding="utf-8").replace(*EPOCHS), 4)
    if until:
        last = next(i for i, cell in enumerate(committed.cells) if cell.source.startswith(until))
        del committed.cells[last + 1 :], shorter.cells[last + 1 :]
    notebook = executed(shorter, folder / "notebooks")
    for before, after in zip(committed.cells, notebook.cells, strict=True):
        if before.cell_type == "code":
            kinds = [sorted(o.get("data", {})) for o in before.outputs]
            assert kinds == [sorted(o.get("data", {})) for o in after.outputs], before.source
            assert first_lines(before) == first_lines(after)
    assert not any(
        "/home/" in str(o) or "/tmp/" in str(o) for c in committed.cells for o in c.get("outputs", ())
    )


def first_lines(cell):
    """What the outputs say first: which puzzle, which case."""
    return [
        o["data"]["text/plain"].splitlines()[0] for o in cell.outputs if "text/plain" in o.get("data", {})
    ]


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: p.stem)
def test_a_notebook_is_in_date_and_holds_nobodys_solution(source):
    """`python -m backwarp.maintain.notebooks` makes it again from its text and the stubs."""
    course = Course(ROOT)
    committed = nbformat.read(ROOT / "notebooks" / f"{source.stem}.ipynb", 4)
    new = made(course, source, address(ROOT))
    assert [(c.id, c.source) for c in committed.cells] == [(c.id, c.source) for c in new.cells]
    for link in re.findall(r"\]\((\.\./[^)]+|\w+\.ipynb)\)", "\n".join(c.source for c in new.cells)):
        assert (ROOT / "notebooks" / link).exists(), link
        assert not link.startswith("../."), "JupyterLab serves nothing from hidden folders"
    text = "\n".join(str(c.source) + str(c.get("outputs", "")) for c in committed.cells)
    numbers = {b.puzzle for b in walkthrough.blocks(source.read_text(encoding="utf-8"))} - {""}
    puzzles = [course.load(number) for number in sorted(numbers)]
    told = "".join(stub_text(p) + p.lesson_path.read_text(encoding="utf-8") for p in puzzles)
    for puzzle in puzzles:
        lines = [line for line in solution_lines(puzzle) if len(line) > 12 and not line.startswith("//")]
        assert not [line for line in lines if line.rstrip(";") not in told and line in text], puzzle.id


@pytest.mark.soak
def test_every_prediction_has_an_answer():
    course = Course(ROOT)
    for path in SOURCES:
        for block in walkthrough.blocks(path.read_text(encoding="utf-8")):
            if block.kind == "predict":
                puzzle = course.load(block.puzzle) if block.puzzle else None
                found = predictions.answer(puzzle, walkthrough.prediction(block.text))
                assert np.isfinite(found), block.text


def test_badges_come_from_the_address_of_the_repository(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        "[project]\n[project.urls]\nRepository = 'https://github.com/a/b.git'\n"
    )
    where = address(tmp_path)
    first, setup, *_ = made(Course(ROOT), SOURCES[0], where).cells
    assert "github/a/b/blob/main/notebooks/00_start.ipynb" in first.source
    assert "codespaces.new/a/b" in first.source and '"https://github.com/a/b"' in setup.source
    compile(setup.source.replace("%load_ext", "#"), "setup", "exec")
    assert "badge" not in made(Course(ROOT), SOURCES[0]).cells[0].source


def test_what_colours_cells_is_put_where_jupyterlab_looks(tmp_path):
    folder = install(tmp_path) / "labextensions/backwarp"
    assert folder == tmp_path / "share/jupyter/labextensions/backwarp"
    described = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    script = folder / described["jupyterlab"]["_build"]["load"]
    assert f"_JUPYTERLAB ??= {{}}).{described['name']} = {{" in script.read_text(encoding="utf-8")


def test_a_kernel_knows_the_magics_from_its_start(tmp_path):
    """A restart needs no cell to be run again."""
    install(tmp_path)
    specs = KernelSpecManager(kernel_dirs=[str(tmp_path / "share/jupyter/kernels")])
    names = {nbformat.read(path, 4).metadata.kernelspec.name for path in NOTEBOOKS}
    assert names == {"backwarp"}
    manager = KernelManager(kernel_name="backwarp", kernel_spec_manager=specs)
    manager.start_kernel(cwd=str(ROOT / "notebooks"), env=os.environ | {"PYTHONPATH": str(SOURCES)})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        said = []
        client.execute_interactive(
            "%predict 01", timeout=60, output_hook=lambda message: said.append(str(message["content"]))
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert "Put your guess in place of the dots" in "".join(said)


def test_the_first_cell_installs_the_checkout_where_it_is_missing(monkeypatch, tmp_path):
    """The process that has just installed it finds it without a restart."""
    cells = {nbformat.read(path, 4).cells[1].source for path in NOTEBOOKS}
    assert len(cells) == 1
    code, magic = cells.pop().rsplit("\n", 1)
    assert magic == "%load_ext backwarp.notebook"
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    (tmp_path / "pyproject.toml").touch()
    commands = []
    monkeypatch.setattr("subprocess.run", lambda command, check: commands.append(command))
    monkeypatch.setattr(sys, "path", list(sys.path))
    exec(code, {})
    assert commands == [] and str(tmp_path) not in sys.path  # it is installed here
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(code, {})
    assert commands == [[sys.executable, "-m", "pip", "install", "-q", "-e", ".."]]
    assert str(tmp_path / "harness") in sys.path
    (tmp_path / "pyproject.toml").unlink()
    with pytest.raises(SystemExit, match="needs the package backwarp"):
        exec(code, {})


def test_a_notebook_opened_alone_fetches_the_course_once(monkeypatch, tmp_path):
    code = made(Course(ROOT), SOURCES[0], "https://example.org/course").cells[1].source
    monkeypatch.chdir(tmp_path)
    commands = []

    def run(command, check):
        commands.append(command)
        (tmp_path / "course/notebooks").mkdir(parents=True)
        (tmp_path / "course/puzzles").mkdir()

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr("sys.path", list(sys.path))
    for _ in range(2):  # a restart begins in the first folder again
        monkeypatch.chdir(tmp_path)
        exec(code.rpartition("\n")[0], {})
        assert Path.cwd() == tmp_path / "course/notebooks"
    assert commands == [["git", "clone", "-q", "--depth", "1", "https://example.org/course", "course"]]


@pytest.fixture(scope="module")
def shell():
    found = start_ipython() or get_ipython()
    found.builtin_trap.deactivate()  # of the names it hides, exit() is what others test
    return found


@pytest.fixture
def magics(shell, tmp_path):
    root = tmp_path / "course"
    for folder in ("puzzles", "solutions"):
        (root / folder / "01_twice").mkdir(parents=True)
    (root / "puzzles" / "01_twice" / "puzzle.py").write_text(
        DECLARATION.replace("Launch(1, 32)", "Launch(1, 3)")
    )
    (root / "puzzles" / "01_twice" / "kernel.cu").write_text(STUB)
    (root / "solutions" / "01_twice" / "kernel.cu").write_text(SOLUTION)
    found = CourseMagics(shell, Course(root))
    found.process.device = "cpu"
    yield found
    found.process.end()


def test_a_cell_is_graded_and_saved(magics, capsys):
    own = magics.course.root / "puzzles" / "01_twice" / "kernel.cu"
    magics.kernel("01", SOLUTION.replace("2 *", "3 *"))
    shown = capsys.readouterr().out
    assert (
        "x 01_twice" in shown and "Next: %hint 01" in shown and "<picture: which elements are wrong>" in shown
    )
    assert "One change in line" in shown  # the whole report is shown again
    assert "is to this: 3" in repr(magics.hint("01"))
    assert own.read_text() == STUB
    passed = magics.kernel("1 --save", SOLUTION)
    assert passed.verdict.passed and own.read_text() == SOLUTION
    assert "ok 01_twice" in repr(passed)
    html = passed._repr_html_()
    assert "<pre" in html and "font-weight: bold" in html and "01_twice" in html
    assert magics.progress.entry("01_twice").solved and "Saved to puzzles/01_twice/kernel.cu." in repr(passed)


def own_file(magics) -> Path:
    return magics.course.root / "puzzles" / "01_twice" / "kernel.cu"


def test_a_file_that_passes_is_not_replaced_by_a_cell_that_does_not(magics):
    own, wrong = own_file(magics), SOLUTION.replace("2 *", "x[0] *")
    own.write_text(SOLUTION)  # made elsewhere, and never graded
    assert "Not saved" in repr(magics.kernel("01 --save", wrong.replace(";", "")))
    assert own.read_text() == SOLUTION
    magics.kernel("01 --save --force", wrong)
    assert own.read_text() == wrong and len(list(own.parent.glob("*.bak-*"))) == 1
    magics.kernel("01 --save", wrong + "// again")
    assert own.read_text() == wrong + "// again"  # a step on the way is no reason for another copy
    assert len(list(own.parent.glob("*.bak-*"))) == 1


def test_a_cell_that_is_still_the_stub_takes_what_the_file_has(magics):
    own = own_file(magics)
    assert "not started yet" in repr(magics.kernel("01 --save", STUB)) and own.read_text() == STUB
    own.write_text(SOLUTION)
    shown = repr(magics.kernel("01 --save", STUB))
    assert "It now has your file" in shown and "ok 01_twice" in shown and own.read_text() == SOLUTION
    assert magics.shell.rl_next_input == f"%%kernel 01 --save\n{SOLUTION}"
    assert magics.progress.entry("01_twice").solved


def test_a_bug_hunts_stub_is_graded_until_the_file_is_mended(magics):
    own = own_file(magics)
    declared = own.with_name("puzzle.py")
    declared.write_text(declared.read_text().replace("lines=2,", "lines=2, repair=True,"))
    assert not magics.kernel("01 --save", STUB).verdict.passed
    own.write_text(SOLUTION)
    assert "It now has your file" in repr(magics.kernel("01 --save", STUB))
    assert magics.shell.rl_next_input == f"%%kernel 01 --save\n{SOLUTION}" and own.read_text() == SOLUTION


def test_a_grader_of_notebooks_asks_whether_a_puzzle_passes(magics, capsys):
    wrong = magics.kernel("01", SOLUTION.replace("2 *", "3 *"))
    assert not wrong.verdict.passed
    with pytest.raises(AssertionError, match="x 01_twice"):
        magics.check("01")
    magics.kernel("01", SOLUTION)
    capsys.readouterr()
    assert magics.check("1") is None and capsys.readouterr().out == ""
    own_file(magics).write_text(SOLUTION)  # of whoever grades
    magics.kernel("01", STUB)
    with pytest.raises(AssertionError, match="01_twice: no cell"):
        magics.check("01")


def test_any_kernel_runs_in_a_cell(magics):
    cell = "__global__ void fill(int* x) { x[threadIdx.x] = 7; }"
    assert "x: int32 [2]  7 7" in repr(magics.cuda("fill --block 2 --arg x=empty:2", cell))
    assert "Invalid __global__ write" in repr(magics.cuda("--block 3 --arg x=empty:2", cell))
    for line, says in (("--arg y=empty:2", "no parameter y"), ("--block many", "--block")):
        with pytest.raises(UsageError, match=says):
            magics.cuda(line, cell)


PREDICTED = """# A part
## 01
Text.
```predict
answer: threads + elements("x", thread=1)
why: because
```
```kernel
```
## After
More.
```predict
answer: 7
why: days
```
"""


def test_a_guess_is_compared_with_a_run(magics):
    folder = magics.course.root / "notebooks" / "source"
    folder.mkdir(parents=True)
    (folder / "01_part.md").write_text(PREDICTED)
    said = []
    for guess in (..., 4, 5, 5.0, 6):
        magics.shell.user_ns["my_guess"] = guess
        said.append(repr(magics.predict("01")))
    assert "in place of the dots" in said[0] and "because" not in said[0]
    assert "Yes, 4." in said[1] and "because" in said[1]
    assert all("It is not 5. Guess once more" in text and "because" not in text for text in said[2:4])
    assert "It is 4, not 6" in said[4] and "because" in said[4]
    magics.shell.user_ns["my_guess"] = 7
    assert repr(magics.predict("part1")) == "Yes, 7.\n  days"  # about no puzzle
    magics.shell.user_ns["my_guess"] = "many"
    for line, says in (("01", "must be a number"), ("01 2", "1 predictions")):
        with pytest.raises(UsageError, match=says):
            magics.predict(line)


def test_a_cell_that_hangs_or_crashes_leaves_everything_alive(magics, capsys):
    magics.kernel("01", SOLUTION.replace("y[", "while (true); y["))
    assert "the launch timed out" in capsys.readouterr().out
    magics.process._child._child.kill()
    assert "ended unexpectedly" in repr(magics.kernel("01", SOLUTION))
    assert magics.kernel("01", SOLUTION).verdict.passed
    broken = magics.kernel("01", SOLUTION.replace(";", "", 1))
    assert "does not compile" in repr(broken) and "run the cell again" in repr(broken)


def test_hints_counters_and_pictures(magics):
    assert "first hint" in repr(magics.hint("01")) and "second hint" in repr(magics.hint("01"))
    assert "hint 1 of 2" in repr(magics.hint("01 1")) and "hint 2 of 2" in repr(magics.hint("01"))
    with pytest.raises(UsageError, match="hints 1 to 2"):
        magics.hint("01 3")
    magics.kernel("01", SOLUTION)
    assert magics.counters("01")["twice"]["global_load_requests"] == 1
    profile = magics.profile("01")
    assert "sect./" in repr(profile) and "<pre" in profile._repr_html_()
    assert magics.picture("01 --thread 2").data.startswith(b"\x89PNG")
    moving = magics.picture("01 --moving")
    assert moving.data.startswith(b"GIF8") and moving.format == "gif"
    with pytest.raises(UsageError, match="01_twice has no picture 'banks'"):
        magics.picture("01 --kind banks")
    magics.kernel_from("01")
    assert magics.shell.rl_next_input == f"%%kernel 01\n{STUB}"


def test_lines_are_numbered_as_in_the_cell_and_commands_are_the_notebooks(magics):
    stub, own = stub_text(magics.course.load("01")), own_file(magics)
    stub = f"// Check: backwarp grade 01    Stuck: backwarp hint 01\n{stub}"
    (magics.course.root / "solutions/01_twice/kernel.cu").write_text(f"{stub.splitlines()[0]}\n{SOLUTION}")
    puzzle = magics.course.load("01")
    cell = in_cell(puzzle, SOLUTION_WITH_CHECK := f"{stub.splitlines()[0]}\n{SOLUTION}")
    assert "%hint 01" in cell and "backwarp" not in cell
    broken = cell.replace("2 *", "2 * what *")
    line = next(i for i, text in enumerate(f"%%kernel 01\n{broken}".splitlines(), 1) if "what" in text)
    assert f"kernel.cu:{line}: error" in repr(magics.kernel("01 --save", broken))
    passed = magics.kernel("01 --save", cell)
    assert passed.verdict.passed and own.read_text() == SOLUTION_WITH_CHECK
    assert magics.progress.entry("01_twice").solved["hash"] == source_hash(SOLUTION_WITH_CHECK)
    magics.kernel_from("01 --stub")
    assert "%hint 01" in magics.shell.rl_next_input and "TODO" in magics.shell.rl_next_input


def test_that_nothing_is_begun_is_said_once_in_a_cell(magics, monkeypatch):
    assert "not started yet" in html_of(monkeypatch, magics.step, "01")
    assert magics.profile("01") is None
    monkeypatch.setattr(magics.shell, "execution_count", magics.shell.execution_count + 1)
    assert "not started yet" in repr(magics.profile("01"))


def html_of(monkeypatch, magic, line) -> str:
    """What a magic displays, as HTML."""
    shown = []
    with monkeypatch.context() as patch:
        patch.setattr("backwarp.notebook.display", lambda *objects: shown.extend(objects))
        magic(line)
    return shown[0]._repr_html_()


def test_a_run_is_shown_with_its_lines_and_the_solutions_without(magics, monkeypatch):
    assert "not started yet" in html_of(monkeypatch, magics.step, "01")
    magics.kernel("01", SOLUTION)
    own = html_of(monkeypatch, magics.step, "01")
    assert "y[threadIdx.x] = 2 * x[threadIdx.x]" in own and "<script>" in own and "writes y[0]" in own
    course = html_of(monkeypatch, magics.explore, "01 --solution")
    assert "threadIdx" not in course and '"steps":{"0.0":[[0,0,1,0],[1,1,1,0]]}' in course
    assert "no case small enough to show by that name" in html_of(
        monkeypatch, magics.explore, "01 --solution --case huge"
    )
    with pytest.raises(UsageError, match="%step 01 goes through"):
        magics.explore("01")
    assert magics.picture("01").data.startswith(b"\x89PNG")


def test_a_run_that_fails_is_stepped_through_and_traced(magics, monkeypatch):
    magics.kernel("01", SOLUTION.replace("x[threadIdx.x]", "x[threadIdx.x + 99]"))
    seen = html_of(monkeypatch, magics.step, "01")
    assert "Invalid __global__ read of size 4 bytes" in seen and "reads x[n=99]" in seen
    verdict = magics.kernel("01", SOLUTION.replace("2 *", "3 *")).verdict
    assert verdict.look.startswith("%trace 01 --element n=")
    assert "are right" in html_of(monkeypatch, magics.trace, verdict.look.removeprefix("%trace "))
    for magic, line, said in (
        (magics.step, "01 --break x", "not a line"),
        (magics.step, "01 --thread 1,x", "invalid literal"),
        (magics.step, "01 --case none", "has no none"),
        (magics.trace, "01 --element 99", "no element"),
    ):
        with pytest.raises(UsageError, match=said):
            magic(line)


@pytest.mark.parametrize(
    ("line", "said"),
    [("77", "no puzzle 77"), ("", "required: id"), ("01 --what", "unrecognized"), ('"', "quotation")],
)
def test_what_cannot_be_is_one_line(magics, line, said):
    with pytest.raises(UsageError, match=said):
        magics.kernel(line, SOLUTION)


def test_the_extension_loads(shell, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    load_ipython_extension(shell)
    assert {"kernel"} <= set(shell.magics_manager.magics["cell"]) and {
        "hint",
        "explore",
        "step",
        "trace",
    } <= set(shell.magics_manager.magics["line"])


def test_where_no_course_is_the_installed_one_grades(shell, monkeypatch, capsys):
    def none():
        raise NoCourse("there is no course here")

    monkeypatch.setattr(notebook, "open_course", none)
    load_ipython_extension(shell)
    assert "installed" in capsys.readouterr().out
    assert shell.find_line_magic("check").__self__.course.has_solutions


def test_an_error_of_the_course_is_a_line_and_no_traceback(shell, capsys):
    load_ipython_extension(shell)
    shell.run_cell("from backwarp.errors import CourseError\nraise CourseError('a fact')")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "a fact\n")
