"""Streams, events and waits of a program: what is certain, what races, and what the host must not touch yet."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from ..streams.order import HOST, Access, Operation, Order
from .memory import Allocation, Memory
from .mistakes import Frames, Mistakes

Answer = tuple
_NONE, _READ, _BOTH = 0, 1, 3  # protections of pages
PER_THREAD = 2  # cudaStreamPerThread
NOT_READY = 600
PAGE = 4096
_MOST = 2048  # operations that nobody waited for, of which the first is then taken to have ended


@dataclass(frozen=True)
class Call:
    """What an operation was."""

    what: str  # "copy", "fill", "kernel", "host function", "allocation" or "free"
    name: str
    frames: tuple[int, ...]
    atomic: set[Access] = field(default_factory=set)  # those of its accesses that are atomic
    nbytes: int = 0  # that it moves
    flops: int = 0


_DOES = {"allocation": "allocates", "free": "frees"}


class Streams:
    """fault: the error of a kernel that every later wait reports, or 0."""

    def __init__(self, memory: Memory, mistakes: Mistakes):
        self.memory, self.mistakes, self.fault = memory, mistakes, 0
        self.order = Order()
        self._streams: dict[int, int] = {0: 0, 1: 0, PER_THREAD: self.order.stream()}
        self.keep = _MOST // 4  # operations, of which no more are known once all have ended
        self.past: list[Operation] = []  # the first that are no more known
        self._events: dict[int, tuple[int, int]] = {}  # number in the order, and when it was recorded
        self._numbers = 0x100
        self._asked: dict[
            int, list[int]
        ] = {}  # by stream or event, what the program has heard to be not ready
        self._protected: dict[int, list[Pages]] = {}  # by allocation
        self._open: dict[int, set[int]] = {}  # by allocation, pages that the host may use now
        self._seen: tuple = ()
        self._sharing: list[
            Operation
        ] = []  # those that may be under way, and use memory that the host may use too
        self.calling: Operation | None = None  # a function of the host that a stream calls now
        self._seen_by_it: dict[int, dict[int, int]] = {}  # by allocation and page, how it has touched memory

    def __len__(self) -> int:
        return len(self._streams)

    def protect(self, a: Allocation) -> None:
        """From now on the host must not touch it, or not before it is told so: it is new, or freed."""
        self._protected[a.start], self._seen = [(0, _pages(a.nbytes), _NONE)], ()

    def issue(self, engine: str, took: int, stream: int, accesses: list[Access], what: Call) -> Operation:
        made = self.order.issue(engine, took, stream, 0, accesses, what)
        for other, theirs, own in self.order.races(made):
            if own not in what.atomic or theirs not in other.what.atomic:
                self._raced(made, other, own, theirs)
        if any((a := self.memory.find(access.memory)) and a.on_host for access in accesses):
            self._sharing.append(made)
        if len(self.order.operations) > _MOST and self.order.operations[0].finish < 0:
            self.wait([self.order.operations[0].number])
        return made

    def issue_whole(self, what: str, stream: int, a: Allocation, frames) -> None:
        """Memory is allocated or freed in the order of a stream."""
        self.issue(HOST, 0, stream, [Access(a.start, 0, a.nbytes, True)], Call(what, "", frames))

    def _raced(self, later: Operation, earlier: Operation, own: Access, theirs: Access) -> None:
        a = self.memory.find(own.memory)
        facts = dict(later=later.what.what, earlier=earlier.what.what, before=Frames(earlier.what.frames))
        facts |= {
            how: _DOES.get(each.what.what, "writes" if access.stores else "reads")
            for how, each, access in (("does", later, own), ("did", earlier, theirs))
        }
        self.mistakes.name("race", later.what.frames, memory=a.described, **facts)

    def wait(self, numbers: Iterable[int]) -> None:
        self.order.wait(numbers)
        operations = self.order.operations
        if len(operations) > self.keep and self.order.known == (1 << len(operations)) - 1:
            self._renew()

    def _renew(self) -> None:
        """All operations have ended: a new order, with the same streams and events."""
        old, self.order = self.order, Order()
        self.past = self.past or old.operations
        for stream in range(1, len(old._blocking)):
            self.order.stream(old.is_blocking(stream))
        for _ in old._events:
            self.order.event()
        self._asked, self._seen, self._sharing = {}, (), []

    # -- functions of the host in a stream

    def on_call(self, frames, words, extra) -> Answer:
        """It is called at once. What it touches belongs to the stream, and the host has not waited for it."""
        if (number := self.stream_of(frames, words[0])) is None:
            return (400,)
        if not self.fault:
            self.calling = self.issue(HOST, 0, number, [], Call("host function", "", frames))
            self._seen = ()
        return (self.fault,)

    def on_called(self, frames, words, extra) -> Answer:
        self.calling, self._seen_by_it, self._seen = None, {}, ()
        return (0,)

    def touched_by_call(self, a: Allocation, byte: int, writes: bool) -> None:
        """The function that is called now touches memory of the host: the first byte of a page that it reads, or writes."""
        access = Access(a.start, byte, byte + 1, writes)
        for other, theirs, own in self.order.touch(self.calling, access):
            self._raced(self.calling, other, own, theirs)
        if self.calling not in self._sharing:
            self._sharing.append(self.calling)
        self._seen_by_it.setdefault(a.start, {})[byte // PAGE] = _BOTH if writes else _READ
        self._seen = ()

    def _left_to_call(self) -> dict[int, list[Pages]]:
        """What it must not touch: memory of the host that it has not touched yet."""
        found = {}
        for a in self.memory.live():
            if a.on_host:
                seen = self._seen_by_it.get(a.start, {})
                read = [(p * PAGE, (p + 1) * PAGE, _READ) for p, how in seen.items() if how == _READ]
                found[a.start] = _without([(0, _pages(a.nbytes), _NONE)], seen) + read
        return found

    def on_stream(self, frames, words, extra) -> Answer:
        self._numbers += 1
        self._streams[self._numbers] = self.order.stream(blocking=not words[0] & 1)
        return 0, self._numbers

    def stream_of(self, frames, stream: int) -> int | None:
        if stream not in self._streams:
            self.mistakes.name("handle", frames, what="stream")
            return None
        return self._streams[stream]

    def on_stream_end(self, frames, words, extra) -> Answer:
        if words[0] < 0x100 or self._streams.pop(words[0], None) is None:
            self.mistakes.name("handle", frames, what="stream")
            return (400,)
        return (0,)

    def on_stream_waits(self, frames, words, extra) -> Answer:
        stream, event = self.stream_of(frames, words[0]), self._event_of(frames, words[1])
        if stream is None or event is None:
            return (400,)
        self.order.wait_event(stream, event[0])
        return (0,)

    def on_event(self, frames, words, extra) -> Answer:
        self._numbers += 1
        self._events[self._numbers] = self.order.event(), 0
        return 0, self._numbers

    def _event_of(self, frames, event: int) -> tuple[int, int] | None:
        if event not in self._events:
            self.mistakes.name("handle", frames, what="event")
            return None
        return self._events[event]

    def on_event_end(self, frames, words, extra) -> Answer:
        return (0 if self._event_of(frames, words[0]) and self._events.pop(words[0]) else 400,)

    def on_record(self, frames, words, extra) -> Answer:
        event, stream = self._event_of(frames, words[0]), self.stream_of(frames, words[1])
        if stream is None or event is None:
            return (400,)
        self.order.record(event[0], stream)
        self._events[words[0]] = event[0], time.monotonic_ns()
        return (self.fault,)

    def _ready(self, what: int, numbers: list[int]) -> Answer:
        """For a program that asks whether work has ended: it has not, where that is possible; when it asks again, it has."""
        if self._asked.get(what) != numbers and any(not self.order.known >> n & 1 for n in numbers):
            self._asked[what] = numbers
            return (NOT_READY,)
        self.wait(numbers)
        return (self.fault,)

    def on_query_stream(self, frames, words, extra) -> Answer:
        if (stream := self.stream_of(frames, words[0])) is None:
            return (400,)
        return self._ready(words[0], self.order.of_stream(stream))

    def on_query_event(self, frames, words, extra) -> Answer:
        if (event := self._event_of(frames, words[0])) is None:
            return (400,)
        return self._ready(words[0], self.order.of_event(event[0]))

    def on_wait_stream(self, frames, words, extra) -> Answer:
        if (stream := self.stream_of(frames, words[0])) is None:
            return (400,)
        self.wait(self.order.of_stream(stream))
        return (self.fault,)

    def on_wait_event(self, frames, words, extra) -> Answer:
        if (event := self._event_of(frames, words[0])) is None:
            return (400,)
        self.wait(self.order.of_event(event[0]))
        return (self.fault,)

    def on_wait_all(self, frames, words, extra) -> Answer:
        self.wait(self.order.of_all())
        return (self.fault,)

    def on_elapsed(self, frames, words, extra) -> Answer:
        found = [self._event_of(frames, event) for event in words[:2]]
        if None in found:
            return 400, 0
        if not all(when for _, when in found):
            self.mistakes.name("event", frames, why="one of these was never recorded")
            return 400, 0
        return self.fault, max(found[1][1] - found[0][1], 1000)

    # -- what the host touches

    def users(self, a: Allocation, byte: int, writes: bool) -> list[tuple[Operation, Access]]:
        """What may still be running and uses a byte that the host touches."""
        pending = [o for o in self.order.operations if not self.order.known >> o.number & 1]
        found = [(o, x) for o in pending for x in o.accesses if x.memory == a.start and x.holds(byte)]
        return [(o, x) for o, x in found if writes or x.stores]

    def let(self, a: Allocation, byte: int) -> bool:
        """Until its next call, the host may use a page of which other bytes are in use. False if it may already."""
        pages = self._open.setdefault(a.start, set())
        if byte // PAGE in pages:
            return False
        pages.add(byte // PAGE)
        self._seen = ()
        return True

    def close(self) -> None:
        if self._open:
            self._open, self._seen = {}, ()

    def protections(self) -> list[tuple[int, int, int]]:
        """Changes: what the host must not touch until it has waited."""
        operations, known = self.order.operations, self.order.known
        if self._seen == (seen := (len(operations), known)):
            return []
        self._seen, wanted = seen, self._left_to_call() if self.calling else {}
        self._sharing = [o for o in self._sharing if not known >> o.number & 1]
        for operation in () if self.calling else self._sharing:
            for access in operation.accesses:
                a = self.memory.find(access.memory)
                if a and a.on_host and a.freed is None:
                    how = _NONE if access.stores else _READ
                    pages = access.start // PAGE * PAGE, _pages(access.end), how
                    wanted.setdefault(a.start, []).append(pages)
        changes = []
        for start in {*self._protected, *wanted}:
            a, old, new = self.memory.find(start), self._protected.get(start, []), wanted.get(start, [])
            if a is None or a.freed is not None:
                old, new = [], [(0, _pages(a.nbytes), _NONE)] if a else []
                self._protected.pop(start, None)
            new = _without(new, self._open.get(start, ()))
            changes += [(start + first, end - first, how) for first, end, how in _differences(old, new)]
            if new and a and a.freed is None:
                self._protected[start] = new
            else:
                self._protected.pop(start, None)
        return changes


Pages = tuple[int, int, int]  # bytes from, to, and how they are protected


def _pages(nbytes: int) -> int:
    return -(-nbytes // PAGE) * PAGE


def _without(parts: list[Pages], open_: Iterable[int]) -> list[Pages]:
    for page in open_:
        at, end = page * PAGE, (page + 1) * PAGE
        cut = [
            (max(p[0], first), min(p[1], last), p[2]) for p in parts for first, last in ((0, at), (end, p[1]))
        ]
        parts = [part for part in cut if part[0] < part[1]]
    return parts


def _differences(old: list[Pages], new: list[Pages]) -> list[Pages]:
    """Where the protection changes, and to what."""
    edges, found = sorted({edge for part in (*old, *new) for edge in part[:2]}), []
    for first, end in pairwise(edges):
        was, is_ = (
            min((how for a, b, how in parts if a <= first and end <= b), default=_BOTH)
            for parts in (old, new)
        )
        if was != is_ and found and found[-1][1:] == (first, is_):
            found[-1] = found[-1][0], end, is_
        elif was != is_:
            found.append((first, end, is_))
    return found
