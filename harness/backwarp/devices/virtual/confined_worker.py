"""The process in which the kernels of a ConfinedGPU run: `python -m backwarp.devices.virtual.confined_worker`."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys

import numpy as np

from ...errors import DeviceError, KernelFault
from ..child import Channel, attach, serve
from ..confine import confine, kept_from, limit, python_folders
from ..emulated import patience
from ..launching import limits_of
from ..tensor_map import TensorMap
from .answers import CODEC
from .array import Array
from .compile import link, runtime_code
from .compile.modules import Built
from .device import Module, VirtualGPU
from .graph import Graph
from .kernel import Kernel
from .run.touched import touched
from .runtime.abi import GRANULE
from .variants import Wanted


class Known(dict):
    """The objects that the parent refers to by number."""

    def __missing__(self, number: int):
        raise DeviceError("an array, a module or a device was to be used that could not be made")


class Handles:
    """One method per verb."""

    def __init__(self, channel: Channel, shared: int | None = None):
        self.channel, self.shared, self.since, self.recorded = channel, shared, 0, False
        self.devices: dict[int, VirtualGPU] = Known()
        self.arrays: dict[int, Array] = Known()
        self.modules: dict[int, Module] = Known()
        self.graphs: dict[int, Graph] = Known()
        self.kernels: dict[tuple, Kernel] = {}

    def runtime(self, code: bytes) -> None:
        runtime_code.provide(code)

    def open(self, number: int, checks: str) -> None:
        self.devices[number] = device = VirtualGPU(checks, shared=self.shared)
        # the parent builds: the compilers run in another process, and this one cannot reach the cache
        device.build = lambda *given, quick, tracking, lanes, target, when, stepping: self.channel.ask(
            "build",
            (
                quick,
                tracking,
                lanes,
                when == "cached",
                when == "beside",
                stepping,
                given[-3] != checks,
                given[-1],
            ),
        )

    def close(self, number: int) -> None:
        device = self.devices[number]
        del self.devices[number]
        for known in (self.arrays, self.modules, self.graphs):
            for key in [key for key, value in known.items() if value.device is device]:
                del known[key]
        self.kernels.clear()
        device.close()
        gc.collect()

    def array(self, handle: int, device: int, data, name: str, axes: str, readonly: bool) -> None:
        self.arrays[handle] = self.devices[device].array(data, name, axes, readonly)

    def empty(self, handle: int, device: int, shape, dtype: str, name: str, axes: str) -> None:
        self.arrays[handle] = self.devices[device].empty(tuple(shape), dtype, name, axes)

    def free(self, *handles: int) -> None:
        for handle in handles:
            self.arrays.pop(handle, None)
            self.graphs.pop(handle, None)

    def pointer(self, handle: int) -> int:
        return self.arrays[handle].pointer

    def texture(self, handle: int, fields: dict) -> int:
        return self.arrays[handle].device.bind_texture(self.arrays[handle], fields)

    def no_texture(self, device: int, number: int) -> None:
        self.devices[device].unbind_texture(number)

    def get(self, *handles: int) -> list:
        return [self.arrays[handle].get() for handle in handles]

    def set(self, handle: int, data) -> None:
        self.arrays[handle].set(data)

    def written(self, handle: int):
        return self.arrays[handle].written

    def store(self, handle: int, offset: int, nbytes: int, pitch: int, rows: int) -> None:
        array = self.arrays[handle]
        for row in range(rows):
            array.device.arena.store(array.pointer + offset + row * pitch, nbytes)

    def unset(self, handle: int, offset: int, nbytes: int) -> tuple[int, int]:
        """How many of these bytes were never written, and where the first is; an incomplete last granule is left out."""
        array = self.arrays[handle]
        guard = array.device.arena.guard
        start, before = array.pointer + offset, offset % GRANULE
        nbytes = min(nbytes, array.nbytes // GRANULE * GRANULE - offset)
        if not array.device.unset_reads or nbytes <= 0:
            return 0, 0
        if len(guard.areas.get(array.pointer, ())) == 1 and guard.is_written(array.pointer):
            return 0, 0
        written = array.device.arena.written(start - before, nbytes + before)[before:]
        return int((~written).sum()), int(written.argmin())

    def track(self, module: int) -> None:
        """Launches of this module's kernels leave behind, of each granule, whether they touched it."""
        module = self.modules[module]
        names = {kernel.name for kernel in module.lowered.kernels.values()}
        module.unguarded |= names
        module.doubted |= names

    def touched(self, *handles: int) -> list:
        """See `ConfinedGPU.touched`."""
        if all(self.arrays[h].device.events == self.since for h in handles):  # it was spared
            return [np.empty((0, 3), np.int64) for _ in handles]
        owners = [(self.arrays[h].device.arena, self.arrays[h]._owner) for h in handles]
        return [touched(arena, owner, self.since, self.recorded) for arena, owner in owners]

    def retire(self, handle: int) -> None:
        array = self.arrays[handle]
        array.device.arena.unmark(array.pointer, array.nbytes)

    def module(
        self, number: int, device: int, memory: int, source: str, name: str, loaded: Built, quick: bool
    ) -> int:
        """Loads a module. size: bytes of device memory; code for another size is refused."""
        device = self.devices[device]
        if memory == device.arena.size:
            self.modules[number] = Module(device, source, name, loaded, (source, name), quick)
        return device.arena.size

    def constant(self, module: int, name: str, values) -> None:
        self.modules[module].set_constant(name, values)

    def variable(self, handle: int, module: int, name: str, dtype: str) -> None:
        self.arrays[handle] = self.modules[module].get_global(name, dtype)

    def optimise(self, module: int) -> None:
        self.modules[module].optimise()

    def fit(self, module: int, name: str, block) -> None:
        self.modules[module].get_function(name).for_blocks(block)

    def launch(self, module: int, name: str, grid, block, packed, shared_mem: int, settings: dict):
        """(whether the code is still a quick build's, the result)"""
        number, (module, arguments) = module, self._prepared(module, packed, settings)
        self.since = module.device.events
        if (number, name) not in self.kernels:
            self.kernels[number, name] = _kernel(module, name)
        kernel = self.kernels[number, name]
        try:
            found = kernel(grid, block, arguments, shared_mem)
        except KernelFault as fault:
            fault.__traceback__ = fault.__context__ = None  # they would keep the arrays alive
            found = fault
        self.recorded = not kernel.info.epochs or kernel.info.name in module.recorded
        return module.quick, found

    def graph(self, number: int, device: int, nodes) -> None:
        """nodes: see ConfinedGraph."""
        with self.devices[device].graph() as graph:
            for kind, *about in nodes:
                if kind == "launch":
                    module, name, grid, block, packed, shared_mem = about
                    kernel = _kernel(self.modules[module], name)
                    kernel(grid, block, self._arguments(packed), shared_mem)
                elif kind == "constant":
                    module, name, *packed = about
                    self.modules[module].set_constant(name, *self._arguments([packed]))
                else:
                    self.arrays[about[0]].set(about[1])
        self.graphs[number] = graph

    def replay(self, number: int, changed: dict, settings: dict):
        """(seconds of each node, the result). changed: new arguments of nodes."""
        graph = self.graphs[number]
        vars(graph.device).update(settings)
        for node, packed in changed.items():
            graph.nodes[node].change(self._arguments(packed))
        try:
            found = graph.launch()
        except KernelFault as fault:
            found = fault
        return graph.seconds, found

    def variants(
        self,
        module: int,
        name: str,
        grid,
        block,
        packed,
        shared_mem: int,
        settings: dict,
        constant: str,
        rows,
        outputs,
        seconds: float,
        apart: bool,
    ):
        """See Kernel.variants."""
        module, arguments = self._prepared(module, packed, settings)
        outputs = [Wanted(self.arrays[handle], *about) for handle, *about in outputs]
        return _kernel(module, name).variants(
            constant, rows, grid, block, arguments, outputs, shared_mem, seconds, apart
        )

    def _prepared(self, module: int, packed, settings: dict) -> tuple[Module, tuple]:
        """The module, with its device set up like the parent's, and the arguments of a launch."""
        module = self.modules[module]
        vars(module.device).update(settings)
        return module, self._arguments(packed)

    def _arguments(self, packed) -> tuple:
        return tuple(self._argument(kind, value) for kind, value in packed)

    def _argument(self, kind: str, value):
        if kind == "map":
            array, fields = self.arrays[value[0]], value[1]
            return TensorMap(array, **fields, device=array.device)
        return self.arrays[value] if kind == "array" else value


