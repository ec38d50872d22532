"""Local variables that stay in memory, with full checks: all lanes access the same element, which is a vector.

Beside it is a bit for each lane that has written its own. Where one has not, or the element is none, single threads tell.
"""

from __future__ import annotations

from collections.abc import Callable

from ...analyse.lanes import Lanes, is_own
from ...ptx.ir import Instruction
from ...ptx.types import llvm_type

_ELEMENT = 4  # bytes
_APART = 1 << 32  # of the addresses that variables seem to have: nothing else sees them


class Locals:
    """doubt_unless: ends the run unless something holds."""

    def __init__(self, e, lanes: Lanes, doubt_unless: Callable[[str], None]):
        self.e, self.text, self.values, self.lanes = e, e.text, e.values, lanes
        self.doubt_unless = doubt_unless
        self.starts: dict[str, int] = {}
        own = (v for v in e.function.variables.values() if v.space == "local")
        for n, variable in enumerate(own, 1):
            self._place(variable.name, -(-variable.size // _ELEMENT), n * _APART)

    def _place(self, name: str, count: int, start: int) -> None:
        self.starts[name] = start
        self.e.variables.seems_at(name, start)
        self.e.module.declare("llvm.memset.p0.i64", "void", "ptr to, i8 value, i64 bytes, i1 volatile")
        bits = f'%"{name}.written"'
        self.text.first(
            f'%"{name}.values" = alloca [{count} x <{self.text.width} x i32>], align 64',
            f"{bits} = alloca [{count} x i32], align 4",
            f"call void @llvm.memset.p0.i64(ptr {bits}, i8 0, i64 {4 * count}, i1 false)",
        )

    def emit(self, ins: Instruction) -> bool:
        """Lower a load or a store of one; False for any other instruction."""
        if not is_own(self.lanes, ins):
            return False
        e, load = self.e, ins.op.memory == "load"
        name, width = self.lanes.roots[ins.address.base].name, ins.op.width
        offset = e.op("sub i64", e.variables.address(ins.address, ins.op.space), self.starts[name])
        shift = width.bit_length() - 1
        index = e.emit(f"call i64 @llvm.fshr.i64(i64 {offset}, i64 {offset}, i64 {shift})")
        self.doubt_unless(e.op("icmp ult i64", index, e.variables.find(name).size // width))
        first = e.op("lshr i64", offset, _ELEMENT.bit_length() - 1)
        for n, register in enumerate(ins.operands[0 if load else 1].parts):
            at = e.op("add i64", first, n) if n else first
            (self._load if load else self._store)(name, at, register, ins.op.type)
        return True

    def _load(self, name: str, at: str, register, type_: str) -> None:
        e, text, where = self.e, self.text, self._bits(name, at)
        mine = self.values.bits()
        bits = e.op("and i32", e.emit(f"load i32, ptr {where}, align 4"), mine)
        self.doubt_unless(e.op("icmp eq i32", bits, mine))
        value = text.vector(f"load {text.type(llvm_type(type_))}, ptr {self._element(name, at)}, align 64")
        if register != "_":
            self.values.set(register, value, type_)

    def _store(self, name: str, at: str, register, type_: str) -> None:
        e, text, where, t = self.e, self.text, self._bits(name, at), llvm_type(type_)
        element, vector = self._element(name, at), text.type(t)
        value = text.named(text.spread(self.values.value(register, type_), t), t)
        if self.values.mask:
            before = text.vector(f"load {vector}, ptr {element}, align 64")
            chosen = f"{text.bools} {text.condition(self.values.mask)}"
            value = text.vector(f"select {chosen}, {vector} {value}, {vector} {before}")
        e.line(f"store {vector} {value}, ptr {element}, align 64")
        bits = e.op("or i32", e.emit(f"load i32, ptr {where}, align 4"), self.values.bits())
        e.line(f"store i32 {bits}, ptr {where}, align 4")

    def _bits(self, name: str, at: str) -> str:
        return self.e.emit(f'getelementptr i32, ptr %"{name}.written", i64 {at}')

    def _element(self, name: str, at: str) -> str:
        return self.e.emit(f'getelementptr <{self.text.width} x i32>, ptr %"{name}.values", i64 {at}')
