"""Marks, which passes have inserted: see `instrument/insert` for what they mean."""

from __future__ import annotations

from .table import statement


@statement("note")
def _note(e, ins, mods, place: str, value: str):
    struct, name, offset = field_of(place)
    e.store_field(struct, name, e.value(value, e.register_type(value)) if value[0] == "%" else value, offset)


@statement("fetch")
def _fetch(e, ins, mods, target: str, place: str):
    struct, name, _ = field_of(place)
    e.set(target, e.load_field(struct, name, volatile=True), e.register_type(target))


@statement("bump")
def _bump(e, ins, mods, place: str):
    struct, name, offset = field_of(place)
    pointer = e.field_pointer(struct, name, offset)
    more = e.op("add i32", e.emit(f"load i32, ptr {pointer}"), 1)
    e.line(f"store i32 {more}, ptr {pointer}")


@statement("runtime")
def _runtime(e, ins, mods, name: str, *values: str):
    e.runtime_call(name, *values, site=e.site(ins))


@statement("check.assigned")
def _check_assigned(e, ins, mods, *flags: str):
    values = [e.value(flag, "pred") for flag in flags]
    unassigned = [value for value in dict.fromkeys(values) if value != "true"]
    if not unassigned:
        return
    held, *rest = unassigned
    for value in rest:
        held = e.op("and i1", held, value)
    unset, go_on = e.fresh_label("unset"), e.fresh_label("assigned")
    e.branch(held, go_on, unset)
    e.suspect_at(unset)
    e.label(go_on)


@statement("turn")
def _turn(e, ins, mods):
    """Let others come between what this thread has read and what it does with it."""
    if not e.coroutine:
        return
    turn, go_on = e.fresh_label("turn"), e.fresh_label("alone")
    waits = e.runtime_call("rt_turn", site=0)
    e.branch(e.op("icmp ne i32", waits, 0), turn, go_on)
    e.label(turn)
    e.suspend()
    e.line(f"br label %{go_on}")
    e.label(go_on)


@statement("enter")
def _enter(e, ins, mods, function: str):
    """A copy of a function begins: its registers have no values yet, its local variables no memory."""
    e.unset_followed(ins.expansion.registers)
    for name in ins.expansion.variables:
        e.declare_variable(name, e.function.variables[name], e.site(ins))


@statement("leave")
def _leave(e, ins, mods, function: str):
    for name in reversed(ins.expansion.variables):
        e.free(name)


def field_of(place: str) -> tuple[str, str, int]:
    """`Extra.turns+4` -> ("Extra", "turns", 4)"""
    field, _, offset = place.partition("+")
    struct, name = field.split(".")
    return struct, name, int(offset or 0)
