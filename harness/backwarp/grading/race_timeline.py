"""The timeline of a race: what two threads did to the element in that barrier interval, from a second run.

`timeline` runs the kernel again, recording every access. Nothing here draws; see report/race.py.
"""

from __future__ import annotations

from typing import Any

from ..course.declare import Puzzle
from ..cuda.values import tunables
from ..devices.launching import triple
from ..devices.virtual.run.trace import Steps
from ..errors import KernelFault
from .runs import Outcome, Pace, Setup, Trial, place, start
from .sentences import nth_line

MOST_STEPS = 1 << 20  # per launch: 40 MB
MOST_EVENTS = 5  # shown


def timeline(puzzle: Puzzle, source: str, raced: Outcome, setup: Setup, seed: int = 0) -> dict[str, Any]:
    """The timeline of the race in an outcome, in JSON's types; {} if it does not happen again.

    array, index: the element. threads, blocks: coordinates of the two. begins, ends: the lines of the
    barriers around the interval, 0 for the start and the end of the block. events: in time order, {"who": 0 |
    1, "access", "line", "text", "race": is it one of the two that race}. missing: see `missing`.
    same_warp: are both threads lanes of one warp?
    """
    again, shape, steps = recorded(puzzle, source, raced, setup, seed)
    found = from_fault(raced.error, *shape, source, steps) if again else {}
    # it may name other threads of the race, because more reads are checked
    return found or (from_fault(again, *shape, source, steps) if again else {})


def recorded(
    puzzle: Puzzle, source: str, failed: Outcome, setup: Setup, seed: int, most: int = MOST_STEPS
) -> tuple[KernelFault | None, tuple, Steps | None]:
    """(the outcome's fault if it happens again, grid and block, at most `most` of its steps)."""
    trial = Trial(Outcome(failed.case, failed.kernel), Pace())
    trial.begin(puzzle, tunables(source), seed)
    setup.device.keep_steps = most
    shape = triple(trial.launch.grid, "grid"), triple(trial.launch.block, "block")
    handles = {p.name: place(setup.device, p, trial) for p in failed.kernel.passed}
    try:
        start(trial, setup, setup.schedules[0], handles)
    except KernelFault as again:
        return again, shape, getattr(again.launch, "steps", None)
    finally:
        setup.device.keep_steps = 0
    return None, shape, None


def from_fault(
    fault: KernelFault, grid: tuple, block: tuple, source: str, steps: Steps | None
) -> dict[str, Any]:
    """`timeline` for a fault in a launch that recorded its steps."""
    if fault.kind != "race" or not fault.access or not steps:
        return {}
    places = (fault.other, fault)
    blocks = [linear(p.block, grid) for p in places]
    threads = [linear(p.thread, block) for p in places]
    own = [steps.of(b, t) for b, t in zip(blocks, threads, strict=True)]  # everything the two threads do
    here = steps.touching(fault.address)
    racing = [
        [s for s in of_thread if s.at in here and s.line == p.line and s.kind == p.access]
        for of_thread, p in zip(own, places, strict=True)
    ]
    together = blocks[0] == blocks[1]
    pairs = [(a, b) for a in racing[0] for b in racing[1] if a.interval == b.interval or not together]
    if not pairs:
        return {}
    pair = min(pairs, key=lambda ab: (ab[0].interval, abs(ab[0].at - ab[1].at)))
    intervals = [s.interval for s in pair]
    own = [[s for s in of_thread if s.interval == i] for of_thread, i in zip(own, intervals, strict=True)]
    events = sorted((s.at, who, s) for who in (0, 1) for s in own[who] if s.at in here)
    begins = (
        next((s.line for s in steps.barriers(blocks[0]) if s.interval == intervals[0]), 0) if together else 0
    )
    ends = (
        next((s.line for s in steps.barriers(blocks[0]) if s.interval > intervals[0]), 0) if together else 0
    )
    return {
        "array": fault.array,
        "index": fault.index,
        "begins": begins,
        "ends": ends,
        "threads": [list(p.thread) for p in places],
        "blocks": [list(p.block) for p in places],
        "same_warp": together and threads[0] // 32 == threads[1] // 32,
        "events": [
            {
                "who": who,
                "access": s.kind,
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
    done = {(s.thread, s.block, s.kind) for s in events if s.line in lines}
    updates = all((s.thread, s.block, kind) in done for s in pair for kind in ("read", "write"))
    if not together:
        return {"kind": "blocks", "updates": updates} | ({"signal": True} if fault.signal else {})
    if fault.signal:
        return {"kind": "signal", "signal": True}
    if fault.no_barrier:
        return {"kind": "one thread", "lines": lines, "updates": updates}
    passes = [
        sum(s.site == racing.site and s.at <= racing.at for s in steps)
        for racing, steps in zip(pair, own, strict=True)
    ]
    if a.line == b.line and passes[0] == passes[1]:
        changing = {s.thread for s in events if s.line == a.line and s.kind != "read"}
        if {a.thread, b.thread} <= changing:
            return {"kind": "one thread", "lines": lines, "updates": updates}
        return {"kind": "within", "line": a.line}
    if fault.wait:
        used = next(s.line for s in pair if s.kind == "read")
        return {"kind": "barrier", "after": fault.wait, "before": used, "again": used <= fault.wait}
    first, last = (a, b) if comes_first(a, b, own, passes) else (b, a)
    return {"kind": "barrier", "after": first.line, "before": last.line, "again": last.line <= first.line}


def comes_first(a, b, own: list[list], passes: list[int]) -> bool:
    """Does `a` come before `b` in the program?

    Decided by a thread of the two that executes both instructions, counting executions up to the race.
    """
    for steps in own:
        places = []
        for racing, count in zip((a, b), passes, strict=True):
            executed = [i for i, s in enumerate(steps) if s.site == racing.site]
            places += executed[count - 1 : count]
        if len(places) == 2:
            return places[0] < places[1]
    return a.line < b.line
