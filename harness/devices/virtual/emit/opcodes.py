"""Every instruction that only computes, and the marks: the rows of these modules, in one table (see `table`)."""

from __future__ import annotations

from . import comparisons, conversions, counting, floats, integers, marks, rounding  # noqa: F401  (importing them fills the table)
from .table import emit, find

__all__ = ["emit", "find"]
