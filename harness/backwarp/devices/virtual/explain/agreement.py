"""Whether the results of a launch depend on the order of threads, where these read what others change without a race.

The arrays after each order of a launch (see `run/orders`) are compared with those after the first. Where they differ, both
orders run once more, recorded, and the earliest one that finds something else tells what the difference
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
from dataclasses import dataclass, replace

import numpy as np

from ....errors import KernelFault
from ..replay.record import KIND, Record, number
from ..run.arena import Owner
from ..run.orders import AHEAD, Order
from ..runtime.abi import INFO_ATOMIC, INFO_BLIND, INFO_VOLATILE, INFO_WRITE
from .owners import element
from .wording import coordinates

MOST_ROWS = 1 << 21  # of a record
MOST_BYTES = 1 << 30  # of all arrays
#: of the largest number in an array: what adding in another order may change
ROUNDING = {2: 2**-6, 4: 2**-13, 8: 2**-36}
SAME, ROUNDED, MOVED, OTHER = range(4)
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

    def report(self, again: Callable[[Order], dict]) -> KernelFault | None:
        """What there is to say. again(order): the record of an order, which runs once more."""
        found = self.found
        if found is None:
            return None
        name = element(found.owner, found.owner.start + found.at * found.owner.itemsize)
        one, other = (f"{value:.9g}" if isinstance(value, float) else str(value) for value in found.values)
        differs = f"{name} is {one} in one order of threads and {other} in another"
        first = Record(again(AHEAD))
        look = earliest(first, Record(again(found.order)))
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
            one, other = (self._value(look, first, value) for value in look.values)
            text = (
                f"{differs}. Here this thread reads {one} in the first and {other} in the second: nothing says whether another "
                f"thread's store comes before. {self._remedy(look)}"
            )
            return self._fault(found, text, look, "error")
        return self._fault(found, text, look)

    def _remedy(self, look: Look) -> str:
        update = "update in one step with an atomic"
        if self.run.plan.blocks > 1 and look.space == "global":
            return f"Barriers do not reach other blocks: {update}, or read what they have stored in a later launch."
        return f"Put __syncthreads(), or __syncwarp() within a warp, between that store and this read, or {update}."

    def _value(self, look: Look, record: Record, bits: int) -> str:
        """What an access finds, in its type."""
        held = record.arrays[look.array] if look.array >= 0 else None
        if held and held.dtype.kind == "f" and held.dtype.itemsize == look.size:
            return f"{number(bits, f'f{8 * look.size}'):.9g}"
        found = number(bits, look.type)
        return f"{found:.9g}" if isinstance(found, float) else str(found)

    def _fault(self, found: Difference, text: str, look: Look | None, severity: str = "note") -> KernelFault:
        run, owner = self.run, found.owner
        line = look.line if look else 0
        lines = run.module.source.splitlines()
        return KernelFault(
            _KIND,
            "The result depends on the order of threads",
            text,
            file=run.module.name,
            line=line,
            thread=coordinates(look.who & 1023, run.block) if look else None,
            block=coordinates(look.who >> 10, run.grid) if look else None,
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
    """An access that finds other values in two orders. at: its row; decides: it is an update, or a guess at what one will find,
    and so says who is first."""

    at: int
    line: int
    array: int
    space: str
    type: str
    size: int
    who: int
    values: tuple[int, int] = (0, 0)
    decides: bool = True


def earliest(first: Record, other: Record) -> Look | None:
    """The access that finds something else, first in the first order.

    A look is a guess if the same thread later updates what it has looked at, and sees what it finds then.
    """
    ones, others = (_by_thread(record) for record in (first, other))
    found = []
    for who, mine in ones.items():
        for i, (a, b) in enumerate(zip(mine, others.get(who, ()))):
            if a.what == b.what and a.value == b.value:
                continue
            if a.what == b.what and a.reads:
                later = (*mine[i + 1 :], *others[who][i + 1 :])
                guess = any(step.what[1:] == a.what[1:] and step.reads and step.updates for step in later)
                decides, values = guess or a.updates or b.updates, (a.value, b.value)
                found.append(replace(_look(first, a.access), values=values, decides=decides))
            break
    return min(found, key=lambda look: look.at, default=None)


def last_store(record: Record, place: int) -> Look | None:
    """The last swap, or store of something volatile, at a place, a device address."""
    (array, offset), a = record.place(place), record.accesses
    there = (a["array"] == array) & (a["offset"] <= offset) & (offset < a["offset"] + a["nbytes"])
    for access in a[there][np.argsort(a[there]["row"])][::-1]:
        info = _info(record, access)
        if info & INFO_WRITE and info & (INFO_ATOMIC | INFO_VOLATILE):
            return _look(record, access)
    return None


def _look(record: Record, access: np.void) -> Look:
    row, array = int(access["row"]), int(access["array"])
    point = record.of(row)
    space = record.arrays[array].space if array >= 0 else "local"
    return Look(row, int(access["line"]), array, space, point[6], int(access["nbytes"]), int(access["who"]))


def _info(record: Record, access: np.void) -> int:
    point = record.of(int(access["row"]))
    return point[8] if point[0] == "at" else 0


@dataclass(frozen=True)
class _Step:
    """what: the number of its point, array, offset."""

    access: np.void
    what: tuple[int, int, int]
    value: int | None
    reads: bool
    updates: bool


def _by_thread(record: Record) -> dict[int, list[_Step]]:
    """The accesses of each thread; of several looks at one place in a row, the last."""
    found: dict[int, list[_Step]] = {}
    a = record.accesses
    about = np.array([p[8] if p[0] == "at" else 0 for p in record.points], np.int64)
    chosen = a[(a["array"] >= 0) & (about[record.point[a["row"]]] & 255 > 0)]
    info = about[record.point[chosen["row"]]].tolist()
    unused, kept = _unused(record), _unchanged(record, chosen, info)
    for access, about in zip(chosen, info, strict=True):
        row, who = int(access["row"]), int(access["who"])
        reads = _finds(about) and not about & INFO_BLIND and row not in unused
        value = _values(record, access, "got" if reads else "given")
        what = int(record.point[row]), int(access["array"]), int(access["offset"])
        updates = bool(about & INFO_ATOMIC) and row not in kept
        stores = not about & INFO_ATOMIC and about & INFO_WRITE
        step = _Step(access, what, value if reads or stores else None, reads, updates)
        mine = found.setdefault(who, [])
        if mine and reads and mine[-1].what == step.what:
            mine.pop()
        mine.append(step)
    return found


def _values(record: Record, access: np.void, which: str) -> int | None:
    """What an access finds, or stores, as one number."""
    bytes_ = record.moved(access, which)
    return int.from_bytes(bytes_, "little") if bytes_ else None


def _unused(record: Record) -> set[int]:
    """The rows in calls of atomics whose results are not used."""
    found: set[int] = set()
    calls = np.flatnonzero(record.kind == KIND["call"])
    for row in calls[[record.of(row)[5] for row in calls.tolist()]].tolist() if len(calls) else ():
        rows = record.threads[int(record.rows["who"][row])]
        at, depth = int(np.searchsorted(rows, row)), 0
        for inside in rows[at:].tolist():
            depth += int(record.kind[inside] == KIND["call"]) - int(record.kind[inside] == KIND["back"])
            if not depth:
                break
            found.add(inside)
    return found


def _finds(info: int) -> bool:
    """Whether the value of a step is what it found in memory."""
    return bool(info & INFO_ATOMIC or info & INFO_VOLATILE and not info & INFO_WRITE)


def _unchanged(record: Record, accesses: np.ndarray, info: list[int]) -> set[int]:
    """The rows of atomic updates that change nothing, as an atomicAdd() of 0: they only look. A compare-and-swap that fails does
    not count: it has lost to somebody."""
    kept, after = set(), {}
    for access, about in zip(accesses[::-1], reversed(info)):
        place = int(access["array"]), int(access["offset"])
        value = _values(record, access, "got") if _finds(about) else None
        same = value is not None and after.get(place) == value
        lost = record.of(int(access["row"]))[4] == "cas" and not record.moved(access, "given").startswith(
            record.moved(access, "got")
        )
        if about & INFO_ATOMIC and same and not lost:
            kept.add(int(access["row"]))
        after[place] = value
    return kept
