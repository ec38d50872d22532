"""The instructions of a kernel whose threads are lanes of vectors, in order.

Outside regions (see `analyse/lanes`) all live lanes are converged. In a region each block has a mask of the
lanes that wait at it; the blocks follow in order, each runs if any lane waits, and registers that other lanes
still need (see `analyse/inactive`) are written for those lanes only. A loop repeats while any lane stays in it.
"""

from __future__ import annotations

from ...analyse.lanes import Lanes, Region
from ...ptx.cfg import basic_blocks, find_loops
from ...ptx.ir import Function, Instruction, Label
from ...ptx.types import BITS
from ..body import lower
from ..checks import suspect_at
from ..emitter import Emitter
from . import exchanges
from .copies import Copies
from .locals import Locals
from .matrices import Matrices
from .memory import Accesses
from .pairs import Pairs
from .values import LaneValues

_LIVE = "%lanes.live"
_BRIEF = 8  # instructions of a block that is there twice
ALONE = "alone"  # the label reached when a single lane is left, which starts over


def emit(e: Emitter, lanes: Lanes, checked: bool) -> None:
    """Lower the body; ends in a branch to where it returns. checked: each access."""
    e.values.declare(e.function)
    e.text.forget()
    _Body(e, lanes, checked).run()


class _Body:
    def __init__(self, e: Emitter, lanes: Lanes, checked: bool):
        self.e, self.lanes, self.body = e, lanes, e.function.body
        self.values: LaneValues = e.values
        self.accesses = Accesses(e, lanes, checked, lambda ins: self._instruction(ins, -1))
        self.matrices, self.copies = Matrices(self.accesses), Copies(self.accesses, lanes)
        self.pairs, self.locals = Pairs(e, lanes), Locals(e, lanes, self._doubt_unless)
        self.entered: list[Region] = []  # by the branch before
        self.starts = {region.start: region for region in lanes.regions}
        self.positions = {item.name: i for i, item in enumerate(self.body) if isinstance(item, Label)}
        self.mask_type = e.text.type("i1")
        self.in_loops = _written_in_loops(e.function)
        self.full = e.module.waits.interleaved
        # blocks are there twice, also without masks, of which each of several rows has its own
        self.brief = lanes.rows > 1 and not self.full and all(map(self._is_brief, lanes.regions))
        if lanes.dies:
            self._slot(_LIVE, e.text.all_lanes)

    def _slot(self, name: str, start: str = "zeroinitializer") -> None:
        if self.lanes.rows > 1:
            self.e.text.several.add(name)
        self.e.text.first(f"{name} = alloca {self.mask_type}", f"store {self.mask_type} {start}, ptr {name}")

    def run(self) -> None:
        e, i, ended = self.e, 0, False
        self._all_alive(0)
        while i < len(self.body):
            item = self.body[i]
            if region := self.starts.get(i):
                ended = self._region(region, ended)
                i = region.end
                continue
            if isinstance(item, Label):
                (e.text.block if ended else e.text.join)(e.control.label(item.name))
                self._all_alive(i)
                ended = False
            else:
                if ended:  # unreachable code after a branch
                    e.text.block(e.fresh_label("unreachable"))
                ended = self._instruction(item, i)
                if item.op.flow and not ended:
                    self._all_alive(i + 1)
            i += 1
        if not ended:
            e.control.fall_out()

    def _all_alive(self, start: int) -> None:
        # all that have not left the kernel take part in the block that starts there
        thinned = start in self.lanes.thinned or self.lanes.dies and start >= len(self.body)
        self.values.merging = False
        self.values.mask = self.e.text.vector(f"load {self.mask_type}, ptr {_LIVE}") if thinned else ""

    # -- instructions -----------------------------------------------------------------------------------------

    def _instruction(self, ins: Instruction, position: int) -> bool:
        """Whether it ends the block."""
        e = self.e
        if ins.base == "check":
            if ins.opcode == "check.assigned" and self.full:
                self._assigned(ins)
            return False  # accesses have their own
        if ins.base in ("apart", "hold"):
            return False
        if self.full and ins.op.collective:
            if ins.op.moved_rows:  # read before the lanes meet
                self.matrices.look(ins)
            self._meet(ins)
        if ins in self.lanes.exits:
            return self._exit(ins)
        if ins in self.lanes.parts:
            return self._part(ins, position)
        own = self.locals, self.matrices, self.copies, self.accesses
        if any(each.emit(ins) for each in own):
            return False
        if ins in self.lanes.exchanges:
            exchanges.emit(e, ins, self.lanes.exchanges[ins])
            return False
        if ins in self.lanes.of_groups:
            return self._of_group(ins)
        if self.pairs.compare(ins):
            return False
        if ins.op.has_result and ins.operands[0] in self.values.types and not ins.op.flow:
            if self.pairs.emit(ins):
                return False
        if ins.op.collective == "block" and e.control.coroutine:
            self._settle()
        ended = lower(e, ins)
        self.accesses.computed(ins)
        return ended

    def _settle(self) -> None:
        """Before others run: what loops compute is kept in the frame as it is now. LLVM keeps a value where it is computed, in each
        round of a loop; what nobody needs any more disappears with its fence."""
        text, numbers = self.e.text, self.e.text.type("float")
        fence = f"llvm.arithmetic.fence.v{text.width}f32"
        for register in self.in_loops:
            if self.values.keeps(register) and BITS[self.values.types[register]] == 32:
                slot = f'%"{register}:v"'
                text.unit.declare(fence, numbers, f"{numbers} x")
                value = text.vector(f"load {numbers}, ptr {slot}")
                value = text.vector(f"call {numbers} @{fence}({numbers} {value})")
                text.line(f"store {numbers} {value}, ptr {slot}")
                text.forget(f"{register}:v", f"{register}:full")

    def _assigned(self, ins: Instruction) -> None:
        """Registers have been assigned in all lanes that take part."""
        e, held = self.e, ""
        for flag in ins.operands:
            value = e.value(flag, "pred")
            held = e.op("and i1", held, value) if held else value
        if held in e.text.vectors:
            if self.values.mask:
                held = e.op("or i1", held, e.op("xor i1", self.values.mask, "true"))
            held = e.text.all(held)
        self._doubt_unless(held)

    def _doubt_unless(self, holds: str) -> None:
        e = self.e
        doubt, sure = e.fresh_label("doubt"), e.fresh_label("sure")
        e.branch(holds, sure, doubt, likely=True)
        suspect_at(e, doubt)
        e.label(sure)

    def _meet(self, ins: Instruction) -> None:
        """All lanes must be there: who is not, single threads tell."""
        if self.values.mask:
            self._doubt_unless(self.e.text.all(self.values.mask))
        if ins in self.lanes.exchanges:
            self.e.state.call("rt_meet", site=self.e.sites.of(ins))

    def _of_group(self, ins: Instruction) -> bool:
        """Values that depend on the index of the first lane."""
        e, modulus = self.e, self.lanes.of_groups[ins]
        with self.values.of_first_lane():
            if not modulus:
                return lower(e, ins)
            first = "0"
            if modulus != e.text.width:
                first = e.op("urem i32", self.values.value(ins.operands[1], "u32"), modulus)
        self.values.set_pair(ins.operands[0], (first, e.text.row(32, 1)))
        return False

    def _exit(self, ins: Instruction) -> bool:
        """Lanes exit; when none is left, the kernel returns."""
        e, go = self.e, self.e.fresh_label("alive")
        dying = e.value(("!" if ins.negated else "") + ins.pred, "pred")
        if not self.lanes.exits[ins]:
            dying = e.op("xor i1", dying, "true")
        alive = e.op("and i1", self.values.everyone(), e.op("xor i1", dying, "true"))
        e.line(f"store {self.mask_type} {alive}, ptr {_LIVE}")
        if ins in self.lanes.early and not self.full:
            self._unless_alone(alive)
        target = e.control.label(ins.operands[0])
        if self.lanes.exits[ins]:
            e.branch(e.text.any(alive), go, target)
            e.label(go)
        else:
            none = e.fresh_label("nobody")
            e.branch(e.text.any(alive), target, none)
            e.label(none)
        return False

    def _unless_alone(self, alive: str) -> None:
        """A single remaining thread starts over: as a lane it would take as long as many."""
        e, enough = self.e, self.e.fresh_label("enough")
        count = e.emit(f"call i32 @llvm.ctpop.i32(i32 {e.text.bits(alive)})")
        e.branch(e.op("icmp eq i32", count, 1), ALONE, enough, unlikely=True)
        e.label(enough)

    def _part(self, ins: Instruction, position: int) -> bool:
        """The lanes diverge to the first blocks of the region that begins here; nothing to do if they
        reconverge at once."""
        region = self.starts.get(position + 1)
        if region is None:  # nothing in between
            return False
        mask = self.values.mask or self.e.text.all_lanes
        self.entered.append(region)
        self._prepare(region)
        self._split(ins, mask, position + 1, region)
        return False

    # -- regions ----------------------------------------------------------------------------------------------

    def _prepare(self, region: Region) -> None:
        for start, _ in region.blocks:
            self._slot(_mask(start))

    def _region(self, region: Region, ended: bool) -> bool:
        """Lower the blocks of a region. Returns False: what follows is reached."""
        e, head = self.e, self.body[region.start]
        if region in self.entered:
            e.line(f"br label %{_at(region.start)}")
            ended = True
        else:
            self._prepare(region)
        if isinstance(head, Label):  # all lanes come here, to a loop, or some path avoids the branch
            (e.text.block if ended else e.text.join)(e.control.label(head.name))
        elif ended:
            e.text.block(e.fresh_label("around"))
        self._all_alive(region.start)
        self._wait(region.start, self.values.mask or e.text.all_lanes)
        for start in region.entries:
            with e.text.out_of_line(e.control.label(self.body[start].name)):
                e.text.forget()
                self._all_alive(start)
                self._wait(start, self.values.mask or e.text.all_lanes)
                e.line(f"br label %{_at(start)}")
        for n, (start, end) in enumerate(region.blocks):
            next_ = _at(region.blocks[n + 1][0]) if n + 1 < len(region.blocks) else ""
            ends = [loop for loop in region.loops if max(region_end(loop, region)) == end]
            self._block(start, end, region, e.fresh_label("behind") if ends or not next_ else next_)
            for loop in reversed(ends):  # an inner one first
                again = e.text.any(self._waiting(loop.header))
                behind = e.fresh_label("round")
                e.branch(again, _at(loop.header), behind)
                e.text.block(behind)
        return self._behind(region)

    def _behind(self, region: Region) -> bool:
        e = self.e
        e.text.forget()
        self._all_alive(region.end)
        if self.values.mask and any(self._may_die(block) for block in region.blocks):
            on = e.fresh_label("alive")
            e.branch(e.text.any(self.values.mask), on, "return")
            e.label(on)
        if region.end >= len(self.body):
            e.line("br label %return")
            return True
        return False

    def _may_die(self, block: tuple[int, int]) -> bool:
        last = self.body[block[1] - 1]
        return isinstance(last, Instruction) and (
            last in self.lanes.exits or last.op.flow in ("return", "branch")
        )

    def _waiting(self, start: int) -> str:
        return self.e.text.vector(f"load {self.mask_type}, ptr {_mask(start)}")

    def _wait(self, start: int, mask: str) -> None:
        """Adds lanes that wait at a block."""
        e = self.e
        both = e.text.vector(f"or {self.mask_type} {self._waiting(start)}, {mask}")
        e.line(f"store {self.mask_type} {both}, ptr {_mask(start)}")

    def _block(self, start: int, end: int, region: Region, next_: str) -> None:
        e, values = self.e, self.values
        run = e.fresh_label("lanes")
        e.text.join(_at(start))
        mask = self._waiting(start)
        e.line(f"store {self.mask_type} zeroinitializer, ptr {_mask(start)}")
        if self.brief:
            everyone, some = e.fresh_label("everyone"), e.fresh_label("some")
            e.branch(e.text.all(mask), everyone, some, likely=True)
            e.text.block(everyone)
            values.mask = ""
            for position in range(start, end):
                self._instruction(self.body[position], position)
            e.line(f"br label %{next_}")
            e.text.block(some)
        e.branch(e.text.any(mask), run, next_)
        e.text.block(run)
        values.mask, values.merging = mask, True
        for position in range(start, end):
            item = self.body[position]
            if isinstance(item, Label):
                continue
            if item.op.flow in ("branch", "return"):
                self._leave(item, mask, end, region)
            else:
                self._instruction(item, position)
        last = self.body[end - 1]
        if isinstance(last, Label) or not last.op.flow:
            self._go(end, mask, region)
        values.merging = False
        if next_.startswith("behind"):
            e.text.join(next_)

    def _is_brief(self, region: Region) -> bool:
        """Whether it is little code: accesses in rows."""
        if len(region.blocks) != 1:
            return False
        items, lanes = self.body[region.start : region.end], self.lanes
        plain = len(items) <= _BRIEF and all(isinstance(i, Instruction) and not i.op.flow for i in items)
        bases = [i.address.base for i in items if plain and i.op.memory]
        return plain and all(base in lanes.linear and lanes.stride(base) is not None for base in bases)

    def _leave(self, ins: Instruction, mask: str, end: int, region: Region) -> None:
        """The end of a block: its lanes wait elsewhere or exit."""
        if ins.op.flow == "return":
            self._die(mask)
        elif ins.pred:
            self._split(ins, mask, end, region)
        else:
            self._go(self.positions[ins.operands[0]], mask, region)

    def _split(self, ins: Instruction, mask: str, next_: int, region: Region) -> None:
        e = self.e
        taken = e.text.spread(e.value(("!" if ins.negated else "") + ins.pred, "pred"), "i1")
        yes = e.text.vector(f"and {self.mask_type} {mask}, {taken}")
        no = e.text.vector(f"xor {self.mask_type} {mask}, {yes}")
        self._go(self.positions[ins.operands[0]], yes, region)
        self._go(next_, no, region)

    def _go(self, target: int, mask: str, region: Region) -> None:
        if region.start <= target < region.end:
            self._wait(target, mask)
        elif target != region.end:
            self._die(mask)

    def _die(self, mask: str) -> None:
        e = self.e
        alive = e.text.vector(f"load {self.mask_type}, ptr {_LIVE}")
        alive = e.op("and i1", alive, e.op("xor i1", mask, "true"))
        e.line(f"store {self.mask_type} {alive}, ptr {_LIVE}")


def _written_in_loops(function: Function) -> list[str]:
    """The registers that loops write, in a certain order."""
    body, blocks = function.body, basic_blocks(function.body, function.tables)
    starts = sorted({at for loop in find_loops(blocks) for at in loop.blocks})
    inside = (i for at in starts for i in body[at : blocks[at][0]] if isinstance(i, Instruction))
    return list(dict.fromkeys(name for i in inside for name in sorted(i.writes)))


def region_end(loop, region: Region) -> list[int]:
    return [end for start, end in region.blocks if start in loop.blocks]


def _at(start: int) -> str:
    return f"lanes.at.{start}"


def _mask(start: int) -> str:
    return f"%lanes.mask.{start}"
