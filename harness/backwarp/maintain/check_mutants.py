"""The mutants of a solution must fail, as the mistakes that a puzzle declares must. See check."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..course.declare import Kernel, Puzzle
from ..course.mistakes import Mistake
from ..grading.grade import Options
from .check_mistakes import SMALLEST, Examination, graded, impatient, solution_text
from .mutants import Mutant, mutants

LIST = "solutions/equivalent.toml"
TOGETHER = 72  # that are compiled together
ENDLESS = 0.5  # seconds of processor time of a launch without checks; solutions take 0.1 at most
NOT_RUN = {"compile", "unsupported", "device"}  # what befalls all that are compiled together
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
    """Those of these mutants that grading does not fail. Most fail in a build that compiles and runs quickly; what is only
    slow is counted before it runs with all checks, where it takes longest; the rest are graded alone, and then as a student's file."""
    for build in ("draft", "count", "full"):
        parts = (own[first : first + TOGETHER] for first in range(0, len(own), TOGETHER))
        own = [m for part in parts for m in sieved(puzzle, kernel, part, build)]
    with Examination(replace(puzzle, mistakes=tuple(own)), kernel) as last:
        own = [m for m in own if graded(*last.with_gates(m), BRIEF, impatient).passed]
    whole = solution_text(puzzle)  # other kernels may call what is changed
    return [m for m in own if graded(puzzle, m.apply(whole), BRIEF, impatient).passed]


def sieved(puzzle: Puzzle, kernel: Kernel, own: Sequence[Mistake], build: str) -> Sequence[Mistake]:
    """Those of these mistakes that pass in one build. Where they do not compile together, each half is tried; also one that
    does not compile alone passes."""
    with Sieve(puzzle, kernel, own, build) as sieve:
        if (found := sieve.passed()) is not None or len(own) == 1:
            return own if found is None else found
    halves = own[: len(own) // 2], own[len(own) // 2 :]
    return [m for half in halves for m in sieved(puzzle, kernel, half, build)]


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
    """Mutants of one kernel, compiled together and run in the usual cases of one build; if that counts, through its gates."""

    def __init__(self, puzzle: Puzzle, kernel: Kernel, own: Sequence[Mistake], build: str):
        super().__init__(replace(puzzle, mistakes=tuple(own)), kernel, shortly=True)
        self.build, self.longest = build, ENDLESS if build == "draft" else math.inf

    def first_build(self, mistake: Mistake) -> str:
        return self.build

    def needs(self, mistake: Mistake, checks: str) -> bool:
        return checks == self.build

    def passed(self) -> list[Mistake] | None:
        """None if they cannot be graded together, since one of them, or their number, is too much for a compiler."""
        puzzle, options = self.fewer[-1], replace(BRIEF, given=self.given_once, optimised=False)
        if self.build == "count":
            puzzle, options = self.reduced, replace(options, most=SMALLEST[0])
            if not puzzle.gates:
                return list(self.own.values())
        kinds = {}
        for m in self.own.values():
            kinds[m] = self.grade(puzzle, m, self.texts[m.name], options).kind
            if kinds[m] in NOT_RUN:
                return None
        return [m for m, kind in kinds.items() if not kind]
