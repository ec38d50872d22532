"""Random idioms of synchronisation: locks, flags, queues and counters, with fences, orders and scopes drawn at random, right
ones and ones that lack something."""

from __future__ import annotations

from random import Random

from tests.devices.virtual.runtime.race_statements import How, Idiom, Op


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
        kind = self.rng.choice([k for k in dir(self) if k.startswith("an_")])
        bodies = getattr(self, kind)()
        if kind == "an_message_of_many":
            at = [(block, t) for block in range(2) for t in self.rng.sample((0, 1, 32), 2)]
            return Idiom(f"{name}_{kind[3:]}", 2, 64, tuple(zip(at, map(tuple, bodies), strict=True)))
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

    def an_message_of_many(self):
        """One writes, another of its block sets a flag; one waits for it, another of its block reads."""
        early, late = self.rng.choice((True, True, False)), self.rng.choice((True, True, False))
        meet, seen = Op("meet"), self.register()
        return [
            [self.write(4), *(self.fence() if early else []), meet],
            [meet, *([] if early else self.fence()), Op("store", 0, self.how(), value=1)],
            [Op("await", 0, self.how(), seen, 1, what="=="), *([] if late else self.fence()), meet],
            [meet, *(self.fence() if late else []), self.data()],
        ]

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
