"""Explains a barrier or a warp instruction that not all threads reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import KernelFault
from ..runtime.abi import AT_ARRIVED, AT_COUNT, AT_NONE, AT_VOTES, WARP
from .wording import coordinates, lanes_of, triple

if TYPE_CHECKING:
    from .faults import Diagnosis


def barrier(d: Diagnosis, record) -> dict:
    place = d.place(record["site"], record["thread"], record["block"])
    here, there = int(record["address"]), int(record["extra"]) >> 32
    waiting, wanted = int(record["extra"]) & 0xFFFFFFFF, here >> AT_COUNT
    fields = dict(headline="Barrier error detected. Divergent thread(s) in block")
    who = f"{waiting} thread{'s' * (waiting != 1)} of the block wait{'s' * (waiting == 1)} at"
    if not record["other_site"]:
        return fields | dict(explanation=_alone(who, waiting, wanted))
    other = d.place(record["other_site"], record["other_thread"], record["block"])
    where = f"line {other.line}" if other.line != place.line else "another call of it on the same line"
    fields |= dict(other=other)
    if not (_is_named(here) or _is_named(there)):
        what = f"{who} this barrier; thread {triple(other.thread)} waits at {where}. Every thread of the block must reach"
        return fields | dict(explanation=f"{what} the same __syncthreads().")
    does = "has arrived" if there & AT_ARRIVED else "waits"
    who = "This thread arrives at" if here & AT_ARRIVED else who
    what = f"{who} {_called(here)}; thread {triple(other.thread)} {does} at {where}"
    rule = "number and count must be the same"
    if there & AT_NONE:
        return fields | dict(explanation=f"{what}, at no barrier of the block.")
    if (here ^ there) & AT_VOTES:
        rule = "bar.red cannot be mixed with bar.sync or bar.arrive"
    return fields | dict(explanation=f"{what}, {_called(there)}: {rule}.")


def _alone(who: str, waiting: int, wanted: int) -> str:
    """A barrier with no other to compare it with."""
    if wanted % WARP:
        return f"This barrier counts {wanted} threads: it must be a multiple of {WARP}, since whole warps are counted."
    if wanted and waiting > wanted:
        return f"{waiting} threads have arrived at this barrier, which opens after {wanted}: the rest wait for ever, or open it too early the next time."
    return f"{who} this barrier, which {f'needs {wanted} threads' if wanted else 'never opens'}: the others never arrive."


def _is_named(barrier: int) -> bool:
    """Whether it is another one than __syncthreads() or its relatives that vote."""
    return not barrier & AT_NONE and bool(barrier & 15 or barrier >> AT_COUNT)


def _called(barrier: int) -> str:
    count = barrier >> AT_COUNT
    return f"barrier {barrier & 15} of {count} threads" if count else f"barrier {barrier & 15} of the block"


def mask(d: Diagnosis, record) -> dict:
    mask, absent = int(record["address"]) & 0xFFFFFFFF, int(record["address"]) >> 32
    extra, others = int(record["extra"]) & 0xFFFFFFFF, int(record["extra"]) >> 32
    lane = int(record["thread"]) % 32
    if not mask >> lane & 1:
        return dict(
            headline="Barrier error detected. Invalid arguments",
            explanation=f"The mask 0x{mask:08x} leaves out lane {lane}, although it makes this call.",
        )
    lanes = absent or extra
    one = lanes & lanes - 1 == 0
    how = f"{'has' if one else 'have'} returned before this call"
    if absent:
        how = f"take{'s' * one} no part in this call"
    fields = dict(
        headline="Barrier error detected. Divergent thread(s) in warp",
        explanation=f"The mask 0x{mask:08x} names {lanes_of(lanes)}, which {how}.",
        absent=0 if others else lanes,
    )
    if record["other_site"]:
        other = d.place(record["other_site"], record["other_thread"], record["block"])
        what = f"names {lanes_of(extra)}, which never make{'s' * one} this call: thread {triple(other.thread)} waits at line {other.line}"
        if others:
            what = f"differs from that of thread {triple(other.thread)}, 0x{others:08x}: all lanes that a mask names must pass the same mask"
        fields |= dict(other=other, explanation=f"The mask 0x{mask:08x} {what}.")
    return fields


def differ(d: Diagnosis, record) -> dict:
    other = d.place(record["other_site"], record["other_thread"], record["block"])
    if record["extra"] > 1:
        return dict(
            kind="shuffle-mask",
            headline="Barrier error detected. Divergent thread(s) in warp",
            explanation=f"Thread {triple(other.thread)}, in the same warp, goes around this wgmma.{('commit_group', 'wait_group')[record['extra'] - 2]}:"
            " all 32 threads of a warp execute it together (.sync.aligned).",
        )
    what = (
        f"Thread {triple(other.thread)} is at another one, at line {other.line}, with another shape or type"
    )
    whose = "all lanes of a warp must execute the same matrix instruction"
    if record["extra"]:  # of four warps
        what += ", or gives it other descriptors"
        whose = "the 128 threads of four warps execute the same wgmma, with the same descriptors"
    return dict(
        kind="shuffle-mask",
        headline="Barrier error detected. Invalid arguments",
        other=other,
        explanation=f"{what}: {whose}.",
    )


def went_round(d: Diagnosis, record) -> dict:
    gone, waiting = int(record["extra"]), int(record["address"])
    first = triple(coordinates(record["other_thread"], d.run.block))
    who = f"thread {first} went" if gone == 1 else f"{gone} others went"
    whose = "" if gone == 1 else f", the first of them thread {first}"
    return dict(
        kind="barrier-divergence",
        headline="Barrier error detected. Divergent thread(s) in block",
        explanation=f"{waiting} thread{'s' * (waiting != 1)} of the block wait{'s' * (waiting == 1)} at this barrier; {who}"
        f" around it{whose}. Put it where every thread of the block passes, not in a branch or loop that some skip.",
    )


def missing_block(d: Diagnosis, record) -> dict:
    waiting, missing = int(record["address"]), int(record["extra"])
    block = triple(coordinates(record["other_block"], d.run.grid))
    rest = f", nor do{'es' * (missing == 2)} {missing - 1} more" if missing > 1 else ""
    return dict(
        kind="barrier-divergence",
        headline="Barrier error detected. Divergent block(s) in grid",
        explanation=f"{waiting} block{'s' * (waiting != 1)} wait{'s' * (waiting == 1)} at this barrier of the grid; block"
        f" {block} never arrives{rest}. Every block of the grid must reach the same grid.sync().",
    )


def cooperative(run) -> KernelFault:
    """A note about a barrier of the grid that has opened, in a launch's Execution."""
    return KernelFault(
        kind="cooperative-launch",
        headline="Cooperative launch",
        explanation="This barrier of the grid opens only in a cooperative launch (cudaLaunchCooperativeKernel), as here: after"
        " <<< >>> a GPU ends the kernel at it, with an unspecified launch failure.",
        file=run.module.name,
        line=run.kernel.info.grid_line,
        severity="note",
    )


def early(d: Diagnosis, record) -> dict:
    gone = int(record["extra"])
    return dict(
        kind="barrier-divergence",
        headline="Divergent thread(s) in block",
        explanation=f"{gone} thread{'s' * (gone != 1)} had returned before this barrier:"
        f" since Volta, it does not wait for {'them' if gone != 1 else 'it'}.",
    )
