"""CuPy's ndarray in the virtual GPU's memory, which is host memory: NumPy computes on it in place, and what it returns
becomes an array of the device again.

What `empty` leaves unset stays unset through views, copies and arithmetic, so that a kernel that reads it is reported.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from types import ModuleType

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..devices import open_device
from ..devices.virtual.compile.recipes import Check
from ..devices.virtual.run import unset
from ..errors import DeviceError

TIME_LIMIT = 60.0  # seconds for a launch
settings = {"checks": "full"}
#: attributes and methods that are NumPy's own; those of the second row return host values
_NUMPYS = """
    T all any argmax argmin argpartition argsort astype choose clip compress conj conjugate copy cumprod cumsum diagonal dot
    dtype flags flatten imag itemsize max mean min nbytes ndim nonzero partition prod put ravel real repeat reshape round
    searchsorted size sort squeeze std strides sum swapaxes take trace transpose var view
""".split()
_TO_HOST = "dumps item tobytes tofile tolist".split()
#: functions that store to their first argument, as `ufunc.at` does
_STORES = {np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask}
_STORES |= {np.ndarray.partition, np.ndarray.put, np.ndarray.sort}
#: functions that move values without looking at them, so that the same moves say what is unset in their results
_MOVES = """
    array asarray ascontiguousarray asfortranarray atleast_1d atleast_2d atleast_3d block broadcast_to column_stack
    concatenate copy diag diagonal dstack expand_dims flatten flip fliplr flipud hstack moveaxis ravel
    repeat reshape resize roll rollaxis rot90 split squeeze stack swapaxes take take_along_axis tile transpose tril triu
    vstack getitem
