"""A program's kernels and variables on the device: launches, what they touch, and what their faults mean for the host."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ..devices.nvrtc.symbols import demangle, of_any_compiler
from ..devices.virtual.confined import ConfinedGPU, ConfinedKernel, ConfinedModule
from ..devices.virtual.explain import metrics
from ..errors import KernelFault, LaunchError
from ..streams.order import COMPUTE, Access
from . import errors, libraries
from .images import Images
from .memory import MANAGED, VARIABLE, Allocation, Memory, held
from .mistakes import Frames, Mistakes
from .model import Model
from .streams import Call, Streams

Answer = tuple
_GRANULE = 4  # bytes, of which it is known together whether a launch has touched them
#: what a kernel's fault is to the runtime; other kinds leave the device as it was
STICKY = {
    "out-of-bounds": 700,
    "invalid-address": 700,
    "read-only": 700,
    "misaligned": 716,
    "assert": 710,
    "timeout": 702,
}
STICKY |= {"stack-overflow": 700, "barrier-divergence": 719, "invalid-free": 700, "invalid-texture": 700}
STICKY |= {"outside-surface": 719}


def _words(arguments: Iterable[bytes]) -> Iterator[int]:
    """What may be addresses or handles among arguments and their parts."""
    return (
        int.from_bytes(data[i : i + 8], "little") for data in arguments for i in range(0, len(data) - 7, 8)
    )


class Kernels:
    """bytes_: the device's memory. compile_: makes a module, given the names of the kernels that the program registers. printed:
    what kernels have printed, until the host waits. seconds: what launches took. several: whether the program has streams."""

    def __init__(
        self,
        device: ConfinedGPU,
        bytes_: np.ndarray,
        compile_: Callable[[list[str]], ConfinedModule],
        memory: Memory,
        mistakes: Mistakes,
        streams: Streams,
        model: Model,
        images: Images,
        several: bool = False,
    ):
        self.device, self.bytes, self._compile = device, bytes_, compile_
        self.model, self.several, self.images = model, several, images
        self.memory, self.mistakes, self.streams = memory, mistakes, streams
        self.module: ConfinedModule | None = None  # the program's own
        self._modules: list[ConfinedModule] = []  # all
        self.launches, self.seconds, self.printed = 0, 0.0, b""
        self._kernels: dict[str, ConfinedKernel] = {}
        self._variables: dict[str, Allocation] = {}
        self._limits: dict[str, int] = {}
        self._tracks = False
        self._counts: Counter[str] = Counter()
        self._spared: Counter[str] = Counter()

    @property
    def spared(self) -> dict[str, tuple[int, int]]:
        """By kernel of which launches had no more than memory checked: launches with full checks, and all."""
        return {demangle(k): (self._counts[k] - n, self._counts[k]) for k, n in self._spared.items() if n}

    def _print(self, text: str) -> None:
        self.printed += text.encode()

    def on_hello(self, frames, words, extra) -> Answer:
        names = extra.decode("utf-8", "replace").split("\n")
        kernels = dict(n[1:].split(" ", 1) for n in names if n.startswith("k") and " " in n)
        self.module = self._compile(list(kernels.values()))
        self.add(self.module)
        lines, known = [], {of_any_compiler(k): k for k in self.module.lowered.kernels}
        for symbol in kernels:
            if found := known.get(of_any_compiler(symbol)):
                self._kernels[symbol] = kernel = ConfinedKernel(self.module, found, found)
                lines.append(" ".join(map(str, (symbol, *kernel.params))))
        return 0, "\n".join(lines).encode()

    def add(self, module: ConfinedModule) -> None:
        """A module whose kernels are launched."""
        self._modules.append(module)
        if self._tracks:
            module.track()

    def provide(self, key: str, module: ConfinedModule, symbol: str) -> ConfinedKernel:
        """A kernel of a module, known to launches by a key."""
        return self._kernels.setdefault(key, ConfinedKernel(module, symbol, symbol))

    def know(self, key: str, variable: Allocation) -> None:
        self._variables[key] = variable
        self.memory.add(variable)

    def forget(self, start: str, module: ConfinedModule) -> None:
        """The module is gone, with what is known by keys that start so."""
        self._modules.remove(module)
        for known in (self._kernels, self._variables):
            for key in [key for key in known if key.startswith(start)]:
                del known[key]

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
            self.know(symbol, Allocation(array.pointer, array.nbytes, VARIABLE, demangle(symbol), array))
        return 0, self._variables[symbol].start

    def on_no_symbol(self, frames, words, extra) -> Answer:
        self.mistakes.name("symbol", frames)
        return (0,)

    def on_launch(self, frames, words, extra) -> Answer:
        (gx, gy), (gz, bx), (by, bz) = ((w & 0xFFFFFFFF, w >> 32) for w in words[:3])
        shared, stream = words[3:5]
        symbol, _, data = extra.partition(b"\0")
        kernel = self._kernels.get(symbol.decode("utf-8", "replace"))
        if kernel is None:
            return (98,)
        if (number := self.streams.stream_of(frames, stream)) is None:
            return (400,)
        if self.streams.fault:
            return (self.streams.fault,)
        kernel.max_dynamic_shared_size_bytes = max(
            kernel.max_dynamic_shared_size_bytes, self._limits.get(symbol.decode(), 0)
        )
        arguments, at = [], 0
        for size in kernel.params:
            arguments.append(data[at : at + size])
            at += size
        if self.several or any(a.kind == MANAGED for a in self._reached(arguments)):
            self._track()
        began, done = time.monotonic(), None
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
            self._counts[kernel.name] += 1
        self._spared[kernel.name] += done is not None and done.spared is True
        counters = getattr(done, "counters", None) or {}
        took = self.model.computed(counters) if counters else int((time.monotonic() - began) * 1e9)
        what = Call(
            "kernel",
            demangle(kernel.name),
            frames,
            nbytes=metrics.global_bytes(counters),
            flops=metrics.flops(counters),
        )
        self.streams.issue(COMPUTE, took, number, list(self._touched(arguments, what)), what)
        return (0,)

    def _track(self) -> None:
        """Launches are to tell what they touch: there are several streams, or memory that the host may touch too."""
        if not self._tracks and self._modules and self.device.checks == "full":
            self._tracks = True
            for module in self._modules:
                module.track()

    def _touched(self, arguments: list[bytes], what: Call) -> Iterator[Access]:
        """What a launch has touched; of memory for the host all, where it is not known."""
        reached = [a for a in (*self._reached(arguments), *self._variables.values()) if a.freed is None]
        tracked = self._tracks and reached
        found = self.device.touched(a.array for a in reached) if tracked else [None] * len(reached)
        for a, runs in zip(reached, found, strict=True):
            odd = max(_GRANULE - a.array.dtype.itemsize, 0)  # its first and last bytes may be a neighbour's
            for first, end, how in [(0, a.nbytes, 2)] * a.on_host if runs is None else runs:
                if end - first > 2 * _GRANULE:
                    first, end = first + odd * (first > 0), end - odd * (end < a.nbytes)
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
        """The allocations that an argument, or a part of one, points into, or is a texture of."""
        found = {}
        for address in _words(arguments):
            if self.memory.is_device(address) and (a := self.memory.holding(address)):
                found[a.start] = a
        found |= {made.of.start: made.of for made in self.images.among(_words(arguments))}
        return list(found.values())

    def _not_launched(self, frames, kernel: ConfinedKernel, error: LaunchError) -> int:
        remedy = ""
        if "is 0" in str(error):
            remedy = "A grid of n threads in blocks of b has (n + b - 1) / b blocks."
        self.mistakes.name(
            "launch", frames, kernel=demangle(kernel.name), why=str(error).rstrip("."), remedy=remedy
        )
        return errors.number(error.code)

    def _faulted(self, frames, kernel: ConfinedKernel, arguments: list[bytes], fault: KernelFault) -> None:
        self.streams.fault = STICKY.get(fault.kind, 0)
        if fault.kind == "timeout" and not fault.endless:  # perhaps only much work
            seconds = self.device.time_limit
            return self.mistakes.name(
                "slow", frames, kernel=demangle(kernel.name), seconds=seconds, line=fault.line
            )
        freed = [a for a in self._reached(arguments) if a.freed is not None]
        if fault.kind in ("out-of-bounds", "invalid-address"):
            for a in freed:
                if fault.array in ("", a.array.name):
                    facts = dict(kernel=demangle(kernel.name), memory=a.described, freed=Frames(a.freed))
                    return self.mistakes.name("freed-pointer", frames, fault, **facts)
        if fault.kind == "invalid-texture":
            for made in self.images.among(_words(arguments)):
                if ended := made.ended or made.of.freed:
                    gone = "it was destroyed" if made.ended else "this memory was freed"
                    facts = dict(kernel=demangle(kernel.name), what=made.called, memory=made.of.described)
                    return self.mistakes.name(
                        "gone-image", frames, fault, gone=gone, ended=Frames(ended), **facts
                    )
        if fault.kind == "invalid-address":
            for number, data in enumerate(arguments, 1):
                address = int.from_bytes(data, "little")
                if len(data) == 8 and address >= 1 << 40 and address < 1 << 47:
                    facts = dict(
                        kernel=demangle(kernel.name), number=number, named="", address=f"{address:#x}"
                    )
                    return self.mistakes.name("host-pointer", frames, fault, **facts)
        self.mistakes.name("kernel", frames, fault)
        return None

    def on_library(self, frames, words, extra) -> Answer:
        """A function of cuBLAS or cuRAND: what it touches is known exactly."""
        name, _, data = extra.partition(b"\0")
        called = name.decode("utf-8", "replace")
        if (number := self.streams.stream_of(frames, words[0])) is None:
            return (14,)

        def find(piece: libraries.Piece) -> bool:
            if not self.memory.is_device(piece.address):
                self.mistakes.name(
                    "library", frames, called=called.split()[0], memory=self.memory.described(piece.address)
                )
                return False
            return (
                held(self.memory, self.mistakes, frames, piece.address, piece.span, piece.stores) is not None
            )

        work = libraries.Work(find, self.bytes)
        try:
            libraries.run(called, struct.unpack(f"={len(data) // 8}Q", data[: len(data) // 8 * 8]), work)
        except (libraries.Outside, KeyError, ValueError):
            return (13,)
        accesses = []
        for p in work.pieces:
            a = self.memory.find(p.address)
            first = p.address - a.start
            accesses.append(Access(a.start, first, first + p.nbytes, p.stores, p.pitch, p.rows))
            if p.stores:
                a.array.store(first, p.nbytes, p.pitch, p.rows)
        size = sum(p.nbytes * p.rows for p in work.pieces)
        what = Call("kernel", called, frames, nbytes=size)
        made = self.streams.issue(COMPUTE, self.model.filled(size), number, accesses, what)
        if work.result and not self.memory.is_device(work.result_at):
            self.streams.wait([made.number])
        return 0, len(work.result), work.result_at, int.from_bytes(work.result, "little")

    def on_attribute(self, frames, words, extra) -> Answer:
        what, value = words[:2]
        symbol = extra.decode("utf-8", "replace")
        kernel = self._kernels.get(symbol)
        if kernel is None:
            return (98,)
        if what == 8:  # the most dynamic shared memory
            if value > 163 * 1024 - kernel.info.shared_static:
                self.mistakes.name(
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
