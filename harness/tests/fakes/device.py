"""A device whose kernels are Python functions, for behaviour that no real kernel shows on demand."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np

from backwarp.course.declare import Array
from backwarp.devices.launching import poison
from backwarp.errors import CompileError, Diagnostic, LaunchError


class FakeArray:
    def __init__(self, data, name, damage=None):
        self.data, self.name, self.damage = data, name, damage
        self.shape, self.dtype, self.nbytes = data.shape, data.dtype, data.nbytes

    def get(self):
        return self.data.copy()

    def intact(self):
        return self.damage


class FakeDevice:
    """kernels: name -> f(arguments by name, device), which writes into NumPy arrays or raises. Another of this type, opened for
    some build, compiles nothing: a fake has no PTX."""

    def __init__(self, kernels, declared=(), kind="cpu", checks="full"):
        self.kernels, self.declared = kernels, {k.name: k for k in declared}
        self.kind, self.checks = kind, checks
        self.name, self.reason = f"fake {kind}", "asked for by a test"
        self.dropped, self.schedule, self.time_limit, self.launches, self.compiled, self.closed = (
            0,
            0,
            10.0,
            0,
            0,
            False,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True

    def compile(self, source, name="kernel.cu", include_dirs=()):
        self.compiled += 1
        if not self.declared:
            raise CompileError("a fake has no PTX")
        if "syntax error" in source:
            raise CompileError(
                "does not compile", (Diagnostic("error", 'expected a ";"', name, 1, 4, source),)
            )
        names = tuple(re.findall(r"__global__ void (\w+)", source))
        return SimpleNamespace(
            name=name, functions=names, get_function=lambda wanted: self.function(wanted, names)
        )

    def function(self, wanted, names):
        if wanted not in names:
            raise LaunchError(f"no kernel {wanted}", "cudaErrorInvalidDeviceFunction")
        return FakeKernel(self, self.declared[wanted])

    def array(self, data, name="", axes="", readonly=False):
        return FakeArray(np.array(data), name)

    def empty(self, shape, dtype, name="", axes=""):
        return FakeArray(poison(shape, dtype), name)

    def fetch(self, arrays):
        return [array.get() for array in arrays]


class FakeKernel:
    def __init__(self, device, declared):
        self.device, self.declared = device, declared
        self.params = tuple(
            8 if isinstance(p, Array) else np.dtype(p.dtype).itemsize for p in declared.params
        )

    def __call__(self, grid, block, args, shared_mem=0):
        self.device.launches += 1
        named = {p.name: a for p, a in zip(self.declared.params, args, strict=True)}
        values = {name: a.data if isinstance(a, FakeArray) else a for name, a in named.items()}
        self.device.handles = named
        printed = self.device.kernels[self.declared.name](values, self.device)
        return SimpleNamespace(
            stdout=printed or "", stdout_dropped=self.device.dropped, counters={}, notes=[], requests=[]
        )


def fake_opener(kernels, puzzle, kinds=("cpu",), opened=None):
    """An `open_device` for grade_file; `auto` gives the first of `kinds`; `opened` gets every device."""

    def open_device(kind, checks="full", seed=0, confined=False):
        device = FakeDevice(kernels, puzzle.kernels, kinds[0] if kind == "auto" else kind, checks)
        if opened is not None:
            opened.append(device)
        return device

    return open_device


def stub_of(puzzle):
    """A source that the fake compiler accepts: every kernel of the puzzle, with nothing in it."""
    return "".join(f"__global__ void {k.signature} {{}}\n" for k in puzzle.kernels)
