"""The process in which kernels run, without access to files, the network or other processes: its limits, and
the messages when it ends.

It takes as long to start as a verdict to begin, so this module loads quickly, and the verbs that will need the process start
it first.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Mapping

from ...errors import BackwarpError, DeviceError, LaunchError
from ..child import ENVIRONMENT, Child, Damaged
from ..emulated import patience

START = 60  # seconds for the process to start
GRACE = 20  # seconds beyond a launch's own limit, which the process itself enforces
MEMORY = 700 << 20  # bytes that the process may use beyond what arrays need
EMULATOR = 3 << 30  # bytes that an emulator may take beside that: every page that is reserved costs it some
#: bytes that the process may use per byte of an array: the byte itself, and what checks record about it
NEED = {"full": 48, "memory": 6, "draft": 6, "count": 6, "noted": 6, "none": 6}
QUESTIONS = 24  # for other builds, per launch
MOST = 1 << 26  # bytes of an answer, not counting arrays


class _Codec:
    """`answers.CODEC`, loaded when there is something to send."""

    @staticmethod
    def dumps(message: tuple) -> bytes:
        from .answers import CODEC

        return CODEC.dumps(message)

    @staticmethod
    def loads(data: bytes) -> object:
        from .answers import CODEC

        return CODEC.loads(data)


class Process:
    """This process's confined child, shared by its devices and started when needed. shared: an open file that is the memory
    of its only device, see Arena."""

    def __init__(self, shared: int | None = None):
        self._shared = () if shared is None else (shared,)
        self.lock = threading.RLock()
        self.generation = 1  # what a dead process held is lost
        self._child: Child | None = None
        self._unused: deque[tuple[int, int]] = deque()  # (generation, handle) of what is released
        self._arrays: dict[int, tuple[int, int]] = {}  # by handle: what each may need, and its own bytes
        self.need = self.held = 0  # the same of all arrays
        self._allowed = (0, 0.0)  # the second in which the time limit was last set, and the largest then
        self.numbers = itertools.count(1)  # of devices, arrays and modules

    def start(self) -> None:
        """Starts it without waiting for it to be ready."""
        with self.lock:
            if self._child is None:
                worker = "backwarp.devices.virtual.confined_worker"
                how = dict(environment=ENVIRONMENT, codec=_Codec, inherited=self._shared)
                self._child = Child(worker, *map(str, self._shared), **how)
                self._child.questions = QUESTIONS
                self.need = self.held = 0
                self._arrays.clear()
                self._has_runtime, self._allowed = False, (0, 0.0)

    def renew(self) -> None:
        """Ends it if nobody has arrays there and it has taken much: what it keeps of earlier kernels, and an emulator never gives
        memory back, would count as the next one's."""
        with self.lock:
            needless = self._child and len(self._unused) >= len(self._arrays)
            if needless and self._child.used() > (EMULATOR if patience() > 1 else MEMORY) // 2:
                self.end()

    def expect(self, nbytes: int, checks: str) -> int:
        """Announces a new array: its number."""
        with self.lock:
            self.start()
            number, need = next(self.numbers), NEED[checks] * nbytes
            self._arrays[number] = need, nbytes
            self.need, self.held = self.need + need, self.held + nbytes
            return number

    def forget(self, generation: int, handle: int) -> None:
        self._unused.append((generation, handle))

    def provide_runtime(self) -> None:
        """Send the machine code that all kernels are linked with."""
        from .compile import runtime_code

        with self.lock:
            self.start()
            if not self._has_runtime:
                self.post("runtime", runtime_code.code())
                self._has_runtime = True

    def post(self, verb: str, *arguments) -> None:
        """Send a request without an answer; the next `ask` raises its error."""
        with self.lock:
            self.start()
            try:
                self._free_unused()
                self._child.post(verb, *arguments)
            except OSError:
                raise self._gone() from None

    def ask(self, verb: str, *arguments, limit: float = START, verbs: Mapping | None = None):
        """Ask, and return the answer. verbs: what the process may ask meanwhile.

        Errors: what the verb raises; DeviceError if the process is gone.
        """
        limit *= patience()
        with self.lock:
            self.start()
            try:
                self._free_unused()
                self._child.most = MOST + self.held
                self._child.granted = self.need + EMULATOR * (patience() > 1)
                self._child.memory = MEMORY + self._child.granted
                allowed = int(time.monotonic()), limit
                if allowed > self._allowed:  # once a second: GRACE is longer
                    self._child.allow(limit + GRACE)
                    self._allowed = allowed
                return self._child.ask(verb, arguments, limit, verbs)
            except MemoryError:
                self.end()
                raise LaunchError(
                    f"the kernel takes more than {MEMORY >> 20} MiB of memory beside its arrays, and was ended",
                    "cudaErrorMemoryAllocation",
                ) from None
            except TimeoutError:
                self.end()
                raise DeviceError(
                    f"the process that runs kernels did not answer within {limit:g} seconds"
                ) from None
            except Damaged:
                raise self.nonsense() from None
            except (EOFError, OSError):
                raise self._gone() from None
            except BackwarpError:
                raise
            except BaseException:  # Ctrl-C leaves an answer unread
                self.end()
                raise

    def nonsense(self) -> DeviceError:
        return DeviceError(f"the process that runs kernels answers nonsense ({self.end()})")

    def _gone(self) -> DeviceError:
        child, how = self._child, self.end()
        what = "ended unexpectedly" if child and child.ready else "cannot be started"
        return DeviceError(f"the process that runs kernels {what} ({how})")

    def _free_unused(self) -> None:
        handles = []
        while self._unused:
            generation, handle = self._unused.popleft()
            if generation == self.generation:
                handles.append(handle)
                need, nbytes = self._arrays.pop(handle, (0, 0))
                self.need, self.held = self.need - need, self.held - nbytes
        if handles:
            self._child.post("free", *handles)

    def end(self) -> str:
        """Kill it; returns how it ended."""
        with self.lock:
            child, self._child = self._child, None
            self.generation += 1
            return child.end() if child else ""


PROCESS = Process()
