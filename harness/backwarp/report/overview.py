"""Where a student is in the course."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from ..course.checkout import Course
from ..course.declare import PARTS, Puzzle
from ..course.progress import Progress


def where_you_are(course: Course, progress: Progress) -> Iterator[str]:
    """The student's progress, and what to do next."""
    ids, entries = course.ids(), progress.all()
    solved = sum(1 for i in ids if i in entries and entries[i].solved)
    yield f"{solved} of {len(ids)} puzzles solved."
    upcoming = progress.next_of(ids)
    if upcoming is None:
        yield "You have solved them all. What comes after the course: puzzles/beyond/README.md"
        return
    puzzle = course.load(upcoming)
    about = f"   (about {puzzle.lines} lines)" if puzzle.lines else ""
    yield f"Next: {puzzle.id}, {puzzle.title}"
    yield f"  {puzzle.teaches}"
    yield f"  read   puzzles/{puzzle.id}/README.md"
    yield f"  edit   puzzles/{puzzle.id}/{puzzle.file}{about}"
    yield f"  then   backwarp grade {puzzle.number}       stuck?  backwarp hint {puzzle.number}"


def ladder(course: Course, progress: Progress, columns: int) -> Iterator[str]:
    """All puzzles with the student's progress, in lines of at most `columns` columns."""
    ids, entries, part = course.ids(), progress.all(), 0
    upcoming, width = progress.next_of(ids), max(map(len, ids), default=0)
    for puzzle_id in ids:
        its_part, title = course.heading(puzzle_id)
        if its_part != part:
            part = its_part
            yield f"Part {part}: {PARTS.get(part, '')}"
        entry = entries.get(puzzle_id)
        solved = bool(entry and entry.solved)
        mark = "ok" if solved else "->" if puzzle_id == upcoming else "  "
        tried = (
            f"   ({entry.attempts} attempt{'s' * (entry.attempts != 1)})" if entry and entry.attempts else ""
        )
        line = f"  {mark} {puzzle_id:{width}} {title}{'' if solved else tried}"
        yield from textwrap.wrap(line, columns, subsequent_indent=" " * (width + 6), drop_whitespace=True)


def debrief(puzzle: Puzzle) -> list[str]:
    """Paragraphs shown once a puzzle is solved: where the idea is used in practice, where it leads (the first
    paragraph of the lesson's last section), and how to see the course's solution."""
    try:
        text = puzzle.lesson_path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        text = ""
    last = text.rpartition("\n## ")[2].partition("\n")[2].strip()
    own = f"The course's own solution: backwarp solution {puzzle.number}" if puzzle.has_solution else ""
    return [p for p in (puzzle.practice, " ".join(last.split("\n\n")[0].split()), own) if p]
