"""Accesses of lanes whose check failed: functions that the kernels of a module share, so that their code is small.

Active lanes may be allowed to access although others, which were checked with them, are not; so each lane is
checked. What the runtime does not allow either is a fault.

They leave their callers all registers, which would else be kept in memory all the time (see `targets.Target`).
"""

from __future__ import annotations

from ...instrument.bounds import info
from ...ptx.ir import Instruction
from ...ptx.types import BYTES, llvm_type
from ...runtime import abi
from .lift import LaneText
from .values import ROW

_CHECK = """
define internal preserve_mostcc i1 @lanes.check.{width}(i64 %env, i64 %thread, ptr %addresses, i32 %mask, i32 %site, i32 %info) cold noinline {keeping} {{
entry:
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %on ]
  %good = phi i1 [ true, %entry ], [ %still, %on ]
  %narrow = trunc i64 %i to i32
  %shifted = lshr i32 %mask, %narrow
  %takes.part = trunc i32 %shifted to i1
  br i1 %takes.part, label %check, label %on
check:
  %offset = mul i64 %i, {thread}
  %own = add i64 %thread, %offset
  %place = getelementptr i64, ptr %addresses, i64 %i
  %address = load i64, ptr %place
  %allowed = call i32 @rt_check(i64 %env, i64 %own, i64 %address, i32 %site, i32 %info, i64 0)
  %right = icmp ne i32 %allowed, 0
  %both = and i1 %good, %right
  br label %on
on:
  %still = phi i1 [ %good, %lane ], [ %both, %check ]
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {width}
  br i1 %more, label %lane, label %done
done:
  ret i1 %still
}}
"""
# begin, bound: see `Checks.limits`, of one lane
_ACCESS = """
define internal preserve_mostcc i1 @{name}(i64 %env, i64 %thread, ptr %memory, ptr %room, i32 %mask, i32 %site, i32 %info, i64 %begin, i64 %bound{more}) cold noinline {keeping} {{
  %bits = {narrowed} i32 %mask to i{width}
  %lanes = bitcast i{width} %bits to {bools}
  %addresses = load {vector}, ptr %room, align 64
  %begin.0 = insertelement {vector} poison, i64 %begin, i64 0
  %begins = shufflevector {vector} %begin.0, {vector} poison, <{width} x i32> zeroinitializer
  %bound.0 = insertelement {vector} poison, i64 %bound, i64 0
  %bounds = shufflevector {vector} %bound.0, {vector} poison, <{width} x i32> zeroinitializer
  %behind = sub {vector} %addresses, %begins
  %at = call {vector} @llvm.fshr.v{width}i64({vector} %behind, {vector} %behind, {vector} splat (i64 {shift}))
  %inside = icmp ult {vector} %at, %bounds
  %idle = xor {bools} %lanes, splat (i1 true)
  %each = or {bools} %inside, %idle
  %all = call i1 @llvm.vector.reduce.and.v{width}i1({bools} %each)
{asked}
wrong:
  ret i1 false
access:
  %pointers = getelementptr i8, ptr %memory, {vector} %addresses
{accesses}
  ret i1 true
}}
"""


_ASK = """\
  br i1 %all, label %access, label %ask
ask:
  %allowed = call preserve_mostcc i1 @lanes.check.{width}(i64 %env, i64 %thread, ptr %room, i32 %mask, i32 %site, i32 %info) {keeping}
  br i1 %allowed, label %access, label %wrong"""
# with full checks. clean: nobody may write what is read, and all of it is written; strict: outside the array something is wrong
_LOOK = """\
  %sure = and i1 %all, %clean
  br i1 %sure, label %access, label %ask
ask:
  %outside = xor i1 %all, true
  %bad = and i1 %outside, %strict
  br i1 %bad, label %doubt, label %look
doubt:
  %doubted = call i32 @rt_suspect(i64 %env, i64 %thread, i32 %site)
  br label %wrong
look:
  %places = ptrtoint ptr %room to i64
  %mask.w = zext i32 %mask to i64
  %info.w = zext i32 %info to i64
  %answer = call i32 @rt_look(i64 %env, i64 %thread, i32 %site, i64 %places, i64 %mask.w, i64 %info.w, i64 %unread, i64 1)
  %allowed = icmp ne i32 %answer, 0
  br i1 %allowed, label %access, label %wrong"""


