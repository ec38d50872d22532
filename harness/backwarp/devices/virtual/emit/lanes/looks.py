"""Full checks of the accesses of lanes: has what is read been written, and could there be a race?

The words of the granules, as for single threads (see `epochs`), decide for all lanes at once where they access one
place or a row of places (see `granules`), otherwise lane by lane. Where they are not sure that
nothing is wrong, the launch ends, and single threads run it again, whose checks tell what is wrong.
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
)
from .granules import ASK, Kind
from .values import ROW

_TOGETHER = 16  # bytes of a lane that are looked at together
_MOST_BYTES = 256  # of all lanes, where that still pays


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
        return in_row and self.alone and members[0].op.memory == "load"

    def only_read(self, members: list[Instruction], start: str, first: int, stride: int) -> str:
        """Whether the words show that several threads have read all this since the last barrier, after a check that it was
        written, and nobody has written there; an i1. start: of the first lane's first byte, in the window if they say so."""
        e, text, found, several = self.e, self.text, "", self._read_by_several()
        for ins in members:
            n = ins.op.width // 4 * (text.width if stride else 1)
            where = self._word(self._granule(ins, start, first))
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

    def read_first(
        self, members: list[Instruction], start: str, first: int, shared: bool, good: str, look: str
    ) -> None:
        """Where all lanes read one place: on to `good` if it was written and nobody else has accessed it since the last
        barrier; its words then show that several threads have read it. Ends the block. See `only_read`. shared: it is in
        shared memory, whatever the address says."""
        e, several, right, places = self.e, self._read_by_several(), "", []
        shadow = e.state.load("Env", "shadow", invariant=True)
        oldest = e.state.load("Env", "fresh_shared" if shared else "fresh_global")
        oldest = e.cast("zext", "i32", oldest, "i64")
        for ins in members:
            for byte in range(0, ins.op.width, 4):
                at = self._granule(ins, start, first - byte)
                where = self._word(at)
                word = e.emit(f"load i64, ptr {where}, align 8")
                fresh = e.op("icmp ult i64", e.op("lshr i64", word, 32), oldest)
                usual = e.op("or i1", fresh, e.op("icmp eq i64", word, several))
                state = e.op("add i64", shadow, e.op("lshr i64", at, 2))
                written = e.op(
                    "and i8", e.emit(f"load i8, ptr {e.emit(f'inttoptr i64 {state} to ptr')}"), INIT
                )
                one = e.op("and i1", usual, e.op("icmp ne i8", written, 0))
                right = e.op("and i1", right, one) if right else one
                places.append(where)
        if self.values.mask:  # of a single thread, its own word would be right
            bits = self.values.bits()
            others = e.op("and i32", bits, e.op("sub i32", bits, 1))
            right = e.op("and i1", right, e.op("icmp ne i32", others, 0))
        mark = e.fresh_label("mark")
        e.branch(right, mark, look, likely=True)
        e.label(mark)
        for where in places:
            e.line(f"store i64 {several}, ptr {where}, align 8")
        e.line(f"br label %{good}")

    def _granule(self, ins: Instruction, start: str, first: int) -> str:
        """The device address of what the first lane accesses."""
        base = self.e.op("add i64", start, "%sharedbase") if ins.op.space == "shared" else start
        return self.e.op("add i64", base, ins.address.offset - first)

    def _word(self, at: str) -> str:
        e = self.e
        words = e.emit(f"inttoptr i64 {e.state.load('Env', 'words', invariant=True)} to ptr")
        return e.emit(f"getelementptr i8, ptr {words}, i64 {e.op('shl i64', at, 1)}")

    def _read_by_several(self) -> str:
        """The word of what several threads have read since the last barrier."""
        e = self.e
        stamp = e.op("shl i64", e.cast("zext", "i32", e.state.load("Env", "bar"), "i64"), 24)
        return e.op("shl i64", e.op("add i64", stamp, WHO_SEVERAL), 8)

    # -- out of line ------------------------------------------------------------------------------------------

    def runs(self, members: list[Instruction]) -> list[tuple[Instruction, int]]:
        """Accesses that are looked at together: (the first, how many in a row). Either one, or all that fit."""
        by_offset = sorted({m.address.offset: m for m in members}.items())
        size, found = members[0].op.width, []
        most = _TOGETHER // size if 4 <= size and self.text.width * _TOGETHER <= _MOST_BYTES else 1
        while by_offset:
            first, ins = by_offset[0]
            next_ = [m for at, m in by_offset[:most] if (at - first) % size == 0 and at - first < most * size]
            alike = len(next_) == most and all(self.what(m) == self.what(ins) for m in next_)
            found.append((ins, most if alike else 1))
            del by_offset[: found[-1][1]]
        return found

    def look(
        self, ins: Instruction, count: int, where: str, shared: bool, in_row: bool, stride: int | None
    ) -> str:
        """Whether nothing is wrong with accesses of the lanes that take part, which are allowed; an i1. See `runs`. where: the
        address of the first lane, if they are in a row; else of each."""
        slow, e, text = self.slow, self.e, self.text
        info, unread = self.what(ins)
        several = not text.several.isdisjoint((where, self.values.mask))
        if not in_row:
            slow.enter(where)
            slow.put(where, "i64", 0)
        who = ROW if several else e.threads.address
        place = "%row.p" if several else f"{e.threads.address}.p"
        pointer = e.emit(f"getelementptr i8, ptr {place}, i64 {abi.offset('Thread', 'linear')}")
        linear = e.cast("zext", "i32", e.emit(f"load i32, ptr {pointer}, !invariant.load !1"), "i64")
        base = "%sharedbase" if info & INFO_SHARED else "0"
        what = f"i32 {self.values.bits()}, i32 {e.sites.of(ins)}, i32 {info}, i64 {unread}"
        more = f"i64 {linear}, i64 {base}, i1 {'true' if self.alone else 'false'}"
        given = f"i64 %env, i64 {who}, {f'i64 {where}' if in_row else f'ptr {slow.room}'}, {what}, {more}"
        reads = not info & INFO_WRITE and info & 255 == 4 and count == 1 and not in_row
        kind = Kind(
            text.width, info & 255, count, bool(info & INFO_WRITE), shared, in_row, by=reads and stride or 0
        )
        if kind.name not in e.module.helpers:
            for name in ("rt_look", *(() if self.alone else ("llvm.umax.i32",))):
                e.module.declare(name, *(("i32", "i32 x, i32 y") if name.startswith("llvm") else ()))
            for name, more_ in (("ctpop", ""), ("cttz", ", i1 y")):
                e.module.declare(f"llvm.{name}.i{text.width}", f"i{text.width}", f"i{text.width} x{more_}")
            e.module.helpers["lanes.ask"] = ASK.format(keeping=slow.keeping)
            e.module.helpers[kind.name] = kind.text(self.alone, slow.keeping)
        # rows that read places of their own are mostly the first to do so
        name = f"{kind.name}.apart" if kind.by and where in text.several else kind.name
        return text.assign(f"call preserve_mostcc i1 @{name}({given}) {slow.keeping}")
