"""The threads of a device that run compiled code: none of them needs Python once it has been started."""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections.abc import Callable
from functools import lru_cache

from ..runtime import abi

_STACK = 64 << 20
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
_C = ctypes.CDLL(None)
_AWHILE = 0.5  # seconds


@lru_cache
def function(address: int):
    """Compiled code as a function of Python, which lets other threads of Python run in the meantime."""
    return _FUNCTION(address)


class Crew:
    """A thread with a large stack for each worker. One leads: it runs the first worker's part of a launch and has the others
    run theirs (see crew.cu). That may be the first of these threads, or the one that launches.
    """

    def __init__(self, envs: int, stride: int, count: int, serve: int):
        """envs: host address of the first worker's Env; serve: of what each thread does."""
        self.members, self.finished = (abi.Member * count)(), (ctypes.c_uint64 * 4)()
        self.calls, self.interrupt = (
            0,
            None,
        )  # of the first thread: how many were asked for; what ends the last one
        self.team = abi.Team(members=ctypes.addressof(self.members), envs=envs, stride=stride)
        self.leader = ctypes.addressof(self.team)  # what who leads is called with
        for semaphore in (self.team.done, self.finished, *(member.wake for member in self.members)):
            _C.sem_init(semaphore, 0, 0)
        before = threading.stack_size(_STACK)
        try:
            for i, member in enumerate(self.members):
                given = function(serve), member, self.team
                threading.Thread(target=_serve, args=given, name=f"virtual-gpu-{i}", daemon=True).start()
        finally:
            threading.stack_size(before)
        self.close = weakref.finalize(self, _dismiss, self.members)

    def call(self, address: int, argument: int, interrupt: Callable[[], None]) -> None:
        """Call function(argument) in the first thread, which is settled. interrupt: called at Ctrl-C, to end it."""
        first = self.members[0]
        while not _C.sem_trywait(self.finished):  # of a call already known to have finished
            pass
        first.function, first.argument, first.done = address, argument, ctypes.addressof(self.finished)
        self.interrupt = interrupt
        try:  # from here a signal is first seen when the function has been called
            self.calls += 1
            _C.sem_post(first.wake)
            self._wait()
        except BaseException:
            self.settle()
            raise

    def settle(self) -> None:
        """End the call that is still running after a Ctrl-C, however often that is pressed."""
        while self.members[0].calls != self.calls:
            try:
                self.interrupt()
                self._wait()
            except KeyboardInterrupt:
                pass

    def _wait(self) -> None:
        """Until all calls have finished."""
        while self.members[0].calls != self.calls:
            seconds, part = divmod(time.time() + _AWHILE, 1)  # a signal just before would not end the wait
            _C.sem_timedwait(self.finished, (ctypes.c_long * 2)(int(seconds), int(1e9 * part)))


def _serve(serve, member: abi.Member, _) -> None:
    serve(ctypes.addressof(member))


def _dismiss(members) -> None:
    for member in members:
        member.function = 0
        _C.sem_post(member.wake)
