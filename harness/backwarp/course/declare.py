"""A puzzle's declaration: kernels, parameters, cases, mistakes, hints.

A puzzle is a folder `puzzles/NN_name/` with `puzzle.py` (one `PUZZLE = Puzzle(...)`), `kernel.cu` (the
stub that the student edits) and `README.md` (the lesson); `solutions/NN_name/kernel.cu` mirrors it.
The folder name is the puzzle's id: there is no registry; `checkout.py` finds and loads it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import CourseError, NoSolution
from ..once import once
from .mistakes import Mistake, mistakes_in  # noqa: F401  (some of these are for puzzles alone)
from .parameters import Array, Constant, Float, In, InOut, Int, Out, Param, Scalar, require  # noqa: F401

USUAL_SHARED = 48 << 10  # bytes of a block, static and dynamic
PRISTINE = Path("puzzles", ".stubs")  # in a student's course, which has no solutions to derive stubs from
PARTS = {
    1: "LeNet, one thread per answer",
    2: "Every convolution",
    3: "Reductions and memory",
    4: "Convolution as GEMM",
    5: "LeNet",
    6: "After the course (optional)",
}


#: pick(low, high) or pick(low, high, step): one of low, low + step, ... up to high
Pick = Callable[..., int]


def ceil_div(a: int, b: int) -> int:
    """How many blocks of `b` cover `a` items."""
    return -(-a // b)


@dataclass(frozen=True)
class Launch:
    """grid and block as int or tuple of up to three; shared_mem: bytes of dynamic shared memory."""

    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    shared_mem: int = 0

    def of(self, function, args: tuple):
        """Launches a kernel, which opts in to more shared memory than every kernel gets. Errors: KernelFault, LaunchError."""
        self.allow(function)
        return function(self.grid, self.block, args, shared_mem=self.shared_mem)

    def allow(self, function) -> None:
        if self.shared_mem >= USUAL_SHARED:
            function.max_dynamic_shared_size_bytes = self.shared_mem


@dataclass(frozen=True)
class Kernel:
    """One `__global__` function that the student writes.

    launch(d, t): dims and tunables -> Launch. reference(a, d): the inputs as float64 (integers as
    they are) and the dims -> the output array, or a dict of arrays by name where there are several.
    magnitude(a, d): like reference, but the sum of |a*b| that rounding errors scale with; default: the
    reference applied to |inputs|, which is right for sums of products. constants: filled before each launch.
    flops(d): FLOP of the textbook formula, if least_work.flops does not know it. short: sizes that only
    files that keep them in few bits are tried with where they are longer than 16 bits can count, as that takes long.
    """

    name: str
    params: tuple[Param, ...]
    launch: Callable[[dict[str, int], Mapping[str, int]], Launch]
    reference: Callable[[dict[str, Any], dict[str, int]], Any]
    magnitude: Callable[[dict[str, Any], dict[str, int]], Any] | None = None
    rtol: float | None = None  # default: compare.RTOL
    atol: float | None = None  # default: compare.ATOL
    constants: tuple[Array, ...] = ()
    flops: Callable[[dict[str, int]], int] | None = None
    short: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [p.name for p in (*self.params, *self.constants)]
        require(len(set(names)) == len(names), f"kernel {self.name}: a parameter name occurs twice")
        require(self.outputs, f"kernel {self.name} has no Out or InOut parameter")

    @once
    def arrays(self) -> tuple[Array, ...]:
        """The array parameters, then the constants."""
        return *self.passed, *self.constants

    @once
    def passed(self) -> tuple[Array, ...]:
        return tuple(p for p in self.params if isinstance(p, Array))

    @once
    def by_threads(self) -> tuple[Array, ...]:
        """The arrays that threads read and write themselves: those of which the kernel gets no tensor map."""
        return tuple(p for p in self.arrays if not p.tiles)

    @once
    def outputs(self) -> tuple[Array, ...]:
        return tuple(p for p in self.arrays if p.is_output)

    @once
    def sizes(self) -> frozenset[str]:
        """The dimensions that arrays and scalars are declared with."""
        named = [size for a in self.arrays for _, size in a.axes]
        named += [p.name if p.value is None else p.value for p in self.params if isinstance(p, Scalar)]
        return frozenset(name for name in named if isinstance(name, str))

    def arguments(self, arrays: Mapping[str, Any], dims: dict[str, int]) -> tuple:
        """What a launch passes. arrays: those on the device, by name."""
        return tuple(
            p.argument(arrays[p.name], dims) if isinstance(p, Array) else p.typed(dims) for p in self.params
        )

    @property
    def signature(self) -> str:
        """`name(const float* x, int n)`, as the stub declares it."""
        return f"{self.name}({', '.join(p.declaration for p in self.params)})"


@dataclass(frozen=True)
class Case:
    """One set of sizes and inputs.

    dims: sizes, and the values of Float parameters. draw(pick) -> dims: sizes drawn for each seed, see
    Puzzle.drawn; until then `dims` are those of seed 0. again(pick) -> dims:
    other sizes, drawn for each seed, with which the gates of this case are counted once more. values: "normal", or "integers" (small integers,
    exact in float32, compared for equality). inputs: values by array name, exact or as `Array.values`. check:
    "reference", or "gradient" (the expected values are finite differences, see Gradient). kernels: their
    names, if not all kernels take part.
    special: an infinity or NaN is right where the reference has the same; otherwise it is always wrong.
    stress: unrealistic sizes, for bugs that show only there; never measured or drawn in pictures. hidden: not
    exported to students (`backwarp export`), like stress cases. once: the only build that it is run in, in one order: "full" or "memory". rounding: what an output
    may differ by besides, relative to its magnitude, because many numbers are added up. narrow: the kind and the lines of
    variables that this case may be too large for. scale: by output, what its values are larger than usual.
    """

    name: str
    dims: dict[str, int] = field(default_factory=dict)
    note: str = ""
    values: str = "normal"
    inputs: Mapping[str, Any] = field(default_factory=dict)
    check: str = "reference"
    kernels: tuple[str, ...] = ()
    special: bool = False
    stress: bool = False
    hidden: bool = False
    once: str = ""
    rounding: float = 0.0
    narrow: tuple[str | int, ...] = ()
    scale: Mapping[str, float] = field(default_factory=dict)
    draw: Callable[[Pick], dict[str, int]] | None = None
    again: Callable[[Pick], dict[str, int]] | None = None

    def __post_init__(self) -> None:
        if self.draw and not self.dims:
            object.__setattr__(self, "dims", self.drawn(0).dims)
        require(
            self.values in ("normal", "integers"), f"case {self.name}: values={self.values!r} is not known"
        )
        require(
            self.check in ("reference", "gradient"), f"case {self.name}: check={self.check!r} is not known"
        )

    def drawn(self, seed: int) -> Case:
        """The case with the sizes drawn for a seed; itself if its sizes are fixed."""
        return replace(self, dims=self._sizes(self.draw, seed)) if self.draw else self

    def counted_again(self, seed: int) -> Case:
        """The case with the sizes with which gates are counted once more; itself if there are none."""
        return replace(self, dims=self.dims | self._sizes(self.again, seed)) if self.again else self

    def _sizes(self, draw: Callable[[Pick], dict[str, int]], seed: int) -> dict[str, int]:
        rng = random.Random(f"{seed} {self.name}")
        return draw(lambda low, high, step=1: rng.randrange(low, high + 1, step))


@dataclass(frozen=True)
class Gradient:
    """How a gradient is checked: by central differences of a float64 loss.

    loss(p, a, d) -> float: the loss at `p`, with the kernel's inputs `a` and dims `d`. `p` is the
    input array named `at`, or, where `at` is None, a random point of the output's shape (the
    weights, when the kernel computes the gradient of the weights and does not get them).
    output: which output is the gradient; default the first.
    """

    loss: Callable[[Any, dict[str, Any], dict[str, int]], float]
    at: str | None = None
    output: str = ""
    epsilon: float = 1e-3
    rtol: float = 1e-3


@dataclass(frozen=True)
class Gate:
    """A limit on what a fast kernel may cost, counted in one case; a right kernel above it is "not yet fast".

    quantity: a name of quantities.QUANTITIES or of the counters. most: the bound, a number or f(d), where d are the
    dims and the file's tunables. of: f(d) that computes the quantity from these, where nothing is counted. kernels:
    counted together; default all. case: default the one case of these kernels that has `again`, else the largest. below: the count of the previous rung's kernel. says: where the cost comes from, and the idea that avoids it;
    default: the quantity's general sentence.
    """

    quantity: str
    most: float | Callable[[dict[str, int]], float]
    says: str = ""
    kernels: tuple[str, ...] = ()
    case: str = ""
    below: float | None = None
    hint: int = 1
    of: Callable[[dict[str, int]], float] | None = None

    def limit(self, dims: Mapping[str, int], tunables: Mapping[str, int]) -> float:
        return self.most(known(dims, tunables)) if callable(self.most) else self.most

    def computed(self, dims: Mapping[str, int], tunables: Mapping[str, int]) -> float | None:
        """The quantity, if it is not counted."""
        return self.of(known(dims, tunables)) if self.of else None

    @staticmethod
    def limits(
        *kernels: str, case: str = "", **most: float | Callable[[dict[str, int]], float]
    ) -> tuple[Gate, ...]:
        """Gates by quantity, without sentences of their own: they prevent ways around the gates that teach
        the idea."""
        return tuple(Gate(quantity, bound, kernels=kernels, case=case) for quantity, bound in most.items())


def known(dims: Mapping[str, int], tunables: Mapping[str, int]) -> dict[str, int]:
    """A case's sizes and the file's constants."""
    found = copy(tunables)  # it looks up more of the file's constants on demand
    found.update(dims)
    return found


@dataclass(frozen=True)
class Program:
    """A puzzle that is solved in Python instead of with kernels.

    file: what the student writes. functions: what it defines, as `forward(net)`. check(functions, case,
    device, seed) -> Failure, or None if all is right; the functions run in a confined process, for at most `seconds`
    per case. requests: what they may request from their `net`: verb -> work(net, ...).
    prepare(device): slow work that all cases need, such as compiling; it does not count towards the seconds.
    driver: a module of the harness that runs in the file's process and uses what the file defines: the check
    calls its functions(namespace) as functions["call"](name, net, ...). needs: another module it needs, and
    how to install it. A mistake's `kernel` is then one of the functions.
    """

    file: str
    functions: tuple[str, ...]
    check: Callable[..., Any]
    requests: Mapping[str, Callable[..., Any]]
    seconds: float = 20.0
    prepare: Callable[[Any], object] | None = None
    driver: str = ""
    needs: tuple[str, str] = ("", "")

    @property
    def missing(self) -> str:
        """What to install first; "" if nothing."""
        module, install = self.needs
        return install if module and not find_spec(module) else ""

    @property
    def names(self) -> list[str]:
        """The functions' names."""
        return [signature.split("(")[0] for signature in self.functions]


