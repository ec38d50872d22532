"""Barriers, shuffles, votes, match, redux: instructions at which a thread waits for others.

A thread writes its operands and what it waits for into its Thread, suspends, and finds the result there when
it is resumed. The runtime (schedule.cu) decides which threads wait for which, and computes the result.

Source: PTX ISA, section 9.7.9.6 (shfl) and 9.7.13 (bar, vote, match, redux).
"""

from __future__ import annotations

from ..ptx.ir import Operand
from ..ptx.types import BITS, llvm_type
from ..runtime.abi import OP, WAIT
from .table import statement

BARRIERS = 16  # of a block


def emit(e, ins) -> None:
    """Lower a barrier or a warp collective."""
    if ins.op.collective == "block":
        return _barrier(e, ins)
    op, named = ins.op, ins.named
    name = f"{ins.base}_{op.operation}"
    name = next(
        n for n in (name, ins.base, f"{name}_{op.type[:1]}") if n in OP
    )  # redux is of signed or unsigned numbers
    args = [
        _wide(e, o, role.type)
        for role, o in zip(ins.roles, ins.operands, strict=True)
        if role.name in ("a", "b", "c")
    ]
    wait(e, "warp", name, ins, args, e.value(named["m"], "u32"))
    if op.has_result:
        _results(e, named["d"], ins.roles[0].type, e.state.load("Thread", "result0"))


@statement("activemask.b32")
def _activemask(e, ins, mods, d):
    """A mask of the caller alone is the least that CUDA guarantees."""
    e.set(d, e.value("%lanemask_eq", "u32"), "b32")


def _barrier(e, ins) -> None:
    """arg0: how many threads take part, 0 for the whole block; arg1: the predicate."""
    op, named = ins.op, ins.named
    predicate = e.value(named["c"], "pred") if op.has_result else "false"
    number = e.value(named["a"], "u32")
    if not (number.isdigit() and int(number) < BARRIERS):
        known, other = e.fresh_label("barrier"), e.fresh_label("nobarrier")
        e.branch(e.op("icmp ult i32", number, BARRIERS), known, other)
        e.label(other)
        e.control.fault(ins)
        e.label(known)
    if e.control.frames:
        return e.control.frames.wait(e, ins)
    if e.control.alone:
        if op.has_result:
            _results(e, named["d"], op.type, e.values.vote(predicate, op.operation))
        return
    count = _wide(e, named["b"], "u32") if "b" in named else "0"
    if op.operation == "arrive":
        e.state.call("rt_arrive", number, count, site=e.sites.of(ins))
    elif not op.has_result and "b" not in named:
        wait(e, "barrier", "barrier", ins, mask=number)  # __syncthreads()
    else:
        name = f"barrier_{op.operation}" if op.has_result else "barrier_count"
        wait(e, "barrier", name, ins, [count, e.values.votes(predicate, op.operation)], number)
        if op.has_result:
            _results(e, named["d"], op.type, e.state.load("Thread", "result0"))


def _wide(e, operand: str, ptx_type: str) -> str:
    return e.resize(e.value(operand, ptx_type), llvm_type(ptx_type), "i64")


def _results(e, targets: Operand, ptx_type: str, value: str) -> None:
    """A value, as an i64 -> the first target; result1 -> a predicate target after `|`."""
    first, *second = targets.parts
    if BITS[ptx_type] < 64:
        value = e.cast("trunc", "i64", value, llvm_type(ptx_type))
    e.set(first, value, ptx_type)
    for target in second:
        e.set(target, e.cast("trunc", "i64", e.state.load("Thread", "result1"), "i1"), "pred")


def wait(e, wait: str, op: str, ins, args=(), mask: str = "0") -> None:
    for i, value in enumerate(args):
        e.state.store("Thread", f"arg{i}", value)
    e.state.store("Thread", "mask", mask)
    e.state.store("Thread", "op", OP[op])
    e.state.store("Thread", "site", e.sites.of(ins))
    e.state.store("Thread", "wait", WAIT[wait])
    e.control.suspend()
