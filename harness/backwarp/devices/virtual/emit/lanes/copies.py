"""cp.async if threads are lanes: pending copies of a group are kept as vectors and arrive as late as allowed.

As in runtime/asynchronous.cu a group has room for a fixed number of pending copies; beyond that, the oldest
arrive. An entry is an instruction: where the lanes copy from (64 bits each), to (in the shared window), and
how many bytes are read. The rest is in the Extra of the group's first thread: which lanes take part, the
size, the number of the group of copies.
"""

from __future__ import annotations

from ...analyse.lanes import Lanes
from ...ptx.ir import Address, Instruction
from ...runtime import abi
from ..control import DEAD
from .memory import Accesses

_EACH = 16  # bytes of an entry for each lane
_START = """
define internal i1 @{name}(i64 %env, i64 %thread, ptr %shared, ptr %arena, ptr %extra, ptr %queue, ptr %room, i32 %mask, i32 %site, i64 %to.begin, i64 %to.length, i64 %from.begin, i64 %from.length) noinline nounwind {{
entry:
  %to.room = getelementptr i8, ptr %room, i64 {to}
  %bytes.room = getelementptr i8, ptr %room, i64 {bytes}
  %from = load {longs}, ptr %room, align 64
  %to.narrow = load {words}, ptr %to.room, align 64
  %bytes.narrow = load {words}, ptr %bytes.room, align 64
  %to = zext {words} %to.narrow to {longs}
  %bytes = zext {words} %bytes.narrow to {longs}
{spread}
  %to.behind = sub {longs} %to, %to.begin.v
  %to.end = add {longs} %to.behind, splat (i64 {size})
  %from.behind = sub {longs} %from, %from.begin.v
  %from.end = add {longs} %from.behind, %bytes
  %to.0 = icmp ule {longs} %to.behind, %to.length.v
  %to.1 = icmp ule {longs} %to.end, %to.length.v
  %from.0 = icmp ule {longs} %from.behind, %from.length.v
  %from.1 = icmp ule {longs} %from.end, %from.length.v
  %to.odd = and {longs} %to, splat (i64 {odd})
  %from.odd = and {longs} %from, splat (i64 {odd})
  %to.2 = icmp eq {longs} %to.odd, zeroinitializer
  %from.2 = icmp eq {longs} %from.odd, zeroinitializer
  %unread = icmp eq {longs} %bytes, zeroinitializer
  %from.3 = and {bools} %from.0, %from.1
  %from.4 = and {bools} %from.3, %from.2
  %from.good = or {bools} %from.4, %unread
  %to.3 = and {bools} %to.0, %to.1
  %to.good = and {bools} %to.3, %to.2
  %good = and {bools} %to.good, %from.good
  %few = {narrowed} i32 %mask to i{width}
  %lanes = bitcast i{width} %few to {bools}
  %idle = xor {bools} %lanes, splat (i1 true)
  %fine = or {bools} %good, %idle
  %all = call i1 @llvm.vector.reduce.and.v{width}i1({bools} %fine)
  br i1 %all, label %put, label %ask
ask:
  %i = phi i64 [ 0, %entry ], [ %next, %on ]
  %right = phi i1 [ true, %entry ], [ %still, %on ]
  %i.narrow = trunc i64 %i to i32
  %shifted = lshr i32 %mask, %i.narrow
  %takes.part = trunc i32 %shifted to i1
  br i1 %takes.part, label %check, label %on
check:
  %offset = mul i64 %i, {thread}
  %own = add i64 %thread, %offset
  %from.at = getelementptr i64, ptr %room, i64 %i
  %to.at = getelementptr i32, ptr %to.room, i64 %i
  %bytes.at = getelementptr i32, ptr %bytes.room, i64 %i
  %from.i = load i64, ptr %from.at
  %to.i = load i32, ptr %to.at
  %to.wide = zext i32 %to.i to i64
  %shared.host = ptrtoint ptr %shared to i64
  %arena.host = ptrtoint ptr %arena to i64
  %window = sub i64 %shared.host, %arena.host
  %to.device = add i64 %window, %to.wide
  %bytes.i = load i32, ptr %bytes.at
  %bytes.wide = zext i32 %bytes.i to i64
  %allowed = call i32 @rt_copy_check(i64 %env, i64 %own, i32 %site, i64 %to.device, i64 %from.i, i64 {size}, i64 %bytes.wide)
  %yes = icmp ne i32 %allowed, 0
  %both = and i1 %right, %yes
  br label %on
on:
  %still = phi i1 [ %right, %ask ], [ %both, %check ]
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {width}
  br i1 %more, label %ask, label %asked
asked:
  br i1 %still, label %put, label %wrong
wrong:
  ret i1 false
put:
{look}  %count.p = getelementptr i8, ptr %extra, i64 {copies}
  %first.p = getelementptr i8, ptr %extra, i64 {first_copy}
  %full.count = load i32, ptr %count.p
  %full = icmp eq i32 %full.count, {most}
  br i1 %full, label %drain, label %enter
drain:
{doubt}  %oldest = load i32, ptr %first.p
  %oldest.wide = zext i32 %oldest to i64
  %groups = getelementptr i8, ptr %extra, i64 {copy_group}
  %oldest.p = getelementptr i32, ptr %groups, i64 %oldest.wide
  %oldest.group = load i32, ptr %oldest.p
  %limit.narrow = add i32 %oldest.group, 1
  %limit = zext i32 %limit.narrow to i64
  call void @lanes.arrive.{width}(i64 %env, i64 %thread, ptr %shared, ptr %arena, ptr %extra, ptr %queue, i64 %limit)
  br label %enter
enter:
  %count = load i32, ptr %count.p
  %first = load i32, ptr %first.p
  %behind = add i32 %first, %count
  %number = urem i32 %behind, {most}
  %n = zext i32 %number to i64
  %count.new = add i32 %count, 1
  store i32 %count.new, ptr %count.p
  %group.p = getelementptr i8, ptr %extra, i64 {group}
  %group = load i32, ptr %group.p
  %its.groups = getelementptr i8, ptr %extra, i64 {copy_group}
  %its.masks = getelementptr i8, ptr %extra, i64 {copy_bytes}
  %its.sizes = getelementptr i8, ptr %extra, i64 {copy_size}
  %its.group = getelementptr i32, ptr %its.groups, i64 %n
  %its.mask = getelementptr i32, ptr %its.masks, i64 %n
  %its.size = getelementptr i32, ptr %its.sizes, i64 %n
  store i32 %group, ptr %its.group
  store i32 %mask, ptr %its.mask
  store i32 {size}, ptr %its.size
  %by = mul i64 %n, {entry}
  %e.from = getelementptr i8, ptr %queue, i64 %by
  %e.to = getelementptr i8, ptr %e.from, i64 {to}
  %e.bytes = getelementptr i8, ptr %e.from, i64 {bytes}
  store {longs} %from, ptr %e.from, align 8
  store {words} %to.narrow, ptr %e.to, align 8
  store {words} %bytes.narrow, ptr %e.bytes, align 8
  ret i1 true
}}
"""
_ARRIVE = """
define internal void @lanes.arrive.{width}(i64 %env, i64 %thread, ptr %shared, ptr %arena, ptr %extra, ptr %queue, i64 %limit) noinline nounwind {{
entry:
  %count.p = getelementptr i8, ptr %extra, i64 {copies}
  %first.p = getelementptr i8, ptr %extra, i64 {first_copy}
  %groups = getelementptr i8, ptr %extra, i64 {copy_group}
  %masks = getelementptr i8, ptr %extra, i64 {copy_bytes}
  %sizes = getelementptr i8, ptr %extra, i64 {copy_size}
  br label %next
next:
  %count = load i32, ptr %count.p
  %none = icmp eq i32 %count, 0
  br i1 %none, label %done, label %look
look:
  %first = load i32, ptr %first.p
  %n = zext i32 %first to i64
  %group.p = getelementptr i32, ptr %groups, i64 %n
  %group = load i32, ptr %group.p
  %group.wide = zext i32 %group to i64
  %due = icmp ult i64 %group.wide, %limit
  br i1 %due, label %arrive, label %done
arrive:
  %mask.p = getelementptr i32, ptr %masks, i64 %n
  %size.p = getelementptr i32, ptr %sizes, i64 %n
  %mask = load i32, ptr %mask.p
  %size = load i32, ptr %size.p
  %by = mul i64 %n, {entry}
  %e.from = getelementptr i8, ptr %queue, i64 %by
  %e.to = getelementptr i8, ptr %e.from, i64 {to}
  %e.bytes = getelementptr i8, ptr %e.from, i64 {bytes}
{look}  br label %lane
lane:
  %i = phi i64 [ 0, %arrive ], [ %i.next, %on ]
  %i.narrow = trunc i64 %i to i32
  %shifted = lshr i32 %mask, %i.narrow
  %takes.part = trunc i32 %shifted to i1
  br i1 %takes.part, label %copy, label %on
copy:
  %from.p = getelementptr i64, ptr %e.from, i64 %i
  %to.p = getelementptr i32, ptr %e.to, i64 %i
  %bytes.p = getelementptr i32, ptr %e.bytes, i64 %i
  %from = load i64, ptr %from.p
  %to = load i32, ptr %to.p
  %to.wide = zext i32 %to to i64
  %bytes = load i32, ptr %bytes.p
  %from.at = getelementptr i8, ptr %arena, i64 %from
  %to.at = getelementptr i8, ptr %shared, i64 %to.wide
  br label %word
word:
  %k = phi i32 [ 0, %copy ], [ %k.next, %stored ]
  %k.wide = zext i32 %k to i64
  %k.next = add i32 %k, 4
  %there = getelementptr i8, ptr %to.at, i64 %k.wide
  %here = getelementptr i8, ptr %from.at, i64 %k.wide
  %whole = icmp ule i32 %k.next, %bytes
  br i1 %whole, label %read, label %partly
read:
  %value = load i32, ptr %here, align 4
  store i32 %value, ptr %there, align 4
  br label %stored
partly:
  store i32 0, ptr %there, align 4
  %any = icmp ult i32 %k, %bytes
  br i1 %any, label %byte, label %stored
byte:
  %b = phi i32 [ 0, %partly ], [ %b.next, %byte ]
  %b.wide = zext i32 %b to i64
  %b.from = getelementptr i8, ptr %here, i64 %b.wide
  %b.to = getelementptr i8, ptr %there, i64 %b.wide
  %b.value = load i8, ptr %b.from
  store i8 %b.value, ptr %b.to
  %b.next = add i32 %b, 1
  %b.at = add i32 %k, %b.next
  %b.more = icmp ult i32 %b.at, %bytes
  br i1 %b.more, label %byte, label %stored
stored:
  %more.words = icmp ult i32 %k.next, %size
  br i1 %more.words, label %word, label %on
on:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, {width}
  br i1 %more, label %lane, label %arrived
arrived:
  %behind = add i32 %first, 1
  %round = urem i32 %behind, {most}
  store i32 %round, ptr %first.p
  %left = sub i32 %count, 1
  store i32 %left, ptr %count.p
  br label %next
done:
  ret void
}}
"""

