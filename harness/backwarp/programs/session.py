"""Answers what a program asks of CUDA: memory, copies, launches, streams, and what is a mistake in them.

The virtual GPU does everything at once, and in the order in which the program asks. What is certain is another matter: that is
in an Order, as for puzzle 44, and what the host touches too early is protected until it has waited.
"""

from __future__ import annotations

import re
import signal
import struct
from collections.abc import Callable

import numpy as np

from ..devices.virtual.confined import ConfinedGPU, ConfinedModule
from ..errors import DeviceError
from ..streams.order import COMPUTE, IN, OUT, Access
from . import errors, memory, mistakes, verbs
from .images import Images
from .launches import Kernels
from .memory import ARRAY, DEVICE, FREED_BY, INSIDE, MANAGED, PINNED, VARIABLE, Allocation
from .mistakes import Frames
from .model import Model
from .modules import Modules, called
from .process import Ended
from .streams import Call, Streams

TO_DEVICE, TO_HOST, WITHIN, ANY = 1, 2, 3, 4
#: by direction, whether the destination and the source are the device's
_NEEDS = {TO_DEVICE: (True, False), TO_HOST: (False, True), WITHIN: (True, True), 0: (False, False)}
INVALID_PITCH, NOT_PERMITTED = 12, 800
IN_CALLS = {
    "called",
    "stopped",
    "said",
    "overrun",
    "bye",
}  # what a function of the host that a stream calls may cause
NONSENSE = (
    "what it asks of CUDA's runtime makes no sense ({asked}: {error}): it has written into the runtime's memory, "
    "or this is a defect of backwarp"
)
Answer = tuple


def rows_of(a: Allocation, address: int, width: int, pitch: int, rows: int, stores: bool) -> Access:
    first = address - a.start
    if rows == 1 or pitch == width:
        return Access(a.start, first, first + width * rows, stores)
    return Access(a.start, first, first + width, stores, pitch, rows)


