"""cp.async and mbarrier: copies that arrive as late as allowed, and barriers in shared memory.

Source: PTX ISA, sections 9.7.9.25 (cp.async) and 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

import re

from ..ptx.types import llvm_type
from ..runtime.abi import INFO_ATOMIC, NO_ADDRESS

_COPY = re.compile(
    r"cp\.async\.(ca|cg)\.shared(?:::cta)?\.global(?:\.L2::cache_hint)?(?:\.L2::(?:64|128|256)B)?"
)
_MBARRIER = re.compile(
    r"mbarrier\.(init|inval|arrive|arrive_drop|test_wait|try_wait|pending_count)(?:\.(noComplete|parity))?"
    r"(?:\.(?:release|acquire|relaxed)\.cta)?(?:\.(shared)(?:::cta)?)?(?:\.(b64))?"
)
_OPERATIONS = ("init", "arrive", "arrive_drop", "test_wait", "inval", "parity")


class Asynchronous:
    """Mixin of `lower.Lowering`."""

    def asynchronous(self, ins) -> bool:
        """Lower cp.async and mbarrier; False for any other opcode."""
        if ins.base == "mbarrier":
            self._mbarrier(ins)
            return True
        if ins.opcode.startswith("cp.async.mbarrier.arrive"):
            self._arrive_after_copies(ins)
        elif ins.opcode == "cp.async.commit_group":
            self.runtime_call("rt_copy_commit", site=self.site(ins))
        elif ins.opcode == "cp.async.wait_group":
            self.runtime_call("rt_copy_wait", str(int(ins.operands[0], 0)), site=self.site(ins))
        elif ins.opcode == "cp.async.wait_all":
            self.runtime_call("rt_copy_wait", str(0xFFFFFFFF), site=self.site(ins))
        elif _COPY.fullmatch(ins.opcode):
            self._copy(ins)
        else:
            return False
        self.end_segment()  # other copies are under way now
        return True

    def _copy(self, ins) -> None:
        """`[to], [from], size{, bytes to read}`: bounds are checked now, the bytes move at the wait."""
        inside = self.op("and i64", self.address(ins.operands[0], "shared"), 0xFFFFFFFF)
        to = self.op("add i64", inside, self.shared_base)
        source = self.address(ins.operands[1], "global")
        size = int(ins.operands[2], 0)
        if size not in ((16,) if ".cg." in ins.opcode else (4, 8, 16)):
            self.unsupported(ins)
        given = str(size)
        if len(ins.operands) > 3 and "cache_hint" not in ins.opcode:
            operand = ins.operands[3]
            if self.register_type(operand) == "pred":  # ignore-src
                ignored = self.value(operand, "pred")
                given = self.emit(f"select i1 {ignored}, i64 0, i64 {size}")
            else:
                given = self.cast("zext", "i32", self.value(operand, "u32"), "i64")
        good = self.fresh_label("copying")
        ok = self.runtime_call("rt_copy", to, source, str(size), given, site=self.site(ins))
        self.branch(self.op("icmp ne i32", ok, 0), good, self.dead_label)
        self.label(good)
        self.count_access(ins, inside, "shared", size, True)
        read = self.op("icmp ne i64", given, 0)
        self.count_access(
            ins, self.emit(f"select i1 {read}, i64 {source}, i64 {NO_ADDRESS}"), "global", size, False
        )

    def _mbarrier(self, ins) -> None:
        match = _MBARRIER.fullmatch(ins.opcode)
        if not match:
            self.unsupported(ins)
        what, space = match[1], match[3] or "generic"
        operands = list(ins.operands)
        if what == "pending_count":
            state = self.op("lshr i64", self.value(operands[1], "b64"), 20)
            self.set(operands[0], self.cast("trunc", "i64", self.op("and i64", state, 0xFFFFF), "i32"), "b32")
            return
        target = "_" if what in ("init", "inval") else operands.pop(0)
        flags = 0 if what == "init" else INFO_ATOMIC
        pointer = self.pointer(ins, operands[0], space, 8, True, flags)
        host = self.emit(f"ptrtoint ptr {pointer} to i64")
        argument = "1"
        if len(operands) > 1:
            type_ = "b64" if what in ("test_wait", "try_wait") and match[2] != "parity" else "u32"
            argument = self.resize(self.value(operands[1], type_), llvm_type(type_), "i64")
        waits = what in ("test_wait", "try_wait")
        code = _OPERATIONS.index("parity" if match[2] == "parity" else "test_wait" if waits else what)
        result = self.emit(
            f"call i64 @rt_mbarrier(i64 %env, i64 %thr, i32 {self.site(ins)}, i64 {code}, i64 {host}, i64 {argument})"
        )
        if waits:
            self.set(target, self.cast("trunc", "i64", result, "i1"), "pred")
        else:
            self.set(target, result, "b64")

    def _arrive_after_copies(self, ins) -> None:
        """The arrival triggered by the copies so far: they complete now, and the thread arrives."""
        self.runtime_call("rt_copy_wait", str(0xFFFFFFFF), site=self.site(ins))
        space = "shared" if ".shared" in ins.opcode else "generic"
        pointer = self.pointer(ins, ins.operands[0], space, 8, True, INFO_ATOMIC)
        host = self.emit(f"ptrtoint ptr {pointer} to i64")
        code = _OPERATIONS.index("arrive")
        if ".noinc" not in ins.opcode:  # first the pending count goes up by one
            self.emit(
                f"call i64 @rt_mbarrier(i64 %env, i64 %thr, i32 {self.site(ins)}, i64 {code}, i64 {host}, i64 -1)"
            )
        self.emit(
            f"call i64 @rt_mbarrier(i64 %env, i64 %thr, i32 {self.site(ins)}, i64 {code}, i64 {host}, i64 1)"
        )
