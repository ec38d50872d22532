"""The threads of a device that run compiled code; once started, they do not need Python."""

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
    """Compiled code as a Python function that releases Python's lock while it runs."""
    return _FUNCTION(address)


class Crew:
    """A thread with a large stack for each worker. One leads: it runs the first worker's part of a launch and
    makes the others run theirs (see crew.cu). The leader is the first of these threads, or the thread that
    launches.
    """

    def __init__(self, envs: int, stride: int, count: int, serve: int):
        """envs: host address of the first worker's Env; serve: address of the threads' main function."""
        self.members, self.finished = (abi.Member * count)(), (ctypes.c_uint64 * 4)()
        self.calls, self.interrupt = (
            0,
            None,
        )  # of the first thread: counts requested calls; signals the end of the last
        self.team = abi.Team(members=ctypes.addressof(self.members), envs=envs, stride=stride)
        self.leader = ctypes.addressof(self.team)  # the argument for the leader
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
        """Call function(argument) in the first thread, which must be idle. interrupt: called on Ctrl-C, to
        stop it."""
        first = self.members[0]
        while not _C.sem_trywait(self.finished):  # left over from a call already known to have finished
            pass
        first.function, first.argument, first.done = address, argument, ctypes.addressof(self.finished)
        self.interrupt = interrupt
        try:  # from here on a signal is handled only after the function has been called
            self.calls += 1
            _C.sem_post(first.wake)
            self._wait()
        except BaseException:
            self.settle()
            raise

    def settle(self) -> None:
        """Wait for a call that is still running after a Ctrl-C, however often that is pressed."""
        while self.members[0].calls != self.calls:
            try:
                self.interrupt()
                self._wait()
            except KeyboardInterrupt:
                pass
        self._see()

    def _wait(self) -> None:
        """Wait until all calls have finished."""
        while self.members[0].calls != self.calls:
            seconds, part = divmod(time.time() + _AWHILE, 1)  # a signal just before would not end the wait
            _C.sem_timedwait(self.finished, (ctypes.c_long * 2)(int(seconds), int(1e9 * part)))
        self._see()

    def _see(self) -> None:
        """What finished calls have stored is read after this: giving Python's lock away and taking it again orders it."""
        _C.sem_trywait(self.finished)


def _serve(serve, member: abi.Member, _) -> None:
    serve(ctypes.addressof(member))


def _dismiss(members) -> None:
    for member in members:
        member.function = 0
        _C.sem_post(member.wake)
