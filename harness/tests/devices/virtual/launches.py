"""What the tests of the virtual GPU share: a device of each kind, and real kernels run in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest

from backwarp.devices.virtual.device import VirtualGPU

FLAVOURS = ("full", "memory")
K = 'extern "C" __global__ void '


class Quick(VirtualGPU):
    """Compiles quickly, as in grading, and never optimises later, however slow the machine."""

    def __init__(self, checks: str, cores: int | None = None):
        super().__init__(checks, cores=cores)
        self.quick = True

    def compile(self, *args, **options):
        module = super().compile(*args, **options)
        module.quick, module.scouted = False, True
        return module


_quick = cache(Quick)


def device(checks: str = "full") -> Quick:
    """One device of each kind for the whole process."""
    return _quick(checks)


def in_each_build(flavours: Mapping[str, tuple[str, ...]]) -> list:
    """For parametrize: each name with its flavours; by day most with the first alone."""
    return [
        pytest.param(name, checks, marks=[pytest.mark.soak] * (checks != builds[0] and number % 4 > 0))
        for number, (name, builds) in enumerate(flavours.items())
        for checks in builds
    ]


def chosen(request, argument: str = "name", **others) -> set:
    """The values of an argument of the tests in this file that are to run, of those with these other arguments."""
    tests = (item for item in request.session.items if item.path == request.path)
    given = [test.callspec.params for test in tests if hasattr(test, "callspec")]
    return {p[argument] for p in given if argument in p and others.items() <= p.items()}


#: a kernel of harness/tests/kernels: up to what is not indented
_KERNEL = re.compile(
    r'^(?:KERNEL |TEST\(|extern "C" __global__ void )(\w+)[()].*?\}[^\n]*$(?=\s*(?:^[^\s}]|\Z))',
    re.MULTILINE | re.DOTALL,
)


def only(source: str, kernels) -> str:
    """The file without its other kernels, which would only be compiled; all lines keep their numbers."""
    return _KERNEL.sub(lambda k: k[0] if k[1] in kernels else "\n" * k[0].count("\n"), source)


def zeros(shape, dtype=np.float32, name: str = "out", axes: str = "", checks: str = "full"):
    """A device array that has been written."""
    return device(checks).array(np.zeros(shape, dtype), name=name, axes=axes)


def run(
    source: str,
    *args,
    grid=1,
    block=32,
    shared_mem: int = 0,
    checks: str = "full",
    name: str = "",
    include_dirs=(),
):
    """Compile a file and launch a kernel of it, by default its first. NumPy arrays are copied in."""
    dev = device(checks)
    module = dev.compile(source, include_dirs=include_dirs)
    given = tuple(dev.array(a) if isinstance(a, np.ndarray) and a.ndim else a for a in args)
    return module.get_function(name or module.functions[0])(grid, block, given, shared_mem)


def result(body: str, count: int, *args, dtype=np.float32, before: str = "", **launch) -> np.ndarray:
    """What a kernel `(T* out, ...)` with this body writes; `...`: a, b, c of the arguments' types."""
    names = []
    for letter, argument in zip("abcdef", args):
        c_type = _C[np.dtype(argument.dtype).name]
        names.append(f"const {c_type}* {letter}" if np.ndim(argument) else f"{c_type} {letter}")
    source = f"{before}\n{K}k({', '.join([_C[np.dtype(dtype).name] + '* out', *names])}) {{\n{body}\n}}\n"
    out = zeros(count, dtype, checks=launch.get("checks", "full"))
    run(source, out, *args, name="k", **launch)
    return out.get()


_C = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "uint32": "unsigned",
    "int64": "long long",
    "uint64": "unsigned long long",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
    "uint16": "unsigned short",
}


def line_of(source: str, mark: str = "FAULT") -> int:
    """The number of the line that carries the comment `// mark`."""
    lines = [n for n, text in enumerate(source.splitlines(), 1) if text.rstrip().endswith(f"// {mark}")]
    assert len(lines) == 1, f"{len(lines)} lines are marked {mark}"
    return lines[0]
