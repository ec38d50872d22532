"""All checks of an access: bounds, then whether what is read has been written, then races. See `instrument/accesses`.

What a correct program does all the time is decided here in a few instructions; the runtime
(runtime/sanitizer.cu) handles everything else.
"""

from __future__ import annotations

from ..ptx.ir import Sink, Variable
from ..ptx.types import llvm_type
from ..runtime.abi import (
    DTYPES,
    INFO_ATOMIC,
    INFO_SHARED,
    INFO_VALUE,
    INFO_WRITE,
    INIT,
    LANES_OF_A_RECORD,
    LOCAL_START,
    READ,
    SLOT_BYTES,
    SYMMETRIC_LANES,
    WRITE,
    offset,
)
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
        if root is not None and nbytes >= 4:
            own = root.space == "local"
            _check_in_root(e, root, address, info, reads and unread == 0, reads, slow, race, done, site)
            slow_check(e, slow, done if own else race, [(address, 0, site)], info, unread)
        else:
            _check_anywhere(e, address, info, reads, slow, race, done, site)
            _look_closer(e, slow, race, address, site, info, unread)
        if not own:
            e.label(race)
            if value is not None:
                info |= INFO_VALUE
            what = _if_equal(e, address, info, *wanted) if wanted else str(info)
            e.state.call("rt_race", address, what, value or "0", site=site)
            e.line(f"br label %{done}")
        e.label(done)


