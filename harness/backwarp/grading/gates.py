"""Counted gates: is a right kernel also fast? Decided by exact counts, the same on every machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor

from ..course.declare import Case, Gate, Kernel, Puzzle
from ..cuda.values import Tunables
from ..devices.virtual.explain import metrics as c
from ..errors import CourseError
from . import costs
from .quantities import quantity
from .runs import Outcome, Pace, Setup, in_order, try_kernel
from .sentences import source_line

SECONDS = 60.0  # seconds for one launch; counting is slow
#: no puzzle's kernel needs any of these, so they get a gate wherever kernels are counted and the puzzle
#: declares none
NEVER = ("local_bytes", "shared_atomic_serial", "global_atomic_operations")


def gates_of(puzzle: Puzzle) -> list[Gate]:
    """The declared gates, then one for each NEVER quantity of every kernel that is counted."""
    found = list(puzzle.gates)
    counted = dict.fromkeys((name, gate.case) for gate in puzzle.gates for name in names(gate, puzzle))
    for kernel, case in counted:
        own = {gate.quantity for gate in puzzle.gates if kernel in names(gate, puzzle)}
        found += [Gate(q, 0, kernels=(kernel,), case=case) for q in NEVER if q not in own]
    return found


def names(gate: Gate, puzzle: Puzzle) -> tuple[str, ...]:
    """The kernels that a gate counts together."""
    return gate.kernels or tuple(k.name for k in puzzle.kernels)


@dataclass
class Measure:
    """The result of a gate. line: the line of the file that costs most, 0 if none stands out; line_share: its share,
    of what is called `of`.

    idea: the puzzle is about this gate, which has its own sentence. elsewhere: counted with other sizes than
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
    elsewhere: bool = False
    of: str = "it"

    @property
    def passed(self) -> bool:
        return self.value <= self.most

    @property
    def is_shown(self) -> bool:
        """Whether to mention it: not if a kernel should have none of something and has none."""
        return self.value > 0 or self.most > 0 or self.idea


class NotCounted(Exception):
    """A correct kernel did not complete the counted launch."""

    def __init__(self, outcome: Outcome):
        super().__init__(outcome.kind)
        self.outcome = outcome


def chosen_case(puzzle: Puzzle, kernel: Kernel, name: str) -> Case | None:
    """The case to count a kernel in: the named one if the kernel takes part in it, else its largest with fixed sizes."""
    if name and name not in (known := [c.name for c in puzzle.cases]):
        raise CourseError(f"{puzzle.id} has no case {name!r}; it has {', '.join(known)}")
    fits = [c for c in in_order(puzzle) if kernel in puzzle.kernels_of(c) and name in ("", c.name)]
    plain = [c for c in fits if c.check == "reference" and not (c.stress or c.draw)] or fits
    return plain[-1] if plain else None


def count(
    puzzle: Puzzle, pairs: Iterable[tuple[Case, Kernel]], setup: Setup, t: Tunables, seed: int
) -> list[Outcome]:
    """Launches every (kernel, case) pair once on a counting setup."""
    return [try_kernel(puzzle, case, kernel, setup, t, seed, Pace(longest=SECONDS)) for case, kernel in pairs]


def measure(puzzle: Puzzle, setup: Setup, t: Tunables, seed: int) -> list[Measure]:
    """All gates of a puzzle, in the order declared.

    If all pass, they are counted again with the sizes that the cases draw for it, and those that fail then are
    appended: a kernel that recognises a case by its sizes is fast only there. setup: a counting device, with
    the file compiled for it. Errors: NotCounted.
    """
    found = measured(puzzle, setup, t, seed)
    cases = tuple(case.counted_again(seed) for case in puzzle.cases)
    if not all(m.passed for m in found) or all(a is b for a, b in zip(cases, puzzle.cases)):
        return found
    others = measured(replace(puzzle, cases=cases), setup, t, seed)
    return found + [replace(m, elsewhere=True, below=None) for m in others if not m.passed]


