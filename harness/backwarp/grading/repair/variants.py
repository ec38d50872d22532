"""Running edits: all at once on a virtual GPU, case by case, to find those that are right."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...course.declare import Case, Kernel, Puzzle, Scalar
from ...course.least_work import flops
from ...course.parameters import Array
from ...cuda.text import read
from ...cuda.values import tunables
from ...devices.virtual.variants import FAULTS, RIGHT, Wanted
from ...errors import CompileError, CourseError
from ..runs import Outcome, Pace, Setup, Trial, in_order, place
from ..verdict import FAILED, Verdict
from .schemata import Schemata, rows
from .sites import Choice
from .terms import value_of

Combination = tuple[Choice, ...]

LAUNCH = 0.5  # seconds for one variant of many; a right one takes far less in a small case
HANGS = 120.0  # seconds of a request after which something hangs
#: work: of a character that is compiled, and how much longer optimised code takes; of an edit, and of each unit of a
#: case's work; how much longer these take where threads wait, and with all checks
COMPILED, OPTIMISED, EDIT, STEP, WAITING, FULL = 1e-5, 1.5, 5e-5, 1e-7, 2, 10
ENDLESS = 0.1  # and of one whose threads may wait for one another for ever, as they do in the file
FEW, LONG = 64, 2.0  # this few may take this long
FEW_SLOW = 16  # with all checks
FEW_LARGE, LARGE = 4, 1 << 12  # in a case with this much work
PATIENT = 1 << 20  # steps of a thread if there are few
STEPS = 3 << 12  # of a thread, and more in larger cases: calls count as well
#: or this multiple of what the original kernel, without calls, takes; more than a few of the watchdog's
#: slices (abi.SLICE), as the thread that happens to end a slice pays for it
BUDGETS, MORE_STEPS = (1 << 12, 1 << 13, 1 << 15), 3
REQUEST = 2048  # variants in one request
LARGEST = 1 << 13  # elements of the arrays of a case in which variants run
SMALL = 4  # threads of a block in each direction, if the file sets them
FEWEST = 4  # of a block
MOST_REFUSED = 20  # lines
_BARRIERS = re.compile(r"\w_sync\b|__sync|\bbarrier|\bsync\b|mma")
#: names that need blocks of whole warps
_WARPS = re.compile(r"\w_sync\b|__syncwarp|warpSize|mma|(?<![\w.])(?:31|32|0x1[fF])(?![\w.])")
#: names by which several threads or blocks work on one element
_JOINT = re.compile(r"atomic|red_|volatile$|__threadfence|cooperative_groups|cuda$|grid")


@dataclass
class Work:
    """What a search has done, in about seconds of an idle core: counted, so that the load of a machine changes no verdict."""

    done: float = 0.0

    def __call__(self) -> float:
        return self.done

    def add(self, units: float) -> None:
        self.done += units


class Variants:
    """A file with all its edits, compiled for a device. races, only: see Schemata; given: as of runs. Errors: CompileError."""

    def __init__(
        self,
        puzzle: Puzzle,
        verdict: Verdict,
        source: str,
        name: str,
        device,
        given: Callable,
        left: Callable[[], float],
        races: set[int] | None = None,
        work: Work | None = None,
        only: Collection[int] | None = None,
    ):
        self.puzzle, self.verdict, self.source, self.name = puzzle, verdict, source, name
        self.device, self.given, self.left, self.work = device, given, left, work or Work()
        self.kernel: Kernel = puzzle.kernel(verdict.kernel)
        self.budgets: dict[str, int] = {}
        self.schemata = self._compiled(races, only)
        self.order: list[int] = []
        wrong = (i for i, case in enumerate(self.cases) if not self.right_in(case, [()]))
        first = next(wrong, None)
        self.is_wrong = first is not None
        self.order = sorted(range(len(self.cases)), key=lambda i: (i != first, i))  # failing cases first

    def _compiled(self, races: set[int] | None, only: Collection[int] | None) -> Schemata:
        """Lines with compile errors get no inserted statements, and stay unchanged if that does not help."""
        plain: set[int] = set()
        without: set[int] = set()
        while True:
            own = self.source, self.kernel.name
            schemata = Schemata(*own, without, races, self._arrays, only, plain, self._idle)
            try:
                self.setup = self._opened(schemata)
                return schemata
            except CompileError as error:
                lines = {d.line - schemata.before for d in error.diagnostics if d.line > schemata.before}
                if not lines - without or len(without) > MOST_REFUSED or self.left() < 0:
                    raise
                without |= lines & plain
                plain |= lines

    @cached_property
    def _arrays(self) -> list[Array]:
        """The kernel's arrays, their sizes by the names that the file gives the parameters."""
        function = read(self.source).function(self.kernel.name)
        pairs = zip(self.kernel.params, function.parameters if function else ())
        own = {p.name: v.name for p, v in pairs if isinstance(p, Scalar)}
        return [renamed(array, own) for array in self.kernel.passed]

    @cached_property
    def _idle(self) -> set[str]:
        """The parameters that the solution does not use, either, by their names in the file."""
        if not self.puzzle.has_solution or self.puzzle.repair:
            return set()
        solution = self.puzzle.solution_path.read_text(encoding="utf-8")
        right, own = (read(text).function(self.kernel.name) for text in (solution, self.source))
        if right is None or own is None:
            return set()
        used = {name.code for name in right.body.all("identifier")}
        return {v.name for needed, v in zip(right.parameters, own.parameters) if needed.name not in used}

    def _opened(self, schemata: Schemata) -> Setup:
        """On the device."""
        self.device.quick = True
        slowly = 1 if self.device.checks == "draft" else OPTIMISED
        self.work.add(COMPILED * len(schemata.text) * slowly)
        module = self.device.compile(schemata.text, name=self.name, include_dirs=self.puzzle.include_dirs)
        module.quick = False
        setup = Setup(self.device, (2 * self.verdict.seed + 1,), module=module)
        setup.kernels[self.kernel.name] = module.get_function(self.kernel.name)
        return setup

    # -- cases ----------------------------------------------------------------------------------------

    @cached_property
    def cases(self) -> list[Case]:
        """The cases in which variants run: failing ones first, small ones before large ones."""
        failed = {c.name for c in self.verdict.cases if c.kernel == self.kernel.name and c.status == FAILED}
        cases = [c for c in in_order(self.puzzle) if self.kernel in self.puzzle.kernels_of(c)]
        fit = [c for c in cases if self._size(c) <= LARGEST]
        if not any(c.name in failed for c in fit):
            fit += sorted((c for c in cases if c.name in failed), key=self._size)[:1]
        return sorted(fit, key=lambda c: (c.name not in failed, self._work(c)))

    def _work(self, case: Case) -> int:
        """A rough measure of a case's work: threads take longer than elements and products."""
        dims = self.puzzle.full_dims(case)
        try:
            launch = self.kernel.launch(dims, tunables(self.source))
            products = (flops(self.kernel, dims) or 0) // 2
        except (CourseError, ArithmeticError, ValueError, TypeError, KeyError):
            return self._size(case)
        sizes = (s if isinstance(s, tuple) else (s,) for s in (launch.grid, launch.block))
        return self._size(case) + products + 4 * math.prod(map(math.prod, sizes))

    def _size(self, case: Case) -> int:
        dims = self.puzzle.full_dims(case)
        return sum(int(np.prod(a.shape(dims))) for a in self.kernel.arrays)

    # -- running --------------------------------------------------------------------------------------

    def right_everywhere(self, combinations: Sequence[Combination]) -> Sequence[Combination]:
        """The edits with which the kernel is right in all cases."""
        for number in self.order:
            if len(combinations) <= FEW_SLOW and number != self.order[0] and self.is_slow:
                break  # grading takes less
            if len(combinations) <= FEW_LARGE and self._work(self.cases[number]) > LARGE:
                continue  # the same
            if combinations:
                combinations = self.right_in(self.cases[number], combinations)
        return combinations

    @property
    def is_slow(self) -> bool:
        return self.device.checks == "full"

    def right_in(self, case: Case, choices: Sequence[Combination]) -> list[Combination]:
        """The edits with which the kernel is right in a case."""
        trial = Trial(Outcome(case, self.kernel), Pace())
        trial.begin(self.puzzle, tunables(self.source), self.verdict.seed, self.given)
        if trial.launch is None:
            return []
        groups: dict[tuple, list[Combination]] = {}
        keys = Keys(self._values(trial))
        for combination in choices:  # two edits with the same values are one
            groups.setdefault(tuple(map(keys.of, combination)), []).append(combination)
        right = self._launched(trial, [group[0] for group in groups.values()])
        return [c for group, is_right in zip(groups.values(), right) for c in group if is_right]

    def _values(self, trial: Trial) -> dict[str, int]:
        """The values of the kernel's scalar parameters, by their names in the file."""
        function = read(self.source).function(self.kernel.name)
        found = {}
        for p, own in zip(self.kernel.params, function.parameters if function else ()):
            if isinstance(p, Scalar):
                found[own.name] = p.typed(trial.dims).item()
        for what, sizes in (("gridDim", trial.launch.grid), ("blockDim", trial.launch.block)):
            sizes = sizes if isinstance(sizes, tuple) else (sizes,)
            found |= {f"{what}.{axis}": n for axis, n in zip("xyz", (*sizes, 1, 1))}
        return found

    def _launched(self, trial: Trial, choices: Sequence[Combination]) -> list[bool]:
        """For each edit, whether the kernel is right with it; False if the budget did not last for it."""
        cost = self._cost(trial.outcome.case)
        most = max(int(self.left() / cost), FEW if len(choices) <= FEW else 0)
        left_out = len(choices) - most
        choices = choices[: max(most, 0)]
        self.work.add(cost * len(choices))
        return self._tried(trial, choices) + [False] * left_out

    def _cost(self, case: Case) -> float:
        """The work of trying an edit."""
        waits = has_barriers(self.source, self.kernel.name)
        slowly = FULL if self.is_slow else WAITING if waits else 1
        endless = ENDLESS if waits and (self.verdict.fault or {}).get("kind") == "timeout" else 0.0
        return endless + slowly * (EDIT + STEP * self._work(case))

    def _tried(self, trial: Trial, choices: Sequence[Combination]) -> list[bool]:
        case = trial.outcome.case.name
        patient = len(choices) <= FEW and not self._is_first(case)
        if not patient and case not in self.budgets:
            self.budgets[case] = self._budget(trial)
        steps = PATIENT if patient else self.budgets[case]
        limit = LONG if patient or self.is_slow else LAUNCH
        right = [what == RIGHT for what in self._run(trial, choices, steps, limit)]
        return right + [False] * (len(choices) - len(right))

    def _is_first(self, case: str) -> bool:
        """Whether a case is the one that edits are tried in first, with which many never end."""
        return bool(self.order) and self.cases[self.order[0]].name == case

    def _budget(self, trial: Trial) -> int:
        """The step limit of a thread: a multiple of what the original kernel takes, if it ends."""
        for steps in BUDGETS:
            if all(what != FAULTS for what in self._run(trial, [()], steps, LONG)):
                return MORE_STEPS * steps
        return STEPS + 4 * self._size(trial.outcome.case)

    def _run(self, trial: Trial, choices: Sequence[Combination], steps: int, limit: float) -> Iterator[int]:
        """The outcome of each, as time permits."""
        device, setup, kernel = self.device, self.setup, self.kernel
        device.schedule, device.step_budget, device.time_limit = setup.schedules[0], steps, limit
        handles = {p.name: place(device, p, trial) for p in kernel.passed}
        for p in kernel.constants:
            setup.module.set_constant(p.name, trial.arrays[p.name])
        arguments = kernel.arguments(handles, trial.dims)
        wanted = [Wanted(handles[t.array.name], t.values, t.tolerance, t.special) for t in trial.targets]
        launch, compiled = trial.launch, setup.kernels[kernel.name]
        launch.allow(compiled)
        given = launch.grid, launch.block, arguments, wanted, launch.shared_mem, HANGS, self.apart
        for at in range(0, len(choices), REQUEST):
            chosen = rows(choices[at : at + REQUEST], len(self.schemata.sites))
            found = compiled.variants("backwarp", chosen, *given)
            yield from found
            if len(found) < len(chosen):
                return

    @cached_property
    def apart(self) -> bool:
        """Whether, judging by the text, every output element is computed by one thread or block."""
        file, fault = read(self.source), self.verdict.fault or {}
        function = file.function(self.kernel.name)
        pointers = {v.name for v in function.parameters if v.pointer} if function else set()
        if fault.get("kind") == "race" and fault.get("array") in pointers:
            return False
        others = [k.whole for k in file.kernels if k.name != self.kernel.name]
        joint = (t for t in file.tokens if _JOINT.match(t.code))
        return all(any(other.holds(t) for other in others) for t in joint)


