"""The verbs, run in the process on a tiny course; the kernels are Python functions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from backwarp import cli
from backwarp.course.checkout import load_puzzle
from backwarp.course.progress import Progress
from backwarp.grading.repair.edits import Edit
from backwarp.grading.repair.repair import Repair
from tests import ROOT, SOURCES
from tests.fakes.device import fake_opener

DECLARATION = """\
from backwarp.course import Case, In, Int, Kernel, Launch, Out, Puzzle
PUZZLE = Puzzle(title="Double every value", part=1, teaches="One thread per value.", lines=2,
    hints=("first hint", "second hint"),
    kernels=(Kernel("twice", (In("x", n="N"), Out("y", n="N"), Int("N")),
                    lambda d, t: Launch(1, 32), lambda a, d: 2 * a["x"], short=("N",)),),
    cases=(Case("tiny", {"N": 3}),))
"""
SOLUTION = """\
__global__ void twice(const float* x, float* y, int N) {
    // TODO(1): double it
    // BEGIN SOLUTION
    y[threadIdx.x] = 2 * x[threadIdx.x];
    // END SOLUTION
}
"""
STUB = "".join(SOLUTION.splitlines(keepends=True)[i] for i in (0, 1, 5))


def compute(a, device):
    a["y"][:] = 2 * a["x"]


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Two puzzles, in a folder with a space in its name, that is the current directory."""
    root = tmp_path / "my course"
    for name in ("01_twice", "02_again"):
        for folder in ("puzzles", "solutions"):
            (root / folder / name).mkdir(parents=True)
        (root / "puzzles" / name / "puzzle.py").write_text(DECLARATION)
        (root / "puzzles" / name / "kernel.cu").write_text(STUB)
        (root / "solutions" / name / "kernel.cu").write_text(SOLUTION)
    monkeypatch.chdir(root)
    opener = fake_opener({"twice": lambda a, d: compute(a, d)}, load_puzzle(root, "01_twice"))
    monkeypatch.setattr("backwarp.devices.open_device", opener, raising=False)
    monkeypatch.delenv("BACKWARP_DEBUG", raising=False)
    return root


@pytest.fixture
def backwarp(course, capsys):
    """Runs a command line; gives exit status, output and error output."""

    def run(*arguments):
        with pytest.raises(SystemExit) as done:
            cli.main(list(map(str, arguments)))
        return done.value.code, *capsys.readouterr()

    return run


def solve(course, name):
    (course / "puzzles" / name / "kernel.cu").write_text(SOLUTION)


def test_without_a_verb_it_says_where_you_are(backwarp):
    status, out, _ = backwarp()
    assert status == 0 and "0 of 2 puzzles solved" in out
    assert "puzzles/01_twice/kernel.cu" in out and "backwarp grade 01" in out and "backwarp hint 01" in out


def test_the_ladder_shows_progress(course, backwarp):
    solve(course, "01_twice")
    backwarp("grade", "1")
    status, out, _ = backwarp("list")
    assert status == 0 and "ok 01_twice" in out and "-> 02_again" in out and "Part 1" in out


def test_a_solved_puzzle_passes_and_the_next_is_named(course, backwarp):
    solve(course, "01_twice")
    status, out, _ = backwarp("grade", "01")
    assert status == 0 and out.startswith("ok 01_twice   3 cases on fake cpu")
    assert "Next: read puzzles/02_again/README.md" in out
    solve(course, "02_again")
    assert backwarp("grade")[:1] == (0,)
    assert "solved them all" in backwarp()[1]
    assert "every puzzle is solved" in backwarp("grade")[2]


def test_a_single_case_solves_nothing(course, backwarp):
    solve(course, "01_twice")
    status, out, _ = backwarp("grade", "1", "--case", "tiny")
    assert status == 0 and "Only this case was run" in out and "y[n=0..2]" in out
    assert Progress(course).entry("01_twice").attempts == 0
    status, _, err = backwarp("grade", "1", "--case", "none")
    assert status == 2 and "has no case none; it has tiny" in err


