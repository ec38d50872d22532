"""The races of a recorded launch: a plain detector, for comparison with the runtime's.

Every access is kept, with the vector clock that its thread had. Two accesses race where they meet in a byte, one of them
writes, neither happens before the other, and they are not both strong with scopes that reach each other. Sections named
here are those of the memory consistency model in the PTX manual.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from backwarp.devices.virtual.replay.record import LANDS, Record
from backwarp.devices.virtual.runtime import abi

CTA, CLUSTER, GPU, SYS = range(4)  # scopes; a cluster is one block here
KIND_WRITE, KIND_STRONG, KIND_SCOPE = 1, 2, 2  # bits of a hazard's kind, and where its scope begins
SAME_VALUE = 16  # also in its kind, as the runtime writes it down: two stores of one value
ONE_WARP, FURTHER = 1, 2  # how far apart the two threads of a hazard are


class Access(NamedTuple):
    """A thread's access to `size` bytes. blind: it is an update, and the thread does not see the old value.
    value: what a plain store writes, where that is known."""

    block: int
    thread: int
    address: int
    size: int
    site: int = 0
    reads: bool = False
    writes: bool = False
    strong: bool = False
    scope: int = SYS
    acquire: bool = False
    release: bool = False
    shared: bool = False
    blind: bool = False
    value: int | None = None


class Sync(NamedTuple):
    """Threads (block, thread) synchronise: at a barrier, in a collective, or the whole grid."""

    threads: tuple[tuple[int, int], ...]
    # number of the block's barrier, at which others may have arrived without waiting
    barrier: int | None = None


class Arrive(NamedTuple):
    block: int
    thread: int
    barrier: int


class Fence(NamedTuple):
    block: int
    thread: int
    scope: int
    sc: bool = False


class Hazard(NamedTuple):
    """A byte on which two instructions race. block: of shared memory, 0 otherwise. a, b: (site, kind), in order."""

    address: int
    block: int
    a: tuple[int, int]
    b: tuple[int, int]
    how: int


class Release(NamedTuple):
    """What a write hands on to whoever observes it: all that its thread knew at the RELEASE, or at a fence before."""

    block: int
    thread: int
    scope: int
    clock: np.ndarray


@dataclass(eq=False)
class Write:
    """A write of a location, and the write that it has read, where it is a read-modify-write. seen: the numbers of all
    writes that it has read a part of. fenced: what it hands on only to fences of kind sc."""

    access: Access
    releases: list[Release]
    fenced: list[Release]
    observed: Write | None
    number: int
    seen: set[int]

    def chain(self):
        """Everything observed by reading this write."""
        write = self
        while write:
            yield write
            write = write.observed


def covers(scope: int, block: int, other: int) -> bool:
    """Whether the scope of an operation in one block includes the threads of another."""
    return scope >= GPU or block == other


def related(a, b) -> bool:
    """Strong operations of two threads whose scopes include each other (section "Morally Strong Operations")."""
    same = (a.block, a.thread) == (b.block, b.thread)
    return same or covers(a.scope, a.block, b.block) and covers(b.scope, b.block, a.block)


# -- what happened before what -------------------------------------------------------------------------------


class Clocks:
    """What each thread knows of every other, step by step: clocks[x, y] is the number of y's steps that x is after."""

    def __init__(self, steps: list):
        names = {name for step in steps for name in _threads(step)}
        self.number = {name: i for i, name in enumerate(sorted(names))}
        self.clocks = np.zeros((len(names), len(names)), np.int32)
        self.arrived: dict[tuple, np.ndarray] = {}  # (block, barrier) -> clock
        self.arriving: dict[tuple, list] = defaultdict(
            list
        )  # (block, barrier) -> fences, observed of those that arrived
        self.fences = defaultdict(dict)  # thread -> scope -> Release, of the last fence of the scope
        self.observed = defaultdict(dict)  # thread -> the writes that its strong reads have observed so far
        # the same for fences of kind sc alone, with those of threads that it has met (section "Fence-SC Order"): such a
        # fence before a write comes before one after a read that observes the write, or else the read came before the write
        self.sc_fences, self.sc_observed = defaultdict(dict), defaultdict(dict)
        self.last: dict[tuple, Write] = {}  # (block if shared, byte) -> the last write
        self.accesses: list[Access] = []
        self.known: list[np.ndarray] = []  # the clock of each access's thread, itself included
        # number of an access -> numbers of the writes that it observes, fully or partly
        self.seen: dict[int, set[int]] = {}
        for step in steps:
            for name in _threads(step):
                self.clocks[self.number[name], self.number[name]] += 1
            getattr(self, type(step).__name__.lower())(step)

    def sync(self, step: Sync) -> None:
        rows = [self.number[name] for name in step.threads]
        joined = self.clocks[rows].max(axis=0)
        arrived = (
            self.arrived.pop((step.threads[0][0], step.barrier), None) if step.barrier is not None else None
        )
        self.clocks[rows] = joined if arrived is None else np.maximum(joined, arrived)
        fences: dict[int, Release] = {}
        held = [(self.sc_fences[name], self.sc_observed[name]) for name in step.threads]
        held += self.arriving.pop((step.threads[0][0], step.barrier), ())
        for release in [r for own, _ in held for r in own.values()]:
            before = fences.get(release.scope, release)
            fences[release.scope] = release._replace(clock=np.maximum(release.clock, before.clock))
        observed = {write: None for _, seen in held for write in seen}
        for name in step.threads if fences or observed else ():
            self.sc_fences[name], self.sc_observed[name] = dict(fences), dict(observed)

    def arrive(self, step: Arrive) -> None:
        key, clock = (step.block, step.barrier), self.clock(step).copy()
        self.arrived[key] = np.maximum(self.arrived.get(key, clock), clock)
        name = step[:2]
        self.arriving[key].append((dict(self.sc_fences[name]), dict(self.sc_observed[name])))

    def fence(self, step: Fence) -> None:
        """An acquire of all that the thread has observed, and a release of all that it knows then."""
        for write in self.observed[step[:2]]:
            self.acquire(step, write)
        for write in self.sc_observed[step[:2]] if step.sc else ():
            self.learn(step, [release for earlier in write.chain() for release in earlier.fenced])
        release = Release(step.block, step.thread, step.scope, self.clock(step).copy())
        self.fences[step[:2]][step.scope] = release
        if step.sc:
            self.sc_fences[step[:2]][step.scope] = release

    def access(self, step: Access) -> None:
        parts = self.observed_by(step) if step.reads and step.strong else []
        observed = parts[0] if len(parts) == 1 and parts[0] else None
        seen = set().union(*({write.number} | write.seen for write in parts if write))
        # section "Release and Acquire Patterns": a reduction acquires nothing
        if observed and not step.blind:
            self.observed[step[:2]][observed] = self.sc_observed[step[:2]][observed] = None
            if step.acquire:
                self.acquire(step, observed)
        if seen and not step.blind:
            self.seen[len(self.accesses)] = seen
        self.accesses.append(step)
        self.known.append(self.clock(step).copy())
        if step.writes:
            releases = list(self.fences[step[:2]].values()) if step.strong else []
            fenced = list(self.sc_fences[step[:2]].values()) if step.strong else []
            if step.release:
                releases.append(Release(step.block, step.thread, step.scope, self.known[-1]))
            write = Write(step, releases, fenced, observed, len(self.accesses) - 1, seen)
            self.last.update(dict.fromkeys(_bytes(step), write))

    def observed_by(self, read: Access) -> list[Write | None]:
        """The last writes of the bytes that a strong read reads; None for those that are not morally strong to it."""
        return [
            write
            if write
            and (write.access.address, write.access.size) == (read.address, read.size)
            and (write.access[:2] == read[:2] or write.access.strong and related(write.access, read))
            else None
            for write in {self.last.get(byte) for byte in _bytes(read)}
        ]

    def acquire(self, step: Access | Fence, write: Write) -> None:
        """Learn what the writes of a chain hand on, where the scopes at both of its ends include the other's thread."""
        self.learn(step, [release for earlier in write.chain() for release in earlier.releases])

    def learn(self, step: Access | Fence, releases: list[Release]) -> None:
        mine = self.clock(step)
        for release in releases:
            if related(release, step):
                np.maximum(mine, release.clock, out=mine)

    def sight(self, where: list[int]) -> np.ndarray | None:
        """Which of some accesses (rows) each of them (columns) has observed; None where none has."""
        columns = [j for j, i in enumerate(where) if i in self.seen]
        found = np.zeros((len(where), len(where)), bool)
        for j in columns:
            found[np.searchsorted(where, list(self.seen[where[j]])), j] = True
        return found if columns else None

    def clock(self, step) -> np.ndarray:
        return self.clocks[self.number[step[:2]]]


