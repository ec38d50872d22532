"""Results as the systems that teachers use read them, and what those need to grade by themselves."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from datetime import datetime
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from backwarp.classroom import formats, setups
from backwarp.classroom.find import File
from backwarp.classroom.rules import Points, Rules
from backwarp.cli import cli
from backwarp.errors import CourseError
from tests import ROOT
from tests.classroom.test_gradebook import NINE, RIGHT, TWO, WRONG, made

ADD = "01_vector_add"
RULES = Rules(puzzles=(ADD, TWO, NINE), points=Points(10, 5, 4))


@pytest.fixture
def book():
    found = made(RULES, ("hand-in", NINE, RIGHT), ("hand-in", TWO, WRONG))
    found.left.append(File("hand-in", "hand-in/notes.txt", why="for no puzzle"))
    return found


def test_gradescope(book):
    found = json.loads(formats.results(book, RULES, "gradescope"))
    assert [(t["name"], t["score"], t["max_score"], t["status"]) for t in found["tests"]] == [
        (ADD, 0.0, 10.0, "failed"),
        (TWO, 1.0, 10.0, "failed"),
        (NINE, 10.0, 10.0, "passed"),
    ]
    assert "secret" not in json.dumps(found) and "for no puzzle" in found["output"]


def test_prairielearn_has_a_score_from_0_to_1_and_stays_below_a_megabyte(book):
    text = formats.results(book, RULES, "prairielearn")
    found = json.loads(text)
    assert found["gradable"] is True and found["score"] == pytest.approx(11 / 30)
    long = made(
        RULES, *(("hand-in", puzzle, WRONG | {"shown": ["x" * 4000] * 100}) for puzzle in (TWO, NINE))
    )
    assert len(formats.results(long, RULES, "prairielearn")) < 1e6 / 41 * 2


def test_classroom50_has_whole_points_and_what_its_runner_gives(book):
    given = {
        name: f"the {name}"
        for name in ("CLASSROOM", "ASSIGNMENT", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL")
    }
    found = formats.classroom50(formats.tests_of(book, "hand-in", RULES), "", given)
    assert found["schema"] == "classroom50/result/v1" and found["review"] == "the COMMIT_URL"
    assert (found["score"], found["max-score"]) == (11, 30) and all(
        type(t["score"]) is int for t in found["tests"]
    )
    datetime.strptime(found["datetime"], "%Y-%m-%dT%H:%M:%SZ")
    halves = Rules(puzzles=(NINE,), points=Points(0.5))
    tests = formats.tests_of(made(halves, ("hand-in", NINE, RIGHT)), "hand-in", halves)
    assert formats.classroom50(tests, "", given)["score"] == 50


def test_autolab_reads_the_last_line(book):
    last = formats.results(book, RULES, "autolab").strip().splitlines()[-1]
    assert json.loads(last) == {"scores": {ADD: 0.0, TWO: 1.0, NINE: 10.0}}


def test_junit_is_well_formed_whatever_a_file_says():
    evil = WRONG | {"shown": ["]]>\x00<\ud800&"]}
    suite = ElementTree.fromstring(formats.results(made(RULES, ("hand-in", NINE, evil)), RULES, "junit"))
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["3", "3", "0"] and len(
        suite.findall("testcase/failure")
    ) == 3


@pytest.mark.parametrize("name", formats.FORMATS)
def test_an_empty_hand_in_has_no_points(name):
    text = formats.results(made(RULES), RULES, name)
    assert formats.NONE in text


def test_one_persons_folder_is_graded_and_printed(tmp_path):
    folder = tmp_path / "in" / ADD
    folder.mkdir(parents=True)
    (folder / "kernel.cu").write_bytes((ROOT / "solutions" / ADD / "kernel.cu").read_bytes())
    (tmp_path / "rules.toml").write_text('puzzles = ["01", "02"]\n[points]\npassed = 5\n')
    arguments = [
        "class",
        str(tmp_path / "in"),
        "--rules",
        str(tmp_path / "rules.toml"),
        "--format",
        "gradescope",
    ]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert [t["score"] for t in json.loads(done.output)["tests"]] == [5.0, 0.0]


# ---- set-ups ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", setups.SETUPS)
def test_a_set_up_is_written_with_its_rules(tmp_path, name):
    rules = tmp_path / "mine.toml"
    rules.write_text("seed = 7\n")
    written = setups.make(name, rules, tmp_path / "out", ["09.cu"])
    for path in written:
        if path.suffix in (".zip", ".tar"):
            subprocess.run(
                [sys.executable, "-m", f"{path.suffix[1:]}file", "-e", path, tmp_path / "packed"], check=True
            )
    texts = {
        path.relative_to(root).as_posix(): path.read_text()
        for root in (tmp_path / "out", tmp_path / "packed")
        for path in root.rglob("*")
        if path.is_file() and path.suffix not in (".zip", ".tar")
    }
    assert "seed = 7\n" in texts.values()
    for file, text in texts.items():
        if file.endswith(".json"):
            json.loads(text)
        if file.endswith(".py"):
            compile(text, file, "exec")
        if text.startswith("#!"):
            assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    known = {option for command in (cli.commands["class"],) for p in command.params for option in p.opts}
    words = {word for text in texts.values() for word in text.replace('"', " ").replace(",", " ").split()}
    assert {w for w in words if w.startswith("--")} - {"--quiet"} <= known


def test_gradescope_takes_a_zip_with_its_files_at_the_top(tmp_path):
    (tmp_path / "rules.toml").write_text("seed = 7\n")
    (made,) = setups.make("gradescope", tmp_path / "rules.toml", tmp_path / "out")
    with zipfile.ZipFile(made) as held:
        modes = {entry.filename: entry.external_attr >> 16 & 0o111 for entry in held.infolist()}
    assert made.name == "autograder.zip" and modes == {
        "run_autograder": 0o111,
        "rules.toml": 0,
        "setup.sh": 0o111,
    }


def test_prairielearn_gets_a_whole_question(tmp_path):
    (tmp_path / "rules.toml").write_text('puzzles = ["9", "38"]\n')
    command = ["class", str(tmp_path / "rules.toml"), "--make", "prairielearn", "-o", str(tmp_path / "o")]
    CliRunner().invoke(cli, command, catch_exceptions=False)
    info = json.loads((tmp_path / "o" / "info.json").read_text())
    assert info.keys() >= {"uuid", "type", "title", "topic"} and len(info["uuid"]) == 36
    assert f'file-names="{NINE}.cu, 38_lenet_training.py"' in (tmp_path / "o" / "question.html").read_text()


def test_rules_that_are_wrong_are_refused_before_anything_is_written(tmp_path):
    (tmp_path / "rules.toml").write_text("sede = 7\n")
    with pytest.raises(CourseError, match="'sede' is not known"):
        CliRunner().invoke(
            cli,
            ["class", str(tmp_path / "rules.toml"), "--make", "autolab", "-o", str(tmp_path / "o")],
            catch_exceptions=False,
        )
    assert not (tmp_path / "o").exists() and sys.platform
