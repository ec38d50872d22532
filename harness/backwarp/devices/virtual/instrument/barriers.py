"""A thread records its exit, its iterations, and which exits are still possible after a barrier: see
`analyse/leaving`.

                                    note Extra.out, 1;
                                    note Extra.turns, 0;
    $L_loop:                        $L_loop:
    @%p1 bra $L_stay;               @%p1 bra $L_stay;
    bra $L_return;           ->     note Extra.out, 4294967298;
                                    bra $L_return;
    $L_stay:                        $L_stay:
                                    note Extra.behind, 4294967297;
    bar.sync 0;                     bar.sync 0;
                                    bump Extra.turns;
    bra $L_loop;                    bra $L_loop;

The lower half of a word is a mask of exits, the upper half a mask of the loops around them.
"""

from __future__ import annotations

from ..analyse.facts import Facts
from ..analyse.leaving import CLOSING_BRACE, Ways
from ..ptx.ir import Function, Instruction, Label, operand
from ..rewrite.predicates import skip
from .insert import Inserts, mark


def run(function: Function, facts: Facts) -> None:
    """In place."""
    inserts = Inserts(function)
    if function.entry and facts.known.waits.may_wait(function.name):
        _Noting(function, facts.ways, inserts).run()
    else:  # a return, wherever the function is called
        for ins in function.body:
            if isinstance(ins, Instruction) and ins.op.flow == "exit":
                inserts.before(ins, mark("note", "Extra.out", 0, at=ins))
    inserts.done()


class _Noting:
    def __init__(self, kernel: Function, ways: Ways, inserts: Inserts):
        self.kernel, self.ways, self.inserts = kernel, ways, inserts
        self.labels = {item.name: p for p, item in enumerate(kernel.body) if isinstance(item, Label)}

    def run(self) -> None:
        first = next(i for i in self.kernel.body if isinstance(i, Instruction))
        self.inserts.start.append(mark("note", "Extra.out", CLOSING_BRACE, at=first))
        near = first
        for item in self.kernel.body:
            near = item if isinstance(item, Instruction) else near
            self._note(item, near)
            if isinstance(item, Instruction) and item.op.branches and self.ways.loops:
                self._edges(item)

    def _note(self, item: Instruction | Label, near: Instruction) -> None:
        ways, before = self.ways, self.inserts.before
        if item in ways.out:
            before(item, mark("note", "Extra.out", ways.out[item] | ways.loops_at(item) << 32, at=near))
        for number in ways.entered.get(item, ()):
            before(item, mark("note", _turns(number), 0, at=near))
        if isinstance(item, Instruction) and item.op.collective:
            mask = ways.behind(item) | ways.loops_at(item) << 32
            before(item, mark("note", "Extra.behind", mask, at=item))

    def _edges(self, branch: Instruction) -> None:
        """An iteration is counted on the back edge that begins it."""
        if branch.op.flow == "branch":
            bumps = self._bumps(branch, branch.operands[0])
            if bumps and branch.pred:  # it continues below if the branch is not taken
                below = f"$below.{self.ways.position[branch]}"
                self.inserts.before(branch, skip(below, branch, branch.pred, branch.negated))
                self.inserts.after(branch, Label(below))
            self.inserts.before(branch, *bumps)
            return
        name, targets = branch.operands[1], []
        for n, target in enumerate(self.kernel.tables.get(name, ())):
            targets.append(target)
            if bumps := self._bumps(branch, target):
                targets[-1] = f"$edge.{self.ways.position[branch]}.{n}"
                on = mark("bra", target, at=branch)
                self.inserts.after(branch, Label(targets[-1]), *bumps, on)
        self.kernel.tables[name] = tuple(map(operand, targets))

    def _bumps(self, branch: Instruction, target: str) -> list[Instruction]:
        place = self.ways.position[branch]
        return [
            mark("bump", _turns(number), at=branch)
            for loop, number in self.ways.loops.items()
            if loop.start == self.labels[target] and place in loop
        ]


def _turns(number: int) -> str:
    return f"Extra.turns+{4 * number}"
