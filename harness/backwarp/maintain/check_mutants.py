"""The mutants of a solution must fail, as the mistakes that a puzzle declares must. See check."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..course.declare import Kernel, Puzzle
from ..course.mistakes import Mistake
from ..grading.grade import Options
from .check_mistakes import Examination, graded, impatient, solution_text
from .mutants import Mutant, mutants

LIST = "solutions/equivalent.toml"
TOGETHER = 72  # that are compiled together
#: without a diagnosis
BRIEF = Options("cpu", 0, patience=0, foresee=lambda *_: None, again=False, unnamed=False)


def wrong_mutants(puzzle: Puzzle, kernel: Kernel, most: int = 0) -> Iterator[str]:
    """Problems with the mutants of one kernel, or with this many of them."""
    every, known = mutants(solution_text(puzzle), kernel.name), equivalent(puzzle, kernel)
    for name in known - {m.name for m in every}:
        yield f"{LIST} lists {name!r} of {kernel.name}, which is no mutant any more"
    own = [m for m in every if m.name not in known]
    for m in passed(puzzle, kernel, own[:: max(len(own) // most, 1)] if most else own):
        yield (
            f"{kernel.name} passes with line {m.edit[0]} changed to {m.name!r}: if it is wrong, a case has to show it; "
            f"if it is right, {LIST} has to say why"
        )


def passed(puzzle: Puzzle, kernel: Kernel, own: Sequence[Mutant]) -> list[Mutant]:
    """Those of these mutants that grading does not fail: tried without checks, then with all, then as a student's file."""
    for build in ("draft", "full"):
        left = []
        for first in range(0, len(own), TOGETHER):
            with Sieve(puzzle, kernel, own[first : first + TOGETHER], build) as sieve:
                left += sieve.passed()
        own = left
    texts = {m: m.apply(solution_text(puzzle)) for m in own}
    return [m for m, text in texts.items() if graded(puzzle, text, BRIEF, impatient).passed]


def wrong_ones(puzzle: Puzzle, every: int = 1) -> list[Mistake]:
    """The mistakes that a puzzle declares, and every so many of its mutants, each named with its kernel."""
    found = []
    for kernel in puzzle.kernels:
        own, known = mutants(solution_text(puzzle), kernel.name), equivalent(puzzle, kernel)
        found += [replace(m, name=f"{kernel.name}: {m.name}") for m in own if m.name not in known]
    return [*puzzle.mistakes, *found[::every]]


def equivalent(puzzle: Puzzle, kernel: Kernel) -> set[str]:
    """The names of a kernel's mutants that are right."""
    listed = tomllib.loads((puzzle.root / LIST).read_text(encoding="utf-8"))
    return {name for names in listed.get(puzzle.number, {}).get(kernel.name, {}).values() for name in names}


class Sieve(Examination):
    """Mutants of one kernel, compiled together and run in the smallest cases of one build, without gates."""

    def __init__(self, puzzle: Puzzle, kernel: Kernel, own: Sequence[Mutant], build: str):
        super().__init__(replace(puzzle, mistakes=tuple(own)), kernel, shortly=True)
        self.build = build

    def first_build(self, mistake: Mutant) -> str:
        return self.build

    def needs(self, mistake: Mutant, checks: str) -> bool:
        return checks == self.build

    def passed(self) -> Iterator[Mutant]:
        """Also all, if one of them does not compile."""
        options = replace(BRIEF, given=self.given_once, optimised=False)
        for m in self.own.values():
            kinds = (self.grade(puzzle, m, self.texts[m.name], options).kind for puzzle in self.fewer)
            if next(filter(None, kinds), "compile") == "compile":
                yield m
