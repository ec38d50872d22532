"""A PTX module as the passes see it: functions, instructions, and typed operands.

An operand is its own text: it prints, compares and hashes as in PTX, except that numbers are always decimal.
Its class says what it is, so that no code has to parse the text again.

Source: PTX ISA, sections 4.5 (constants), 6 (instruction operands), 9.3 (predicated execution).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from ....once import once
from . import special
from .declared import Location, Variable
from .op import Role
from .spellings import find

# -- operands ------------------------------------------------------------------------------------------


class Operand(str):
    """Anything that no class below describes; the verifier refuses it.

    registers: the names of its registers, including special ones.
    """

    __slots__ = ()
    registers: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Operand, ...]:
        """The parts of a vector, a pair or a call's arguments; any other operand is one part."""
        return (self,)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of registers, variables, functions and labels in it."""
        return (
            self.registers if self.parts == (self,) else tuple(n for part in self.parts for n in part.names)
        )


class Register(Operand):
    """`%r1`"""

    __slots__ = ()

    @property
    def registers(self) -> tuple[str, ...]:
        return (self,)

    names = registers


class Special(Register):
    """`%tid.x`, `%laneid`: nothing writes them."""

    __slots__ = ()


class Sink(Operand):
    """`_`: a discarded result."""

    __slots__ = ()
    names = ()


class Immediate(Operand):
    """A number. format: "f32" or "f64" for a floating-point literal, whose `value` is its bits; "" for an
    integer."""

    __slots__ = ("value", "format")
    names = ()


class Symbol(Operand):
    """`name` or `name+4`: a variable, a function, a label."""

    __slots__ = ("name", "offset")

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)


class Address(Operand):
    """`[base+offset]`, whose base is a Register, a Symbol without offset or an Immediate."""

    __slots__ = ("base", "offset", "registers")

    @property
    def names(self) -> tuple[str, ...]:
        return self.base.names


class Texel(Operand):
    """`[object, {x, y}]`: coordinates in a texture or a surface; a single coordinate needs no braces."""

    __slots__ = ("handle", "coordinates", "registers")

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.handle.names, *self.registers)


class Vector(Operand):
    """`{a, b}`"""

    __slots__ = ("parts", "registers")


class Pair(Operand):
    """`d|p`: two results."""

    __slots__ = ("parts", "registers")


class Negated(Operand):
    """`!p`"""

    __slots__ = ("register",)

    @property
    def registers(self) -> tuple[str, ...]:
        return (self.register,)


class Arguments(Operand):
    """`(a, b)` in a call."""

    __slots__ = ("parts", "registers")


_INTEGER = re.compile(r"(-?)(?:(0[xX][0-9a-fA-F]{1,16}|0[bB][01]{1,64})|(0[0-7]{0,22})|([1-9]\d{0,19}))U?")
_BITS = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")
_DECIMAL = re.compile(r"-?(\d{1,400}\.\d{0,400}|\.\d{1,400}|\d{1,400}(?=[eE]))([eE][+-]?\d{1,4})?")
_NAME = re.compile(r"[%\w$.]+")
_REGISTER = re.compile(r"%[\w$.']+")
_SYMBOL = re.compile(r"([A-Za-z_$][\w$.]*|%[\w$.]+)(?:\s*([+-])\s*(-?\d{1,10}))?")
_ADDRESS = re.compile(r"\[\s*([%\w$.]+|-\d+)\s*(?:([+-])\s*(-?\w{1,12}))?\s*\]")


@lru_cache(1 << 15)
def operand(text: str) -> Operand:
    """Parses the text of an operand. A name that begins with % is a register's."""
    first = text[:1]
    if first == "%":
        if "|" in text:
            return _of_parts(Pair, text, text.split("|"))
        kind = Special if text in special.ROWS else Register
        return (kind if _REGISTER.fullmatch(text) else Operand)(text)
    if first == "[":
        return _texel(text) if "," in text else _address(text)
    if first == "{":
        vector, bar, resident = text.partition("}|")
        if bar:
            return _holding(Pair(text), operand(f"{vector}}}"), _part(resident.strip()))
        return _of_parts(Vector, text, text[1:-1].split(","))
    if first == "(":
        inside = text[1:-1].strip()
        return _of_parts(Arguments, text, inside.split(",") if inside else [])
    if first == "!":
        return _negated(text)
    if first == "_" and (text == "_" or text[1:].lstrip()[:1] == "|"):
        return Sink(text) if text == "_" else _of_parts(Pair, text, text.split("|"))
    return _immediate(text) or _symbol(text) or Operand(text)


