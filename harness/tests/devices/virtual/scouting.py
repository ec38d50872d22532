"""What tests of full checks by lanes share: kernels whose lanes look first, and the same kernels as single threads."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices.virtual.compile.targets import target
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import device


@pytest.fixture(autouse=True, params=["quick", pytest.param("optimised", marks=pytest.mark.soak)])
def lanes(request, monkeypatch):
    """The code of lanes is compiled quickly: LLVM's optimiser, which takes longest, is not what is tested."""
    if request.param == "quick":
        monkeypatch.setattr(device(), "lanes", target().lanes)


def scouting(source: str):
    """A module whose kernels run as lanes where they can."""
    module = device().compile(source)
    module.quick, module.scouted = device().lanes > 0, False
    module.scout()
    module.quick = False
    return module


def launched(module, name: str, args, grid=2, block=64):
    """What a launch says: its fault and the notes."""
    try:
        return "", module.get_function(name)(grid, block, args).notes
    except KernelFault as fault:
        return str(fault), [str(x) for x in fault.more]


def both(source: str, arrays, *scalars, name: str = "k", **shape):
    """(the module whose lanes look first, what is said, the arrays afterwards); the same as of single threads."""
    said, left, modules = [], [], (device().compile(source), scouting(source))
    for module in modules:
        given = [make() for make in arrays]
        said.append(launched(module, name, (*given, *scalars), **shape))
        left.append([array.get() for array in given])
    assert said[0] == said[1]
    for a, b in zip(*left, strict=True):
        np.testing.assert_array_equal(a, b)
    return modules[1], said[1], left[1]


def inputs(n=128, dtype=np.float32, readonly=True):
    return lambda: device().array(np.arange(n).astype(dtype), name="a", readonly=readonly)


def outputs(n=128, dtype=np.float32):
    return lambda: device().empty(n, dtype, name="out")


INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"


def assert_lanes(module, name: str = "k", doubted: bool = False):
    assert module.get_function(name).info.scouts
    assert module.doubted == ({name} if doubted else set())
