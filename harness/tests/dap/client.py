"""An editor: a client of `backwarp dap`, and what the sessions of the tests are about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

from backwarp.dap.wire import framed, receive
from tests import KERNELS, SOURCES

FILE = KERNELS / "stepped.cu"
ARGS = ["sums", "--block", "16", "--arg", "x=arange:16", "--arg", "y=empty:16", "--arg", "n=16"]
PATIENCE = 300  # seconds


class Editor:
    """A process, and what it has sent."""

    def __init__(self, cwd=None):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "backwarp", "dap"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=os.environ | {"PYTHONPATH": str(SOURCES)},
        )

    def __enter__(self) -> Editor:
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()

    def send(self, message: dict) -> None:
        self.process.stdin.write(framed(message))
        self.process.stdin.flush()

    def receive(self) -> dict | None:
        """None once the process has ended. One that says nothing is killed."""
        watchdog = threading.Timer(PATIENCE, self.process.kill)
        watchdog.start()
        try:
            return receive(self.process.stdout)
        finally:
            watchdog.cancel()

    def ends(self) -> int:
        self.process.stdin.close()
        return self.process.wait(60)


def plain(message: dict) -> dict:
    """Without the place of the file."""
    text = json.dumps(message).replace(str(FILE), "stepped.cu").replace(FILE.as_uri(), "stepped.cu")
    return json.loads(text)