def measured(puzzle: Puzzle, setup: Setup, t: Tunables, seed: int, wrong: bool = False) -> list[Measure]:
    """All gates in their cases. wrong: of a kernel whose results may be wrong."""
    counted: dict[tuple[str, str], dict] = {}
    found = []
    for gate in gates_of(puzzle):
        kernels = map(puzzle.kernel, names(gate, puzzle))
        pairs = [(chosen_case(puzzle, k, gate.case), k) for k in kernels]
        for case, kernel in pairs:
            if (case.name, kernel.name) not in counted:
                outcome = count(puzzle, [(case, kernel)], setup, t, seed)[0]
                if outcome.kind and not (wrong and outcome.counters):
                    raise NotCounted(outcome)
                counted[case.name, kernel.name] = outcome.counters
        launches = [counted[case.name, kernel.name] for case, kernel in pairs]
        found.append(weigh(gate, puzzle, pairs[0][0], t, c.add(*launches)))
    return found


def noted(m: Measure, puzzle: Puzzle, setup: Setup, t: Tunables, seed: int) -> list[c.Request]:
    """The requests to memory of the launches that a measure counted; a device that no longer answers has none."""
    kernels = map(puzzle.kernel, m.kernel.split(" and "))
    pairs = [(replace(chosen_case(puzzle, k, m.case), dims=m.dims), k) for k in kernels]
    setup.device.keep_requests = costs.MOST_REQUESTS
    try:
        return [r for outcome in count(puzzle, pairs, setup, t, seed) for r in outcome.requests]
    finally:
        setup.device.keep_requests = 0


def weigh(gate: Gate, puzzle: Puzzle, case: Case, t: Tunables, counters: dict) -> Measure:
    """A gate applied to the total cost of its kernels in a case."""
    what, dims = quantity(gate.quantity), puzzle.full_dims(case)
    most, value = gate.limit(dims, t), gate.computed(dims, t)
    if value is None:
        value = what.value(counters)
    else:
        counters = {"lines": {}}
    # where what is wasted decides, the line that wastes most
    wasteful = what.waste and value > most >= value - what.waste(counters)
    cost, of = (what.waste, what.of_waste) if wasteful else (what.of_line, what.of)
    costs = {line: cost(counts) for line, counts in counters["lines"].items()}
    worst = max(filter(None, costs), key=costs.get, default=0)
    share = costs[worst] / sum(costs.values()) if worst and costs[worst] > 0 else 0.0
    kernels, most = " and ".join(names(gate, puzzle)), floor(most) if isinstance(value, int) else most
    counted = kernels, case.name, case.dims, gate.quantity, value, most, gate.below
    about = dict(says=gate.says or what.says, hint=gate.hint, idea=bool(gate.says), of=of)
    return Measure(*counted, line=worst if share else 0, line_share=share, **about)


# -- as sentences ------------------------------------------------------------------------------------------


def number(x: float, digits: int = 3) -> str:
    """Formats with thousands separators; fractions are rounded to `digits` digits."""
    return f"{x:,.0f}" if x >= 10**digits or x == int(x) else f"{x:.{digits}g}"


def sentence(m: Measure) -> str:
    """`kernel: 1,234 bytes of global memory moved, target at most 500 (one rung below: 2,000)`"""
    below = f" (one rung below: {number(m.below)})" if m.below is not None else ""
    digits = next(d for d in range(3, 18) if m.passed or number(m.value, d) != number(m.most, d) or d == 17)
    value, most = number(m.value, digits), number(m.most, digits)
    return f"{m.kernel}: {value} {quantity(m.quantity).noun}, target at most {most}{below}"


def per_cent(share: float) -> str:
    """A percentage that shows 100 only for the whole."""
    return f"{min(100 * share, 100 if share == 1 else 99):.0f} %"


def explain(m: Measure, source: str, requests: Sequence[c.Request] = ()) -> list[str]:
    """What costs most, where, and what to do about it. requests: of the launches that were counted."""
    lines = [sentence(m)]
    if m.line:
        lines.append(f"Line {m.line} costs the most, {per_cent(m.line_share)} of {m.of}:")
        rows = source.splitlines()
        lines += source_line(m.line, rows[m.line - 1])[:1] if m.line <= len(rows) else []
        if m.quantity == "local_bytes" and m.line <= len(rows) and "printf" in rows[m.line - 1]:
            return [*lines, "printf takes its arguments from local memory: take it out."]
    if m.elsewhere:
        lines.append(f"It passes with the sizes of {m.case} itself, but it has to pass with others too.")
    # a puzzle that is about conflicts does not give away the length of a row
    known = not (m.idea and "conflict" in m.quantity)
    why = known and costs.reason(m.quantity, m.line, source, requests, m.value - m.most) or m.says
    return [*lines, why] if why else lines
