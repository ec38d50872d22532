"""A GPU with streams for a student's program, which is in another process: memory, the order of work, and the work itself.

Whatever is asked for is done as late as the order allows, and of what may be done next the newest comes first: what is
not ordered then computes with the wrong bytes. Requests are functions of the machine and plain data. Their errors:
Damaged if the program's process could never send them; LaunchMistake, KernelFault, DeviceError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from ..course.least_work import flops
from ..devices.child import Damaged
from ..errors import LaunchMistake
from ..grading.programs.data import NetHandle
from ..lenet.kernels import sizes_of
from ..tensors import Launches
from .order import COMPUTE, IN, OUT, Access, Operation, Order, computed, copied, filled

MOST = 2000  # operations; streams, events and arrays likewise
MOST_BYTES = 64 << 20  # that come with copies which wait
BLOCK = 512  # bytes: what memory is given out in
WORD = 4  # bytes: what is followed
UNSET = 0x7FC00001  # the bits of a NaN
TYPES = ("float32", "int32")


@dataclass
class Memory:
    """Bytes of the device or of the host. stored: by word, 1 + the number of the operation that stores it; 0: none."""

    name: str
    data: np.ndarray
    stored: np.ndarray
    stream: int = 0

    @classmethod
    def unset(cls, name: str, size: int, stream: int = 0) -> Memory:
        words = -(-size // WORD)
        data = np.full(words, UNSET, np.uint32).view(np.uint8)
        return cls(name, data, np.zeros(words, np.int32), stream)

    @classmethod
    def given(cls, name: str, values: np.ndarray) -> Memory:
        data = np.ascontiguousarray(values).view(np.uint8).reshape(-1).copy()
        return cls(name, data, np.ones(data.size // WORD, np.int32))


@dataclass(frozen=True)
class Operand:
    """An array in the memory of the device: contiguous, at `start`."""

    memory: int
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype
    name: str

    @property
    def size(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def access(self, stores: bool) -> Access:
        return Access(self.memory, self.start, self.start + self.size, stores)


@dataclass(frozen=True)
class Work:
    """What an operation does. kind: "set" | "get" | "fill" | "copy" | "add" | a kernel's name. host: the name of the array in
    host memory, and where in it; data: bytes that came with the request. made_by: the kinds of work that stored what is copied."""

    kind: str
    operands: tuple[Operand, ...]
    stream: str
    host: tuple[str, int] | None = None
    data: np.ndarray | None = None
    value: float = 0.0
    made_by: frozenset[str] = frozenset()

    @property
    def called(self) -> str:
        names = {
            "set": "the copy to the device",
            "get": "the copy to the host",
            "fill": "the fill",
            "add": "the sum",
        }
        return names.get(self.kind, "the copy" if self.kind == "copy" else self.kind)


@dataclass(frozen=True)
class Race:
    """Two operations that are not ordered, or one and the host. name: of the array; stores: whether each does."""

    name: str
    earlier: Operation
    later: Operation | None
    stores: tuple[bool, bool]
    line: int  # of the later


@dataclass
class Machine:
    """room: bytes of memory on the device. given, outputs: arrays of the host, and the shapes of those to be filled."""

    launches: Launches
    room: int
    host: dict[str, Memory]
    order: Order = field(default_factory=Order)
    memory: list[Memory | None] = field(default_factory=list)
    free: dict[tuple[int, int], list[int]] = field(
        default_factory=dict
    )  # (stream, size) -> memory given back
    race: Race | None = None
    waiting: list[Operation] = field(default_factory=list)  # not done yet
    landing: list[int] = field(
        default_factory=list
    )  # copies with the host that it does not know to have ended
    landed: dict[int, bytes] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # of streams

    def handle(self) -> NetHandle:
        return NetHandle((), {})

    # -- memory

    def taken(self) -> int:
        return sum(m.data.size for m in self.memory if m)

    def find(self, given: object) -> Operand:
        match given:
            case [int() as memory, int() as start, list() as shape, str() as dtype, str() as name] if (
                0 <= memory < len(self.memory) and self.memory[memory] and dtype in TYPES and len(shape) <= 8
            ):
                if not all(isinstance(n, int) and 0 < n < 1 << 40 for n in shape):
                    raise Damaged
                found = Operand(memory, start, tuple(shape), np.dtype(dtype), name[:60])
                if start < 0 or start % WORD or start + found.size > self.memory[memory].data.size:
                    raise Damaged
                return found
        raise Damaged

    # -- work

    def add(
        self, line: int, stream: int, engine: str, time: int, work: Work, accesses: Sequence[Access]
    ) -> Operation:
        if len(self.order.operations) >= MOST:
            raise LaunchMistake(f"more than {MOST:,} operations: take more images at once")
        for access in accesses:
            self.require_stored(access, work)
        made = self.order.issue(engine, time, stream, line, accesses, work)
        for other, first, own in self.order.races(made):
            if not self.race:
                self.race = Race(self.name_of(own, work), other, made, (first.stores, own.stores), line)
        for access in accesses:
            if access.stores and (memory := self.place(access.memory)):
                memory.stored[access.start // WORD : access.stop // WORD] = made.number + 1
        self.waiting.append(made)
        return made

    def place(self, memory) -> Memory | None:
        return self.host.get(memory) if isinstance(memory, str) else self.memory[memory]

    def name_of(self, access: Access, work: Work) -> str:
        if isinstance(access.memory, str):
            return access.memory
        return next((o.name for o in work.operands if o.memory == access.memory), "an array")

    def require_stored(self, access: Access, work: Work) -> None:
        memory = self.place(access.memory)
        if access.stores or memory is None:
            return
        unset = np.flatnonzero(memory.stored[access.start // WORD : access.stop // WORD] == 0)
        if unset.size:
            raise LaunchMistake(
                f"{work.called} reads {self.name_of(access, work)}, but nothing stores "
                f"{'it' if unset.size == (access.stop - access.start) // WORD else f'{unset.size:,} of its elements'} before"
            )

    def do(self, needed: int) -> None:
        """Does the work with these numbers, as bits, the newest first where the order leaves it open."""
        left = 0
        for operation in self.waiting:
            left |= 1 << operation.number
        while True:
            ready = (o for o in reversed(self.waiting) if needed >> o.number & 1 and not o.before & left)
            if (operation := next(ready, None)) is None:
                return
            self.perform(operation)
            self.waiting.remove(operation)
            left &= ~(1 << operation.number)

    def perform(self, operation: Operation) -> None:
        work = operation.what
        values = [self.values(o) for o in work.operands]
        if work.kind == "set":
            source = work.data
            if work.host:
                name, start = work.host
                source = self.host[name].data[start : start + work.operands[0].size]
            values[0].reshape(-1).view(np.uint8)[...] = source
        elif work.kind == "get":
            data = values[0].reshape(-1).view(np.uint8)
            if work.host:
                name, start = work.host
                self.host[name].data[start : start + data.size] = data
            if self.order.known >> operation.number & 1:  # else nobody will ask for it
                self.landed[operation.number] = data.tobytes()
        elif work.kind == "fill":
            values[0][...] = work.value
        elif work.kind == "copy":
            values[0][...] = values[1]
        elif work.kind == "add":
            values[0] += values[1]
        else:
            for position, stored in self.launches(work.kind, [v.copy() for v in values], {}).items():
                values[position][...] = stored

    def values(self, operand: Operand) -> np.ndarray:
        data = self.memory[operand.memory].data[operand.start : operand.start + operand.size]
        return data.view(operand.dtype).reshape(operand.shape)

    def wait(self, numbers: Sequence[int], line: int) -> list:
        """The host waits. Copies with the host that it now knows to have ended: [number, bytes or None]."""
        self.order.wait(numbers, line)
        self.do(self.order.known)
        found = [n for n in self.landing if self.order.known >> n & 1]
        self.landing = [n for n in self.landing if n not in set(found)]
        return [[n, self.landed.pop(n, None)] for n in found]

    def finish(self) -> None:
        """Does everything that nobody has waited for."""
        self.do((1 << len(self.order.operations)) - 1)


# ---- requests --------------------------------------------------------------------------------------------


def expect(holds: bool) -> None:
    if not holds:
        raise Damaged


def is_place(number: object, count: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < count


def expect_line(line: object) -> None:
    expect(is_place(line, 1 << 31))


def expect_stream(machine: Machine, stream: object) -> None:
    expect(is_place(stream, len(machine.order._tails)))


def expect_event(machine: Machine, event: object) -> None:
    expect(is_place(event, len(machine.order._events)))


def stream(machine: Machine, blocking: bool) -> int:
    expect(isinstance(blocking, bool))
    if len(machine.order._tails) >= MOST:
        raise LaunchMistake(f"more than {MOST:,} streams")
    return machine.order.stream(blocking)


def event(machine: Machine) -> int:
    if len(machine.order._events) >= MOST:
        raise LaunchMistake(f"more than {MOST:,} events: an event can be recorded again")
    return machine.order.event()


def record(machine: Machine, event: int, stream: int) -> None:
    expect_event(machine, event)
    expect_stream(machine, stream)
    machine.order.record(event, stream)


def wait_event(machine: Machine, stream: int, event: int, line: int) -> None:
    expect_event(machine, event)
    expect_stream(machine, stream)
    expect_line(line)
    machine.order.wait_event(stream, event, line)


def wait(machine: Machine, line: int, what: str, number: int) -> list:
    """The host waits for a stream, an event or everything."""
    expect_line(line)
    order = machine.order
    if what == "stream":
        expect_stream(machine, number)
        return machine.wait(order.of_stream(number), line)
    if what == "event":
        expect_event(machine, number)
        return machine.wait(order.of_event(number), line)
    expect(what == "device")
    return machine.wait(order.of_all(), line)


def allocate(machine: Machine, line: int, name: str, size: int, stream: int) -> int:
    """Memory as CuPy's pool gives it: what was given back, if it is of this size and was made for this stream."""
    expect_line(line)
    expect(isinstance(name, str) and isinstance(size, int) and 0 < size < 1 << 50)
    expect_stream(machine, stream)
    size = -(-size // BLOCK) * BLOCK
    if given_back := machine.free.get((stream, size)):
        number = given_back.pop()
        machine.memory[number].stored[...] = 0
        return number
    if machine.taken() + size > machine.room and any(machine.free.values()):
        machine.wait(machine.order.of_all(), line)  # giving memory back to the system waits for everything
        for number in (n for numbers in machine.free.values() for n in numbers):
            machine.memory[number] = None
        machine.free = {}
    if machine.taken() + size > machine.room:
        raise LaunchMistake(
            f"the device has {machine.room:,} bytes, {machine.taken():,} are taken, and {size:,} more do not fit: use arrays "
            "again, it has room for those of three chunks"
        )
    if len(machine.memory) >= MOST:
        raise LaunchMistake(f"more than {MOST:,} arrays: use them again")
    machine.memory.append(Memory.unset(name[:60], size, stream))
    return len(machine.memory) - 1


def free(machine: Machine, number: int) -> None:
    expect(is_place(number, len(machine.memory)) and machine.memory[number] is not None)
    memory = machine.memory[number]
    kept = machine.free.setdefault((memory.stream, memory.data.size), [])
    expect(number not in kept)
    kept.append(number)


def issue(
    machine: Machine, line: int, stream: int, called: str, kind: str, operands: list, source, blocking: bool
) -> list:
    """Work for a stream; [its number, what `wait` returns if the host waits for it]."""
    expect_line(line)
    expect_stream(machine, stream)
    expect(isinstance(called, str) and isinstance(kind, str) and isinstance(blocking, bool))
    expect(isinstance(operands, list) and len(operands) <= 8)
    found = tuple(map(machine.find, operands))
    machine.names[stream] = called[:60] or machine.names.get(stream, "")
    engine, time, accesses, extra = _planned(machine, kind, found, source)
    made = machine.add(line, stream, engine, time, Work(kind, found, called[:60], **extra), accesses)
    if kind in ("set", "get"):
        machine.landing.append(made.number)
    return [made.number, machine.wait([made.number], line) if blocking else []]


def _planned(machine: Machine, kind: str, operands: tuple[Operand, ...], source) -> tuple:
    """Engine, time, accesses, and what else belongs to the work."""
    if kind in ("set", "get", "fill"):
        expect(len(operands) == 1)
    (first, *_) = operands or (None,)
    expect(first is not None)
    if kind == "fill":
        expect(isinstance(source, float))
        return COMPUTE, filled(first.size), (first.access(True),), {"value": source}
    if kind in ("set", "get"):
        accesses, extra = [first.access(kind == "set")], {}
        if kind == "get":
            words = machine.memory[first.memory].stored[
                first.start // WORD : (first.start + first.size) // WORD
            ]
            makers = (machine.order.operations[n - 1].what.kind for n in np.unique(words) if n)
            extra["made_by"] = frozenset(makers)
        match source:
            case [str() as name, int() as start] if name in machine.host:
                expect(
                    start >= 0 and start % WORD == 0 and start + first.size <= machine.host[name].data.size
                )
                if (
                    kind == "get"
                    and machine.host[name].stored.all()
                    and machine.host[name].stored.max(initial=0) == 1
                ):
                    raise LaunchMistake(
                        f"{name} is an input: copies to the host go to the arrays to be filled"
                    )
                accesses.append(Access(name, start, start + first.size, kind == "get"))
                extra["host"] = name, start
            case np.ndarray() if kind == "set":
                expect(source.dtype == np.uint8 and source.shape == (first.size,))
                waiting = sum(o.what.data.size for o in machine.waiting if o.what.data is not None)
                if waiting + first.size > MOST_BYTES:
                    raise LaunchMistake(
                        "copies from memory of your own wait, of more than 64 MB: wait for some of them"
                    )
                extra["data"] = source
            case None if kind == "get":
                pass
            case _:
                raise Damaged
        return (IN if kind == "set" else OUT), copied(first.size), accesses, extra
    if kind in ("copy", "add"):
        expect(len(operands) == 2 and operands[0].shape == operands[1].shape)
        expect(operands[0].dtype == operands[1].dtype)
        size = int(np.prod(first.shape))
        accesses = [first.access(True), operands[1].access(False)]
        accesses += [first.access(False)] if kind == "add" else []
        return COMPUTE, computed(size) if kind == "add" else filled(first.size), accesses, {}
    return COMPUTE, *_launched(machine, kind, operands), {}


def _launched(machine: Machine, kernel: str, operands: tuple[Operand, ...]) -> tuple[int, list[Access]]:
    """Time and accesses of a kernel. Errors: LaunchMistake if it does not take these arrays."""
    arrays = [SimpleNamespace(name=o.name, shape=o.shape, dtype=o.dtype) for o in operands]
    kernels = machine.launches.kernels(arrays)
    kernels.bind(kernel, tuple(arrays)).check({})
    choice = machine.launches.choices[kernel]
    named = {p.name: a for p, a in zip(choice.home.arrays, arrays)}
    dims: Mapping[str, int] = sizes_of(choice, named)
    pairs = list(zip(choice.home.arrays, operands))
    accesses = [o.access(False) for p, o in pairs if p.is_input] + [
        o.access(True) for p, o in pairs if p.is_output
    ]
    return computed(flops(choice.home, dims) or sum(a.size for a in operands)), accesses


def host(machine: Machine, line: int, name: str, number: int, stores: bool) -> None:
    """The host touches an array that a copy reads or fills, before it knows that the copy has ended."""
    expect_line(line)
    expect(
        isinstance(name, str) and isinstance(stores, bool) and is_place(number, len(machine.order.operations))
    )
    operation = machine.order.operations[number]
    name = operation.what.host[0] if operation.what.host else name[:60] or "the array"
    copies_in = operation.what.kind == "get"
    machine.race = machine.race or Race(name, operation, None, (copies_in, stores), line)
    raise LaunchMistake(f"{name} is used while {operation.what.called} in line {operation.line} is under way")


def elapsed(machine: Machine, first: int, last: int) -> float:
    """Milliseconds between two events, of the machine's time."""
    expect_event(machine, first)
    expect_event(machine, last)
    order, ends = machine.order, []
    for numbers in map(order.of_event, (first, last)):
        if not all(order.known >> n & 1 for n in numbers):
            raise LaunchMistake("cudaErrorNotReady: wait for both events first, with synchronize()")
        ends.append(max([0, *(order.operations[n].finish for n in numbers)]))
    return (ends[1] - ends[0]) / 1e6


REQUESTS = {
    work.__name__: work
    for work in (stream, event, record, wait_event, wait, allocate, free, issue, host, elapsed)
}
