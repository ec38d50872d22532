"""The orders in which a launch runs whose threads observe others' work in memory.

What such a thread sees, and so what it does, depends on when it looks: some races show only if it comes late, or between
two steps of another thread. A launch therefore runs in at least two orders, in more of them the less there is to do, and
each starts from the same memory:

* `AHEAD`: each thread goes on for as long as it can, so that who comes later finds everything done;
* `EARLIER`: the same, with blocks and threads in the opposite order;
* random ones: threads in a random order, many of which do not look before others have changed something;
* `IN_STEP`, the last, whose results count: each thread pauses after all that it reads, so that an update in two steps is
  lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

MOST = 28  # orders of a launch
WORK = 1 << 16  # steps of threads in all of them: their beginnings, looks, synchronisations, loops


@dataclass(frozen=True)
class Order:
    """reversed: opposite to the plan's. steps: whether threads pause after they have read what others change.

    seed: of a random order instead. Threads then stop, in so many of eight cases, `after` an access that others can see and
    `before` a look; until others have changed `anything`, or, before a look, what they look at.
    """

    reversed: bool = False
    steps: bool = True
    seed: int = 0
    after: int = 0
    before: int = 0
    anything: bool = True


#: (after, before, anything) of random orders. Stopping before each look lets a message pass through any number of threads;
#: stopping after accesses lets others come between two of them
_MANNERS = ((0, 6, True), (8, 0, True), (0, 8, False), (2, 6, True))
AHEAD, EARLIER, IN_STEP = Order(steps=False), Order(True, steps=False), Order(True)


def between(schedule: int, steps: bool, work: Callable[[], int]) -> Iterator[Order]:
    """Those after AHEAD and before IN_STEP. steps: whether threads may pause. work: how much the last launch did."""
    spent, random = work(), schedule << 8
    for i in range(1, MOST - 1) if steps else ():
        if spent + work() > WORK:
            return
        yield Order(False, True, random + i, *_MANNERS[i % len(_MANNERS)]) if i > 1 else EARLIER
        spent += work()
