"""Answers what a program asks of CUDA: memory, copies, launches, streams, and what is a mistake in them.

The virtual GPU does everything at once, and in the order in which the program asks. What is certain is another matter: that is
in an Order, as for puzzle 44, and what the host touches too early is protected until it has waited.
"""

from __future__ import annotations

import signal
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..devices.nvrtc.symbols import demangle
from ..devices.virtual.confined import ConfinedGPU, ConfinedKernel, ConfinedModule
from ..errors import BackwarpError, DeviceError, KernelFault, LaunchError
from ..streams.order import COMPUTE, IN, OUT, Access, Operation, Order, copied, filled
from . import errors, libraries, memory, mistakes, verbs
from .memory import DEVICE, MANAGED, PINNED, VARIABLE, Allocation
from .mistakes import Frames, Mistake
from .process import Ended

TO_DEVICE, TO_HOST, WITHIN, ANY = 1, 2, 3, 4
#: what a kernel's fault is to the runtime; other kinds leave the device as it was
STICKY = {
    "out-of-bounds": 700,
    "invalid-address": 700,
    "read-only": 700,
    "misaligned": 716,
    "assert": 710,
    "timeout": 702,
}
STICKY |= {"stack-overflow": 700, "barrier-divergence": 719, "invalid-free": 700}
_NONE, _READ, _BOTH = 0, 1, 3  # protections of pages
_MOST = 2048  # operations that nobody waited for, of which the first is then taken to have ended
_KINDS = {DEVICE: "device", MANAGED: "managed", PINNED: "pinned", VARIABLE: "device"}
MOST_MISTAKES = 20
INVALID_PITCH = 12
NONSENSE = (
    "what it asks of CUDA's runtime makes no sense ({asked}: {error}): it has written into the runtime's memory, "
    "or this is a defect of backwarp"
)
Answer = tuple


@dataclass(frozen=True)
class Call:
    """What an operation was."""

    what: str  # "copy", "fill" or "kernel"
    name: str
    frames: tuple[int, ...]
    atomic: set[Access] = field(default_factory=set)  # those of its accesses that are atomic


