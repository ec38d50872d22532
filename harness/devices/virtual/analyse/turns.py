"""Where a thread lets others come between: after it has read what they may change without a race.

Volatile and atomic accesses race with nobody, so that an update made of two of them, a load and a store, is lost
only where somebody else comes between. A thread of unoptimised code therefore waits a while after every volatile or
atomic load, after the first guess of a compare-and-swap, and after every atomic whose result is used. In CUDA's own
headers it does not: one call of them is one step of the student's code, and what it reads is its result.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ptx.ir import Function, Instruction
from ..ptx.op import Op
from .cas_loops import guesses
from .pointers import Pointers, Values, root_of, rooted
from .unused import unused_results


def reads_order(op: Op) -> bool:
    """Whether an instruction reads what others may change at any time."""
    return op.memory == "atomic" or _is_ordered_load(op)


def turns(function: Function, hands_over: Callable[[str], bool], pointers: Pointers) -> set[int]:
    """Positions in the body after which others come between.

    hands_over(name): whether what a function returns may come from such a load, in which no turn is taken.
    """
    body = function.body
    home = [(i, ins) for i, ins in enumerate(body) if isinstance(ins, Instruction) and not ins.at.trusted]
    loads = {i for i, ins in home if _is_ordered_load(ins.op)}
    found = loads - own_reads(function, pointers) | {i for i in guesses(body) if not body[i].at.trusted}
    results = {
        i
        for i, ins in home
        if ins.op.memory == "atomic" or ins.op.flow == "call" and _returns(ins, hands_over)
    }
    return found | (results - unused_results(function) if results else set())


def _is_ordered_load(op: Op) -> bool:
    return op.memory == "load" and bool(op.ordering)


def _returns(call: Instruction, hands_over: Callable[[str], bool]) -> bool:
    returns, name, _ = call.called
    return bool(returns) and hands_over(name)


def own_reads(function: Function, pointers: Pointers) -> set[int]:
    """Positions of the loads of a volatile variable of the thread's own, which nobody else changes."""
    mine = {name: v for name, v in function.variables.items() if v.space == "local"}
    loads = [i for i, x in enumerate(function.body) if isinstance(x, Instruction) and _is_ordered_load(x.op)]
    if not (mine and loads):
        return set()
    roots = rooted(Values(pointers, function).found)
    return {i for i in loads if root_of(function.body[i].operands[1], roots, mine)}
