"""Full checks of the accesses of lanes: has what is read been written, and could there be a race?

The words of the granules, as for single threads (see `epochs`), decide for all lanes at once where they access one
place or a row of places. The runtime looks at other accesses lane by lane (runtime/lanes.cu). Where either is not sure that
nothing is wrong, the launch ends, and single threads run it again, whose checks tell what is.
"""

from __future__ import annotations

from ...ptx.ir import Instruction
from ...runtime import abi
from ...runtime.abi import (
    INFO_FINAL,
    INFO_SEEN,
    INFO_SHARED,
    INFO_WRITE,
    INIT,
    WHO_SEVERAL,
    WORD_OTHERS,
    WORD_WRITTEN,
    WORD_WROTE,
)
from .values import ROW

# Of a row: granule i belongs to lane i / each. Lanes that take no part count as good, and change nothing.
_OF_ROW = """
row:
  %takes.part = bitcast i{width} %some to <{width} x i1>
  %each = shufflevector <{width} x i1> %takes.part, <{width} x i1> poison, <{n} x i32> <{spread}>
  %idle = xor <{n} x i1> %each, splat (i1 true)
  %own.0 = insertelement <{n} x i64> poison, i64 %own, i64 0
  %own.1 = shufflevector <{n} x i64> %own.0, <{n} x i64> poison, <{n} x i32> zeroinitializer
  %own.v = add <{n} x i64> %own.1, <{numbers}>
  %old.0 = insertelement <{n} x i64> poison, i64 %oldest, i64 0
  %old.v = shufflevector <{n} x i64> %old.0, <{n} x i64> poison, <{n} x i32> zeroinitializer
  %w = load <{n} x i64>, ptr %words, align 8
  %who = lshr <{n} x i64> %w, splat (i64 8)
  %when = lshr <{n} x i64> %w, splat (i64 32)
  %mine = icmp eq <{n} x i64> %who, %own.v
  %fresh = icmp ult <{n} x i64> %when, %old.v
  %base = shl <{n} x i64> %own.v, splat (i64 8)
  %s = load <{n} x i8>, ptr %shadow, align 1
"""
_READ_ROW = """
  %set.0 = and <{n} x i8> %s, splat (i8 {init})
  %set = icmp ne <{n} x i8> %set.0, zeroinitializer
  %sev.0 = insertelement <{n} x i64> poison, i64 %several, i64 0
  %sev.v = shufflevector <{n} x i64> %sev.0, <{n} x i64> poison, <{n} x i32> zeroinitializer
  %shared = icmp eq <{n} x i64> %who, %sev.v
  %old.mine = or <{n} x i1> %mine, %shared
  %now.v = lshr <{n} x i64> %sev.v, splat (i64 24)
  %in.interval = icmp eq <{n} x i64> %when, %now.v
  %wrote = and <{n} x i64> %w, splat (i64 {wrote})
  %clean = icmp eq <{n} x i64> %wrote, zeroinitializer
  %join.0 = and <{n} x i1> %in.interval, %clean
  %join.1 = xor <{n} x i1> %old.mine, splat (i1 true)
  %join.2 = and <{n} x i1> %join.0, %join.1
  %joins = select i1 %alone, <{n} x i1> %join.2, <{n} x i1> zeroinitializer
  %good.0 = or <{n} x i1> %old.mine, %joins
  %good.1 = or <{n} x i1> %good.0, %fresh
  %good.2 = and <{n} x i1> %good.1, %set
  %joined = or <{n} x i64> %w, splat (i64 {together})
  %next.0 = select <{n} x i1> %joins, <{n} x i64> %joined, <{n} x i64> %w
  %next.1 = select <{n} x i1> %fresh, <{n} x i64> %base, <{n} x i64> %next.0
"""
_WRITE_ROW = """
  %whole = shl <{n} x i64> %own.v, splat (i64 1)
  %wrote.0 = lshr <{n} x i64> %w, splat (i64 7)
  %wrote.1 = or <{n} x i64> %whole, splat (i64 1)
  %again = icmp eq <{n} x i64> %wrote.0, %wrote.1
  %others = and <{n} x i64> %w, splat (i64 {others})
  %nobody = icmp eq <{n} x i64> %others, zeroinitializer
  %was.read = and <{n} x i1> %mine, %nobody
  %good.0 = or <{n} x i1> %again, %was.read
  %good.2 = or <{n} x i1> %good.0, %fresh
  %marked = or <{n} x i64> %w, splat (i64 {written})
  %new = or <{n} x i64> %base, splat (i64 {written})
  %next.1 = select <{n} x i1> %fresh, <{n} x i64> %new, <{n} x i64> %marked
"""
_ROW_END = """
  %good.3 = or <{n} x i1> %good.2, %idle
  %bits = bitcast <{n} x i1> %good.3 to i{n}
  %all = icmp eq i{n} %bits, -1
  br i1 %all, label %right, label %ask
right:
  %next.2 = select <{n} x i1> %each, <{n} x i64> %next.1, <{n} x i64> %w
  store <{n} x i64> %next.2, ptr %words, align 8
{marks}
  ret i1 true
"""
_MARKS = """\
  %set.0 = or <{n} x i8> %s, splat (i8 {init})
  %set.1 = select <{n} x i1> %each, <{n} x i8> %set.0, <{n} x i8> %s
  store <{n} x i8> %set.1, ptr %shadow, align 1
"""
# All read at one place; several of them, so it is nobody's own.
_READ_ONE = """
one:
  %w1 = load <{each} x i64>, ptr %words, align 8
  %s1 = load <{each} x i8>, ptr %shadow, align 1
  %set1.0 = and <{each} x i8> %s1, splat (i8 {init})
  %set1 = icmp ne <{each} x i8> %set1.0, zeroinitializer
  %sev1.0 = insertelement <{each} x i64> poison, i64 %several, i64 0
  %sev1 = shufflevector <{each} x i64> %sev1.0, <{each} x i64> poison, <{each} x i32> zeroinitializer
  %old1.0 = insertelement <{each} x i64> poison, i64 %oldest, i64 0
  %old1 = shufflevector <{each} x i64> %old1.0, <{each} x i64> poison, <{each} x i32> zeroinitializer
  %who1 = lshr <{each} x i64> %w1, splat (i64 8)
  %when1 = lshr <{each} x i64> %w1, splat (i64 32)
  %shared1 = icmp eq <{each} x i64> %who1, %sev1
  %fresh1 = icmp ult <{each} x i64> %when1, %old1
  %now1 = lshr <{each} x i64> %sev1, splat (i64 24)
  %in1 = icmp eq <{each} x i64> %when1, %now1
  %wrote1 = and <{each} x i64> %w1, splat (i64 {wrote})
  %clean1 = icmp eq <{each} x i64> %wrote1, zeroinitializer
  %joins1.0 = and <{each} x i1> %in1, %clean1
  %any1 = or <{each} x i1> %joins1.0, %fresh1
  %any2 = select i1 %alone, <{each} x i1> %any1, <{each} x i1> zeroinitializer
  %good1.0 = or <{each} x i1> %any2, %shared1
  %good1 = and <{each} x i1> %good1.0, %set1
  %bits1 = bitcast <{each} x i1> %good1 to i{each}
  %all1 = icmp eq i{each} %bits1, -1
  br i1 %all1, label %right1, label %ask
right1:
  %new1 = shl <{each} x i64> %sev1, splat (i64 8)
  %joined1 = or <{each} x i64> %w1, splat (i64 {together})
  %next1.0 = select <{each} x i1> %shared1, <{each} x i64> %w1, <{each} x i64> %joined1
  %next1 = select <{each} x i1> %fresh1, <{each} x i64> %new1, <{each} x i64> %next1.0
  store <{each} x i64> %next1, ptr %words, align 8
  ret i1 true
"""
# what: 0: anything, 1: they are in a row, 2: they are the same, -1: it is not known
_LOOK = """
define internal preserve_mostcc i1 @{name}(i64 %env, i64 %thread, ptr %room, i32 %mask, i32 %site, i32 %info, i64 %unread, i64 %linear, i64 %shared.base, i1 %alone) noinline {keeping} {{
entry:
  %some = {narrowed} i32 %mask to i{width}
  %v = load <{width} x i64>, ptr %room, align 64
  %first = extractelement <{width} x i64> %v, i64 0
  %first.v.0 = insertelement <{width} x i64> poison, i64 %first, i64 0
  %first.v = shufflevector <{width} x i64> %first.v.0, <{width} x i64> poison, <{width} x i32> zeroinitializer
  %behind = sub <{width} x i64> %v, %first.v
  %e = inttoptr i64 %env to ptr
  %ba = getelementptr i8, ptr %e, i64 {bar}
  %bar = load i32, ptr %ba
{clock}
  %stamp = zext i32 %stamp.0 to i64
  %high = shl i64 %stamp, 24
  %who.0 = add i64 %linear, 1
  %own = or i64 %high, %who.0
  %several = or i64 %high, {several}
  %fa = getelementptr i8, ptr %e, i64 {fresh}
  %oldest.0 = load i32, ptr %fa
  %oldest = zext i32 %oldest.0 to i64
  %wa = getelementptr i8, ptr %e, i64 {words}
  %wp.0 = load i64, ptr %wa
  %sa = getelementptr i8, ptr %e, i64 {shadow}
  %sp.0 = load i64, ptr %sa
  %device = add i64 %first, %shared.base
  %twice = shl i64 %device, 1
  %wp.1 = add i64 %wp.0, %twice
  %words = inttoptr i64 %wp.1 to ptr
  %granule = lshr i64 %device, 2
  %sp.1 = add i64 %sp.0, %granule
  %shadow = inttoptr i64 %sp.1 to ptr
  %row.0 = icmp ne <{width} x i64> %behind, <{steps}>
  %row.1 = bitcast <{width} x i1> %row.0 to i{width}
  %row.2 = icmp eq i{width} %row.1, 0
  %odd = and i64 %device, {odd}
  %even = icmp eq i64 %odd, 0
  %in.row = and i1 %row.2, %even
  br i1 %in.row, label %row, label %other
other:
{other}
{row}
{one}
ask:
  %places = ptrtoint ptr %room to i64
  %mask.w = zext i32 %mask to i64
  %info.w = zext i32 %info to i64
  %answer = call i32 @rt_look(i64 %env, i64 %thread, i32 %site, i64 %places, i64 %mask.w, i64 %info.w, i64 %unread)
  %fine = icmp ne i32 %answer, 0
  ret i1 %fine
}}
"""
_OTHER = """\
  %same.0 = icmp ne <{width} x i64> %behind, zeroinitializer
  %same.1 = bitcast <{width} x i1> %same.0 to i{width}
  %same.2 = icmp eq i{width} %same.1, 0
  %count = call i{width} @llvm.ctpop.i{width}(i{width} %some)
  %many = icmp ugt i{width} %count, 1
  %same.3 = and i1 %same.2, %even
  %at.one = and i1 %same.3, %many
  br i1 %at.one, label %one, label %ask
"""


