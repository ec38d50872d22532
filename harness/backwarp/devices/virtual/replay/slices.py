"""Where a value comes from: back along what each recorded value is computed from, through memory, lanes, arguments and results, to
the elements of the inputs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ..analyse.sums import BACK, FORMALS
from .record import KIND, LANDS, LOAD, STORE, WRITING
from .replay import Replay

MOST, LONGEST = 4096, 200_000  # terms of a sum; values that are looked at
DEEPEST = 400  # products within products
Node = tuple[int, int]  # a thread, and a place in its rows
Leaf = tuple[str, int]  # an array, and a flat index
_MOVED = (KIND["given"], KIND["got"])


@dataclass(frozen=True)
class Term:
    """A product of elements of inputs. node: where it was formed, or read. is_zero: a factor is a zero that comes from no input,
    such as padding."""

    node: Node
    leaves: tuple[Leaf, ...]
    is_zero: bool = False


class Slice:
    """inputs: the arrays whose elements terms are made of."""

    def __init__(self, replay: Replay, inputs: Collection[str]):
        self.replay, self.record, self.inputs = replay, replay.record, set(inputs)
        self.sources = dict(self.record.taken["sources"])
        self.groups: dict[int, tuple[int, ...]] = {}
        for point, groups in self.record.taken["sources"]:
            if point == -1:
                self.groups |= {group[0]: group for group in groups}
        self._places: dict[int, dict[int, np.ndarray]] = {}
        self._written: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        a = self.record.accesses
        self._access_at = {row: i for i, row in enumerate(a["row"].tolist()) if a["how"][i] != LANDS}

    def written(self, array: str, flat: int) -> list[tuple[np.void, Node]]:
        """The access that wrote an element last, and the value that it wrote; of each thread that added to it, if some did."""
        size = self.record.arrays[self.record.number(array)].dtype.itemsize
        found = [a for a in self.replay.touching(array, flat, 0) if a["how"] in WRITING and a["how"] != LANDS]
        added = {int(a["who"]): a for a in found if a["how"] != STORE}
        return [(a, self._value_of(a, flat * size)) for a in added.values() or found[-1:]]

    def terms(self, node: Node, depth: int = 0) -> list[Term]:
        """What a value is the sum of."""
        found: list[Term] = []
        work: list[tuple[Node, tuple[Leaf, ...], Node]] = [(node, (), node)]
        for _ in range(LONGEST):
            if not work or len(found) >= MOST:
                break
            at, extra, place = work.pop()
            for product in self.products(at):
                leaves = (*extra, *(f for f in product if isinstance(f[0], str)))
                nodes = [f for f in product if not isinstance(f[0], str)]
                where = at if len(product) > 1 else place
                if not nodes:
                    found.append(Term(at if place == node and not extra else where, leaves))
                elif len(nodes) == 1:
                    work.append((nodes[0], leaves, where if len(product) > 1 or leaves else nodes[0]))
                elif depth < DEEPEST:
                    found += self._multiplied(where, leaves, nodes, depth)
        return found

    def _multiplied(self, where: Node, leaves: tuple[Leaf, ...], nodes: list[Node], depth: int) -> list[Term]:
        products = [Term(where, leaves)]
        for n in nodes:
            more = self.terms(n, depth + 1) or [Term(n, (), self._is_zero(n))]  # else a constant
            products = [
                Term(where, (*a.leaves, *b.leaves), a.is_zero or b.is_zero) for a in products for b in more
            ][:MOST]
        return [p for p in products if p.leaves]

    def _is_zero(self, node: Node) -> bool:
        row = self._row(node)
        return str(self.record.of(row)[-1])[0] == "f" and not int(self.record.rows["value"][row]) & ~(1 << 31)

    # -- one value ------------------------------------------------------------------------------------

    def products(self, node: Node) -> list[tuple[Node | Leaf, ...]]:
        """The value of a row as a sum of products of other rows and of elements."""
        row = self._row(node)
        if self.record.kind[row] == KIND["got"]:
            found = self._read(node)
            return [(found,)] if found else []
        each = (
            [self._source(node, s) for s in product]
            for product in self.sources.get(int(self.record.point[row]), ())
        )
        kept = (tuple(f for f in factors if f is not None) for factors in each)
        return [factors for factors in kept if factors]

    def _source(self, node: Node, source: int) -> Node | None:
        """See analyse/sums."""
        who, i = node
        if source < 0:
            return self._argument(node, *divmod(-1 - source, FORMALS))
        at = self._latest(who, source % BACK, i)
        if at is None or source < BACK:
            return None if at is None else (who, at)
        rows = self.record.threads[who]
        callee = self.record.of(rows[at - 1])[2]
        for j in range(at - 1, max(-1, at - 64), -1):  # the function stored its result just before
            p = self.record.of(rows[j])
            if (
                p[0] == "argument"
                and p[2] == callee
                and p[4].startswith("func_retval")
                and p[5] == source // BACK - 1
            ):
                return who, j
        return None

    def _argument(self, node: Node, offset: int, parameter: int) -> Node | None:
        """What the call that led here gave to a parameter."""
        who, i = node
        kinds, depth = self.record.kind[self.record.threads[who]], 0
        for j in np.flatnonzero(np.isin(kinds[: i + 1], (KIND["call"], KIND["back"])))[::-1].tolist():
            depth += 1 if kinds[j] == KIND["back"] else -1
            if depth < 0:
                given = self.sources.get(int(self.record.point[self._row((who, j))]), ())[
                    parameter : parameter + 1
                ]
                points = dict(zip(given[0][::2], given[0][1::2], strict=True)) if given else {}
                at = self._latest(who, points[offset], j) if points.get(offset, -1) >= 0 else None
                return None if at is None else (who, at)
        return None

    def _read(self, node: Node) -> Node | Leaf | None:
        """Where the value that a load or a shuffle gets comes from."""
        who, i = node
        rows, head = self.record.threads[who], i
        while self.record.kind[rows[head]] in _MOVED:
            head -= 1
        if self.record.kind[rows[head]] == KIND["pass"]:
            return self._lane(who, head) if i == head + 1 else None
        index = self._access_at.get(int(rows[head]))
        access = self.record.accesses[index] if index is not None else None
        if access is None or access["how"] != LOAD:
            return None
        size = int(access["nbytes"]) // max(1, int(access["many"]))
        at = int(access["offset"]) + (i - head - 1) * size
        source = self._write_before(access, at, size)
        if source is not None:
            return self._written_by(source, at)
        held = self.record.arrays[access["array"]] if access["array"] >= 0 else None
        return (held.name, at // held.dtype.itemsize) if held and held.name in self.inputs else None

    def _written_by(self, write: np.void, at: int) -> Node | Leaf | None:
        """What a write put at an offset of its array."""
        if write["how"] == STORE:
            return self._value_of(write, at)
        if write["how"] != LANDS:
            return None
        origin = self.record.accesses[int(write["first"])]
        inside = at - int(write["offset"])
        given = self.record.moved(origin, "given")
        if origin["array"] < 0 or inside >= (
            int.from_bytes(given, "little") if given else int(write["nbytes"])
        ):
            return None
        held = self.record.arrays[origin["array"]]
        return held.name, (int(origin["offset"]) + inside) // held.dtype.itemsize

    def _value_of(self, write: np.void, at: int) -> Node:
        """Which of the values of a store, or an atomic, is at an offset of its array."""
        who, row = int(write["who"]), int(write["row"])
        size = (
            int(write["nbytes"]) // max(1, int(write["many"]))
            if write["how"] == STORE
            else int(write["nbytes"])
        )
        place = int(np.searchsorted(self.record.threads[who], row))
        return who, place + 1 + (at - int(write["offset"])) // size

    def _write_before(self, access: np.void, at: int, size: int) -> np.void | None:
        """The last write of bytes before an access."""
        a, time, row = self.record.accesses, self.replay.time, int(access["row"])
        array, who = int(access["array"]), int(access["who"])
        shared = array >= 0 and self.record.arrays[array].space == "shared"
        key = array, who if array < 0 else who >> 10 if shared else -1
        if key not in self._written:
            mine = np.isin(a["how"], WRITING) & (a["array"] == array)
            if key[1] >= 0:
                mine &= (a["who"] if array < 0 else a["who"] >> 10) == key[1]
            chosen = a[mine]
            chosen = chosen[np.lexsort((chosen["row"], time[chosen["row"]]))]
            self._written[key] = chosen, time[chosen["row"]]
        chosen, times = self._written[key]
        here = (chosen["offset"] < at + size) & (at < chosen["offset"] + chosen["nbytes"])
        hit = np.flatnonzero(here & ((times < time[row]) | (times == time[row]) & (chosen["row"] < row)))
        return chosen[hit[-1]] if len(hit) else None

    def _lane(self, who: int, passed: int) -> Node | None:
        """The operand that a shuffle gave in the lane that it reads."""
        rows, opcode = self.record.threads[who], self.record.of(self._row((who, passed)))[5]
        head = passed - 1
        while self.record.kind[rows[head]] == KIND["given"]:
            head -= 1
        given = self.record.rows["value"][rows[head + 1 : passed]].tolist()
        if not opcode.startswith("shfl") or len(given) < 3:
            return None
        lane, by, width = who & 31, given[1], 32 - (given[2] >> 8 & 31)
        ways = {"up": lane - by, "down": lane + by, "bfly": lane ^ by}
        there = ways.get(opcode.split(".")[2], lane & ~(width - 1) | by & width - 1)
        other = who - lane + (there if there // width == lane // width and 0 <= there < 32 else lane)
        if other not in self.record.threads:
            return None
        # the same execution of the same instruction: as many times as this thread has come to it
        point = int(self.record.point[rows[head]])
        mine, theirs = (self._of_thread(w).get(point, np.empty(0)) for w in (who, other))
        nth = int(np.searchsorted(mine, head))
        return (other, int(theirs[nth]) + 1) if nth < len(theirs) else None

    # -- a thread's rows ------------------------------------------------------------------------------

    def step(self, node: Node) -> int:
        """The moment of a row."""
        steps = self.replay.steps[node[0]]
        return steps[max(0, bisect_right(steps, node[1], key=lambda s: s.first) - 1)].at

    def _row(self, node: Node) -> int:
        return int(self.record.threads[node[0]][node[1]])

    def _of_thread(self, who: int) -> dict[int, np.ndarray]:
        """Point -> where it is in the thread's rows."""
        if who not in self._places:
            points = self.record.point[self.record.threads[who]]
            order = np.argsort(points, kind="stable")
            parts = np.split(order, np.flatnonzero(np.diff(points[order])) + 1)
            self._places[who] = {int(points[part[0]]): part for part in parts if len(part)}
        return self._places[who]

    def _latest(self, who: int, source: int, before: int) -> int | None:
        """The last row of a point, or of those that record the same register, before a place."""
        found = []
        for point in self.groups.get(source, (source,)):
            places = self._of_thread(who).get(point)
            if places is not None and (i := int(np.searchsorted(places, before))):
                found.append(int(places[i - 1]))
        return max(found, default=None)
