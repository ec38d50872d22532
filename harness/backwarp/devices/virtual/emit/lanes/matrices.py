"""Matrix instructions where a vector is a warp: ldmatrix, mma.sync. All lanes take part.

A register of a fragment is a vector, as products.py wants it in memory. ldmatrix is a function, too, of the addresses that the
lanes give.
"""

from __future__ import annotations

from ...ptx.ir import Instruction
from .. import products
from ..control import DEAD
from .memory import Accesses

_ROWS = 8  # of a matrix
_LOAD = """
define internal i1 @"{name}"(ptr %memory, ptr %room, i64 %begin, i64 %bound) noinline nounwind {{
  %addresses = load <32 x i64>, ptr %room, align 64
  %begin.0 = insertelement <32 x i64> poison, i64 %begin, i64 0
  %begins = shufflevector <32 x i64> %begin.0, <32 x i64> poison, <32 x i32> zeroinitializer
  %bound.0 = insertelement <32 x i64> poison, i64 %bound, i64 0
  %bounds = shufflevector <32 x i64> %bound.0, <32 x i64> poison, <32 x i32> zeroinitializer
  %behind = sub <32 x i64> %addresses, %begins
  %at = call <32 x i64> @llvm.fshr.v32i64(<32 x i64> %behind, <32 x i64> %behind, <32 x i64> splat (i64 4))
  %inside = icmp ult <32 x i64> %at, %bounds
  %each = or <32 x i1> %inside, <{idle}>
  %all = call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> %each)
  br i1 %all, label %load, label %ask
ask:
  ret i1 false
load:
{rows}
  ret i1 true
}}
"""


