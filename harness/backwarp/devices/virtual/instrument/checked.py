"""No access without its check: the output of the passes is verified from the instructions alone.

PTX may come from anyone, and only the checks keep it out of the memory of the process. So whatever the passes
find out about groups, arrays and copies, their output must satisfy this: before each instruction with an
address, in the same block, there is a check of the same address, for as many bytes and the same kind of
access; between the two, the address's register is not written and no function begins or ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analyse.uniformity import Coarsening
from ..ptx.ir import Address, Function, Immediate, Instruction, Label, Operand, Register, Sink, Symbol
from ..runtime.abi import INFO_ATOMIC, INFO_SHARED, INFO_WRITE


@dataclass(frozen=True)
class _Allowed:
    """What a check allows. updates: both reading and writing; array: the one it must stay in, if any; rows:
    for this many lanes, of ldmatrix and stmatrix; shares: it is for other accesses too."""

    updates: bool
    array: str
    rows: int
    shares: bool


#: an access: (address, space, bytes, whether it writes)
_Key = tuple[Address, str, int, bool]


def verify(function: Function, coarsening: Coarsening | None = None) -> None:
    """coarsening: if threads are coarsened, the address of each is checked.

    Errors: AssertionError, which no PTX may cause.
    """
    allowed: dict[Operand, dict[_Key, _Allowed]] = {}  # base of the address -> what may be done at it
    held: set[str] = set()
    before = None
    for item in function.body:
        if isinstance(item, Label) or item.op.flow or item.base in ("enter", "leave"):
            allowed.clear()
        elif item.base == "check" and item.opcode != "check.assigned":
            base, found = _by(item, before, held)
            if not coarsening or item in coarsening.serial or base not in coarsening.varying:
                allowed.setdefault(base, {}).update(found)
        elif item.base == "hold":
            held.update(item.operands)
        elif item.op.of_parameters and type(item.address.base) is Symbol:
            _parameter(item, function)
        elif (
            item.op.accesses or item.op.memory
        ) and item.op.memory != "copy":  # checked and made by the runtime
            _find(item, allowed)
        for name in item.writes if allowed else ():
            allowed.pop(name, None)
        before = item


def _by(check: Instruction, before, held: set[str]) -> tuple[Operand, dict[_Key, _Allowed]]:
    """What a check allows: (base, what is allowed there)."""
    kind, space = check.opcode.split(".")[1], check.op.space
    addresses = [o for o in check.operands if type(o) is Address]
    info = next(o.value for o in check.operands if type(o) is Immediate)
    nbytes, array, rows = info & 255, "", 0
    if kind != "bounds" and type(check.operands[0]) is not Sink:
        array = check.operands[0]
    if check.pred:
        given = isinstance(before, Instruction) and before.opcode == "setp.lt.u32" and before.operands
        if not given or given[:2] != (check.pred, "%laneid") or check.negated:
            raise AssertionError(f"{check}: its guard is not about lanes")
        rows = given[2].value
    good = nbytes in (1, 2, 4, 8, 16) and bool(info & INFO_SHARED) == (space == "shared")
    good &= len(addresses) == 1 or kind == "bounds" and _is_group(check, addresses, nbytes)
    if not good or kind == "held" and array not in held:
        raise AssertionError(f"{check} is not well made")
    allowed = _Allowed(bool(info & INFO_ATOMIC), array, rows, len(addresses) > 1)
    writes = bool(info & INFO_WRITE)
    return addresses[0].base, {(address, space, nbytes, writes): allowed for address in addresses}


def _is_group(check: Instruction, addresses: list[Address], nbytes: int) -> bool:
    """Whether the addresses are of whole granules, at constant distances, and all aligned if one is."""
    first = addresses[0] if addresses else None
    return (
        first is not None
        and nbytes >= 4
        and len(check.about) == len(addresses)
        and type(first.base) is Register
        and all(a.base == first.base and (a.offset - first.offset) % nbytes == 0 for a in addresses)
    )


def _parameter(ins: Instruction, function: Function) -> None:
    """Named parameters have no shadow: an access to one must be known to stay inside it."""
    name, end = ins.address.base, ins.address.offset + ins.op.width
    formal = (v for v in (*function.params, *function.returns) if v.name == name)
    variable = next(formal, None) or function.variables.get(name)
    if variable is None or variable.space != "param" or not 0 <= ins.address.offset < end <= variable.size:
        raise AssertionError(f"{ins} leaves its parameter")


def _find(ins: Instruction, allowed: dict[Operand, dict[_Key, _Allowed]]) -> None:
    """The check of an access; if it is for this access alone, it is used up."""
    op = ins.op
    if op.address is None:
        raise AssertionError(f"{ins} accesses memory without an address")
    writes = op.base == "stmatrix" or op.memory != "load" and not op.collective
    updates = op.memory in ("atomic", "reduction") or op.asynchronous and op.operation != "init"
    key = ins.address, op.space, op.width, writes
    here = allowed.get(ins.address.base, {})
    what = here.get(key)
    if what is None or (what.updates, what.array, what.rows) != (updates, ins.array, op.moved_rows):
        raise AssertionError(f"{ins} is not checked")
    if not what.shares:
        del here[key]
