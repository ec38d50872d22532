"""Specialises a kernel for fixed values of its integer parameters: loop lengths and divisors become known.

A kernel launched a thousand times with the same sizes is worth compiling for them. Its arithmetic stays the
same, to the last bit.
"""

from __future__ import annotations

from dataclasses import replace

from ..ptx.ir import Instruction, Label, Module, operand
from ..ptx.types import BYTES, is_float


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
    if isinstance(item, Label) or not item.op.of_parameters or item.op.memory != "load":
        return item
    type_ = item.op.type
    if item.address not in known or item.op.vector > 1 or item.op.nbytes < 4 or is_float(type_):
        return item  # it has no integer, a part of one, or several at once
    value = known[item.address] & (1 << 8 * BYTES[type_]) - 1
    return replace(item, opcode=f"mov.{type_}", operands=(item.operands[0], operand(str(value))))
