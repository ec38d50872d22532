"""A thread does not run for ever: each iteration of a loop is a step, and steps are granted in slices.

                                        fetch %watch.steps, Env.slice;
    $L_loop:                        $L_loop:
    ...                                 ...
    @%p1 bra $L_loop;         ->        @!%p1 bra.skip $on.1;
                                        sub.u32 %watch.steps, %watch.steps, 1;
                                        setp.ne.u32 %watch.go, %watch.steps, 0;
                                        @%watch.go bra.likely $L_loop;
                                        slice %watch.steps, 100000;
                                        @%p1 bra $L_loop;
                                    $on.1:
                                        note Env.slice, %watch.steps;
    call.uni f, ();                     call.uni f, ();
                                        fetch %watch.steps, Env.slice;

All threads that a worker runs share one slice. `slice` asks for the next; the runtime ends the thread if
there is none. In a loop that may wait for other threads, the thread then lets them run. Recursion takes time
without a loop, so calls are counted as well.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.cooperative_groups import lets_lanes_come
from ..analyse.facts import Facts
from ..compile.recipes import Check
from ..ptx.callgraph import branch_targets
from ..ptx.ir import Function, Instruction, Label, Location, operand
from ..rewrite.predicates import skip
from ..runtime import abi
from .insert import Inserts, mark

_STEPS, _GO, _CALLS, _VAIN = "%watch.steps", "%watch.go", "%watch.calls", "%watch.vain"
_REGISTERS = {_STEPS: "u32", _GO: "pred", _CALLS: "u32", _VAIN: "u32"}


def run(function: Function, facts: Facts, checks: frozenset[Check]) -> None:
    """In place. The last pass: it inserts code on the back edge of every loop."""
    _Watchdog(function, facts, checks).run()


class _Watchdog:
    def __init__(self, function: Function, facts: Facts, checks: frozenset[Check]):
        self.function, self.facts, self.graph = function, facts, facts.known.graph
        waits, name = facts.known.waits, function.name
        self.counted = Check.SEGMENTS in checks  # lanes wait for one another, so each has its own slice
        self.suspends = function.entry and (waits.may_wait(name) or self.counted)
        self.in_vain = Check.RACES in checks  # the runtime notices threads that poll unchanged memory
        self.polls = self.suspends and Check.BARRIERS in checks and bool(waits.grid_barriers(name))
        self.takes_turns, self.loops = waits.takes_turns(name), waits.loops(name)
        self.labels = {item.name: p for p, item in enumerate(function.body) if isinstance(item, Label)}
        self.inserts, self.serial, self.switches = Inserts(function), 0, {}

    def run(self) -> None:
        self.function.regs |= _REGISTERS
        first = next(i for i in self.function.body if isinstance(i, Instruction))
        calls = any(isinstance(item, Instruction) and item.op.flow == "call" for item in self.function.body)
        if calls and not self.function.entry:  # only those can call one another for ever
            self._count_call(first)
        if self.loops:
            begin = mark("mov.u32", _STEPS, abi.COUNT_SLICE, at=first) if self.counted else _take(first)
            self.inserts.start.append(begin)
        reserved = self.suspends and self.graph.reads_special(self.function.name, "%reserved_smem")
        hands_over = self.loops and not self.counted
        for position, item in enumerate(self.function.body):
            if not isinstance(item, Instruction):
                continue
            if flow := item.op.flow:
                if flow in ("branch", "switch"):
                    self._back_edges(position, item)
                elif hands_over:
                    self._hand_over(item)
            if self.polls and item.op.collective:
                self.inserts.before(item, mark("note", "Extra.polls", 0, at=item))
            if reserved and lets_lanes_come(item):
                ready = mark("note", "Thread.wait", abi.WAIT["ready"], at=item)
                self.inserts.before(item, ready, mark("suspend", at=item))
        self.inserts.done()
        if self.switches:
            self.function.body = [self.switches.get(item, item) for item in self.function.body]

    def _count_call(self, first: Instruction) -> None:
        """At the entry of a function: ask the watchdog from time to time. The place is that of the call."""
        self.inserts.start += [
            mark("fetch", _CALLS, "Env.calls", at=first),
            mark("sub.u32", _CALLS, _CALLS, 1, at=first),
            mark("note", "Env.calls", _CALLS, at=first),
            mark("setp.ne.u32", _GO, _CALLS, 0, at=first),
            replace(mark("bra.likely", "$counted.0", at=first), pred=_GO),
            Instruction("slice", tuple(map(operand, ("_", str(abi.SLICE), "1"))), Location()),
            Label("$counted.0"),
        ]

    def _hand_over(self, ins: Instruction) -> None:
        """Other threads are about to run and use the slice."""
        if ins.op.flow == "call":
            callee = self.graph.functions.get(ins.called[1])
            if callee is None or callee.body is not None:
                self.inserts.before(ins, _give(ins))
                self.inserts.after(ins, _take(ins))
        elif ins.op.flow == "exit" or ins.op.flow == "return" and not self.suspends:
            self.inserts.before(ins, _give(ins))

    # -- loops -----------------------------------------------------------------------------------------

    def _back_edges(self, position: int, ins: Instruction) -> None:
        targets = branch_targets(self.function, ins)
        back = [target for target in targets if self.labels[target] <= position]
        if not back:
            return
        self.serial += 1
        if ins.op.flow == "switch":
            edges = {target: f"$back.{self.serial}.{n}" for n, target in enumerate(dict.fromkeys(back))}
            table = operand(f"{ins.operands[1]}.{self.serial}")
            self.function.tables[table] = tuple(edges.get(target, target) for target in targets)
            self.switches[ins] = replace(ins, operands=(ins.operands[0], table))
            for target, edge in edges.items():
                on = mark("bra", target, at=ins)
                self.inserts.after(ins, Label(edge), *self._step(position, ins, target), on)
            return
        if ins in self.facts.unrolled:
            return
        if ins.pred:
            self.inserts.before(ins, skip(f"$on.{self.serial}", ins, ins.pred, ins.negated))
            self.inserts.after(ins, Label(f"$on.{self.serial}"))
        self.inserts.before(ins, *self._step(position, ins, back[0]))

    def _step(self, position: int, ins: Instruction, target: str) -> list[Instruction]:
        """One step, then usually the branch to the target."""
        waits = self.suspends and ins in self.facts.spins
        found = [mark("sub.u32", _STEPS, _STEPS, 1, at=ins), mark("setp.ne.u32", _GO, _STEPS, 0, at=ins)]
        if waits and self.in_vain:  # in a wait loop every iteration is wasted
            found += [
                mark("fetch", _VAIN, "Extra.in_vain", at=ins),
                mark("setp.eq.and.u32", _GO, _VAIN, 0, _GO, at=ins),
            ]
        found.append(replace(mark("bra.likely", target, at=ins), pred=_GO))
        if self.polls and ins in self.facts.grid_waits:
            found.append(mark("note", "Extra.polls", "site", at=ins))
        found.append(mark("slice", _STEPS, self._size(position, ins, target, waits), at=ins))
        if waits or self.suspends and self.counted:
            found.append(mark("suspend", at=ins))
        return found

    def _size(self, position: int, ins: Instruction, target: str, waits: bool) -> int:
        """Of the next slice."""
        if waits and self.takes_turns and (ins.at.trusted or self._looks(position, target)):
            return abi.TURN_SLICE
        if waits:
            return abi.SPIN_SLICE
        return abi.COUNT_SLICE if self.counted and self.suspends else abi.SLICE

    def _looks(self, position: int, target: str) -> bool:
        """Whether a loop reads what others change."""
        loop = self.function.body[self.labels[target] : position]
        return any(isinstance(i, Instruction) and i.base == "turn" for i in loop)


def _take(at: Instruction) -> Instruction:
    return mark("fetch", _STEPS, "Env.slice", at=at)


def _give(at: Instruction) -> Instruction:
    return mark("note", "Env.slice", _STEPS, at=at)