def test_what_it_was_good_for_is_told_once_and_only_of_your_own_file(course, backwarp, tmp_path):
    (tmp_path / "right.cu").write_text(SOLUTION)
    assert not {"Next:", "own solution"} & set(
        backwarp("grade", "1", "--file", tmp_path / "right.cu")[1].split()
    )
    solve(course, "01_twice")
    told = ["own solution: backwarp solution 01" in backwarp("grade", "01")[1] for _ in range(2)]
    assert told == [True, False]


def test_text_fits_a_narrow_terminal(backwarp, monkeypatch):
    monkeypatch.setenv("COLUMNS", "44")
    for verb in (("list",), ("hint", "1"), ("grade", "1")):
        status, out, _ = backwarp(*verb)
        assert max(map(len, out.splitlines())) <= 44, out


def test_a_file_that_does_not_compile_has_no_profile_and_no_picture(course, backwarp, tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.chdir(course)
    (course / "puzzles" / "01_twice" / "kernel.cu").write_text(SOLUTION.replace(";", "", 1))
    status, out, err = backwarp("profile", "1")
    assert status == 1 and "does not compile" in out and not err
    assert backwarp("picture", "1")[0] == 2
    status, _, err = backwarp("picture", "1", "-o", tmp_path / "no" / "x.png")
    assert status == 2 and "there is no folder" in err and not (tmp_path / "no").exists()


def test_a_failing_run_is_stepped_through_as_text(course, backwarp, monkeypatch):
    monkeypatch.undo()
    monkeypatch.chdir(course)
    status, out, _ = backwarp("step", "1", "--solution")  # its launch has threads beyond the array
    assert (
        status == 0 and "thread 3,0,0 of block 0,0,0" in out and "y[threadIdx.x] = 2 * x[threadIdx.x]" in out
    )
    assert "reads x[3]" in out and "Invalid __global__ read of size 4 bytes" in out
    assert "thread 1,0,0" in backwarp("step", "1", "--solution", "--thread", "1", "--print", "2")[1]
    status, out, _ = backwarp("trace", "1", "--solution", "--element", "n=1")
    assert status == 0 and "y[1]: thread 1,0,0 of block 0,0,0" in out and "x[1]" in out
    status, _, err = backwarp("step", "1", "--solution", "--to", "z[0]")
    assert status == 2 and "there is no z in twice" in err


def test_the_untouched_stub_fails_and_says_what_to_do(backwarp):
    status, out, _ = backwarp("grade", "01_twice")
    assert status == 1 and "not started yet" in out and "TODO(1): double it" in out


def test_without_an_id_the_next_puzzle_is_graded(backwarp):
    assert "01_twice" in backwarp("grade")[1]


def test_all_grades_every_puzzle(course, backwarp):
    solve(course, "01_twice")
    status, out, _ = backwarp("grade", "--all")
    assert (
        status == 1
        and "ok 01_twice" in out
        and "x 02_again   not started yet" in out
        and "1 of 2 puzzles pass" in out
    )


def test_the_solution_and_another_file_do_not_count_as_yours(course, backwarp, tmp_path):
    other = tmp_path / "other.cu"
    other.write_text(SOLUTION)
    assert backwarp("grade", "--solution", "1")[0] == 0
    assert backwarp("grade", "1", "--file", other)[0] == 0
    assert "0 of 2" in backwarp()[1]
    status, out, _ = backwarp("grade", "1", "--file", tmp_path / "none.cu")
    assert status == 2 and "none.cu does not exist" in " ".join(out.split())


def test_another_file_that_passes_can_be_kept(course, backwarp, tmp_path):
    other, own = tmp_path / "other.cu", course / "puzzles" / "01_twice" / "kernel.cu"
    other.write_text(STUB)
    assert backwarp("grade", "1", "--file", other, "--keep")[0] == 1 and own.read_text() == STUB
    other.write_text(SOLUTION)
    status, out, _ = backwarp("grade", "1", "--file", other, "--keep")
    assert status == 0 and own.read_text() == SOLUTION and not backups(course)
    assert "it is puzzles/01_twice/kernel.cu now." in out and "1 of 2" in backwarp()[1]
    other.write_text(SOLUTION + "// again")
    said = backwarp("grade", "1", "--file", other, "--keep")[1]
    assert "now; before: kernel.cu.bak-" in " ".join(said.split())
    assert own.read_text() == SOLUTION + "// again" and len(backups(course)) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("grade", "--file", "x.cu"),
        ("grade", "1", "2", "--file", "x.cu"),
        ("grade", "1", "--solution", "--file", "x.cu"),
        ("grade", "1", "--all"),
        ("grade", "1", "--device", "tpu"),
        ("grade", "1", "--seed", "-1"),
        ("grade", "twixe"),
        ("grade", "33"),
        ("hint", "33"),
        ("hint", "1", "3"),
        ("grade", "1", "--keep"),
        ("nonsense",),
        ("--nonsense",),
    ],
)
def test_wrong_usage_is_status_2_and_no_traceback(backwarp, arguments):
    status, out, err = backwarp(*arguments)
    assert status == 2 and out == "" and err and "Traceback" not in err