def _threads(step) -> tuple:
    return step.threads if isinstance(step, Sync) else (step[:2],)


def _bytes(access: Access) -> list[tuple]:
    space = access.block if access.shared else None
    return [(space, access.address + i) for i in range(access.size)]


# -- which pairs race ----------------------------------------------------------------------------------------


def hazards(steps: list, observation: bool = False, values: bool = True) -> set[Hazard]:
    """All hazards of a launch. observation: a write comes before all that follows a read which has observed it
    (section "Causality Order"). values: two plain stores of one value do no harm."""
    clocks, places = Clocks(steps), defaultdict(list)
    for i, access in enumerate(clocks.accesses):
        places[access.block if access.shared else None, access.address // 16].append(i)
    found = set()
    for (space, _), where in places.items():
        accesses = [clocks.accesses[i] for i in where]
        if len({(*a[2:4], a.strong and a.scope >= GPU) for a in accesses} | {(*accesses[0][2:4], True)}) == 1:
            continue  # all of them may meet: threads poll it, perhaps
        seen = clocks.sight(where) if observation else None
        races = _races(accesses, np.array([clocks.known[i] for i in where]), clocks.number, seen, values)
        # threads that do the same make the same hazards: one pair of each kind will do (but values have two words)
        alike: dict[tuple, int] = {}
        same = np.array(
            [alike.setdefault((*a[2:9], a.size > 4 and a.value), i) for i, a in enumerate(accesses)]
        )
        warp = np.array([a.block << 5 | a.thread // 32 for a in accesses])
        how = np.where(warp[races[:, 0]] == warp[races[:, 1]], ONE_WARP, FURTHER)
        first, second = same[races].T
        kinds = np.unique((first * len(accesses) + second) * (FURTHER + 1) + how)
        for kind_of_pair in kinds.tolist():
            pair, how = divmod(kind_of_pair, FURTHER + 1)
            a, b = (accesses[i] for i in divmod(pair, len(accesses)))
            found |= _hazards(a, b, how, space or 0, values and a.size > 4)
    return found


def _races(accesses: list[Access], known, number: dict, seen: np.ndarray | None, values: bool) -> np.ndarray:
    """The pairs (i, j) that race. accesses: of 16 aligned bytes, in the order in which they happened. seen: i by j."""

    def column(values, dtype):
        return np.array(list(values), dtype)[:, None]

    # small types: these tables have a row and a column for each access
    start, size = (
        column((a.address % 16 for a in accesses), np.int8),
        column((a.size for a in accesses), np.int8),
    )
    block = column((a.block for a in accesses), np.int16)
    thread = column((number[a[:2]] for a in accesses), np.int16)
    writes, strong = column((a.writes for a in accesses), bool), column((a.strong for a in accesses), bool)
    wide = column((a.scope >= GPU for a in accesses), bool)
    unit = (start == start.T) & (size == size.T)
    meet = (start < (start + size).T) & (start.T < start + size) & (thread != thread.T) & (writes | writes.T)
    if values:
        codes: dict[
            int | None, int
        ] = {}  # equal numbers for equal values; a value that is not known equals none
        code = (i if a.value is None else codes.setdefault(a.value, i) for i, a in enumerate(accesses))
        stored = column(code, np.int32)
        meet &= ~(unit & (stored == stored.T))
    reaches = wide | (block == block.T)
    morally_strong = strong & strong.T & unit & reaches & reaches.T
    # i before j: j's thread knows as many steps of i's thread as that one had made with i
    own = np.take_along_axis(known, thread.astype(np.int64), axis=1)
    before = known[:, thread[:, 0]].T >= own
    if seen is not None:
        before |= seen @ (before & ~np.eye(len(accesses), dtype=bool))
    return np.argwhere(np.triu(meet & ~morally_strong & ~before, 1))


def _hazards(a: Access, b: Access, how: int, block: int, values: bool) -> set[Hazard]:
    first, last = sorted([(a.site, kind(a)), (b.site, kind(b))])
    both = range(max(a.address, b.address), min(a.address + a.size, b.address + b.size))
    return {Hazard(byte, block, first, last, how) for byte in both if not (values and harmless(a, b, byte))}


def harmless(a: Access, b: Access, byte: int) -> bool:
    """Whether both store the same value in the 4-byte word that contains a byte."""
    if a.value is None or b.value is None or (a.address, a.size) != (b.address, b.size):
        return False
    shift = 8 * (byte - a.address) // 32 * 32
    return (a.value ^ b.value) >> shift & 0xFFFFFFFF == 0


def kind(access: Access) -> int:
    strength = KIND_STRONG | min(access.scope, GPU) << KIND_SCOPE if access.strong else 0
    return KIND_WRITE * access.writes | strength


# -- as the runtime writes it down ---------------------------------------------------------------------------


class Steps:
    """A record as a list of steps, `found`: the accesses of threads, where a line is a site, and what orders them."""

    def __init__(self, record: Record):
        self.record, self.rows = record, record.rows
        self.order: list[tuple[int, int, object]] = []  # (row, 1 for what comes after it, step)
        self.calls: dict[int, list[bool]] = defaultdict(
            list
        )  # of a thread: is the result of what is called not used?
        self.at: dict[int, tuple[int, tuple, list[int]]] = {}  # who waits -> (row, point, what it gives)
        self.accesses = {int(a["row"]): a for a in record.accesses if a["how"] != LANDS and a["array"] >= 0}
        for row, (who, point) in enumerate(zip(self.rows["who"].tolist(), record.point.tolist())):
            self._see(row, who, record.points[point])
        self.found = [step for *_, step in sorted(self.order, key=lambda o: o[:2])]

    def _see(self, row: int, who: int, point: tuple) -> None:
        block, thread = who >> 10, who & 1023
        match point[0]:
            case "call":
                self.calls[who].append(point[5])
            case "back":
                self.calls[who].pop()
            case "at" if row in self.accesses and point[8]:
                self.order.append((row, 0, self._access(row, block, thread, point[8], any(self.calls[who]))))
            case "fence":
                self.order.append((row, 0, Fence(block, thread, abi.SCOPES.index(point[4]), point[5])))
            case "arrive":
                self.at[who] = row, point, []
            case "given" if who in self.at:
                self.at[who][2].append(int(self.rows["value"][row]))
            case "pass" if who in self.at and ".arrive" in point[5]:
                self.order.append((row, 0, Arrive(block, thread, self._where(who)[-1])))
                del self.at[who]
            case "pass" if who in self.at:  # the first of those that meet goes on
                met = [w for w in self.at if self._where(w) == self._where(who)]
                number = self._where(who)[-1] if point[4] == "block" else None
                last = max(self.at.pop(w)[0] for w in met)
                self.order.append((last, 1, Sync(tuple((w >> 10, w & 1023) for w in sorted(met)), number)))

    def _where(self, who: int) -> tuple:
        """What it waits for: the last number is that of the barrier, or the mask."""
        _, (_, _, _, _, kind, _, number), given = self.at[who]
        if kind == "block":
            return kind, who >> 10, int(number) if number.isdecimal() else given[0]
        return kind, who >> 5, given[-1] if kind == "warp" else -1

    def _access(self, row: int, block: int, thread: int, info: int, blind: bool) -> Access:
        has = lambda bit: bool(info & bit)  # noqa: E731
        access, given = self.accesses[row], self.record.moved(self.accesses[row], "given")
        atomic, strong = has(abi.INFO_ATOMIC), has(abi.INFO_ATOMIC | abi.INFO_VOLATILE)
        lost = self.record.of(row)[4] == "cas" and not given.startswith(self.record.moved(access, "got"))
        writes = has(abi.INFO_WRITE) and not lost
        one = self.record.of(row)[7] == 1
        return Access(
            block,
            thread,
            int(self.rows["value"][row]),
            info & 255,
            int(access["line"]),
            not writes or atomic,
            writes,
            strong,
            info >> abi.SCOPE_SHIFT & 3,
            has(abi.INFO_ACQUIRE),
            has(abi.INFO_RELEASE),
            self.record.arrays[access["array"]].space == "shared",
            has(abi.INFO_BLIND) or atomic and blind,
            int.from_bytes(given, "little") if one and writes and not strong else None,
        )


def read_hazards(rows: np.ndarray, line: Callable[[int], int]) -> set[Hazard]:
    """The runtime's hazards, each only with the threads that are furthest apart; not those of two stores of one
    value. line: of a site."""
    rows = rows[rows["kind"] & SAME_VALUE == 0]
    found = set()
    fields = ("address", "block", "site", "kind", "other_site", "other_kind", "bytes", "across")
    for address, block, site, kind, other, other_kind, bytes_, across in zip(
        *(rows[f].tolist() for f in fields)
    ):
        pair = sorted([(line(site), kind), (line(other), other_kind)])
        found |= {
            Hazard(address + i, block, *pair, FURTHER if across >> i & 1 else ONE_WARP)
            for i in range(4)
            if bytes_ >> i & 1
        }
    return furthest(found)


def read_same_values(rows: np.ndarray, line: Callable[[int], int]) -> set[tuple]:
    """(byte, block, the two instructions) of stores of one value, by other than lanes of one instruction."""
    rows = rows[rows["kind"] & SAME_VALUE != 0].copy()
    rows["kind"] &= ~np.uint32(SAME_VALUE)
    return {h[:4] for h in read_hazards(rows, line)}


def same_values(steps: list, observation: bool, racy: set[Hazard]) -> set[tuple]:
    """The same of the steps of a launch; racy: its other hazards."""
    found = hazards(steps, observation, values=False)
    alone = {h for h in found if h.how == ONE_WARP and h.a[0] == h.b[0]}
    return {h[:4] for h in found - alone} - {h[:4] for h in racy}


def furthest(found: set[Hazard]) -> set[Hazard]:
    """Of hazards of the same byte and instructions, the one of different warps."""
    return {h for h in found if h.how == FURTHER or h._replace(how=FURTHER) not in found}
