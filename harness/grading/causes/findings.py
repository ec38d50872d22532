"""What is found in the text of a kernel, and where to look for it."""

from __future__ import annotations

from dataclasses import dataclass

from ...course.cuda_pieces import Function, Piece
from ...course.cuda_text import CudaText


@dataclass(frozen=True)
class Slip:
    """A sentence about a line. guess: it is told only if nothing else explains the kernel, as the line may
    well be right."""

    line: int
    says: str
    guess: bool = False

    @property
    def asks(self) -> bool:
        """Whether it is a question, not a fact."""
        return self.says.endswith("?")


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


def how_often(times: float) -> str:
    return {1: "once", 2: "twice"}.get(times) or f"{times:.4g} times"
