"""Captures what kernels print and what CUDA itself writes: this process's stdout and stderr."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile

PRINTF_FIFO = 8 << 20  # bytes; what a kernel prints beyond this is lost, oldest first
_READ_LIMIT = 2 * PRINTF_FIFO


class Captured:
    """Captures both at the level of file descriptors."""

    def __init__(self):
        self._file = tempfile.TemporaryFile()
        for descriptor in (1, 2):
            os.dup2(self._file.fileno(), descriptor)
        self._libc = ctypes.CDLL(None)

    def take(self) -> str:
        """What has been written since the last call."""
        sys.stdout.flush()
        self._libc.fflush(None)  # CUDA writes through C's stdout
        file = self._file.fileno()
        text = os.pread(file, _READ_LIMIT, 0).decode("utf-8", "replace")
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
        return text
