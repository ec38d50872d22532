"""What a student is told about a repair: with the verdict only its place, and more with each hint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    "a guard": "not every thread, or not every iteration of the loop, may do it",
    "a return": "some threads must have left the kernel by then",
    "a return too soon": "the threads that leave there are still needed, and only have nothing to store in the end",
    "a continue": "some iterations of the loop must have ended by then",
    "a break": "the loop must sometimes have ended by then",
    "a statement too many": "this statement is too much",
    "how it is stored": "it is to be stored in another way: added, or not added, to what is there",
    "a start value": "a variable has to begin with a value there, in every iteration of the loop",
    "a value that is set": "a variable has to get another value there",
    "a first value": "it needs a value to begin with",
    "the step of a loop": "the loop takes another step",
    "the step of a pointer": "the pointer goes on to the next element there",
    "two that are exchanged": "two of the names in it are to be exchanged",
    "a barrier": "threads have to wait for one another there",
    "a type": "its type is another one",
    "a size": "it is of another size",
    "a memory": "all threads of the block need it, not each thread its own",
    "a loop too many": "it is to be done once, not again and again",
    "a loop that is missing": "it is to be done again and again, not once",
    "a bound": "it is to be kept at or below something, or at or above it",
    "a place in memory": "it is another place in the array",
    "a function": "another function belongs there, or none",
    "a choice": "something else is to be there in some cases",
    "a store": "a result is to be stored there",
    "how it is left": "only this iteration is to end there, or the whole loop, or the kernel",
    "a statement that is missing": "a statement is missing there",
    "an expression": "something else belongs there",
    "where it stands": "it stands in the wrong place",
}


@dataclass(frozen=True)
class Told:
    """What a verdict says about its repair. cause: the sentence of the verdict that it continues, "" for
    none; unlikely: suspicions about lines that need no change."""

    says: str
    cause: str = ""
    unlikely: tuple[str, ...] = ()

    @property
    def paragraph(self) -> str:
        """The text, with the cause."""
        if not self.cause:
            return self.says
        plain = self.cause.endswith(".") and ": " not in self.cause
        return f"{self.cause[:-1]}: o{self.says[1:]}" if plain else f"{self.cause} {self.says}"

    def beside(self, lines: Sequence[str]) -> list[str]:
        """The lines of the verdict, with this in the paragraph of the cause, or else at the end."""
        kept = [line for line in lines if line not in self.unlikely]
        if self.cause not in kept:
            return [*kept, self.says]
        return [self.paragraph if line == self.cause else line for line in kept]

    def is_in(self, text: str) -> bool:
        return text in (self.says, self.paragraph)


def told(verdict: Verdict) -> Told:
    """`One change in line 37 makes all 12 cases pass.`, and the cause that it continues."""
    if verdict.kind == "slow":
        return Told(f"One change {_places(verdict.repair)} makes it fast enough.")
    causes, place = verdict.causes, _places(verdict.repair)
    cause = cause_removed(causes, verdict.repair)
    changed, numbers = _changed(verdict.repair), lines_named(cause)
    if numbers and numbers >= changed:
        place = f"in that line ({min(changed)})" if len(numbers) == 1 else place
    elif causes and not cause:
        place = f"elsewhere, {place},"
    suspicions = [c for c in causes if c.endswith("?") and lines_named(c)]
    cases = f"all {verdict.case_total} cases" if verdict.case_total > 1 else "the case"
    unlikely = tuple(c for c in suspicions if not lines_named(c) & changed)
    return Told(f"One change {place} makes {cases} pass.", cause, unlikely)


def cause_removed(causes: Sequence[str], repairs: Sequence[Mapping]) -> str:
    """The cause that repairs remove: one about a line that they change, or else one that names no line, since
    the result is right after the repair; "" if all are about other lines."""
    here = [c for c in causes if lines_named(c) & _changed(repairs)]
    return next(iter(here + [c for c in causes if not lines_named(c)]), "")


def lines_named(sentence: str) -> set[int]:
    """The lines of the file that a sentence names: `Lines 24 and 25`, `lines 3 to 5`."""
    found: set[int] = set()
    for numbers in re.findall(r"\b[Ll]ines? (\d+(?:(?:, | and | or | to )\d+)*)", sentence):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", numbers):
            found |= set(range(int(first), int(last or first) + 1))
    return found


def _places(repairs: Sequence[Mapping]) -> str:
    """`in line 37`, or `in line 37 or in lines 40 to 42`, or `in lines 8 and 15`."""
    places = [_place(lines) for lines in sorted(set(map(tuple, map(changed_lines, repairs))))]
    return f"{', '.join(places[:-1])} or {places[-1]}" if len(places) > 1 else places[0]


def _place(lines: Sequence[int]) -> str:
    first, *others = lines
    if not others:
        return f"in line {first}"
    if len(others) > 1 and others[-1] - first == len(others):
        return f"in lines {first} to {others[-1]}"
    return f"in lines {', '.join(map(str, lines[:-1]))} and {others[-1]}"


def changed_lines(repair: Mapping) -> list[int]:
    """The lines of the file in which a repair changes anything; all that it spans where it adds or removes some."""
    before, after = repair["before"].split("\n"), repair["after"].split("\n")
    alike = len(before) == len(after)
    differ = [i for i in range(len(before)) if not (alike and before[i] == after[i])]
    return [repair["line"] + i for i in differ]


def _changed(repairs: Sequence[Mapping]) -> set[int]:
    return {line for repair in repairs for line in changed_lines(repair)}


def next_hint(puzzle: Puzzle, progress: Progress, path: Path) -> tuple[int, list[str]]:
    """(level, paragraphs) of the next hint about the repair known for the student's file in its present
    state; (0, []) if there are no more."""
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
    """In one line, without comments."""
    return " ".join(re.sub(r"//[^\n]*", "", code).split())
