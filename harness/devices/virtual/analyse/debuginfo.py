"""Variables as described by the compiler, in the DWARF sections of the unoptimised flavour's PTX.

Names, types and extents are exact there, including templates and structs. Source: DWARF 2, sections 7.5
(abbreviations), 7.5.4 (forms), 5.4 (arrays); PTX ISA, section 11.5 (.section).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

_COMPILE_UNIT, _ARRAY, _SUBRANGE, _VARIABLE, _SUBPROGRAM = 17, 1, 33, 52, 46
_POINTERS = {15, 16, 66}  # pointer, reference, rvalue reference
_NAME, _BYTES, _TYPE, _LOCATION, _COUNT, _UPPER, _LINE = 3, 11, 73, 2, 55, 47, 59
_LINKAGE = 0x2007
_PARAMETER = 5
_ADDRESS_OP, _PLUS_OP, _REGISTER_OP = 3, 35, 144
_SECTION = re.compile(r"\.section\s+\.(debug_\w+)\s*\{(.*?)\}", re.S)
_DATUM = re.compile(r"\.b(8|16|32|64)\s+([^\n]+)")


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


@dataclass
class _Entry:
    tag: int
    values: dict[int, object] = field(default_factory=dict)
    children: list[_Entry] = field(default_factory=list)


@lru_cache(maxsize=4)
def variables(text: str) -> tuple[Declared, ...]:
    """Variables with a place in memory; none for PTX whose debugging sections are missing or unusual."""
    return tuple(_read(text, _Reader.variables))


@lru_cache(maxsize=4)
def in_registers(text: str) -> dict[tuple[str, str], str]:
    """(function, register) -> the variable that it holds, if it only ever holds one."""
    found: dict[tuple[str, str], set[str]] = {}
    for function, register, name in _read(text, _Reader.in_registers):
        found.setdefault((function, register), set()).add(name)
    return {key: names.pop() for key, names in found.items() if len(names) == 1}


def _read(text: str, question) -> list:
    sections = dict(_SECTION.findall(text))
    if "debug_info" not in sections or "debug_abbrev" not in sections:
        return []
    try:
        abbreviations = _abbreviations(_Bytes(sections["debug_abbrev"]))
        return list(question(_Reader(sections["debug_info"], abbreviations, sections.get("debug_loc", ""))))
    except (IndexError, KeyError, ValueError, TypeError, RecursionError):  # `asm` can add to them
        return []


class _Bytes:
    """A section's bytes, with symbols in place of addresses."""

    def __init__(self, text: str):
        data, self.symbols = bytearray(), {}
        for width, values in _DATUM.findall(text):
            values = values.split(",")
            if width == "8":
                try:
                    data += bytes([int(value, 0) & 255 for value in values])
                    continue
                except ValueError:  # a symbol
                    pass
            for value in values:
                value = value.strip()
                if not re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", value):
                    self.symbols[len(data)] = value
                    value = "0"
                nbytes = int(width) // 8
                data += (int(value, 0) & (1 << 8 * nbytes) - 1).to_bytes(nbytes, "little")
        self.data, self.at = bytes(data), 0

    def take(self, nbytes: int) -> int:
        start = self.at
        self.at += nbytes
        if self.at > len(self.data):
            raise IndexError
        return int.from_bytes(self.data[start : self.at], "little")

    def uleb(self) -> int:
        result = shift = 0
        while True:
            byte = self.take(1)
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    def string(self) -> str:
        end = self.data.index(0, self.at)
        text = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return text


def _abbreviations(section: _Bytes) -> dict[int, tuple[int, bool, list[tuple[int, int]]]]:
    """Code -> (tag, has children, [(attribute, form)])."""
    table = {}
    while section.at < len(section.data) and (code := section.uleb()):
        tag, children = section.uleb(), bool(section.take(1))
        pairs = []
        while (pair := (section.uleb(), section.uleb())) != (0, 0):
            pairs.append(pair)
        table[code] = (tag, children, pairs)
    return table


