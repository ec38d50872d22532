"""cp.async and mbarrier: copies that arrive as late as allowed, and barriers in shared memory.

Source: PTX ISA, sections 9.7.9.25 (cp.async) and 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

from ..ptx.types import llvm_type
from .control import DEAD
from .memory import place

_OPERATIONS = ("init", "arrive", "arrive_drop", "test_wait", "inval", "parity")


def emit(e, ins) -> None:
    """Lower cp.async and mbarrier."""
    op = ins.op
    if op.is_mbarrier:
        return _mbarrier(e, ins)
    if op.memory == "copy":
        _copy(e, ins)
    elif op.operation == "arrive":
        _arrive_after_copies(e, ins)
    elif op.operation == "commit_group":
        e.state.call("rt_copy_commit", site=e.sites.of(ins))
    else:
        all_but = ins.named["n"].value if op.operation == "wait_group" else 0xFFFFFFFF
        e.state.call("rt_copy_wait", str(all_but), site=e.sites.of(ins))


def _copy(e, ins) -> None:
    """`[to], [from], size{, bytes to read}`: bounds are checked now, the bytes move at the wait."""
    inside = e.op("and i64", e.variables.address(ins.operands[0], "shared"), 0xFFFFFFFF)
    to = e.op("add i64", inside, "%sharedbase")
    source = e.variables.address(ins.operands[1], "global")
    size = ins.named["n"].value
    given = str(size)
    if (operand := ins.named.get("b")) is not None:
        if e.values.types.get(operand) == "pred":  # ignore-src
            ignored = e.value(operand, "pred")
            given = e.emit(f"select i1 {ignored}, i64 0, i64 {size}")
        else:
            given = e.cast("zext", "i32", e.value(operand, "u32"), "i64")
    good = e.fresh_label("copying")
    ok = e.state.call("rt_copy", to, source, str(size), given, site=e.sites.of(ins))
    e.branch(e.op("icmp ne i32", ok, 0), good, DEAD)
    e.label(good)


def _mbarrier(e, ins) -> None:
    op, named = ins.op, ins.named
    if op.operation == "pending_count":
        state = e.op("lshr i64", e.value(named["a"], "b64"), 20)
        e.set(named["d"], e.cast("trunc", "i64", e.op("and i64", state, 0xFFFFF), "i32"), "b32")
        return
    host = e.emit(f"ptrtoint ptr {place(e, ins)} to i64")
    argument = "1"
    if "b" in named:
        type_ = next(role.type for role in ins.roles if role.name == "b")
        argument = e.resize(e.value(named["b"], type_), llvm_type(type_), "i64")
    what = "parity" if "parity" in op.mods else op.operation.replace("try_wait", "test_wait")
    code = _OPERATIONS.index(what)
    result = e.emit(
        f"call i64 @rt_mbarrier(i64 %env, i64 %thr, i32 {e.sites.of(ins)}, i64 {code}, i64 {host}, i64 {argument})"
    )
    if op.waits:
        e.set(named["d"], e.cast("trunc", "i64", result, "i1"), "pred")
    elif op.has_result:
        e.set(named["d"], result, "b64")


def _arrive_after_copies(e, ins) -> None:
    """The arrival triggered by the copies so far: they complete now, and the thread arrives."""
    e.state.call("rt_copy_wait", str(0xFFFFFFFF), site=e.sites.of(ins))
    host = e.emit(f"ptrtoint ptr {place(e, ins)} to i64")
    code = _OPERATIONS.index("arrive")
    if "noinc" not in ins.op.mods:  # first the pending count goes up by one
        e.emit(
            f"call i64 @rt_mbarrier(i64 %env, i64 %thr, i32 {e.sites.of(ins)}, i64 {code}, i64 {host}, i64 -1)"
        )
    e.emit(f"call i64 @rt_mbarrier(i64 %env, i64 %thr, i32 {e.sites.of(ins)}, i64 {code}, i64 {host}, i64 1)")
