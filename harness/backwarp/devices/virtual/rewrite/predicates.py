"""Replaces guarded instructions by branches around plain ones, so that later passes see no guards.

                                        @!%p1 bra.skip $skip.1;
    @%p1 st.u32 [%rd1], %r1;            st.u32 [%rd1], %r1;
    @%p1 mov.u32 %r1, 0;          ->    mov.u32 %r1, 0;
                                    $skip.1:
    @%p2 bra $L_end;                    @%p2 bra $L_end;

Only branches stay guarded. `bra.skip` marks a branch that is not in the program.
"""

from __future__ import annotations

from dataclasses import replace

from ..ptx.callgraph import defined
from ..ptx.ir import Function, Instruction, Label, Module, operand


def run(module: Module) -> None:
    """In place, for all functions."""
    for function in defined(module):
        if any(isinstance(item, Instruction) and _is_guarded(item) for item in function.body):
            _rewrite(function)


def skip(label: str, at: Instruction, pred: str, negated: bool = False) -> Instruction:
    """A branch to a label that is taken if a guard does not hold."""
    return Instruction("bra.skip", (operand(label),), at.at, pred, not negated, expansion=at.expansion)


def _is_guarded(ins: Instruction) -> bool:
    return bool(ins.pred) and ins.op.flow != "branch"


def _rewrite(function: Function) -> None:
    body, guard, serial = [], None, 0  # guard: of the instructions that are being skipped

    def end() -> None:
        nonlocal guard
        if guard:
            body.append(Label(f"$skip.{serial}"))
            guard = None

    for item in function.body:
        if isinstance(item, Label) or not _is_guarded(item):
            end()
            body.append(item)
            continue
        if guard != (item.pred, item.negated):
            end()
            guard, serial = (item.pred, item.negated), serial + 1
            body.append(skip(f"$skip.{serial}", item, *guard))
        body.append(replace(item, pred="", negated=False, original=item))
        if item.pred in item.writes:
            end()
    end()
    function.body = body
