"""A recorded run to step through in a notebook, in one piece of HTML: the threads of a warp as rows, lines as colours, a slider over
time; variables and arrays hold what they held then.

The page needs no server and no library: it contains what changes from moment to moment, which `stepping.js` adds up.
Where scripts do not run, on a code host for example, it shows the last lines of one thread as text instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from textwrap import dedent

import numpy as np

from ...devices.virtual.replay import memory
from ...devices.virtual.replay.record import HOW, LOAD, MATRIX, SOURCE, WRITING
from ...devices.virtual.replay.replay import short
from ...devices.virtual.replay.session import Session
from ...grading.recorded import Recorded
from ..html import DARKENS
from ..step import fault_here, text
from .explore import in_rows, scripted

MOST_MOMENTS, MOST_BYTES, MOST_WARPS = 240, 250_000, 8  # of a warp, of a page
MOST_ELEMENTS, MOST_SHOWN = 512, 1200  # of an array that is drawn, and of all of them
NEAR = 2  # lines around those that run, where they are far apart
MOST_LINES = 90
PAGE = """{darkens}<div class="backwarp-run" id="{name}" style="padding:.6em;max-width:62em">
<pre style="overflow-x:auto;margin:0">{still}</pre></div>
<script>{script}</script>"""


def stepping(recorded: Recorded, session: Session) -> str:
    """HTML, for the warp of the session's thread, around its moment; others, those of its block first, can be chosen."""
    still = "\n".join("".join(part for part, _ in line) for line in text(recorded, session, 8))
    own, left, views = session.who >> 5, MOST_BYTES, []
    ran = {who >> 5: who for who, steps in sorted(session.replay.steps.items(), reverse=True) if steps}
    for warp in sorted(ran, key=lambda w: (w >> 5 != own >> 5, abs(w - own)))[:MOST_WARPS]:
        there = session
        if warp != own:
            there = Session(session.replay)
            there.who, there.t, there.said = ran[warp], session.t, ""
        view = _smallest(recorded, there, left, warp == own)
        if len(view) > left and views:
            break
        left -= len(view)
        views.append((warp, view))
    name, script = scripted("stepping.js", f"[{','.join(view for _, view in sorted(views))}]")
    return PAGE.format(darkens=DARKENS, name=name, still=escape(still), script=script)


def _smallest(recorded: Recorded, session: Session, most_bytes: int, chosen: bool) -> str:
    """One warp's view, of as many moments as there is room for. chosen: it is shown first."""
    most = MOST_MOMENTS
    while True:
        view = json.dumps(_View(recorded, session, most).view() | {"chosen": chosen}, separators=(",", ":"))
        if len(view) <= most_bytes or most <= 8:
            return view
        most //= 2


