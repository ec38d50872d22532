"""Notes of every access to an array or a tile: which instruction, which thread, where, what it moves, and what the variables
hold that its index is computed from, under the names that they have in the file.

                              atom.global.add.u64 %note.row, [backwarp_notes], 1;    a row; the last one if there are more
                              ...                                                    its place on the host
    ld.f32 %f1, [%rd4];  ->   add.u64 %note.field, %note.row, 8;
                              poke.b32 %note.field, 7;                               the number of the instruction
                              ...                                                    thread, address, variables
                              ld.f32 %f1, [%rd4];
                              poke.b32 %note.field, %f1;

Only a file that declares DECLARATION is changed. It must be unoptimised: then each access of the text is one, and registers have
names. The number in a pointer says little: beside it is noted what it was computed from, and, where it moves in a loop,
what else changes there. Of products of matrices a lane's registers are noted, and of calls that they happen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..analyse import debuginfo
from ..ptx.cfg import basic_blocks
from ..ptx.ir import Address, Function, Instruction, Module, Register
from ..ptx.types import BITS, is_float
from .insert import Inserts, mark

BUILD = "noted"  # the name of its recipe
NAME = "backwarp_notes"
ROWS, NAMES = 1 << 15, 13  # of the notes; variables in a row
ROW = np.dtype(
    [
        *((field, "i8") for field in ("site", "block", "thread", "address")),
        ("value", "u4", 4),
        ("names", "i8", NAMES),
    ]
)
DECLARATION = f'\nextern "C" __device__ long long {NAME}[1 + {ROWS} * {ROW.itemsize // 8}];\n'
_AT, _FIELD, _WORD, _NUMBER, _IGNORED = (
    f"%note.{name}" for name in ("at", "field", "word", "number", "ignored")
)
_BUILT_IN = {
    f"%{ptx}.{axis}": f"{cuda}.{axis}"
    for ptx, cuda in (("tid", "threadIdx"), ("ctaid", "blockIdx"))
    for axis in "xyz"
}
_LOCAL = {"%SP", "%SPL"}  # the registers that local arrays are found by
_ACCESSES, _SPACES = {"load", "store", "atomic", "copy"}, {"generic", "global", "shared"}


@dataclass(frozen=True)
class Site:
    """An instruction that is noted; rows have its place in the list, counted from 1.

    kind: "load" | "store" | "atomic" | "copy" (a site for each of its addresses, where to first) | "rows" (ldmatrix) | "matrix"
    (mma) | "call" | "exchange" (a collective of a warp, of which there are no rows). line: 0 in a header. function: the one it
    is in, or calls. nbytes: of the access. names: the variables in a row's columns, and their bits; of "matrix", the registers.
    built_in: those of thread and block that the index is computed from. set_in: the lines where variables are set; 0: they are parameters.
    """

    kind: str
    line: int
    function: str
    nbytes: int = 0
    names: tuple[tuple[str, int], ...] = ()
    built_in: tuple[str, ...] = ()
    set_in: dict[str, tuple[int, ...]] | None = None


def run(module: Module) -> list[Site]:
    """In place, before other passes."""
    sites: list[Site] = []
    if NAME in module.variables:
        named = debuginfo.in_registers(module.debug)
        for function in module.functions.values():
            if function.body:
                own = {register: name for (of, register), name in named.items() if of == function.name}
                _Notes(function, own, sites).run()
    return sites


class _Notes:
    """named: the variables in registers."""

    def __init__(self, function: Function, named: dict[str, str], sites: list[Site]):
        self.function, self.named, self.sites, self.inserts = function, named, sites, Inserts(function)
        self.set_by: dict[str, list[Instruction]] = {}
        for ins in function.body:
            for register in ins.writes if isinstance(ins, Instruction) else ():
                self.set_by.setdefault(register, []).append(ins)
        self.beside: dict[str, list[str]] = {}  # of a register that a loop sets at its start: all of them
        for start, (end, _) in basic_blocks(function.body, function.tables).items():
            moves = [i for i in function.body[start:end] if isinstance(i, Instruction) and i.base == "mov"]
            own = [i.operands[0] for i in moves if len(self.set_by.get(i.operands[1], ())) > 1]
            self.beside |= dict.fromkeys(own, own)

    def run(self) -> None:
        self.function.regs |= dict.fromkeys((_AT, _FIELD, _WORD), "u64") | {_NUMBER: "u32", _IGNORED: "pred"}
        for ins in self.function.body:
            if not isinstance(ins, Instruction):
                continue
            op = ins.op
            if op.base == "mma":
                registers = [r for o in ins.operands[1:3] for r in o.registers]
                self._note(ins, "matrix", {str(i): r for i, r in enumerate(registers)})
            elif op.moved_rows and op.has_result:
                self._note(ins, "rows", {})
            elif op.collective == "warp":
                self.sites.append(Site("exchange", ins.at.line, self.function.name))
            elif op.flow == "call" and ins.at.line and not ins.at.header:
                self._note(ins, "call", {})
            elif op.memory in _ACCESSES and op.space in _SPACES and not op.collective:
                for address in ins.operands:
                    behind = self._behind(address.base) if isinstance(address, Address) else ()
                    if behind and not _LOCAL.intersection(behind):
                        self._note(ins, op.memory, self._variables(behind), address)
        self.inserts.done()

    # -- where an address comes from ------------------------------------------------------------------------

    def _behind(self, start: str) -> list[str]:
        """A register and those that it is computed from, the nearest first: as far back as variables, beyond pointers."""
        found = [start] if isinstance(start, Register) else []
        for register in found:
            if register == start or register not in self.named or self._bits(register) == 64:
                setters = [ins for ins in self.set_by.get(register, ()) if ins.base not in ("ld", "call")]
                sources = [r for ins in setters for r in sorted(ins.reads)] + self.beside.get(register, [])
                found += [r for r in dict.fromkeys(sources) if r not in found]
        return found

    def _variables(self, registers: list[str]) -> dict[str, str]:
        """The names among them of integers and pointers."""
        found: dict[str, str] = {}
        for register in registers:
            name = self.named.get(register) or _BUILT_IN.get(register)
            if name and not is_float(self.function.regs.get(register, "u32")):
                found.setdefault(name, register)
        return found

    def _set_in(self, start: str) -> tuple[int, ...]:
        """The lines that give a variable its values, and then those of the only other one that it is computed from."""
        names = {start: self.named.get(start)}
        names |= {r: n for r in self._behind(start) if (n := self.named.get(r)) not in (None, names[start])}
        others = [r for r in names if r != start and 0 not in self._lines(r)]
        counts = start in self.beside or len({names[r] for r in others}) != 1
        if counts or not any(map(self.named.get, self._behind(others[0])[1:])):
            others = []
        return (*self._lines(start), *(line for r in others[:1] for line in self._lines(r)))

    def _lines(self, start: str) -> list[int]:
        found, lines = [start], set()
        for register in found:
            for ins in self.set_by.get(register, ()):
                moved = [r for r in ins.reads if r not in found] if ins.base == "mov" else []
                found += moved
                lines |= set() if moved else {0 if ins.op.space == "param" else ins.at.line}
        return sorted(lines)

    def _bits(self, register: str) -> int:
        return BITS.get(self.function.regs.get(register, ""), 0)

    # -- what is inserted -----------------------------------------------------------------------------------

    def _note(
        self, ins: Instruction, kind: str, known: dict[str, str], address: Address | None = None
    ) -> None:
        columns = [(name, r) for name, r in known.items() if self._bits(r) in (16, 32, 64)][:NAMES]
        of = ins.called[1] if kind == "call" else self.function.name
        nbytes = ins.op.nbytes * ins.op.vector if address else 0
        built_in = tuple(name for name, r in known.items() if r in _BUILT_IN)
        names = tuple((name, self._bits(r)) for name, r in columns)
        set_in = {name: self._set_in(r) for name, r in columns}
        self.sites.append(Site(kind, ins.at.line, of, nbytes, names, built_in, set_in))
        self._row(ins, address)
        for field, register, source in (("block", _WORD, "Env.block"), ("thread", _NUMBER, "Thread.linear")):
            self._add(ins, "fetch", register, source)
            self._poke(ins, field, register)
        self._add(ins, "mov.u32", _NUMBER, len(self.sites))
        self._poke(ins, "site", _NUMBER)
        for i, (_, register) in enumerate(columns):
            self._poke(ins, "names", register, 8 * i)
        if address:
            self._address(ins, address, in_window=ins.op.space == "shared" and address == ins.address)
        if kind in ("load", "rows"):
            each = 4 if kind == "rows" else ins.op.nbytes
            for i, register in enumerate(ins.operands[0].registers):
                self._poke(ins, "value", register, i * each, where=self.inserts.after)
        elif kind in ("store", "atomic"):
            for i, register in enumerate(ins.operands[-1].registers):
                self._poke(ins, "value", register, i * ins.op.nbytes)

    def _row(self, ins: Instruction, address: Address | None) -> None:
        """_AT: where the row is on the host."""
        given = address and not self.function.entry  # perhaps a local array
        self._add(ins, "mov.u64", _WORD, 1)
        if given:
            self._add(ins, "isspacep.local", _IGNORED, address.base)
            self._add(ins, "selp.b64", _WORD, 0, 1, _IGNORED)
        self._add(ins, "atom.global.add.u64", _AT, f"[{NAME}]", _WORD)
        if given:
            self._add(ins, "selp.b64", _AT, ROWS - 1, _AT, _IGNORED)
        self._add(ins, "min.u64", _AT, _AT, ROWS - 1)
        self._add(ins, "mov.u64", _WORD, NAME)
        self._add(ins, "mad.lo.u64", _AT, _AT, ROW.itemsize, _WORD)
        self._add(ins, "fetch", _WORD, "Env.arena")
        self._add(ins, "add.u64", _AT, _AT, _WORD)

    def _address(self, ins: Instruction, address: Address, in_window: bool) -> None:
        """in_window: it is one of shared memory, which begins at 0 there."""
        self._add(ins, "cvt.u64.u32" if self._bits(address.base) == 32 else "mov.b64", _WORD, address.base)
        if in_window:
            self._add(ins, "fetch", _FIELD, "Env.shared_base")
            self._add(ins, "add.u64", _WORD, _WORD, _FIELD)
        self._add(ins, "add.u64", _WORD, _WORD, address.offset)
        self._poke(ins, "address", _WORD)

    def _poke(self, ins: Instruction, field: str, register: str, i: int = 0, where=None) -> None:
        if (bits := self._bits(register)) in (16, 32, 64):
            self._add(ins, "add.u64", _FIELD, _AT, 8 + ROW.fields[field][1] + i, where=where)
            self._add(ins, f"poke.b{bits}", _FIELD, register, where=where)

    def _add(self, ins: Instruction, opcode: str, *operands: str | int, where=None) -> None:
        (where or self.inserts.before)(ins, mark(opcode, *operands, at=ins))
