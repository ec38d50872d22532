"""A program's calls of CUDA's runtime without a program, and with a device that only hands out addresses."""

from __future__ import annotations

import itertools
import struct
from types import SimpleNamespace

import numpy as np

from backwarp.programs import verbs
from backwarp.programs.session import Session
from tests.soak.orders import (
    BLOCKING,
    CELL,
    CELLS,
    DEVICE,
    FREE,
    HOST,
    MANAGED,
    NULL,
    PINNED,
    THREAD,
    Part,
    Step,
)

HERE, MIB, PAGE, ANY = 0x7F00_0000_0000, 1 << 20, 4096, 4


class Array:
    def __init__(self, pointer: int, nbytes: int, name: str, device=None):
        self.device, self.pointer, self.nbytes, self.name, self.stored, self.retired = (
            device,
            pointer,
            nbytes,
            name,
            [],
            False,
        )

    def store(self, *where) -> None:
        self.stored.append(where)

    def unset(self, offset: int, nbytes: int) -> tuple[int, int]:
        return (0, 0) if self.stored else (nbytes, 0)

    def retire(self) -> None:
        self.retired = True


class Program:
    """Calls by their names, as a program would make them; each comes from another line."""

    def __init__(self):
        self.pages: dict[int, int] = {}  # and how the host may use them
        places = itertools.count(MIB, MIB)
        device = SimpleNamespace(
            memory=1 << 31, room=1 << 30, checks="full", process=SimpleNamespace(generation=1)
        )
        device.empty = lambda shape, dtype, name, **_: Array(
            next(places), int(np.prod(shape)) * np.dtype(dtype).itemsize, name, device
        )
        numbers = itertools.count(0x7458 << 48)
        device.bind_texture, device.unbind_texture = lambda *_: next(numbers), lambda _: None
        self.session, self.line = (
            Session(
                device,
                np.zeros(8 * MIB, np.uint8),
                lambda _: None,
                lambda _: "cudaMalloc(&d, n);",
                "float *d;",
            ),
            0,
        )

    def __getattr__(self, name: str):
        def call(*words, extra: bytes = b""):
            self.line += 1
            given = (*words, *[0] * verbs.WORDS)[: verbs.WORDS]
            frames = (self.line, *[0] * (verbs.FRAMES - 1))
            self.code, found, _, self.changes = self.session.answer(
                verbs.VERBS.index(name.upper()), frames, given, extra
            )
            for start, nbytes, how in self.changes:
                self.pages |= dict.fromkeys(range(start // PAGE, -(-(start + nbytes) // PAGE)), how)
            return found[0] if found else self.code

        return call

    def malloc_(self, nbytes: int = 400, kind: int = 0) -> int:
        return self.malloc(nbytes, kind, 0)

    def array_(self, width: int = 8, height: int = 4, flags: int = 0, texel=(32, 0, 0, 0, 2)) -> int:
        return self.array(width, height, 0, flags, extra=struct.pack("=5i", *texel))

    def image_(self, array: int, kind: int = 0, *about: int, texture: bool = True) -> int:
        resource = struct.pack("=i4xQ5i4x3Q", kind, array, 32, 0, 0, 0, 2, *(*about, 0, 0, 0)[:3]).ljust(
            144, b"\0"
        )
        return self.image(extra=resource + bytes(72) * texture)

    def move(
        self, to: int, from_: int, nbytes: int = 400, kind: int = ANY, stream: int = 0, later: int = 0
    ) -> int:
        return self.copy(to, nbytes, from_, nbytes, nbytes, 1, kind, stream, later)

    def touch(self, address: int, writes: bool) -> None:
        """The host reads or writes a byte."""
        while self.pages.get(address // PAGE, 0) < (3 if writes else 1):
            if self.stopped(11, address, int(writes), 0, 0, 2):
                break

    @property
    def found(self) -> list[str]:
        return [m.kind for m in self.session.mistakes if not m.is_note]


class Steps(Program):
    """A program of Steps."""

    def __init__(self):
        super().__init__()
        kinds = {DEVICE: 0, MANAGED: 1, PINNED: 2}
        self.at = {n: self.malloc_(CELL * CELLS, kind) for names, kind in kinds.items() for n in names}
        self.at[HOST] = HERE
        self.streams = (
            {NULL: 0, THREAD: 2} | {s: self.stream(0) for s in BLOCKING} | {s: self.stream(1) for s in FREE}
        )
        self.events = [self.event() for _ in range(2)]

    def place(self, part: Part) -> tuple[int, int]:
        """Its address, and the bytes from row to row."""
        return self.at[part.memory] + CELL * part.first, CELL * (part.pitch if part.rows > 1 else part.count)

    def do(self, step: Step) -> None:
        stream, event = self.streams[step.stream], self.events[step.event]
        if step.do == "copy":
            width, rows = CELL * step.to.count, step.to.rows
            self.copy(*self.place(step.to), *self.place(step.source), width, rows, ANY, stream, step.later)
        elif step.do == "fill":
            self.fill(*self.place(step.to), CELL * step.to.count, step.to.rows, 0, stream, step.later)
        elif step.do == "work":
            one = struct.unpack("q", struct.pack("d", 1))[0]
            (to, to_pitch), (source, pitch) = self.place(step.to), self.place(step.source)
            size = CELL * step.to.count // 4, step.to.rows
            words = 0, 0, *size, one, source, pitch // 4, 0, source, pitch // 4, to, to_pitch // 4, 4
            self.library(stream, extra=b"geam\0" + struct.pack(f"{len(words)}q", *words))
        elif step.do == "call":
            self.call(stream)
            self.touch(self.place(step.to)[0], step.later)
            self.called()
        elif step.do == "free":
            self.free(self.at[step.to.memory], 0, stream, 1)
        elif step.do in ("record", "follow"):
            (self.record if step.do == "record" else self.stream_waits)(
                *((event, stream) if step.do == "record" else (stream, event))
            )
        elif step.do in ("stream", "event", "all"):
            given = {"stream": (stream,), "event": (event,), "all": ()}[step.do]
            getattr(self, f"wait_{step.do}")(*given)
        else:
            self.touch(self.place(step.to)[0], step.do == "write")
        assert self.code == 0


def found_in(steps: list[Step]) -> tuple[set[int], bool]:
    """The steps that race with an earlier one; whether the host was too early."""
    program, at = Steps(), {}
    for number, step in enumerate(steps):
        before = program.line
        program.do(step)
        at |= dict.fromkeys(range(before + 1, program.line + 1), number)
    named = [(m.kind, at[m.frames[0]]) for m in program.session.mistakes if not m.is_note]
    assert {kind for kind, _ in named} <= {"race", "under-way"}, named
    return {step for kind, step in named if kind == "race"}, any(kind == "under-way" for kind, _ in named)
