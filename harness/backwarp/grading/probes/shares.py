"""What becomes of each thread's share when the threads of a block compute a sum together: lost, or added too
often.

A launch with recorded accesses shows which thread reads which element. Then a single element is set to 1 and
all others to 0: the output shows what becomes of the share of the thread that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np

from ...course.declare import Kernel
from ...course.parameters import Array
from ...cuda.text import read
from ...devices.launching import triple
from ..compare import either, right_outputs
from ..findings import Finding
from ..race_timeline import kept
from ..runs import Setup, Trial, place, start
from ..sentences import is_barrier
from .budget import Budget
from .summed import Arrays, Run, launches

WARP = 32
MOST_RANGES = 6  # of threads that are listed one by one


def explain(trial: Trial, setup: Setup, budget: Budget) -> tuple[int, Finding | None]:
    """(how many threads something is known about, what becomes of their shares), None if all arrive. Errors: Spent."""
    kernel, block = trial.outcome.kernel, triple(trial.launch.block, "block")
    if block[0] == 1 or block[1:] != (1, 1) and block[0] % WARP:
        return 0, None
    run = launches(trial, setup, budget)
    for a in (a for a in kernel.arrays if a.role == "in" and a.dtype == "float32"):
        shares = shares_of(a, trial, setup)
        arrived = shares and arrivals(kernel, trial.dims, a, trial.arrays, shares, run)
        if arrived and (what := described(arrived, kernel.outputs[0].name)):
            return len(arrived), what
    return 0, None


def adds_together(kernel: Kernel, source: str) -> bool:
    """Whether the threads of a block may: they synchronize."""
    own = read(source).function(kernel.name)
    calls = own.file.whole.calls() if own else ()
    return len(kernel.outputs) == 1 and any(is_barrier(name) for name, _ in calls)


def shares_of(array: Array, trial: Trial, setup: Setup) -> dict[int, list[int]]:
    """The elements that one thread reads, in block 0 and perhaps in others, by thread; {} if unknown."""
    kernel, device = trial.outcome.kernel, setup.device
    handles = {p.name: place(device, p, trial) for p in kernel.passed}
    record = kept(device, partial(start, trial, setup, setup.schedules[0], handles))[1]
    if not record or record.full:
        return {}
    a = record.accesses
    a = a[(a["array"] == record.number(array.name)) & (a["offset"] >= 0)]
    readers: dict[int, set[tuple[int, int]]] = {}
    for at, who in a[a["offset"] < trial.arrays[array.name].nbytes][["offset", "who"]].tolist():
        readers.setdefault(at // 4, set()).add((who >> 10, who & 1023))
    found: dict[int, list[int]] = {}
    for element, by in sorted(readers.items()):
        if len({thread for _, thread in by}) == 1 and min(by)[0] == 0:
            found.setdefault(min(by)[1], []).append(element)
    return found


def arrivals(
    kernel: Kernel,
    dims: Mapping[str, int],
    array: Array,
    arrays: Arrays,
    shares: Mapping[int, list[int]],
    run: Run,
) -> dict[int, float]:
    """How often the share of a thread is added, by thread; {} for no sum, or where a thread's elements differ in that."""
    name = kernel.outputs[0].name

    def right(inputs: Arrays) -> np.ndarray:
        return right_outputs(kernel, inputs, dims)[name]

    floats = [a.name for a in kernel.arrays if a.role == "in" and a.dtype == "float32"]
    others = {name: np.ones_like(arrays[name]) for name in floats}
    zero, numbers = np.zeros_like(arrays[array.name]), arrays[array.name]
    rest, once, thrice = (right({**arrays, **others, array.name: n * numbers}) for n in (0, 1, 3))
    own = run({**arrays, **others, array.name: zero})
    is_sum = np.allclose(thrice - rest, 3 * (once - rest), rtol=1e-4, atol=1e-5)
    if own is None or not np.isfinite(own[name]).all() or not is_sum:
        return {}
    found: dict[int, float] = {}
    for thread in tried(sorted(shares)):
        for element in dict.fromkeys((shares[thread][0], shares[thread][-1])):
            single = zero.copy()
            single.flat[element] = 1
            inputs = {**arrays, **others, array.name: single}
            done = run(inputs)
            want = right(inputs) - rest
            got = None if done is None else done[name] - own[name]
            if got is None or (got[want == 0] != 0).any() or not want.any():
                return {}
            times = np.unique(np.round(got[want != 0] / want[want != 0], 4))
            if len(times) != 1 or found.setdefault(thread, float(times[0])) != times[0]:
                return {}
    if any(times != 1 for times in found.values()):
        some = np.random.default_rng(0).standard_normal((2, *zero.shape), np.float32)
        results = [run({**arrays, **others, array.name: x}) for x in (*some, some[0] + some[1])]
        if None in results:
            return {}
        a, b, both = (done[name] - own[name] for done in results)
        if not np.allclose(a + b, both, rtol=1e-3, atol=1e-4):
            return {}
    return found


