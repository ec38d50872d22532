"""The notebooks run from top to bottom without a GPU; the magics grade, explain and survive."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from IPython import get_ipython
from IPython.core.error import UsageError
from IPython.testing.globalipapp import start_ipython

import harness
from harness.course.checkout import Course
from harness.maintain.notebooks import copy_course, executed
from harness.notebook import CourseMagics, load_ipython_extension
from harness.tests.test_cli import DECLARATION, SOLUTION, STUB

ROOT = Path(harness.__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EPOCHS = (
    '\\"--epochs\\", \\"3\\"',
    '\\"--epochs\\", \\"1\\", \\"--batch\\", \\"256\\"',
)  # three show a student more than they test


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path):
    copy_course(ROOT, tmp_path)
    shorter = tmp_path / "notebooks" / path.name
    shorter.write_text(path.read_text(encoding="utf-8").replace(*EPOCHS), encoding="utf-8")
    committed, notebook = nbformat.read(path, 4), executed(shorter, shorter.parent)
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


def test_the_first_cell_installs_the_checkout_where_it_is_missing(monkeypatch, tmp_path):
    """The process that has just installed it finds it without a restart."""
    cells = {nbformat.read(path, 4).cells[1].source for path in NOTEBOOKS}
    assert len(cells) == 1
    code, magic = cells.pop().rsplit("\n", 1)
    assert magic == "%load_ext harness.notebook"
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    commands = []
    monkeypatch.setattr("subprocess.run", lambda command, check: commands.append(command))
    monkeypatch.setattr(sys, "path", list(sys.path))
    exec(code, {})
    assert commands == [] and str(tmp_path) not in sys.path  # it is installed here
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(code, {})
    assert commands == [[sys.executable, "-m", "pip", "install", "-q", "-e", "..", "ipywidgets"]]
    assert str(tmp_path) in sys.path


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
    assert "x 01_twice" in shown and "Next: %hint 01" in shown and "Image object" in shown
    assert own.read_text() == STUB
    passed = magics.kernel("1 --save", SOLUTION)
    assert passed.verdict.passed and own.read_text() == SOLUTION
    assert "ok 01_twice" in repr(passed)
    html = passed._repr_html_()
    assert "<pre" in html and "font-weight: bold" in html and "01_twice" in html
    assert magics.progress.entry("01_twice").solved and len(list(own.parent.glob("*.bak-*"))) == 1


def test_a_cell_that_hangs_or_crashes_leaves_everything_alive(magics):
    hangs = magics.kernel("01", SOLUTION.replace("y[", "while (true); y["))
    assert hangs.verdict.diagnosis == "timeout"
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


def shown_by(walk, capsys) -> str:
    """What a slider shows now: its output's text."""
    walk.update()
    return capsys.readouterr().out


def test_the_slider_shows_the_thread_it_stands_at(magics, capsys, monkeypatch):
    asked, picture = [], magics.picture
    monkeypatch.setattr(magics, "picture", lambda line: asked.append(line) or picture(line))
    magics.kernel("01", SOLUTION)
    capsys.readouterr()
    walk = magics.walk("01")
    slider = walk.children[0]
    assert (slider.description, slider.min, slider.max, slider.value) == ("thread", 0, 2, 0)
    assert "Image object" in shown_by(walk, capsys)
    slider.value = 2
    assert "Image object" in shown_by(walk, capsys)
    assert (
        asked[0] == "01 --kind access --thread 0 --block 0"
        and asked[-1] == "01 --kind access --thread 2 --block 0"
    )
    first, last = (picture(line).data for line in (asked[0], asked[-1]))
    assert first != last  # they are pictures of different threads
    magics.kernel("01", SOLUTION.replace("y[", "while (true); y["))
    capsys.readouterr()
    assert "the kernel must run to be drawn" in shown_by(walk, capsys)


def test_what_cannot_be_walked_is_one_line(magics, monkeypatch):
    with pytest.raises(UsageError, match="no case 'huge'"):
        magics.walk("01 --case huge")
    (magics.course.root / "puzzles" / "01_twice" / "kernel.cu").unlink()
    with pytest.raises(UsageError, match="does not exist"):
        magics.walk("01")
    monkeypatch.setitem(sys.modules, "ipywidgets", None)  # as where it is not installed
    with pytest.raises(UsageError, match="%pip install ipywidgets"):
        magics.walk("01")


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
    assert {"kernel"} <= set(shell.magics_manager.magics["cell"]) and {"hint", "walk"} <= set(
        shell.magics_manager.magics["line"]
    )
