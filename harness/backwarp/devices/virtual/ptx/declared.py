"""What is still known of a module when it has been compiled: places in the student's file, and variables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """Where an instruction comes from. `line` 0: no line of the student's file."""

    file: str = ""
    line: int = 0
    header: bool = False  # code from a header, inlined at this line
    course: bool = False  # code from one of the course's headers, next to the student's file

    @property
    def trusted(self) -> bool:
        """Whether it is from CUDA's headers, which set structs bit by bit and so may read memory that was
        never written."""
        return self.header or not (self.line or self.course)


@dataclass(frozen=True)
class Variable:
    """A `.reg`, `.param`, `.local`, `.shared`, `.const` or `.global` declaration.

    size: bytes of the whole variable, 0 for an `extern` array without a size.
    init: values in the order of elements, each an int or ("symbol", name, addend, is_generic).
    padding: of the structs in it, where that is known: see `analyse.padding.Padding`. depot, start: of a piece of a depot, whose
    it is, and where its first byte was there.
    """

    space: str
    type: str
    name: str
    size: int
    align: int
    is_array: bool = False
    init: tuple = ()
    extern: bool = False
    padding: tuple = ()
    depot: str = ""
    start: int = 0
