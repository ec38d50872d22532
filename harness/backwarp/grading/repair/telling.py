"""What a student is told about a repair: with the verdict only its place, and more with each hint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...course.checkout import read_source, source_hash
from ...course.declare import Puzzle
from ...course.progress import Progress
from ...errors import CourseError
from ..compare import either
from ..findings import Finding
from ..sentences import nth_line, source_line
from ..verdict import Verdict

LEVELS = 3
CHANGE = "one change "
MOST_CODE = 3  # lines of the file that are shown
KINDS = {
    "another value": "another variable or number belongs there",
    "another array": "another array belongs there",
    "a term": "something is to be added to it or subtracted from it, or no longer is",
    "a factor": "it is to be multiplied or divided by something, or no longer is",
    "a term or factor": "one side of it is too much",
    "an operator": "the operator is another one",
    "an order of operations": "the parentheses belong elsewhere, or are missing",
    "a comparison": "the comparison is another one",
    "a logical operator": "the logical operator is another one",
    "a condition": "the condition is another one",
    "a statement too many": "this statement is too much",
    "how it is stored": "it is to be stored in another way: added, or not added, to what is there",
    "a first value": "it needs a value to begin with",
    "the step of a loop": "the loop takes another step",
    "two that are exchanged": "two of the names in it are to be exchanged",
    "a barrier": "threads have to wait for one another there",
    "a type": "its type is another one",
    "a memory": "all threads of the block need it, not each thread its own",
    "a bound": "it is to be kept at or below something, or at or above it",
    "a place in memory": "it is another place in the array",
    "a function": "another function belongs there, or none",
    "a choice": "something else is to be there in some cases",
    "how it is left": "only this iteration is to end there, or the whole loop, or the kernel",
    "a statement that is missing": "a statement is missing there",
    "a statement elsewhere": "this statement belongs elsewhere",
    "an expression": "something else belongs there",
}


def summary(verdict: Verdict) -> str:
    """`One change in line 37 makes all 12 cases pass.`"""
    found = list(dict.fromkeys(map(_phrase, in_order(verdict.repair))))
    says = either(found)
    if all(text.startswith(CHANGE) for text in found):
        says = CHANGE + says.replace(CHANGE, "")
    if verdict.kind == "slow":
        effect = "it fast enough"
    else:
        effect = f"all {verdict.case_total} cases pass" if verdict.case_total > 1 else "the case pass"
    still_slow = not all(repair.get("is_fast", True) for repair in verdict.repair)
    slow = " All results of the kernel are right then, so that it is judged for speed, and it is not fast enough yet."
    return f"{says[0].upper()}{says[1:]} makes {effect}.{slow * still_slow}"


def code_at(verdict: Verdict, most: int = MOST_CODE) -> dict[int, tuple[str, int]]:
    """The first lines of the file that it names, by number: each with the column of what changes in it, 0 if nothing does."""
    repairs = in_order(verdict.repair)
    edits = [edit for r in repairs for edit in r.get("edits", ())]
    columns = {edit["line"]: edit["column"] for edit in reversed(edits)}
    lines = {n["line"]: (n["text"], columns.get(n["line"], 0)) for r in repairs for n in r["code"]}
    return dict(sorted([*lines.items()][:most]))


def in_order(repairs: Sequence[Mapping]) -> list[Mapping]:
    """From the top of the file to its end, but changes of many lines last."""
    return sorted(repairs, key=lambda r: (len(changed := changed_lines(r)) > MOST_CODE, changed))


def elsewhere(verdict: Verdict) -> list[Finding]:
    """The suspicions about lines that need no change."""
    changed = _changed(verdict.repair)
    suspected = [f for f in verdict.findings if f.is_suspicion]
    return [f for f in suspected if changed and f.all_lines and not f.all_lines & changed]


def cause_removed(findings: Sequence[Finding], repairs: Sequence[Mapping]) -> Finding | None:
    """The cause about a line that repairs change, or else one about no line; None if all are about other lines."""
    causes = [f for f in findings if f.row.explains]
    here = [f for f in causes if f.all_lines & _changed(repairs)]
    return next(iter(here + [f for f in causes if not f.all_lines]), None)


def _phrase(repair: Mapping) -> str:
    """`one change in lines 8 and 15`, `adding a line between lines 23 and 24`."""
    found = repair["places"]
    hows = {place["how"] for place in found}
    if hows == {"added"}:
        several = sum(place["count"] for place in found) > len(found)
        return f"adding {'lines' if several else 'a line'} {' and '.join(map(_gap, found))}"
    if hows == {"removed"}:
        return f"removing {_lines(found)}"
    if hows == {"moved"}:
        (place,) = found
        side = "above" if "above" in place else "below"
        return f"moving {_lines(found)} {side} line {place[side]}"
    gaps = [f" and {_gap(place)}" for place in found if place["how"] == "added"]
    where = _lines([place for place in found if place["how"] != "added"])
    return f"{CHANGE}in {where}{''.join(gaps)}{_in_common(repair)}"


def _in_common(repair: Mapping) -> str:
    """What a change in many lines has in common: it is the same in all of them, or about one name in all."""
    edits = repair.get("edits", [repair])
    lines = {n for place in repair["places"] for n in range(place["first"], place["last"] + 1)}
    if len(lines) <= MOST_CODE:
        return ""
    if len(edits) > 1 and len({(edit["before"], edit["after"]) for edit in edits}) == 1:
        return ", the same in each,"
    names = set.intersection(*(set(re.findall(r"\b[A-Za-z_]\w*", edit["before"])) for edit in edits))
    about = f" and are all about {either(sorted(names), 'and')}" if names and len(edits) > 1 else ""
    return f", which belong together{about},"


def _gap(place: Mapping) -> str:
    first, last = place["first"], place["last"]
    if first and last:
        return f"between lines {first} and {last}"
    return f"after line {first}" if first else f"before line {last}"


def _lines(places: Sequence[Mapping]) -> str:
    """`line 37`, `lines 40 to 42`, `lines 8, 15 and 16`."""
    numbers = [n for place in places for n in range(place["first"], place["last"] + 1)]
    first, *others = numbers
    if not others:
        return f"line {first}"
    if len(others) > 1 and others[-1] - first == len(others):
        return f"lines {first} to {others[-1]}"
    return f"lines {either([*map(str, numbers)], 'and')}"


def changed_lines(repair: Mapping) -> list[int]:
    """The lines of the file that a repair changes, removes or moves, and those on both sides of what it adds."""
    return [code["line"] for code in repair["code"]]


def _changed(repairs: Sequence[Mapping]) -> set[int]:
    return {line for repair in repairs for line in changed_lines(repair)}


def next_hint(puzzle: Puzzle, progress: Progress, path: Path) -> tuple[int, list[str]]:
    """(level, paragraphs) of the next hint about the repair known for the student's file as it is, or (0, [])."""
    try:
        source = read_source(path)
    except CourseError:
        return 0, []
    found, level = progress.next_of_repair(puzzle.id, source_hash(source), LEVELS)
    return level, hint(found, level, source) if found else []


def hint(repair: Mapping, level: int, source: str) -> list[str]:
    """Paragraphs, and source lines, for each line of the change. level: 1 which expression, 2 what kind of change, 3 the change."""
    part = "part of " * (len(repair["edits"]) > 1)
    found = []
    for edit in repair["edits"]:
        line = edit["line"]
        found.append(f"Line {line}{_hint(edit, level, part)}")
        found += source_line(line, nth_line(source, line), edit["column"])
    return found


def _hint(edit: Mapping, level: int, part: str) -> str:
    before, after = shown(edit["before"]), shown(edit["after"])
    if level == 1 and before:
        return f": {part}the change that makes every case pass is to this: {before}"
    if level == 1:
        return f": {part}what makes every case pass is missing before this place"
    if level == 2:
        return f", {before or 'before this place'}: {KINDS[edit['kind']]}."
    if not before:
        return f": insert {after}"
    return f": {before} becomes {after}" if after else f": remove {before}"


def shown(code: str) -> str:
    """In one line, without comments."""
    return " ".join(re.sub(r"//[^\n]*", "", code).split())
