"""The data exchanged between a student's program and the grading process."""

from __future__ import annotations

from dataclasses import dataclass

from ...devices.plain import Codec
from ...errors import BackwarpError

MOST_PRINTED, MOST_TOLD = 16_384, 1000  # characters to keep: of the output, of an exception
MOST_ITEMS = 1 << 15  # in a function's result


@dataclass(frozen=True)
class NetHandle:
    """Stands for LeNet among the arguments of a function. arrays: name -> (shape, dtype)."""

    parameters: tuple[str, ...]
    arrays: dict[str, tuple]


@dataclass(frozen=True)
class Other:
    """A value that cannot be sent."""

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
    """An exception from the student's code. kind: as in Verdict. type: its class name. line, column: its
    place in the file, from 1; 0: none."""

    kind: str
    type: str
    text: str
    line: int
    column: int


class Refused(BackwarpError):
    """A refused request; raised where the student's code made it. kind: as in Verdict."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


#: what a program may send: its results have MOST_ITEMS at most, and the text of a message has commas too
CODEC = Codec((NetHandle, Other, Raised, Refused), most=1 << 17)
