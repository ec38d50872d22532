"""Accesses at constant distances have one base register, so that one check covers them.

    add.s32 %r3, %r1, 272;              add.s32 %r3, %r1, 272;
    ld.shared.f32 %f1, [%r1];     ->    ld.shared.f32 %f1, [%r1];
    ld.shared.f32 %f2, [%r3];           ld.shared.f32 %f2, [%r1+272];

They have it in what compilers write, but not in loops that are written out here. The first access comes before the others: where
it is in an array, no sum of 32 bits can have overflowed in between. Addresses are computed before the accesses of a block, so
that these can be checked first.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ..analyse.strides import linear
from ..ptx.cfg import basic_blocks
from ..ptx.ir import Function, Immediate, Instruction, Operand, Register, Symbol, operand
from ..ptx.types import BITS

#: a sum: how often each register, in one of its versions, or symbol is in it, and a number
Sum = tuple[dict[tuple, int], int]
_FARTHEST = 1 << 20  # bytes


def run(function: Function) -> None:
    """In place."""
    body, made = function.body, []
    starts = {
        *basic_blocks(body, function.tables),
        *(i for i, item in enumerate(body) if _is_barrier(item)),
        len(body),
    }
    for start, end in pairwise(sorted(starts)):
        block = _Block(function.regs)
        made += _sums_first([block.follow(i) if isinstance(i, Instruction) else i for i in body[start:end]])
    function.body = made


def _is_barrier(item) -> bool:
    return isinstance(item, Instruction) and bool(item.op.collective)


def _sums_first(block: list) -> list:
    """Sums that depend on nothing that other instructions of a block have done."""
    first, others = [], []
    read: set[str] = set()
    written: set[str] = set()
    for item in block:
        if not isinstance(item, Instruction) or _is_barrier(item):
            first.append(item)
        elif (
            not item.pred
            and linear(item)
            and written.isdisjoint(item.reads | item.writes)
            and read.isdisjoint(item.writes)
        ):
            first.append(item)
        else:
            others.append(item)
            read |= item.reads
            written |= item.writes
    return first + others


class _Block:
    def __init__(self, types: dict[str, str]):
        self.types = types
        self.sums: dict[str, Sum] = {}  # of registers that have been written
        self.versions: dict[str, int] = {}
        self.bases: dict[
            tuple, tuple[str, int, int]
        ] = {}  # see _access: register, its version, the number in its sum

    def follow(self, ins: Instruction) -> Instruction:
        """The instruction, at another base if there has been an access near it."""
        if (
            ins.op.memory in ("load", "store")
            and not ins.op.of_parameters
            and type(ins.address.base) is Register
        ):
            ins = self._access(ins)
        found = self._result(ins) if not ins.pred and linear(ins) else None
        for name in ins.writes:
            self.versions[name] = self.versions.get(name, 0) + 1
            self.sums.pop(name, None)
        if found:
            self.sums[ins.operands[0]] = found
        return ins

    def _access(self, ins: Instruction) -> Instruction:
        address = ins.address
        terms, number = self._sum(address.base)
        bits = BITS[self.types[address.base]]
        key = ins.op.space, bits, frozenset(terms.items())
        base, version, before = self.bases.get(key, ("", 0, 0))
        if base and self.versions.get(base, 0) == version:
            by = (number - before + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
            if base != address.base and not ins.pred and abs(by) + abs(address.offset) < _FARTHEST:
                at = ins.op.address
                moved = operand(f"[{base}{by + address.offset:+d}]")
                return replace(ins, operands=(*ins.operands[:at], moved, *ins.operands[at + 1 :]))
        elif not ins.pred and abs(address.offset) < _FARTHEST:
            self.bases[key] = address.base, self.versions.get(address.base, 0), number
        return ins

    def _sum(self, given: Operand) -> Sum:
        if isinstance(given, Immediate):
            return {}, given.value
        if isinstance(given, Symbol):
            return {("", given.name): 1}, given.offset
        return self.sums.get(given) or ({(self.versions.get(given, 0), given): 1}, 0)

    def _result(self, ins: Instruction) -> Sum | None:
        """What a sum or a product with a number is; None for any other."""
        kind, given = linear(ins), [self._sum(o) for o in ins.operands[1:]]
        match kind:
            case "move":
                return given[0]
            case "add":
                return _added(given[0], given[1])
            case "sub":
                return _added(given[0], _times(given[1], -1))
            case "neg":
                return _times(given[0], -1)
            case "shl":
                return _times(given[0], 1 << given[1][1])
            case "mul":
                factor, other = sorted(given[:2], key=lambda s: len(s[0]))
                if factor[0]:
                    return None
                product = _times(other, factor[1])
                return _added(product, given[2]) if len(given) > 2 else product
        return None


def _added(a: Sum, b: Sum) -> Sum:
    terms = {name: a[0].get(name, 0) + b[0].get(name, 0) for name in a[0] | b[0]}
    return {name: n for name, n in terms.items() if n}, a[1] + b[1]


def _times(a: Sum, by: int) -> Sum:
    return {name: n * by for name, n in a[0].items() if by}, a[1] * by
