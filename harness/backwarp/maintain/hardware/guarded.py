"""A command with a time limit, killed together with everything it started."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ... import SOURCES

_LONGEST = 4 << 20  # bytes of output that are read
_TAIL = 3000  # characters of output kept after a failure


@dataclass
class Finished:
    """status: the process's, negative for a signal; None if it ran out of time. told: what it wrote to
    `report`."""

    status: int | None
    out: str
    err: str
    seconds: float
    told: str = ""

    @property
    def tail(self) -> str:
        return (self.out + self.err + self.told)[-_TAIL:]

    @property
    def reason(self) -> str:
        """Why it failed: its last line of output."""
        said = (self.err.strip() or self.out.strip() or "it said nothing").splitlines()[-1]
        return f"status {self.status}: {said[:400]}"


def run(command: list[str], limit: float, report: Path | None = None) -> Finished:
    """report: a file that the command writes."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            paths = os.pathsep.join(filter(None, (str(SOURCES), os.environ.get("PYTHONPATH"))))
            # wide, because pytest would cut off the reasons for failures
            environment = os.environ | {"COLUMNS": "500", "PYTHONPATH": paths}
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return Finished(127, "", str(error), 0.0)
        try:
            status: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        try:  # kill whatever is left of its group
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        said = [read(file) for file in (out, err)]
    told = report.read_text(errors="replace")[:_LONGEST] if report and report.exists() else ""
    return Finished(status, *said, round(time.monotonic() - start, 2), told)


def read(file) -> str:
    file.seek(0)
    return file.read(_LONGEST).decode("utf-8", "replace")
