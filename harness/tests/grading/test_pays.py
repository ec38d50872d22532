"""Every kind of finding is paid for by a wrong kernel that it alone explains, or whose line it alone names.

`pays.toml` has the kernels, by the names of `tests.soak.golden` or as a solution's text with parts replaced. What is found by a look at the
solution does not count as another explanation: a student's copy has none.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import isfunction, isgeneratorfunction
from pathlib import Path

import pytest

from backwarp.course.checkout import open_course
from backwarp.grading.findings import Finding
from backwarp.grading.grade import Options
from backwarp.grading.kinds import KINDS
from backwarp.grading.slips import causes
from backwarp.maintain.check_mistakes import graded
from tests.soak import golden

PAYS = tomllib.loads(Path(__file__).with_name("pays.toml").read_text(encoding="utf-8"))
OF_THE_SOLUTION = {"only_change", "only_missing"}
ROOMS = tuple(f"backwarp.grading.{room}" for room in ("results", "probes", "slips", "sentences"))


def test_every_kind_has_a_kernel_that_pays_for_it():
    explain = {kind for kind, row in KINDS.items() if row.explains}
    rows = [*PAYS["paid"], *PAYS["written"]]
    assert not explain - {*rows}, "pays.toml has no row for these"
    assert not {*rows} - explain and len(rows) == len({*rows})


@pytest.mark.soak  # two gradings of each
@pytest.mark.parametrize("kind", [*PAYS["paid"], *PAYS["written"]])
def test_a_kernel_pays(kind, monkeypatch):
    named = PAYS["paid"].get(kind)
    wrong = golden.find(open_course(), named) if named else written(*PAYS["written"][kind])
    lines = golden.near(wrong.lines)
    stated = found(wrong)
    if kind not in {
        f.kind for f in stated
    }:  # as in a copy without a solution, where a look at it is not enough
        monkeypatch.setattr(causes, "is_of_ones_own", lambda *_: True)
        stated = found(wrong)
    assert kind in {f.kind for f in stated}
    silence(kind, monkeypatch)
    others = [f for f in found(wrong) if f.kind not in {kind, *OF_THE_SOLUTION}]
    assert not others or lines & {*golden.named(stated)} and not lines & {*golden.named(others)}


def written(number: str, *parts: str) -> golden.Wrong:
    """parts: of the solution's text, each with what stands there instead."""
    puzzle = open_course().load(number)
    right = text = puzzle.solution_path.read_text(encoding="utf-8")
    for old, new in zip(parts[::2], parts[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new, 1)
    return golden.wrong(number, puzzle, right, text)


def found(wrong: golden.Wrong) -> list[Finding]:
    return [f for f in graded(wrong.puzzle, wrong.text, Options("cpu")).findings if f.row.explains]


def silence(kind: str, monkeypatch) -> None:
    """Whoever finds this kind finds nothing, so that others are asked."""
    for name, module in list(sys.modules.items()):
        for own, function in list(vars(module).items()) if name.startswith("backwarp.grading") else ():
            if isfunction(function) and function.__module__.startswith(ROOMS):
                monkeypatch.setattr(module, own, without(kind, function))


def without(kind: str, function: Callable) -> Callable:
    """A function that returns the same, but for findings of a kind."""

    def left(what: object) -> object:
        if isinstance(what, Finding):
            return None if what.kind == kind else what
        if isinstance(what, list) and any(isinstance(f, Finding) for f in what):
            return [f for f in what if left(f) is not None]
        return what

    @wraps(function)
    def each(*given, **more) -> Iterator[object]:
        yield from (what for what in function(*given, **more) if what is None or left(what) is not None)

    @wraps(function)
    def once(*given, **more) -> object:
        return left(function(*given, **more))

    return each if isgeneratorfunction(function) else once
