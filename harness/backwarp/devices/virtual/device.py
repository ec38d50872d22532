"""The virtual GPU as a device, and the modules loaded on it, with CuPy's interface."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import math
import re
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ...errors import CompileError, DeviceError
from ..launching import CompiledFile, constant_bytes, variable_array
from ..nvrtc.compiler import Ptx
from ..nvrtc.symbols import demangle, local_name
from ..tensor_map import tensor_map, tensor_map_im2col
from . import REASON
from .array import Array
from .compile.build import Built, build, build_ahead, build_ptx, with_source
from .compile.link import Executable
from .compile.modules import for_any_block, kernel_called
from .compile.recipes import BUILDS, RECIPES, WIDE, Check
from .graph import Graph
from .kernel import Kernel
from .plan import LIMITS
from .ptx.types import BYTES
from .run.arena import Arena, Owner
from .run.heap import Heap
from .run.printf import Output
from .run.record import MOST_BLOCKS
from .run.tally import Tally
from .run.tensor_maps import map_bytes
from .run.textures import Textures
from .run.workers import STEP_BUDGET, Workers, available_cores
from .runtime import abi

if TYPE_CHECKING:
    from .analyse.rows import Block

OPTIMISING = 40e-6  # seconds that optimising takes, per byte of quickly compiled code
WIDENING = 8e-6  # that compiling it once more takes, as quickly, but with lanes
SCOUTING = (
    5e-6  # seconds of launches with full checks, per byte of code, after which lanes are compiled beside them
)
#: of others, so far or expected, after which a kernel is compiled for the shape of their blocks; per byte, where they are short runs
OF_BLOCKS, OF_BLOCKS_PER_BYTE = 5e-4, 10e-6
FEWEST_LANES = 4
LOOKING = 0.02  # seconds between two looks whether that has been done


class VirtualGPU:
    """`open_device("cpu")`. checks: "full" (unoptimised code, every check), "memory" (optimised code, every
    access checked; but an index past the end of a local array may hit the next one, because the compiler
    keeps them together), "count" (the same on one core, and `launch.counters` are filled: see `counters`),
    "draft" (as "memory", but hardly optimised: for many kernels that each run for a moment), "noted" (see
    instrument/notes) or "none" (trusted kernels only). schedule: seed of the order of warps and blocks. quick: modules are compiled quickly, and
    optimised once they have run for a while.
    """

    kind = "cpu"
    reason = REASON
    build = staticmethod(build)

    def __init__(
        self, checks: str = "full", seed: int = 0, cores: int | None = None, shared: int | None = None
    ):
        if checks not in BUILDS:
            raise ValueError(f"checks={checks!r}: one of {', '.join(BUILDS)}")
        self.checks, self.recipe = checks, RECIPES[checks]
        self.schedule, self.quick = seed, False
        self.lanes = 0  # threads that run as vector lanes in optimised code; 0: as suits the target
        self.target = ""  # the target processor of optimised code, see compile/targets
        self.time_limit, self.step_budget = 10.0, STEP_BUDGET
        self.sample_blocks = 0  # how many blocks of a launch run, spread over the grid; 0: all, as on a GPU
        # with full checks: other threads intervene between a thread's read of shared data and its next step
        self.turns = True
        # with full checks: threads that observe others' work run in several orders, see run/orders
        self.several_orders = True
        # after which arrays must agree, see explain/agreement
        self.agree = True
        # with full checks: for how many seconds each kernel has them, see spare.py
        self.full_seconds = math.inf
        self.keep_requests = 0  # for a counted launch: how many requests are listed in launch.requests
        # for modules compiled and launched with full checks: how many rows are listed in launch.record; of which blocks
        self.keep_rows, self.rows_first, self.rows_blocks = 0, 0, MOST_BLOCKS
        self.rows_pair: tuple[int, ...] = ()  # Row.who of the only two threads that are recorded
        self.events = 0  # the number of synchronisations so far: racecheck's time
        self.recording: Graph | None = None
        self.launching = threading.Lock()  # one launch at a time, whichever thread asks
        counts = Check.SEGMENTS in self.recipe
        self.arena = Arena(races=Check.RACES in self.recipe, small=counts, shared=shared)
        cores = cores or available_cores()
        # one worker with full checks: races between blocks are detected in a single order of events
        self.races, self.unset_reads = (check in self.recipe for check in (Check.RACES, Check.INITIALISED))
        # shared by all its launches, which run one after the other: the part that Python fills in, then the
        # faults
        size, fault = ctypes.sizeof(abi.Launch), abi.DTYPES["Fault"]
        record = np.zeros(size + abi.MAX_RECORDS * fault.itemsize, np.uint8)
        self.launch, self.faults = abi.Launch.from_buffer(record), record[size:].view(fault)
        self.output = Output(self.arena, self.launch)
        self.workers = Workers(self.arena, 1 if counts or self.races else cores, self.launch)
        self.tally = Tally(self.workers) if counts else None
        self.spared: VirtualGPU | None = None  # see spare.py
        self.owner = self  # of arrays
        self.name = f"virtual GPU ({cores} CPU core{'s' * (cores != 1)})"
        self.params = self.arena.allocate(
            lambda start: Owner("parameters", start, abi.PARAM_BYTES, "param"),
            abi.PARAM_BYTES,
            writable=False,
        )
        self.workers.envs["params"] = self.params.start
        self.parameters = memoryview(self.arena.bytes)[self.params.start :][: abi.PARAM_BYTES]
        self.workspace = self.arena.allocate(
            lambda start: Owner("the grid's workspace", start, 64, "global"), 64
        )
        self.textures: Textures | None = None  # made for the first texture or surface
        self.heap: Heap | None = None  # for kernels that allocate memory
        self.layouts: dict[bytes, int] = {}  # a number for each layout of shared memory

    @property
    def first_lanes(self) -> int:
        """With full checks, lanes come later: see `Module.scout`."""
        return 1 if self.races else self.lanes

    @property
    def room(self) -> int:
        """Bytes for arrays."""
        return self.arena.room

    @property
    def settings(self) -> tuple:
        """The settings that a launch depends on."""
        return self.schedule, self.time_limit, self.step_budget, self.sample_blocks, self.turns

    def graph(self) -> Graph:
        """For launches that are recorded once and run many times, see backwarp.devices.graphs."""
        return Graph(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def settle(self) -> None:
        """Before a launch: waits until nothing runs, and frees what has been released."""
        self.workers.settle()
        self.arena.settle()

    def close(self) -> None:
        self.workers.close()

    # -- arrays -----------------------------------------------------------------------------------

    def array(self, data, name: str = "array", axes: str = "", readonly: bool = False) -> Array:
        """Copy a NumPy array to the device. axes: a letter per axis, for messages. readonly: `const`."""
        data = np.ascontiguousarray(data)
        made = self._new(data.shape, data.dtype, name, axes, readonly, True)
        made._view()[...] = data
        return made

    def empty(self, shape, dtype=np.float32, name: str = "array", axes: str = "") -> Array:
        """An array of poison, see `launching.poison`."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        made = self._new(shape, np.dtype(dtype), name, axes, False, False)
        made._view().view(np.uint8).fill(0xFF if made.dtype.kind in "fc" else 0x7F)
        return made

    def fetch(self, arrays: Iterable[Array]) -> list[np.ndarray]:
        """Copies of arrays on the host."""
        return [array.get() for array in arrays]

    def _new(self, shape, dtype, name: str, axes: str, readonly: bool, written: bool) -> Array:
        nbytes = math.prod(map(int, shape)) * dtype.itemsize

        def owner(start: int) -> Owner:
            return Owner(
                name, start, nbytes, "global", tuple(shape), dtype.itemsize, axes, readonly, dtype=dtype.str
            )

        made = self.arena.allocate(owner, nbytes, not readonly, written)
        if not readonly:
            self.arena.guard.add(made.start, [made])
        return Array(self, made, tuple(shape), dtype)

    tensor_map, tensor_map_im2col, map_bytes = tensor_map, tensor_map_im2col, map_bytes

    def bind_texture(self, array: Array, fields: dict) -> int:
        """The number of a texture or surface object, see `backwarp.devices.texture`. fields: the fields of a
        Texture (state.h)."""
        if self.textures is None:
            self.textures = Textures()
            self.workers.envs["textures"] = self.textures.rows.ctypes.data
        return self.textures.bind(array, fields)

    def unbind_texture(self, number: int) -> None:
        """The object with this number is none any more."""
        if self.textures:
            self.textures.unbind(number)

    # -- modules ------------------------------------------------------------------------------------

    def compile(
        self, source: str, name: str = "kernel.cu", include_dirs=(), name_expressions=(), options=()
    ) -> Module:
        """CUDA C++ -> Module. options: such as "-DN=4".

        Errors: CompileError; Unsupported for what the virtual GPU does not have.
        """
        return self._compile((source, name, tuple(include_dirs), tuple(name_expressions), tuple(options)))

    def compile_ahead(self, files: Iterable[tuple]) -> None:
        """Compiles several files side by side, so that `compile` finds them. files: all its arguments, each."""
        how = dict(quick=self.quick, lanes=self.first_lanes, target=self.target)
        build_ahead(files, self.checks, self.arena.size, **how)

    def _compile(self, request: tuple, fixed: tuple = ()) -> Module:
        source, name = request[:2]
        quick = self.quick and not fixed
        try:
            built = self.build(
                *request,
                self.checks,
                self.arena.size,
                fixed,
                quick,
                lanes=self.first_lanes,
                target=self.target,
                stepping=self.keep_rows > 0,
            )
        except CompileError as error:
            raise with_source(error, source, name) from None
        return Module(self, source, name, built, request, quick, fixed)

    def load_ptx(self, text: str, name: str = "kernel.ptx") -> Module:
        """PTX text -> Module, for tests of single instructions."""
        compiled = Ptx(text, {n: n for n in re.findall(r"\.entry\s+([\w$]+)", text)})
        try:
            how = dict(
                quick=self.quick, lanes=self.first_lanes, target=self.target, stepping=self.keep_rows > 0
            )
            built = build_ptx(compiled, name, self.checks, self.arena.size, **how)
        except CompileError as error:
            raise with_source(error, text, name) from None
        return Module(self, text, name, built, quick=self.quick)


