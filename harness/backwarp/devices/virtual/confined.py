"""The virtual GPU in a separate process that has no access to files, the network or other processes.

A student's kernel becomes machine code. If the compiler is correct, that code can reach only the device's
memory; if not, it can still do no harm here. The parent compiles (in another process, see compile/build.py),
sends the machine code and the arrays, and gets back the arrays and a launch's findings.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable

import numpy as np

from ...errors import CompileError, DeviceError, KernelFault, LaunchError
from ..graphs import CopyNode, Graph, LaunchNode, refuse_while_recording
from ..launching import (
    CompiledFile,
    InClusters,
    Launch,
    check_arguments,
    constant_bytes,
    triple,
    variable_array,
)
from ..tensor_map import TensorMap, tensor_map, tensor_map_im2col
from ..texture import SurfaceObject
from . import REASON
from .answers import DEVICE_SETTINGS, is_sound
from .compile.build import build, build_ahead, with_source
from .compile.modules import Built, fixed_to, for_any_block, kernel_called
from .compile.recipes import LANES
from .confined_process import GRACE, PROCESS, START, Process
from .plan import LIMITS, check_launch
from .run.arena import arena_sizes, slots_start
from .run.record import MOST_BLOCKS
from .run.tensor_maps import map_bytes
from .run.workers import STEP_BUDGET, available_cores
from .runtime.abi import GRANULE


class ConfinedGPU:
    """`open_device("cpu", confined=True)`: see VirtualGPU, whose interface this is."""

    kind = "cpu"

    def __init__(self, checks: str = "full", seed: int = 0, process: Process = PROCESS):
        self.checks, self.schedule, self.quick = checks, seed, False
        self.time_limit, self.step_budget = 10.0, STEP_BUDGET
        self.sample_blocks = self.keep_requests = 0
        self.keep_rows, self.rows_first, self.rows_blocks = 0, 0, MOST_BLOCKS
        self.rows_pair: tuple[int, ...] = ()
        self.turns = self.several_orders = self.agree = True
        self.full_seconds = math.inf
        cores = available_cores()
        self.name = f"virtual GPU ({cores} CPU core{'s' * (cores != 1)})"
        self.reason = REASON
        self.recording: ConfinedGraph | None = None
        self.process = process
        self.process.renew()
        self.process.start()
        self.memory = arena_sizes(checks)[0]  # bytes; the process may get less
        self._handle = (0, 0)  # (generation, number)

    @property
    def room(self) -> int:
        """Bytes for arrays."""
        return self.memory - slots_start(self.memory)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        with self.process.lock:
            if self._handle[0] == self.process.generation:
                self.process.post("close", self._handle[1])
            self._handle = (0, 0)

    def number(self) -> int:
        """The device's handle in the process; opens it there if necessary."""
        with self.process.lock:
            self.process.start()
            if self._handle[0] != self.process.generation:
                self._handle = (self.process.generation, next(self.process.numbers))
                self.process.post("open", self._handle[1], self.checks)
            return self._handle[1]

    def settings(self) -> dict:
        return {name: getattr(self, name) for name in DEVICE_SETTINGS}

    def graph(self) -> ConfinedGraph:
        """See VirtualGPU.graph."""
        return ConfinedGraph(self)

    # -- the common device interface ----------------------------------------------------------------

    def array(self, data, name: str = "array", axes: str = "", readonly: bool = False) -> ConfinedArray:
        data = np.ascontiguousarray(data)
        made = ConfinedArray(self, data.shape, data.dtype, name)
        self.process.post("array", made.handle, self.number(), data, name, axes, readonly)
        return made

    def empty(self, shape, dtype=np.float32, name: str = "array", axes: str = "") -> ConfinedArray:
        shape, dtype = (shape,) if isinstance(shape, int) else tuple(shape), np.dtype(dtype)
        made = ConfinedArray(self, shape, dtype, name)
        self.process.post("empty", made.handle, self.number(), list(shape), dtype.str, name, axes)
        return made

    def fetch(self, arrays: Iterable[ConfinedArray]) -> list[np.ndarray]:
        """Copies of arrays on the host, in one request."""
        arrays = list(arrays)
        refuse_while_recording(self)
        found = self.process.ask("get", *(array.handle for array in arrays))
        if not isinstance(found, list) or len(found) != len(arrays):
            raise self.process.nonsense()
        return [array.checked(each, array.dtype) for array, each in zip(arrays, found, strict=True)]

    def touched(self, arrays: Iterable[ConfinedArray]) -> list[list[tuple[int, int, int]] | None]:
        """What the last launch touched of each array, where its module is tracked: bytes from, to, and how (run/touched.py); None
        where that is not known."""
        arrays = list(arrays)
        found = self.process.ask("touched", *(array.handle for array in arrays))
        if not isinstance(found, list) or len(found) != len(arrays):
            raise self.process.nonsense()
        return [array.runs(each) for array, each in zip(arrays, found, strict=True)]

    tensor_map, tensor_map_im2col, map_bytes = tensor_map, tensor_map_im2col, map_bytes

    def bind_texture(self, array: ConfinedArray, fields: dict) -> int:
        """See VirtualGPU.bind_texture."""
        return int(self.process.ask("texture", array.handle, fields))

    def unbind_texture(self, number: int) -> None:
        """See VirtualGPU.unbind_texture."""
        self.process.post("no_texture", self.number(), number)

    def compile(
        self, source: str, name: str = "kernel.cu", include_dirs=(), name_expressions=(), options=()
    ) -> ConfinedModule:
        """See VirtualGPU.compile."""
        request = source, name, tuple(include_dirs), tuple(name_expressions), tuple(options)
        return ConfinedModule(self, request, self.quick)

    def compile_ahead(self, files: Iterable[tuple]) -> None:
        """See VirtualGPU.compile_ahead."""
        build_ahead(files, self.checks, self.memory, quick=self.quick)


