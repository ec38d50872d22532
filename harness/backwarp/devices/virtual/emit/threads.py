"""The thread that code is emitted for: the only one, or one of several coarsened ones (see
`analyse/uniformity`)."""

from __future__ import annotations

from collections.abc import Iterator

from ..analyse.uniformity import Coarsening, Region
from ..runtime import abi


class Threads:
    """Without coarsening there is one."""

    def __init__(self, coarsening: Coarsening | None):
        self.coarsening = coarsening
        self.factor = coarsening.factor if coarsening else 1
        self._member = 0  # which of them
        self._region: Region | None = None  # which it runs alone
        self._exit = ""

    @property
    def address(self) -> str:
        """Host address of the current thread's state."""
        return f"%thr{self.suffix}"

    @property
    def suffix(self) -> str:
        """Of what each thread has."""
        return f".{self._member}" if self.coarsening else ""

    def place(self, text) -> None:
        """Several are behind the first."""
        for member in self.each():
            if self.coarsening:
                text.first(f"{self.address} = add i64 %thr, {member * abi.DTYPES['Thread'].itemsize}")

    @property
    def alone(self) -> bool:
        """Whether a thread runs a region alone."""
        return self._region is not None

    def each(self) -> Iterator[int]:
        """One thread after the other."""
        for self._member in range(self.factor):
            yield self._member
        self._member = 0

    def each_alone(self, region: Region, exits: Iterator[str]) -> Iterator[str]:
        """Each in turn runs a region and continues at its exit, which is yielded."""
        self._region = region
        for _ in self.each():
            self._exit = next(exits)
            yield self._exit
        self._region = None

    def name(self, register: str) -> str:
        """Of a register: each thread has its own of those that vary."""
        return f"{register}@{self._member}" if self._varies(register) else register

    def names(self, register: str) -> list[str]:
        """Those of all threads."""
        return (
            [f"{register}@{member}" for member in range(self.factor)]
            if self._varies(register)
            else [register]
        )

    def _varies(self, register: str) -> bool:
        return self.coarsening is not None and register in self.coarsening.varying

    def label(self, name: str) -> str:
        """The target of a branch of a thread that runs alone; "" if it does not."""
        if not self._region:
            return ""
        return f'"{name}@{self._member}"' if name in self._region.labels else self._exit
