"""Findings as the sentences that are shown."""

from __future__ import annotations

from harness.grading.findings import Finding


def cause(text: str) -> Finding:
    """A cause with any sentence."""
    return Finding.of("mistake", name="", says=text, hint=0)


def suspicion(text: str, *lines: int) -> Finding:
    """One with any sentence, which is a question or not."""
    return Finding.of("mixed_digits" if text.endswith("?") else "mask", *lines, text=text)


def said(what: Finding | list[Finding] | None):
    """The sentence of a finding, "" for none; those of several."""
    if isinstance(what, list):
        return [str(f) for f in what]
    return str(what or "")