class Matrices:
    def __init__(self, accesses: Accesses):
        self.e, self.text, self.accesses = accesses.e, accesses.text, accesses

    def emit(self, ins: Instruction) -> bool:
        """Lower one; False if it is none."""
        if ins.op.collective != "matrix":
            return False
        (self._multiply if ins.op.address is None else self._load)(ins)
        return True

    # -- mma.sync -----------------------------------------------------------------------------------------

    def _multiply(self, ins: Instruction) -> None:
        e, op = self.e, ins.op
        function = products.function(e.module, op)
        for which in "abc":
            t = f"i{products.width(op.elements[which])}"
            for i, part in enumerate(ins.named[which].parts[: products.registers(op, which)]):
                value = self.text.spread(e.value(part, f"b{t[1:]}"), t)
                e.line(f"store {self.text.type(t)} {value}, ptr {self._fragment(op, which, i)}, align 64")
        fragments = self.text.plainly(f"ptrtoint ptr {e.state.fragments()[0]} to i64")
        e.line(f'call void @"{function}"(i64 {fragments})')
        t = f"i{products.width(op.elements['d'])}"
        for i, target in enumerate(ins.named["d"].parts):
            value = self.text.vector(f"load {self.text.type(t)}, ptr {self._fragment(op, 'd', i)}, align 64")
            e.set(target, value, f"b{t[1:]}")

    def _fragment(self, op, which: str, register: int) -> str:
        start, _ = products.place(op, which, register)
        return self.text.plainly(f"getelementptr i8, ptr {self.e.state.fragments()[0]}, i64 {start}")

    # -- ldmatrix -----------------------------------------------------------------------------------------

    def _load(self, ins: Instruction) -> None:
        """Lanes 0 to 8 * count - 1 give the address of a row each, which the function checks against the array; where it does
        not fit, the runtime decides."""
        e, text, vector = self.e, self.text, self.text.type("i32")
        name, room = self._loader(ins), e.state.fragments()[0]
        addresses, limits = self.accesses.rows(ins)
        e.line(f"store {text.type('i64')} {addresses}, ptr {room}, align 64")
        if limits:
            good, slow, on = (e.fresh_label(hint) for hint in ("good", "slow", "on"))
            e.branch(self._call(name, *limits), good, slow, likely=True)
            with text.out_of_line(slow):
                lanes = (1 << ins.op.moved_rows) - 1
                e.branch(self.accesses.slow.check(ins, addresses, lanes), on, DEAD)
                e.label(on)
                self._call(name)
                e.line(f"br label %{good}")
            e.label(good)
        else:
            self._call(name)
        for i, target in enumerate(ins.operands[0].parts):
            pointer = text.plainly(f"getelementptr i8, ptr {room}, i64 {4 * products.LANES * i}")
            e.set(target, text.vector(f"load {vector}, ptr {pointer}, align 64"), "b32")

    def look(self, ins: Instruction) -> None:
        """With full checks: each lane that gives an address reads that row."""
        e, accesses = self.e, self.accesses
        addresses, _ = accesses.rows(ins)
        on = e.fresh_label("looked")
        lanes = (1 << ins.op.moved_rows) - 1
        e.branch(
            accesses.slow.ask(ins, addresses, *accesses.looks.what(ins), lanes=lanes), on, DEAD, likely=True
        )
        e.label(on)

    def _call(self, name: str, begin: str = "0", bound: str = "-1") -> str:
        given = f"ptr %shared, ptr {self.e.state.fragments()[0]}, i64 {begin}, i64 {bound}"
        return self.text.assign(f'call i1 @"{name}"({given})')

    def _loader(self, ins: Instruction) -> str:
        """The name of the function for a spelling; it is added to the module."""
        unit, count, turned = self.e.module, ins.op.moved_rows, "trans" in ins.op.mods
        name = f"ldmatrix.x{count // _ROWS}{'.trans' * turned}"
        if name not in unit.helpers:
            unit.declare("llvm.fshr.v32i64", "<32 x i64>", ", ".join(["<32 x i64> x"] * 3))
            unit.declare("llvm.vector.reduce.and.v32i1", "i1", "<32 x i1> x")
            idle = ", ".join(f"i1 {int(lane >= count)}" for lane in range(products.LANES))
            rows = "\n".join(line for i in range(count // _ROWS) for line in _matrix(i, turned))
            unit.helpers[name] = _LOAD.format(name=name, idle=idle, rows=rows)
        return name


def _matrix(number: int, turned: bool) -> list[str]:
    """The text that loads the rows of one matrix, 16 bytes each, and puts them one after the other: a word for each lane."""
    lines = []
    for row in range(_ROWS):
        name, lane = f"{number}.{row}", _ROWS * number + row
        lines += [
            f"%address.{name} = extractelement <32 x i64> %addresses, i64 {lane}",
            f"%p.{name} = getelementptr i8, ptr %memory, i64 %address.{name}",
            f"%r.{name}.1 = load <8 x i16>, ptr %p.{name}, align 16",
        ]
    count = 1
    while count < _ROWS:
        t, order = f"<{8 * count} x i16>", ", ".join(f"i32 {i}" for i in range(16 * count))
        for row in range(0, _ROWS, 2 * count):
            a, b = (f"%r.{number}.{row + i}.{count}" for i in (0, count))
            joined = f"shufflevector {t} {a}, {t} {b}, <{16 * count} x i32> <{order}>"
            lines.append(f"%r.{number}.{row}.{2 * count} = {joined}")
        count *= 2
    whole = f"%r.{number}.0.8"
    if turned:
        order = ", ".join(f"i32 {8 * (i % 8) + i // 8}" for i in range(64))
        lines.append(
            f"%t.{number} = shufflevector <64 x i16> {whole}, <64 x i16> poison, <64 x i32> <{order}>"
        )
        whole = f"%t.{number}"
    lines.append(f"%to.{number} = getelementptr i8, ptr %room, i64 {4 * products.LANES * number}")
    lines.append(f"store <64 x i16> {whole}, ptr %to.{number}, align 64")
    return [f"  {line}" for line in lines]
