"""The virtual GPU as a device: arrays, modules, kernels, launches, with CuPy's calling convention."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import weakref
from dataclasses import replace

import numpy as np

from ...errors import CompileError, DeviceError, LaunchError
from ..launching import CompiledFile, Launch, Limits, check_arguments, check_shape, constant_bytes, triple
from ..nvrtc.compiler import Ptx
from ..nvrtc.symbols import demangle
from .compile.build import Built, build, build_ptx
from .compile.link import Executable
from .compile.modules import KernelInfo
from .compile.recipes import BUILDS, RECIPES, Check
from .explain.faults import NOTES, Diagnosis
from .explain.owners import local_name
from .explain.unset import unset_outputs
from .ptx.types import BYTES
from .run.arena import Arena, Owner
from .run.printf import Output
from .run.tally import Tally
from .run.trace import Steps
from .run.workers import (
    STEP_BUDGET,
    Workers,
    available_cores,
    block_order,
    deadline,
    opposite_order,
    spread_order,
    thread_order,
)
from .runtime import abi

LIMITS = Limits()
ENOUGH = 1.0  # seconds of launches after which optimising a quickly compiled module pays off


class Array:
    """An array in device memory."""

    def __init__(self, device: VirtualGPU, owner: Owner, shape, dtype):
        self.device, self._owner = device, owner
        self.shape, self.dtype, self.nbytes, self.name = shape, dtype, owner.nbytes, owner.name
        self.size = int(np.prod(shape, dtype=np.int64))
        weakref.finalize(self, device.arena.release, owner)

    @property
    def pointer(self) -> int:
        """The device address."""
        return self._owner.start

    def _view(self) -> np.ndarray:
        memory = self.device.arena.bytes[self._owner.start : self._owner.start + self.nbytes]
        return memory.view(self.dtype).reshape(self.shape)

    def get(self) -> np.ndarray:
        """A copy on the host."""
        return self._view().copy()

    def set(self, values) -> None:
        """Overwrite it from the host; shape and dtype stay the same."""
        self._view()[...] = values
        self.device.arena.mark(self._owner.start, self.nbytes, not self._owner.readonly)

    @property
    def written(self) -> np.ndarray | None:
        """The elements that a store has reached; None if stores were not tracked."""
        if Check.INITIALISED not in self.device.recipe:
            return None
        return (
            self.device.arena.written(self._owner.start, self.nbytes)
            .reshape(self.size, -1)
            .any(1)
            .reshape(self.shape)
        )

    def intact(self) -> str | None:
        """Always None: a write outside an array has already raised a KernelFault."""
        return None


class VirtualGPU:
    """`open_device("cpu")`. checks: "full" (unoptimised code, every check), "memory" (optimised code, every
    access checked; but an index past the end of a local array may hit the next one, because the compiler
    keeps them together), "count" (the same on one core, and `launch.counters` are filled: see `counters`) or
    "none" (trusted kernels only). schedule: seed of the order of warps and blocks. quick: modules are
    compiled quickly, and optimised once they have run for a while.
    """

    kind = "cpu"
    reason = "runs real CUDA on the CPU and checks every access"
    build = staticmethod(build)

    def __init__(self, checks: str = "full", seed: int = 0, cores: int | None = None):
        if checks not in BUILDS:
            raise ValueError(f"checks={checks!r}: one of {', '.join(BUILDS)}")
        self.checks, self.recipe = checks, RECIPES[checks]
        self.schedule, self.quick = seed, False
        self.time_limit, self.step_budget = 10.0, STEP_BUDGET
        self.sample_blocks = 0  # of a launch: how many blocks run, spread over the grid; 0: all, as on a GPU
        # with full checks: other threads intervene between a thread's read of shared data and its next step
        self.turns = True
        # with full checks: threads that see what others have done run in the opposite order as well
        self.both_orders = True
        self.keep_requests = 0  # for a counted launch: how many requests are listed in launch.requests
        self.keep_steps = 0  # for a launch with full checks: how many steps are listed in launch.steps
        self.events = 0  # the number of synchronisations so far: racecheck's time
        self.launching = threading.Lock()  # one launch at a time, whichever thread asks
        counts = Check.SEGMENTS in self.recipe
        self.arena = Arena(races=Check.RACES in self.recipe, small=counts)
        cores = cores or available_cores()
        # one worker with full checks: races between blocks are detected in a single order of events
        self.workers = Workers(self.arena, 1 if counts or Check.RACES in self.recipe else cores)
        self.tally = Tally(self.workers) if counts else None
        self.name = f"virtual GPU ({cores} CPU core{'s' * (cores != 1)})"
        self._params = self.arena.allocate(lambda start: Owner("parameters", start, abi.PARAM_BYTES, "param"),
                                           abi.PARAM_BYTES, writable=False)  # fmt: skip
        self.workers.envs["params"] = self._params.start
        self._workspace = self.arena.allocate(
            lambda start: Owner("the grid's workspace", start, 64, "global"), 64
        )
        self._marked: tuple = ()  # which part of shared memory is marked, and in which slots

    @property
    def room(self) -> int:
        """Bytes for arrays."""
        return self.arena.room

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        self.workers.close()

    # -- arrays -----------------------------------------------------------------------------------

    def array(self, data, name: str = "array", axes: str = "", readonly: bool = False) -> Array:
        """Copy a NumPy array to the device. axes: a letter per axis, for messages. readonly: `const`."""
        data = np.ascontiguousarray(data)
        made = self._new(data.shape, data.dtype, name, axes, readonly, True)
        made.set(data)
        return made

    def empty(self, shape, dtype=np.float32, name: str = "array", axes: str = "") -> Array:
        """An array of poison: NaN with all bits set in floating point, 0x7f in every byte of an integer."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        made = self._new(shape, np.dtype(dtype), name, axes, False, False)
        made._view().view(np.uint8).fill(0xFF if made.dtype.kind == "f" else 0x7F)
        return made

    def _new(self, shape, dtype, name: str, axes: str, readonly: bool, written: bool) -> Array:
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize

        def owner(start: int) -> Owner:
            return Owner(name, start, nbytes, "global", tuple(shape), dtype.itemsize, axes, readonly)

        return Array(self, self.arena.allocate(owner, nbytes, not readonly, written), tuple(shape), dtype)

    # -- modules ------------------------------------------------------------------------------------

    def compile(self, source: str, name: str = "kernel.cu", include_dirs=(), name_expressions=()) -> Module:
        """CUDA C++ -> Module. Errors: CompileError; Unsupported for what the virtual GPU does not have."""
        return self._compile((source, name, tuple(include_dirs), tuple(name_expressions)))

    def _compile(self, request: tuple, fixed: tuple = ()) -> Module:
        source, name = request[:2]
        quick = self.quick and not fixed
        try:
            built = self.build(*request, self.checks, self.arena.size, fixed, quick)
        except CompileError as error:
            raise with_source(error, source, name) from None
        return Module(self, source, name, built, request, quick)

    def load_ptx(self, text: str, name: str = "kernel.ptx") -> Module:
        """PTX text -> Module, for tests of single instructions."""
        compiled = Ptx(text, {n: n for n in re.findall(r"\.entry\s+([\w$]+)", text)})
        try:
            built = build_ptx(compiled, name, self.checks, self.arena.size, quick=self.quick)
        except CompileError as error:
            raise with_source(error, text, name) from None
        return Module(self, text, name, built, quick=self.quick)


