"""CuPy's names for the virtual GPU: `import backwarp.cupy as cp`, or `install()`, after which `import cupy` gives this.

Kernels (RawKernel, RawModule) are compiled by NVIDIA's compiler and run with all checks. Everything else is NumPy's, computed
on the host: a name of NumPy that is not defined here is its function on arrays of the device.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType

import numpy as np

from . import cuda
from .core import Wrapped, array, ndarray, rewrapped, settings
from .elementwise import ElementwiseKernel, ReductionKernel
from .raw import RawKernel, RawModule

__version__ = "13.6.0"  # of CuPy, whose interface this is

__all__ = [
    "ElementwiseKernel",
    "RawKernel",
    "RawModule",
    "ReductionKernel",
    "array",
    "asarray",
    "asnumpy",
    "cuda",
    "install",
    "ndarray",
]


def install(checks: str = "full") -> None:
    """Makes `import cupy` give this module, in this process. checks: "full" or "memory" (faster: only what is accessed, not in
    which order). Errors: RuntimeError if CuPy has been imported before, or arrays with other checks exist."""
    this = sys.modules[__name__]
    if sys.modules.get("cupy", this) is not this:
        raise RuntimeError("cupy has been imported already: call backwarp.cupy.install() before that")
    from .core import device

    if device.cache_info().currsize and settings["checks"] != checks:
        raise RuntimeError(f"the virtual GPU is in use with checks={settings['checks']!r}")
    settings["checks"] = checks
    parts = {
        m.__name__: m
        for m in (lib.stride_tricks, *vars(this).values(), *vars(cuda).values())
        if isinstance(m, ModuleType)
    }
    sys.modules.update({"cupy": this, "cupy.cuda": cuda})
    sys.modules.update({name: part for name, part in parts.items() if name.startswith("cupy.")})


def uninstall() -> None:
    """Undoes `install`."""
    for name in [name for name in sys.modules if name == "cupy" or name.startswith("cupy.")]:
        del sys.modules[name]


# ---- arrays ----------------------------------------------------------------------------------------------------------


def asarray(a, dtype=None, order="K", **_) -> ndarray:
    return array(a, dtype, copy=False, order=order)


asanyarray = asarray


def asnumpy(a, stream=None, order="C", out=None, **_) -> np.ndarray:
    """A copy on the host."""
    return a.get(order=order, out=out) if isinstance(a, ndarray) else np.asarray(a, order=order)


def empty(shape, dtype=float, order="C") -> ndarray:
    """Unset memory: a kernel that reads it before something is stored there is reported."""
    return ndarray(shape, dtype, order=order)


def empty_like(prototype, dtype=None, order="K", subok=None, shape=None) -> ndarray:
    like = np.empty_like(getattr(prototype, "_host", prototype), dtype, order, shape=shape)
    return (
        ndarray(like.shape, like.dtype, strides=like.strides)
        if like.size
        else ndarray(like.shape, like.dtype)
    )


def full_like(a, fill_value, dtype=None, order="K", subok=None, shape=None) -> ndarray:
    made = empty_like(a, dtype, order, shape=shape)
    made[...] = fill_value
    return made


def zeros_like(a, *args, **kwargs) -> ndarray:
    return full_like(a, 0, *args, **kwargs)


def ones_like(a, *args, **kwargs) -> ndarray:
    return full_like(a, 1, *args, **kwargs)


# ---- what belongs to CuPy ------------------------------------------------------------------------------------------


def get_array_module(*args):
    return sys.modules[__name__] if any(isinstance(a, ndarray) for a in args) else np


is_available, memoize = cuda.is_available, cuda.always(functools.cache)


def fuse(*args, **kwargs):
    """The function as it is: what CuPy fuses is computed step by step."""
    return args[0] if args and callable(args[0]) else lambda function: function


get_default_memory_pool = get_default_pinned_memory_pool = cuda.always(cuda.MemoryPool())


def _compared(check):
    def compare(*args, **kwargs):
        __tracebackhide__ = True
        return check(*(asnumpy(a) if isinstance(a, ndarray) else a for a in args), **kwargs)

    return compare


def _part(name: str, find) -> ModuleType:
    """A module of CuPy whose names are found when they are asked for."""
    made = ModuleType(f"cupy.{name}", f"NumPy's {name} on arrays of the device.")
    made.__getattr__ = find
    return made


def _random(name: str):
    """NumPy's generators, whose functions take a dtype as CuPy's do."""

    def draw(*args, dtype=None, **kwargs):
        drawn = Wrapped(getattr(np.random, name))(*args, **kwargs)
        return drawn if dtype is None else drawn.astype(dtype)

    return draw


linalg = _part("linalg", lambda name: rewrapped(getattr(np.linalg, name)))
fft = _part("fft", lambda name: rewrapped(getattr(np.fft, name)))
testing = _part("testing", lambda name: _compared(getattr(np.testing, name)))
random = _part("random", _random)
lib = _part("lib", lambda name: getattr(np.lib, name))
lib.stride_tricks = _part("lib.stride_tricks", lambda name: rewrapped(getattr(np.lib.stride_tricks, name)))


def __getattr__(name: str):
    if name.startswith("_") or not hasattr(np, name):
        raise AttributeError(
            f"backwarp.cupy has no {name}: it has RawKernel, RawModule, cuda and what NumPy has. Kernels in Python or C++ "
            "expressions (cupyx.jit) need a GPU"
        )
    return rewrapped(getattr(np, name))
