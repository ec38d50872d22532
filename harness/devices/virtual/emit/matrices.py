"""Matrix instructions of a warp: ldmatrix, mma.sync and the wmma family.

The PTX ISA defines which lane holds which element for ldmatrix and mma (section 9.7.14.5), but not for wmma:
there element number e of a fragment, counted row by row, is in lane e / n, where n is the number of elements
per lane. The products themselves are computed in runtime/matrix.cu.
"""

from __future__ import annotations

from ..ptx.types import BITS, llvm_type

#: element type -> number in runtime/matrix.cu
_ELEMENTS = {name: i for i, name in enumerate("f16 bf16 tf32 f64 s8 u8 f32 s32".split())}
_A, _B, _C = 0, 8, 16  # where the operands are in Extra.data
_WMMA, _SATFINITE = 1, 2


class Matrix:
    """Mixin of `lower.Lowering`."""

    def matrix(self, ins) -> None:
        """Lower a matrix instruction."""
        if ins.op.address is None:
            self._multiply(ins)
        elif ins.base == "ldmatrix":
            self._ldmatrix(ins)
        else:
            self._fragment(ins)

    # -- Extra.data of this thread ---------------------------------------------------------------

    def _data(self, index: int) -> str:
        """Host pointer to one element of it."""
        return self.field_pointer("Extra", "data", 8 * index)

    def _give(self, index: int, value: str) -> None:
        self.line(f"store i64 {value}, ptr {self._data(index)}")

    def _take(self, index: int) -> str:
        return self.emit(f"load i64, ptr {self._data(index)}")

    # -- ldmatrix ----------------------------------------------------------------------------------

    def _ldmatrix(self, ins) -> None:
        """Lanes 0 to 8 * count - 1 give the address of a row of 16 bytes each; every lane gets two halves of a row."""
        targets, transposed = ins.operands[0].parts, "trans" in ins.op.mods
        count, address = len(targets), self.address(ins.address, "shared")
        lane = self.special("%laneid")[0]
        give, on = self.fresh_label("row"), self.fresh_label("rows")
        self.branch(self.op("icmp ult i32", lane, 8 * count), give, on)
        self.label(give)
        self.checked(ins, address, "shared", 16, False)
        self.line(f"br label %{on}")
        self.label(on)
        self._give(0, self.op("add i64", address, self.shared_base))
        self.module.exchanges = True
        self._wait("warp", "exchange", ins, [str(count), str(int(transposed))], "-1")
        quarter = self.cast("zext", "i32", self.op("and i32", lane, 3), "i64")
        row = self.cast("zext", "i32", self.op("lshr i32", lane, 2), "i64")
        for i, target in enumerate(targets):
            if transposed:
                parts = [
                    self.op("add i64", self._take(2 * i + k), self.op("mul i64", row, 2)) for k in (0, 1)
                ]
            else:
                parts = [self.op("add i64", self._take(i), self.op("mul i64", quarter, 4))]
            bits = 32 // len(parts)
            values = [
                self.emit(f"load i{bits}, ptr {self.emit(f'getelementptr i8, ptr {self.arena}, i64 {at}')}")
                for at in parts
            ]
            self.set(target, self._packed(values, bits), "b32")

    def _packed(self, parts, bits: int, width: int = 32) -> str:
        """Integers of `bits` bits, the lowest first, as one of `width`."""
        whole = "0"
        for i, part in enumerate(parts):
            part = self.op(f"shl i{width}", self.resize(part, f"i{bits}", f"i{width}"), i * bits)
            whole = self.op(f"or i{width}", whole, part)
        return whole

    # -- mma, wmma.mma -------------------------------------------------------------------------------

    def _multiply(self, ins) -> None:
        """D = A B + C over the warp."""
        op, type_ = ins.op, ins.op.elements
        (m, n, k), flags = op.shape, _WMMA * (op.base == "wmma") | _SATFINITE * ("satfinite" in op.mods)
        for name, start, elements in (("a", _A, m * k), ("b", _B, k * n), ("c", _C, m * n)):
            bits = BITS[type_[name]]
            needed, width = max(1, elements * bits // 1024), max(32, bits)
            for i, part in enumerate(ins.named[name].parts[:needed]):
                self._give(start + i, self.resize(self.value(part, f"b{width}"), f"i{width}", "i64"))
        types = sum(_ELEMENTS[type_[name]] << 4 * i for i, name in enumerate("abcd"))
        self.module.exchanges = True
        self._wait("warp", "matrix", ins, [str(types), str(m | n << 8 | k << 16), str(flags)], "-1")
        bits = max(32, BITS[type_["d"]])
        for i, target in enumerate(ins.named["d"].parts):
            value = self._take(i)
            self.set(target, value if bits == 64 else self.cast("trunc", "i64", value, "i32"), f"b{bits}")

    # -- wmma.load, wmma.store -----------------------------------------------------------------------

    def _fragment(self, ins) -> None:
        """Each lane loads or stores its elements of a matrix in memory, rows (or columns) `stride` elements apart."""
        op, space, store = ins.op, ins.op.space, not ins.op.has_result
        m, n, k = op.shape
        rows, columns = {"a": (m, k), "b": (k, n)}.get(op.operation, (m, n))
        registers, by_rows = ins.named["d"].parts, "row" in op.mods
        base = self.address(ins.address, space)
        if "s" in ins.named:
            stride = self.cast("zext", "i32", self.value(ins.named["s"], "u32"), "i64")
        else:
            stride = str(columns if by_rows else rows)
        element = f"b{BITS[op.type]}"
        nbytes, per_lane = BITS[element] // 8, rows * columns // 32
        first = self.cast("zext", "i32", self.op("mul i32", self.special("%laneid")[0], per_lane), "i64")
        values = []
        for i in range(per_lane):
            number = self.op("add i64", first, i)
            row, column = self.op("udiv i64", number, columns), self.op("urem i64", number, columns)
            major, minor = (row, column) if by_rows else (column, row)
            offset = self.op("mul i64", self.op("add i64", self.op("mul i64", major, stride), minor), nbytes)
            address = self.op("add i64", base, offset)
            pointer = self.checked(ins, address, space, nbytes, store)
            if store:
                value = self._element(registers, i, element)
                self.line(f"store {llvm_type(element)} {value}, ptr {pointer}, align {nbytes}")
            else:
                values.append(self.emit(f"load {llvm_type(element)}, ptr {pointer}, align {nbytes}"))
        if not store:
            self._set_fragment(registers, values, element)

    def _element(self, registers, i: int, element: str) -> str:
        """Element i of a fragment in registers; small elements share a register."""
        bits = BITS[element]
        width = 64 if bits == 64 else 32
        each = width // bits
        whole = self.value(registers[i // each], f"b{width}")
        part = self.op(f"lshr i{width}", whole, i % each * bits) if i % each else whole
        return self.resize(part, f"i{width}", f"i{bits}")

    def _set_fragment(self, registers, values, element: str) -> None:
        """Elements packed into registers; a fragment with more registers than elements repeats them."""
        bits = BITS[element]
        width = 64 if bits == 64 else 32
        each = width // bits
        packed = [self._packed(values[i : i + each], bits, width) for i in range(0, len(values), each)]
        for i, register in enumerate(registers):
            self.set(register, packed[i % len(packed)], f"b{width}")