def renamed(text: str, new: Callable[[str], str]) -> Operand:
    """The operand with new names."""
    return operand(_NAME.sub(lambda match: new(match[0]), text))


def _of_parts(kind: type, text: str, parts: list[str]) -> Operand:
    return _holding(kind(text), *(_part(part.strip()) for part in parts))


def _holding(made: Operand, *parts: Operand) -> Operand:
    made.parts = parts
    made.registers = tuple(name for part in parts for name in part.registers)
    return made


def _part(text: str) -> Operand:
    """Parses part of an operand, which must be a single value."""
    return Operand(text) if text[:1] in ("{", "(", "[", "!") else operand(text)


def _address(text: str) -> Operand:
    match = _ADDRESS.fullmatch(text)
    base = match and operand(match[1])
    offset = match and (operand(match[3]) if match[3] else None)
    if base is None or offset is not None and (not isinstance(offset, Immediate) or offset.format):
        return Operand(text)
    by = 0 if offset is None else -offset.value if match[2] == "-" else offset.value
    made = Address(f"[{base}{f'+{by}' if by else ''}]")
    made.base, made.registers, made.offset = base, base.registers, by
    return made


def _texel(text: str) -> Operand:
    handle, _, rest = text[1:-1].partition(",")
    made, where = Texel(text), operand(rest.strip())
    made.handle, made.coordinates = _part(handle.strip()), where.parts
    made.registers = (*made.handle.registers, *where.registers)
    return made if type(where) in (Register, Special, Immediate, Vector) else Operand(text)


def _negated(text: str) -> Operand:
    made = Negated(text)
    made.register = _part(text[1:].strip())
    return made if type(made.register) is Register else Operand(text)


def _immediate(text: str) -> Immediate | None:
    if match := _INTEGER.fullmatch(text):
        sign, based, octal, decimal = match.groups()
        number = int(octal, 8) if octal else int(based or decimal, 0)
        return _number(-number if sign else number)
    if text == "WARP_SZ":
        return _number(32)
    made = Immediate(text)
    if match := _BITS.fullmatch(text):
        made.value, made.format = int(match[1] or match[2], 16), "f32" if match[1] else "f64"
    elif _DECIMAL.fullmatch(text):
        made.value, made.format = struct.unpack("<Q", struct.pack("<d", float(text)))[0], "f64"
    else:
        return None
    return made


def _number(value: int) -> Immediate:
    made = Immediate(value)
    made.value, made.format = value, ""
    return made


def _symbol(text: str) -> Symbol | None:
    match = _SYMBOL.fullmatch(text)
    if match is None:
        return None
    name, by = match[1], int(match[3] or 0) * (-1 if match[2] == "-" else 1)
    made = Symbol(f"{name}+{by}" if by else name)
    made.name, made.offset = name, by
    return made


