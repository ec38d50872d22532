"""`cupy` in the process of a student's file: streams, events and arrays that only ask, see machine.

The names are CuPy's, and `import cupy` gives them as soon as this module is imported, which only that process does. Arrays
of the host are NumPy's; pinned ones notice that they are used while a copy of them is under way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType, ModuleType

import numpy as np

from .. import streams
from ..grading.programs.data import Refused

_NAMES = "float32, int32, empty, zeros, ones, full, empty_like, zeros_like, asarray, array, asnumpy, ndarray and cuda"
_LONGEST = 64  # elements of a list that are searched for a name


class Session:
    """What is known of one call of the student's function. ask: sends a request; file: the name of the student's."""

    def __init__(self, ask: Callable, file: str):
        self.send, self.file = ask, file
        self.hosts: list[tuple[int, int, str, np.ndarray]] = []  # start, stop, name, pinned memory
        self.flights: dict[
            int, tuple[int, int, bool, np.ndarray | None]
        ] = {}  # number -> start, stop, fills, target
        self.dead: list[int] = []  # memory that no array uses any more
        self.current: list[Stream] = [Stream.null]

    def ask(self, verb: str, *arguments):
        while self.dead:
            self.send("free", self.dead.pop())
        return self.send(verb, *arguments)

    def frame(self) -> FrameType | None:
        """The innermost frame of the student's file."""
        frame = sys._getframe(1)
        while frame and frame.f_code.co_filename != self.file:
            frame = frame.f_back
        return frame

    def line(self) -> int:
        frame = self.frame()
        return frame.f_lineno if frame else 0

    def landed(self, found: list) -> None:
        """Copies with the host that have ended."""
        for number, data in found:
            start, stop, fills, array, held = self.flights.pop(number)
            plain = array.view(np.ndarray)
            if fills:
                plain[...] = np.frombuffer(data, plain.dtype).reshape(plain.shape)
            elif plain.tobytes() != held:  # stored to through an array of NumPy's own
                self.ask("host", self.line(), "", number, True)

    def touch(self, array: np.ndarray, stores: bool) -> None:
        """The host uses pinned memory."""
        start, stop = span(array)
        for number, (first, last, fills, *_) in self.flights.items():
            if start < last and first < stop and (fills or stores):
                self.ask("host", self.line(), called(array) or called(array.base), number, stores)

    def pinned(self, name: str, values: np.ndarray) -> Pinned:
        made = values.copy().view(Pinned)
        self.hosts.append((*span(made), name, made))
        return made

    def place(self, array: np.ndarray) -> tuple[str, int] | None:
        """(name, place in it) of pinned memory; None for other memory."""
        start, stop = span(array)
        return next(((name, start - a) for a, b, name, _ in self.hosts if a <= start and stop <= b), None)


session: Session | None = None


def now() -> Session:
    if session is None:
        raise Refused("launch", "cupy can be used in backward, until it returns")
    return session


def span(array: np.ndarray) -> tuple[int, int]:
    start = array.__array_interface__["data"][0]
    return start, start + array.nbytes


def called(thing: object) -> str:
    """What the student's file calls something: the name of a variable, or its place in a list."""
    frame = now().frame()
    for name, value in (frame.f_locals if frame else {}).items():
        if value is thing:
            return str(name)
        if type(value) in (list, tuple):
            for i, item in enumerate(value[:_LONGEST]):
                if item is thing:
                    return f"{name}[{i}]"
    return ""


class Pinned(np.ndarray):
    """Pinned host memory. Whoever uses it while a copy is under way is told."""

    def __getitem__(self, key):
        found = super().__getitem__(key)
        if session and not (isinstance(found, np.ndarray) and found.base is not None):
            session.touch(self, False)
        return found

    def __setitem__(self, key, value) -> None:
        if session:
            session.touch(super().__getitem__(key) if isinstance(key, int | slice) else self, True)
        super().__setitem__(key, value)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        def plain(values, stores):
            for value in values:
                if isinstance(value, Pinned) and session:
                    session.touch(value, stores)
            return tuple(v.view(np.ndarray) if isinstance(v, Pinned) else v for v in values)

        more = {"out": plain(out, True)} if out else {}
        found = getattr(ufunc, method)(*plain(inputs, method == "at"), **more, **kwargs)
        return out[0] if out and len(out) == 1 else found

    def __array_function__(self, function, types, args, kwargs):
        if session:
            for value in args:
                if isinstance(value, Pinned):
                    session.touch(value, function in (np.copyto,) and value is args[0])
        return super().__array_function__(function, types, args, kwargs)


