"""Explains the races for one array: which one to report, and the remedy that fits.

A barrier is the remedy if the program implies an order that nothing enforces. If several threads write one
element at the same point of the program there is no such order: the element needs a single thread, or an
atomic.
"""

from __future__ import annotations

from functools import cached_property

from ....cuda.text import read
from ....errors import Place
from ..analyse.paths import Paths, is_barrier
from ..runtime.abi import INFO_ATOMIC, INFO_VOLATILE, SCOPE_SHIFT, SCOPES
from . import copies
from .elements import Elements
from .handshakes import handshake
from .wording import ONE_THREAD, threads_of, triple

_VERBS = {"Read": "reads", "Write": "writes", "Atomic": "atomically changes"}


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

    def writes_in(self, line: int) -> bool:
        return ("Write", line) in zip(self.accesses, (self.first.line, self.last.line), strict=True)

    def reads_in(self, line: int) -> bool:
        return ("Read", line) in zip(self.accesses, (self.first.line, self.last.line), strict=True)


class Told:
    """A race, with all races of its launch for the same array."""

    def __init__(self, diagnosis, shown: Race, races: list[Race]):
        self.diagnosis, self.shown, self.races = diagnosis, shown, races
        self.source = Elements(read(diagnosis.run.module.source))
        self.asks_index = False  # whether `explanation` does

    @property
    def order(self) -> tuple:
        """Sort key among the races for one array: the smallest is the clearest."""
        kinds = "race", "warp-race", "same-value"
        return kinds.index(self.shown.kind), not self._one_element(self.shown), not self.shown.both_write

    @cached_property
    def paths(self) -> Paths:
        warp = self.shown.kind == "warp-race"
        return Paths(self.diagnosis.owners.pointers.functions, lambda ins: is_barrier(ins, warp))

    @cached_property
    def places(self) -> tuple[list, list]:
        sites = self.diagnosis.run.module.lowered.sites
        return self.paths.places(*sites[self.shown.other_site]), self.paths.places(*sites[self.shown.site])

    @cached_property
    def by_owner(self) -> bool:
        """Do several threads write one element, with no order defined by the program?"""
        return not (self.awaited or self._of_one_block()) and (
            self._one_element(self.shown)
            or self.shown.both_write
            and (self.shown.of_blocks or self._in_one_stretch() or self._on_two_branches())
        )

    @cached_property
    def awaited(self) -> bool:
        """Does one of the threads wait in a loop for what the other writes?"""
        race, influence = self.shown, self.diagnosis.influence
        if set(race.accesses) != {"Read", "Write"} or self._of_one_block():
            return False
        return influence.is_awaited(self.places[race.accesses.index("Read")])

    def _one_element(self, race: Race) -> bool:
        """Do both threads write the element at one place, or update it there?"""
        if race.both_write:
            return race.one_place
        line = race.last.line
        if set(race.accesses) != {"Read", "Write"}:
            return False
        if race.first.line != line:
            met = any(r.both_write and r.one_place and race.writes_in(r.last.line) for r in self.races)
            kept = (race.of_blocks or met) and self.source.is_kept(race)
            return kept and not self._on_two_branches()
        return self.source.changes_one(race, line) or any(
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
                f"{threads_of(race.last, race.first)} both write {self._element()}{self._lines()}, the same value. That is"
                f" benign on today's hardware, but CUDA does not promise it: {ordered}let one thread write each"
                f" element{f', or write it with an atomic, such as atomicExch(){self._as_int()}' * (self._bytes <= 8)}."
            )
        if self.awaited:
            read, written = (
                getattr(race, ("first", "last")[race.accesses.index(how)]) for how in ("Read", "Write")
            )
            fence = "__threadfence()" if race.of_blocks else "__threadfence_block()"
            return (
                f"{threads_of(race.last, race.first)}: one waits for {self._element()} to change (line {read.line}), which"
                f" the other writes (line {written.line}). What threads wait for must be volatile or changed by atomics, with a"
                f" {fence} directly before it is written and another after the wait."
            )
        if said := copies.race(self.diagnosis, race, self._element()):
            return said
        if self.by_owner:
            verb = "update" if self.updates or set(race.accesses) == {"Read", "Write"} else "write"
            says = self.handshake
            remedy = f"{says[0].upper()}{says[1:]}." if says else self._owner()
            return (
                f"{threads_of(race.last, race.first)} both {verb} {self._element()}{self._lines()}. {remedy}"
            )
        who = self._who()
        if self.copied:  # it continues past barriers, until it is waited for
            mine = self.copied == race.last
            started = "this thread" if mine else who
            used = f"{who} {_VERBS[first]} it" if mine else f"this thread {_VERBS[last]} it"
            wait = f" (line {self.wait})" * bool(self.wait)
            copy = f"A copy{f' (line {self.copied.line})' * bool(self._line())} started by {started} fills {self._element()}; {used}."
            return (
                f"{copy} Put a"
                f" __syncthreads() between the wait for the copy{wait} and this use, and another between this use and the next copy."
            )
        both = "and so does this thread" if first == last else f"and this thread {_VERBS[last]} it"
        return f"{who[0].upper()}{who[1:]} {_VERBS[first]} {self._element()}{self._line()}, {both}; {self._why()}."

    @cached_property
    def copied(self) -> Place | None:
        """The side that is a copy by cp.async, if the other one uses what it fills."""
        sides = (self.shown.first, self.shown.last)
        both = zip(sides, self.shown.accesses, strict=True)
        found = [place for place, how in both if how == "Write" and self.diagnosis.is_copy(place)]
        return found[0] if len(found) == 1 else None

    @cached_property
    def wait(self) -> int:
        """The line of the wait for a copy before the other side uses it; 0 if there is none."""
        used = self.places[0] if self.copied == self.shown.last else self.places[1]
        waits = self.paths.having(lambda ins: ins.op.base == "cp" and ins.op.operation.startswith("wait"))
        waits = [p for p in waits if self.paths.line(p) and self.paths.free([p], used, stopping=False)]
        return self.paths.line(nearest) if (nearest := self.paths.nearest(waits, used)) else 0

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
        return not self.paths.free(first, last, stopping=False) and not self.paths.free(
            last, first, stopping=False
        )

    def _in_one_stretch(self) -> bool:
        """Do two instructions write the element of an array with no barrier on the path between them?"""
        race, (first, last) = self.shown, self.places
        if race.first.line != race.last.line and self.source.is_one(race.owner, race.last.line):
            return False
        either = (
            self.paths.free(first, last) or race.lines[1] == race.lines[3] and self.paths.free(last, first)
        )
        return race.both_write and not race.one_place and either

    @cached_property
    def updates(self) -> bool:
        """Is the element read before it is written, in the same line or in an earlier one?"""
        line = self.shown.last.line
        return any(
            r.reads_in(line)
            if r.first.line == r.last.line
            else r.last.line == line and r.accesses == ("Read", "Write") and self.source.is_kept(r)
            for r in self.races
        )

    @cached_property
    def between_passes(self) -> bool:
        """May the two threads have been in different iterations of a loop that pass data from one to the
        next?"""
        race, line = self.shown, self.shown.last.line
        if race.of_blocks or race.first.line != line or not self.paths.free(self.places[1], self.places[1]):
            return False
        if self.updates and not self.source.walks(self.shown, line):
            return len(self.source.subscripts(race, line)) > 1
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
        if self.source.is_one(race.owner, race.last.line):
            remedy = (
                f"change it with an atomic, such as atomicAdd{self._as_int()}"
                if self.updates
                else "let one thread write it"
            )
            return (
                f"There is one {race.owner.name} for the whole block: if each thread needs its own, it must not be __shared__; if "
                f"all need the same, {remedy}."
            )
        if self.updates:
            return (
                f"An element that several threads update needs atomicAdd or another atomic{self._as_int()}, or a single thread that does"
                " it for all."
            )
        if not race.of_blocks and self._in_one_stretch():
            lines = dict.fromkeys((race.first.line, race.last.line))
            written = [self.source.written(race, line) for line in lines]
            *more, last = dict.fromkeys(code for codes in written for code in codes) if all(written) else [""]
            named = f"{', '.join(more)} and {last}" if more else last
            where = "both lines" if len(lines) > 1 else "this line"
            says = f"Between two barriers, each element must belong to one thread: is the index right in {where}{f', {named}' * bool(named)}?"
            if self._goes_round() and any("Read" in r.accesses for r in self.races):
                says += f" If the threads are in different iterations of the loop, put a {self._barrier()} between one and the next."
            return says
        self.asks_index = True
        parts = "the thread's and the block's number" if race.of_blocks else "the thread's number"
        return (
            f"{ONE_THREAD} every part of {parts}, and does the guard keep out threads that have no element?"
        )

    def _as_int(self) -> str:
        """Atomics change 4 bytes or more."""
        return " (on an int: none changes so few bytes)" * (self._bytes < 4)

    @property
    def _bytes(self) -> int:
        """Of the access that was found to race."""
        extra = int(self.shown.record["extra"])
        return max(extra & 255, extra >> 32 & 255)

    def _in_one_cluster(self) -> bool:
        """Are both threads in blocks of one cluster, which can meet?"""
        sizes = self.diagnosis.run.kernel.cluster
        places = zip(self.shown.first.block, self.shown.last.block, sizes, strict=True)
        return all(a // size == b // size for a, b, size in places)

    def _barrier(self) -> str:
        return "__syncwarp()" if self.shown.kind == "warp-race" else "__syncthreads()"

    def _why(self) -> str:
        """Why nothing orders the two accesses, and so what is missing."""
        race = self.shown
        if self.handshake:
            return self.handshake
        if race.of_blocks:
            if self._in_one_cluster() and not self._of_one_block():
                return (
                    "nothing makes the blocks of the cluster meet in between: put a cluster.sync(), or barrier.cluster.arrive and"
                    " wait, between the two"
                )
            if self._of_one_block():
                return "an atomic with block scope, such as atomicAdd_block, is safe only within its block"
            if "Atomic" in race.accesses:
                return f"blocks run in any order, and an atomic is safe only against other atomics: {self._atomic_too()}, or do it in another launch"
            return "blocks run in any order: what one needs from another must come from an earlier launch"
        if self._is_released():
            return f"an atomic is safe only against other atomics: {self._atomic_too()}"
        first, last = self.places
        missing, lanes = f"there is no {self._barrier()}", ""
        if race.kind == "warp-race":
            lanes = "lanes of a warp need not run in lockstep, and "
        if race.first.line == race.last.line and not race.both_write:
            if self.paths.free(last, first) and self.paths.free(first, last):
                return f"{lanes}{missing} between one iteration of the loop and the next"
            if race.owner and race.owner.space == "global" and max(self.diagnosis.run.grid) > 1:
                return (
                    "if it is meant to, store into another array: no barrier orders this block and the others"
                )
            return f"if it is meant to, read into a variable first, then {self._barrier()}, then write"
        if self._goes_round():
            return f"{lanes}{missing}, neither from line {race.first.line} to line {race.last.line} nor from one iteration of the loop to the next"
        if first and last and not self.paths.free(first, last):
            if self.paths.free(last, first):
                after = f"after the barrier in line {min(lines)}, " if (lines := self._between()) else ""
                return f"{lanes}{after}{missing} on the path from line {race.last.line} around the loop to line {race.first.line}"
            if self._on_two_branches():
                return (
                    f"the two lines are on different branches, and a {self._barrier()} can only go after both"
                )
            if (lines := self._between()) and self.paths.ends(first):
                return (
                    f"thread {triple(race.first.thread)} leaves the kernel before the barrier in line {min(lines)}, which orders"
                    " only what threads do that reach it"
                )
        return f"{lanes}{missing} between them"

    def _goes_round(self) -> bool:
        """Is there no barrier between the two lines, nor on the way round a loop that contains both?"""
        return self.paths.free(*self.places) and self.paths.free(*self.places[::-1])

    def _is_released(self) -> bool:
        """Does a plain store come after an atomic access to the same element, as when a lock is released?"""
        if set(self.shown.accesses) != {"Atomic", "Write"}:
            return False
        atomic, stored = self.places if self.shown.accesses[0] == "Atomic" else self.places[::-1]
        return self.paths.free(atomic, stored) and not self.paths.free(stored, atomic)

    def _atomic_too(self) -> str:
        """What to put in place of the plain access."""
        race = self.shown
        how, place = next(
            side for side in zip(race.accesses, (race.first, race.last), strict=True) if side[0] != "Atomic"
        )
        instead = "atomicExch()" if how == "Write" else "atomicAdd() of 0"
        return f"use one in line {place.line}, too, such as {instead}"

    def _between(self) -> set[int]:
        first, _ = self.places
        return {
            n for n in self.paths.stops_after(first) if self.shown.first.line <= n <= self.shown.last.line
        }

    def _of_one_block(self) -> bool:
        """Are both atomic or volatile, one of them with block scope?"""
        extra = int(self.shown.record["extra"])
        sides = extra & 0xFFFFFFFF, extra >> 32
        scopes = (SCOPES[info >> SCOPE_SHIFT & 3] for info in sides)
        return all(info & (INFO_ATOMIC | INFO_VOLATILE) for info in sides) and "cta" in scopes

    @cached_property
    def handshake(self) -> str:
        """The fences that are missing around what tells the threads to go on."""
        if (
            "Atomic" in self.shown.accesses
            and "Read" not in self.shown.accesses
            or not self.diagnosis.run.kernel.info.turns
        ):
            return ""
        return handshake(self.diagnosis.influence, self.shown, *self.places)
