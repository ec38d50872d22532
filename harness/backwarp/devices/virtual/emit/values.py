"""Values of PTX's operands. Registers become stack slots that LLVM promotes; a register that lives in only one basic
block never gets a slot.
"""

from __future__ import annotations

import struct

from ..ptx.ir import Function, Immediate, Instruction, Label, Negated, Special, operand
from ..ptx.types import LLVM_BITS, TYPES, is_float, is_signed, llvm_type
from .packs import Packs
from .special_registers import SpecialRegisters
from .text import Text
from .threads import Threads

#: the content of an uninitialised register: a NaN, and an index far outside any array
POISON = {
    "i1": "true",
    "half": "0xH7F7F",
    "<2 x half>": "<half 0xH7F7F, half 0xH7F7F>",
    "bfloat": "0xR7FF7",
    "<2 x bfloat>": "<bfloat 0xR7FF7, bfloat 0xR7FF7>",
    "float": "0x7FF7E00000000000",
    "double": "0x7FF7E7E7E7E7E7E7",
}


class Values:
    """Of the operands of one function."""

    def __init__(self, text: Text, threads: Threads, special: SpecialRegisters):
        self.text, self.threads, self.special = text, threads, special
        self.types: dict[str, str] = {}  # register -> its PTX type
        self._slots: dict[str, str] = {}  # register -> its stack slot
        self.packs: Packs | None = None  # of registers that stand side by side
        self.kept: frozenset[str] = frozenset()  # registers that are needed after a phase, see emit/phases

    def value(self, given: str, ptx_type: str) -> str:
        """An operand (register, number, special register, negated predicate) as the LLVM type of `ptx_type`."""
        given = operand(given)
        kind = type(given)
        if kind is Immediate:
            return self.constant(given, ptx_type)
        if kind is Negated:
            return self.text.op("xor i1", self.read(given.register), "true")
        found = (
            self.special.read(given) if kind is Special else (self.read(given), llvm_type(self.types[given]))
        )
        return self.convert(*found, llvm_type(ptx_type))

    def constant(self, given: Immediate, ptx_type: str) -> str:
        want, number = llvm_type(ptx_type), given.value
        if given.format:
            number = _as_format(number, given.format, "f32" if LLVM_BITS[want] == 32 else "f64")
        if want in ("float", "double"):
            return float_constant(number, want)
        if want == "i1":
            return "true" if number else "false"
        if want[0] != "i":
            return self.text.cast("bitcast", f"i{LLVM_BITS[want]}", str(number), want)
        return str(number & (1 << LLVM_BITS[want]) - 1)

    def convert(self, value: str, have: str, want: str) -> str:
        """Reinterpret: same size bitcast, smaller integers truncated, larger zero-extended."""
        if have == want:
            return value
        a, b = LLVM_BITS[have], LLVM_BITS[want]
        if a == b:
            return self.text.cast("bitcast", have, value, want)
        if not have.startswith("i"):
            value = self.text.cast("bitcast", have, value, f"i{a}")
        value = self.text.cast("trunc" if a > b else "zext", f"i{a}", value, f"i{b}")
        return value if want == f"i{b}" else self.text.cast("bitcast", f"i{b}", value, want)

    def votes(self, predicate: str, operation: str) -> str:
        """What is summed at a barrier with a predicate, as an i64."""
        return self.text.cast("zext", "i1", predicate, "i64")

    # -- registers ----------------------------------------------------------------------------

    def declare(self, function: Function) -> None:
        """Declare a function's registers; those that live across blocks get a slot."""
        self.types |= function.regs
        across = across_blocks(function, self.packs is not None) | self.kept
        for name in function.regs:
            if name in across or self.packs and name in self.packs.of:
                for each in self.threads.names(name):
                    self.slot(each)
        if any(isinstance(i, Instruction) and (i.op.takes_carry or i.op.leaves_carry) for i in function.body):
            self.text.first("%carry = alloca i1", "store i1 false, ptr %carry")

    def slot(self, register: str) -> str:
        if register not in self._slots:
            plain = register.split("@")[0]
            type_ = self.types[plain]
            t = llvm_type(type_)
            name = f'%"{register}"'
            self._slots[register] = name
            if self.packs and plain in self.packs.of:
                self._slots |= self.packs.place(plain)
                return name
            poison = POISON.get(t) or str(0x7F7F7F7F7F7F7F7F & (1 << TYPES[type_][1]) - 1)
            self.text.first(f"{name} = alloca {t}", f"store {t} {poison}, ptr {name}")
        return self._slots[register]

    def is_at(self, register: str, where: str) -> None:
        """It is kept there, and only read."""
        self._slots[self.threads.name(register)] = where

    def read(self, register: str) -> str:
        name = self.threads.name(register)
        if not self.text.knows(name):
            t = llvm_type(self.types[register])
            self.text.know(name, self.text.emit(f"load {t}, ptr {self.slot(name)}"))
        return self.text.knows(name)

    def set(self, register: str, value: str, ptx_type: str) -> None:
        """Write a register from a value of `ptx_type`."""
        if register == "_":
            return
        value, name = self.converted(register, value, ptx_type), self.threads.name(register)
        self.text.know(name, value)
        if name in self._slots:
            self.text.line(f"store {llvm_type(self.types[register])} {value}, ptr {self._slots[name]}")

    def put(self, register: str, value: str) -> None:
        """Write a register from a value of its own type."""
        name = self.threads.name(register)
        self.text.know(name, value)
        if name in self._slots:
            self.text.line(f"store {llvm_type(self.types[register])} {value}, ptr {self._slots[name]}")

    def converted(self, register: str, value: str, ptx_type: str) -> str:
        """A value of `ptx_type` as the register holds it; for a wider one it is sign- or zero-extended."""
        have, want = llvm_type(ptx_type), llvm_type(self.types[register])
        if LLVM_BITS[have] < LLVM_BITS[want] and is_signed(ptx_type) and not is_float(ptx_type):
            wide = f"i{LLVM_BITS[want]}"
            value, have = self.text.cast("sext", have, value, wide), wide
        return self.convert(value, have, want)


