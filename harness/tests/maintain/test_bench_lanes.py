"""The benchmark reports the gain of lanes for each kernel, and how its threads run."""

from click.testing import CliRunner

from backwarp.maintain import bench_lanes


def test_each_kernel_is_told_with_its_longest_cases(monkeypatch):
    monkeypatch.setattr(bench_lanes, "REPEAT", 1)
    monkeypatch.setattr(bench_lanes, "CASES", 3)
    done = CliRunner().invoke(bench_lanes.main, ["--only", "11_", "--width", "4"])
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines()]
    assert len(rows) == 3 and all(row[:2] == ["11", "sgd_step"] for row in rows)
    assert any("4 lanes" in " ".join(row) for row in rows)
    assert all(float(x) > 0 for row in rows for x in row[-3:])