# with full checks, of copies that are started and of those that arrive; more in flight than lanes have room for
_LOOK = """\
  %room.host = ptrtoint ptr %room to i64
  %mask.wide = zext i32 %mask to i64
  %looked = call i32 @rt_look_copies(i64 %env, i64 %thread, i32 %site, i64 %room.host, i64 %mask.wide, i64 {size}, i64 {width}, i64 0)
  %sure = icmp ne i32 %looked, 0
  br i1 %sure, label %begin, label %wrong
begin:
"""
_LOOK_AGAIN = """\
  %e.host = ptrtoint ptr %e.from to i64
  %mask.wide = zext i32 %mask to i64
  %size.wide = zext i32 %size to i64
  %looked = call i32 @rt_look_copies(i64 %env, i64 %thread, i32 0, i64 %e.host, i64 %mask.wide, i64 %size.wide, i64 {width}, i64 1)
"""
_DOUBT = """\
  %doubted = call i32 @rt_suspect(i64 %env, i64 %thread, i32 %site)
"""


class Copies:
    def __init__(self, accesses: Accesses, lanes: Lanes):
        self.e, self.text, self.accesses, self.lanes = accesses.e, accesses.text, accesses, lanes
        self._room, self._queue = "", False

    def emit(self, ins: Instruction) -> bool:
        """Lower cp.async; False if it is something else."""
        e = self.e
        if not ins.op.asynchronous:
            return False
        if ins.op.memory == "copy":
            self._start(ins)
        elif ins.op.operation == "commit_group":
            e.state.call("rt_copy_commit", site=e.sites.of(ins))
        else:
            self._wait(ins)
        return True

    def _wait(self, ins: Instruction) -> None:
        e, limit = self.e, "-1"
        if ins.op.operation == "wait_group":
            group = e.cast("zext", "i32", e.state.load("Extra", "group"), "i64")
            limit = e.op("sub i64", group, ins.named["n"].value)
            enough = e.op("icmp sgt i64", limit, 0)
            limit = e.emit(f"select i1 {enough}, i64 {limit}, i64 0")
        self._needs_arrival()
        who = f"i64 %env, i64 {e.threads.address}"
        e.line(f"call void @lanes.arrive.{self.text.width}({who}, {self._own()}, i64 {limit})")

    def _start(self, ins: Instruction) -> None:
        """Checked now, all lanes at once; if that fails, by the runtime."""
        e, text, width, size = self.e, self.text, self.text.width, ins.named["n"].value
        to, from_ = (
            self._address(o, shared) for o, shared in zip(ins.operands[:2], (True, False), strict=True)
        )
        to = e.cast("trunc", "i64", to, "i32")
        given = text.spread(str(size), "i32")
        if (operand := ins.named.get("b")) is not None:
            given = e.emit(f"call i32 @llvm.umin.i32(i32 {e.value(operand, 'u32')}, i32 {size})")
            given = text.spread(given, "i32")
        if not self._room:
            self._room = "%copies.room"
            text.first(f"{self._room} = alloca [{_EACH * width} x i8], align 64")
        for value, t, at in ((from_, "i64", 0), (to, "i32", 8 * width), (given, "i32", 12 * width)):
            place = text.plainly(f"getelementptr i8, ptr {self._room}, i64 {at}")
            e.line(f"store {text.type(t)} {value}, ptr {place}, align 64")
        limits = [
            f"i64 {limit}"
            for o, shared in zip(ins.operands[:2], (True, False), strict=True)
            for limit in self._limits(o, shared)
        ]
        what = (
            f"ptr {self._room}, i32 {self.accesses.values.bits()}, i32 {e.sites.of(ins)}, {', '.join(limits)}"
        )
        call = f"call i1 @{self._starter(size)}(i64 %env, i64 {e.threads.address}, {self._own()}, {what})"
        good = e.fresh_label("copying")
        e.branch(text.assign(call), good, DEAD, likely=True)
        e.label(good)

    def _address(self, operand: Address, shared: bool) -> str:
        """Of each lane; in the shared window, whose addresses have 32 bits, or of the device."""
        start, rest, _ = self.accesses.address(operand.base, shared)
        start = self.e.op("add i64", start, operand.offset) if operand.offset else start
        return self.text.named(self.accesses.exact(operand.base, start, rest, operand.offset), "i64")

    def _limits(self, operand: Address, shared: bool) -> tuple[str, str]:
        """Where the array begins, and its length."""
        if not self.accesses.checks.checked:
            return "0", "-1"
        return self.accesses.checks.extent(self.lanes.roots[operand.base], shared)

    def _own(self) -> str:
        """What belongs to this group."""
        e, name = self.e, f"{self.e.threads.address}.copies"
        if not self._queue:
            self._queue = True
            with self.text.at_entry():
                linear = e.cast("zext", "i32", e.state.load("Thread", "linear", invariant=True), "i64")
                mine = e.op("mul i64", linear, abi.DTYPES["Copies"].itemsize)
                queue = e.op("add i64", e.state.load("Env", "copies", invariant=True), mine)
                e.line(f"{name} = inttoptr i64 {queue} to ptr")
        return f"ptr %shared, ptr %arena, ptr {e.state.extra()}, ptr {name}"

    def _known(self) -> dict[str, object]:
        width = self.text.width
        fields = ("copies", "first_copy", "group", "copy_group", "copy_bytes", "copy_size")
        found = {name: abi.offset("Extra", name) for name in fields}
        return found | dict(
            width=width, to=8 * width, bytes=12 * width, entry=_EACH * width, most=abi.MAX_COPIES
        )

    def _needs_arrival(self) -> None:
        width, helpers = self.text.width, self.e.module.helpers
        look = ""
        if self.accesses.looks:
            self.e.module.declare("rt_look_copies")
            look = _LOOK_AGAIN.format(width=width)
        helpers.setdefault(f"lanes.arrive.{width}", _ARRIVE.format(look=look, **self._known()))

    def _starter(self, size: int) -> str:
        text, width, unit = self.text, self.text.width, self.e.module
        name = f"lanes.copy.{size}.{width}"
        if name not in unit.helpers:
            self._needs_arrival()
            longs, bools = text.type("i64"), text.bools
            unit.declare("rt_copy_check")
            unit.declare(f"llvm.vector.reduce.and.v{width}i1", "i1", f"{bools} x")
            spread = [
                line
                for limit in ("to.begin", "to.length", "from.begin", "from.length")
                for line in (
                    f"  %{limit}.0 = insertelement {longs} poison, i64 %{limit}, i64 0",
                    f"  %{limit}.v = shufflevector {longs} %{limit}.0, {longs} poison, <{width} x i32> zeroinitializer",
                )
            ]
            look = doubt = ""
            if self.accesses.looks:
                unit.declare("rt_suspect")
                look, doubt = _LOOK.format(size=size, width=width), _DOUBT
            unit.helpers[name] = _START.format(
                name=name,
                look=look,
                doubt=doubt,
                longs=longs,
                words=text.type("i32"),
                bools=bools,
                size=size,
                odd=size - 1,
                narrowed="trunc" if width < 32 else "bitcast",
                thread=abi.DTYPES["Thread"].itemsize,
                spread="\n".join(spread),
                **self._known(),
            )
        return name
