"""The benchmark of the virtual GPU runs, and its figures are consistent."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from backwarp.maintain import bench_ratios, bench_virtual, course_workloads
from backwarp.maintain.bench_ratios import BARRIERS, BLOCK, BLOCKS, THREADS, WAITING


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", ["none", "any"])
def test_figures_of_one_round(compiler, monkeypatch):
    monkeypatch.setattr(bench_virtual, "REPEAT", 1)
    names = ["naive weight gradient", "04 relu_forward", "bitonic_sort"]
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
    if compiler == "any" and (c := report["rows"][1].get("c_seconds")):
        assert report["rows"][1]["c_over_memory_time"] == c / report["rows"][1]["memory_seconds"]


def test_ratios_that_become_worse():
    before = {"a": 2.0, "b": 1.0, "c": 4.0}
    found = {"a": 2.3, "b": 1.3, "d": 9.0}
    assert bench_ratios.worse(found, before) == ["b: 1.30, before 1.00"]


def test_ratios_of_one_round(monkeypatch, tmp_path):
    kept = tmp_path / "kept.json"
    kept.write_text("{}")
    monkeypatch.setattr(bench_ratios, "ROUNDS", 1)
    monkeypatch.setattr(bench_ratios, "LOCALS", bench_ratios.LOCALS[:2])
    options = ["--ratios", "locals", "--against", str(kept)]
    done = CliRunner().invoke(bench_virtual.main, [*options, "--keep"])
    assert done.exit_code == 0, done.output
    found = json.loads(kept.read_text())
    assert len(found) == 2 and all(ratio > 0 for ratio in found.values())
    kept.write_text(json.dumps(dict.fromkeys(found, 1e-6)))
    done = CliRunner().invoke(bench_virtual.main, options)
    assert done.exit_code == 1 and "worse than before" in done.output


@pytest.mark.parametrize(
    ("count", "load", "why"), [(1, 0.0, "there is one core"), (2, 7.25, "busy: a load of 7.2,")]
)
def test_two_cores_are_not_measured_where_that_would_say_nothing(count, load, why, monkeypatch):
    monkeypatch.setattr(bench_ratios, "available_cores", lambda: count)
    monkeypatch.setattr(bench_ratios.os, "getloadavg", lambda: (load, 0.0, 0.0))
    done = CliRunner().invoke(bench_virtual.main, ["--ratios", "cores"])
    assert done.exit_code == 0 and done.output.startswith("cores: not measured, as ") and why in done.output


def test_a_launch_on_many_cores():
    assert bench_ratios.on_cores(1, 1.0, 16) == 1
    assert bench_ratios.on_cores(4, 4.0, 2) == pytest.approx(2 + bench_ratios.WAKING)
    assert bench_ratios.on_cores(3, 3.0, 16) == pytest.approx(1 + bench_ratios.WAKING)
    assert bench_ratios.on_cores(1 << 20, 1.0, 8) == pytest.approx(1 / 8, rel=0.01)


def test_what_each_more_thread_block_and_barrier_costs(monkeypatch):
    more = {"threads": 2e-9, "blocks": 300e-9, "barriers": 4e-9}
    threads, blocks = (
        [10e-6 + n * more[k] for n in c] for k, c in zip(more, (THREADS, BLOCKS), strict=False)
    )
    waits = [20e-6, 20e-6 + WAITING * BLOCK * BARRIERS * more["barriers"]]
    seconds = dict(enumerate([10e-6, *threads[1:], *blocks, *waits]))
    monkeypatch.setattr(bench_ratios, "_empty_launches", lambda checks: seconds)
    for line in bench_ratios.costs():
        assert re.findall(r"([\d.]+) [un]s", line) == ["10.0", "300", "2.00", "4.00"]


def test_a_result_that_differs_is_no_comparison():
    right, wrong = np.ones((2, 3)), np.ones(6)
    bench_virtual.agree("k", [dict(y=right, z=right), dict(y=wrong)])
    wrong[5] = 1.01
    with pytest.raises(SystemExit, match="k: the variants do not agree on y"):
        bench_virtual.agree("k", [dict(y=right, z=right), dict(y=wrong)])


def test_every_kernel_of_the_course_has_what_its_loops_in_c_take():
    for name, make in course_workloads.WORKLOADS.items():
        work = make()
        arrays = work.job.inputs.keys() | set(work.outputs)
        assert set(work.arguments.split()) <= arrays | {key for key, n in work.sizes.items() if n}, name
        parameters = re.search(rf"void {work.function}\((.*?)\) {{", course_workloads.C)[1]
        given = parameters.replace("LAYER", "int N, int C, int H, int W, int K, int R, int S").split(",")
        kinds = ["*" in parameter for parameter in given]
        assert kinds == [argument in arrays for argument in work.arguments.split()], name
    assert {row[2] for row in course_workloads.TABLE} == course_workloads.OPERATIONS.keys()
