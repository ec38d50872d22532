"""The benchmark of the virtual GPU runs, and its figures are consistent."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from harness.maintain import bench_virtual


@pytest.mark.parametrize("compiler", ["none", "any"])
def test_figures_of_one_round(compiler, monkeypatch):
    monkeypatch.setattr(bench_virtual, "REPEAT", 1)
    names = ["tiled matrix product", "bitonic_sort"]
    if compiler == "none":
        monkeypatch.setattr(bench_virtual.shutil, "which", lambda name: None)
        names = ["naive weight gradient"]
    only = [option for name in names for option in ("--only", name)]
    done = CliRunner().invoke(bench_virtual.main, ["--json", "-", *only])
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert [row["workload"] for row in report["rows"]] == names
    for row in report["rows"]:
        assert row["full_over_memory_time"] == pytest.approx(row["full_seconds"] / row["memory_seconds"])
        if "multiply_adds" in row:
            assert row["memory"] == pytest.approx(row["multiply_adds"] / row["memory_seconds"] / 1e9)
        assert compiler == "any" or "c" not in row
