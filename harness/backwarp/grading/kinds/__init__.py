"""The kinds of findings: one row for each, with its sentence and what it means for the others.

A sentence is a template, or a function, of the finding's lines (0, 1 ...) and facts. It states a fact, a place and a remedy. The
rows stand in the order in which findings that were read in the text are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .accesses import ACCESSES
from .faults import FAULTS
from .kind import ENDS, Kind
from .results import RESULTS
from .stored import STORES
from .terms import TERMS
from .text import TEXT

__all__ = ["ENDS", "KINDS", "Kind"]

KINDS: Mapping[str, Kind] = {
    **STORES,
    **FAULTS,
    **RESULTS,
    **TERMS,
    **ACCESSES,
    **{name: replace(kind, read=True) for name, kind in TEXT.items()},
}
