"""How a wrong kernel misuses what the puzzle gives it: parameters in another order, a line of the stub that is changed. Found by
comparing its text with the puzzle's declaration and stub; see also `statements.py`.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...course.declare import Kernel, Launch, Puzzle
from ...course.stubs import stub_text
from ...cuda.evaluate import computed
from ...cuda.parts import reached, shown
from ...cuda.pieces import Function, Piece, Variable
from ...cuda.text import CudaText, read
from ...cuda.values import tunables
from ...devices.launching import triple
from ..findings import Finding
from .block_slips import block_slips

TRIED = 8  # values of the names of an expression


def misuses(
    puzzle: Puzzle, kernel: Kernel, source: str, failed: Sequence[Mapping[str, int]] = ()
) -> list[Finding]:
    """The most telling first. failed: the dimensions of the cases that go wrong."""
    file = read(source)
    own = file.function(kernel.name)
    if own is None:
        return []
    if found := other_order(kernel, own):
        return found
    stub = read(stub_text(puzzle))
    given = stub.function(kernel.name)
    if given and own.code.split() == given.code.split():  # it is empty
        return []
    mine, t = Reached.of(file, kernel.name), tunables(source)
    launches = [kernel.launch(dict(d), t) for d in failed]
    found = list(unused_axes(kernel, mine, launches))
    found += block_slips(kernel, own, list(zip(failed, launches, strict=True)))
    return found if puzzle.repair else found + changed_lines(Reached.of(stub, kernel.name), mine)


@dataclass(frozen=True)
class Reached:
    """The bodies of a kernel and of the functions that it calls."""

    file: CudaText
    bodies: list[Piece]

    @classmethod
    def of(cls, file: CudaText, kernel: str) -> Reached:
        return cls(file, [function.body for function in reached(file, kernel)])


def other_order(kernel: Kernel, own: Function) -> list[Finding]:
    """The declared parameters, by their names, in another order."""
    names, declared = [v.name for v in own.parameters], [p.name for p in kernel.params]
    if names == declared or sorted(names) != sorted(declared):
        return []
    first = next(i for i, name in enumerate(names) if name != declared[i])
    facts = dict(declared=declared, number=first + 1, is_=declared[first], taken=names[first])
    return [Finding.of("other_order", own.parameters[first].line, **facts)]


def changed_lines(stub: Reached, mine: Reached) -> list[Finding]:
    """The only variable of the stub that has another value in the file, if that is based on the stub."""
    own, given = declared(mine), declared(stub)
    if not given.keys() <= own.keys():
        return []
    changed = [(v, own[name]) for name, v in given.items() if not says_the_same(v, own[name])]
    if len(changed) != 1:
        return []
    texts = [f"{v.type} {v.name} = {shown(v.value)}" for v in changed[0]]
    line = changed[0][1].line
    return [Finding.of("changed_line", line, stub=texts[0], mine=texts[1])]


def says_the_same(a: Variable, b: Variable) -> bool:
    """Whether two declarations have the same type and provably the same value."""
    if a.type != b.type:
        return False
    numbers = random.Random(1)
    known: dict[str, int] = defaultdict(lambda: numbers.randint(1, 40))
    for _ in range(TRIED):
        both = [computed(v.value, known) for v in (a, b)]
        if None in both or both[0] != both[1]:
            return words(a.value) == words(b.value)
        known.clear()
    return True


def declared(use: Reached) -> dict[str, Variable]:
    """The variables that a kernel declares once, with a value."""
    found: dict[str, list[Variable]] = {}
    for v in use.file.variables:
        if any(body.holds(v) for body in use.bodies):
            found.setdefault(v.name, []).append(v)
    return {name: all_of[0] for name, all_of in found.items() if len(all_of) == 1 and all_of[0].value}


def words(piece: Piece) -> list[str]:
    """`& 31` and `>> 5` are the same as `% 32` and `/ 32` if the left side is not negative."""
    found = [token.code for token in piece.tokens]
    for i, (sign, number) in enumerate(pairwise(found)):
        if sign in ("&", ">>") and number.isdecimal():
            power = int(number) + 1 if sign == "&" else 1 << int(number)
            if power & (power - 1) == 0:
                found[i : i + 2] = ["%" if sign == "&" else "/", str(power)]
    return found


_OTHER_WAYS = re.compile(r"thread_rank|thread_index|group_index|block_rank|block_index|asm|atomic")


def unused_axes(kernel: Kernel, mine: Reached, launches: Sequence[Launch]) -> Iterator[Finding]:
    """An axis of the launch in which no thread reads its index."""
    asked = indices_in(mine)
    if not all(e.kind == "field_expression" for e in asked) or _OTHER_WAYS.search(mine.file.text):
        return
    used = {e.code for e in asked}
    for name, part in (("threadIdx", "block"), ("blockIdx", "grid")):
        for i, axis in enumerate("xyz"):
            shapes = [s for each in launches if (s := triple(getattr(each, part), part))[i] > 1]
            if shapes and f"{name}.{axis}" not in used:
                shape = " x ".join(map(str, shapes[0][: 1 + max(k for k in range(3) if shapes[0][k] > 1)]))
                facts = dict(index=f"{name}.{axis}", shape=shape, of=part)
                yield Finding.of("unused_axis", kernel=kernel.name, **facts)


def indices_in(mine: Reached) -> list[Piece]:
    """What threadIdx and blockIdx are part of: `threadIdx.x`, if no more than that."""
    names = (p for body in mine.bodies for p in body.all("identifier"))
    return [p.outer for p in names if p.code in ("threadIdx", "blockIdx")]