class ConfinedArray:
    """An array in the memory of the device."""

    def __init__(self, device: ConfinedGPU, shape, dtype, name: str):
        self.device, self.shape, self.dtype, self.name = device, tuple(shape), dtype, name
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        process = device.process
        with process.lock:
            self._handle = process.expect(self.nbytes, device.checks)
            self._generation = process.generation
        weakref.finalize(self, process.forget, self._generation, self._handle).atexit = False

    @property
    def pointer(self) -> int:
        """The device address."""
        return int(self.device.process.ask("pointer", self.handle))

    def store(self, offset: int, nbytes: int, pitch: int = 0, rows: int = 1) -> None:
        """Bytes of it, in rows, have been written by another process that shares its memory."""
        self.device.process.post("store", self.handle, offset, nbytes, pitch, rows)

    def runs(self, found: object) -> list[tuple[int, int, int]] | None:
        if (
            not isinstance(found, np.ndarray)
            or found.dtype != np.int64
            or found.ndim != 2
            or found.shape[1] != 3
        ):
            raise self.device.process.nonsense()
        rows = [(int(a) * GRANULE, min(int(b) * GRANULE, self.nbytes), int(how)) for a, b, how in found]
        return None if rows and rows[0][0] < 0 else rows

    def unset(self, offset: int, nbytes: int) -> tuple[int, int]:
        """How many of these bytes were never written, and where the first is."""
        match self.device.process.ask("unset", self.handle, offset, nbytes):
            case (int() as count, int() as first):
                return count, first
        raise self.device.process.nonsense()

    def retire(self) -> None:
        """From now on every access to it is a fault; its place is not used again before it is released."""
        self.device.process.post("retire", self.handle)

    @property
    def handle(self) -> int:
        if self._generation != self.device.process.generation:
            raise DeviceError(f"{self.name} was lost: the process that runs kernels had to be started again")
        return self._handle

    def get(self) -> np.ndarray:
        return self.device.fetch([self])[0]

    def set(self, values) -> None:
        if self.device.recording:
            return self.device.recording.copy(self, values)
        data = np.ascontiguousarray(np.broadcast_to(np.asarray(values, self.dtype), self.shape))
        self.device.process.post("set", self.handle, data)

    @property
    def written(self) -> np.ndarray | None:
        if self.device.checks != "full":
            return None
        return self.checked(self.device.process.ask("written", self.handle), np.dtype(bool))

    def intact(self) -> None:
        """Always None: a write outside an array has already raised a KernelFault."""
        return None

    def checked(self, found, dtype: np.dtype) -> np.ndarray:
        if not isinstance(found, np.ndarray) or found.shape != self.shape or found.dtype != dtype:
            raise self.device.process.nonsense()
        return found


