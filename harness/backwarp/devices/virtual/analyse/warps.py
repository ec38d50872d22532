"""What depends on the number of a group of lanes is uniform; an exchange within a warp that runs as one group is a permutation
of a vector.

    %r2 = shr.u32 %tid.x, 5     the same in all lanes
    %r3 = and.b32 %tid.x, 31    the lane's number
    %r4 = rem.s32 %tid.x, 96    grows by one from lane to lane

That is for 32 lanes. A number is in step if it is a uniform multiple of 32 plus the lane's number, like %tid.x: a group of lanes
begins at a multiple of 32 in a block whose rows are multiples of 32 threads. The same for groups of fewer lanes.
"""

from __future__ import annotations

from ..ptx.cfg import Blocks
from ..ptx.ir import Function, Immediate, Instruction, Operand, Register, Special
from ..runtime.abi import WARP
from .strides import LINEAR

_MOST_THREADS = 10  # bits of a thread's number in its block
_WORDS = ("u32", "s32", "b32")
#: comparisons with a multiple of the group's width, or with one less
_BELOW, _UP_TO = ("lt", "ge", "lo", "hs"), ("gt", "le", "hi", "ls")


def exchanges(function: Function) -> bool:
    """Whether the lanes of a warp exchange values."""
    return any(isinstance(i, Instruction) and i.op.collective in ("warp", "matrix") for i in function.body)


#: of a shuffle whose b is in a register, which has to be the same in all lanes
IN_REGISTER = -1
#: what constants are computed with in CUDA's headers
_FOLDED = {"sub": lambda a, b: a - b, "shl": lambda a, b: a << b if b < 32 else 0, "or": lambda a, b: a | b}


