"""Where a run stops: at lines, at accesses of elements, at its fault, where a wrong result is written. Each is a list of moments; some
ask for more."""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..devices.virtual.replay.expressions import Expression
from ..devices.virtual.replay.record import ATOMIC, LOAD, SOURCE, WRITING
from ..devices.virtual.replay.replay import Replay
from .wire import Refused

ACCESSES = {"read": (LOAD, ATOMIC, SOURCE), "write": WRITING}
ACCESSES["readWrite"] = (*ACCESSES["read"], *WRITING)
_COUNTS = {
    **{"": operator.ge, ">=": operator.ge, ">": operator.gt, "==": operator.eq, "=": operator.eq},
    **{"<": operator.lt, "<=": operator.le, "%": lambda count, of: count % of == 0},
}


def counter(text: str) -> Callable[[int], bool]:
    """`3`: from the third time on; `== 3`, `> 3`, `% 3` and the like. Errors: Refused."""
    found = re.fullmatch(r"\s*(>=|>|==|=|<=|<|%|)\s*(\d{1,9})\s*", text)
    if not found or found[1] == "%" and not int(found[2]):
        raise Refused(f"{text.strip()} is no number of times, such as 3, == 3 or % 3")
    return lambda count: _COUNTS[found[1]](count, int(found[2]))


@dataclass
class Stop:
    """whose: moment -> the threads that come there. reason: the protocol's. said: what happens there. log: a text to print instead of
    stopping."""

    reason: str
    whose: dict[int, tuple[int, ...]]
    said: str = ""
    replay: Replay | None = None
    condition: Expression | None = None
    hits: Callable[[int], bool] | None = None
    log: str = ""
    number: int = 0
    _held: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _seen: int = 0  # of its times
    _met: list[int] = field(default_factory=list)  # those of them at which the condition holds

    @cached_property
    def times(self) -> list[int]:
        return sorted(self.whose)

    def at(self, t: int) -> tuple[int, ...]:
        """The threads that it stops at a moment. How often it was reached counts from the start of the run."""
        found = self._meeting(t)
        return () if found and self.hits and not self.hits(self._count(t)) else found

    def _count(self, t: int) -> int:
        for u in self.times[self._seen : bisect_right(self.times, t)]:
            self._met += [u] if self._meeting(u) else []
            self._seen += 1
        return bisect_right(self._met, t)

    def _meeting(self, t: int) -> tuple[int, ...]:
        """Those for which the condition holds."""
        if self.condition is None:
            return self.whose.get(t, ())
        if t not in self._held:
            self._held[t] = tuple(w for w in self.whose.get(t, ()) if self.replay.holds(self.condition, w, t))
        return self._held[t]


def asked(asks: dict[str, str], replay: Replay) -> dict:
    """Of a breakpoint that its user has written: the fields of Stop. Errors: Refused."""
    try:
        condition = Expression(asks["condition"]) if asks["condition"].strip() else None
    except ValueError as error:
        raise Refused(str(error)) from None
    hits = counter(asks["hitCondition"]) if asks["hitCondition"].strip() else None
    return dict(replay=replay, condition=condition, hits=hits, log=asks["logMessage"])


def coming_to(replay: Replay, line: int) -> dict[int, tuple[int, ...]]:
    """Moment -> the threads that are at a line."""
    return {t: tuple(m.steps) for t, m in enumerate(replay.moments) if m.line == line}


def touching(replay: Replay, array: str, element: int, block: int, kind: str) -> dict[int, tuple[int, ...]]:
    """Moment -> the threads that access an element so."""
    found = replay.touching(array, element, block)
    found = found[np.isin(found["how"], ACCESSES[kind])]
    whose: dict[int, tuple[int, ...]] = {}
    for t, who in zip(replay.time[found["row"]].tolist(), found["who"].tolist(), strict=True):
        whose[t] = (*whose.get(t, ()), who)
    return whose
