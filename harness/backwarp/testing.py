"""What pytest shows of a run on the virtual GPU: the kernel's line where a test failed, the kernels that no test launched, and
the faults for GitHub and as SARIF."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from _pytest._code.code import ReprEntry, ReprFileLocation

from . import __version__
from .cupy import raw
from .cupy.errors import Fault, NotCompiled
from .report.sarif import annotation, sarif

NAME = "backwarp-virtual-gpu"
_BEFORE, _APART = 4, 12  # lines shown before a kernel's line; the most between the two lines of a race


class Report:
    """The hooks of a run. faults: the first of failed tests at each line; kernels: see raw.kernels."""

    def __init__(self, config):
        self.config = config
        self.faults: dict[tuple, dict] = {}
        self.kernels: dict[tuple[str, str], tuple[int, bool]] = {}

    def pytest_report_header(self) -> str:
        return f"virtual GPU: cupy is Backwarp {__version__}, checks: {self.config.option.cuda_checks}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        return _looked_at((yield), call.excinfo)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector):
        report = yield
        return _looked_at(report, getattr(getattr(report, "call", None), "excinfo", None))

    def pytest_runtest_logreport(self, report) -> None:
        if fault := getattr(report, "cuda_fault", None):
            self.faults.setdefault((fault["file"], fault["line"], fault["kind"]), fault)

    pytest_collectreport = pytest_runtest_logreport

    def pytest_sessionfinish(self) -> None:
        self._add([(*place, *state) for place, state in raw.kernels.items()])
        if hasattr(self.config, "workeroutput"):  # a worker of pytest-xdist
            self.config.workeroutput[NAME] = [(*place, *state) for place, state in self.kernels.items()]
        elif file := self.config.option.cuda_sarif:
            Path(file).write_text(json.dumps(sarif([*self.faults.values()]), indent=1))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        self._add(getattr(node, "workeroutput", {}).get(NAME, ()))

    def _add(self, kernels) -> None:
        for file, name, line, launched in kernels:
            self.kernels[file, name] = line, launched or self.kernels.get((file, name), (0, False))[1]

    def pytest_terminal_summary(self, terminalreporter) -> None:
        idle = sorted(
            (file, line, name) for (file, name), (line, launched) in self.kernels.items() if not launched
        )
        if idle:
            terminalreporter.section("CUDA kernels that no test launched")
            for file, line, name in idle:
                terminalreporter.line(f"{file}:{line}: {name}")
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for fault in self.faults.values():
                terminalreporter.line(annotation(fault))


def _looked_at(report, caught):
    """The report, with what is known of the kernel's fault that was caught, or that caused what was caught."""
    error, depth = caught and caught.value, 1
    while error is not None and not isinstance(error, Fault | NotCompiled):
        error, depth = error.__cause__ or error.__context__, depth + 1
    if error is not None and report.failed:
        report.cuda_fault = _facts(error, report.location)
        chain = getattr(report.longrepr, "chain", ())
        if isinstance(error, Fault) and error.line and depth <= len(chain):
            _show(chain[-depth][0], error)
            if depth == 1:
                report.longrepr.reprcrash = ReprFileLocation(
                    os.path.abspath(error.file), error.line, str(error)
                )
    return report


def _facts(error: Fault | NotCompiled, location) -> dict:
    """kind, message, file and line of an error, as plain data; of the test where its file is not known."""
    at = error if isinstance(error, Fault) else next(iter(error.diagnostics), None)
    file, line = (
        (at.file, at.line) if at and os.path.isfile(at.file) else (location[0], (location[1] or 0) + 1)
    )
    kind, text = "compile-error", error.args[0]
    if isinstance(error, Fault):
        kind, text = error.kind, f"{error.happened}. {error.explanation}"
    return {"kind": kind, "message": text, "file": os.path.abspath(file), "line": max(line, 1)}


def _show(traceback, error: Fault) -> None:
    """Adds the kernel's lines to a traceback, as its last entry."""
    entries = traceback.reprentries
    if not entries or not isinstance(entries[-1], ReprEntry):
        return
    other = error.other.line if error.other and error.other.file == error.file else error.line
    marked = {error.line, other} if abs(error.line - other) <= _APART else {error.line}
    lines = error.text.splitlines() or [""] * (error.line - 1) + [error.source]
    first = max(min(marked) - _BEFORE, 1)
    shown = [(n, lines[n - 1]) for n in range(first, max(marked) + 1) if n <= len(lines)]
    while len(shown) > 1 and not shown[0][1].strip():
        del shown[0]
    text = [f"{'>' if n in marked else ' '}   {line}" for n, line in shown]
    text += [f"E   {part}" for part in (f"{error.happened}.", error.explanation)]
    entries[-1].lines[:] = [line for line in entries[-1].lines if not line.startswith("E  ")]
    place = ReprFileLocation(error.file, error.line, error.kind)
    entries.append(ReprEntry(text, None, None, place, entries[-1].style))
