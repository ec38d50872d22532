"""Rows taken for columns: `p * stride_w - pad_h`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...course.declare import Kernel
from ...course.parameters import Scalar
from ...cuda.follow import value_of
from ...cuda.parts import shown, sign_of
from ...cuda.pieces import Function, Piece
from ..findings import Finding

_PAIR = {"_h": "rows", "_w": "columns"}
_OTHER = {"rows": "columns", "columns": "rows"}


@dataclass
class Rows:
    """Which names of a kernel belong to rows and which to columns: pairs of parameters `stride_h`,
    `stride_w`, variables that are named and used like the letters of the arrays' last two axes, and what is
    computed from one kind only.

    failed: the dimensions of the failing cases. If the parameters of every pair are equal in one of them,
    confusing them is not the cause."""

    kernel: Kernel
    function: Function
    failed: Sequence[Mapping[str, int]] = ()

    def mixed(self) -> Iterator[Finding]:
        if not self.pairs:
            return
        for e in self._sums():
            sides = self._of_sum(e)
            if len(set(sides.values())) > 1 and self._explains(sides):
                yield self._slip(e, sides)
                return
        for e in self.function.body.all("call_expression"):
            sides = self._of_arguments(e)
            if len(set(sides.values())) > 1 and self._explains(sides):
                yield self._slip(e, sides)
                return
        for e in self.function.body.all("binary_expression"):
            left, right = e.part("left"), e.part("right")
            a, b = self._side(left), self.pairs.get(right.code)
            if e.part("operator").code in ("/", "%") and left.kind == "identifier" and a and b and a != b:
                if self._explains({left.code: a, right.code: b}):
                    yield self._slip(e, {left.code: a, right.code: b})
                    return

    def _explains(self, sides: Mapping[str, str]) -> bool:
        """Whether the other parameter of a pair would make a difference in every failing case."""
        letters = {side for name, side in sides.items() if name not in self.pairs}
        if len(letters) > 1:
            return True
        right = letters.pop() if letters else majority(sides)
        stems = {name[:-2] for name, side in sides.items() if name in self.pairs and side != right}
        return all(any(d.get(s + "_h") != d.get(s + "_w") for s in stems) for d in self.failed)

    def _slip(self, e: Piece, told: Mapping[str, str]) -> Finding:
        sides, most = list(told.values()), majority(told)
        odd = " and ".join(name for name, side in told.items() if side != most)
        return Finding.of(
            "rows_for_columns",
            e.line,
            text=f"Line {e.line} mixes rows and columns: in {shown(e)}, {odd} belong{'s' * (sides.count(most) + 1 == len(sides))} "
            f"to the {_OTHER[most]}, the rest to the {most}.",
        )

    @cached_property
    def pairs(self) -> dict[str, str]:
        """The parameters that exist once for rows and once for columns."""
        names = {p.name for p in self.kernel.params if isinstance(p, Scalar)}
        stems = {n[:-2] for n in names if n.endswith("_h") and n[:-2] + "_w" in names}
        return {stem + end: side for stem in stems for end, side in _PAIR.items()}

    @cached_property
    def letters(self) -> dict[str, str]:
        arrays = [a.letters for a in self.kernel.arrays if len(a.letters) >= 3 and a.letters[-1] not in "kcb"]
        rows, columns = {letters[-2] for letters in arrays}, {letters[-1] for letters in arrays}
        sides = dict.fromkeys(rows - columns, "rows") | dict.fromkeys(columns - rows, "columns")
        return {k: v for k, v in sides.items() if k not in "kcb"}

    @cached_property
    def sizes(self) -> dict[str, str]:
        """The sizes of the rows and of the columns of all arrays, and variables computed from parameters of one side."""
        found: dict[str, str] = {}
        for a in self.kernel.arrays:
            for letter, size in a.axes:
                if side := self.letters.get(letter):
                    found[str(size)] = side if found.get(str(size), side) == side else ""
        for v in self.function.file.variables:
            value = value_of(v.file, v.name, v.end) if self.function.body.holds(v) else None
            used = {self.pairs.get(p.code) for p in value.all("identifier")} - {None} if value else set()
            if len(used) == 1 and v.name not in self.letters:
                found.setdefault(v.name, used.pop())
        return found

    def _of_letter(self, name: str, place: int) -> str:
        """The side of a variable named like an axis, if it is a remainder by a size of that side or compared
        with one; else ""."""
        side, seen = self.letters.get(name, ""), set()
        known = self.function.file.variable_at(name, place)
        if not side or known is None or known.extents or known.pointer:
            return ""
        value = known.value
        if value and value.kind == "binary_expression" and value.part("operator").code == "%":
            seen.add(self.sizes.get(value.part("right").code))
        for e in self.function.body.all("binary_expression"):
            if sign_of(e) in ("<", ">=", "<=", ">") and e.part("left").code == name and e.start > known.start:
                seen.add(self.sizes.get(e.part("right").code))
        return side if seen - {None} == {side} else ""

    def _sums(self) -> Iterator[Piece]:
        for e in self.function.body.all("binary_expression"):
            inner = e.outer.kind == "binary_expression" and e.outer.part("operator").code in ("+", "-")
            if e.part("operator").code in ("+", "-") and not inner and not _is_scaled(e):
                yield e

    def _of_sum(self, e: Piece) -> dict[str, str]:
        """The side of every name in the plain terms of a sum that contains a parameter of a pair."""
        terms, names = list(_terms(e)), []
        for term in terms:
            parts = (
                [term]
                if term.kind == "identifier"
                else [term.part("left"), term.part("right")]
                if (term.kind == "binary_expression" and term.part("operator").code == "*")
                else []
            )
            if all(p.kind == "identifier" for p in parts):
                names += [p.code for p in parts]
        outer = e.outer
        if outer.kind == "init_declarator" and outer.part("declarator").code in self.letters:
            names.append(outer.part("declarator").code)
        sizes = {a for p in self.kernel.arrays for _, a in p.axes}
        if any(n in sizes for n in names) or not any(n in self.pairs for n in names):
            return {}
        return {n: side for n in names if (side := self.pairs.get(n) or self._of_letter(n, e.end))}

    def _of_arguments(self, e: Piece) -> dict[str, str]:
        """The sides of a call's arguments that are names, if one is a parameter of a pair and the call is not
        about both sides, as `f(H, W)` is."""
        inside = e.part("arguments")
        names = [p.code for p in inside.parts if p.kind == "identifier"] if inside else []
        sides = {
            n: side
            for n in names
            if (side := self.pairs.get(n) or self.sizes.get(n) or self._of_letter(n, e.end))
        }
        pairs, others = (
            [n for n in sides if n in self.pairs],
            {sides[n] for n in sides if n not in self.pairs},
        )
        apart = len({n[:-2] for n in pairs}) == len(pairs) > 0 and len(others) == 1
        return sides if apart else {}

    def _side(self, e: Piece) -> str:
        """Of a variable that is a sum of one kind only."""
        value = value_of(e.file, e.code, e.start) if e.kind == "identifier" else None
        if (
            value is None
            or value.kind != "binary_expression"
            or value.part("operator").code not in ("+", "-")
        ):
            return ""
        sides = set(self._of_sum(value).values())
        return sides.pop() if len(sides) == 1 else ""


def majority(sides: Mapping[str, str]) -> str:
    return max(("rows", "columns"), key=list(sides.values()).count)


def _terms(e: Piece) -> Iterator[Piece]:
    if e.kind == "binary_expression" and e.part("operator").code in ("+", "-"):
        yield from _terms(e.part("left"))
        yield from _terms(e.part("right"))
    elif e.kind == "parenthesized_expression" and len(e.parts) == 1:
        yield from _terms(e.parts[0])
    else:
        yield e


def _is_scaled(e: Piece) -> bool:
    """Whether a sum is in parentheses that are multiplied: then it is part of a flat index or of a size."""
    outer = e.outer
    return outer.kind == "parenthesized_expression" and bool(
        re.search(r"^\s*[*%/]", e.file.text[outer.end : outer.end + 4])
    )
