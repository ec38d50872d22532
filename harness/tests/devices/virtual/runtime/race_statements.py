"""Small programs of a few threads that share some words: what they consist of, as CUDA, and run in all interleavings.

An interpreter runs a program in every order of its strong accesses that can make a difference (sleep sets: independent
neighbours are not exchanged); `race_oracle` says of each whether it races.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.devices.virtual.runtime.race_oracle import CTA, GPU, SYS, Access, Fence, Sync, hazards

SCOPES = {"cta": CTA, "gpu": GPU, "sys": SYS}
WORDS = 16  # of the memory that all threads share
MOST_RUNS = 400  # interleavings of a program
COMPARED = {"==": int.__eq__, "!=": int.__ne__, ">=": int.__ge__, "<": int.__lt__}


@dataclass(frozen=True)
class How:
    """A strong access. style: "volatile", "atomic" (CUDA's functions) or "asm"."""

    style: str
    order: str = "relaxed"
    scope: str = "gpu"


@dataclass(frozen=True)
class Op:
    """kind: "load", "store", "update" (add, exch, cas), "read" and "write" (plain), "fence", "if", "await" (a load until it
    fits), "lock" (a cas until it succeeds), "meet" (a barrier of the block, in no other
    statement). word: a number, or a register that holds it. value: a number or a register."""

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
        phases = [_phases(body) for _, body in self.threads]
        for number in range(max(map(len, phases))):
            lines += ["    __syncthreads();"] if number else []
            for (block, thread), bodies in zip((at for at, _ in self.threads), phases, strict=True):
                body = bodies[number] if number < len(bodies) else ()
                names = sorted({op.register for op in _all(body) if op.register})
                declared = f" int {', '.join(f'{n} = 0' for n in names)};" if names else ""
                lines.append(f"    if (blockIdx.x == {block} && threadIdx.x == {thread}) {{{declared}")
                lines += [f"        {line}" for op in body for line in written(op)]
                lines.append("    }")
        return "\n".join([*lines, "}"])


def _phases(body: tuple[Op, ...]) -> list[tuple[Op, ...]]:
    """What comes before, between and after its barriers."""
    at = [i for i, op in enumerate(body) if op.kind == "meet"]
    return [body[a:b] for a, b in zip([0, *(i + 1 for i in at)], [*at, len(body)], strict=True)]


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
                self.machine.steps.append(Fence(*self.at, SCOPES[op.what], True))
            else:
                yield op

    def value(self, of: int | str) -> int:
        return self.registers.get(of, 0) if isinstance(of, str) else of

    def _access(self, op: Op, **how) -> None:
        self.machine.steps.append(Access(*self.at, 4 * self.value(op.word), 4, id(op), **how))

    def ready(self) -> bool:
        """Whether its next access can be made now: a thread that waits finds what it waits for."""
        if self.next is None or self.next.kind == "meet":
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
        self.meet()
        for number in turns:
            self.threads[number].step()
            self.meet()

    def meet(self) -> None:
        """The threads of a block go on when all of them are at a barrier, or have ended."""
        for block in {thread.at[0] for thread in self.threads}:
            mates = [t for t in self.threads if t.at[0] == block]
            while any(t.next for t in mates) and all(t.next is None or t.next.kind == "meet" for t in mates):
                self.steps.append(Sync(tuple(t.at for t in mates)))
                for thread in mates:
                    thread.next = next(thread.code, None)

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
        touched = {
            i: machine.touches(i) for i, t in enumerate(machine.threads) if t.next and t.next.kind != "meet"
        }
        done = set(asleep)
        for i in ready:
            if i in asleep:
                continue
            awake = {j for j in done if touched[j][0] == touched[i][0] and (touched[j][1] or touched[i][1])}
            work.append(((*turns, i), frozenset(done - awake)))
            done.add(i)
