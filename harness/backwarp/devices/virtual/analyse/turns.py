"""Where a thread lets others intervene: after it has read memory that they may change without a race.

Volatile and atomic accesses never race, so an update made of two of them, a load and a store, is lost only if
another thread runs in between. In unoptimised code a thread therefore pauses after every volatile or atomic
load, after the first guess of a compare-and-swap, and after every atomic whose result is used. It does not
pause within CUDA's own headers: one call of them is a single step of the student's code. In random orders
(`run/orders`) it also stops at other places between two such accesses.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ptx.ir import Function, Instruction
from ..ptx.op import Op
from .cas_loops import guesses
from .pointers import Pointers, Values, root_of, rooted
from .unused import unused_results


def reads_order(op: Op) -> bool:
    """Whether an instruction reads memory that others may change at any time."""
    return op.memory == "atomic" or _is_ordered_load(op)


def turns(function: Function, hands_over: Callable[[str], bool], pointers: Pointers) -> set[int]:
    """Positions in the body after which others may intervene.

    hands_over(name): whether a function may return the value of such a load without pausing after it.
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


def pauses(function: Function, shows: Callable[[str], bool]) -> set[int]:
    """Positions after which others may see something new. shows(name): whether a call of a header's function makes an
    access that orders threads."""
    return {
        i
        for i, ins in enumerate(function.body)
        if isinstance(ins, Instruction)
        and not ins.at.trusted
        and (
            ins.op.memory in ("atomic", "reduction")
            or ins.op.ordering
            or ins.op.flow == "call"
            and shows(ins.called[1])
        )
    }


def _is_ordered_load(op: Op) -> bool:
    return op.memory == "load" and bool(op.ordering)


def _returns(call: Instruction, hands_over: Callable[[str], bool]) -> bool:
    returns, name, _ = call.called
    return bool(returns) and hands_over(name)


def own_reads(function: Function, pointers: Pointers) -> set[int]:
    """Positions of loads of the thread's own volatile variables, which nobody else changes."""
    mine = {name: v for name, v in function.variables.items() if v.space == "local"}
    loads = [i for i, x in enumerate(function.body) if isinstance(x, Instruction) and _is_ordered_load(x.op)]
    if not (mine and loads):
        return set()
    roots = rooted(Values(pointers, function).found)
    return {i for i in loads if root_of(function.body[i].operands[1], roots, mine)}
