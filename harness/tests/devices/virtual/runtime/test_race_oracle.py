"""The oracle of races, rule by rule on traces written by hand; then random kernels, for which the runtime agrees with it."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tests.devices.virtual.runtime import race_oracle
from tests.devices.virtual.runtime.race_oracle import (
    CTA,
    FURTHER,
    GPU,
    ONE_WARP,
    SYS,
    Access,
    Arrive,
    Fence,
    Hazard,
    Sync,
    harmless,
    hazards,
    kind,
)
from tests.devices.virtual.runtime.race_programs import PROFILES, program
from tests.soak.races import Bench, attempt

A, LANE, WARP, AWAY = (0, 0), (0, 1), (0, 32), (1, 0)  # a thread; another lane, warp and block
X, FLAG = 0, 64  # addresses
FIRST, LAST = 1, 2  # sites


def write(thread, address=X, size=4, site=LAST, **kind) -> Access:
    return Access(*thread, address, size, site, writes=True, **kind)


def read(thread, address=X, size=4, site=LAST, **kind) -> Access:
    return Access(*thread, address, size, site, reads=True, **kind)


def store(thread, address=FLAG, size=4, scope=GPU, **order) -> Access:
    return write(thread, address, size, strong=True, scope=scope, **order)


def load(thread, address=FLAG, size=4, scope=GPU, **order) -> Access:
    return read(thread, address, size, strong=True, scope=scope, **order)


def update(thread, address=FLAG, size=4, scope=GPU, **order) -> Access:
    return Access(*thread, address, size, LAST, reads=True, writes=True, strong=True, scope=scope, **order)


def fence(thread, scope=GPU, sc=False) -> Fence:
    return Fence(*thread, scope, sc)


def sc(thread, scope=GPU) -> Fence:
    return fence(thread, scope, True)


def meet(*threads, barrier=None) -> Sync:
    return Sync(threads, barrier)


def passed(*between, to=AWAY) -> list:
    """A writes, something happens, another thread reads."""
    return [write(A, site=FIRST), *between, read(to)]


ORDERED = {
    "one thread": passed(to=A),
    "barrier": passed(meet(A, WARP, barrier=0), to=WARP),
    "collective": passed(meet(A, LANE), to=LANE),
    "grid": passed(meet(A, WARP, AWAY)),
    "what the barrier's threads know": passed(meet(A, LANE), meet(LANE, WARP, barrier=0), to=WARP),
    "arrival": passed(Arrive(*A, 3), meet(LANE, WARP, barrier=3), to=WARP),
    "release, acquire": passed(store(A, release=True), load(AWAY, acquire=True)),
    "fence, fence": passed(fence(A), store(A), load(AWAY), fence(AWAY)),
    "fence, acquire": passed(fence(A), store(A), load(AWAY, acquire=True)),
    "release, fence": passed(store(A, release=True), load(AWAY), fence(AWAY)),
    "fence long before": passed(fence(A), write(A, 32), update(A, 48), store(A), load(AWAY, acquire=True)),
    "fence long after": passed(
        store(A, release=True), load(AWAY), write(AWAY, 32), load(AWAY, 48), fence(AWAY)
    ),
    "block's scope, in one": passed(
        fence(A, CTA), store(A, scope=CTA), load(WARP, scope=CTA), fence(WARP, CTA), to=WARP
    ),
    "a later, wider fence": passed(fence(A), store(A), load(AWAY), fence(AWAY, CTA), fence(AWAY)),
    "an earlier, wider fence": passed(fence(A), fence(A, CTA), store(A), load(AWAY, acquire=True)),
    "a chain of updates": passed(
        store(A, release=True), update(WARP), update(LANE), load(AWAY, acquire=True)
    ),
    "from update to update": passed(update(A, release=True), update(AWAY, acquire=True)),
    "each link of a chain": passed(
        update(A, release=True), update(WARP, release=True), load(AWAY, acquire=True)
    ),
    "over a link whose fence does not reach": passed(
        update(A, release=True), fence(WARP, CTA), update(WARP), load(AWAY, acquire=True)
    ),
    "a failed update in between": passed(store(A, release=True), load(WARP), load(AWAY, acquire=True)),
    "over another thread": passed(
        store(A, release=True),
        load(LANE, acquire=True),
        store(LANE, 80, release=True),
        load(AWAY, 80, acquire=True),
    ),
    "barrier, then release": passed(
        meet(A, LANE), store(LANE, release=True), load(WARP, acquire=True), meet(WARP, (0, 33)), to=(0, 33)
    ),
    "fence, barrier, another's signal": passed(
        sc(A), meet(A, WARP, barrier=0), store(WARP), load(AWAY), sc(AWAY)
    ),
    "another's look, barrier, fence": passed(
        sc(A), store(A), load((1, 32)), meet((1, 32), AWAY, barrier=0), sc(AWAY)
    ),
    "fence, collective, signal, look, collective, fence": passed(
        sc(A), meet(A, LANE), update(LANE), update((1, 1)), meet((1, 1), AWAY), sc(AWAY)
    ),
    "fence, two barriers, a fence of the other kind": passed(
        sc(A), meet(A, LANE), meet(LANE, WARP), fence(WARP, CTA), store(WARP), load(AWAY), sc(AWAY)
    ),
    "a look that another fence has acquired": passed(
        sc(A), meet(A, LANE), store(LANE), load((1, 1)), fence((1, 1)), meet((1, 1), AWAY), sc(AWAY)
    ),
    "a write breaks only what it overlaps": passed(
        store(A, release=True), write(WARP, FLAG + 4), load(AWAY, acquire=True)
    ),
    "the release itself": [store(A, X, release=True), load(AWAY, X, acquire=True), write(AWAY)],
    "an earlier plain write of the flag": [write(A), store(A, X, release=True), load(AWAY, X, acquire=True)],
}

UNORDERED = {
    "nothing": passed(),
    "a barrier of others": passed(meet(LANE, WARP, barrier=0), to=WARP),
    "a barrier before": [meet(A, WARP, barrier=0), *passed(to=WARP)],
    "an exited thread": passed(meet(WARP, (0, 33), barrier=0), to=WARP),
    "some lanes": passed(meet(A, (0, 2)), to=LANE),
    "arrival at another barrier": passed(Arrive(*A, 3), meet(LANE, WARP, barrier=4), to=WARP),
    "arrival in another block": passed(Arrive(*A, 3), meet(AWAY, barrier=3)),
    "arrival, and no barrier": passed(Arrive(*A, 3), to=WARP),
    "arrival, for a barrier before": passed(
        Arrive(*A, 3), meet(LANE, barrier=3), meet(WARP, barrier=3), to=WARP
    ),
    "an arrival learns nothing": [
        write(LANE, site=FIRST),
        Arrive(*A, 3),
        meet(LANE, WARP, barrier=3),
        read(A),
    ],
    "written after arriving": [Arrive(*A, 3), write(A, site=FIRST), meet(LANE, WARP, barrier=3), read(WARP)],
    "fences alone": passed(fence(A), fence(AWAY)),
    "relaxed": passed(store(A), load(AWAY)),
    "no release": passed(store(A), load(AWAY, acquire=True)),
    "no acquire": passed(store(A, release=True), load(AWAY)),
    "a barrier is no acquire": passed(
        store(A, release=True), load(WARP), meet(WARP, (0, 33), barrier=0), to=(0, 33)
    ),
    "fence after the write": passed(store(A), fence(A), load(AWAY, acquire=True)),
    "fence before the read": passed(store(A, release=True), fence(AWAY), load(AWAY)),
    "written after the fence": [
        fence(A),
        write(A, site=FIRST),
        store(A),
        load(AWAY, acquire=True),
        read(AWAY),
    ],
    "written after the release": [
        store(A, release=True),
        write(A, site=FIRST),
        load(AWAY, acquire=True),
        read(AWAY),
    ],
    "read before the acquire": [
        write(A, site=FIRST),
        store(A, release=True),
        load(AWAY),
        read(AWAY),
        fence(AWAY),
    ],
    "another's fence": passed(fence(LANE), store(A), load(AWAY, acquire=True)),
    "the flag is not observed": passed(load(AWAY, acquire=True), store(A, release=True)),
    "another flag": passed(store(A, release=True), load(AWAY, 80, acquire=True)),
    "a plain flag": passed(fence(A), write(A, FLAG), load(AWAY, acquire=True)),
    "a plain look at the flag": passed(store(A, release=True), read(AWAY, FLAG), fence(AWAY)),
    "scope of the releasing fence": passed(fence(A, CTA), store(A), load(AWAY, acquire=True)),
    "scope of the write": passed(fence(A), store(A, scope=CTA), load(AWAY, acquire=True)),
    "scope of the read": passed(store(A, release=True), load(AWAY, scope=CTA), fence(AWAY)),
    "scope of the acquiring fence": passed(store(A, release=True), load(AWAY), fence(AWAY, CTA)),
    "scope of a link": passed(store(A, release=True), update(WARP, scope=CTA), load(AWAY, acquire=True)),
    "a store breaks the chain": passed(store(A, release=True), store(WARP), load(AWAY, acquire=True)),
    "scope of a link's fence": [
        update(A, release=True),
        write(WARP, site=FIRST),
        fence(WARP, CTA),
        update(WARP),
        load(AWAY, acquire=True),
        read(AWAY),
    ],
    "fence of the other kind, barrier, another's signal": passed(
        fence(A), meet(A, WARP, barrier=0), store(WARP), load(AWAY), sc(AWAY)
    ),
    "fence, barrier, another's signal, acquire": passed(
        sc(A), meet(A, WARP, barrier=0), store(WARP), load(AWAY, acquire=True)
    ),
    "fence, barrier, another's signal, a fence of the other kind": passed(
        sc(A), meet(A, WARP, barrier=0), store(WARP), load(AWAY), fence(AWAY)
    ),
    "another's look, barrier, fence of the other kind": passed(
        sc(A), store(A), load((1, 32)), meet((1, 32), AWAY, barrier=0), fence(AWAY)
    ),
    "release, another's look, barrier, fence": passed(
        store(A, release=True), load((1, 32)), meet((1, 32), AWAY, barrier=0), sc(AWAY)
    ),
    "barrier, fence, another's signal": passed(sc(A), store(WARP), load(AWAY), sc(AWAY)),
    "fence of the block's scope, barrier, another's signal": passed(
        sc(A, CTA), meet(A, WARP, barrier=0), store(WARP), load(AWAY), sc(AWAY)
    ),
    "another's look, barrier, fence of the block's scope": passed(
        sc(A), store(A), load((1, 32)), meet((1, 32), AWAY, barrier=0), sc(AWAY, CTA)
    ),
    "fence of the signaller, barrier": passed(sc(LANE), meet(A, LANE), store(LANE), load(AWAY), sc(AWAY)),
    "its thread's own store too": passed(fence(A), store(A), write(A, FLAG), load(AWAY, acquire=True)),
    "a store amid updates": passed(
        update(A, release=True), store(WARP), update(LANE), load(AWAY, acquire=True)
    ),
    "a plain store breaks the chain": passed(
        store(A, release=True), write(WARP, FLAG), load(AWAY, acquire=True)
    ),
    "half a flag overwritten": passed(
        store(A, release=True), write(WARP, FLAG + 2, 2), load(AWAY, acquire=True)
    ),
    "half a flag read": passed(store(A, release=True), load(AWAY, size=2, acquire=True)),
    "a wider update between": passed(store(A, release=True), update(WARP, size=8), load(AWAY, acquire=True)),
    "a release before an older store": passed(store(A), fence(A), load(WARP), load(AWAY, acquire=True)),
}


def on(found: set[Hazard], address: int) -> set[Hazard]:
    return {hazard for hazard in found if hazard.address == address}


@pytest.mark.parametrize("name", ORDERED)
def test_ordered(name):
    assert not on(hazards(ORDERED[name]), X)


@pytest.mark.parametrize("name", UNORDERED)
def test_unordered(name):
    assert on(hazards(UNORDERED[name]), X)


WRITE, STRONG, STRONG_GPU = 1, 2, 2 | 2 << 2
HARMLESS = {
    "reads": [read(A), read(AWAY)],
    "other bytes": [write(A, X, 2), write(AWAY, X + 2, 2)],
    "shared memory of two blocks": [write(A, shared=True), write(AWAY, shared=True)],
    "atomics": [update(A, X), update(AWAY, X)],
    "an atomic and a volatile": [update(A, X), load(AWAY, X, scope=SYS)],
    "atomics of a block's scope": [update(A, X, scope=CTA), update(WARP, X, scope=CTA)],
    "one value": [write(A, value=5), write(AWAY, value=5)],
    "one large value": [write(A, size=8, value=2**64 - 1), write(AWAY, size=8, value=2**64 - 1)],
    "a failed compare-and-swap": [load(A, X), read(AWAY)],
}
RACY = {
    "a write and a read": ([write(A, site=FIRST), read(WARP)], (FIRST, WRITE), (LAST, 0), FURTHER, 4),
    "lanes": ([read(A, site=FIRST), write(LANE)], (FIRST, 0), (LAST, WRITE), ONE_WARP, 4),
    "a byte of a word": ([write(A, site=FIRST), read(AWAY, X + 3, 1)], (FIRST, WRITE), (LAST, 0), FURTHER, 1),
    "two values": ([write(A, value=5), write(WARP, value=6)], (LAST, WRITE), (LAST, WRITE), FURTHER, 4),
    "a value nobody knows": ([write(A), write(WARP)], (LAST, WRITE), (LAST, WRITE), FURTHER, 4),
    "one value, two sizes": (
        [write(A, value=0), write(WARP, size=2, value=0)],
        (LAST, WRITE),
        (LAST, WRITE),
        FURTHER,
        2,
    ),
    "one half of a value": (
        [write(A, size=8, value=1 << 32), write(WARP, size=8, value=2 << 32)],
        (LAST, WRITE),
        (LAST, WRITE),
        FURTHER,
        range(4, 8),
    ),
    "one value, read": ([write(A, site=FIRST, value=0), read(WARP)], (FIRST, WRITE), (LAST, 0), FURTHER, 4),
    "plain and atomic": (
        [read(A, site=FIRST), update(AWAY, X)],
        (FIRST, 0),
        (LAST, WRITE | STRONG_GPU),
        FURTHER,
        4,
    ),
    "one value, plain and strong": (
        [write(A, site=FIRST, value=5), store(WARP, X, value=None)],
        (FIRST, WRITE),
        (LAST, WRITE | STRONG_GPU),
        FURTHER,
        4,
    ),
    "atomics across blocks, of one's scope": (
        [update(A, X, scope=CTA), update(AWAY, X)],
        (LAST, WRITE | STRONG),
        (LAST, WRITE | STRONG_GPU),
        FURTHER,
        4,
    ),
    "atomics that overlap": (
        [update(A, X, 4), update(WARP, X, 8)],
        (LAST, WRITE | STRONG_GPU),
        (LAST, WRITE | STRONG_GPU),
        FURTHER,
        4,
    ),
    "shared memory of a block": (
        [write(AWAY, site=FIRST, shared=True), read((1, 40), shared=True)],
        (FIRST, WRITE),
        (LAST, 0),
        FURTHER,
        4,
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless(name):
    assert hazards(HARMLESS[name]) == set()


@pytest.mark.parametrize("name", RACY)
def test_racy(name):
    steps, a, b, how, count = RACY[name]
    space = steps[0].block if steps[0].shared else 0
    found = hazards(steps)
    start = max(step.address for step in steps)
    which = count if isinstance(count, range) else range(count)
    assert found == {Hazard(start + i, space, a, b, how) for i in which}


def test_every_pair_counts():
    """The writer in the middle hides neither of the others; a pair of instructions counts once for lanes, once for warps."""
    found = hazards([write(A, site=1), write(LANE, site=2), write(WARP, site=3), write((0, 2), site=1)])
    pairs = {(h.a[0], h.b[0], h.how) for h in on(found, X)}
    assert pairs == {(1, 2, ONE_WARP), (1, 3, FURTHER), (2, 3, FURTHER), (1, 1, ONE_WARP)}


# -- the oracle against the relations that the manual defines --------------------------------------------------


def random_trace(rng: Random) -> list:
    """Steps of a few threads that order one another often, and not always."""
    threads, steps = (A, LANE, WARP, AWAY, (1, 32)), []
    for _ in range(rng.randint(5, 28)):
        thread, scope, flag = (
            rng.choice(threads),
            rng.choice((CTA, GPU, GPU, SYS)),
            rng.choice((FLAG, FLAG, FLAG + 4)),
        )
        size = rng.choice((4, 4, 4, 8)) if flag == FLAG else 4
        some = rng.sample([t for t in threads if t[0] == thread[0]], 2)
        steps.append(
            rng.choice(
                (
                    lambda: write(
                        thread,
                        rng.choice((X, X, flag)),
                        rng.choice((2, 4)),
                        rng.randrange(3),
                        value=rng.choice((None, 1, 2)),
                    ),
                    lambda: read(thread, rng.choice((X, X, flag)), rng.choice((1, 4)), rng.randrange(3)),
                    lambda: store(thread, flag, size, scope, release=rng.random() < 0.5),
                    lambda: load(thread, flag, size, scope, acquire=rng.random() < 0.5),
                    lambda: update(
                        thread, flag, size, scope, release=rng.random() < 0.3, acquire=rng.random() < 0.3
                    ),
                    lambda: fence(thread, scope, rng.random() < 0.7),
                    lambda: rng.choice(
                        (meet(*some), meet(*some, barrier=1), meet(*some, barrier=2), Arrive(*thread, 1))
                    ),
                )
            )()
        )
    return steps


def raced(steps: list, observation: bool) -> set[Hazard]:
    """The hazards, by relations between all pairs of steps and their transitive closure."""
    n, mine = len(steps), [set(s.threads) if isinstance(s, Sync) else {s[:2]} for s in steps]
    # program order, and barriers
    base = [[i < j and bool(mine[i] & mine[j]) for j in range(n)] for i in range(n)]
    together = _closed(base)
    for i, step in enumerate(steps):
        met = [
            j
            for j in range(i, n)
            if isinstance(step, Arrive)
            and isinstance(steps[j], Sync)
            and (steps[j].threads[0][0], steps[j].barrier) == (step.block, step.barrier)
        ]
        for j in met[:1]:
            base[i][j] = True
    observes, sees_part = _observes(steps, 1), _observes(steps, 8)
    for i, w in enumerate(steps):
        if not (isinstance(w, Access) and w.writes and w.strong):
            continue
        first = [f for f in range(i) if isinstance(steps[f], Fence) and mine[f] == mine[i]] + [i] * w.release
        for j in range(n):
            if observes[i][j]:
                last = [f for f in range(j, n) if isinstance(steps[f], Fence) and mine[f] == mine[j]]
                for x, y in product(first, last + [j] * steps[j].acquire):
                    base[x][y] |= _reach(steps[x], steps[y])
                fences = [f for f in range(n) if isinstance(steps[f], Fence) and steps[f].sc]
                for x, y in product(fences, repeat=2):
                    base[x][y] |= together[x][i] and together[j][y] and _reach(steps[x], steps[y])
    base = _closed(base)
    order = [row[:] for row in base]
    if observation:
        for i, z, j in product(range(n), repeat=3):
            order[i][j] |= sees_part[i][z] and base[z][j]
    return {h for i in range(n) for j in range(i) if not order[j][i] for h in _hazards(steps[j], steps[i])}


def _closed(relation: list[list[bool]]) -> list[list[bool]]:
    """Its transitive closure."""
    made = [row[:] for row in relation]
    for z, i, j in product(range(len(made)), repeat=3):
        made[i][j] |= made[i][z] and made[z][j]
    return made


def _reach(a, b) -> bool:
    return a[:2] == b[:2] or a.block == b.block or min(a.scope, b.scope) >= GPU


def _observes(steps: list, writes: int) -> list[list[bool]]:
    """[write][strong read]: the value read is that write's, or was made of it by updates. writes: at most so many have
    written the bytes that are read."""
    n, last, found = len(steps), {}, [[False] * len(steps) for _ in steps]
    for j, r in enumerate(steps):
        if not isinstance(r, Access):
            continue
        sources = {last.get(byte) for byte in range(r.address, r.address + r.size)}
        for i in sources - {None} if r.reads and r.strong and len(sources) <= writes else ():
            w = steps[i]
            strong = w[:2] == r[:2] or w.strong and _reach(w, r)
            if strong and (w.address, w.size) == (r.address, r.size):
                for k in range(n):
                    found[k][j] |= k == i or w.reads and found[k][i]
        if r.writes:
            last.update(dict.fromkeys(range(r.address, r.address + r.size), j))
    return found


def _hazards(a, b) -> set[Hazard]:
    if not (isinstance(a, Access) and isinstance(b, Access) and (a.writes or b.writes) and a[:2] != b[:2]):
        return set()
    one = (a.address, a.size) == (b.address, b.size)
    if one and a.strong and b.strong and _reach(a, b):
        return set()
    how = ONE_WARP if a.block == b.block and a.thread // 32 == b.thread // 32 else FURTHER
    bytes_ = set(range(a.address, a.address + a.size)) & set(range(b.address, b.address + b.size))
    pair = sorted([(a.site, kind(a)), (b.site, kind(b))])
    return {Hazard(byte, 0, *pair, how) for byte in bytes_ if not harmless(a, b, byte)}


def test_clocks_say_what_the_relations_say():
    totals = [0, 0]
    for seed in range(100):
        steps = random_trace(Random(seed))
        for observation in (False, True):
            expected = raced(steps, observation)
            assert hazards(steps, observation) == expected, f"seed {seed}, {observation}"
            totals[observation] += len(expected)
    assert 0 < totals[True] < totals[False]


# -- random kernels -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench():
    made = Bench()
    yield made
    made.device.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("profile", PROFILES)
def test_the_runtime_says_what_the_oracle_says(bench, profile):
    """A few programs; `python -m tests.soak.races` tries as many as you like, and others every night."""
    found = attempt(bench, profile, range(1 if PROFILES[profile].grid else 3), range(5))
    assert not found, "\n".join(found)


def test_a_program_is_the_same_again_and_stays_one_without_some_of_it():
    for profile in PROFILES:
        made = program("p", profile, 3)
        assert made.source() == program("p", profile, 3).source()
        lines = made.source().splitlines()
        for group in made.groups():
            less = made.without({group}).source().splitlines()
            assert len(less) < len(lines) and set(less) <= set(lines)


@pytest.mark.soak
def test_a_disagreement_is_found_and_made_small(bench, monkeypatch):
    """An oracle that knows no barriers: nothing is left but a barrier and two accesses."""
    monkeypatch.setattr(race_oracle.Clocks, "sync", lambda self, step: None)
    found = attempt(bench, "barriers", range(3), range(1))
    told = "missed", "stores of one value"
    assert found and all(any(t in text for t in told) and text.count("if (") <= 4 for text in found)