@dataclass(frozen=True)
class Puzzle:
    """Everything that the harness knows about a puzzle; id and root are filled in by the loader.

    dims(d): derived dimensions, merged into the dims of each case. gradient_of: kernel name ->
    Gradient, or a tuple of them, for cases with check="gradient". lines: "you will write about N lines".
    practice: how libraries and tools use the same idea, shown once the puzzle is solved. repair: the stub is
    code with mistakes to fix, and can be graded as it is. bench: the dims of the big case for `backwarp
    bench`; default: those of the largest case.
    """

    title: str
    part: int
    teaches: str
    kernels: tuple[Kernel, ...]
    cases: tuple[Case, ...]
    hints: tuple[str, ...]
    practice: str = ""
    lines: int = 0
    repair: bool = False
    dims: Callable[[dict[str, int]], dict[str, int]] | None = None
    gradient_of: Mapping[str, Gradient | tuple[Gradient, ...]] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()
    gates: tuple[Gate, ...] = ()
    program: Program | None = None
    bench: Mapping[str, int] = field(default_factory=dict)
    id: str = ""
    root: Path = Path()

    def __post_init__(self) -> None:
        for what, names in (
            ("kernels", [k.name for k in self.kernels]),
            ("cases", [c.name for c in self.cases]),
            ("mistakes", [m.name for m in self.mistakes]),
        ):
            require(len(set(names)) == len(names), f"two {what} have the same name")
        require((self.kernels or self.program) and self.cases, "a puzzle needs a kernel and a case")
        for m in self.mistakes:
            if len(self.kernels) > 1:
                self.kernel(m.kernel)
            require(1 <= m.hint <= len(self.hints), f"mistake {m.name!r}: there is no hint {m.hint}")
        for gate in self.gates:
            for name in gate.kernels:
                self.kernel(name)
            require(
                not gate.case or gate.case in [c.name for c in self.cases],
                f"a gate counts in {gate.case!r}, no case",
            )
        object.__setattr__(self, "gates", tuple(map(self._with_case, self.gates)))
        for case in (*self.cases, *([Case("bench", dict(self.bench))] if self.bench else [])):
            self._check_case(case)

    def _with_case(self, gate: Gate) -> Gate:
        counted = [
            c for c in self.cases if c.again and not (c.kernels and set(gate.kernels).isdisjoint(c.kernels))
        ]
        return replace(gate, case=counted[0].name) if not gate.case and len(counted) == 1 else gate

    def _check_case(self, case: Case) -> None:
        dims = self.full_dims(case)
        for kernel in self.kernels_of(case):
            params = (*kernel.params, *kernel.constants)
            if kernel.sizes <= dims.keys():  # then only functions can need more
                params = [p for p in kernel.params if isinstance(p, Scalar) and callable(p.value)]
            for p in params:
                try:
                    p.shape(dims) if isinstance(p, Array) else p.resolve(dims)
                except KeyError as e:
                    where = f"case {case.name}: parameter {p.name!r} of {kernel.name}"
                    raise CourseError(
                        f"{where} needs the dimension {e.args[0]!r}, which is not there"
                    ) from None
            if case.check == "gradient":
                require(self.gradient_of, f"case {case.name} checks a gradient, but gradient_of is empty")

    def kernel(self, name: str) -> Kernel:
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise CourseError(f"there is no kernel {name!r}; there is {', '.join(k.name for k in self.kernels)}")

    def kernels_of(self, case: Case) -> tuple[Kernel, ...]:
        return tuple(self.kernel(name) for name in case.kernels) or self.kernels

    def mistakes_of(self, kernel: Kernel) -> tuple[Mistake, ...]:
        alone = self.kernels == (kernel,)
        return tuple(m for m in self.mistakes if m.kernel == kernel.name or alone)

    def followers(self, kernel: Kernel) -> tuple[Kernel, ...]:
        """The kernels that finish its work, such as a second pass: they read nothing but its one output."""
        made = kernel.outputs[0].name if len(kernel.outputs) == 1 else ""
        return tuple(
            k for k in self.kernels if k is not kernel and [a.name for a in k.arrays if a.is_input] == [made]
        )

    def drawn(self, seed: int) -> Puzzle:
        """The puzzle with the sizes of all cases drawn for a seed; itself if they are all fixed."""
        if not any(case.draw for case in self.cases):
            return self
        return replace(self, cases=tuple(case.drawn(seed) for case in self.cases))

    @once
    def by_size(self) -> tuple[Case, ...]:
        """The cases, smallest first."""

        def size(case: Case) -> int:
            dims = self.full_dims(case)
            return sum(math.prod(a.shape(dims)) for k in self.kernels_of(case) for a in k.arrays)

        return tuple(sorted(self.cases, key=size))

    def full_dims(self, case: Case) -> dict[str, int]:
        """The dims of a case, with the derived ones."""
        return {**case.dims, **(self.dims(dict(case.dims)) if self.dims else {})}

    def gradients(self, kernel: Kernel) -> tuple[Gradient, ...]:
        found = self.gradient_of.get(kernel.name, ())
        return found if isinstance(found, tuple) else (found,)

    @property
    def is_hopper(self) -> bool:
        """Whether its kernels get tensor maps, and use wgmma."""
        return any(a.tiles for kernel in self.kernels for a in kernel.passed)

    @property
    def number(self) -> str:
        """The short id: `09`."""
        return self.id.split("_")[0]

    @property
    def folder(self) -> Path:
        return self.root / "puzzles" / self.id

    @property
    def file(self) -> str:
        """The name of the file that the student writes."""
        return self.program.file if self.program else "kernel.cu"

    @property
    def stub_path(self) -> Path:
        return self.folder / self.file

    @property
    def lesson_path(self) -> Path:
        return self.folder / "README.md"

    @property
    def has_solution(self) -> bool:
        """Not in a course for students."""
        return (self.root / "solutions").is_dir()

    @property
    def solution_path(self) -> Path:
        """Errors: NoSolution in a student's course."""
        if not self.has_solution:
            raise NoSolution(
                f"this needs the solution of {self.id}, and this copy of the course has no solutions"
            )
        return self.root / "solutions" / self.id / self.file

    @property
    def pristine_path(self) -> Path:
        """The untouched stub, in a student's course; elsewhere it is derived from the solution."""
        return self.root / PRISTINE / self.id / self.file

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        """Where kernels find the course's own headers."""
        return (self.root / "puzzles" / "include",)