# -- instructions --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, init=False)
class Instruction:
    """`@{!}pred opcode.mod.mod operands`. Compared by identity, since facts are attached to it."""

    opcode: str  # the whole spelling: "fma.rn.ftz.f32"
    operands: tuple[Operand, ...]
    at: Location
    pred: str = ""
    negated: bool = False
    used: int = -1  # of a load: a bit for each byte that is used; others are struct padding
    original: Instruction | None = None  # the instruction this is a copy of
    expansion: Expansion | None = None  # the inlined call it belongs to
    array: str = ""  # of an access: the variable that a check confines it to
    about: tuple[Instruction, ...] = ()  # of a check: the accesses it covers

    def __init__(
        self,
        opcode,
        operands,
        at,
        pred="",
        negated=False,
        used=-1,
        original=None,
        expansion=None,
        array="",
        about=(),
    ):
        """What `dataclass` would write takes three times as long: in a frozen object it sets each field by a call."""
        self.__dict__.update(
            opcode=opcode,
            op=find(opcode),  # its meaning
            operands=operands,
            at=at,
            pred=pred,
            negated=negated,
            used=used,
            original=original,
            expansion=expansion,
            array=array,
            about=about,
        )

    @once
    def base(self) -> str:
        return self.opcode.split(".", 1)[0]

    @once
    def roles(self) -> tuple[Role, ...]:
        """The role of each operand."""
        return self.op.roles[len(self.operands)]

    @once
    def named(self) -> dict[str, Operand]:
        """The operands by their names in `isa`."""
        return {role.name: o for role, o in zip(self.roles, self.operands, strict=True)}

    @property
    def address(self) -> Address:
        """Its address operand; the first of two."""
        return self.operands[self.op.address]

    @once
    def sources(self) -> tuple[Operand, ...]:
        """The operands that it reads, including addresses but not its guard."""
        return self.operands[1:] if self.op.has_result else self.operands

    @once
    def reads(self) -> frozenset[str]:
        """The registers that it reads, including its guard."""
        names = [name for operand in self.sources for name in operand.registers]
        return frozenset([*names, self.pred] if self.pred else names)

    @once
    def writes(self) -> frozenset[str]:
        return frozenset(self.operands[0].registers) if self.op.has_result and self.operands else frozenset()

    @once
    def called(self) -> tuple[tuple[Operand, ...], Operand, tuple[Operand, ...]]:
        """For a call: (where its results go, the function, its arguments)."""
        operands = list(self.operands)
        returns = operands.pop(0).parts if operands and isinstance(operands[0], Arguments) else ()
        name = operands.pop(0) if operands else Operand()  # not verified yet, so it may not be a valid call
        return returns, name, operands[0].parts if operands and isinstance(operands[0], Arguments) else ()

    def __str__(self) -> str:
        guard = f"@{'!' if self.negated else ''}{self.pred} " if self.pred else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}"


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True, eq=False)
class Expansion:
    """A call replaced by its function's body. registers, variables: this copy's own, local ones only."""

    function: str
    call: Instruction
    registers: tuple[str, ...]
    variables: tuple[str, ...]


# -- what holds them -----------------------------------------------------------------------------------


@dataclass
class Function:
    """An `.entry` or `.func`. A prototype without a body has `body` None."""

    name: str
    entry: bool
    params: list[Variable]
    returns: list[Variable]
    regs: dict[str, str] = field(default_factory=dict)  # register -> PTX type
    variables: dict[str, Variable] = field(default_factory=dict)  # .local, .shared and call .param
    body: list[Instruction | Label] | None = None
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)  # .branchtargets and .callprototype
    max_threads: int = 0  # .maxntid, 0 if not given
    min_blocks: int = 0  # .minnctapersm, 0 if not given
    cluster: tuple[int, int, int] = (1, 1, 1)  # blocks: .reqnctapercluster


@dataclass
class Module:
    files: dict[int, str]
    variables: dict[str, Variable]  # .global, .const and module-level .shared
    functions: dict[str, Function]
    debug: str = ""  # the debugging sections: see analyse/debuginfo
    #: (function, line, number of the lexical block in debuginfo.scopes or -1), where a line begins: see instrument/steps
    lines: list[tuple[str, int, int]] = field(default_factory=list)