class _View:
    """What stepping.js draws. times: the moments that are shown."""

    def __init__(self, recorded: Recorded, session: Session, most: int):
        self.recorded, self.session, self.replay = recorded, session, session.replay
        self.record, self.block = session.replay.record, session.who >> 10
        of_warp = [t for t, m in enumerate(self.replay.moments) if m.warp == session.who >> 5]
        here = max(0, int(np.searchsorted(of_warp, session.t, "right")) - 1)
        first = max(0, min(here - most * 3 // 4, len(of_warp) - most))
        self.times, self.first, self.total = of_warp[first : first + most], first, len(of_warp)
        self.here = here - first
        base = session.who & ~31
        self.lanes = [who for who in range(base, base + 32) if self.replay.steps.get(who)]
        self.texts: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self.shown = self._shown()

    def _shown(self) -> list[int]:
        """The numbers of the arrays that are drawn: arguments, and others that are accessed."""
        found, total = [], 0
        given = {a.name for a in self.recorded.kernel.arrays}
        accessed = set(np.unique(self.record.accesses["array"]).tolist())
        for number, held in enumerate(self.record.arrays):
            if held.name not in given and number not in accessed:
                continue
            size = int(np.prod(held.shape))
            if 0 < size <= MOST_ELEMENTS and total + size <= MOST_SHOWN:
                found.append(number)
                total += size
        return found

    def view(self) -> dict:
        moments = [self.replay.moments[t] for t in self.times]
        fault = self.replay.fault
        who, at = self.replay.to_fault() if fault else (-1, -1)
        return {
            "kernel": self.recorded.kernel.name,
            "case": self.recorded.case.name,
            "grid": self.record.grid,
            "block": self.record.block,
            "of": self.record.thread_of(self.session.who)[1],
            "warp": self.session.who >> 5 & 31,
            "lanes": [[who & 31, *self.record.thread_of(who)[0]] for who in self.lanes],
            "first": self.first,
            "total": self.total,
            "at": [self.here, self.session.who & 31],
            "moments": [[m.line, _mask(m.steps), m.interval] for m in moments],
            "before": [self._standing(who) for who in self.lanes],
            "ends": [int(np.searchsorted(self.times, self.replay.end(who))) for who in self.lanes],
            "lines": self._lines({m.line for m in moments}),
            "sets": list(self._sets()),
            "arrays": list(map(self._array, range(len(self.record.arrays)))),
            "writes": self._writes(),
            "touched": [self._touched(t) for t in self.times],
            "printed": [
                ["".join(self.replay.printed(t, who)) for who in self.replay.moments[t].steps]
                for t in self.times
            ]
            if self.record.taken["printed"]
            else [],
            "fault": [self.times.index(at), who & 31, fault_here(self._at_fault())]
            if at in self.times
            else [],
            "says": self.session.said,
            "full": self.record.full,
            "names": list(self.names),
            "texts": list(self.texts),
        }

    def _at_fault(self) -> Session:
        return Session(self.replay)  # which begins there

    def _standing(self, who: int) -> int:
        """The line at which a thread is before the first moment; 0: it has not begun."""
        step = self.replay.step_at(who, self.times[0] - 1)
        return step.line if step else 0

    def _text(self, value: object) -> int:
        return self.texts.setdefault(short(value), len(self.texts))

    def _lines(self, ran: set[int]) -> list[tuple[int, str]]:
        """(number, code) of the lines that run and those between, or, if they are far apart, near them."""
        source = self.recorded.source.split("\n")
        wanted = set(range(min(ran), max(ran) + 1))
        if len(wanted) > MOST_LINES:
            wanted = {n for line in ran for n in range(line - NEAR, line + NEAR + 1)}
        chosen = [n for n in sorted(wanted) if 0 < n <= len(source)]
        return list(zip(chosen, dedent("\n".join(source[n - 1] for n in chosen)).split("\n"), strict=True))

    # -- variables ------------------------------------------------------------------------------------

    def _sets(self) -> Iterator[list[list[int]]]:
        """Of each moment, and before the first: [mask of lanes, name, value, -1 where there is none any more]."""
        before = self.times[0] - 1
        known: dict[int, dict[str, object]] = {}
        start = {who: self.replay.variables(who, before) for who in self.lanes} if before >= 0 else {}
        for at in [
            start,
            *(
                {who: self.replay.variables(who, t) for who in self.replay.moments[t].steps}
                for t in self.times
            ),
        ]:
            changes: dict[tuple[int, int], int] = {}
            for who, variables in at.items():
                old, new = known.get(who, {}), dict(_flat(variables))
                known[who] = new
                named = [
                    (n, self._text(v)) for n, v in new.items() if n not in old or repr(old[n]) != repr(v)
                ]
                for name, value in [*named, *((n, -1) for n in old if n not in new)]:
                    key = self.names.setdefault(name, len(self.names)), value
                    changes[key] = changes.get(key, 0) | 1 << (who & 31)
            yield [[mask, *key] for key, mask in changes.items()]

    # -- memory ---------------------------------------------------------------------------------------

    def _array(self, number: int) -> dict:
        held = self.record.arrays[number]
        about = {"name": held.name, "axes": held.axes, "shape": held.shape, "shared": held.space == "shared"}
        if number not in self.shown:
            return about
        values, known = self.replay.memory(held.name, self.times[0] - 1, self.block)
        pure = any(a.name == held.name and not a.is_input for a in self.recorded.kernel.arrays)
        known &= ~(np.isnan(values) & pure) if values.dtype.kind == "f" else True
        cells = zip(values.ravel().tolist(), known.ravel().tolist(), strict=True)
        return about | {"values": [self._text(value) if is_known else -1 for value, is_known in cells]}

    def _writes(self) -> list[list[list[int]]]:
        """Of each moment: [array, element, value] of what was written since the one before, by all threads."""
        found: list[list[list[int]]] = [[] for _ in self.times]
        a, time = self.record.accesses, self.replay.time
        at = time[a["row"]]
        mine = a[
            np.isin(a["array"], self.shown)
            & np.isin(a["how"], WRITING)
            & (at >= self.times[0])
            & (at <= self.times[-1])
        ]
        state: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for access in mine[np.lexsort((mine["row"], time[mine["row"]]))]:
            number = int(access["array"])
            held = self.record.arrays[number]
            if held.space == "shared" and access["who"] >> 10 != self.block:
                continue
            if number not in state:
                values, known = self.replay.memory(held.name, self.times[0] - 1, self.block)
                state[number] = (
                    values.ravel().view(np.uint8).copy(),
                    np.repeat(known.ravel(), held.dtype.itemsize),
                )
            data, known = state[number]
            memory.apply(self.replay, access, data, known)
            size, moment = held.dtype.itemsize, int(np.searchsorted(self.times, time[access["row"]]))
            low, high = (
                int(access["offset"]) // size,
                (int(access["offset"]) + int(access["nbytes"]) - 1) // size,
            )
            for flat in range(max(0, low), min(high, len(data) // size - 1) + 1):
                value = data[flat * size : (flat + 1) * size].view(held.dtype)[0].item()
                found[moment].append([number, flat, self._text(value)])
        return found

    def _touched(self, t: int) -> list[list]:
        """[0 reads, 1 writes, 2 updates; array; lanes, as explore.in_rows; their values, where the array is not drawn]."""
        a = self.record.accesses
        mine = a[
            (self.replay.time[a["row"]] == t) & (a["array"] >= 0) & (a["who"] >> 5 == self.session.who >> 5)
        ]
        found = []
        for number in np.unique(mine["array"]).tolist():
            size = self.record.arrays[number].dtype.itemsize
            for how in range(len(HOW)):
                some = mine[(mine["array"] == number) & (mine["how"] == how)]
                for nth in _nth(some["who"]):
                    chosen = some[nth][np.argsort(some[nth]["who"], kind="stable")]
                    width = max(1, int(chosen["nbytes"][0]) // size)
                    lanes = in_rows(chosen["who"] & 31, chosen["offset"] // size, width)
                    values = [] if number in self.shown else [self._values(access) for access in chosen]
                    kind = 0 if how in (LOAD, SOURCE, MATRIX) else 2 if HOW[how] == "atomic" else 1
                    found.append([kind, number, lanes, values])
        return found

    def _values(self, access: np.void) -> int:
        return self.texts.setdefault(
            " ".join(short(v.item()) for v in self.record.values(access)[:8]), len(self.texts)
        )


def _mask(whose) -> int:
    return sum(1 << (who & 31) for who in whose)


def _nth(who: np.ndarray) -> Iterator[np.ndarray]:
    """The places of each thread's first access, of each one's second, and so on."""
    seen: dict[int, int] = {}
    nth = np.array([_count(seen, w) for w in who.tolist()], int)
    for n in range(int(nth.max(initial=-1)) + 1):
        yield np.flatnonzero(nth == n)


def _count(seen: dict[int, int], who: int) -> int:
    seen[who] = seen.get(who, -1) + 1
    return seen[who]


def _flat(variables: dict[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Variables, with the elements of arrays and the fields of structs, but for pointers to what has their name."""
    for name, value in variables.items():
        if isinstance(value, list):
            yield from _flat({f"[{i}]": v for i, v in enumerate(value)}, prefix + name)
        elif isinstance(value, dict):
            yield from _flat({f".{k}": v for k, v in value.items()}, prefix + name)
        elif value != name:
            yield prefix + name, value
