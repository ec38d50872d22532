"""`backwarp bench`: runs a kernel on a big case: on a GPU its time, next to cuDNN's; without one its counts.

No printing. On the virtual GPU a launch is counted completely if its threads execute at most BUDGET
instructions; for a larger one only some blocks run, spread evenly over the grid, and the counts are
extrapolated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np

from ..course import least_work
from ..course.declare import Array, Case, Kernel, Launch, Puzzle
from ..course.inputs import derive_seed, make_array
from ..cuda.values import Tunables, tunables
from ..devices.launching import triple
from ..devices.virtual.ptx.spellings import find
from ..errors import CourseError, KernelFault, LaunchError
from ..grading.compare import compare, expectations
from ..grading.grade import Stop, checked_source, end, open_for, prepare, shown_path
from ..grading.runs import Setup
from ..grading.verdict import PASSED, Verdict
from . import baseline, peaks, shapes
from .figures import RIGHT, WRONG, BenchResult, Measured

BUDGET = 500_000_000  # instructions of all threads in a launch that is counted completely: a few seconds
LIMIT = 60.0  # seconds for one block that is counted, and for all timed launches
PATIENCE = 900.0  # seconds for blocks that are known to end
AFFORDABLE = 2_000_000_000  # multiply-adds, and elements, up to which results are compared
PATTERN = 1 << 20  # values drawn for an array; a larger array repeats them


@dataclass(frozen=True)
class BenchOptions:
    """shape, init, repeat, device: as on the command line. verify: None if not given.

    gpu: a name from the peaks table, for reports without a GPU. budget: replaces BUDGET. only: some of the
    kernels. libraries: whether a GPU's libraries are timed as well. compared: replaces AFFORDABLE.
    """

    shape: str = ""
    init: str = "normal"
    verify: bool | None = None
    repeat: int = 20
    device: str = "auto"
    gpu: str = "H200"
    seed: int = 0
    budget: float | None = None
    only: tuple[str, ...] = ()
    libraries: bool = True
    compared: int | None = None


def bench(puzzle: Puzzle, path: Path, settings: BenchOptions, opener: Callable | None = None) -> BenchResult:
    """Measure the kernels of a file. Errors: CourseError for an impossible request; DeviceError."""
    if opener is None:
        from ..devices import confined_device as opener
    if puzzle.program:
        raise CourseError(
            f"{puzzle.id} has no kernels of its own; `python -m backwarp.maintain.bench_lenet` times a step of LeNet, and on "
            "a GPU `python puzzles/44_streams/streams.py` times puzzle 44"
        )
    shape, peak = shapes.shape_of(puzzle, settings.shape, settings.init), peaks.named(settings.gpu)
    verdict = Verdict(puzzle=puzzle.id, title=puzzle.title, file=shown_path(puzzle, path))
    verdict.next = f"backwarp grade {puzzle.number}"
    report = BenchResult(puzzle, verdict, shape.case.dims, [], peak, shape.unused)
    try:
        source = checked_source(puzzle, path, verdict)
        with open_for(puzzle, opener, settings.device, checks="count", seed=settings.seed) as device:
            kind = device.kind
            verdict.device, verdict.device_kind, verdict.device_reason = device.name, kind, device.reason
            setup = Setup(device, (1,))
            prepare(setup, puzzle, source, path.name)
            if kind == "gpu":
                report.peak = peaks.of_device(device.name)
            for kernel in [k for k in puzzle.kernels if not settings.only or k.name in settings.only]:
                run = Measuring(puzzle, kernel, shape.case, setup, tunables(source), settings)
                report.kernels.append(run.timed() if kind == "gpu" else run.counted())
        if kind == "gpu" and settings.libraries:
            compare_with_libraries(puzzle, report, settings.repeat)
    except Slow:
        raise CourseError(
            f"counting takes more than {PATIENCE:g} seconds; choose a smaller --shape"
        ) from None
    except Stop as stop:
        report.verdict, report.kernels = end(verdict, stop), []
        return report
    wrong = [m.kernel for m in report.kernels if m.result == WRONG]
    if wrong:
        lines = [f"{', '.join(wrong)}: wrong on this shape, so its figures mean nothing"]
        report.verdict = replace(verdict, status="failed", kind="wrong", lines=lines)
    else:
        report.verdict = replace(verdict, status=PASSED, next="")
    return report


class Slow(Exception):
    """A block takes too long to count."""


class Measuring:
    """One kernel with its arrays on the device."""

    def __init__(
        self, puzzle: Puzzle, kernel: Kernel, case: Case, setup: Setup, t: Tunables, settings: BenchOptions
    ):
        self.puzzle, self.kernel, self.case, self.settings = puzzle, kernel, case, settings
        self.setup, self.tunables = setup, t
        self.device, self.module, self.function = setup.device, setup.module, setup.kernels[kernel.name]
        self.dims = puzzle.full_dims(case)
        self.fits()
        try:
            self.launch: Launch = kernel.launch(dict(self.dims), t)
        except (ArithmeticError, ValueError, TypeError) as error:
            raise CourseError(f"no launch of {kernel.name} can be computed for this shape: {error}") from None
        self.device.schedule = 0
        self.device.time_limit = LIMIT
        self.inputs = inputs(puzzle, case, kernel, settings.seed)
        self.handles = {p.name: self.place(p) for p in kernel.passed}
        self.compared = self.affordable(case, usual=False)
        self.before = {p.name: self.handles[p.name].get() for p in kernel.outputs} if self.compared else {}
        grid, block = triple(self.launch.grid, "grid"), triple(self.launch.block, "block")
        work = least_work.flops(kernel, self.dims), least_work.least_bytes(kernel, self.dims)
        text = self.module.compiled.text
        self.found = Measured(kernel.name, grid, block, *work, arithmetic(text, kernel.name))

    def fits(self) -> None:
        """Errors: CourseError if the arrays do not fit into the virtual GPU, with the size that would."""
        room = getattr(self.device, "room", 0) // 2
        nbytes = least_work.array_bytes(self.kernel, self.dims)
        if not room or nbytes <= room:
            return
        name = leading(self.case.dims)
        told = f"the arrays of {self.kernel.name} take {nbytes / 1e6:,.0f} MB, but the virtual GPU has room"
        told += f" for {room / 1e6:,.0f}"

        def fitting(size: int) -> bool:
            dims = self.puzzle.full_dims(with_size(self.case, name, size))
            return least_work.array_bytes(self.kernel, dims) <= room

        low, high = 0, self.case.dims.get(name, 0)
        while name and high - low > 1:
            low, high = ((low + high) // 2, high) if fitting((low + high) // 2) else (low, (low + high) // 2)
        raise CourseError(told + (f"; the largest that fits is {name}={low}" if low else ""))

    def place(self, p: Array):
        """The array on the device: an input with its values, an output uninitialised."""
        if p.is_input:
            return self.device.array(
                self.inputs[p.name], name=p.name, axes=p.letters, readonly=p.role == "in"
            )
        return self.device.empty(p.shape(self.dims), np.dtype(p.dtype), name=p.name, axes=p.letters)

    def affordable(self, case: Case, usual: bool = True) -> bool:
        """Whether to compare results in a case. usual: the default, only if that is quick."""
        if not usual and self.settings.verify is not None:
            return self.settings.verify
        dims = self.puzzle.full_dims(case)
        work = (least_work.flops(self.kernel, dims) or 0) // 2
        most = self.settings.compared or (AFFORDABLE if self.device.kind == "gpu" else AFFORDABLE // 100)
        return max(work, *(prod(a.shape(dims)) for a in self.kernel.arrays)) <= most

    def arguments(self) -> tuple:
        """The kernel's arguments, in the order of its parameters."""
        return self.kernel.arguments(self.handles, self.dims)

    def __call__(self):
        """One launch. Errors: Stop if the kernel does not complete."""
        try:
            for p in self.kernel.constants:
                self.module.set_constant(p.name, self.inputs[p.name])
            return self.launch.of(self.function, self.arguments())
        except (KernelFault, LaunchError) as error:
            if getattr(error, "kind", "") == "timeout" and self.device.kind == "cpu":
                raise Slow from None
            raise Stop("fault", str(error).splitlines()) from None

    # ---- the virtual GPU ---------------------------------------------------------------------------------

    def counted(self) -> Measured:
        """Counts, of all blocks or of some."""
        found, device = self.found, self.device
        device.sample_blocks = 1
        try:
            one = self.one_block()
            fit = (self.settings.budget or BUDGET) / max(one["thread_instructions"], 1)
            found.ran = int(min(found.blocks, max(fit, 2)))
            device.sample_blocks = found.ran
            counters = one if found.blocks == 1 else self.again().counters
        finally:
            device.sample_blocks = 0
        if found.sampled:
            counters = {
                name: round(n * found.blocks / found.ran) for name, n in counters.items() if name != "lines"
            }
        found.counters = {name: n for name, n in counters.items() if name != "lines"}
        found.result = self.judged() if self.compared and not found.sampled else self.judged_smaller()
        return found

    def again(self):
        """Repeats the counted launch, with the outputs restored to their initial state."""
        for p in self.kernel.outputs:
            self.handles[p.name] = self.place(p)
        self.device.time_limit = PATIENCE
        return self()

    def one_block(self) -> dict:
        """The counters of one block. Errors: CourseError if it takes too long, suggesting a size that
        works."""
        try:
            return self().counters
        except Slow:
            told = f"one block of {self.kernel.name} takes more than {LIMIT:g} seconds to count"
        name = leading(self.case.dims)
        size = self.case.dims.get(name, 1)
        while size > 1:
            size //= 2
            try:
                case = with_size(self.case, name, size)
                Measuring(self.puzzle, self.kernel, case, self.setup, self.tunables, self.settings)()
            except Slow:
                continue
            told += f"; it works with {name}={size}"
            break
        raise CourseError(told)

    # ---- a GPU ---------------------------------------------------------------------------------------------

    def timed(self) -> Measured:
        """Times the kernel, after one warm-up launch whose results are compared."""
        self()
        self.found.result = self.judged() if self.compared else self.judged_smaller()
        try:
            launch = self.launch.grid, self.launch.block, self.arguments(), self.launch.shared_mem
            self.found.milliseconds = self.function.time(*launch, self.settings.repeat)
        except (KernelFault, LaunchError) as error:
            raise Stop("fault", str(error).splitlines()) from None
        return self.found

    # ---- is it right? --------------------------------------------------------------------------------------

    def judged(self) -> str:
        """RIGHT or WRONG: the outputs of the last launch, compared with the reference."""
        targets = expectations(self.puzzle, self.case, self.kernel, self.inputs)
        for target in targets:
            name = target.array.name
            if compare(target, self.handles[name].get(), self.before[name]):
                return WRONG
        return RIGHT

    def judged_smaller(self) -> str:
        """The result of the same kernel with a smaller batch, if comparing all of it would take too long."""
        if self.settings.verify is False:
            return "not compared, as asked for"
        case = self.smaller_case()
        if case is None:
            return "not compared: the reference would take long; --verify compares anyway"
        smaller = Measuring(self.puzzle, self.kernel, case, self.setup, self.tunables, self.settings)
        self.device.time_limit = PATIENCE
        smaller()
        if smaller.judged() == WRONG:
            return WRONG
        changed = (f"{name}={n}" for name, n in case.dims.items() if n != self.case.dims[name])
        return f"{RIGHT} with {' '.join(changed)}; not compared as a whole"

    def smaller_case(self) -> Case | None:
        """The case with the batch halved, then the output's channels, until it can be compared."""
        case = self.case
        channels = ("C_out", "n_out", "N") if case.dims.get("groups", 1) == 1 else ()
        for name in (leading(case.dims), *channels):
            while case.dims.get(name, 0) > 1:
                case = with_size(case, name, case.dims[name] // 2)
                if self.affordable(case):
                    return case
        return None


def leading(dims: Mapping[str, int]) -> str:
    """The dimension to shrink to make a case smaller, such as its batch; "" if there is none."""
    return next((name for name in ("batch", "n", "M", "rows") if name in dims), "")


def with_size(case: Case, name: str, size: int) -> Case:
    return replace(case, dims={**case.dims, name: size})


def inputs(puzzle: Puzzle, case: Case, kernel: Kernel, seed: int) -> dict[str, np.ndarray]:
    """The input arrays; for a large, normally distributed one only PATTERN values are drawn."""
    made, dims = {}, puzzle.full_dims(case)
    for p in kernel.arrays:
        if not p.is_input:
            continue
        rng = np.random.default_rng(derive_seed(seed, puzzle.id, case.name, p.name))
        shape = p.shape(dims)
        plain = (
            case.inputs.get(p.name, p.values) is None
            and case.values == "normal"
            and p.dtype.startswith("float")
        )
        if plain and prod(shape) > PATTERN:
            made[p.name] = np.resize(rng.standard_normal(PATTERN, np.float32).astype(p.dtype), shape)
        else:
            made[p.name] = make_array(p, case, dims, rng, made)
    return made


def arithmetic(ptx: str, name: str) -> str:
    """The peak to compare a kernel with: the tensor cores' (half or TF32) if its PTX uses them."""
    body = next((part for part in re.split(r"\.entry\s+", ptx)[1:] if name in part.split("(")[0]), "")
    ops = filter(None, map(find, set(re.findall(r"\b[a-z]\w*(?:\.\w+)+", body))))
    factors = {op.elements["a"] for op in ops if op.counts == "tensor"}
    return "float32" if not factors else "tf32" if "tf32" in factors else "half"


def compare_with_libraries(puzzle: Puzzle, report: BenchResult, repeat: int) -> None:
    """Fills in the baselines."""
    dims = puzzle.full_dims(Case("bench", report.dims))
    for m in report.kernels:
        job = baseline.job_of(puzzle.kernel(m.kernel), dims)
        if job:
            m.baseline = baseline.measure({**job, "repeat": repeat})
