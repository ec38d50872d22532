"""The benchmark of LeNet runs, and its figures are consistent."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from backwarp.lenet.model import LeNet
from backwarp.maintain import bench_lenet
from backwarp.maintain.bench_lenet import MULTIPLY_ADDS, lines
from tests.devices.virtual.launches import device


class Other:
    """In place of PyTorch: the virtual GPU itself."""

    name = "another"

    def __new__(cls, cores, images, labels):
        made = bench_lenet.LeNetOnVirtualGPU(cores, images, labels)
        made.name = cls.name
        return made


def missing(*_):
    raise ImportError("no PyTorch")


@pytest.mark.parametrize("torch", [Other, missing], ids=["with PyTorch", "without"])
def test_figures_of_one_round(torch, monkeypatch):
    monkeypatch.setattr(bench_lenet, "ROUNDS", 1)
    monkeypatch.setattr(bench_lenet, "LAUNCHES", 1)
    monkeypatch.setattr(bench_lenet, "VirtualGPU", lambda *_, **__: device("memory"))
    monkeypatch.setattr(bench_lenet, "InPyTorch", torch)
    compiled = []
    monkeypatch.setattr(LeNet, "compile_for_sizes", lambda net: compiled.append(net))  # it takes seconds
    done = CliRunner().invoke(bench_lenet.main, ["--batch", "2", "--json", "-"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert len(compiled) == 1
    assert (
        report["batch"] == 2 and report["virtual_gpu"]["ms"] > 0 and report["virtual_gpu"]["processor_ms"] > 0
    )
    rows = {row["kernel"]: row for row in report["kernels"]}
    assert sum(row["launches"] for row in rows.values()) == 44 and set(MULTIPLY_ADDS) <= set(rows)
    row = rows["conv2d_backward_input"]
    assert row["gmacs"] == pytest.approx(2 * 153_600 / row["ms"] / 1e6)
    assert set(report["launch_us"]) == {"one block", "all cores"}
    assert ("pytorch" in report) == (torch is Other)
    told = "\n".join(lines(report))
    assert "times PyTorch's time" in told if torch is Other else "PyTorch is not installed" in told


def test_steps_that_compute_something_else_are_no_comparison(monkeypatch):
    class Wrong(Other):
        def __new__(cls, *arguments):
            made = super().__new__(cls, *arguments)
            usual = made.step
            made.step = lambda: 2 * usual()
            return made

    monkeypatch.setattr(bench_lenet, "VirtualGPU", lambda *_, **__: device("memory"))
    monkeypatch.setattr(bench_lenet, "InPyTorch", Wrong)
    with pytest.raises(SystemExit, match="the first losses do not agree"):
        bench_lenet.measure(2, 1)
