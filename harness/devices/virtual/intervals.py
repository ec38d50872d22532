"""Which accesses a thread may end after while others go on to a barrier.

A barrier orders what its participants did before it. A thread that has ended takes no part, so racecheck has to keep
what such a thread did in its last interval; what every thread follows up with a barrier may be summed up.
"""

from __future__ import annotations

from .flow import basic_blocks
from .ptx import Instruction, Label


def final_accesses(body, tables, is_barrier) -> set[int] | None:
    """Positions from which the end of the body is reached without a barrier, in an interval in which a barrier is too.

    is_barrier(ins): all threads of the block wait there. None: the body has no barrier.
    """
    stops = {i for i, item in enumerate(body) if isinstance(item, Instruction) and is_barrier(item)}
    if not stops:
        return None
    follow = _successors(body, tables)
    before: list[list[int]] = [[] for _ in range(len(body) + 1)]
    for i, targets in enumerate(follow):
        for target in targets:
            before[target].append(i)
    # an interval that goes on to a barrier begins at the start, or behind a barrier, from which a barrier is reached
    to_barrier = _reached(stops, before, stops)
    begins = {0} & (to_barrier | stops) | {t for s in stops for t in follow[s] if t in to_barrier or t in stops}
    inside = _reached(begins, follow, stops, start=True)
    to_end = _reached({len(body)}, before, stops)
    return inside & to_end


def _successors(body, tables) -> list[list[int]]:
    """Of each position, those that may come next; the length of the body stands for its end."""
    follow = [[i + 1] for i in range(len(body))]
    for _, (end, targets) in basic_blocks(body, tables).items():
        last = body[end - 1] if end else None
        if isinstance(last, Instruction) and last.base in ("bra", "brx"):
            follow[end - 1] = list(targets)
            if last.base == "bra" and last.pred and end == len(body):
                follow[end - 1].append(end)
        elif isinstance(last, Instruction) and last.base in ("ret", "exit", "trap"):
            follow[end - 1] = [len(body)] + ([end] if last.pred and end < len(body) else [])
    for i, item in enumerate(body):  # a guarded `ret` in the midst of a block
        if not isinstance(item, Label) and item.base in ("ret", "exit", "trap") and len(body) not in follow[i]:
            follow[i].append(len(body))
    return [*follow, []]


def _reached(begins, edges, stops, start: bool = False) -> set[int]:
    """Positions that edges lead to from `begins`, not on through `stops`; with `start`, the beginnings themselves too."""
    found, work = set(), []
    for position in begins:
        if start:
            found.add(position)
        if not start or position not in stops:
            work.append(position)
    while work:
        for target in edges[work.pop()]:
            if target not in found:
                found.add(target)
                if target not in stops:
                    work.append(target)
    return found
