"""Where the text of a kernel differs from the solution's.

Names do not matter: a solution's variable corresponds to the student's in the same position, or to the one
used in the same places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ..cuda.parts import reached
from ..cuda.pieces import Function, Piece
from ..cuda.text import CudaText

SAME = 0.6  # share of words that two functions must have in common
Names = dict[str, str]  # the solution's variables -> the student's


@dataclass(frozen=True)
class Difference:
    """In place of `text[start:end]`, the solution has `right`, in the student's names."""

    start: int
    end: int
    right: str


def differences(mine: CudaText, right: CudaText, kernel: str) -> list[Difference]:
    """The differences in a kernel, the functions it calls and the file's constants, if both files have them,
    in text order. Functions with little in common differ as a whole."""
    own, theirs = ({f.name: f for f in reached(file, kernel)} for file in (mine, right))
    found = [d for one, other in _constants(mine, right) for d in _between(one.tokens, other.tokens, {})]
    for name in own.keys() & theirs.keys():
        names = named_alike(own[name], theirs[name])
        found += _between(own[name].whole.tokens, theirs[name].whole.tokens, names)
    return sorted(found, key=lambda d: d.start)


def named_alike(mine: Function, right: Function) -> Names:
    """The student's names for the solution's variables: parameters by position, others by where they are most often used."""
    names = {v.name: own.name for v, own in zip(right.parameters, mine.parameters)}
    own, theirs = _locals(mine), _locals(right)
    at, there = mine.body.tokens, right.body.tokens
    matcher = _matcher(at, dict.fromkeys(own, ""), there, names | dict.fromkeys(theirs, ""))
    same = ((a + i, b + i) for a, b, size in matcher.get_matching_blocks() for i in range(size))
    pairs = [(there[b].code, at[a].code) for a, b in same]
    used = Counter((name, alike) for name, alike in pairs if name in theirs and alike in own)
    for (name, alike), _ in sorted(used.items(), key=lambda item: (-item[1], item[0][0] != item[0][1])):
        if name not in names and alike not in names.values():
            names[name] = alike
    return names


def _matcher(mine: Sequence[Piece], own: Names, right: Sequence[Piece], theirs: Names) -> SequenceMatcher:
    """A matcher of words, with variables renamed."""
    words = ([_named(t, names) for t in tokens] for tokens, names in ((mine, own), (right, theirs)))
    return SequenceMatcher(None, *words, autojunk=False)


def _named(token: Piece, names: Names) -> str:
    return names.get(token.code, token.code) if token.kind == "identifier" else token.code


def _locals(function: Function) -> set[str]:
    return {v.name for v in function.file.variables if function.body.holds(v)}


def _constants(mine: CudaText, right: CudaText) -> Iterator[tuple[Piece, Piece]]:
    """The declarations of constants in both files."""
    own = {v.name: v for v in mine.variables if v.scope == mine.root}
    yield from ((own[v.name], v) for v in right.variables if v.scope == right.root and v.name in own)


def _between(mine: Sequence[Piece], right: Sequence[Piece], names: Names) -> Iterator[Difference]:
    matcher = _matcher(mine, {}, right, names)
    own, theirs = matcher.a, matcher.b
    if matcher.real_quick_ratio() < SAME or matcher.ratio() < SAME:
        yield Difference(mine[0].start, mine[-1].end, " ".join(theirs))
        return
    text = mine[0].file.text
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            continue
        if kind != "replace":  # report whole statements, not `; f()` before a `;`
            words, size = (theirs[start:], end - start) if kind == "insert" else (own[first:], last - first)
            by = _shift(words, size)
            first, last, start, end = first + by, last + by, start + by, end + by
        after = "".join(_gap(right, i) * (i > start) + theirs[i] for i in range(start, end))
        ends = end > start and theirs[end - 1] in (";", "}")
        at, until = (mine[first].start, mine[last - 1].end) if first < last else _before(mine, first, ends)
        if not after and not _gap(right, start):
            at = mine[first - 1].end if first and mine[first - 1].line == mine[first].line else at
        before, behind = (_gap(right, i) if after else "" for i in (start, end))
        after = before * (not text[at - 1].isspace()) + after + behind * (not text[until].isspace())
        yield Difference(at, until, after)


def _shift(words: Sequence[str], size: int) -> int:
    """How far to shift an insertion or deletion so that it ends where a statement does; 0 if it does."""
    for by in range(size):
        if words[by + size - 1] in (";", "}"):
            return by
        if by + size == len(words) or words[by] != words[by + size]:
            break
    return 0


def _before(words: Sequence[Piece], i: int, ends: bool) -> tuple[int, int]:
    """The place to insert before a word. ends: it is a statement, which goes to the end of the line before."""
    first = i < len(words) and i and words[i - 1].line < words[i].line
    at = words[i - 1].end if i == len(words) or ends and first else words[i].start
    return at, at


def _gap(tokens: Sequence[Piece], i: int) -> str:
    """The text before a word, without comments."""
    return " " if 0 < i < len(tokens) and tokens[i - 1].end < tokens[i].start else ""
