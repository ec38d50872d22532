"""The state of thread, worker and launch, as read by compiled code, and PTX's special registers.

Source: PTX ISA, section 10 (special registers).
"""

from __future__ import annotations

from ....errors import Unsupported
from ..runtime import abi

_SPECIAL = {
    "%tid.x": ("Thread", "tid_x"), "%tid.y": ("Thread", "tid_y"), "%tid.z": ("Thread", "tid_z"),
    "%ntid.x": ("Launch", "block_x"), "%ntid.y": ("Launch", "block_y"), "%ntid.z": ("Launch", "block_z"),
    "%ctaid.x": ("Env", "ctaid_x"), "%ctaid.y": ("Env", "ctaid_y"), "%ctaid.z": ("Env", "ctaid_z"),
    "%nctaid.x": ("Launch", "grid_x"), "%nctaid.y": ("Launch", "grid_y"), "%nctaid.z": ("Launch", "grid_z"),
    "%dynamic_smem_size": ("Launch", "shared_dynamic"),
}  # fmt: skip
_REFUSED_SPECIAL = {
    "%cluster": "thread block clusters",
    "%nclusterid": "thread block clusters", "%is_explicit_cluster": "thread block clusters",
}  # fmt: skip
_LANEMASKS = {"eq": "shl i32 1, {}", "lt": "shl i32 1, {}; add i32 {0}, -1", "le": "shl i32 2, {}; add i32 {0}, -1",
              "gt": "shl i32 -2, {}", "ge": "shl i32 -1, {}"}  # fmt: skip


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
        if name in ("%clock", "%clock64", "%globaltimer"):
            value = self.emit("call i64 @rt_ticks(i64 %env)")
            return (value, "i64") if name != "%clock" else (self.cast("trunc", "i64", value, "i32"), "i32")
        if (name, self.member) not in self.specials:
            lines, self.lines = self.lines, self.entry
            self.specials[name, self.member] = self._read_special(name)
            self.lines = lines
        return self.specials[name, self.member], "i32"

    def _read_special(self, name: str) -> str:
        if name in _SPECIAL:
            return self.load_field(*_SPECIAL[name], invariant=True)
        if name in ("%smid", "%nsmid", "%gridid"):  # one multiprocessor, regardless of the number of cores
            return str(int(name != "%smid"))
        if name.startswith("%reserved_smem_offset_"):
            return str(abi.RESERVED[name.rsplit("_", 1)[1]])
        linear = self.load_field("Thread", "linear", invariant=True)
        lane = self.op("and i32", linear, 31)
        if name == "%laneid":
            return lane
        if name == "%warpid":
            return self.op("lshr i32", linear, 5)
        if name == "%nwarpid":
            threads = self.load_field("Launch", "threads", invariant=True)
            return self.op("lshr i32", self.op("add i32", threads, 31), 5)
        if name.startswith("%lanemask_") and (recipe := _LANEMASKS.get(name[-2:])):
            first, _, second = recipe.partition("; ")
            value = self.emit(first.format(lane))
            return self.emit(second.format(value)) if second else value
        if name == "%total_smem_size":
            static = self.load_field("Launch", "shared_static", invariant=True)
            return self.op("add i32", static, self.load_field("Launch", "shared_dynamic", invariant=True))
        # the upper and lower half of the address of the grid's workspace
        if name in ("%envreg1", "%envreg2"):
            workspace = self.load_field("Launch", "grid_workspace", invariant=True)
            half = self.op("lshr i64", workspace, 32) if name == "%envreg1" else workspace
            return self.cast("trunc", "i64", half, "i32")
        what = next((words for start, words in _REFUSED_SPECIAL.items() if name.startswith(start)), "")
        raise Unsupported(what or f"the special register {name}", self.module.name)