class Warps:
    """Traces registers to where they are set: in the same block, or by their only write.

    masked: blocks that some lanes may skip. kept: registers that inactive lanes keep there. registers: a
    shuffle may have its b in one. width: how many lanes a group has.
    """

    def __init__(self, function: Function, blocks: Blocks, registers: bool = False, width: int = WARP):
        self.registers, self.width = registers, width
        self.body = function.body
        self.starts = {p: start for start, (end, _) in blocks.items() for p in range(start, end)}
        self.positions = {i: p for p, i in enumerate(self.body) if isinstance(i, Instruction)}
        self.writers: dict[str, list[int]] = {}
        for ins, position in self.positions.items():
            for name in ins.writes:
                self.writers.setdefault(name, []).append(position)
        self.masked: set[int] = set()
        self.kept: set[str] = set()

    def exchange(self, ins: Instruction) -> tuple[int, int] | None:
        """For a shuffle its b and c, for another warp collective (0, 0). None if these or the mask are
        unknown, or the mask does not name all lanes."""
        if ins.op.collective == "matrix":
            return (0, 0) if ins.base in ("mma", "ldmatrix") else None
        named, at = ins.named, self.positions[ins]
        if ins.base not in ("shfl", "vote", "redux", "bar") or self._constant(named["m"], at) != 0xFFFFFFFF:
            return None
        if ins.base != "shfl":
            return 0, 0
        b, c = (self._constant(named[name], at) for name in "bc")
        if b is None and self.registers:
            b = IN_REGISTER
        return None if b is None or c is None else (b, c)

    def result(self, ins: Instruction) -> int | None:
        """Of a result that depends on the group: 0 if it is uniform; else a modulus, if it is the remainder of the first lane's
        operand plus the lane's number."""
        op, at, width = ins.op, self.positions[ins], self.width
        if (
            op.type not in _WORDS
            or len(ins.operands) != 3
            or ins.pred
            or not self._in_step(ins.operands[1], at)
        ):
            return None
        number = self._constant(ins.operands[2], at)
        if ins.base == "setp" and op.mods[0] in _BELOW and self._multiple(ins.operands[2], at):
            return 0
        if number is None:
            return None
        if ins.base == "shr" and number >= width.bit_length() - 1:
            return 0
        if ins.base == "and" and number % width == 0:
            return 0
        if ins.base == "and" and number % width == width - 1 and not number & number + 1 and number < 1 << 31:
            return number + 1
        if ins.base == "setp" and op.mods[0] in _UP_TO and number % width == width - 1:
            return 0
        # of a negative number the quotient is rounded up
        if ins.base in ("div", "rem") and 0 < number < 1 << 31 and number % width == 0:
            if op.type == "u32" or self._is_thread(ins.operands[1], at):
                return number if ins.base == "rem" else 0
        return None

    # -- where a value comes from -------------------------------------------------------------------------

    def _set(self, given: Operand, at: int) -> tuple[Instruction, int] | None:
        """The instruction that sets a register which is read at a position."""
        if type(given) is not Register:
            return None
        start, found = self.starts[at], self.writers.get(given, [])
        inside = [p for p in found if start <= p < at]
        if given in self.kept and (not inside or start in self.masked):
            return None
        if not inside and (len(found) != 1 or found[0] >= at):
            return None
        position = max(inside) if inside else found[0]
        ins = self.body[position]
        return (ins, position) if not ins.pred and ins.op.type in _WORDS else None

    def _constant(self, given: Operand, at: int) -> int | None:
        if type(given) is Immediate:
            return given.value & 0xFFFFFFFF if type(given.value) is int else None
        found = self._set(given, at)
        if found and found[0].base == "mov":
            return self._constant(found[0].operands[1], found[1])
        if not found or found[0].base not in _FOLDED or not _is_plain(found[0]):
            return None
        values = [self._constant(o, found[1]) for o in found[0].operands[1:]]
        return None if None in values else _FOLDED[found[0].base](*values) & 0xFFFFFFFF

    def _in_step(self, given: Operand, at: int) -> bool:
        if isinstance(given, Special):
            return given in LINEAR
        if not (found := self._set(given, at)):
            return False
        ins, position = found
        given = ins.operands[1:]
        if ins.base == "mov":
            return self._in_step(given[0], position)
        if ins.base in ("add", "sub", "mad") and not _is_plain(ins):
            return False
        if ins.base in ("add", "sub"):
            ways = [given, given[::-1]] if ins.base == "add" else [given]
            return any(self._in_step(a, position) and self._multiple(b, position) for a, b in ways)
        if ins.base == "mad":
            return self._in_step(given[2], position) and self._product(given[:2], position)
        return ins.base in ("and", "rem") and bool(self.result(ins))

    def _multiple(self, given: Operand, at: int) -> bool:
        """Whether it is a multiple of the group's width, the same in all lanes."""
        number = self._constant(given, at)
        if number is not None:
            return number % self.width == 0
        if isinstance(given, Special):
            return given == "%ntid.x"
        if not (found := self._set(given, at)):
            return False
        ins, position = found
        given = ins.operands[1:]
        if ins.base == "mov":
            return self._multiple(given[0], position)
        if ins.base == "and" and self.result(ins) == 0 or self._is_zero(ins, position):
            return True
        if ins.base == "shl":
            by = self._constant(given[1], position)
            enough = by is not None and self.width.bit_length() - 1 <= by < 32
            return enough and self._uniform(given[0], position)
        if ins.base in ("add", "sub", "mul", "mad") and not _is_plain(ins):
            return False
        if ins.base in ("add", "sub"):
            return all(self._multiple(o, position) for o in given)
        if ins.base in ("mul", "mad"):
            return self._product(given[:2], position) and all(self._multiple(o, position) for o in given[2:])
        return False

    def _product(self, factors: tuple[Operand, ...], at: int) -> bool:
        """Whether it is a multiple of the group's width, the same in all lanes."""
        a, b = factors
        return any(self._multiple(x, at) and self._uniform(y, at) for x, y in ((a, b), (b, a)))

    def _is_zero(self, ins: Instruction, at: int) -> bool:
        """Whether it is always 0, like the sign of a thread's number, which a division by 32 computes."""
        by = self._constant(ins.operands[2], at) if ins.base == "shr" else None
        if by is None:
            return False
        given, found = self._moved(ins.operands[1], at)
        if isinstance(given, Special):
            return given in LINEAR and by >= _MOST_THREADS
        return bool(found) and self._is_zero(*found)

    def _is_thread(self, given: Operand, at: int) -> bool:
        """Whether it is a thread's number in its block or warp."""
        given, _ = self._moved(given, at)
        return isinstance(given, Special) and given in LINEAR

    def _moved(self, given: Operand, at: int) -> tuple[Operand, tuple[Instruction, int] | None]:
        """What is moved to a register, perhaps through others, and what sets that."""
        found = self._set(given, at)
        while found and found[0].base == "mov":
            given, found = found[0].operands[1], self._set(found[0].operands[1], found[1])
        return given, found

    def _uniform(self, given: Operand, at: int) -> bool:
        if isinstance(given, Special):
            return given not in LINEAR
        if type(given) is Immediate:
            return True
        if not (found := self._set(given, at)):
            return False
        ins, position = found
        if ins.op.memory:
            return ins.op.of_parameters
        return not ins.op.collective and all(self._uniform(o, position) for o in ins.operands[1:])


def _is_plain(ins: Instruction) -> bool:
    mods = ins.op.mods
    return "sat" not in mods and "cc" not in mods and not {"wide", "hi"} & set(mods)
