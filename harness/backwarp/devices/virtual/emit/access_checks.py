"""All checks of an access: bounds, then whether what is read has been written, then races. See `instrument/accesses`.

The common cases of a correct program are decided here in a few instructions; the runtime
(runtime/sanitizer.cu) handles everything else.
"""

from __future__ import annotations

from ..ptx.ir import Sink, Variable
from ..ptx.types import BITS, llvm_type
from ..runtime.abi import (
    GRANULE,
    INFO_ATOMIC,
    INFO_FINAL,
    INFO_SEEN,
    INFO_SHARED,
    INFO_VALUE,
    INFO_VOLATILE,
    INFO_WRITE,
    INIT,
    LOCAL_START,
    PARTIAL,
    READ,
    SLOT_BYTES,
    WRITE,
)
from . import epochs
from .checks import check_shadow, granule, guarded, needed, shadow_at, slow_check, suspect_at
from .control import DEAD
from .memory import place_in, shadow_tag
from .table import statement


@statement("check.access{.set}{.cas.<bits>}.(<space>|generic)")
def _access(e, ins, mods, array, info, unread, address, given):
    """Check an access, and record what it writes."""
    info, unread, root = info.value, unread.value, None if type(array) is Sink else e.variables.find(array)
    value = wanted = None
    if "cas" in mods:
        wanted = llvm_type(ins.op.type), e.value(given, ins.op.type)
    elif type(given) is not Sink:
        bits = 8 * (info & 255)
        value = e.resize(e.value(given, f"b{bits}"), f"i{bits}", "i64")
    address = e.variables.address(address, ins.op.space)
    with guarded(e, ins):
        slow, site = e.fresh_label("slow"), e.sites.of(ins)
        race, done = e.fresh_label("race"), e.fresh_label("checked")
        reads, nbytes, own = "set" in mods, info & 255, False  # own: to this thread
        if root is not None and (nbytes >= 4 or root.space == "local"):
            own = root.space == "local"
            _check_in_root(e, root, address, info, reads and unread == 0, reads, slow, race, done, site)
            slow_check(e, slow, done if own else race, [(address, 0, site)], info, unread)
        else:
            _check_anywhere(e, address, info, reads, unread, slow, race, done, site)
            _look_closer(e, slow, race, address, site, info, unread)
        if not own:
            e.label(race)
            info |= INFO_VALUE * (value is not None) | INFO_SEEN * (reads and not unread and nbytes >= 4)
            what = _if_equal(e, address, info, *wanted) if wanted else str(info)
            e.state.call("rt_race", address, what, value or "0", site=site)
            e.line(f"br label %{done}")
        e.label(done)


