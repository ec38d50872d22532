"""What a row of the table of findings says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: these end the thread, which then writes nothing more
ENDS = {"out-of-bounds", "misaligned", "invalid-address", "read-only"}

Leads = Callable[[str], bool]


def never(kind: str) -> bool:
    return False


def always(kind: str) -> bool:
    return True


def unless_it_ends(kind: str) -> bool:
    """Where a thread leaves an array, that says more."""
    return kind not in ENDS


@dataclass(frozen=True)
class Kind:
    """asks: the sentence is a question. read: found in the text of the kernel, not in what it did. leads: whether all else
    follows from it, given the kind of the fault or verdict. explains: whether it says why, not only what."""

    sentence: str | Callable[..., str]
    asks: bool = False
    read: bool = False
    leads: Leads = never
    explains: bool = True


def how_often(times: float) -> str:
    return {1: "once", 2: "twice"}.get(times) or f"{times:.4g} times"


def plural(count: int, one: str) -> str:
    return f"{count} {one}{'s' * (count != 1)}"
