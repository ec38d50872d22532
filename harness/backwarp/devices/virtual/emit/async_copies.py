"""cp.async, cp.async.bulk and mbarrier: copies that arrive as late as allowed, and barriers in shared memory.

Source: PTX ISA, sections 9.7.9.25 (cp.async), 9.7.9.27 (copies of tensors) and 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

from ..ptx.ir import Vector
from ..ptx.types import llvm_type
from ..runtime.abi import BULKS, MB_LOOK, MBARRIERS, TENSOR_TYPES, UPDATES, WAIT
from .control import DEAD
from .memory import place

#: types of elements by those of instructions
_TYPES = dict(
    zip(
        ("u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "b32", "b64"),
        (
            "uint32",
            "int32",
            "uint64",
            "int64",
            "float16",
            "float32",
            "float64",
            "bfloat16",
            "uint32",
            "uint64",
        ),
    )
)
_GROUP_UPDATE, _GROUP_TYPE, _GROUP_RANK = (
    4,
    8,
    12,
)  # in `how`: where a reduction, a type and a number of axes are


_MULTICAST, _MASK = 16, 32  # a bit of `how`; in the word of bytes: the ranks of those who get it


def emit(e, ins) -> None:
    """Lower cp.async, cp.async.bulk and mbarrier."""
    op = ins.op
    if op.is_mbarrier:
        return _mbarrier(e, ins)
    if op.bulk:
        return _bulk(e, ins)
    if op.base == "setmaxnreg":
        e.state.call("rt_registers", str(ins.named["n"].value), site=e.sites.of(ins))
        return
    if op.base == "wgmma":
        waits = [str(ins.named["n"].value)] if op.operation == "wait_group" else []
        e.state.call("rt_wgmma_wait" if waits else "rt_wgmma_commit", *waits, site=e.sites.of(ins))
        return
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


def _bulk(e, ins) -> None:
    """Copies are checked now, and arrive when their barrier, or their group, is waited for."""
    op, named = ins.op, ins.named
    if op.operation == "commit_group":
        e.state.call("rt_bulk_commit", site=e.sites.of(ins))
        return
    if op.operation == "wait_group":
        e.state.call("rt_bulk_wait", str(named["n"].value), str(int("read" in op.mods)), site=e.sites.of(ins))
        return
    if op.base != "cp":
        return _send(e, ins)
    texel, places = named.get("t"), [o for o in ins.operands if o in (named.get("d"), named.get("a"))]
    kind = "im2col" if "im2col" in op.mods else "tile" if texel else "load"
    if op.spaces[0] == "global":
        kind = "store_tile" if texel else "store"
    elif "global" not in op.spaces:
        kind = "send"
    if texel:
        numbers = [(i, e.value(o, "b32"), "i32") for i, o in enumerate(texel.coordinates)]
        offsets = (
            named["o"].parts if isinstance(named.get("o"), Vector) else [*filter(None, [named.get("o")])]
        )
        numbers += [(5 + i, e.value(o, "u16"), "i16") for i, o in enumerate(offsets)]
        for i, value, type_ in numbers:
            wide = e.op("and i64", e.resize(value, type_, "i64"), 0xFFFFFFFF if type_ == "i32" else 0xFFFF)
            e.line(f"store i64 {wide}, ptr {e.state.pointer('Extra', 'data', 8 * i)}")
    spaces = ("cluster", *op.spaces[1:]) if op.to_cluster else op.spaces
    addresses = [
        _in(e, o, s) for o, s in zip(places, (spaces[0] if op.to_cluster else "shared",) if texel else spaces)
    ]
    if texel:
        addresses.insert(op.spaces[0] == "shared", e.value(texel.handle, "b64"))
    update = op.operation if op.mods[0] == "reduce" else "none"
    type_ = _TYPES.get(op.type, "uint32")
    how = (
        BULKS.index(kind) | UPDATES.index(update) << _GROUP_UPDATE | TENSOR_TYPES.index(type_) << _GROUP_TYPE
    )
    barrier = _in(e, named["m"], spaces[0]) if "m" in named else "0"
    nbytes = e.cast("zext", "i32", e.value(named["b"], "u32"), "i64") if "b" in named else "0"
    if "k" in named:  # which blocks of the cluster get it
        mask = e.op("shl i64", e.resize(e.value(named["k"], "u16"), "i16", "i64"), _MASK)
        nbytes, how = e.op("or i64", nbytes, mask), how | 1 << _MULTICAST
    good = e.fresh_label("copying")
    given = str(how | op.rank << _GROUP_RANK), *addresses, barrier, nbytes
    e.branch(e.op("icmp ne i32", e.state.call("rt_bulk", *given, site=e.sites.of(ins)), 0), good, DEAD)
    e.label(good)


def _send(e, ins) -> None:
    """st.async and red.async: up to 16 bytes that arrive in the shared memory of a block of the cluster."""
    op, named = ins.op, ins.named
    space = "cluster" if op.spaces else "generic"
    to, barrier = _in(e, named["d"], space), _in(e, named["m"], space)
    for i, register in enumerate(named["b"].parts):
        bits = e.value(register, f"b{8 * op.nbytes}")
        wide = e.resize(bits, f"i{8 * op.nbytes}", "i64")
        e.line(f"store i64 {wide}, ptr {e.state.pointer('Extra', 'data', 8 * i)}")
    update = UPDATES.index(op.operation or "none") << _GROUP_UPDATE
    how = (
        BULKS.index("value")
        | update
        | TENSOR_TYPES.index(_TYPES[op.type]) << _GROUP_TYPE
        | op.vector << _GROUP_RANK
    )
    good = e.fresh_label("sending")
    given = str(how), to, "0", barrier, str(op.width)
    e.branch(e.op("icmp ne i32", e.state.call("rt_bulk", *given, site=e.sites.of(ins)), 0), good, DEAD)
    e.label(good)


def _in(e, operand, space: str) -> str:
    """The device address that an operand denotes. cluster: it is a distance from the block's shared memory."""
    address = e.variables.address(operand, "shared" if space == "cluster" else space)
    if space == "cluster":
        return e.op("add i64", address, "%sharedbase")
    return (
        e.op("add i64", e.op("and i64", address, 0xFFFFFFFF), "%sharedbase") if space == "shared" else address
    )


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
    if "expect_tx" in op.mods and op.operation != "expect_tx":
        _call(e, ins, "expect_tx", host, argument)
        argument = "1"
    what = "parity" if "parity" in op.mods else "test" if op.waits else op.operation
    suspends = op.operation == "try_wait" and e.control.coroutine
    result = _call(e, ins, what, host, argument, MB_LOOK * suspends)
    if suspends:
        return _wait(e, ins, result, what, host, argument)
    if op.waits:
        e.set(named["d"], e.cast("trunc", "i64", result, "i1"), "pred")
    elif op.has_result:
        e.set(named["d"], result, "b64")


