"""The quantities that gates limit: how each is computed from a launch's counters, and how to reduce it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..devices.virtual.explain import metrics as c
from ..errors import CourseError


@dataclass(frozen=True)
class Quantity:
    """noun: what is counted. value: computed from a launch's counters. cost: the same for one line's; default
    value.

    says: the usual cause of too much of it, and the remedy. of: what a line's cost is a share of, if not of
    the quantity itself. waste: the avoidable part of it, named `of_waste`.
    """

    noun: str
    value: Callable[[dict], float]
    cost: Callable[[dict], float] | None = None
    says: str = ""
    of: str = "it"
    waste: Callable[[dict], float] | None = None
    of_waste: str = ""

    def of_line(self, counts: dict) -> float:
        return (self.cost or self.value)(counts)


def _excess(*kinds: str) -> Callable[[dict], float]:
    names = [f"global_{kind}_sectors" for kind in kinds]
    return lambda n: sum(n.get(name, 0) - n.get(f"{name}_ideal", 0) for name in names)


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


def _from_registers(n: dict) -> float:
    return n.get("shared_store_requests", 0) - n.get("async_copies", 0)


def _alone(n: dict) -> float:
    return c.flops(n) - n.get("flops_overlapped", 0)


def _tensor_alone(n: dict) -> float:
    return n.get("flops_tensor", 0) - n.get("flops_tensor_overlapped", 0)


def _wavefronts(n: dict) -> float:
    return n.get("shared_load_wavefronts", 0) + n.get("shared_store_wavefronts", 0)


def _local_bytes(n: dict) -> float:
    return c.SECTOR * (n.get("local_load_sectors", 0) + n.get("local_store_sectors", 0))


ONE_COPY = "Every tile is copied once, by one thread."


def _counter(name: str) -> Callable[[dict], float]:
    return lambda n: n.get(name, 0)


def _by_tma(noun: str, value: Callable[[dict], float], says: str = "") -> Quantity:
    return Quantity(noun, value, _counter("bulk_copies"), says, of="all copies by TMA")


def _plain(name: str, noun: str = "", says: str = "") -> Quantity:
    """A plain counter."""
    return Quantity(noun or name.replace("_", " "), _counter(name), says=says)


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
        _counter("global_requests_busiest"),
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
        waste=c.shared_conflicts,
        of_waste="all bank conflicts",
    ),
    "sectors_per_request": Quantity("sectors per request", _sectors, _excess("load", "store")),
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
    "idle_warps": Quantity("warps of 64 that a multiprocessor has no room for", lambda n: 0),
    "flops_fp32": _plain("flops_fp32", "FLOP in float"),
    "scalar_share": Quantity("per cent of the FLOP outside the tensor cores", _scalar_share, _scalar_flops),
    "shared_stores_from_registers": Quantity(
        "stores to shared memory from registers", _from_registers, _from_registers
    ),
    "flops_without_copies": Quantity(
        "per cent of the FLOP with no copy under way", lambda n: 100 * _per_flop(_alone)(n), _alone
    ),
    "flops_without_bulk": Quantity(
        "per cent of the FLOP with no copy by TMA on its way",
        lambda n: 100 * _per_flop(_tensor_alone)(n),
        _counter("flops_tensor"),
        of="all products",
    ),
    "bulk_bytes_per_flop": _by_tma("bytes copied by TMA per FLOP", _per_flop(_counter("bulk_bytes"))),
    "bulk_bytes": _by_tma("bytes copied by TMA", _counter("bulk_bytes"), ONE_COPY),
    "bulk_copies": _plain("bulk_copies", "copies by TMA", ONE_COPY),
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
        "async_copies", "copies by cp.async", "Every element of a tile is copied once, and nothing else is."
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
    "shared_atomic_serial": _plain(
        "shared_atomic_serial",
        "rounds of atomic updates of shared memory",
        "Atomic updates of one element are done one after the other: give every thread an element of its own, and add "
        "these up in pairs, all pairs at the same time.",
    ),
}


def quantity(name: str) -> Quantity:
    """Errors: CourseError for an unknown name."""
    if name in QUANTITIES:
        return QUANTITIES[name]
    if name not in c.METRICS:
        raise CourseError(f"a gate counts {name!r}; known: {', '.join([*QUANTITIES, *c.METRICS])}")
    return _plain(name)
