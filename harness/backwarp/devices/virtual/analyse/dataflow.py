"""Data flow: the state at each node of a graph, as the least fixed point.

An analysis defines the initial states, what each node passes on to which others, and how states are joined.
The graph may consist of basic blocks, forwards or backwards, of registers and what is computed from them, or
of functions and their callees.

Source: Kildall, "A unified approach to global program optimization", POPL 1973.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from ..ptx.cfg import Blocks
from ..ptx.ir import Instruction

N = TypeVar("N", bound=Hashable)
S = TypeVar("S")


def solve(
    start: dict[N, S], flow: Callable[[N, dict[N, S]], Iterable[tuple[N, S]]], join: Callable[[S, S], S]
) -> dict[N, S]:
    """The state at each node reachable from those in `start`.

    flow(node, states): yields (another node, the state there). join(a, b): combines two states; it must reach
    a fixed point after finitely many changes.
    """
    states, work = dict(start), dict.fromkeys(reversed(start))
    while work:
        node, _ = work.popitem()
        for target, state in flow(node, states):
            joined = join(states[target], state) if target in states else state
            if target not in states or joined != states[target]:
                states[target] = joined
                work[target] = None
    return states


def reached(start: Iterable[N], after: Callable[[N], Iterable[N]]) -> set[N]:
    """The nodes of `start`, and all nodes reachable from them."""
    return set(solve(dict.fromkeys(start), lambda node, _: ((t, None) for t in after(node)), lambda a, _: a))


def through_blocks(
    blocks: Blocks, start: S, transfer: Callable[[int, S], S], join: Callable[[S, S], S]
) -> dict[int, S]:
    """The state at the beginning of each reachable block. transfer(block, state): the state at its end."""

    def flow(block: int, states: dict[int, S]) -> Iterable[tuple[int, S]]:
        state = transfer(block, states[block])
        return ((target, state) for target in blocks[block][1])

    return solve({0: start}, flow, join)


def live(body, blocks: Blocks) -> dict[int, frozenset[str]]:
    """The registers that each block, or one after it, may read before it is written."""
    reads: dict[int, frozenset[str]] = {}
    writes: dict[int, frozenset[str]] = {}
    before: dict[int, list[int]] = {block: [] for block in blocks}
    for block, (end, follow) in blocks.items():
        first, written = set(), set()
        for ins in body[block:end]:
            if isinstance(ins, Instruction):
                first |= ins.reads - written
                written |= ins.writes
        reads[block], writes[block] = frozenset(first), frozenset(written)
        for target in follow:
            before[target].append(block)

    def flow(block: int, states: dict[int, frozenset[str]]) -> Iterable[tuple[int, frozenset[str]]]:
        return ((source, states[block] - writes[source]) for source in before[block])

    return solve(reads, flow, frozenset.union)


def dominators(root: N, after: Callable[[N], Iterable[N]]) -> dict[N, frozenset[N]]:
    """Node -> the nodes on every path from the root to it, itself included."""
    return solve(
        {root: frozenset([root])},
        lambda node, found: ((t, found[node] | {t}) for t in after(node)),
        frozenset.intersection,
    )


def computed_from(body, registers: Iterable[str], carries: Callable[[Instruction], bool]) -> set[str]:
    """These registers, and those computed from them. carries(ins): whether an instruction's results count."""
    targets: dict[str, list[str]] = {}
    for ins in body:
        if isinstance(ins, Instruction) and carries(ins):
            for name in ins.reads:
                targets.setdefault(name, []).extend(ins.writes)
    return reached(registers, lambda name: targets.get(name, ()))
