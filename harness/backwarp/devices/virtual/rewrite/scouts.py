"""Kernels whose threads can run as lanes with full checks: unoptimised code gets a shape that lanes can run.

Calls are expanded, local variables become registers, and branches lead straight to where they end. A kernel is changed only
where its threads then run as lanes; single threads keep the code as it is.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.facts import Facts, ModuleFacts
from ..ptx.ir import Function, Label
from . import inline, promote, straighten, unroll


def run(known: ModuleFacts) -> None:
    """In place."""
    known.refused = {f.name: why for f in known.emitted if f.entry and (why := _try(f, known))}
    known.drop_unreached()


def _try(function: Function, known: ModuleFacts) -> str:
    """Lets its threads run as lanes; why not, where they cannot."""
    made = replace(
        function,
        regs=dict(function.regs),
        variables=dict(function.variables),
        body=list(function.body),
        tables=dict(function.tables),
    )
    if why := Facts(made, known).cannot_scout:
        return why
    if not inline.run_all(made, known.waits):
        return "calls that cannot be expanded"
    promote.run(made)
    made.body = [i for i in made.body if isinstance(i, Label) or i.base != "leave"]
    straighten.run(made)
    if unroll.run(made):
        promote.run(made)
    facts = Facts(made, known)
    if facts.cannot_scout or not facts.find_lanes():
        return facts.refusal
    vars(function).update(vars(made))
    return ""