class Session:
    """bytes_, compile_: as in Kernels. line: the text of a line, from the call of some frames on."""

    def __init__(
        self,
        device: ConfinedGPU,
        bytes_: np.ndarray,
        compile_: Callable[[list[str]], ConfinedModule],
        line: Callable,
        source: str,
        model: Model = Model(),
    ):
        self.model = model
        self.device, self._line, self._source = device, line, source
        self.memory = memory.Memory(device.memory)
        self.mistakes = mistakes.Mistakes()
        self.streams = Streams(self.memory, self.mistakes)
        self.images = Images(device, self.memory, self.mistakes, self._allocate)
        self.kernels = Kernels(
            device,
            bytes_,
            compile_,
            self.memory,
            self.mistakes,
            self.streams,
            model,
            self.images,
            bool(re.search("cu(da)?Stream", source)),
        )
        self.modules = Modules(device, self.mistakes, self.kernels, {})
        self._parts = self, self.streams, self.kernels, self.images, self.modules

    # -- the frame of it all ------------------------------------------------------------------------------

    def answer(self, verb: int, frames: tuple, words: tuple, extra: bytes) -> tuple[int, tuple, bytes, list]:
        """(code, words, text, changes of protection) for one request."""
        name = verbs.VERBS[verb].lower()
        if name != "stopped":
            self.streams.close()
        if self.streams.calling and name not in IN_CALLS:
            self.mistakes.name("in-call", Frames(frames), at=Frames(self.streams.calling.what.frames))
            return NOT_PERMITTED, (), b"", self.streams.protections()
        try:
            handler = next(filter(None, (getattr(p, f"on_{name}", None) for p in self._parts)))
            code, *rest = handler(Frames(frames), words, extra)
        except (ArithmeticError, LookupError, TypeError, ValueError, struct.error) as error:
            raise Ended(NONSENSE.format(asked=name, error=type(error).__name__)) from error
        text = b""
        if rest and isinstance(rest[0], bytes):
            rest, text = (), rest[0]
        elif name.startswith(("wait_", "query_")) or name in ("copied", "reset", "bye", "stopped", "free"):
            text, self.kernels.printed = self.kernels.printed, b""
        return code, tuple(rest), text, self.streams.protections()

    def on_bye(self, frames, words, extra) -> Answer:
        self.streams.wait(self.streams.order.of_all())
        failed = [m for m in self.mistakes if m.frames[:1] == frames[:1]]
        for m in failed if words[0] else ():
            m.facts["unasked"] = True
        if words[0] and not failed:
            self.mistakes.name(
                "unasked", frames, what="A launch", name=errors.codes().get(words[0], ("an error",))[0]
            )
        for a in self.memory.live():
            self.mistakes.name("leak", a.made, memory=a.described, nbytes=a.nbytes)
        for made in self.images.left() if all(m.is_note for m in self.mistakes) else ():
            self.mistakes.name("left", made.made, what=made.called)
        return (0,)

    def on_refused(self, frames, words, extra) -> Answer:
        self.mistakes.name("refused", frames, name=called(extra))
        return (0,)

    def on_recording(self, frames, words, extra) -> Answer:
        self.mistakes.name("recording", frames, name=extra.decode("utf-8", "replace"))
        return (0,)

    # -- memory -------------------------------------------------------------------------------------------

    def _allocate(self, frames, nbytes: int, kind: int, make: Callable) -> int | None:
        """The address of new memory; None, and a note, if there is no room. make: the device's array, given its name."""
        name = memory.named(self._line(frames))
        while True:
            try:
                if nbytes > self.device.room:
                    raise DeviceError("too much")
                array = make(name)
                start = array.pointer
                break
            except DeviceError:
                if self.device.process.generation > 1 or not self.memory.drop():
                    more = "; with --checks memory it has more" if self.device.checks == "full" else ""
                    facts = dict(room=self.device.room, used=self.memory.used, wanted=nbytes, more=more)
                    self.mistakes.name("full", frames, **facts)
                    return None
        self.memory.add(Allocation(start, nbytes, kind, name, array, frames))
        return start

    def on_malloc(self, frames, words, extra) -> Answer:
        nbytes, kind, item, _, stream, later = words[:6]
        number = self.streams.stream_of(frames, stream) if later else 0
        if not nbytes or number is None:
            return 0 if number is not None else 400, 0

        def make(name: str):
            dtype = memory.element(item, nbytes, name, self._source)
            return self.device.empty(
                nbytes // dtype.itemsize, dtype, name or f"memory of {memory.CALLED[kind]}"
            )

        start = self._allocate(frames, nbytes, kind, make)
        if start is None:
            return 2, 0
        made = self.memory.find(start)
        if kind in (MANAGED, PINNED):  # new pages of a system are zeros
            self.kernels.bytes[start : start + nbytes] = 0
            made.array.store(0, nbytes)  # the host may write to it, unseen
            self.streams.protect(made)
        if later:
            self.streams.issue_whole("allocation", number, made, frames)
        return 0, start

    def on_free(self, frames, words, extra) -> Answer:
        address, kind, stream, later = words[:4]
        if later and (number := self.streams.stream_of(frames, stream)) is None:
            return (400,)
        if not later:
            self.streams.wait(self.streams.order.of_all())
        a = self.memory.holding(address)
        if a is None or a.kind == VARIABLE:
            facts = dict(call=FREED_BY.get(kind, "cudaFree"), what=memory.CALLED.get(kind, "a call"))
            facts["remedy"] = "Host memory goes back to free() or delete[]."
            self.mistakes.name("free-host", frames, memory=self.memory.described(address), **facts)
            return (1,)
        if a.freed is not None:
            self.mistakes.name("freed-twice", frames, memory=a.described, freed=Frames(a.freed))
            return (1,)
        if address != a.start:
            self.mistakes.name("free-inside", frames, memory=a.described, past=address - a.start)
            return (1,)
        called, right = (FREED_BY.get(k, "cudaFree") for k in (kind, a.kind))
        if called != right:
            remedy = f"This memory goes back to {right}."
            facts = dict(call=called, what=memory.CALLED[kind], memory=a.described)
            self.mistakes.name("free-host", frames, remedy=remedy, **facts)
            if ARRAY in (kind, a.kind):
                return (1,)
        if later:
            self.streams.issue_whole("free", number, a, frames)
        if self.memory.retire(a, frames):  # addresses are used again
            self.streams.wait(self.streams.order.of_all())
        self.images.retire(a)
        self.streams.protect(a)
        return (self.streams.fault,)

    def _directed(self, frames, kind: int, places, inside: list[bool], kinds: list) -> bool:
        """Whether a copy's direction is that of its memory, the destination's first."""
        for i, k, device in zip(inside, kinds, _NEEDS[kind], strict=True):
            if device and not i or not device and k in INSIDE:
                to, from_ = map(self.memory.described, places)
                on = [i and k != PINNED for i, k in zip(inside, kinds, strict=True)]
                facts = dict(said=kind, to=to, to_device=on[0], from_device=on[1])
                self.mistakes.name("direction", frames, **facts, **{"from": from_})
                return False
        return True

    def on_copy(self, frames, words, extra) -> Answer:
        to, to_pitch, from_, from_pitch, width, height, kind, stream, how = words[:9]
        later, arrays = how & 1, (how & 2, how & 4)
        if (number := self.streams.stream_of(frames, stream)) is None:
            return (400,)
        for which, address in (("destination", to), ("source", from_)):
            if address < 4096:
                self.mistakes.name("null", frames, which=which, because="")
                return (1,)
        inside = [self.memory.is_device(p) for p in (to, from_)]
        kinds = [
            (a.kind if (a := self.memory.holding(p)) else DEVICE) if i else None
            for p, i in zip((to, from_), inside, strict=True)
        ]
        if kind in _NEEDS and not self._directed(frames, kind, (to, from_), inside, kinds):
            return (1,)
        sides = []
        for address, pitch, i, stores, array in (
            (to, to_pitch, inside[0], True, arrays[0]),
            (from_, from_pitch, inside[1], False, arrays[1]),
        ):
            span = pitch * (height - 1) + width
            found = self.memory, self.mistakes, frames, address, span, stores, bool(array)
            a = memory.held(*found) if i else None
            if i and a is None:
                return (1,)
            sides.append((a, address, pitch))
        if height > 1 and min(to_pitch, from_pitch) < width:
            return (INVALID_PITCH,)
        (target, *_), (source, *_) = sides
        if source and kinds[1] in INSIDE and (target is None or kinds[0] not in (DEVICE, ARRAY)):
            self._note_unset(frames, source, from_, from_pitch, width, height)
        if target:
            target.array.store(to - target.start, width, to_pitch, height)
        accesses = [
            rows_of(a, address, width, pitch, height, s == 0)
            for s, (a, address, pitch) in enumerate(sides)
            if a
        ]
        size = width * height
        engine, took = (OUT if kinds[0] in (None, PINNED) else IN), self.model.copied(size)
        if {*kinds} <= INSIDE:
            engine, took = COMPUTE, self.model.moved(size)
        what = Call("copy", "", frames, nbytes=size)
        made = self.streams.issue(engine, took, number, accesses, what)
        order = self.streams.order
        if kinds[0] is None or not later and {MANAGED, PINNED} & {*kinds}:
            self.streams.wait([made.number])
        elif (
            not later and kinds[1] is None
        ):  # the host goes on when it has read its memory: the end may be under way
            order.wait([made.number], certain=False)
            self.streams.wait(made.after)
        return (self.streams.fault,)

    def _note_unset(self, frames, a: Allocation, address: int, pitch: int, width: int, height: int) -> None:
        if self.device.checks != "full":
            return
        count, first = 0, 0
        for row in range(min(height, 64)):
            absent, at = a.array.unset(address - a.start + row * pitch, width)
            first = first if count else row * width + at
            count += absent
        if count:
            self.mistakes.name(
                "unset", frames, memory=a.described, count=count, total=width * height, first=first
            )

    def on_copied(self, frames, words, extra) -> Answer:
        return (self.streams.fault,)

    def on_fill(self, frames, words, extra) -> Answer:
        to, pitch, width, height, _, stream, later = words[:7]
        if (number := self.streams.stream_of(frames, stream)) is None:
            return (400,)
        if not self.memory.is_device(to):
            self.mistakes.name(
                "direction",
                frames,
                said=3,
                to=self.memory.described(to),
                to_device=False,
                from_device=False,
                **{"from": mistakes.Memory("host")},
            )
            return (1,)
        span = pitch * (height - 1) + width
        if (a := memory.held(self.memory, self.mistakes, frames, to, span, True)) is None:
            return (1,)
        if height > 1 and pitch < width:
            return (INVALID_PITCH,)
        a.array.store(to - a.start, width, pitch, height)
        access = rows_of(a, to, width, pitch, height, True)
        size = width * height
        what = Call("fill", "", frames, nbytes=size)
        made = self.streams.issue(COMPUTE, self.model.filled(size), number, [access], what)
        if not later and a.on_host:
            self.streams.wait([made.number])
        return (self.streams.fault,)

    def on_pointer(self, frames, words, extra) -> Answer:
        a = self.memory.holding(words[0]) if self.memory.is_device(words[0]) else None
        return 0, a.kind % VARIABLE if a and a.freed is None and a.kind != ARRAY else (1 << 64) - 1

    def on_memory(self, frames, words, extra) -> Answer:
        return 0, self.device.room - self.memory.used, self.device.room

    def on_reset(self, frames, words, extra) -> Answer:
        self.streams.wait(self.streams.order.of_all())
        for a in self.memory.live():
            self.memory.retire(a, frames)
            self.images.retire(a)
            self.streams.protect(a)
        code, self.streams.fault = self.streams.fault, 0
        return (code,)

    def on_overrun(self, frames, words, extra) -> Answer:
        size, past, *made = words[:6]
        self.mistakes.name("overrun", tuple(made), size=size, past=size + past, freed=frames)
        return (0,)

    def on_no_device(self, frames, words, extra) -> Answer:
        self.mistakes.name("no-device", frames, wanted=words[0])
        return (101,)

    # -- what the host touches ----------------------------------------------------------------------------

    def on_stopped(self, frames, words, extra) -> Answer:
        """A signal. 0: go on."""
        number, address, writes, trap, deep, code = words[:6]
        sign = next((s.name.removeprefix("SIG") for s in signal.Signals if s == number), str(number))
        does = "writes to" if writes else "reads"
        if sign in ("SEGV", "BUS") and self.memory.is_device(address) and code <= 0x7F:
            a = self.memory.find(address)
            if a and a.on_host and a.freed is None and self.streams.calling:
                self.streams.touched_by_call(a, address - a.start, bool(writes))
                return (0,)
            uses = self.streams.users(a, address - a.start, bool(writes)) if a else []
            if a and a.freed is not None and a.on_host:
                self.mistakes.name("freed", frames, memory=a.described, freed=Frames(a.freed))
            elif a and a.on_host and uses:
                operation, access = uses[-1]
                facts = dict(
                    memory=a.described,
                    past=address - a.start,
                    does=does,
                    since=Frames(operation.what.frames),
                )
                facts |= dict(
                    what=operation.what.name or operation.what.what,
                    uses="writes" if access.stores else "reads",
                )
                self.mistakes.name("under-way", frames, **facts)
                self.streams.wait(self.streams.order.of_all())
                return (0,)
            elif a and a.on_host and self.streams.let(a, address - a.start):
                return (0,)
            elif a:
                self.mistakes.name("on-device", frames, memory=a.described, past=address - a.start, does=does)
            if a:
                return (1,)
        if sign != "ABRT":
            said = mistakes.TRAPS.get(trap - 1, "does what C++ leaves undefined") if trap else ""
            facts = dict(signal=sign, address=address, writes=writes, trap=said, deep=deep, code=code)
            self.mistakes.name("stopped", frames, **facts)
        return (1,)

    def on_said(self, frames, words, extra) -> Answer:
        text = extra.decode("utf-8", "replace").strip()
        self.mistakes.name("index", frames, said=text.rpartition(": ")[2].rstrip("."))
        return (0,)
