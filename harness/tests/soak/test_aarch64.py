"""Grading on a 64-bit ARM processor, emulated on another machine: right and wrong kernels have the same verdicts as here."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backwarp.course.checkout import Course
from tests import ROOT
from tests.soak.aarch64 import QEMU

FOLDER = Path(os.environ.get("BACKWARP_AARCH64", "/nowhere"))
PYTHON = FOLDER / "bin" / "python"
WHY = f"needs {QEMU}, and in BACKWARP_AARCH64 a folder that python -m tests.soak.aarch64 made"
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not (shutil.which(QEMU) and PYTHON.exists()), reason=WHY),
    pytest.mark.skipif(platform.machine() == "aarch64", reason="all tests run here on such a processor"),
]
SECONDS = 1800  # of an emulated grading
ONE_OF_EACH_PART = ("09", "14", "21", "27", "35", "37")
WRONG = ("04", "09", "21")


def verdict(python: Path | str, cache: Path, *words: str | Path) -> dict:
    """What a grading found, without what differs from run to run."""
    command = [python, "-m", "backwarp", "grade", *map(str, words), "--no-repair", "--json", "-"]
    variables = os.environ | {"BACKWARP_CACHE": str(cache)}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=SECONDS)
    found = json.loads(done.stdout)
    (found,) = found["verdicts"] if "verdicts" in found else (found,)
    return {name: found[name] for name in ("status", "kind", "lines", "case", "mistake")}


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("puzzle", ONE_OF_EACH_PART)
def test_a_solution_passes(puzzle, cache):
    assert verdict(PYTHON, cache, puzzle, "--solution")["status"] == "passed"


@pytest.mark.parametrize("puzzle", WRONG)
def test_a_wrong_kernel_has_the_same_verdict(puzzle, cache, tmp_path):
    course = Course(ROOT).load(puzzle)
    mistake = course.mistakes[0]
    kernel = tmp_path / "kernel.cu"
    kernel.write_text(mistake.apply(course.solution_path.read_text(encoding="utf-8")))
    there, here = (verdict(python, cache, puzzle, "--file", kernel) for python in (PYTHON, sys.executable))
    assert there == here and there["status"] == "failed"
