"""Replaces loads and stores of wmma fragments by plain ones of each lane's elements.

                                        mov.b64 %wmma.base, %rd1;
                                        cvt.u64.u32 %wmma.stride, %r9;
                                        mul.lo.u32 %wmma.lane, %laneid, 8;
                                        cvt.u64.u32 %wmma.first, %wmma.lane;
    wmma.load.a...row...f16             add.u64 %wmma.number, %wmma.first, 0;
        {%r1, ...}, [%rd1], %r9;  ->    shr.u64 %wmma.row, %wmma.number, 4;
                                        and.b64 %wmma.column, %wmma.number, 15;
                                        mul.lo.u64 %wmma.at, %wmma.row, %wmma.stride;
                                        add.u64 %wmma.at, %wmma.at, %wmma.column;
                                        mul.lo.u64 %wmma.at, %wmma.at, 2;
                                        add.u64 %wmma.at, %wmma.base, %wmma.at;
                                        ld.global.b16 %wmma.e0, [%wmma.at];
                                        ...
                                        mov.b32 %wmma.word, {%wmma.e0, %wmma.e1};
                                        mov.b32 %r1, %wmma.word;

PTX does not say which lane holds which element of a fragment. Here element number e, counted row by row, is in lane
e / n, where n is the number of elements per lane (runtime/matrix.cu knows it too).
"""

from __future__ import annotations

from dataclasses import replace

from ..instrument.insert import mark
from ..ptx.ir import Function, Instruction, Label, Variable
from ..ptx.types import BITS

_BASE, _STRIDE, _LANE, _FIRST = "%wmma.base", "%wmma.stride", "%wmma.lane", "%wmma.first"
_NUMBER, _ROW, _COLUMN, _AT, _WORD = "%wmma.number", "%wmma.row", "%wmma.column", "%wmma.at", "%wmma.word"
_REGISTERS = {
    **dict.fromkeys((_BASE, _STRIDE, _FIRST, _NUMBER, _ROW, _COLUMN, _AT), "u64"),
    **dict.fromkeys((_LANE, _WORD), "b32"),
}


def run(function: Function, variables: dict[str, Variable]) -> None:
    """In place. variables: the module's."""
    if any(isinstance(item, Instruction) and _moves_fragment(item) for item in function.body):
        function.regs |= _REGISTERS
        everything = {**variables, **function.variables}
        function.body = [each for item in function.body for each in _expanded(item, function, everything)]


def _moves_fragment(ins: Instruction) -> bool:
    return ins.base == "wmma" and ins.op.address is not None


def _expanded(item: Instruction | Label, function: Function, variables) -> list[Instruction | Label]:
    if isinstance(item, Label) or not _moves_fragment(item):
        return [item]
    return _Fragment(item, function, variables).body


class _Fragment:
    """One lane's part of a load or a store. Its operands are read before anything is written."""

    def __init__(self, ins: Instruction, function: Function, variables: dict[str, Variable]):
        self.ins, self.function, self.variables = ins, function, variables
        self.body: list[Instruction | Label] = []
        (m, n, k), self.bits = ins.op.shape, BITS[ins.op.type]
        self.rows, self.columns = {"a": (m, k), "b": (k, n)}.get(ins.op.operation, (m, n))
        self.each = max(1, 32 // self.bits)  # elements that a register holds
        self._start()
        (self._load if ins.op.has_result else self._store)()

    def _add(self, opcode: str, *operands: str | int) -> None:
        # each element's access counts as the whole instruction's
        self.body.append(replace(mark(opcode, *operands, at=self.ins), original=self.ins))

    @property
    def count(self) -> int:
        """The number of elements per lane."""
        return self.rows * self.columns // 32

    def _start(self) -> None:
        address, by_rows = self.ins.address, "row" in self.ins.op.mods
        base, narrow = address.base, BITS.get(self.function.regs.get(address.base)) == 32
        self._add("cvt.s64.s32" if narrow else "mov.b64", _BASE, base)
        if address.offset:
            self._add("add.s64", _BASE, _BASE, address.offset)
        variable = self.variables.get(base)
        if variable is not None and variable.space == "shared" and self.ins.op.space == "generic":
            self._add("cvta.shared.u64", _BASE, _BASE)
        default = self.columns if by_rows else self.rows
        self._add("cvt.u64.u32", _STRIDE, self.ins.named.get("s", default))
        self._add("mul.lo.u32", _LANE, "%laneid", self.count)
        self._add("cvt.u64.u32", _FIRST, _LANE)

    def _find(self, i: int) -> str:
        """The address of an element of this lane."""
        self._add("add.u64", _NUMBER, _FIRST, i)
        self._add("shr.u64", _ROW, _NUMBER, self.columns.bit_length() - 1)
        self._add("and.b64", _COLUMN, _NUMBER, self.columns - 1)
        major, minor = (_ROW, _COLUMN) if "row" in self.ins.op.mods else (_COLUMN, _ROW)
        self._add("mul.lo.u64", _AT, major, _STRIDE)
        self._add("add.u64", _AT, _AT, minor)
        self._add("mul.lo.u64", _AT, _AT, self.bits // 8)
        self._add("add.u64", _AT, _BASE, _AT)
        return f"[{_AT}]"

    def _of_memory(self, base: str) -> str:
        space = self.ins.op.space
        return f"{base}{f'.{space}' if space != 'generic' else ''}.b{self.bits}"

    def _part(self, i: int) -> str:
        """A register for an element that shares one with others."""
        name = f"%wmma.e{i}"
        self.function.regs[name] = "b16"  # the smallest type that instructions compute with
        return name

    def _load(self) -> None:
        registers = self.ins.named["d"].parts
        if self.each == 1:
            for i, register in enumerate(registers):
                self._add(self._of_memory("ld"), register, self._find(i))
            return
        parts = []
        for i in range(self.count):
            at = self._find(i)
            parts.append(self._part(i))
            self._add(self._of_memory("ld"), parts[-1], at)
        for start in range(0, self.count, self.each):
            self._add("mov.b32", _WORD, f"{{{', '.join(parts[start : start + self.each])}}}")
            # a fragment with more registers than elements repeats them
            for register in registers[start // self.each :: self.count // self.each]:
                self._add("mov.b32", register, _WORD)

    def _store(self) -> None:
        registers = self.ins.named["d"].parts
        for i in range(self.count):
            source = registers[i // self.each]
            if self.each > 1:
                if i % self.each == 0:
                    parts = [self._part(i + n) for n in range(self.each)]
                    self._add("mov.b32", f"{{{', '.join(parts)}}}", source)
                source = f"%wmma.e{i}"
            self._add(self._of_memory("st"), self._find(i), source)
