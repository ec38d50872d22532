"""Whether a kernel that runs out of time in a derived case never ends, or is only slow, as a right one may be.

The time that a slow kernel takes grows with the length of an axis step by step. One that never ends, since a short cannot
count so far, takes little time up to a length, and all time from there on. Lengths that types count to are tried first.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

from ..course.declare import Puzzle
from ..cuda.values import Tunables
from ..devices.child import Child
from ..errors import BackwarpError
from .derived import shortened
from .runs import Outcome, Pace, Setup, Trial

LIMIT = 1.5  # seconds of processor time of a launch
COUNTED = 1 << 24, 1 << 16, 1 << 15, 1 << 8, 1 << 7
NEXT = 64  # lengths that differ by twice this take a slow kernel much the same time
CLOSE = 1.25  # lengths of which one is at most so many times the other
GROWS = 16  # times what a slow kernel takes for the shorter one is more than it takes for the longer one
SAME = 3  # the same for next lengths
FEWER = 1 / 8  # of a length, where nothing shorter is known to end


def is_slow(trial: Trial, puzzle: Puzzle, setup: Setup, t: Tunables, seed: int, given: Callable) -> bool:
    """trial: that ran out of time. False if the kernel never ends, or is wrong with shorter axes already."""

    def run(part: float, limit: float) -> tuple[Outcome, float]:
        """With axes of this part of their length: (what happens, seconds of processor time), which no other work changes."""
        case, kernel = shortened(trial.outcome.case, part), trial.outcome.kernel
        shorter = Trial(Outcome(case, kernel), Pace(longest=limit))
        shorter.begin(puzzle, t, seed, given)
        spent = Child.spent_by_all()
        shorter.run(setup)
        return shorter.outcome, Child.spent_by_all() - spent

    budget = getattr(setup.device, "step_budget", 0)
    setup.device.step_budget = 1 << 60  # only time counts
    longest = max(size for size in trial.outcome.case.dims.values() if isinstance(size, int))
    ends, never, seconds = 0.0, 1.0, 0.0
    tried = [((n - NEXT) / longest, min((n + NEXT) / longest, 1.0)) for n in COUNTED if NEXT < n < longest]
    try:
        while never > CLOSE * ends and never > FEWER**4:
            at_types = ends == 0.0 and tried
            if trial.outcome.case.narrow and not at_types:  # elsewhere it would take too long
                return True
            part, beyond = tried.pop(0) if at_types else (sqrt(ends * never) if ends else FEWER * never, 0)
            outcome, spent = run(part, LIMIT)
            if outcome.kind and not outcome.timed_out:
                return False
            if outcome.timed_out:
                never = part
            else:
                ends, seconds = part, spent
                if at_types and run(beyond, SAME * seconds + 0.5)[0].kind:
                    return False
        return not run(never, GROWS * seconds + 0.5)[0].kind
    except (BackwarpError, ArithmeticError, ValueError, LookupError):  # there is no such case
        return True
    finally:
        setup.device.step_budget = budget
