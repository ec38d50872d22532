"""The steps in order, with their items and commands."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

from ... import SOURCES
from ...measure import ladder
from ..check_mutants import wrong_ones
from . import layers, machine, tools
from .guarded import Finished
from .journal import Journal
from .work import CHUNK, MUTANTS, course

_TESTS = SOURCES / "tests"


@dataclass(frozen=True)
class Step:
    """items: their names. command: an item's command, given a path for a tool's report. read: extracts the
    findings from the output; ValueError if there are none. limit: seconds per item. parallel: how many run at
    once; 1 for timings, which need an idle machine.
    """

    name: str
    about: str
    items: Callable[[], list[str]]
    command: Callable[[str, str, Journal], list[str]]
    limit: float
    parallel: int
    read: Callable[[Finished], dict]


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"backwarp.maintain.hardware.{module}", *arguments]


def work(verb: str) -> Callable:
    return lambda item, report, journal: python("work", verb, item)


# ---- what is read ------------------------------------------------------------------------------------------


def lines(finished: Finished) -> list[dict]:
    found = []
    for line in finished.out.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # it was killed half-way, or something else printed
            continue
    return found


def results(finished: Finished) -> dict:
    """The results, even of an item that did not finish."""
    return {"results": lines(finished)}


def tested(finished: Finished) -> dict:
    """pytest's short summary: {name: "passed", "failed" or "skipped", and why}."""
    found = {}
    for how, name, why in re.findall(
        r"^(PASSED|FAILED|ERROR) \S+?::(\S+)(?: - (.*))?$", finished.out, re.MULTILINE
    ):
        found[name] = how.lower() if how == "PASSED" else f"{how.lower()}: {why}"
    skipped = re.findall(r"^SKIPPED \[(\d+)\] (.*)$", finished.out, re.MULTILINE)
    if not found and not skipped:
        raise ValueError(finished.reason)
    return {"tests": found, "skipped": {why: int(n) for n, why in skipped}}


def counted(finished: Finished) -> dict:
    """The launches in order, by the names of this course and of Nsight Compute."""
    ours, theirs = lines(finished), tools.launches(finished.told)
    if [o["kernel"] for o in ours] != [t["kernel"] for t in theirs]:
        raise ValueError(f"launched {[o['kernel'] for o in ours]}, counted {[t['kernel'] for t in theirs]}")
    return {
        "results": [{**o, "ncu": {n: v for n, v in t.items() if n != "kernel"}} for o, t in zip(ours, theirs)]
    }


def sanitised(finished: Finished) -> dict:
    return {"launches": len(lines(finished)), **tools.findings(finished.told)}


# ---- the steps ---------------------------------------------------------------------------------------------


def test_files() -> list[str]:
    paths = sorted(_TESTS.rglob("test_*.py"))
    return [
        p.relative_to(_TESTS).as_posix() for p in paths if "@pytest.mark.gpu" in p.read_text(encoding="utf-8")
    ]


def test_command(item: str, report: str, journal: Journal) -> list[str]:
    options = ("-n", "0", "-p", "no:cacheprovider", "-m", "gpu", "-rA", "--tb=short", "--color=no")
    return [sys.executable, "-m", "pytest", *options, str(_TESTS / item)]


def puzzles(programs: bool = False) -> list[str]:
    return [p.number for p in course().puzzles() if programs or not p.program]


def mistakes() -> list[str]:
    loaded = [course().load(number) for number in puzzles()]
    return [f"{p.number}:{first}" for p in loaded for first in range(0, len(wrong_ones(p, MUTANTS)), CHUNK)]


def rungs() -> list[str]:
    return [one.name for one in ladder.LADDERS]


def checked() -> list[str]:
    return [f"{number}/{tool}" for number in puzzles() for tool in tools.TOOLS]


def zoo() -> list[str]:
    """The faulty kernels, except endless ones: no tool looks for those."""
    from tests.devices.virtual.explain.zoo import ZOO

    return [f"{name}/{tool}" for name, case in ZOO.items() if case.kind != "timeout" for tool in tools.TOOLS]


def profile_command(item: str, report: str, journal: Journal) -> list[str]:
    found = journal.latest("metrics").get("ncu", {}).get("results")
    unknown = found[0]["unknown"] if found else ()
    metrics = [name for name in machine.metrics() if name not in unknown]
    return tools.profiled(python("launcher", "solution", item, "each"), metrics, report)


def machine_of(journal: Journal) -> dict:
    return next(iter(journal.latest("machine").get("machine", {}).get("results", ())), {})


def sanitise(what: str, *more: str) -> Callable:
    def command(item: str, report: str, journal: Journal) -> list[str]:
        name, tool = item.split("/")
        return tools.sanitised(python("launcher", what, name, *more), tool, report)

    return command


STEPS = (
    Step("machine", "GPU, driver, tools", lambda: ["machine"], work("machine"), 90, 1, results),
    Step("tests", "pytest -m gpu", test_files, test_command, 150, 1, tested),
    Step("grade", "every solution", lambda: puzzles(True), work("grade"), 150, 8, results),
    Step("mistakes", "every wrong kernel", mistakes, work("mistakes"), 150, 12, results),
    Step("ceilings", "copies and products", lambda: ["libraries"], work("ceilings"), 90, 1, results),
    Step("ladder", "the rungs of LADDER.md", rungs, work("ladder"), 200, 1, results),
    Step("layers", "every rung beside cuDNN", layers.items, work("layers"), 200, 1, results),
    Step("metrics", "those that this GPU has", lambda: ["ncu"], work("metrics"), 300, 1, results),
    Step("counters", "Nsight Compute", puzzles, profile_command, 120, 1, counted),
    Step("sanitizer", "solutions", checked, sanitise("solution", "all"), 180, 8, sanitised),
    Step("zoo", "the tests' faulty kernels", zoo, sanitise("zoo"), 60, 10, sanitised),
)
