"""The sites of two names that may have changed places where they are declared."""

from __future__ import annotations

from ...cuda.kinds import kind_of
from ...cuda.pieces import Piece, Variable
from .edits import EXCHANGE, Edit
from .sites import Choice
from .support import asked


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
