"""The parts of a CUDA C++ file: pieces of its text, and the variables, functions and macros it declares.

`text.py` finds them. A place is a character index from 0; lines and columns count from 1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from operator import attrgetter
from typing import TYPE_CHECKING

from ..once import once

if TYPE_CHECKING:
    from tree_sitter import Node

    from .text import CudaText


@dataclass(frozen=True)
class Piece:
    """A piece of a file, with its syntax node; its kind is the grammar's name for the node."""

    file: CudaText = field(repr=False, compare=False)
    node: Node = field(repr=False)

    @once
    def kind(self) -> str:
        return self.node.type

    @once
    def start(self) -> int:
        return self.node.start_byte

    @once
    def end(self) -> int:
        return self.node.end_byte

    @property
    def line(self) -> int:
        return self.node.start_point[0] + 1

    @property
    def column(self) -> int:
        return self.node.start_point[1] + 1

    @property
    def last_line(self) -> int:
        return self.node.end_point[0] + 1

    @once
    def code(self) -> str:
        return self.file.text[self.start : self.end]

    def part(self, name: str) -> Piece | None:
        """The child with this field name in the grammar: `condition`, `body`, `left`, `operator`."""
        named = self._named
        if name not in named:
            named[name] = self.file.piece(self.node.child_by_field_name(name))
        return named[name]

    @once
    def _named(self) -> dict[str, Piece | None]:
        return {}

    @once
    def parts(self) -> tuple[Piece, ...]:
        """The named children, without comments."""
        return tuple(self.file.piece(n) for n in self.node.named_children if n.type != "comment")

    @once
    def outer(self) -> Piece | None:
        return self.file.piece(self.node.parent)

    @property
    def indexed(self) -> Piece:
        """What is indexed: `a` of `a[i][j]`."""
        found = self
        while found.kind == "subscript_expression":
            found = found.parts[0]
        return found

    @property
    def bare(self) -> Piece:
        """Without the parentheses around it."""
        found = self
        while found.kind == "parenthesized_expression" and len(found.parts) == 1:
            found = found.parts[0]
        return found

    @property
    def is_updated(self) -> bool:
        """Whether it is read and written at once: `x += 1`, `x++`."""
        outer = self.outer
        if outer and outer.kind == "assignment_expression":
            return outer.part("left") == self and outer.part("operator").code != "="
        return bool(outer) and outer.kind == "update_expression"

    def holds(self, other: Piece) -> bool:
        return self.start <= other.start and other.end <= self.end

    def all(self, *kinds: str) -> Iterator[Piece]:
        """All pieces of these kinds in it (itself included), in order."""
        return iter(self.file.within(self.node, kinds))

    @property
    def tokens(self) -> tuple[Piece, ...]:
        """The file's tokens that it contains."""
        start, end = (
            bisect_left(self.file.tokens, at, key=attrgetter("start")) for at in (self.start, self.end)
        )
        return self.file.tokens[start:end]

    def calls(self) -> Iterator[tuple[str, Piece]]:
        """(name, call) of the calls in it, in order; the name is the last of `a::b.c<int>(...)`."""
        for call in self.all("call_expression"):
            if called := call.part("function"):
                yield last_name(called), call

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind}, {self.line}:{self.column}, {self.code[:60]!r})"


@dataclass(frozen=True, repr=False)
class Variable(Piece):
    """A declared variable, parameter, member or enumerator; the piece is its declarator, `a[TILE][4] = {}`.

    words: static, const, __shared__ ... type: as written, without those words. pointer: whether a `*` or `&`
    precedes the name. extents: one per pair of brackets, None if it is empty.
    """

    name: str
    type: str
    words: tuple[str, ...] = ()
    pointer: bool = False
    extents: tuple[Piece | None, ...] = ()
    value: Piece | None = None
    scope: Node | None = None


@dataclass(frozen=True, repr=False)
class Function(Piece):
    """A function with a body. whole: the entire definition, from `extern "C"` or `template <...>` on."""

    name: str
    words: tuple[str, ...]
    parameters: tuple[Variable, ...]
    templates: tuple[str, ...]
    body: Piece
    whole: Piece

    name_line: int

    @property
    def is_kernel(self) -> bool:
        return "__global__" in self.words


@dataclass(frozen=True)
class Macro:
    """A `#define`. parameters: None if it has no parentheses."""

    name: str
    value: str
    parameters: tuple[str, ...] | None = None


def remembered(function: Callable) -> Callable:
    """Caches a function of a piece (and few other arguments) with the file."""

    @wraps(function)
    def found(piece: Piece, *more):
        key = function, piece.node.id, *more
        if key not in (answers := piece.file.answers):
            answers[key] = function(piece, *more)
        return answers[key]

    return found


def last_name(piece: Piece) -> str:
    """`c` of `a::b.c<int>`."""
    node = piece.node
    while inner := node.child_by_field_name("name") or node.child_by_field_name("field"):
        node = inner
    return piece.file.text[node.start_byte : node.end_byte]
