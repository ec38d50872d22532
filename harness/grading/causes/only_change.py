"""The one place at which the text of a wrong kernel differs from the solution's: nothing else has to change.

Names do not count: a variable is known by the order in which they are declared. What the solution says there is not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from ...course.cuda_text import CudaText, Function, Piece
from .findings import Slip, reached, shown

MOST = 24  # words of the place, in either text
LONGEST = 90  # characters that are shown
STATEMENTS = ("declaration", "expression_statement", "return_statement", "for_statement", "condition_clause")


def only_change(mine: CudaText, solution: CudaText, kernel: str) -> Iterator[Slip]:
    """Of kernels that call functions of the same names."""
    own, right = ({f.name: f for f in reached(file, kernel)} for file in (mine, solution))
    changed = [name for name in own if name in right and words(own[name]) != words(right[name])]
    if own.keys() != right.keys() or len(changed) != 1 or constants(mine) != constants(solution):
        return
    (name,) = changed
    tokens, theirs = own[name].body.tokens, right[name].body.tokens
    matcher = SequenceMatcher(None, words(own[name]), words(right[name]), autojunk=False)
    changes = [c for c in matcher.get_opcodes() if c[0] != "equal"]
    (_, first, _, start, _), (_, _, last, _, end) = changes[0], changes[-1]
    if max(last - first, end - start) > MOST:
        return
    if first == last and ";" in (missing := [token.code for token in theirs[start:end]]):
        first += missing[0] == tokens[first].code == ";"
        before, after = (token.line for token in tokens[first - 1 : first + 1])
        where = f"Between lines {before} and {after}" if after > before else f"In line {before}"
        yield Slip(before, f"{where}, something is missing; nothing else has to change.")
    elif statement := around(tokens[first], tokens[max(first, last - 1)]):
        line, text = tokens[first].line, shown(statement)
        says = f"; it says: {text}" if len(text) <= LONGEST else "."
        yield Slip(line, f"Only line {line} has to change{says}")


def words(function: Function) -> list[str]:
    """The tokens of its body, with a number for each variable that it declares."""
    names = {v.name: v.name for v in function.parameters}
    for v in function.file.variables:
        if function.body.holds(v):
            names.setdefault(v.name, f"variable {len(names)}")
    return [names.get(token.code, token.code) for token in function.body.tokens]


def constants(file: CudaText) -> list[str]:
    """What stands outside of functions."""
    own = [" ".join(v.code.split()) for v in file.variables if v.scope == file.root]
    return sorted([*own, *(f"{m.name} {m.value}" for m in file.macros)])


def around(first: Piece, last: Piece) -> Piece | None:
    """The innermost statement or condition that has both in it; None if that is a block."""
    for e in first.file.around(first.start, *STATEMENTS, "compound_statement"):
        if e.end >= last.end:
            return e if e.kind in STATEMENTS else None
    return None
