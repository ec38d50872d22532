"""Specialises a kernel for fixed values of its integer parameters: loop lengths and divisors become known.

This pays off for a kernel that is launched a thousand times with the same sizes. Results stay bit-identical.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..ptx.ir import Function, Immediate, Instruction, Label, Module, operand
from ..ptx.types import BYTES, is_float, is_signed

_WORDS = ("u32", "s32", "b32")


def run(module: Module, kernel: str, values: tuple[int | None, ...]) -> None:
    """In place: makes `kernel` the module's only kernel, with each parameter that is not None a constant."""
    others = [name for name, f in module.functions.items() if f.entry and name != kernel]
    for name in others:
        del module.functions[name]
    function = module.functions[kernel]
    known = {
        f"[{p.name}]": value for p, value in zip(function.params, values, strict=True) if value is not None
    }
    function.body = [_constant(item, known) for item in function.body]
    _find_divisors(function)


def _constant(item: Instruction | Label, known: dict[str, int]) -> Instruction | Label:
    """`ld.param.u32 %r1, [n]` as `mov.u32 %r1, 64`."""
    if isinstance(item, Label) or not item.op.of_parameters or item.op.memory != "load":
        return item
    type_ = item.op.type
    if item.address not in known or item.op.vector > 1 or item.op.nbytes < 4 or is_float(type_):
        return item  # it loads no integer, part of one, or several at once
    value = known[item.address] & (1 << 8 * BYTES[type_]) - 1
    return replace(item, opcode=f"mov.{type_}", operands=(item.operands[0], operand(str(value))))


def _find_divisors(function: Function) -> None:
    """Finds 32-bit divisors that follow from constants, so that division can become multiplication."""
    body = [item for item in function.body if isinstance(item, Instruction)]
    writes = Counter(name for ins in body for name in ins.writes)
    known: dict[str, int] = {}
    divisions: dict[Instruction, Instruction] = {}
    for ins in body:
        if not ins.op.has_result or ins.pred or ins.op.type not in _WORDS:
            continue
        given = [o.value if type(o) is Immediate else known.get(o) for o in ins.operands[1:]]
        if ins.base in ("div", "rem") and given[1] is not None:
            divisor = given[1] & 0xFFFFFFFF
            if is_signed(ins.op.type) and divisor >> 31:
                divisor -= 1 << 32
            divisions[ins] = replace(ins, operands=(*ins.operands[:2], operand(str(divisor))))
        elif writes[ins.operands[0]] == 1 and None not in given:
            value = _value(ins, given)
            if value is not None:
                known[ins.operands[0]] = value & 0xFFFFFFFF
    function.body = [divisions.get(item, item) for item in function.body]


def _value(ins: Instruction, given: list[int]) -> int | None:
    match ins.base, ins.op.mods[:-1]:
        case "mov", _:
            return given[0]
        case "add", ():
            return given[0] + given[1]
        case "sub", ():
            return given[0] - given[1]
        case "mul", ("lo",):
            return given[0] * given[1]
        case "mad", ("lo",):
            return given[0] * given[1] + given[2]
    return None
