"""The process in which fuzz.py tries its mutants."""

from __future__ import annotations

import os

from harness.devices import nvrtc
from harness.devices.child import attach
from harness.devices.virtual import build

from .fuzz import examine

def main() -> None:
    connection = attach()
    build._store.put = nvrtc._store.put = lambda key, body: None  # mutants are not worth keeping
    while True:
        try:
            _, (seed, only) = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        connection.send(("ok", examine(seed, only)))


if __name__ == "__main__":
    main()
