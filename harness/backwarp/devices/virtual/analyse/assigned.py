"""Which registers a function may read before they are assigned.

In unoptimised PTX a variable without an initialiser is a register that some path never writes. Copies (`mov`)
are not uses: the compiler copies variables where paths join, whether or not they are used later. So copies
propagate the state, and only other instructions that read the register check it (see `initialised`).
"""

from __future__ import annotations

from operator import and_

from ..ptx.cfg import basic_blocks
from ..ptx.ir import Immediate, Instruction, Label
from .dataflow import computed_from, through_blocks


def maybe_undefined(body, registers) -> set[str]:
    """Registers that some path reads before they are assigned, and those that receive copies of them."""
    return computed_from(body, read_first(body, registers), lambda ins: ins.op.is_move)


def read_first(body, registers) -> set[str]:
    """Registers that some path reads before they are assigned."""
    number = {name: 1 << i for i, name in enumerate(registers)}
    found = read_before(body, [_uses(item, number) for item in body])
    return {name for name, bit in number.items() if found & bit}


def read_before(body, uses: list[tuple[int, int]]) -> int:
    """What some path reads before it is assigned, as bits. uses: of each item, what it reads and what it always assigns."""
    blocks = basic_blocks(body)

    def assigned_behind(block: int, state: int) -> int:
        for _, assigned in uses[block : blocks[block][0]]:
            state |= assigned
        return state

    found = 0
    for block, state in through_blocks(blocks, 0, assigned_behind, and_).items():
        for read, assigned in uses[block : blocks[block][0]]:
            found |= read & ~state
            state |= assigned
    return found


def _uses(item, number) -> tuple[int, int]:
    """(registers that an item of a body reads, registers it always assigns), as bits."""
    if isinstance(item, Label):
        return 0, 0
    read = assigned = 0
    for name in item.reads:
        read |= number.get(name, 0)
    for name in () if item.pred else item.writes:
        assigned |= number.get(name, 0)
    return read, assigned


def without_value(body) -> set[str]:
    """Registers for empty structs: never written, and only passed on, as one byte."""
    written, read = set(), set()
    for ins in body:
        if isinstance(ins, Instruction):
            written |= ins.writes
            if not _passes_byte(ins):
                read |= ins.reads
    found = {ins.operands[1] for ins in body if isinstance(ins, Instruction) and _passes_byte(ins)}
    return found - written - read


def _passes_byte(ins: Instruction) -> bool:
    return ins.op.of_parameters and ins.op.memory == "store" and ins.op.nbytes * ins.op.vector == 1


def sets_bits(body) -> set[int]:
    """Positions of loads with which CUDA's headers set part of a word: `ld; and; or; st` at one address.

    The old value is only written back, which is not a use of it.
    """
    places: dict[str, tuple[int, str]] = {}  # register -> the load whose bits it has, and its address
    found = set()
    for position, ins in enumerate(body):
        if isinstance(ins, Label):
            places.clear()
        elif ins.op.memory == "load" and ins.at.trusted and not ins.pred:
            places[ins.operands[0]] = position, ins.operands[1]
        elif ins.op.bitwise in ("and", "or"):
            kept = next((places[o] for o in ins.operands[1:] if o in places), None)
            if kept and (ins.op.bitwise == "or" or isinstance(ins.operands[2], Immediate)):
                places[ins.operands[0]] = kept
        elif ins.op.memory == "store" and places.get(ins.operands[1], (0, ""))[1] == ins.operands[0]:
            found.add(places[ins.operands[1]][0])
    return found
