"""Random small kernels with and without races, for comparing the runtime's race detector with its oracle.

A program is straight-line code with a few loops; each of its statements is done by some of the threads. Barriers and
collectives are met by exactly the threads that have not left, named barriers are used by whole warps, and whoever waits
for a flag waits for a statement before its own: so no program stalls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

DATA, FLAGS = 64, 32  # bytes of an array: elements of any size, then flags of four bytes
BYTES = DATA + FLAGS
TYPES = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "uint4"}
REGISTERS = {1: "h", 2: "h", 4: "r", 8: "l"}
ATOMIC = (4, 4, 8)  # sizes; compare-and-swap knows 2 as well
SUFFIXES = {"cta": "_block", "gpu": "", "sys": "_system"}
FENCES = {"cta": "__threadfence_block()", "gpu": "__threadfence()", "sys": "__threadfence_system()"}


@dataclass(frozen=True)
class Profile:
    """What may occur in a program. scopes: those of atomics, strong loads and stores, ordering accesses and
    fences."""

    barriers: int = 4  # weights of statements, beside ACCESSES for an access
    leaves: int = 1
    loops: int = 2
    collectives: int = 0
    masks: bool = False  # of collectives: some lanes only
    named: int = 0
    strong: int = 0  # weight of strong accesses beside PLAIN for plain ones
    scopes: tuple[str, ...] = ("cta", "gpu", "sys")
    orders: tuple[str, ...] = ()
    messages: int = 0
    many: float = (
        0.1  # of messages, if fences order anything: those of which one thread tells what many write
    )
    waits: bool = False
    grid: int = 0


ACCESSES, PLAIN = 16, 4
PROFILES = {
    "barriers": Profile(),
    "warps": Profile(collectives=4),
    "masks": Profile(collectives=6, masks=True),
    "named": Profile(named=3, collectives=2),
    "atomics": Profile(strong=4, collectives=2),
    "blocks": Profile(strong=3, orders=("cta",), messages=4, named=1),
    "fences": Profile(strong=3, orders=("cta", "gpu", "sys"), messages=5, collectives=3, masks=True, named=1),
    "waits": Profile(
        2, strong=2, orders=("cta", "gpu", "sys"), messages=6, waits=True, loops=0, collectives=1, masks=True
    ),
    "many": Profile(1, 0, 0, strong=1, orders=("cta", "gpu", "gpu", "sys"), messages=8, many=0.9),
    "grid": Profile(2, grid=3, strong=1, collectives=1),
    "all": Profile(
        2, strong=2, orders=("cta", "gpu", "sys"), messages=3, collectives=2, masks=True, named=2, grid=1
    ),
}


@dataclass
class Statement:
    """Lines of code. group: statements kept or dropped together. body: the body of a loop with `code` as its
    head."""

    code: str
    group: int
    body: list[Statement] | None = None

    def lines(self) -> list[str]:
        if self.body is None:
            return self.code.splitlines()
        return [f"{self.code} {{", *(f"    {line}" for s in self.body for line in s.lines()), "}"]


@dataclass
class Program:
    name: str
    blocks: int
    threads: int
    shared: bool
    statements: list[Statement] = field(default_factory=list)

    def source(self) -> str:
        """The kernel. w, l: warp and lane; r: what has been read."""
        head = [
            f'extern "C" __global__ void {self.name}(unsigned char* g) {{  // <<<{self.blocks}, {self.threads}>>>',
            "    unsigned t = threadIdx.x, b = blockIdx.x, w = t / 32, l = t % 32, r = 0;",
        ]
        if self.shared:
            head += [
                f"    __shared__ __align__(16) unsigned char s[{BYTES}];",
                "    unsigned char* p = t < 2048 ? s : g;",
                f"    if (t == 0) for (int i = 0; i < {BYTES // 4}; i++) ((unsigned*)s)[i] = 0;",
                "    __syncthreads();",
            ]
        body = [f"    {line}" for s in self.statements for line in s.lines()]
        return "\n".join([*head, *body, "}"])

    def without(self, groups: set[int]) -> Program:
        """The program without some of its groups of statements."""
        return Program(self.name, self.blocks, self.threads, self.shared, _kept(self.statements, groups))

    def groups(self) -> list[int]:
        return sorted({s.group for s in _all(self.statements)})


def _kept(statements: list[Statement], dropped: set[int]) -> list[Statement]:
    return [
        Statement(s.code, s.group, None if s.body is None else _kept(s.body, dropped))
        for s in statements
        if s.group not in dropped
    ]


def _all(statements: list[Statement]):
    for statement in statements:
        yield statement
        yield from _all(statement.body or [])


def program(name: str, profile: str, seed: int) -> Program:
    return _Writer(name, PROFILES[profile], Random(f"{profile} {seed}")).program


def source(programs: list[Program]) -> str:
    """One file with all of them."""
    head = []
    if any("grid" in s.code for p in programs for s in _all(p.statements)):
        head = ["#include <cooperative_groups.h>"]
    return "\n".join([*head, *(p.source() for p in programs)]) + "\n"


class _Writer:
    """Writes one program."""

    def __init__(self, name: str, profile: Profile, rng: Random):
        self.rng, self.profile, self.next_group = rng, profile, 0
        blocks = rng.choice((1, 1, 2, 2, 3, 4)) if not profile.grid else rng.choice((1, 2, 2, 3))
        threads = rng.choice((3, 32, 40, 64, 64, 70, 96) if not profile.named else (64, 64, 96))
        self.program = Program(name, blocks, threads, rng.random() < 0.7)
        self.warps = [set(range(w, min(w + 32, threads))) for w in range(0, threads, 32)]
        self.alive = [set(warp) for warp in self.warps]  # of each warp of each block, who has not left
        self.barrier = 0  # number of the last named barrier with arrivals
        self.calm = rng.choice((1, 1, 2, 5))  # how many barriers there are
        for _ in range(rng.randint(4, 14)):
            self.program.statements += self.statement()
        if rng.random() < 0.3:  # some leave at the end, and others go on to a barrier
            self.program.statements += [
                self.leave(),
                self.one("__syncthreads();"),
                *self.access(),
                *self.access(),
            ]

    def group(self) -> int:
        self.next_group += 1
        return self.next_group

    def one(self, code: str, group: int = 0) -> Statement:
        return Statement(code, group or self.group())

    # -- statements ---------------------------------------------------------------------------------------

    def statement(self, in_loop: bool = False) -> list[Statement]:
        """One statement, or some that belong together."""
        p = self.profile
        choices = [
            (self.access, ACCESSES),
            (self.sync, p.barriers * self.calm),
            (self.collective, p.collectives),
            (self.fence, 2 * len(p.orders)),
            (self.grid, p.grid * self.calm),
            (lambda: self.named(in_loop), p.named),
        ]
        if not in_loop:
            choices += [(lambda: [self.leave()], p.leaves), (self.loop, p.loops), (self.message, p.messages)]
        do, weights = zip(*choices, strict=True)
        return self.rng.choices(do, weights)[0]()

    def loop(self) -> list[Statement]:
        found = self.one(f"for (int i = 0; i < {self.rng.choice((2, 2, 3))}; i++)")
        found.body = [s for _ in range(self.rng.randint(1, 4)) for s in self.statement(in_loop=True)]
        return [found]

    def sync(self) -> list[Statement]:
        return [self.one(self.rng.choice(("__syncthreads();",) * 4 + ("r += __syncthreads_count(l == 0);",)))]

    def grid(self) -> list[Statement]:
        return [self.one("cooperative_groups::this_grid().sync();")]

    def leave(self) -> Statement:
        """Some threads leave: the same ones in each block, a warp, or nearly all of one block."""
        warp = self.rng.randrange(len(self.warps))
        kind = self.rng.randrange(4)
        if kind == 0:
            gone, condition = set(self.warps[warp]), f"w == {warp}"
        elif kind == 1:
            k = self.rng.choice((1, 2, self.program.threads - 1, self.program.threads - 5, 33))
            gone, condition = set(range(k, self.program.threads)), f"t >= {k}"
        elif kind == 2:
            k = self.rng.randrange(self.program.threads)
            gone, condition = {k}, f"t == {k}"
        else:
            gone, condition = {t for t in range(self.program.threads) if t % 4 == 3}, "t % 4 == 3"
        self.alive = [alive - gone for alive in self.alive]
        return self.one(f"if ({condition}) return;")

    def collective(self) -> list[Statement]:
        """Lanes of one warp meet, or of all: those that are there, or some of them."""
        which = range(len(self.warps)) if self.rng.random() < 0.6 else [self.rng.randrange(len(self.warps))]
        group, found = self.group(), []
        for w in which:
            lanes = {t % 32 for t in self.alive[w]}
            if self.profile.masks and self.rng.random() < 0.6:
                lanes &= self.rng.choice(
                    (set(range(16)), set(range(1, 32)), {0, 1}, {1, 2}, {0, 31}, set(range(0, 32, 2)))
                )
            if not lanes:
                continue
            whole = len(lanes) == len(self.warps[w])
            mask = (
                "0xffffffff" if whole and self.rng.random() < 0.7 else hex(sum(1 << lane for lane in lanes))
            )
            mine = f"w == {w}" if whole else f"w == {w} && ({mask}u >> l & 1)"
            code = self.rng.choice(
                (
                    f"__syncwarp({mask})",
                    f"__syncwarp({mask})",
                    f"r += __ballot_sync({mask}, t & 1)",
                    f"r += __shfl_sync({mask}, r, {min(lanes)})",
                    f"r += __any_sync({mask}, r)",
                )
            )
            if (
                whole
                and mask == "0xffffffff"
                and len(self.warps) == len(which) == len(found) + 1
                and not found
            ):
                mine = "true"
            found.append(Statement(f"if ({mine}) {code};", group))
        return found

    def named(self, in_loop: bool) -> list[Statement]:
        """bar.sync of some warps, or some arrive and others wait: nobody arrives twice before they have met."""
        whole = [w for w, warp in enumerate(self.warps) if self.alive[w] == warp and len(warp) == 32]
        if len(whole) < 2 or self.barrier == 13:
            return []
        some = sorted(self.rng.sample(whole, self.rng.randint(2, len(whole))))
        group, count = self.group(), 32 * len(some)
        if self.rng.random() < 0.5:  # number 15 again and again, by the same two warps at least
            number = 15 if some == [0, 1] else 14 if some == [0, 2] else 0
            split = self.rng.randint(0, len(some) - 1)  # 0: all of them in one line
            if number:
                return [
                    self.one(
                        f'if ({_warps(w)}) asm volatile("bar.sync {number}, {count};" ::: "memory");', group
                    )
                    for w in (some[:split], some[split:])
                    if w
                ]
        self.barrier += 1
        waiting = some[self.rng.randint(1, len(some) - 1) :]
        arriving = [w for w in some if w not in waiting]
        if self.rng.random() < 0.5:
            waiting, arriving = arriving, waiting
        return [
            self.one(
                f'if ({_warps(arriving)}) asm volatile("bar.arrive {self.barrier}, {count};" ::: "memory");',
                group,
            ),
            *self.access(group),
            self.one(
                f'if ({_warps(waiting)}) asm volatile("bar.sync {self.barrier}, {count};" ::: "memory");',
                group,
            ),
            *([self.one("__syncthreads();", group)] if in_loop else []),
        ]

    def fence(self) -> list[Statement]:
        return [self.one(f"if ({self.guard()}) {self.a_fence()}")]

    def a_fence(self) -> str:
        if not self.profile.orders:
            return ""
        scope = self.rng.choice(self.profile.orders)
        asm = f'asm volatile("fence.{self.rng.choice(("acq_rel", "sc"))}.{scope};" ::: "memory")'
        return f"{self.rng.choice((FENCES[scope], asm))};"

    # -- accesses -----------------------------------------------------------------------------------------

    def guard(self) -> str:
        """Which threads do it: mostly few, so that there is not too much to compare."""
        n, rng = self.program.threads, self.rng
        some = [t for t in (0, 1, 2, 31, 32, 33, 63, 64, 65, n - 1) if t < n]
        found = rng.choices(
            (
                f"t == {rng.choice(some)}",
                f"l == {rng.choice((0, 1, 31))}",
                f"l < {rng.choice((2, 3, 4))}",
                f"t % 16 == {rng.randrange(4)}",
                f"w == {rng.randrange(len(self.warps))}",
                "true",
            ),
            (8, 4, 4, 3, 2, 1),
        )[0]
        if self.program.blocks > 1 and rng.random() < 0.25:
            found += f" && b == {rng.randrange(self.program.blocks)}"
        return found

    def place(self, size: int, memory: str = "", flag: bool = False) -> str:
        """The address of an element, which may differ from thread to thread."""
        memory = memory or self.memory()
        if flag:
            return f"{memory} + {DATA + 4 * self.rng.randrange(3)}"
        if self.rng.random() < 0.1:
            return f"{memory} + {DATA + self.rng.randrange(FLAGS // size) * size}"
        count = DATA // size
        first = self.rng.randrange(min(count, 4))
        how = self.rng.choice(("one", "one", "one", "each", "shifted", "strided", "few"))
        if how == "one":
            return f"{memory} + {first * size}"
        index = {"each": "t", "shifted": f"t + {first}", "strided": "t * 3", "few": f"t % 2 + {first}"}[how]
        return f"{memory} + ({index}) % {count} * {size}"

    def memory(self) -> str:
        """g: global memory; s: shared; p: shared, by a generic address."""
        return self.rng.choice(("s", "s", "p", "g", "g")) if self.program.shared else "g"

    def access(self, group: int = 0) -> list[Statement]:
        return [self.one(f"if ({self.guard()}) {{ {self.an_access()} }}", group)]

    def an_access(self) -> str:
        strong = self.profile.strong and self.rng.random() < self.profile.strong / (
            self.profile.strong + PLAIN
        )
        return self.strong() if strong else self.plain()

    def value(self) -> str:
        return self.rng.choice(("0", "1", "1", "2", "t", "t & 1", "r"))

    def plain(self, size: int = 0, memory: str = "") -> str:
        """A read, a write, or both one after the other."""
        size = size or self.rng.choice((1, 2, 4, 4, 4, 8, 16))
        place, type_ = f"*({TYPES[size]}*)({self.place(size, memory)})", TYPES[size]
        how = self.rng.choice(("read", "read", "write", "write", "both"))
        if size == 16:
            return {
                "read": f"r += {place}.x;".replace("*(", "(*(", 1).replace(").x", ")).x"),
                "write": f"{place} = make_uint4(r, 1, t, 2);",
                "both": f"uint4 x = {place}; x.y += 1; {place} = x;",
            }[how]
        if how == "read":
            return f"r += ({type_}){place};"
        return f"{place} = {self.value()};" if how == "write" else f"{place} += 1;"

    def strong(self) -> str:
        return self.rng.choice((self.volatile, self.atomic, self.atomic, self.asm_access, self.asm_update))()

    def volatile(self) -> str:
        size = self.rng.choice((1, 2, 4, 4, 8))
        place = f"*(volatile {TYPES[size]}*)({self.place(size)})"
        return self.rng.choice((f"r += {place};", f"{place} = {self.value()};", f"{place} = {place} + 1;"))

    def atomic(self, place: str = "") -> str:
        scope = SUFFIXES[self.rng.choice(self.profile.scopes)]
        size = 4 if place else self.rng.choice((2, *ATOMIC))
        operation = self.rng.choice(("Add", "Exch", "CAS", "CAS", "Max")) if size > 2 else "CAS"
        pointer = f"({TYPES[size]}*)({place or self.place(size)})"
        if operation == "CAS":
            scope = scope if size > 2 else ""
            old, new = (
                f"({TYPES[size]})({v})" for v in (self.rng.choice(("0", "0", "1", "2", "t")), self.value())
            )
            return f"r += atomicCAS{scope}({pointer}, {old}, {new});"
        return f"r += atomic{operation}{scope}({pointer}, ({TYPES[size]})({self.value()}));"

    def asm_access(self) -> str:
        size = self.rng.choice((1, 2, 4, 4, 8))
        return self.rng.choice((self.load, self.store))(size, self.place(size))

    def load(self, size: int, place: str, target: str = "") -> str:
        return self.asm(f"ld.{self.order('acquire')}.u{8 * size} %0, [%1];", size, place, target)

    def store(self, size: int, place: str, value: str = "") -> str:
        text = f"st.{self.order('release')}.u{8 * size} [%0], %1;"
        type_ = "unsigned short" if size == 1 else TYPES[size]
        return f'asm volatile("{text}" :: "l"({place}), "{REGISTERS[size]}"(({type_})({value or self.value()})) : "memory");'

    def asm_update(self, size: int = 0, place: str = "", target: str = "") -> str:
        size = size or self.rng.choice(ATOMIC)
        place, order = place or self.place(size), self.order("acquire", "release", "acq_rel")
        operation = self.rng.choice(
            (
                f"add.u{8 * size} %0, [%1], 1",
                f"exch.b{8 * size} %0, [%1], 1",
                f"cas.b{8 * size} %0, [%1], 0, 1",
                f"cas.b{8 * size} %0, [%1], 1, 2",
            )
        )
        return self.asm(f"atom.{order}.{operation};", size, place, target)

    def asm(self, text: str, size: int, place: str, target: str) -> str:
        type_ = "unsigned short" if size == 1 else TYPES[size]
        code = f'asm volatile("{text}" : "={REGISTERS[size]}"(x) : "l"({place}) : "memory");'
        return f"{type_} x; {code} {target or 'r += x;'}"

    def order(self, *orders: str) -> str:
        """What an access orders, and its scope."""
        order = self.rng.choice(("relaxed", *orders)) if self.profile.orders else "relaxed"
        return (
            f"{order}.{self.rng.choice(self.profile.scopes if order == 'relaxed' else self.profile.orders)}"
        )

    # -- messages -----------------------------------------------------------------------------------------

    def thread(self) -> str:
        guard = f"t == {self.rng.choice([t for t in (0, 1, 32, 33, 64) if t < self.program.threads])}"
        return guard + (
            f" && b == {self.rng.randrange(self.program.blocks)}" if self.program.blocks > 1 else ""
        )

    def message(self) -> list[Statement]:
        """One thread writes and sets a flag, others check the flag and read; some pass it on in between."""
        group, memory = self.group(), self.memory()
        flag = self.place(4, memory, flag=True)
        if self.profile.orders and self.rng.random() < self.profile.many:
            return self.message_of_many(group)
        if self.profile.waits and self.rng.random() < 0.3:
            return [self.one(f"if (l < 2 && w < 2) {{ {self.locked(memory, flag)} }}", group)]
        data = f"{memory} + {4 * self.rng.randrange(4)}"
        write = f"*(unsigned*)({data}) = {self.value()}; {self.maybe_fence()}"
        found = [self.one(f"if ({self.thread()}) {{ {write} {self.tell(flag)} }}", group)]
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            found.append(
                self.one(f"if ({self.thread()}) {{ {self.asm_update(4, flag)} {self.maybe_fence()} }}", group)
            )
        if self.rng.random() < 0.3:
            found += self.access(group)
        for _ in range(self.rng.choice((1, 1, 2))):
            who = self.rng.choice((self.thread(), "l == 0", "l < 2"))
            use = self.rng.choice(
                (
                    f"r += *(unsigned*)({data});",
                    f"*(unsigned*)({data}) = 3;",
                    f"*(unsigned*)({flag}) = 1;",
                    self.tell(flag),
                )
            )
            found.append(self.one(f"if ({who}) {{ {self.look(flag)} {self.maybe_fence()} {use} }} }}", group))
        return found

    def message_of_many(self, group: int) -> list[Statement]:
        """Threads write and have a fence; one of those they meet sets the flag, or looks at it before they read."""
        first, last = self.rng.randrange(self.program.blocks), self.rng.randrange(self.program.blocks)
        memory = "g" if first != last else self.memory()
        flag = self.place(4, memory, flag=True)
        alone = [t for t in (0, 1, 32, 33) if t < self.program.threads]
        several = lambda: self.rng.choice(("l < 2", "t < 3", "w == 0", "true"))  # noqa: E731
        one_of = lambda block: f"t == {self.rng.choice(alone)} && b == {block}"  # noqa: E731
        fences = ["__threadfence();"] if self.rng.random() < 0.5 else [self.a_fence() for _ in range(4)]
        maybe = lambda chance: self.rng.choice(fences) if self.rng.random() < chance else ""  # noqa: E731
        meet = lambda: self.rng.choice((self.sync, self.sync, self.collective))()  # noqa: E731
        data = f"*(unsigned*)({memory} + (4 * t + {4 * self.rng.randrange(4)}) % {DATA})"
        look = self.rng.choice(
            (
                f"unsigned y = 0; for (int k = 0; k < 9 && !y; k++) {{ y = *(volatile unsigned*)({flag}); }}",
                f"r += *(volatile unsigned*)({flag});",
                self.asm_update(4, flag),
                self.load(4, flag),
            )
        )
        found = [self.one(f"if ({several()} && b == {first}) {{ {data} = t; {maybe(0.8)} }}", group), *meet()]
        found.append(self.one(f"if ({one_of(first)}) {{ {maybe(0.2)} {self.tell(flag)} }}", group))
        found.append(self.one(f"if ({one_of(last)}) {{ {look} {maybe(0.3)} }}", group))
        if self.rng.random() < 0.8:
            found += meet()
        use = f"{maybe(0.8)} r += {data};"
        return [*found, self.one(f"if ({several()} && b == {last}) {{ {use} }}", group)]

    def maybe_fence(self) -> str:
        return self.a_fence() if self.rng.random() < 0.7 else ""

    def tell(self, flag: str) -> str:
        """Set a flag, in one of many ways."""
        return self.rng.choice(
            (
                self.store(4, flag, "1"),
                self.store(4, flag, "1"),
                f"*(volatile unsigned*)({flag}) = 1;",
                f"{{ {self.asm_update(4, flag)} }}",
                self.atomic(flag),
                f"*(unsigned*)({flag}) = 1;",
            )
        )

    def look(self, flag: str) -> str:
        """Continue only if the flag is set; the brace stays open."""
        # a loop with an end: what it waits for may not come
        if self.profile.waits and self.rng.random() < 0.2:
            return f"unsigned y = 0; for (int k = 0; k < 3 && !y; k++) {{ {self.load(4, flag, 'y = x;')} }} if (y) {{"
        return self.rng.choice(
            (
                f"{self.load(4, flag, 'if (x) {')}",
                f"{self.load(4, flag, 'if (x) {')}",
                f"if (*(volatile unsigned*)({flag})) {{",
                f"{self.asm_update(4, flag, 'if (x) {')}",
                f"if (atomicAdd{SUFFIXES[self.rng.choice(self.profile.scopes)]}((unsigned*)({flag}), 0)) {{",
            )
        )

    def locked(self, memory: str, flag: str) -> str:
        """A lock, taken with more or less care."""
        scope = SUFFIXES[self.rng.choice(("gpu", "gpu", "cta" if memory != "g" else "gpu"))]
        word = f"(unsigned*)({memory} + {DATA + 16})"
        take = f"while (atomicCAS{scope}({word}, 0, 1)) {{}} {self.maybe_fence()}"
        return f"{take} {self.plain(4, memory)} {self.maybe_fence()} atomicExch{scope}({word}, 0);"


def _warps(some: list[int]) -> str:
    return " || ".join(f"w == {w}" for w in some)