def used(name: str, stores: bool) -> Callable:
    """A method of NumPy's arrays that goes around the protocols above."""

    def method(self, *args, **kwargs):
        if session:
            session.touch(self, stores)
        return getattr(super(Pinned, self), name)(*args, **kwargs)

    return method


for _name in "tolist item tobytes copy astype take __iter__ __float__ __bool__".split():
    setattr(Pinned, _name, used(_name, False))
for _name in "fill sort put partition".split():
    setattr(Pinned, _name, used(_name, True))


# ---- cupy.cuda -------------------------------------------------------------------------------------------


class Stream:
    """cupy.cuda.Stream."""

    null: Stream

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        if ptds:
            raise Refused("launch", "the per-thread default stream is not here: make a Stream")
        self.non_blocking = bool(non_blocking)
        self._id = 0 if null else now().ask("stream", not non_blocking)
        self._before: list[Stream] = []

    ptr = property(lambda self: self._id)

    def __enter__(self) -> Stream:
        now().current.append(self)
        return self

    def __exit__(self, *_) -> None:
        if len(now().current) > 1:
            now().current.pop()

    def use(self) -> Stream:
        now().current[-1] = self
        return self

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        if not isinstance(event, Event):
            raise Refused("launch", f"wait_event takes an Event, not a {type(event).__name__}")
        now().ask("wait_event", self._id, event._id, now().line())

    def synchronize(self) -> None:
        now().landed(now().ask("wait", now().line(), "stream", self._id))

    @property
    def done(self) -> bool:
        """Waits: then the answer is yes."""
        self.synchronize()
        return True

    def __getattr__(self, name: str):
        raise Refused(
            "launch", f"a stream here has no {name}: record, wait_event, synchronize, use, done, and with"
        )

    def __repr__(self) -> str:
        return f"<Stream {self._id}>"


Stream.null = Stream(null=True)


class Event:
    """cupy.cuda.Event."""

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self._id = now().ask("event")

    def record(self, stream: Stream | None = None) -> None:
        now().ask("record", self._id, chosen(stream)._id)

    def synchronize(self) -> None:
        now().landed(now().ask("wait", now().line(), "event", self._id))

    @property
    def done(self) -> bool:
        self.synchronize()
        return True


class Device:
    """cupy.cuda.Device."""

    def __init__(self, device: int = 0):
        self.id = 0

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_) -> None:
        return None

    use = __enter__

    def synchronize(self) -> None:
        now().landed(now().ask("wait", now().line(), "device", 0))


def chosen(stream: Stream | None) -> Stream:
    """The stream given, or the current one."""
    if stream is None:
        return now().current[-1]
    if not isinstance(stream, Stream):
        raise Refused("launch", f"stream is a {type(stream).__name__}, not a Stream")
    return stream


# ---- arrays ----------------------------------------------------------------------------------------------


class Memory:
    """Memory of the device; given back with the last array that uses it."""

    def __init__(self, number: int, of: Session):
        self.number, self.of = number, of

    def __del__(self):
        self.of.dead.append(self.number)


