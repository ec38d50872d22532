"""Specialises a kernel for fixed values of its integer parameters: loop lengths and divisors become known.

A kernel launched a thousand times with the same sizes is worth compiling for them. Its arithmetic stays the
same, to the last bit.
"""

from __future__ import annotations

from dataclasses import replace

from ..ptx.ir import Instruction, Label, Module, operand
from ..ptx.types import BYTES


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


def _constant(item: Instruction | Label, known: dict[str, int]) -> Instruction | Label:
    """`ld.param.u32 %r1, [n]` as `mov.u32 %r1, 64`."""
    if isinstance(item, Label) or not item.opcode.startswith("ld.param.") or item.operands[1] not in known:
        return item
    type_ = item.opcode.removeprefix("ld.param.")
    if type_[1:] not in ("32", "64") or type_[0] == "f":  # a part of a parameter, or several at once
        return item
    value = known[item.operands[1]] & (1 << 8 * BYTES[type_]) - 1
    return replace(item, opcode=f"mov.{type_}", operands=(item.operands[0], operand(str(value))))
