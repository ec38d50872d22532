"""Packs: sums of one thread that are computed side by side, as vectors are.

    fma.rn.f32 %f7, %f1, %f2, %f7;
    fma.rn.f32 %f6, %f1, %f3, %f6;    ->    (%f7, %f6, %f5, %f4) += %f1 * (%f2, %f3, %f8, %f9)
    fma.rn.f32 %f5, %f1, %f8, %f5;
    fma.rn.f32 %f4, %f1, %f9, %f4;

Threads that keep many sums multiply each number of one operand by several of another.

Source: Larsen and Amarasinghe, "Exploiting superword level parallelism with multimedia instruction sets", PLDI 2000.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from ..ptx.cfg import basic_blocks
from ..ptx.ir import Function, Instruction, Register

SIZE = 8  # numbers in a pack: two such products are begun in each cycle
_PRODUCT = "fma.rn.f32"
Pack = tuple[str, ...]


@dataclass(frozen=True)
class Product:
    """sums += factor * others"""

    sums: Pack
    factor: str
    others: Pack


def packs(function: Function) -> dict[Instruction, Product | None]:
    """The products of packs, at the last of their instructions; None for the others."""
    found: dict[Instruction, Product | None] = {}
    owner: dict[str, Pack] = {}
    apart: set[Pack] = set()
    body = function.body
    for start, (end, _) in basic_blocks(body, function.tables).items():
        block = [i for i in body[start:end] if isinstance(i, Instruction) and i.base != "note"]
        for members in _side_by_side(block):
            product = _product(members)
            if product is None:
                continue
            found |= dict.fromkeys(members) | {members[-1]: product}
            for name in product.sums:
                if (other := owner.setdefault(name, product.sums)) != product.sums:
                    apart |= {other, product.sums}
    while more := {owner[n] for pack in apart for n in pack} - apart:
        apart |= more
    wrong = {i for i, p in found.items() if any(n in owner and owner[n] in apart for n in i.writes)}
    return {i: p for i, p in found.items() if i not in wrong}


def _side_by_side(block: list[Instruction]) -> Iterator[list[Instruction]]:
    """Products with the same factor, one behind the other."""
    for _, run in groupby(block, lambda i: i.operands[1] if _is_sum(i) else None):
        run = list(run)
        if _is_sum(run[0]):
            yield from (run[n : n + SIZE] for n in range(0, len(run) - SIZE + 1, SIZE))


def _is_sum(ins: Instruction) -> bool:
    if ins.opcode != _PRODUCT or ins.pred:
        return False
    return ins.operands[0] == ins.operands[3] and all(type(o) is Register for o in ins.operands)


def _product(members: list[Instruction]) -> Product | None:
    sums, others = (tuple(i.operands[n] for i in members) for n in (0, 2))
    factor = members[0].operands[1]
    independent = len({*sums, *others, factor}) == 2 * SIZE + 1
    return Product(sums, factor, others) if independent else None
