"""Where the sums of products of four warps are: they stay with the group while nothing sees them, and products whose sums nobody
sees in between are computed together.

    wgmma.mma_async ... {%f1, ..}, %rd1, %rd2, ..      the first of a chain: the sums go to the group
    add.s64 %rd1, %rd1, 2
    wgmma.mma_async ... {%f1, ..}, %rd1, %rd2, ..      the last: here all four warps meet
    add.f32 %f40, %f1, %f2                             before this the sums come back

So a loop of products moves no sums, and its threads wait once in each iteration. Without optimisation every sum is stored after
each product, so that there is nothing to gain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from ..ptx.cfg import basic_blocks
from ..ptx.ir import Function, Instruction
from ..runtime.abi import MAX_CHAIN, SUMS
from .dataflow import through_blocks

NEVER, MAYBE, ALWAYS = "never", "maybe", "always"


@dataclass(frozen=True)
class Product:
    """sums: which, in `Plan.sums`. place, last: in its chain. stores: whether its thread has to hand them to the group."""

    sums: int
    place: int
    last: bool
    stores: str


@dataclass
class Plan:
    """sums: the registers, by the number of their list. back: instruction -> the lists that come back before it, and whether they
    certainly are with the group there."""

    sums: list[tuple[str, ...]] = field(default_factory=list)
    products: dict[Instruction, Product] = field(default_factory=dict)
    back: dict[Instruction, tuple[tuple[int, bool], ...]] = field(default_factory=dict)

    def is_near(self, a: int, b: int) -> bool:
        """Whether only one of them can be with the group."""
        return a != b and (a % SUMS == b % SUMS or not {*self.sums[a]}.isdisjoint(self.sums[b]))


#: lists of sums that may be with the group, and that are
_State = tuple[frozenset[int], frozenset[int]]


def run(function: Function) -> Plan:
    """Of a kernel."""
    plan, body = Plan(), function.body or []
    products = [i for i in body if isinstance(i, Instruction) and i.op.collective == "group"]
    if not products:
        return plan
    plan.sums = list(dict.fromkeys(_sums(ins) for ins in products))
    blocks = basic_blocks(body, function.tables)
    through = partial(_through, plan, body, blocks)
    nothing: _State = (frozenset(), frozenset())
    states = through_blocks(blocks, nothing, through, _join)
    for start in blocks:
        through(start, states.get(start, nothing), told={})  # one that nothing reaches is emitted, too
        _chain(plan, body[start : blocks[start][0]])
    return plan


def _join(a: _State, b: _State) -> _State:
    return a[0] | b[0], a[1] & b[1]


def _sums(product: Instruction) -> tuple[str, ...]:
    return tuple(product.named["d"].parts)


def _through(plan: Plan, body, blocks, start: int, state: _State, told: dict | None = None) -> _State:
    """The state at the end of a block. told: what it does is put down."""
    may, must = state
    for ins in body[start : blocks[start][0]]:
        if not isinstance(ins, Instruction):
            continue
        if own := ins.op.collective == "group":
            number = plan.sums.index(_sums(ins))
            gone = {n for n in may if plan.is_near(n, number)}
        else:
            registers = {r for o in ins.operands for r in o.registers} | {ins.pred}
            gone = {n for n in may if not registers.isdisjoint(plan.sums[n])}
        if told is not None and gone:
            plan.back[ins] = tuple((n, n in must) for n in sorted(gone))
        may, must = may - gone, must - gone
        if own:
            if told is not None:
                stores = NEVER if number in must else MAYBE if number in may else ALWAYS
                plan.products[ins] = Product(number, 0, True, stores)
            may, must = may | {number}, must | {number}
    return may, must


def _chain(plan: Plan, block) -> None:
    """Finds the chains in a block."""
    chain: list[Instruction] = []

    def close() -> None:
        for place, ins in enumerate(chain):
            old = plan.products[ins]
            plan.products[ins] = Product(old.sums, place, place + 1 == len(chain), old.stores)
        chain.clear()

    for ins in block:
        if not isinstance(ins, Instruction):
            continue
        if ins.op.collective == "group":
            if chain and (len(chain) == MAX_CHAIN or not _continues(chain[-1], ins)):
                close()
            chain.append(ins)
        elif ins in plan.back or not _may_stand_between(ins):
            close()
    close()


def _continues(before: Instruction, ins: Instruction) -> bool:
    """Whether their sums have one type and shape, and are in the same registers."""
    return before.op.types[0] == ins.op.types[0] and _sums(before) == _sums(ins)


def _may_stand_between(ins: Instruction) -> bool:
    """Whether it only computes, or loads."""
    op = ins.op
    if op.nothing and op.base == "wgmma":
        return True
    return op.memory in ("", "load") and not (
        op.has_effects or op.flow or op.texture or op.mark or op.ordering
    )
