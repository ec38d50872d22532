"""The elements that the lines of a race name, as the source has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....cuda.pieces import Piece
from ....cuda.text import CudaText
from ..run.arena import Owner

if TYPE_CHECKING:
    from .races import Race

LARGEST_VALUE = 16  # bytes: a float4


class Elements:
    def __init__(self, file: CudaText):
        self.file = file

    def is_one(self, owner: Owner | None, line: int) -> bool:
        """Is it a variable, not an array, that the block shares? line: one that accesses it."""
        if owner is None or owner.space != "shared" or owner.nbytes > LARGEST_VALUE:
            return False
        named = [p for p in self.file.whole.all("identifier") if p.code == owner.name and p.line == line]
        return bool(named) and all(
            p.outer.kind not in ("subscript_expression", "pointer_expression") for p in named
        )

    def changes_one(self, race: Race, line: int) -> bool:
        """Does a line name a single element of the array, and both read and write it?"""
        named = self.named(race, line)
        return len(self.subscripts(race, line)) == 1 and (len(named) > 1 or named[0].is_updated)

    def is_kept(self, race: Race) -> bool:
        """Do two lines read and store one element: does each thread keep it to itself, or believe so?"""
        lines = dict(zip(race.accesses, (race.first.line, race.last.line), strict=True))
        stored = next((p for p in self.named(race, lines["Write"]) if _is_set(p)), None)
        file = self.file
        if not stored or file.function_at(lines["Read"]) != file.function_at(lines["Write"]):
            return False
        if self.is_one(race.owner, lines["Write"]):
            return True
        there = [p for p in file.whole.all("subscript_expression") if p.line == lines["Read"]]
        there += _pointed(file, lines["Read"])
        same = {"".join(p.code.split()) for p in there if _array(p) == _array(stored)}
        names = {p.code for p in stored.all("identifier")}
        between = [
            p for p in file.whole.all("identifier") if min(lines.values()) <= p.line <= max(lines.values())
        ]
        moved = any(p.code in names and (p.is_updated or _is_set(p)) for p in between)
        return same == {"".join(stored.code.split())} and not moved

    def walks(self, race: Race, line: int) -> bool:
        """Is the element that a line assigns indexed by a variable that a loop moves?"""
        for p in self.named(race, line):
            codes = {q.code for q in p.all("identifier")} if _is_set(p) else ()
            where = p.file.function_at(line)
            if where and any("".join(p.code.split()).endswith(f"[{code}]") for code in codes):
                moved = (q for q in where.all("identifier") if q.is_updated or _is_set(q))
                return any(q.code in codes for q in moved)
        return False

    def written(self, race: Race, line: int) -> list[str]:
        """The elements that a line assigns, as written there."""
        return [" ".join(p.code.split()) for p in self.named(race, line) if _is_set(p)]

    def subscripts(self, race: Race, line: int) -> set[str]:
        """The different elements of the array that a line names."""
        return {"".join(piece.code.split()) for piece in self.named(race, line)}

    def named(self, race: Race, line: int) -> list[Piece]:
        """The elements of the array that a line names; a kernel may have another name for it."""
        file = self.file
        if self.is_one(race.owner, line):
            return [p for p in file.whole.all("identifier") if p.line == line and p.code == race.owner.name]
        if found := file.subscripts(race.owner.name if race.owner else "", line):
            return found
        if found := [p for p in _pointed(file, line) if race.owner and _array(p) == race.owner.name]:
            return found
        here = [p for p in file.whole.all("subscript_expression") if p.line == line]
        stored = {p.indexed.code for p in here if p.is_updated or _is_set(p)}
        others = {v for p in here if (v := p.indexed).code not in stored}
        declared = [file.variable_at(v.code, v.start) for v in others]
        if len(stored) != 1 or any(v is None or v.value for v in declared):  # may point into the same array
            return []
        return file.subscripts(stored.pop(), line)


def _pointed(file: CudaText, line: int) -> list[Piece]:
    """The elements that a line names as `*array`."""
    stars = (p for p in file.whole.all("pointer_expression") if p.line == line)
    return [p for p in stars if p.part("operator").code == "*"]


def _array(p: Piece) -> str:
    return p.part("argument").code if p.kind == "pointer_expression" else p.indexed.code


def _is_set(p: Piece) -> bool:
    return p.outer.kind == "assignment_expression" and p.outer.part("left") == p
