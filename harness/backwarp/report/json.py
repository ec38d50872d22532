"""Verdicts as JSON: the same objects that the text report shows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..grading.repair.telling import cause_removed
from ..grading.verdict import PASSED, Verdict
from .text import unconfirmed

FORMAT = 1  # incremented when a field changes its meaning


def document(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """One document for any number of verdicts."""
    return {
        "format": FORMAT,
        "passed": all(v.status == PASSED for v in verdicts),
        "exit_status": max((v.exit_status for v in verdicts), default=0),
        "verdicts": [plain(shown(v) | {"diagnosis": v.diagnosis, "repair": repairs(v)}) for v in verdicts],
    }


def shown(verdict: Verdict) -> dict[str, Any]:
    """The verdict without the questions that are not asked."""
    hidden = unconfirmed(verdict)
    texts = {str(f) for f in hidden}
    left = [f for f in verdict.findings if f not in hidden]
    return replace(
        verdict, lines=[line for line in verdict.lines if line not in texts], findings=left
    ).as_dict()


def repairs(verdict: Verdict) -> list[dict[str, Any]]:
    """Each repair with the cause it removes; "" if the verdict is about other lines only."""
    return [r | {"cause": str(cause_removed(verdict.findings, [r]) or "")} for r in verdict.repair]


def plain(value: Any) -> Any:
    """The value in JSON's types; NaN and infinity, which JSON lacks, as text."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "item"):  # NumPy scalars
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def dumps(verdicts: Sequence[Verdict]) -> str:
    return json.dumps(document(verdicts), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def text_of(document: Any) -> str:
    """Any other document as JSON text, such as that of `profile` or `bench`."""
    return json.dumps(plain(document), indent=2) + "\n"
