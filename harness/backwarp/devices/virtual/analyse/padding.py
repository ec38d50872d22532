"""The padding of structs: bytes, and bits, that no member uses. They are copied without ever having a value.

struct Near { float distance; bool inside; };    ->    Padding(offset=5, nbytes=3, bits=255, stride=8, count=1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from .dwarf import (
    ARRAY,
    BIT_OFFSET,
    BIT_SIZE,
    BYTES,
    DECLARATION,
    LINKAGE,
    NAME,
    PARAMETER,
    POINTERS,
    STRUCTS,
    SUBPROGRAM,
    TYPE,
    TYPEDEF,
    UNION,
    Entries,
    Entry,
)

_LARGEST = 1 << 16  # bytes of a struct whose padding is looked for
_MOST_RUNS, _MOST_POINTERS = 256, 64


@dataclass(frozen=True)
class Padding:
    """Bytes of which no member of a struct uses `bits`: `nbytes` of them from `offset` in each of `count` elements."""

    offset: int
    nbytes: int
    bits: int
    stride: int
    count: int

    def meets(self, start: int, nbytes: int) -> bool:
        """Whether it has one of these bytes."""
        places = range(start, start + nbytes)
        return any(
            0 <= at - self.offset < self.stride * self.count
            and (at - self.offset) % self.stride < self.nbytes
            for at in places
        )


@dataclass(frozen=True)
class Pointed:
    """An element that a pointer among a kernel's parameters points to. place: of the pointer in the parameter.
    slack: its padding, and what some member of a union in it does not use: it may be copied without a value."""

    parameter: int
    place: int
    padding: tuple[Padding, ...]
    slack: tuple[Padding, ...]


class Layouts(Entries):
    """The layouts of structs."""

    def __init__(self, found: dict[str, str]):
        self.used: dict[tuple[int, bool], int] = {}  # by a type's id: see `_used`
        self.pointers: dict[int, list[tuple[int, int]]] = {}
        super().__init__(found)

    def structs(self):
        for at, entry in self.entries.items():
            if entry.tag in {*STRUCTS, TYPEDEF} and NAME in entry.values and DECLARATION not in entry.values:
                yield entry.values[NAME], self.padding(at, 1)

    def pointed(self, kernel: str):
        for entry in self.entries.values():
            if entry.tag == SUBPROGRAM and entry.values.get(LINKAGE, entry.values.get(NAME)) == kernel:
                parameters = [c for c in entry.children if c.tag == PARAMETER]
                for number, parameter in enumerate(parameters):
                    for place, type_ in self._pointers(self.plain(parameter.values.get(TYPE, 0))):
                        if slack := self.padding(type_, 1, always=True):
                            yield Pointed(number, place, self.padding(type_, 1), slack)

    def _pointers(self, entry: Entry) -> list[tuple[int, int]]:
        """(place, type pointed to) of the pointers in a value of a type."""
        if entry.tag in POINTERS:
            return [(0, int(entry.values[TYPE]))] if TYPE in entry.values else []
        if id(entry) not in self.pointers:
            found = self.pointers[id(entry)] = []
            for member in self.members(entry):
                at = self.offset(member)
                found += [(at + place, to) for place, to in self._pointers(self.plain(member.values[TYPE]))]
                del found[_MOST_POINTERS:]
        return self.pointers[id(entry)]

    def padding(self, at: int, count: int, always: bool = False) -> tuple[Padding, ...]:
        """Of `count` elements of a type, or of arrays of it. always: what is not always used."""
        entry = self.plain(at)
        if entry.tag == ARRAY:
            return self.padding(entry.values[TYPE], count, always)
        size = int(entry.values.get(BYTES, 0)) if entry.tag in STRUCTS else 0
        unused, runs = self._used(entry, always) ^ (1 << 8 * size) - 1 if 0 < size <= _LARGEST else 0, []
        for offset, bits in enumerate(unused.to_bytes(size, "little") if unused else b""):
            if bits and runs and runs[-1][0] + runs[-1][1] == offset and runs[-1][2] == bits:
                runs[-1][1] += 1
            elif bits:
                runs.append([offset, 1, bits])
        return tuple(Padding(*run, size, count) for run in runs[:_MOST_RUNS])

    def _used(self, entry: Entry, always: bool) -> int:
        """The bits of a type that hold a value, up to the bytes of the largest. always: whatever member of a union is set."""
        key = id(entry), always
        if key not in self.used:
            self.used[key] = self._used_by(entry, always) & (1 << 8 * _LARGEST) - 1
        return self.used[key]

    def _used_by(self, entry: Entry, always: bool) -> int:
        if entry.tag == ARRAY:
            nbytes, count = self.type(entry.values[TYPE])[0], math.prod(self.extents(entry))
            count = min(count, _LARGEST // max(nbytes, 1) + 1)
            return _repeated(self._used(self.plain(entry.values[TYPE]), always), 8 * nbytes, count)
        nbytes = min(8 if entry.tag in POINTERS else int(entry.values[BYTES]), _LARGEST)
        if entry.tag not in STRUCTS or DECLARATION in entry.values:
            return (1 << 8 * nbytes) - 1
        parts = []
        for member in self.members(entry):
            bits, low = self._used(self.plain(member.values[TYPE]), always), 8 * self.offset(member)
            if width := int(member.values.get(BIT_SIZE, 0)):  # the offset counts from the highest bit
                low += 8 * int(member.values[BYTES]) - int(member.values[BIT_OFFSET]) - width
                bits = (1 << min(width, 64)) - 1
            parts.append(bits << low if low < 8 * _LARGEST else 0)
        return reduce(and_ if always and entry.tag == UNION else or_, parts[1:], parts[0] if parts else 0)


def _repeated(bits: int, width: int, count: int) -> int:
    """The bits of `count` elements of this width."""
    found = place = 0
    while count:
        if count & 1:
            found |= bits << place
            place += width
        bits |= bits << width
        width, count = 2 * width, count // 2
    return found
