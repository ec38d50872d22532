"""The process in which a student's Python file runs, confined: `python -m backwarp.grading.programs.worker FD [DRIVER]`.

DRIVER is a module of the harness with functions that call the file's, see Worker.

It takes no part in the verdict, and holds no arrays: the file's `net` sends requests, as plain data, to the
process that has the arrays and judges them. It may send anything, since the file can change everything in
this process.
"""

from __future__ import annotations

import importlib
import io
import itertools
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import NoReturn

import numpy as np

from ...devices.child import Channel, attach, serve
from ...devices.confine import confine, kept_from, limit, python_folders
from ...errors import LaunchMistake
from .data import CODEC, MOST_ITEMS, MOST_PRINTED, MOST_TOLD, NetHandle, Other, Raised, Refused

MEMORY = 1 << 30  # bytes of address space; with a driver, bytes of memory beyond what its libraries use


class OutOfTime(BaseException):
    """Raised in the student's code when its time is up; no `except Exception` of theirs catches it."""


class WholeMessages(Channel):
    """A channel that finishes sending a message even if time runs out meanwhile."""

    def _put(self, *parts: bytes) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        try:
            super()._put(*parts)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])


class Printed(io.TextIOBase):
    """Keeps the first characters printed and counts the lines of the rest."""

    def __init__(self):
        self.text, self.dropped = "", 0

    def write(self, text: str) -> int:
        kept = text[: MOST_PRINTED - len(self.text)]
        self.text += kept
        self.dropped += text[len(kept) :].count("\n")
        return len(text)


# -- what the student's functions get ---------------------------------------------------------------


class Array:
    """An array on the device, which is in another process: its name, shape and dtype; `get()` copies it."""

    def __init__(self, net: Net, name: str, shape: Iterable[int], dtype: str):
        self._net, self.name, self.shape, self.dtype = net, name, tuple(shape), np.dtype(dtype)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def get(self) -> np.ndarray:
        return self._net._ask("get", self.name)

    def set(self, *_) -> NoReturn:
        raise Refused("launch", f"net.{self.name} is stored by launches; only net.load copies to the device")

    def __repr__(self) -> str:
        return f"<net.{self.name}: {self.dtype} {self.shape}>"


class Net:
    """LeNet as the student's functions see it, see lenet/model.py."""

    def __init__(self, ask: Callable, functions: Mapping[str, Callable], handle: NetHandle):
        vars(self).update(parameters=handle.parameters, _ask=ask, _functions=functions, _arrays=handle.arrays)

    def load(self, images, labels) -> None:
        images, labels = np.asarray(images, np.float32), np.asarray(labels, np.int32)
        vars(self)["_arrays"] = self._ask("load", images, labels)

    def launch(self, kernel: str, *arrays: Array, **numbers: float) -> None:
        for position, array in enumerate(arrays, 1):
            if not isinstance(array, Array):
                kind = type(array).__name__
                raise Refused(
                    "launch",
                    f"{kernel}: array {position} is a {kind}, not an array on the device like net.loss",
                )
        found = {}
        for name, value in numbers.items():
            try:
                found[name] = float(value)
            except (TypeError, ValueError):
                raise Refused(
                    "launch", f"{kernel}: {name} is a {type(value).__name__}, not a number"
                ) from None
        self._ask("launch", str(kernel)[:200], [array.name for array in arrays], found)

    def forward(self) -> None:
        self._step("forward")

    def backward(self) -> None:
        self._step("backward")

    def _step(self, name: str) -> None:
        if name in self._functions:
            self._functions[name](self)
        else:
            self._ask(name)

    def __getitem__(self, name: str) -> Array:
        known = self._arrays.get(name) if isinstance(name, str) else None
        return Array(self, name, *(known or self._ask("array", str(name)[:200])))

    def __getattr__(self, name: str) -> Array:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise Refused("launch", f"net.{name} cannot be set: an array of net is stored by launches")

    __setitem__ = __setattr__


# -- answers ----------------------------------------------------------------------------------------


