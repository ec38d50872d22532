"""The timeline of a race: what two threads did to the element in that barrier interval, from a record of the run.

`timeline` runs the kernel again, recorded. Nothing here draws; see report/pictures/race.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..course.declare import Puzzle
from ..cuda.values import tunables
from ..devices.launching import triple
from ..devices.virtual.replay.record import ATOMIC, COPY, KIND, LANDS, STORE, Record
from ..devices.virtual.run.record import MOST_BLOCKS
from ..errors import BackwarpError, KernelFault
from .runs import Outcome, Pace, Setup, Trial, start_again
from .sentences import nth_line

ROWS = 1 << 20  # of a record: 16 MB; all threads of all small cases have fewer
MOST_EVENTS = 5  # shown
PASS = KIND["pass"]


def timeline(puzzle: Puzzle, source: str, raced: Outcome, setup: Setup, seed: int = 0) -> dict[str, Any]:
    """The timeline of the race in an outcome, in JSON's types; {} if it does not happen again.

    array, index: the element. threads, blocks: coordinates of the two. begins, ends: the lines of the
    barriers around the interval, 0 for the start and the end of the block. events: in time order, {"who": 0 |
    1, "access", "line", "text", "race": is it one of the two that race}. missing: see `missing`.
    same_warp: are both threads lanes of one warp?
    """
    again, record = recorded(puzzle, source, raced, setup, seed)
    return from_fault(raced.error, source, record) or from_fault(again, source, record)


def recorded(
    puzzle: Puzzle, source: str, failed: Outcome, setup: Setup, seed: int
) -> tuple[KernelFault | None, Record | None]:
    """(the outcome's fault if it happens again, the record of its block; of a race, of its two threads)."""
    trial = Trial(Outcome(failed.case, failed.kernel), Pace())
    trial.begin(puzzle, tunables(source), seed)
    fault = failed.error
    grid, block = (triple(each, "grid") for each in (trial.launch.grid, trial.launch.block))
    # of others than races, the other side is where the value goes
    sides = (fault, fault.other) if fault.kind == "race" else (fault,)
    pair = [linear(side.thread, block) | linear(side.block, grid) << 10 for side in sides if side]
    only = dict(pair=tuple(pair)) if len(pair) == 2 else dict(first=pair[0] >> 10, blocks=1)
    done = kept(setup.device, partial(start_again, trial, setup), **only)
    return done if isinstance(done[0], KernelFault) else (None, None)


def kept(
    device, launch: Callable[[], object], first: int = 0, blocks: int = MOST_BLOCKS, pair: tuple = ()
) -> tuple[BackwarpError | None, Record | None]:
    """(what ended a launch, the record of its blocks from the first, or of a pair of threads)."""
    device.keep_rows, device.rows_first, device.rows_blocks, device.rows_pair = ROWS, first, blocks, pair
    try:
        error, done = None, launch()
    except BackwarpError as ended:
        error, done = ended, getattr(ended, "launch", None)
    finally:
        device.keep_rows, device.rows_first, device.rows_blocks, device.rows_pair = 0, 0, MOST_BLOCKS, ()
    record = getattr(done, "record", None)
    return error, Record(record) if record else None


@dataclass(frozen=True)
class Event:
    """An access. at: its row; interval: barriers before it; what: the number of its point; here: of the word raced for."""

    at: int
    access: str
    line: int
    interval: int
    who: int
    what: int
    here: bool


def events_of(record: Record, who: int, array: int, offset: int) -> list[Event]:
    """All accesses of a thread, in order. array, offset: where the race is."""
    every = record.accesses
    mine = every[(every["who"] == who) & (every["how"] != COPY)]
    mine = mine[np.argsort(mine["row"], kind="stable")]
    ends = mine["offset"] + mine["nbytes"]
    here = (mine["array"] == array) & (mine["offset"] // 4 <= offset // 4) & (offset // 4 * 4 < ends)
    intervals = np.searchsorted([row for row, _ in passes(record, who)], mine["row"])
    found = []
    for a, interval, there in zip(mine, intervals.tolist(), here.tolist(), strict=True):
        began = every[int(a["first"]) - 1] if a["how"] == LANDS else a
        access = "atomic" if a["how"] == ATOMIC else "write" if a["how"] in (STORE, LANDS) else "read"
        what = int(record.point[began["row"]])
        found.append(Event(int(a["row"]), access, int(a["line"]), interval, who, what, there))
    return found


def passes(record: Record, who: int) -> list[tuple[int, int]]:
    """(row, line) of each barrier that a thread has passed."""
    rows = record.threads.get(who, np.empty(0, np.int64))
    points = ((row, record.of(row)) for row in rows[record.kind[rows] == PASS].tolist())
    return [(row, point[1]) for row, point in points if point[4] == "block"]


def from_fault(fault: KernelFault | None, source: str, record: Record | None) -> dict[str, Any]:
    """`timeline` for a fault in a launch that was recorded."""
    if not fault or fault.kind != "race" or not fault.access or not record:
        return {}
    places = (fault.other, fault)
    array, offset = record.place(fault.address)
    whos = [record.who_of(p.thread, p.block) for p in places]
    own = [events_of(record, who, array, offset) for who in whos]  # all that the two threads do
    sides = zip(own, places, strict=True)
    racing = [[s for s in all_ if s.here and (s.line, s.access) == (p.line, p.access)] for all_, p in sides]
    together = whos[0] >> 10 == whos[1] >> 10
    pairs = [(a, b) for a in racing[0] for b in racing[1] if a.interval == b.interval or not together]
    if not pairs:
        return {}
    pair = min(pairs, key=lambda ab: (ab[0].interval, abs(ab[0].at - ab[1].at)))
    intervals = [s.interval for s in pair]
    own = [[s for s in of_thread if s.interval == i] for of_thread, i in zip(own, intervals, strict=True)]
    events = sorted([(s.at, who, s) for who in (0, 1) for s in own[who] if s.here], key=lambda e: e[:2])
    barriers = [0, *(line for _, line in passes(record, whos[0])), 0] if together else [0, 0]
    begins, ends = barriers[intervals[0] * together :][:2]
    return {
        "array": fault.array,
        "index": fault.index,
        "begins": begins,
        "ends": ends,
        "threads": [list(p.thread) for p in places],
        "blocks": [list(p.block) for p in places],
        "same_warp": whos[0] >> 5 == whos[1] >> 5,
        "events": [
            {
                "who": who,
                "access": s.access,
                "line": s.line,
                "text": nth_line(source, s.line).strip(),
                "race": s in pair,
            }
            for _, who, s in around(events, pair)
        ],
        "missing": missing(pair, own, [s for *_, s in events], together, fault),
    }


def linear(at: tuple[int, int, int], extent: tuple[int, int, int]) -> int:
    return at[0] + extent[0] * (at[1] + extent[1] * at[2])


def around(events: list, pair: tuple) -> list:
    """At most MOST_EVENTS, including the two that race."""
    where = sorted(i for i, (*_, s) in enumerate(events) if s in pair)
    if where[1] - where[0] + 1 > MOST_EVENTS:
        return [events[i] for i in where]
    spare = MOST_EVENTS - (where[1] - where[0] + 1)
    first = max(0, min(where[0] - spare // 2, len(events) - MOST_EVENTS))
    return events[first : first + MOST_EVENTS]


def missing(pair: tuple, own: list[list], events: list, together: bool, fault: KernelFault) -> dict[str, Any]:
    """The remedy that would order the two accesses.

    kind: "barrier", between line `after` and line `before` (`again`: when it is reached again, in the next
    iteration of a loop); "within", one line reads what another thread writes in it; "one thread", both change
    the element in the `lines`, where no barrier would order them; "blocks", which no barrier orders either.
    updates: both threads read and write the element in these lines. signal: one thread signals the other, without fences.
    """
    a, b = pair
    lines = sorted({a.line, b.line})
    done = {(s.who, s.access) for s in events if s.line in lines}
    updates = all((s.who, access) in done for s in pair for access in ("read", "write"))
    if not together:
        return {"kind": "blocks", "updates": updates} | ({"signal": True} if fault.signal else {})
    if fault.signal:
        return {"kind": "signal", "signal": True}
    if fault.no_barrier:
        return {"kind": "one thread", "lines": lines, "updates": updates}
    sides = zip(pair, own, strict=True)
    passes = [sum(s.what == racing.what and s.at <= racing.at for s in steps) for racing, steps in sides]
    if a.line == b.line and passes[0] == passes[1]:
        changing = {s.who for s in events if s.line == a.line and s.access != "read"}
        if {a.who, b.who} <= changing:
            return {"kind": "one thread", "lines": lines, "updates": updates}
        return {"kind": "within", "line": a.line}
    if fault.wait:
        used = next(s.line for s in pair if s.access == "read")
        return {"kind": "barrier", "after": fault.wait, "before": used, "again": used <= fault.wait}
    first, last = (a, b) if comes_first(a, b, own, passes) else (b, a)
    return {"kind": "barrier", "after": first.line, "before": last.line, "again": last.line <= first.line}


def comes_first(a, b, own: list[list], passes: list[int]) -> bool:
    """Does `a` come before `b` in the program? As often executed up to the race, in a thread that executes both."""
    for steps in own:
        places = []
        for racing, count in zip((a, b), passes, strict=True):
            executed = [i for i, s in enumerate(steps) if s.what == racing.what]
            places += executed[count - 1 : count]
        if len(places) == 2:
            return places[0] < places[1]
    return a.line < b.line
