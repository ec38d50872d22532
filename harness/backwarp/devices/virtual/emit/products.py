"""D = A B + C: an LLVM function for each spelling of mma and wmma.mma, on vectors.

A warp's fragments are in memory, three operands one after the other (`place`), where D takes the place of C. The function
makes matrices of them, row by row, multiplies those, and makes fragments of the result:

    mma      register i of lane 0, of lane 1, ... lane 31, then register i + 1
    wmma     the registers of lane 0, those of lane 1, ...: the matrix itself, whose rows the lanes hold in turn

Products of half, bfloat16 and TF32 are exact in double; a sum is computed in double, in the order of K, and rounded once,
which is more accurate than the hardware, whose order and precision of accumulation PTX does not define.

Source: PTX ISA, section 9.7.14.5 (fragments of mma).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ptx.op import Op
from ..ptx.types import BITS

LANES = 32
_ROOM = 8 * LANES * 8  # bytes of an operand: at most eight registers of a lane
ROOM = 3 * _ROOM
_ROWS = 4  # multiplied side by side
_COLUMNS = 8  # of a vector
_FLOATS = {"f16": "half", "f32": "float", "tf32": "float", "f64": "double"}


def width(element: str) -> int:
    """Bits of a register that holds such elements."""
    return max(32, BITS[element])


def registers(op: Op, which: str) -> int:
    """How many registers of a lane hold operand a, b or c (d)."""
    m, n, k = op.shape
    count = {"a": m * k, "b": k * n}.get(which, m * n) // LANES
    return max(1, count * BITS[op.elements[which]] // 32) if BITS[op.elements[which]] < 64 else count


def place(op: Op, which: str, register: int) -> tuple[int, int]:
    """(start, stride from lane to lane), in bytes, of a register of operand a, b, c or d."""
    start, size = _ROOM * "abcd".index("c" if which == "d" else which), width(op.elements[which]) // 8
    if op.base == "wmma":
        return start + size * register, size * registers(op, which)
    return start + size * LANES * register, size


def function(unit, op: Op) -> str:
    """The name of the function (i64 where the fragments are) for a spelling; it is added to the module."""
    shape, elements = "m{}n{}k{}".format(*op.shape), ".".join(op.elements[x] for x in "dabc")
    name = f"{op.base}.{shape}.{elements}{'.satfinite' * ('satfinite' in op.mods)}"
    if name not in unit.helpers:
        unit.helpers[name] = _Product(unit, op).text(name)
    return name


class _Product:
    def __init__(self, unit, op: Op):
        self.unit, self.op, self.lines, self._serial = unit, op, [], 0
        self.m, self.n, self.k = op.shape
        self.floats = op.elements["d"] in _FLOATS
        self.type = "double" if self.floats else "i32"  # of an element of the matrices
        self.saturates = "satfinite" in op.mods and not self.floats

    def text(self, name: str) -> str:
        for which, count in (("a", self.m * self.k), ("b", self.k * self.n), ("c", self.m * self.n)):
            self.line(f"%{which} = alloca [{count} x {self.type}], align 64")
        self.line("%fragments = inttoptr i64 %at to ptr")
        if self.op.base == "wmma":
            for which in "abc":
                self._load_matrix(which)
        else:
            self._load_a()
            self._load_b()
            self._load_c()
        self._multiply()
        (self._store_matrix if self.op.base == "wmma" else self._store_d)()
        self.line("ret void")
        return "\n".join(
            [f'define internal void @"{name}"(i64 %at) noinline nounwind {{', "entry:", *self.lines, "}"]
        )

    # -- lines --------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def put(self, instruction: str) -> str:
        self._serial += 1
        self.line(f"%v.{self._serial} = {instruction}")
        return f"%v.{self._serial}"

    def call(self, name: str, t: str, *values: str) -> str:
        self.unit.declare(name, t, ", ".join(f"{t} x" for _ in values))
        return self.put(f"call {t} @{name}({', '.join(f'{t} {value}' for value in values)})")

    def pick(self, t: str, count: int, value: str, order: Iterable[int], other: str = "poison") -> str:
        """Selects elements of a vector of this length, or of two vectors."""
        order = list(order)
        mask = f"<{len(order)} x i32> <{', '.join(f'i32 {i}' for i in order)}>"
        vector = f"<{count} x {t}>"
        return self.put(f"shufflevector {vector} {value}, {vector} {other}, {mask}")

    def at(self, which: str, index: int | str) -> str:
        """Pointer to an element of a matrix."""
        return self.put(f"getelementptr {self.type}, ptr %{which}, i64 {index}")

    # -- fragments and elements ---------------------------------------------------------------------------

    def _each(self, which: str) -> int:
        """Elements in a register."""
        return max(1, 32 // BITS[self.op.elements[which]])

    def _raw(self, which: str) -> str:
        """The type that an element has in a register."""
        return f"i{BITS[self.op.elements[which]]}"

    def _fragment(self, which: str, register: int) -> str:
        """The bits of the elements of a register of all lanes, those of a lane next to each other."""
        start, _ = place(self.op, which, register)
        return self._load(which, start, LANES * self._each(which))

    def _load(self, which: str, start: int, count: int, t: str = "") -> str:
        pointer = self.put(f"getelementptr i8, ptr %fragments, i64 {start}")
        return self.put(f"load <{count} x {t or self._raw(which)}>, ptr {pointer}, align 8")

    def _store(self, start: int, count: int, value: str) -> None:
        pointer = self.put(f"getelementptr i8, ptr %fragments, i64 {start}")
        self.line(f"store <{count} x {self._raw('d')}> {value}, ptr {pointer}, align 8")

    def _into(self, which: str, index: int, count: int, value: str) -> None:
        self.line(f"store <{count} x {self.type}> {value}, ptr {self.at(which, index)}, align 8")

    def _widened(self, which: str, count: int, raw: str) -> str:
        """Bits of this many elements -> their values."""
        element, vector = self.op.elements[which], f"<{count} x {self.type}>"
        if element in ("s32", "s8", "u8"):
            if element == "s32":
                return raw
            return self.put(
                f"{'sext' if element == 's8' else 'zext'} <{count} x {self._raw(which)}> {raw} to {vector}"
            )
        words = f"<{count} x i32>"
        if element == "bf16":
            raw = self.put(f"zext <{count} x i16> {raw} to {words}")
            raw = self.put(f"shl {words} {raw}, splat (i32 16)")
        elif element == "tf32":
            raw = self.put(f"and {words} {raw}, splat (i32 {0xFFFFE000})")
        float_ = _FLOATS.get(element, "float")
        bits = f"i{64 if element == 'f64' else 16 if element == 'f16' else 32}"
        value = self.put(f"bitcast <{count} x {bits}> {raw} to <{count} x {float_}>")
        return value if element == "f64" else self.put(f"fpext <{count} x {float_}> {value} to {vector}")

    def _narrowed(self, count: int, value: str) -> str:
        """Values -> the bits of this many elements of D."""
        element = self.op.elements["d"]
        if element == "s32":
            return value
        vector = f"<{count} x double>"
        for narrower in {"f32": ("float",), "f16": ("float", "half")}.get(element, ()):
            value = self.put(f"fptrunc {vector} {value} to <{count} x {narrower}>")
            vector = f"<{count} x {narrower}>"
        return self.put(f"bitcast {vector} {value} to <{count} x {self._raw('d')}>")

    # -- wmma ---------------------------------------------------------------------------------------------

    def _load_matrix(self, which: str) -> None:
        count = LANES * registers(self.op, which) * self._each(which)
        start, _ = place(self.op, which, 0)
        for first in range(0, count, 64):
            length = min(64, count - first)
            raw = self._load(which, start + first * BITS[self.op.elements[which]] // 8, length)
            self._into(which, first, length, self._widened(which, length, raw))

    def _store_matrix(self) -> None:
        start, _ = place(self.op, "d", 0)
        count = self.m * self.n
        for first in range(0, count, 64):
            length = min(64, count - first)
            value = self.put(f"load <{length} x {self.type}>, ptr {self.at('c', first)}, align 8")
            size = BITS[self.op.elements["d"]] // 8
            self._store(start + first * size, length, self._narrowed(length, value))

    # -- mma: a lane is 4 * group + quarter ------------------------------------------------------------------

    def _load_a(self) -> None:
        """A register holds 8 rows, one of each group, of 4 * each columns."""
        each = self._each("a")
        count, columns, tall = LANES * each, 4 * each, self.m == 16
        for i in range(registers(self.op, "a")):
            block = self._widened("a", count, self._fragment("a", i))
            top, left = (8 * (i % 2), i // 2 * columns) if tall else (0, i * columns)
            for row in range(8):
                piece = self.pick(self.type, count, block, range(row * columns, (row + 1) * columns))
                self._into("a", (top + row) * self.k + left, columns, piece)

    def _load_b(self) -> None:
        """A register holds 4 * each rows, so many in a quarter, of 8 columns, one of each group."""
        each, word = self._each("b"), f"i{width(self.op.elements['b'])}"
        for i in range(registers(self.op, "b")):
            block = self._load("b", place(self.op, "b", i)[0], LANES, word)
            for quarter in range(4):
                words = self.pick(word, LANES, block, range(quarter, LANES, 4))
                raw = self.put(f"bitcast <8 x {word}> {words} to <{8 * each} x {self._raw('b')}>")
                for sub in range(each):
                    column = self.pick(self._raw("b"), 8 * each, raw, range(sub, 8 * each, each))
                    row = 4 * each * i + quarter * each + sub
                    self._into("b", row * self.n, 8, self._widened("b", 8, column))

    def _load_c(self) -> None:
        """One register of two elements, or two of one, hold 8 rows of 8 columns."""
        for half in range(self.m // 8):
            if self._each("c") == 2:
                raw = self._fragment("c", half)
            else:
                even, odd = (self._fragment("c", 2 * half + i) for i in range(2))
                order = (lane + LANES * i for lane in range(LANES) for i in range(2))
                raw = self.pick(self._raw("c"), LANES, even, order, odd)
            self._into("c", 64 * half, 64, self._widened("c", 64, raw))

    def _store_d(self) -> None:
        for half in range(self.m // 8):
            value = self.put(f"load <64 x {self.type}>, ptr {self.at('c', 64 * half)}, align 8")
            raw = self._narrowed(64, value)
            if self._each("d") == 2:
                self._store(place(self.op, "d", half)[0], 64, raw)
                continue
            for i in range(2):
                mine = self.pick(self._raw("d"), 64, raw, range(i, 64, 2))
                self._store(place(self.op, "d", 2 * half + i)[0], LANES, mine)

    # -- the product --------------------------------------------------------------------------------------

    def _multiply(self) -> None:
        """C += A B, a few rows and columns at a time."""
        vector = f"<{_COLUMNS} x {self.type}>"
        self.line("br label %rows")
        self.lines.append("rows:")
        self.line("%row = phi i64 [ 0, %entry ], [ %next, %rows ]")
        rows = [self.put(f"add i64 %row, {i}") for i in range(_ROWS)]
        starts = [self.put(f"mul i64 {row}, {self.k}") for row in rows]
        for left in range(0, self.n, _COLUMNS):
            places = [
                self.at("c", self.put(f"add i64 {self.put(f'mul i64 {row}, {self.n}')}, {left}"))
                for row in rows
            ]
            before = [self.put(f"load {vector}, ptr {place_}, align 8") for place_ in places]
            sums = ["zeroinitializer"] * _ROWS if self.saturates else before
            for k in range(self.k):
                b = self.put(f"load {vector}, ptr {self.at('b', k * self.n + left)}, align 8")
                sums = [
                    self._added(vector, self._spread(vector, start, k), b, sum_)
                    for start, sum_ in zip(starts, sums, strict=True)
                ]
            if self.saturates:
                name = f"llvm.sadd.sat.v{_COLUMNS}i32"
                sums = [self.call(name, vector, *both) for both in zip(before, sums, strict=True)]
            for sum_, place_ in zip(sums, places, strict=True):
                self.line(f"store {vector} {sum_}, ptr {place_}, align 8")
        self.line(f"%next = add i64 %row, {_ROWS}")
        self.line(f"%more = icmp ult i64 %next, {self.m}")
        self.line("br i1 %more, label %rows, label %done")
        self.lines.append("done:")

    def _spread(self, vector: str, start: str, k: int) -> str:
        """An element of A, broadcast to all columns."""
        pointer = self.at("a", self.put(f"add i64 {start}, {k}"))
        element = self.put(f"load {self.type}, ptr {pointer}, align 8")
        first = self.put(f"insertelement {vector} poison, {self.type} {element}, i64 0")
        return self.pick(self.type, _COLUMNS, first, [0] * _COLUMNS)

    def _added(self, vector: str, a: str, b: str, sum_: str) -> str:
        if self.floats:
            return self.call(f"llvm.fma.v{_COLUMNS}f64", vector, a, b, sum_)
        return self.put(f"add {vector} {self.put(f'mul {vector} {a}, {b}')}, {sum_}")
