"""Registers of a pack (see `analyse/packs`) stand side by side in one slot, which LLVM makes a vector; where threads run side by
side, those of one behind those of another."""

from __future__ import annotations

from ..analyse.packs import SIZE, Product
from ..ptx.ir import Instruction


class Packs:
    def __init__(self, e, products: dict[Instruction, Product | None]):
        self.e, self.products = e, products
        self.of: dict[str, tuple[tuple[str, ...], int]] = {}  # register -> its pack and its place there
        for product in filter(None, products.values()):
            self.of |= {name: (product.sums, n) for n, name in enumerate(product.sums)}
        self.size = SIZE * e.threads.factor
        self.vector = f"<{self.size} x float>"

    def emit(self, ins: Instruction) -> bool:
        """Lower an instruction of a product; False for any other."""
        if ins not in self.products:
            return False
        if product := self.products[ins]:
            e, t = self.e, self.vector
            others = [e.value(name, "f32") for _ in e.threads.each() for name in product.others]
            factors = [e.value(product.factor, "f32") for _ in e.threads.each()]
            factor, others = self._spread(factors), self._vector(others)
            sums = e.emit(f"load {t}, ptr {self.slot(product.sums)}")
            fma = f"llvm.fma.v{self.size}f32"
            self.set(product.sums, e.emit(f"call {t} @{fma}({t} {factor}, {t} {others}, {t} {sums})"))
        return True

    def set(self, pack: tuple[str, ...], value: str) -> None:
        self.e.line(f"store {self.vector} {value}, ptr {self.slot(pack)}")
        self.e.text.forget(*(each for name in pack for each in self.e.threads.names(name)))

    def slot(self, pack: tuple[str, ...]) -> str:
        self.e.values.slot(self.e.threads.name(pack[0]))
        return f'%"{pack[0]}:pack"'

    def place(self, register: str) -> dict[str, str]:
        """Declares the slots of its pack, and returns them."""
        text, (pack, _) = self.e.text, self.of[register]
        whole, places = f'%"{pack[0]}:pack"', {}
        text.first(f"{whole} = alloca {self.vector}, align {4 * self.size}")
        for n, name in enumerate(pack):
            for member, each in enumerate(self.e.threads.names(name)):
                places[each] = f'%"{each}"'
                text.first(f"{places[each]} = getelementptr float, ptr {whole}, i64 {member * SIZE + n}")
        return places

    def _spread(self, factors: list[str]) -> str:
        """That of each thread, for all its sums."""
        if len(set(factors)) > 1:
            return self._vector([factor for factor in factors for _ in range(SIZE)])
        t, mask = self.vector, f"<{self.size} x i32> zeroinitializer"
        one = self.e.once(f"insertelement {t} poison, float {factors[0]}, i64 0")
        return self.e.once(f"shufflevector {t} {one}, {t} poison, {mask}")

    def _vector(self, values: list[str]) -> str:
        found = "poison"
        for n, value in enumerate(values):
            found = self.e.once(f"insertelement {self.vector} {found}, float {value}, i64 {n}")
        return found
