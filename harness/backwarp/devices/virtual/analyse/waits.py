"""Which functions may suspend their thread: at a collective, in a loop that may spin on memory, or to let
others intervene between two of its accesses. A coroutine can suspend only in its own frame, so these are
expanded in place.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from ..ptx.callgraph import CallGraph, called, defined, has_loop, spinning_loops
from ..ptx.ir import Instruction
from .cooperative_groups import grid_waits
from .pointers import Pointers
from .turns import own_reads, pauses, reads_order, turns

_MOST_EXPANDED = 20_000  # instructions of a function that is expanded only to let others intervene


class Waits:
    """Answers for the functions of a module.

    interleaved: threads let others intervene between their accesses. threads: false for the runtime, where
    nothing suspends.
    """

    def __init__(self, graph: CallGraph, interleaved: bool, threads: bool):
        self.graph, self.interleaved, self.threads = graph, interleaved, threads
        self._waits: dict[str, bool] = {}
        self._turns: dict[str, frozenset[Instruction]] = {}
        self._takes_turns: dict[str, bool] = {}
        self.pointers = Pointers(graph.module)

    def may_wait(self, name: str) -> bool:
        """Whether a function may suspend."""
        return self.threads and (self.must_wait(name) or self.takes_turns(name))

    def must_wait(self, name: str) -> bool:
        """Whether a function must be able to suspend: it has a collective, or a loop that may spin on
        memory."""
        return name in self._waiting

    @cached_property
    def _waiting(self) -> set[str]:
        found, work = set(), [name for name in self.graph.functions if self._waits_itself(name)]
        while work:
            name = work.pop()
            if name not in found:
                found.add(name)
                work += (caller.name for caller in self.graph.callers.get(name, ()))
        return found

    def _waits_itself(self, name: str) -> bool:
        if name not in self._waits:
            function = self.graph.functions[name]
            self._waits[name] = function.body is not None and (
                any(isinstance(i, Instruction) and i.op.collective for i in function.body)
                or self.graph.any(name, lambda op: op.waits)
                and bool(spinning_loops(function, self.touches_order))
            )
        return self._waits[name]

    def takes_turns(self, name: str) -> bool:
        """Whether a function lets others intervene between its accesses: a recursive one, or one called
        through a pointer, cannot."""
        if name not in self._takes_turns:
            self._takes_turns[name] = False  # for recursion
            self._takes_turns[name] = (
                self.interleaved
                and bool(
                    self.turns(name)
                    or any(self.takes_turns(callee) for callee in self.graph.callees.get(name, ()))
                )
                and self._can_suspend(name)
            )
        return self._takes_turns[name]

    def turns(self, name: str) -> frozenset[Instruction]:
        """Instructions after which a function lets others intervene."""
        if name not in self._turns:
            function = self.graph.functions[name]
            found = turns(function, self._hands_over, self.pointers) if function.body else ()
            self._turns[name] = frozenset(function.body[p] for p in found)
        return self._turns[name]

    def pauses(self, name: str) -> set[Instruction]:
        """Instructions after which threads pause in some orders."""
        function = self.graph.functions[name]
        return {function.body[p] for p in pauses(function, self._shows)}

    def _shows(self, name: str) -> bool:
        """Whether a function that does not pause itself makes an access that others see."""
        if name not in self.graph.functions or self.takes_turns(name):
            return False
        return self.graph.any(name, lambda op: bool(op.ordering) or op.memory in ("atomic", "reduction"))

    def turn_lines(self, name: str) -> tuple[int, ...]:
        """Lines of the file at which a kernel lets others intervene."""
        functions = [f for f in self.graph.closure(name) if self.takes_turns(f)]
        return tuple(sorted({ins.at.line for f in functions for ins in self.turns(f)} - {0}))

    def overwrites(self, name: str) -> bool:
        """Whether what a kernel leaves may depend on who comes last, though nobody looks: threads swap, store what is volatile,
        or update in several ways."""
        functions = (self.graph.functions[f] for f in self.graph.closure(name))
        ops = {ins.op for f in functions for ins in f.body or () if isinstance(ins, Instruction)}
        updates = {op.operation for op in ops if op.memory in ("atomic", "reduction")}
        stores = any(op.memory == "store" and op.ordering for op in ops)
        return stores or len(updates) > 1 or not updates.isdisjoint(("exch", "cas", "inc", "dec"))

    def _hands_over(self, name: str) -> bool:
        """Whether a function, or any function called through a pointer, may return a value that others change
        without itself letting them intervene.

        Results of the C++ library's barriers do not count.
        """
        callees = [f.name for f in self.graph.pointed] if name[0] == "%" else [name]
        return any(
            self.graph.any(callee, reads_order) and not self.graph.any(callee, lambda op: op.is_mbarrier)
            for callee in callees
            if callee in self.graph.functions and not self.takes_turns(callee)
        )

    def _can_suspend(self, name: str) -> bool:
        """Whether a function can be expanded in a coroutine, in reasonable time."""
        function = self.graph.functions[name]
        if function.entry:
            return True
        if any(f is function for f in self.graph.pointed) or self.graph.is_recursive(name):
            return False
        return (
            self._calls[name] * sum(len(self.graph.functions[f].body or ()) for f in self.graph.closure(name))
            <= _MOST_EXPANDED
        )

    @cached_property
    def _calls(self) -> Counter[str | None]:
        """How often each function is called."""
        return Counter(called(item) for f in defined(self.graph.module) for item in f.body)

    @cached_property
    def called_plainly(self) -> set[str]:
        """Functions called, directly or not, from one that cannot suspend."""
        rigid = [f.name for f in defined(self.graph.module) if not f.entry and not self._can_suspend(f.name)]
        return {f for name in rigid for f in self.graph.closure(name) if not self.must_wait(f)}

    def loops(self, name: str) -> bool:
        """Whether a function, or one that is expanded in it, has a loop."""
        return any(
            has_loop(self.graph.functions[f])
            for f in self.graph.closure(name)
            if self.graph.functions[f].body is not None and (f == name or self.may_wait(f))
        )

    def spins(self, name: str) -> bool:
        """Whether a kernel has a loop in which a thread may wait for memory to change."""
        if not self.graph.any(name, lambda op: op.waits):
            return False
        functions = (self.graph.functions[f] for f in self.graph.closure(name))
        return any(f.body is not None and spinning_loops(f, self.touches_order) for f in functions)

    def grid_barriers(self, name: str) -> list[int]:
        """The lines where a kernel synchronises its whole grid; merely reading the grid's size does not count."""
        if not self.graph.reads_special(name, "%envreg"):
            return []
        functions = (self.graph.functions[f] for f in self.graph.closure(name))
        waits = [f.body[p] for f in functions if f.body is not None for p in grid_waits(f)]
        return sorted({self.graph.location(ins, name).line for ins in waits})

    def meets(self, name: str) -> bool:
        """Whether blocks of a kernel communicate through memory, so that they must take turns."""
        return self.spins(name) or self.takes_turns(name)

    def touches_order(self, ins: Instruction) -> bool:
        """Whether one thread can wait for another through this instruction."""
        if ins.op.waits:
            return ins not in self._own_reads
        callee = called(ins)
        return callee is not None and self.graph.any(callee, lambda op: op.waits)

    @cached_property
    def _own_reads(self) -> set[Instruction]:
        return {f.body[i] for f in defined(self.graph.module) for i in own_reads(f, self.pointers)}

    def updates_memory(self, name: str) -> bool:
        """Whether a function only makes an atomic update, like the header's functions."""
        branches = self.graph.any(name, lambda op: op.branches)
        return not branches and self.graph.any(name, lambda op: op.memory == "atomic")
