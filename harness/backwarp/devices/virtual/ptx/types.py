"""PTX type <-> LLVM type <-> NumPy dtype: one table."""

from __future__ import annotations

#: PTX type -> (LLVM type, bits)
TYPES = {
    "pred": ("i1", 1),
    **{f"{kind}{bits}": (f"i{bits}", bits) for bits in (8, 16, 32, 64) for kind in "bus"},
    "b128": ("i128", 128),
    "f16": ("half", 16),
    "bf16": ("bfloat", 16),
    "f16x2": ("<2 x half>", 32),
    "bf16x2": ("<2 x bfloat>", 32),
    "f32": ("float", 32),
    "f64": ("double", 64),
}

#: PTX type -> bits; tf32 is one of the elements of matrices only
BITS = {name: bits for name, (_, bits) in TYPES.items()} | {"tf32": 32}

#: PTX type -> bytes in memory
BYTES = {name: max(bits // 8, 1) for name, (_, bits) in TYPES.items()}

LLVM_BITS = {llvm: bits for llvm, bits in TYPES.values()}


def llvm_type(ptx_type: str) -> str:
    return TYPES[ptx_type][0]


def is_float(ptx_type: str) -> bool:
    return "f" in ptx_type


def is_signed(ptx_type: str) -> bool:
    return ptx_type[0] == "s"


def integer_range(ptx_type: str) -> tuple[int, int]:
    """(lowest, highest)"""
    bits = BITS[ptx_type]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed(ptx_type) else (0, (1 << bits) - 1)
