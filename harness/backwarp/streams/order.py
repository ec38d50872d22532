"""The order of work on a GPU: what streams, events and waits of the host make certain, and how long it then takes.

An operation is a copy or a kernel. It knows which others have certainly ended when it starts; two that are not ordered
and touch the same bytes, one of them storing, race. Times are those of a simple machine: three engines, one for each
direction of copies and one for kernels, and each does one operation at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

IN, COMPUTE, OUT = "in", "compute", "out"  # the engines; copies are seen from the device
HOST = "host"  # what happens in a stream without an engine
NULL = 0  # the stream that waits for, and is waited for by, every stream but the non-blocking ones
_MOST_ROWS = 1 << 16  # that are compared one by one
START = 1000  # ns that every operation takes at least
COPIED, COMPUTED, STORED = 25, 2000, 1000  # per ns: bytes of a copy, FLOP of a kernel, bytes of a fill


@dataclass(frozen=True)
class Access:
    """Bytes [start, stop) of a piece of memory; of several rows the first row's, `pitch` bytes apart."""

    memory: Hashable
    start: int
    stop: int
    stores: bool
    pitch: int = 0
    rows: int = 1

    @property
    def end(self) -> int:
        return self.stop + self.pitch * (self.rows - 1)

    def holds(self, byte: int) -> bool:
        return self._crosses(Access(self.memory, byte, byte + 1, True))

    def meets(self, other: Access) -> bool:
        """Whether the two conflict."""
        return self.memory == other.memory and (self.stores or other.stores) and self._crosses(other)

    def _crosses(self, other: Access) -> bool:
        if self.start >= other.end or other.start >= self.end:
            return False
        if self.pitch == other.pitch > 0:  # the distances of two rows are multiples of it
            first = max(1 - self.rows, (self.start - other.stop) // self.pitch + 1)
            return first <= min(other.rows - 1, (self.stop - 1 - other.start) // self.pitch)
        few, many = (self, other) if self.rows <= other.rows else (other, self)
        if many.rows == 1 or few.rows > _MOST_ROWS:
            return True
        for row in range(few.rows):
            start, stop = few.start + row * few.pitch, few.stop + row * few.pitch
            first = max(0, (start - many.stop) // many.pitch + 1)
            if first <= min(many.rows - 1, (stop - 1 - many.start) // many.pitch):
                return True
        return False


@dataclass(frozen=True)
class Edge:
    """Why an operation starts after another. how: "stream", "event", "host" or "engine"; line: of the wait."""

    how: str
    line: int = 0


@dataclass
class Operation:
    """after: the operations it waits for; before: the numbers of all that have ended before it starts, as bits. issued:
    when the host asked for it; held: for which operation, and in which line, the host had waited last. Times in ns."""

    number: int
    engine: str
    time: int
    stream: int
    line: int
    accesses: tuple[Access, ...]
    what: object = None
    before: int = 0
    after: dict[int, Edge] = field(default_factory=dict)
    issued: int = 0
    held: tuple[int, int] | None = None
    start: int = -1
    finish: int = -1

    def meets(self, other: Operation) -> bool:
        return any(a.meets(b) for a in self.accesses for b in other.accesses)


class Order:
    """Streams and events are numbers; stream 0 is the null stream."""

    def __init__(self):
        self.operations: list[Operation] = []
        self.known = 0  # what the host knows to have ended, as bits
        self.clock, self.held = 0, None  # of the host: the time, and what it waited for last
        self._blocking: list[bool] = []
        self._tails: list[dict[int, Edge]] = []  # by stream: what its next operation waits for
        self._events: list[dict[int, Edge]] = []
        self._touched: dict[Hashable, list[tuple[Operation, Access]]] = {}
        self._queues: list[list[int]] = []  # by stream: what has no time yet
        self._free = dict.fromkeys((IN, COMPUTE, OUT, HOST), 0)
        self.stream()

    def stream(self, blocking: bool = True) -> int:
        self._blocking.append(blocking)
        self._tails.append({})
        self._queues.append([])
        return len(self._tails) - 1

    def event(self) -> int:
        self._events.append({})
        return len(self._events) - 1

    def is_blocking(self, stream: int) -> bool:
        return self._blocking[stream]

    def pending(self, stream: int) -> dict[int, Edge]:
        """What the next operation of a stream waits for."""
        others: Iterable[int] = ()
        if stream == NULL:
            others = [s for s, blocking in enumerate(self._blocking) if blocking]
        elif self._blocking[stream]:
            others = [NULL]
        found: dict[int, Edge] = {}
        for other in others:
            found |= {number: Edge("stream", edge.line) for number, edge in self._tails[other].items()}
        return found | self._tails[stream]

    def record(self, event: int, stream: int) -> None:
        self._join(stream)
        self._events[event] = self.pending(stream)

    def _join(self, stream: int) -> None:
        """Whatever the null stream is asked to do, also a mark, comes after all that is in blocking streams, and before what follows there."""
        if stream == NULL:
            self._tails[NULL] = self.pending(NULL)

    def wait_event(self, stream: int, event: int, line: int = 0) -> None:
        """The stream's later operations wait for the event; not at all if it was never recorded."""
        self._join(stream)
        self._tails[stream] = self._tails[stream] | {n: Edge("event", line) for n in self._events[event]}

    def issue(
        self,
        engine: str,
        time: int,
        stream: int,
        line: int = 0,
        accesses: Iterable[Access] = (),
        what: object = None,
    ) -> Operation:
        after = self.pending(stream)
        made = Operation(len(self.operations), engine, time, stream, line, tuple(accesses), what)
        made.after, made.before = after, self.known | self._all(after)
        made.issued, made.held = self.clock, self.held
        self.operations.append(made)
        self._tails[stream] = {made.number: Edge("stream", line)}
        self._queues[stream].append(made.number)
        return made

    def _all(self, numbers: Iterable[int]) -> int:
        found = 0
        for number in numbers:
            found |= self.operations[number].before | 1 << number
        return found

    def races(self, new: Operation) -> Iterator[tuple[Operation, Access, Access]]:
        """The earlier operations that conflict with the newest and are not ordered with it; notes what it touches."""
        for own in new.accesses:
            yield from self._unordered(new, own)
        for own in new.accesses:
            self._touched.setdefault(own.memory, []).append((new, own))

    def _unordered(self, new: Operation, own: Access) -> Iterator[tuple[Operation, Access, Access]]:
        for other, access in self._touched.get(own.memory, ()):
            if other is not new and not new.before >> other.number & 1 and own.meets(access):
                yield other, access, own

    def touch(self, new: Operation, own: Access) -> list[tuple[Operation, Access, Access]]:
        """The newest operation touches this, too: as `races`."""
        new.accesses += (own,)
        found = list(self._unordered(new, own))
        self._touched.setdefault(own.memory, []).append((new, own))
        return found

    # -- the host

    def of_stream(self, stream: int) -> list[int]:
        return list(self.pending(stream))

    def of_event(self, event: int) -> list[int]:
        return list(self._events[event])

    def of_all(self) -> list[int]:
        return [number for tail in self._tails for number in tail]

    def wait(self, numbers: Iterable[int], line: int = 0, certain: bool = True) -> None:
        """The host waits until these have ended. certain: whether it then knows that they have; else only time passes."""
        numbers = list(numbers)
        self._schedule(numbers)
        self.known |= self._all(numbers) if certain else 0
        last = max(numbers, key=lambda n: self.operations[n].finish, default=None)
        if last is not None and self.operations[last].finish > self.clock:
            self.clock, self.held = self.operations[last].finish, (last, line)
        for (
            memory,
            touched,
        ) in self._touched.items():  # what is known to have ended races with nothing any more
            self._touched[memory] = [(o, a) for o, a in touched if not self.known >> o.number & 1]

    # -- times

    def _schedule(self, numbers: Iterable[int]) -> None:
        """Gives times to operations, in the order in which they start, until these have one."""
        missing = {n for n in numbers if self.operations[n].finish < 0}
        while missing:
            ready = []
            for queue in self._queues:
                first = self.operations[queue[0]] if queue else None
                if first and all(self.operations[n].finish >= 0 for n in first.after):
                    at = max([first.issued, *(self.operations[n].finish for n in first.after)])
                    ready.append((max(at, self._free[first.engine]), at, first.number))
            start, _, number = min(ready)
            chosen = self.operations[number]
            chosen.start, chosen.finish = start, start + chosen.time
            self._free[chosen.engine] = chosen.finish
            self._queues[chosen.stream].pop(0)
            missing.discard(number)

    def end(self) -> int:
        """When everything has ended."""
        self._schedule(range(len(self.operations)))
        return max([self.clock, *(o.finish for o in self.operations)])

    def binding(self, operation: Operation) -> tuple[Operation, Edge] | None:
        """What an operation started right after; of several, first what it cannot do without."""
        found = []
        for other in self.operations:
            if other.finish != operation.start or other is operation:
                continue
            if other.number in operation.after:
                edge = operation.after[other.number]
                found.append((0 if operation.meets(other) else 2, other.number, edge))
            elif operation.held and operation.held[0] == other.number:
                found.append(
                    (0 if operation.meets(other) else 3, other.number, Edge("host", operation.held[1]))
                )
            elif other.engine == operation.engine:
                found.append((1, other.number, Edge("engine")))
        if not found:
            return None
        _, number, edge = min(found, key=lambda f: f[:2])
        return self.operations[number], edge

    def critical(self) -> list[tuple[Operation, Operation, Edge]]:
        """The chain of operations that takes as long as all: (earlier, later, why it is later), last first."""
        self.end()
        path, now = [], max(self.operations, key=lambda o: o.finish, default=None)
        while now and (bound := self.binding(now)):
            path.append((bound[0], now, bound[1]))
            now = bound[0]
        return path


def copied(size: int) -> int:
    """Nanoseconds of a copy of so many bytes."""
    return START + size // COPIED


def computed(flops: int) -> int:
    return START + flops // COMPUTED


def filled(size: int) -> int:
    return START + size // STORED
