"""The only place where the text of a wrong kernel differs from the solution: nothing else has to change.

The solution's text is not shown.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...cuda.parts import reached, shown
from ...cuda.pieces import Piece
from ...cuda.text import CudaText
from ..differences import differences
from ..findings import Finding

MOST = 24  # tokens of the place, in either text
LONGEST = 90  # characters that are shown
STATEMENTS = ("declaration", "expression_statement", "return_statement", "for_statement", "condition_clause")


def only_change(mine: CudaText, solution: CudaText, kernel: str) -> Iterator[Finding]:
    """For files whose constants, and functions called by the kernels, have the same names."""
    places = differences(mine, solution, kernel)
    if not places or names(mine, kernel) != names(solution, kernel):
        return
    start, end = places[0].start, max(d.end for d in places)
    before = [t for t in mine.tokens if t.end <= start]
    after = mine.tokens[len(before) :]
    changed = [t for t in after if t.start < end]
    if max(len(changed), sum(len(d.right.split()) for d in places)) > MOST or not before or not after:
        return
    of = kernel if len(mine.kernels) > 1 else ""  # others may be wrong as well
    if start == end and ";" in places[0].right:
        yield Finding.of("only_missing", *sorted({before[-1].line, after[0].line}), kernel=of)
    elif statement := around(first := after[0], last := changed[-1] if changed else first):
        lines, text = sorted({first.line, last.line}), shown(statement)
        yield Finding.of("only_change", *lines, code=text if len(text) <= LONGEST else "", kernel=of)


def names(file: CudaText, kernel: str) -> tuple[set, ...]:
    constants = {v.name for v in file.variables if v.scope == file.root}
    return constants, {f.name for f in reached(file, kernel)}, {*file.macros}


def around(first: Piece, last: Piece) -> Piece | None:
    """The innermost statement or condition that contains both; None if that is a block."""
    for e in first.file.around(first.start, *STATEMENTS, "compound_statement"):
        if e.end >= last.end:
            return e if e.kind in STATEMENTS else None
    return None
