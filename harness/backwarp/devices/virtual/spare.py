"""Full checks for so many seconds of each kernel; after them its launches have their accesses to memory checked, and no more.

The launch that uses up the rest is stopped, memory is restored, and it runs again, 10 to 100 times as fast. Both versions of a
kernel run on the same workers, with the same memory and variables. What the spared one may have stored to counts as written;
racecheck does not know what it has touched.
"""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...errors import CompileError, DeviceError
from ..launching import Launch
from .answers import DEVICE_SETTINGS
from .compile.modules import Lowered, for_any_block
from .compile.recipes import RECIPES
from .launch import Spent, Stopwatch

if TYPE_CHECKING:
    from .device import Module, VirtualGPU
    from .kernel import Kernel
    from .run.workers import Workers

CHECKS = "memory"
_CHECKED = "cells", "colds", "words", "unset", "traces"  # of a worker: not there, nothing is kept in them


def launch(kernel: Kernel, grid, block, args, shared_mem: int) -> Launch:
    """A launch with full checks, or spared. Errors: LaunchError, KernelFault."""
    module, device, name = kernel.module, kernel.module.device, kernel.info.name
    left = device.full_seconds - module.checked[name]
    if left > 0:
        watch = Stopwatch()
        try:
            return kernel.launch(grid, block, args, shared_mem, left)
        except Spent:
            module.checked[name] = device.full_seconds
        finally:
            module.checked[name] += watch.seconds
    spared = _module(module)
    if spared is None:
        return kernel.launch(grid, block, args, shared_mem)
    fast = kernel.in_module(spared)
    vars(spared.device).update((name, getattr(device, name)) for name in DEVICE_SETTINGS)
    device.arena.guard.only()
    try:
        with _unchecked(device.workers):
            found = fast(grid, block, args, shared_mem)
    finally:
        _count_as_written(kernel)
    found.spared = True
    return found


def _module(module: Module) -> Module | None:
    """Its version that checks memory alone, made when first needed; None if it cannot be."""
    if module.spared is None:
        module.spared, made = False, copy.copy(module)
        made.device, made.quick, made.tracking, made.wide = _device(module.device), True, False, False
        made.fixed, made.stepping, made.seconds, made._looks = for_any_block(module.fixed), False, 0.0, 0.0
        made.spent, made._looks_for = Counter(), Counter()
        with contextlib.suppress(CompileError, DeviceError):
            built = made._built_again(made.device.first_lanes)
            if _places(built.lowered) == _places(module.lowered):
                made.compiled = built.compiled
                made._load(built)
                module.spared = made
    return module.spared or None


def _places(lowered: Lowered) -> dict:
    """Of its variables, which both versions share."""
    return {name: (at, v.space, v.size, v.init) for name, (at, v) in lowered.variables.items()}


def _device(device: VirtualGPU) -> VirtualGPU:
    if device.spared is None:
        device.spared = made = copy.copy(device)
        made.checks, made.recipe, made.races, made.unset_reads = CHECKS, RECIPES[CHECKS], False, False
        made.quick, made.layouts = True, {}
    return device.spared


@contextlib.contextmanager
def _unchecked(workers: Workers) -> Iterator[None]:
    kept = {name: workers.envs[name].copy() for name in _CHECKED}
    for name in _CHECKED:
        workers.envs[name] = 0
    try:
        yield
    finally:
        for name, values in kept.items():
            workers.envs[name] = values


def _count_as_written(kernel: Kernel) -> None:
    """All that the last launch may have stored to."""
    module, device, info = kernel.module, kernel.module.device, kernel.info
    guard, given = device.arena.guard, device.parameters
    if info.stored is None or info.name in module.unguarded or device.textures:
        guard.written(guard.areas)
    else:
        guard.written(guard.holding(int.from_bytes(given[at : at + 8], "little")) for at in info.stored)
    if device.heap:
        for part in device.heap.parts(module.lowered.heap):
            device.arena.fill(part)