def test_an_unknown_id_suggests_the_nearest(backwarp):
    assert "did you mean 01_twice?" in backwarp("grade", "01_twixe")[2]


def test_json_to_standard_output_is_json_alone(course, backwarp):
    solve(course, "01_twice")
    status, out, _ = backwarp("grade", "1", "--json", "-")
    document = json.loads(out)
    assert status == 0 and document["passed"] and document["verdicts"][0]["cases"][0]["name"] == "tiny"


def test_json_to_a_file_comes_beside_the_text(course, backwarp, tmp_path):
    status, out, _ = backwarp("grade", "1", "2", "--json", tmp_path / "v.json")
    assert status == 1 and "01_twice" in out
    assert len(json.loads((tmp_path / "v.json").read_text())["verdicts"]) == 2
    status, _, err = backwarp("grade", "1", "--json", tmp_path / "no" / "v.json")
    assert status == 2 and "cannot be written" in err


def test_each_call_shows_the_next_hint_and_the_last_is_repeated(backwarp):
    shown = [backwarp("hint", "1")[1] for _ in range(3)]
    assert "first hint" in shown[0] and "1 of 2" in shown[0]
    assert "second hint" in shown[1] and "the last hint" not in shown[1]
    assert "second hint" in shown[2] and "the last hint" in shown[2]
    assert "first hint" in backwarp("hint", "2")[1]
    assert "first hint" in backwarp("hint", "1", "1")[1]


def test_hints_are_by_default_about_the_puzzle_you_are_at(course, backwarp):
    assert "01_twice, hint 1" in backwarp("hint")[1]
    solve(course, "01_twice")
    backwarp("grade", "1")
    assert "02_again, hint 1" in backwarp("hint")[1]


def backups(course):
    return sorted(p.name for p in (course / "puzzles" / "01_twice").glob("kernel.cu.bak-*"))


def test_reset_restores_the_stub_and_keeps_a_backup_each_time(course, backwarp):
    kernel = course / "puzzles" / "01_twice" / "kernel.cu"
    for text in ("mine", "mine again"):
        kernel.write_text(text)
        status, out, _ = backwarp("reset", "1")
        assert status == 0 and "kernel.cu.bak-" in out and kernel.read_text() == STUB
    assert len(backups(course)) == 2
    assert (kernel.parent / backups(course)[0]).read_text() == "mine"
    assert "the stub already" in backwarp("reset", "1")[1] and len(backups(course)) == 2


def test_reset_works_where_the_file_was_deleted_or_is_not_text(course, backwarp):
    kernel = course / "puzzles" / "01_twice" / "kernel.cu"
    kernel.unlink()
    assert backwarp("reset", "1")[0] == 0 and kernel.read_text() == STUB and not backups(course)
    kernel.write_bytes(b"\xff\x00")
    assert backwarp("reset", "1")[0] == 0 and (kernel.parent / backups(course)[0]).read_bytes() == b"\xff\x00"
    kernel.unlink()
    kernel.mkdir()
    status, _, err = backwarp("reset", "1")
    assert status == 2 and "is a folder" in err


