"""One kernel that is all its own variants: a constant says at run time which changes are made (mutant schemata).

    sum += x[i + 1];          the file
    sum += x[backwarp_value(7, backwarp_add(5, backwarp_value(4, i, ...), backwarp_value(6, 1, ...)), ...)];

Every expression, condition and statement that may be changed is a numbered site, and passes through a function that
returns what it was given unless `backwarp_edits` names the site: then it computes the operation asked for. What
could be put in, variables and constants, lies in two small arrays that the kernel keeps up to date; so an edit
costs no code of its own, and a file grows by a call for each site, however many edits there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...course.cuda_text import CudaText, Function, Piece, read
from .sites import Site
from .statements import Writer
from .support import support


class Schemata:
    """The text of a file with all its edits. without: lines that are left as they are.

    races: of what to do about threads in the wrong order; then these lines are changed, and in others only barriers.
    sites: the places that may be changed. text: what to compile; its lines are `before` later than the file's.
    """

    def __init__(
        self, source: str, kernel: str, without: Iterable[int] = (), races: Iterable[int] | None = None
    ):
        self.file, self.kernel, self.without = read(source), kernel, set(without)
        self.races = None if races is None else set(races)
        self.sites: list[Site] = []
        self.fixed = _fixed_names(self.file)
        others = {k.name for k in self.file.kernels} - {kernel}
        parts, at = [], 0
        for function in sorted(self.file.functions, key=lambda f: f.whole.start):
            if function.whole.start < at:
                continue
            if function.name in others:
                parts += [source[at : function.whole.start], "\n" * function.whole.code.count("\n")]
                at = function.whole.end
            elif not self.left_out(function):
                parts += [source[at : function.body.start], Writer(self, function).body()]
                at = function.body.end
        header = support(self.races is not None)
        self.before = header.count("\n")
        self.text = header + _plain_pragmas("".join(parts) + source[at:])

    def left_out(self, function: Function) -> bool:
        return "constexpr" in function.words or function.body.node.has_error

    def add(
        self, piece: Piece, operations, pool=(), here=(), made=None, others=(), order=False
    ) -> int | None:
        """The number of a new site; None where the line is to be left alone. order: it concerns the order of threads."""
        if (
            piece.line in self.without
            or self.races is not None
            and not order
            and piece.line not in self.races
        ):
            return None
        self.sites.append(Site(len(self.sites) + 1, piece, tuple(operations), pool, list(here), made, others))
        return len(self.sites)


def _plain_pragmas(text: str) -> str:
    """Loops are not unrolled: every copy of a site would take its time."""
    return re.sub(r"^[ \t]*#[ \t]*pragma[ \t]+unroll[^\n]*", "", text, flags=re.MULTILINE)


def _fixed_names(file: CudaText) -> set[str]:
    """Names whose values the compiler must know."""
    places: list[Piece] = [p for v in file.variables for p in v.extents if p]
    places += [v.value for v in file.variables if v.value and "constexpr" in v.words]
    places += file.whole.all("template_argument_list", "case_statement", "static_assert_declaration")
    return {name.code for place in places for name in place.all("identifier")}
