"""The pytest plug-in, on the sample project of the GitHub Action."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests import ROOT

SAMPLE = ROOT / ".github/actions/cuda-without-gpu/sample"
#: breaks of the sample: (file, text, replacement, the fault's kind, what is on its line)
BREAKS = {
    "race": ("filters.cu", "    __syncthreads();\n", "", "race", "tile[threadIdx.x + 2]"),
    "bounds": ("filters.py", "if (i < n) above", "above", "out-of-bounds", "above[i] = x[i] > limit"),
    "syntax": ("filters.cu", "int i = block", "int i = black", "compile-error", "blackIdx"),
}


@pytest.fixture
def project(tmp_path, runtime):
    folder = tmp_path / "project"
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def edit(folder, file: str, old: str, new: str) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))


def run(folder, *options: str, **variables: str) -> tuple[int, str]:
    """(exit status, output) of pytest in a project."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "GITHUB"))} | variables
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "backwarp.pytest_plugin",
        "-p",
        "no:cacheprovider",
        *options,
    ]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("options", [(), ("--cuda-checks=memory",), ("-n", "1")])
def test_a_project_without_a_gpu(project, options):
    status, output = run(project, "--virtual-gpu", *options)
    assert status == 0 and "5 passed" in output and "no test launched" not in output


def test_without_the_option_nothing_changes(project):
    status, output = run(project)
    assert status != 0 and "No module named 'cupy'" in output


@pytest.mark.parametrize("name", BREAKS)
@pytest.mark.parametrize("options", [(), ("-n", "1", "--tb=short")])
def test_a_fault_is_shown_where_it_is(project, name, options):
    file, old, new, kind, on_line = BREAKS[name]
    edit(project, file, old, new)
    status, output = run(project, "--virtual-gpu", "--cuda-sarif=out.sarif", *options, GITHUB_ACTIONS="true")
    assert status == 1
    (result,) = json.loads((project / "out.sarif").read_text())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    line = place["region"]["startLine"]
    assert (result["ruleId"], place["artifactLocation"]["uri"]) == (kind, file)
    assert on_line in (project / file).read_text().splitlines()[line - 1]
    assert f"::error file={file},line={line},title={kind}::" in output
    if kind != "compile-error":
        assert re.search(rf"^>.*{re.escape(on_line)}", output, re.MULTILINE)
        assert f"{file}:{line}: {kind}" in output


def test_a_fault_behind_another_error_or_in_an_import(project):
    edit(project, *BREAKS["bounds"][:3])
    call = "threshold(cupy.arange(300, dtype='f4'), 1)"
    (project / "test_filters.py").write_text(
        f"import cupy\nfrom filters import threshold\ndef test_it():\n    try:\n        {call}\n"
        "    except Exception as error:\n        raise ValueError('behind') from error\n"
    )
    (project / "test_import.py").write_text(f"import cupy\nfrom filters import threshold\nA = {call}\n")
    status, output = run(project, "--virtual-gpu", "--continue-on-collection-errors", GITHUB_ACTIONS="true")
    assert (
        status == 1
        and "ValueError: behind" in output
        and output.count("::error file=filters.py,line=12") == 1
    )
    assert len(re.findall(r"^>.*above\[i\] = x\[i\] > limit", output, re.MULTILINE)) == 2


def test_memory_checks_do_not_look_for_races(project):
    edit(project, *BREAKS["race"][:3])
    edit(project, *BREAKS["bounds"][:3])
    output = run(project, "--virtual-gpu", "--cuda-checks=memory")[1]
    assert "out-of-bounds" in output and "Race" not in output


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_kernels_that_no_test_launches_are_listed(project, options):
    output = run(project, "--virtual-gpu", "-k", "test_blur", *options)[1]
    assert re.search(r"no test launched.*\nfilters\.py:10: threshold\n", output)


def test_the_fixture_is_for_one_test(project):
    (project / "conftest.py").write_text("collect_ignore = ['test_filters.py']\n")
    (project / "test_one.py").write_text(
        "import sys\nimport pytest\n"
        "def test_on_the_virtual_gpu(virtual_gpu):\n"
        "    import cupy\n    from filters import threshold\n"
        "    assert cupy is virtual_gpu and threshold(cupy.arange(4, dtype='f4'), 2).tolist() == [0, 0, 0, 1]\n"
        "def test_after_it():\n    assert 'cupy' not in sys.modules\n"
    )
    status, output = run(project)
    assert (
        status == 0
        and "2 passed" in output
        and re.search(r"no test launched.*\nfilters\.cu:4: blur\n", output)
    )


def test_unused_it_imports_nothing():
    code = "import sys, backwarp.pytest_plugin; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    loaded = [name for name in done.stdout.split() if name.startswith(("backwarp", "numpy"))]
    assert loaded == ["backwarp", "backwarp.pytest_plugin"]
