"""Small questions about pieces of a file: the index of an access, the sign of an expression, the counter of a loop."""

from __future__ import annotations

from collections.abc import Iterable

from .pieces import Function, Piece
from .text import CudaText


def reached(file: CudaText, kernel: str) -> list[Function]:
    """A kernel and the functions of the file that it calls, directly or not."""
    start = file.function(kernel)
    found = {start.name: start} if start else {}
    pending = list(found.values())
    while pending:
        for name, _ in pending.pop().body.calls():
            if name not in found and (called := file.function(name)):
                found[name] = called
                pending.append(called)
    return list(found.values())


def shown(piece: Piece) -> str:
    """Its text on one line, without the parentheses of a condition."""
    text = " ".join(piece.code.split())
    return text[1:-1].strip() if piece.kind in ("condition_clause", "parenthesized_expression") else text


def sign_of(e: Piece) -> str:
    return e.part("operator").code if e.kind == "binary_expression" else ""


def counter(loop: Piece) -> str:
    """The variable that a `for` declares."""
    start = loop.part("initializer")
    declared = start.part("declarator") if start and start.kind == "declaration" else None
    name = declared.part("declarator") if declared and declared.kind == "init_declarator" else None
    return name.code if name and name.kind == "identifier" else ""


def start_of(loop: Piece) -> Piece | None:
    """The first value of its variable, if its head gives it: `int i = 0` or `i = 0`."""
    head = loop.part("initializer")
    first = next(head.all("init_declarator", "assignment_expression"), None) if head else None
    return (first.part("value") or first.part("right")) if first else None


def index_of(access: Piece) -> Piece | None:
    """The index of `a[index]`, the address of `*address`, or all of `MACRO(a, i)`."""
    if access.kind == "call_expression":
        return access
    if access.kind == "pointer_expression":
        star = access.part("operator")
        return access.part("argument") if star and star.code == "*" else None
    inside = next((p for p in access.parts if p.kind == "subscript_argument_list"), None)
    return inside.parts[0] if inside and len(inside.parts) == 1 else None


def all_indices(access: Piece) -> list[Piece | None]:
    """`i` and `j` of `a[i][j]`."""
    found: list[Piece | None] = []
    while access.kind == "subscript_expression":
        found.append(index_of(access))
        access = access.parts[0]
    return found[::-1]


def named(access: Piece) -> str:
    """The first name of an access: `a` of `a[i][j]` and of `*(a + i)`."""
    return next((p.code for p in access.all("identifier")), "")


def asks(condition: Piece) -> Piece | None:
    """The statement or expression that a condition belongs to."""
    outer = condition.outer
    while outer is not None and outer.kind in ("condition_clause", "parenthesized_expression"):
        outer = outer.outer
    return outer


def outermost(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces that lie in no other: edits must not overlap."""
    found: list[Piece] = []
    for piece in sorted(pieces, key=lambda p: (p.start, -p.end)):
        if not found or piece.start >= found[-1].end:
            found.append(piece)
    return found
