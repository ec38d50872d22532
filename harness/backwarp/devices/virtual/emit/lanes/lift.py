"""LLVM text of one function whose threads are lanes: an instruction with a vector operand becomes a vector
instruction.

    %t.3 = fmul float %t.1, 2.0    ->    %t.3 = fmul <16 x float> %t.1, splat (float 2.0)

So the table of opcodes serves lanes as well as single threads, and uniform values stay scalar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...ptx.types import LLVM_BITS
from ..unit import Unit
from .rows import RowText

_NAME = re.compile(r"%[\w.$]+")
_TYPE = r"(i\d+|float|double|half)"
_BINARY = re.compile(rf"([a-z]+(?: (?:exact|[ou]?[a-z]{{2,3}}))?) {_TYPE} (\S+), (\S+)")
_SELECT = re.compile(rf"select i1 (\S+), {_TYPE} (\S+), \2 (\S+)")
_CAST = re.compile(rf"(\w+) {_TYPE} (\S+) to {_TYPE}")
_NEGATION = re.compile(rf"fneg {_TYPE} (\S+)")
_CALL = re.compile(rf"call {_TYPE} @(llvm\.[\w.]+?)((?:\.[if]\d+)+)\((.*)\)")
_DIVISION = re.compile(r"([su])(div|rem) i32 (\S+), (\S+)")
_BINARIES = frozenset(
    "add sub mul and or xor shl lshr ashr sdiv udiv srem urem fadd fsub fmul fdiv icmp fcmp".split()
)


class Unliftable(Exception):
    """An instruction without a vector form."""


class LaneText(RowText):
    """width: how many lanes. masks: a truth in each lane is an i1, or an i32 of all bits or none: LLVM would squeeze vectors of
    i1 into bytes, and back, wherever the processor has no registers for them.
    """

    def __init__(self, unit: Unit, width: int, rows: int = 1, masks: str = "i1"):
        super().__init__(unit, rows)
        self.width, self.masks, self.has_mask_registers = width, masks, masks == "i1"
        self.bools = f"<{width} x i1>"
        self.all_lanes = "splat (i1 true)" if masks == "i1" else "splat (i32 -1)"
        self.vectors: set[str] = set()  # the values that are
        self.extremes: dict[str, dict[str, str]] = {}  # of a vector: what `reduced` is, where that is known
        self.widened: set[str] = set()  # vectors of 32-bit numbers as 64 bits

    def type(self, scalar: str) -> str:
        return f"<{self.width} x {self.masks if scalar == 'i1' else scalar}>"

    def row(self, bits: int, stride: int) -> str:
        """The constant 0, stride, 2 * stride ..."""
        mask = (1 << bits) - 1
        return f"<{', '.join(f'i{bits} {i * stride & mask}' for i in range(self.width))}>"

    def emit(self, instruction: str) -> str:
        if self.vectors.isdisjoint(_NAME.findall(instruction)):
            return super().emit(instruction)
        return self.vector(self._lifted(instruction))

    def plainly(self, instruction: str) -> str:
        """Emit an instruction as it stands."""
        return super().emit(instruction)

    def vector(self, instruction: str) -> str:
        """As it stands; its result is a vector of lanes."""
        name = self.plainly(instruction)
        self.vectors.add(name)
        return name

    def spread(self, value: str, scalar: str) -> str:
        """An operand as a vector: itself or a splat."""
        if value in self.vectors or value[0] in "<sz":
            return value
        if scalar == "i1" and self.masks != "i1":
            if value[0] != "%":
                return "zeroinitializer" if value in ("false", "0") else self.all_lanes
            scalar, value = self.masks, self.once(f"sext i1 {value} to {self.masks}")
        if value[0] != "%":
            return f"splat ({scalar} {value})"
        t = self.type(scalar)
        first = self.once(f"insertelement {t} poison, {scalar} {value}, i64 0")
        found = self.once(f"shufflevector {t} {first}, {t} poison, <{self.width} x i32> zeroinitializer")
        self.vectors.add(found)
        return found

    def named(self, value: str, scalar: str) -> str:
        """A vector, or a constant, as a vector with a name."""
        t = self.type(scalar)
        return value if value in self.vectors else self.vector(f"bitcast {t} {value} to {t}")

    def reduced(self, how: str, value: str, scalar: str) -> str:
        """One number of all lanes, of each row. how: the end of the intrinsic's name, as `smin`."""
        if found := self.extremes.get(value, {}).get(how):
            return found
        name, t = f"llvm.vector.reduce.{how}.v{self.width}{scalar}", self.type(scalar)
        self.unit.declare(name, scalar, f"{t} x")
        return self.plainly_once(f"call {scalar} @{name}({t} {value})")

    # -- parts of a vector ------------------------------------------------------------------------------------

    def part(self, value: str, scalar: str, first: int, count: int) -> str:
        """Some lanes of a vector, as a vector of their own."""
        if count == self.width:
            return value
        t, chosen = self.type(scalar), ", ".join(f"i32 {i}" for i in range(first, first + count))
        found = self.plainly_once(f"shufflevector {t} {value}, {t} poison, <{count} x i32> <{chosen}>")
        self.vectors.add(found)
        return found

    @contextmanager
    def of_part(self, count: int) -> Iterator[None]:
        """Vectors have so many lanes within."""
        before = self.width, self.bools
        self.width, self.bools = count, f"<{count} x i1>"
        yield
        self.width, self.bools = before

    def joined_parts(self, parts: Sequence[str], scalar: str) -> str:
        """Vectors, one behind the other, as one of all lanes."""
        parts, count = list(parts), self.width // len(parts)
        while len(parts) > 1:
            t, chosen = f"<{count} x {scalar}>", ", ".join(f"i32 {i}" for i in range(2 * count))
            parts = [
                self.plainly(f"shufflevector {t} {a}, {t} {b}, <{2 * count} x i32> <{chosen}>")
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            count *= 2
        self.vectors.add(parts[0])
        return parts[0]

    # -- truths in lanes ----------------------------------------------------------------------------------

    def condition(self, mask: str) -> str:
        """A mask as <N x i1>."""
        if self.masks == "i1":
            return mask
        return self.plainly_once(f"icmp slt {self.type('i1')} {mask}, zeroinitializer")

    def _truth(self, instruction: str) -> str:
        """The last instruction of the conversion of an <N x i1> result to a mask. A fence keeps LLVM from
        undoing it."""
        if self.masks == "i1":
            return instruction
        bits, numbers = self.type("i32"), self.type("float")
        wide = self.plainly(f"sext {self.bools} {self.plainly(instruction)} to {bits}")
        name = f"llvm.arithmetic.fence.v{self.width}f32"
        self.unit.declare(name, numbers, f"{numbers} x")
        given = self.plainly(f"bitcast {bits} {wide} to {numbers}")
        return f"bitcast {numbers} {self.plainly(f'call {numbers} @{name}({numbers} {given})')} to {bits}"

    def any(self, mask: str) -> str:
        """Whether it holds in some lane, of any row; a scalar i1."""
        return self.any_of_row(self.joined(f"or {self.type('i1')}", mask))

    def any_of_row(self, mask: str) -> str:
        return self._is_set(self.reduced("or", mask, self.masks))

    def all(self, mask: str) -> str:
        return self._is_set(self.reduced("and", self.joined(f"and {self.type('i1')}", mask), self.masks))

    def _is_set(self, found: str) -> str:
        return found if self.masks == "i1" else self.plainly_once(f"icmp ne i32 {found}, 0")

    def bits(self, mask: str) -> str:
        """A bit of each lane, as an i32."""
        bits = self.plainly_once(f"bitcast {self.bools} {self.condition(mask)} to i{self.width}")
        return self.resize(bits, f"i{self.width}", "i32")

    def masked(self, what: str, t: str, pointers: bool) -> str:
        """The name of llvm.masked.load, store, gather or scatter of lanes, declared. pointers: each lane has its own."""
        vector, kind = self.type(t), f"v{self.width}{'f' * (t[0] != 'i')}{LLVM_BITS.get(t) or int(t[1:])}"
        name = f"llvm.masked.{what}.{kind}.{f'v{self.width}' * pointers}p0"
        pointer, bools = (self.type("ptr") if pointers else "ptr"), self.bools
        if what in ("store", "scatter"):
            self.unit.declare(name, "void", f"{vector} x, {pointer} x, {bools} x")
        else:
            self.unit.declare(name, vector, f"{pointer} x, {bools} x, {vector} x")
        return name

    def plainly_once(self, instruction: str) -> str:
        """As it stands: a scalar made of vectors."""
        if not self.knows(instruction):
            self.know(instruction, self.plainly(instruction))
        return self.knows(instruction)

    @contextmanager
    def out_of_line(self, label: str) -> Iterator[None]:
        """What is emitted inside the context becomes one or more blocks at the end of the function."""
        known, lines = self.remembered(), self._lines
        self._lines = [f"{label}:"]
        yield
        self._aside += self._lines
        self._lines = lines
        self.recall(known)

    # -- what becomes of an instruction -------------------------------------------------------------------

    def _lifted(self, instruction: str) -> str:
        if match := _DIVISION.fullmatch(instruction):
            return self._division(*match.groups())
        if (match := _BINARY.fullmatch(instruction)) and match[1].split()[0] in _BINARIES:
            head, t, a, b = match.groups()
            lifted = f"{head} {self.type(t)} {self.spread(a, t)}, {self.spread(b, t)}"
            return self._truth(lifted) if "cmp" in head else lifted
        if match := _SELECT.fullmatch(instruction):
            c, t, a, b = match.groups()
            condition = f"{self.bools} {self.condition(c)}" if c in self.vectors else f"i1 {c}"
            return (
                f"select {condition}, {self.type(t)} {self.spread(a, t)}, {self.type(t)} {self.spread(b, t)}"
            )
        if match := _CAST.fullmatch(instruction):
            op, t, a, to = match.groups()
            if t == "i1":
                return f"{op} {self.bools} {self.condition(a)} to {self.type(to)}"
            if to == "i1":
                return self._truth(f"{op} {self.type(t)} {a} to {self.bools}")
            return f"{op} {self.type(t)} {a} to {self.type(to)}"
        if match := _NEGATION.fullmatch(instruction):
            return f"fneg {self.type(match[1])} {match[2]}"
        if match := _CALL.fullmatch(instruction):
            return self._call(*match.groups())
        raise Unliftable(instruction)

    def _call(self, returns: str, name: str, suffix: str, arguments: str) -> str:
        """Of an intrinsic that works on each element. Flags, the last of their operands, stay scalar."""
        given, types = [], []
        for argument in arguments.split(", "):
            t, value = argument.split(" ")
            flag = value in ("true", "false") or name == "llvm.is.fpclass" and t == "i32"
            types.append(t if flag else self.type(t))
            given.append(argument if flag else f"{self.type(t)} {self.spread(value, t)}")
        lifted = name + re.sub(r"\.", f".v{self.width}", suffix)
        type_ = self.bools if returns == "i1" else self.type(returns)
        self.unit.declare(lifted, type_, ", ".join(f"{t} x" for t in types))
        call = f"call {type_} @{lifted}({', '.join(given)})"
        return self._truth(call) if returns == "i1" else call

    def _division(self, sign: str, kind: str, a: str, b: str) -> str:
        """By a constant as LLVM has it: by a product. Else in double, whose quotient of 32-bit numbers, cut off, is exact:
        processors do not divide vectors of integers.

        The true quotient is an integer, or at least 2**-32 of itself away from the next one.
        """
        i32, double = self.type("i32"), self.type("double")
        if b[0] != "%":
            return f"{sign}{kind} {i32} {a}, {self.spread(b, 'i32')}"
        wide = [
            self.cast(f"{sign}itofp", "i32", v, "double") if v[0] == "%" else f"{int(v)}.0" for v in (a, b)
        ]
        quotient = self.op("fdiv double", *wide)
        cut = f"fpto{sign}i {double} {quotient} to {i32}"
        if kind == "div":
            return cut
        whole = self.op("mul i32", self.vector(cut), b)
        return f"sub {i32} {self.spread(a, 'i32')}, {whole}"
