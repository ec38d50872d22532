"""A record as moments: one line that some lanes of a warp execute together. Time is their number.

Lanes of a warp advance together: of the lanes in the earliest barrier interval, those at the smallest place in the code
go first. Warps follow one another as they did in the run, barrier interval by barrier interval. If threads would then read
something else than they have read, as where they wait for one another through memory, or race, each line of a thread is a moment
of its own, in the order in which they ran.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from .record import ATOMIC, KIND, LANDS, LOAD, STORE, Record

_FLOW = [KIND[k] for k in ("line", "enter", "leave", "call", "back", "pass")]


@dataclass(slots=True, eq=False)
class Step:
    """One thread's execution of one line: [first, end) of its rows.

    frames: (function, line) of the calls that are expanded in the code, the innermost last. key: the points of the other calls, and
    its own. interval: block barriers that it has passed. begin: where its frame begins in the rows; block: the lexical one. at: its
    moment.
    """

    first: int
    line: int
    frames: tuple[tuple[str, int], ...]
    key: tuple[int, ...]
    interval: int
    begin: int = 0
    block: int = -1
    end: int = -1
    at: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """steps: who -> the number of its step. warp: number in the block | block << 5."""

    line: int
    steps: dict[int, int]
    warp: int
    interval: int
    frames: tuple[tuple[str, int], ...]


class Moments:
    """steps: of each thread. time: the moment of each row, int32[rows], -1 before a thread's first line. lockstep: whether lanes go
    together."""

    def __init__(self, record: Record, lockstep: bool | None = None):
        """lockstep: None: if that leads to the values that were read."""
        self.record = record
        self.steps = {who: _Lines(record, rows).found for who, rows in record.threads.items()}
        self.moments: list[Moment] = []
        self.time = np.full(len(record.rows), -1, np.int32)
        self.lockstep = lockstep is not False
        if self.lockstep:
            self._arrange()
        if lockstep is False or lockstep is None and not self.is_sound():
            self.lockstep, self.moments = False, []
            self._as_recorded()

    def _add(self, moment: Moment) -> None:
        for who, n in moment.steps.items():
            step = self.steps[who][n]
            step.at = len(self.moments)
            self.time[self.record.threads[who][step.first : step.end]] = step.at
        self.moments.append(moment)

    def _as_recorded(self) -> None:
        """One thread's line after the other, as they began; a line during which others ran is several moments."""
        rows, order = self.record.threads, []
        for who, of in self.steps.items():
            parts = []
            for s in of:
                cuts = s.first + 1 + np.flatnonzero(np.diff(rows[who][s.first : s.end]) != 1)
                for a, b in zip([s.first, *cuts.tolist()], [*cuts.tolist(), s.end], strict=True):
                    parts.append(Step(a, s.line, s.frames, s.key, s.interval, s.begin, s.block, b))
            self.steps[who] = parts
            order += [(int(rows[who][s.first]), who, n) for n, s in enumerate(parts)]
        for _, who, n in sorted(order):
            step = self.steps[who][n]
            self._add(Moment(step.line, {who: n}, who >> 5, step.interval, step.frames))

    def _arrange(self) -> None:
        warps: dict[int, list[int]] = {}
        for who, steps in self.steps.items():
            if steps:
                warps.setdefault(who >> 5, []).append(who)
        chunks = [chunk for warp, lanes in warps.items() for chunk in self._of_warp(warp, lanes)]
        first: dict[int, int] = {}  # blocks in the order in which they began; in each, interval by interval
        for at, _, warp, _ in chunks:
            first[warp >> 5] = min(at, first.get(warp >> 5, at))
        for _, _, _, moments in sorted(chunks, key=lambda c: (first[c[2] >> 5], c[1], c[0])):
            for moment in moments:
                self._add(moment)

    def _of_warp(self, warp: int, lanes: list[int]) -> list[tuple[int, int, int, list[Moment]]]:
        """(first row, interval, warp, its moments) of each interval of a warp."""
        chunks: list[tuple[int, int, int, list[Moment]]] = []
        heap = [(s.interval, s.key, who, 0) for who in lanes for s in self.steps[who][:1]]
        heapq.heapify(heap)
        while heap:
            interval, key = heap[0][:2]
            together: dict[int, int] = {}
            while heap and heap[0][:2] == (interval, key) and heap[0][2] not in together:
                _, _, who, n = heapq.heappop(heap)
                together[who] = n
            step = self.steps[who][n]
            if not chunks or chunks[-1][1] != interval:
                chunks.append((int(self.record.threads[who][step.first]), interval, warp, []))
            chunks[-1][3].append(Moment(step.line, together, warp, interval, step.frames))
            for who, n in together.items():
                for s in self.steps[who][n + 1 : n + 2]:
                    heapq.heappush(heap, (s.interval, s.key, who, n + 1))
        return chunks

    def is_sound(self) -> bool:
        """Whether no store, or arrival of a copy, changes places with another access of the same bytes. Atomics commute."""
        r, time = self.record, self.time
        a, how = r.accesses, r.accesses["how"]
        counts = np.isin(how, (LOAD, STORE, ATOMIC)) & (a["many"] > 0) | (how == LANDS)
        a = a[(a["array"] >= 0) & counts]
        if not len(a):
            return True
        how = a["how"]
        many = np.where(how == ATOMIC, 1, np.where(how == LANDS, a["nbytes"] // 4, a["many"])).astype(int)
        nth = np.arange(many.sum()) - np.repeat(many.cumsum() - many, many)
        size = np.repeat(a["nbytes"] // many, many).astype(np.int64)
        shared = np.array([held.space == "shared" for held in r.arrays])[a["array"]]
        block = np.repeat(np.where(shared, (a["who"] >> 10).astype(np.int64) + 1, 0), many)
        e = a[np.repeat(np.arange(len(a)), many)]
        where = (block << 40) + (e["array"].astype(np.int64) << 32) + e["offset"] + nth * size
        by = np.lexsort((nth, e["row"], time[e["row"]], where))
        where, how, row = where[by], e["how"][by], e["row"][by].astype(np.int64)
        key = np.cumsum(np.append(0, np.diff(where) != 0)) * (1 << 32) + row

        def latest(of: np.ndarray) -> np.ndarray:
            return np.append(-1, np.maximum.accumulate(np.where(of, key, -1))[:-1])

        stores = np.where(how == ATOMIC, latest(how != ATOMIC), latest(how >= 0))
        return not (key < np.where(how == LOAD, latest(how != LOAD), stores)).any()


class _Lines:
    """The steps of a thread. A line begins anew where one of its marks comes a second time; after a call, the rest of the caller's
    line is a step of its own if it does anything."""

    def __init__(self, record: Record, rows: np.ndarray):
        self.frames: list[list] = []  # [function, line, where it begins, lexical block]
        self.calls: list[int] = []
        self.seen: set[int] = set()  # marks of this step
        self.interval, self.steps = 0, []
        kinds, points = record.kind[rows], record.point[rows]
        flow = np.flatnonzero(np.isin(kinds, _FLOW))
        for i, point in zip(flow.tolist(), points[flow].tolist(), strict=True):
            self._see(i, point, record.points[point])
        if self.steps:
            self.steps[-1].end = len(rows)
        self.found = [s for s in self.steps if s.end > s.first]

    def _begin(self, i: int, line: int, point: int) -> None:
        if self.steps:
            self.steps[-1].end = i
        frames, inner = tuple((f[0], f[1]) for f in self.frames), self.frames[-1][2:] if self.frames else ()
        self.steps.append(Step(i, line, frames, (*self.calls, point), self.interval, *inner))
        self.seen = {point}

    def _see(self, i: int, number: int, point: tuple) -> None:
        match point[0]:
            case "line":
                self._line(i, number, point)
            case "enter":
                self.frames.append([point[4], 0, i, -1])
            case "leave" if len(self.frames) > 1:
                gone = self.frames.pop()
                if gone[1] and self.frames[-1][1]:  # it had lines of its own: back on the caller's
                    self._begin(i + 1, self.frames[-1][1], number)
            case "call":
                self.calls.append(number)
            case "back" if self.calls:
                self.calls.pop()
            case "pass" if point[4] == "block":
                self.interval += 1

    def _line(self, i: int, number: int, point: tuple) -> None:
        line, block, step = point[1], point[3], self.steps[-1] if self.steps else None
        again = (
            step is None or line != step.line or number in self.seen or len(self.frames) != len(step.frames)
        )
        if self.frames:
            self.frames[-1][1], self.frames[-1][3] = line, block
        if again:
            self._begin(i, line, number)
        else:
            self.seen.add(number)
            step.block = block
