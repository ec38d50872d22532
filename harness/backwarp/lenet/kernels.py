"""How LeNet's kernels are launched.

A launch comes from the puzzle's declaration: the sizes from the shapes of the arrays, grid and block from the
sizes.
"""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from ..course.declare import Array, Kernel, Launch, Puzzle
from ..cuda.values import Tunables, tunables
from ..devices.virtual.explain.metrics import global_bytes
from ..errors import CompileError, DeviceError, KernelFault, LaunchMistake
from .choices import Choice, to_be_cleared

#: sizes that no array determines: LeNet's strides and the like, and the threads per block if a puzzle leaves
#: them open
SIZES = {
    "stride": 1,
    "stride_h": 1,
    "stride_w": 1,
    "padding": 0,
    "pad": 0,
    "pad_h": 0,
    "pad_w": 0,
    "dilation": 1,
    "dilation_h": 1,
    "dilation_w": 1,
    "groups": 1,
    "threads": 128,
    "tx": 16,
    "ty": 16,
}

#: seconds that a launch has taken in all, or will take, before its kernel is compiled for its sizes
WORTH_COMPILING = 0.5


class Bound:
    """A compiled kernel with its arrays and everything derived from their shapes; called many times.

    dims: see sizes_of. float scalars are passed by name at every call. moved: bytes of global memory so far,
    if the device counts them.
    """

    def __init__(
        self, function, choice: Choice, kernel: Kernel, t: Tunables, arrays: Mapping[str, object], dims
    ):
        self.function, self.folder, self.moved = function, choice.puzzle.id, 0
        cleared = [arrays[p.name] for p in kernel.arrays if to_be_cleared(p)]
        # seconds spent in launches; -inf if it cannot, or need not, be compiled for its sizes
        self.total = 0.0 if hasattr(function, "fixed") else -math.inf
        self.launches, self.least = 0, math.inf
        self.cleared = [(array, np.zeros(array.shape, array.dtype)) for array in cleared]
        self.constants = [(p.name, arrays[p.name]) for p in kernel.constants]
        self.args: list = []
        self.floats: dict[str, tuple[int, type]] = {}
        try:
            launch: Launch = kernel.launch(dict(dims), t)
            for position, p in enumerate(kernel.params):
                if isinstance(p, Array):
                    self.args.append(arrays[p.name])
                elif np.dtype(p.dtype).kind == "f" and p.value is None:
                    self.floats[p.name] = position, np.dtype(p.dtype).type
                    self.args.append(None)
                else:
                    self.args.append(np.dtype(p.dtype).type(p.resolve(dims)))
        except KeyError as e:
            raise LaunchMistake(
                f"{kernel.name} of {choice.puzzle.id} needs the size {e.args[0]!r}, "
                "which LeNet's arrays do not show"
            ) from None
        self.grid, self.block, self.shared_mem = launch.grid, launch.block, launch.shared_mem

    def __call__(self, scalars: Mapping[str, float]) -> float:
        """Launches, waits, and returns the seconds it took."""
        self.check(scalars)
        for array, zeros in self.cleared:
            array.set(zeros)
        started = time.perf_counter()
        try:
            launch = self._launch(scalars)
        except KernelFault as fault:
            raise self.located(fault) from None
        seconds = time.perf_counter() - started
        if launch.counters:
            self.moved += global_bytes(launch.counters)
        return seconds

    @property
    def functions(self) -> tuple:
        return (self.function,)

    def check(self, scalars: Mapping[str, float]) -> None:
        """Errors: LaunchMistake if these are not the kernel's numbers."""
        if scalars.keys() != self.floats.keys():
            wanted = ", ".join(f"{name}=..." for name in self.floats) or "none"
            raise LaunchMistake(f"{self.function.name} takes these numbers by name: {wanted}")

    def record(self, scalars: Mapping[str, float]) -> list:
        """Adds its launches to the graph being recorded; returns them."""
        for array, zeros in self.cleared:
            array.set(zeros)
        return [self._launch(scalars)]

    def change(self, nodes: list, scalars: Mapping[str, float]) -> None:
        """Gives these launches other numbers."""
        for node in nodes:
            node.change(self._arguments(scalars))

    def located(self, fault: KernelFault) -> KernelFault:
        """Adds the puzzle whose file has the fault."""
        fault.file = f"{self.folder}/{fault.file}"
        return fault

    def took(self, seconds: float, again: int) -> None:
        """A launch has taken this long. again: how many more like it are certain to come."""
        self.total, self.least = self.total + seconds, min(self.least, seconds)
        self.launches += 1
        # the first launch takes longer than the others
        expected = again * self.least if self.launches > 2 else 0.0
        if self.total + expected > WORTH_COMPILING:
            self.compile_for_sizes()

    def _launch(self, scalars: Mapping[str, float]):
        for name, array in self.constants:
            self.function.module.set_constant(name, array)
        return self.function(self.grid, self.block, self._arguments(scalars), shared_mem=self.shared_mem)

    def _arguments(self, scalars: Mapping[str, float]) -> list:
        for name, (position, kind) in self.floats.items():
            self.args[position] = kind(scalars[name])
        return self.args

    def compile_for_sizes(self) -> None:
        """Switches to a kernel compiled for these sizes; once, and only on a device that supports it."""
        if self.total < 0:
            return
        self.total = -math.inf
        # on a busy machine compiling may take too long: keep the old kernel
        with suppress(CompileError, DeviceError):
            self.function = self.function.fixed(self.args, self.block)


