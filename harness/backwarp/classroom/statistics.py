"""What a teacher asks about a class, without names: what was found how often and where, which hint and which sentence of the
lesson belong to it."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from statistics import median
from typing import Any

from ..course.checkout import Course
from ..course.declare import Puzzle
from .gradebook import Entry, Gradebook
from .tasks import as_row

LEAST, RARE = (
    3,
    1.0,
)  # words that a sentence and a finding must have in common at least, and how much each must say


def statistics(book: Gradebook, course: Course) -> dict[str, dict[str, Any]]:
    """By puzzle. seconds: of the different texts. findings: each kind with how many people's files have it, in which line most often, and the sentence of the
    lesson that most of them are nearest to. hints: to how many each was named by their verdict, and how many had looked
    at it. attempts: the median. The last two are of those who handed in their `.backwarp/progress.json`."""
    per: dict[str, list[Entry]] = defaultdict(list)
    for (_, puzzle), e in book.entries.items():
        per[puzzle].append(e)
    return {id: of_puzzle(course.load(id), per[id], book) for id in book.puzzles if id in per}


def of_puzzle(puzzle: Puzzle, found: list[Entry], book: Gradebook) -> dict[str, Any]:
    told = [own[puzzle.id] for own in book.progress.values() if puzzle.id in own]
    return {
        "handed in": len(found),
        "passed": sum(e.outcome["status"] == "passed" for e in found),
        "files": sum(e.files for e in found),
        "attempts": median(p.attempts for p in told) if told else None,
        "seconds": round(sum({e.file.data: e.outcome["seconds"] for e in found}.values()), 1),
        "results": dict(ordered(as_row(e.outcome) for e in found)),
        "findings": findings_of(puzzle, found),
        "hints": [
            {
                "hint": number,
                "says": says,
                "named": sum(e.outcome.get("hint") == number for e in found),
                "shown": sum(p.hints >= number for p in told),
            }
            for number, says in enumerate(puzzle.hints, 1)
        ],
    }


def findings_of(puzzle: Puzzle, found: list[Entry]) -> list[dict[str, Any]]:
    lines: dict[str, list[int]] = defaultdict(list)
    said: dict[str, list[str]] = defaultdict(list)
    people: Counter[str] = Counter()
    for e in found:
        people.update({f["kind"] for f in e.outcome["findings"]})
        for finding in e.outcome["findings"]:
            lines[finding["kind"]] += finding["lines"][:1]
            said[finding["kind"]].append(nearest(puzzle.lesson_path.read_text("utf-8"), finding["text"]))
    return [
        {"finding": kind, "people": n, "line": commonest(lines[kind]), "lesson": commonest(said[kind])}
        for kind, n in ordered(people.elements())
    ]


def ordered(values: Iterable[str]) -> list[tuple[str, int]]:
    """How often each occurs, the commonest first."""
    return sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))


def commonest(values: Iterable[Any]) -> Any:
    """None if there is none; what is empty does not count."""
    return min(Counter(filter(None, values)).items(), key=lambda p: (-p[1], p[0]), default=(None,))[0]


# ---- sentences of lessons --------------------------------------------------------------------------------


@cache
def nearest(lesson: str, text: str) -> str:
    """The sentence of a lesson that has most in common with a text: rare words, counted by how much they say. '' if none has
    enough."""
    sentences, weights = words_of(lesson)
    asked = words(text)
    both = {s: [weights[w] for w in own & asked if weights[w] >= RARE] for s, own in sentences.items()}
    scores = {s: sum(own) / math.sqrt(4 + len(sentences[s])) for s, own in both.items() if len(own) >= LEAST}
    return max(scores, key=lambda s: scores[s], default="")


@cache
def words_of(lesson: str) -> tuple[dict[str, set[str]], dict[str, float]]:
    """(the words of each sentence, what each word says: less, the more sentences have it)."""
    lesson = re.sub(r"<!--.*?-->", "", lesson, flags=re.S)
    prose = re.sub(r"^```.*?^```|^#.*?$|^\|.*?$|^!\[.*?$", "", lesson, flags=re.M | re.S)
    sentences = [" ".join(s.split()) for s in re.split(r"(?<=[.:?!])\s+(?=[A-Z`*])|\n\n+", prose)]
    own = {s: found for s in sentences if len(found := words(s)) > 2}
    count = Counter(word for found in own.values() for word in found)
    return own, {word: math.log(len(own) / n) for word, n in count.items()}


def words(text: str) -> set[str]:
    return {w.rstrip("s") for w in re.findall(r"[a-z_]\w{2,}", text.lower())}
