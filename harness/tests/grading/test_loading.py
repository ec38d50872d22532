"""What is loaded for a right kernel's verdict: neither the compiler nor what explains wrong ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATE = (
    "llvmlite.binding",
    "tree_sitter",
    "backwarp.devices.nvrtc.host_code",
    "backwarp.devices.virtual.compile.pipeline",
    "backwarp.devices.virtual.explain.faults",
    "backwarp.devices.virtual.ptx.ir",
    "backwarp.grading.failures",
    "backwarp.grading.probes",
    "backwarp.grading.results",
    "backwarp.grading.slips",
)


@pytest.mark.parametrize(
    ("module", "needed"),
    [
        ("backwarp.cli", ()),
        ("backwarp.grading.grade", ()),
        ("backwarp.devices.virtual.confined", ()),
        ("backwarp.devices.virtual.confined_process", ()),
        ("backwarp.devices.virtual.confined_worker", ("llvmlite.binding",)),
    ],
)
def test_what_only_a_failure_or_a_compilation_needs_is_loaded_late(module, needed):
    asked = f"import sys, {module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert {*run.stdout.split()} & {*LATE} == {*needed}


def test_the_process_that_runs_kernels_is_started_before_anything_large_is_loaded():
    asked = "import sys, backwarp.devices.virtual.confined_process; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert "numpy" not in run.stdout.split()
