"""Random programs with streams: `backwarp exec` names a race exactly where two legal orders of operations differ.

`python -m tests.soak.orders --seconds S` tries programs for so long and prints what disagrees; it ends with status 1 where
something does. The reference enumerates all orders: it keeps a queue for each stream and no clocks.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import click

CELL, PAGE_CELLS, CELLS = 1024, 4, 8  # bytes of a cell; cells of a page and of a piece of memory
NULL, BLOCKING, FREE, THREAD = 0, (1, 2), (3, 4), 5  # streams: blocking, non-blocking, and the thread's own
DEVICE, MANAGED, PINNED, HOST = "de", "m", "pq", "h"  # names of memory
Cells = frozenset


@dataclass(frozen=True)
class Part:
    """Rows of cells of a piece of memory."""

    memory: str
    first: int
    count: int
    pitch: int = 0
    rows: int = 1

    @property
    def cells(self) -> Cells:
        at = range(self.first, self.first + self.count)
        return Cells((self.memory, i + r * self.pitch) for r in range(self.rows) for i in at)


@dataclass(frozen=True)
class Step:
    """do: "copy" and "fill" (later: the asynchronous ones), "work" (a kernel that copies), "record", "follow" (cudaStreamWaitEvent), "stream",
    "event" and "all" (the host waits), "read" and "write" (the host touches the first cell of a part), "call" (a function of the host in a
    stream reads it; later: writes it), "free" (in the order of a stream)."""

    do: str
    stream: int = 0
    to: Part | None = None
    source: Part | None = None
    later: bool = True
    event: int = 0


@dataclass(eq=False)
class Node:
    """What happens at one time: an operation, a mark in a stream, or what the host does."""

    step: int
    reads: Cells = Cells()
    writes: Cells = Cells()
    after: set[Node] = field(default_factory=set)
    is_host: bool = False
    tells: bool = False  # what it reads

    def meets(self, other: Node) -> bool:
        return bool(self.writes & (other.reads | other.writes) or self.reads & other.writes)


class Reference:
    """host: what the host does, in order: a Node that it puts into a stream or does itself, or a set of nodes that it waits for."""

    def __init__(self, steps: Iterable[Step]):
        self.host: list[Node | set[Node]] = []
        self._last: dict[int, set[Node]] = {s: set() for s in (NULL, *BLOCKING, *FREE, THREAD)}
        self._events: dict[int, Node] = {}
        for number, step in enumerate(steps):
            getattr(self, f"_{step.do}")(step, number)
        self.nodes = [n for n in self.host if isinstance(n, Node)]

    def _put(self, stream: int, node: Node) -> Node:
        follows = (*BLOCKING, THREAD)
        node.after |= self._last[stream].union(*(self._last[s] for s in follows if stream == NULL))
        self._last[stream] = {node}
        for s in follows if stream == NULL else ():
            self._last[s] = self._last[s] | {node}
        self.host.append(node)
        return node

    def _wait(self, nodes: Iterable[Node]) -> None:
        self.host.append(set(nodes))

    def _copy(self, step: Step, number: int) -> None:
        to, source = step.to.memory, step.source.memory
        node = Node(
            number, Cells() if source in HOST else step.source.cells, Cells() if to in HOST else step.to.cells
        )
        if not step.later and source in HOST:  # first what was there before, then its memory is read
            self._wait({self._put(step.stream, Node(number))})
        self._put(step.stream, node)
        if to in HOST or not step.later and {to, source} & {*MANAGED, *PINNED}:
            self._wait({node})

    def _fill(self, step: Step, number: int) -> None:
        node = self._put(step.stream, Node(number, writes=step.to.cells))
        if not step.later and step.to.memory not in DEVICE:
            self._wait({node})

    def _work(self, step: Step, number: int) -> None:
        self._put(step.stream, Node(number, step.source.cells, step.to.cells))

    def _call(self, step: Step, number: int) -> None:
        cells = step.to.cells
        self._put(step.stream, Node(number, writes=cells) if step.later else Node(number, cells, tells=True))

    def _free(self, step: Step, number: int) -> None:
        self._put(step.stream, Node(number, writes=step.to.cells))

    def _record(self, step: Step, number: int) -> None:
        self._events[step.event] = self._put(step.stream, Node(number))

    def _follow(self, step: Step, number: int) -> None:
        node = Node(number)
        node.after |= {self._events[step.event]} if step.event in self._events else set()
        self._put(step.stream, node)

    def _stream(self, step: Step, number: int) -> None:
        self._wait({self._put(step.stream, Node(number))})

    def _event(self, step: Step, number: int) -> None:
        self._wait({self._events[step.event]} if step.event in self._events else ())

    def _all(self, step: Step, number: int) -> None:
        self._wait(set().union(*self._last.values()))

    def _read(self, step: Step, number: int) -> None:
        self.host.append(Node(number, reads=step.to.cells, is_host=True))

    def _write(self, step: Step, number: int) -> None:
        self.host.append(Node(number, writes=step.to.cells, is_host=True))

    # -- all orders

    def _next(self, at: int, done: Cells) -> list[tuple[int, Node | None]]:
        """What may happen next: how far the host is then, and the node that is done."""
        found = []
        if at < len(self.host):
            now = self.host[at]
            if isinstance(now, set):
                found += [(at + 1, None)] if now <= done else []
            else:
                found.append((at + 1, now if now.is_host else None))
        issued = (n for n in self.host[:at] if isinstance(n, Node) and not n.is_host and n not in done)
        ready = [n for n in issued if n.after <= done]
        marks = [n for n in ready if not n.reads and not n.writes]
        return [(at, marks[0])] if marks else found + [(at, n) for n in ready]

    def unordered(self) -> set[tuple[int, int]]:
        """The steps (earlier, later) that conflict and happen in both orders."""
        pairs = {(a, b) for i, b in enumerate(self.nodes) for a in self.nodes[:i] if a.meets(b)}
        seen, todo, reversed_, right = set(), [(0, Cells())], set(), set()
        while todo:
            at, done = todo.pop()
            for then, node in self._next(at, done):
                after = done | {node} if node else done
                if node:
                    right |= {(a, b) for a, b in pairs if b is node and a in done}
                    reversed_ |= {(a, b) for a, b in pairs if b is node and a not in done}
                if (then, after) not in seen:
                    seen.add((then, after))
                    todo.append((then, after))
        return {(a.step, b.step) for a, b in right & reversed_}

    def results(self, most: int = 20_000) -> set[tuple] | None:
        """All memory that may be there at the end, with what the host has read; None where there are too many orders."""
        seen, found, todo = set(), set(), [(0, Cells(), ())]
        while todo:
            at, done, memory = todo.pop()
            choices = self._next(at, done)
            if not choices:
                found.add(memory)
            for then, node in choices:
                after, now = done, dict(memory)
                if node:
                    after = done | {node}
                    got = tuple(now.get(cell) for cell in sorted(node.reads))
                    tells = node.is_host or node.tells
                    to = node.writes or ({("read by the host", node.step)} if tells else ())
                    now |= {cell: hash((node.step, cell, got)) for cell in to}
                state = then, after, tuple(sorted(now.items()))
                if state not in seen:
                    seen.add(state)
                    todo.append(state)
            if len(seen) > most:
                return None
        return found


# ---- random programs ----------------------------------------------------------------------------------------


def draw(seed: int, length: int = 7) -> list[Step]:
    """A program in which the host never touches memory twice without a call between."""
    r = random.Random(seed)
    streams = r.sample((NULL, *BLOCKING, *FREE, THREAD), r.randint(2, 3))
    memories = r.sample(DEVICE + MANAGED + PINNED, r.randint(2, 3))

    def part(names: Iterable[str], like: Part | None = None) -> Part:
        name = r.choice([*names])
        if like and like.rows > 1:
            return Part(name, r.choice((0, 2)), like.count, r.choice((2, 4)), like.rows)
        if like:
            return Part(name, r.randrange(0, CELLS - like.count + 1), like.count)
        if r.random() < 0.3:
            return Part(name, r.choice((0, 1, 2)), r.choice((1, 2)), 4, 2)
        count = r.choice((1, 2, 4, 8))
        return Part(name, r.randrange(0, CELLS - count + 1), count)

    steps: list[Step] = []
    while len(steps) < length:
        do = r.choices(
            ("copy", "fill", "work", "record", "follow", "stream", "event", "all", "read", "write", "call"),
            (5, 2, 4, 3, 3, 1, 1, 0.3, 1, 1, 1),
        )[0]
        stream, event, later = r.choice(streams), r.randrange(2), r.random() < 0.7
        on_host = [m for m in memories if m not in DEVICE]
        if do in ("read", "write"):
            if on_host and steps and steps[-1].do not in ("read", "write"):
                steps.append(Step(do, to=Part(r.choice(on_host), r.randrange(CELLS), 1)))
        elif do == "call":
            if on_host:
                steps.append(Step(do, stream, Part(r.choice(on_host), r.randrange(CELLS), 1), later=later))
        elif do == "copy":
            to = part([*memories, HOST])
            source = part([*memories, HOST] if to.memory != HOST else memories, to)
            if not (to.memory == source.memory and to.cells & source.cells):
                steps.append(Step(do, stream if later else NULL, to, source, later))
        elif do == "fill":
            steps.append(Step(do, stream if later else NULL, part(memories), later=later))
        elif do == "work":
            to = part(memories)
            source = part(memories, to)
            if not to.cells & source.cells:
                steps.append(Step(do, stream, to, source))
        else:
            steps.append(Step(do, stream, event=event))
    if r.random() < 0.2 and any(m in DEVICE for m in memories):
        freed = r.choice([m for m in memories if m in DEVICE])
        steps.append(Step("free", r.choice(streams), Part(freed, 0, CELLS)))
    return steps


def judged(steps: list[Step]) -> tuple[set[int], bool, bool]:
    """The reference's: the steps that race with an earlier one; whether the host is too early somewhere; whether orders give different
    results."""
    reference = Reference(steps)
    pairs = reference.unordered()
    host = {n.step for n in reference.nodes if n.is_host}
    results = reference.results()
    races = {b for a, b in pairs if not {a, b} & host}
    return races, any({a, b} & host for a, b in pairs), results is not None and len(results) > 1


def disagreement(steps: list[Step], found: tuple[set[int], bool]) -> str:
    """What is wrong with what was found: the steps named in a race, and whether the host was named; "" if nothing."""
    (races, early), (wanted, host, differ) = found, judged(steps)
    if early != host:
        return f"the host is {'' if host else 'not '}too early, and it was{'' if early else ' not'} said"
    if races - wanted or not host and races != wanted:
        return f"steps {sorted(wanted)} race, and {sorted(races)} were named"
    if differ and not races and not early:
        return "orders differ, and nothing was named"
    return ""


@click.command()
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--seed", default=0)
def main(seconds: float, seed: int) -> None:
    from tests.programs.calls import found_in

    end, counts = time.monotonic() + seconds, Counter()
    while time.monotonic() < end:
        steps = draw(seed, random.Random(seed).randint(4, 9))
        races, host, differ = judged(steps)
        counts["programs"] += 1
        counts["with a race"] += bool(races)
        counts["where the host is too early"] += host
        counts["whose results differ"] += differ
        if wrong := disagreement(steps, found_in(steps)):
            counts["disagreements"] += 1
            print(f"seed {seed}: {wrong}", *(f"  {i} {step}" for i, step in enumerate(steps)), sep="\n")
        seed += 1
    print(", ".join(f"{count:,} {what}" for what, count in counts.items()))
    sys.exit(int(counts["disagreements"] > 0))


if __name__ == "__main__":
    main()
