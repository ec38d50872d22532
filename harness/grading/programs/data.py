"""What travels between a student's program and the process that judges it."""

from __future__ import annotations

from dataclasses import dataclass

from ...devices.plain import Codec
from ...errors import BackwarpError

MOST_PRINTED, MOST_TOLD = 16_384, 1000  # characters that are kept: of what is printed, of an exception


@dataclass(frozen=True)
class NetHandle:
    """Stands for LeNet among the arguments of a function. arrays: name -> (shape, dtype)."""

    parameters: tuple[str, ...]
    arrays: dict[str, tuple]


@dataclass(frozen=True)
class Other:
    """A value that cannot travel."""

    text: str

    @classmethod
    def of(cls, value: object) -> Other:
        kind = f"a {type(value).__name__}"
        try:
            text = repr(value)
        except Exception:
            return cls(kind)
        return cls(text if len(text) < 60 else kind)

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Raised:
    """An exception of the student's code. kind: as in Verdict. type: the name of its class. line, column: where in
    the file, from 1; 0: nowhere."""

    kind: str
    type: str
    text: str
    line: int
    column: int


class Refused(BackwarpError):
    """A request that is refused; raised where the student's code makes it. kind: as in Verdict."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


CODEC = Codec((NetHandle, Other, Raised, Refused))