@statement("hold")
def _hold(e, ins, mods, *arrays):
    """The values of an array, and for each granule whether it has been written. Its place in local memory stays empty."""
    e.module.declare("llvm.memset.p0.i64", "void", "ptr to, i8 value, i64 bytes, i1 volatile")
    for name in arrays:
        granules = -(-e.variables.find(name).size // 4)
        e.arrays.held[name] = f'"{name}.'
        for part, nbytes, value in (("values", 4 * granules, -1), ("written", granules, 0)):
            place = f'%{e.arrays.held[name]}{part}"'
            e.text.first(f"{place} = alloca [{nbytes} x i8], align 16")
            e.line(f"call void @llvm.memset.p0.i64(ptr align 16 {place}, i8 {value}, i64 {nbytes}, i1 false)")


@statement("check.held.(<space>|generic)")
def _held(e, ins, mods, array, info, used, address):
    """Check an access to an array that LLVM holds, and record what it writes. used: a bit for each byte that counts."""
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
    granules, index = nbytes // 4, e.op("lshr i64", offset, 2)
    t, every = f"i{8 * granules}", int.from_bytes(bytes([INIT]) * granules, "little")
    where = e.emit(f'getelementptr i8, ptr %{e.arrays.held[array]}written", i64 {index}')
    if info & INFO_WRITE:
        e.line(f"store {t} {every}, ptr {where}, align 1")
        return
    unset, good = e.fresh_label("unset"), e.fresh_label("good")
    state = e.emit(f"load {t}, ptr {where}, align 1")
    if used >= 0:
        every = sum(INIT << 8 * i for i in range(granules) if used >> 4 * i & 15)
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
    """An access to a shared or local array made of whole granules. whole: all that is read must be set."""
    nbytes = info & 255
    offset = _offset_in(e, root, address, info, site)
    base, aligned = e.variables.symbol(root.name, window=bool(info & INFO_SHARED)), e.fresh_label("aligned")
    place = offset if root.space == "local" else e.op("add i64", offset, e.variables.shared_offset(root) % 16)
    e.branch(e.op("icmp ne i64", e.op("and i64", place, nbytes - 1), 0), slow, aligned, unlikely=True)
    e.label(aligned)
    first = e.op("lshr exact i64", base, 2) if base[0] == "%" else str(int(base) // 4)
    index = e.op("add i64", first, e.op("lshr i64", offset, 2))
    shared = bool(info & INFO_SHARED)
    if root.space != "local" and not info & INFO_WRITE:
        # where the memory is quiet for this instruction, it has been found to be written in this interval
        loud = e.fresh_label("loud")
        _skip_quiet(e, address, nbytes, shared, loud, done, site)
        e.label(loud)
    if reads:
        check_shadow(e, index, nbytes // 4, INIT, shared, slow, shadow_tag(e, root.name))
        if whole:
            e.arrays.written.add((address, nbytes))
    elif info & INFO_WRITE and (address, nbytes) not in e.arrays.written:  # `x += y` has just read it
        _mark_written(e, index, nbytes // 4, READ | WRITE | INIT, shared, array=root.name)
    e.line(f"br label %{done if root.space == 'local' else race}")


def _offset_in(e, root: Variable, address: str, info: int, site: str) -> str:
    """The place of an access in its array; a fault if it is outside."""
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
    e, address: str, info: int, reads: bool, slow: str, race: str, done: str, site: str
) -> None:
    nbytes, shared = info & 255, bool(info & INFO_SHARED)
    granules = max(1, nbytes // 4)
    index = granule(e, address, nbytes, nbytes, shared, slow)
    need = needed(info) | INIT * reads
    state = check_shadow(e, index, granules, need, shared, slow, shadow_tag(e, ""))
    if info & INFO_WRITE and not info & INFO_ATOMIC:
        if nbytes < 4:
            e.state.call("rt_written", address, str(info), site=site)
        else:
            _mark_written(e, index, granules, INIT, shared, state)
    if shared and info & INFO_WRITE:
        e.line(f"br label %{race}")
    elif shared:
        _skip_quiet(e, address, nbytes, shared, race, done, site)
    elif info & INFO_WRITE:
        e.branch(_is_local(e, address), done, race)
    else:  # memory that no thread may write, or that is quiet in this interval, or that is a thread's own
        writable, loud = e.fresh_label("writable"), e.fresh_label("loud")
        t = f"i{8 * granules}"
        e.branch(e.op(f"icmp eq {t}", e.op(f"and {t}", state, WRITE), 0), done, writable)
        e.label(writable)
        _skip_quiet(e, address, nbytes, shared, loud, done, site)
        e.label(loud)
        e.branch(_is_local(e, address), done, race)


def _mark_written(e, index: str, granules: int, bits: int, shared: bool, old="", array: str = "") -> None:
    """Set bits of the shadow; without its old value, all of it."""
    t, value = f"i{8 * granules}", int.from_bytes(bytes([bits]) * granules, "little")
    where = shadow_at(e, index, shared)
    new = e.op(f"or {t}", old, value) if old else str(value)
    e.line(f"store {t} {new}, ptr {where}, align 1{shadow_tag(e, array)}")


def _skip_quiet(e, address: str, nbytes: int, shared: bool, race: str, done: str, site: str) -> None:
    """Further reads by this instruction need no check if the memory is only read in this interval; there
    is a word for each granule. If no collective orders the lanes of a warp, the same goes for memory
    touched by only one warp.
    """
    quiet = e.emit(f"inttoptr i64 {e.state.load('Env', 'quiet', invariant=True)} to ptr")
    at = e.op("add i64", address, "%sharedbase") if shared else address
    if nbytes < 4:
        at = e.op("and i64", at, -4)
    place = e.op("shl i64", at, 1)
    interval = e.state.interval
    if not e.function.entry and e.module.barriers.has_barriers:  # what is final has no token
        final = e.op("icmp ne i32", e.state.load("Env", "final"), 0)
        interval = e.emit(f"select i1 {final}, i64 0, i64 {interval}")
    known = e.cast("zext", "i32", site, "i64") if site[0] == "%" else site
    which = e.op("shl i64", known, 6) if site[0] == "%" else str(int(site) << 6)
    token = e.op("or i64", interval, which)
    tokens = [token]
    if e.module.barriers.symmetric(e.function.name) & SYMMETRIC_LANES:
        warp = e.op("lshr i32", e.state.load("Thread", "linear", invariant=True), 5)
        tokens.append(e.op("add i64", token, e.cast("zext", "i32", e.op("add i32", warp, 1), "i64")))
    n = max(1, nbytes // 4)
    loud = e.fresh_label("loud") if nbytes == 4 and len(tokens) > 1 else race
    for i in range(n):
        where = e.emit(f"getelementptr i8, ptr {quiet}, i64 {e.op('add i64', place, 8 * i) if i else place}")
        found = e.emit(f"load volatile i64, ptr {where}, align 8")
        same = [e.op("icmp eq i64", found, t) for t in tokens]
        next_ = e.fresh_label("quiet") if i < n - 1 else done
        e.branch(same[0] if len(same) == 1 else e.op("or i1", *same), next_, loud)
        if i < n - 1:
            e.label(next_)
    if loud != race:
        e.label(loud)
        _join_the_first(e, address, shared, where, found, tokens[1], done, race)


def _join_the_first(
    e, address: str, shared: bool, quiet: str, found: str, in_warp: str, done: str, race: str
) -> None:
    """The granule's first record has one lane of this warp, which has read it here, and nobody else has come
    since: this lane is added to it. With two of them on record, the others need no look.
    """
    join, first = e.fresh_label("join"), str(1 << 31)
    e.branch(e.op("icmp eq i64", found, e.op("or i64", in_warp, first)), join, race)
    e.label(join)
    cells = e.emit(f"inttoptr i64 {e.state.load('Env', 'cells', invariant=True)} to ptr")
    at = e.op("add i64", address, "%sharedbase") if shared else address
    place = e.op("mul i64", e.op("lshr i64", at, 2), DTYPES["Cell"].itemsize)
    lanes_at = e.op("add i64", place, offset("Cell", "record") + 4 * LANES_OF_A_RECORD)
    where = e.emit(f"getelementptr i8, ptr {cells}, i64 {lanes_at}")
    lane = e.op("and i32", e.state.load("Thread", "linear", invariant=True), 31)
    lanes = e.emit(f"load volatile i32, ptr {where}, align 4")
    more = e.op("or i32", lanes, e.op("shl i32", 1, lane))
    e.line(f"store volatile i32 {more}, ptr {where}, align 4")
    same = e.op("icmp eq i32", lanes, more)
    e.line(
        f"store volatile i64 {e.emit(f'select i1 {same}, i64 {found}, i64 {in_warp}')}, ptr {quiet}, align 8"
    )
    e.line(f"br label %{done}")


def _is_local(e, address: str) -> str:
    """Local memory is a thread's own: past LOCAL_START in one of the slots, which are the arena's upper half."""
    upper = e.op("icmp uge i64", address, e.module.slots_start)
    late = e.op("icmp ne i64", e.op("and i64", address, SLOT_BYTES - LOCAL_START), 0)
    return e.op("and i1", upper, late)
