"""The memory that a program has allocated: what is where, who allocated it and who freed it."""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from dataclasses import dataclass, field

import numpy as np

from . import mistakes

DEVICE, MANAGED, PINNED, VARIABLE, ARRAY = range(5)
INSIDE = {DEVICE, VARIABLE, ARRAY}  # what the host cannot touch
CALLED = {
    DEVICE: "cudaMalloc",
    MANAGED: "cudaMallocManaged",
    PINNED: "cudaMallocHost",
    VARIABLE: "a variable",
    ARRAY: "cudaMallocArray",
}
FREED_BY = {PINNED: "cudaFreeHost", ARRAY: "cudaFreeArray"}  # others by cudaFree
_KINDS = {DEVICE: "device", MANAGED: "managed", PINNED: "pinned", VARIABLE: "device", ARRAY: "array"}
KEPT = 256 << 20  # bytes of freed memory whose addresses are not used again
_TARGET = re.compile(
    r"\(\s*(?:\(\s*void\s*\*\s*\*\s*\)|reinterpret_cast<[^>]*>\s*\()?\s*&?\s*([A-Za-z_]\w*(?:(?:\.|->)\w+|\[\w+\])*)"
)
_PLAIN = {1: "u1", 2: "u2", 4: "i4", 8: "i8", 256 + 4: "f4", 256 + 8: "f8"}
_TYPES = {
    "float": "f4",
    "double": "f8",
    "int": "i4",
    "unsigned": "u4",
    "char": "i1",
    "short": "i2",
    "int32_t": "i4",
    "uint32_t": "u4",
}
_TYPES |= {
    "uint8_t": "u1",
    "half": "u2",
    "__half": "u2",
    "size_t": "u8",
    "int64_t": "i8",
    "long": "i8",
    "bool": "u1",
    "uint": "u4",
}


@dataclass(eq=False)
class Allocation:
    """kind: DEVICE ... ARRAY. made, freed: the frames of the calls. array: the device's."""

    start: int
    nbytes: int
    kind: int
    name: str
    array: object
    made: tuple[int, ...] = ()
    freed: tuple[int, ...] | None = None

    @property
    def end(self) -> int:
        return self.start + self.nbytes

    @property
    def on_host(self) -> bool:
        """Whether the host may use it, too."""
        return self.kind in (MANAGED, PINNED)

    @property
    def described(self) -> mistakes.Memory:
        return mistakes.Memory(_KINDS[self.kind], self.name, mistakes.Frames(self.made))


@dataclass
class Memory:
    """All allocations, also freed ones while their addresses are not used again."""

    size: int
    _starts: list[int] = field(default_factory=list)
    _at: dict[int, Allocation] = field(default_factory=dict)
    _retired: list[Allocation] = field(default_factory=list)

    def add(self, made: Allocation) -> None:
        if made.start not in self._at:
            insort(self._starts, made.start)
        self._at[made.start] = made

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds an address, or is the last before it; freed ones too."""
        i = bisect_right(self._starts, address) - 1
        return self._at[self._starts[i]] if i >= 0 else None

    def holding(self, address: int) -> Allocation | None:
        found = self.find(address)
        return found if found and found.start <= address < max(found.end, found.start + 1) else None

    def is_device(self, address: int) -> bool:
        return 4096 <= address < self.size

    def described(self, address: int) -> mistakes.Memory:
        if not address:
            return mistakes.Memory("null")
        if not self.is_device(address):
            return mistakes.Memory("host")
        a = self.holding(address)
        return a.described if a else mistakes.Memory("device")

    def retire(self, freed: Allocation, frames: tuple[int, ...]) -> bool:
        """It has been freed; after a while its place is used again. Whether that of others is now."""
        freed.freed = frames
        freed.array.retire()
        self._retired.append(freed)
        return self.drop(KEPT)

    def drop(self, keep: int = 0) -> bool:
        """Gives the oldest freed memory back until no more than `keep` bytes are held. Whether there was any."""
        held, any_ = sum(a.nbytes for a in self._retired), False
        while self._retired and held > keep:
            old = self._retired.pop(0)
            held, any_ = held - old.nbytes, True
            if self._at.get(old.start) is old:
                del self._at[old.start]
                del self._starts[bisect_right(self._starts, old.start) - 1]
            old.array = None
        return any_

    def live(self) -> list[Allocation]:
        return [a for a in self._at.values() if a.freed is None and a.kind != VARIABLE]

    @property
    def used(self) -> int:
        return sum(a.nbytes for a in self._at.values() if a.freed is None)


def held(
    memory: Memory,
    named: mistakes.Mistakes,
    frames,
    address: int,
    nbytes: int,
    stores: bool,
    array: bool = False,
) -> Allocation | None:
    """The allocation with these bytes; None, and a mistake, if there is none. array: whether they may be a CUDA array's."""
    a = memory.find(address)
    if a is None or address >= a.end + 4096 and a.freed is None:
        near = a.described if a else mistakes.Memory("host")
        named.name("outside", frames, memory=near, past=address - a.end if a else 0)
        return None
    if a.freed is not None:
        named.name("freed", frames, memory=a.described, freed=mistakes.Frames(a.freed))
        return None
    if a.kind == ARRAY and not array:
        named.name("array-plain", frames, memory=a.described)
        return None
    if address + nbytes > a.end:
        facts = dict(memory=a.described, wanted=nbytes, left=max(a.end - address, 0), nbytes=a.nbytes)
        named.name("too-long", frames, stores=stores, **facts)
        return None
    return a


def named(line: str) -> str:
    """What a call that allocates calls its memory: `cudaMalloc(&d_a, n)` -> d_a."""
    for call in re.finditer(r"\b\w*[mM]alloc\w*\s*|\bcu(?:da|Mem)\w*Alloc\w*\s*", line):
        if found := _TARGET.match(line, call.end()):
            return found[1]
    return ""


def element(item: int, nbytes: int, name: str, source: str) -> np.dtype:
    """The type of an allocation's elements. item: what the call's type says, as in host/prelude.h."""
    code = _PLAIN.get(item, "")
    if not item and name:
        last = re.escape(re.split(r"\.|->", name)[-1].split("[")[0])
        declared = re.search(rf"\b(\w+)\s*\*+(?:[\w\s*,=]*[*,\s])?{last}\b", source)
        code = _TYPES.get(declared[1], "") if declared else ""
    dtype = np.dtype(code or "u1")
    return dtype if nbytes % dtype.itemsize == 0 else np.dtype("u1")
