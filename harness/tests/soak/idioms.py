"""Random idioms of synchronisation: a launch finds the races that any order of their accesses has, and no others.

`python -m harness.tests.soak.idioms --seconds S` tries programs for so long and prints how many of the racy ones are found in
the orders of one launch, and each false alarm; ends with status 1 where there is one, or where fewer are found than FOUND.

A program has a few threads, of one or several blocks, that communicate through locks, flags, queues and counters, with fences,
orders and scopes drawn at random: right ones, and ones that lack something. An interpreter runs it in every order of its strong
accesses that can make a difference (sleep sets: independent neighbours are not exchanged); `race_oracle` says of each whether
it races.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from unittest import mock

import click
import numpy as np

from harness.devices.nvrtc import compiler as nvrtc
from harness.devices.virtual import device, launch
from harness.devices.virtual.compile import build
from harness.devices.virtual.runtime import abi
from harness.tests.devices.virtual.runtime.race_oracle import CTA, GPU, SYS, Access, Fence, hazards

SCOPES = {"cta": CTA, "gpu": GPU, "sys": SYS}
FOUND = 0.99  # of racy launches
WORDS = 16  # of the memory that all threads share
MOST_RUNS = 400  # interleavings of a program
BATCH = 40  # programs in a file
SEEDS = 2  # launches of each
COMPARED = {
    "==": int.__eq__,
    "!=": int.__ne__,
    ">=": int.__ge__,
    "<": int.__lt__,
}


@dataclass(frozen=True)
class How:
    """A strong access. style: "volatile", "atomic" (CUDA's functions) or "asm"."""

    style: str
    order: str = "relaxed"
    scope: str = "gpu"


@dataclass(frozen=True)
class Op:
    """kind: "load", "store", "update" (add, exch, cas), "read" and "write" (plain), "fence", "if", "await" (a load until it
    fits), "lock" (a cas until it succeeds). word: a number, or a register that holds it. value: a number or a register."""

    kind: str
    word: int | str = 0
    how: How | None = None
    register: str = ""
    value: int | str = 0
    value2: int | str = 0
    what: str = ""  # the update, the comparison, or a fence's scope
    then: tuple[Op, ...] = ()
    otherwise: tuple[Op, ...] = ()


@dataclass(frozen=True)
class Idiom:
    """threads: (block, thread) of each body. shared: the words are in shared memory."""

    name: str
    blocks: int
    size: int
    threads: tuple[tuple[tuple[int, int], tuple[Op, ...]], ...]
    shared: bool = False

    def source(self) -> str:
        lines = [f'extern "C" __global__ void {self.name}(int* m) {{  // <<<{self.blocks}, {self.size}>>>']
        if self.shared:
            lines += [
                f"    __shared__ int s[{WORDS}]; m = s;",
                f"    if (threadIdx.x == 0) for (int i = 0; i < {WORDS}; i++) s[i] = 0;",
                "    __syncthreads();",
            ]
        for (block, thread), body in self.threads:
            names = sorted({op.register for op in _all(body) if op.register})
            declared = f" int {', '.join(f'{n} = 0' for n in names)};" if names else ""
            lines.append(f"    if (blockIdx.x == {block} && threadIdx.x == {thread}) {{{declared}")
            lines += [f"        {line}" for op in body for line in written(op)]
            lines.append("    }")
        return "\n".join([*lines, "}"])


def _all(body: tuple[Op, ...]) -> Iterator[Op]:
    for op in body:
        yield op
        yield from _all(op.then)
        yield from _all(op.otherwise)


# -- as CUDA ---------------------------------------------------------------------------------------------------

HEAD = "".join(
    f"""__device__ int load_{o}_{s}(int* p) {{ int x; asm volatile("ld.{o}.{s}.s32 %0, [%1];" : "=r"(x) : "l"(p) : "memory"); return x; }}
"""
    for o in ("relaxed", "acquire")
    for s in SCOPES
)
HEAD += "".join(
    f"""__device__ void store_{o}_{s}(int* p, int x) {{ asm volatile("st.{o}.{s}.s32 [%0], %1;" :: "l"(p), "r"(x) : "memory"); }}
"""
    for o in ("relaxed", "release")
    for s in SCOPES
)
HEAD += "".join(
    f"""__device__ int add_{o}_{s}(int* p, int v) {{ int x; asm volatile("atom.{o}.{s}.add.s32 %0, [%1], %2;" : "=r"(x) : "l"(p), "r"(v) : "memory"); return x; }}
__device__ int exch_{o}_{s}(int* p, int v) {{ int x; asm volatile("atom.{o}.{s}.exch.b32 %0, [%1], %2;" : "=r"(x) : "l"(p), "r"(v) : "memory"); return x; }}
__device__ int cas_{o}_{s}(int* p, int c, int v) {{ int x; asm volatile("atom.{o}.{s}.cas.b32 %0, [%1], %2, %3;" : "=r"(x) : "l"(p), "r"(c), "r"(v) : "memory"); return x; }}
"""
    for o in ("relaxed", "acquire", "release", "acq_rel")
    for s in SCOPES
)
_FENCES = {"cta": "__threadfence_block();", "gpu": "__threadfence();", "sys": "__threadfence_system();"}
_SUFFIX = {"cta": "_block", "gpu": "", "sys": "_system"}


def _address(op: Op) -> str:
    return f"m + {op.word}"


def _loaded(op: Op) -> str:
    if op.how.style == "volatile":
        return f"*(volatile int*)({_address(op)})"
    if op.how.style == "atomic":
        return f"atomicAdd{_SUFFIX[op.how.scope]}({_address(op)}, 0)"
    return f"load_{op.how.order}_{op.how.scope}({_address(op)})"


def _updated(op: Op) -> str:
    values = f"{op.value}, {op.value2}" if op.what == "cas" else f"{op.value}"
    if op.how.style == "asm":
        return f"{op.what}_{op.how.order}_{op.how.scope}({_address(op)}, {values})"
    name = {"add": "Add", "exch": "Exch", "cas": "CAS"}[op.what]
    return f"atomic{name}{_SUFFIX[op.how.scope]}({_address(op)}, {values})"


def written(op: Op) -> list[str]:
    """The lines of a statement."""
    match op.kind:
        case "read":
            return [f"if (m[{op.word}] == 99) m[15] = 1;"]
        case "write":
            return [f"m[{op.word}] = {op.value};"]
        case "fence":
            return [_FENCES[op.what]]
        case "load":
            return [f"{op.register} = {_loaded(op)};"]
        case "store" if op.how.style == "volatile":
            return [f"*(volatile int*)({_address(op)}) = {op.value};"]
        case "store" if op.how.style == "atomic":
            return [f"atomicExch{_SUFFIX[op.how.scope]}({_address(op)}, {op.value});"]
        case "store":
            return [f"store_{op.how.order}_{op.how.scope}({_address(op)}, {op.value});"]
        case "update":
            return [f"{op.register} = {_updated(op)};" if op.register else f"{_updated(op)};"]
        case "await":
            return [f"while (!(({op.register} = {_loaded(op)}) {op.what} {op.value})) {{}}"]
        case "lock":
            return [f"while ({_updated(Op('update', op.word, op.how, value=0, value2=1, what='cas'))}) {{}}"]
        case "if":
            lines = [f"if ({op.register} {op.what} {op.value}) {{", *_indented(op.then)]
            return [*lines, "}"] if not op.otherwise else [*lines, "} else {", *_indented(op.otherwise), "}"]
    raise ValueError(op.kind)


def _indented(body: tuple[Op, ...]) -> list[str]:
    return [f"    {line}" for op in body for line in written(op)]


# -- in all interleavings --------------------------------------------------------------------------------------


class _Thread:
    """A thread between two strong accesses. next: the one to come; None: it has ended."""

    def __init__(self, machine: Machine, at: tuple[int, int], body: tuple[Op, ...]):
        self.machine, self.at, self.registers = machine, at, {}
        self.code = self._run(body)
        self.next: Op | None = next(self.code, None)

    def _run(self, body: tuple[Op, ...]) -> Iterator[Op]:
        for op in body:
            if op.kind == "if":
                held = COMPARED[op.what](self.value(op.register), self.value(op.value))
                yield from self._run(op.then if held else op.otherwise)
            elif op.kind in ("read", "write"):
                reads = op.kind == "read"
                self._access(op, reads=reads, writes=not reads)
            elif op.kind == "fence":
                self.machine.steps.append(Fence(*self.at, SCOPES[op.what]))
            else:
                yield op

    def value(self, of: int | str) -> int:
        return self.registers.get(of, 0) if isinstance(of, str) else of

    def _access(self, op: Op, **how) -> None:
        self.machine.steps.append(Access(*self.at, 4 * self.value(op.word), 4, id(op), **how))

    def ready(self) -> bool:
        """Whether its next access can be made now: a thread that waits finds what it waits for."""
        if self.next is None:
            return False
        now = self.machine.memory[self.value(self.next.word)]
        if self.next.kind == "await":
            return COMPARED[self.next.what](now, self.value(self.next.value))
        return self.next.kind != "lock" or now == 0

    def step(self) -> None:
        op, memory = self.next, self.machine.memory
        word, how = self.value(op.word), op.how
        now = memory[word]
        loads, stores = op.kind in ("load", "await"), op.kind == "store"
        update = {"lock": "cas"}.get(op.kind, op.what) if op.kind in ("update", "lock") else ""
        if (loads or stores) and how.style == "atomic":
            update = "look" if loads else "exch"
        old, new = (0, 1) if op.kind == "lock" else (self.value(op.value), self.value(op.value2))
        writes = stores or bool(update) and not (update == "cas" and now != old)
        scope = SYS if how.style == "volatile" else SCOPES[how.scope]
        self._access(
            op,
            reads=not stores or bool(update),
            writes=writes,
            strong=True,
            scope=scope,
            acquire=how.order in ("acquire", "acq_rel"),
            release=how.order in ("release", "acq_rel"),
            blind=bool(update) and (stores or op.kind == "update" and not op.register),
        )
        if writes:
            memory[word] = {"add": now + old, "cas": new, "look": now}.get(update, old)
        if op.register:
            self.registers[op.register] = now
        self.next = next(self.code, None)


class Machine:
    """An idiom, run in an order of its strong accesses. turns: whose access is next, each time."""

    def __init__(self, idiom: Idiom, turns: tuple[int, ...]):
        self.memory, self.steps = [0] * WORDS, []
        self.threads = [_Thread(self, at, body) for at, body in idiom.threads]
        for number in turns:
            self.threads[number].step()

    def ready(self) -> list[int]:
        return [i for i, thread in enumerate(self.threads) if thread.ready()]

    def touches(self, number: int) -> tuple[int, bool]:
        """What the next access of a thread touches, and whether it may write."""
        thread = self.threads[number]
        op = thread.next
        reads = op.kind in ("load", "await") and op.how.style != "atomic"
        return thread.value(op.word), not reads


class Hangs(Exception):
    """In some order the threads of an idiom wait for ever, or there are too many orders."""


def races(idiom: Idiom) -> bool:
    """Whether any of its interleavings races. Errors: Hangs."""
    found = [steps for steps in interleavings(idiom)]  # first: that none of them hangs
    return any(hazards(steps, observation=True) for steps in found)


def interleavings(idiom: Idiom) -> Iterator[list]:
    """The steps of each. Errors: Hangs."""
    work: list[tuple[tuple[int, ...], frozenset[int]]] = [((), frozenset())]
    runs = 0
    while work:
        turns, asleep = work.pop()
        machine = Machine(idiom, turns)
        ready = machine.ready()
        if not ready:
            if any(thread.next for thread in machine.threads):
                raise Hangs
            runs += 1
            if runs > MOST_RUNS:
                raise Hangs
            yield machine.steps
        touched = {i: machine.touches(i) for i, t in enumerate(machine.threads) if t.next}
        done = set(asleep)
        for i in ready:
            if i in asleep:
                continue
            awake = {j for j in done if touched[j][0] == touched[i][0] and (touched[j][1] or touched[i][1])}
            work.append(((*turns, i), frozenset(done - awake)))
            done.add(i)


# -- idioms ----------------------------------------------------------------------------------------------------


def idiom(name: str, seed: int) -> Idiom:
    return _Writer(Random(f"idiom {seed}")).idiom(name)


class _Writer:
    """Writes one idiom. Words 0 to 3 hold flags, 4 and up data."""

    def __init__(self, rng: Random):
        self.rng = rng
        self.scope = rng.choice(("gpu", "gpu", "gpu", "cta"))
        self.wrong = rng.random() < 0.6  # something may be missing
        self.registers = self.written = 0

    def idiom(self, name: str) -> Idiom:
        kinds = [k for k in dir(self) if k.startswith("an_")]
        kind = self.rng.choice(kinds)
        bodies = getattr(self, kind)()
        self.rng.shuffle(bodies)
        where = self.rng.choice(("blocks", "blocks", "warps", "lanes", "mixed"))
        if self.scope == "cta" and self.rng.random() < 0.7:
            where = self.rng.choice(("warps", "lanes"))
        n = len(bodies)
        if where == "blocks":
            blocks, size = self.rng.choice((n, n, n + 1, 4)), self.rng.choice((1, 32, 64))
            places = [(b, self.rng.choice((0, size - 1))) for b in self.rng.sample(range(max(blocks, n)), n)]
            blocks = max(blocks, n)
        elif where == "mixed":
            blocks, size = 2, 64
            every = [(b, t) for b in range(2) for t in (0, 1, 32)]
            places = self.rng.sample(every, n)
        else:
            blocks, size = 1, self.rng.choice((96, 128)) if where == "warps" else 32
            at = range(0, size, 32) if where == "warps" else range(size)
            places = [(0, t) for t in self.rng.sample(at, n)] if len(at) >= n else [(0, t) for t in range(n)]
        threads = tuple((place, tuple(body)) for place, body in zip(places, bodies, strict=True))
        return Idiom(f"{name}_{kind[3:]}", blocks, size, threads, blocks == 1 and self.rng.random() < 0.4)

    # -- parts ---------------------------------------------------------------------------------------------

    def maybe(self, *ops: Op) -> list[Op]:
        """Left out now and then, where the program may be wrong."""
        return [] if self.wrong and self.rng.random() < 0.35 else list(ops)

    def register(self) -> str:
        self.registers += 1
        return f"r{self.registers}"

    def how(self, *orders: str) -> How:
        style = self.rng.choice(("volatile", "atomic", "asm"))
        return How(style, "relaxed", "sys" if style == "volatile" else self.a_scope())

    def a_scope(self) -> str:
        other = {"gpu": "cta", "cta": "gpu"}[self.scope]
        return other if self.wrong and self.rng.random() < 0.1 else self.scope

    def fence(self) -> list[Op]:
        return self.maybe(Op("fence", what=self.a_scope()))

    def publish(self, word: int | str, value: int | str) -> list[Op]:
        """Set a flag after all that came before."""
        if self.rng.random() < 0.3:
            order = "relaxed" if self.wrong and self.rng.random() < 0.3 else "release"
            return [Op("store", word, How("asm", order, self.a_scope()), value=value)]
        return [*self.fence(), Op("store", word, self.how(), value=value)]

    def observe(self, word: int | str, register: str) -> list[Op]:
        """Look at a flag before all that follows."""
        if self.rng.random() < 0.3:
            order = "relaxed" if self.wrong and self.rng.random() < 0.3 else "acquire"
            return [Op("load", word, How("asm", order, self.a_scope()), register)]
        return [Op("load", word, self.how(), register), *self.fence()]

    def look(self, word: int, what: str, value: int, *then: Op, otherwise: tuple[Op, ...] = ()) -> list[Op]:
        """Go on only if a flag is set; sometimes wait for it."""
        register = self.register()
        seen = self.observe(word, register)
        if self.rng.random() < 0.2 and not otherwise and what in ("==", ">="):
            seen[0] = Op("await", word, seen[0].how, register, value, what=what)
            return [*seen, *then]
        return [*seen, Op("if", register=register, what=what, value=value, then=then, otherwise=otherwise)]

    def update(
        self, what: str, word: int, register: str, value: int | str, value2: int | str = 0
    ) -> list[Op]:
        """An update that acquires and releases."""
        if self.rng.random() < 0.4:
            orders = (
                ("acquire", "release", "relaxed") if self.wrong and self.rng.random() < 0.5 else ("acq_rel",)
            )
            how = How("asm", self.rng.choice(orders), self.a_scope())
            return [Op("update", word, how, register, value, value2, what)]
        how = How(self.rng.choice(("atomic", "asm")), "relaxed", self.a_scope())
        return [*self.fence(), Op("update", word, how, register, value, value2, what), *self.fence()]

    def data(self, word: int | str = 4) -> Op:
        return self.rng.choice((Op("read", word), self.write(word), self.write(word)))

    def write(self, word: int | str) -> Op:
        """Of a value that no other one writes."""
        self.written += 1
        return Op("write", word, value=self.written)

    def threads(self) -> int:
        return self.rng.choice((2, 2, 3))

    # -- idioms: a body for each thread --------------------------------------------------------------------

    def an_message(self):
        """One writes and sets a flag; others look once, or wait."""
        readers = [self.look(0, "==", 1, self.data()) for _ in range(self.rng.choice((1, 1, 2)))]
        return [[self.write(4), *self.publish(0, 1)], *readers]

    def an_old_value(self):
        """The flag is read, the data written and the flag raised."""
        register = self.register()
        first = [Op("update", 0, How("atomic"), register, 0, what="add"), self.write(4)]
        first += [*self.fence(), Op("update", 0, How("atomic"), "", 1, what="add")]
        return [first, self.look(0, "!=", 0, self.data())]

    def an_chain(self):
        """A message that is passed on by a second thread, with a flag of its own or the same one."""
        second = self.rng.choice((0, 1, 1, 1))
        value = 2 if second == 0 else 1
        passed = self.publish(second, value)
        if second == 0 and self.rng.random() < 0.5:
            passed = self.update("add", 0, "", 1)
        return [
            [self.write(4), *self.publish(0, 1)],
            self.look(0, "==", 1, *passed),
            self.look(second, "==", value, self.data()),
        ]

    def an_two_flags(self):
        """Two write, a third reads when both have."""
        return [
            [self.write(4), *self.publish(0, 1)],
            [self.write(5), *self.publish(1, 1)],
            self.look(0, "==", 1, *self.look(1, "==", 1, Op("read", 4), Op("read", 5))),
        ]

    def an_spin_lock(self):
        return [self._locked(0, [self.data()]) for _ in range(self.threads())]

    def _locked(self, word: int, body: list[Op]) -> list[Op]:
        if self.rng.random() < 0.3:
            taken = [
                Op(
                    "lock",
                    word,
                    How(
                        "asm",
                        "acquire" if not self.wrong else self.rng.choice(("acquire", "relaxed")),
                        self.a_scope(),
                    ),
                )
            ]
        else:
            taken = [Op("lock", word, How("atomic", "relaxed", self.a_scope())), *self.fence()]
        return [*taken, *body, *self.publish(word, 0)]

    def an_try_lock(self):
        return [self._tried() for _ in range(self.threads())]

    def _tried(self) -> list[Op]:
        register = self.register()
        body = (self.data(), *self.publish(0, 0))
        return [
            *self.update("cas", 0, register, 0, 1),
            Op("if", register=register, what="==", value=0, then=body),
        ]

    def an_lazy_value(self):
        """Double-checked: whoever finds the flag down takes a lock and looks again."""

        def body() -> list[Op]:
            made = (self.write(4), *self.publish(1, 1))
            again = self.register()
            inner = [
                Op("load", 1, self.how(), again),
                Op("if", register=again, what="==", value=0, then=made),
            ]
            first = self.register()
            return [
                *self.observe(1, first),
                Op("if", register=first, what="==", value=0, then=tuple(self._locked(0, inner))),
                Op("read", 4),
            ]

        return [body() for _ in range(2)]

    def an_once(self):
        """The first makes the value; the others use it only if it is ready."""

        def body() -> list[Op]:
            register = self.register()
            made = (self.write(4), *self.publish(0, 2))
            used = self.look(0, "==", 2, Op("read", 4))
            return [
                *self.update("cas", 0, register, 0, 1),
                Op("if", register=register, what="==", value=0, then=made, otherwise=tuple(used)),
            ]

        return [body() for _ in range(self.threads())]

    def an_reader_writer(self):
        """Readers count themselves; a writer needs none of them."""

        def reader() -> list[Op]:
            register = self.register()
            left = self.update("add", 0, "", -1)
            used = (Op("read", 4), *left)
            if self.wrong and self.rng.random() < 0.2:
                return [*self.update("add", 0, register, 1), *used]
            return [
                *self.update("add", 0, register, 1),
                Op("if", register=register, what=">=", value=0, then=used, otherwise=tuple(left)),
            ]

        def writer() -> list[Op]:
            register = self.register()
            body = (self.write(4), *self.update("add", 0, "", 8))
            return [
                *self.update("cas", 0, register, 0, -8),
                Op("if", register=register, what="==", value=0, then=body),
            ]

        return [
            writer(),
            reader(),
            *([self.rng.choice((reader, writer))()] if self.rng.random() < 0.4 else []),
        ]

    def an_peterson(self):
        """Flags 0 and 1, word 2 says whose turn it is."""

        def body(mine: int) -> list[Op]:
            ask = [Op("store", mine, self.how(), value=1), Op("store", 2, self.how(), value=2 - mine)]
            if self.wrong and self.rng.random() < 0.3:
                ask.reverse()
            other, turn = self.register(), self.register()
            inside = (self.data(), *self.publish(mine, 0))
            free = Op("if", register=turn, what="!=", value=2 - mine, then=(*self.fence(), *inside))
            busy = (Op("load", 2, self.how(), turn), free)
            return [
                *ask,
                Op("load", 1 - mine, self.how(), other),
                *self.fence(),
                Op("if", register=other, what="==", value=0, then=inside, otherwise=busy),
            ]

        return [body(0), body(1)]

    def an_dekker(self):
        """Whoever finds the other's flag down goes in."""

        def body(mine: int) -> list[Op]:
            order = [Op("store", mine, self.how(), value=1)]
            asked = self.look(1 - mine, "==", 0, self.data(), otherwise=())
            down = self.publish(mine, 0)
            if self.wrong and self.rng.random() < 0.3:
                return [*asked, *order, *down]
            return [*order, *asked, *down]

        return [[op for op in body(i) if op.kind != "await"] for i in range(2)]

    def an_stack(self):
        """Push: fill a node and swing the head to it; pop: take the head. A node's number is its word."""

        def push(node: int) -> list[Op]:
            old, seen = self.register(), self.register()
            begin = [self.write(node), Op("load", 0, self.how(), old)]
            return [*begin, *self.update("cas", 0, seen, old, node)]

        def pop() -> list[Op]:
            top, seen = self.register(), self.register()
            taken = Op("if", register=seen, what="==", value=top, then=(self.data(top),))
            use = self.rng.choice(((Op("read", top),), tuple([*self.update("cas", 0, seen, top, 0), taken])))
            return [*self.observe(0, top), Op("if", register=top, what="!=", value=0, then=use)]

        return [
            push(4),
            self.rng.choice((pop, lambda: push(5)))(),
            *([pop()] if self.rng.random() < 0.6 else []),
        ]

    def an_queue(self):
        """One place: the producer fills it, again when it has been emptied."""
        fill = [self.write(4), *self.publish(0, 1)]
        fill += self.look(1, "==", 1, self.write(4), *self.publish(0, 2))
        empty = self.look(0, "==", 1, Op("read", 4), *self.publish(1, 1))
        if self.rng.random() < 0.4:
            empty += self.look(0, "==", 2, Op("read", 4))
        return [fill, empty]

    def an_last_one(self):
        """All write; whoever counts last reads."""
        n = self.threads()
        last = n - 1 if not self.wrong or self.rng.random() < 0.7 else n - 2

        def body(i: int) -> list[Op]:
            register = self.register()
            reads = tuple(Op("read", 4 + j) for j in range(n))
            counted = self.update("add", 0, register, 1)
            return [
                self.write(4 + i),
                *counted,
                Op("if", register=register, what="==", value=last, then=reads),
            ]

        return [body(i) for i in range(n)]

    def an_reference_count(self):
        """All use it; whoever drops the last reference overwrites it. The count runs from 0 down."""
        n = self.threads()

        def body() -> list[Op]:
            register = self.register()
            freed = (self.write(4),)
            return [
                Op("read", 4),
                *self.update("add", 0, register, -1),
                Op("if", register=register, what="==", value=1 - n, then=freed),
            ]

        return [body() for _ in range(n)]

    def an_ticket(self):
        """Word 0 gives tickets, word 1 says who is served."""

        def body() -> list[Op]:
            mine, seen = self.register(), self.register()
            wait = [Op("await", 1, self.how(), seen, mine, what="=="), *self.fence()]
            served = self.fence() + [
                Op("update", 1, How("atomic", "relaxed", self.a_scope()), "", 1, what="add")
            ]
            return [Op("update", 0, How("atomic"), mine, 1, what="add"), *wait, self.data(), *served]

        return [body() for _ in range(2)]

    def an_baton(self):
        """Whose turn it is goes from one to the next, and back."""
        first = self.look(0, "==", 0, self.data(), *self.publish(0, 1))
        first += self.look(0, "==", 2, self.data())
        return [first, self.look(0, "==", 1, self.data(), *self.publish(0, 2))]

    def an_anything(self):
        """Accesses and conditions at random."""

        def body(depth: int = 0) -> list[Op]:
            found = []
            for _ in range(self.rng.choice((1, 2, 2, 3))):
                word, value = self.rng.randrange(3), self.rng.choice((1, 1, 2))
                kind = self.rng.choice(("data", "publish", "look", "look", "update"))
                if kind == "data":
                    found.append(self.data(4 + self.rng.randrange(2)))
                elif kind == "publish":
                    found += self.publish(word, value)
                elif kind == "update":
                    found += self.update(
                        *self.rng.choice(
                            (("add", word, "", 1), ("exch", word, "", value), ("cas", word, "", 0, value))
                        )
                    )
                elif depth < 2:
                    register = self.register()
                    found += self.observe(word, register)
                    then = tuple(body(depth + 1))
                    found.append(
                        Op(
                            "if",
                            register=register,
                            what=self.rng.choice(("==", "==", "!=")),
                            value=value,
                            then=then,
                        )
                    )
            return found

        return [body() for _ in range(self.threads())]


# -- what a launch finds ---------------------------------------------------------------------------------------


class Bench:
    """A device with full checks, as for grading. found: (idiom, whether it races) -> launches that report a race, and all."""

    def __init__(self):
        self.device = device.VirtualGPU("full")
        self.device.quick, self.device.agree, self.device.time_limit = True, False, 3.0
        self.memory = self.device.array(np.zeros(WORDS, np.int32), name="m")
        self.found: dict[tuple[str, bool], Counter] = {}
        self.missed: list[Idiom] = []
        self.wrong: list[str] = []
        self.hanging = 0

    def attempt(self, seeds: range, launches: int = SEEDS) -> None:
        """Try the idioms of some seeds."""
        racy = {}
        for one in (idiom(f"i{seed}", seed) for seed in seeds):
            try:
                racy[one] = races(one)
            except Hangs:
                self.hanging += 1
        module = self.device.compile(HEAD + "\n".join(one.source() for one in racy))
        module.quick = False  # it is not worth optimising
        for one, expected in racy.items():
            kernel = module.get_function(one.name)
            for self.device.schedule in range(launches):
                self.judge(one, expected, self.kinds(kernel, one))

    def kinds(self, kernel, one: Idiom) -> set[str]:
        """The kinds of all faults, in all orders."""
        kinds = set()

        class Records:
            """In place of a Diagnosis, which would end the launch and explain."""

            def __init__(self, run):
                pass

            def faults(self, records: np.ndarray):
                kinds.update(abi.FAULTS[kind] for kind in records["kind"])
                return [], []

        self.memory.set(0)
        with mock.patch.object(launch, "Diagnosis", Records):
            kernel(one.blocks, one.size, (self.memory,))
        return kinds

    def judge(self, one: Idiom, expected: bool, kinds: set[str]) -> None:
        found = bool(kinds & {"race", "warp-race"})
        counts = self.found.setdefault((one.name.partition("_")[2], expected), Counter())
        counts["found"] += found
        counts["launches"] += 1
        if expected and not found:
            self.missed.append(one)
        if other := kinds - {"race", "warp-race"} or kinds and not expected:
            self.wrong.append(f"{other or kinds}, schedule {self.device.schedule}:\n{one.source()}\n")

    def sums(self, racy: bool) -> tuple[int, int]:
        """Of all idioms: launches that report a race, and all."""
        counts = [c for (_, expected), c in self.found.items() if expected == racy]
        return sum(c["found"] for c in counts), sum(c["launches"] for c in counts)


@click.command()
@click.option("--seconds", default=300.0, help="How long.")
@click.option("--seed", default=0, help="Of the first program.")
@click.option("--launches", default=SEEDS, help="Of each program.")
@click.option("--show", default=3, help="So many of those missed.")
def main(seconds: float, seed: int, launches: int, show: int) -> None:
    """Compare what launches find with what all interleavings have."""
    build._store.put = nvrtc._store.put = lambda key, body: None  # such programs are not worth keeping
    build.SECONDS = 60  # a file has many of them
    bench, end = Bench(), time.monotonic() + seconds
    while time.monotonic() < end:
        bench.attempt(range(seed, seed := seed + BATCH), launches)
    click.echo("\n".join(bench.wrong))
    for one in bench.missed[:show]:
        click.echo(f"missed:\n{one.source()}\n")
    for name, expected in sorted(bench.found):
        if expected:
            counts = bench.found[name, True]
            click.echo(f"{name:20} {counts['found']:6} of {counts['launches']}")
    (found, racy), (_, free) = bench.sums(True), bench.sums(False)
    click.echo(
        f"{found} of {racy} launches of racy programs found, {len(bench.wrong)} of {free} others accused; "
        f"{bench.hanging} programs may hang and were not run"
    )
    sys.exit(bool(bench.wrong) or found < FOUND * racy)


if __name__ == "__main__":
    main()
