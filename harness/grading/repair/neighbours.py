"""Statements and the declarations beside them: what may change places, and where something may stand."""

from __future__ import annotations

import re

from ...course.cuda_text import Piece, Variable
from .kinds import kind_of


def may_be_exchanged(one: Variable, other: Variable) -> bool:
    plain = one.type == other.type and kind_of(one) == kind_of(other) == "integer"
    fixed = {"const", "constexpr"} & {*one.words, *other.words, *one.type.split()}
    both = one.value and other.value and one.node.type == other.node.type == "init_declarator"
    return bool(plain and not fixed and both) and one.name not in {
        n.code for n in other.value.all("identifier")
    }


def as_soon_as_known(p: Piece, condition: str) -> int:
    """Where a thread may leave before a statement: before declarations that read no memory and say nothing of it."""
    place, before = p.start, p.node.prev_named_sibling
    names = set(re.findall(r"\w+", condition))
    while before is not None and before.type == "declaration":
        own = Piece(p.file, before)
        if next(own.all("subscript_expression", "call_expression"), None):
            break
        if names & {d.part("declarator").code for d in own.all("init_declarator")}:
            break
        place, before = own.start, before.prev_named_sibling
    return place


def sets(statement: Piece, variable: Variable | None) -> bool:
    """Whether a variable gets a value in a statement."""
    changed = (
        e.part("left") or e.part("argument")
        for e in statement.all("assignment_expression", "update_expression")
    )
    return variable is not None and (statement.holds(variable) or variable.name in [c.code for c in changed])
