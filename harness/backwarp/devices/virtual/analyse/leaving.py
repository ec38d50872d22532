"""How a thread can leave a kernel, as seen from a barrier: by a return before it, or by going around it.

A barrier does not wait for threads that have ended. If such a thread left by a `return` before the barrier,
all is well: that is how kernels are written (`if (i >= n) return;`). If it bypassed the barrier on another
path and ended later, the barrier is in a branch that not all threads take, which CUDA forbids. To tell the
two apart:

* A thread that reaches the closing brace of the kernel bypassed every barrier at which it did not wait. A
* `return` reachable from the barrier comes after it, and a thread that leaves there without having waited
* bypassed the barrier. Any other `return` comes before it. If a loop contains both, this refers to one
* iteration. For such loops iterations are compared first, from the outermost loop inwards: a thread that left
* in an earlier iteration left before the barrier; one that began a later iteration bypassed it. A `return` of
* an inlined function counts as the kernel's if nothing follows the call, as in a kernel that only calls its
* implementation. Otherwise the thread goes on, and what it does later decides. `exit` counts as a return
* everywhere.

Unoptimised code keeps these cases distinct: every `return` is a block of its own with an unconditional branch to the
block of the only `ret`, and the closing brace comes last. When the barrier opens, three things decide whether
a thread bypassed it: the exits after the barrier (`Ways.behind`), the exit that the thread took, and how many
iterations each has begun of the loops that contain both (see `went_round` in schedule.cu).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from ..ptx.cfg import Loop, basic_blocks, find_loops
from ..ptx.ir import Function, Instruction, Label
from ..runtime.abi import LOOPS, WAYS
from .dataflow import reached

# the exit of all threads that did not return early; the first bit of a mask
CLOSING_BRACE = 1


@dataclass(frozen=True)
class Span:
    """A loop in the text: positions [start, end). entries: positions from which it is entered."""

    start: int
    end: int
    entries: tuple[int, ...]

    def __contains__(self, position: int) -> bool:
        return self.start <= position < self.end


class Flow:
    """The control flow of one function, wherever it is inlined."""

    def __init__(self, function: Function):
        self.body = function.body
        self.blocks = basic_blocks(function.body, function.tables)
        self._starts = sorted(self.blocks)
        self._found: dict[tuple[int, frozenset[int]], set[int]] = {}

    def start_of(self, position: int) -> int:
        return self._starts[bisect_right(self._starts, position) - 1]

    @cached_property
    def _labels(self) -> dict[str, int]:
        return {item.name: p for p, item in enumerate(self.body) if isinstance(item, Label)}

    @cached_property
    def _loops(self) -> list[Loop]:
        return find_loops(self.blocks)

    @cached_property
    def loops(self) -> list[Span]:
        """Outer loops before those inside them."""
        return [
            Span(
                loop.header,
                max(self.blocks[start][0] for start in loop.blocks),
                tuple(self.blocks[start][0] - 1 for start in loop.entries),
            )
            for loop in self._loops
        ]

    def follows(self, position: int, before: int) -> bool:
        """Whether one position is reachable from another within one iteration of every loop that contains
        both."""
        first, start = self.start_of(before), self.start_of(position)
        if start == first:
            return position > before
        return start in self._reached(
            first, frozenset(s.start for s in self.loops if position in s and before in s)
        )

    def _reached(self, first: int, headers: frozenset[int]) -> set[int]:
        """The blocks reachable from one without starting another iteration of the loops with these
        headers."""
        if (first, headers) not in self._found:
            held = [loop for loop in self._loops if loop.header in headers]
            again = {(start, loop.header) for loop in held for start in loop.blocks}
            self._found[first, headers] = reached(
                [first], lambda start: (t for t in self.blocks[start][1] if (start, t) not in again)
            )
        return self._found[first, headers]

    @cached_property
    def returns(self) -> list[int]:
        """Positions of what returns were compiled to: branches to the last `ret`, except those that reach the
        closing brace."""
        rets = [p for p, i in enumerate(self.body) if isinstance(i, Instruction) and i.op.flow == "return"]
        last = self.start_of(rets[-1]) if rets else 0
        if not last:
            return rets[:-1]
        brace = last - 1  # the predecessors of the block of the last `ret`
        while brace and isinstance(self.body[brace], Label):
            brace -= 1
        if self.body[brace].at != self.body[rets[-1]].at or not self.is_straight(last):
            return rets[:-1]  # that block is the closing brace, so it has no return
        leads = (end - 1 for end, follow in self.blocks.values() if follow == [last])
        own = (p for p in leads if p != brace and isinstance(self.body[p], Instruction))
        return rets[:-1] + [p for p in own if self.body[p].expansion is None]

    def is_straight(self, position: int) -> bool:
        """Whether there are no effects from here to the end of the function."""
        seen = set()
        while position < len(self.body) and position not in seen:
            seen.add(position)
            ins = self.body[position]
            position += 1
            if isinstance(ins, Label):
                continue
            if ins.op.flow == "return" and not ins.pred:
                return True
            if ins.pred or not _is_idle(ins):
                return False
            if ins.op.flow == "branch":
                position = self._labels[ins.operands[0]]
        return False


class Ways:
    """How threads leave a kernel whose calls have been expanded.

    out: an exit -> its bit. loops: the numbers of loops that contain both an exit and a wait. entered: an
    item of the body after which such loops begin -> their numbers.
    """

    def __init__(self, kernel: Function, functions: dict[str, Function]):
        self.flow, self.body = Flow(kernel), kernel.body
        self.position = {item: p for p, item in enumerate(kernel.body)}
        places = [*self.flow.returns, *self._others(functions)][: WAYS - 1]
        self._places = {place: CLOSING_BRACE << n for n, place in enumerate(places, 1)}
        self.out = {self.body[place]: bit for place, bit in self._places.items()}
        waits = [p for p, i in enumerate(self.body) if isinstance(i, Instruction) and i.op.collective]
        both = [
            loop
            for loop in (self.flow.loops if places else ())
            if any(p in loop for p in places) and any(p in loop for p in waits)
        ]
        self.loops = {loop: number for number, loop in enumerate(both[:LOOPS])}
        self.entered: dict[Instruction | Label, list[int]] = {}
        for loop, number in self.loops.items():
            for place in dict.fromkeys(loop.entries):
                self.entered.setdefault(self.body[place], []).append(number)

    def _others(self, functions: dict[str, Function]) -> list[int]:
        """Exits other than the kernel's own returns: returns of inlined functions with nothing after the
        call, and `exit`."""
        last = {
            item.expansion
            for p, item in enumerate(self.body)
            if isinstance(item, Instruction) and item.base == "leave" and self.flow.is_straight(p + 1)
        }
        flows = {name: Flow(functions[name]) for name in {expansion.function for expansion in last}}
        returns = {flow.body[p] for flow in flows.values() for p in flow.returns}
        return [
            p
            for p, i in enumerate(self.body)
            if isinstance(i, Instruction)
            and (i.op.flow == "exit" or i.expansion in last and i.original in returns)
        ]

    def loops_at(self, item) -> int:
        """The mask of the numbered loops that contain an item of the body."""
        return sum(1 << number for loop, number in self.loops.items() if self.position[item] in loop)

    def behind(self, item) -> int:
        """The mask of the exits after an item; the closing brace is always one."""
        position, found = self.position[item], CLOSING_BRACE
        for place, bit in self._places.items():
            if self.flow.follows(place, position):
                found |= bit
        return found


def _is_idle(ins: Instruction) -> bool:
    """Whether it only passes on values or control."""
    return ins.op.is_move or ins.op.of_parameters or ins.op.flow == "branch" or ins.base in ("leave", "step")
