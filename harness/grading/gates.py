"""Counted gates: is a right kernel also fast? Decided by exact counts, the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import floor

from ..course.cuda_values import Tunables
from ..course.declare import Case, Gate, Kernel, Puzzle
from ..devices.virtual.explain import metrics as c
from ..errors import CourseError
from .runs import Outcome, Pace, Setup, in_order, try_kernel
from .sentences import source_line

SECONDS = 60.0  # seconds for one launch; counting is slow


@dataclass(frozen=True)
class Quantity:
    """noun: what is counted. value: computed from a launch's counters. cost: the same for one line's; default
    value.

    says: where too much of it comes from, and the remedy. of: what a line's cost is a share of, if not of the
    quantity itself.
    """

    noun: str
    value: Callable[[dict], float]
    cost: Callable[[dict], float] | None = None
    says: str = ""
    of: str = "it"

    def of_line(self, counts: dict) -> float:
        return (self.cost or self.value)(counts)


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


def _per_multiply_add(n: dict) -> float:
    return 64 * _per_flop(lambda n: n["warp_instructions"])(n)


def _divergence(n: dict) -> float:
    return 100 * (1 - c.branch_efficiency(n))


def _from_registers(n: dict) -> float:
    return n.get("shared_store_requests", 0) - n.get("async_copies", 0)


def _alone(n: dict) -> float:
    return c.flops(n) - n.get("flops_overlapped", 0)


def _wavefronts(n: dict) -> float:
    return n.get("shared_load_wavefronts", 0) + n.get("shared_store_wavefronts", 0)


def _local_bytes(n: dict) -> float:
    return c.SECTOR * (n.get("local_load_sectors", 0) + n.get("local_store_sectors", 0))


def _plain(name: str, noun: str = "", says: str = "") -> Quantity:
    """A plain counter."""
    return Quantity(noun or name.replace("_", " "), lambda n: n.get(name, 0), says=says)


#: every name in counters.METRICS is a quantity too
QUANTITIES = {
    "global_bytes": Quantity(
        "bytes of global memory moved",
        c.global_bytes,
        says="Read what a block needs several times only once, and let neighbouring lanes touch neighbouring "
        "elements: memory moves whole sectors of 32 bytes.",
    ),
    "global_requests": Quantity(
        "requests to global memory",
        c.global_requests,
        says="A request can fetch a different number for each lane. One in which all lanes ask for the same element, or "
        "for elements they have already read, takes just as long.",
    ),
    "global_requests_busiest": Quantity(
        "requests to global memory by the busiest warps",
        lambda n: n.get("global_requests_busiest", 0),
        c.global_requests,
        of="all requests to global memory",
        says="While one warp of a block fetches, the others wait for it: divide the fetching among all threads of the "
        "block.",
    ),
    "local_bytes": Quantity(
        "bytes of local memory moved",
        _local_bytes,
        says="A thread's array is kept in memory instead of registers if an index into it is known only at run time: "
        "give the loops constant bounds, and let the compiler unroll them.",
    ),
    "shared_wavefronts": Quantity(
        "passes over the banks of shared memory",
        _wavefronts,
        says="A request takes one pass for every 128 bytes, and one more for every bank conflict. Load a number that "
        "is used several times into a register, and let the lanes of a warp use different banks.",
    ),
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
    "shared_conflicts": Quantity(
        "bank conflicts",
        c.shared_conflicts,
        says="Lanes that want different words of one bank wait for each other, in loads and in stores "
        "(puzzle 25): pad the rows of the tile, or let neighbours use neighbouring words.",
    ),
    "conflicts_per_request": Quantity(
        "bank conflicts per request to shared memory", _conflicts, c.shared_conflicts
    ),
    "flops": Quantity(
        "FLOP",
        c.flops,
        says="The formula needs fewer: look for products with zeros, for work that several threads repeat, and for "
        "sums that nobody uses.",
    ),
    "instructions_per_multiply_add": Quantity(
        "instructions of a warp for 32 multiply-adds",
        _per_multiply_add,
        lambda n: n.get("warp_instructions", 0),
        of="all instructions",
    ),
    "scalar_share": Quantity("per cent of the FLOP outside the tensor cores", _scalar_share, _scalar_flops),
    "shared_stores_from_registers": Quantity(
        "stores to shared memory from registers", _from_registers, _from_registers
    ),
    "flops_without_copies": Quantity(
        "per cent of the FLOP with no copy under way", lambda n: 100 * _per_flop(_alone)(n), _alone
    ),
    "integer_divisions": _plain("integer_divisions", "divisions of integers"),
    "async_copies_idle": Quantity(
        "copies waited for at once",
        lambda n: n.get("async_copies_idle", 0),
        lambda n: n.get("async_copies", 0),
        of="all copies by cp.async",
        says="A copy saves time if the thread computes while it is under way: start both copies of a step "
        "before the products of an earlier step, and wait for them afterwards.",
    ),
    "async_copies": _plain(
        "async_copies",
        "copies by cp.async",
        "Every element of a tile is copied once, and nothing else is.",
    ),
    "divergence": Quantity(
        "per cent of the branches divergent", _divergence, lambda n: n.get("divergent_branches", 0)
    ),
    "barriers": _plain(
        "barriers",
        "waits of warps at barriers",
        "A barrier is needed before a thread reads what another has written, and before it is overwritten.",
    ),
    "global_atomic_operations": _plain(
        "global_atomic_operations",
        "atomic updates of global memory",
        "Atomic updates of one element are done one after the other, in an order that changes from run to run: add up in "
        "registers and in shared memory, and let one thread store the result.",
    ),
    "global_atomic_serial": _plain("global_atomic_serial", "rounds of atomic updates of global memory"),
    "shared_atomic_serial": _plain(
        "shared_atomic_serial",
        "rounds of atomic updates of shared memory",
        "Atomic updates of one element are done one after the other: give every thread an element of its own, and add "
        "these up in pairs, all pairs at the same time.",
    ),
}
#: no puzzle's kernel needs any of these, so they get a gate wherever kernels are counted and the puzzle
#: declares none
NEVER = ("local_bytes", "shared_atomic_serial", "global_atomic_operations")


def quantity(name: str) -> Quantity:
    """Errors: CourseError for an unknown name."""
    if name in QUANTITIES:
        return QUANTITIES[name]
    if name not in c.METRICS:
        raise CourseError(f"a gate counts {name!r}; known: {', '.join([*QUANTITIES, *c.METRICS])}")
    return _plain(name)


def gates_of(puzzle: Puzzle) -> list[Gate]:
    """The declared gates, then one for each NEVER quantity of every kernel that is counted."""
    found = list(puzzle.gates)
    counted = dict.fromkeys((name, gate.case) for gate in puzzle.gates for name in names(gate, puzzle))
    for kernel, case in counted:
        own = {gate.quantity for gate in puzzle.gates if kernel in names(gate, puzzle)}
        found += [Gate(q, 0, kernels=(kernel,), case=case) for q in NEVER if q not in own]
    return found


def names(gate: Gate, puzzle: Puzzle) -> tuple[str, ...]:
    """The kernels that it counts together."""
    return gate.kernels or tuple(k.name for k in puzzle.kernels)


@dataclass
class Measure:
    """What a gate found. line: the line of the file that costs most, 0 if none stands out.

    idea: the puzzle is about this gate, which has its own sentence. larger: counted with larger sizes than
    the case's.
    """

    kernel: str
    case: str
    dims: dict[str, int]
    quantity: str
    value: float
    most: float
    below: float | None
    line: int
    line_share: float
    says: str
    hint: int
    idea: bool = True
    larger: bool = False

    @property
    def passed(self) -> bool:
        return self.value <= self.most

    @property
    def told(self) -> bool:
        """A kernel that should have none of something and has none needs no mention of it."""
        return self.value > 0 or self.most > 0 or self.idea


class NotCounted(Exception):
    """A correct kernel did not complete the counted launch."""

    def __init__(self, outcome: Outcome):
        super().__init__(outcome.kind)
        self.outcome = outcome


class Patience(Pace):
    """Time enough to count."""

    def limit(self, nbytes: int) -> float:
        return SECONDS


def chosen_case(puzzle: Puzzle, kernel: Kernel, name: str) -> Case | None:
    """The case to count a kernel in: the named one if the kernel takes part in it, else its largest with
    fixed sizes."""
    if name and name not in (known := [c.name for c in puzzle.cases]):
        raise CourseError(f"{puzzle.id} has no case {name!r}; it has {', '.join(known)}")
    fits = [c for c in in_order(puzzle) if kernel in puzzle.kernels_of(c) and name in ("", c.name)]
    plain = [c for c in fits if c.check == "reference" and not (c.stress or c.draw)] or fits
    return plain[-1] if plain else None


def count(
    puzzle: Puzzle, pairs: Iterable[tuple[Case, Kernel]], setup: Setup, t: Tunables, seed: int
) -> list[Outcome]:
    """Every pair, launched once on a counting setup."""
    return [try_kernel(puzzle, case, kernel, setup, t, seed, Patience()) for case, kernel in pairs]


#: sizes that all costs are proportional to
GROWING = ("batch", "M", "rows")


def grown(case: Case, factor: int) -> Case:
    return replace(case, dims={n: size * factor if n in GROWING else size for n, size in case.dims.items()})


def measure(puzzle: Puzzle, setup: Setup, t: Tunables, seed: int) -> list[Measure]:
    """All gates of a puzzle, in the order declared.

    If all pass, they are counted again with larger sizes, and those that fail then are appended: a kernel
    that recognises a case by its sizes is fast only there. setup: a counting device, with the file compiled
    for it. Errors: NotCounted.
    """
    found = measured(puzzle, setup, t, seed)
    counted = {m.case for m in found}
    times = 2 + seed % 2
    cases = tuple(grown(case, times) if case.name in counted else case for case in puzzle.cases)
    if cases == puzzle.cases or not all(m.passed for m in found):
        return found
    larger = measured(replace(puzzle, cases=cases), setup, t, seed, times)
    return found + [replace(m, larger=True, below=None) for m in larger if not m.passed]


def measured(puzzle: Puzzle, setup: Setup, t: Tunables, seed: int, times: int = 1) -> list[Measure]:
    """All gates in their cases, at `times` the sizes that the gates were declared for."""
    counted: dict[tuple[str, str], dict] = {}
    found = []
    for gate in gates_of(puzzle):
        kernels = map(puzzle.kernel, names(gate, puzzle))
        pairs = [(chosen_case(puzzle, k, gate.case), k) for k in kernels]
        for case, kernel in pairs:
            if (case.name, kernel.name) not in counted:
                outcome = count(puzzle, [(case, kernel)], setup, t, seed)[0]
                if outcome.kind:
                    raise NotCounted(outcome)
                counted[case.name, kernel.name] = outcome.counters
        launches = [counted[case.name, kernel.name] for case, kernel in pairs]
        found.append(weigh(gate, puzzle, pairs[0][0], t, c.add(*launches), times))
    return found


def weigh(gate: Gate, puzzle: Puzzle, case: Case, t: Tunables, counters: dict, times: int = 1) -> Measure:
    """A gate applied to the total cost of its kernels in a case. times: see `measured`."""
    what = quantity(gate.quantity)
    value, most = what.value(counters), gate.limit(puzzle.full_dims(case), t)
    if isinstance(value, int) and not callable(gate.most):  # a count, not a ratio
        most *= times
    costs = {line: what.of_line(counts) for line, counts in counters["lines"].items()}
    worst = max(filter(None, costs), key=costs.get, default=0)
    share = costs[worst] / sum(costs.values()) if worst and costs[worst] > 0 else 0.0
    return Measure(
        " and ".join(names(gate, puzzle)),
        case.name,
        case.dims,
        gate.quantity,
        value,
        floor(most) if isinstance(value, int) else most,
        gate.below,
        worst if share else 0,
        share,
        gate.says or what.says,
        gate.hint,
        bool(gate.says),
    )


# -- as sentences ------------------------------------------------------------------------------------------


def number(x: float, digits: int = 3) -> str:
    """With thousands separators; a number that is not whole is rounded to so many digits."""
    return f"{x:,.0f}" if x >= 10**digits or x == int(x) else f"{x:.{digits}g}"


def sentence(m: Measure) -> str:
    """`kernel: 1,234 bytes of global memory moved, target at most 500 (one rung below: 2,000)`"""
    below = f" (one rung below: {number(m.below)})" if m.below is not None else ""
    digits = next(d for d in range(3, 18) if m.passed or number(m.value, d) != number(m.most, d) or d == 17)
    value, most = number(m.value, digits), number(m.most, digits)
    return f"{m.kernel}: {value} {quantity(m.quantity).noun}, target at most {most}{below}"


def per_cent(share: float) -> str:
    """Shows 100 only for all of it, never for less."""
    return f"{min(100 * share, 100 if share == 1 else 99):.0f} %"


def explain(m: Measure, source: str) -> list[str]:
    """What costs most, where, and what to do about it."""
    lines = [sentence(m)]
    if m.line:
        lines.append(f"Line {m.line} costs the most, {per_cent(m.line_share)} of {quantity(m.quantity).of}:")
        rows = source.splitlines()
        lines += source_line(m.line, rows[m.line - 1])[:1] if m.line <= len(rows) else []
        if m.quantity == "local_bytes" and m.line <= len(rows) and "printf" in rows[m.line - 1]:
            return [*lines, "printf takes its arguments from local memory: take it out."]
    if m.larger:
        lines.append(f"It passes with the sizes of {m.case} itself, but it has to pass with larger ones too.")
    return [*lines, m.says]
