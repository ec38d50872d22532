"""What passes insert into a body besides ordinary PTX: marks, which the emitter lowers without knowing which
pass they come from.

note Env.final, 1;          a field of the thread's state, or its worker's, gets a value
fetch %r1, Extra.work;      a register gets what is there
bump Extra.turns+4;         one more in it
peek.b32 %r1, %rd1;         a register gets what is at a host address, and the other way round
poke.b32 %rd1, %r1;
runtime rt_fence, 6;        a call of the runtime
runtime.if %p1, %rd1, f, 2; one where a predicate holds, with a result, or `_`
locate %rd1, %f1, k;        a register gets a number for this place, where something is to be said of %f1 of k
check.assigned %p1, %p2;    what reads unset values is suspected unless all of these hold
check.bounds.global 4, [a]; an access stays in memory that it may use: see bounds; check.access, hold, apart: see accesses
turn;                       others may come between; pause: in some orders only; pause.space [a]: before a read of [a]
suspend;                    others run
slice %r1, 1000;            the watchdog grants at most this many steps, or ends the thread
@%p1 bra.skip $skip.1;      a branch that the program does not have; bra.likely: one that is nearly always taken
count.enter, word, lane     see segments
enter f; leave f;           of a function that was expanded
step.line, step.var, record see steps
"""

from __future__ import annotations

from ..ptx.ir import Function, Instruction, Label, operand


def mark(opcode: str, *operands: str | int, at: Instruction) -> Instruction:
    """A mark, or any instruction, inserted next to another."""
    texts = tuple(operand(str(o)) for o in operands)
    return Instruction(opcode, texts, at.at, original=at.original or at, expansion=at.expansion)


class Inserts:
    """Items to insert before and after those of a body; before a label means after it, where its block
    begins."""

    def __init__(self, function: Function):
        self.function = function
        self.start: list[Instruction] = []
        self._before: dict[Instruction | Label, list] = {}
        self._after: dict[Instruction | Label, list] = {}

    def before(self, item: Instruction | Label, *new: Instruction | Label) -> None:
        where = self._after if isinstance(item, Label) else self._before
        where.setdefault(item, []).extend(new)

    def after(self, item: Instruction | Label, *new: Instruction | Label) -> None:
        self._after.setdefault(item, []).extend(new)

    @property
    def changed(self) -> bool:
        return bool(self.start or self._before or self._after)

    def done(self) -> None:
        """Change the body."""
        if self.changed:
            body = [
                each
                for item in self.function.body
                for each in (*self._before.get(item, ()), item, *self._after.get(item, ()))
            ]
            self.function.body = [*self.start, *body]