class ndarray:  # noqa: N801
    """cupy.ndarray, stored without gaps."""

    __hash__ = None
    __array_ufunc__ = None  # NumPy's arrays do not take it for one of theirs

    def __init__(
        self, shape, dtype=float, _memory: Memory | None = None, _start: int = 0, _root: ndarray | None = None
    ):
        shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        self.shape, self.dtype = tuple(int(n) for n in shape), np.dtype(dtype)
        if self.dtype not in (np.float32, np.int32):
            raise Refused("launch", f"an array here holds float32 or int32, not {self.dtype}: pass the type")
        if any(n < 1 for n in self.shape):
            raise Refused("launch", f"an array of the shape {self.shape} has no elements")
        self._start, self._root = _start, _root
        if _memory is None:
            line, stream = now().line(), now().current[-1]._id
            _memory = Memory(now().ask("allocate", line, "", self.nbytes, stream), now())
        self._memory = _memory

    size = property(lambda self: int(np.prod(self.shape)))
    nbytes = property(lambda self: self.size * self.dtype.itemsize)
    ndim = property(lambda self: len(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key) -> ndarray:
        inner = self.nbytes // self.shape[0] if self.shape else 0
        if isinstance(key, int | np.integer) and self.shape:
            if not -len(self) <= key < len(self):
                raise IndexError(f"index {key} is out of bounds for axis 0 with size {len(self)}")
            return self._part(self.shape[1:], int(key) % len(self) * inner)
        if isinstance(key, slice) and self.shape:
            start, stop, step = key.indices(len(self))
            if step == 1 and stop > start:
                return self._part((stop - start, *self.shape[1:]), start * inner)
        if key is Ellipsis:
            return self
        raise Refused(
            "launch", "an array here takes an index, or a slice that is not empty, of its first axis"
        )

    def _part(self, shape: tuple[int, ...], start: int) -> ndarray:
        return ndarray(
            shape, self.dtype, self._memory, self._start + start, self if self._root is None else self._root
        )

    def reshape(self, *shape) -> ndarray:
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        if (size := -int(np.prod(shape))) > 0:
            shape = tuple(self.size // size if n == -1 else n for n in shape)
        if int(np.prod(shape)) != self.size:
            raise ValueError(f"cannot reshape array of size {self.size} into shape {tuple(shape)}")
        return self._part(tuple(shape), 0)

    def ravel(self) -> ndarray:
        return self.reshape(self.size)

    def _operand(self) -> list:
        name = called(self) or called(self if self._root is None else self._root) or "an array"
        return [self._memory.number, self._start, list(self.shape), self.dtype.name, name]

    def set(self, arr: np.ndarray, stream: Stream | None = None) -> None:
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self.dtype or arr.shape != self.shape:
            raise ValueError(
                f"an array of {arr.dtype} {arr.shape} cannot be set to one of {self.dtype} {self.shape}"
            )
        arr = np.ascontiguousarray(arr)
        pinned = now().place(arr)
        source = list(pinned) if pinned else plain_bytes(arr)
        if pinned and pinned[0] == "":
            now().touch(arr, False)
            source = plain_bytes(arr)
        work(stream, "set", [self], source, not pinned, (*span(arr), False, arr))

    def get(
        self, stream: Stream | None = None, order="C", out: np.ndarray | None = None, blocking=True
    ) -> np.ndarray:
        target = np.empty(self.shape, self.dtype).view(Pinned) if out is None else out
        if not isinstance(target, np.ndarray) or target.dtype != self.dtype or target.shape != self.shape:
            found = (
                f"{target.dtype} {target.shape}" if isinstance(target, np.ndarray) else type(target).__name__
            )
            raise ValueError(f"out is {found}; it must be an array of {self.dtype} {self.shape}")
        if not target.flags.c_contiguous:
            raise RuntimeError("`out` must be contiguous")
        place = now().place(target)
        waits = bool(blocking) or out is not None and place is None  # not pinned: the host waits
        source = list(place) if place and place[0] else None
        work(stream, "get", [self], source, waits, (*span(target), True, target))
        return target

    def fill(self, value) -> None:
        work(None, "fill", [self], float(value))

    def __setitem__(self, key, value) -> None:
        part = self[:] if key is Ellipsis else self[key]
        if isinstance(value, ndarray):
            if (value._memory, value._start, value.shape) != (part._memory, part._start, part.shape):
                work(None, "copy", [part, same(value, part)])
        elif isinstance(value, np.ndarray):
            raise TypeError(f"Unsupported type {type(value)}: use set()")
        else:
            part.fill(value)

    def __add__(self, other) -> ndarray:
        made = ndarray(self.shape, self.dtype)
        made[...] = self
        made += other
        return made

    def __iadd__(self, other) -> ndarray:
        if not isinstance(other, ndarray):
            raise Refused("launch", "+= here adds another array of the device")
        work(None, "add", [self, same(other, self)])
        return self

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly."
        )

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        raise Refused(
            "launch", f"an array here has no {name}: set, get, fill, reshape, +=, and parts of its first axis"
        )


def same(array: ndarray, other: ndarray) -> ndarray:
    if array.shape != other.shape or array.dtype != other.dtype:
        raise ValueError(f"{array.dtype} {array.shape} does not fit to {other.dtype} {other.shape}")
    return array


def plain_bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.view(np.ndarray)).reshape(-1).view(np.uint8)


def work(
    stream: Stream | None,
    kind: str,
    arrays: list,
    source=None,
    waits: bool = False,
    flight: tuple | None = None,
) -> None:
    """Asks for work, and waits for it if the host does."""
    stream = chosen(stream)
    name = called(stream) if stream._id else "the null stream"
    operands = [a._operand() for a in arrays]
    number, found = now().ask("issue", now().line(), stream._id, name, kind, operands, source, waits)
    if flight:
        now().flights[number] = *flight, b"" if flight[2] else flight[3].tobytes()
        if flight[2] and not waits:
            flight[3].view(np.ndarray).fill(np.nan if flight[3].dtype.kind == "f" else 0)
    now().landed(found)