class _Reader:
    def __init__(self, text: str, abbreviations, places: str = ""):
        self.section, self.abbreviations, self.places = _Bytes(text), abbreviations, _Bytes(places)
        self.entries: dict[int, _Entry] = {}
        self.section.take(4 + 2 + 4 + 1)  # length, version, abbreviations, bytes of an address
        self.root = self._entry()
        if self.root is None:
            raise ValueError("no entry")

    def _entry(self) -> _Entry | None:
        at = self.section.at
        code = self.section.uleb()
        if not code:
            return None
        tag, children, pairs = self.abbreviations[code]
        entry = self.entries[at] = _Entry(tag, {attribute: self._value(form) for attribute, form in pairs})
        if children:
            while child := self._entry():
                entry.children.append(child)
        return entry

    def _value(self, form: int):
        s = self.section
        if form == 6 and s.symbols.get(s.at, "").startswith(".debug_loc"):
            return s.symbols[(s.at, s.take(4))[0]]
        if form in (1, 5, 6, 7, 11, 12, 17, 18, 19, 20):  # addresses, data, flags, references
            return s.take({1: 8, 5: 2, 6: 4, 7: 8, 11: 1, 12: 1, 17: 1, 18: 2, 19: 4, 20: 8}[form])
        if form in (3, 4, 9, 10):  # blocks
            end = {3: lambda: s.take(2), 4: lambda: s.take(4), 9: s.uleb, 10: lambda: s.take(1)}[
                form
            ]() + s.at
            block = (s.at, end)
            s.at = end
            return block
        if form == 8:
            return s.string()
        if form in (13, 15, 21):
            return s.uleb()
        raise ValueError(f"form {form}")

    def variables(self):
        work = [self.root]
        while work:
            entry = work.pop()
            work.extend(reversed(entry.children))
            if entry.tag == _VARIABLE and isinstance(entry.values.get(_LOCATION), tuple):
                symbol, offset = self._place(*entry.values[_LOCATION])
                if symbol:
                    nbytes, shape, itemsize = self._type(entry.values.get(_TYPE, 0))
                    yield Declared(
                        str(entry.values.get(_NAME, "")),
                        symbol,
                        offset,
                        nbytes,
                        shape,
                        itemsize,
                        int(entry.values.get(_LINE, 0)),
                    )

    def in_registers(self):
        """(function, register, variable), for each location of a function's variable."""
        work = [(self.root, "")]
        while work:
            entry, function = work.pop()
            if entry.tag == _SUBPROGRAM:
                function = str(entry.values.get(_LINKAGE, entry.values.get(_NAME, "")))
            work += [(child, function) for child in entry.children]
            place = entry.values.get(_LOCATION)
            if entry.tag in (_VARIABLE, _PARAMETER) and place:
                for section, start in self._expressions(place):
                    section.at = start
                    if section.take(1) == _REGISTER_OP:
                        number = section.uleb()  # its name, as a number
                        register = number.to_bytes(-(-number.bit_length() // 8), "big").decode(
                            "ascii", "replace"
                        )
                        yield function, register, str(entry.values.get(_NAME, ""))

    def _expressions(self, place):
        """(section, start) of the data that locates a variable: a single location, or a list of them."""
        if isinstance(place, tuple):
            yield self.section, place[0]
        elif isinstance(place, str):
            at, places = int(place.partition("+")[2] or 0), self.places
            while at + 18 <= len(places.data) and (
                places.data[at : at + 16] != bytes(16) or at in places.symbols
            ):
                length = int.from_bytes(places.data[at + 16 : at + 18], "little")
                yield places, at + 18
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

    def _type(self, at: int) -> tuple[int, tuple[int, ...], int]:
        """(bytes, extents, bytes of an element) of a type."""
        entry = self.entries[at]
        if entry.tag == _ARRAY:
            extents = tuple(
                int(c.values.get(_COUNT, c.values.get(_UPPER, -1) + 1))
                for c in entry.children
                if c.tag == _SUBRANGE
            )
            nbytes, inner, itemsize = self._type(entry.values[_TYPE])
            for extent in extents:
                nbytes *= extent
            return nbytes, extents + inner, itemsize
        if entry.tag in _POINTERS:
            return 8, (), 8
        if _BYTES in entry.values:
            return int(entry.values[_BYTES]), (), int(entry.values[_BYTES])
        return self._type(entry.values[_TYPE])  # typedef, const, volatile
