"""One kernel that contains all its variants: a constant selects at run time which changes are made (mutant
schemata).

    sum += x[i + 1];          the file
    sum += x[backwarp_value(7, backwarp_add(5, backwarp_value(4, i, ...), backwarp_value(6, 1, ...)), ...)];

Every expression, condition and statement that may be changed is a numbered site and passes through a function
that returns its argument unless `backwarp` names the site: then it computes the selected operation. The
variables and constants that may be inserted are kept in small arrays that the kernel updates, and terms
(terms.py) are computed from those; so an edit needs no code of its own, and a file grows by one call per
site, however many edits there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from ...course.parameters import Array
from ...cuda.pieces import Function, Piece
from ...cuda.text import CudaText, read
from .pool import Entries
from .sites import MOST_TOGETHER, Choice, Site
from .statements import Writer
from .support import pool_text, support

NONE = Entries()
MOST_INLINED = 12  # sites of a function that is compiled for every place that calls it
_UNROLL = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+unroll[^\n]*|_Pragma\([^)]*\)", re.MULTILINE)
_WAITS = re.compile(r"__sync|_sync\b|\basm\b|cooperative_groups|\bthis_thread")


def rows(combinations: Sequence[Sequence[Choice]], sites: int) -> np.ndarray:
    """What `backwarp` holds for each variant, in a file of this many sites."""
    edits = np.zeros((len(combinations), MOST_TOGETHER, 4), np.int32)
    for row, choices in zip(edits, combinations):
        row[: len(choices)] = [choice.row for choice in choices] or 0
    asked = np.zeros((len(edits), sites + 1), np.uint8)
    np.put_along_axis(asked, edits[:, :, 0], 1, axis=1)
    asked[:, 0] = 0  # for unused edits
    return np.hstack([edits.reshape(len(edits), -1).view(np.uint8), asked])


class Schemata:
    """The text of a file with all its edits. without: lines that are left unchanged; plain: lines before
    which no statement is added. only: the only lines that are changed, None for all. idle: see Pool.

    races: for repairing races; then these lines are changed, and only barriers in others. sites: the places
    that may be changed. text: what to compile; its lines are shifted by `before` against the file's.
    """

    def __init__(
        self,
        source: str,
        kernel: str,
        without: Iterable[int] = (),
        races: Iterable[int] | None = None,
        arrays: Sequence[Array] = (),
        only: Iterable[int] | None = None,
        plain: Iterable[int] = (),
        idle: Iterable[str] = (),
    ):
        source = _UNROLL.sub(lambda found: " " * len(found[0]), source)  # each copy takes time to compile
        self.file, self.kernel, self.without, self.plain = read(source), kernel, set(without), set(plain)
        self.arrays, self.programs, self.idle = arrays, [], frozenset(idle)
        self.races = None if races is None else set(races)
        self.only = None if only is None else set(only)
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
                before = len(self.sites)
                body, head = Writer(self, function).body(), source[function.whole.start : function.body.start]
                if len(self.sites) - before > MOST_INLINED and not _WAITS.search(body):
                    head = re.sub(r"__forceinline__|\binline\b", "", head)
                    head = head.replace("__device__", "__device__ __noinline__", 1)
                parts += [source[at : function.whole.start], head, body]
                at = function.body.end
        header = pool_text(self.programs, len(self.sites)) + support(self.races is not None)
        self.before = header.count("\n")
        self.text = header + "".join(parts) + source[at:]

    def left_out(self, function: Function) -> bool:
        return "constexpr" in function.words or function.body.node.has_error

    def add(self, piece: Piece, operations, pool=NONE, here=(), made=None, order=False) -> int | None:
        """The number of a new site; None if the line must not be changed. order: whether it affects the order of threads."""
        others = self.only is not None and piece.line not in self.only
        unraced = self.races is not None and not order and piece.line not in self.races
        if piece.line in self.without or others or unraced:
            return None
        self.sites.append(Site(len(self.sites) + 1, piece, operations, pool, list(here), made))
        return len(self.sites)


def _rolled(text: str) -> str:
    """The text without `#pragma unroll`, as every copy of a site takes time to compile; offsets stay the same."""
    return _UNROLL.sub(lambda found: " " * len(found[0]), text)


def _fixed_names(file: CudaText) -> set[str]:
    """Names whose values must be known at compile time."""
    places: list[Piece] = [p for v in file.variables for p in v.extents if p]
    places += [v.value for v in file.variables if v.value and "constexpr" in v.words]
    places += file.whole.all("template_argument_list", "case_statement", "static_assert_declaration")
    return {name.code for place in places for name in place.all("identifier")}
