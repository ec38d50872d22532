"""Findings as the sentences that are shown, and findings with any sentence."""

from __future__ import annotations

from backwarp.grading.findings import Finding
from backwarp.grading.kinds import Kind


class Anything(Finding):
    """kind: its sentence, a question or a suspicion as this ends or the lines say."""

    @property
    def row(self) -> Kind:
        return Kind(lambda *lines, **facts: self.kind, asks=self.kind.endswith("?"), read=bool(self.lines))


def cause(text: str) -> Finding:
    """A cause with any sentence."""
    return Anything(text, (), {"code": text})


def suspicion(text: str, *lines: int) -> Finding:
    """One with any sentence, which is a question or not."""
    return Anything(text, lines, {"code": text})


def said(what: Finding | list[Finding] | None):
    """The sentence of a finding, "" for none; those of several."""
    if isinstance(what, list):
        return [str(f) for f in what]
    return str(what or "")
