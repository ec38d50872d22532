"""Where the threads of a block of known shape access shared arrays, if only their places in the block decide that.

    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 7;                of 16 threads
    shl.b32 %r3, %r2, 2;          ->    %r5: 64 to 92 behind the start of tile, multiples of 4
    mov.u32 %r4, tile+64;
    add.s32 %r5, %r4, %r3;

Such accesses need not be checked each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from ..ptx.ir import Function, Instruction, Operand, Symbol
from ..ptx.types import BITS
from .assigned import maybe_undefined
from .numbers import follow, read_as, value_of
from .private_arrays import writers_of
from .rows import Block
from .strides import linear

_MOST = 1 << 16  # instructions, of all threads
_WIDEST = 16  # bytes of an access


@dataclass(frozen=True)
class Places:
    """Of addresses, behind the start of their array. rests: by the size of the widest access."""

    first: int
    last: int
    rests: frozenset[int]

    def fit(self, offset: int, span: int, nbytes: int, size: int) -> bool:
        """Whether accesses of `nbytes` that begin at an offset from them, and have so many bytes in all, are aligned and in an
        array of this size."""
        aligned = all((rest + offset) % nbytes == 0 for rest in self.rests)
        return aligned and 0 <= self.first + offset and self.last + offset + span <= size


def places(function: Function, block: Block) -> dict[Operand, tuple[str, Places]]:
    """Register -> the array that it points into, and where."""
    fixed, arrays = _fixed(function)
    if not arrays or len(fixed) * prod(block) > _MOST:
        return {}
    symbols = {o: o.offset for ins in fixed for o in ins.sources if type(o) is Symbol}
    found: dict[Operand, list[int]] = {name: [] for name in arrays}
    for z, y, x in product(*map(range, reversed(block))):
        known = {"%tid.x": x, "%tid.y": y, "%tid.z": z, **symbols}
        known |= {f"%ntid.{axis}": size for axis, size in zip("xyz", block)}
        follow(fixed, known)
        for name in found.keys() & known.keys():
            found[name].append(read_as(known[name], "s32"))
    return {name: (arrays[name], _of(v)) for name, v in found.items() if len(v) == prod(block)}


def _of(values: list[int]) -> Places:
    return Places(min(values), max(values), frozenset(value % _WIDEST for value in values))


def _fixed(function: Function) -> tuple[list[Instruction], dict[Operand, str]]:
    """What computes registers that are always the same in a thread, and which of them point into an array, behind whose start
    they are numbers."""
    early = maybe_undefined(function.body, function.regs)
    once = {name for name, found in writers_of(function.body).items() if len(found) == 1} - early
    numbers: set[Operand] = {f"%{name}.{axis}" for name in ("tid", "ntid") for axis in "xyz"}
    fixed, arrays, known = [], {}, dict.fromkeys(numbers, 0)
    for ins in (i for i in function.body if isinstance(i, Instruction) and i.writes <= once and not i.pred):
        if (
            len(ins.writes) != 1
            or ins.op.memory
            or value_of(ins, known | dict.fromkeys(_symbols(ins), 0)) is None
        ):
            continue
        (name,) = ins.writes
        pointers = [o for o in ins.sources if type(o) is Symbol or o in arrays]
        if pointers and not (_moves(ins, pointers) and BITS[function.regs[name]] == 32):
            continue
        for pointer in pointers:
            arrays[name] = arrays.get(pointer) or pointer.name
        known[name] = 0
        fixed.append(ins)
    return fixed, arrays


def _symbols(ins: Instruction) -> list[Symbol]:
    return [o for o in ins.sources if type(o) is Symbol]


def _moves(ins: Instruction, pointers: list[Operand]) -> bool:
    """Whether the result is a pointer and a number."""
    kind, (_, *given) = linear(ins), ins.operands
    if type(given[0]) is Symbol and ins.op.is_move:
        return True
    at = {"move": (0,), "add": (0, 1), "sub": (0,), "mul": (2,)}.get(kind, ())
    return (
        len(pointers) == 1
        and any(n < len(given) and given[n] == pointers[0] for n in at)
        and given.count(pointers[0]) == 1
    )
