"""A function's parameter whose address is taken is copied to local memory, as PTX requires: in place it has
no address.

    .func f(.param .align 8 .b8 p[152])       .func f(.param .align 8 .b8 p[152])
    {                                         {   .local .align 8 .b8 p.copy[152];
                                                  ld.param.b64 %copy.8, [p];
                                                  st.local.b64 [p.copy], %copy.8;
                                                  ...
        mov.b64 %rd1, p;                ->        mov.b64 %rd1, p.copy;
        cvta.local.u64 %rd2, %rd1;                cvta.local.u64 %rd2, %rd1;

This happens for structs of more than 128 bytes that a function indexes. Source: PTX ISA, "Kernel Function
Parameter Attributes" and `mov`.
"""

from __future__ import annotations

from dataclasses import replace

from ..ptx.callgraph import defined
from ..ptx.ir import Function, Instruction, Location, Module, Symbol, Variable, operand
from ..runtime.abi import PARAM_BYTES

SUFFIX = ".copy"  # no name in PTX has a dot
_TYPES = {8: "b64", 4: "b32", 2: "b16", 1: "b8"}


def run(module: Module) -> None:
    """In place. The inserted code is ordinary PTX, to be verified with the rest."""
    for function in defined(module):
        if not function.entry:
            taken = _taken(function)
            for parameter in function.params:
                if parameter.name in taken and parameter.size <= PARAM_BYTES:
                    _copy(function, parameter)


def _taken(function: Function) -> set[str]:
    """Names, of variables and others, whose address is taken."""
    moves = (i for i in function.body if isinstance(i, Instruction) and i.base in ("mov", "cvta"))
    return {o.name for ins in moves for o in ins.operands if isinstance(o, Symbol)}


def _copy(function: Function, parameter: Variable) -> None:
    name, start, at = parameter.name + SUFFIX, [], 0
    while at < parameter.size:
        size = next(n for n in _TYPES if at % n == parameter.align % n == 0 and at + n <= parameter.size)
        register, type_ = f"%copy.{size}", _TYPES[size]
        function.regs[register] = "b16" if size == 1 else type_
        start += [_moved(f"ld.param.{type_}", register, f"[{parameter.name}+{at}]")]
        start += [_moved(f"st.local.{type_}", f"[{name}+{at}]", register)]
        at += size
    function.variables[name] = replace(parameter, space="local", name=name)
    function.body = [*start, *(_renamed(item, parameter.name, name) for item in function.body)]


def _moved(opcode: str, *operands: str) -> Instruction:
    return Instruction(opcode, tuple(map(operand, operands)), Location())


def _renamed(item, old: str, new: str):
    if not isinstance(item, Instruction) or item.base not in ("mov", "cvta"):
        return item
    if not any(isinstance(o, Symbol) and o.name == old for o in item.operands):
        return item
    operands = (
        operand(f"{new}+{o.offset}") if isinstance(o, Symbol) and o.name == old else o for o in item.operands
    )
    return replace(item, operands=tuple(operands))
