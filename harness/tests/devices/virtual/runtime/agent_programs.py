"""Random programs with copies of many bytes, and which of their accesses race: a plain reckoning, for comparison with the
runtime's.

A program is a list of statements of single threads and of barriers. Nothing in it depends on the order in which threads run,
so vector clocks over its text say what happens before what. A copy's reads and writes are each a thread of its own, which
begins with what its issuer knows and ends where it is waited for.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

THREADS = (0, 1, 33, 40)  # who does something: two lanes of one warp, two of another
_PLACES = 4  # pieces of 16 bytes in each array
_BARRIERS = 12

HEAD = r"""
typedef unsigned u32; typedef unsigned long long u64;
__device__ u32 in_shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }
#define PUT(to, from) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16; cp.async.bulk.commit_group;" :: "l"(to), "r"(in_shared(from)) : "memory")
#define ADD(to, from) asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 16; cp.async.bulk.commit_group;" :: "l"(to), "r"(in_shared(from)) : "memory")
#define GET(to, from, b) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%2], 16; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];" :: "r"(in_shared(to)), "l"(from), "r"(in_shared(b)) : "memory")
#define WAIT(b) asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra L; }" :: "r"(in_shared(b)) : "memory")
#define DONE(n) asm volatile("cp.async.bulk.wait_group %0;" :: "n"(n) : "memory")
#define READ(n) asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(n) : "memory")
#define FENCE() asm volatile("fence.proxy.async;" ::: "memory")
"""
_KERNEL = """extern "C" __global__ void k%d(u32* y, u32* out) {
    __shared__ alignas(16) u32 s[%d];
    __shared__ u64 bar[%d];
    int t = threadIdx.x;
    if (t < %d) s[t] = t;
    if (t < %d) asm volatile("mbarrier.init.shared::cta.b64 [%%0], 1;" :: "r"(in_shared(bar + t)) : "memory");
    FENCE();
    __syncthreads();
%s
}
"""


class Statement(NamedTuple):
    """what: store, load, put, add, get, wait (for a get's barrier), done, read (for all but `place` groups), fence, sync.
    array: "s" or "y"; place: a piece of it, and for copies `other` one of the other array."""

    what: str
    thread: int = 0
    array: str = "s"
    place: int = 0
    other: int = 0

    def text(self, number: int) -> str:
        element = f"{self.array}[{4 * self.place + number % 4}]"
        code = {
            "store": f"{element} = {1000 + number}",
            "load": f"out[{number}] = {element}",
            "put": f"PUT(y + {4 * self.other}, s + {4 * self.place})",
            "add": f"ADD(y + {4 * self.other}, s + {4 * self.place})",
            "get": f"GET(s + {4 * self.place}, y + {4 * self.other}, bar + {self.array})",
            "wait": f"WAIT(bar + {self.place})",
            "done": f"DONE({self.place})",
            "read": f"READ({self.place})",
            "fence": "FENCE()",
        }
        return "__syncthreads();" if self.what == "sync" else f"if (t == {self.thread}) {code[self.what]};"


def program(rng, length: int) -> list[Statement]:
    found, gets = [], 0
    while len(found) < length:
        thread, place, other = (
            int(rng.choice(THREADS)),
            int(rng.integers(_PLACES)),
            int(rng.integers(_PLACES)),
        )
        what = str(rng.choice("store load put add get wait done read fence sync".split(), p=_CHANCES))
        if what in ("store", "load"):
            found.append(Statement(what, thread, str(rng.choice(["s", "y"])), place))
        elif what == "get" and gets < _BARRIERS:
            found.append(Statement(what, thread, str(gets), place, other))
            gets += 1
        elif what == "wait" and gets:
            found.append(Statement(what, thread, place=int(rng.integers(gets))))
        elif what in ("put", "add", "fence", "sync"):
            found.append(Statement(what, thread, "s", place, other))
        elif what in ("done", "read"):
            found.append(Statement(what, thread, place=int(rng.integers(2))))
    found += [Statement("wait", 0, place=i) for i in range(gets)]
    return found + [Statement("done", thread) for thread in THREADS]


_CHANCES = (0.14, 0.14, 0.12, 0.05, 0.1, 0.11, 0.06, 0.06, 0.07, 0.15)


def kernel(name: int, statements: list[Statement]) -> str:
    body = "\n".join(f"    {s.text(i)}" for i, s in enumerate(statements))
    return _KERNEL % (name, 4 * _PLACES, _BARRIERS, 4 * _PLACES, _BARRIERS, body)


class Access(NamedTuple):
    statement: int
    who: int  # a row of the clocks
    at: int  # how many steps `who` had made with it
    before: dict[int, int]  # what it comes after
    array: str
    words: range
    writes: bool
    adds: bool


class Reckoning:
    """Of a program. Clocks: who -> how many of its steps are known."""

    def __init__(self, statements: list[Statement]):
        self.clocks = {t: {t: 1} for t in THREADS}
        self.accesses: list[Access] = []
        self.groups: dict[int, list[tuple[int, int]]] = {
            t: [] for t in THREADS
        }  # rows of reads and of writes
        self.gets: dict[int, dict[int, int]] = {}  # barrier -> what who waits for it learns
        self.fenced = {t: {} for t in THREADS}  # what is known to have been before a fence.proxy.async
        # a copy, its thread and a place that it reads or comes to; what is known there, and its issuer's steps
        self.sent: list[tuple[int, int, tuple[str, int], dict, dict, int]] = []
        self.rows = max(THREADS) + 1
        for number, s in enumerate(statements):
            if s.what != "sync":
                self.clocks[s.thread][s.thread] += 1
            getattr(self, s.what)(number, s)

    def _note(
        self, number: int, who: int, clock: dict, array: str, words: range, writes: bool, adds: bool = False
    ):
        self.accesses.append(Access(number, who, clock[who], dict(clock), array, words, writes, adds))

    def _agent(
        self, number: int, s: Statement, array: str, place: int, writes: bool, adds: bool = False
    ) -> int:
        self.rows += 1
        clock = self.clocks[s.thread] | {self.rows: 1}
        self._note(number, self.rows, clock, array, range(4 * place, 4 * place + 4), writes, adds)
        return self.rows

    def store(self, number: int, s: Statement) -> None:
        word = 4 * s.place + number % 4
        self._note(number, s.thread, self.clocks[s.thread], s.array, range(word, word + 1), s.what == "store")

    load = store

    def _send(self, number: int, s: Statement, *places: tuple[str, int]) -> None:
        clock = self.clocks[s.thread]
        for place in places:
            known = dict(self.fenced[s.thread]), dict(clock), clock[s.thread]
            self.sent.append((number, s.thread, place, *known))

    def put(self, number: int, s: Statement) -> None:
        self._send(number, s, ("s", s.place), ("y", s.other))
        read = self._agent(number, s, "s", s.place, False)
        self.groups[s.thread].append((read, self._agent(number, s, "y", s.other, True, s.what == "add")))

    add = put

    def get(self, number: int, s: Statement) -> None:
        self._send(number, s, ("y", s.other))
        read = self._agent(number, s, "y", s.other, False)
        written = self._agent(number, s, "s", s.place, True)
        self.gets[int(s.array)] = self.clocks[s.thread] | {read: 1, written: 1}, dict(self.fenced[s.thread])

    def wait(self, number: int, s: Statement) -> None:
        clock, fenced = self.gets[s.place]
        _join(self.clocks[s.thread], clock)
        _join(self.fenced[s.thread], fenced)

    def done(self, number: int, s: Statement) -> None:
        own = self.groups[s.thread]
        for read, written in own[: len(own) - s.place]:
            _join(self.clocks[s.thread], {read: 1} if s.what == "read" else {read: 1, written: 1})

    read = done

    def fence(self, number: int, s: Statement) -> None:
        _join(self.fenced[s.thread], self.clocks[s.thread])

    def sync(self, number: int, s: Statement) -> None:
        for kept in (self.clocks, self.fenced):
            all_: dict[int, int] = {}
            for clock in kept.values():
                _join(all_, clock)
            for t in THREADS:
                kept[t] = dict(all_)

    def unfenced(self) -> tuple[set[tuple[int, int]], set[int]]:
        """Stores, and copies that read there or in global memory come there, without fence.proxy.async between: pairs that may be found, and copies that must
        be. A store that races with the copy may come later; one that a copy may have overwritten says nothing."""
        may, must = set(), set()
        brought = {(a.array, w) for a in self.accesses if a.writes and a.who > max(THREADS) for w in a.words}
        for number, thread, place, fenced, known, steps in self.sent:
            for a in self.accesses:
                own = a.writes and a.who <= max(THREADS) and (a.array, a.words[0] // 4) == place
                if not own or fenced.get(a.who, 0) >= a.at or a.before.get(thread, 0) >= steps:
                    continue
                may.add((a.statement, number))
                if known.get(a.who, 0) >= a.at and (a.array, a.words[0]) not in brought:
                    must.add(number)
        return may, must

    def races(self) -> set[tuple[int, int]]:
        """Pairs of statements."""
        found = set()
        for a, b in combinations(self.accesses, 2):
            meet = a.array == b.array and (a.writes or b.writes) and not (a.adds and b.adds)
            if meet and a.who != b.who and set(a.words) & set(b.words) and b.before.get(a.who, 0) < a.at:
                found.add((a.statement, b.statement))
        return found


def _join(clock: dict[int, int], other: dict[int, int]) -> None:
    for who, tick in other.items():
        clock[who] = max(clock.get(who, 0), tick)


def programs(seed: int, count: int, length: int) -> tuple[str, list[list[Statement]]]:
    """(a file of kernels k0, k1 .., the programs)"""
    rng = np.random.default_rng(seed)
    made = [program(rng, length) for _ in range(count)]
    return HEAD + "".join(kernel(i, statements) for i, statements in enumerate(made)), made
