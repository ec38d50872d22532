"""The state of thread, worker and launch, as read by compiled code, and PTX's special registers.

Source: PTX ISA, section 10 (special registers).
"""

from __future__ import annotations

from ....errors import Unsupported
from ..ptx import special
from ..ptx.types import llvm_type
from ..runtime import abi


class Special:
    """Mixin of `function.Lowering`."""

    def field_pointer(self, struct: str, name: str, offset: int = 0) -> str:
        """Host pointer to a field of this thread's state, plus `offset` bytes."""
        base = (
            self._extra()
            if struct == "Extra"
            else {"Env": "%envp", "Thread": f"{self.thread}.p", "Launch": "%launch"}[struct]
        )
        return self.emit(f"getelementptr i8, ptr {base}, i64 {abi.offset(struct, name) + offset}")

    def _extra(self) -> str:
        extras = self.load_field("Env", "extras", invariant=True)
        linear = self.cast("zext", "i32", self.load_field("Thread", "linear", invariant=True), "i64")
        mine = self.op("mul i64", linear, abi.DTYPES["Extra"].itemsize)
        return self.cast("inttoptr", "i64", self.op("add i64", extras, mine), "ptr")

    def load_field(
        self, struct: str, name: str, invariant: bool = False, volatile: bool = False, offset: int = 0
    ) -> str:
        """volatile: a check may have written it (see instrument/)."""
        mark = ", !invariant.load !1" if invariant else ""
        pointer = self.field_pointer(struct, name, offset)
        return self.emit(f"load {'volatile ' * volatile}{abi.llvm_field(struct, name)}, ptr {pointer}{mark}")

    def store_field(self, struct: str, name: str, value, offset: int = 0) -> None:
        pointer = self.field_pointer(struct, name, offset)
        self.line(f"store {abi.llvm_field(struct, name)} {value}, ptr {pointer}")

    def runtime_call(self, name: str, *values: str, site) -> str:
        """Call int rt_NAME(env, thr, site, values...) with i64 values, given as i64 or i32 text."""
        wide = []
        for value in values:
            is_narrow = value.startswith("%") and name == "rt_arrive" and not wide
            wide.append(f"i64 {self.cast('zext', 'i32', value, 'i64') if is_narrow else value}")
        return self.emit(
            f"call {abi.FUNCTIONS[name][0]} @{name}({', '.join(['i64 %env', f'i64 {self.thread}', f'i32 {site}'] + wide)})"
        )

    def special(self, name: str) -> tuple[str, str]:
        """A special register's value and LLVM type, read once at the entry if it cannot change."""
        row = special.ROWS[name]
        if not row.value:
            raise Unsupported(row.why, self.module.name)
        if row.same == "time":
            return _read(self, row), llvm_type(row.type)
        if (name, self.member) not in self.specials:
            lines, self.lines = self.lines, self.entry
            self.specials[name, self.member] = _read(self, row)
            self.lines = lines
        return self.specials[name, self.member], llvm_type(row.type)


def _read(e, row: special.Row) -> str:
    if row.value.isdigit():
        return row.value
    struct, _, name = row.value.partition(".")
    return e.load_field(struct, name, invariant=True) if name else _COMPUTED[row.value](e, row)


def _linear(e) -> str:
    return e.load_field("Thread", "linear", invariant=True)


def _lane(e, row) -> str:
    return e.op("and i32", _linear(e), 31)


def _lanemask(e, row) -> str:
    lane = _lane(e, row)
    start, more = _LANEMASKS[row.name[-2:]]
    first = e.op("shl i32", start, lane)
    return e.op("add i32", first, more) if more else first


def _warps(e, row) -> str:
    threads = e.load_field("Launch", "threads", invariant=True)
    return e.op("lshr i32", e.op("add i32", threads, 31), 5)


def _total_shared(e, row) -> str:
    static = e.load_field("Launch", "shared_static", invariant=True)
    return e.op("add i32", static, e.load_field("Launch", "shared_dynamic", invariant=True))


def _workspace(e, row) -> str:
    """The upper and the lower half of the address of the grid's workspace."""
    workspace = e.load_field("Launch", "grid_workspace", invariant=True)
    half = e.op("lshr i64", workspace, 32) if row.name == "%envreg1" else workspace
    return e.cast("trunc", "i64", half, "i32")


def _ticks(e, row) -> str:
    ticks = e.emit("call i64 @rt_ticks(i64 %env)")
    if row.type == "u64":
        return ticks
    return e.cast("trunc", "i64", e.op("lshr i64", ticks, 32) if row.name.endswith("hi") else ticks, "i32")


#: what is 1 << lane, and what is added
_LANEMASKS = {"eq": (1, 0), "lt": (1, -1), "le": (2, -1), "gt": (-2, 0), "ge": (-1, 0)}

#: the values of `ptx/special` that are neither a field nor a number
_COMPUTED = {
    "lane": _lane,
    "lanemask": _lanemask,
    "warp": lambda e, row: e.op("lshr i32", _linear(e), 5),
    "warps": _warps,
    "reserved": lambda e, row: str(abi.RESERVED[row.name.rpartition("_")[2]]),
    "total_shared": _total_shared,
    "workspace": _workspace,
    "ticks": _ticks,
}
