"""A repair: what it changes, and which of several comes first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ...cuda.text import read
from ..sentences import nth_line
from .edits import Edit
from .places import Place, places


@dataclass
class Repair:
    """One change that makes every case right. edits: of the text, in source order. is_fast: it meets the gates then."""

    edits: tuple[Edit, ...]
    cost: float
    source: str = field(repr=False)
    is_fast: bool = True

    @property
    def line(self) -> int:
        return self.source.count("\n", 0, min(e.start for e in self.edits)) + 1

    @property
    def last_line(self) -> int:
        return self.source.count("\n", 0, max(e.end for e in self.edits)) + 1

    @property
    def lines(self) -> list[int]:
        """The lines of the file to look at."""
        return [line for place in places(self.source, self.edits) for line in place.lines]

    @property
    def overlaps(self) -> bool:
        """Whether one edit lies in another, so that they cannot be combined."""
        return any(
            one.end > other.start for one, other in pairwise(sorted(self.edits, key=lambda e: e.start))
        )

    def as_dict(self) -> dict:
        """What it changes: from its first line to its last, and line by line."""
        found = places(self.source, self.edits) or [Place("changed", self.line, self.last_line)]
        code = [{"line": n, "text": nth_line(self.source, n)} for place in found for n in place.lines]
        parts = [self._span(edits) for edits in self._by_line()]
        more = {"edits": parts, "places": [p.as_dict() for p in found], "code": code}
        return self._span(self.edits) | more | {"is_fast": self.is_fast}

    def _by_line(self) -> list[list[Edit]]:
        """The edits that have a line in common."""
        found: list[list[Edit]] = []
        for edit in sorted(self.edits, key=lambda e: e.start):
            if found and "\n" not in self.source[max(e.end for e in found[-1]) : edit.start]:
                found[-1].append(edit)
            else:
                found.append([edit])
        return found

    def _span(self, edits: Sequence[Edit]) -> dict:
        """The text that the edits are in, before and after."""
        first, last = min(e.start for e in edits), max(e.end for e in edits)
        after = applied(self.source, edits)
        return {
            "line": self.source.count("\n", 0, first) + 1,
            "column": first - (self.source.rfind("\n", 0, first) + 1) + 1,
            "before": self.source[first:last],
            "after": after[first : last + len(after) - len(self.source)],
            "kind": edits[0].says,
        }

    @property
    def text(self) -> str:
        """The repaired file."""
        return applied(self.source, self.edits)


def applied(text: str, edits: Sequence[Edit]) -> str:
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
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
