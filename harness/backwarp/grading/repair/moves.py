"""The sites of statements that may belong elsewhere: before the statement that stands before them, or before a loop that they are in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...cuda.pieces import Piece
from ...cuda.tree import LOOPS
from .edits import MOVED, Edit
from .repair import rest_of_line
from .support import asked

SIMPLE = ("expression_statement", "if_statement")
_FIXED = re.compile(r"\w_sync\b|__sync|\bgoto\b|\bcase\b")
LONGEST = 200  # characters of a statement


class Moves:
    """Writes what is moved; statements.py writes the statements themselves."""

    def _find_moves(self) -> None:
        """By node: what may be put before a statement, as (site, operation, code); and the site of a statement that may be moved."""
        self.put: dict[int, list[tuple[int, int, str]]] = {}
        self.moved: dict[int, int] = {}
        for s in self.function.body.all(*SIMPLE, "for_statement"):
            targets = list(self._targets(s)) if self._is_movable(s) else []
            if not targets:
                continue
            edits = [self._move(s, p) for p in targets]
            number = self.schemata.add(
                s, [MOVED] * len(edits), made=lambda c, edits=edits: edits[c.operation]
            )
            if number is None:
                continue
            self.moved[s.node.id] = number
            code = s.code + (self._kept_after(s) if s.kind == "expression_statement" else "")
            for i, p in enumerate(targets):
                self.put.setdefault(p.node.id, []).append((number, i, code))

    def _is_movable(self, s: Piece) -> bool:
        inside = s.outer is not None and s.outer.kind == "compound_statement"
        beside = rest_of_line(s.file.text, s.start)[0] or rest_of_line(s.file.text, s.end)[1]
        return inside and not beside and len(s.code) <= LONGEST and not _FIXED.search(s.code)

    def _targets(self, s: Piece) -> Iterator[Piece]:
        """Where it may belong: it depends on the statement before it, or that on it; or it sets something in a loop."""
        own = _set_in(s)
        before = s.file.piece(s.node.prev_named_sibling) if s.node.prev_named_sibling else None
        swaps = before is not None and before.kind in SIMPLE and s.kind != "for_statement"
        if swaps and not _FIXED.search(before.code):
            if own & _names(before) or _set_in(before) & _names(s):
                yield before
        if s.kind == "if_statement" or not own or "continue" in s.code or "break" in s.code:
            return
        loops = [loop for loop in s.file.around(s.start, *LOOPS) if loop.start > self.function.body.start]
        for loop in loops:
            if loop != s and loop.outer.kind == "compound_statement" and self._is_known(s, loop.start):
                yield loop

    def _is_known(self, s: Piece, place: int) -> bool:
        """Whether all names in a statement mean the same at another place."""
        file = s.file
        for name in s.all("identifier"):
            here = file.variable_at(name.code, name.start)
            if here is not None and not s.holds(here) and file.variable_at(name.code, place) != here:
                return False
        return True

    def _move(self, s: Piece, to: Piece) -> tuple[Edit, Edit]:
        text, at = s.file.text, _line_start(s.file.text, to.start)
        while text[_line_start(text, at - 1) : at].lstrip().startswith("#"):  # a pragma belongs to its loop
            at = _line_start(text, at - 1)
        start, end = _line_start(text, s.start), text.find("\n", s.end) + 1 or len(text)
        return Edit(at, at, text[start:end], MOVED.says), Edit(start, end, "", MOVED.says)

    def _with_moves(self, p: Piece, text: str) -> str:
        """A statement that may be moved, and what may be put before it."""
        if p.node.id in self.moved:
            text = f"if (!{asked(self.moved[p.node.id])}) {{ {text} }}"
        put = (
            (asked(n), f"backwarp_operation({n}) == {i}", code) for n, i, code in self.put.get(p.node.id, ())
        )
        return "".join(f"if ({here} && {this}) {{ {code} }} " for here, this, code in put) + text


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _names(p: Piece) -> set[str]:
    return {name.code for name in p.all("identifier")}


def _set_in(p: Piece) -> set[str]:
    """The names of what a statement sets."""
    targets = [e.part("left") for e in p.all("assignment_expression")]
    targets += [e.part("argument") for e in p.all("update_expression")]
    return {name.code for t in targets for name in list(t.all("identifier"))[:1]}
