"""DWARF sections as the compiler writes them into the unoptimised flavour's PTX: entries, and the sizes of types.

Source: DWARF 2, sections 7.5 (abbreviations), 7.5.4 (forms), 5.4 (arrays), 5.5 (structures); PTX ISA, section 11.5
(.section).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ARRAY, SUBRANGE, VARIABLE, SUBPROGRAM, TYPEDEF = 1, 33, 52, 46, 22
PARAMETER, MEMBER, INHERITANCE = 5, 13, 28
POINTERS = {15, 16, 66}  # pointer, reference, rvalue reference
UNION = 23
STRUCTS = {2, 19, UNION}  # with class and structure
NAME, BYTES, TYPE, LOCATION, COUNT, UPPER, LINE, LINKAGE = 3, 11, 73, 2, 55, 47, 59, 0x2007
MEMBER_PLACE, BIT_SIZE, BIT_OFFSET, DECLARATION = 56, 13, 12, 60
BLOCK, LOW, HIGH = 11, 17, 18  # a lexical block; where it begins and ends
BASE, ENUM, ENCODING = 36, 4, 62
_SECTION = re.compile(r"\.section\s+\.(debug_\w+)\s*\{(.*?)\}", re.S)
_DATUM = re.compile(r"\.b(8|16|32|64)\s+([^\n]+)")


def sections(text: str) -> dict[str, str]:
    return dict(_SECTION.findall(text))


@dataclass
class Entry:
    tag: int
    values: dict[int, object] = field(default_factory=dict)
    children: list[Entry] = field(default_factory=list)


class Bytes:
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


def abbreviations(section: Bytes) -> dict[int, tuple[int, bool, list[tuple[int, int]]]]:
    """Code -> (tag, has children, [(attribute, form)])."""
    table = {}
    while section.at < len(section.data) and (code := section.uleb()):
        tag, children = section.uleb(), bool(section.take(1))
        pairs = []
        while (pair := (section.uleb(), section.uleb())) != (0, 0):
            pairs.append(pair)
        table[code] = (tag, children, pairs)
    return table


class Entries:
    """What the sections describe, by its place there."""

    def __init__(self, found: dict[str, str]):
        self.section, self.places = Bytes(found["debug_info"]), Bytes(found.get("debug_loc", ""))
        self.abbreviations = abbreviations(Bytes(found["debug_abbrev"]))
        self.entries: dict[int, Entry] = {}
        self.section.take(4 + 2 + 4 + 1)  # length, version, abbreviations, bytes of an address
        self.root = self._read()
        if self.root is None:
            raise ValueError("no entry")

    def _read(self) -> Entry | None:
        at = self.section.at
        code = self.section.uleb()
        if not code:
            return None
        tag, children, pairs = self.abbreviations[code]
        entry = self.entries[at] = Entry(tag, {attribute: self._value(form) for attribute, form in pairs})
        if children:
            while child := self._read():
                entry.children.append(child)
        return entry

    def _value(self, form: int):
        s = self.section
        if form == 1 and s.at in s.symbols:
            return s.symbols[(s.at, s.take(8))[0]]
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

    # -- types ----------------------------------------------------------------------------------------

    def type(self, at: int) -> tuple[int, tuple[int, ...], int]:
        """(bytes, extents, bytes of an element) of a type."""
        entry = self.entries[at]
        if entry.tag == ARRAY:
            extents = self.extents(entry)
            nbytes, inner, itemsize = self.type(entry.values[TYPE])
            for extent in extents:
                nbytes *= extent
            return nbytes, extents + inner, itemsize
        if entry.tag in POINTERS:
            return 8, (), 8
        if BYTES in entry.values:
            return int(entry.values[BYTES]), (), int(entry.values[BYTES])
        return self.type(entry.values[TYPE])  # typedef, const, volatile

    def extents(self, array: Entry) -> tuple[int, ...]:
        ranges = (c.values for c in array.children if c.tag == SUBRANGE)
        return tuple(int(v.get(COUNT, v.get(UPPER, -1) + 1)) for v in ranges)

    def members(self, entry: Entry) -> list[Entry]:
        """Members and base classes of a struct that are part of it."""
        ours = (c for c in entry.children if c.tag in (MEMBER, INHERITANCE))
        return [c for c in ours if MEMBER_PLACE in c.values] if entry.tag in STRUCTS else []

    def offset(self, member: Entry) -> int:
        """`DW_OP_plus_uconst n` -> n."""
        s = self.section
        saved, s.at = s.at, member.values[MEMBER_PLACE][0] + 1
        try:
            return s.uleb()
        finally:
            s.at = saved

    def plain(self, at: int) -> Entry:
        """A type without typedef, const, volatile."""
        entry = self.entries[at]
        if BYTES in entry.values or entry.tag == ARRAY or entry.tag in POINTERS:
            return entry
        return self.plain(entry.values[TYPE])
