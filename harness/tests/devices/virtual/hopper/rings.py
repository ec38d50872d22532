"""Random rings of tiles, what they compute, and whether something that is wrong in one step of them matters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from backwarp.errors import KernelFault
from tests.devices.virtual.launches import device

SOURCE = Path(__file__).with_name("ring.cu")
INCLUDE = Path(__file__).parents[5] / "puzzles" / "include"
WRONG = (
    "right", "no full wait", "no empty wait", "no expect", "few bytes", "many bytes", "full parity", "empty parity",
    "no release", "no copy", "no sync", "early release", "no warp sync", "no product wait",
)  # fmt: skip
OF_PRODUCERS = ("no empty wait", "no expect", "few bytes", "many bytes", "empty parity", "no copy")
MOST_SHARED = 226 << 10  # bytes of tiles; 1 KiB is left for the barriers
#: harmless in a step whose stage is not filled again
OF_RELEASES = ("no release", "early release", "no warp sync", "no product wait")


@dataclass(frozen=True)
class Ring:
    """As in ring.cu; box: of a tile, the outermost axis first; cut: rows of the last box that are outside; products: of tiles of
    halves, else sums of floats."""

    box: tuple[int, ...]
    stages: int
    steps: int
    producers: int
    apart: bool
    consumers: int
    by_warps: bool
    cut: int = 0
    products: bool = False
    wrong: str = "right"
    at: int = 0
    who: int = 0

    @property
    def elements(self) -> int:
        return int(np.prod(self.box)) // (2 if self.products else 1)

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory."""
        return self.stages * self.producers * -(-4 * self.elements // 1024) * 1024

    @property
    def first(self) -> int:
        """Threads before the consumers, if they are apart."""
        return 128 if self.products else 32 * self.producers

    @property
    def threads(self) -> int:
        return self.consumers + self.first * self.apart

    @property
    def matters(self) -> bool:
        """Whether what is wrong can show: that a stage is released matters to the copy that fills it again, and that
        one waits for this only from the second round on."""
        if self.wrong == "no empty wait":
            return self.at >= self.stages and not self.ordered
        if self.wrong in OF_RELEASES:
            return self.at + self.stages < self.steps and not self.ordered
        return self.wrong != "right"

    @property
    def ordered(self) -> bool:
        """Whether the thread that copies meets all consumers in the next step, so that it needs no barrier for that."""
        if self.wrong == "no warp sync":
            if self.products:
                return True  # lane 0 has waited for the product of all four warps
            if not (self.apart or self.who) and self.producers == 1:
                return True  # lane 0 fills the stage, after the next step, in which it meets its warp
        together = self.consumers == (128 if self.products else 32 * self.by_warps)
        return self.wrong != "no release" and together and not self.apart

    def numbers(self) -> np.ndarray:
        return np.array(
            (
                len(self.box),
                self.stages,
                self.steps,
                self.producers,
                self.apart,
                self.consumers,
                self.by_warps,
            )
            + (self.elements, self.first, WRONG.index(self.wrong), self.at, self.who),
            np.int32,
        )


def drawn(rng: np.random.Generator, products: bool = False) -> Ring:
    """One that is right, and whose tiles fit in shared memory."""
    ring = _any(rng, products)
    while ring.shared > MOST_SHARED:
        ring = _any(rng, products)
    return ring


def _any(rng: np.random.Generator, products: bool) -> Ring:
    pick = lambda low, high: int(rng.integers(low, high + 1))  # noqa: E731
    stages = pick(2, 5)
    steps, apart, by_warps = pick(1, 3 * stages), bool(pick(0, 1)), bool(pick(0, 1))
    if products:
        return Ring((64, 64), min(stages, 4), steps, 2, apart, 128 * pick(1, 2), by_warps, pick(0, 9), True)
    rank, consumers = pick(1, 5), 32 * pick(1, 4)
    box = (*(pick(1, 4) for _ in range(rank - 1)), 4 * pick(1, 16))
    least = -(-consumers // int(np.prod(box)))  # each consumer reads
    box = (box[0] * least, *box[1:])
    if box[0] > 256 or rank == 1 and box[0] % 4:
        box = (256,)
    producers = pick(1, min(2, consumers // 32))
    return Ring(
        box, stages, steps, producers, apart, consumers, by_warps, 0 if len(box) == 1 else pick(0, box[0] - 1)
    )


def spoilt(rng: np.random.Generator, ring: Ring) -> Ring:
    """The same with something wrong in one step."""
    possible = [
        w
        for w in WRONG[1:]
        if (w != "no warp sync" or ring.by_warps) and (w != "no product wait" or ring.products)
    ]
    if ring.consumers == 32 * ring.by_warps or ring.threads == 32:
        possible.remove("no sync")  # in a warp, one after the other is possible
    wrong = possible[rng.integers(len(possible))]
    who = int(rng.integers(ring.consumers))
    if wrong in OF_PRODUCERS:
        who = int(rng.integers(1 if ring.products else ring.producers))
    elif ring.products if "full" in wrong else ring.by_warps:
        who //= 32
    return replace(ring, wrong=wrong, at=int(rng.integers(ring.steps)), who=who)


@cache
def _module(checks: str):
    return device(checks).compile(SOURCE.read_text(), name="ring.cu", include_dirs=(INCLUDE,))


def _arrays(ring: Ring) -> list[np.ndarray]:
    rng = np.random.default_rng(ring.steps + 100 * ring.stages)
    shape = (ring.steps * ring.box[0] - ring.cut, *ring.box[1:])
    return [rng.integers(-4, 5, shape).astype(np.float16 if ring.products else np.float32) for _ in "ab"]


def wanted(ring: Ring) -> np.ndarray:
    """What the threads have in the end, one step after the other."""
    arrays = [
        np.concatenate([x, np.zeros((ring.cut, *x.shape[1:]), x.dtype)]).astype(np.float64)
        for x in _arrays(ring)
    ]
    tiles = [[x[ring.box[0] * step :][: ring.box[0]] for x in arrays] for step in range(ring.steps)]
    if ring.products:
        product = sum(a[:, :16] @ b[:, :16].T for a, b in tiles)
        i, t = np.mgrid[:32, : ring.consumers]
        row = t // 32 % 4 * 16 + t % 32 // 4 + i // 2 % 2 * 8
        return product[row, i // 4 * 8 + t % 4 * 2 + i % 2].reshape(-1)
    found = np.zeros(ring.consumers)
    for step, pair in enumerate(tiles):
        for p in range(ring.producers):
            flat = pair[p].reshape(-1) * (step + 1 + p)
            np.add.at(found, np.arange(flat.size) % ring.consumers, flat)
    return found


def result(ring: Ring, seed: int, checks: str = "full") -> KernelFault | bool:
    """The fault that a run of this order ends with, or whether all is right."""
    dev = device(checks)
    before, dev.schedule = dev.schedule, seed
    try:
        a, b = (
            dev.tensor_map(dev.array(x, n), ring.box, "128B" if ring.products else "none")
            for x, n in zip(_arrays(ring), "ab")
        )
        y = dev.empty((32 if ring.products else 1) * ring.consumers, np.float32, name="y")
        function = _module(checks).get_function("products" if ring.products else "sums")
        function.max_dynamic_shared_size_bytes = ring.shared
        function(
            1,
            ring.threads,
            (y, dev.array(ring.numbers(), "r"), np.int32(ring.box[0]), a, b),
            shared_mem=ring.shared,
        )
        return bool((y.get() == wanted(ring)).all())
    except KernelFault as fault:
        return fault
    finally:
        dev.schedule = before
