"""A repair: what it changes, and which of several comes first."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from ...course.cuda_text import read
from ..sentences import nth_line
from .edits import Edit
from .places import Place, places


@dataclass
class Repair:
    """One change that makes every case right. edits: of the text, in source order."""

    edits: tuple[Edit, ...]
    cost: float
    source: str = field(repr=False)

    @property
    def line(self) -> int:
        return self.source.count("\n", 0, min(e.start for e in self.edits)) + 1

    @property
    def last_line(self) -> int:
        return self.source.count("\n", 0, max(e.end for e in self.edits)) + 1

    @property
    def overlaps(self) -> bool:
        """Whether one edit lies in another, so that they cannot be combined."""
        return any(
            one.end > other.start for one, other in pairwise(sorted(self.edits, key=lambda e: e.start))
        )

    def as_dict(self) -> dict:
        first, last = min(e.start for e in self.edits), max(e.end for e in self.edits)
        after = self.text[first : last + len(self.text) - len(self.source)]
        column = first - (self.source.rfind("\n", 0, first) + 1) + 1
        before, found = self.source[first:last], places(self.source, self.edits)
        found = found or [Place("changed", self.line, self.last_line)]
        return {
            "line": self.line,
            "column": column,
            "before": before,
            "after": after,
            "kind": self.edits[0].says,
            "places": [place.as_dict() for place in found],
            "code": [
                {"line": line, "text": nth_line(self.source, line)} for place in found for line in place.lines
            ],
        }

    @property
    def text(self) -> str:
        """The repaired file."""
        text = self.source
        for edit in sorted(self.edits, key=lambda e: e.start, reverse=True):
            text = edit.apply(text)
        return text


def rank(repair: Repair, kernel: str) -> tuple:
    """Preferences: several edits close together. Barriers in the kernel itself, before some threads leave it,
    after what they wait for, otherwise late rather than early, in the outermost block: at the end of a loop;
    a moved one close to its old place. An early `return`."""
    start, says = repair.edits[0].start, repair.edits[0].says
    length, before = sum(len(e.after) for e in repair.edits), repair.source[:start]
    others = [e.start for e in repair.edits[1:] if e.says == "a barrier"]
    if others:
        return repair.cost, length, min(abs(other - start) for other in others)
    if says == "a barrier":
        function = read(repair.source).function(kernel)
        elsewhere = function is None or not function.whole.start <= start < function.whole.end
        waits = re.search(r"\bwait\w*[^;{}]*;[^;{}]*$", before) is None
        left = 0 if elsewhere else len(re.findall(r"\breturn;", before[function.whole.start :]))
        return repair.cost, elsewhere, length, left, waits, before.count("{") - before.count("}"), -start
    lines = repair.last_line - repair.line
    return (repair.cost, lines, start, length) if says == "a return" else (repair.cost, lines, length, start)
