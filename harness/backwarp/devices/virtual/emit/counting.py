"""The marks by which counting enters an Entry and fills it: see `instrument/segments`."""

from __future__ import annotations

from ..runtime import abi
from .marks import field_of
from .table import statement


@statement("count.enter")
def _enter(e, ins, mods, entry: str, number: str, key: str):
    """The entry that is expected, if it is the right one; else the runtime finds or makes it."""
    expected, key = e.state.load("Extra", "cursor"), e.value(key, "u64")
    here = e.cast("inttoptr", "i64", expected, "ptr")
    found, lookup, entered = (e.fresh_label(h) for h in ("found", "lookup", "entered"))
    e.branch(e.op("icmp eq i64", e.emit(f"load i64, ptr {here}"), key), found, lookup)
    e.label(found)
    _add_lane(e, here, "mask", e.value("%lanemask_eq", "u32"))
    nbytes = e.emit(f"getelementptr i8, ptr {here}, i64 {abi.offset('Entry', 'bytes')}")
    length = e.cast("zext", "i32", e.emit(f"load i32, ptr {nbytes}"), "i64")
    e.state.store("Extra", "cursor", e.op("add i64", expected, length))
    e.line(f"br label %{entered}")
    e.module.declare("rt_count")
    e.text.aside(
        lookup,
        f"%at.{lookup} = call i64 @rt_count(i64 %env, i64 %thr, i32 {number}, i64 {key})",
        f"br label %{entered}",
    )
    e.label(entered)
    e.set(entry, e.emit(f"phi i64 [ {expected}, %{found} ], [ %at.{lookup}, %{lookup} ]"), "u64")


@statement("count.word{.(<space>|generic)}")
def _word(e, ins, mods, entry: str, number: str, noted: str, more: str = ""):
    """The number of an access, and its address, or a number of 32 bits. more: is added to the address."""
    if mods[1:]:
        value = e.variables.address(noted, mods[1].split("::")[0])
        value = e.cast("trunc", "i64", e.op("add i64", value, e.value(more, "u64")) if more else value, "i32")
    else:
        value = e.value(noted, "u32")
    lane = e.cast("zext", "i32", e.value("%laneid", "u32"), "i64")
    nbytes = abi.DTYPES["Entry"].itemsize + 128 * int(number)
    offset = e.op("add i64", e.op("shl i64", lane, 2), nbytes)
    e.line(f"store i32 {value}, ptr {e.emit(f'getelementptr i8, ptr {_pointer(e, entry)}, i64 {offset}')}")


@statement("count.lane")
def _lane(e, ins, mods, entry: str, place: str, holds: str):
    """The lane joins a mask of the entry where a predicate holds."""
    bit = e.emit(f"select i1 {e.value(holds, 'pred')}, i32 {e.value('%lanemask_eq', 'u32')}, i32 0")
    _add_lane(e, _pointer(e, entry), field_of(place)[1], bit)


def _pointer(e, entry: str) -> str:
    return e.text.once(f"inttoptr i64 {e.value(entry, 'u64')} to ptr")


def _add_lane(e, entry: str, field: str, bit: str) -> None:
    where = e.emit(f"getelementptr i8, ptr {entry}, i64 {abi.offset('Entry', field)}")
    e.line(f"store i32 {e.op('or i32', e.emit(f'load i32, ptr {where}'), bit)}, ptr {where}")