def across_blocks(function: Function, phases: bool = False) -> set[str]:
    """The registers that live in more than one basic block. phases: barriers end one, too."""
    seen: dict[str, int] = {}
    across, block = set(), 0
    for item in function.body:
        if isinstance(item, Label):
            block += 1
            continue
        for each in item.operands:
            for name in each.registers:
                if seen.setdefault(name, block) != block:
                    across.add(name)
        if item.pred and seen.setdefault(item.pred, block) != block:
            across.add(item.pred)
        if item.op.flow or phases and item.op.collective:
            block += 1
    return across


def _as_format(bits: int, have: str, want: str) -> int:
    """The bits of an f32 or f64 as those of the other, rounded to nearest."""
    if have == want:
        return bits
    if have == "f32":
        return struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", bits))[0]))[0]
    number = struct.unpack("<d", struct.pack("<Q", bits))[0]
    try:
        return struct.unpack("<I", struct.pack("<f", number))[0]
    except OverflowError:
        return 0x7F800000 | (number < 0) << 31


def float_constant(bits: int, llvm: str) -> str:
    """The bits of a float or double as LLVM writes it (a float is written as the equal double)."""
    if llvm == "float":
        sign, exponent, fraction = bits >> 31 & 1, bits >> 23 & 0xFF, bits & 0x7FFFFF
        if exponent == 0xFF:  # infinity and NaN: by hand, because a conversion would quieten the NaN
            bits = sign << 63 | 0x7FF << 52 | fraction << 29
        else:
            (number,) = struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))
            (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    return f"0x{bits & 0xFFFFFFFFFFFFFFFF:016X}"
