"""What compiled code shares with the runtime: the fields of thread, worker and launch, and the runtime's functions."""

from __future__ import annotations

from ..runtime import abi
from .text import Text
from .threads import Threads


class State:
    """Of the thread that the code is for."""

    def __init__(self, text: Text, threads: Threads):
        self.text, self.threads = text, threads
        self._extras: set[str] = set()
        self.flags: set[str] = set()  # see emit/matrices.py

    def begin(self) -> None:
        """Pointers that everything else needs; LLVM drops unused ones."""
        first = self.text.first
        first("%envp = inttoptr i64 %env to ptr")
        for _ in self.threads.each():
            first(f"{self.threads.address}.p = inttoptr i64 {self.threads.address} to ptr")
        for name in ("launch", "arena", "shadow"):
            first(f"%{name}.a = getelementptr i8, ptr %envp, i64 {abi.offset('Env', name)}")
            first(f"%{name} = load ptr, ptr %{name}.a, !invariant.load !1")
        first(
            f"%sharedbase.a = getelementptr i8, ptr %envp, i64 {abi.offset('Env', 'shared_base')}",
            "%sharedbase = load i64, ptr %sharedbase.a, !invariant.load !1",
            "%shared = getelementptr i8, ptr %arena, i64 %sharedbase",
            f"%sharedbase.g = lshr i64 %sharedbase, {abi.GRANULE.bit_length() - 1}",
            "%sharedshadow = getelementptr i8, ptr %shadow, i64 %sharedbase.g",
            f"%globals.a = getelementptr i8, ptr %envp, i64 {abi.offset('Env', 'globals_base')}",
            "%globals = load i64, ptr %globals.a, !invariant.load !1",
        )

    def follow_epoch(self, clocks: bool, may_be_final: bool) -> None:
        """Keep the thread's epoch at hand: it changes only while the thread waits. clocks: more than barriers of the block
        order threads. may_be_final: this is a function that may be called when nothing is to be skipped (see Env.final)."""
        self._clocks, self.may_be_final = clocks, may_be_final
        self.text.first("%epoch = alloca i64", *["%epoch.warp = alloca i64"] * clocks)
        self.renew_epoch()

    @property
    def alone(self) -> bool:
        """Whether only barriers of the block order threads."""
        return not self._clocks

    def renew_epoch(self) -> None:
        """The thread begins, or has waited."""
        text, stamp = self.text, self.load("Env", "bar")
        if self._clocks:
            clock = self.load("Thread", "clock")
            stamp = text.emit(f"call i32 @llvm.umax.i32(i32 {stamp}, i32 {clock})")
        linear = text.cast("zext", "i32", self.load("Thread", "linear", invariant=True), "i64")
        stamp = text.op("shl i64", text.cast("zext", "i32", stamp, "i64"), 24)
        own = text.op("add i64", stamp, text.op("add i64", linear, 1))
        final = text.op("icmp ne i32", self.load("Env", "final"), 0) if self.may_be_final else "false"
        own = text.emit(f"select i1 {final}, i64 -1, i64 {own}")
        text.line(f"store i64 {own}, ptr %epoch")
        if self._clocks:
            warp = text.op("add i64", stamp, text.op("add i64", text.op("lshr i64", linear, 5), abi.WHO_WARP))
            text.line(f"store i64 {text.emit(f'select i1 {final}, i64 -1, i64 {warp}')}, ptr %epoch.warp")

    def epochs(self) -> list[str]:
        """The upper 56 bits of the word of a granule that only this thread has accessed in this interval, of one that
        several threads have, and where collectives order lanes, of one that lanes of its warp have: see runtime/epochs.cu."""
        own = self.text.emit("load i64, ptr %epoch")
        found = [own, self.text.op("or i64", own, abi.WHO_SEVERAL)]
        return [*found, self.text.emit("load i64, ptr %epoch.warp")] if self._clocks else found

    def pointer(self, struct: str, name: str, offset: int = 0) -> str:
        """Host pointer to a field of this thread's state, plus `offset` bytes."""
        own = {"Env": "%envp", "Thread": f"{self.threads.address}.p", "Launch": "%launch"}
        base = self.extra() if struct == "Extra" else own[struct]
        return self.text.emit(f"getelementptr i8, ptr {base}, i64 {abi.offset(struct, name) + offset}")

    def extra(self) -> str:
        """The thread's Extra, which counting asks for all the time: its place is found once, before everything."""
        text, name = self.text, f"{self.threads.address}.extra"
        if name not in self._extras:
            self._extras.add(name)
            with text.at_entry():
                extras = self.load("Env", "extras", invariant=True)
                linear = text.cast("zext", "i32", self.load("Thread", "linear", invariant=True), "i64")
                mine = text.op("mul i64", linear, abi.DTYPES["Extra"].itemsize)
                text.line(f"{name} = inttoptr i64 {text.op('add i64', extras, mine)} to ptr")
        return name

    def fragments(self) -> tuple[str, str]:
        """Host pointer to the matrices that the thread's warp multiplies, and the thread's lane (an i64)."""
        text, name = self.text, f"{self.threads.address}.fragments"
        if name not in self._extras:
            self._extras.add(name)
            with text.at_entry():
                linear = text.cast("zext", "i32", self.load("Thread", "linear", invariant=True), "i64")
                warp = text.op("mul i64", text.op("lshr i64", linear, 5), abi.DTYPES["Fragments"].itemsize)
                all_ = self.load("Env", "fragments", invariant=True)
                text.line(f"{name} = inttoptr i64 {text.op('add i64', all_, warp)} to ptr")
                text.line(f"{name}.lane = and i64 {linear}, 31")
        return name, f"{name}.lane"

    def group(self) -> tuple[str, str]:
        """Host pointer to what the thread's four warps multiply, and the thread's number among them (an i64)."""
        text, name = self.text, f"{self.threads.address}.group"
        if name not in self._extras:
            self._extras.add(name)
            with text.at_entry():
                linear = text.cast("zext", "i32", self.load("Thread", "linear", invariant=True), "i64")
                own = text.op("udiv i64", linear, abi.WARPGROUP)
                own = text.op("mul i64", own, abi.DTYPES["Group"].itemsize)
                groups = self.load("Env", "groups", invariant=True)
                text.line(f"{name} = inttoptr i64 {text.op('add i64', groups, own)} to ptr")
                text.line(f"{name}.thread = urem i64 {linear}, {abi.WARPGROUP}")
        return name, f"{name}.thread"

    def load(
        self, struct: str, name: str, invariant: bool = False, volatile: bool = False, offset: int = 0
    ) -> str:
        """volatile: a check may have written it (see instrument/)."""
        mark = ", !invariant.load !1" if invariant else ""
        pointer = self.pointer(struct, name, offset)
        how = f"load {'volatile ' * volatile}{abi.llvm_field(struct, name)}"
        return self.text.emit(f"{how}, ptr {pointer}{mark}")

    def store(self, struct: str, name: str, value, offset: int = 0) -> None:
        pointer = self.pointer(struct, name, offset)
        self.text.line(f"store {abi.llvm_field(struct, name)} {value}, ptr {pointer}")

    def call(self, name: str, *values: str, site) -> str:
        """Call int rt_NAME(env, thr, site, values...) with i64 values, given as i64 or i32 text."""
        wide = []
        for value in values:
            is_narrow = value.startswith("%") and name == "rt_arrive" and not wide
            wide.append(f"i64 {self.text.cast('zext', 'i32', value, 'i64') if is_narrow else value}")
        given = ", ".join(["i64 %env", f"i64 {self.threads.address}", f"i32 {site}", *wide])
        return self.text.emit(f"call {abi.FUNCTIONS[name][0]} @{name}({given})")
