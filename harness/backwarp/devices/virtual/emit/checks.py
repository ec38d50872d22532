"""The check of an access's bounds: see `instrument/bounds`.

The check of an n-byte access at device address A: rotate A right by log2(n), so that a misaligned address
becomes a huge index and one comparison against the arena's size finds both; then one load of the shadow
of those n bytes. A correct program never takes either branch; the slow path decides exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..analyse.access_groups import GAP, SHARED_GAP
from ..ptx.ir import operand
from ..runtime.abi import INFO_ATOMIC, INFO_SHARED, INFO_WRITE, READ, SHARED_WINDOW, WRITE
from .control import DEAD
from .table import statement

#: of memory that stays as it is while a kernel runs
_FIXED = ", !invariant.load !1"


@statement("check.bounds.(<space>|generic)")
def _bounds(e, ins, mods, info, *addresses):
    """Several addresses have one base, and the same remainder by the size."""
    info, space = info.value, ins.op.space
    nbytes, shared, need = info & 255, bool(info & INFO_SHARED), needed(info)
    offsets = [address.offset for address in addresses]
    first = min(offsets)
    if e.limits and e.limits.always(ins.about[0], first, max(offsets) + nbytes - first):
        return
    base = e.variables.address(operand(f"[{addresses[0].base}]"), space) if len(addresses) > 1 else ""
    start = (
        e.once(f"add i64 {base}, {first}")
        if base and first
        else base or e.variables.address(addresses[0], space)
    )
    with guarded(e, ins):
        slow, good = e.fresh_label("slow"), e.fresh_label("good")
        span = max(offsets) + nbytes - first
        each = [(start, 0, e.sites.of(ins))]
        if base:
            each = [(base, offset, e.sites.of(i)) for offset, i in zip(offsets, ins.about, strict=True)]
        if e.limits:
            e.branch(e.limits.inside(ins.about[0], start, span), good, slow, likely=True)
        else:
            index = granule(e, start, nbytes, span, shared, slow)
            windows = [(0, max(1, nbytes // 4))]
            if base:
                windows = _windows(span // 4, (SHARED_GAP if shared else GAP) // 4)
            for at, width in windows:
                part = e.op("add i64", index, at) if at else index
                check_shadow(e, part, width, need, shared, slow, _FIXED)
            e.line(f"br label %{good}")
        slow_check(e, slow, good, each, info)
        e.label(good)


@contextmanager
def guarded(e, ins) -> Iterator[None]:
    """What is emitted inside the context is executed if the instruction's guard, if any, holds."""
    if not ins.pred:
        yield
        return
    give, on = e.fresh_label("row"), e.fresh_label("rows")
    e.branch(e.value(ins.pred, "pred"), give, on)
    known = e.text.remembered()
    e.label(give)
    yield
    e.line(f"br label %{on}")
    e.label(on)
    e.text.recall(known)


def needed(info: int) -> int:
    """The shadow bits that must be set."""
    reads = info & INFO_ATOMIC or not info & INFO_WRITE
    return READ * bool(reads) | WRITE * bool(info & INFO_WRITE)


def granule(e, address: str, nbytes: int, span: int, shared: bool, slow: str) -> str:
    """Index of the first granule; goes to `slow` when [address, address + span) is misaligned or outside."""
    shift = nbytes.bit_length() - 1
    limit = ((SHARED_WINDOW if shared else e.module.arena_size) - span >> shift) + 1
    index = address
    if shift:
        index = e.emit(f"call i64 @llvm.fshr.i64(i64 {address}, i64 {address}, i64 {shift})")
    inside = e.fresh_label("inside")
    e.branch(e.op("icmp uge i64", index, limit), slow, inside, unlikely=True)
    e.label(inside)
    if nbytes < 4:
        return e.op("lshr i64", index, 2 - shift)
    return e.op("shl i64", index, shift - 2) if nbytes > 4 else index


