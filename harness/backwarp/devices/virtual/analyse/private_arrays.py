"""Local arrays whose address never leaves their function, and the loops over them.

A register tile is such an array: `sum[i][j]` in a loop that the optimising compiler unrolls. Full checks see
it in unoptimised code, with a memory access for each element. If nothing else can touch an array, LLVM may
keep it, in registers if possible, along with the record of what has been written; so its loops are unrolled
for LLVM here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..ptx.cfg import Loop, basic_blocks, find_loops
from ..ptx.ir import Address, Function, Immediate, Instruction, Label, Operand, Symbol
from .pointers import Origins, root_of, rooted

_GRANULE = 4  # bytes
_MOST_BYTES = 2048  # bytes of a function's arrays, which a coroutine may have to keep in its frame
_LONGEST = 64  # iterations of a loop that is unrolled
# instructions after unrolling a loop, including its inner loops; the same for a whole function
_LARGEST, _MOST_IN_ALL = 2500, 6000
_MOST = 1 << 14  # bound of a counter and its step, so that no sum of two wraps around


@dataclass(frozen=True)
class Counted:
    """A loop of known length. before: the instruction outside that gives its counter the first value. joined: what gives the
    counter its value in each iteration."""

    length: int
    before: Instruction
    joined: Instruction
    start: int
    step: int


def private(function: Function, found: dict[str, Origins]) -> dict[str, int]:
    """The local variables that only plain accesses of this function can touch -> the least bytes, up to a granule's, of
    which it has to be known apart from others whether they have been written.

    found: its `pointers.Values.found`.
    """
    own = {name: v for name, v in function.variables.items() if v.space == "local"}
    if not own:
        return {}
    roots = rooted(found)
    held = {name: {o.name for o in origins if o.is_variable} for name, origins in found.items()}
    seen, least = {name for key, names in held.items() if key not in roots for name in names}, {}
    for ins in function.body:
        if isinstance(ins, Instruction):
            seen |= _given_away(ins, held, roots, own)
            if ins.op.memory in ("load", "store") and (root := root_of(ins.address, roots, own)):
                least[root.name] = min(ins.op.width, least.get(root.name, _GRANULE))
    left = {name: least.get(name, _GRANULE) for name, v in own.items() if name not in seen and not v.padding}
    return left if sum(own[name].size for name in left) <= _MOST_BYTES else {}


def _given_away(ins: Instruction, held: dict[str, set[str]], roots, own) -> set[str]:
    """The variables that an instruction uses other than to read or write an element or compute another
    address."""

    def used(operands) -> set[str]:
        return {v for o in operands for name in _names(o) for v in held.get(name, {name}) if v in own}

    op, names = ins.op, used(ins.operands)
    if names and op.bases and ins.operands[0] in held:  # results may point into the same arrays as the bases
        return used(o for i, o in enumerate(ins.operands) if i and i not in op.bases)
    if not names:
        return names
    if op.memory not in ("load", "store") or op.of_parameters or op.ordering:
        return names
    root = root_of(ins.address, roots, own)
    others = used(o for i, o in enumerate(ins.operands) if i != op.address)
    return names - {root.name} | others if root else names


def _names(operand: Operand) -> tuple[str, ...]:
    """The registers in an operand, or the variable."""
    symbol = operand.base if isinstance(operand, Address) else operand
    return (symbol.name,) if isinstance(symbol, Symbol) else operand.registers


def short_loops(function: Function, roots: dict[str, str], arrays: set[str]) -> set[int]:
    """Positions of the back edges of loops of known length over these arrays, short enough to be unrolled.

    They need not be counted for the watchdog. roots: from `pointers.rooted`. arrays: names of local variables.
    """
    if not arrays:
        return set()
    body, found = function.body, set()
    own = {name: function.variables[name] for name in arrays}
    blocks = basic_blocks(body, function.tables)
    loops, left = find_loops(blocks), _MOST_IN_ALL
    writers = writers_of(body)
    length = {}
    for loop in loops:
        known = counted(body, blocks, loop, writers)
        length[loop.header] = known and known.length
    unrolled: list[Loop] = []
    for loop in loops:  # outer loops before inner ones
        inside = [
            i for start in loop.blocks for i in body[start : blocks[start][0]] if isinstance(i, Instruction)
        ]
        nest = [other for other in loops if other.blocks <= loop.blocks]
        if any(length[other.header] is None for other in nest) or any(map(_meets_others, inside)):
            continue
        accesses = (i for i in inside if i.op.memory in ("load", "store"))
        if not any(root_of(i.address, roots, own) for i in accesses):
            continue
        if not any(loop.blocks < outer.blocks for outer in unrolled):
            total = _unrolled_size(body, blocks, nest, length)
            if total > min(_LARGEST, left):
                continue
            left -= total
        unrolled.append(loop)
        found |= {blocks[start][0] - 1 for start in loop.blocks if loop.header in blocks[start][1]}
    return found


def writers_of(body) -> dict[str, list[Instruction]]:
    """Register -> the instructions that write it."""
    found: dict[str, list[Instruction]] = {}
    for i in (i for i in body if isinstance(i, Instruction)):
        for register in i.writes:
            found.setdefault(register, []).append(i)
    return found


def _unrolled_size(body, blocks, nest: list[Loop], length: dict[int, int]) -> int:
    """The unrolled size of a loop (first in the nest) with its inner loops, in instructions."""
    total = 0
    for start in nest[0].blocks:
        times = math.prod(length[loop.header] for loop in nest if start in loop.blocks)
        total += times * sum(isinstance(i, Instruction) for i in body[start : blocks[start][0]])
    return total


def counted(body, blocks, loop, writers: dict[str, list[Instruction]]) -> Counted | None:
    """How `for (int i = 0; i < 8; i += 2)` counts; None if that is not certain. writers: `writers_of(body)`.

    Every iteration begins with code that leaves the loop unless the counter is less than a constant, before
    or after the addition; only the addition of a constant changes the counter. Three registers hold it: where
    the paths join, in the code that follows, and after the addition.
    """
    first, last = _beginning(body, blocks, loop)
    inside = {i for start in loop.blocks for i in body[start : blocks[start][0]]}
    test, wanted = first.get(last.pred) if last else None, last is not None and not last.negated
    while test and test.op.bitwise == "not":
        test, wanted = _sooner(first, test), not wanted
    if test is None or not _is_less_than(test) or not _small(test.operands[2]):
        return None
    goals = {body[start].name for start in loop.blocks if isinstance(body[start], Label)}
    if (last.operands[0] in goals) != wanted:
        return None
    tested, bound = test.operands[1], test.operands[2].value
    joined, counter = _sooner(first, test), tested
    if joined and _is_sum(joined):
        joined, counter = _sooner(first, joined), joined.operands[1]
    if (
        joined is None
        or not joined.op.is_move
        or [i for i in writers.get(counter, ()) if i in inside] != [joined]
    ):
        return None
    ways = writers.get(joined.operands[1], [])
    following, before = [i for i in ways if i in inside], [i for i in ways if i not in inside]
    if (
        len(following) != 1
        or len(before) != 1
        or not all(i.op.is_move for i in ways)
        or any(i.pred for i in ways)
    ):
        return None
    start, steps = (
        _constant(writers, before[0].operands[1]),
        writers.get(following[0].operands[1], []),
    )
    if start is None or len(steps) != 1 or not _is_sum(steps[0]) or steps[0].operands[1] != counter:
        return None
    end = _ending(body, blocks, loop)
    if not any(i is following[0] for i in end) or not any(i is steps[0] for i in end) or steps[0].pred:
        return None
    step = steps[0].operands[2].value if _small(steps[0].operands[2]) else 0
    length = -(-(bound - start) // step) if step else 0
    return Counted(length, before[0], joined, start, step) if 0 < length <= _LONGEST else None


def _meets_others(ins: Instruction) -> bool:
    """Whether threads wait for one another there, or a called function may make them."""
    op = ins.op
    waits = op.collective == "block" or op.collective == "warp" and not op.has_result
    return waits or op.flow == "call" or ins.base == "enter"


def _is_less_than(ins: Instruction) -> bool:
    op = ins.op
    return op.base == "setp" and op.mods[:-1] == ("lt",) and op.counts == "integer"


def _is_sum(ins: Instruction) -> bool:
    """Whether it adds integers, with wrap-around."""
    op = ins.op
    return op.base == "add" and op.mods == (op.type,) and op.counts == "integer"


def _small(operand: Operand) -> bool:
    return isinstance(operand, Immediate) and not operand.format and 0 <= operand.value < _MOST


def _sooner(first: dict[str, Instruction], ins: Instruction) -> Instruction | None:
    """The instruction that writes the first operand of another, if it comes before it."""
    found, order = first.get(ins.operands[1]), list(first.values())
    return found if found and order.index(found) < order.index(ins) else None


def _beginning(body, blocks, loop) -> tuple[dict[str, Instruction], Instruction | None]:
    """What every iteration executes first: register -> its writer, in order, and the final branch that may
    leave the loop."""
    written: dict[str, Instruction] = {}
    start = loop.header
    for _ in loop.blocks:
        end, follow = blocks[start]
        for item in body[start:end]:
            for name in item.writes if isinstance(item, Instruction) else ():
                written.pop(name, None)
                if not item.pred and name == item.operands[0]:
                    written[name] = item
        last = body[end - 1]
        if isinstance(last, Instruction) and last.op.flow == "branch" and last.pred:
            leaves = any(t not in loop.blocks for t in follow)
            return (written, last) if leaves else ({}, None)
        if len(follow) != 1 or follow[0] not in loop.blocks or follow[0] == loop.header:
            return {}, None
        start = follow[0]
    return {}, None


def _ending(body, blocks, loop) -> list[Instruction]:
    """The instructions that every iteration but the final one executes last, on any path."""
    sources = [start for start in loop.blocks if loop.header in blocks[start][1]]
    found: list[Instruction] = []
    while len(sources) == 1:
        start = sources[0]
        found += [i for i in body[start : blocks[start][0]] if isinstance(i, Instruction)]
        if start == loop.header:
            break
        sources = [s for s in loop.blocks if start in blocks[s][1]]
    return found


def _constant(writers: dict[str, list[Instruction]], operand: str) -> int | None:
    """The value of a register that is written once, with a constant."""
    for _ in range(4):
        if isinstance(operand, Immediate):
            return operand.value if _small(operand) else None
        found = writers.get(operand, [])
        if len(found) != 1 or not found[0].op.is_move or found[0].pred:
            return None
        operand = found[0].operands[1]
    return None
