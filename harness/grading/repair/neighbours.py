"""Statements and neighbouring declarations: what may swap places, and where something may be inserted."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

from ...cuda.kinds import kind_of
from ...cuda.pieces import Function, Piece, Variable
from ...cuda.text import read
from .terms import are_counterparts

_HEADS = ("if_statement", "for_statement", "while_statement")


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


def sets(statement: Piece, variable: Variable | None) -> bool:
    """Whether a statement assigns a variable."""
    changed = (
        e.part("left") or e.part("argument")
        for e in statement.all("assignment_expression", "update_expression")
    )
    return variable is not None and (statement.holds(variable) or variable.name in [c.code for c in changed])


def setters(source: str, line: int, most: float, elements: bool = True) -> dict[int, float]:
    """A line, and those that set what it uses, transitively: half as much at each step. elements: or elements of arrays
    that it uses."""
    file = read(source)
    function = next(
        (f for f in file.functions if f.whole.node.start_point[0] < line <= f.whole.node.end_point[0] + 1),
        None,
    )
    found, now = {line: most}, {line}
    while function and now and (most := most / 2) > 0.02:
        tokens = [t for t in function.body.all("identifier") if t.line in now]
        names = {t.code for t in tokens}
        sets_ = [*function.body.all("init_declarator"), *function.body.all("assignment_expression")]
        targets = ((p.line, p.part("declarator") or p.part("left")) for p in sets_)
        now = {line for line, t in targets if (_root(t) if elements else t.code) in names} - found.keys()
        found |= dict.fromkeys(now, most)
    return found


def users(source: str, line: int, most: float) -> dict[int, float]:
    """The lines that use what a line sets, or fills by a call, transitively: half as much at each step."""
    file = read(source)
    function = next(
        (f for f in file.functions if f.body.node.start_point[0] < line <= f.body.node.end_point[0] + 1), None
    )
    found: dict[int, float] = {}
    now = {line}
    while function and now and most > 0.02:
        names = {_root(t) for p in _setting(function.body) if p.line in now for t in _targets(p)}
        now = {t.line for t in function.body.all("identifier") if t.code in names} - found.keys() - {line}
        found |= dict.fromkeys(now, most)
        most /= 2
    return found


def fillers(source: str, array: str, most: float) -> dict[int, float]:
    """The lines that store elements of an array, also by a function that is given it or by another pointer to it; the
    conditions and loops around them; and less, what sets the names in those."""
    file = read(source)
    found: dict[int, float] = {}
    seen, new = set(), [(f, array) for f in file.functions if re.search(rf"\b{array}\b", f.whole.code)]
    while new:
        function, name = new.pop(0)
        if (function.name, name) in seen:
            continue
        seen.add((function.name, name))
        for e in function.body.all("assignment_expression", "init_declarator", "call_expression"):
            target = e.part("left") or e.part("declarator")
            if target is None:
                new += [(f, own) for f, own in _given(e, name)]
            elif e.kind == "init_declarator":
                if target.kind == "pointer_declarator" and name in _names_in(e.part("value")):
                    new.append((function, _root(target)))
            elif target.kind != "identifier" and _root(target) == name:
                around = [e, *e.file.around(e.start, *_HEADS)]
                for line, much in ((head.line, most * 0.75**i) for i, head in enumerate(around)):
                    for other, less in setters(source, line, much).items():
                        found[other] = max(found.get(other, 0.0), less)
    return found


def _given(call: Piece, array: str) -> list[tuple[Function, str]]:
    """The function of the file that a call gives an array, and the parameter's name."""
    own, arguments = call.file.function(call.part("function").code), call.part("arguments")
    pairs = zip(own.parameters, arguments.parts) if own and arguments else ()
    return [(own, v.name) for v, argument in pairs if v.pointer and array in _names_in(argument)]


def _names_in(p: Piece | None) -> set[str]:
    return {p.code, *(n.code for n in p.all("identifier"))} if p else set()


def _setting(body: Piece) -> list[Piece]:
    return [p for p in body.all("init_declarator", "assignment_expression", "call_expression")]


def _targets(p: Piece) -> list[Piece]:
    """The targets: the left side, or the first argument of a call that is a statement."""
    if p.kind == "call_expression":
        is_statement = p.outer is not None and p.outer.kind == "expression_statement"
        return p.part("arguments").parts[:1] if is_statement else []
    return [p.part("declarator") or p.part("left")]


def _root(target: Piece) -> str:
    names = (n.code for n in target.all("identifier"))
    return next((name for name in names if not name.endswith("_cast")), target.code)