class Module(CompiledFile):
    """Compiled kernels. functions: their plain names."""

    def __init__(
        self,
        device: VirtualGPU,
        source: str,
        name: str,
        built: Built,
        request: tuple = (),
        quick=False,
        fixed: tuple = (),
    ):
        self.quick, self.seconds, self.tracking, self.fixed = quick, 0.0, False, fixed
        self.wide = False  # whether quick code has lanes where that is possible
        self._looks = 0.0  # after how many seconds lanes are looked for again
        self.checked: Counter[str] = (
            Counter()
        )  # by kernel, the seconds that full checks have taken, if they are counted
        self.spared: Module | bool | None = None  # see spare.py; False: there is none
        self.doubted: set[str] = set()  # kernels that lanes were not sure about: single threads run them
        self.recorded: set[str] = set()  # kernels that may race: their launches record every access
        self.unguarded: set[str] = set()  # kernels that store to more than their code tells, see run/guard
        # by kernel and shape of blocks: seconds that launches took; when versions for these blocks are looked for again, also
        # by how; these versions, None where they would gain nothing
        self.spent: Counter[tuple] = Counter()
        self._looks_for: Counter[tuple] = Counter()
        self.of_blocks: dict[tuple, Module | None] = {}
        self.device, self.source, self.name, self.request = device, source, name, request
        self.compiled = built.compiled
        for kernel in built.lowered.kernels.values():
            if kernel.shared_static > LIMITS.shared_per_block:
                raise CompileError(
                    f"{demangle(kernel.name)} uses too much shared data ({kernel.shared_static:#x} bytes,"
                    f" {LIMITS.shared_per_block:#x} max): use dynamic shared memory, or a smaller tile"
                )
        self._load(built)
        self.scouted = any(kernel.scouts for kernel in self.lowered.kernels.values())
        self._place_variables()
        if self.lowered.heap and device.heap is None:
            device.heap = Heap(device.arena)
            device.workers.envs["heap"] = device.heap.start

    def _kernel(self, name: str) -> Kernel:
        return Kernel(self, kernel_called(name, self.compiled, self.lowered), name)

    def _load(self, built: Built) -> None:
        self._single: Module | None = None
        self._stepping: Module | None = None
        self.of_blocks = {}
        self.lowered, self.nbytes = built.lowered, len(built.code)
        self.stepping = bool(self.lowered.points)  # whether its launches can be recorded
        names = [f"{k.name}.block" for k in self.lowered.kernels.values()]
        names += [name for k in self.lowered.kernels.values() for name in k.starts]
        self.executable = Executable(built.code, names)
        lines = [(at.file, at.line) for at, _ in self.lowered.sites]
        rank = {line: i for i, line in enumerate(sorted(set(lines)))}
        self.site_lines = np.array([rank[line] for line in lines], np.uint32)

    def times_launches(self, kernel: str, block: Block) -> bool:
        """Whether the code may be replaced by better code."""
        return self.quick or not (self.scouted if self.device.races else (kernel, block) in self.of_blocks)

    def optimise_when_due(self, kernel: str = "", block: Block = (0, 0, 0)) -> None:
        """Optimises once launches have taken as long as optimising will, so that the total is at most twice
        the optimum; with full checks, uses lanes as soon as they have been compiled: by an earlier process, or beside
        launches; without, versions for blocks of this shape likewise."""
        if self.seconds > OPTIMISING * self.nbytes:
            self.optimise()
        if self.device.races and not (self.quick or self.scouted) and self.seconds >= self._looks:
            due = SCOUTING * self.nbytes
            self._looks = max(due, self.seconds + LOOKING)
            self.scout("beside" if self.seconds >= due else "cached", block)
        self.look_for_better(kernel, block)

    def look_for_better(self, kernel: str, block: Block, expected: float = 0.0) -> None:
        """Uses lanes, or optimised code for blocks of this shape, if there is any. Where launches have taken long enough, or this
        one is expected to take as many seconds, it is compiled beside them."""
        if self.device.races:
            return
        seconds = expected + (self.seconds if self.quick else self.spent[kernel, block])
        due = OF_BLOCKS_PER_BYTE * self.nbytes if self.device.quick else OF_BLOCKS
        due = WIDENING * self.nbytes if self.quick else due
        now, when = time.monotonic(), "beside" if seconds >= due else "cached"
        if now < self._looks_for[kernel, block, when] or self.quick and (self.wide or seconds < LOOKING):
            return
        self._looks_for[kernel, block, when] = now + LOOKING if when == "beside" else math.inf
        if self.quick:
            self.widen(when)
        else:
            self.for_blocks(kernel, block, when)

    def widen(self, when: str = "now") -> None:
        """From now on, quick code has lanes where it can: it compiles sooner than optimised code does. when: as of `scout`."""
        self.wide = True
        if self.device.recipe.coarsen and not self.tracking:
            with contextlib.suppress(CompileError, DeviceError):
                built = self._built_again(WIDE, when)
                self.wide = built is not None
                if built:
                    self._load(built)

    def for_blocks(self, kernel: str, block: Block, when: str = "now") -> None:
        """From now on: blocks of this shape run as one, if they can be lanes side by side. when: as of `scout`."""
        info, key = self.lowered.kernels.get(kernel), (kernel, block)
        if info is None or key in self.of_blocks:
            return
        from .analyse.rows import are_block  # no launch that ends soon needs it

        self.of_blocks[key], made = None, copy.copy(self)
        lanes = next((n for n in _fewer(info.lanes) if are_block(block, n)), 1 if info.lanes == 1 else 0)
        if not info.coroutine or not lanes:
            return
        made.fixed = kernel, self.fixed[1] if self.fixed else (None,) * len(info.params), block
        with contextlib.suppress(CompileError, DeviceError):
            built = made._built_again(lanes, when)
            if built is None:
                del self.of_blocks[key]
            elif built.lowered.kernels[kernel].block:
                made._load(built)
                self.of_blocks[key] = made

    def scout(self, when: str = "now", block: Block = (0, 0, 0)) -> None:
        """Sets `scouted`. From now on, with full checks: where threads can run as lanes, these find out whether anything may be wrong. The
        code as it is tells what. when: see `build`; until that has been done, nothing changes. block: if their rows are too short,
        there are fewer lanes."""
        if self.scouted or self.tracking:
            return
        from .compile.targets import target  # loads LLVM, which this process else may not need

        self.scouted, single = True, copy.copy(self)
        with contextlib.suppress(CompileError, DeviceError):
            most = self.device.lanes or target(self.device.target).lanes
            lanes = next((n for n in _fewer(most) if block[0] % n == 0), most)
            built = self._built_again(lanes if lanes < most else self.device.lanes, when)
            if built is None:
                self.scouted = False
            elif any(kernel.scouts for kernel in built.lowered.kernels.values()):
                self._load(built)
                self._single = single

    def optimise(self) -> None:
        """Replace quickly compiled code by better code, if that can be done in time."""
        if not self.quick:
            return
        self.quick = False
        if self.tracking:  # code that tracks unset values is not optimised: that takes minutes
            return
        with contextlib.suppress(CompileError, DeviceError):
            self._load(self._built_again(self.device.first_lanes))

    def fits(self, block: Block) -> bool:
        """Whether its code may run blocks of this shape: what is compiled for others has decided branches for them."""
        return not self.fixed or self.fixed[2] in ((), block)

    def of_single_threads(self) -> Module:
        """The same module without lanes, for blocks of any shape, compiled when first needed. It shares this module's
        variables."""
        kernels = self.lowered.kernels.values()
        if not any(k.lanes > 1 or k.block for k in kernels) and self.fixed == for_any_block(self.fixed):
            return self
        if self._single is None:
            single = copy.copy(self)
            single.fixed = for_any_block(self.fixed)
            single._load(single._built_again(1))
            self._single = single
        return self._single

    def of_steps(self) -> Module:
        """The same module with code whose launches can be recorded, compiled when first needed. It shares this module's
        variables."""
        if self.stepping:
            return self
        if self._stepping is None:
            made = copy.copy(self)
            made.stepping, made.fixed = True, for_any_block(self.fixed)
            made._load(made._built_again(1))
            self._stepping = made
        return self._stepping

    def track(self) -> None:
        """From now on, use code that tracks unset values."""
        self.tracking = True
        self._load(self._built_again(self.device.first_lanes))

    def _built_again(self, lanes: int, when: str = "now") -> Built | None:
        """when: see `build`."""
        device = self.device
        how = dict(quick=self.quick or self.tracking, tracking=self.tracking)
        how |= dict(lanes=lanes, target=device.target, stepping=self.stepping)
        if self.request:
            return device.build(*self.request, device.checks, device.arena.size, self.fixed, when=when, **how)
        if when == "cached":
            return None
        return build_ptx(self.compiled, self.name, device.checks, device.arena.size, self.fixed, **how)

    # -- module variables -----------------------------------------------------------------------------

    def set_constant(self, name: str, values) -> None:
        """Fill a __constant__ or __device__ variable from its start (cudaMemcpyToSymbol), from host values or
        a device array. Errors: LaunchError."""
        if self.device.recording:
            return self.device.recording.set_constant(self, name, values)
        data, start = constant_bytes(self.compiled, name, values)[1], self.start_of(name)
        self.device.arena.bytes[start : start + data.size] = data

    def start_of(self, name: str) -> int:
        """The device address of a variable."""
        symbol = variable_array(self.compiled, name, np.uint8)[0]
        return self.variables_owner.start + self.lowered.variables[symbol][0]

    def get_global(self, name: str, dtype=np.uint8) -> Array:
        """A __device__, __managed__ or __constant__ variable as an array of its memory. Errors: LaunchError."""
        symbol, shape, dtype = variable_array(self.compiled, name, dtype)
        made = Array(self.device, self.owners[list(self.lowered.variables).index(symbol)], shape, dtype)
        made.module = self  # keeps its memory alive
        return made

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
        arena.guard.add(base, [owner for owner in self.owners if not owner.readonly])


def _fewer(lanes: int) -> list[int]:
    """Numbers of lanes, for shorter and shorter rows of threads."""
    return [n for n in (lanes, lanes // 2, lanes // 4) if n >= FEWEST_LANES]