def _kernel(module: Module, name: str | tuple) -> Kernel:
    """A kernel without limits on shared memory and clusters: the parent has already checked the launch. name: and what clusters it
    asks for."""
    name, *cluster = name if isinstance(name, tuple) else (name,)
    kernel = module.get_function(name)
    kernel.max_dynamic_shared_size_bytes = limits_of(module.compiled.target).shared_per_block_optin
    kernel.non_portable_cluster_size_allowed = True
    return kernel.in_clusters(*cluster) if cluster else kernel


VERBS = (
    *("runtime", "open", "close", "array", "empty", "free", "pointer", "get", "set", "written"),
    *("texture", "no_texture"),
    *("store", "unset", "retire", "track", "touched"),
    *("module", "constant", "variable", "optimise", "fit", "launch", "variants", "graph", "replay"),
)


def write_bytecode() -> None:
    """Imports what explains faults if Python has not compiled it yet: later this process may not write that to the disk."""
    spec = importlib.util.find_spec("backwarp.devices.virtual.explain.faults")
    if not os.path.exists(spec.cached):
        importlib.import_module(spec.name)


def main() -> None:
    channel = attach(CODEC)
    link.prepare_linker()
    patience()  # the file that tells cannot be read later
    write_bytecode()
    limit(file_size=1 << 20)
    confine(python_folders(), hidden=kept_from())
    gc.freeze()
    handles = Handles(channel, int(sys.argv[2]) if len(sys.argv) > 2 else None)
    serve(channel, {verb: getattr(handles, verb) for verb in VERBS})


if __name__ == "__main__":
    main()