class TwoPasses:
    """Two kernels, the second running on the output of the first, called as if they were one. See Bound."""

    def __init__(self, first: Bound, then: Bound):
        self.passes = first, then

    @property
    def total(self) -> float:
        return max(bound.total for bound in self.passes)

    @property
    def moved(self) -> int:
        return sum(bound.moved for bound in self.passes)

    def __call__(self, scalars: Mapping[str, float]) -> float:
        return sum(bound(scalars) for bound in self.passes)

    @property
    def functions(self) -> tuple:
        return tuple(bound.function for bound in self.passes)

    def check(self, scalars: Mapping[str, float]) -> None:
        for bound in self.passes:
            bound.check(scalars)

    def record(self, scalars: Mapping[str, float]) -> list:
        return [node for bound in self.passes for node in bound.record(scalars)]

    def change(self, nodes: list, scalars: Mapping[str, float]) -> None:
        for bound, node in zip(self.passes, nodes):
            bound.change([node], scalars)

    def located(self, fault: KernelFault) -> KernelFault:
        return self.passes[0].located(fault)

    def took(self, seconds: float, again: int) -> None:
        for bound in self.passes:
            bound.took(seconds / 2, again)

    def compile_for_sizes(self) -> None:
        for bound in self.passes:
            bound.compile_for_sizes()


def sizes_of(choice: Choice, arrays: Mapping[str, object]) -> dict[str, int]:
    """Every size of a kernel, from the shapes of its arrays. Errors: LaunchMistake if they disagree.

    Axes that the kernel does not distinguish are merged, the last ones first: (N, 16, 4, 4) is (N, 256) for a
    fully connected layer and 256 N elements for a ReLU.
    """
    kernel, dims, seen = choice.kernel, {}, {}
    for p in choice.arrays:
        shape = arrays[p.name].shape
        if len(shape) < len(p.axes):
            raise LaunchMistake(
                f"{kernel.name}: {p.name} has {len(p.axes)} axes; {arrays[p.name].name} has the shape {shape}"
            )
        kept = len(p.axes) - 1
        shape = (*shape[:kept], int(np.prod(shape[kept:])))
        for (_, size), extent in zip(p.axes, shape):
            known = size if isinstance(size, int) else dims.setdefault(size, extent)
            if known != extent:
                where = seen.get(size, kernel.name)
                raise LaunchMistake(
                    f"{kernel.name}: {arrays[p.name].name} as {p.name} makes {size} {extent}, "
                    f"but it is {known} in {where}"
                )
            if isinstance(size, str):
                seen.setdefault(size, f"{arrays[p.name].name} as {p.name}")
    for size, extent in dims.items():
        others = {name: n for name, n in dims.items() if name != size}
        expected = derived_sizes(choice.puzzle, others).get(size, extent)
        if expected != extent:
            raise LaunchMistake(
                f"{kernel.name}: the other arrays make {size} {expected}, but it is {extent} in {seen[size]}"
            )
    return {**SIZES, **derived_sizes(choice.puzzle, dims), **dims}


