"""PTX functions -> LLVM text: control flow, values, memory, calls.

Each kernel becomes `NAME.block(env)`, which runs one block of threads. A kernel that never waits is a
plain loop over its threads; one that does (a barrier, a warp collective, a loop that may wait for another
thread through memory) is an LLVM coroutine per thread, or per group of threads that run together, and the runtime
schedules them. In a kernel for blocks of a known shape, rows of lanes that are the whole block wait for nobody (`lanes/rows`),
and single threads run from barrier to barrier (`phases`). Device functions that may wait are inlined, because a coroutine can suspend only in its own
frame.

Source: PTX ISA, sections 9.7.12 (control flow), 7 (abstracting the ABI), 10 (special registers); LLVM
Coroutines (switched-resume lowering).
"""

from __future__ import annotations

from ..analyse.facts import ModuleFacts
from ..compile.modules import Lowered
from . import function
from .unit import Unit


def run(facts: ModuleFacts, name: str, arena_size: int) -> Lowered:
    """A module as LLVM text. Errors: Unsupported, with the line, for anything that has no exact translation."""
    unit = Unit(facts, name, arena_size)
    return unit.lowered([function.emit(f, unit) for f in facts.emitted])
