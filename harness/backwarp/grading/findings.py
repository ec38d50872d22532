"""What is found about a wrong kernel, as data: what it is, which lines it is about, and the facts.

`kinds/` has a row for each kind, with its sentence. A terminal, JSON and a page all read the same findings; nothing looks into
a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .kinds import KINDS, Kind


@dataclass(frozen=True)
class Finding:
    """lines: those of the file that it is about, the most important first. facts: what its sentence says beside, numbers and
    pieces of code. where: how its sentence begins, if it holds in one case only. also: what belongs to the same sentence.
    leads: it comes before everything, as the rest follows from it."""

    kind: str
    lines: tuple[int, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    also: Finding | None = None
    leads: bool = False

    @classmethod
    def of(cls, kind: str, *lines: int, **facts: Any) -> Finding:
        return cls(kind, lines, facts)

    @property
    def row(self) -> Kind:
        return KINDS[self.kind]

    @property
    def asks(self) -> bool:
        """Whether it is a question, as the line may well be right."""
        return self.row.asks

    @property
    def is_suspicion(self) -> bool:
        """Whether it was found in the text of the kernel alone, and need not be the cause."""
        return self.row.read and not self.leads

    @property
    def all_lines(self) -> set[int]:
        return set(self.lines) | (self.also.all_lines if self.also else set())

    @property
    def code(self) -> str:
        """The pieces of code and names among its facts."""
        return " ".join(texts_in((self.facts, self.also.code if self.also else "")))

    def __str__(self) -> str:
        sentence = self.row.sentence
        text = sentence.format if isinstance(sentence, str) else sentence
        parts = [self.where, text(*self.lines, **self.facts)]
        return " ".join(filter(None, [", ".join(filter(None, parts)), self.also and str(self.also)]))

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "kind": self.kind,
            "lines": sorted(self.all_lines),
            "facts": dict(self.facts),
            "asks": self.asks,
            "suspicion": self.is_suspicion,
            "text": str(self),
        }


def texts_in(value: object) -> Iterator[str]:
    """All texts in nested lists and dictionaries."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(part)


def distinct(findings: Iterable[Finding]) -> list[Finding]:
    """Without those that say the same as an earlier one."""
    known: dict[str, Finding] = {}
    for f in findings:
        known.setdefault(str(f), f)
    return list(known.values())


def in_order(findings: Iterable[Finding], kind: str) -> list[Finding]:
    """Those from which the rest follows come first. kind: of the fault, or of the verdict."""
    known = [replace(f, leads=f.row.leads(kind)) for f in findings]
    return sorted(known, key=lambda f: not f.leads)