class Module(CompiledFile):
    """Compiled kernels. functions: their plain names."""

    def __init__(
        self, device: VirtualGPU, source: str, name: str, built: Built, request: tuple = (), quick=False
    ):
        self.quick, self.seconds, self.tracking = quick, 0.0, False
        self.device, self.source, self.name, self.request = device, source, name, request
        self.compiled = built.compiled
        for kernel in built.lowered.kernels.values():
            if kernel.shared_static > LIMITS.shared_per_block:
                raise CompileError(
                    f"{demangle(kernel.name)} uses too much shared data ({kernel.shared_static:#x} bytes,"
                    f" {LIMITS.shared_per_block:#x} max): use dynamic shared memory, or a smaller tile"
                )
        self._load(built)
        self._place_variables()

    def _kernel(self, name: str) -> Kernel:
        return Kernel(self, self.compiled.find(name), name)

    def _load(self, built: Built) -> None:
        self.lowered = built.lowered
        names = [f"{k.name}.block" for k in self.lowered.kernels.values()]
        names += [f"{k.name}.start" for k in self.lowered.kernels.values() if k.coroutine]
        names += [
            f"{k.name}.together" for k in self.lowered.kernels.values() if k.coroutine and k.coarsening > 1
        ]
        self.executable = Executable(built.code, names, self.lowered.whole_runtime)
        lines = [(at.file, at.line) for at, _ in self.lowered.sites]
        rank = {line: i for i, line in enumerate(sorted(set(lines)))}
        self.site_lines = np.array([rank[line] for line in lines], np.uint32)

    def optimise(self) -> None:
        """Replace quickly compiled code by better code, if that can be done in time."""
        if not self.quick:
            return
        self.quick = False
        if self.tracking:  # code that follows unset values is not optimised: that takes minutes
            return
        with contextlib.suppress(CompileError, DeviceError):
            self._build_again()

    def track(self) -> None:
        """From now on, use code that follows unset values."""
        self.tracking = True
        self._build_again()

    def _build_again(self) -> None:
        checks, size = self.device.checks, self.device.arena.size
        how = dict(quick=self.quick or self.tracking, tracking=self.tracking)
        if self.request:
            self._load(self.device.build(*self.request, checks, size, **how))
        else:
            self._load(build_ptx(self.compiled, self.name, checks, size, **how))

    # -- module variables -----------------------------------------------------------------------------

    def set_constant(self, name: str, values) -> None:
        """Fill a __constant__ variable from its start (cudaMemcpyToSymbol). Errors: LaunchError."""
        symbol, data = constant_bytes(self.compiled, name, values)
        start = self.variables_owner.start + self.lowered.variables[symbol][0]
        self.device.arena.bytes[start : start + data.size] = data

    def _place_variables(self) -> None:
        """Give __device__ and __constant__ variables their memory and their initial values."""
        arena, nbytes = self.device.arena, max(self.lowered.variables_bytes, 1)
        constant = sum(v.size for _, v in self.lowered.variables.values() if v.space == "const")
        if constant > LIMITS.constant:
            raise CompileError(
                f"{self.name} uses too much global constant data ({constant:#x} bytes, {LIMITS.constant:#x} max):"
                " __constant__ memory is for small tables"
            )
        try:
            self.variables_owner = arena.allocate(
                lambda start: Owner("", start, nbytes, "module"), nbytes, module=True
            )
        except DeviceError:
            wanted = sum(v.size for _, v in self.lowered.variables.values())
            raise CompileError(
                f"the __device__ variables of {self.name} take {wanted} bytes, more than the virtual GPU has"
            ) from None
        weakref.finalize(self, arena.release, self.variables_owner)
        base = self.variables_owner.start
        arena.unmark(base, nbytes)
        self.owners = []
        for name, (offset, variable) in self.lowered.variables.items():
            start = base + offset
            readonly = variable.space == "const"
            self.owners.append(
                Owner(local_name(name), start, variable.size, variable.space, readonly=readonly)
            )
            arena.mark(start, variable.size, writable=variable.space != "const")
            memory = arena.bytes[start : start + variable.size]
            arena.clear(start, variable.size)
            width = BYTES[variable.type]
            for i, value in enumerate(variable.init):
                if isinstance(value, tuple):
                    name, addend = value[1:3]
                    at = self.lowered.functions.get(name)
                    value = (base + self.lowered.variables[name][0] if at is None else at) + addend
                memory[i * width : (i + 1) * width] = np.frombuffer(
                    (value & (1 << 8 * width) - 1).to_bytes(width, "little"), np.uint8
                )