def test_reset_on_a_full_disk_leaves_the_file_and_no_empty_backup(course, backwarp, monkeypatch):
    """The disk is full as soon as a byte of the copy is written."""
    kernel = course / "puzzles" / "01_twice" / "kernel.cu"
    kernel.write_text("mine")

    def full(source, target):
        Path(target).touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copy2", full)
    status, out, err = backwarp("reset", "1")
    assert status == 2 and "cannot be restored: No space left on device" in " ".join(err.split())
    assert kernel.read_text() == "mine" and not backups(course)
    assert not [p.name for p in kernel.parent.iterdir() if p.name.endswith(".new")]


def test_check_tells_an_author_what_is_wrong_with_a_puzzle(course, backwarp, monkeypatch):
    monkeypatch.setattr("backwarp.maintain.check.problems", lambda puzzle: iter([f"{puzzle.id} is empty"]))
    assert backwarp("check", "1")[:2] == (1, "x 01_twice is empty\n")
    monkeypatch.setattr("backwarp.maintain.check.problems", lambda puzzle: iter([]))
    status, out, _ = backwarp("check", "1")
    assert status == 0 and "are in order" in out


def test_doctor_is_run_and_gives_the_status(backwarp, monkeypatch):
    from types import SimpleNamespace

    doctor = SimpleNamespace(main=lambda: print("all well") or 2)
    monkeypatch.setitem(sys.modules, "backwarp.doctor", doctor)
    monkeypatch.setattr("backwarp.doctor", doctor, raising=False)
    assert backwarp("doctor")[:2] == (2, "all well\n")


