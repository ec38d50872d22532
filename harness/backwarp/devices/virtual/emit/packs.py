"""Registers of a pack (see `analyse/packs`) stand side by side in one slot, which LLVM makes a vector."""

from __future__ import annotations

from ..analyse.packs import SIZE, Product
from ..ptx.ir import Instruction

VECTOR = f"<{SIZE} x float>"


class Packs:
    def __init__(self, e, products: dict[Instruction, Product | None]):
        self.e, self.products = e, products
        self.of: dict[str, tuple[tuple[str, ...], int]] = {}  # register -> its pack and its place there
        for product in filter(None, products.values()):
            self.of |= {name: (product.sums, n) for n, name in enumerate(product.sums)}

    def emit(self, ins: Instruction) -> bool:
        """Lower an instruction of a product; False for any other."""
        if ins not in self.products:
            return False
        if product := self.products[ins]:
            e = self.e
            factor = self._splat(e.value(product.factor, "f32"))
            others = self._vector([e.value(name, "f32") for name in product.others])
            sums = e.emit(f"load {VECTOR}, ptr {self.slot(product.sums)}")
            fma = f"llvm.fma.v{SIZE}f32"
            self.set(
                product.sums,
                e.emit(f"call {VECTOR} @{fma}({VECTOR} {factor}, {VECTOR} {others}, {VECTOR} {sums})"),
            )
        return True

    def set(self, pack: tuple[str, ...], value: str) -> None:
        self.e.line(f"store {VECTOR} {value}, ptr {self.slot(pack)}")
        self.e.text.forget(*pack)

    def slot(self, pack: tuple[str, ...]) -> str:
        self.e.values.slot(pack[0])
        return f'%"{pack[0]}:pack"'

    def place(self, register: str) -> None:
        """Declares the slots of its pack."""
        text, (pack, _) = self.e.text, self.of[register]
        whole = f'%"{pack[0]}:pack"'
        text.first(f"{whole} = alloca {VECTOR}, align {4 * SIZE}")
        for n, name in enumerate(pack):
            text.first(f'%"{name}" = getelementptr float, ptr {whole}, i64 {n}')

    def _splat(self, value: str) -> str:
        one = self.e.once(f"insertelement {VECTOR} poison, float {value}, i64 0")
        return self.e.once(f"shufflevector {VECTOR} {one}, {VECTOR} poison, <{SIZE} x i32> zeroinitializer")

    def _vector(self, values: list[str]) -> str:
        found = "poison"
        for n, value in enumerate(values):
            found = self.e.once(f"insertelement {VECTOR} {found}, float {value}, i64 {n}")
        return found
