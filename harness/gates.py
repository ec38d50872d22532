"""Counted gates: is a right kernel also fast? Decided by exact counts, the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .checkout import Tunables
from .course import Case, Gate, Kernel, Puzzle
from .devices.virtual import counters as c
from .errors import CourseError
from .explain import source_line
from .trial import Bench, Outcome, Pace, in_order, try_kernel

SECONDS = 60.0  # for one launch; counting takes its time


@dataclass(frozen=True)
class Quantity:
    """noun: what it is a number of. value: of a launch's counters. cost: of one line's."""

    noun: str
    value: Callable[[dict], float]
    cost: Callable[[dict], float]


def _excess(*kinds: str) -> Callable[[dict], float]:
    return lambda n: sum(
        n.get(f"global_{k}_sectors", 0) - n.get(f"global_{k}_sectors_ideal", 0) for k in kinds
    )


def _sectors(n: dict) -> float:
    requests = n["global_load_requests"] + n["global_store_requests"]
    return (n["global_load_sectors"] + n["global_store_sectors"]) / requests if requests else 0.0


def _waste(n: dict) -> float:
    kinds = ("load", "store")
    ideal = sum(n[f"global_{k}_sectors_ideal"] for k in kinds)
    return sum(n[f"global_{k}_sectors"] for k in kinds) / ideal if ideal else 0.0


def _shared_requests(n: dict) -> float:
    return n.get("shared_load_requests", 0) + n.get("shared_store_requests", 0)


def _conflicts(n: dict) -> float:
    return c.shared_conflicts(n) / _shared_requests(n) if _shared_requests(n) else 0.0


def _per_flop(cost: Callable[[dict], float]) -> Callable[[dict], float]:
    return lambda n: cost(n) / c.flops(n) if c.flops(n) else float("inf")


def _scalar_flops(n: dict) -> float:
    return c.flops(n) - n.get("flops_tensor", 0)


def _scalar_share(n: dict) -> float:
    return 100 * _scalar_flops(n) / c.flops(n) if c.flops(n) else 100.0


def _divergence(n: dict) -> float:
    return 100 * (1 - c.branch_efficiency(n))


def _from_registers(n: dict) -> float:
    return n.get("shared_store_requests", 0) - n.get("async_copies", 0)


def _alone(n: dict) -> float:
    return c.flops(n) - n.get("flops_overlapped", 0)


def _plain(name: str, noun: str) -> Quantity:
    """A counter as it is."""
    return Quantity(noun, lambda n: n.get(name, 0), lambda n: n.get(name, 0))


#: beside these, every name in counters.METRICS is a quantity
QUANTITIES = {
    "global_bytes": Quantity("bytes of global memory moved", c.global_bytes, c.global_bytes),
    "global_requests": Quantity("requests to global memory", c.global_requests, c.global_requests),
    "sectors_per_request": Quantity("sectors per request", _sectors, _excess("load", "store")),
    "sectors_per_load": Quantity("sectors per load", c.sectors_per_request, _excess("load")),
    "sectors_per_store": Quantity(
        "sectors per store", lambda n: c.sectors_per_request(n, "store"), _excess("store")
    ),
    "sectors_over_ideal": Quantity("times the sectors that the bytes fill", _waste, _excess("load", "store")),
    "bytes_per_flop": Quantity(
        "bytes of global memory moved per FLOP", _per_flop(c.global_bytes), c.global_bytes
    ),
    "shared_requests_per_flop": Quantity(
        "requests to shared memory per FLOP", _per_flop(_shared_requests), _shared_requests
    ),
    "shared_conflicts": Quantity("bank conflicts", c.shared_conflicts, c.shared_conflicts),
    "conflicts_per_request": Quantity(
        "bank conflicts per request to shared memory", _conflicts, c.shared_conflicts
    ),
    "flops": Quantity("FLOP", c.flops, c.flops),
    "scalar_share": Quantity(
        "per cent of the FLOP outside of the tensor cores", _scalar_share, _scalar_flops
    ),
    "shared_stores_from_registers": Quantity(
        "stores to shared memory from registers", _from_registers, _from_registers
    ),
    "flops_without_copies": Quantity(
        "per cent of the FLOP with no copy under way", lambda n: 100 * _per_flop(_alone)(n), _alone
    ),
    "integer_divisions": _plain("integer_divisions", "divisions of integers"),
    "divergence": Quantity(
        "per cent of the branches divergent", _divergence, lambda n: n.get("divergent_branches", 0)
    ),
    "barriers": _plain("barriers", "waits of warps at barriers"),
    "global_atomic_operations": _plain("global_atomic_operations", "atomic updates of global memory"),
    "global_atomic_serial": _plain("global_atomic_serial", "rounds of atomic updates of global memory"),
}


def quantity(name: str) -> Quantity:
    """Errors: CourseError where nothing of that name is counted."""
    if name in QUANTITIES:
        return QUANTITIES[name]
    if name not in c.METRICS:
        raise CourseError(f"a gate counts {name!r}; known: {', '.join([*QUANTITIES, *c.METRICS])}")
    return _plain(name, name.replace("_", " "))


@dataclass
class Measure:
    """What a gate found. line: the line of the file that costs most, 0 where none stands out."""

    kernel: str
    case: str
    quantity: str
    value: float
    most: float
    below: float | None
    line: int
    line_share: float
    says: str
    hint: int

    @property
    def passed(self) -> bool:
        return self.value <= self.most


class NotCounted(Exception):
    """A kernel that was right did not get through the launch that counts."""

    def __init__(self, outcome: Outcome):
        super().__init__(outcome.kind)
        self.outcome = outcome


class Patience(Pace):
    """Time enough to count."""

    def limit(self, nbytes: int) -> float:
        return SECONDS


def chosen_case(puzzle: Puzzle, kernel: Kernel, name: str) -> Case | None:
    """The case to count a kernel in: the one named, if it takes part in that, else its largest."""
    if name and name not in (known := [c.name for c in puzzle.cases]):
        raise CourseError(f"{puzzle.id} has no case {name!r}; it has {', '.join(known)}")
    fits = [c for c in in_order(puzzle) if kernel in puzzle.kernels_of(c) and name in ("", c.name)]
    plain = [c for c in fits if c.check == "reference"] or fits
    return plain[-1] if plain else None


def count(
    puzzle: Puzzle, pairs: Iterable[tuple[Case, Kernel]], bench: Bench, t: Tunables, seed: int
) -> list[Outcome]:
    """Every pair, launched once on a bench that counts."""
    return [try_kernel(puzzle, case, kernel, bench, t, seed, Patience()) for case, kernel in pairs]


def measure(puzzle: Puzzle, bench: Bench, t: Tunables, seed: int) -> list[Measure]:
    """All gates of a puzzle, in the order declared.

    bench: a device that counts, with the file compiled for it. Errors: NotCounted.
    """
    counted: dict[tuple[str, str], dict] = {}
    found = []
    for gate in puzzle.gates:
        kernels = [puzzle.kernel(name) for name in gate.kernels] or list(puzzle.kernels)
        pairs = [(chosen_case(puzzle, k, gate.case), k) for k in kernels]
        for case, kernel in pairs:
            if (case.name, kernel.name) not in counted:
                outcome = count(puzzle, [(case, kernel)], bench, t, seed)[0]
                if outcome.kind:
                    raise NotCounted(outcome)
                counted[case.name, kernel.name] = outcome.counters
        launches = [counted[case.name, kernel.name] for case, kernel in pairs]
        found.append(weigh(gate, puzzle, pairs[0][0], c.add(*launches)))
    return found


def weigh(gate: Gate, puzzle: Puzzle, case: Case, counters: dict) -> Measure:
    """A gate, on what its kernels cost together in a case."""
    what = quantity(gate.quantity)
    most = gate.most(puzzle.full_dims(case)) if callable(gate.most) else gate.most
    costs = {line: what.cost(counts) for line, counts in counters["lines"].items() if line}
    worst = max(costs, key=costs.get, default=0)
    share = costs[worst] / sum(costs.values()) if worst and costs[worst] > 0 else 0.0
    names = " and ".join(gate.kernels or [k.name for k in puzzle.kernels])
    return Measure(names, case.name, gate.quantity, what.value(counters), most, gate.below,
                   worst if share else 0, share, gate.says, gate.hint)  # fmt: skip


# -- as sentences ------------------------------------------------------------------------------------------


def number(x: float) -> str:
    """At most four digits that matter, thousands apart."""
    if x >= 1000 or x == int(x):
        return f"{x:,.0f}"
    return f"{x:.3g}"


def sentence(m: Measure) -> str:
    """`kernel: 1,234 bytes of global memory moved, target at most 500 (one rung below: 2,000)`"""
    below = f" (one rung below: {number(m.below)})" if m.below is not None else ""
    return (
        f"{m.kernel}: {number(m.value)} {quantity(m.quantity).noun}, target at most {number(m.most)}{below}"
    )


def explain(m: Measure, source: str) -> list[str]:
    """What costs, where, and what to do about it."""
    lines = [sentence(m)]
    if m.line:
        lines.append(f"Line {m.line} costs the most, {100 * m.line_share:.0f} % of it:")
        rows = source.splitlines()
        lines += source_line(m.line, rows[m.line - 1])[:1] if m.line <= len(rows) else []
    return [*lines, m.says]
