"""The values of PTX's special registers. `ptx/special` lists them and where most of them are kept."""

from __future__ import annotations

from ....errors import Unsupported
from ..ptx import special
from ..ptx.types import llvm_type
from ..runtime import abi
from .state import State
from .text import Text
from .threads import Threads


class SpecialRegisters:
    def __init__(self, text: Text, state: State, threads: Threads):
        self.text, self.state, self.threads = text, state, threads
        self._values: dict[str, str] = {}

    def read(self, name: str) -> tuple[str, str]:
        """A special register's value and LLVM type, read once at the entry if it cannot change."""
        row = special.ROWS[name]
        if not row.value:
            raise Unsupported(row.why)
        if row.same == "time":
            return _read(self, row), llvm_type(row.type)
        key = f"{self.threads.address} {name}"
        if key not in self._values:
            with self.text.at_entry():
                self._values[key] = _read(self, row)
        return self._values[key], llvm_type(row.type)


def _read(r: SpecialRegisters, row: special.Row) -> str:
    if row.value.isdigit():
        return row.value
    struct, _, name = row.value.partition(".")
    return r.state.load(struct, name, invariant=True) if name else _COMPUTED[row.value](r, row)


def _linear(r) -> str:
    return r.state.load("Thread", "linear", invariant=True)


def _lane(r, row) -> str:
    return r.text.op("and i32", _linear(r), 31)


def _lanemask(r, row) -> str:
    lane = _lane(r, row)
    start, more = _LANEMASKS[row.name[-2:]]
    first = r.text.op("shl i32", start, lane)
    return r.text.op("add i32", first, more) if more else first


def _warps(r, row) -> str:
    threads = r.state.load("Launch", "threads", invariant=True)
    return r.text.op("lshr i32", r.text.op("add i32", threads, 31), 5)


def _total_shared(r, row) -> str:
    static = r.state.load("Launch", "shared_static", invariant=True)
    return r.text.op("add i32", static, r.state.load("Launch", "shared_dynamic", invariant=True))


def _workspace(r, row) -> str:
    """The upper and the lower half of the address of the grid's workspace."""
    workspace = r.state.load("Launch", "grid_workspace", invariant=True)
    half = r.text.op("lshr i64", workspace, 32) if row.name == "%envreg1" else workspace
    return r.text.cast("trunc", "i64", half, "i32")


def _ticks(r, row) -> str:
    ticks = r.text.emit("call i64 @rt_ticks(i64 %env)")
    if row.type == "u64":
        return ticks
    return r.text.cast(
        "trunc", "i64", r.text.op("lshr i64", ticks, 32) if row.name.endswith("hi") else ticks, "i32"
    )


#: what is 1 << lane, and what is added
_LANEMASKS = {"eq": (1, 0), "lt": (1, -1), "le": (2, -1), "gt": (-2, 0), "ge": (-1, 0)}

#: the values of `ptx/special` that are neither a field nor a number
_COMPUTED = {
    "lane": _lane,
    "lanemask": _lanemask,
    "warp": lambda r, row: r.text.op("lshr i32", _linear(r), 5),
    "warps": _warps,
    "reserved": lambda r, row: str(abi.RESERVED[row.name.rpartition("_")[2]]),
    "total_shared": _total_shared,
    "workspace": _workspace,
    "is_cluster": lambda r, row: r.text.op(
        "icmp ugt i32", r.state.load("Launch", "cluster", invariant=True), 1
    ),
    "ticks": _ticks,
}