class SlowAccesses:
    def __init__(self, e):
        self.e, self.text, self.values, self.keeping = e, e.text, e.values, e.module.facts.keeping
        self.room = ""  # for the addresses of lanes, and what they load or store: the current one
        self._rooms: set[str] = set()

    def check(self, ins: Instruction, addresses: str, lanes: int = 0) -> str:
        """Whether the runtime allows an access of these lanes (bits), of those that take part by default; an i1."""
        self._needs_check()
        self.enter(addresses)
        self.put(addresses, "i64", 0)
        return self._call(f"lanes.check.{self.text.width}", ins, "", lanes=lanes)

    def access(
        self,
        ins: Instruction,
        addresses: str,
        memory: str,
        limits: tuple[str, str],
        stores: list[str],
        full: tuple[int, int, str, bool] | None = None,
    ):
        """The same, and do it. Returns what was loaded. full: with full checks, see _LOOK: (info, unread, clean, strict)."""
        t, n, size = llvm_type(ins.op.type), ins.op.vector, BYTES[ins.op.type]
        places = [8 * self.text.width + k * size * self.text.width for k in range(n)]
        self.enter(addresses, *stores)
        self.put(addresses, "i64", 0)
        for value, place in zip(stores, places, strict=False):
            self.put(self.text.spread(value, t), t, place)
        name = self._needs_access("store" if stores else "load", t, n, size, full is not None)
        begin, bound = limits
        more = ""
        if full:
            more = f", i64 {full[1]}, i1 {full[2]}, i1 {'true' if full[3] else 'false'}"
        what = full[0] if full else info(ins)
        right = self._call(name, ins, f"ptr {memory}, ", f", i64 {begin}, i64 {bound}{more}", what=what)
        if stores:
            return right, []
        vector = self.text.type(t)
        return right, [
            self.text.vector(f"load {vector}, ptr {self._at(place)}, align 64") for place in places
        ]

    def ask(self, ins: Instruction, addresses: str, what: int, unread: int, lanes: int = 0) -> str:
        """With full checks: whether the runtime finds nothing wrong with an access that may be outside its array, of these lanes
        (bits), or of those that take part; an i1."""
        self.e.module.declare("rt_look")
        self.enter(addresses)
        self.put(addresses, "i64", 0)
        who = ROW if self.room in self.text.several else self.e.threads.address
        room = self.e.cast("ptrtoint", "ptr", self.room, "i64")
        mask = str(lanes) if lanes else self.values.bits()
        if self.values.mask and not lanes:
            mask = self.e.resize(mask, "i32", "i64")
        given = f"i64 %env, i64 {who}, i32 {self.e.sites.of(ins)}, i64 {room}, i64 {mask}, i64 {what}, i64 {unread}, i64 1"
        return self.e.op("icmp ne i32", self.text.assign(f"call i32 @rt_look({given})"), 0)

    def _call(
        self, name: str, ins: Instruction, memory: str, limits: str = "", lanes: int = 0, what: int = 0
    ) -> str:
        e = self.e
        who = ROW if self.room in self.text.several else e.threads.address
        what = f"i32 {lanes or self.values.bits()}, i32 {e.sites.of(ins)}, i32 {what or info(ins)}"
        given = f"i64 %env, i64 {who}, {memory}ptr {self.room}, {what}{limits}"
        return self.text.assign(f"call preserve_mostcc i1 @{name}({given}) {self.keeping}")

    def enter(self, *values: str) -> None:
        """A room for these, of each row where they or the lanes that take part differ."""
        text, several = self.text, self.text.several
        differ = not several.isdisjoint((*values, self.values.mask))
        self.room = "%lanes.rooms" if differ else "%lanes.room"
        if self.room not in self._rooms:
            self._rooms.add(self.room)
            if differ:
                several.add(self.room)
            text.first(f"{self.room} = alloca [{6 * 8 * text.width} x i8], align 64")

    def hold(self, value: str, t: str) -> None:
        """Write it where nobody reads it, which LLVM must not find out."""
        self.enter(value)
        self.e.line(
            f"store volatile {self.text.type(t)} {value}, ptr {self._at(5 * 8 * self.text.width)}, align 8"
        )

    def put(self, value: str, t: str, place: int) -> None:
        self.e.line(f"store {self.text.type(t)} {value}, ptr {self._at(place)}, align 8")

    def _at(self, place: int) -> str:
        return self.text.plainly(f"getelementptr i8, ptr {self.room}, i64 {place}") if place else self.room

    def _needs_check(self) -> None:
        self.e.module.declare("rt_check")
        thread, width = abi.DTYPES["Thread"].itemsize, self.text.width
        self.e.module.helpers[f"lanes.check.{width}"] = _CHECK.format(
            thread=thread, width=width, keeping=self.keeping
        )

    def _needs_access(self, what: str, t: str, n: int, size: int, full: bool = False) -> str:
        text = self.text
        name = f"lanes.{what}.{t}.{n}.{text.width}"
        if name not in self.e.module.helpers:
            if full:
                self.e.module.declare("rt_look")
                self.e.module.declare("rt_suspect")
            else:
                self._needs_check()
            vector, width, bools = text.type("i64"), text.width, text.bools
            text.unit.declare(f"llvm.fshr.v{width}i64", vector, f"{vector} x, {vector} x, {vector} x")
            text.unit.declare(f"llvm.vector.reduce.and.v{width}i1", "i1", f"{bools} x")
            accesses = "\n".join(_element(text, what, t, k, size) for k in range(n))
            self.e.module.helpers[name] = _ACCESS.format(
                name=name,
                narrowed="trunc" if width < 32 else "bitcast",
                width=width,
                vector=vector,
                bools=bools,
                shift=(n * size).bit_length() - 1,
                accesses=accesses,
                asked=_LOOK if full else _ASK.format(width=width, keeping=self.keeping),
                more=", i64 %unread, i1 %clean, i1 %strict" * full,
                keeping=self.keeping,
            )
        return name


def _element(text: LaneText, what: str, t: str, k: int, size: int) -> str:
    """The text that moves one number of each lane between memory and the room."""
    width, vector, pointers = text.width, text.type(t), f"%pointers.{k}"
    lines = [
        f"{pointers} = getelementptr i8, {text.type('ptr')} %pointers, i64 {k * size}",
        f"%place.{k} = getelementptr i8, ptr %room, i64 {8 * width + k * size * width}",
    ]
    where = f"{text.type('ptr')} align {size} {pointers}"
    if what == "load":
        name = text.masked("gather", t, True)
        lines.append(
            f"%v.{k} = call {vector} @{name}({where}, {text.bools} %lanes, {vector} zeroinitializer)"
        )
        lines.append(f"store {vector} %v.{k}, ptr %place.{k}, align 8")
    else:
        name = text.masked("scatter", t, True)
        lines.append(f"%v.{k} = load {vector}, ptr %place.{k}, align 8")
        lines.append(f"call void @{name}({vector} %v.{k}, {where}, {text.bools} %lanes)")
    return "\n".join(f"  {line}" for line in lines)
