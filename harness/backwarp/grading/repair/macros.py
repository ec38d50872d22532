"""Macros that stand for the head of a loop or an `if`, `#define FOR_EACH(i, n) for (int i = …; i < n; …)`,
written out, so that the body is read as one, and edits of the result carried back to the file."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace

from .edits import Edit

_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)\n]*)\)((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_HEAD = re.compile(r"(?:\s|\\\n)*(?:for|while|if)\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_MARK = re.compile(r"[][(){},]")
_LONGEST = 1000  # characters of a call's arguments


@dataclass(frozen=True)
class Stretch:
    """Text at `start` of the result that the file has at `origin`. names: in a macro's value, what its
    parameters stand for."""

    start: int
    text: str
    origin: int
    names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Written:
    """A file with such macros written out; lines keep their numbers."""

    stretches: tuple[Stretch, ...]

    @property
    def text(self) -> str:
        return "".join(s.text for s in self.stretches)

    def back(self, edits: tuple[Edit, ...]) -> tuple[Edit, ...] | None:
        """The edits of the file that have the same effect; None if one spans a macro's edge."""
        found = [self._back(edit) for edit in edits]
        return tuple(dict.fromkeys(found)) if all(found) else None

    def _back(self, edit: Edit) -> Edit | None:
        at = bisect_right([s.start for s in self.stretches], edit.start) - 1
        stretch = self.stretches[at]
        if edit.end > stretch.start + len(stretch.text):
            return None
        shift, after = stretch.origin - stretch.start, edit.after
        for parameter, argument in stretch.names:
            if _WORD.fullmatch(argument):
                after = re.sub(rf"\b{argument}\b", parameter, after)
        return replace(edit, start=edit.start + shift, end=edit.end + shift, after=after)


def written_out(source: str) -> Written | None:
    """None if the file has no such macro."""
    macros = {m[1]: m for m in _DEFINED.finditer(source) if _HEAD.match(m[3])}
    if not macros:
        return None
    found: list[Stretch] = []
    start = at = 0

    def add(text: str, origin: int, names=()) -> None:
        nonlocal start
        if text:
            found.append(Stretch(start, text, origin, names))
            start += len(text)

    for call in re.finditer(
        rf"^[ \t]*#(?:\\\r?\n|[^\n])*|\b({'|'.join(macros)})[ \t]*\(", source, re.MULTILINE
    ):
        if call[1] is None or call.start() < at:
            continue
        arguments, end = _arguments(source, call.end(), call.end() + _LONGEST)
        parameters = [p.strip() for p in macros[call[1]][2].split(",")]
        if not arguments:
            break
        if len(arguments) != len(parameters):
            continue
        add(source[at : call.start()], at)
        given = dict(zip(parameters, arguments))
        names = tuple((p, source[a:b]) for p, (a, b) in given.items())
        value, origin = macros[call[1]][3], macros[call[1]].start(3)
        value = re.sub(r"\\\r?\n", lambda m: " " * len(m[0]), value)
        last = 0
        for word in _WORD.finditer(value):
            if word[0] in given:
                add(value[last : word.start()], origin + last, names)
                a, b = given[word[0]]
                add(source[a:b], a)
                last = word.end()
        add(value[last:], origin + last, names)
        at = end
    add(source[at:], at)
    return Written(tuple(found))


def _arguments(text: str, at: int, most: int) -> tuple[list[tuple[int, int]], int]:
    """The arguments' places, without blanks around them, and where the call ends; nothing if not before `most`."""
    depth, first, found = 0, at, []
    for mark in _MARK.finditer(text, at, most):
        place, letter = mark.start(), mark[0]
        if letter in ",)" and not depth:
            inside = text[first:place]
            blanks = len(inside) - len(inside.lstrip())
            found.append((first + blanks, first + blanks + len(inside.strip())))
            first = place + 1
            if letter == ")":
                return found, place + 1
        depth += (letter in "([{") - (letter in ")]}")
    return [], at