def launched(kernel: str, arrays: tuple) -> None:
    """See streams.launch."""
    for position, array in enumerate(arrays, 1):
        if not isinstance(array, ndarray):
            says = f"{kernel}: array {position} is a {type(array).__name__}, not an array on the device"
            raise Refused("launch", says)
    work(None, str(kernel)[:200], list(arrays))


# ---- modules ---------------------------------------------------------------------------------------------


def full(shape, value, dtype=float) -> ndarray:
    made = ndarray(shape, dtype)
    made.fill(value)
    return made


def like(make: Callable) -> Callable:
    return lambda a, dtype=None: make(a.shape, a.dtype if dtype is None else dtype)


def zeros(shape, dtype=float) -> ndarray:
    return full(shape, 0, dtype)


def ones(shape, dtype=float) -> ndarray:
    return full(shape, 1, dtype)


def empty(shape, dtype=float) -> ndarray:
    return ndarray(shape, dtype)


def asarray(a, dtype=None, blocking=False, **_) -> ndarray:
    if isinstance(a, ndarray):
        return a
    values = np.asarray(a, dtype) if not isinstance(a, np.ndarray) or dtype not in (None, a.dtype) else a
    made = ndarray(values.shape, values.dtype)
    made.set(values)
    return made


def asnumpy(a, stream=None, order="C", out=None, blocking=True) -> np.ndarray:
    return a.get(stream, order, out, blocking) if isinstance(a, ndarray) else np.asarray(a)


def pinned(shape, dtype=float, fill: bool = False) -> Pinned:
    """cupyx.empty_pinned and zeros_pinned."""
    return now().pinned("", np.zeros(shape, dtype) if fill else np.empty(shape, dtype))


def missing(module: str, has: str) -> Callable:
    def find(name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        raise Refused("launch", f"{module} has no {name} here; it has {has}")

    return find


def module(name: str, names: Mapping[str, object], has: str = "") -> ModuleType:
    made = ModuleType(name, "CuPy's names for the machine of puzzle 44.")
    made.__dict__.update(names)
    made.__getattr__ = missing(name, has or ", ".join(n for n in names if n[0] != "_"))
    sys.modules[name] = made
    return made


_stream = {
    "Stream": Stream,
    "Event": Event,
    "get_current_stream": lambda: chosen(None),
    "get_elapsed_time": lambda first, last: now().ask("elapsed", first._id, last._id),
}
_runtime = {"deviceSynchronize": lambda: Device().synchronize(), "getDeviceCount": lambda: 1}
_cuda = _stream | {
    "Device": Device,
    "is_available": lambda: True,
    "stream": module("cupy.cuda.stream", _stream),
    "runtime": module("cupy.cuda.runtime", _runtime),
    "alloc_pinned_memory": lambda size: pinned((size,), np.uint8).view(np.ndarray),
}
_arrays = {
    "float32": np.float32,
    "int32": np.int32,
    "ndarray": ndarray,
    "empty": empty,
    "zeros": zeros,
    "ones": ones,
    "full": full,
    "empty_like": like(empty),
    "zeros_like": like(zeros),
    "asarray": asarray,
    "array": asarray,
    "asnumpy": asnumpy,
}
module("cupy", _arrays | {"cuda": module("cupy.cuda", _cuda)}, _NAMES)
_pinned = {"empty_pinned": pinned, "zeros_pinned": partial(pinned, fill=True)}
_pinned |= {f"{n.split('_')[0]}_like_pinned": like(make) for n, make in list(_pinned.items())}
module("cupyx", _pinned)
streams.elsewhere = launched


# ---- what the grader calls -------------------------------------------------------------------------------


def functions(namespace: Mapping[str, Callable]) -> dict[str, Callable]:
    return {"run": partial(run, namespace)}


def run(namespace: Mapping, net, arrays: Mapping[str, np.ndarray], outputs: Mapping, chunk: int) -> None:
    """Calls backward on pinned arrays: inputs as given, and outputs by shape, unset."""
    global session
    function = namespace["backward"]
    session = Session(net._ask, getattr(getattr(function, "__code__", None), "co_filename", ""))
    try:
        given = {name: session.pinned(name, a) for name, a in arrays.items()}
        unset = {n: session.pinned(n, np.full(shape, np.nan, np.float32)) for n, shape in outputs.items()}
        function(*given.values(), *unset.values(), chunk)
    finally:
        session = None
    return None
