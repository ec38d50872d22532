"""Barriers, shuffles, votes, match, redux: instructions at which a thread waits for others.

A thread writes its operands and what it waits for into its Thread, suspends, and finds the result there when
it is resumed. The runtime (schedule.cu) decides who waits for whom, and computes the result.

Source: PTX ISA, section 9.7.9.6 (shfl) and 9.7.13 (bar, vote, match, redux).
"""

from __future__ import annotations

from ..ptx.ir import Operand
from ..ptx.types import BITS, llvm_type
from ..runtime.abi import OP, WAIT

BARRIERS = 16  # of a block


class Collectives:
    """Mixin of `lower.Lowering`."""

    def collective(self, ins) -> None:
        """Lower a barrier, or what the lanes of a warp do together."""
        if ins.op.collective == "block":
            return self._barrier(ins)
        op, named = ins.op, ins.named
        name = f"{ins.base}_{op.operation}"
        name = name if name in OP else f"{name}_{op.type[0]}"  # redux, of signed and of unsigned numbers
        args = [
            self._wide(o, role.type)
            for role, o in zip(ins.roles, ins.operands, strict=True)
            if role.name in ("a", "b", "c")
        ]
        self._wait("warp", name, ins, args, self.value(named["m"], "u32"))
        if op.has_result:
            self._results(named["d"], ins.roles[0].type)

    def _activemask(self, ins) -> None:
        """A mask of only the caller is the least that CUDA promises."""
        self.set(ins.operands[0], self.value("%lanemask_eq", "u32"), "b32")

    def _barrier(self, ins) -> None:
        """arg0: how many threads take part, 0 for the whole block; arg1: the predicate."""
        op, named = ins.op, ins.named
        predicate = self.value(named["c"], "pred") if op.has_result else "false"
        number = self.value(named["a"], "u32")
        if not (number.isdigit() and int(number) < BARRIERS):
            known, other = self.fresh_label("barrier"), self.fresh_label("nobarrier")
            self.branch(self.op("icmp ult i32", number, BARRIERS), known, other)
            self.label(other)
            self._fault_here(ins)
            self.label(known)
        count = self._wide(named["b"], "u32") if "b" in named else "0"
        if op.operation == "arrive":
            self.runtime_call("rt_arrive", number, count, site=self.site(ins))
        elif not op.has_result and "b" not in named:
            self._wait("barrier", "barrier", ins, mask=number)  # __syncthreads()
        else:
            name = f"barrier_{op.operation}" if op.has_result else "barrier_count"
            self._wait("barrier", name, ins, [count, self.cast("zext", "i1", predicate, "i64")], number)
            if op.has_result:
                self._results(named["d"], op.type)

    def _wide(self, operand: str, ptx_type: str) -> str:
        return self.resize(self.value(operand, ptx_type), llvm_type(ptx_type), "i64")

    def _results(self, targets: Operand, ptx_type: str) -> None:
        """result0 -> the first target; result1 -> a predicate target after `|`."""
        first, *second = targets.parts
        value = self.load_field("Thread", "result0")
        if BITS[ptx_type] < 64:
            value = self.cast("trunc", "i64", value, llvm_type(ptx_type))
        self.set(first, value, ptx_type)
        for target in second:
            self.set(target, self.cast("trunc", "i64", self.load_field("Thread", "result1"), "i1"), "pred")

    def _wait(self, wait: str, op: str, ins, args=(), mask: str = "0") -> None:
        for i, value in enumerate(args):
            self.store_field("Thread", f"arg{i}", value)
        self.store_field("Thread", "mask", mask)
        self.store_field("Thread", "op", OP[op])
        self.store_field("Thread", "site", self.site(ins))
        self.store_field("Thread", "wait", WAIT[wait])
        self.suspend()
