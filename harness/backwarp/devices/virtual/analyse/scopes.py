"""Lexical blocks, and the variables in them with their types, as unoptimised code describes them.

Source: DWARF 2, sections 3.4 (blocks), 4.1 (variables), 5.1 (base types), 5.5 (structures).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .dwarf import (
    ARRAY,
    BASE,
    BIT_SIZE,
    BYTES,
    ENCODING,
    ENUM,
    MEMBER,
    MEMBER_PLACE,
    NAME,
    POINTERS,
    STRUCTS,
    TYPE,
)
from .padding import Layouts

_KINDS = {2: "bool", 4: "float", 5: "int", 6: "int", 7: "uint", 8: "uint"}  # DW_ATE
_DEEPEST = 6  # types within types


@dataclass(frozen=True)
class Type:
    """kind: "int" | "uint" | "float" | "bool" | "pointer" | "array" | "struct". nbytes: of all of it. of: what a pointer points
    to, or the elements of an array are. shape: of an array. fields: (name, offset in bytes, type)."""

    kind: str
    name: str
    nbytes: int
    of: Type | None = None
    shape: tuple[int, ...] = ()
    fields: tuple[tuple[str, int, Type], ...] = ()


@dataclass(frozen=True)
class Block:
    """A lexical block, or the body of a function: from label to label. parent: its number, -1 for a body."""

    function: str
    low: str
    high: str
    parent: int


@dataclass(frozen=True)
class Scoped:
    """A variable. block: its number, -1 for one of the module. places: (label, label, register), where it is in a register;
    symbol, offset: in memory."""

    function: str
    name: str
    block: int
    type: Type
    places: tuple[tuple[str, str, str], ...] = ()
    symbol: str = ""
    offset: int = 0


@dataclass(frozen=True)
class Scopes:
    blocks: tuple[Block, ...] = ()
    variables: tuple[Scoped, ...] = ()

    def around(self, block: int) -> set[int]:
        """A block and those that it is in."""
        found = set()
        while block >= 0:
            found.add(block)
            block = self.blocks[block].parent
        return found


class Described(Layouts):
    """Types in full."""

    def described(self, at: int, depth: int = 0) -> Type:
        entry = self.entries.get(at)
        if entry is None or depth > _DEEPEST:
            return Type("struct", "?", 0)
        v, name = entry.values, str(entry.values.get(NAME, ""))
        inner = self.described(v[TYPE], depth + 1) if TYPE in v else Type("struct", "void", 0)
        if entry.tag in (BASE, ENUM):
            kind = _KINDS.get(v.get(ENCODING), "uint") if entry.tag == BASE else "int"
            return Type(kind, name, int(v.get(BYTES, 4)))
        if entry.tag in POINTERS:
            return Type("pointer", f"{inner.name}*", 8, inner)
        if entry.tag == ARRAY:
            nbytes, shape, _ = self.type(at)
            while inner.kind == "array":
                inner = inner.of
            return Type("array", inner.name, nbytes, inner, shape)
        if entry.tag in STRUCTS:
            members = [c.values | {0: self._start(c)} for c in entry.children if c.tag == MEMBER]
            fields = tuple(
                (str(m.get(NAME, "")), m[0], self.described(m.get(TYPE, 0), depth + 1))
                for m in members
                if BIT_SIZE not in m
            )
            return Type("struct", name, int(v.get(BYTES, 0)), fields=fields)
        return replace(inner, name=name or inner.name)  # typedef, const, volatile

    def _start(self, member) -> int:
        return self.offset(member) if isinstance(member.values.get(MEMBER_PLACE), tuple) else 0
