"""Loads and stores of lanes: one check for all of them, and as few accesses as their addresses allow.

The check is of the lowest and the highest address, against the array that the pointer comes from. A correct program passes it
all the time; where it does not, the runtime decides exactly, one lane after the other, and what it allows is then done
lane by lane. Lanes that do not take part are given the address of one that does.

Loads at constant distances from one address are done together: where each lane reads four numbers in a row, these are
loaded as one and transposed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..analyse.access_groups import access_groups
from ..analyse.lanes import Lanes
from ..instrument.bounds import info, is_checked
from ..ptx.ir import Instruction, Symbol, operand
from ..ptx.types import BYTES, llvm_type
from ..runtime import abi
from .control import DEAD

_FOUR = 4  # numbers that are loaded as one
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


@dataclass(frozen=True)
class Element:
    """One number of an access: of which instruction, into or from which register, how far from the first address."""

    ins: Instruction
    register: str
    offset: int


@dataclass
class Place:
    """Where the lanes access: pointer + rest, of bytes. low, high: of the rest of lanes that take part; each: of all lanes,
    those that do not take part at one that does."""

    pointer: str
    low: str
    high: str
    rest: str
    each: str
    stride: int | None


class Accesses:
    def __init__(self, e, lanes: Lanes, checked: bool):
        self.e, self.text, self.lanes, self.checked = e, e.text, lanes, checked
        self.values, self.width = e.values, e.text.width
        self.together = _together(e.function.body)
        self.loaded: dict[tuple[Instruction, int], str] = {}  # what comes next, already
        self._bounds: dict[tuple[str, str, bool], tuple[str, str]] = {}
        self._has_room = False  # for the addresses of lanes

    def emit(self, ins: Instruction) -> bool:
        """Lower a load or a store; False if it is none of memory that lanes may differ in."""
        if not is_checked(ins):
            return False
        if (ins, 0) not in self.loaded:
            self._access(self.together.get(ins, [ins]))
        if ins.op.memory == "load":
            for k, register in enumerate(ins.operands[0].parts):
                self._set(register, self.loaded.pop((ins, k)), ins.op.type)
        return True

    def _set(self, register: str, value: str, type_: str) -> None:
        if register != "_":
            self.values.set(register, value, type_)

    # -- the check --------------------------------------------------------------------------------------------

    def _access(self, members: list[Instruction]) -> None:
        e, ins = self.e, members[0]
        base, offsets = ins.address.base, [m.address.offset for m in members]
        first, last = min(offsets), max(offsets) + ins.op.width
        elements = [
            Element(m, register, m.address.offset - first + k * m.op.nbytes)
            for m in members
            for k, register in enumerate(m.operands[0 if m.op.memory == "load" else 1].parts)
        ]
        start, rest, stride = self._address(base)
        if first:
            start = e.op("add i64", start, first)
        place = self._place(start, rest, stride)
        slow, good, exact, met = (e.fresh_label(hint) for hint in ("slow", "good", "exact", "met"))
        stores: list[str] = []
        if ins.op.memory == "store":
            stores = [self.values.value(x.register, x.ins.op.type) for x in elements]
        e.branch(self._allowed(ins, place, start, last - first), good, slow, likely=True)
        known, arrived = self.text.remembered(), []
        with self.text.out_of_line(slow):
            addresses = self._exact(base, start, rest, first)
            self._check_each(members, addresses, first, exact)
            e.label(exact)
            if rest:
                arrived.append((exact, self._lanewise(elements, self._pointers("%arena", addresses), stores)))
            e.line(f"br label %{met if rest else good}")
        e.label(good)
        for results in self._ways(elements, place, stores):
            arrived.append((e.fresh_label("done"), results))
            e.line(f"br label %{arrived[-1][0]}")
            e.label(arrived[-1][0])
            e.line(f"br label %{met}")
            self.text.recall(known)
        e.label(met)
        self._join(elements, arrived)

    def _join(self, elements: list[Element], arrived: list[tuple[str, list[str]]]) -> None:
        """All ways have led here. arrived: (block, results) of each."""
        e = self.e
        for i, x in enumerate(elements):
            if x.ins.op.memory != "load":
                continue
            t = llvm_type(x.ins.op.type)
            found = [(block, results[i]) for block, results in arrived]
            vectors = any(value in self.text.vectors for _, value in found)
            where = ", ".join(f"[ {value}, %{block} ]" for block, value in found)
            if vectors:
                value = self.text.vector(f"phi {self.text.type(t)} {where}")
            else:
                value = e.emit(f"phi {t} {where}")
            k = sum(y.ins is x.ins for y in elements[:i])
            self.loaded[x.ins, k] = value

    def _address(self, base) -> tuple[str, str, int | None]:
        """The address of the first lane, what is to be added in each, and how far apart these are."""
        if type(base) is Symbol:
            return self.e.variables.symbol(base.name, False), "", 0
        start, rest = self.values.pair(operand(base), "u64")
        return start, rest, self.lanes.strides.get(base, 0)

    def _place(self, start: str, rest: str, stride: int | None) -> Place:
        e, text, mask = self.e, self.text, self.values.mask
        pointer = e.emit(f"getelementptr i8, ptr %arena, i64 {start}")
        if stride == 0:
            return Place(pointer, "0", "0", "", "", 0)
        if not mask:
            if stride is None:
                low, high = (text.reduced(how, rest, "i64") for how in ("smin", "smax"))
            else:
                low, high = map(str, sorted((0, stride * (self.width - 1))))
            return Place(pointer, low, high, rest, rest, stride)
        if (
            self.values.merging and stride is None
        ):  # the mask changes all the time, so all this would be new each time
            return Place(pointer, "", "", rest, rest, None)
        vector = text.type("i64")
        chosen = f"select {text.type('i1')} {mask}, {vector} {rest}, {vector} "
        largest = self._once(f"{chosen}splat (i64 {(1 << 63) - 1})")
        low = text.reduced("smin", largest, "i64")
        each = self._once(chosen + text.spread(low, "i64"))
        return Place(pointer, low, text.reduced("smax", each, "i64"), rest, each, stride)

    def _once(self, instruction: str) -> str:
        if not self.text.knows(instruction):
            self.text.know(instruction, self.text.vector(instruction))
        return self.text.knows(instruction)

    def _allowed(self, ins: Instruction, place: Place, start: str, span: int) -> str:
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
        e, root, writes = self.e, self.lanes.roots[ins.address.base], ins.op.memory == "store"
        key = root.kind, root.name, writes
        if key not in self._bounds:
            with self.text.at_entry():
                if root.kind == "param":
                    at = e.module.kernels[e.function.name].bounds(root.name)
                    self._bounds[key] = self._parameter(at), self._parameter(at + (16 if writes else 8))
                else:
                    variable = e.variables.find(root.name)
                    offset = e.module.variables[root.name][0]
                    size = 0 if writes and variable.space == "const" else variable.size
                    ends = (f"add i64 %globals, {offset + n}" for n in (0, size))
                    self._bounds[key] = tuple(map(e.emit, ends))
        return self._bounds[key]

    def _parameter(self, at: int) -> str:
        e = self.e
        address = e.op("add i64", e.state.load("Env", "params", invariant=True), at)
        place = e.emit(f"getelementptr i8, ptr %arena, i64 {address}")
        return e.emit(f"load i64, ptr {place}, !invariant.load !1")

    # -- lane by lane -----------------------------------------------------------------------------------------

    def _exact(self, base, start: str, rest: str, first: int) -> str:
        """The address of each lane."""
        if not rest:
            return self.text.spread(start, "i64")
        whole = self.values.read(base)
        return self.e.op("add i64", whole, first) if first else whole

    def _check_each(self, members: list[Instruction], addresses: str, first: int, good: str) -> None:
        """Ends the block: in `good`, if every lane may access."""
        e, text = self.e, self.text
        if not self.checked:
            return e.line(f"br label %{good}")
        vector, room = text.type("i64"), "%lanes.addresses"
        e.module.declare("rt_check")
        e.module.helpers["lanes.check"] = _CHECK.format(
            thread=abi.DTYPES["Thread"].itemsize, width=self.width
        )
        if not self._has_room:
            self._has_room = True
            text.first(f"{room} = alloca {vector}, align 64")
        mask, right = self._bits(), ""
        for member in members:
            by = member.address.offset - first
            moved = e.op("add i64", addresses, by) if by else addresses
            e.line(f"store {vector} {moved}, ptr {room}, align 64")
            what = f"i32 {mask}, i32 {e.sites.of(member)}, i32 {info(member)}"
            one = e.fresh("right")
            e.line(f"{one} = call i1 @lanes.check(i64 %env, i64 {e.threads.address}, ptr {room}, {what})")
            right = e.op("and i1", right, one) if right else one
        e.branch(right, good, DEAD)

    def _bits(self) -> str:
        """The mask of lanes as an i32."""
        if not self.values.mask:
            return str((1 << self.width) - 1)
        bits = self.text.plainly_once(f"bitcast {self.text.type('i1')} {self.values.mask} to i{self.width}")
        return self.e.cast("zext", f"i{self.width}", bits, "i32")

    def _pointers(self, pointer: str, rest: str, by: int = 0) -> str:
        if by:
            pointer = self.e.emit(f"getelementptr i8, ptr {pointer}, i64 {by}")
        return self.text.vector(f"getelementptr i8, ptr {pointer}, {self.text.type('i64')} {rest}")

    def _lanewise(self, elements: list[Element], pointers: str, stores: list[str]) -> list[str]:
        """A gather or a scatter of each element."""
        results = []
        for i, x in enumerate(elements):
            where = pointers
            if x.offset:
                vector = self.text.type("ptr")
                where = self.text.vector(f"getelementptr i8, {vector} {pointers}, i64 {x.offset}")
            results.append(self._scattered(x, where, stores[i]) if stores else self._gathered(x, where))
        return results

    def _gathered(self, x: Element, pointers: str) -> str:
        t = llvm_type(x.ins.op.type)
        return self._intrinsic(
            "gather", t, f"{self.text.type('ptr')} align {x.ins.op.nbytes} {pointers}", self._mask()
        )

    def _scattered(self, x: Element, pointers: str, value: str) -> str:
        t = llvm_type(x.ins.op.type)
        where = f"{self.text.type('ptr')} align {x.ins.op.nbytes} {pointers}"
        return self._intrinsic("scatter", t, where, self._mask(), self.text.spread(value, t))

    def _mask(self) -> str:
        return self.values.mask or "splat (i1 true)"

    def _intrinsic(self, what: str, t: str, where: str, mask: str, value: str = "") -> str:
        """llvm.masked.load, store, gather or scatter."""
        text = self.text
        vector, kind = text.type(t), f"v{self.width}{'f' * (t[0] != 'i')}{_bits_of(t)}"
        pointers = where.startswith("<")
        name = f"llvm.masked.{what}.{kind}.{f'v{self.width}' * pointers}p0"
        pointer_type, bools = (text.type("ptr") if pointers else "ptr"), text.type("i1")
        if value:
            text.unit.declare(name, "void", f"{vector} x, {pointer_type} x, {bools} x")
            text.line(f"call void @{name}({vector} {value}, {where}, {bools} {mask})")
            return ""
        text.unit.declare(name, vector, f"{pointer_type} x, {bools} x, {vector} x")
        return text.vector(f"call {vector} @{name}({where}, {bools} {mask}, {vector} zeroinitializer)")

    # -- by how addresses lie -----------------------------------------------------------------------------------

    def _ways(self, elements: list[Element], place: Place, stores: list[str]) -> Iterator[list[str]]:
        """The results, of each way that the lanes' addresses may lie; each way is a block of its own."""
        one = elements[0].ins.op.vector == 1
        size = elements[0].ins.op.nbytes
        if place.stride == 0:
            yield self._at_one(elements, place, stores)
        elif place.stride is not None:
            row = one and place.stride == size
            yield self._in_a_row(elements, place, stores) if row else self._spread(elements, place, stores)
        elif not place.low:
            yield from self._by_row(elements, place, stores)
        else:
            e, same, other = self.e, self.e.fresh_label("same"), self.e.fresh_label("other")
            e.branch(e.op("icmp eq i64", place.low, place.high), same, other)
            e.label(same)
            pointer = e.emit(f"getelementptr i8, ptr {place.pointer}, i64 {place.low}")
            found = Place(pointer, "0", "0", "", "", 0)
            results = self._at_one(elements, found, stores)
            loads = not stores
            yield (
                [
                    self.text.spread(r, llvm_type(x.ins.op.type))
                    for r, x in zip(results, elements, strict=True)
                ]
                if loads
                else []
            )
            e.label(other)
            yield from self._by_row(elements, place, stores)

    def _by_row(self, elements: list[Element], place: Place, stores: list[str]) -> Iterator[list[str]]:
        """In a row, if they are, or wherever they are."""
        e, size = self.e, elements[0].ins.op.nbytes
        if elements[0].ins.op.vector == 1:
            row, spread = e.fresh_label("row"), e.fresh_label("spread")
            begin, ends = self._first_in_row(place.rest, size)
            e.branch(ends, row, spread)
            e.label(row)
            pointer = e.emit(f"getelementptr i8, ptr {place.pointer}, i64 {begin}")
            found = Place(pointer, "0", "0", place.rest, place.each, size)
            yield self._in_a_row(elements, found, stores)
            e.label(spread)
        yield self._spread(elements, place, stores)

    def _first_in_row(self, rest: str, size: int) -> tuple[str, str]:
        """(the first of them, whether each lane's is `size` behind the one before)"""
        text, vector = self.text, self.text.type("i64")
        begin = text.plainly_once(f"extractelement {vector} {rest}, i64 0")
        by = text.vector(f"sub {vector} {rest}, {text.spread(begin, 'i64')}")
        equal = text.vector(f"icmp eq {vector} {by}, {text.row(64, size)}")
        return begin, text.reduced("and", equal, "i1")

    def _at_one(self, elements: list[Element], place: Place, stores: list[str]) -> list[str]:
        """All lanes access the same: loads are done once, of stores the last one stays."""
        e, results = self.e, []
        for i, x in enumerate(elements):
            t = llvm_type(x.ins.op.type)
            where = (
                e.emit(f"getelementptr i8, ptr {place.pointer}, i64 {x.offset}")
                if x.offset
                else place.pointer
            )
            if not stores:
                results.append(e.emit(f"load {t}, ptr {where}, align {x.ins.op.nbytes}"))
                continue
            value = stores[i]
            if value in self.text.vectors:
                value = self.text.plainly_once(
                    f"extractelement {self.text.type(t)} {value}, i64 {self._last()}"
                )
            e.line(f"store {t} {value}, ptr {where}, align {x.ins.op.nbytes}")
        return results

    def _last(self) -> str:
        """The number of the last lane that takes part."""
        if not self.values.mask:
            return str(self.width - 1)
        e, t = self.e, "i32"
        behind = e.emit(f"call {t} @llvm.ctlz.i32({t} {self._bits()}, i1 true)")
        return e.cast("zext", t, e.op(f"sub {t}", 31, behind), "i64")

    def _in_a_row(self, elements: list[Element], place: Place, stores: list[str]) -> list[str]:
        e, text, mask, results = self.e, self.text, self.values.mask, []
        for i, x in enumerate(elements):
            t, align = llvm_type(x.ins.op.type), f"align {x.ins.op.nbytes}"
            vector = text.type(t)
            where = (
                e.emit(f"getelementptr i8, ptr {place.pointer}, i64 {x.offset}")
                if x.offset
                else place.pointer
            )
            if stores:
                value = text.spread(stores[i], t)
                if mask:
                    self._intrinsic("store", t, f"ptr {align} {where}", mask, value)
                else:
                    text.line(f"store {vector} {value}, ptr {where}, {align}")
            elif mask:
                results.append(self._intrinsic("load", t, f"ptr {align} {where}", mask))
            else:
                results.append(text.vector(f"load {vector}, ptr {where}, {align}"))
        return results

    def _spread(self, elements: list[Element], place: Place, stores: list[str]) -> list[str]:
        pointers = ""
        if stores:
            return self._lanewise(elements, self._pointers(place.pointer, place.rest), stores)
        at = {x.offset: i for i, x in enumerate(elements)}
        results: list[str] = [""] * len(elements)
        in_fours = BYTES[elements[0].ins.op.type] == 4 and place.low
        for offset in sorted(at):
            run = [at.get(offset + 4 * k) for k in range(_FOUR)]
            if results[at[offset]]:
                continue
            if in_fours and None not in run and not any(results[i] for i in run):
                t = llvm_type(elements[run[0]].ins.op.type)
                for i, value in zip(run, self._fours(place, offset, t), strict=True):
                    results[i] = value
                continue
            pointers = pointers or self._pointers(place.pointer, place.each)
            x = elements[at[offset]]
            (results[at[offset]],) = self._lanewise([x], pointers, [])
        for i, x in enumerate(elements):  # the same address again
            results[i] = results[i] or results[at[x.offset]]
        return results

    def _fours(self, place: Place, offset: int, t: str) -> list[str]:
        """Four numbers of each lane, as four vectors of lanes."""
        e, text, n = self.e, self.text, self.width
        rows = []
        for lane in range(n):
            by = text.plainly_once(f"extractelement {text.type('i64')} {place.each}, i64 {lane}")
            base = e.emit(f"getelementptr i8, ptr {place.pointer}, i64 {by}")
            where = e.emit(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base
            rows.append(e.emit(f"load <4 x {t}>, ptr {where}, align 4"))
        # the rows of lanes 0, 4, 8 ... side by side, and so on: then fours are transposed within a vector
        sides = [self._side_by_side(rows[k::4], t) for k in range(4)]
        pairs = [
            self._shuffled(sides[a], sides[a + 1], t, order)
            for a in (0, 2)
            for order in ((0, n, 1, n + 1), (2, n + 2, 3, n + 3))
        ]
        (low, high), (low2, high2) = pairs[:2], pairs[2:]
        first, second = (0, 1, n, n + 1), (2, 3, n + 2, n + 3)
        return [
            self._shuffled(low, low2, t, first, True),
            self._shuffled(low, low2, t, second, True),
            self._shuffled(high, high2, t, first, True),
            self._shuffled(high, high2, t, second, True),
        ]

    def _side_by_side(self, rows: list[str], t: str) -> str:
        size = 4
        while len(rows) > 1:
            order = ", ".join(f"i32 {i}" for i in range(2 * size))
            v = f"<{size} x {t}>"
            rows = [
                self.text.plainly(f"shufflevector {v} {a}, {v} {b}, <{2 * size} x i32> <{order}>")
                for a, b in zip(rows[::2], rows[1::2], strict=True)
            ]
            size *= 2
        return rows[0]

    def _shuffled(self, a: str, b: str, t: str, order: tuple[int, ...], last: bool = False) -> str:
        """The same shuffle of each four of them."""
        numbers = [i + at for at in range(0, self.width, 4) for i in order]
        v = self.text.type(t)
        chosen = f"<{self.width} x i32> <{', '.join(f'i32 {i}' for i in numbers)}>"
        emit = self.text.vector if last else self.text.plainly
        return emit(f"shufflevector {v} {a}, {v} {b}, {chosen}")


def _bits_of(t: str) -> int:
    return {"half": 16, "float": 32, "double": 64}.get(t) or int(t[1:])


def _together(body) -> dict[Instruction, list[Instruction]]:
    """The first of several loads at constant distances from one address -> all of them. No store comes in between."""
    found: dict[Instruction, list[Instruction]] = {}
    stores = [p for p, i in enumerate(body) if isinstance(i, Instruction) and i.op.writes_memory]
    for group in {id(g): g for g in access_groups(body).values()}.values():
        if group.write:
            continue
        run: list[tuple[int, Instruction]] = []
        for position, ins, _ in group.members:
            like = run and (run[0][1].op.type, run[0][1].op.vector) == (ins.op.type, ins.op.vector)
            if run and (not like or any(run[0][0] < p < position for p in stores)):
                found[run[0][1]], run = [i for _, i in run], []
            run.append((position, ins))
        found[run[0][1]] = [i for _, i in run]
    return found
