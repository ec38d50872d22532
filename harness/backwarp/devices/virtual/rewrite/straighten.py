"""Branches lead to where they end, and code that follows another needs no branch.

    @%p1 bra $L_2;                      @!%p1 bra $L_3;
    bra.uni $L_1;                       add.s32 %r2, %r1, 1;
 $L_2:                              ->
    add.s32 %r2, %r1, 1;
    bra.uni $L_4;
 $L_1:
    bra.uni $L_3;
 $L_4:
    ...

Unoptimised code ends every statement with a block of its own. What remains shows where lanes part and meet again.
"""

from __future__ import annotations

from dataclasses import replace

from ..ptx.ir import Function, Instruction, Label, operand


def run(function: Function) -> None:
    """In place."""
    before = None
    while before != len(function.body):
        before = len(function.body)
        _lead_on(function)
        function.body = _reached(function)
        function.body = _turned(function.body)
        _drop_labels(function)


def _plain(item) -> bool:
    """Whether it is a branch that is always taken."""
    return isinstance(item, Instruction) and item.op.flow == "branch" and not item.pred


def _ends(ins: Instruction) -> bool:
    """Whether the next instruction is not reached from it."""
    return not ins.pred and (ins.op.flow in ("branch", "switch") or ins.op.leaves)


def _lead_on(function: Function) -> None:
    """Branches to branches go where those go."""
    body, onward = function.body, {}
    following: Instruction | None = None
    for item in reversed(body):
        if isinstance(item, Instruction):
            following = item
        elif _plain(following) and following.operands[0] != item.name:
            onward[item.name] = following.operands[0]

    def end(name: str) -> str:
        seen = {name}
        while (further := onward.get(name)) and further not in seen:
            seen.add(name := further)
        return name

    for i, item in enumerate(body):
        if (
            isinstance(item, Instruction)
            and item.op.flow == "branch"
            and end(item.operands[0]) != item.operands[0]
        ):
            body[i] = replace(
                item, operands=(operand(end(item.operands[0])),), original=item.original or item
            )
    function.tables = {name: tuple(map(end, names)) for name, names in function.tables.items()}


def _named(function: Function) -> set[str]:
    named = {name for names in function.tables.values() for name in names}
    branches = (i for i in function.body if isinstance(i, Instruction) and i.op.flow == "branch")
    return named | {i.operands[0] for i in branches}


def _reached(function: Function) -> list[Instruction | Label]:
    """Without what follows a branch or a return, up to a label that is named."""
    named, found, falls = _named(function), [], True
    for item in function.body:
        falls = falls or isinstance(item, Label) and item.name in named
        if falls:
            found.append(item)
            falls = isinstance(item, Label) or not _ends(item)
    return found


def _turned(body: list[Instruction | Label]) -> list[Instruction | Label]:
    """Without branches to what follows; a branch over another becomes that one."""
    found: list[Instruction | Label] = []
    labels: set[str] = set()  # between the last instruction and the next
    for item in reversed(body):
        if isinstance(item, Label):
            labels.add(item.name)
            found.append(item)
            continue
        if _plain(item) and item.operands[0] in labels:
            continue
        over = found[-1] if found else None
        if item.op.flow == "branch" and item.pred and not labels and _plain(over):
            at = len(found) - 2
            while at >= 0 and isinstance(found[at], Label) and found[at].name != item.operands[0]:
                at -= 1
            if at >= 0 and isinstance(found[at], Label):
                found.pop()
                item = replace(
                    item, operands=over.operands, negated=not item.negated, original=item.original or item
                )
        labels = set()
        found.append(item)
    return found[::-1]


def _drop_labels(function: Function) -> None:
    named = _named(function)
    function.body = [i for i in function.body if not isinstance(i, Label) or i.name in named]
