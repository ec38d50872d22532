"""Which registers a function may read before they are assigned.

In unoptimised PTX a variable without an initialiser is a register that some path never writes. Copies (`mov`)
are not uses: the compiler copies variables where paths join, whether or not they are used later. So copies
pass on the state, and only other instructions that read the register check it (see `initialised`).
"""

from __future__ import annotations

from ..ptx.cfg import basic_blocks
from ..ptx.ir import Instruction, Label


def maybe_undefined(body, registers) -> set[str]:
    """Registers that a path can read before they are assigned, and those that get copies of them."""
    number = {name: 1 << i for i, name in enumerate(registers)}
    blocks, uses = basic_blocks(body), [_uses(item, number) for item in body]
    assigned = {start: None for start in blocks}  # None: not reached
    assigned[0] = 0
    work = [0]
    while work:  # forward: what is assigned on every path
        start = work.pop()
        state, _ = _through(uses[start : blocks[start][0]], assigned[start])
        for target in blocks[start][1]:
            merged = state if assigned[target] is None else assigned[target] & state
            if merged != assigned[target]:
                assigned[target] = merged
                work.append(target)
    found = 0
    for start, (end, _) in blocks.items():
        if assigned[start] is not None:
            found |= _through(uses[start:end], assigned[start])[1]
    return _with_copies(body, {name for name, bit in number.items() if found & bit}, number)


def _with_copies(body, found: set[str], number) -> set[str]:
    copies = [
        (i.reads & number.keys(), i.writes) for i in body if isinstance(i, Instruction) and i.base == "mov"
    ]
    changed = bool(found)
    while changed:
        changed = False
        for sources, targets in copies:
            if sources & found and not targets <= found:
                found |= targets
                changed = True
    return found


def _uses(item, number) -> tuple[int, int]:
    """(registers that an item of a body reads, those it assigns in any case), as bits."""
    if isinstance(item, Label):
        return 0, 0
    read = sum({number.get(name, 0) for name in item.reads})
    return read, 0 if item.pred else sum({number.get(name, 0) for name in item.writes})


def _through(uses, state: int) -> tuple[int, int]:
    """(assigned at the end, read while perhaps unassigned) of a block whose items have these `_uses`."""
    found = 0
    for read, assigned in uses:
        found |= read & ~state
        state |= assigned
    return state, found


def without_value(body) -> set[str]:
    """Registers that stand for empty structs: they are never written, and only passed on, as one byte."""
    written, read = set(), set()
    for ins in body:
        if isinstance(ins, Instruction):
            written |= ins.writes
            if ins.opcode != "st.param.b8":
                read |= ins.reads
    found = {ins.operands[1] for ins in body if isinstance(ins, Instruction) and ins.opcode == "st.param.b8"}
    return found - written - read


def sets_bits(body) -> set[int]:
    """Positions of loads by which CUDA's headers set part of a word: `ld; and; or; st`, to the same place.

    The old value is only kept, which is not a use of it.
    """
    places: dict[str, tuple[int, str]] = {}  # register -> the load whose bits it has, and its address
    found = set()
    for position, ins in enumerate(body):
        if isinstance(ins, Label):
            places.clear()
        elif ins.base == "ld" and ins.at.trusted and not ins.pred:
            places[ins.operands[0]] = position, ins.operands[1]
        elif ins.base in ("and", "or"):
            kept = next((places[o] for o in ins.operands[1:] if o in places), None)
            if kept and (ins.base == "or" or ins.operands[2].lstrip("-").isdigit()):
                places[ins.operands[0]] = kept
        elif ins.base == "st" and places.get(ins.operands[1], (0, ""))[1] == ins.operands[0]:
            found.add(places[ins.operands[1]][0])
    return found
