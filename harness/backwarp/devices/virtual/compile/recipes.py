"""The builds of a kernel file: the PTX each starts from, what is rewritten, what is checked, how much LLVM
optimises.

No other part of the compiler knows the builds by name; each asks only for the check or rewrite it implements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto


class Check(Enum):
    """What the code of a build checks or counts besides doing its work."""

    BOUNDS = auto()  # every access separately, against its intended array if known
    GROUPED_BOUNDS = auto()  # accesses at constant offsets from one register share a check
    INITIALISED = auto()  # memory that is read must have been written, whatever the value is used for
    REGISTERS = auto()  # registers that are read must have been assigned
    UNSET = auto()  # unset values are tracked to where they matter
    RACES = auto()  # racecheck; and threads intervene between each other's accesses wherever CUDA allows it
    BARRIERS = auto()  # which threads do not reach a barrier where others wait, and why
    SEGMENTS = auto()  # exact counters
    STEPS = auto()  # not a check: everything that threads do is recorded


class Rewrite(Enum):
    """What is changed in the whole module before anything else, in this order."""

    IDENTITIES = auto()
    DEPOTS = auto()
    STEPS = auto()
    LABELS = auto()


@dataclass(frozen=True)
class Recipe:
    """One build.

    ptx: a flavour of `nvrtc.compiler`. coarsen:
    neighbouring threads run together where they can: as vector lanes (lanes: how many, 0: as suits the
    target, 1: never), otherwise coarsened, but not with full checks. target: the processor, see `targets`.
    llvm: its optimisation level.
    own_frames: pays off in code with many memory accesses, see `llvm.compile_object`. runtime: the
    code is the runtime's own, which has no threads and addresses the host's memory.
    """

    ptx: str
    llvm: int
    checks: frozenset[Check] = frozenset()
    rewrites: frozenset[Rewrite] = frozenset()
    coarsen: bool = False
    lanes: int = 0
    target: str = ""
    own_frames: bool = False
    runtime: bool = False

    def __contains__(self, step: Check | Rewrite) -> bool:
        return step in self.checks or step in self.rewrites


_FULL = {Check.BOUNDS, Check.INITIALISED, Check.REGISTERS, Check.RACES, Check.BARRIERS}
_REWRITES = {Rewrite.IDENTITIES, Rewrite.DEPOTS, Rewrite.LABELS}
_COUNT = {Check.GROUPED_BOUNDS, Check.SEGMENTS}

RECIPES = {
    "full": Recipe("debug", 3, frozenset(_FULL), frozenset(_REWRITES), coarsen=True, own_frames=True),
    "memory": Recipe("fast", 3, frozenset({Check.GROUPED_BOUNDS}), coarsen=True),
    "count": Recipe("fast", 2, frozenset(_COUNT)),
    "draft": Recipe("draft", 0, frozenset({Check.GROUPED_BOUNDS})),
    "noted": Recipe("debug", 0, frozenset({Check.GROUPED_BOUNDS})),
    "none": Recipe("fast", 3, coarsen=True),
    "runtime": Recipe("runtime", 1, runtime=True),
}
#: the builds of a student's file
BUILDS = tuple(name for name, recipe in RECIPES.items() if not recipe.runtime)


WIDE = -1  # lanes as suit the target, where quick code otherwise has none
LANES = WIDE, 0, 1, 4, 8, 16, 32  # what may be asked for; 0: as suits the target


def recipe(
    checks: str,
    quick: bool = False,
    tracking: bool = False,
    lanes: int = 0,
    target: str = "",
    stepping: bool = False,
) -> Recipe:
    """The recipe of a build. quick: for short runs, compiled in a sixth of the time, with lanes only if their
    number is given, or WIDE. tracking: code that tracks unset values, which takes long to optimise. lanes, target: see
    `Recipe`. stepping: code whose launches can be recorded.
    """
    found = replace(RECIPES[checks], lanes=max(lanes, 0), target=target)
    if stepping:
        marked = found.rewrites | {Rewrite.STEPS}
        found = replace(found, checks=found.checks | {Check.STEPS}, rewrites=marked, coarsen=False)
    if tracking:
        followed = found.checks - {Check.REGISTERS, Check.INITIALISED} | {Check.UNSET}
        return replace(found, checks=followed, llvm=0, coarsen=False)
    return replace(found, llvm=0, coarsen=found.coarsen and lanes not in (0, 1)) if quick else found
