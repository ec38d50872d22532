"""Forth and back through a record: to the next line, barrier, access, or the fault; and what there is at a moment."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache

import numpy as np

from ....errors import KernelFault
from . import memory
from .expressions import Expression
from .matrices import delivered
from .moments import Moments, Step
from .record import ATOMIC, HOW, MATRIX, WRITING, Record
from .variables import Frame

_SAID = dict(
    zip(
        HOW,
        "reads|writes|updates|begins to copy to|copies from|copy lands in|reads rows of".split("|"),
        strict=True,
    )
)


class Replay(Moments):
    """fault: of the run. Times are moments; -1 for "there is none"."""

    def __init__(self, record: Record, fault: KernelFault | None = None, lockstep: bool | None = None):
        super().__init__(record, lockstep)
        self.fault = fault
        self.variables = lru_cache(maxsize=1024)(self._variables)
        self._writes = lru_cache(maxsize=4096)(self._writes_of)

    # -- moving ---------------------------------------------------------------------------------------

    def find(self, t: int, by: int, wanted: Callable[[int], bool]) -> int:
        """The next time (by = 1) or the one before (-1) of which `wanted` holds."""
        t += by
        while 0 <= t < len(self.moments):
            if wanted(t):
                return t
            t += by
        return -1

    def has(self, who: int, t: int) -> bool:
        """Whether a thread takes part in a moment."""
        return who in self.moments[t].steps

    def line(self, t: int, who: int, by: int = 1, deepest: int = 99) -> int:
        """The thread's next line, or the one before; in functions at most that deep."""
        return self.find(t, by, lambda u: self.has(who, u) and len(self.moments[u].frames) <= deepest)

    def depth(self, t: int, who: int) -> int:
        step = self.step_at(who, t)
        return len(step.frames) if step else 0

    def barrier(self, t: int, who: int, by: int = 1) -> int:
        """The thread's first line after the next barrier of its block, or its last one before the barrier before."""
        here = self.moments[t].interval
        return self.find(t, by, lambda u: self.has(who, u) and self.moments[u].interval != here)

    def where(self, t: int, who: int, by: int, condition: Expression) -> int:
        """The next time, or the one before, at which the thread finds a condition true."""

        return self.find(t, by, lambda u: self.has(who, u) and self.holds(condition, who, u))

    def holds(self, condition: Expression, who: int, t: int) -> bool:
        """Whether a thread finds a condition true, not where it has no value."""
        try:
            return bool(self.evaluate(condition, who, t))
        except (LookupError, ArithmeticError, TypeError):
            return False

    def touching(self, array: str, element: int, block: int) -> np.ndarray:
        """ACCESS[]: the accesses of an element (a flat index), in the order of time; if it is shared, those of a block."""
        a, number = self.record.accesses, self.record.number(array)
        about = self.record.arrays[number]
        size = about.dtype.itemsize
        mine = (a["array"] == number) & (self.time[a["row"]] >= 0)
        mine &= (a["offset"] < (element + 1) * size) & (element * size < a["offset"] + a["nbytes"])
        if about.space == "shared":
            mine &= a["who"] >> 10 == block
        found = a[mine]
        return found[np.lexsort((found["row"], self.time[found["row"]]))]

    def _writes_of(self, array: str, element: int, block: int) -> tuple[np.ndarray, list[int]]:
        """(ACCESS[] of the writes of an element, their times)"""
        found = self.touching(array, element, block)
        found = found[np.isin(found["how"], WRITING)]
        return found, self.time[found["row"]].tolist()

    def writer(self, array: str, element: int) -> int:
        """The thread that writes an element last; -1 if none does."""
        number = self.record.number(array)
        blocks = (
            range(int(np.prod(self.record.grid))) if self.record.arrays[number].space == "shared" else [0]
        )
        for block in blocks:
            found = self.touching(array, element, block)
            found = found[np.isin(found["how"], WRITING)]
            if len(found):
                return int(found["who"][-1])
        return -1

    def start(self, who: int) -> int:
        return self.steps[who][0].at

    def end(self, who: int) -> int:
        return self.steps[who][-1].at

    def to_fault(self) -> tuple[int, int]:
        """(who, when) of the fault: at the access of a race or of a read of what is unset, else at the fault's line the last time,
        else at the thread's end. Without a fault, (-1, -1)."""
        fault = self.fault
        if not fault or fault.thread is None or fault.block is None:
            return -1, -1
        who = self.record.who_of(fault.thread, fault.block)
        if not (steps := self.steps.get(who)):
            return -1, -1
        at = [s.at for s in steps if s.line == fault.line] or [steps[-1].at]
        if fault.kind not in ("race", "uninitialised-read"):  # after which the thread goes on
            return who, at[-1]
        a = self.record.accesses
        name = f"{fault.array}[{fault.index}]"
        mine = a[(a["who"] == who) & (a["line"] == fault.line) & (a["array"] >= 0)]
        times = [self.time[each["row"]] for each in mine if self.record.element(each) == name]
        return who, int(times[0]) if times else at[0]

    # -- looking --------------------------------------------------------------------------------------

    def step_at(self, who: int, t: int) -> Step | None:
        """The thread's last step that has begun at a time."""
        steps, low, high = self.steps[who], 0, len(self.steps[who])
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if steps[middle].at <= t else (low, middle)
        return steps[low - 1] if low else None

    def _variables(self, who: int, t: int, only: str = "") -> dict[str, object]:
        """See Frame.variables: after the thread's line at a time, or its last one before."""
        step = self.step_at(who, t)
        return Frame(self, who, step).variables(only) if step and step.frames else {}

    def memory(self, array: str, t: int, block: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """See memory.held."""
        return memory.held(self, array, t, block)

    def built_in(self, who: int) -> dict[str, dict[str, int]]:
        """A thread's threadIdx, blockIdx, blockDim and gridDim."""
        dims = (*self.record.thread_of(who), self.record.block, self.record.grid)
        names = ("threadIdx", "blockIdx", "blockDim", "gridDim")
        return {name: dict(zip("xyz", of, strict=True)) for name, of in zip(names, dims, strict=True)}

    def evaluate(
        self, expression: Expression, who: int, t: int, variables: Mapping[str, object] | None = None
    ) -> object:
        """variables: those of the thread at that moment, if not of the function that it is in. Errors: as Expression's."""

        def variable(name: str) -> object:
            return (self._variables(who, t, name) if variables is None else variables)[name]

        def element(array: str, index: list[int]) -> object:
            shape = self.record.arrays[self.record.number(array)].shape
            axes = shape if len(index) > 1 else (math.prod(shape),)
            if len(index) != len(axes) or not all(0 <= i < n for i, n in zip(index, axes)):
                raise LookupError(f"{array}{index} is not in {array}")
            flat = int(np.ravel_multi_index(index, axes))
            writes, times = self._writes(array, flat, who >> 10)
            value, known = memory.element(self, array, writes[: bisect_right(times, t)], flat)
            if not known:
                raise LookupError(f"{array}{index} is unset")
            return value

        return expression.value(_Names(self.built_in(who), variable), element)

    def flat(self, text: str, who: int, t: int) -> tuple[str, int]:
        """`tile[1,2]`, `tile[37]`, `tile[ty][tx + 1]`, `input[b=0,c=1,h=0,w=2]`, `row[3]` of a pointer -> (array, flat index).
        Errors: LookupError; ValueError; others as Expression's."""
        name, bracket, inside = text.strip().replace("][", ",").partition("[")
        if not bracket or not inside.endswith("]"):
            raise ValueError(f"{text.strip()} is not an element, such as tile[1,2]")
        array, plus = name.strip(), 0
        if array not in (held.name for held in self.record.arrays):
            pointer = self._variables(who, t, array).get(array)
            if isinstance(pointer, str):
                array, _, offset = pointer.partition(" + ")
                plus = int(offset or 0)
        shape = self.record.arrays[self.record.number(array)].shape
        parts = [part.rpartition("=")[2] for part in inside[:-1].split(",")]
        index = [int(self.evaluate(Expression(part), who, t)) for part in parts]
        if len(index) not in (1, len(shape)) or plus and len(index) > 1:
            raise ValueError(f"{array} has {len(shape)} axes")
        return array, int(np.ravel_multi_index(index, shape)) if len(index) > 1 else index[0] + plus

    def accesses_at(self, t: int, who: int) -> np.ndarray:
        """ACCESS[]: of a thread at a moment."""
        a = self.record.accesses
        return a[(a["who"] == who) & (self.time[a["row"]] == t)]

    def printed(self, t: int, who: int | None = None) -> list[str]:
        """What has been printed up to a time, in its order; by a thread: at that moment."""
        if who is None:
            return [text for at, text in self.output if at <= t]
        rows = ((row, text) for row, text in self.record.taken["printed"] if row >= 0)
        return [text for row, text in rows if self.time[row] == t and self.record.rows["who"][row] == who]

    @cached_property
    def output(self) -> list[tuple[int, str]]:
        """(moment, text) of all that is printed, in that order; of lines from blocks that are not recorded, this is said."""
        found = []
        for row, text in self.record.taken["printed"]:
            own, last = row >= 0, row if row >= 0 else -2 - row
            at = max(0, int(self.time[last])) if last >= 0 else 0
            found.append((at, last, text if own else _elsewhere(text)))
        return [(at, text) for at, _, text in sorted(found, key=lambda f: f[:2])]

    def named(self, access: np.void) -> str:
        """The name of what an access is to; "" for what the compiler keeps in local memory for itself."""
        if access["array"] >= 0:
            return self.record.element(access)
        who, row = int(access["who"]), int(access["row"])
        step = self.step_at(who, int(self.time[row]))
        return Frame(self, who, step).local_name(int(self.record.rows["value"][row])) if step else ""

    def said(self, access: np.void) -> str:
        """`reads tile[1,2]: 3.5`"""
        name, values = self.named(access), self.record.values(access)
        how = _SAID[HOW[access["how"]]]
        if access["how"] == MATRIX and (got := delivered(self.record, access)):
            pairs = [" ".join(f"{e} {short(v)}" for e, v in got[i : i + 2]) for i in range(0, len(got), 2)]
            return f"gives the row from {name}, gets {'; '.join(pairs)}"
        if access["how"] == ATOMIC and self.record.of(int(access["row"]))[4] == "add":
            how = "adds to"
        numbers = " ".join(short(v.item()) for v in values[:8])
        return f"{how} {name}" + (f": {numbers}" if numbers else "")


class _Names(dict):
    """Built-in names; and those of variables, which take a while to find."""

    def __init__(self, built_in: Mapping[str, object], variable: Callable[[str], object]):
        super().__init__(built_in)
        self.variable = variable

    def __missing__(self, name: str) -> object:
        return self.variable(name)

    def get(self, name: str, default: object = None) -> object:
        try:
            return self[name]
        except KeyError:
            return default


def _elsewhere(text: str) -> str:
    return "".join(f"[another block] {line}" for line in text.splitlines(keepends=True))


def short(value: object) -> str:
    """A value in few characters."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return "{" + ", ".join(map(short, value)) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {short(v)}" for k, v in value.items()) + "}"
    return str(value)


def ranges(numbers: list[int]) -> str:
    """`0-3,7`"""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in runs)
