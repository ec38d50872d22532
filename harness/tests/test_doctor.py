from __future__ import annotations

import subprocess

import pytest

from backwarp import doctor
from backwarp.devices.confine import Confinement
from backwarp.devices.gpu import device as gpu
from backwarp.doctor import Item, Report
from backwarp.errors import CourseError, DeviceError

NONE = gpu.Driver(problem="no NVIDIA driver on this machine")
CUDA12, CUDA13 = gpu.Driver(12040, 1), gpu.Driver(13000, 2)


@pytest.fixture
def machine(monkeypatch):
    """A machine as told: machine(driver, package=version, ...)."""

    def tell(driver: gpu.Driver = NONE, nvrtc12: bool = False, **packages: str):
        installed = {name.replace("_", "-"): version for name, version in packages.items()}
        monkeypatch.setattr(gpu, "driver", lambda: driver)
        monkeypatch.setattr(doctor, "_installed", lambda name: installed.get(name, ""))
        monkeypatch.setattr(doctor, "_nvrtc12", lambda: nvrtc12)
        monkeypatch.setattr(doctor, "_driver_version", lambda: "")
        monkeypatch.setattr(doctor, "_try", lambda kind: (True, "a trial kernel ran"))
        monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
        monkeypatch.setattr(doctor, "_in_wsl", lambda: False)

    return tell


def test_this_machine(capsys):
    """The test suite runs where kernels can be graded, so doctor has to say so."""
    assert doctor.main() == 0
    out = capsys.readouterr().out
    for topic in (
        "Python",
        "CUDA compiler",
        "virtual GPU",
        "CPU cores",
        "cache",
        "GPU",
        "CuPy",
        "notebooks",
        "PyTorch",
    ):
        assert topic in out
    assert "NVRTC 13" in out and "a trial kernel ran in" in out and "\x1b" not in out
    assert "can be graded on this machine" in out


def test_the_report_is_as_wide_as_the_terminal_and_commands_stay_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    command = "pip install " + " ".join(["a-package"] * 12)
    found = (
        Item("GPU", "missing", "some words " * 12, "more words " * 12),
        Item("x", "missing", "y", command),
    )
    monkeypatch.setattr(doctor, "report", lambda: Report(found))
    doctor.main()
    lines = capsys.readouterr().out.splitlines()
    assert [len(line) for line in lines if len(line) > 60] == [len(f"{'':23}{command}".rstrip())]


def test_what_is_broken_decides_the_exit_status(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "report", lambda: Report((Item("GPU", "missing", "none", "not needed"),)))
    assert doctor.main() == 0
    broken = Report((Item("virtual GPU", "broken", "llvmlite is not installed", "pip install -e ."),))
    monkeypatch.setattr(doctor, "report", lambda: broken)
    assert doctor.main() == 2
    out = capsys.readouterr().out
    assert "!!  virtual GPU" in out and "pip install -e ." in out


@pytest.mark.parametrize(
    "driver, packages, state, text, remedy",
    [
        (NONE, {}, "missing", "not installed", "not needed"),
        (NONE, {"cupy_cuda12x": "14.0"}, "ok", "cupy-cuda12x 14.0", ""),
        (CUDA12, {}, "missing", "not installed", "'.[cuda12]'"),
        (CUDA13, {}, "missing", "not installed", "'.[cuda13]'"),
        (CUDA13, {"cupy_cuda13x": "14.0"}, "ok", "cupy-cuda13x", ""),
        (CUDA13, {"cupy_cuda12x": "14.0"}, "ok", "cupy-cuda12x", ""),
        (CUDA12, {"cupy_cuda13x": "14.0"}, "missing", "needs a driver for CUDA 13", "'.[cuda12]'"),
        (CUDA12, {"cupy_cuda12x": "14.0"}, "missing", "no compiler for this driver", "'.[cuda12]'"),
        (CUDA12, {"cupy_cuda12x": "14.0", "nvrtc12": True}, "ok", "cupy-cuda12x", ""),
        (CUDA13, {"cupy_cuda12x": "1", "cupy_cuda13x": "1"}, "missing", "exclude each other", "uninstall"),
    ],
)
def test_cupy_against_the_driver(machine, driver, packages, state, text, remedy):
    machine(driver, **packages)
    finding = doctor._cupy()
    assert finding.state == state and text in finding.text and remedy in finding.remedy


