"""Short code that lanes run only if a condition holds becomes part of the code around it: all lanes compute it, and select
its results. Only its loads keep the condition.

    @%p1 bra $L_1;                        @!%p1 ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f1, [%rd1];      ->    fma.rn.f32 %select.9, %f1, %f2, %f3;
    fma.rn.f32 %f3, %f1, %f2, %f3;        selp.f32 %f3, %f3, %select.9, %p1;
  $L_1:

So sums stay in registers, no branch is mispredicted, and the loads of several such pieces, which stand next to each other in
an unrolled loop, are checked together.
"""

from __future__ import annotations

from dataclasses import replace

from ..instrument.insert import mark
from ..ptx.callgraph import branch_targets
from ..ptx.ir import Function, Instruction, Label, renamed

_MOST, _MOST_LOADS = 10, 4  # instructions; loads among them
_CHEAP = frozenset("add sub mul mad fma mov cvt cvta and or xor not neg shl shr min max setp selp".split())
_SELECTED = frozenset("b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64".split())
_SPACES = ("global", "const", "generic", "shared")


def run(function: Function, parting: set[Instruction]) -> Function | None:
    """A function with another body, or None if nothing changes. parting: the branches at which lanes may diverge."""
    found = _Selects(function, parting)
    found.run()
    return found.function if found.changed else None


class _Selects:
    def __init__(self, function: Function, parting: set[Instruction]):
        self.old, self.parting, self.changed = function.body, parting, False
        self.function = replace(function, regs=dict(function.regs))
        self.readers: dict[str, list[int]] = {}
        self.writers: dict[str, list[int]] = {}
        self.coming: dict[str, int] = {}  # label -> how many branches go there
        for position, item in enumerate(self.old):
            if isinstance(item, Label):
                continue
            for name in item.reads:
                self.readers.setdefault(name, []).append(position)
            for name in item.writes:
                self.writers.setdefault(name, []).append(position)
            for target in branch_targets(function, item) if item.op.branches else ():
                self.coming[target] = self.coming.get(target, 0) + 1

    def run(self) -> None:
        body, position = [], 0
        while position < len(self.old):
            item = self.old[position]
            position += 1
            if item in self.parting and (end := self._end(position, item)):
                body += self._selected(position, end, item)
                self.changed = True
                position = end
                label = self.old[end].name
                self.coming[label] -= 1
                position += not self.coming[label]
            else:
                body.append(item)
        self.function.body = body

    def _end(self, start: int, branch: Instruction) -> int:
        """The position of the label behind the code that a branch skips, if all lanes can compute that code; else 0."""
        count = loads = 0
        for position in range(start, len(self.old)):
            item = self.old[position]
            if isinstance(item, Label):
                return position if item.name == branch.operands[0] and count else 0
            if item.base != "check":
                count, loads = count + 1, loads + (item.op.memory == "load")
                known = self._can_be_computed(item, branch.pred) and self._can_be_selected(item, start)
                if not known or count > _MOST or loads > _MOST_LOADS:
                    return 0
        return 0

    def _can_be_computed(self, ins: Instruction, condition: str) -> bool:
        op = ins.op
        if ins.pred or condition in ins.writes or not op.has_result:
            return False
        if op.memory:
            return op.memory == "load" and op.space in _SPACES and not op.ordering
        return ins.base in _CHEAP and not (op.takes_carry or op.leaves_carry)

    def _can_be_selected(self, ins: Instruction, start: int) -> bool:
        types = (self.function.regs[name] for name in ins.writes if not self._is_inner(name, start))
        return _SELECTED.issuperset(types)

    def _is_inner(self, name: str, start: int) -> bool:
        """Whether a register is written once, and read only between there and the next label."""
        (first, *more), readers = self.writers[name], self.readers.get(name, ())
        end = next((p for p in range(first, len(self.old)) if isinstance(self.old[p], Label)), len(self.old))
        return not more and all(first < reader < end for reader in readers)

    def _selected(self, start: int, end: int, branch: Instruction) -> list[Instruction]:
        made, new = [], {}
        for ins in (self.old[p] for p in range(start, end) if self.old[p].base != "check"):
            target, *sources = ins.operands
            sources = [renamed(o, lambda name: new.get(name, name)) for o in sources]
            new |= {
                name: self._new(name)
                for name in ins.writes
                if not self._is_inner(name, start) and name not in new
            }
            target = renamed(target, lambda name: new.get(name, name))
            guard = dict(pred=branch.pred, negated=not branch.negated) if ins.op.memory else {}
            made.append(replace(ins, operands=(target, *sources), original=ins.original or ins, **guard))
        for name, other in new.items():
            either = (other, name) if branch.negated else (name, other)
            made.append(mark(f"selp.{self.function.regs[name]}", name, *either, branch.pred, at=branch))
        return made

    def _new(self, like: str) -> str:
        name = f"%select.{len(self.function.regs)}"
        self.function.regs[name] = self.function.regs[like]
        return name
