"""Replaces surface loads and stores by plain ones, at an address that the runtime finds.

                                                surface.ld.2d.zero %surface.at, [%rd1, {%r1, %r2}], 4;
                                                setp.ne.b64 %surface.in, %surface.at, 0;
    suld.b.2d.b32.zero {%r3},                   mov.b32 %r3, 0;
        [%rd1, {%r1, %r2}];             ->      @!%surface.in bra.skip $surface.1;
                                                ld.global.b32 %r3, [%surface.at];
                                            $surface.1:
                                                surface.st.1d.trap %surface.at, [%rd1, {%r1}], 8;
    sust.b.1d.v2.b32.trap                       st.global.v2.b32 [%surface.at], {%r3, %r4};
        [%rd1, {%r1}], {%r3, %r4};      ->

So every memory check applies to surfaces too. With `.zero`, the address is 0 outside the surface: a load
gives zeros and a store does nothing. `.trap` never gets that far, and `.clamp` uses the nearest element
inside.

Source: PTX ISA, section 9.7.11 (surface instructions).
"""

from __future__ import annotations

from ..instrument.insert import mark
from ..ptx.callgraph import defined
from ..ptx.ir import Function, Instruction, Label, Module
from ..ptx.types import BITS
from .predicates import skip

_AT, _INSIDE = "%surface.at", "%surface.in"


def run(module: Module) -> None:
    """In place, for all functions; guards must already have been removed."""
    for function in defined(module):
        if any(isinstance(item, Instruction) and item.op.surface for item in function.body):
            _rewrite(function)


def _rewrite(function: Function) -> None:
    function.regs |= {_AT: "b64", _INSIDE: "pred"}
    body: list[Instruction | Label] = []
    for number, item in enumerate(function.body):
        if isinstance(item, Label) or not item.op.surface:
            body.append(item)
        else:
            body += _plain(item, function, f"$surface.{number}")
    function.body = body


def _plain(ins: Instruction, function: Function, label: str) -> list[Instruction | Label]:
    op, loads, boundary = ins.op, ins.op.has_result, ins.op.mods[-1]
    parts = ins.named["d" if loads else "b"].parts
    access = "ld" if loads else "st"
    vector, value = (f".v{len(parts)}", f"{{{', '.join(parts)}}}") if len(parts) > 1 else ("", parts[0])
    operands = (value, f"[{_AT}]") if loads else (f"[{_AT}]", value)
    plain = mark(f"{access}.global{vector}.{op.type}", *operands, at=ins)
    found = mark(f"surface.{access}.{op.geometry}.{boundary}", _AT, ins.named["t"], op.width, at=ins)
    if boundary != "zero":
        return [found, plain]
    zeros = [
        mark(f"mov.b{BITS[function.regs[part]]}", part, 0, at=ins)
        for part in parts
        if loads and part in function.regs
    ]
    inside = mark("setp.ne.b64", _INSIDE, _AT, 0, at=ins)
    return [found, inside, *zeros, skip(label, ins, _INSIDE), plain, Label(label)]
