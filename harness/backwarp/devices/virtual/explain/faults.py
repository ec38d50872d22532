"""A record of the runtime -> a KernelFault that names line, thread and array element.

headline: the wording of NVIDIA's compute-sanitizer and driver, which students will see again.
explanation: one plain sentence.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from ....cuda.text import read
from ....errors import KernelFault, Place
from ...nvrtc.symbols import demangle
from ..analyse.influence import Influence
from ..ptx.ir import Register
from ..ptx.parse import instruction
from ..run.arena import Owner
from ..run.printf import c_string
from ..runtime.abi import (
    FAULTS,
    FRAMES_FULL,
    INFO_ATOMIC,
    INFO_SHARED,
    INFO_WRITE,
    STOP_AFTER,
    TIMEOUT_BLOCKS,
    TIMEOUT_CALLED,
    TIMEOUT_SPENT,
    TIMEOUT_WAITED,
    TIMEOUT_WAITING,
)
from . import barriers, clusters, copies, heap, products, textures, unset, waits
from .causes import in_order
from .owners import Owners, element
from .races import Race, Told
from .wording import coordinates, named, space_name, threads_of

NOTES = {"exited-early", "same-write", "parity"}
RACES = {"race", "warp-race", "same-value"}
#: faults counted once per thread
_COUNTED = {
    "out-of-bounds",
    "misaligned",
    "read-only",
    "assert",
    "trap",
    "invalid-texture",
    "outside-surface",
    "stale-texel",
    "invalid-map",
    "ended-block",
    "unstarted-block",
    "cluster-barrier",
}
_POISON = (0x7F7F7F7F7F7F7F7F, 0xFFFFFFFFFFFFFFFF)  # in registers, in memory
_NEAR = 1 << 20  # bytes: an address this close to null or poison is that pointer plus an index


class Diagnosis:
    """Turns the records of one launch into faults. `run` is a launch's Execution: module, kernel, grid, block, arena."""

    def __init__(self, run):
        self.run, self.owners = run, Owners(run)

    def faults(self, records) -> tuple[list[KernelFault], list[KernelFault]]:
        """(faults, notes), the first in the grid first."""
        self.stopped = sum(int(r["count"]) for r in records) >= STOP_AFTER
        line = self.run.module.site_lines
        found = sorted(
            records,
            key=lambda r: (r["block"], r["thread"], line[r["site"]], line[r["other_site"]], r["site"]),
        )
        races: dict[tuple, list[Race]] = {}  # keyed by array
        racing = [Race(self, r, kind) for r in found if (kind := FAULTS[r["kind"]]) in RACES]
        unlike = {race.lines for race in racing if race.kind != "same-value"}
        for race in racing:
            if race.kind != "same-value" or race.lines not in unlike:
                races.setdefault(race.array, []).append(race)
        stuck = [r for r in found if FAULTS[r["kind"]] == "stuck-at-phase"]
        single = (r for r in found if FAULTS[r["kind"]] not in RACES | {"stuck-at-phase"})
        all_ = [(record, self._fault(record)) for record in single]
        if stuck:
            record, fields = waits.stuck(self, stuck)
            all_.append((record, self._fault(record, fields)))
        for group in races.values():  # the clearest race of each array first
            told = sorted((Told(self, race, group) for race in group), key=lambda told: told.order)
            all_ += [(one.shown.record, self._of_race(one)) for one in told]
        all_ = in_order(self, all_)
        faults = [f for f in all_ if f.severity != "note"]
        return faults, [] if faults else all_  # with a fault, a note is only its consequence

    @cached_property
    def influence(self) -> Influence:
        return Influence(self.owners.pointers)

    # -- pieces -----------------------------------------------------------------------------------

    def _fault(self, record, fields: dict | None = None) -> KernelFault:
        kind = FAULTS[record["kind"]]
        fields = _DESCRIBE[kind](self, record) if fields is None else fields
        place = fields.pop("place", None) or self.place(record["site"], record["thread"], record["block"])
        fault = KernelFault(
            file=place.file,
            line=place.line,
            thread=place.thread,
            block=place.block,
            source=self.source_line(place.line),
            count=int(record["count"]),
            **{"kind": kind, "severity": "note" if kind in NOTES else "error", **fields},
        )
        if kind in _COUNTED and fault.count > 1:
            fault.explanation += f" {'Many' if self.stopped else fault.count} threads do this."
        return fault

    def place(self, site: int, thread: int, block: int) -> Place:
        at, text = self.run.module.lowered.sites[site]
        line = at.line or self._definition(text or self.run.kernel.info.name)
        return Place(
            at.file or self.run.module.name,
            line,
            coordinates(thread, self.run.block),
            coordinates(block, self.run.grid),
        )

    def _definition(self, kernel: str) -> int:
        """The line where a kernel is defined, for faults without a line of their own; 0 if not found."""
        function = read(self.run.module.source).function(demangle(kernel)) if kernel else None
        return function.name_line if function else 0

    def owner(self, record) -> Owner | None:
        """The owner of the element that a record's access was meant for."""
        shared = bool(int(record["extra"]) & INFO_SHARED)
        return self.owners.find(self.address(record), int(record["site"]), shared, int(record["slot"]))

    def place_in_memory(self, record) -> tuple[dict, str]:
        """(the fields that name the element at a record's address, its name): of what has no access of a thread."""
        address = int(record["address"])
        owner = self.owners.at(address, int(record["slot"]))
        return (named(owner, address), element(owner, address)) if owner else ({}, "shared memory")

    def address(self, record) -> int:
        """The address of an access; negative if it wrapped around, in shared memory at 32 bits."""
        address = int(record["address"])
        bits, start = 64, 0
        if int(record["extra"]) & INFO_SHARED:
            bits, start = 32, self.run.arena.shared_base(int(record["slot"]))
        half = 1 << bits - 1
        return (address - start + half) % (2 * half) - half + start

    def source_line(self, line: int) -> str:
        lines = self.run.module.source.splitlines()
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def words_in(self, line: int) -> list[str]:
        """The words and literals of a line of the source."""
        return [token.code for token in read(self.run.module.source).tokens if token.line == line]

    # -- kinds --------------------------------------------------------------------------------------

    def _access(self, record) -> dict:
        kind, info = FAULTS[record["kind"]], int(record["extra"])
        address, owner = self.address(record), self.owner(record)
        size = info & 255
        verb, done = _VERBS[_access_name(info)]
        headline = f"Invalid {space_name(owner)} {verb} of size {size} bytes"
        accessed = dict(access=verb, space=owner.space if owner else "global", size=size)
        if kind == "misaligned":
            return accessed | self._misaligned(headline, owner, address, size, done)
        if owner is None:
            return accessed | dict(
                kind="invalid-address", headline=headline, explanation=_nowhere(done, address)
            )
        if owner.space == "heap":
            return accessed | dict(headline=headline, explanation=heap.access(self, address, size, done))
        if not owner.nbytes and owner.space != "shared":
            return accessed | dict(
                headline=headline,
                array=owner.name if owner.name.isidentifier() else "",
                explanation=f"This {done} outside {owner.name}.",
            )
        fields = dict(array=owner.name, shape=owner.describe_shape(), headline=headline)
        fields |= accessed
        if kind == "read-only":
            why = "is an input (const): kernels may only read it"
            if owner.space == "const":
                why = "is __constant__ memory: kernels may only read it"
            index = owner.element(address)
            return fields | dict(
                index=index, explanation=f"This {done} {element(owner, address)}, but {owner.name} {why}."
            )
        end = owner.start + owner.nbytes
        first, last = owner.element(address), owner.element(address + size - 1)
        what = element(owner, address)
        if address < owner.start and owner.nbytes:
            count = -((address - owner.start) // owner.itemsize)
            before = f"{count} element{'s' * (count != 1)} before its start"
            return fields | dict(
                index=first,
                explanation=f"This {done} {owner.name}, {before}; {self._extent(owner)}.",
                before=count,
            )
        if owner.start <= address < end:  # it starts inside and extends past the end
            what = f"{size} bytes from {what} to {owner.name}[{last}]"
            return fields | dict(
                index=owner.element(end), explanation=f"This {done} {what}; {self._extent(owner)}."
            )
        return fields | dict(index=first, explanation=f"This {done} {what}, {self._where(owner, address)}.")

    def _where(self, owner: Owner, address: int) -> str:
        count = owner.nbytes // owner.itemsize
        flat = (address - owner.start) // owner.itemsize
        where = "just past its end" if flat == count else f"{flat - count + 1} past its last element"
        if not count:
            return owner.remark or f"but {owner.name} has no elements"
        return f"{where}; {self._extent(owner)}"

    def _extent(self, owner: Owner) -> str:
        count = owner.nbytes // owner.itemsize
        text = f"{owner.name} has {count} element{'s' * (count != 1)}"
        if len(owner.shape) > 1:
            text += f", shape {owner.describe_shape()}"
        return f"{text}: {owner.remark}" if owner.remark else text

    def _misaligned(self, headline: str, owner: Owner | None, address: int, size: int, done: str) -> dict:
        fields = dict(headline=f"{headline}: misaligned address")
        what = f"0x{address:x}"
        if owner and owner.nbytes:
            what = element(owner, address)
            fields |= named(owner, address)
        offset = address % size
        return fields | dict(
            explanation=f"This {done} {size} bytes at once starting at {what}, whose address is {offset} past a multiple"
            f" of {size}."
        )

    def _timeout(self, record) -> dict:
        headline = "the launch timed out and was terminated"
        what = {
            TIMEOUT_SPENT: "A thread ran this loop, or one around it, more than 100 million times: does its condition ever become false?",
            TIMEOUT_WAITED: "Threads wait in this loop for memory to change, and no thread ever changes it.",
            TIMEOUT_BLOCKS: "The launch took too long: does the grid have far more threads than there is work?",
            TIMEOUT_WAITING: "The launch took too long. A thread was in this loop: does it wait for memory that no thread ever changes?",
            TIMEOUT_CALLED: "The launch took too long; when it was stopped, a thread was in the function called here.",
        }.get(
            int(record["extra"]), "The launch took too long; when it was stopped, a thread was in this loop."
        )
        places = self.influence.at(*self.run.module.lowered.sites[record["site"]])
        if int(record["extra"]) in (0, TIMEOUT_SPENT) and self.influence.waits_plainly(places):
            what += (
                " If another thread is to change what it reads, that must be volatile, or read by an atomic."
            )
        return dict(headline=headline, explanation=what, endless=int(record["extra"]) == TIMEOUT_WAITED)

    def _assert(self, record) -> dict:
        message = c_string(self.run.arena, int(record["address"]))
        return dict(headline=f"Assertion `{message}` failed", explanation=f"assert({message}) is false here.")

    def _trap(self, record) -> dict:
        _, text = self.run.module.lowered.sites[record["site"]]
        ins = instruction(text)
        if ins and ins.op.flow == "call" and isinstance(ins.called[1], Register):
            what = (
                "The pointer called here does not point to a function with these parameters: was it ever set?"
            )
            return dict(
                kind="invalid-address", headline="an illegal instruction was encountered", explanation=what
            )
        if "brx." in text:
            what = "The index of this branch is past the end of its table."
            return dict(
                kind="invalid-address", headline="an illegal instruction was encountered", explanation=what
            )
        if "bar" in text:
            return dict(
                kind="barrier-divergence",
                headline="Barrier error detected. Invalid arguments",
                explanation="A block has the barriers 0 to 15; this one has another number.",
            )
        return dict(
            kind="assert",
            headline="an illegal instruction was encountered",
            explanation="The kernel called __trap().",
        )

    def _stack(self, record) -> dict:
        if record["extra"] == FRAMES_FULL:
            what = "What the threads of a block keep while they wait for one another does not fit in memory."
        elif record["extra"]:
            what = f"Calls are nested more than {int(record['extra']) - 1} deep: does the recursion end?"
        else:
            what = "The local arrays of this thread do not fit into its local memory."
        return dict(headline="Stack overflow", explanation=what)

    def _of_race(self, told: Told) -> KernelFault:
        fault = self._fault(told.shown.record, self._race(told))
        fault.address = self.address(told.shown.record)
        fault.wait, fault.signal = told.wait if told.copied else 0, bool(told.handshake)
        fault.no_barrier = told.by_owner and not told.between_passes
        return fault

    def _race(self, told: Told) -> dict:
        """Both sides, the lower line as `other`. Hazards are the bytes on which the two lines conflict, each counted
        once in every barrier interval of a block.
        """
        race = told.shown
        count, (before, now) = int(race.record["count"]), race.accesses
        headline = (
            f"Race reported between {before} access at {race.first.file}:{race.first.line}"
            f" and {now} access at {race.last.file}:{race.last.line} [{count} hazard{'s' * (count != 1)}]"
        )
        fields = dict(kind="race", headline=headline, explanation=told.explanation(), access=now.lower())
        fields["other"] = replace(race.first, access=before.lower())
        fields |= dict(same_value=race.kind == "same-value", asks_index=told.asks_index)
        if race.owner:
            fields |= named(race.owner, int(race.record["address"])) | dict(space=race.owner.space)
        if (
            fields["same_value"]
            or race.kind == "warp-race"
            and not (told.by_owner and race.owner and race.owner.space == "global")
        ):
            fields["severity"] = "warning"
        return fields

    def accesses(self, record) -> tuple[str, str]:
        """The kinds of access of the two sides of a race."""
        info = int(record["extra"])
        return _access_name(info >> 32), _access_name(info & 0xFFFFFFFF)

    def named(self, record, owner: Owner | None) -> str:
        """The element of a race."""
        return element(owner, int(record["address"])) if owner and owner.nbytes else "the same address"

    def is_copy(self, place: Place) -> bool:
        """Whether a cp.async starts there. It is usually in a header's function, so the words of the line
        decide."""
        words = self.words_in(place.line) if place.file == self.run.module.name else ()
        named = any(word.endswith(("copy_async", "cpy_async")) or "cp.async" in word for word in words)
        return named or self.is_bulk_copy(place)

    def is_bulk_copy(self, place: Place) -> bool:
        """Whether one of many bytes, or of a tensor's, starts there."""
        sites = self.run.module.lowered.sites
        return any(at.line == place.line and "async.bulk" in text.split(" ")[0] for at, text in sites)

    def _same_write(self, record) -> dict:
        """Two threads stored the same value in one element: harmless, but it may explain a slow or wrong
        kernel."""
        here = self.place(record["site"], record["thread"], record["block"])
        other = self.place(record["other_site"], record["other_thread"], record["other_block"])
        owner = self.owner(record)
        fields = named(owner, int(record["address"])) if owner and owner.nbytes else {}
        return fields | dict(
            headline="Several threads write the same element",
            other=other,
            access="write",
            explanation=f"{threads_of(here, other)} both write {self.named(record, owner)}; each element should belong to one thread.",
        )


#: kind of a record -> the fields that explain it, besides its place
_DESCRIBE = {
    "out-of-bounds": Diagnosis._access,
    "misaligned": Diagnosis._access,
    "read-only": Diagnosis._access,
    "timeout": Diagnosis._timeout,
    "assert": Diagnosis._assert,
    "trap": Diagnosis._trap,
    "stack-overflow": Diagnosis._stack,
    "barrier-divergence": barriers.barrier,
    "shuffle-mask": barriers.mask,
    "exited-early": barriers.early,
    "went-round": barriers.went_round,
    "missing-block": barriers.missing_block,
    "lanes-differ": barriers.differ,
    "uninitialised-read": unset.unset,
    "same-write": Diagnosis._same_write,
    "invalid-free": heap.free,
    "invalid-texture": textures.misfit,
    "outside-surface": textures.outside,
    "stale-texel": textures.stale,
    "invalid-map": copies.invalid_map,
    "too-many": copies.too_many,
    "made-again": copies.made_again,
    "parity": copies.parity,
    "descriptor": products.descriptor,
    "registers": products.registers,
    "under-way": copies.under_way,
    "unlanded": products.unlanded,
    "overwritten": products.overwritten,
    "refilled": products.refilled,
    "group-incomplete": products.incomplete,
    "unfenced": products.unfenced,
    "ended-block": clusters.ended_block,
    "unstarted-block": clusters.unstarted_block,
    "no-rank": clusters.no_rank,
    "cluster-barrier": clusters.barrier,
}
_VERBS = {"Read": ("read", "reads"), "Write": ("write", "writes"), "Atomic": ("atomic", "changes")}


def _nowhere(done: str, address: int) -> str:
    """The sentence for an address that belongs to no array."""
    if abs(address) < _NEAR:
        index = "" if address == 0 else " plus an index" if address > 0 else " minus an index"
        return f"This {done} at address {address:#x}, a null pointer{index}: was the pointer ever set?"
    if any(abs(address % (1 << 64) - poison) < _NEAR for poison in _POISON):
        return f"This {done} through a pointer that was never assigned."
    return f"This {done} at address {address & (1 << 64) - 1:#x}, where there is no array: where does the pointer come from?"


def _access_name(info: int) -> str:
    return "Atomic" if info & INFO_ATOMIC else "Write" if info & INFO_WRITE else "Read"
