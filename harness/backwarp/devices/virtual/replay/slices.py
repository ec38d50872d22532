"""Where a value comes from: back along what each recorded value is computed from, through memory, lanes, arguments and results, to
the elements of the inputs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ..analyse.sums import BACK, FORMALS
from ..ptx.types import BYTES
from . import matrices
from .record import KIND, LANDS, LOAD, STORE, WRITING
from .replay import Replay

MOST, LONGEST = 4096, 200_000  # terms of a sum; values that are looked at
DEEPEST = 400  # products within products
Node = tuple[
    int, ...
]  # a thread, a place in its rows, and, of a part of two bytes of what is there, where that begins
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
        self._written: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

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
        if len(node) > 2:
            return not self._bits(node) & 0x7FFF
        return str(self.record.of(row)[-1])[0] == "f" and not int(self.record.rows["value"][row]) & ~(1 << 31)

    # -- one value ------------------------------------------------------------------------------------

    def products(self, node: Node) -> list[tuple[Node | Leaf, ...]]:
        """The value of a row as a sum of products of other rows and of elements."""
        row = self._row(node)
        if self.record.kind[row] == KIND["got"]:
            head = self._head(node)
            opcode = str(self.record.of(head)[5]) if self.record.kind[head] == KIND["pass"] else ""
            if opcode.startswith("mma."):
                return self._of_matrices(node)
            found = self._of_row(node) if opcode.startswith("ldmatrix") else self._read(node)
            return [(found,)] if found else []
        each = (
            [self._source(node, s) for s in product]
            for product in self.sources.get(int(self.record.point[row]), ())
        )
        kept = (tuple(f for f in factors if f is not None) for factors in each)
        found = [factors for factors in kept if factors]
        return found if len(node) < 3 else self._same_bits(node, [n for factors in found for n in factors])

    def _bits(self, node: Node) -> int:
        value = int(self.record.rows["value"][self._row(node)])
        return value >> 8 * node[2] & 0xFFFF if len(node) > 2 else value

    def _same_bits(self, node: Node, sources: list[Node]) -> list[tuple[Node]]:
        """Which part of what a register is computed from a part of it is: the one with the same bits, whatever shifts and masks put it
        there. None if they are 0."""
        wanted, found = self._bits(node), []
        for source in sources:
            size = BYTES.get(str(self.record.of(self._row(source))[-1]), 4)
            parts = [(*source[:2], at) for at in range(0, size, 2)] if size > 2 else [source[:2]]
            found += [part for part in parts if self._bits(part) & 0xFFFF == wanted]
        found.sort(key=lambda part: part[2:] != node[2:])
        return [(found[0],)] if wanted and found else []

    def _source(self, node: Node, source: int) -> Node | None:
        """See analyse/sums."""
        who, i = node[:2]
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
        who, i = node[:2]
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
        who, i = node[:2]
        row = self._head(node)
        head = int(np.searchsorted(self.record.threads[who], row))
        if self.record.kind[row] == KIND["pass"]:
            return self._lane(who, head) if i == head + 1 else None
        index = self.record.access_at.get(row)
        access = self.record.accesses[index] if index is not None else None
        if access is None or access["how"] != LOAD:
            return None
        size = int(access["nbytes"]) // max(1, int(access["many"]))
        at = int(access["offset"]) + (i - head - 1) * size
        return self._held(access, at, size) if len(node) < 3 else self._held(access, at + node[2], 2, True)

    def _held(self, access: np.void, at: int, size: int, part: bool = False) -> Node | Leaf | None:
        """Where what an access finds at an offset of its array comes from. part: it may be a part of what was stored."""
        source = self._write_before(access, at, size)
        if source is not None:
            return self._written_by(source, at, part)
        held = self.record.arrays[access["array"]] if access["array"] >= 0 else None
        return (held.name, at // held.dtype.itemsize) if held and held.name in self.inputs else None

    def _head(self, node: Node) -> int:
        """The row of the access, or the collective, to which a value belongs."""
        rows, head = self.record.threads[node[0]], node[1]
        while self.record.kind[rows[head]] in _MOVED:
            head -= 1
        return int(rows[head])

    # -- matrices -------------------------------------------------------------------------------------

    def _of_row(self, node: Node) -> Node | Leaf | None:
        """What ldmatrix has loaded into two bytes of a lane's register."""
        if len(node) < 3:
            return None
        who, place, part = node
        head = int(np.searchsorted(self.record.threads[who], self._head(node)))
        found = matrices.loaded(self.record, who, head, place - head - 1, part)
        return self._held(*found, 2, True) if found else None

    def _of_matrices(self, node: Node) -> list[tuple[Node, ...]]:
        """What mma has added to an element of a lane's D, and what was there."""
        who, place = node[:2]
        row, lane = self._head(node), who & 31
        head = int(np.searchsorted(self.record.threads[who], row))
        a, b, c = self.sources[int(self.record.point[row])]
        before = self._of_operand(who, who, head, c[register := place - head - 1])
        found = [(before,)] if before else []
        for one, other in matrices.factors(self.record.of(row)[5], lane, register):
            left = self._of_operand(who, who - lane + one[0], head, a[one[1]], one[2])
            right = self._of_operand(who, who - lane + other[0], head, b[other[1]], other[2])
            found += [(left, right)] if left and right else []
        return found

    def _of_operand(self, who: int, other: int, head: int, source: int | None, part: int = -1) -> Node | None:
        """What another lane has given to a product that this one has come to at `head`."""
        there = self.record.same(who, other, head)
        node = None if there is None or source is None else self._source((other, there), source)
        return node if node is None or part < 0 else (*node, part)

    def _written_by(self, write: np.void, at: int, part: bool = False) -> Node | Leaf | None:
        """What a write put at an offset of its array."""
        if write["how"] == STORE:
            size = int(write["nbytes"]) // max(1, int(write["many"]))
            inside = (at - int(write["offset"])) % size
            return (*self._value_of(write, at), inside) if part and size > 2 else self._value_of(write, at)
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
        given = self.record.same(who, other, head)
        return None if given is None else (other, given + 1)

    # -- a thread's rows ------------------------------------------------------------------------------

    def step(self, node: Node) -> int:
        """The moment of a row."""
        steps = self.replay.steps[node[0]]
        return steps[max(0, bisect_right(steps, node[1], key=lambda s: s.first) - 1)].at

    def _row(self, node: Node) -> int:
        return int(self.record.threads[node[0]][node[1]])

    def _latest(self, who: int, source: int, before: int) -> int | None:
        """The last row of a point, or of those that record the same register, before a place."""
        found = []
        for point in self.groups.get(source, (source,)):
            places = self.record.places(who).get(point)
            if places is not None and (i := int(np.searchsorted(places, before))):
                found.append(int(places[i - 1]))
        return max(found, default=None)
