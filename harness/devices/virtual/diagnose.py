"""A record of the runtime -> a KernelFault that names line, thread and array element.

headline: the wording of NVIDIA's compute-sanitizer and driver, which students will meet again.
explanation: one plain sentence.
"""

from __future__ import annotations

from ...errors import KernelFault, Place
from .memory import Owner
from .printf import c_string
from .state import FAULTS, INFO_ATOMIC, INFO_SHARED, INFO_WRITE

NOTES = {"exited-early"}


class Diagnosis:
    """Turns the records of one launch into faults. `run` is the device's Run: module, kernel, grid, block, arena."""

    def __init__(self, run):
        self.run = run

    def faults(self, records) -> tuple[list[KernelFault], list[KernelFault]]:
        """(faults, notes), the first in the grid first."""
        found = sorted(records, key=lambda r: (r["block"], r["thread"], r["site"]))
        all_ = [self._fault(r) for r in found]
        racing = {f.array for f in all_ if f.kind == "race"}  # what is not there yet because of a race: the race first
        all_.sort(key=lambda f: f.kind == "uninitialised-read" and f.array in racing)
        return [f for f in all_ if f.severity != "note"], [f for f in all_ if f.severity == "note"]

    # -- pieces -----------------------------------------------------------------------------------

    def _fault(self, record) -> KernelFault:
        kind = FAULTS[record["kind"]]
        describe = {
            "out-of-bounds": self._access, "misaligned": self._access, "read-only": self._access,
            "timeout": self._timeout, "assert": self._assert, "trap": self._trap,
            "stack-overflow": self._stack, "barrier-divergence": self._barrier, "shuffle-mask": self._mask,
            "exited-early": self._early, "uninitialised-read": self._uninitialised,
            "uninitialised-register": self._register, "race": self._race, "warp-race": self._race,
        }[kind]  # fmt: skip
        fields = describe(kind, record)
        place = self.place(record["site"], record["thread"], record["block"])
        fault = KernelFault(
            file=place.file, line=place.line, thread=place.thread, block=place.block,
            source=self.source_line(place.line),
            **{"kind": kind, "severity": "note" if kind in NOTES else "error", **fields},
        )  # fmt: skip
        return fault

    def place(self, site: int, thread: int, block: int) -> Place:
        at, _ = self.run.module.lowered.sites[site]
        return Place(at.file or self.run.module.name, at.line, coordinates(thread, self.run.block),
                     coordinates(block, self.run.grid))  # fmt: skip

    def source_line(self, line: int) -> str:
        lines = self.run.module.source.splitlines()
        return lines[line - 1] if 0 < line <= len(lines) else ""

    # -- kinds --------------------------------------------------------------------------------------

    def _access(self, kind: str, record) -> dict:
        info = int(record["extra"])
        size, write = info & 255, bool(info & INFO_WRITE)
        address = int(record["address"])
        owner = self.run.owner(address, shared=bool(info & INFO_SHARED))
        space = f"__{owner.space if owner and owner.space in ('shared', 'local') else 'global'}__"
        verb, done = ("write", "writes") if write else ("read", "reads")
        headline = f"Invalid {space} {verb} of size {size} bytes"
        if kind == "misaligned":
            return self._misaligned(headline, owner, address, size, done)
        if owner is None:
            what = "the null pointer" if address < 4096 else "no array"
            return dict(kind="invalid-address", headline=headline,
                        explanation=f"The address 0x{address:x} belongs to {what}: is the pointer set?")  # fmt: skip
        element = owner.element(address)
        fields = dict(array=owner.name, index=element, shape=owner.describe_shape(), headline=headline)
        name = f"{owner.name}[{element}]"
        if kind == "read-only":
            if owner.space == "const":
                why = f"{owner.name} is __constant__ memory"
            else:
                why = f"{owner.name} is an input (const): kernels may only read it"
            return fields | dict(explanation=f"This writes {name}, but {why}.")
        return fields | dict(explanation=f"This {done} {name}, {self._where(owner, address)}.")

    def _where(self, owner: Owner, address: int) -> str:
        count = owner.nbytes // owner.itemsize
        flat = (address - owner.start) // owner.itemsize
        if owner.shape and len(owner.shape) > 1:
            extent = f"{owner.name} has {count} elements, shape {owner.describe_shape()}"
        else:
            extent = f"{owner.name} has {count} element{'s' * (count != 1)}"
        if flat < 0:
            return f"{-flat} before its start; {extent}"
        past = flat - count
        return f"{'just past its end' if past == 0 else f'{past + 1} past its last element'}; {extent}"

    def _misaligned(self, headline: str, owner: Owner | None, address: int, size: int, done: str) -> dict:
        fields = dict(headline=f"{headline}: misaligned address")
        what = f"0x{address:x}"
        if owner:
            what = f"{owner.name}[{owner.element(address)}]"
            fields |= dict(array=owner.name, index=owner.element(address), shape=owner.describe_shape())
        offset = address % size
        return fields | dict(
            explanation=f"This {done} {size} bytes at {what}, which starts {offset} bytes after a multiple of {size}."
        )

    def _timeout(self, kind: str, record) -> dict:
        headline = "the launch timed out and was terminated"
        if record["extra"] == 1:
            what = "A thread went round this loop over 100 million times: its condition never becomes false."
        elif record["extra"] == 0:
            what = "The launch took too long; when it was stopped, a thread was in this loop."
        else:
            what = "The launch took too long: does the grid have far more threads than there is work?"
        return dict(headline=headline, explanation=what)

    def _assert(self, kind: str, record) -> dict:
        message = c_string(self.run.arena, int(record["address"]))
        return dict(headline=f"Assertion `{message}` failed", explanation=f"assert({message}) is false here.")

    def _trap(self, kind: str, record) -> dict:
        return dict(kind="assert", headline="an illegal instruction was encountered",
                    explanation="The kernel called __trap().")  # fmt: skip

    def _stack(self, kind: str, record) -> dict:
        if record["extra"]:
            what = f"Functions call each other more than {int(record['extra']) - 1} deep: does the recursion end?"
        else:
            what = "The local arrays of this thread do not fit into its local memory."
        return dict(headline="Stack overflow", explanation=what)

    def _barrier(self, kind: str, record) -> dict:
        place = self.place(record["site"], record["thread"], record["block"])
        waiting = int(record["extra"])
        fields = dict(headline="Barrier error detected. Divergent thread(s) in block")
        who = f"{waiting} thread{'s' * (waiting != 1)} of the block wait{'s' * (waiting == 1)} at this barrier"
        if not record["other_site"]:
            return fields | dict(explanation=f"{who}, which never opens: the others do not come.")
        other = self.place(record["other_site"], record["other_thread"], record["block"])
        where = f"line {other.line}" if other.line != place.line else "another call of it on the same line"
        return fields | dict(
            other=other,
            explanation=f"{who}; thread {other.thread} waits at {where}. Every thread of the block must reach"
            " the same __syncthreads().",
        )

    def _mask(self, kind: str, record) -> dict:
        mask, extra = int(record["address"]), int(record["extra"])
        lane = int(record["thread"]) % 32
        if not mask >> lane & 1:
            return dict(headline="Barrier error detected. Invalid arguments",
                        explanation=f"The mask 0x{mask:08x} leaves out lane {lane}, which makes this call.")  # fmt: skip
        what = f"The mask 0x{mask:08x} names {_lanes(extra)}, which never make{'s' * (extra & extra - 1 == 0)} this call"
        fields = dict(headline="Barrier error detected. Divergent thread(s) in warp", explanation=what + ".")
        if record["other_site"]:
            other = self.place(record["other_site"], record["other_thread"], record["block"])
            fields |= dict(other=other, explanation=f"{what}: thread {other.thread} waits at line {other.line}.")
        return fields

    def _uninitialised(self, kind: str, record) -> dict:
        info = int(record["extra"])
        address = int(record["address"])
        owner = self.run.owner(address, shared=False)
        space = f"__{owner.space if owner and owner.space in ('shared', 'local') else 'global'}__"
        fields = dict(headline=f"Uninitialized {space} memory read of size {info & 255} bytes")
        if owner is None:
            return fields | dict(explanation="This reads memory that nothing has written.")
        element = owner.element(address)
        return fields | dict(array=owner.name, index=element, shape=owner.describe_shape(),
                             explanation=f"This reads {owner.name}[{element}], which nothing has written yet.")  # fmt: skip

    def _register(self, kind: str, record) -> dict:
        return dict(kind="uninitialised-read", headline="Uninitialized variable read",
                    explanation="A variable used here has no value: on the way this thread took, nothing was assigned to it.")  # fmt: skip

    def _race(self, kind: str, record) -> dict:
        """Both sides; the earlier access is `other`."""
        info, before = int(record["extra"]) & 0xFFFFFFFF, int(record["extra"]) >> 32
        here = self.place(record["site"], record["thread"], record["block"])
        other = self.place(record["other_site"], record["other_thread"], record["other_block"])
        address = int(record["address"])
        owner = self.run.owner(address, shared=False)
        name = f"{owner.name}[{owner.element(address)}]" if owner else "the same address"
        count = int(record["count"])
        headline = (f"Race reported between {_access_name(before)} access at {other.file}:{other.line}"
                    f" and {_access_name(info)} access at {here.file}:{here.line} [{count} hazard{'s' * (count != 1)}]")  # fmt: skip
        fields = dict(kind="race", headline=headline, other=other)
        if owner:
            fields |= dict(array=owner.name, index=owner.element(address), shape=owner.describe_shape())
        if other.block != here.block:
            who = f"thread {other.thread} of block {other.block}"
            why = "blocks run in any order"
        elif kind == "warp-race":
            who, why = f"thread {other.thread} of the same warp", "lanes of a warp need not run in step (__syncwarp)"
            fields["severity"] = "warning"
        else:
            who, why = f"thread {other.thread}", "no __syncthreads() stands between"
        verb = {"Read": "reads", "Write": "writes", "Atomic": "atomically changes"}
        return fields | dict(explanation=f"{who[0].upper() + who[1:]} {verb[_access_name(before)]} {name} (line"
                             f" {other.line}), this thread {verb[_access_name(info)]} it too; {why}.")  # fmt: skip

    def _early(self, kind: str, record) -> dict:
        gone = int(record["extra"])
        return dict(kind="barrier-divergence", headline="Divergent thread(s) in block",
                    explanation=f"{gone} thread{'s' * (gone != 1)} had returned before this barrier: since Volta"
                    " the barrier does not wait for them.")  # fmt: skip


def _access_name(info: int) -> str:
    return "Atomic" if info & INFO_ATOMIC else "Write" if info & INFO_WRITE else "Read"


def _lanes(mask: int) -> str:
    """`lane 3`, `lanes 0-15`, `16 lanes`."""
    lanes = [i for i in range(32) if mask >> i & 1]
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes and lanes[-1] - lanes[0] == len(lanes) - 1:
        return f"lanes {lanes[0]}-{lanes[-1]}"
    return f"{len(lanes)} lanes"


def coordinates(linear: int, extent: tuple[int, int, int]) -> tuple[int, int, int]:
    linear = int(linear)
    return linear % extent[0], linear // extent[0] % extent[1], linear // (extent[0] * extent[1])