def test_a_gpu_is_tried_out(machine, monkeypatch):
    machine(CUDA13, cupy_cuda13x="14.0")
    assert doctor._cupy().text == "cupy-cuda13x 14.0; a trial kernel ran"
    monkeypatch.setattr(doctor, "_try", lambda kind: (False, f"the {kind} is unwell"))
    assert doctor._cupy() == Item("CuPy", "missing", "cupy-cuda13x 14.0; the gpu is unwell")


def test_a_gpu_is_named_with_its_driver(machine, monkeypatch):
    machine(CUDA12)
    monkeypatch.setattr(doctor, "_driver_version", lambda: "550.54.14")
    assert doctor._gpu() == Item("GPU", "ok", "1 found, driver 550.54.14 (CUDA 12.4)")


def test_hints_where_there_is_no_gpu(machine, monkeypatch):
    machine()
    monkeypatch.setattr(doctor.Path, "exists", lambda self: False)
    assert "virtual GPU" in doctor._gpu().remedy
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    assert "libcuda" in doctor._gpu().remedy
    monkeypatch.setattr(doctor.Path, "exists", lambda self: str(self) == "/.dockerenv")
    assert "--gpus all" in doctor._gpu().remedy
    monkeypatch.setattr(doctor, "_in_wsl", lambda: True)
    assert "Windows" in doctor._gpu().remedy
    machine(gpu.Driver(11040, problem="too old"))
    assert "525" in doctor._gpu().remedy


def test_a_broken_compiler_or_virtual_gpu(machine, monkeypatch):
    machine()
    assert doctor._virtual_gpu().state == "broken"
    monkeypatch.undo()
    monkeypatch.setattr(doctor, "_TRIAL", "import sys; sys.exit('LLVM is unwell')")
    finding = doctor._virtual_gpu()
    assert (finding.state, finding.text) == ("broken", "LLVM is unwell")
    monkeypatch.setattr(doctor, "_TRIAL", "import os; os.kill(os.getpid(), 4)")
    assert "status -4" in doctor._virtual_gpu().text

    def missing(*a, **k):
        raise DeviceError("NVIDIA's compiler cannot be loaded")

    monkeypatch.setattr("backwarp.devices.nvrtc.compiler.compile_ptx", missing)
    assert doctor._compiler().state == "broken"


def test_a_trial_that_hangs_is_ended(monkeypatch):
    def hang(*a, timeout, **k):
        raise subprocess.TimeoutExpired(a, timeout)

    monkeypatch.setattr(doctor.subprocess, "run", hang)
    assert "did not finish" in doctor._virtual_gpu().text


def test_a_missing_checkout_is_broken(monkeypatch):
    def nowhere():
        raise CourseError("no puzzles/ folder here or above.\n  python -m pip install -e .")

    monkeypatch.setattr("backwarp.course.checkout.open_course", nowhere)
    finding = doctor._course()
    assert finding.state == "broken" and "pip install" in finding.remedy


def test_the_cache_off_or_out_of_reach(monkeypatch, tmp_path):
    monkeypatch.setenv("BACKWARP_CACHE", "off")
    assert "switched off" in doctor._cache().text
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path / "file" / "below"))
    assert doctor._cache().state == "missing"
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path / "new"))
    assert doctor._cache().state == "ok"


def test_the_sanitizer(machine):
    machine()
    assert "not needed" in doctor._sanitizer().remedy
    machine(CUDA13)
    assert "nvidia-cuda-sanitizer-api" in doctor._sanitizer().remedy
    machine(CUDA13, nvidia_cuda_sanitizer_api="13.0")
    assert doctor._sanitizer().state == "ok"


@pytest.mark.parametrize(
    ("files", "calls", "state", "text"),
    [
        (True, True, "ok", "without files, programs or network"),
        (False, True, "missing", "keep it from files ("),
        (False, False, "missing", "files, programs and network ("),
    ],
)
def test_what_holds_hostile_kernels_back(monkeypatch, files, calls, state, text):
    monkeypatch.setattr(doctor, "supported", lambda: Confinement(files, calls, ("Landlock: missing",)))
    finding = doctor._confinement()
    assert finding.state == state and text in finding.text
    assert bool(finding.remedy) == (state != "ok")