class ConfinedModule(CompiledFile):
    """See device.Module. It is reloaded if the process had to be restarted."""

    def __init__(self, device: ConfinedGPU, request: tuple, quick: bool, fixed: tuple = ()):
        self.device, self.quick, self.request = device, quick and not fixed, request
        self.source, self.name = request[:2]
        self._fixed, self._constants = fixed, {}
        device.number()
        self._compile()
        self._handle = (0, 0)
        self.number()

    def _kernel(self, name: str) -> ConfinedKernel:
        return ConfinedKernel(self, kernel_called(name, self.compiled, self.lowered), name)

    def set_constant(self, name: str, values) -> None:
        """See device.Module.set_constant."""
        if self.device.recording:
            return self.device.recording.set_constant(self, name, values)
        values = values.get() if isinstance(values, ConfinedArray) else values
        constant_bytes(self.compiled, name, values)
        self._constants[name] = np.ascontiguousarray(values)
        self.device.process.post("constant", self.number(), name, self._constants[name])

    def get_global(self, name: str, dtype=np.uint8) -> ConfinedArray:
        """See device.Module.get_global."""
        _, shape, dtype = variable_array(self.compiled, name, dtype)
        made = ConfinedArray(self.device, shape, dtype, name)
        self.device.process.post("variable", made.handle, self.number(), name, dtype.str)
        return made

    def track(self) -> None:
        """From now on, `ConfinedGPU.touched` tells what launches of its kernels touch."""
        self.device.process.post("track", self.number())

    def optimise(self) -> None:
        """See device.Module.optimise."""
        if self.quick:
            self.quick = False
            self.device.process.ask("optimise", self.number(), verbs={"build": self.better})

    def number(self) -> int:
        process = self.device.process
        with process.lock:
            device = self.device.number()
            if self._handle[0] != process.generation:
                number = self._load(device)
                self._handle = (process.generation, number)
                for name, values in self._constants.items():
                    process.post("constant", number, name, values)
            return self._handle[1]

    def _compile(self) -> None:
        try:
            stepping = self.device.keep_rows > 0
            self.built = self._build(self.quick, False, 0, stepping=stepping)
            if not self.built.code:  # threads cannot run as lanes
                self.built = self._build(self.quick, False, 1, stepping=stepping)
        except CompileError as error:
            raise with_source(error, self.source, self.name) from None
        self.compiled, self.lowered = self.built.compiled, self.built.lowered

    def _load(self, device: int) -> int:
        """Its number in the process. Code is compiled for a certain memory size: the smaller one if less is
        available."""
        process = self.device.process
        process.provide_runtime()
        while True:
            number = next(process.numbers)
            loaded = self.device.memory, self.source, self.name, self.built, self.quick
            memory = process.ask("module", number, device, *loaded)
            if memory == self.device.memory:
                return number
            self.device.memory = memory
            self._compile()

    def _build(
        self,
        quick: bool,
        tracking: bool,
        lanes: int,
        when="now",
        fixed: tuple | None = None,
        stepping=False,
        checks="",
    ) -> Built | None:
        fixed = self._fixed if fixed is None else fixed
        device = self.device
        how = checks or device.checks, device.memory, fixed, quick, tracking
        return build(*self.request, *how, lanes=lanes, when=when, stepping=stepping)

    def better(self, *how: object) -> Built | None:
        """Another build of the same file, requested by the process during a launch. how: quick, tracking,
        lanes (of LANES); only if it is cached; or made beside the launch; whether it can be recorded; or checks memory alone; (the
        kernel, _, the shape of blocks) it is for."""
        *given, wanted = (*how, *[False] * 8)[:8]
        quick, tracking, _, cached, beside, stepping, spared = (option is True for option in given)
        lanes = given[2] if type(given[2]) is int and given[2] in LANES else 0
        when = "cached" if cached else "beside" if beside else "now"
        fixed = self._only_for(wanted) or (for_any_block(self._fixed) if lanes == 1 else self._fixed)
        return self._build(quick, tracking, lanes, when, fixed, stepping, "memory" if spared else "")

    def _only_for(self, wanted: object) -> tuple:
        """What a build is fixed to that is for one shape of blocks; () if it is for any."""
        match wanted:
            case str() as kernel, _, (int(), int(), int()) as block if kernel in self.lowered.kernels:
                values = (None,) * len(self.lowered.kernels[kernel].params)
                return kernel, self._fixed[1] if self._fixed else values, block
        return ()


