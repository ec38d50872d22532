"""What an instruction is, as far as its opcode says: which registers it reads and writes, whether it ends a block.

Most instructions have their result first. Those that have none either begin with an address (`st`, `red`,
`cp.async`, `mbarrier.init`, `wmma.store`, `prefetch`), which they read, or are listed here.
Source: PTX ISA, section 9.7.
"""

from __future__ import annotations

import re

from .ir import Instruction

#: after these, another instruction than the next one may follow
ENDS_BLOCK = frozenset({"bra", "brx", "ret", "exit", "trap"})
#: opcode bases at which a thread may suspend
COLLECTIVES = frozenset(
    {"bar", "barrier", "shfl", "vote", "match", "redux", "mma", "wmma", "ldmatrix", "movmatrix"}
)
#: nothing of them is carried out
IGNORED = frozenset({"pragma", "nanosleep", "pmevent", "brkpt"})
_NO_RESULT = (
    ENDS_BLOCK
    | IGNORED
    | {"call", "bar", "barrier", "membar", "fence", "griddepcontrol", "setmaxnreg", "stackrestore"}
)
_REGISTER = re.compile(r"%[\w$.]+")
_CARRY = re.compile(r"\.cc\b")
CARRY = "%carry"


def registers(text: str) -> list[str]:
    return _REGISTER.findall(text)


def has_result(ins: Instruction) -> bool:
    """Whether the first operand is what the instruction writes. Of barriers, only `bar.red` has one."""
    if not ins.operands or ins.operands[0].startswith("["):
        return False
    if ins.base in ("bar", "barrier"):
        return ".red." in ins.opcode
    return ins.base not in _NO_RESULT and not ins.opcode.startswith("cp.async")


def sources(ins: Instruction) -> tuple[str, ...]:
    """The operands that an instruction reads, without its guard. An address is one: `[%rd1+4]`."""
    return ins.operands[1:] if has_result(ins) else ins.operands


def reads(ins: Instruction) -> set[str]:
    """Registers that an instruction reads, its guard included."""
    found = set(_REGISTER.findall(" ".join(sources(ins))))
    if ins.pred:
        found.add(ins.pred)
    return found


def writes(ins: Instruction) -> set[str]:
    return set(_REGISTER.findall(ins.operands[0])) if has_result(ins) else set()


def takes_carry(ins: Instruction) -> bool:
    return ins.base in ("addc", "subc", "madc")


def leaves_carry(ins: Instruction) -> bool:
    return bool(_CARRY.search(ins.opcode))
