"""The sites of statements that may belong elsewhere, before the one before them or a loop around them; and of two declared names
that may have changed places."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...cuda.kinds import kind_of
from ...cuda.pieces import Piece, Variable
from ...cuda.tree import LOOPS
from .edits import EXCHANGE, MOVED, Edit
from .repair import rest_of_line
from .sites import Choice
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
            operations, made = [MOVED] * len(edits), lambda c, edits=edits: edits[c.operation]
            number = self.schemata.add(s, operations, made=made)
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
        put = self.put.get(p.node.id, ())
        tests = (f"if ({asked(n)} && backwarp_operation({n}) == {i}) {{ {code} }} " for n, i, code in put)
        return "".join(tests) + text


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _names(p: Piece) -> set[str]:
    return {name.code for name in p.all("identifier")}


def _set_in(p: Piece) -> set[str]:
    """The names of what a statement sets."""
    targets = [e.part("left") for e in p.all("assignment_expression")]
    targets += [e.part("argument") for e in p.all("update_expression")]
    return {name.code for t in targets for name in list(t.all("identifier"))[:1]}


class Exchanges:
    """Writes what exchanges two names; statements.py writes the statements themselves."""

    def _declared_before(self, p: Piece) -> list[Variable]:
        """The last variable of the declaration just before."""
        before = p.node.prev_named_sibling
        if before is None or before.type != "declaration":
            return []
        return [v for v in self.pool.locals if p.file.piece(before).holds(v)][-1:]

    def _exchanged(self, one: Variable, other: Variable) -> str:
        """The names of two variables that are declared one after the other."""
        names = [_name_of(v) for v in (one, other)]

        def made(choice: Choice) -> tuple[Edit, ...]:
            after = (other.name, one.name)
            return tuple(Edit(n.start, n.end, text, EXCHANGE.says) for n, text in zip(names, after))

        number = self.schemata.add(other, (EXCHANGE,), made=made)
        return "" if number is None else f"if ({asked(number)}) backwarp_exchange({one.name}, {other.name}); "


def _name_of(v: Variable) -> Piece:
    """Where a declaration has the variable's name."""
    found = v
    while inner := found.part("declarator"):
        found = inner
    return found


def may_be_exchanged(one: Variable, other: Variable) -> bool:
    plain = one.type == other.type and kind_of(one) == kind_of(other) == "integer"
    fixed = {"const", "constexpr"} & {*one.words, *other.words, *one.type.split()}
    both = one.value and other.value and one.node.type == other.node.type == "init_declarator"
    apart = bool(plain and not fixed and both)
    return apart and all(n.code != one.name for n in other.value.all("identifier"))
