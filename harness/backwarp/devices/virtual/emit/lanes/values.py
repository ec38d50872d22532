"""Values of PTX's operands where threads are lanes of vectors.

A uniform register is a scalar. Any other 32- or 64-bit integer is a pair, the sum of a scalar and a vector.
Sums, and products with uniform values, act on both; so in a loop usually only the scalar changes, and lanes
that access consecutive memory are known to do so without another check. Everything else is a vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ...analyse.lanes import Lanes
from ...ptx.ir import Function, Instruction, Operand, Special, operand
from ...ptx.types import BITS, TYPES, llvm_type
from ...runtime import abi
from ..special_registers import SpecialRegisters
from ..state import State
from ..threads import Threads
from ..values import POISON, Values, across_blocks
from .lift import LaneText, Unliftable
from .rows import Steps, beside

_EXTREMES = "smin", "smax"
Pair = tuple[str, str]  # (scalar, vector); "": nothing
ROW = "%row"  # the state of the first thread of each row


class LaneValues(Values):
    """mask: the active lanes, "" for all; merging: the others keep their values."""

    def __init__(self, text: LaneText, threads: Threads, special: SpecialRegisters, lanes: Lanes):
        super().__init__(text, threads, special)
        self.lanes, self.mask, self.merging = lanes, "", False
        self._first = False  # whether registers are read for the first lane alone
        self._firsts: dict[Special, tuple[str, str]] = {}  # special registers that differ between rows
        self._widened: set[str] = set()  # where vectors of 32-bit numbers as 64 bits are kept
        self.writes: Counter[str] = Counter()  # how many instructions write a register
        self.anchors = ""  # the table of what anchors keep, see `exact`
        self._whole: dict[str, str] = {}  # scalars that anchors have made -> whether they name none
        rows = _Rows()
        self.of_rows = SpecialRegisters(text, State(text, rows), rows)

    def is_pair(self, register: str) -> bool:
        type_ = self.types[register]
        return self.lanes.strides.get(register, 0) != 0 and type_[0] in "bus" and BITS[type_] in (32, 64)

    def declare(self, function: Function) -> None:
        """Slots for registers that live across blocks."""
        self.types |= function.regs
        self.writes.update(
            name for item in function.body if isinstance(item, Instruction) for name in item.writes
        )
        if self.text.rows > 1:
            self._find_rows()
        across = across_blocks(function)
        for name in (n for n in function.regs if n in across):
            stride = self.lanes.strides.get(name, 0)
            if stride == 0:
                self.slot(name)
            elif self.is_pair(name):
                t = llvm_type(self.types[name])
                self._place(f"{name}:u", t, "0")
                if stride is None:
                    self._place(f"{name}:v", self.text.type(t), "zeroinitializer")
                if stride is None and t == "i64":
                    for how in _EXTREMES:
                        self._place(f"{name}:{how}", t, "0")
            else:
                t = llvm_type(self.types[name])
                poison = POISON.get(t) or str(0x7F7F7F7F7F7F7F7F & (1 << TYPES[self.types[name]][1]) - 1)
                self._place(f"{name}:v", self.text.type(t), self.text.spread(poison, t))

    def _find_rows(self) -> None:
        text, nbytes = self.text, abi.DTYPES["Thread"].itemsize
        with text.at_entry():
            width = str(text.width)
            if not self.lanes.block:
                width = self.special.state.load("Launch", "block_x", invariant=True)
                width = text.cast("zext", "i32", width, "i64")
            row = text.op("mul i64", width, nbytes)
            for n in range(text.rows):
                text.line(f"{ROW}.{n} = add i64 {self.threads.address}, {text.op('mul i64', row, n)}")
                text.line(f"{ROW}.p.{n} = inttoptr i64 {ROW}.{n} to ptr")
        text.several |= {ROW, f"{ROW}.p"}

    def slot(self, register: str) -> str:
        if register in self.lanes.linear and register not in self._slots:
            self._place_step(register, llvm_type(self.types[register]))
        elif register in self.lanes.several - self.lanes.linear:
            self.text.several.add(f'%"{register}"')
        return super().slot(register)

    def _place(self, key: str, type_: str, start: str) -> None:
        register, _, part = key.rpartition(":")
        self._slots[key] = f'%"{key}"'
        if register in self.lanes.linear:
            if part == "u":
                self._place_step(key, type_)
        elif register in self.lanes.several:
            self.text.several.add(self._slots[key])
        self.text.first(f'%"{key}" = alloca {type_}', f'store {type_} {start}, ptr %"{key}"')

    def _place_step(self, key: str, type_: str) -> None:
        slot = beside(f'%"{key}"')
        self.text.first(f"{slot} = alloca {type_}", f"store {type_} 0, ptr {slot}")

    def keeps(self, register: str) -> bool:
        """Whether a vector lives across blocks."""
        return f"{register}:v" in self._slots

    def _load(self, key: str, t: str, is_vector: bool) -> str:
        if not self.text.knows(key):
            if key not in self._slots:  # nothing writes it
                value = self.text.named("zeroinitializer", t) if is_vector else "0"
            elif is_vector:
                value = self.text.vector(f"load {self.text.type(t)}, ptr {self._slots[key]}")
                self._recall_extremes(key, value)
            elif key.rpartition(":")[0] in self.lanes.linear:
                value = self.text.kept(t, self._slots[key])
            else:
                value = self.text.emit(f"load {t}, ptr {self._slots[key]}")
            self.text.know(key, value)
        return self.text.knows(key)

    def _store(self, key: str, t: str, value: str) -> None:
        register, _, part = key.rpartition(":")
        self._fits(register, value, part == "u")
        self.text.know(key, value)
        if register in self.lanes.linear and part == "u":
            if key in self._slots:
                self.text.keep(t, value, self._slots[key])
        elif key in self._slots:
            self.text.line(f"store {t} {value or 'zeroinitializer'}, ptr {self._slots[key]}")
            self._keep_extremes(key, value)

    # The extremes of an address's vector are found where it is computed, not again in each loop that uses it.

    def _keep_extremes(self, key: str, value: str) -> None:
        if value in self.text.widened:
            self._widened.add(key)
        for how, slot in self._extremes(key).items():
            self.text.line(f"store i64 {self.text.reduced(how, value, 'i64')}, ptr {slot}")

    def _recall_extremes(self, key: str, value: str) -> None:
        if slots := self._extremes(key):
            if key in self._widened and self.writes[key.rpartition(":")[0]] == 1:
                self.text.widened.add(value)
            self.text.extremes[value] = {
                how: self.text.emit(f"load i64, ptr {slot}") for how, slot in slots.items()
            }

    def _extremes(self, key: str) -> dict[str, str]:
        """Where those of a register's vector are kept, if they are."""
        register, _, part = key.rpartition(":")
        slots = {how: self._slots.get(f"{register}:{how}", "") for how in _EXTREMES}
        return slots if part == "v" and all(slots.values()) else {}

    def _fits(self, register: str, value: str, scalar: bool = True) -> None:
        """Errors: Unliftable, for values of several rows that have but one place, or that are not linear as expected."""
        several, linear = self.lanes.several, self.lanes.linear
        fits = scalar and value in self.text.linear if register in linear else register in several
        if value in self.text.several and not fits:
            raise Unliftable(register)

    def bits(self) -> str:
        """The mask as an i32."""
        return self.text.bits(self.mask) if self.mask else str((1 << self.text.width) - 1)

    def everyone(self) -> str:
        """The mask, as a vector."""
        return self.mask or self.text.named(self.text.all_lanes, "i1")

    def votes(self, predicate: str, operation: str) -> str:
        text, alive = self.text, self.everyone()
        predicate = text.named(text.spread(predicate, "i1"), "i1")
        if operation == "and":  # the barrier counts groups
            dead = text.op("xor i1", alive, "true")
            return text.cast("zext", "i1", text.all(text.op("or i1", predicate, dead)), "i64")
        bits = text.bits(text.op("and i1", predicate, alive))
        return text.cast("zext", "i32", text.emit(f"call i32 @llvm.ctpop.i32(i32 {bits})"), "i64")

    def vote(self, predicate: str, operation: str) -> str:
        """The result of a barrier with a predicate where these lanes are the whole block, as an i64."""
        text, found = self.text, self.votes(predicate, operation)
        if operation == "popc":
            return (
                text.joined("add i64", found)
                if found in text.several
                else text.op("mul i64", found, text.rows)
            )
        found = text.joined(f"{operation} i64", found)
        return (
            found if operation == "and" else text.cast("zext", "i1", text.op("icmp ne i64", found, 0), "i64")
        )

    # -- as one value ---------------------------------------------------------------------------------------

    def value(self, given: str, ptx_type: str) -> str:
        given = operand(given)
        if not isinstance(given, Special):
            return super().value(given, ptx_type)
        first, t = self._of_first_lane(given)
        if self.lanes.stride(given) and not self._first:
            first = self._sum(first, self.text.row(32, 1), t)
        return self.convert(first, t, llvm_type(ptx_type))

    def _of_first_lane(self, given: Special) -> tuple[str, str]:
        """A special register's value in the first lane of each row, and its LLVM type."""
        lanes, text = self.lanes, self.text
        if given not in lanes.several:
            return self.special.read(given)
        if given not in self._firsts:
            values = lanes.firsts.get(given)
            if given in lanes.steps:
                first, t = (str(values[0]), "i32") if values else self.special.read(given)
                self._firsts[given] = text.progression(Steps(t, first, str(lanes.steps[given]))), t
            elif values:
                self._firsts[given] = text.at_rows("i32", values), "i32"
            else:
                self._firsts[given] = self.of_rows.read(given)
        return self._firsts[given]

    def read(self, register: str) -> str:
        if self.lanes.strides.get(register, 0) == 0:
            if register not in self.lanes.linear:
                return super().read(register)
            if not self.text.knows(register):
                t = llvm_type(self.types[register])
                self.text.know(register, self.text.kept(t, self.slot(register)))
            return self.text.knows(register)
        if self._first:
            return self._of_first(register)
        key = f"{register}:full"
        if not self.text.knows(key):
            t = llvm_type(self.types[register])
            self.text.know(
                key, self.exact(register) if self.is_pair(register) else self._load(f"{register}:v", t, True)
            )
        return self.text.knows(key)

    @contextmanager
    def of_first_lane(self) -> Iterator[None]:
        """Registers are read, within, for the first lane."""
        self._first = True
        yield
        self._first = False

    def _of_first(self, register: str) -> str:
        """Of a pair of 32 bits."""
        t = llvm_type(self.types[register])
        first = self._load(f"{register}:u", t, False)
        if self.lanes.strides[register] is not None:
            return first
        rest = self._load(f"{register}:v", t, True)
        more = self.text.plainly_once(f"extractelement {self.text.type(t)} {rest}, i64 0")
        return self.text.op(f"add {t}", first, more)

    def set(self, register: str, value: str, ptx_type: str) -> None:
        if register == "_":
            return
        if self.lanes.strides.get(register, 0) == 0:
            assert value not in self.text.vectors, f"{register} is not uniform"
            if register not in self.lanes.linear:
                self._fits(register, value)
                return super().set(register, value, ptx_type)
            value = self.converted(register, value, ptx_type)
            self._fits(register, value)
            self.text.know(register, value)
            if register in self._slots:
                self.text.keep(llvm_type(self.types[register]), value, self._slots[register])
            return None
        self.set_full(register, self.converted(register, value, ptx_type))

    def set_full(self, register: str, value: str) -> None:
        t = llvm_type(self.types[register])
        value = self._merged(register, self.text.named(self.text.spread(value, t), t), t)
        if self.is_pair(register):
            self._store(f"{register}:u", t, "0")
        self._store(f"{register}:v", self.text.type(t), value)
        self.text.know(f"{register}:full", value)

    def _merged(self, register: str, value: str, t: str) -> str:
        if not (self.merging and register in self.lanes.merged):
            return value
        vector = self.text.type(t)
        before = self.text.spread(self.read(register), t)
        return self.text.vector(
            f"select {self.text.bools} {self.text.condition(self.mask)}, {vector} {value}, {vector} {before}"
        )

    # -- as a pair ------------------------------------------------------------------------------------------

    def pair(self, given: Operand, type_: str) -> Pair:
        """An integer operand of 32 or 64 bits."""
        t, bits = llvm_type(type_), BITS[type_]
        if isinstance(given, Special) and self.lanes.stride(given):
            return self._of_first_lane(given)[0], self.text.row(32, 1)
        stride = self.lanes.stride(given)
        if stride == 0:
            return self.value(given, type_), ""
        if not self.is_pair(given):
            return "0", self.value(given, type_)
        first = self._load(f"{given}:u", t, False)
        if stride is not None:
            return first, self.text.row(bits, stride)
        return first, self._load(f"{given}:v", t, True)

    def set_pair(self, register: str, pair: Pair) -> None:
        t, (first, rest) = llvm_type(self.types[register]), pair
        if self.merging and register in self.lanes.merged:
            return self.set_full(register, self._sum(first, rest, t))
        self.text.forget(f"{register}:full")
        self._store(f"{register}:u", t, first)
        if self.lanes.strides[register] is None:
            vector = self.text.type(t)
            if not rest:
                rest = "zeroinitializer"
            self._store(f"{register}:v", vector, self.text.named(rest, t))

    def _sum(self, first: str, rest: str, t: str) -> str:
        if not rest:
            return self.text.spread(first, t)
        if first == "0" and rest in self.text.vectors:
            return rest
        return self.text.vector(f"add {self.text.type(t)} {self.text.spread(first, t)}, {rest}")

    def exact(self, register: str) -> str:
        """The whole value of a pair, with what anchors keep."""
        type_ = self.types[register]
        t = llvm_type(type_)
        first, rest = self.pair(operand(register), type_)
        found = self._sum(first, rest, t)
        if not self.lanes.anchored.get(register):
            return found
        return self.text.op("add i64", found, self.correction(first, register in self.lanes.several))

    # -- anchors ----------------------------------------------------------------------------------------------
    # A 32-bit sum may overflow before it is widened to 64 bits, in some lanes only. That is rare; then the
    # scalar becomes a number far from all addresses that says where the rest is kept: in memory of the
    # anchor's own.

    def anchored(self, ins: Instruction, good: str, pair: Pair, exact) -> Pair:
        """A pair, if `good` (an i1) holds; else the scalar says where what is missing is. exact(): the 64-bit result."""
        text, number = self.text, self.lanes.anchors[ins]
        far, fine = text.fresh_label("far"), text.fresh_label("fine")
        mark = str(number << 56)
        vector = text.type("i64")
        text.branch(good, fine, far, likely=True)
        with text.out_of_line(far):
            rest = text.op("sub i64", text.spread(exact(), "i64"), self._sum(mark, pair[1], "i64"))
            for several in (False, True)[rest in text.several : text.rows]:
                text.line(f"store {vector} {rest}, ptr {self._kept(str(number), several)}, align 8")
            text.line(f"br label %{fine}")
        text.label(fine)
        first = text.emit(f"select i1 {good}, i64 {pair[0]}, i64 {mark}")
        self._whole[first] = good
        return first, pair[1]

    def _kept(self, number: str, several: bool) -> str:
        """several: of each row; what is the same for all of them is kept there, too."""
        vector = self.text.type("i64")
        if not self.anchors:
            self.anchors = "%anchors"
            count = len(self.lanes.anchors) + 1
            if self.text.rows > 1:
                self.text.several.add("%anchors.rows")
            for name in ("%anchors", "%anchors.rows")[: self.text.rows]:
                self.text.first(
                    f"{name} = alloca [{count} x {vector}], align 64",
                    f"store {vector} zeroinitializer, ptr {name}, align 8",
                )
        table = "%anchors.rows" if several else "%anchors"
        return self.text.emit(f"getelementptr {vector}, ptr {table}, i64 {number}")

    def is_whole(self, first: str) -> str:
        """Whether a scalar names no anchor, an i1."""
        return self._whole.get(first) or self.text.op("icmp eq i64", self.anchor_of(first), 0)

    def anchor_of(self, first: str) -> str:
        """The number of the anchor that a scalar names; 0: none."""
        text = self.text
        first = text.first_of(first)  # a mark stands for all rows
        number = text.op("lshr i64", text.op("add i64", first, 1 << 55), 56)
        known = text.op("icmp ule i64", number, len(self.lanes.anchors))
        return text.emit(f"select i1 {known}, i64 {number}, i64 0")

    def correction(self, first: str, several: bool) -> str:
        place = self._kept(self.anchor_of(first), several)
        return self.text.vector(f"load {self.text.type('i64')}, ptr {place}, align 8")


class _Rows:
    """Where special registers that differ from row to row are kept."""

    address = ROW
