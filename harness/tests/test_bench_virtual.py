"""The benchmark of the virtual GPU runs, and its figures hang together."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from harness import bench_virtual


@pytest.mark.parametrize("compiler", ["none", "any"])
def test_figures_of_one_round(compiler, monkeypatch):
    monkeypatch.setattr(bench_virtual, "REPEAT", 1)
    if compiler == "none":
        monkeypatch.setattr(bench_virtual.shutil, "which", lambda name: None)
    done = CliRunner().invoke(bench_virtual.main, ["--json", "-"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert [row["workload"] for row in report["rows"]] == ["naive weight gradient", "tiled matrix product"]
    for row in report["rows"]:
        assert row["memory"] > 0 and row["full"] > 0
        assert row["full_over_memory_time"] == pytest.approx(row["memory"] / row["full"])
        assert compiler == "any" or "c" not in row
