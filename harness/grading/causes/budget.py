"""How much is tried to find a cause. It is counted, so that a verdict is the same on every machine."""

from __future__ import annotations

from ...devices.child import Child

MOST = 5000
LAUNCH, RIGHT = 4, 1  # what a launch of the kernel counts, and a computation of the right result
ACCESSES = 4000  # of a launch, that count 1 more
FAILED = 250  # what a launch that fails counts: it tells nothing, and takes long
SECONDS = 20.0  # of processor time: far more than MOST takes, but for kernels that are very slow
OFTEN = 16  # launches and computations between two looks at the time


class Spent(Exception):
    """Nothing more is tried."""


class Budget:
    """What is left of it. Errors, of `spend`: Spent."""

    def __init__(self, most: int | None = None):
        self.left, self.steps = MOST if most is None else most, 0
        self.end = Child.spent_by_all() + SECONDS

    def spend(self, count: int) -> None:
        self.left -= count
        self.steps += 1
        if self.left < 0 or self.steps % OFTEN == 0 and Child.spent_by_all() > self.end:
            self.left = -1
            raise Spent
