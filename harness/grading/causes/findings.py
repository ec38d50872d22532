"""What is found in the text of a kernel, and where to look for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Slip:
    """A sentence about a line. guess: it is told only if nothing else explains the kernel, as the line may
    well be right."""

    line: int
    says: str
    guess: bool = False

    @property
    def asks(self) -> bool:
        """Whether it is a question, not a fact."""
        return self.says.endswith("?")


def how_often(times: float) -> str:
    return {1: "once", 2: "twice"}.get(times) or f"{times:.4g} times"
