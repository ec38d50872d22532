"""Control flow: branches, and how a thread exits or waits.

Source: PTX ISA, section 9.7.12 (control flow); LLVM Coroutines (switched-resume lowering).
"""

from __future__ import annotations

from ....errors import Unsupported
from ..ptx.ir import Instruction
from ..runtime import abi
from .phases import Frames

#: the label of a thread that ends
DEAD = "dead"


class Control:
    """Of one function. coroutine: a thread can wait in it."""

    def __init__(self, e, coroutine: bool):
        self.e, self.coroutine = e, coroutine
        self.frames: Frames | None = None  # of threads that run from barrier to barrier
        self.alone = False  # nobody waits for others: the whole block runs as one
        self._exit = "return"  # the target of a `ret`
        self._loops: dict[str, int] = {}

    def emit(self, ins: Instruction) -> bool:
        """Whether it ends the block."""
        how = {
            "branch": self._branch,
            "switch": self._switch,
            "return": self._return,
            "exit": self._leave,
            "trap": self._trap,
        }
        return how[ins.op.flow](ins)

    def label(self, name: str) -> str:
        return self.e.threads.label(name) or f'"${name}"'

    def leave_by(self, label: str) -> str:
        """Sets the target of every `ret`. Returns the previous one."""
        before, self._exit = self._exit, label
        return before

    def fall_out(self) -> None:
        """The end of the body."""
        self.e.line(f"br label %{self._exit}")

    def suspend(self) -> None:
        """Others run; the thread continues when it is resumed."""
        e = self.e
        if not self.coroutine:
            what = "a barrier in a function that is called recursively or through a pointer"
            raise Unsupported(what, e.module.name)
        resumed, state = e.fresh_label("resumed"), e.fresh("suspend")
        e.line(f"{state} = call i8 @llvm.coro.suspend(token none, i1 false)")
        e.line(f"switch i8 {state}, label %suspended [ i8 0, label %{resumed} i8 1, label %suspended ]")
        e.label(resumed)
        if e.module.waits.interleaved and not (e.function.entry and e.facts.lanes):
            e.state.renew_epoch()

    def fault(self, ins: Instruction) -> None:
        """The thread ends; the instruction that caused it gives the reason."""
        e = self.e
        e.state.call("rt_fault", str(abi.FAULT["trap"]), "0", "0", site=e.sites.of(ins))
        e.line(f"br label %{DEAD}")

    # -- instructions --------------------------------------------------------------------------------

    def _branch(self, ins: Instruction) -> bool:
        e = self.e
        goal = target = self.label(ins.operands[0])
        unrolled = ins in e.facts.unrolled
        if unrolled:
            goal = e.fresh_label("back")
        if ins.pred:
            next_ = e.fresh_label("next")
            condition = e.value(("!" if ins.negated else "") + ins.pred, "pred")
            e.branch(condition, goal, next_, likely="likely" in ins.op.mods)
        else:
            e.line(f"br label %{goal}")
        if unrolled:
            e.label(goal)
            e.line(f"br label %{target}, !llvm.loop !{self._loop(target)}")
        if ins.pred:
            e.label(next_)
        return not ins.pred

    def _loop(self, header: str) -> int:
        """LLVM metadata for a loop: unroll it, if possible."""
        if header not in self._loops:
            how = self.e.module.metadata('!{{!"llvm.loop.unroll.full"}}')
            self._loops[header] = self.e.module.metadata(f"distinct !{{{{!{{n}}, !{how}}}}}")
        return self._loops[header]

    def _switch(self, ins: Instruction) -> bool:
        e, targets = self.e, self.e.function.tables.get(ins.operands[1], ())
        index = e.value(ins.operands[0], "u32")
        cases = (f"i32 {i}, label %{self.label(target)}" for i, target in enumerate(targets))
        trap = e.fresh_label("notarget")
        e.line(f"switch i32 {index}, label %{trap} [ {' '.join(cases)} ]")
        e.label(trap)
        return self._trap(ins)

    def _return(self, ins: Instruction) -> bool:
        self.fall_out()
        return True

    def _leave(self, ins: Instruction) -> bool:
        """The thread ends, at any call depth."""
        self.e.state.store("Thread", "dead", abi.DEAD_EXIT)
        self.e.line(f"br label %{DEAD}")
        return True

    def _trap(self, ins: Instruction) -> bool:
        if self.e.module.raw:
            self.e.line("unreachable")
        else:
            self.fault(ins)
        return True