def _call(e, ins, what: str, host: str, argument: str, how: int = 0) -> str:
    given = f"i64 {MBARRIERS.index(what) | how}, i64 {host}, i64 {argument}"
    return e.emit(f"call i64 @rt_mbarrier(i64 %env, i64 %thr, i32 {e.sites.of(ins)}, {given})")


def _wait(e, ins, over: str, what: str, host: str, argument: str) -> None:
    """The thread goes on when the phase is over."""
    wait, done = e.fresh_label("phase"), e.fresh_label("passed")
    e.branch(e.op("icmp ne i64", over, 0), done, wait)
    e.label(wait)
    for i, value in enumerate((host, str(MBARRIERS.index(what)), argument)):
        e.state.store("Thread", f"arg{i}", value)
    own = ins  # of the student's
    while not own.at.line and own.expansion:
        own = own.expansion.call
    e.state.store("Thread", "result1", e.sites.of(own.expansion.call) if own.expansion else "0")
    e.state.store("Thread", "site", e.sites.of(ins))
    e.state.store("Thread", "wait", WAIT["phase"])
    e.control.suspend()
    e.line(f"br label %{done}")
    e.label(done)
    e.set(ins.named["d"], "true", "pred")


def _arrive_after_copies(e, ins) -> None:
    """The arrival triggered by the copies so far: they complete now, and the thread arrives."""
    e.state.call("rt_copy_wait", str(0xFFFFFFFF), site=e.sites.of(ins))
    host = e.emit(f"ptrtoint ptr {place(e, ins)} to i64")
    if "noinc" not in ins.op.mods:  # first the pending count goes up by one
        _call(e, ins, "arrive", host, "-1")
    _call(e, ins, "arrive", host, "1")
