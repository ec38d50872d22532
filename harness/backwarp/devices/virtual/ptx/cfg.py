"""The control flow of one PTX function: its basic blocks and its loops.

A position is an index into the function's body; a block is named by the position it starts at.
"""

from __future__ import annotations

from dataclasses import dataclass

from .ir import Instruction, Label

#: start of a block -> (its end, the starts of the blocks that may follow)
Blocks = dict[int, tuple[int, list[int]]]


def basic_blocks(body, tables=None) -> Blocks:
    """The blocks of a body. tables: `Function.tables`; without them a `brx` may go to any label."""
    labels = {item.name: i for i, item in enumerate(body) if isinstance(item, Label)}
    starts = {0} | set(labels.values())
    for i, item in enumerate(body):
        if isinstance(item, Instruction) and item.op.ends_block:
            starts.add(i + 1)
    starts = sorted(s for s in starts if s <= len(body))
    blocks = {}
    for start, end in zip(starts, starts[1:] + [len(body)], strict=True):
        last = body[end - 1] if end > start else None
        follow = [end] if end < len(body) else []
        if isinstance(last, Instruction):
            if last.op.flow == "branch":
                follow = [labels[last.operands[0]]] + (follow if last.pred else [])
            elif last.op.flow == "switch":
                targets = labels if tables is None else tables.get(last.operands[1], ())
                follow = [labels[name] for name in targets]
            elif last.op.leaves and not last.pred:
                follow = []
        blocks[start] = (end, [f for f in follow if f < len(body)])
    return {s: (e, [f for f in follow if f in blocks]) for s, (e, follow) in blocks.items()}


@dataclass(frozen=True)
class Loop:
    """header: the block at which every iteration starts. blocks: all its blocks. entries: outside blocks that
    branch in."""

    number: int
    header: int
    blocks: frozenset[int]
    entries: tuple[int, ...]


def find_loops(blocks: Blocks) -> list[Loop]:
    """All loops, outer loops before inner ones.

    A loop is a set of blocks that can all reach each other; its inner loops are those that remain without the
    edges back to its header. (In a loop with several entries, which no compiler produces, the first is taken
    as the header.)
    """
    found: list[Loop] = []
    before: dict[int, list[int]] = {start: [] for start in blocks}
    for start, (_, follow) in blocks.items():
        for target in follow:
            before[target].append(start)
    work = [(frozenset(blocks), None)]  # blocks to examine, and the header whose incoming edges are ignored
    while work:
        inside, cut = work.pop()
        for part in _components(blocks, inside, cut):
            entries = {target: [p for p in before[target] if p not in part] for target in part}
            header = min((t for t in part if entries[t] or t == 0), default=min(part))
            outside = tuple(sorted({p for sources in entries.values() for p in sources}))
            found.append(Loop(len(found), header, part, outside))
            work.append((part, header))
    return found


def _components(blocks: Blocks, inside: frozenset[int], cut: int | None) -> list[frozenset[int]]:
    """The strongly connected components of `inside` with a cycle, ignoring edges to `cut` (Tarjan, no
    recursion)."""
    found, number, low, on_stack, stack = [], {}, {}, set(), []

    def edges(start: int):
        return iter([t for t in blocks[start][1] if t in inside and t != cut])

    for root in sorted(inside):
        if root in number:
            continue
        path = [(root, edges(root))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while path:
            start, targets = path[-1]
            for target in targets:
                if target not in number:
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    on_stack.add(target)
                    path.append((target, edges(target)))
                    break
                if target in on_stack:
                    low[start] = min(low[start], number[target])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[start])
                if low[start] == number[start]:
                    part = set()
                    while start not in part:
                        part.add(stack.pop())
                    on_stack -= part
                    if len(part) > 1 or start in list(edges(start)):
                        found.append(frozenset(part))
    return found
