"""Requests as the protocol has them: their arguments, how the editor counts lines, what it is told that there is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from .wire import Refused

_YES = (
    "ConfigurationDoneRequest ConditionalBreakpoints HitConditionalBreakpoints LogPoints DataBreakpoints StepBack "
    "EvaluateForHovers ExceptionInfoRequest GotoTargetsRequest CompletionsRequest DelayedStackTraceLoading"
)
FAULT, WRONG_RESULT = "fault", "wrong"
CAPABILITIES = {f"supports{name}": True for name in _YES.split()} | {
    "exceptionBreakpointFilters": [
        {"filter": FAULT, "label": "Faults: races, accesses out of bounds, ...", "default": True},
        {"filter": WRONG_RESULT, "label": "The last write of a wrong result", "default": True},
    ]
}
_TYPES = {int: "a number", str: "a text", bool: "true or false", dict: "an object", list: "a list"}


class Arguments:
    """Of a request."""

    def __init__(self, fields: object):
        self.fields = {} if fields is None else fields
        if not isinstance(self.fields, dict):
            raise Refused("arguments must be an object")

    def of(self, name: str, kind: type, *default: object):
        """A field of a type, or the default. Errors: Refused."""
        value = self.fields.get(name)
        if value is None and default:
            return default[0]
        if kind is int and isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, kind) or kind is int and isinstance(value, bool):
            raise Refused(f"{name} must be {_TYPES[kind]}")
        return value

    def each(self, name: str) -> list[Arguments]:
        return [Arguments(fields) for fields in self.of(name, list, [])]


@dataclass(frozen=True)
class Style:
    """How the editor counts lines and columns, and writes paths."""

    first_line: int = 1
    first_column: int = 1
    as_uri: bool = False

    @classmethod
    def of(cls, given: Arguments) -> Style:
        return cls(
            int(given.of("linesStartAt1", bool, True)),
            int(given.of("columnsStartAt1", bool, True)),
            given.of("pathFormat", str, "path") == "uri",
        )

    def shown(self, line: int) -> int:
        return line - 1 + self.first_line

    def meant(self, given: Arguments) -> int:
        return given.of("line", int) + 1 - self.first_line

    def source(self, path: Path) -> dict:
        return {"name": path.name, "path": path.as_uri() if self.as_uri else str(path)}


def local(path: str) -> str:
    """A path as the editor has it, which may be a URI."""
    found = urlparse(path)
    return unquote(found.path) if found.scheme == "file" else path
