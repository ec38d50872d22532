"""Backwarp runs on Linux. Elsewhere it ends in one sentence that says how to get one, before it imports what is missing there."""

from __future__ import annotations

import sys

from .errors import WrongSystem

_WAYS = {
    "win32": "On Windows, install and run it in WSL (`wsl --install`).",
    "darwin": "On a Mac, install and run it in a Linux container, as the README shows.",
}


def elsewhere() -> str:
    """What to say on this system; "" on Linux."""
    if sys.platform == "linux":
        return ""
    return f"Backwarp runs on Linux. {_WAYS.get(sys.platform, f'This system is {sys.platform}.')}"


def require_linux() -> None:
    """Errors: WrongSystem."""
    if says := elsewhere():
        raise WrongSystem(says)
