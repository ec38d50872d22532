"""One data file for each GPU, from the results of all calls."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from ...course.declare import Puzzle
from ...grading.grade import Options, grade_file
from ...measure.ladder import HARDWARE
from ..check_mutants import wrong_ones
from . import page
from .agreement import compared
from .journal import Journal
from .steps import STEPS, machine_of
from .work import course, text_of


def collect(folder: Path, into: Path = HARDWARE) -> Path:
    """Writes the data file and the page. Errors: ClickException if there are no results."""
    journal = Journal(folder)
    machine = machine_of(journal)
    if "device" not in machine:
        raise click.ClickException(f"{journal.path} names no GPU")
    data = {
        "format": 1,
        **{name: machine[name] for name in ("device", "date", "command")},
        "machine": machine,
        "tests": {
            name: how for r in journal.latest("tests").values() for name, how in r.get("tests", {}).items()
        },
        "grade": every(journal, "grade"),
        "mistakes": list(mistakes(journal)),
        "ceilings": every(journal, "ceilings"),
        "ladder": every(journal, "ladder"),
        "layers": layers(journal),
        "counters": {p.id: list(compared(p, found)) for p, found in counted(journal)},
        "sanitizer": sanitised(journal, "sanitizer"),
        "zoo": sanitised(journal, "zoo"),
        "failed": [
            {"step": r["step"], "item": r["item"], "reason": r.get("reason", "")}
            for step in STEPS
            for r in journal.latest(step.name).values()
            if r["status"] != "done"
        ],
    }
    into.mkdir(parents=True, exist_ok=True)
    path = into / f"{re.sub(r'[^a-z0-9]+', '_', data['device'].lower())}.json"
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    page.write(data, course().root if into == HARDWARE else into)
    return path


def every(journal: Journal, step: str) -> list[dict]:
    return [result for r in journal.latest(step).values() for result in r.get("results", ())]


def counted(journal: Journal) -> Iterator[tuple[Puzzle, list[dict]]]:
    for number, record in journal.latest("counters").items():
        if record["status"] == "done":
            yield course().load(number), record["results"]


def layers(journal: Journal) -> list[dict]:
    """The library's rows of each layer and direction, with our kernels among them."""
    found = []
    for record in journal.latest("layers").values():
        if results := record.get("results"):
            found.append({**results[0], "kernels": results[1:]})
    return found


def mistakes(journal: Journal) -> Iterator[dict]:
    """The mistakes that pass on the GPU, with the virtual GPU's diagnosis; and how many were tried."""
    for item, record in journal.latest("mistakes").items():
        puzzle, results = course().load(item.split(":")[0]), record.get("results", [])
        passed = [explained(puzzle, r["mistake"]) for r in results if r["passed"]]
        yield {"item": item, "puzzle": puzzle.id, "run": len(results), "passed": passed}


def explained(puzzle: Puzzle, name: str) -> dict:
    (mistake,) = (m for m in wrong_ones(puzzle) if m.name == name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / puzzle.file
        path.write_text(mistake.apply(text_of(puzzle)), encoding="utf-8")
        verdict = grade_file(puzzle, path, Options(device="cpu"))
    return {"mistake": name, "virtual_gpu": "passed" if verdict.passed else verdict.diagnosis or verdict.kind}


def sanitised(journal: Journal, step: str) -> dict[str, dict[str, dict]]:
    """What each tool has found, by puzzle or kernel."""
    found: dict[str, dict[str, dict]] = {}
    for item, record in journal.latest(step).items():
        name, tool = item.split("/")
        kept = ("errors", "warnings", "first", "line", "only_api", "reason")
        found.setdefault(name, {})[tool] = {key: record[key] for key in kept if key in record}
    return found