""".split()
_IMPLICIT = "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly."


@functools.cache
def device():
    """The virtual GPU that all arrays are on, opened for the first of them."""
    found = open_device("cpu", settings["checks"])
    found.time_limit = TIME_LIMIT
    return found


def tracks() -> bool:
    return Check.INITIALISED in device().recipe


class ndarray(NDArrayOperatorsMixin):  # noqa: N801
    """CuPy's ndarray. Views share memory, as NumPy's do; `_memory` keeps it, `_host` is the view that NumPy computes on."""

    __slots__ = ("_host", "_memory", "__weakref__")
    __hash__ = None

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        dtype, size = np.dtype(float if dtype is None else dtype), int(np.prod(shape, dtype=np.int64))
        if memptr and memptr.size < size * dtype.itemsize:
            raise ValueError(f"{size} elements of {dtype} do not fit into {memptr.size} bytes of memory")
        memptr = memptr or MemoryPointer(allocated(dtype, size))
        self._memory = memptr.mem
        self._host = np.ndarray(shape, dtype, device().arena.bytes, memptr.ptr, strides, order or "C")

    def __getattr__(self, name: str):
        if name in _TO_HOST:
            return getattr(self._host, name)
        if name not in _NUMPYS:
            raise AttributeError(f"'ndarray' object has no attribute {name!r}")
        value = getattr(self._host, name)
        if callable(value):
            return functools.partial(call, getattr(np.ndarray, name), self)
        return wrapped(value, [self])

    @property
    def shape(self) -> tuple[int, ...]:
        return self._host.shape

    @shape.setter
    def shape(self, shape) -> None:
        self._host = self._host.view()
        self._host.shape = shape

    @property
    def data(self) -> MemoryPointer:
        return MemoryPointer(self._memory, self._address - self._memory.pointer)

    @property
    def _address(self) -> int:
        return self._host.__array_interface__["data"][0] - device().arena.host()

    # -- to and from the host

    def get(self, stream=None, order="C", out=None, blocking=True) -> np.ndarray:
        """A copy on the host."""
        if out is None:
            return np.array(self._host, order=order)
        out[...] = self._host
        return out

    def set(self, arr, stream=None) -> None:
        """Copies a NumPy array of the same shape and type."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self.dtype or arr.shape != self.shape:
            raise ValueError(f"{arr.dtype}{arr.shape} cannot be set to {self.dtype}{self.shape}")
        self._host[...] = arr
        stored(self)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(_IMPLICIT)

    # -- Python's protocols

    def __getitem__(self, key):
        return call(getitem, self, key)

    def __setitem__(self, key, value) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError(f"Unsupported type {type(value)}")
        left = None
        if tracks():
            left, new = _left(self), _left(value)
            if left is not None or new is not None:
                left = np.zeros(self.shape, bool) if left is None else left
                left[_host(key)] = new is not None and new
        self._host[_host(key)] = _host(value)
        stored(self, left)

    def fill(self, value) -> None:
        self[...] = value

    def __iter__(self):
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __format__(self, spec: str) -> str:
        return format(self._host[()], spec)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __reduce__(self):
        return array, (self.get(),)

    # -- NumPy's protocols

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        for value in (*inputs, *(kwargs.get("out") or ())):
            if isinstance(value, np.ndarray):
                raise TypeError(f"Unsupported type {type(value)}")
        return call(ufunc if method == "__call__" else getattr(ufunc, method), *inputs, **kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return call(function, *args, **kwargs)


def _of_host(name: str) -> Callable:
    return lambda self: getattr(self._host, name)()


for _name in (
    "__bool__",
    "__complex__",
    "__float__",
    "__index__",
    "__int__",
    "__len__",
    "__repr__",
    "__str__",
):
    setattr(ndarray, _name, _of_host(_name))


class Wrapped:
    """A function, module or object of NumPy whose functions take and return arrays of the device."""

    def __init__(self, numpys):
        self.__wrapped__ = numpys
        self.__name__, self.__doc__ = getattr(numpys, "__name__", ""), getattr(numpys, "__doc__", "")

    def __call__(self, *args, **kwargs):
        return rewrapped(call(self.__wrapped__, *args, **kwargs))

    def __getattr__(self, name: str):
        return rewrapped(getattr(self.__wrapped__, name))


def rewrapped(value):
    """What NumPy computes with is wrapped, its types and constants are the same."""
    computes = (
        callable(value)
        and not isinstance(value, type)
        or isinstance(value, np.random.Generator | np.random.RandomState | ModuleType)
    )
    return Wrapped(value) if computes else value


class MemoryPointer:
    """An address in device memory. mem: what keeps it."""

    def __init__(self, mem, offset: int = 0):
        self.mem, self.offset, self.ptr = mem, offset, mem.pointer + offset
        self.size = mem.nbytes - offset

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.offset + offset)

    def __int__(self) -> int:
        return self.ptr

    def memset(self, value: int, size: int) -> None:
        ndarray((size,), np.uint8, self).fill(value)

    def copy_from(self, mem, size: int) -> None:
        """Copies so many bytes from device memory, or from host memory at an address."""
        to = ndarray((size,), np.uint8, self)
        if isinstance(mem, MemoryPointer):
            to[...] = ndarray((size,), np.uint8, mem)
        else:
            to.set(np.frombuffer(ctypes.string_at(getattr(mem, "value", mem), size), np.uint8))

    memset_async = memset
    copy_from_host = copy_from_host_async = copy_from_device = copy_from_device_async = copy_from_async = (
        copy_from
    )


# ---- between host and device ---------------------------------------------------------------------------------------


def allocated(dtype: np.dtype, size: int):
    """Unset device memory for so many elements. Errors: cupy.cuda.memory.OutOfMemoryError."""
    if dtype.hasobject or dtype.kind not in "biufcV":
        raise ValueError(f"Unsupported dtype {dtype}")
    try:
        return device().empty((size,), dtype)
    except DeviceError as error:
        from .errors import OutOfMemoryError

        raise OutOfMemoryError(str(error)) from None


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, **_) -> ndarray:
    """An array of the device, from one of the host or of the device, or from nested sequences of these."""
    if copy is not True and isinstance(obj, ndarray) and dtype in (None, obj.dtype) and order in ("K", "A"):
        return obj if obj.ndim >= ndmin else obj.reshape((1,) * (ndmin - obj.ndim) + obj.shape)
    return call(np.array, obj, dtype=dtype, order=order, ndmin=ndmin)


def placed(values: np.ndarray, left: np.ndarray | None = None) -> ndarray:
    """A copy on the device, with the same layout. left: which of its elements are unset."""
    memory = allocated(values.dtype, values.size)
    made = object.__new__(ndarray)
    strides = np.empty_like(values, order="K", subok=False).strides
    made._memory = memory
    made._host = np.ndarray(values.shape, values.dtype, device().arena.bytes, memory.pointer, strides)
    made._host[...] = values
    stored(made, left)
    return made