class ConfinedKernel(InClusters):
    """A kernel, called like CuPy's RawKernel. params: bytes of each parameter."""

    def __init__(self, module: ConfinedModule, symbol: str, name: str):
        self.module, self._symbol, self.name = module, symbol, name
        self.info = module.lowered.kernels[symbol]
        self.params = tuple(p.size for p in self.info.params)
        self.max_dynamic_shared_size_bytes = LIMITS.shared_per_block - self.info.shared_static

    def fixed(self, args, block=0) -> ConfinedKernel:
        """See kernel.Kernel.fixed."""
        module = self.module
        if module.lowered.shared_by_kernels:
            return self
        fixed = fixed_to(self.info.name, args, block)
        made = ConfinedModule(module.device, module.request, module.quick, fixed)
        return made.get_function(self.name)

    def __call__(self, grid, block, args, shared_mem: int = 0, cluster=None) -> Launch:
        """Launch and wait; see kernel.Kernel. Errors: LaunchError, KernelFault."""
        if cluster is not None:
            return self.in_clusters(cluster)(grid, block, args, shared_mem)
        module, device = self.module, self.module.device
        if device.recording:
            grid, block = triple(grid, "grid"), triple(block, "block")
            return device.recording.add(LaunchNode(self, grid, block, args, shared_mem))
        request = self._request(grid, block, args, shared_mem)
        limit = 3 * device.time_limit + GRACE
        answer = device.process.ask("launch", *request, limit=limit, verbs={"build": module.better})
        match answer:
            case (bool() as quick, KernelFault() | Launch() | LaunchError() as found) if is_sound(found):
                module.quick = quick
            case _:
                raise device.process.nonsense()
        if isinstance(found, KernelFault | LaunchError):
            raise found
        return found

    def request(self, grid, block, args, shared_mem: int) -> tuple:
        """A launch of a graph, as it is sent to the process. Errors: LaunchError, DeviceError."""
        return self._request(grid, block, args, shared_mem)[:-1]

    def variants(
        self, constant: str, rows, grid, block, args, outputs, shared_mem=0, seconds=1.0, apart=False
    ):
        """See kernel.Kernel.variants."""
        request = self._request(grid, block, args, shared_mem)
        rows = np.ascontiguousarray(rows)
        wanted = [(w.array.handle, w.values, w.tolerances, w.special) for w in outputs]
        limit = seconds + self.module.device.time_limit + GRACE + START
        process, verbs = self.module.device.process, {"build": self.module.better}
        request = *request, constant, rows, wanted, seconds, apart
        found = process.ask("variants", *request, limit=limit, verbs=verbs)
        if not isinstance(found, np.ndarray) or found.ndim != 1 or len(found) > len(rows):
            raise process.nonsense()
        return found

    def _request(self, grid, block, args, shared_mem: int) -> tuple:
        module, device = self.module, self.module.device
        grid, block = triple(grid, "grid"), triple(block, "block")
        check_launch(self, grid, block, shared_mem)
        check_arguments(self.name, self.params, tuple(args), ConfinedArray, device)
        packed = [_packed(a) for a in args]
        name = (self.name, self._given) if self._given else self.name
        return module.number(), name, grid, block, packed, int(shared_mem), device.settings()


class ConfinedGraph(Graph):
    """See graphs.Graph. The process knows it by number and runs it as a single request."""

    _known = (0, 0)  # (generation, number)

    def _run(self) -> Launch:
        device, process, launches = self.device, self.device.process, self.launches
        quick = any(node.kernel.module.quick for node in launches)
        if quick or device.checks not in ("memory", "none") or not launches:
            return super()._run()
        with process.lock:
            number, changed = self._number(), {}
            for i, node in enumerate(self.nodes):
                if isinstance(node, LaunchNode) and node.changed:
                    changed[i], node.changed = node.request[4], False
            limit = 3 * device.time_limit * len(launches) + GRACE
            answer = process.ask("replay", number, changed, device.settings(), limit=limit)
        match answer:
            case (np.ndarray() as seconds, KernelFault() | Launch() as found) if is_sound(found) and (
                seconds.shape,
                seconds.dtype,
            ) == ((len(self.nodes),), np.float64):
                self.seconds = seconds
            case _:
                raise process.nonsense()
        if isinstance(found, KernelFault):
            if found.node not in range(len(self.nodes)):
                raise process.nonsense()
            raise found
        return found

    def _number(self) -> int:
        """Its number in the process that has its arrays. Errors: DeviceError if that had to be restarted."""
        process = self.device.process
        if self._known[0] != process.generation:
            nodes = [_described(node) for node in self.nodes]
            for node in self.launches:  # builds that the process would have to request later
                module, kernel = node.kernel.module, node.kernel.name
                process.ask("fit", module.number(), kernel, node.block, verbs={"build": module.better})
            self._known = process.generation, next(process.numbers)
            process.post("graph", self._known[1], self.device.number(), nodes)
            weakref.finalize(self, process.forget, *self._known).atexit = False
        return self._known[1]


def _described(node: LaunchNode | CopyNode) -> tuple:
    """A node, as it is sent to the process."""
    if isinstance(node, LaunchNode):
        node.change(node.args)
        return "launch", *node.request
    if node.name:
        return "constant", node.target.number(), node.name, *_packed(node.values)
    return "set", node.target.handle, node.values


def _packed(argument) -> tuple[str, object]:
    """An argument, as it is sent to the process."""
    if isinstance(argument, ConfinedArray):
        return "array", argument.handle
    if isinstance(argument, TensorMap):
        return "map", (argument.array.handle, argument.fields)
    if isinstance(argument, SurfaceObject):
        argument.ResDesc.memory.handle  # noqa: B018  lost with the process that knew it
        return "value", np.uint64(argument.ptr)
    return "value", argument
