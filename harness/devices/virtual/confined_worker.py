"""The process in which the kernels of a ConfinedGPU run: `python -m harness.devices.virtual.confined_worker`."""

from __future__ import annotations

import gc
import os
from multiprocessing.connection import Connection

from ...errors import BackwarpError, KernelFault
from ..child import attach
from ..confine import confine, limit, python_folders
from .answers import CODEC
from .compile import link
from .compile.modules import Built
from .device import Array, Module, VirtualGPU

POSTED = {"runtime", "open", "close", "array", "empty", "set", "constant"}  # verbs without an answer


class Worker:
    """One method per verb. Arrays, devices and modules are known by numbers."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.devices: dict[int, VirtualGPU] = {}
        self.arrays: dict[int, Array] = {}
        self.modules: dict[int, Module] = {}

    def serve(self) -> None:
        wrong = None  # with what has no answer
        while True:
            verb, unused, arguments = CODEC.loads(self.connection.recv_bytes())
            for handle in unused:
                self.arrays.pop(handle, None)
            try:
                if verb in POSTED:
                    if wrong is None:
                        getattr(self, f"do_{verb}")(*arguments)
                    continue
                if wrong is not None:
                    raise wrong
                answer = "ok", getattr(self, f"do_{verb}")(*arguments)
            except BackwarpError as error:
                wrong = error if verb in POSTED else None
                answer = "error", error
            if verb not in POSTED:
                self.connection.send_bytes(CODEC.dumps(answer))

    def ask_build(self, quick: bool, tracking: bool) -> Built:
        """The parent builds: the compilers run in another process, and this one has no access to the
        cache."""
        self.connection.send_bytes(CODEC.dumps(("build", {"quick": quick, "tracking": tracking})))
        kind, value = CODEC.loads(self.connection.recv_bytes())
        if kind == "error":
            raise value
        return value

    # -- verbs ------------------------------------------------------------------------------------------

    def do_runtime(self, whole: bool, code: bytes) -> None:
        link.provide_runtime(whole, code)

    def do_open(self, number: int, checks: str) -> None:
        self.devices[number] = device = VirtualGPU(checks)
        device.build = lambda *_, quick, tracking: self.ask_build(quick, tracking)

    def do_close(self, number: int) -> None:
        device = self.devices.pop(number)
        self.arrays = {h: a for h, a in self.arrays.items() if a.device is not device}
        self.modules = {n: m for n, m in self.modules.items() if m.device is not device}
        device.close()
        gc.collect()

    def do_array(self, handle: int, device: int, data, name: str, axes: str, readonly: bool) -> None:
        self.arrays[handle] = self.devices[device].array(data, name, axes, readonly)

    def do_empty(self, handle: int, device: int, shape, dtype: str, name: str, axes: str) -> None:
        self.arrays[handle] = self.devices[device].empty(tuple(shape), dtype, name, axes)

    def do_pointer(self, handle: int) -> int:
        return self.arrays[handle].pointer

    def do_get(self, handle: int):
        return self.arrays[handle].get()

    def do_set(self, handle: int, data) -> None:
        self.arrays[handle].set(data)

    def do_written(self, handle: int):
        return self.arrays[handle].written

    def do_module(
        self, number: int, device: int, memory: int, source: str, name: str, loaded: Built, quick: bool
    ) -> int:
        """Bytes of the device's memory. Code for another size is refused."""
        device = self.devices[device]
        if memory == device.arena.size:
            self.modules[number] = Module(device, source, name, loaded, (source, name), quick)
        return device.arena.size

    def do_constant(self, module: int, name: str, values) -> None:
        self.modules[module].set_constant(name, values)

    def do_optimise(self, module: int) -> None:
        self.modules[module].optimise()

    def do_launch(self, module: int, name: str, grid, block, packed, shared_mem: int, settings: dict):
        """(whether the code is still that of a quick build, its lines by site where steps are kept, what came of it)"""
        module = self.modules[module]
        vars(module.device).update(settings)
        arguments = tuple(self.arrays[value] if kind == "array" else value for kind, value in packed)
        try:
            found = module.get_function(name)(grid, block, arguments, shared_mem)
        except KernelFault as fault:
            found = fault
        launch = found.launch if isinstance(found, KernelFault) else found
        lines = None
        if launch is not None and launch.steps is not None:
            lines, launch.steps = launch.steps.lines, launch.steps.rows
        return module.quick, lines, found


def main() -> None:
    connection = attach()
    link.prepare_linker()
    limit(file_size=1 << 20)
    confine(readable=python_folders())
    gc.freeze()
    try:
        Worker(connection).serve()
    except (EOFError, OSError):
        os._exit(0)


if __name__ == "__main__":
    main()
