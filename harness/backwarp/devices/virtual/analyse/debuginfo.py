"""Variables as described by the compiler, in the debugging sections of the unoptimised flavour's PTX.

Names, types and extents are exact there, including templates and structs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from .dwarf import (
    BLOCK,
    HIGH,
    LINE,
    LINKAGE,
    LOCATION,
    LOW,
    NAME,
    PARAMETER,
    SUBPROGRAM,
    TYPE,
    VARIABLE,
    Bytes,
    Entry,
    sections,
)
from .padding import Padding, Pointed
from .scopes import Block, Described, Scoped, Scopes

_ADDRESS_OP, _PLUS_OP, _REGISTER_OP = 3, 35, 144


@dataclass(frozen=True)
class Declared:
    """A variable. symbol: its symbol in PTX, or that of the depot that holds it at `offset`."""

    name: str
    symbol: str
    offset: int
    nbytes: int
    shape: tuple[int, ...]  # () if it is not an array
    itemsize: int
    line: int = 0
    padding: tuple[Padding, ...] = ()


@lru_cache(maxsize=4)
def variables(text: str) -> tuple[Declared, ...]:
    """Variables with a place in memory; none for PTX whose debugging sections are missing or unusual."""
    return tuple(_read(text, _Reader.variables))


@lru_cache(maxsize=4)
def in_registers(text: str) -> dict[tuple[str, str], str]:
    """(function, register) -> the variable that it holds, if it only ever holds one."""
    found: dict[tuple[str, str], set[str]] = {}
    for v in scopes(text).variables:
        for _, _, register in v.places:
            found.setdefault((v.function, register), set()).add(v.name)
    return {key: names.pop() for key, names in found.items() if len(names) == 1}


@lru_cache(maxsize=4)
def scopes(text: str) -> Scopes:
    """Lexical blocks, and the variables of functions, each in its block."""
    found = _read(text, _Reader.scopes)
    return found[0] if found else Scopes()


def pointed(text: str, kernel: str) -> tuple[Pointed, ...]:
    """What the pointers among the parameters of a kernel, or in structs passed by value, point to: elements with padding."""
    return tuple(_read(text, lambda reader: reader.pointed(kernel)))


def structs(text: str) -> dict[str, tuple[Padding, ...]]:
    """The padding of each struct that has any, by its name; none where several have the same name, and another layout."""
    found: dict[str, set] = {}
    for name, padding in _read(text, _Reader.structs):
        found.setdefault(name, set()).add(padding)
    single = {name: given.pop() for name, given in found.items() if len(given) == 1}
    return {name: padding for name, padding in single.items() if padding}


def _read(text: str, question) -> list:
    try:
        reader = _reader(text)
        return list(question(reader)) if reader else []
    except (
        IndexError,
        KeyError,
        ValueError,
        TypeError,
        RecursionError,
        OverflowError,
    ):  # `asm` can add to them
        return []


@lru_cache(maxsize=2)
def _reader(text: str) -> _Reader | None:
    found = sections(text)
    return _Reader(found) if "debug_info" in found and "debug_abbrev" in found else None


class _Reader(Described):
    def variables(self):
        work = [self.root]
        while work:
            entry = work.pop()
            work.extend(reversed(entry.children))
            if entry.tag == VARIABLE and isinstance(entry.values.get(LOCATION), tuple):
                symbol, offset = self._place(*entry.values[LOCATION])
                if symbol:
                    nbytes, shape, itemsize = self.type(entry.values.get(TYPE, 0))
                    padding = self.padding(entry.values.get(TYPE, 0), max(nbytes // max(itemsize, 1), 1))
                    yield Declared(
                        str(entry.values.get(NAME, "")),
                        symbol,
                        offset,
                        nbytes,
                        shape,
                        itemsize,
                        int(entry.values.get(LINE, 0)),
                        padding,
                    )

    def scopes(self):
        """One Scopes."""
        blocks: list[Block] = []
        found: list[Scoped] = []
        work = [(self.root, "", -1)]
        while work:
            entry, function, block = work.pop()
            for child in entry.children:
                v = child.values
                if child.tag == SUBPROGRAM and LOW in v or child.tag == BLOCK:
                    own = str(v.get(LINKAGE, v.get(NAME, ""))) if child.tag == SUBPROGRAM else function
                    blocks.append(Block(own, str(v.get(LOW, "")), str(v.get(HIGH, "")), block))
                    work.append((child, own, len(blocks) - 1))
                elif child.tag in (VARIABLE, PARAMETER):
                    found.append(
                        self._scoped(child, function, block, blocks[block].high if block >= 0 else "")
                    )
        yield Scopes(tuple(blocks), tuple(found))

    def _scoped(self, entry: Entry, function: str, block: int, end: str) -> Scoped:
        v = entry.values
        place = v.get(LOCATION)
        in_memory = self._place(*place) if isinstance(place, tuple) else ("", 0)
        places = tuple(self._registers(place, end))
        return Scoped(
            function, str(v.get(NAME, "")), block, self.described(v.get(TYPE, 0)), places, *in_memory
        )

    def _registers(self, place, end: str = ""):
        """(label, label, register): where a variable is in a register, from label to label. end: of one that is always in the same,
        whose first label is ""."""
        for section, start, *within in self._expressions(place, end):
            section.at = start
            if section.take(1) == _REGISTER_OP:
                number = section.uleb()  # its name, as a number
                name = number.to_bytes(-(-number.bit_length() // 8), "big").decode("ascii", "replace")
                yield *within, name

    def _expressions(self, place, end: str) -> Iterator[tuple[Bytes, int, str, str]]:
        """(section, start, label, label) of the data that locates a variable: a single location, or a list of them."""
        if isinstance(place, tuple):
            yield self.section, place[0], "", end
        elif isinstance(place, str):
            at, places = int(place.partition("+")[2] or 0), self.places
            while at + 18 <= len(places.data) and (
                places.data[at : at + 16] != bytes(16) or at in places.symbols
            ):
                length = int.from_bytes(places.data[at + 16 : at + 18], "little")
                yield places, at + 18, places.symbols.get(at, ""), places.symbols.get(at + 8, "")
                at += 18 + length

    def _place(self, start: int, end: int) -> tuple[str, int]:
        """`DW_OP_addr symbol [DW_OP_plus_uconst n]` -> (symbol, n); ("", 0) for a register."""
        s = self.section
        saved, s.at = s.at, start
        try:
            if s.take(1) != _ADDRESS_OP or s.at not in s.symbols:
                return "", 0
            symbol = s.symbols[s.at]
            s.at += 8
            return symbol, s.uleb() if s.at < end and s.take(1) == _PLUS_OP else 0
        finally:
            s.at = saved
