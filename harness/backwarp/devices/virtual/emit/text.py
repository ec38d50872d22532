"""LLVM text of one function under construction: instructions, basic blocks, and what is known in the current
one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..ptx.types import LLVM_BITS
from .unit import Unit

_CALL = re.compile(r"call (?:fast )?(\S+|<[^>]*>) @([\w.$\"]+)\((.*)\)")


def memory_name(name: str) -> str:
    """The LLVM name of a parameter's memory, or of a variable's: no value of the emitter's own is called so."""
    return f'%"[{name}]"'


class Text:
    """Three parts: what precedes everything, the code itself, and what is out of line, at the end."""

    has_mask_registers = False  # for the conditions of vectors

    def __init__(self, unit: Unit):
        self.unit = unit
        self._first: list[str] = []
        self._lines: list[str] = []
        self._aside: list[str] = []
        self._known: dict[str, str] = {}  # register, or see `once` -> its value, within the current block
        self._serial = 0

    def whole(self, frame: Sequence[str] = ()) -> str:
        """frame: how a coroutine's state gets its memory."""
        memory = [line for line in self._first if " = alloca " in line]
        others = [line for line in self._first if " = alloca " not in line]
        start = ["entry:", *memory, *frame, *others, "  br label %begin", "begin:"]
        return "\n".join(start + self._lines + self._aside)

    def first(self, *lines: str) -> None:
        """Lines of what precedes everything."""
        self._first += [f"  {line}" for line in lines]

    def raw(self, *lines: str) -> None:
        """Lines that end as the function does: with their labels."""
        self._lines += lines

    def aside(self, label: str, *lines: str) -> None:
        """A block out of line."""
        self._aside += [f"{label}:", *(f"  {line}" for line in lines)]

    @contextmanager
    def at_entry(self) -> Iterator[None]:
        """What is emitted inside the context precedes everything."""
        lines, self._lines = self._lines, self._first
        yield
        self._lines = lines

    # -- instructions -----------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self._lines.append("  " + text)

    def fresh(self, hint: str = "t") -> str:
        self._serial += 1
        return f"%{hint}.{self._serial}"

    def emit(self, instruction: str) -> str:
        """Emit an instruction with a result; returns the result's name."""
        if instruction.startswith("call ") and (match := _CALL.match(instruction)):
            self.unit.declare(match[2], match[1], match[3])
        return self.assign(instruction)

    def assign(self, instruction: str) -> str:
        """Like `emit`, where nothing has to be declared."""
        self._serial += 1
        name = f"%t.{self._serial}"  # as `fresh`
        self._lines.append(f"  {name} = {instruction}")
        return name

    def once(self, instruction: str) -> str:
        """Like `emit`, for one that only computes: its result is known from then on, as a register's value is."""
        if instruction not in self._known:
            self._known[instruction] = self.emit(instruction)
        return self._known[instruction]

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

    # -- basic blocks -----------------------------------------------------------------------------

    def fresh_label(self, hint: str) -> str:
        self._serial += 1
        return f"{hint}.{self._serial}"

    def branch(self, condition: str, yes: str, no: str, unlikely: bool = False, likely: bool = False) -> None:
        weights = ", !prof !0" if unlikely else ", !prof !2" if likely else ""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}{weights}")

    def label(self, label: str) -> None:
        """Start a basic block that the block before dominates: what is known stays known."""
        self._lines.append(f"{label}:")

    def block(self, label: str) -> None:
        """Start a basic block that can be reached from anywhere."""
        self._lines.append(f"{label}:")
        self._known.clear()

    def join(self, label: str) -> None:
        """Start a basic block that can be reached from several places; falls through into it."""
        self.line(f"br label %{label}")
        self.block(label)

    # -- what is known in the current block ---------------------------------------------------------

    def know(self, name: str, value: str) -> None:
        self._known[name] = value

    def knows(self, name: str) -> str:
        """The value of a register; "" where it is not known."""
        return self._known.get(name, "")

    def forget(self, *names: str) -> None:
        """These, or all."""
        for name in names or tuple(self._known):
            self._known.pop(name, None)

    def remembered(self) -> dict[str, str]:
        return dict(self._known)

    def recall(self, known: dict[str, str]) -> None:
        self._known = dict(known)