class Session:
    """bytes_: the device's memory. module: compiles kernels, given the names of those that the program registers. line: the text of a line, from the call of some frames on."""

    def __init__(
        self,
        device: ConfinedGPU,
        bytes_: np.ndarray,
        compile_: Callable[[list[str]], ConfinedModule],
        line: Callable,
        source: str,
    ):
        self.device, self.bytes, self._compile = device, bytes_, compile_
        self._line, self._source = line, source
        self.memory = memory.Memory(device.memory)
        self.mistakes: list[Mistake] = []
        self.module: ConfinedModule | None = None
        self.launches, self.seconds = 0, 0.0
        self._kernels: dict[str, ConfinedKernel] = {}
        self._variables: dict[str, Allocation] = {}
        self._limits: dict[str, int] = {}
        self._said = b""  # what kernels have printed, until the host waits
        self._sticky, self._tracks = 0, False
        self.order = Order()
        self._streams: dict[int, int] = {0: 0, 1: 0, 2: 0}
        self._events: dict[int, tuple[int, int]] = {}  # number in the order, and when it was recorded
        self._numbers = 0x100
        self._protected: dict[int, int] = {}  # by allocation: its pages' protection
        self._failed: BackwarpError | None = None

    # -- the frame of it all ------------------------------------------------------------------------------

    def answer(self, verb: int, frames: tuple, words: tuple, extra: bytes) -> tuple[int, tuple, bytes, list]:
        """(code, words, text, changes of protection) for one request."""
        name = verbs.VERBS[verb].lower()
        try:
            code, *rest = getattr(self, f"on_{name}")(Frames(frames), words, extra)
        except (ArithmeticError, LookupError, TypeError, ValueError, struct.error) as error:
            raise Ended(NONSENSE.format(asked=name, error=type(error).__name__)) from error
        text = b""
        if name == "hello":
            rest, text = (), rest[0]
        elif name in ("wait_stream", "wait_event", "wait_all", "copied", "reset", "bye", "stopped", "free"):
            text, self._said = self._said, b""
        return code, tuple(rest), text, self._protections()

    def _name(self, kind: str, frames: Sequence[int], fault: KernelFault | None = None, **facts) -> None:
        same = [m for m in self.mistakes if m.kind == kind and m.frames[:1] == frames[:1]]
        if not same and len(self.mistakes) < MOST_MISTAKES:
            self.mistakes.append(Mistake(kind, tuple(frames), facts, fault))

    def on_hello(self, frames, words, extra) -> Answer:
        names = extra.decode("utf-8", "replace").split("\n")
        kernels = dict(n[1:].split(" ", 1) for n in names if n.startswith("k") and " " in n)
        self.module = self._compile(list(kernels.values()))
        lines = []
        for symbol in kernels:
            if symbol in self.module.lowered.kernels:
                self._kernels[symbol] = kernel = ConfinedKernel(self.module, symbol, symbol)
                lines.append(" ".join(map(str, (symbol, *kernel.params))))
        return 0, "\n".join(lines).encode()

    def on_bye(self, frames, words, extra) -> Answer:
        self.order.wait(self.order.of_all())
        failed = [m for m in self.mistakes if m.frames[:1] == frames[:1]]
        for m in failed if words[0] else ():
            m.facts["unasked"] = True
        if words[0] and not failed:
            self._name(
                "unasked", frames, what="A launch", name=errors.codes().get(words[0], ("an error",))[0]
            )
        for a in self.memory.live():
            self._name("leak", a.made, memory=self._memory(a), nbytes=a.nbytes)
        return (0,)

    def on_refused(self, frames, words, extra) -> Answer:
        self._name("refused", frames, name=extra.decode("utf-8", "replace"))
        return (0,)

    def _print(self, text: str) -> None:
        self._said += text.encode()

    # -- memory -------------------------------------------------------------------------------------------

    def on_malloc(self, frames, words, extra) -> Answer:
        nbytes, kind, item = words[:3]
        if not nbytes:
            return 0, 0
        name = memory.named(self._line(frames))
        dtype = memory.element(item, nbytes, name, self._source)
        while True:
            try:
                if nbytes > self.device.room:
                    raise DeviceError("too much")
                array = self.device.empty(
                    nbytes // dtype.itemsize, dtype, name or f"memory of {memory.CALLED[kind]}"
                )
                start = array.pointer
                break
            except DeviceError:
                if self.device.process.generation > 1 or not self.memory.drop():
                    facts = dict(room=self.device.room, used=self.memory.used, wanted=nbytes)
                    self._name("full", frames, **facts)
                    return 2, 0
        self.memory.add(Allocation(start, nbytes, kind, name, array, frames))
        if kind in (MANAGED, PINNED):
            array.store(0, nbytes)  # the host may write to it, unseen
            self._protected[start] = -1
        return 0, start

    def on_free(self, frames, words, extra) -> Answer:
        address, kind = words[:2]
        self._wait(self.order.of_all(), frames)
        a = self.memory.holding(address)
        if a is None or a.kind == VARIABLE:
            remedy = "Host memory goes back to free() or delete[]."
            self._name("free-host", frames, memory=self._pointer(address), remedy=remedy)
            return (1,)
        if a.freed is not None:
            self._name("freed-twice", frames, memory=self._memory(a), freed=Frames(a.freed))
            return (1,)
        if address != a.start:
            self._name("free-inside", frames, memory=self._memory(a), past=address - a.start)
            return (1,)
        if (kind == PINNED) != (a.kind == PINNED):
            remedy = (
                "This memory goes back to cudaFreeHost."
                if a.kind == PINNED
                else "This memory goes back to cudaFree."
            )
            self._name("free-host", frames, memory=self._memory(a), remedy=remedy)
        self.memory.retire(a, frames)
        self._protected[a.start] = -2
        return (self._sticky,)

    def _memory_of(self, frames, address: int, nbytes: int, stores: bool) -> Allocation | None:
        """The allocation with these bytes; None, and a mistake, if there is none."""
        a = self.memory.find(address)
        if a is None or address >= a.end + 4096 and a.freed is None:
            near = self._memory(a) if a else mistakes.Memory("host")
            self._name("outside", frames, memory=near, past=address - a.end if a else 0)
            return None
        if a.freed is not None:
            self._name("freed", frames, memory=self._memory(a), freed=Frames(a.freed))
            return None
        if address + nbytes > a.end:
            facts = dict(memory=self._memory(a), wanted=nbytes, left=max(a.end - address, 0), nbytes=a.nbytes)
            self._name("too-long", frames, stores=stores, **facts)
            return None
        return a

    def on_copy(self, frames, words, extra) -> Answer:
        to, to_pitch, from_, from_pitch, width, height, kind, stream, later = words[:9]
        if (number := self._stream_of(frames, stream)) is None:
            return (400,)
        for which, address in (("destination", to), ("source", from_)):
            if address < 4096:
                self._name("null", frames, which=which, because="")
                return (1,)
        inside = [self.memory.is_device(p) for p in (to, from_)]
        kinds = [
            (a.kind if (a := self.memory.holding(p)) else DEVICE) if i else None
            for p, i in zip((to, from_), inside, strict=True)
        ]
        needs = {
            TO_DEVICE: (True, False),
            TO_HOST: (False, True),
            WITHIN: (True, True),
            0: (False, False),
        }.get(kind)
        if needs:
            for i, k, device in zip(inside, kinds, needs, strict=True):
                if device and not i or not device and k in (DEVICE, VARIABLE):
                    facts = dict(
                        said=kind, to=self._pointer(to), from_device=inside[1] and kinds[1] != PINNED
                    )
                    facts |= {"from": self._pointer(from_), "to_device": inside[0] and kinds[0] != PINNED}
                    self._name("direction", frames, **facts)
                    return (1,)
        sides = []
        for address, pitch, i, stores in (
            (to, to_pitch, inside[0], True),
            (from_, from_pitch, inside[1], False),
        ):
            span = pitch * (height - 1) + width
            a = self._memory_of(frames, address, span, stores) if i else None
            if i and a is None:
                return (1,)
            sides.append((a, address, span))
        if height > 1 and min(to_pitch, from_pitch) < width:
            return (INVALID_PITCH,)
        (target, _, _), (source, _, span) = sides
        if source and kinds[1] in (DEVICE, VARIABLE) and (target is None or kinds[0] != DEVICE):
            self._note_unset(frames, source, from_, from_pitch, width, height)
        if target:
            target.array.store(to - target.start, width, to_pitch, height)
        accesses = [
            Access(a.start, p - a.start, p - a.start + n, s == 0) for s, (a, p, n) in enumerate(sides) if a
        ]
        engine = OUT if kinds[0] in (None, PINNED) else IN
        made = self._issue(engine, copied(width * height), number, accesses, Call("copy", "", frames))
        pageable = None in kinds
        if not later and not all(k == DEVICE for k in kinds) or later and kinds[0] is None and pageable:
            self._wait([made.number], frames)
        return (self._sticky,)

    def _note_unset(self, frames, a: Allocation, address: int, pitch: int, width: int, height: int) -> None:
        if self.device.checks != "full":
            return
        count, first = 0, 0
        for row in range(min(height, 64)):
            absent, at = a.array.unset(address - a.start + row * pitch, width)
            first = first if count else row * width + at
            count += absent
        if count:
            self._name(
                "unset", frames, memory=self._memory(a), count=count, total=width * height, first=first
            )

    def on_copied(self, frames, words, extra) -> Answer:
        return (self._sticky,)

    def on_fill(self, frames, words, extra) -> Answer:
        to, pitch, width, height, _, stream, later = words[:7]
        if (number := self._stream_of(frames, stream)) is None:
            return (400,)
        if not self.memory.is_device(to):
            self._name(
                "direction",
                frames,
                said=3,
                to=self._pointer(to),
                to_device=False,
                from_device=False,
                **{"from": mistakes.Memory("host")},
            )
            return (1,)
        span = pitch * (height - 1) + width
        if (a := self._memory_of(frames, to, span, True)) is None:
            return (1,)
        if height > 1 and pitch < width:
            return (INVALID_PITCH,)
        a.array.store(to - a.start, width, pitch, height)
        access = Access(a.start, to - a.start, to - a.start + span, True)
        self._issue(COMPUTE, filled(width * height), number, [access], Call("fill", "", frames))
        return (self._sticky,)

    def on_symbol(self, frames, words, extra) -> Answer:
        symbol = extra.decode("utf-8", "replace")
        name = demangle(symbol, qualified=True)
        if symbol not in self._variables:
            known = self.module.variables if self.module else {}
            found = next((n for n in (symbol, name, demangle(symbol)) if n in known), None)
            if found is None:  # no kernel uses it
                array = self.device.empty(64 << 10, np.uint8, name)
                array.store(0, array.nbytes)
            else:
                array = self.module.get_global(found)
            made = Allocation(array.pointer, array.nbytes, VARIABLE, demangle(symbol), array)
            self._variables[symbol] = made
            self.memory.add(made)
        return 0, self._variables[symbol].start

    def on_no_symbol(self, frames, words, extra) -> Answer:
        self._name("symbol", frames)
        return (0,)

    def on_pointer(self, frames, words, extra) -> Answer:
        a = self.memory.holding(words[0]) if self.memory.is_device(words[0]) else None
        return 0, a.kind % VARIABLE if a and a.freed is None else (1 << 64) - 1

    def on_memory(self, frames, words, extra) -> Answer:
        return 0, self.device.room - self.memory.used, self.device.room

    # -- launches -----------------------------------------------------------------------------------------

    def on_launch(self, frames, words, extra) -> Answer:
        (gx, gy), (gz, bx), (by, bz) = ((w & 0xFFFFFFFF, w >> 32) for w in words[:3])
        shared, stream = words[3:5]
        symbol, _, data = extra.partition(b"\0")
        kernel = self._kernels.get(symbol.decode("utf-8", "replace"))
        if kernel is None:
            return (98,)
        if (number := self._stream_of(frames, stream)) is None:
            return (400,)
        if self._sticky:
            return (self._sticky,)
        kernel.max_dynamic_shared_size_bytes = max(
            kernel.max_dynamic_shared_size_bytes, self._limits.get(symbol.decode(), 0)
        )
        arguments, at = [], 0
        for size in kernel.params:
            arguments.append(data[at : at + size])
            at += size
        if len(self._streams) > 3 or any(a.kind == MANAGED for a in self._reached(arguments)):
            self._track()
        began = time.monotonic()
        try:
            done = kernel(
                (gx, gy, gz), (bx, by, bz), tuple(map(self._argument, arguments)), shared_mem=shared
            )
            self._print(done.stdout)
        except LaunchError as error:
            return (self._not_launched(frames, kernel, error),)
        except KernelFault as fault:
            if fault.launch:
                self._print(fault.launch.stdout)
            self._faulted(frames, kernel, arguments, fault)
        finally:
            self.seconds += time.monotonic() - began
            self.launches += 1
        took = int((time.monotonic() - began) * 1e9)
        what = Call("kernel", demangle(kernel.name), frames)
        self._issue(COMPUTE, took, number, list(self._touched(arguments, what)), what)
        return (0,)

    def _track(self) -> None:
        """Launches are to tell what they touch: there are several streams, or memory that the host may touch too."""
        if not self._tracks and self.module and self.device.checks == "full":
            self._tracks = True
            self.module.track()

    def _touched(self, arguments: list[bytes], what: Call) -> Iterator[Access]:
        """What a launch has touched; of memory for the host all, where it is not known."""
        reached = [a for a in (*self._reached(arguments), *self._variables.values()) if a.freed is None]
        tracked = self._tracks and reached
        found = self.device.touched(a.array for a in reached) if tracked else [None] * len(reached)
        for a, runs in zip(reached, found, strict=True):
            for first, end, how in [(0, a.nbytes, 2)] * a.on_host if runs is None else runs:
                access = Access(a.start, first, end, how > 1)
                if how == 3:
                    what.atomic.add(access)
                yield access

    def _argument(self, data: bytes):
        if len(data) == 8:
            a = self.memory.find(int.from_bytes(data, "little"))
            if a and a.start == int.from_bytes(data, "little") and a.freed is None:
                return a.array
        return (
            np.frombuffer(data, np.dtype((np.void, len(data))))[0]
            if len(data) not in (1, 2, 4, 8)
            else np.frombuffer(data, f"u{len(data)}")[0]
        )

    def _reached(self, arguments: Iterable[bytes]) -> list[Allocation]:
        """The allocations that an argument, or a part of one, points into."""
        found = {}
        for data in arguments:
            for i in range(0, len(data) - 7, 8):
                address = int.from_bytes(data[i : i + 8], "little")
                if self.memory.is_device(address) and (a := self.memory.holding(address)):
                    found[a.start] = a
        return list(found.values())

    def _not_launched(self, frames, kernel: ConfinedKernel, error: LaunchError) -> int:
        remedy = ""
        if "is 0" in str(error):
            remedy = "A grid of n threads in blocks of b has (n + b - 1) / b blocks."
        self._name("launch", frames, kernel=demangle(kernel.name), why=str(error).rstrip("."), remedy=remedy)
        return errors.number(error.code)

    def _faulted(self, frames, kernel: ConfinedKernel, arguments: list[bytes], fault: KernelFault) -> None:
        self._sticky = STICKY.get(fault.kind, 0)
        if fault.kind == "timeout" and not fault.endless:  # perhaps only much work
            seconds = self.device.time_limit
            return self._name("slow", frames, kernel=demangle(kernel.name), seconds=seconds, line=fault.line)
        freed = [a for a in self._reached(arguments) if a.freed is not None]
        if fault.kind in ("out-of-bounds", "invalid-address"):
            for a in freed:
                if fault.array in ("", a.array.name):
                    facts = dict(kernel=demangle(kernel.name), memory=self._memory(a), freed=Frames(a.freed))
                    return self._name("freed-pointer", frames, fault, **facts)
        if fault.kind == "invalid-address":
            for number, data in enumerate(arguments, 1):
                address = int.from_bytes(data, "little")
                if len(data) == 8 and address >= 1 << 40 and address < 1 << 47:
                    facts = dict(
                        kernel=demangle(kernel.name), number=number, named="", address=f"{address:#x}"
                    )
                    return self._name("host-pointer", frames, fault, **facts)
        self._name("kernel", frames, fault)
        return None

    def on_library(self, frames, words, extra) -> Answer:
        """A function of cuBLAS or cuRAND: what it touches is known exactly."""
        name, _, data = extra.partition(b"\0")
        called = name.decode("utf-8", "replace")
        if (number := self._stream_of(frames, words[0])) is None:
            return (14,)

        def find(piece: libraries.Piece) -> bool:
            if not self.memory.is_device(piece.address):
                self._name("library", frames, called=called.split()[0], memory=self._pointer(piece.address))
                return False
            return self._memory_of(frames, piece.address, piece.span, piece.stores) is not None

        work = libraries.Work(find, self.bytes)
        try:
            libraries.run(called, struct.unpack(f"={len(data) // 8}Q", data[: len(data) // 8 * 8]), work)
        except (libraries.Outside, KeyError, ValueError):
            return (13,)
        accesses = []
        for p in work.pieces:
            a = self.memory.find(p.address)
            first = p.address - a.start
            accesses.append(Access(a.start, first, first + p.span, p.stores))
            if p.stores:
                a.array.store(first, p.nbytes, p.pitch, p.rows)
        took = filled(sum(p.nbytes * p.rows for p in work.pieces))
        made = self._issue(COMPUTE, took, number, accesses, Call("kernel", called, frames))
        if work.result and not self.memory.is_device(work.result_at):
            self._wait([made.number], frames)
        return 0, len(work.result), work.result_at, int.from_bytes(work.result, "little")

    def on_attribute(self, frames, words, extra) -> Answer:
        what, value = words[:2]
        symbol = extra.decode("utf-8", "replace")
        kernel = self._kernels.get(symbol)
        if kernel is None:
            return (98,)
        if what == 8:  # the most dynamic shared memory
            if value > 163 * 1024 - kernel.info.shared_static:
                self._name(
                    "launch",
                    frames,
                    kernel=demangle(kernel.name),
                    why=f"{value:,} bytes of dynamic shared memory are too many; a block has up to {163 << 10:,}",
                    remedy="",
                )
                return (1,)
            self._limits[symbol] = value
        return (0,)

    def on_function(self, frames, words, extra) -> Answer:
        kernel = self._kernels.get(extra.decode("utf-8", "replace"))
        if kernel is None:
            return (98,)
        dynamic = kernel.max_dynamic_shared_size_bytes
        return 0, kernel.info.shared_static, kernel.info.max_threads or 1024, dynamic

    # -- streams, events and waiting ----------------------------------------------------------------------

    def _issue(self, engine: str, took: int, stream: int, accesses: list[Access], what: Call) -> Operation:
        made = self.order.issue(engine, took, stream, 0, accesses, what)
        for other, theirs, own in self.order.races(made):
            if own not in what.atomic or theirs not in other.what.atomic:
                self._raced(made, other, own, theirs)
        if len(self.order.operations) > _MOST and self.order.operations[0].finish < 0:
            self._wait([self.order.operations[0].number], what.frames)
        return made

    def _raced(self, later: Operation, earlier: Operation, own: Access, theirs: Access) -> None:
        a = self.memory.find(own.memory)
        facts = dict(later=later.what.what, earlier=earlier.what.what, before=Frames(earlier.what.frames))
        facts |= dict(does="writes" if own.stores else "reads", did="writes" if theirs.stores else "reads")
        self._name("race", later.what.frames, memory=self._memory(a), **facts)

    def _wait(self, numbers: Iterable[int], frames) -> None:
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

    def _stream_of(self, frames, stream: int) -> int | None:
        if stream not in self._streams:
            self._name("handle", frames, what="stream")
            return None
        return self._streams[stream]

    def on_stream_end(self, frames, words, extra) -> Answer:
        if words[0] < 0x100 or self._streams.pop(words[0], None) is None:
            self._name("handle", frames, what="stream")
            return (400,)
        return (0,)

    def on_stream_waits(self, frames, words, extra) -> Answer:
        stream, event = self._stream_of(frames, words[0]), self._event_of(frames, words[1])
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
            self._name("handle", frames, what="event")
            return None
        return self._events[event]

    def on_event_end(self, frames, words, extra) -> Answer:
        return (0 if self._event_of(frames, words[0]) and self._events.pop(words[0]) else 400,)

    def on_record(self, frames, words, extra) -> Answer:
        event, stream = self._event_of(frames, words[0]), self._stream_of(frames, words[1])
        if stream is None or event is None:
            return (400,)
        self.order.record(event[0], stream)
        self._events[words[0]] = event[0], time.monotonic_ns()
        return (self._sticky,)

    def on_wait_stream(self, frames, words, extra) -> Answer:
        if (stream := self._stream_of(frames, words[0])) is None:
            return (400,)
        self._wait(self.order.of_stream(stream), frames)
        return (self._sticky,)

    def on_wait_event(self, frames, words, extra) -> Answer:
        if (event := self._event_of(frames, words[0])) is None:
            return (400,)
        self._wait(self.order.of_event(event[0]), frames)
        return (self._sticky,)

    def on_wait_all(self, frames, words, extra) -> Answer:
        self._wait(self.order.of_all(), frames)
        return (self._sticky,)

    def on_reset(self, frames, words, extra) -> Answer:
        self._wait(self.order.of_all(), frames)
        for a in self.memory.live():
            self.memory.retire(a, frames)
            self._protected[a.start] = -2
        code, self._sticky = self._sticky, 0
        return (code,)

    def on_elapsed(self, frames, words, extra) -> Answer:
        found = [self._event_of(frames, event) for event in words[:2]]
        if None in found:
            return 400, 0
        if not all(when for _, when in found):
            self._name("event", frames, why="one of these was never recorded")
            return 400, 0
        return self._sticky, max(found[1][1] - found[0][1], 1000)

    def on_overrun(self, frames, words, extra) -> Answer:
        size, past, *made = words[:6]
        self._name("overrun", tuple(made), size=size, past=size + past, freed=frames)
        return (0,)

    def on_no_device(self, frames, words, extra) -> Answer:
        self._name("no-device", frames, wanted=words[0])
        return (101,)

    # -- what the host touches ----------------------------------------------------------------------------

    def _protections(self) -> list[tuple[int, int, int]]:
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
            if old == -2:
                new = _NONE
            if old != new and (a := self.memory.find(start)):
                changes.append((start, a.nbytes, new))
            if new == _BOTH or old == -2:
                self._protected.pop(start, None)
            else:
                self._protected[start] = new
        return changes

    def on_stopped(self, frames, words, extra) -> Answer:
        """A signal. 0: go on."""
        number, address, writes, trap, deep, code = words[:6]
        sign = next((s.name.removeprefix("SIG") for s in signal.Signals if s == number), str(number))
        does = "writes to" if writes else "reads"
        if sign in ("SEGV", "BUS") and self.memory.is_device(address) and code <= 0x7F:
            a = self.memory.find(address)
            pending = [o for o in self.order.operations if not self.order.known >> o.number & 1]
            uses = [(o, x) for o in pending for x in o.accesses if a and x.memory == a.start]
            if a and a.freed is not None and a.on_host:
                self._name("freed", frames, memory=self._memory(a), freed=Frames(a.freed))
            elif a and a.on_host and uses:
                operation, access = uses[-1]
                facts = dict(
                    memory=self._memory(a),
                    past=address - a.start,
                    does=does,
                    since=Frames(operation.what.frames),
                )
                facts |= dict(
                    what=operation.what.name or operation.what.what,
                    uses="writes" if access.stores else "reads",
                )
                self._name("under-way", frames, **facts)
                self._wait(self.order.of_all(), frames)
                return (0,)
            elif a:
                self._name("on-device", frames, memory=self._memory(a), past=address - a.start, does=does)
            if a:
                return (1,)
        if sign != "ABRT":
            said = mistakes.TRAPS.get(trap - 1, "does what C++ leaves undefined") if trap else ""
            facts = dict(signal=sign, address=address, writes=writes, trap=said, deep=deep, code=code)
            self._name("stopped", frames, **facts)
        return (1,)

    def on_said(self, frames, words, extra) -> Answer:
        text = extra.decode("utf-8", "replace").strip()
        self._name("index", frames, said=text.rpartition(": ")[2].rstrip("."))
        return (0,)

    # -- how memory is called -----------------------------------------------------------------------------

    def _memory(self, a: Allocation) -> mistakes.Memory:
        return mistakes.Memory(_KINDS[a.kind], a.name, Frames(a.made))

    def _pointer(self, address: int) -> mistakes.Memory:
        if not address:
            return mistakes.Memory("null")
        if not self.memory.is_device(address):
            return mistakes.Memory("host")
        a = self.memory.holding(address)
        return self._memory(a) if a else mistakes.Memory("device")
