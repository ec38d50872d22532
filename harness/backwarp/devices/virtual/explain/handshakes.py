"""Races between threads that tell each other through memory who may go on: by a flag, a lock, or the count of the last block.

What one thread did before it sets the flag is ordered before what another does after it has seen it only with a fence on
either side: directly before the flag is set, and directly after it is seen (PTX ISA, "Release and Acquire Patterns").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..analyse.influence import Influence
from ..analyse.paths import Paths, is_barrier
from ..ptx.ir import Instruction

if TYPE_CHECKING:
    from .races import Race

Places = list[tuple[str, int]]


def handshake(influence: Influence, race: Race, first: Places, last: Places) -> str:
    """The fences that are missing, if one of the threads sets something after its access that the other has seen."""
    sides = [(first, last, race.accesses), (last, first, race.accesses[::-1])]
    sides.sort(key=lambda side: side[2][0] == "Read")  # who writes is the first to go, rather
    return next((says for done, seen, _ in sides if (says := _missing(influence, race, done, seen))), "")


def _missing(influence: Influence, race: Race, done: Places, seen: Places) -> str:
    far = race.of_blocks

    def is_fence(ins: Instruction) -> bool:
        orders = ins.op.is_fence or ins.op.acquires or ins.op.releases
        return orders and (not far or ins.op.scope in ("gpu", "sys"))

    functions = influence.likely.functions
    fences, barriers = Paths(functions, is_fence), Paths(functions, lambda ins: is_barrier(ins, False))
    sets = barriers.nearest(
        [p for p in barriers.having(_sets) if barriers.free(done, [p], stopping=False)], done
    )
    sees = [p for p in barriers.having(_sees) if barriers.free([p], seen, stopping=False)]
    sees = barriers.nearest([p for p in sees if _lets(influence, p, seen)], seen)
    if not sets or not sees:
        return ""
    shared = race.owner is not None and race.owner.space == "shared"
    fence = "__threadfence_block()" if shared else "__threadfence()"
    before, after = barriers.line(sets), barriers.line(sees)
    skipping = Paths(functions, _sets)  # threads that leave the signal to another of the block
    others = barriers.free(done, [sets]) and (
        skipping.ends(done) or skipping.free(done, skipping.having(lambda ins: is_barrier(ins, False)))
    )
    within = Paths(functions, lambda ins: is_barrier(ins, True))
    parts = []
    # a function that waits for all threads and signals, such as a barrier of the grid: with fences, if it has any
    if fences.free(done, [sets]) and not (barriers.is_stop(sets) and fences.is_stop(sets)):
        parts.append(f"a {fence} directly before line {before}")
    if fences.free([sees], seen) and not (barriers.is_stop(sees) and fences.is_stop(sees)):
        parts.append(f"a {fence} directly after line {after}")
    # a collective is enough if the signal is for the writers of its own warp
    if others and not barriers.is_stop(sets) and (not parts or within.free(done, [sets])):
        parts.insert(0, f"a __syncthreads() between line {barriers.line(done[0])} and line {before}")
    if not parts:
        return ""
    seen_at = f"line {after} sees that" if before != after else "sees those of others"
    return f"line {before} signals that it is done and {seen_at}, but no signal orders anything by itself: put {' and '.join(parts)}"


def _sets(ins: Instruction) -> bool:
    op = ins.op
    return op.memory in ("atomic", "reduction") or op.memory == "store" and bool(op.ordering)


def _sees(ins: Instruction) -> bool:
    return ins.op.memory == "atomic" or ins.op.memory == "load" and bool(ins.op.ordering)


def _lets(influence: Influence, place: tuple[str, int], seen: Places) -> bool:
    """Whether what is read there decides when, or whether, the access happens."""
    found = influence.of_values([place])
    return influence.is_awaited([place]) or influence.decides(found, seen)
