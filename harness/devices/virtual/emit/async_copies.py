"""cp.async and mbarrier: copies that arrive as late as allowed, and barriers in shared memory.

Source: PTX ISA, sections 9.7.9.25 (cp.async) and 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

from ..ptx.types import llvm_type
from ..runtime.abi import INFO_ATOMIC

_OPERATIONS = ("init", "arrive", "arrive_drop", "test_wait", "inval", "parity")


class Asynchronous:
    """Mixin of `lower.Lowering`."""

    def asynchronous(self, ins) -> None:
        """Lower cp.async and mbarrier."""
        op = ins.op
        if op.is_mbarrier:
            return self._mbarrier(ins)
        if op.memory == "copy":
            self._copy(ins)
        elif op.operation == "arrive":
            self._arrive_after_copies(ins)
        elif op.operation == "commit_group":
            self.runtime_call("rt_copy_commit", site=self.site(ins))
        else:
            all_but = ins.named["n"].value if op.operation == "wait_group" else 0xFFFFFFFF
            self.runtime_call("rt_copy_wait", str(all_but), site=self.site(ins))

    def _copy(self, ins) -> None:
        """`[to], [from], size{, bytes to read}`: bounds are checked now, the bytes move at the wait."""
        inside = self.op("and i64", self.address(ins.operands[0], "shared"), 0xFFFFFFFF)
        to = self.op("add i64", inside, self.shared_base)
        source = self.address(ins.operands[1], "global")
        size = ins.named["n"].value
        given = str(size)
        if (operand := ins.named.get("b")) is not None:
            if self.register_type(operand) == "pred":  # ignore-src
                ignored = self.value(operand, "pred")
                given = self.emit(f"select i1 {ignored}, i64 0, i64 {size}")
            else:
                given = self.cast("zext", "i32", self.value(operand, "u32"), "i64")
        good = self.fresh_label("copying")
        ok = self.runtime_call("rt_copy", to, source, str(size), given, site=self.site(ins))
        self.branch(self.op("icmp ne i32", ok, 0), good, self.dead_label)
        self.label(good)

    def _mbarrier(self, ins) -> None:
        op, named = ins.op, ins.named
        if op.operation == "pending_count":
            state = self.op("lshr i64", self.value(named["a"], "b64"), 20)
            self.set(named["d"], self.cast("trunc", "i64", self.op("and i64", state, 0xFFFFF), "i32"), "b32")
            return
        flags = 0 if op.operation == "init" else INFO_ATOMIC
        pointer = self.pointer(ins, ins.address, op.space, 8, True, flags)
        host = self.emit(f"ptrtoint ptr {pointer} to i64")
        argument = "1"
        if "b" in named:
            type_ = next(role.type for role in ins.roles if role.name == "b")
            argument = self.resize(self.value(named["b"], type_), llvm_type(type_), "i64")
        what = "parity" if "parity" in op.mods else op.operation.replace("try_wait", "test_wait")
        code = _OPERATIONS.index(what)
        result = self.emit(
            f"call i64 @rt_mbarrier(i64 %env, i64 %thr, i32 {self.site(ins)}, i64 {code}, i64 {host}, i64 {argument})"
        )
        if op.waits:
            self.set(named["d"], self.cast("trunc", "i64", result, "i1"), "pred")
        elif op.has_result:
            self.set(named["d"], result, "b64")

    def _arrive_after_copies(self, ins) -> None:
        """The arrival triggered by the copies so far: they complete now, and the thread arrives."""
        self.runtime_call("rt_copy_wait", str(0xFFFFFFFF), site=self.site(ins))
        pointer = self.pointer(ins, ins.address, ins.op.space, 8, True, INFO_ATOMIC)
        host = self.emit(f"ptrtoint ptr {pointer} to i64")
        code = _OPERATIONS.index("arrive")
        if "noinc" not in ins.op.mods:  # first the pending count goes up by one
            self.emit(
                f"call i64 @rt_mbarrier(i64 %env, i64 %thr, i32 {self.site(ins)}, i64 {code}, i64 {host}, i64 -1)"
            )
        self.emit(
            f"call i64 @rt_mbarrier(i64 %env, i64 %thr, i32 {self.site(ins)}, i64 {code}, i64 {host}, i64 1)"
        )