def tried(threads: list[int]) -> list[int]:
    """All threads; in large blocks those of the first warp and one of every other."""
    return threads if len(threads) <= 3 * WARP else [t for t in threads if t < WARP or t % WARP == 0]


def is_whole(threads: Iterable[int]) -> bool:
    """Whether these are all threads that read something, not only those that are `tried` in a large block."""
    later = [t for t in threads if t > WARP]
    return not later or any(t % WARP for t in later)


def described(arrived: Mapping[int, float], output: str) -> Finding | None:
    """`what lanes 16 to 31 of a warp read is lost`, if all wrong shares are wrong in the same way."""
    often = {n for n in arrived.values() if n != 1}
    if len(often) > 1:
        return one_by_one(arrived, output)
    if not often:
        return None
    times = often.pop()
    threads = np.array(sorted(arrived))
    bad = np.array([arrived[t] != 1 for t in threads])
    if bad.all():
        if not times or len(set(threads % WARP)) < 2:
            return None
        return Finding.of("share", unit="", who="any thread", one=True, times=times, out=output)
    every_unit = []
    units = ("warp", "", threads // WARP), ("lane", " of a warp", threads % WARP), ("thread", "", threads)
    for name, of, values in units:
        touched = np.unique(values[bad])
        ranges = runs_of(touched, np.unique(values))
        complete = name != "thread" or is_whole(arrived)
        if name == "lane" and threads.max() < WARP:
            continue
        if (np.isin(values, touched) == bad).all() and len(ranges) <= 2 and complete and values.any():
            one = len(touched) == 1
            text = f"{name}{'' if one else 's'} {listed(ranges)}{of}"
            every_unit.append((len(touched) * (1 + (name == "thread")), text, name, one))
    if every_unit:
        _, who, name, one = min(every_unit)
        return Finding.of("share", unit=name, who=who, one=one, times=times, out=output)
    return None


def one_by_one(arrived: Mapping[int, float], output: str) -> Finding | None:
    """How often what each thread reads is added, in a large block for warp 0; None if there are too many different numbers."""
    first = not is_whole(arrived)
    arrived = {t: n for t, n in arrived.items() if t < WARP or not first}
    known, groups = np.array(sorted(arrived)), []
    for n in sorted(set(arrived.values())):
        chosen = np.array([arrived[t] == n for t in known.tolist()])
        ranges = runs_of(known[chosen], known)
        names = listed(ranges)
        if len(ranges) > 3 and any(repeats(known, chosen, period) for period in (2, 4, 8, 16)):
            ranges = ranges[:2]
            names = f"{', '.join(n for r in ranges for n in r)}, ..."
        groups.append((int(known[chosen][0]), len(ranges), names, int(chosen.sum()), n))
    if sum(count for _, count, *_ in groups) > MOST_RANGES:
        return None
    return Finding.of("shares", out=output, first=first, groups=[group[2:] for group in sorted(groups)])


def repeats(threads: np.ndarray, chosen: np.ndarray, period: int) -> bool:
    """Whether the chosen threads repeat with this period."""
    return all(len(set(chosen[threads % period == i].tolist())) < 2 for i in range(period))


def runs_of(touched: np.ndarray, known: np.ndarray) -> list[list[str]]:
    """`4 to 7`, or `4` and `5`: runs of consecutive known numbers."""
    places = np.searchsorted(known, touched)
    runs = np.split(touched, np.flatnonzero(np.diff(places) > 1) + 1)
    return [[f"{r[0]} to {r[-1]}"] if len(r) > 2 else [str(n) for n in r] for r in runs]


def listed(runs: Iterable[Iterable[str]]) -> str:
    return either([number for run in runs for number in run], "and")
