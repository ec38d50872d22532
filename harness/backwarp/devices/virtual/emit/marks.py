"""Marks, which passes have inserted: see `instrument/insert` for what they mean."""

from __future__ import annotations

from ..ptx.types import llvm_type
from ..runtime import abi
from .checks import suspect_at
from .control import DEAD
from .table import statement


@statement("note")
def _note(e, ins, mods, place: str, value: str):
    """`site` stands for the number of the place."""
    struct, name, offset = field_of(place)
    if value[0] == "%":
        value = e.value(value, e.values.types.get(value))
    e.state.store(struct, name, e.sites.of(ins) if value == "site" else value, offset)


@statement("fetch")
def _fetch(e, ins, mods, target: str, place: str):
    struct, name, offset = field_of(place)
    e.set(target, e.state.load(struct, name, volatile=True, offset=offset), e.values.types.get(target))


@statement("peek.<data>")
def _peek(e, ins, mods, target: str, place: str):
    pointer = e.cast("inttoptr", "i64", e.value(place, "b64"), "ptr")
    e.set(target, e.emit(f"load {llvm_type(mods[-1])}, ptr {pointer}, align 1"), mods[-1])


@statement("poke.<data>")
def _poke(e, ins, mods, place: str, value: str):
    pointer = e.cast("inttoptr", "i64", e.value(place, "b64"), "ptr")
    e.line(f"store {llvm_type(mods[-1])} {e.value(value, mods[-1])}, ptr {pointer}, align 1")


@statement("locate")
def _locate(e, ins, mods, target: str, what: str, function: str):
    site = str(e.module.new_site(ins.at, f"{what} of {function}")) if ins.at.line else e.sites.of(ins)
    e.set(target, e.resize(site, "i32", "i64"), "b64")


@statement("bump")
def _bump(e, ins, mods, place: str):
    struct, name, offset = field_of(place)
    pointer = e.state.pointer(struct, name, offset)
    more = e.op("add i32", e.emit(f"load i32, ptr {pointer}"), 1)
    e.line(f"store i32 {more}, ptr {pointer}")


@statement("runtime")
def _runtime(e, ins, mods, name: str, *values: str):
    e.state.call(name, *values, site=e.sites.of(ins))


@statement("runtime.if")
def _runtime_if(e, ins, mods, happens: str, target: str, name: str, *values: str):
    call, go_on = e.fresh_label("call"), e.fresh_label("on")
    given = [e.value(value, "b64") for value in values]
    e.branch(e.value(happens, "pred"), call, go_on, unlikely=True)
    e.label(call)
    result = e.state.call(name, *given, site=e.sites.of(ins))
    if target != "_":
        e.line(f"store {abi.FUNCTIONS[name][0]} {result}, ptr {e.values.slot(target)}")
        e.text.forget(target)
    e.line(f"br label %{go_on}")
    e.label(go_on)


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
    suspect_at(e, unset)
    e.label(go_on)


@statement("turn")
def _turn(e, ins, mods):
    """Let others run between what this thread has read and its use."""
    _let_run(e, "rt_turn")


@statement("pause{.(<space>|generic)}")
def _pause(e, ins, mods, where="0"):
    """where: what is read next: an address, or the parameter that holds it."""
    if mods == ["param"]:
        pointer = e.variables.parameter(where)
        where = pointer and e.emit(f"load i64, ptr {pointer}, align 8")
    elif mods:
        where = e.variables.address(where, mods[0])
        if mods == ["shared"]:
            where = e.op("add i64", where, e.state.load("Env", "shared_base"))
    _let_run(e, "rt_pause", where or "0")


def _let_run(e, runtime: str, *values: str) -> None:
    if not e.control.coroutine:
        return
    turn, go_on = e.fresh_label("turn"), e.fresh_label("alone")
    waits = e.state.call(runtime, *values, site=0)
    e.branch(e.op("icmp ne i32", waits, 0), turn, go_on)
    e.label(turn)
    e.control.suspend()
    e.line(f"br label %{go_on}")
    e.label(go_on)


@statement("suspend")
def _suspend(e, ins, mods):
    e.control.suspend()


@statement("slice")
def _slice(e, ins, mods, target: str, size: str, called: str = "0"):
    """called: it is calls that have been counted."""
    granted, alive = e.state.call("rt_slice", size, called, site=e.sites.of(ins)), e.fresh_label("alive")
    e.branch(e.op("icmp ne i32", granted, 0), alive, DEAD)
    e.label(alive)
    e.set(target, granted, "u32")


@statement("record{.(b8|b16|b32|b64|pred)}")
def _record(e, ins, mods, point: str, value: str = ""):
    """A row of the run's record."""
    wide = e.resize(e.value(value, mods[0]), llvm_type(mods[0]), "i64") if value else "0"
    e.state.call("rt_record", wide, site=point)


@statement("record.base")
def _record_base(e, ins, mods, point: str, name: str):
    e.state.call("rt_record", e.variables.symbol(name, False), site=point)


@statement("record.at.(<space>|generic)")
def _record_at(e, ins, mods, point: str, address):
    found = e.variables.address(address, ins.op.space)
    if ins.op.space == "shared":
        found = e.op("add i64", found, "%sharedbase")
    e.state.call("rt_record", found, site=point)


@statement("enter")
def _enter(e, ins, mods, function: str):
    """A copy of a function begins: its registers have no values yet, its local variables no memory."""
    for name in ins.expansion.variables:
        e.variables.declare(name, e.function.variables[name], e.sites.of(ins))


@statement("leave")
def _leave(e, ins, mods, function: str):
    for name in reversed(ins.expansion.variables):
        e.variables.free(name)


def field_of(place: str) -> tuple[str, str, int]:
    """`Extra.turns+4` -> ("Extra", "turns", 4)"""
    field, _, offset = place.partition("+")
    struct, name = field.split(".")
    return struct, name, int(offset or 0)