def check_shadow(e, index: str, granules: int, need: int, shared: bool, slow: str, tag: str) -> str:
    """Go to `slow` unless all granules have all bits of `need`. tag: of the load.

    Returns the shadow bytes, as an integer.
    """
    t = f"i{8 * granules}"
    where = shadow_at(e, index, shared)
    state = e.emit(f"load {t}, ptr {where}, align 1{tag}")
    wanted = int.from_bytes(bytes([need]) * granules, "little")
    bits = e.op(f"and {t}", state, wanted)
    valid = e.fresh_label("valid")
    e.branch(e.op(f"icmp ne {t}", bits, wanted), slow, valid, unlikely=True)
    e.label(valid)
    return state


def shadow_at(e, index: str, shared: bool) -> str:
    return e.emit(f"getelementptr i8, ptr {'%sharedshadow' if shared else '%shadow'}, i64 {index}")


def slow_check(e, slow: str, good: str, accesses, info: int, unread: int = 0) -> None:
    """Out of line, at the end of the function: the runtime decides exactly, one access after the other.

    unread: a bit for each byte that does not count.
    """
    e.module.declare("rt_check")
    if e.limits:
        return _check_apart(e, slow, good, accesses, info)
    label = slow
    for i, (base, offset, site) in enumerate(accesses):
        next_ = good if i == len(accesses) - 1 else f"{slow}.{i}"
        e.text.aside(
            label,
            f"%at.{label} = add i64 {base}, {offset}",
            f"%ok.{label} = call i32 @rt_check(i64 %env, i64 {e.threads.address}, i64 %at.{label}, i32 {site}, i32 {info}, i64 {unread})",
            f"%good.{label} = icmp ne i32 %ok.{label}, 0",
            f"br i1 %good.{label}, label %{next_}, label %{DEAD}",
        )
        label = next_


# It leaves its caller all registers, which would else be kept in memory all the time (see `targets.Target`).
_APART = """
define internal preserve_mostcc i1 @checks.apart(i64 %env, i64 %thr, i64 %base, ptr %accesses, i64 %count, i32 %info) cold noinline {keeping} {{
entry:
  br label %one
one:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  %access = getelementptr {{ i64, i32 }}, ptr %accesses, i64 %i
  %offset = load i64, ptr %access
  %site.a = getelementptr i8, ptr %access, i64 8
  %site = load i32, ptr %site.a
  %address = add i64 %base, %offset
  %allowed = call i32 @rt_check(i64 %env, i64 %thr, i64 %address, i32 %site, i32 %info, i64 0)
  %right = icmp ne i32 %allowed, 0
  br i1 %right, label %good, label %done
good:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %one, label %done
done:
  ret i1 %right
}}
"""


def _check_apart(e, slow: str, good: str, accesses, info: int) -> None:
    """The same, with less code: of accesses with one base."""
    helpers, keeping = e.module.helpers, e.module.facts.keeping
    helpers["checks.apart"] = _APART.format(keeping=keeping)
    rows = ", ".join(f"{{ i64, i32 }} {{ i64 {offset}, i32 {site} }}" for _, offset, site in accesses)
    table = f"@checks.{len(helpers)}"
    helpers[table] = f"{table} = private constant [{len(accesses)} x {{ i64, i32 }}] [ {rows} ]"
    given = f"i64 %env, i64 %thr, i64 {accesses[0][0]}, ptr {table}, i64 {len(accesses)}, i32 {info}"
    e.text.aside(
        slow,
        f"%ok.{slow} = call preserve_mostcc i1 @checks.apart({given}) {keeping}",
        f"br i1 %ok.{slow}, label %{good}, label %{DEAD}",
    )


def suspect_at(e, label: str) -> None:
    """Out of line: something unset has been read."""
    e.module.declare("rt_suspect")
    e.text.aside(
        label,
        f"%suspect.{label} = call i32 @rt_suspect(i64 %env, i64 {e.threads.address}, i32 0)",
        f"br label %{DEAD}",
    )


def _windows(granules: int, gap: int) -> list[tuple[int, int]]:
    """(first granule, how many) of the shadow words that prove `granules` in a row valid.

    A short run is covered completely, by words that may overlap; in a long one the gap between two words is
    always smaller than a red zone.
    """
    if granules <= 16:
        width = next(w for w in (8, 4, 2, 1) if w <= granules)
        return [(at, width) for at in range(0, granules - width, width)] + [(granules - width, width)]
    return [(at, 1) for at in range(0, granules - 1, gap)] + [(granules - 1, 1)]