@statement("hold.<data>")
def _hold(e, ins, mods, name):
    """The values of an array, and for each so many of its bits whether they have been written. Its space in local memory
    stays unused."""
    e.module.declare("llvm.memset.p0.i64", "void", "ptr to, i8 value, i64 bytes, i1 volatile")
    unit, granules = BITS[mods[0]] // 8, -(-e.variables.find(name).size // GRANULE)
    e.arrays.held[name] = f'"{name}.', unit
    for part, nbytes, value in (
        ("values", GRANULE * granules, -1),
        ("written", GRANULE // unit * granules, 0),
    ):
        place = f'%"{name}.{part}"'
        e.text.first(f"{place} = alloca [{nbytes} x i8], align 16")
        e.line(f"call void @llvm.memset.p0.i64(ptr align 16 {place}, i8 {value}, i64 {nbytes}, i1 false)")


@statement("check.held.(<space>|generic)")
def _held(e, ins, mods, array, info, used, address):
    """Check an access to an array kept in LLVM values, and record what it writes. used: a bit for each byte
    that counts."""
    info, used, address, site = (
        info.value,
        used.value,
        e.variables.address(address, ins.op.space),
        e.sites.of(ins),
    )
    nbytes = info & 255
    offset = _offset_in(e, e.variables.find(array), address, info, site)
    crooked, straight = e.fresh_label("crooked"), e.fresh_label("straight")
    e.branch(e.op("icmp ne i64", e.op("and i64", offset, nbytes - 1), 0), crooked, straight, unlikely=True)
    slow_check(e, crooked, DEAD, [(address, 0, site)], info)
    e.label(straight)
    place, unit = e.arrays.held[array]
    count, index = nbytes // unit, e.op("udiv i64", offset, unit)
    t, every = f"i{8 * count}", _each(INIT, count)
    where = e.emit(f'getelementptr i8, ptr %{place}written", i64 {index}')
    if info & INFO_WRITE:
        e.line(f"store {t} {every}, ptr {where}, align 1")
        return
    unset, good = e.fresh_label("unset"), e.fresh_label("good")
    state = e.emit(f"load {t}, ptr {where}, align 1")
    if used >= 0:
        every = sum(INIT << 8 * i for i in range(count) if used >> unit * i & (1 << unit) - 1)
        state = e.op(f"and {t}", state, every)
    e.branch(e.op(f"icmp ne {t}", state, every), unset, good, unlikely=True)
    suspect_at(e, unset)
    e.label(good)


def _if_equal(e, address: str, info: int, type_: str, wanted: str) -> str:
    """The info of a compare-and-swap: one that finds a different value writes nothing."""
    base = "%shared" if info & INFO_SHARED else "%arena"
    where = e.emit(f"getelementptr i8, ptr {base}, i64 {address}")
    found = e.emit(f"load volatile {type_}, ptr {where}, align 1")
    equal = e.op(f"icmp eq {type_}", found, wanted)
    return e.emit(f"select i1 {equal}, i64 {info}, i64 {info & ~INFO_WRITE}")


def _look_closer(e, slow: str, race: str, address: str, site: str, info: int, unread: int) -> None:
    """Out of line, at the end of the function: the runtime decides exactly, as if nothing were known."""
    checked = e.fresh_label("closer")
    slow_check(e, slow, checked, [(address, 0, site)], info, unread)
    lines = [f"br label %{race}"]
    if info & INFO_WRITE and not info & INFO_ATOMIC:
        e.module.declare("rt_written")
        call = (
            f"call i32 @rt_written(i64 %env, i64 {e.threads.address}, i32 {site}, i64 {address}, i64 {info})"
        )
        lines.insert(0, f"%written.{checked} = {call}")
    e.text.aside(checked, *lines)


def _check_in_root(
    e,
    root: Variable,
    address: str,
    info: int,
    whole: bool,
    reads: bool,
    slow: str,
    race: str,
    done: str,
    site: str,
) -> None:
    """An access to a local array, or to whole granules of a shared one. whole: all that is read must be set."""
    nbytes = info & 255
    offset = _offset_in(e, root, address, info, site)
    base, aligned = e.variables.symbol(root.name, window=bool(info & INFO_SHARED)), e.fresh_label("aligned")
    place = offset if root.space == "local" else e.op("add i64", offset, e.variables.shared_offset(root) % 16)
    e.branch(e.op("icmp ne i64", e.op("and i64", place, nbytes - 1), 0), slow, aligned, unlikely=True)
    e.label(aligned)
    first = e.op("lshr exact i64", base, 2) if base[0] == "%" else str(int(base) // 4)
    index = e.op("add i64", first, e.op("lshr i64", offset, 2))
    shared = bool(info & INFO_SHARED)
    if nbytes < 4:
        _check_bytes(e, index, offset, info, 0, reads, shared, slow, root.name)
        e.line(f"br label %{done}")
        return
    if root.space != "local" and whole and not info & (INFO_WRITE | epochs.LOOKED_AT) and e.state.alone:
        unsure = e.fresh_label("unsure")
        epochs.touch(e, info)
        e.branch(epochs.only_read(e, address, nbytes, shared), done, unsure, likely=True)
        e.label(unsure)
    if reads:
        check_shadow(e, index, nbytes // 4, INIT, shared, slow, shadow_tag(e, root.name))
        if whole:
            e.arrays.written.add((address, nbytes))
    elif info & INFO_WRITE and (address, nbytes) not in e.arrays.written:  # `x += y` has just read it
        _mark_written(e, index, nbytes // 4, READ | WRITE | INIT, shared, array=root.name)
    if root.space == "local":
        e.line(f"br label %{done}")
    else:
        epochs.skip_known(e, address, info, shared, True, whole, race, done)


def _offset_in(e, root: Variable, address: str, info: int, site: str) -> str:
    """The offset of an access in its array; a fault if it is outside."""
    offset = place_in(e, root.name, address, window=bool(info & INFO_SHARED))
    outside, inside = e.fresh_label("outside"), e.fresh_label("inside")
    limit = max(root.size - (info & 255) + 1, 0)
    e.branch(e.op("icmp uge i64", offset, limit), outside, inside, unlikely=True)
    e.label(outside)
    e.state.call("rt_outside", address, str(info), site=site)
    e.line(f"br label %{DEAD}")
    e.label(inside)
    return offset


def _check_anywhere(
    e, address: str, info: int, reads: bool, unread: int, slow: str, race: str, done: str, site: str
) -> None:
    nbytes, shared = info & 255, bool(info & INFO_SHARED)
    granules = max(1, nbytes // 4)
    index = granule(e, address, nbytes, nbytes, shared, slow)
    need = needed(info) | INIT * reads
    # memory that no thread may write; whoever waits for a change there still has to be known
    if not shared and not info & (INFO_WRITE | INFO_ATOMIC | INFO_VOLATILE):
        t, writable = f"i{8 * granules}", e.fresh_label("writable")
        state = e.emit(f"load {t}, ptr {shadow_at(e, index, shared)}, align 1{shadow_tag(e, '')}")
        state = e.op(f"and {t}", state, _each(need | WRITE, granules))
        e.branch(e.op(f"icmp eq {t}", state, _each(need, granules)), done, writable, likely=True)
        e.label(writable)
    if nbytes < 4 and not info & INFO_ATOMIC:
        _check_bytes(e, index, address, info, needed(info), reads, shared, slow)
    else:
        state = check_shadow(e, index, granules, need, shared, slow, shadow_tag(e, ""))
        if info & INFO_WRITE and not info & INFO_ATOMIC:
            _mark_written(e, index, granules, INIT, shared, state)
    seen = reads and not unread
    if shared:
        epochs.skip_known(e, address, info, shared, True, seen, race, done)
        return
    other = e.fresh_label("other")
    if e.function.entry and nbytes >= 4 and not info & INFO_FINAL:
        epochs.skip_known(e, address, info, shared, False, seen, other, done)
        e.label(other)
        e.branch(_is_local(e, address), done, race)
    else:  # functions often get references to their callers' variables
        e.branch(_is_local(e, address), done, other)
        e.label(other)
        epochs.skip_known(e, address, info, shared, False, seen, race, done)


def _check_bytes(
    e, index: str, address: str, info: int, need: int, reads: bool, shared: bool, slow: str, array: str = ""
) -> None:
    """An access to one or two bytes: go to `slow` unless their granule has all bits of `need`, and what is read is set, and
    record what is written. Until all of a granule is, the upper half of its state says which bytes are; in the last granule of
    an array always, and where it ends."""
    where, tag = shadow_at(e, index, shared), shadow_tag(e, array)
    state = e.emit(f"load i8, ptr {where}, align 1{tag}")
    nbytes, shift = info & 255, e.cast("trunc", "i64", e.op("and i64", address, 3), "i8")
    bits = e.op("shl i8", ((1 << nbytes) - 1) << 4, shift)
    good = "true"
    if need:  # otherwise it is known to be in its array
        behind = e.op("shl i16", 1 << nbytes + 4, e.cast("zext", "i8", shift, "i16"))
        ends_later = e.op("icmp uge i16", e.cast("zext", "i8", state, "i16"), behind)
        last = PARTIAL | INIT * bool(info & INFO_WRITE)
        in_last = e.op("and i1", e.op("icmp eq i8", e.op("and i8", state, last), last), ends_later)
        good = e.op("or i1", e.op("icmp eq i8", e.op("and i8", state, need), need), in_last)
    if reads:
        all_ = e.op("icmp eq i8", e.op("and i8", state, INIT | PARTIAL), INIT)
        these = e.op("icmp eq i8", e.op("and i8", state, bits), bits)
        good = e.op("and i1", good, e.op("or i1", all_, these))
    ready = e.fresh_label("ready")
    e.branch(good, ready, slow, likely=True)
    e.label(ready)
    if info & INFO_WRITE:
        new = e.op("or i8", state, bits)
        whole = e.op("icmp eq i8", e.op("and i8", new, 15 << 4 | PARTIAL), 15 << 4)
        new = e.op("or i8", new, e.emit(f"select i1 {whole}, i8 {INIT}, i8 0"))
        first, marked = e.fresh_label("first"), e.fresh_label("marked")
        # where nothing is new, the next check need not wait for a store
        e.branch(e.op("icmp eq i8", new, state), marked, first)
        e.label(first)
        e.line(f"store i8 {new}, ptr {where}, align 1{tag}")
        e.line(f"br label %{marked}")
        e.label(marked)


def _each(bits: int, granules: int) -> int:
    """The same bits in the shadow of each granule."""
    return int.from_bytes(bytes([bits]) * granules, "little")


def _mark_written(e, index: str, granules: int, bits: int, shared: bool, old="", array: str = "") -> None:
    """Set bits of the shadow; without its old value, all of it."""
    t, value = f"i{8 * granules}", _each(bits, granules)
    where = shadow_at(e, index, shared)
    new = e.op(f"or {t}", old, value) if old else str(value)
    e.line(f"store {t} {new}, ptr {where}, align 1{shadow_tag(e, array)}")


def _is_local(e, address: str) -> str:
    """Local memory is a thread's own: past LOCAL_START in one of the slots, which are the arena's upper half."""
    upper = e.op("icmp uge i64", address, e.module.slots_start)
    late = e.op("icmp ne i64", e.op("and i64", address, SLOT_BYTES - LOCAL_START), 0)
    return e.op("and i1", upper, late)