def derived_sizes(puzzle: Puzzle, dims: dict[str, int]) -> dict[str, int]:
    """The puzzle's derived sizes; none if they need a size that this kernel does not know."""
    dims = dict(dims)
    while puzzle.dims:
        try:
            return puzzle.dims(dict(dims))
        except KeyError as e:
            if e.args[0] in dims or e.args[0] not in SIZES:
                break
            dims[e.args[0]] = SIZES[e.args[0]]
    return {}


class Kernels:
    """The chosen kernels, compiled for a device."""

    def __init__(self, device, choices: Mapping[str, Choice]):
        self.device, self.choices, self.functions, self.tunables, modules = device, choices, {}, {}, {}
        if hasattr(device, "compile_ahead"):
            files = {
                c.puzzle.id: (c.source, c.puzzle.file, c.puzzle.include_dirs, (), ())
                for c in choices.values()
            }
            device.compile_ahead(files.values())
        for role, choice in choices.items():
            key = choice.puzzle.id
            if key not in modules:
                puzzle = choice.puzzle
                modules[key] = device.compile(
                    choice.source, name=puzzle.file, include_dirs=puzzle.include_dirs
                )
            kernels = [choice.kernel, choice.then] if choice.then else [choice.kernel]
            self.functions[role] = [modules[key].get_function(kernel.name) for kernel in kernels]
            self.tunables[role] = tunables(choice.source)

    def bind(self, role: str, arrays: tuple) -> Bound | TwoPasses:
        """The kernel with its arrays, in the order of its signature in part 1. Errors: LaunchMistake."""
        if role not in self.choices:
            near = difflib.get_close_matches(str(role), self.choices, n=1)
            raise LaunchMistake(
                f"there is no kernel {role!r}" + (f"; did you mean {near[0]}?" if near else "")
            )
        choice = self.choices[role]
        wanted = [a.name for a in choice.home.arrays]
        if len(arrays) != len(wanted):
            raise LaunchMistake(
                f"{role} takes {len(wanted)} arrays ({', '.join(wanted)}); {len(arrays)} were given"
            )
        for name, array in zip(wanted, arrays):
            if not hasattr(array, "shape") or isinstance(array, np.ndarray | np.generic):
                raise LaunchMistake(f"{role}: {name} is a {type(array).__name__}, not an array on the device")
        named = dict(zip(wanted, arrays))
        for p in choice.arrays:
            if named[p.name].dtype != p.dtype:
                raise LaunchMistake(
                    f"{role}: {p.name} holds {p.dtype}, but {named[p.name].name} holds {named[p.name].dtype}"
                )
        dims, t = sizes_of(choice, named), self.tunables[role]
        if not choice.then:
            return Bound(self.functions[role][0], choice, choice.kernel, t, named, dims)
        (handed,) = choice.kernel.outputs
        shape = handed.shape(dims)
        named[handed.name] = self.device.empty(
            shape, np.dtype(handed.dtype), name=handed.name, axes=handed.letters
        )
        first, then = zip(self.functions[role], (choice.kernel, choice.then))
        return TwoPasses(*(Bound(f, choice, kernel, t, named, dims) for f, kernel in (first, then)))
