"""Every instruction that only computes, and the marks: the rows of these modules, in one table (see `table`)."""

from __future__ import annotations

from . import (  # noqa: F401  (importing them fills the table)
    access_checks,
    bits,
    checks,
    clusters,
    comparisons,
    conversions,
    counting,
    floats,
    integers,
    marks,
    rounding,
)
from .table import emit, find

__all__ = ["emit", "find"]
