"""How a kernel's threads are ordered: by barriers of the whole block, and by other synchronisation."""

from __future__ import annotations

from functools import cached_property

from ..ptx.callgraph import CallGraph, called, defined
from ..ptx.ir import Immediate, Instruction, Register
from ..runtime.abi import SYMMETRIC_BLOCKS, SYMMETRIC_LANES, SYMMETRIC_WARPS
from .intervals import passes_freely


class Barriers:
    """The barriers of a module's functions."""

    def __init__(self, graph: CallGraph):
        self.graph = graph
        self._free: dict[str, bool] = {}
        self._symmetric: dict[str, int] = {}

    def may_meet(self, ins: Instruction) -> bool:
        """Whether an instruction may be a barrier of the whole block."""
        if _is_block_barrier(ins):
            return not counts_threads(ins) or _of_any_number(ins)
        callee = called(ins)
        return callee in self.graph.functions and self.block_barriers(callee)

    def must_meet(self, ins: Instruction) -> bool:
        """Whether an instruction always is one."""
        callee = called(ins)
        if ins.pred or not self.may_meet(ins) or counts_threads(ins):
            return False
        return callee is None or not self._passes_freely(callee)

    def _passes_freely(self, name: str) -> bool:
        if name not in self._free:
            self._free[name] = True  # for recursion
            function = self.graph.functions[name]
            self._free[name] = function.body is None or passes_freely(
                function.body, function.tables, self.must_meet
            )
        return self._free[name]

    @cached_property
    def has_barriers(self) -> bool:
        return any(self.block_barriers(f.name) for f in defined(self.graph.module))

    def block_barriers(self, name: str) -> bool:
        """Whether a function, or one that it calls, has a barrier of the block."""
        return self.graph.any(name, lambda op: op.collective == "block")

    def ordered(self, name: str) -> bool:
        """Whether fences, or accesses that acquire or release, order the threads of a kernel."""
        return self.graph.any(name, lambda op: op.orders)

    def symmetric(self, name: str) -> int:
        """SYMMETRIC bits of a kernel. (A called function has none: it is lowered once for all its
        callers.)"""
        if name not in self._symmetric:
            self._symmetric[name] = self._symmetry(name)
        return self._symmetric[name]

    def _symmetry(self, name: str) -> int:
        if not self.graph.functions[name].entry or self.ordered(name):
            return 0
        if any(map(counts_threads, self.graph.those(name, lambda op: op.collective == "block"))):
            return SYMMETRIC_BLOCKS
        if self.graph.any(name, lambda op: op.collective not in ("", "block")):
            return SYMMETRIC_BLOCKS | SYMMETRIC_WARPS
        return SYMMETRIC_BLOCKS | SYMMETRIC_WARPS | SYMMETRIC_LANES


def _is_block_barrier(ins: Instruction) -> bool:
    return ins.op.collective == "block"


def _of_any_number(ins: Instruction) -> bool:
    """Whether it is a barrier whose number is in a register, as in CUDA's own functions: it may be the
    block's."""
    return not _counts_arrivals(ins) and isinstance(ins.named["a"], Register)


def counts_threads(ins: Instruction) -> bool:
    """Whether a barrier counts the threads that arrive, so that not all of the block need to take part."""
    if not _is_block_barrier(ins):
        return False
    number = ins.named["a"]
    return _counts_arrivals(ins) or not isinstance(number, Immediate) or number.value != 0


def _counts_arrivals(ins: Instruction) -> bool:
    return ins.op.operation == "arrive" or "b" in ins.named
