"""Loads and stores of lanes: one check for all of them (`lane_checks`), and as few accesses as their addresses allow
(`lane_patterns`).

All lanes are checked, and all load, even if some do not take part: often only the active mask differs from
the previous iteration, not the addresses. If the check fails, the active lanes are checked alone; if that
fails too, the runtime decides exactly. What is allowed is then done lane by lane. Loads at constant distances
from one address are done together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce

from ...analyse.access_groups import together
from ...analyse.lanes import Lanes
from ...instrument.bounds import is_checked
from ...ptx.ir import Instruction, Symbol, operand
from ...ptx.types import BITS, llvm_type
from ...runtime.abi import WARP
from ..control import DEAD
from .checks import Checks
from .looks import Looks
from .patterns import Element, Patterns, Place
from .slow import SlowAccesses

_HELD = 4  # sums


class Accesses:
    """lower(ins): lowers any other instruction."""

    def __init__(self, e, lanes: Lanes, checked: bool, lower: Callable[[Instruction], object]):
        self.lower = lower
        self.e, self.text, self.values, self.lanes = e, e.text, e.values, lanes
        self.checks, self.patterns, self.slow = Checks(e, lanes, checked), Patterns(e), SlowAccesses(e)
        if not checked:
            self.patterns.rarely = self._hold_sums
        self.looks = Looks(e, self.slow) if e.module.waits.interleaved else None
        self.together, self.conditions = together(e.function.body)
        self.sums: dict[str, None] = {}  # registers, computed since the last access
        self.loaded: dict[tuple[Instruction, int], str] = {}  # what comes next, already

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

    def computed(self, ins: Instruction) -> None:
        """Take note of a sum that lives across blocks."""
        if ins.op.counts in ("add", "fma") or ins.base in ("selp", "mov") and ins.op.type in ("f32", "f64"):
            if self.values.keeps(ins.operands[0]):
                self.sums[ins.operands[0]] = None

    def _hold_sums(self) -> None:
        """In code that rarely runs, some sums are written to unused memory: so LLVM computes them before, not after later loads,
        whose results would all have to be kept."""
        for register in list(self.sums)[:_HELD]:
            self.slow.hold(self.values.read(register), llvm_type(self.values.types[register]))
        self.sums.clear()

    def _set(self, register: str, value: str, type_: str) -> None:
        if register != "_":
            self.values.set(register, value, type_)

    def _access(self, members: list[Instruction]) -> None:
        e, ins = self.e, members[0]
        base, offsets = ins.address.base, [m.address.offset for m in members]
        first, last = min(offsets), max(offsets) + ins.op.width
        elements = _elements(members, first)
        shared = ins.op.space == "shared"
        memory = "%shared" if shared else "%arena"
        start, rest, stride = self.address(base, shared)
        if first:
            start = e.op("add i64", start, first)
        stores: list[str] = []
        if ins.op.memory == "store":
            stores = [self.values.value(x.register, x.ins.op.type) for x in elements]
            if stride is None and self.lanes.exchanges and self.text.width == WARP and self.text.rows == 1:
                # a call: for this many lanes the patterns are much code, and stores are few
                self._slowly(members, elements, memory, self.exact(base, start, rest, first), first, stores)
                return
        place = self._place(memory, start, rest, stride, ins.op.nbytes, bool(ins.pred))
        slow, good, met = (e.fresh_label(hint) for hint in ("slow", "good", "met"))
        allowed = self.checks.allowed(ins, place, start, last - first)
        if self.looks:
            self._branch(members, allowed, (start, rest, stride), first, good, slow)
        else:
            e.branch(allowed, good, slow, likely=True)
        known, arrived = self.text.remembered(), []
        with self.text.out_of_line(slow):
            if self.checks.checked:
                self._hold_sums()
            addresses = self.exact(base, start, rest, first)
            if ins.pred:
                self._of_some(members, elements, place, memory, addresses, first, met, arrived)
            elif not rest:
                self._check(members, addresses, first, good)
            else:
                arrived.append(self._slowly(members, elements, memory, addresses, first, stores))
                e.line(f"br label %{met}")
        e.label(good)
        for results in self.patterns.ways(elements, place, stores):
            arrived.append((e.fresh_label("done"), results))
            e.line(f"br label %{arrived[-1][0]}")
            e.label(arrived[-1][0])
            e.line(f"br label %{met}")
            self.text.recall(known)
        e.label(met)
        self._join(elements, arrived)

    def _branch(
        self, members: list[Instruction], allowed: str, where: tuple, first: int, good: str, slow: str
    ):
        """With full checks: on to `good` where all lanes may access, and nothing else can be wrong. where: as `address`."""
        e, ins, (start, rest, stride) = self.e, members[0], where
        known, look = self.text.remembered(), e.fresh_label("look")
        clean = "false" if ins.op.memory == "store" else self.checks.clean(ins)
        if clean == "true":
            return e.branch(allowed, good, slow, likely=True)
        if clean != "false":
            maybe = e.fresh_label("maybe")
            e.branch(e.op("and i1", allowed, clean), good, maybe, likely=True)
            with self.text.out_of_line(maybe):
                e.branch(allowed, look, slow)
        elif self.looks.shows(members, stride):
            inside = e.fresh_label("inside")
            e.branch(allowed, inside, slow, likely=True)
            e.label(inside)
            unread = look if stride else e.fresh_label("unread")
            e.branch(self.looks.only_read(members, start, first, stride), good, unread, likely=True)
            if not stride:
                with self.text.out_of_line(unread):
                    self.looks.read_first(members, start, first, self._in_shared(ins), good, look)
        else:
            e.branch(allowed, look, slow, likely=True)
        with self.text.out_of_line(look):
            runs, right = self.looks.runs(members), []
            in_row = all(stride == count * m.op.width >= 4 for m, count in runs)
            where = start if in_row else self.exact(ins.address.base, start, rest, first)
            for m, count in runs:
                at = self._moved(where, m, first)
                right.append(self.looks.look(m, count, at, self._in_shared(m), in_row, stride))
            e.branch(self._all(right), good, DEAD, likely=True)
        return self.text.recall(known)

    def _in_shared(self, ins: Instruction) -> bool:
        root = self.lanes.roots[ins.address.base]
        return root.kind != "param" and self.e.variables.find(root.name).space == "shared"

    def rows(self, ins: Instruction) -> tuple[str, tuple[str, ...]]:
        """Of ldmatrix: the address in the shared window that each lane gives, and what those of rows are checked against, if they
        are (see `Checks.limits_of_each`)."""
        base = ins.address.base
        start, rest, _ = self.address(base, True)
        addresses = self.exact(base, start, rest, ins.address.offset)
        return addresses, self.checks.limits_of_each(ins) if self.checks.checked else ()

    def _check(self, members: list[Instruction], addresses: str, first: int, good: str) -> None:
        """Of all lanes, which access the same. Ends the block."""
        e = self.e
        if not self.checks.checked:
            return e.line(f"br label %{good}")
        if self.looks:
            return self._ask(members, addresses, first, good)
        right = [self.slow.check(m, self._moved(addresses, m, first)) for m in members]
        e.branch(self._all(right), good, DEAD)

    def _ask(self, members: list[Instruction], addresses: str, first: int, good: str) -> None:
        """The same, with full checks; outside a variable something is always wrong."""
        e = self.e
        if self.lanes.roots[members[0].address.base].kind != "param":
            e.state.call("rt_suspect", site=e.sites.of(members[0]))
            return e.line(f"br label %{DEAD}")
        right = [self.slow.ask(m, self._moved(addresses, m, first), *self.looks.what(m)) for m in members]
        return e.branch(self._all(right), good, DEAD)

    def _slowly(
        self,
        members: list[Instruction],
        elements: list[Element],
        memory: str,
        addresses: str,
        first: int,
        stores: list[str],
    ) -> tuple[str, list[str]]:
        """Lane by lane: (the block, the results). addresses: of what is `first` behind the access's base."""
        e, on = self.e, self.e.fresh_label("exact")
        right, results = [], []
        if not self.checks.checked:
            e.line(f"br label %{on}")
            e.label(on)
            pointers = self.patterns.pointers(memory, addresses)
            for member in members:
                with self._taking_part(member):
                    own = [x for x in elements if x.ins is member]
                    results += self.patterns.lanewise(own, pointers, stores, self.values.mask)
            return on, results
        for member in members:
            limits, moved = self.checks.limits_of_each(member), self._moved(addresses, member, first)
            full = None
            if self.looks:
                clean = "false" if stores else self.checks.clean(member)
                strict = self.lanes.roots[member.address.base].kind != "param"
                full = (*self.looks.what(member), clean, strict)
            with self._taking_part(member):
                one, found = self.slow.access(member, moved, memory, limits, stores, full)
            right.append(one)
            results += found
        e.branch(self._all(right), on, DEAD)
        e.label(on)
        return on, results

    # -- loads with a condition ---------------------------------------------------------------------------

    @contextmanager
    def _taking_part(self, ins: Instruction) -> Iterator[None]:
        """Only lanes for which the condition of a load holds, if it has one, take part within."""
        text, values, before = self.text, self.values, self.values.mask
        if ins.pred:
            holds = text.spread(self.e.value(f"{'!' * ins.negated}{ins.pred}", "pred"), "i1")
            values.mask = text.vector(f"and {text.type('i1')} {values.everyone()}, {holds}")
        yield
        values.mask = before

    def _of_some(
        self,
        members: list[Instruction],
        elements: list[Element],
        place: Place,
        memory: str,
        addresses: str,
        first: int,
        met: str,
        arrived: list[tuple[str, list[str]]],
    ) -> None:
        """Loads that not all lanes may do, and some lanes are not to do. Nobody may be left: then nothing is loaded."""
        e, some, none = self.e, self.e.fresh_label("some"), self.e.fresh_label("none")
        masks = []
        for ins in self.conditions.get(members[0], ()):
            self.lower(ins)
        for member in members:
            with self._taking_part(member):
                masks.append(self.values.mask)
        anybody = reduce(lambda a, b: e.op("or i1", a, b), masks)
        e.branch(e.text.any(anybody), some, none)
        e.label(none)
        arrived.append((none, ["zeroinitializer"] * len(elements)))
        e.line(f"br label %{met}")
        e.label(some)
        if place.rest:
            arrived.append(self._slowly(members, elements, memory, addresses, first, []))
        else:
            arrived.append(self._from_place(members, elements, place, addresses, first))
        e.line(f"br label %{met}")

    def _from_place(
        self, members: list[Instruction], elements: list[Element], place: Place, addresses: str, first: int
    ) -> tuple[str, list[str]]:
        """Each from its own place, which is the same for all lanes, if any of them takes part."""
        e, on, right, pointers = self.e, self.e.fresh_label("exact"), [], []
        for member in members:
            with self._taking_part(member):
                if self.checks.checked:
                    right.append(self.slow.check(member, self._moved(addresses, member, first)))
                some = e.text.any_of_row(self.values.mask)
            pointers += [self.patterns.anywhere(place, x, some) for x in elements if x.ins is member]
        if right:
            e.branch(self._all(right), on, DEAD)
        else:
            e.line(f"br label %{on}")
        e.label(on)
        return on, [self.patterns.load(x, pointer) for x, pointer in zip(elements, pointers, strict=True)]

    def _moved(self, addresses: str, member: Instruction, first: int) -> str:
        by = member.address.offset - first
        return self.e.op("add i64", addresses, by) if by else addresses

    def _all(self, right: list[str]) -> str:
        return reduce(lambda a, b: self.e.op("and i1", a, b), right)

    def _join(self, elements: list[Element], arrived: list[tuple[str, list[str]]]) -> None:
        """All paths join here. arrived: (block, results) of each."""
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

    def address(self, base, shared: bool) -> tuple[str, str, int | None]:
        """The address of the first lane, what is to be added in each, and how far apart these are. shared: in the shared
        window, as numbers of 32 bits, whose sum is right where it is in an array."""
        if type(base) is Symbol:
            return self.e.variables.symbol(base.name, shared), "", 0
        stride, narrow = self.lanes.strides.get(base, 0), BITS[self.values.types[base]] == 32
        start, rest = self.values.pair(operand(base), "u32" if narrow else "u64")
        if narrow:
            start = self.text.extended("sext", start)[0]
            if stride is not None:
                rest = self.text.row(64, stride) if stride else ""
            else:
                rest = self.text.vector(f"sext {self.text.type('i32')} {rest} to {self.text.type('i64')}")
        return start, rest, stride

    def _place(
        self, memory: str, start: str, rest: str, stride: int | None, size: int, conditional: bool
    ) -> Place:
        pointer = self.e.emit(f"getelementptr i8, ptr {memory}, i64 {start}")
        if stride == 0:
            return Place(pointer, "0", "0", "", 0)
        if stride is None:
            if self.values.mask and not self.values.merging and not conditional:
                rest = self._of_those_alive(rest, size)
            low, high = (self.text.reduced(how, rest, "i64") for how in ("smin", "smax"))
        else:
            low, high = map(str, sorted((0, stride * (self.text.width - 1))))
        return Place(pointer, low, high, rest, stride)

    def _of_those_alive(self, rest: str, size: int) -> str:
        """Lanes that have left are given the address of one that has not, unless all are in a row: what follows the last
        element is mostly in the array, what follows its last row is not."""
        text, vector = self.text, self.text.type("i64")
        alive = f"select {text.bools} {text.condition(self.values.mask)}, {vector} {rest}, {vector} "
        low = text.reduced("smin", text.vector(f"{alive}splat (i64 {(1 << 63) - 1})"), "i64")
        each = text.vector(alive + text.spread(low, "i64"))
        in_a_row = self.patterns.first_in_row(rest, size)[2]
        return text.vector(f"select i1 {in_a_row}, {vector} {rest}, {vector} {each}")

    def exact(self, base, start: str, rest: str, first: int) -> str:
        """The address of each lane."""
        if not rest:
            return self.text.spread(start, "i64")
        whole = self.values.read(base)
        if BITS[self.values.types[base]] == 32:
            whole = self.e.cast("sext", "i32", whole, "i64")
        return self.e.op("add i64", whole, first) if first else whole


def _elements(members: list[Instruction], first: int) -> list[Element]:
    return [
        Element(m, register, m.address.offset - first + k * m.op.nbytes)
        for m in members
        for k, register in enumerate(m.operands[0 if m.op.memory == "load" else 1].parts)
    ]
