"""Which texts of different people are alike, for a person to look at; never a score.

By copydetect, which compares fingerprints of tokens (winnowing; Schleimer, Wilkerson and Aiken, 2003), so that other names,
comments and spaces hide nothing. What is in the stub or the solution counts as nobody's: most right kernels have it.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from ..course.checkout import Course
from ..course.declare import Puzzle
from ..course.stubs import stub_text
from ..errors import CourseError
from .find import Found

FIRST_PART = 3  # right answers of the parts before are alike
TOKENS, WINDOW = (
    20,
    10,
)  # of a fingerprint, as characters of tokenised text: matches of 29 and more are always found
LEAST, MOST = 0.5, 100  # share of a text that is alike; pairs that are listed


@dataclass(frozen=True)
class Pair:
    """Two people's texts for one puzzle. share: of the text that has less of the other's, 0 to 1. slices: the pieces, as
    (start, end) in each text."""

    puzzle: str
    share: float
    people: tuple[str, str]
    texts: tuple[str, str]
    slices: tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]


def alike(course: Course, found: Found, first_part: int = FIRST_PART) -> list[Pair]:
    """The pairs that are most alike, the most first. Errors: CourseError if copydetect is not installed."""
    texts: dict[str, dict[str, list[str]]] = defaultdict(
        lambda: defaultdict(list)
    )  # puzzle -> text -> people
    for (person, puzzle), files in sorted(found.graded.items()):
        if course.heading(puzzle)[0] >= first_part:
            texts[puzzle][files[-1].data.decode("utf-8", "replace")].append(person)
    pairs = [pair for puzzle, own in texts.items() for pair in pairs_of(course.load(puzzle), own)]
    return sorted(pairs, key=lambda p: (-p.share, p.puzzle, p.people))[:MOST]


def pairs_of(puzzle: Puzzle, people: dict[str, list[str]]) -> Iterator[Pair]:
    stub = stub_text(puzzle)
    for text, same in people.items():
        if text != stub:
            for pair in combinations(same, 2):
                yield Pair(puzzle.id, 1.0, pair, (text, text), ([(0, len(text))],) * 2)
    if len(people) < 2:
        return
    try:
        from copydetect import CodeFingerprint, compare_files
    except ImportError:
        raise CourseError("texts are compared by copydetect: pip install 'backwarp[class]'") from None

    def fingerprint(text: str, nobodys: Sequence[int] = ()) -> CodeFingerprint:
        name = "x.py" if puzzle.program else "x.cpp"
        return CodeFingerprint(name, TOKENS, WINDOW, nobodys, fp=io.StringIO(text))

    known = [stub, *([puzzle.solution_path.read_text(encoding="utf-8")] if puzzle.has_solution else [])]
    nobodys = sorted({value for text in known for value in fingerprint(text).hashes})
    prints = {text: fingerprint(text, nobodys) for text in people if text.strip()}
    for a, b in combinations(prints, 2):
        fewest = min(len(prints[a].hashes), len(prints[b].hashes))
        if not fewest or len(prints[a].hashes & prints[b].hashes) < LEAST / 2 * fewest:
            continue
        _, shares, slices = compare_files(prints[a], prints[b])
        if min(shares) >= LEAST:
            pieces = tuple([(int(x), int(y)) for x, y in zip(*s)] for s in slices)
            yield Pair(puzzle.id, float(min(1, min(shares))), (people[a][0], people[b][0]), (a, b), pieces)
