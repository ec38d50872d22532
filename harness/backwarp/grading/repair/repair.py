"""A repair: what it changes, and which of several comes first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import SequenceMatcher
from itertools import pairwise

from ...cuda.text import read
from ..sentences import nth_line
from .edits import Edit


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
        in_order = sorted(self.edits, key=lambda e: e.start)
        return any(one.end > other.start for one, other in pairwise(in_order))

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
    a moved one close to its old place."""
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
    return repair.cost, repair.last_line - repair.line, length, start


_END = re.compile(r"[ \t]*(//[^\n]*)?(?=\n|$)")


@dataclass(frozen=True)
class Place:
    """how: "changed", "removed" or "moved": the lines `first` to `last`; "added": between the lines `first`
    and `last`, each 0 if there is none. count: lines that are added. above, below: where moved lines belong,
    right above or right below this line; 0 if they are not."""

    how: str
    first: int
    last: int
    count: int = 0
    above: int = 0
    below: int = 0

    @property
    def lines(self) -> list[int]:
        """The lines to look at: those that change, those around a gap, and the one where others belong."""
        if self.how == "added":
            return [line for line in (self.first, self.last) if line]
        target = self.above or self.below
        return sorted([*range(self.first, self.last + 1), *[target] * bool(target)])

    def as_dict(self) -> dict:
        always = ("how", "first", "last")
        return {name: value for name, value in asdict(self).items() if value or name in always}


def places(source: str, edits: Sequence[Edit]) -> list[Place]:
    """Of edits of a file, in the order of its lines. Blank lines and indentation do not count."""
    if place := move(source, edits):
        return [place]
    old = [(i, line.split()) for i, line in enumerate(source.split("\n"), 1) if line.strip()]
    new = [line.split() for line in on_own_lines(source, edits).split("\n") if line.strip()]
    own = [" ".join(words) for _, words in old]
    ops = SequenceMatcher(None, own, [" ".join(words) for words in new], autojunk=False).get_opcodes()
    number = lambda i: old[i][0] if 0 <= i < len(old) else 0  # noqa: E731
    found, gone, come = [], [], []
    for kind, i, end, j, j_end in ops:
        if kind == "insert":
            found.append(Place("added", number(i - 1), number(i), j_end - j))
            come.append(new[j:j_end])
        elif kind != "equal":
            how = "removed" if kind == "delete" else "changed"
            found += [Place(how, number(i), number(end - 1))]
            gone += [[words for _, words in old[i:end]]] * (kind == "delete")
    if len(found) != 2 or not gone or gone != come:
        return found
    return [moved(found)]


def move(source: str, edits: Sequence[Edit]) -> Place | None:
    """Whole lines that one edit cuts and another one puts, unchanged, between two other lines."""
    if len(edits) != 2 or bool(edits[0].after.strip()) == bool(edits[1].after.strip()):
        return None
    cut, put = sorted(edits, key=lambda e: bool(e.after.strip()))
    at, end, text = trimmed(source, put)
    gone = source[cut.start : cut.end]
    if at < end or gone.split() != text.split() or not gone.strip():
        return None
    start, stop = cut.start + len(gone) - len(gone.lstrip()), cut.start + len(gone.rstrip())
    before, after = rest_of_line(source, start)[0], rest_of_line(source, stop)[1]
    if before or after or at == start:
        return None
    first, last, line = (source.count("\n", 0, place) + 1 for place in (start, stop, at))
    before, after = rest_of_line(source, at)
    if before and after:
        return None
    return Place("moved", first, last, below=line) if before else Place("moved", first, last, above=line)


def rest_of_line(source: str, place: int) -> tuple[str, str]:
    """What stands before and after a place in its line, but for blanks and a comment."""
    line = source.rfind("\n", 0, place) + 1
    end = source.find("\n", place) % (len(source) + 1)
    return source[line:place].strip(), source[place:end].partition("//")[0].strip()


def moved(found: Sequence[Place]) -> Place:
    """Lines that are removed in one place and added in another."""
    gone, gap = sorted(found, key=lambda place: place.how == "added")
    place = replace(gone, how="moved")
    return replace(place, below=gap.first) if gap.first > gone.last else replace(place, above=gap.last)


def on_own_lines(source: str, edits: Sequence[Edit]) -> str:
    """The edited file. Statements that are added at the beginning or at the end of a line get one of their own."""
    text = source
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        start, end, after = trimmed(source, edit)
        if start == end and re.search(r";[\s}]*$", after):
            line = source.rfind("\n", 0, start) + 1
            if not source[line:start].strip():
                after = after.rstrip() + "\n"
            elif rest := _END.match(source, start):
                start = end = rest.end()
                after = "\n" + after.lstrip()
        text = text[:start] + after + text[end:]
    return text


def trimmed(source: str, edit: Edit) -> tuple[int, int, str]:
    """(start, end, text) of an edit, without what is the same before and after."""
    start, end, after = edit.start, edit.end, edit.after
    while start < end and after and source[start] == after[0]:
        start, after = start + 1, after[1:]
    while start < end and after and source[end - 1] == after[-1]:
        end, after = end - 1, after[:-1]
    return start, end, after
