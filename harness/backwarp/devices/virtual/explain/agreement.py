"""Whether the results of a launch depend on the order of threads, where these read what others change without a race.

The arrays after each order of a launch (see `run/orders`) are compared with those after the first. Where they differ, both
orders run once more with a trace of all accesses, and the earliest one that finds something else tells what the difference
is:

* a fault: a thread reads what others store, and nothing orders the two. Sums through `volatile` without __syncwarp(), and
  updates in two steps, are such;
* a note: threads come to an atomic update in another order. Whether any result will do is for the author to say, as it
  will where locks and tickets decide who is first;
* a note: threads store to one place, by swaps or as volatile, and their order decides;
* a note: an array holds the same elements in other places, as where an atomicAdd() gives them out; or floating-point
  numbers differ by what rounding explains, as where they are added in another order.

Nothing is said where no access tells the difference: the kernel reads a clock. Very large arrays are not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ....errors import KernelFault
from ..ptx.parse import instruction
from ..run.arena import Owner
from ..run.orders import AHEAD, Order
from ..runtime.abi import INFO_ATOMIC, INFO_BLIND, INFO_VALUE, INFO_VOLATILE, INFO_WRITE, SLOT_BYTES, STEPS
from .owners import element
from .wording import coordinates

MOST_STEPS = 1 << 18  # of a trace
MOST_BYTES = 1 << 30  # of all arrays
#: of the largest number in an array: what adding in another order may change
ROUNDING = {2: 2**-6, 4: 2**-13, 8: 2**-36}
SAME, ROUNDED, MOVED, OTHER = range(4)
_ACCESS = STEPS.index("access")
_KIND = "order-dependent"


@dataclass
class Difference:
    """Of an array after two orders. at: the first element."""

    how: int
    owner: Owner
    order: Order
    at: int
    values: tuple[object, object]


class Agreement:
    """Of one launch. run: its Execution; the first order has just run."""

    def __init__(self, run):
        self.run, self.found = run, None
        owners = run.arena.arrays()
        if sum(owner.nbytes for owner in owners) > MOST_BYTES:
            owners = []
        self.first = [(owner, self._bytes(owner).copy()) for owner in owners]

    def see(self, order: Order) -> None:
        """Another order has run."""
        for owner, first in self.first:
            now = self._bytes(owner)
            if np.array_equal(first, now):
                continue
            one, other = first.view(owner.dtype), now.copy().view(owner.dtype)
            how = compared(one, other)
            if self.found is None or how > self.found.how:
                at = int(np.flatnonzero(_bits(one) != _bits(other))[0])
                self.found = Difference(how, owner, order, at, (one[at].item(), other[at].item()))

    def _bytes(self, owner: Owner) -> np.ndarray:
        return self.run.arena.bytes[owner.start : owner.start + owner.nbytes]

    def report(self, again: Callable[[Order], object]) -> KernelFault | None:
        """What there is to say. again(order): the rows of the steps of an order, which runs once more."""
        found = self.found
        if found is None:
            return None
        name = element(found.owner, found.owner.start + found.at * found.owner.itemsize)
        one, other = (f"{value:.9g}" if isinstance(value, float) else str(value) for value in found.values)
        differs = f"{name} is {one} in one order of threads and {other} in another"
        first = again(AHEAD)
        look = earliest(first, again(found.order), self.run.arena.size // 2)
        if found.how == ROUNDED:
            text = f"{differs}: floating-point numbers are added in another order."
        elif found.how == MOVED:
            text = f"{differs}: the same values are in other places."
        elif look is None:
            look = last_store(first, found.owner.start + found.at * found.owner.itemsize)
            if look is None:
                return None
            text = f"{differs}: several threads store it, and their order decides. That is right only if either result is."
        elif look.decides:
            text = f"{differs}: who comes first here decides. That is right only if either result is."
        else:
            one, other = (self._value(look, value) for value in look.values)
            text = (
                f"{differs}. Here this thread reads {one} in the first and {other} in the second: nothing says whether another "
                f"thread's store comes before. {self._remedy(look)}"
            )
            return self._fault(found, text, look, "error")
        return self._fault(found, text, look)

    def _remedy(self, look: Look) -> str:
        update = "update in one step with an atomic"
        if self.run.plan.blocks > 1 and look.address < self.run.arena.size // 2:
            return f"Barriers do not reach other blocks: {update}, or read what they have stored in a later launch."
        return f"Put __syncthreads(), or __syncwarp() within a warp, between that store and this read, or {update}."

    def _value(self, look: Look, bits: int) -> str:
        """What an access finds, in its type."""
        ins = instruction(self.run.module.lowered.sites[look.site][1])
        type_ = ins.op.type if ins else ""
        owner = next((o for o in self.run.arena.arrays() if o.contains(look.address)), None)
        if type_[:1] == "f" or owner and owner.dtype[1] == "f" and owner.itemsize == look.size:
            return f"{np.array([bits], np.uint64).view(f'f{look.size}')[0]:.9g}"
        below = bits >> 8 * look.size - 1 and type_[:1] == "s"
        return str(bits - (below << 8 * look.size))

    def _fault(self, found: Difference, text: str, look: Look | None, severity: str = "note") -> KernelFault:
        run, owner = self.run, found.owner
        line = run.module.lowered.sites[look.site][0].line if look else 0
        lines = run.module.source.splitlines()
        return KernelFault(
            _KIND,
            "The result depends on the order of threads",
            text,
            file=run.module.name,
            line=line,
            thread=coordinates(look.thread, run.block) if look else None,
            block=coordinates(look.block, run.grid) if look else None,
            array=owner.name,
            index=owner.element(owner.start + found.at * owner.itemsize),
            severity=severity,
            source=lines[line - 1] if 0 < line <= len(lines) else "",
        )


def _bits(values: np.ndarray) -> np.ndarray:
    """For comparing and sorting elements of any type."""
    return values.view(f"{'u' if values.itemsize in (1, 2, 4, 8) else 'S'}{values.itemsize}")


def compared(a: np.ndarray, b: np.ndarray) -> int:
    """How two results differ that are not the same."""
    if a.dtype.kind == "f" and a.itemsize in ROUNDING:
        x, y = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            largest = max(np.abs(v[np.isfinite(v)]).max(initial=0.0) for v in (x, y))
            close = np.abs(x - y) <= ROUNDING[a.itemsize] * largest
        if (close | (_bits(a) == _bits(b))).all():
            return ROUNDED
    return MOVED if (np.sort(_bits(a)) == np.sort(_bits(b))).all() else OTHER


# -- the earliest access that finds something else -----------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """An access that finds other values in two orders. decides: it is an update, or a guess at what one will find, and so
    says who is first."""

    at: int
    site: int
    address: int
    block: int
    thread: int
    size: int
    values: tuple[int, int]
    decides: bool


def earliest(first: np.ndarray, other: np.ndarray, slots: int) -> Look | None:
    """The access that finds something else, first in the first order. slots: where the memory of running blocks begins.

    A look is a guess if the same thread later updates what it has looked at, and sees what it finds then.
    """
    ones, others = (_by_thread(rows, slots) for rows in (first, other))
    found = []
    for who, mine in ones.items():
        for i, (a, b) in enumerate(zip(mine, others.get(who, ()))):
            if a.what == b.what and a.value == b.value:
                continue
            if a.what == b.what and a.reads:
                later = (*mine[i + 1 :], *others[who][i + 1 :])
                guess = any(step.what[1] == a.what[1] and step.reads and step.updates for step in later)
                found.append(
                    Look(a.at, *a.what, *who, a.size, (a.value, b.value), guess or a.updates or b.updates)
                )
            break
    return min(found, key=lambda look: look.at, default=None)


def last_store(rows: np.ndarray, place: int) -> Look | None:
    """The last swap, or store of something volatile, at a place."""
    address, info = rows["address"].astype(np.int64), rows["info"]
    there = (rows["what"] == _ACCESS) & (address <= place) & (place < address + (info & 255))
    at = np.flatnonzero(there & ((info & INFO_WRITE) != 0) & ((info & (INFO_ATOMIC | INFO_VOLATILE)) != 0))
    if not len(at):
        return None
    site, found, block, thread = (int(rows[name][at[-1]]) for name in ("site", "address", "block", "thread"))
    return Look(int(at[-1]), site, found, block, thread, int(info[at[-1]]) & 255, (0, 0), True)


@dataclass(frozen=True)
class _Step:
    at: int
    what: tuple[int, int]  # site and address
    size: int
    value: int | None
    reads: bool
    updates: bool


def _by_thread(rows: np.ndarray, slots: int) -> dict[tuple[int, int], list[_Step]]:
    """The accesses of each (block, thread); of several looks at one place in a row, the last."""
    found: dict[tuple[int, int], list[_Step]] = {}
    chosen = np.flatnonzero(rows["what"] == _ACCESS)
    fields = ("block", "thread", "site", "address", "info", "value")
    table = list(zip(chosen.tolist(), *(rows[chosen][name].tolist() for name in fields), strict=True))
    kept = _unchanged(table)
    for at, block, thread, site, address, info, value in table:
        if address >= slots:  # blocks run in any slot
            address = slots + (address - slots) % SLOT_BYTES
        reads = _finds(info) and not info & INFO_BLIND
        updates = bool(info & INFO_ATOMIC) and at not in kept
        step = _Step(
            at, (site, address), info & 255, value if reads or info & INFO_VALUE else None, reads, updates
        )
        mine = found.setdefault((block, thread), [])
        if mine and reads and mine[-1].what == step.what:
            mine.pop()
        mine.append(step)
    return found


def _finds(info: int) -> bool:
    """Whether the value of a step is what it found in memory."""
    return bool(info & INFO_ATOMIC or info & INFO_VOLATILE and not info & INFO_WRITE)


def _unchanged(table: list[tuple]) -> set[int]:
    """The atomic updates that change nothing, as an atomicAdd() of 0: they only look. A compare-and-swap that fails does
    not count: it has lost to somebody."""
    kept, after = set(), {}
    for at, _, _, _, address, info, value in reversed(table):
        if info & INFO_ATOMIC and info & INFO_WRITE and after.get(address) == value:
            kept.add(at)
        after[address] = value if _finds(info) else None
    return kept
