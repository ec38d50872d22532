"""Which registers hold an address in a variable of a function: `&tile[i]` is in `tile`, whatever i is.

Unoptimised code computes an address just before using it: the variable's address plus an index. So most
accesses to local and shared arrays reveal which array they mean, and full checks need not look up its owner.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..ptx.ir import Function, Instruction, Variable

_OFFSET = re.compile(r"([A-Za-z_$][\w$.]*)(?:\+\d+)?")
_NOWHERE: frozenset[str | None] = frozenset()
_ELSEWHERE: frozenset[str | None] = frozenset({None})

#: name of a function -> which of its parameters the address that it returns was computed from; None: of none
HandsBack = Callable[[str], int | None]


def rooted(found: dict[str, frozenset[str | None]]) -> dict[str, str]:
    """Register -> the variable that every address it holds was computed from. found: `origins` of the body."""
    return {name: root for name in found if (root := _only(found[name]))}


def handed_back(function: Function, hands_back: HandsBack) -> int | None:
    """Which parameter of a function the address that it returns was computed from, like `T& at(T* p, int i)`."""
    if function.body is None or len(function.returns) != 1 or function.returns[0].is_array:
        return None
    names = [p.name for p in function.params]
    found = origins(function.body, {p.name: p for p in function.params}, hands_back)
    root = _only(found.get(function.returns[0].name, _NOWHERE))
    return names.index(root) if root else None


def root_of(operand: str, roots: dict[str, str], variables: dict[str, Variable]) -> Variable | None:
    """The variable that an address operand like `[%rd1+4]` means, where that is known."""
    return variables.get(operand.base) or variables.get(roots.get(operand.base))


def _only(origins) -> str | None:
    return next(iter(origins)) if len(origins) == 1 else None


def origins(body, variables, hands_back: HandsBack) -> dict[str, frozenset[str | None]]:
    """Register or parameter of a call -> what its values were computed from; None: from none of the variables.

    variables: those that count, by name.
    """
    found: dict[str, frozenset[str | None]] = {}
    changed = True
    while changed:
        changed = False
        for ins in body:
            name, origin = (
                _step(ins, found, variables, hands_back) if isinstance(ins, Instruction) else ("", _NOWHERE)
            )
            if name and not origin <= found.get(name, _NOWHERE):
                found[name], changed = found.get(name, _NOWHERE) | origin, True
    return found


def _step(ins: Instruction, found, variables, hands_back: HandsBack) -> tuple[str, frozenset[str | None]]:
    """What an instruction writes, and what that is computed from. What nothing is known of yet says nothing."""
    operands = ins.operands
    if ins.base == "call":
        returns, callee, arguments = ins.called
        place = hands_back(callee) if returns else None
        known = place is not None and place < len(arguments)
        return returns[0] if returns else "", found.get(arguments[place], _NOWHERE) if known else _ELSEWHERE
    if ins.opcode.startswith("st.param"):
        name, offset = operands[0].base, operands[0].offset
        return name, _ELSEWHERE if offset or operands[1][0] == "{" else _of(operands[1], found, variables)
    if not operands or operands[0][0] != "%":
        return "", _NOWHERE
    if ins.opcode.startswith("ld.param"):
        name, offset = operands[1].base, operands[1].offset
        whole = frozenset({name}) if name in variables else found.get(name, _ELSEWHERE)
        return operands[0], _ELSEWHERE if offset else whole
    # of a shared address
    if ins.base in ("mov", "cvta") and len(operands) == 2 or ins.opcode == "cvt.u64.u32":
        return operands[0], _of(operands[1], found, variables)
    if ins.base == "add" and len(operands) == 3:
        a, b = (_of(o, found, variables) for o in operands[1:])
        if b <= _ELSEWHERE:
            return operands[0], a or b
        return operands[0], b if a <= _ELSEWHERE else _ELSEWHERE
    return operands[0], _ELSEWHERE


def _of(operand: str, found, variables) -> frozenset[str | None]:
    if operand[0] == "%":
        return found.get(operand, _NOWHERE)
    match = _OFFSET.fullmatch(operand)
    return frozenset({match[1]}) if match and match[1] in variables else _ELSEWHERE