def test_an_internal_error_is_one_line_and_a_file(course, backwarp, monkeypatch):
    solve(course, "01_twice")
    monkeypatch.setitem(globals(), "compute", lambda a, d: 1 / 0)
    status, _, err = backwarp("grade", "1")
    assert status == 2 and err.count("\n") == 1 and "ZeroDivisionError" in err and "please report" in err
    assert "Traceback" in (course / ".backwarp" / "last-error.txt").read_text()
    monkeypatch.setenv("BACKWARP_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main(["grade", "1"])


def test_ctrl_c_is_one_line(course, backwarp, monkeypatch):
    def interrupt(a, d):
        raise KeyboardInterrupt

    solve(course, "01_twice")
    monkeypatch.setitem(globals(), "compute", interrupt)
    before = signal.getsignal(signal.SIGINT)
    assert backwarp("grade", "1") == (130, "", "interrupted\n")
    assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN  # a second one changes nothing


def test_ctrl_c_while_modules_are_loaded_ends_it_without_a_word(course):
    code = """
import os, signal, sys
class Loading:
    def find_spec(self, name, *_):
        if name == "backwarp.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Loading())
from backwarp.__main__ import main
main()
"""
    done = python(code, course, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_broken_puzzle_names_its_file_and_line(course, backwarp):
    (course / "puzzles" / "01_twice" / "puzzle.py").write_text("\nPUZZLE = oops\n")
    load_puzzle.cache_clear()
    status, _, err = backwarp("grade", "1")
    assert status == 2 and "puzzles/01_twice/puzzle.py:2: NameError" in err


def test_outside_a_course_init_is_named(tmp_path, backwarp, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    monkeypatch.setattr("backwarp.course.checkout.CHECKOUT", None)
    status, _, err = backwarp("list")
    assert status == 2 and "backwarp init" in err


def python(code, course, **options):
    """Runs code in a new process, where this harness can be imported."""
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    return subprocess.run([sys.executable, "-c", code], cwd=course, env=environment, text=True, **options)


@pytest.mark.parametrize("verb", [[], ["list"], ["hint", "1"], ["--help"]])
def test_a_reader_that_stops_early_is_no_error(course, verb):
    read, write = os.pipe()
    os.close(read)
    done = python(
        f"from backwarp.cli import main; main({verb})", course, stdout=write, stderr=subprocess.PIPE
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_readme_names_every_verb():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [verb for verb in cli.cli.commands if f"backwarp {verb}" not in readme] == []


def test_the_command_starts_without_heavy_imports(course):
    heavy = "[m for m in ('numpy', 'rich', 'matplotlib', 'llvmlite') if m in sys.modules]"
    done = python(f"import sys, backwarp.cli; print({heavy})", course, capture_output=True)
    assert done.stdout == "[]\n"


def completions(words: str, course) -> list[str]:
    """What a shell would offer after these words."""
    asked = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_BACKWARP_COMPLETE": "bash_complete",
    }
    code = f"import os; os.environ.update({asked}); from backwarp.cli import main; main()"
    return [line.split(",")[1] for line in python(code, course, capture_output=True).stdout.split()]


def test_a_shell_completes_verbs_puzzles_and_options(course):
    assert completions("backwarp gra", course) == ["grade"]
    assert completions("backwarp grade 01", course) == ["01_twice"]
    assert "--kernel" in completions("backwarp picture 01 --k", course)


def test_a_refusal_needs_no_numpy(course):
    code = "import atexit, sys, backwarp.cli\natexit.register(lambda: print('numpy' in sys.modules))\nbackwarp.cli.main(['grade', 'nothing'])"
    done = python(code, course, capture_output=True)
    assert (done.returncode, done.stdout) == (2, "False\n") and "there is no puzzle" in done.stderr


def test_the_solution_is_shown_once_there_is_an_own(course, backwarp):
    status, out, err = backwarp("solution", "1")
    assert status == 2 and "not solved yet" in err and "BEGIN SOLUTION" not in out
    status, out, err = backwarp("solution", "1", "--force")
    assert status == 0 and "2 * x" in out
    assert (
        json.loads((course / ".backwarp" / "progress.json").read_text())["puzzles"]["01_twice"]["peeked"]
        is True
    )
    (course / "puzzles" / "02_again" / "kernel.cu").write_text(SOLUTION)
    assert backwarp("grade", "2")[0] == 0
    assert "2 * x" in backwarp("solution", "2")[1]


def test_a_picture_that_cannot_be_drawn_is_one_line(course, backwarp):
    for arguments, said in (
        (("--case", "no"), "no case 'no' for twice; it has tiny"),
        (("-o", "x.txt"), ".png, .svg or .pdf"),
        (("--kernel", "no"), "no kernel 'no'"),
    ):
        status, _, err = backwarp("picture", "1", *arguments)
        assert status == 2 and said in err and len(err.splitlines()) == 1


def test_one_change_is_looked_for_told_by_its_line_and_explained_by_hints(course, backwarp, monkeypatch):
    wrong = SOLUTION.replace("2 * x", "3 * x")
    (course / "puzzles" / "01_twice" / "kernel.cu").write_text(wrong)
    monkeypatch.setitem(globals(), "compute", lambda a, d: a["y"].fill(0))
    place = wrong.index("3 * x")
    change = Repair((Edit(place, place + 1, "2", "another value"),), 1.0, wrong)
    monkeypatch.setattr("backwarp.grading.repair.search.repairs", lambda *_, **__: [change])
    assert "One change" not in backwarp("grade", "1", "--no-repair")[1]
    assert "first hint" in backwarp("hint", "1")[1]
    status, out, _ = backwarp("grade", "1", "--json", "verdict.json")
    assert status == 1 and "One change in line 4 makes the case pass." in out and "2 *" not in out
    assert out.count("  4 |     y[threadIdx.x] = 3 * x[threadIdx.x];") == 1
    (verdict,) = json.loads(Path("verdict.json").read_text())["verdicts"]
    expected = {"line": 4, "column": 22, "before": "3", "after": "2", "kind": "another value"}
    expected |= {"edits": [dict(expected)], "places": [{"how": "changed", "first": 4, "last": 4}]}
    expected |= {"code": [{"line": 4, "text": "    y[threadIdx.x] = 3 * x[threadIdx.x];"}]}
    assert verdict["repair"] == [expected | {"is_fast": True, "cause": verdict["causes"][-1]}]
    assert "Line 4: the change that makes every case pass is to this: 3" in backwarp("hint", "1")[1]
    backwarp("grade", "1")  # the same file
    assert "another variable or number belongs there" in backwarp("hint", "1")[1]
    assert "Line 4: 3 becomes 2" in backwarp("hint", "1")[1]
    assert "second hint" in backwarp("hint", "1")[1]
    assert Progress(course).entry("01_twice").told == 3
    (course / "puzzles" / "01_twice" / "kernel.cu").write_text(wrong + "// changed")
    assert "hint 2 of 2" in backwarp("hint", "1")[1]