def stored(target: ndarray, left: np.ndarray | None = None) -> None:
    """The host has stored to an array; these of its elements are unset."""
    if tracks():
        unset.store(device().arena, target._host, left)


def getitem(values: np.ndarray, key):
    """A view or copy, of no dimensions in place of a scalar."""
    plain = not isinstance(key, str | list) and not (isinstance(key, tuple) and any(k is ... for k in key))
    if plain and key is not ...:
        key = (*key, ...) if isinstance(key, tuple) else (key, ...)
    return values[key]


def call(function: Callable, *args, **kwargs):
    """NumPy's function on arrays of the device; what it returns is on the device."""
    if function in _STORES or getattr(function, "__name__", "") == "at":
        return _store_some(function, *args, **kwargs)
    outs = [a for a in (kwargs.get("out"),) if a is not None]
    outs = list(outs[0]) if outs and isinstance(outs[0], tuple) else outs
    read = list(_arrays((args, {k: v for k, v in kwargs.items() if k != "out"})))
    any_left = tracks() and any(_left(a) is not None for a in read)
    with np.errstate(all="ignore"):  # a GPU does not tell
        result = function(*_host(args), **_host(kwargs))
    left = _result_left(function, args, kwargs, result) if any_left else None
    many = left if isinstance(left, tuple) else [left] * len(outs)
    for target, its in zip(outs, many):
        stored(target, its)
    if outs:
        return outs[0] if len(outs) == 1 else tuple(outs)
    return wrapped(result, read, left)


def _store_some(function: Callable, target: ndarray, *args, **kwargs):
    """A function that stores to some elements of its first argument: those that are other bytes now are set."""
    left = _left(target) if tracks() else None
    before = target.get() if left is not None else None
    result = function(target._host, *_host(args), **_host(kwargs))
    if left is not None:
        each = target.shape + (target.itemsize,)
        now, then = (np.ascontiguousarray(v).view(np.uint8).reshape(each) for v in (target._host, before))
        left &= (now == then).all(-1)
    stored(target, left)
    return result


def wrapped(value, arrays=(), left=None):
    """What NumPy returned, on the device: a view of one of these arrays, or a copy. left: what of it is unset."""
    if isinstance(value, np.ndarray):
        at = value.__array_interface__["data"][0] - device().arena.host()
        for one in arrays:
            if value.size and one._memory.pointer <= at < one._memory.pointer + max(one._memory.nbytes, 1):
                if value is one._host:
                    return one
                made = object.__new__(ndarray)
                made._memory, made._host = one._memory, value
                return made
        return placed(value, left)
    if isinstance(value, bool | np.generic):
        return placed(np.asarray(value), left)
    if isinstance(value, tuple | list):
        many = left if isinstance(left, tuple | list) else [left] * len(value)
        parts = [wrapped(v, arrays, m) for v, m in zip(value, many)]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _result_left(function: Callable, args, kwargs, result):
    """Which elements of a result are unset: where a function only moves the elements of its first argument, or takes those
    of all arguments one by one, what comes from unset ones; else all."""

    def mask(one: ndarray) -> np.ndarray:
        return np.zeros(one.shape, bool) if (found := _left(one)) is None else found

    name = getattr(function, "__name__", "")
    if name == "astype":
        return mask(args[0])
    if name in _MOVES:
        kept = {k: _host(v) for k, v in kwargs.items() if k not in ("dtype", "out")}
        return function(_host(args[0], mask), *_host(args[1:]), **kept)
    if isinstance(function, np.ufunc) and function.signature is None:
        left = functools.reduce(np.logical_or, [mask(a) for a in args if isinstance(a, ndarray)])
        return (left,) * function.nout if function.nout > 1 else left
    return np.True_


def _left(value) -> np.ndarray | None:
    return unset.elements(device().arena, value._host) if isinstance(value, ndarray) else None


def _host(value, how=lambda a: a._host):
    """The same value with NumPy's views in place of arrays of the device."""
    if isinstance(value, ndarray):
        return how(value)
    if isinstance(value, tuple | list):
        parts = [_host(v, how) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return {k: _host(v, how) for k, v in value.items()} if isinstance(value, dict) else value


def _arrays(value):
    if isinstance(value, ndarray):
        yield value
    elif isinstance(value, tuple | list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _arrays(part)
