"""Checks of the accesses of lanes.

The lowest and the highest address are checked against the array that the pointer comes from. A correct
program always passes; otherwise the runtime decides exactly, lane by lane.
"""

from __future__ import annotations

from functools import reduce

from ...analyse.lanes import Lanes
from ...analyse.places import Places
from ...analyse.pointers import Origin
from ...ptx.ir import Instruction, Operand
from .patterns import Place


class Checks:
    """places: of shared accesses that are known before."""

    def __init__(
        self, e, lanes: Lanes, checked: bool, places: dict[Operand, tuple[str, Places]] | None = None
    ):
        self.places = places or {}
        self.e, self.text, self.values, self.lanes, self.checked = e, e.text, e.values, lanes, checked
        self._bounds: dict[tuple, tuple[str, str]] = {}
        self._known_limits: dict[tuple, tuple[str, str]] = {}
        self._clean: dict[Origin, str] = {}

    def allowed(self, ins: Instruction, place: Place, start: str, span: int) -> str:
        """Whether no lane leaves the array or is misaligned; an i1. Without checks, if all lanes take part:
        whether the addresses are exact."""
        e, size = self.e, ins.op.width
        ends, found = self.text.ends(start)
        if not (self.checked or self.values.mask and place.rest or ins.pred):
            inside = [e.op("icmp ult i64", e.op("add i64", end, 1 << 55), 1 << 56) for end in ends]
            return reduce(lambda a, b: e.op("and i1", a, b), inside)
        if place.stride and place.stride % size:
            return "false"
        limits = self._limits(ins, place, span)
        for end in ends:
            inside = self._between(end, limits, size)
            found = inside if found == "true" else e.op("and i1", found, inside)
        return found

    def always(self, ins: Instruction, first: int, span: int) -> bool:
        """Whether accesses like this, in so many bytes from an offset on, are known to be allowed, of any thread."""
        name, places = self.places.get(ins.address.base, ("", None))
        if not places or ins.op.space != "shared":
            return False
        variable, nbytes = self.e.variables.find(name), ins.op.width
        known = variable.space == "shared" and not variable.extern and variable.align % nbytes == 0
        return known and places.fit(first, span, nbytes, variable.size)

    def inside(self, ins: Instruction, start: str, span: int) -> str:
        """The same, of one thread: of accesses like this in so many bytes."""
        return self._between(start, self._limits(ins, Place("", "0", "0", "", 0), span), ins.op.width)

    def _between(self, start: str, limits: tuple[str, str], size: int) -> str:
        begin, bound = limits
        at = self.e.op("sub i64", start, begin)
        if size > 1:
            at = self.e.emit(f"call i64 @llvm.fshr.i64(i64 {at}, i64 {at}, i64 {size.bit_length() - 1})")
        return self.e.op("icmp ult i64", at, bound)

    def _limits(self, ins: Instruction, place: Place, span: int) -> tuple[str, str]:
        """Of the address of the first lane, what is taken off it, and the bound of how many accesses, aligned, may lie
        before it. A misaligned one is rotated far out. Both are usually loop-invariant.
        """
        if place.stride is None:
            return self._found_limits(ins, place, span)
        op, root = ins.op, self.lanes.roots[ins.address.base]
        key = root, op.memory, op.space == "shared", op.width, span, place.low, place.high
        if key not in self._known_limits:
            self._array(ins)
            with self.text.at_entry():
                self._known_limits[key] = self._found_limits(ins, place, span)
        return self._known_limits[key]

    def _found_limits(self, ins: Instruction, place: Place, span: int) -> tuple[str, str]:
        e, size = self.e, ins.op.width
        begin, end = self._array(ins)
        first, last = (e.op("sub i64", x, y) for x, y in ((begin, place.low), (end, place.high)))
        room = e.op("sub i64", e.op("sub i64", last, first), span)
        bound = self._count(room, size)
        asides = [begin] if self._begins_anywhere(ins, size) else []
        if place.stride is None and size > 1:
            asides.append(self.text.reduced("or", place.rest, "i64"))
        for aside in asides:
            aligned = e.op("icmp eq i64", e.op("and i64", aside, size - 1), 0)
            bound = e.emit(f"select i1 {aligned}, i64 {bound}, i64 0")
        return first, bound

    def _begins_anywhere(self, ins: Instruction, size: int) -> bool:
        """Whether the start of the array may not be aligned to this many bytes."""
        root = self.lanes.roots[ins.address.base]
        return root.kind != "param" and self.e.variables.find(root.name).align % size != 0

    def _count(self, room: str, size: int) -> str:
        """How many accesses fit, by their starts, in this many bytes; none if that is negative."""
        count = self.e.op("add i64", self.e.op("ashr i64", room, size.bit_length() - 1), 1)
        return self.e.emit(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")

    def clean(self, ins: Instruction) -> str:
        """Whether no thread may write the array, all of which is then written; an i1."""
        root = self.lanes.roots[ins.address.base]
        if root.kind != "param":
            return "true" if self.e.variables.find(root.name).space == "const" else "false"
        if root not in self._clean:
            begin, end = self._ends(root, True, False)
            with self.text.at_entry():
                self._clean[root] = self.e.op("icmp eq i64", begin, end)
        return self._clean[root]

    def limits_of_each(self, ins: Instruction) -> tuple[str, str]:
        """As `_limits`, of the address of one lane."""
        return self._limits(ins, Place("", "0", "0", "", 0), ins.op.width)

    def extent(self, root: Origin, shared: bool) -> tuple[str, str]:
        """The start and length of the array that a copy reads, or writes in the shared window."""
        begin, end = self._ends(root, shared, shared)
        with self.text.at_entry():
            return begin, self.e.op("sub i64", end, begin)

    def _array(self, ins: Instruction) -> tuple[str, str]:
        """The start of the array and the end of its accessible part."""
        return self._ends(
            self.lanes.roots[ins.address.base], ins.op.memory == "store", ins.op.space == "shared"
        )

    def _ends(self, *key) -> tuple[str, str]:
        """key: the array, whether it is written, in the shared window."""
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
