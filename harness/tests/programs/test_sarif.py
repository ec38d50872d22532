"""What `backwarp exec` finds, as faults for code scanning, and the GitHub Action that runs programs."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from backwarp.errors import CompileError, CourseError, Diagnostic
from backwarp.programs.lines import Place
from backwarp.programs.mistakes import Frames, Memory, Mistake
from backwarp.programs.run import Asked, Outcome
from backwarp.report import sarif
from backwarp.report.program import faults, show_outcome
from tests import ROOT

from .test_pairs import needs_compiler

SAMPLE = ROOT / ".github/actions/cuda-without-gpu/sample"


@pytest.fixture
def done():
    made = Outcome("prog.cu", {"prog.cu": "", "sub/part.h": ""})
    made.lines = SimpleNamespace(places=lambda frames: [Place("sub/part.h", frames[0])] if frames else [])
    d = Memory("device", "d", Frames((3,)))
    made.mistakes = [
        Mistake("freed-twice", (7,), {"memory": d, "freed": Frames((5,))}),
        Mistake("leak", (3,), {"memory": d, "nbytes": 400}),
    ]
    return made


def results(path) -> list[tuple[str, str, str, int]]:
    (run,) = json.loads(path.read_text())["runs"]
    assert {r["ruleId"] for r in run["results"]} == {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    places = [r["locations"][0]["physicalLocation"] for r in run["results"]]
    return [
        (r["ruleId"], r["level"], p["artifactLocation"]["uri"], p["region"]["startLine"])
        for r, p in zip(run["results"], places, strict=True)
    ]


def test_what_is_never_freed_is_one_note_of_a_program_that_ends_well(done):
    """Else it is often only a consequence."""

    def shown() -> str:
        show_outcome(done, Asked(Path("prog.cu")), stream := io.StringIO())
        return " ".join(stream.getvalue().split())

    wrong, leak = done.mistakes
    assert "never freed" not in shown()
    done.mistakes = [leak]
    assert "sub/part.h:3" in shown() and "never freed: 400 bytes" in shown()
    done.mistakes = [leak, replace(leak, frames=(4,)), replace(leak, frames=(5,))]
    assert all(f"d (sub/part.h:{n})" in shown() for n in (3, 4, 5)) and "1,200 bytes" in shown()
    done.status = 1
    assert shown() == ""


def test_programs_add_to_one_file(done, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, asked = tmp_path / "out.sarif", Asked(tmp_path / "tests/prog.cu")
    sarif.add_to(out, faults(done, asked))
    found = [("freed-twice", "error", "tests/sub/part.h", 7), ("leak", "note", "tests/sub/part.h", 3)]
    assert results(out) == found
    message = json.loads(out.read_text())["runs"][0]["results"][0]["message"]["text"]
    assert message.startswith("This frees device memory (d, allocated at sub/part.h:3) a second time")
    done.mistakes, done.error = (
        [],
        CompileError("no", (Diagnostic("error", "x is nowhere", "prog.cu", 2, 1),)),
    )
    sarif.add_to(out, faults(done, asked))
    assert results(out) == [*found, ("compile-error", "error", "tests/prog.cu", 2)]


@pytest.mark.parametrize("text", ["no", "[]", '{"runs": []}', '{"runs": [{"results": 1}]}'])
def test_another_file_is_left_alone(text, tmp_path):
    path = tmp_path / "out.sarif"
    path.write_text(text)
    with pytest.raises(CourseError, match="no SARIF file"):
        sarif.add_to(path, [])
    assert path.read_text() == text


def test_what_was_ended(done, tmp_path):
    done.mistakes, done.ended = [], "time"
    (fault,) = faults(done, Asked(tmp_path / "prog.cu", seconds=2))
    assert fault["kind"] == "ended" and "2 s" in fault["message"] and fault["line"] == 1


# ---- the GitHub Action on a project's test programs ---------------------------------------------------------


def steps(inputs: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    """The scripts of the action that run with these inputs, and their variables. It is read as the few forms of YAML that it has."""
    text = (SAMPLE.parent / "action.yml").read_text()
    head, _, runs = text.partition("\nruns:")
    defaults = re.findall(
        r"^  ([\w-]+):\n    description:[^\n]*\n    default: \"?([^\"\n]*)\"?$", head, re.MULTILINE
    )
    given, found = dict(defaults) | inputs, []
    for step in re.split(r"^    - ", runs, flags=re.MULTILINE)[1:]:
        if condition := re.search(r"if: inputs\.(\w+) (==|!=) ''", step):
            if (given[condition[1]] == "") != (condition[2] == "=="):
                continue
        variables = {
            name: given[key] for name, key in re.findall(r"(\w+): \$\{\{ inputs\.([\w-]+) \}\}", step)
        }
        script = re.search(r"run: (?:\|\n)?(.*)", step, re.DOTALL)[1]
        found.append((textwrap.dedent(script), variables))
    return found


def test_the_action_installs_what_each_mode_needs():
    by_pytest, by_exec = ([script for script, _ in steps(given)] for given in ({}, {"programs": "test/*.cu"}))
    assert len(by_pytest) == 2 and "pytest --virtual-gpu" in by_pytest[1]
    assert len(by_exec) == 3 and "backwarp[programs]" in by_exec[1] and "backwarp exec" in by_exec[2]


@needs_compiler
def test_the_action_runs_test_programs(tmp_path):
    text = (SAMPLE / "test_sums.cu").read_text()
    (tmp_path / "test_sums.cu").write_text(text)
    script, variables = steps({"programs": "test_*.cu"})[-1]
    bin_ = Path(sys.executable).parent

    def act() -> tuple[int, str]:
        environment = os.environ | variables | {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(tmp_path)}
        environment["PATH"] = f"{bin_}:{os.environ['PATH']}"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout

    status, output = act()
    assert status == 0 and "0 of 100 rows are wrong" in output and not results(tmp_path / "cuda.sarif")
    wrong = text.replace("    cudaFree(d_x);\n", "    cudaFree(d_x);\n    cudaFree(d_x);\n")
    (tmp_path / "test_twice.cu").write_text(wrong)
    line = wrong[: wrong.rindex("cudaFree(d_x)")].count("\n") + 1
    status, output = act()
    assert status == 1 and output.count("::group::") == 2
    assert f"::error file=test_twice.cu,line={line},title=freed-twice::" in output
    assert results(tmp_path / "cuda.sarif") == [("freed-twice", "error", "test_twice.cu", line)]