class Keys:
    """A key for the effect of an edit in a case where names have these values: equal keys mean equal effects."""

    def __init__(self, values: dict[str, int]):
        self.values, self.pools = values, {}

    def of(self, choice: Choice) -> tuple:
        pool = choice.site.pool
        if id(pool) not in self.pools:
            known = [self.values.get(e.text, e.text if e.known is None else e.known) for e in pool]
            for i, e in enumerate(pool):
                if e.of and (value := value_of(e.program, known)) is not None:
                    known[i] = value
            self.pools[id(pool)] = known
        known, which = self.pools[id(pool)], (choice.site.number, choice.operation)
        return (*which, known[choice.a], known[choice.b]) if known else which


def renamed(array: Array, own: Mapping[str, str]) -> Array:
    """An array whose sizes are called by the values of `own`."""
    sizes = (re.sub(r"[A-Za-z_]\w*", lambda m: own.get(m[0], m[0]), str(size)) for _, size in array.axes)
    return replace(array, axes=tuple((letter, size) for (letter, _), size in zip(array.axes, sizes)))


def with_small_blocks(source: str, kernel: Kernel, dims: dict[str, int]) -> str:
    """The text with small blocks, if its `constexpr` numbers set the block size; offsets stay the same."""
    before, text = tunables(source), source
    whole = 32 if _WARPS.search(_code(source, kernel.name)) else 1

    def threads(text: str) -> int:
        try:
            block = kernel.launch(dims, tunables(text)).block
        except (CourseError, ArithmeticError, ValueError, TypeError):
            return 0
        return math.prod(block) if isinstance(block, tuple) else block

    taken: dict[int, int] = {}  # the new numbers: of two, the larger one stays larger
    for name, value in sorted(before.items(), key=lambda item: item[1]):
        number = re.compile(rf"(\bconstexpr\s+int\s+{name}\s*=\s*){value}(?=\s*;)")
        least = SMALL
        while least < value:
            smaller = number.sub(lambda m, least=least: m[1] + str(least).ljust(len(str(value))), text)
            larger = all(least > small or value == own for small, own in taken.items())
            if larger and FEWEST <= threads(smaller) < threads(text) and threads(smaller) % whole == 0:
                text, taken[least] = smaller, value
                break
            least *= 2
    return text


def has_barriers(source: str, kernel: str) -> bool:
    """Whether threads synchronize, which takes so long that optimised code pays off."""
    return bool(_BARRIERS.search(_code(source, kernel)))


def _code(source: str, kernel: str) -> str:
    """A kernel and the functions that it may call, without comments."""
    functions = [f for f in read(source).functions if f.name == kernel or not f.is_kernel]
    return " ".join(token.code for f in functions for token in f.whole.tokens)
