"""What a student is told of a repair: with the verdict only where it is, and more with each hint asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...course.checkout import read_source, source_hash
from ...course.declare import Puzzle
from ...course.progress import Progress
from ...errors import CourseError
from ..sentences import nth_line, source_line
from ..verdict import Verdict

LEVELS = 3
KINDS = {
    "another value": "another variable or number belongs there",
    "another array": "another array belongs there",
    "a term": "something is to be added to it or subtracted from it, or no longer is",
    "a factor": "it is to be multiplied or divided by something, or no longer is",
    "a term or factor": "one side of it is too much",
    "an operator": "the operator is another one",
    "the order of two operands": "its two sides are to be exchanged",
    "an order of operations": "the parentheses belong elsewhere, or are missing",
    "a comparison": "the comparison is another one",
    "a logical operator": "the logical operator is another one",
    "a condition": "the condition is another one",
    "a guard": "not every thread, or not every turn of the loop, may do it",
    "a return": "some threads must have left the kernel by then",
    "a continue": "some turns of the loop must have ended by then",
    "a break": "the loop must sometimes have ended by then",
    "a statement too many": "this statement is too much",
    "how it is stored": "it is to be stored in another way: added, or not added, to what is there",
    "a start value": "a variable has to begin with a value there, in every turn of the loop",
    "a first value": "it needs a value to begin with",
    "the step of a loop": "the loop takes another step",
    "the step of a pointer": "the pointer goes on to the next element there",
    "two that are exchanged": "two of the names in it are to be exchanged",
    "a barrier": "threads have to wait for one another there",
    "a type": "its type is another one",
    "a size": "it is of another size",
    "a memory": "all threads of the block need it, not each thread its own",
    "a loop too many": "it is to be done once, not again and again",
    "a bound": "it is to be kept at or below something, or at or above it",
    "a place in memory": "it is another place in the array",
    "a function": "another function belongs there, or none",
    "a choice": "something else is to be there in some cases",
    "a store": "a result is to be stored there",
    "where it stands": "it stands in the wrong place",
}


def where(verdict: Verdict) -> str:
    """`One change in line 37 makes all 12 cases pass.`"""
    places, cases = sorted({_lines(r) for r in verdict.repair}), verdict.case_total
    places = [f"in line {a}" if a == b else f"in lines {a} to {b}" for a, b in places]
    places = f", {', '.join(places[:-1])} or {places[-1]}," if len(places) > 1 else f" {places[0]}"
    if verdict.kind == "slow":
        return f"One change{places} makes it fast enough."
    return f"One change{places} makes {f'all {cases} cases' if cases > 1 else 'the case'} pass."


def _lines(repair: Mapping) -> tuple[int, int]:
    return repair["line"], repair["line"] + repair["before"].count("\n")


def next_hint(puzzle: Puzzle, progress: Progress, path: Path) -> tuple[int, list[str]]:
    """(level, paragraphs) of the next hint about the repair that is known of the student's file as it is; (0, [])
    where there is no more to tell."""
    try:
        source = read_source(path)
    except CourseError:
        return 0, []
    found, level = progress.next_of_repair(puzzle.id, source_hash(source), LEVELS)
    return level, hint(found, level, source) if found else []


def hint(repair: Mapping, level: int, source: str) -> list[str]:
    """Paragraphs, and source lines indented by four spaces. level: 1 which expression, 2 what kind of change, 3 the
    change itself."""
    before, line = shown(repair["before"]), repair["line"]
    place = source_line(line, nth_line(source, line), repair["column"])
    if level == 1:
        what = f"the change that makes every case pass is to this: {before}"
        missing = "what makes every case pass is missing before this place"
        return [f"Line {line}: {what if before else missing}", *place]
    if level == 2:
        return [f"Line {line}, {before or 'before this place'}: {KINDS[repair['kind']]}.", *place]
    if not before:
        return [f"Line {line}: insert {shown(repair['after'])}", *place]
    if not repair["after"].strip():
        return [f"Line {line}: remove {before}", *place]
    return [f"Line {line}: {before} becomes {shown(repair['after'])}", *place]


def shown(code: str) -> str:
    return " ".join(code.split())
