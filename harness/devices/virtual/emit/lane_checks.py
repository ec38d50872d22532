"""Checks of the accesses of lanes.

The check is of the lowest and the highest address, against the array that the pointer comes from. A correct program passes it
all the time; where it does not, the runtime decides exactly, one lane after the other.
"""

from __future__ import annotations

from ..analyse.lanes import Lanes
from ..analyse.pointers import Origin
from ..instrument.bounds import info
from ..ptx.ir import Instruction
from ..runtime import abi
from .control import DEAD
from .lane_patterns import Place

_CHECK = """
define internal i1 @lanes.check(i64 %env, i64 %thread, ptr %addresses, i32 %mask, i32 %site, i32 %info) cold noinline {{
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


class Checks:
    def __init__(self, e, lanes: Lanes, checked: bool):
        self.e, self.text, self.values, self.lanes, self.checked = e, e.text, e.values, lanes, checked
        self._bounds: dict[tuple, tuple[str, str]] = {}
        self._has_room = False  # for the addresses of lanes

    def allowed(self, ins: Instruction, place: Place, start: str, span: int) -> str:
        """Whether no lane leaves the array or is misaligned; an i1. Without checks: whether the addresses are exact."""
        e, size = self.e, ins.op.width
        if not self.checked:
            return e.op("icmp ult i64", e.op("add i64", start, 1 << 55), 1 << 56)
        begin, end = self._array(ins)
        if not place.low:
            return self._allowed_each(
                place, e.op("sub i64", start, begin), e.op("sub i64", end, begin), span, size
            )
        low = e.op("add i64", start, place.low) if place.low != "0" else start
        high = e.op("add i64", start, e.op("add i64", place.high, span))
        good = e.op("and i1", e.op("icmp uge i64", low, begin), e.op("icmp ule i64", high, end))
        if size == 1:
            return good
        aside = start
        if place.stride is None:
            aside = e.op("or i64", start, self.text.reduced("or", place.each, "i64"))
        elif place.stride % size:
            return "false"
        return e.op("and i1", good, e.op("icmp eq i64", e.op("and i64", aside, size - 1), 0))

    def _allowed_each(self, place: Place, start: str, nbytes: str, span: int, size: int) -> str:
        """The same, of each lane that takes part. start: behind the array's begin; a misaligned one is rotated far out."""
        e, text, vector, shift = self.e, self.text, self.text.type("i64"), size.bit_length() - 1
        last = e.op("sub i64", nbytes, span)
        at = text.vector(f"add {vector} {text.spread(start, 'i64')}, {place.rest}")
        if shift:
            at = e.emit(f"call i64 @llvm.fshr.i64(i64 {at}, i64 {at}, i64 {shift})")
        bound = text.spread(e.op("lshr i64", last, shift), "i64")
        inside = text.vector(f"icmp ule {vector} {at}, {bound}")
        aside = e.op("xor i1", self.values.mask, "true")
        good = text.reduced("and", e.op("or i1", inside, aside), "i1")
        return e.op("and i1", good, e.op("icmp sge i64", last, 0))

    def _array(self, ins: Instruction) -> tuple[str, str]:
        """Where the array begins, and where what may be accessed of it ends."""
        root, writes = self.lanes.roots[ins.address.base], ins.op.memory == "store"
        key = root, writes, ins.op.space == "shared"
        if key not in self._bounds:
            with self.text.at_entry():
                self._bounds[key] = self._found(*key)
        return self._bounds[key]

    def _found(self, root: Origin, writes: bool, window: bool) -> tuple[str, str]:
        """window: as offsets in the shared window."""
        e = self.e
        if root.kind == "param":
            at = e.module.kernels[e.function.name].bounds(root.name)
            return self._parameter(at), self._parameter(at + (16 if writes else 8))
        variable = e.variables.find(root.name)
        size = "0" if writes and variable.space == "const" else str(variable.size)
        if variable.space == "shared":
            begin = e.op("add i64", "0" if window else "%sharedbase", e.variables.shared_offset(variable))
            if variable.extern:
                size = e.cast("zext", "i32", e.state.load("Launch", "shared_dynamic", invariant=True), "i64")
        else:
            begin = e.op("add i64", "%globals", e.module.variables[root.name][0])
        return begin, e.op("add i64", begin, size)

    def _parameter(self, at: int) -> str:
        e = self.e
        address = e.op("add i64", e.state.load("Env", "params", invariant=True), at)
        place = e.emit(f"getelementptr i8, ptr %arena, i64 {address}")
        return e.emit(f"load i64, ptr {place}, !invariant.load !1")

    def each(self, members: list[Instruction], addresses: str, first: int, good: str) -> None:
        """Ends the block: in `good`, if every lane may access."""
        e, text = self.e, self.text
        if not self.checked:
            return e.line(f"br label %{good}")
        vector, room = text.type("i64"), "%lanes.addresses"
        e.module.declare("rt_check")
        e.module.helpers["lanes.check"] = _CHECK.format(
            thread=abi.DTYPES["Thread"].itemsize, width=self.text.width
        )
        if not self._has_room:
            self._has_room = True
            text.first(f"{room} = alloca {vector}, align 64")
        mask, right = self.values.bits(), ""
        for member in members:
            by = member.address.offset - first
            moved = e.op("add i64", addresses, by) if by else addresses
            e.line(f"store {vector} {moved}, ptr {room}, align 64")
            what = f"i32 {mask}, i32 {e.sites.of(member)}, i32 {info(member)}"
            one = e.fresh("right")
            e.line(f"{one} = call i1 @lanes.check(i64 %env, i64 {e.threads.address}, ptr {room}, {what})")
            right = e.op("and i1", right, one) if right else one
        e.branch(right, good, DEAD)
