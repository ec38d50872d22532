"""How much work goes into finding a cause. It is counted, not timed, so that a verdict is the same on every
machine."""

from __future__ import annotations

from ...devices.child import Child

MOST = 5000
LAUNCH, RIGHT = 4, 1  # cost of a launch of the kernel, or of computing the right result
ACCESSES = 4000  # of a launch, that cost 1 more
FAILED = 250  # cost of a launch that fails: it takes long and shows nothing
SECONDS = 100.0  # of processor time: something hangs
OFTEN = 16  # launches and computations between two checks of the time


class Spent(Exception):
    """The budget is used up."""


class Budget:
    """The work that is left. `spend` raises Spent."""

    def __init__(self, most: int | None = None):
        self.left, self.steps = MOST if most is None else most, 0
        self.end = Child.spent_by_all() + SECONDS

    def spend(self, count: int) -> None:
        self.left -= count
        self.steps += 1
        if self.left < 0 or self.steps % OFTEN == 0 and Child.spent_by_all() > self.end:
            self.left = -1
            raise Spent
