"""Streams, events and waits of a program: what is certain, what races, and what the host must not touch yet."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..streams.order import Access, Operation, Order
from .memory import Allocation, Memory
from .mistakes import Frames, Mistakes

Answer = tuple
_NONE, _READ, _BOTH = 0, 1, 3  # protections of pages
ALLOCATED, FREED = -1, -2  # in their place: memory that is new, and that is gone
_MOST = 2048  # operations that nobody waited for, of which the first is then taken to have ended


@dataclass(frozen=True)
class Call:
    """What an operation was."""

    what: str  # "copy", "fill" or "kernel"
    name: str
    frames: tuple[int, ...]
    atomic: set[Access] = field(default_factory=set)  # those of its accesses that are atomic


class Streams:
    """fault: the error of a kernel that every later wait reports, or 0."""

    def __init__(self, memory: Memory, mistakes: Mistakes):
        self.memory, self.mistakes, self.fault = memory, mistakes, 0
        self.order = Order()
        self._streams: dict[int, int] = {0: 0, 1: 0, 2: 0}
        self._events: dict[int, tuple[int, int]] = {}  # number in the order, and when it was recorded
        self._numbers = 0x100
        self._protected: dict[int, int] = {}  # by allocation: its pages' protection

    def __len__(self) -> int:
        return len(self._streams)

    def protect(self, a: Allocation, how: int) -> None:
        self._protected[a.start] = how

    def issue(self, engine: str, took: int, stream: int, accesses: list[Access], what: Call) -> Operation:
        made = self.order.issue(engine, took, stream, 0, accesses, what)
        for other, theirs, own in self.order.races(made):
            if own not in what.atomic or theirs not in other.what.atomic:
                self._raced(made, other, own, theirs)
        if len(self.order.operations) > _MOST and self.order.operations[0].finish < 0:
            self.wait([self.order.operations[0].number])
        return made

    def _raced(self, later: Operation, earlier: Operation, own: Access, theirs: Access) -> None:
        a = self.memory.find(own.memory)
        facts = dict(later=later.what.what, earlier=earlier.what.what, before=Frames(earlier.what.frames))
        facts |= dict(does="writes" if own.stores else "reads", did="writes" if theirs.stores else "reads")
        self.mistakes.name("race", later.what.frames, memory=a.described, **facts)

    def wait(self, numbers: Iterable[int]) -> None:
        self.order.wait(numbers)
        operations = self.order.operations
        if len(operations) > _MOST // 4 and self.order.known == (1 << len(operations)) - 1:
            self._renew()

    def _renew(self) -> None:
        """All operations have ended: a new order, with the same streams and events."""
        old, self.order = self.order, Order()
        for stream in range(1, len(old._blocking)):
            self.order.stream(old.is_blocking(stream))
        for _ in old._events:
            self.order.event()

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

    def pending_uses(self, a: Allocation) -> list[tuple[Operation, Access]]:
        """What may still be running and touches an allocation."""
        pending = [o for o in self.order.operations if not self.order.known >> o.number & 1]
        return [(o, x) for o in pending for x in o.accesses if x.memory == a.start]

    def protections(self) -> list[tuple[int, int, int]]:
        """Changes: what the host must not touch until it has waited."""
        wanted = {}
        for operation in (
            self.order.operations if self.order.known != (1 << len(self.order.operations)) - 1 else ()
        ):
            if self.order.known >> operation.number & 1:
                continue
            for access in operation.accesses:
                a = self.memory.find(access.memory)
                if a and a.on_host and a.freed is None:
                    wanted[a.start] = min(wanted.get(a.start, _READ), _NONE if access.stores else _READ)
        changes = []
        for start in {*self._protected, *wanted}:
            old, new = self._protected.get(start, _BOTH), wanted.get(start, _BOTH)
            if old == FREED:
                new = _NONE
            if old != new and (a := self.memory.find(start)):
                changes.append((start, a.nbytes, new))
            if new == _BOTH or old == FREED:
                self._protected.pop(start, None)
            else:
                self._protected[start] = new
        return changes
