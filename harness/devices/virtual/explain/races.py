"""Explains the races for one array: which one to report, and the remedy that fits.

A barrier is the remedy if the program implies an order that nothing enforces. If several threads write one
element at the same point of the program there is no such order: the element needs a single thread, or an
atomic.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ....course.cuda_pieces import Piece
from ....course.cuda_text import CudaText, read
from ..analyse.dataflow import reached
from ..ptx.callgraph import branch_targets
from ..ptx.ir import Function, Instruction, Label
from ..run.arena import Owner
from ..runtime.abi import SCOPE_SHIFT, SCOPES
from .wording import ONE_THREAD, triple

_VERBS = {"Read": "reads", "Write": "writes", "Atomic": "atomically changes"}
_FENCES = "a lock or flag orders them only with a __threadfence() before it is passed on and another after it is seen"
LARGEST_VALUE = 16  # bytes: a float4


class Paths:
    """The paths that a kernel's threads can take from one instruction to another with no barrier in between.

    functions: the kernel, then its callees. warp: whether synchronisation within a warp counts as a barrier
    too.
    """

    def __init__(self, functions: list[Function], warp: bool):
        self.functions, self.warp = functions, warp

    def free(
        self, start: Iterable[tuple[str, int]], end: Iterable[tuple[str, int]], barriers: bool = True
    ) -> bool:
        """Is there a path from one of these places to another? barriers: one without a barrier."""
        return any(
            place in self._reached(function, at, barriers)
            for function, at in start
            for other, place in end
            if other == function
        )

    def barriers_after(self, start: Iterable[tuple[str, int]]) -> set[int]:
        """The lines of the first barriers on the paths from these places."""
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

    @cached_property
    def _waiting(self) -> set[str]:
        """The functions that contain a barrier, or call one that does."""
        own = (name for name, body in self._bodies.items() if any(map(self._is_barrier, body)))
        return reached(own, lambda name: (caller for caller, _ in self._calls.get(name, ())))

    def _is_barrier(self, item) -> bool:
        if not isinstance(item, Instruction):
            return False
        return item.op.collective == "block" or self.warp and (item.op.collective == "warp" or item.op.own)

    def _stops(self, function: str, i: int) -> bool:
        item = self._bodies[function][i]
        if isinstance(item, Instruction) and item.op.flow == "call":
            return item.called[1] in self._waiting
        return self._is_barrier(item)

    def _reached(self, function: str, at: int, barriers: bool) -> set[int]:
        """The positions reachable from `at`; with `barriers`, paths end at a barrier."""
        body = self._bodies[function]
        labels = {item.name: i for i, item in enumerate(body) if isinstance(item, Label)}

        def after(i: int) -> list[int]:
            stays = i == len(body) or barriers and self._stops(function, i)
            return [] if stays else self._next(function, i, labels)

        return reached(self._next(function, at, labels), after) - {len(body)}

    def _next(self, function: str, i: int, labels: dict[str, int]) -> list[int]:
        item = self._bodies[function][i]
        if not isinstance(item, Instruction) or not item.op.ends_block:
            return [i + 1]
        whole = next(f for f in self.functions if f.name == function)
        targets = [] if item.op.leaves else [labels[t] for t in branch_targets(whole, item) if t in labels]
        return targets + [i + 1] * bool(item.pred)


def _is_one(owner: Owner | None, file: CudaText, line: int) -> bool:
    """Is it a variable, not an array, that the block shares? line: one that accesses it."""
    if owner is None or owner.space != "shared" or owner.nbytes > LARGEST_VALUE:
        return False
    named = [p for p in file.whole.all("identifier") if p.code == owner.name and p.line == line]
    return bool(named) and all(
        p.outer.kind not in ("subscript_expression", "pointer_expression") for p in named
    )


class Race:
    """One record: two accesses that nothing orders. first, last: their places, lower line first."""

    def __init__(self, diagnosis, record, kind: str):
        self.record, self.kind = record, kind
        self.site, self.other_site = int(record["site"]), int(record["other_site"])
        self.last = diagnosis.place(record["site"], record["thread"], record["block"])
        self.first = diagnosis.place(record["other_site"], record["other_thread"], record["other_block"])
        self.owner = diagnosis.owner(record)
        self.accesses = diagnosis.accesses(record)  # of the first, of the last

    @property
    def array(self) -> tuple:
        """The key of its array: races for one array are reported as one."""
        if self.owner is None:
            return "", self.first.line, self.last.line
        return self.owner.name, self.owner.start

    @property
    def lines(self) -> tuple:
        return self.first.file, self.first.line, self.last.file, self.last.line, self.accesses

    @property
    def both_write(self) -> bool:
        return self.accesses == ("Write", "Write")

    @property
    def one_place(self) -> bool:
        return self.site == self.other_site

    @property
    def of_blocks(self) -> bool:
        return self.first.block != self.last.block

    def reads_in(self, line: int) -> bool:
        return ("Read", line) in zip(self.accesses, (self.first.line, self.last.line), strict=True)


class Told:
    """A race, with all races of its launch for the same array."""

    def __init__(self, diagnosis, shown: Race, races: list[Race]):
        self.diagnosis, self.shown, self.races = diagnosis, shown, races

    @property
    def order(self) -> tuple:
        """Sort key among the races for one array: the smallest is the clearest."""
        kinds = "race", "warp-race", "same-value"
        return kinds.index(self.shown.kind), not self._one_element(self.shown), not self.shown.both_write

    @cached_property
    def paths(self) -> Paths:
        return Paths(self.diagnosis.owners.pointers.functions, warp=self.shown.kind == "warp-race")

    @cached_property
    def places(self) -> tuple[list, list]:
        sites = self.diagnosis.run.module.lowered.sites
        return self.paths.places(*sites[self.shown.other_site]), self.paths.places(*sites[self.shown.site])

    @cached_property
    def by_owner(self) -> bool:
        """Do several threads write one element, with no order defined by the program?"""
        return (
            self._one_element(self.shown)
            or self.shown.both_write
            and (self.shown.of_blocks or self._in_one_stretch() or self._on_two_branches())
        )

    def _one_element(self, race: Race) -> bool:
        """Do both threads write the element at one place, or update it there?"""
        if race.both_write:
            return race.one_place
        line = race.last.line
        if set(race.accesses) != {"Read", "Write"}:
            return False
        if race.first.line != line:
            return race.of_blocks and self._is_kept(race)
        return self._changes_one(race, line) or any(
            r.both_write
            and r.one_place
            and r.last.line == line
            and r.record["address"] == race.record["address"]
            for r in self.races
        )

    def explanation(self) -> str:
        race = self.shown
        first, last = race.accesses
        if race.kind == "same-value":
            ordered = f"put a {self._barrier()} between the two lines, " * (
                race.lines[1] != race.lines[3] and not self.by_owner
            )
            return (
                f"{self.diagnosis.both(race.last, race.first)} both write {self._element()}{self._lines()}, the same value. That is"
                f" benign on today's hardware, but CUDA does not promise it: {ordered}let one thread write each element, or"
                " write it with an atomic, such as atomicExch()."
            )
        if self.by_owner:
            verb = "update" if self.updates or set(race.accesses) == {"Read", "Write"} else "write"
            remedy = f"{self._owner()} {_FENCES[0].upper()}{_FENCES[1:]}." if self.by_flags else self._owner()
            return f"{self.diagnosis.both(race.last, race.first)} both {verb} {self._element()}{self._lines()}. {remedy}"
        who = self._who()
        # a copy continues past barriers, until it is waited for
        if self.diagnosis.is_copy(race.first) and first == "Write":
            return (
                f"A copy{self._line()} started by {who} fills {self._element()}; this thread {_VERBS[last]} it. Put a"
                " __syncthreads() between the wait for the copy and this use, and another between this use and"
                " the next copy."
            )
        both = "and so does this thread" if first == last else f"and this thread {_VERBS[last]} it"
        return f"{who[0].upper()}{who[1:]} {_VERBS[first]} {self._element()}{self._line()}, {both}; {self._why()}."

    # -- who, what, where -----------------------------------------------------------------------------

    def _element(self) -> str:
        return self.diagnosis.named(self.shown.record, self.shown.owner)

    def _line(self) -> str:
        return f" (line {self.shown.first.line})" if self.shown.first.line != self.shown.last.line else ""

    def _lines(self) -> str:
        first, last = self.shown.first.line, self.shown.last.line
        return f" (lines {first} and {last})" if first != last else ""

    def _who(self) -> str:
        race = self.shown
        if race.of_blocks:
            return f"thread {triple(race.first.thread)} of block {triple(race.first.block)}"
        return f"thread {triple(race.first.thread)}{' of the same warp' * (race.kind == 'warp-race')}"

    # -- what to do -----------------------------------------------------------------------------------

    def _on_two_branches(self) -> bool:
        """Are the two places on different branches, so that no thread executes both?"""
        first, last = self.places
        if not first or not last:
            return False
        return not self.paths.free(first, last, barriers=False) and not self.paths.free(
            last, first, barriers=False
        )

    def _in_one_stretch(self) -> bool:
        """Do two lines write the element with no barrier on the path between them?"""
        race, (first, last) = self.shown, self.places
        return race.both_write and race.first.line != race.last.line and self.paths.free(first, last)

    @cached_property
    def updates(self) -> bool:
        """Does the line read the array as well as write it?"""
        return any(r.reads_in(self.shown.last.line) for r in self.races if r.first.line == r.last.line)

    @cached_property
    def between_passes(self) -> bool:
        """May the two threads have been in different iterations of a loop that pass data from one to the
        next?"""
        race, line = self.shown, self.shown.last.line
        if race.of_blocks or race.first.line != line or not self.paths.free(self.places[1], self.places[1]):
            return False
        if self.updates:
            return len(self._subscripts(race, line)) > 1
        return any(r.reads_in(n) for r in self.races for n in (r.first.line, r.last.line) if n != line)

    def _owner(self) -> str:
        """The remedy for an element that several threads write at one place."""
        race = self.shown
        if self.between_passes and race.owner and race.owner.space == "global":
            return (
                "Each element must belong to one thread, in all iterations of the loop: does the loop's step pass over the elements of "
                f"the other threads? If one iteration passes the element on to the next, put a {self._barrier()} between them."
            )
        if self.between_passes:
            return (
                "If they do so in the same iteration of a loop, leave it to one thread or use an atomic; if in different iterations,"
                f" put a {self._barrier()} between them."
            )
        if set(race.accesses) == {"Read", "Write"} and race.first.line != race.last.line:
            passes = self.paths.free(self.places[1], self.places[1])
            step = ", and the step of the loop must pass over those of all other threads" * passes
            return (
                "Each element must belong to one thread, or be changed by an atomic alone: its index needs every part of the thread's "
                f"and the block's number{step}."
            )
        if _is_one(race.owner, read(self.diagnosis.run.module.source), race.last.line):
            remedy = "add to it with atomicAdd" if self.updates else "let one thread write it"
            return (
                f"There is one {race.owner.name} for the whole block: if each thread needs its own, it must not be __shared__; if "
                f"all need the same, {remedy}."
            )
        if self.updates:
            return "An element that several threads update needs atomicAdd or another atomic, or a single thread that does it for all."
        if not race.of_blocks and self._in_one_stretch():
            written = [self._written(line) for line in (race.first.line, race.last.line)]
            named = f", {written[0]} and {written[1]}" * all(written)
            return f"Between two barriers, each element must belong to one thread: is the index right in both lines{named}?"
        parts = "the thread's and the block's number" if race.of_blocks else "the thread's number"
        return (
            f"{ONE_THREAD} every part of {parts}, and does the guard keep out threads that have no element?"
        )

    def _barrier(self) -> str:
        return "__syncwarp()" if self.shown.kind == "warp-race" else "__syncthreads()"

    def _why(self) -> str:
        """Why nothing orders the two accesses, and so what is missing."""
        race = self.shown
        if race.of_blocks:
            if self._of_one_block():
                return "an atomic with block scope, such as atomicAdd_block, is safe only within its block"
            if "Atomic" in race.accesses:
                return "blocks run in any order, and an atomic is safe only against other atomics"
            if self.by_flags:
                return f"blocks run in any order, and {_FENCES}"
            return "blocks run in any order: what one needs from another must come from an earlier launch"
        if race.kind == "warp-race":
            return "lanes of a warp need not run in lockstep (__syncwarp)"
        if self.by_flags:
            return f"there is no __syncthreads() between them, and {_FENCES}"
        first, last = self.places
        if race.first.line == race.last.line and not race.both_write:
            if self.paths.free(last, first) and self.paths.free(first, last):
                return "there is no __syncthreads() between one iteration of the loop and the next"
            return "if it is meant to, read into a variable first, then __syncthreads(), then write"
        if first and last and not self.paths.free(first, last):
            if self.paths.free(last, first):
                after = f"after the barrier in line {min(lines)}, " if (lines := self._between()) else ""
                return f"{after}there is no __syncthreads() on the path from line {race.last.line} around the loop to line {race.first.line}"
            if self._on_two_branches():
                return "the two lines are on different branches, and a __syncthreads() can only go after both"
        return "there is no __syncthreads() between them"

    def _between(self) -> set[int]:
        first, _ = self.places
        return {
            n for n in self.paths.barriers_after(first) if self.shown.first.line <= n <= self.shown.last.line
        }

    def _of_one_block(self) -> bool:
        """Are both atomic, one of them with block scope?"""
        extra = int(self.shown.record["extra"])
        scopes = (SCOPES[info >> SCOPE_SHIFT & 3] for info in (extra, extra >> 32))
        return self.shown.accesses == ("Atomic", "Atomic") and "cta" in scopes

    @cached_property
    def by_flags(self) -> bool:
        """Is it in global memory, in a kernel whose threads communicate through flags there?"""
        info, owner = self.diagnosis.run.kernel.info, self.shown.owner
        return bool(info.turns) and info.ordered and owner is not None and owner.space == "global"

    def _changes_one(self, race: Race, line: int) -> bool:
        """Does a line name a single element of the array, and both read and write it?"""
        named = self._named(race, line)
        return len(self._subscripts(race, line)) == 1 and (len(named) > 1 or named[0].is_updated)

    def _is_kept(self, race: Race) -> bool:
        """Do two lines read and store one element: does each thread keep it to itself, or believe so?"""
        lines = dict(zip(race.accesses, (race.first.line, race.last.line), strict=True))
        stored = next((p for p in self._named(race, lines["Write"]) if self._is_set(p)), None)
        file = read(self.diagnosis.run.module.source)
        if not stored or file.function_at(lines["Read"]) != file.function_at(lines["Write"]):
            return False
        there = [p for p in file.whole.all("subscript_expression") if p.line == lines["Read"]]
        same = {"".join(p.code.split()) for p in there if p.indexed.code == stored.indexed.code}
        names = {p.code for p in stored.all("identifier")}
        between = [
            p for p in file.whole.all("identifier") if min(lines.values()) <= p.line <= max(lines.values())
        ]
        moved = any(p.code in names and (p.is_updated or self._is_set(p)) for p in between)
        return same == {"".join(stored.code.split())} and not moved

    def _written(self, line: int) -> str:
        """The element that a line assigns, as written there."""
        named = self._named(self.shown, line)
        return next((" ".join(p.code.split()) for p in named if self._is_set(p)), "")

    @staticmethod
    def _is_set(p: Piece) -> bool:
        return p.outer.kind == "assignment_expression" and p.outer.part("left") == p

    def _subscripts(self, race: Race, line: int) -> set[str]:
        """The different elements of the array that a line names."""
        return {"".join(piece.code.split()) for piece in self._named(race, line)}

    def _named(self, race: Race, line: int) -> list[Piece]:
        """The elements of the array that a line names; a kernel may have another name for it."""
        file = read(self.diagnosis.run.module.source)
        if _is_one(race.owner, file, line):
            return [p for p in file.whole.all("identifier") if p.line == line and p.code == race.owner.name]
        if found := file.subscripts(race.owner.name if race.owner else "", line):
            return found
        here = [p for p in file.whole.all("subscript_expression") if p.line == line]
        stored = {p.indexed.code for p in here if p.is_updated or self._is_set(p)}
        others = {v for p in here if (v := p.indexed).code not in stored}
        declared = [file.variable_at(v.code, v.start) for v in others]
        if len(stored) != 1 or any(v is None or v.value for v in declared):  # may point into the same array
            return []
        return file.subscripts(stored.pop(), line)
