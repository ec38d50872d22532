"""The pictures by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .heatmap import error_picture
from .timeline import race_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..verdict import Verdict


def verdict_picture(verdict: Verdict) -> tuple[Figure, str] | None:
    """What belongs beside a verdict, and a text that says what it shows; None where nothing does."""
    if figure := error_picture(verdict):
        return figure, "which elements are wrong"
    if figure := race_picture(verdict):
        return figure, "what the two threads of the race did, in order of time"
    return None
