"""A tile in shared memory that is filled only where a condition holds, and read everywhere.

Whether a 0 is missing elsewhere is found by storing it: the kernel is run again with that `else`, and must be right.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...course.declare import Puzzle
from ...cuda.parts import shown
from ...cuda.pieces import Function, Piece
from ...cuda.text import edited, read
from ...cuda.tree import LOOPS
from ...cuda.values import tunables
from ...errors import BackwarpError
from ..runs import Outcome, Pace, Setup, Trial, prepared, run_once


def of_trial(puzzle: Puzzle, source: str, failed: Outcome, setup: Setup, seed: int) -> list[str]:
    """What is told of an uninitialised element of shared memory that was read in an outcome."""
    fault, kernel = failed.error, failed.kernel
    if fault.kind != "uninitialised-read" or "__shared__" not in fault.headline or failed.case.stress:
        return []
    own = read(source).function(kernel.name)
    tiles = conditional_stores(own) if own else {}
    if fault.array not in tiles:
        return []
    for chosen in dict.fromkeys([(fault.array,), (fault.array, *sorted(tiles.keys() - {fault.array}))]):
        edits = [zero_before(*tiles[name]) for name in chosen]
        trial = Trial(Outcome(failed.case, kernel), Pace())
        trial.begin(puzzle, tunables(source), seed)
        try:
            done = run_once(trial, prepared(edited(source, edits), puzzle, kernel, setup), setup.schedules[0])
        except BackwarpError:
            continue
        if done and not done.mismatches:
            return [told(name, *tiles[name]) for name in chosen]
    return []


def told(array: str, store: Piece, tests: Sequence[Piece]) -> str:
    conditions = " and ".join(shown(test.part("condition")) for test in reversed(tests))
    return (
        f"Line {store.line} stores into {array} only where {conditions}, and elements that it leaves out are read as well: "
        "elsewhere, store a 0."
    )


def zero_before(store: Piece, tests: Sequence[Piece]) -> tuple[Piece, str]:
    return tests[-1], f"{{ {store.part('left').code} = 0; {tests[-1].code} }}"


def conditional_stores(own: Function) -> dict[str, tuple[Piece, list[Piece]]]:
    """The arrays in shared memory that are stored into at one place, with the store and the conditions it is under."""
    stores: dict[str, list[Piece]] = {}
    for store in own.body.all("assignment_expression"):
        name = store.part("left").indexed.code
        array = own.file.variable_at(name, store.start)
        if array and "__shared__" in array.words and store.part("left").kind == "subscript_expression":
            stores.setdefault(name, []).append(store)
    found = {name: (only, tests_of(only)) for name, (only, *more) in stores.items() if not more}
    return {
        name: (store, tests)
        for name, (store, tests) in found.items()
        if tests and store.part("operator").code == "="
    }


def tests_of(store: Piece) -> list[Piece]:
    """Each `if` without `else` around a store, innermost first, as far as what the element's index names is known before."""
    file, found = store.file, []
    names = [*store.part("left").all("identifier")]
    for outer in file.around(store.start, "if_statement", *LOOPS, "else_clause"):
        known = all(file.variable_at(n.code, n.start) == file.variable_at(n.code, outer.start) for n in names)
        if outer.kind != "if_statement" or outer.part("alternative") or not known:
            break
        found.append(outer)
    return found
