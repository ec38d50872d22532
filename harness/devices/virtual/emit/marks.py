"""Marks, which passes have inserted: see `instrument/insert` for what they mean."""

from __future__ import annotations

from ..ptx.ir import Instruction


class Marks:
    """Mixin of `function.Lowering`."""

    def mark(self, ins: Instruction) -> None:
        """Lower a mark."""
        getattr(self, f"_mark_{ins.base}")(ins)

    def _mark_note(self, ins: Instruction) -> None:
        place, value = ins.operands
        struct, name, offset = _field(place)
        self.store_field(struct, name, value, offset)

    def _mark_bump(self, ins: Instruction) -> None:
        struct, name, offset = _field(ins.operands[0])
        pointer = self.field_pointer(struct, name, offset)
        more = self.op("add i32", self.emit(f"load i32, ptr {pointer}"), 1)
        self.line(f"store i32 {more}, ptr {pointer}")

    def _mark_runtime(self, ins: Instruction) -> None:
        name, *values = ins.operands
        self.runtime_call(name, *values, site=self.site(ins))

    def _mark_check(self, ins: Instruction) -> None:
        """check.assigned"""
        values = [self.value(flag, "pred") for flag in ins.operands]
        unassigned = [value for value in dict.fromkeys(values) if value != "true"]
        if not unassigned:
            return
        held, *rest = unassigned
        for value in rest:
            held = self.op("and i1", held, value)
        unset, go_on = self.fresh_label("unset"), self.fresh_label("assigned")
        self.branch(held, go_on, unset)
        self.suspect_at(unset)
        self.label(go_on)

    def _mark_turn(self, ins: Instruction) -> None:
        """Let others come between what this thread has read and what it does with it."""
        if not self.coroutine:
            return
        turn, go_on = self.fresh_label("turn"), self.fresh_label("alone")
        waits = self.runtime_call("rt_turn", site=0)
        self.branch(self.op("icmp ne i32", waits, 0), turn, go_on)
        self.label(turn)
        self.suspend()
        self.line(f"br label %{go_on}")
        self.label(go_on)

    def _mark_enter(self, ins: Instruction) -> None:
        """A copy of a function begins: its registers have no values yet, its local variables no memory."""
        self.count(ins)
        self.end_segment()
        self.unset_followed(ins.expansion.registers)
        for name in ins.expansion.variables:
            self.declare_variable(name, self.function.variables[name], self.site(ins))

    def _mark_leave(self, ins: Instruction) -> None:
        for name in reversed(ins.expansion.variables):
            self.free(name)


def _field(text: str) -> tuple[str, str, int]:
    """`Extra.turns+4` -> ("Extra", "turns", 4)"""
    place, _, offset = text.partition("+")
    struct, name = place.split(".")
    return struct, name, int(offset or 0)
