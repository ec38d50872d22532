"""Kernels of a loaded module, with CuPy's calling convention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ..graphs import LaunchNode, refuse_while_recording
from ..launching import InClusters, Launch, triple
from .compile.modules import KernelInfo, fixed_to
from .launch import Execution, Stopwatch
from .plan import LIMITS, Packer, Plan
from .variants import Batch, Wanted

if TYPE_CHECKING:
    from .device import Module

MOST_PLANS = 64  # kept per kernel
LARGE = 1 << 16  # threads whose work may take longer than it takes to compile better code


class Kernel(InClusters):
    """A kernel, called like CuPy's RawKernel. params: bytes of each parameter."""

    def __init__(self, module: Module, symbol: str, name: str):
        self.module, self._symbol, self.name = module, symbol, name
        self.params = tuple(p.size for p in self.info.params)
        self.max_dynamic_shared_size_bytes = LIMITS.shared_per_block - self.info.shared_static
        self.pack = Packer(self)
        self._plans: dict[tuple, Plan] = {}
        self._versions: dict[Module, Kernel] = {}  # see for_blocks

    def plan(self, grid, block, shared_mem: int) -> Plan:
        """The plan for launches with the device's current settings. Errors: LaunchError."""
        return self.for_blocks(block).own_plan(grid, block, shared_mem)

    def own_plan(self, grid, block, shared_mem: int) -> Plan:
        """The same, of a kernel `for_blocks` of this shape."""
        limits = self.max_dynamic_shared_size_bytes, self.non_portable_cluster_size_allowed
        key = grid, block, shared_mem, limits, self.module.device.settings
        found = self._plans.get(key)
        if found is None or found.executable is not self.module.executable:
            if found or len(self._plans) == MOST_PLANS:
                self._plans.clear()
            found = self._plans[key] = Plan(self, grid, block, shared_mem)
        return found

    def for_blocks(self, block, exact: bool = False) -> Kernel:
        """The kernel, or its version for blocks of this shape, or for single threads if these blocks, or its checks, need that.

        exact: not for a launch that only finds out whether anything may be wrong.
        """
        info, module = self.info, self.module
        if module.device.keep_rows and not module.stepping:
            return self.in_module(module.of_steps())
        if not exact and (made := module.of_blocks.get((self._symbol, block))):
            return self.in_module(made)
        if info.scouts:
            exact = exact or info.name in module.doubted
        if module.fits(block) and info.fits(block) and not (exact and (info.scouts or info.block)):
            return self
        return self.in_module(module.of_single_threads())

    def in_module(self, module: Module) -> Kernel:
        """The kernel in another version of its module."""
        if module is self.module:
            return self
        if module not in self._versions:
            self._versions[module] = Kernel(module, self._symbol, self.name)
        found = self._versions[module]
        found.max_dynamic_shared_size_bytes = self.max_dynamic_shared_size_bytes
        found.non_portable_cluster_size_allowed = self.non_portable_cluster_size_allowed
        found._given = self._given
        return found

    def request(self, grid, block, args, shared_mem: int) -> bytes:
        """The parameters of a launch in a graph. Errors: LaunchError."""
        self.plan(grid, block, shared_mem)
        return self.pack(args)

    @property
    def info(self) -> KernelInfo:
        """The kernel's data in the currently loaded code."""
        return self.module.lowered.kernels[self._symbol]

    def fixed(self, args, block=0) -> Kernel:
        """The kernel compiled for these values of its integer parameters, and for blocks of this shape: faster, with
        bit-identical results.

        Later calls pass the same integers; other blocks may take longer. A kernel is returned unchanged if its file has
        variables in global memory, which belong to all kernels of the file, or if it comes from a PTX text.
        """
        if not self.module.request or self.module.lowered.shared_by_kernels:
            return self
        module = self.module.device._compile(self.module.request, fixed_to(self.info.name, args, block))
        return module.get_function(self.name)

    def __call__(self, grid, block, args, shared_mem: int = 0, cluster=None) -> Launch | LaunchNode:
        """Launch and wait; while a graph is being recorded, add a LaunchNode to it. cluster: blocks of a cluster, as with
        cudaLaunchAttributeClusterDimension. Errors: LaunchError, KernelFault (further faults of the run in `.more`)."""
        if cluster is not None:
            return self.in_clusters(cluster)(grid, block, args, shared_mem)
        grid, block = triple(grid, "grid"), triple(block, "block")
        device = self.module.device
        if device.recording:
            return device.recording.add(LaunchNode(self, grid, block, args, shared_mem))
        if device.races and device.full_seconds < math.inf:
            from .spare import launch

            return launch(self, grid, block, args, shared_mem)
        return self.launch(grid, block, args, shared_mem)

    def launch(self, grid, block, args, shared_mem: int, seconds: float = math.inf) -> Launch:
        """Launch and wait. seconds: what full checks may take. Errors: as for a call; launch.Spent."""
        module, device = self.module, self.module.device
        with device.launching:
            device.settle()
            if not module.times_launches(self._symbol, block):
                return Execution(self, grid, block, args, shared_mem, seconds=seconds).go()
            module.optimise_when_due(self._symbol, block)
            watch = Stopwatch()
            first = not module.spent[self._symbol, block]
            large = module.quick and prod(grid) * prod(block) >= LARGE
            pauses = (first or large) and module.times_launches(self._symbol, block)
            try:
                return Execution(self, grid, block, args, shared_mem, pauses, seconds).go()
            finally:
                module.seconds += (seconds := watch.seconds)
                module.spent[self._symbol, block] += seconds

    def variants(
        self,
        constant: str,
        rows,
        grid,
        block,
        args,
        outputs: Sequence[Wanted],
        shared_mem: int = 0,
        seconds: float = 1.0,
        apart: bool = False,
    ) -> np.ndarray:
        """Launch once per row, each copied into a __constant__ variable; a row of zeros means the unchanged
        kernel. Each launch starts from the current memory, which is restored afterwards.

        apart: no element of an output gets its value from several threads or blocks. Returns FAULTS, WRONG or
        RIGHT for each launch, and fewer than rows if `seconds` ran out. Nothing is diagnosed. Errors:
        LaunchError.
        """
        grid, block = triple(grid, "grid"), triple(block, "block")
        refuse_while_recording(self.module.device)
        with self.module.device.launching:
            self.module.device.settle()
            execution = Execution(self.for_blocks(block, True), grid, block, args, shared_mem)
            return Batch(execution, constant, outputs, apart).run(rows, seconds)