class Kernel:
    """A kernel, called like CuPy's RawKernel. params: bytes of each parameter."""

    def __init__(self, module: Module, symbol: str, name: str):
        self.module, self._symbol, self.name = module, symbol, name
        self.params = tuple(p.size for p in self.info.params)
        self.max_dynamic_shared_size_bytes = LIMITS.shared_per_block - self.info.shared_static

    @property
    def info(self) -> KernelInfo:
        """The address in the currently loaded code."""
        return self.module.lowered.kernels[self._symbol]

    def fixed(self, args) -> Kernel:
        """The kernel compiled for these values of its integer parameters: faster, with bit-identical results.

        Later calls pass the same integers. A kernel is returned unchanged if its file has variables in global
        memory, which belong to all kernels of the file, or if it comes from a PTX text.
        """
        if not self.module.request or self.module.lowered.shared_by_kernels:
            return self
        values = tuple(int(a) if isinstance(a, np.integer) else None for a in args)
        return self.module.device._compile(self.module.request, (self.info.name, values)).get_function(
            self.name
        )

    def __call__(self, grid, block, args, shared_mem: int = 0) -> Launch:
        """Launch and wait. Errors: LaunchError, KernelFault (further faults of the run in `.more`)."""
        grid, block = triple(grid, "grid"), triple(block, "block")
        module = self.module
        with module.device.launching:
            module.device.arena.settle()
            if module.seconds > ENOUGH:
                module.optimise()
            started = time.perf_counter()
            try:
                return Run(self, grid, block, args, shared_mem).go()
            finally:
                module.seconds += time.perf_counter() - started

    def variants(
        self, constant: str, choices, grid, block, args, outputs, shared_mem: int = 0, seconds: float = 1.0
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Launch once for each row of `choices`, which goes into a __constant__ variable. Each launch begins
        with the memory as it is now, and that is how it is left.

        Returns (for each launch, whether it ended without a fault; each output of those that did, stacked).
        A faulting launch is not diagnosed. The first result is shorter than `choices` where `seconds` were
        not enough. Errors: LaunchError.
        """
        grid, block = triple(grid, "grid"), triple(block, "block")
        with self.module.device.launching:
            self.module.device.arena.settle()
            return Run(self, grid, block, args, shared_mem).variants(constant, choices, outputs, seconds)


class Run:
    """One launch: checks what CUDA would check, sets up the state, runs, and reads the faults."""

    def __init__(self, kernel: Kernel, grid, block, args, shared_mem: int):
        self.kernel, self.module, self.device = kernel, kernel.module, kernel.module.device
        self.arena, self.workers = self.device.arena, self.device.workers
        self.grid, self.block, self.args, self.shared_mem = grid, block, args, shared_mem
        self.coarsening = kernel.info.coarsening if block[0] % kernel.info.coarsening == 0 else 1
        blocks, resident = grid[0] * grid[1] * grid[2], self.workers.slots * self.workers.count
        if kernel.info.grid_sync and blocks > resident:
            raise LaunchError(
                f"{blocks} blocks synchronise as a grid; {resident} fit on the virtual GPU together",
                "cudaErrorCooperativeLaunchTooLarge",
            )
        self.slots = min(self.workers.slots, blocks) if kernel.info.resident else 1
        check_launch(kernel, grid, block, shared_mem)
        self._write_params(args)

    def go(self) -> Launch:
        """Run. If threads observe other threads' work in memory, run in the opposite order as well: which
        thread takes a lock first may decide whether a race shows. If something unset was read, run once more,
        with code that follows such values.
        """
        recipe = self.device.recipe
        both = Check.RACES in recipe and self.device.both_orders and bool(self.kernel.info.turns)
        unsure = Check.INITIALISED in recipe and not self.module.tracking
        before = self.arena.snapshot() if both or unsure else []
        try:
            result = self._launch()
            if both:
                self.arena.restore(before)
                result = self._launch(opposite=True)
            return result
        except _Suspect:
            self.arena.restore(before)
            self.module.track()
            return Run(self.kernel, self.grid, self.block, self.args, self.shared_mem).go()

    def variants(self, constant: str, choices, outputs, seconds: float):
        """See Kernel.variants."""
        before, end = self.arena.snapshot(), time.monotonic() + seconds
        symbol, fits = constant_bytes(self.module.compiled, constant, choices[0])
        start = self.module.variables_owner.start + self.module.lowered.variables[symbol][0]
        chosen = self.arena.bytes[start : start + fits.size]
        marks = bool(self.device.recipe.checks & {Check.INITIALISED, Check.RACES, Check.SEGMENTS})
        launch, block = self._set_up()
        fresh, well, found = launch.copy(), [], [[] for _ in outputs]
        for choice in np.ascontiguousarray(choices):
            if time.monotonic() > end:
                break
            if marks:
                launch, block = self._set_up()
            else:
                launch[:] = fresh
                launch["deadline"] = deadline(self.device.time_limit)
            chosen[:] = choice.reshape(-1).view(np.uint8)
            with Output(self.arena, launch):
                self.workers.run(self.module.executable.run, block, launch, self.kernel.info.recursive)
            self.device.events = int(launch["now"][0])
            if self.arena.pool:
                self.arena.pool.end(launch)
            kinds = {abi.FAULTS[kind] for kind in self._records(launch)["kind"]}
            well.append(not launch["suspect"][0] and kinds <= NOTES)
            if well[-1]:
                for rows, output in zip(found, outputs, strict=True):
                    rows.append(output.get())
            self.arena.restore(before)
        return np.array(well, bool), [
            np.array(rows, output.dtype).reshape(-1, *output.shape) for rows, output in zip(found, outputs)
        ]

    def _launch(self, opposite: bool = False) -> Launch:
        launch, block = self._set_up(opposite)
        with Output(self.arena, launch) as output:
            self.workers.run(self.module.executable.run, block, launch, self.kernel.info.recursive)
        self.device.events = int(launch["now"][0])
        if launch["suspect"][0]:
            if self.arena.pool:
                self.arena.pool.end(launch)
            raise _Suspect
        return self._result(launch, output)

    def _set_up(self, opposite: bool = False) -> tuple[np.ndarray, int]:
        """The record of a launch, and the address of what runs a block."""
        self.arena.bytes[self.device._workspace.start :][:64] = 0
        self._mark_shared()
        self.workers.shape_threads(self.block, self.slots)
        envs = self.workers.envs
        launch = self._launch_record(opposite)
        envs["launch"] = launch.ctypes.data
        envs["globals_base"] = self.module.variables_owner.start
        info, executable = self.kernel.info, self.module.executable
        envs["block_function"] = block = executable.address(f"{info.name}.block")
        start = "start" if self.coarsening == 1 else "together"
        envs["start_function"] = executable.address(f"{info.name}.{start}") if info.coroutine else 0
        if self.device.tally:
            self.device.tally.start(self.module.lowered.segments, self.slots, self.device.keep_requests)
        self._follow()
        return launch, block

    def _records(self, launch: np.ndarray) -> np.ndarray:
        return self._memory[launch.nbytes :].view(abi.DTYPES["Fault"])[: int(launch["kept"][0])]

    def _result(self, launch: np.ndarray, output: Output) -> Launch:
        """What a launch has found; KernelFault if that is a fault."""
        result = Launch(output.text, int(launch["printf_lines"][0]))
        if self.device.tally:
            result.counters = self.device.tally.result()
            result.requests = self.device.tally.requests()
        if launch["turns"][0]:
            result.turns = self.kernel.info.turns
        if self.arena.pool:
            self.arena.pool.end(launch)
        if self.device.keep_steps:
            rows = self._steps[: (int(launch["steps"][0]) - self._steps.ctypes.data) // self._steps.itemsize]
            lines = np.array([at.line for at, _ in self.module.lowered.sites], np.int64)
            result.steps = Steps(rows, lines)
            result.hazards = self.arena.pool.hazards()
        records = self._records(launch)
        if self.module.tracking and launch["stop"][0] != abi.GIVEN_UP:
            records = np.concatenate([records, unset_outputs(self.arena)])
        if len(records):
            faults, result.notes = Diagnosis(self).faults(records)
            if faults:
                fault = faults[0]
                fault.more, fault.launch = faults[1:], result
                raise fault
        return result

    def _follow(self) -> None:
        arena, envs = self.arena, self.workers.envs
        arena.following = self.module.tracking
        envs["unset"] = envs["traces"] = 0
        if arena.following:
            arena.follow()
            envs["unset"], envs["traces"] = arena.unset.ctypes.data, arena.traces.ctypes.data

    # -- setting up ---------------------------------------------------------------------------------------

    def _write_params(self, args) -> None:
        check_arguments(self.kernel.name, self.kernel.params, tuple(args), Array, self.device)
        data = bytearray(abi.PARAM_BYTES)
        end = 0
        for parameter, argument in zip(self.kernel.info.params, args, strict=True):
            end = parameter.offset + parameter.size
            data[parameter.offset : end] = argument_bytes(argument)
        self.arena.bytes[self.device._params.start :][:end] = data[:end]

    def _mark_shared(self) -> None:
        info = self.kernel.info
        layout = [(offset, size, False) for _, offset, size in info.shared]
        layout.append((info.dynamic_offset, self.shared_mem, False))
        if info.reserved:
            layout.append((abi.RESERVED["begin"], abi.RESERVED_BYTES, True))
        self.shared_end = info.dynamic_offset + self.shared_mem
        if Check.INITIALISED not in self.device.recipe and self.device._marked == (layout, self.slots):
            return
        self.device._marked = layout, self.slots
        for slot in self.workers.in_use(self.slots):
            base = self.arena.shared_base(slot)
            self.arena.unmark(base, abi.SHARED_WINDOW)
            for offset, size, written in layout:
                self.arena.mark(base + offset, size, written=written)

    def _launch_record(self, opposite: bool) -> np.ndarray:
        dtype = abi.DTYPES["Launch"]
        self._memory = np.zeros(dtype.itemsize + abi.MAX_RECORDS * abi.DTYPES["Fault"].itemsize, np.uint8)
        launch = self._memory[: dtype.itemsize].view(dtype)
        n = self.block[0] * self.block[1] * self.block[2]
        blocks = self.grid[0] * self.grid[1] * self.grid[2]
        self._order = thread_order(
            n, self.device.schedule, self.coarsening if self.kernel.info.coroutine else 1
        )
        multiplier, offset = block_order(blocks, self.device.schedule)
        first = max(0, blocks - self.device.sample_blocks) if self.device.sample_blocks else 0
        if first:
            multiplier, offset = spread_order(blocks)
        if opposite:
            self._order = np.ascontiguousarray(self._order[::-1])
            multiplier, offset = opposite_order(blocks, multiplier, offset)
        shared = self.kernel.info.shared or self.shared_mem
        barriers, races = (check in self.device.recipe for check in (Check.BARRIERS, Check.RACES))
        values = {
            "next_block": first, "blocks": blocks, "block_multiplier": multiplier, "block_offset": offset,
            "threads": n, "coarsening": self.coarsening,
            "order": self._order.ctypes.data, "step_budget": self.device.step_budget,
            "deadline": deadline(self.device.time_limit), "printf_open": 1,
            "grid_x": self.grid[0], "grid_y": self.grid[1], "grid_z": self.grid[2],
            "block_x": self.block[0], "block_y": self.block[1], "block_z": self.block[2],
            "shared_bytes": max(0, self.shared_end - abi.SHARED_START) if shared else 0,
            "shared_static": self.kernel.info.shared_static, "shared_dynamic": self.shared_mem,
            "check_sync": barriers, "grid_sync": barriers and self.kernel.info.grid_sync,
            "grid_workspace": self.device._workspace.start,
            "slots": self.slots, "ticks": time.monotonic_ns(),
            "now": self.device.events + 1, "tag": self.device.events + 1,
            "symmetric": self.kernel.info.symmetric, "ordered": self.kernel.info.ordered, "finals": self.kernel.info.finals,
            "most_looks": abi.FEW_LOOKS, "chance": self.device.turns and self.device.schedule + 1,
            "site_lines": self.module.site_lines.ctypes.data if races else 0,
        }  # fmt: skip
        if self.arena.pool:
            values |= self.arena.pool.start()
            if values["now"] > abi.LATE:
                self.arena.forget_races()
                values["now"] = values["tag"] = 1
        if self.device.keep_steps:
            self._steps = abi.array("Step", self.device.keep_steps)
            values["steps"] = self._steps.ctypes.data
            values["steps_end"] = values["steps"] + self._steps.nbytes
        launch[0] = tuple([values.get(name, 0) for name in dtype.names])  # faster than one by one
        return launch


class _Suspect(Exception):
    """A launch has read something unset."""


# -- helpers ----------------------------------------------------------------------------------------------


def with_source(error: CompileError, source: str, name: str) -> CompileError:
    """Add the text of the line to the diagnostics of a refusal."""
    lines = source.splitlines()
    error.diagnostics = tuple(
        replace(
            d, file=d.file or name, source=d.source or (lines[d.line - 1] if 0 < d.line <= len(lines) else "")
        )
        for d in error.diagnostics
    )
    return error


def check_launch(kernel: Kernel, grid, block, shared_mem: int) -> None:
    """Refuse what CUDA refuses, in CUDA's terms. Errors: LaunchError."""
    static = kernel.info.shared_static
    check_shape(grid, block, static + max(shared_mem, 0), LIMITS)
    threads = block[0] * block[1] * block[2]
    if kernel.info.max_threads and threads > kernel.info.max_threads:
        raise LaunchError(
            f"the block has {threads} threads; __launch_bounds__ of {kernel.name} allows {kernel.info.max_threads}",
            "cudaErrorInvalidConfiguration",
        )
    if not 0 <= shared_mem <= kernel.max_dynamic_shared_size_bytes:
        raise LaunchError(
            f"{static} bytes of static and {shared_mem} of dynamic shared memory; a block has {LIMITS.shared_per_block}"
            f" (up to {LIMITS.shared_per_block_optin} where the kernel opts in)"
        )


def argument_bytes(argument) -> bytes:
    if isinstance(argument, Array):
        return argument.pointer.to_bytes(8, "little")
    return argument.tobytes()
