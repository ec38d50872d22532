"""The process in which fuzz.py tries its mutants."""

from __future__ import annotations

import os
import resource
import sys
import threading

from backwarp.devices.child import attach, serve
from backwarp.devices.nvrtc import compiler as nvrtc
from backwarp.devices.virtual.compile import build
from tests.soak.fuzz import examine

MEMORY = 4 << 30  # bytes that a mutant may use


def watch() -> None:
    """Ends the process when it uses too much memory. (Most of the arena, far larger, is never touched.)"""
    pause, page = threading.Event(), resource.getpagesize()
    while not pause.wait(0.2):
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[1]) * page
        if used > MEMORY:
            print(f"{used >> 20} MB in use", file=sys.stderr, flush=True)
            os._exit(1)


def main() -> None:
    connection = attach()
    threading.Thread(target=watch, daemon=True).start()
    build._store.put = nvrtc._store.put = lambda key, body: None  # mutants are not worth keeping
    serve(connection, {"examine": examine})


if __name__ == "__main__":
    main()
