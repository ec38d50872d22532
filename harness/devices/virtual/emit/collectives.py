"""Barriers, shuffles, votes, match, redux: instructions at which a thread waits for others.

A thread writes its operands and what it waits for into its Thread, suspends, and finds the result there when
it is resumed. The runtime (schedule.cu) decides who waits for whom, and computes the result.

Source: PTX ISA, section 9.7.9.6 (shfl) and 9.7.13 (bar, vote, match, redux).
"""

from __future__ import annotations

import re

from ..ptx.types import TYPES, llvm_type
from ..runtime.abi import OP, WAIT

_BARRIER = re.compile(
    r"(?:bar|barrier)(?:\.cta)?\.(sync|arrive|red)(?:\.aligned)?(?:\.(popc\.u32|and\.pred|or\.pred))?"
)
_SHUFFLE = re.compile(r"shfl\.sync\.(up|down|bfly|idx)\.b32")
_VOTE = re.compile(r"vote\.sync\.(all|any|uni)\.pred|vote\.sync\.(ballot)\.b32")
_MATCH = re.compile(r"match\.(any|all)\.sync\.b(32|64)")
_REDUX = re.compile(r"redux\.sync\.(add|min|max)\.(u32|s32)|redux\.sync\.(and|or|xor)\.b32")


class Collectives:
    """Mixin of `lower.Lowering`."""

    def collective(self, ins) -> bool:
        """Lower a collective instruction; False for any other opcode."""
        if ins.base == "activemask":
            # a mask of only the caller is the least that CUDA promises
            self.set(ins.operands[0], self.value("%lanemask_eq", "u32"), "b32")
            return True
        if ins.op.collective not in ("block", "warp"):
            return False
        if ins.opcode == "bar.warp.sync":
            self._wait("warp", "syncwarp", ins, mask=self.value(ins.operands[0], "u32"))
        elif match := _BARRIER.fullmatch(ins.opcode):
            self._barrier(ins, match[1], match[2])
        elif match := _SHUFFLE.fullmatch(ins.opcode):
            self._shuffle(ins, match[1])
        elif match := _VOTE.fullmatch(ins.opcode):
            self._vote(ins, match[1] or match[2])
        elif match := _MATCH.fullmatch(ins.opcode):
            args = [self._wide(ins.operands[1], f"b{match[2]}")]
            self._wait("warp", f"match_{match[1]}", ins, args, self.value(ins.operands[2], "u32"))
            self._results(ins.operands[0], "b32")
        elif match := _REDUX.fullmatch(ins.opcode):
            name, sign = (match[1], match[2][0]) if match[1] else (match[3], "")
            op = f"redux_{name}" + (f"_{sign}" if name in ("min", "max") else "")
            self._wait(
                "warp", op, ins, [self._wide(ins.operands[1], "b32")], self.value(ins.operands[2], "u32")
            )
            self._results(ins.operands[0], "b32")
        else:
            self.unsupported(ins)
        return True

    def _barrier(self, ins, kind: str, reduction: str | None) -> None:
        """arg0: how many threads take part, 0 for the whole block; arg1: the predicate."""
        operands = list(ins.operands)
        target = operands.pop(0) if kind == "red" else None
        predicate = self.value(operands.pop(), "pred") if kind == "red" else "false"
        number = self.value(operands[0], "u32")
        count = self._wide(operands[1], "u32") if len(operands) > 1 else "0"
        if (kind == "red") != bool(reduction):
            self.unsupported(ins)
        if kind == "arrive":
            self.runtime_call("rt_arrive", number, count, site=self.site(ins))
            return
        if not reduction and count == "0":
            self._wait("barrier", "barrier", ins, mask=number)  # __syncthreads(): no operands
            return
        op = f"barrier_{reduction.split('.')[0]}" if reduction else "barrier_count"
        self._wait("barrier", op, ins, [count, self.cast("zext", "i1", predicate, "i64")], number)
        if target:
            self._results(target, "u32" if reduction == "popc.u32" else "pred")

    def _shuffle(self, ins, kind: str) -> None:
        args = [self._wide(o, "b32") for o in ins.operands[1:4]]
        self._wait("warp", f"shfl_{kind}", ins, args, self.value(ins.operands[4], "u32"))
        self._results(ins.operands[0], "b32")

    def _vote(self, ins, kind: str) -> None:
        predicate = self.cast("zext", "i1", self.value(ins.operands[1], "pred"), "i64")
        self._wait("warp", f"vote_{kind}", ins, [predicate], self.value(ins.operands[2], "u32"))
        self._results(ins.operands[0], "b32" if kind == "ballot" else "pred")

    def _wide(self, operand: str, ptx_type: str) -> str:
        return self.resize(self.value(operand, ptx_type), llvm_type(ptx_type), "i64")

    def _results(self, targets: str, ptx_type: str) -> None:
        """result0 -> the first target; result1 -> a predicate target after `|`."""
        first, _, second = targets.partition("|")
        value = self.load_field("Thread", "result0")
        if TYPES[ptx_type][1] < 64:
            value = self.cast("trunc", "i64", value, llvm_type(ptx_type))
        self.set(first, value, ptx_type)
        if second:
            self.set(second, self.cast("trunc", "i64", self.load_field("Thread", "result1"), "i1"), "pred")

    def _wait(self, wait: str, op: str, ins, args=(), mask: str = "0") -> None:
        for i, value in enumerate(args):
            self.store_field("Thread", f"arg{i}", value)
        self.store_field("Thread", "mask", mask)
        self.store_field("Thread", "op", OP[op])
        self.store_field("Thread", "site", self.site(ins))
        self.store_field("Thread", "wait", WAIT[wait])
        if self.watches_grid:
            self.store_field("Extra", "polls", 0)
        self.suspend()