class Worker:
    """Loads a file and calls its functions. driver: the name of a module with further
    `functions(namespace)`."""

    def __init__(self, channel: Channel, driver=None):
        self.channel, self.turn, self.driver = channel, threading.Lock(), driver
        self.functions: dict[str, Callable] = {}
        self.name = ""

    def timed(self, work: Callable, seconds: float, *arguments) -> tuple:
        """(its result or how it failed; what was printed; lines dropped)."""
        sys.stdout = sys.stderr = printed = Printed()
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            try:
                found = work(*arguments)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except BaseException as error:
            found = self.raised(error)
        return found, printed.text, printed.dropped

    def load(self, source: str, name: str, wanted: list[str]) -> dict:
        """Runs the file. Returns what it defines: names of functions, and (parameters, keyword-only ones,
        line) of the wanted ones, if Python can tell."""
        self.name, namespace = name, {"__name__": name.removesuffix(".py"), "__file__": name}
        exec(compile(source, name, "exec"), namespace)
        defined = {n: v for n, v in namespace.items() if isinstance(n, str) and callable(v)}
        self.functions = {n: defined[n] for n in wanted if n in defined}
        codes = {n: getattr(function, "__code__", None) for n, function in self.functions.items()}
        if self.driver:
            self.functions = self.driver.functions(dict(self.functions))
        return {
            "defined": [n for n in itertools.islice(defined, 1000) if not n.startswith("_")],
            "codes": {
                n: (code.co_argcount, code.co_kwonlyargcount, code.co_firstlineno) if code else None
                for n, code in codes.items()
            },
        }

    def call(self, function: str, arguments: list) -> object:
        arguments = [Net(self.ask, self.functions, a) if isinstance(a, NetHandle) else a for a in arguments]
        return plain(self.functions[function](*arguments), itertools.count())

    def ask(self, verb: str, *arguments):
        """The parent's answer. Errors: Refused."""
        with self.turn:  # a student's threads may also make requests
            return self.channel.ask(verb, arguments)

    def raised(self, error: BaseException) -> Raised:
        """What the parent needs to explain an exception."""
        kinds = (
            *((SyntaxError, "syntax"), (OutOfTime, "timeout"), (LaunchMistake, "launch")),
            (Refused, getattr(error, "kind", "")),
        )
        kind = next((kind for type_, kind in kinds if isinstance(error, type_)), "exception")
        line, column = _line(error.__traceback__, self.name), 0
        text = str(error)
        if isinstance(error, SyntaxError):
            text = str(error.msg)
            if error.filename == self.name:
                line, column = error.lineno or 0, error.offset or 0
        return Raised(kind, type(error).__name__, text[:MOST_TOLD], line, column)


def plain(value, count: Iterable[int]):
    """A function's result as plain data; Other for what cannot be sent. count: counts items."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if len(value) <= MOST_PRINTED else Other.of(value)
    if isinstance(value, int):
        return int(value) if abs(value) < 1 << 63 else Other.of(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, np.ndarray | np.generic):
        return value if value.dtype.kind in "biuf" else Other.of(value)
    if isinstance(value, dict):
        return dict(zip(map(str, value), plain(value.values(), count)))
    if isinstance(value, Iterable) and not isinstance(value, Array | Net | bytes | type):
        items = itertools.takewhile(lambda _: next(count) < MOST_ITEMS, value)
        return [plain(item, count) for item in items]
    return Other.of(value)


def _line(trace: TracebackType | None, name: str) -> int:
    """The last line of the file that an exception came through; 0 if there is none."""
    line = 0
    while trace:
        if trace.tb_frame.f_code.co_filename == name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _out_of_time(*_) -> NoReturn:
    raise OutOfTime("its time is up here; a loop that never ends?")


def taken() -> int:
    """Bytes of writable memory, as the system counts them for the limit."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except (OSError, IndexError):
        return MEMORY


def main() -> None:
    channel = attach(CODEC, WholeMessages)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    driver = importlib.import_module(sys.argv[2]) if len(sys.argv) > 2 else None
    if driver:
        limit(memory=MEMORY + taken(), file_size=0)
    else:
        limit(addresses=MEMORY, file_size=0)
    if not confine(python_folders(harness=False), hidden=kept_from(harness=False)).calls:
        limit(processes=0)  # this also forbids threads
    os.dup2(nowhere, 2)  # nobody reads it while the file runs
    signal.signal(signal.SIGALRM, _out_of_time)
    worker = Worker(channel, driver)
    serve(channel, {"load": partial(worker.timed, worker.load), "call": partial(worker.timed, worker.call)})


if __name__ == "__main__":
    main()
