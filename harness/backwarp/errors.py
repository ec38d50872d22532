"""The only exceptions that the harness shows to students.

Every message states a fact, a place and a remedy. Anything else that escapes is a defect of the
harness, not of the student's kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


class BackwarpError(Exception):
    """Base of every error meant to be read by a student."""


class CourseError(BackwarpError):
    """The course itself cannot be read: no checkout, an unknown puzzle, a missing or unreadable file."""


class NoCourse(CourseError):
    """There is no course around a folder."""


class NoSolution(CourseError):
    """The request needs a solution, but this course was exported without solutions."""


class DeviceError(BackwarpError):
    """A device cannot be opened on this machine; the message says what to install."""


class WrongSystem(BackwarpError, ImportError):
    """The package does not run on this operating system; the message says what to use."""


@dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler, in the student's file."""

    severity: str  # "error" | "warning" | "note"
    message: str
    file: str = ""
    line: int = 0
    column: int = 0  # 1-based; 0 if the compiler gave none
    source: str = ""  # the text of the line, without its newline

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else ""
        text = f"{place}{self.severity}: {self.message}"
        if self.source.strip():
            text += f"\n    {self.source.rstrip()}"
            if self.column:
                indent = "".join(c if c == "\t" else " " for c in self.source[: self.column - 1])
                text += f"\n    {indent}^"
        return text


class CompileError(BackwarpError):
    """The kernel does not compile (or is refused before it is compiled)."""

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = ()):
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)


class Unsupported(CompileError):
    """The virtual GPU lacks an instruction or modifier; it never returns a wrong answer instead."""

    def __init__(self, what: str, file: str = "", line: int = 0, source: str = ""):
        message = f"the virtual GPU does not support {what}"
        super().__init__(message, (Diagnostic("error", message, file, line, 0, source),))
        self.what, self.file, self.line, self.source = what, file, line, source

    def __reduce__(self):  # the message is built from the parts, and only those travel
        return Unsupported, (self.what, self.file, self.line, self.source), {"diagnostics": self.diagnostics}


class LaunchError(BackwarpError):
    """A launch that CUDA would refuse: block too large, too much shared memory, wrong arguments.

    `code` is CUDA's own name, such as ``cudaErrorInvalidConfiguration``.
    """

    def __init__(self, message: str, code: str = "cudaErrorInvalidValue"):
        super().__init__(message)
        self.code = code


Coordinates = tuple[int, int, int]


class LaunchMistake(BackwarpError):
    """A launch that does not fit its kernel: unknown name, wrong number of arrays, shapes that disagree."""


@dataclass(frozen=True)
class Place:
    """One side of a fault: which thread accessed what, and where."""

    file: str
    line: int
    thread: Coordinates | None
    block: Coordinates | None
    access: str = ""  # "read" | "write" | "atomic" | ""


@dataclass
class KernelFault(BackwarpError):
    """A kernel did what CUDA does not allow, or never ended.

    kind: "out-of-bounds", "misaligned", "uninitialised-read", "race", "barrier-divergence",
    "shuffle-mask", "timeout", "assert", "invalid-address", "invalid-free", "invalid-texture", "stale-texel",
    "read-only", "stack-overflow", "order-dependent", "invalid-map", "stuck-at-phase", "too-many", "under-way",
    "unlanded", "refilled", "overwritten", "unfenced", "group-incomplete", "descriptor", "registers",
    "ended-block", "unstarted-block", "no-rank", "cluster-barrier", "made-again"; of a note, "parity".
    headline: NVIDIA's own wording. explanation: plain sentences; the first states what happened, the others what helps.
    array, index, shape: the element, as `array[b=0,c=2,h=7,w=0]`, and the shape of its array. access: as in Place, with its
    space, "global", "shared" ..., and its size in bytes; before: how many elements before its array it begins. absent: a mask
    of the lanes that a collective's mask names and that do not make the call. asks_index: the explanation asks what an index
    is made of. other: the
    second side of a race or of a divergent barrier.
    count: how many threads did the same at the same line; the message names the first in the grid.
    more: further faults of the same run, the first of each kind and line. follows: probably a consequence of the first
    of them. same_value: a race of two threads that store the same value. endless: of a launch that never ended, one thread
    waited for what no thread changes.
    address: for a race on the virtual GPU, the word in device memory; no_barrier: a barrier could not order
    this race; wait: what races is a copy, and the line where that is waited for; signal: one thread signals the
    other, without fences; launch: the record of the launch, if there is one; node: the launch's number in its
    graph, if it is in one.
    """

    kind: str
    headline: str
    explanation: str
    file: str = "kernel.cu"
    line: int = 0
    thread: Coordinates | None = None
    block: Coordinates | None = None
    array: str = ""
    index: str = ""  # "b=0,c=2,h=7,w=0", or "12" for a flat index
    shape: str = ""  # "[b=2, c=3, h=7, w=5]"
    severity: str = "error"  # "error" | "warning" | "note"
    source: str = ""  # the text of the line
    other: Place | None = None
    count: int = 1
    more: list[KernelFault] = field(default_factory=list)
    follows: bool = False
    same_value: bool = False
    access: str = ""
    space: str = ""
    size: int = 0
    before: int = 0
    absent: int = 0
    asks_index: bool = False
    endless: bool = False

    address = 0  # not fields: they mean something only in the process that launched
    no_barrier = False
    wait, signal = 0, False
    launch = None
    node: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        Exception.__init__(self, str(self))

    @property
    def fact(self) -> str:
        """What happened, without what helps."""
        fact, dot, _ = self.explanation.partition(". ")
        return fact + dot.strip()

    @property
    def element(self) -> str:
        return f"{self.array}[{self.index}]" if self.index else self.array

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.headline}. {self.explanation}"

    def __reduce__(self):  # dataclass exceptions must survive being pickled
        return _rebuild_fault, (self.__dict__.copy(),)


def _rebuild_fault(state: dict) -> KernelFault:
    fault = KernelFault(state["kind"], state["headline"], state["explanation"])
    fault.__dict__.update(state)
    return fault
