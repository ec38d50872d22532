"""The sites of two neighbours that may have changed places: statements, or names that are declared."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, pairwise

from ...cuda.kinds import kind_of
from ...cuda.pieces import Function, Piece, Variable
from .edits import EXCHANGE, TURNED, Edit, Operation
from .sites import Choice
from .support import asked
from .terms import are_counterparts

LONGEST = 240  # characters of a moved statement, as it is compiled twice
_LOOPS = ("for_statement", "while_statement", "do_statement")
_MOVED = ("expression_statement", "if_statement", *_LOOPS)
_LEAVES = ("return_statement", "continue_statement", "break_statement")


class Moves:
    """Writes what stands around statements; statements.py writes the statements themselves."""

    def __init__(self):
        self.moved: dict[int, list[int]] = defaultdict(list)  # by node: the sites that leave it out

    def _unless_moved(self, p: Piece, text: str) -> str:
        unless = " && ".join(f"!{asked(number)}" for number in self.moved.get(p.node.id, ()))
        return f"if ({unless}) {{ {text} }}" if unless else text

    def _moved_to(self, p: Piece, place: int, form: str) -> str:
        """Code that runs a statement, written in this form, at a place instead of its own."""

        def made(choice: Choice) -> tuple[Edit, ...]:
            return Edit(p.start, p.end, "", TURNED.says), Edit(place, place, form % p.code, TURNED.says)

        if (number := self.schemata.add(p, (TURNED,), made=made)) is None:
            return ""
        self.moved[p.node.id].append(number)
        return f"if ({asked(number)}) {{ {' '.join(token.code for token in p.tokens)} }} "

    def _turned(self, block: Piece) -> tuple[dict[int, str], dict[int, str]]:
        """For a block, by node: code before or after a statement that swaps places with a neighbour."""
        before: dict[int, str] = defaultdict(str)
        after: dict[int, str] = defaultdict(str)
        for one, other in pairwise(p for p in block.parts if p.kind != "comment"):
            if self._fits(other, one.start) and (
                one.kind == "declaration" or len(other.code) <= len(one.code)
            ):
                mover, beside, place, form, where = other, one, one.start, "%s ", before
            elif self._fits(one, one.start) and not _is_named_in(one, other):
                mover, beside, place, form, where = one, other, other.end, " %s", after
            else:
                continue
            where[beside.node.id] += self._moved_to(mover, place, form) if _matters(mover, beside) else ""
        return before, after

    def _declared_before(self, p: Piece) -> list[Variable]:
        """The last variable of the declaration just before."""
        before = p.node.prev_named_sibling
        if before is None or before.type != "declaration":
            return []
        return [v for v in self.pool.locals if p.file.piece(before).holds(v)][-1:]

    def _exchanged(self, one: Variable, other: Variable, operation: Operation = EXCHANGE) -> str:
        """The names of two variables that are declared one after the other."""
        names = [_name_of(v) for v in (one, other)]

        def made(choice: Choice) -> tuple[Edit, ...]:
            after = (other.name, one.name)
            return tuple(Edit(n.start, n.end, text, EXCHANGE.says) for n, text in zip(names, after))

        number = self.schemata.add(other, (operation,), made=made)
        return "" if number is None else f"if ({asked(number)}) backwarp_exchange({one.name}, {other.name}); "

    def _fits(self, p: Piece, place: int) -> bool:
        """Whether a statement may run at another place."""
        plain = p.kind in _MOVED and len(p.code) <= LONGEST and "__sync" not in p.code and "#" not in p.code
        return plain and self._means_the_same(p, place)

    def _means_the_same(self, p: Piece, place: int) -> bool:
        """Whether every name in a statement means the same at another place."""
        names = [n for n in p.all("identifier") if self.schemata.file.named(n.code, n.start)]
        return all(
            self.schemata.file.named(n.code, n.start) == self.schemata.file.named(n.code, place)
            for n in names
        )


def _is_named_in(one: Piece, other: Piece) -> bool:
    """Whether a declaration gives a name of a statement another meaning."""
    declared = (
        {d.part("declarator").code for d in other.all("init_declarator")}
        if other.kind == "declaration"
        else set()
    )
    return bool(declared & {n.code for n in one.all("identifier")})


def _matters(one: Piece, other: Piece) -> bool:
    """Whether the order of two statements matters: one sets what the other names, calls a function for its
    effect, or leaves."""
    if any(next(p.all(*_LEAVES), None) or _calls(p) for p in (one, other)):
        return True
    names = [{n.code for n in p.all("identifier")} for p in (one, other)]
    return bool(_set_in(one) & names[1] or _set_in(other) & names[0])


def _calls(p: Piece) -> bool:
    return any(s.parts and s.parts[0].kind == "call_expression" for s in _statements(p))


def _statements(p: Piece) -> Iterator[Piece]:
    if p.kind == "expression_statement":
        yield p
    yield from p.all("expression_statement")


def _set_in(p: Piece) -> set[str]:
    """Names of variables and arrays that are assigned."""
    targets = [
        e.part("left") or e.part("argument") for e in p.all("assignment_expression", "update_expression")
    ]
    found = {d.part("declarator").code for d in p.all("init_declarator")}
    return found | {next((n.code for n in t.all("identifier")), t.code) for t in targets if t}


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
    return bool(plain and not fixed and both) and one.name not in {
        n.code for n in other.value.all("identifier")
    }


def parameters_exchanged(function: Function) -> list[tuple[Variable, Variable]]:
    """The parameters of a kernel that may have changed places: of one type, neighbours or the same for rows
    and columns."""
    own = (
        [v for v in function.parameters if v.pointer or "const" not in v.words] if function.is_kernel else []
    )
    alike = [
        (one, other)
        for one, other in combinations(own, 2)
        if (one.type, one.pointer, "const" in one.words)
        == (other.type, other.pointer, "const" in other.words)
    ]
    return [pair for pair in alike if pair in pairwise(own) or are_counterparts(*(v.name for v in pair))]


def as_soon_as_known(p: Piece, condition: str) -> int:
    """Where a thread may leave before a statement: ahead of declarations that read no memory and are
    unrelated to it."""
    place, before = p.start, p.node.prev_named_sibling
    names = set(re.findall(r"\w+", condition))
    while before is not None and before.type == "declaration":
        own = p.file.piece(before)
        if next(own.all("subscript_expression", "call_expression"), None):
            break
        if names & {d.part("declarator").code for d in own.all("init_declarator")}:
            break
        place, before = own.start, before.prev_named_sibling
    return place
