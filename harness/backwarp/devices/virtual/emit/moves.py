"""`mov` and `createpolicy`.

Source: PTX ISA, section 9.7.9 (data movement).
"""

from __future__ import annotations

from ..ptx.ir import Instruction, Symbol, Vector
from ..ptx.types import BITS, llvm_type


def emit(e, ins: Instruction) -> None:
    if ins.base == "createpolicy":
        # cache policies change no result: every policy is 0, and accesses ignore theirs
        return e.set(ins.operands[0], "0", "b64")
    return _mov(e, ins)


def _mov(e, ins: Instruction) -> None:
    """Registers, constants, special registers, addresses of symbols, and packing of vectors."""
    type_ = ins.op.type
    target, source = ins.operands
    if isinstance(target, Vector):
        _unpack(e, target, e.value(source, type_), type_)
    elif isinstance(source, Vector):
        e.set(target, _pack(e, source, type_), type_)
    elif isinstance(source, Symbol):
        value = e.variables.symbol(source.name, e.variables.is_shared(source.name), source.offset)
        e.set(target, e.resize(value, "i64", llvm_type(type_)), type_)
    else:
        e.set(target, e.value(source, type_), type_)


def _unpack(e, targets: Vector, value: str, type_: str) -> None:
    t, width = llvm_type(type_), BITS[type_] // len(targets.parts)
    for i, target in enumerate(targets.parts):
        part = e.op(f"lshr {t}", value, i * width) if i else value
        e.set(target, e.cast("trunc", t, part, f"i{width}"), f"b{width}")


def _pack(e, sources: Vector, type_: str) -> str:
    t, width, value = llvm_type(type_), BITS[type_] // len(sources.parts), "0"
    for i, source in enumerate(sources.parts):
        part = e.cast("zext", f"i{width}", e.value(source, f"b{width}"), t)
        value = e.op(f"or {t}", value, e.op(f"shl {t}", part, i * width))
    return value
