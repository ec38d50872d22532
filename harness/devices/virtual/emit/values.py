"""Building blocks of LLVM text for one function: values, registers, blocks.

PTX registers become stack slots that LLVM promotes; a register that lives in only one basic block never gets
a slot.
"""

from __future__ import annotations

import re
import struct

from ..ptx.ir import Function, Immediate, Label, Negated, Special, operand
from ..ptx.types import LLVM_BITS, TYPES, is_float, is_signed, llvm_type

_CALL = re.compile(r"call (?:fast )?(\S+|<[^>]*>) @([\w.$\"]+)\((.*)\)")


def memory_name(name: str) -> str:
    """The LLVM name of a parameter's memory, or of a variable's: no value of the emitter's own is called so."""
    return f'%"[{name}]"'


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


class Emitter:
    """LLVM text of one PTX function. Subclass `lower.Lowering` walks the instructions."""

    def __init__(self, function: Function, module):
        self.function = function
        self.module = module  # the Unit: declarations, sites, options
        self.lines: list[str] = []
        self.entry: list[str] = []  # allocas and what must precede everything
        self.slots: dict[str, str] = {}  # register -> its stack slot
        self.known: dict[str, str] = {}  # register, or see `once` -> its value, within the current block
        self.regs = {}
        self.serial = 0
        self.varying: frozenset[str] = frozenset()  # registers of which each of several threads has its own
        self.factor, self.member = 1, 0  # how many they are, and which of them

    # -- text ---------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def fresh(self, hint: str = "t") -> str:
        self.serial += 1
        return f"%{hint}.{self.serial}"

    def emit(self, instruction: str) -> str:
        """Emit an instruction with a result; returns the result's name."""
        if instruction.startswith("call ") and (match := _CALL.match(instruction)):
            self.module.declare(match[2], match[1], match[3])
        name = self.fresh()
        self.lines.append(f"  {name} = {instruction}")
        return name

    def once(self, instruction: str) -> str:
        """Like `emit`, for one that only computes: its result is known from then on, as a register's value is."""
        if instruction not in self.known:
            self.known[instruction] = self.emit(instruction)
        return self.known[instruction]

    def op(self, head: str, a, b) -> str:
        """A binary instruction: `op("add i32", a, b)`."""
        return self.emit(f"{head} {a}, {b}")

    def cast(self, op: str, from_: str, value: str, to: str) -> str:
        return self.emit(f"{op} {from_} {value} to {to}")

    def resize(self, value: str, from_: str, to: str, signed: bool = False) -> str:
        """Integer `value` of LLVM type from_ as LLVM type `to`."""
        a, b = LLVM_BITS.get(from_, 0) or int(from_[1:]), LLVM_BITS.get(to, 0) or int(to[1:])
        if a == b:
            return value
        return self.cast("trunc" if a > b else "sext" if signed else "zext", from_, value, to)

    def label(self, label: str) -> None:
        """Start a basic block that the block before dominates: what is known stays known."""
        self.lines.append(f"{label}:")

    def join(self, label: str) -> None:
        """Start a basic block that can be reached from several places; falls through into it."""
        self.line(f"br label %{label}")
        self.lines.append(f"{label}:")
        self.known.clear()

    def fresh_label(self, hint: str) -> str:
        self.serial += 1
        return f"{hint}.{self.serial}"

    def branch(self, condition: str, yes: str, no: str, unlikely: bool = False, likely: bool = False) -> None:
        weights = ", !prof !0" if unlikely else ", !prof !2" if likely else ""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}{weights}")

    # -- values -------------------------------------------------------------------------------

    def value(self, given: str, ptx_type: str) -> str:
        """An operand (register, number, special register, negated predicate) as the LLVM type of `ptx_type`."""
        given, want = operand(given), llvm_type(ptx_type)
        if isinstance(given, Negated):
            return self.op("xor i1", self.read(given.register), "true")
        if isinstance(given, Immediate):
            return self.constant(given, ptx_type)
        if isinstance(given, Special):
            return self.convert(*self.special(given), want)
        return self.convert(self.read(given), llvm_type(self.regs[given]), want)

    def register_type(self, name: str) -> str | None:
        return self.regs.get(name)

    def constant(self, given: Immediate, ptx_type: str) -> str:
        want, number = llvm_type(ptx_type), given.value
        if given.format:
            number = _as_format(number, given.format, "f32" if LLVM_BITS[want] == 32 else "f64")
        if want in ("float", "double"):
            return float_constant(number, want)
        if want == "i1":
            return "true" if number else "false"
        if want[0] != "i":
            return self.cast("bitcast", f"i{LLVM_BITS[want]}", str(number), want)
        return str(number & (1 << LLVM_BITS[want]) - 1)

    def convert(self, value: str, have: str, want: str) -> str:
        """Reinterpret: same size bitcast, smaller integers truncated, larger zero-extended."""
        if have == want:
            return value
        a, b = LLVM_BITS[have], LLVM_BITS[want]
        if a == b:
            return self.cast("bitcast", have, value, want)
        if not have.startswith("i"):
            value = self.cast("bitcast", have, value, f"i{a}")
        value = self.cast("trunc" if a > b else "zext", f"i{a}", value, f"i{b}")
        return value if want == f"i{b}" else self.cast("bitcast", f"i{b}", value, want)

    def special(self, name: str) -> tuple[str, str]:
        raise NotImplementedError

    # -- registers ----------------------------------------------------------------------------

    def register_name(self, register: str) -> str:
        return f"{register}@{self.member}" if register in self.varying else register

    def declare_registers(self, function: Function) -> None:
        """Make a function's registers known; those that live across blocks get a slot."""
        self.regs.update(function.regs)
        seen: dict[str, int] = {}
        across = set()
        block = 0
        for item in function.body:
            if isinstance(item, Label):
                block += 1
                continue
            names = [name for operand in item.operands for name in operand.registers]
            for name in [*names, item.pred] if item.pred else names:
                if seen.setdefault(name, block) != block:
                    across.add(name)
            if item.op.flow:
                block += 1
        for name in function.regs:
            if name in across:
                names = [f"{name}@{lane}" for lane in range(self.factor)] if name in self.varying else [name]
                for each in names:
                    self.slot(each)

    def slot(self, register: str) -> str:
        if register not in self.slots:
            type_ = self.regs[register.split("@")[0]]
            t = llvm_type(type_)
            name = f'%"{register}"'
            self.slots[register] = name
            poison = POISON.get(t) or str(0x7F7F7F7F7F7F7F7F & (1 << TYPES[type_][1]) - 1)
            self.entry.append(f"  {name} = alloca {t}")
            self.entry.append(f"  store {t} {poison}, ptr {name}")
        return self.slots[register]

    def read(self, register: str) -> str:
        name = self.register_name(register)
        if name not in self.known:
            t = llvm_type(self.regs[register])
            self.known[name] = self.emit(f"load {t}, ptr {self.slot(name)}")
        return self.known[name]

    def set(self, register: str, value: str, ptx_type: str) -> None:
        """Write a register from a value of `ptx_type`; a wider register is sign- or zero-extended."""
        if register == "_":
            return
        type_ = self.regs[register]
        have, want = llvm_type(ptx_type), llvm_type(type_)
        if LLVM_BITS[have] < LLVM_BITS[want] and is_signed(ptx_type) and not is_float(ptx_type):
            value, have = self.cast("sext", have, value, f"i{LLVM_BITS[want]}"), f"i{LLVM_BITS[want]}"
        value = self.convert(value, have, want)
        register = self.register_name(register)
        self.known[register] = value
        if register in self.slots:
            self.line(f"store {want} {value}, ptr {self.slots[register]}")


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
