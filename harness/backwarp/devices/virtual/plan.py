"""What launches of a kernel with the same grid, block and shared memory have in common, computed once."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import astuple, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...errors import LaunchError
from ..emulated import patience
from ..launching import Limits, check_arguments, check_cluster, check_shape, limits_of
from ..tensor_map import TensorMap
from ..texture import SurfaceObject
from .array import Array
from .compile.modules import KernelInfo
from .compile.recipes import Check
from .run.tensor_maps import encoded
from .run.workers import block_order, spread_order, thread_order
from .runtime import abi
from .runtime.abi import WARP, bounds_offset, holds_bounds

if TYPE_CHECKING:
    from .kernel import Kernel

LIMITS = Limits()
#: codes of `struct` for arguments; the values of all others are laid out as their bytes
_CODES = {np.dtype(code).type: code for code in "?bBhHd"} | {
    Array: "8s",
    np.float16: "2s",
    np.float32: "4s",
    np.int32: "i",
    np.uint32: "I",
    np.int64: "q",
    np.uint64: "Q",
}
#: of which `struct` would change some: it makes a signalling NaN a quiet one
_SHORT_FLOATS = (np.float16, np.float32)
#: a launch that lanes only look at has a part of the time, as its power of 2
SCOUTS = 3
#: blocks that a worker takes at a time, at most, and how often it takes some, at least
MOST_AT_ONCE, SHARES = 16, 32
#: pieces that blocks are split into, for each worker, if there are fewer of them
PIECES = 4
_NO_BOUNDS = bytes(abi.BOUNDS.size)


class Plan:
    """launch: most of its record; slots: blocks that a worker runs in turns; run: the address of the function
    that runs it; plain: see is_plain."""

    def __init__(self, kernel: Kernel, grid, block, shared_mem: int):
        module, info, device = kernel.module, kernel.info, kernel.module.device
        check_launch(kernel, grid, block, shared_mem)
        self.executable, self.run, self.deep = module.executable, module.executable.run, info.recursive
        self.grid_sync, self.threads, self.blocks = info.grid_sync, prod(block), prod(grid)
        self.cluster = prod(kernel.cluster) if info.clustered else 1  # nothing can tell else
        self.plain = is_plain(kernel)
        self.slots = self._slots(device, info)
        together, one_row = info.together, block[0] == self.threads >= info.together
        # left-over threads run one by one; code for warps relies on rows of whole ones
        in_a_row = 1 < info.lanes < WARP and one_row and not info.coroutine
        in_row = together if info.block or block[0] % together == 0 or in_a_row else 1
        self.rows = info.rows if block[0] % together == 0 and block[1] % info.rows == 0 else 1
        self.coarsening = in_row * self.rows
        by_groups = info.coroutine or info.lanes > 1
        order = thread_order(self.threads, device.schedule, in_row if by_groups else 1, self.rows, block[0])
        self.order, self.reversed = order, np.ascontiguousarray(order[::-1])
        self.seconds: float | None = None  # of its last launch
        self.on_one = 0.0  # the same, if one worker had run it
        pieces = self._pieces(device, info, shared_mem)
        self.shares = self.blocks * pieces  # what workers can take
        barriers, races = (check in device.recipe for check in (Check.BARRIERS, Check.RACES))
        values = (
            self._order_of_blocks(device) | self._functions(info) | self._shared(module, info, shared_mem)
        )
        for name, extent in (("grid", grid), ("block", block)):
            values |= {f"{name}_{axis}": size for axis, size in zip("xyz", extent)}
        for axis, blocks, size in zip("xyz", grid, kernel.cluster):
            values |= {f"cluster_{axis}": size, f"nclusterid_{axis}": blocks // size}
        self.launch = abi.Launch(
            **values,
            pieces=pieces,
            piece=-(-len(order) // pieces) if pieces > 1 else abi.WHOLE,
            threads=self.threads,
            coarsening=self.coarsening,
            step_budget=device.step_budget,
            time_limit=int(device.time_limit * 1e9) * patience() >> SCOUTS * info.scouts,
            printf_open=1,
            cluster=self.cluster,
            clustered=info.clustered,
            check_sync=barriers,
            grid_sync=barriers and info.grid_sync,
            grid_workspace=device.workspace.start,
            slots=self.slots,
            symmetric=info.symmetric,
            registers=info.registers,
            ordered=info.ordered,
            finals=info.finals and not info.scouts,
            most_looks=abi.FEW_LOOKS,
            chance=device.turns and device.schedule + 1,
            site_lines=module.site_lines.ctypes.data if races else 0,
            globals_base=module.variables_owner.start,
            frames_size=device.workers.frames_size(self.slots),
        )

    def shuffled(self, seed: int) -> np.ndarray:
        """A random order of the threads of a block."""
        return np.random.default_rng(seed).permutation(self.order)

    def _slots(self, device, info: KernelInfo) -> int:
        workers = device.workers
        resident = workers.slots * workers.count
        if info.grid_sync and self.blocks > resident:
            raise LaunchError(
                f"{self.blocks} blocks synchronise as a grid; {resident} fit on the virtual GPU together",
                "cudaErrorCooperativeLaunchTooLarge",
            )
        if self.cluster > workers.slots:
            raise LaunchError(
                f"blocks of a cluster run together: {self.cluster} do not fit, but {workers.slots}"
            )
        together = min(workers.slots, self.blocks) if info.resident else 1
        return max(together // self.cluster, 1) * self.cluster

    def _functions(self, info: KernelInfo) -> dict[str, int]:
        start = "rows" if self.rows > 1 else "together" if self.coarsening > 1 else "start"
        return {
            "block_function": self.executable.address(f"{info.name}.block"),
            "start_function": self.executable.address(f"{info.name}.{start}") if info.coroutine else 0,
        }

    def _order_of_blocks(self, device) -> dict[str, int]:
        """The order of blocks, and of the threads in a block."""
        clusters = self.blocks // self.cluster
        multiplier, offset = block_order(clusters, device.schedule)
        first = (
            max(0, clusters - device.sample_blocks // self.cluster) * self.cluster
            if device.sample_blocks
            else 0
        )
        if first:
            multiplier, offset = spread_order(clusters)
        return {
            "next_block": first,
            "at_once": self._at_once(device),
            "until": abi.ALL,
            "blocks": self.blocks,
            "block_multiplier": multiplier,
            "block_offset": offset,
            "order": self.order.ctypes.data,
        }

    def _at_once(self, device) -> int:
        """How many blocks a worker takes at a time: so few that all workers end together."""
        if self.slots > 1 or Check.RACES in device.recipe:
            return 1
        return max(1, min(MOST_AT_ONCE, self.blocks // (SHARES * device.workers.count)))

    def _pieces(self, device, info: KernelInfo, shared_mem: int) -> int:
        """How many pieces a block is split into: several if there are few blocks, and no thread can tell."""
        split = info.lanes > 1 and not (info.coroutine or info.shared or shared_mem or device.sample_blocks)
        if not split or device.recipe.checks - {Check.GROUPED_BOUNDS}:
            return 1
        wanted = -(-PIECES * device.workers.count // self.blocks) if device.workers.count > 1 else 1
        each = -(-len(self.order) // wanted)
        return -(-len(self.order) // each)

    def _shared(self, module, info: KernelInfo, shared_mem: int) -> dict[str, int]:
        """The layout of a block's shared memory."""
        device = module.device
        self.paddings = [*module.lowered.paddings]
        extents = [(offset, size, 0, self._padding(module, name, size)) for name, offset, size in info.shared]
        extents.append((info.dynamic_offset, shared_mem, 0, self._padding(module, info.dynamic, shared_mem)))
        if info.reserved:
            extents.append((abi.RESERVED["begin"], abi.RESERVED_BYTES, 1, 0))
        self.extents = np.array(extents, abi.DTYPES["Extent"])
        self.table = np.array([astuple(p) for p in self.paddings], np.uint32)
        changed = Check.INITIALISED in device.recipe  # by the blocks
        end = info.dynamic_offset + shared_mem - abi.SHARED_START
        return {
            "shared_bytes": max(0, end) if info.shared or shared_mem else 0,
            "shared_static": info.shared_static,
            "shared_dynamic": shared_mem,
            "extents": self.extents.ctypes.data,
            "extent_count": len(extents),
            "paddings": self.table.ctypes.data,
            "layout": 0
            if changed
            else device.layouts.setdefault(self.extents.tobytes(), len(device.layouts) + 1),
        }

    def _padding(self, module, symbol: str, nbytes: int) -> int:
        """Of a shared array of structs, added to `paddings`: a word as in `emit/unit`."""
        structs = module.lowered.structs
        if not structs:
            return 0
        from .explain.declarations import declared_type

        if not (found := structs.get(declared_type(module.source, symbol))):
            return 0
        self.paddings += (replace(p, count=nbytes // p.stride) for p in found)
        return len(self.paddings) - len(found) << 16 | len(found)


def is_plain(kernel: Kernel) -> bool:
    """Whether a launch needs nothing before it, and after it only its faults."""
    device = kernel.module.device
    looks = device.races or device.unset_reads or device.tally
    return not (looks or kernel.info.grid_sync or kernel.module.lowered.heap)


def check_launch(kernel: Kernel, grid, block, shared_mem: int) -> None:
    """Refuse what CUDA refuses, in CUDA's terms. Errors: LaunchError."""
    static, limits = kernel.info.shared_static, limits_of(kernel.module.compiled.target)
    check_shape(grid, block, static + max(shared_mem, 0), limits)
    check_cluster(kernel.name, grid, kernel.cluster, kernel.non_portable_cluster_size_allowed)
    threads = block[0] * block[1] * block[2]
    if kernel.info.max_threads and threads > kernel.info.max_threads:
        raise LaunchError(
            f"the block has {threads} threads; __launch_bounds__ of {kernel.name} allows {kernel.info.max_threads}",
            "cudaErrorInvalidConfiguration",
        )
    if not 0 <= shared_mem <= kernel.max_dynamic_shared_size_bytes:
        raise LaunchError(
            f"{static} bytes of static and {shared_mem} of dynamic shared memory; a block has {limits.shared_per_block}"
            f" (up to {limits.shared_per_block_optin} where the kernel opts in)"
        )


class Packer:
    """Lays out a kernel's arguments as its parameters. Whether they fit is checked once per combination of
    types."""

    def __init__(self, kernel: Kernel):
        self.kernel, self.device = kernel, kernel.module.device
        self.arena = self.device.arena
        # independent of whether this build has lanes: a graph of launches outlives it
        self.bounds = self.device.recipe.coarsen and holds_bounds(p.size for p in kernel.info.params)
        self.checked: dict[tuple[type, ...], tuple[Callable[..., bytes], list[int]]] = {}

    def __call__(self, args) -> bytes:
        """Errors: LaunchError."""
        kinds = tuple(map(type, args))
        known = self.checked.get(kinds)
        if known is None:
            return self._first(kinds, args)
        arena, (pack, floats) = self.arena, known
        values = [a.address if type(a) is Array and a.device.arena is arena else a for a in args]
        for i in floats:
            values[i] = args[i].tobytes()
        if self.bounds:
            values += [a.bounds if type(a) is Array else _NO_BOUNDS for a in args]
        try:
            return pack(*values)
        except struct.error:
            self._check(args)  # an array of another device
            raise

    def _first(self, kinds: tuple[type, ...], args) -> bytes:
        """The first arguments of these types."""
        self._check(args)
        if all(kind in _CODES for kind in kinds):
            floats = [i for i, kind in enumerate(kinds) if kind in _SHORT_FLOATS]
            self.checked[kinds] = self._layout(_CODES[kind] for kind in kinds), floats
            return self(args)
        values = [_bytes(a) for a in args]
        if self.bounds:
            values += [a.bounds if type(a) is Array else _NO_BOUNDS for a in args]
        return self._layout(f"{len(value)}s" for value in values[: len(args)])(*values)

    def _layout(self, codes: Iterable[str]) -> Callable[..., bytes]:
        """Packs parameters with these codes of `struct`, and then the bounds of arrays."""
        layout, nbytes = "<", 0
        for parameter, code in zip(self.kernel.info.params, codes):
            layout += f"{parameter.offset - nbytes}x{code}"
            nbytes = parameter.offset + parameter.size
        if self.bounds:
            count = len(self.kernel.info.params)
            layout += f"{bounds_offset(nbytes) - nbytes}x" + f"{abi.BOUNDS.size}s" * count
        return struct.Struct(layout).pack

    def _check(self, args) -> None:
        check_arguments(self.kernel.name, self.kernel.params, tuple(args), Array, self.device.owner)


def _bytes(argument) -> bytes:
    if isinstance(argument, Array):
        return argument.address
    if isinstance(argument, TensorMap):
        return encoded(argument, argument.array.pointer)
    return argument.ptr.to_bytes(8, "little") if isinstance(argument, SurfaceObject) else argument.tobytes()
