"""Starts a program confined: `python -m backwarp.programs.start POLICY PROGRAM ARGUMENTS`. POLICY: the fields of a Policy as JSON."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass

from ..devices.confine import confine, limit


@dataclass(frozen=True)
class Policy:
    """What a process may do. readable, writable: files and folders; programs: the files it may execute. calls: whether it
    is kept to few system calls, without processes or sockets, too. The others: see confine.limit."""

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    calls: bool = True
    memory: int | None = None
    seconds: int | None = None
    file_size: int | None = None

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "backwarp.programs.start", json.dumps(asdict(self)), *words]


def main() -> None:
    policy, *words = sys.argv[1:]
    policy = Policy(**json.loads(policy))
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with whoever started it
    except (OSError, AttributeError):
        pass
    limit(memory=policy.memory, seconds=policy.seconds, file_size=policy.file_size)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    confine(policy.readable, policy.writable, programs=policy.programs, calls=policy.calls)
    os.execve(words[0], words, environment)


if __name__ == "__main__":
    main()