def checks_of(body) -> dict[Instruction, Instruction]:
    """Access -> the check that stands before it."""
    found, before = {}, None
    for item in body:
        if isinstance(item, Instruction) and isinstance(before, Instruction):
            if before.opcode.startswith("check.access"):
                found[item] = before
        before = item
    return found


class Looks:
    """alone: only barriers of the block order threads."""

    def __init__(self, e, slow):
        self.e, self.text, self.values, self.slow = e, e.text, e.values, slow
        self.alone = bool(e.module.barriers.symmetric(e.function.name) & abi.SYMMETRIC_LANES)
        self.checks = checks_of(e.function.body)

    def what(self, ins: Instruction) -> tuple[int, int]:
        """(info, a bit for each byte that does not count) of an access. Threads that end early end these runs, see body."""
        check = self.checks[ins]
        info, unread = check.operands[1].value & ~INFO_FINAL, check.operands[2].value
        reads = "set" in check.op.mods
        if not reads and not info & INFO_WRITE:
            unread = -1
        return info | INFO_SEEN * (reads and not unread and info & 255 >= 4), unread

    # -- at once ----------------------------------------------------------------------------------------------

    def shows(self, members: list[Instruction], stride: int | None) -> bool:
        """Whether `only_read` can."""
        widths = {ins.op.width for ins in members}
        in_row = len(widths) == 1 and stride in (0, *widths) and min(widths) >= 4
        return (
            in_row and self.alone and all(i.op.memory == "load" and i.op.space == "shared" for i in members)
        )

    def only_read(self, members: list[Instruction], start: str, first: int, stride: int) -> str:
        """Whether the words show that several threads have read all this in shared memory since the last barrier, after a check
        that it was written, and nobody has written there; an i1. start: of the first lane's first byte, in the window."""
        e, text, found = self.e, self.text, ""
        several = e.op("shl i64", e.op("add i64", self._stamp(), WHO_SEVERAL), 8)
        words = e.emit(f"inttoptr i64 {e.state.load('Env', 'words', invariant=True)} to ptr")
        for ins in members:
            n = ins.op.width // 4 * (text.width if stride else 1)
            at = e.op("add i64", e.op("add i64", start, "%sharedbase"), ins.address.offset - first)
            where = e.emit(f"getelementptr i8, ptr {words}, i64 {e.op('shl i64', at, 1)}")
            if n == 1:
                good = e.op("icmp eq i64", e.emit(f"load i64, ptr {where}, align 8"), several)
            else:
                t = f"<{n} x i64>"
                each = text.plainly(f"load {t}, ptr {where}, align 8")
                one = text.plainly(f"insertelement {t} poison, i64 {several}, i64 0")
                all_ = text.plainly(f"shufflevector {t} {one}, {t} poison, <{n} x i32> zeroinitializer")
                differ = text.plainly(f"xor {t} {each}, {all_}")
                name = f"llvm.vector.reduce.or.v{n}i64"
                text.unit.declare(name, "i64", f"{t} x")
                good = e.op("icmp eq i64", text.plainly(f"call i64 @{name}({t} {differ})"), 0)
            found = e.op("and i1", found, good) if found else good
        return found

    def _stamp(self) -> str:
        e = self.e
        stamp = e.state.load("Env", "bar")
        return e.op("shl i64", e.cast("zext", "i32", stamp, "i64"), 24)

    # -- out of line ------------------------------------------------------------------------------------------

    def look(self, ins: Instruction, addresses: str, shared: bool) -> str:
        """Whether nothing is wrong with an access of the lanes that take part, which is allowed; an i1."""
        slow, e = self.slow, self.e
        info, unread = self.what(ins)
        slow.enter(addresses)
        slow.put(addresses, "i64", 0)
        several = slow.room in self.text.several
        who = ROW if several else e.threads.address
        place = "%row.p" if several else f"{e.threads.address}.p"
        pointer = e.emit(f"getelementptr i8, ptr {place}, i64 {abi.offset('Thread', 'linear')}")
        linear = e.cast("zext", "i32", e.emit(f"load i32, ptr {pointer}, !invariant.load !1"), "i64")
        base = "%sharedbase" if info & INFO_SHARED else "0"
        what = f"i32 {self.values.bits()}, i32 {e.sites.of(ins)}, i32 {info}, i64 {unread}"
        more = f"i64 {linear}, i64 {base}, i1 {'true' if self.alone else 'false'}"
        given = f"i64 %env, i64 {who}, ptr {slow.room}, {what}, {more}"
        name = self._helper(info, shared)
        return self.text.assign(f"call preserve_mostcc i1 @{name}({given}) {slow.keeping}")

    def _helper(self, info: int, shared: bool) -> str:
        size, width, writes = info & 255, self.text.width, bool(info & INFO_WRITE)
        where = "shared" if shared else "global"
        name = f"lanes.look.{where}.{'write' if writes else 'read'}.{size}.{width}"
        unit = self.e.module
        if name in unit.helpers:
            return name
        unit.declare("rt_look")
        unit.declare(f"llvm.ctpop.i{width}", f"i{width}", f"i{width} x")
        n = width * max(size // 4, 1)
        each = n // width
        known = dict(
            n=n,
            each=each,
            width=width,
            init=INIT,
            wrote=WORD_WROTE,
            written=WORD_WRITTEN,
            others=WORD_OTHERS,
            together=WHO_SEVERAL << 8,
            spread=", ".join(f"i32 {i // each}" for i in range(n)),
            numbers=", ".join(f"i64 {i // each}" for i in range(n)),
        )
        clock = "  %stamp.0 = add i32 %bar, 0"
        if not self.alone:
            unit.declare("llvm.umax.i32", "i32", "i32 x, i32 y")
            clock = (
                "  %tp = inttoptr i64 %thread to ptr\n"
                f"  %ca = getelementptr i8, ptr %tp, i64 {abi.offset('Thread', 'clock')}\n"
                "  %clock = load i32, ptr %ca\n"
                "  %stamp.0 = call i32 @llvm.umax.i32(i32 %bar, i32 %clock)"
            )
        rows = size >= 4
        row = (_OF_ROW + (_WRITE_ROW if writes else _READ_ROW) + _ROW_END).format(
            **known, marks=_MARKS.format(**known) if writes else ""
        )
        unit.helpers[name] = _LOOK.format(
            name=name,
            width=width,
            keeping=self.slow.keeping,
            narrowed="trunc" if width < 32 else "bitcast",
            bar=abi.offset("Env", "bar"),
            clock=clock,
            several=WHO_SEVERAL,
            fresh=abi.offset("Env", f"fresh_{where}"),
            words=abi.offset("Env", "words"),
            shadow=abi.offset("Env", "shadow"),
            steps=", ".join(f"i64 {i * size}" for i in range(width)),
            odd=size - 1,
            other=_OTHER.format(width=width) if rows and not writes else "  br label %ask",
            row=row if rows else "row:\n  br label %ask\n",
            one=_READ_ONE.format(**known) if rows and not writes else "",
        )
        return name
