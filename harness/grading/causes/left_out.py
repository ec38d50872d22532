"""A tile in shared memory that is filled only where a condition holds, and read everywhere.

Whether a 0 is missing elsewhere is found by storing it: the kernel is run again with that `else`, and must be right.
"""

from __future__ import annotations

from ...course.cuda_pieces import Piece
from ...course.cuda_text import edited, read
from ...course.cuda_values import tunables
from ...course.declare import Puzzle
from ...errors import BackwarpError
from ..runs import Outcome, Pace, Setup, Trial, prepared, run_once
from .findings import shown


def of_trial(puzzle: Puzzle, source: str, failed: Outcome, setup: Setup, seed: int) -> list[str]:
    """What is told of an uninitialised element of shared memory that was read in an outcome."""
    fault, kernel = failed.error, failed.kernel
    if fault.kind != "uninitialised-read" or "__shared__" not in fault.headline or failed.case.stress:
        return []
    own = read(source).function(kernel.name)
    stores = own.body.all("assignment_expression") if own else ()
    stores = [store for store in stores if store.part("left").indexed.code == fault.array]
    stores = [store for store in stores if store.part("operator").code == "="]
    test = governing_if(stores[0]) if len(stores) == 1 else None
    if not test:
        return []
    text = edited(source, [(test, f"{test.code} else {{ {stores[0].part('left').code} = 0; }}")])
    trial = Trial(Outcome(failed.case, kernel), Pace())
    trial.begin(puzzle, tunables(source), seed)
    try:
        done = run_once(trial, prepared(text, puzzle, kernel, setup), setup.schedules[0])
    except BackwarpError:
        return []
    if not done or done.mismatches:
        return []
    return [
        f"Line {stores[0].line} stores into {fault.array} only where {shown(test.part('condition'))}, and elements that it "
        "leaves out are read as well: elsewhere, store a 0."
    ]


def governing_if(store: Piece) -> Piece | None:
    """The `if` without `else` whose body is just a store."""
    statement = store.outer
    while (
        statement.outer and statement.outer.kind == "compound_statement" and len(statement.outer.parts) == 1
    ):
        statement = statement.outer
    test = statement.outer
    return test if test and test.kind == "if_statement" and not test.part("alternative") else None
