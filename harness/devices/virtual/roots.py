"""Which registers hold an address in a variable of a function: `&tile[i]` lies in `tile`, whatever i is.

Unoptimised code computes an address just before it uses it: the variable's, plus an index. So most accesses to local
and shared arrays say which array they mean, and full checks need not look for its owner.
"""

from __future__ import annotations

import re

from .ptx import Instruction, Variable

_OFFSET = re.compile(r"([A-Za-z_$][\w$.]*)(?:\+\d+)?")
_ADDRESS = re.compile(r"\[\s*([\w$.%]+?)\s*(?:\+\s*-?\d+\s*)?\]")
_ELSEWHERE: frozenset[str | None] = frozenset({None})


def rooted(body, variables: dict[str, Variable]) -> dict[str, str]:
    """Register -> the variable that every address it holds was computed from. variables: those that count, by name."""
    steps = [i for i in body if isinstance(i, Instruction) and i.operands and i.operands[0].startswith("%")]
    found: dict[str, frozenset[str | None]] = {}
    changed = True
    while changed:
        changed = False
        for ins in steps:
            name = ins.operands[0]
            new = found.get(name, frozenset()) | _origin(ins, found, variables)
            if new != found.get(name):
                found[name], changed = new, True
    return {name: next(iter(origins)) for name, origins in found.items() if len(origins) == 1 and None not in origins}


def root_of(operand: str, roots: dict[str, str], variables: dict[str, Variable]) -> Variable | None:
    """The variable that an address operand like `[%rd1+4]` means, where that is known."""
    match = _ADDRESS.fullmatch(operand.strip())
    name = match and (match[1] if match[1] in variables else roots.get(match[1]))
    return variables[name] if name else None


def _origin(ins: Instruction, found, variables) -> frozenset[str | None]:
    """What a register is computed from here. Registers that nothing is known of yet say nothing."""
    if ins.base in ("mov", "cvta") and len(ins.operands) == 2:
        return _of(ins.operands[1], found, variables)
    if ins.opcode == "cvt.u64.u32":  # of the address of a shared array
        return _of(ins.operands[1], found, variables)
    if ins.base == "add" and len(ins.operands) == 3:
        a, b = (_of(o, found, variables) for o in ins.operands[1:])
        if b == _ELSEWHERE or not b:
            return a if a else b
        return b if a == _ELSEWHERE or not a else _ELSEWHERE
    return _ELSEWHERE


def _of(operand: str, found, variables) -> frozenset[str | None]:
    if operand[0] == "%":
        return found.get(operand, frozenset())
    match = _OFFSET.fullmatch(operand)
    return frozenset({match[1]}) if match and match[1] in variables else _ELSEWHERE
