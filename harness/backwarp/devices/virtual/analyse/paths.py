"""The paths from one instruction of a kernel to another that pass no barrier, or no fence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from ..ptx.callgraph import branch_targets
from ..ptx.ir import Function, Instruction, Label
from .dataflow import reached


def is_barrier(ins: Instruction, warp: bool) -> bool:
    """warp: whether synchronisation within a warp counts as a barrier too."""
    return ins.op.collective == "block" or warp and (ins.op.collective == "warp" or bool(ins.op.own))


class Paths:
    """The paths that a kernel's threads can take from one instruction to another without passing some others.

    functions: the kernel, then its callees. stops(ins): whether it is one of those others; so is a call of a function
    that contains one.
    """

    def __init__(self, functions: list[Function], stops: Callable[[Instruction], bool]):
        self.functions, self._is_stop = functions, stops
        self._found: dict[tuple[str, int, bool], set[int]] = {}

    def free(
        self, start: Iterable[tuple[str, int]], end: Iterable[tuple[str, int]], stopping: bool = True
    ) -> bool:
        """Is there a path from one of these places to another? stopping: one that passes no stop."""
        return any(
            place in self._reached(function, at, stopping)
            for function, at in start
            for other, place in end
            if other == function
        )

    def stops_after(self, start: Iterable[tuple[str, int]]) -> set[int]:
        """The lines of the first stops on the paths from these places."""
        return {
            self._bodies[function][i].at.line
            for function, at in start
            for i in self._reached(function, at, True)
            if self._stops(function, i)
        }

    def places(self, at, text: str) -> list[tuple[str, int]]:
        """The places of the instruction `text` of this line, as (function, position); in its function's
        callers, the call."""
        found = [
            (name, i)
            for name, body in self._bodies.items()
            for i, item in enumerate(body)
            if isinstance(item, Instruction) and item.at == at and str(item) == text
        ]
        for function, _ in found:
            found += [(name, i) for name, i in self._calls.get(function, ()) if (name, i) not in found]
        return found

    @cached_property
    def _bodies(self) -> dict[str, list]:
        return {f.name: f.body for f in self.functions if f.body is not None}

    @cached_property
    def _calls(self) -> dict[str, list[tuple[str, int]]]:
        """Function -> where it is called."""
        found: dict[str, list[tuple[str, int]]] = {}
        for name, body in self._bodies.items():
            for i, item in enumerate(body):
                if isinstance(item, Instruction) and item.op.flow == "call":
                    found.setdefault(item.called[1], []).append((name, i))
        return found

    def ends(self, start: Iterable[tuple[str, int]]) -> bool:
        """May a thread leave the kernel after one of these places without passing a stop?"""
        entries = {f.name for f in self.functions if f.entry}
        return any(
            isinstance(item := self._bodies[function][place], Instruction) and item.op.leaves
            for function, at in start
            if function in entries
            for place in self._reached(function, at, True)
        )

    def line(self, place: tuple[str, int]) -> int:
        return self._bodies[place[0]][place[1]].at.line

    def nearest(self, found: Iterable[tuple[str, int]], to: list[tuple[str, int]]) -> tuple[str, int] | None:
        """The place in the code nearest to others, of those with a line."""
        near = [(abs(i - j), (f, i)) for f, i in found for g, j in to if f == g and self.line((f, i))]
        return min(near)[1] if near else None

    def having(self, wanted: Callable[[Instruction], bool]) -> list[tuple[str, int]]:
        """The places of such instructions, and of calls of functions that contain one."""
        own = [
            (name, i)
            for name, body in self._bodies.items()
            for i, item in enumerate(body)
            if isinstance(item, Instruction) and wanted(item)
        ]
        inside = self._callers(name for name, _ in own)
        return own + [place for name in inside for place in self._calls.get(name, ())]

    def _callers(self, names: Iterable[str]) -> set[str]:
        """These functions, and all that call them."""
        return reached(names, lambda name: (caller for caller, _ in self._calls.get(name, ())))

    @cached_property
    def _stopping(self) -> set[str]:
        """The functions that contain a stop, or call one that does."""
        return self._callers(
            name
            for name, body in self._bodies.items()
            if any(isinstance(item, Instruction) and self._is_stop(item) for item in body)
        )

    def is_stop(self, place: tuple[str, int]) -> bool:
        return self._stops(*place)

    def _stops(self, function: str, i: int) -> bool:
        item = self._bodies[function][i]
        if isinstance(item, Instruction) and item.op.flow == "call":
            return item.called[1] in self._stopping
        return isinstance(item, Instruction) and self._is_stop(item)

    def _reached(self, function: str, at: int, stopping: bool) -> set[int]:
        """The positions reachable from `at`; with `stopping`, paths end at a stop."""
        if (function, at, stopping) not in self._found:
            self._found[function, at, stopping] = self._search(function, at, stopping)
        return self._found[function, at, stopping]

    def _search(self, function: str, at: int, stopping: bool) -> set[int]:
        body = self._bodies[function]
        labels = {item.name: i for i, item in enumerate(body) if isinstance(item, Label)}

        def after(i: int) -> list[int]:
            stays = i == len(body) or stopping and self._stops(function, i)
            return [] if stays else self._next(function, i, labels)

        return reached(self._next(function, at, labels), after) - {len(body)}

    def _next(self, function: str, i: int, labels: dict[str, int]) -> list[int]:
        item = self._bodies[function][i]
        if not isinstance(item, Instruction) or not item.op.ends_block:
            return [i + 1]
        whole = next(f for f in self.functions if f.name == function)
        targets = [] if item.op.leaves else [labels[t] for t in branch_targets(whole, item) if t in labels]
        return targets + [i + 1] * bool(item.pred)
