"""PTX type <-> LLVM type <-> NumPy dtype: one table."""

from __future__ import annotations

#: PTX type -> (LLVM type, bits)
TYPES = {
    "pred": ("i1", 1),
    "b8": ("i8", 8), "u8": ("i8", 8), "s8": ("i8", 8),
    "b16": ("i16", 16), "u16": ("i16", 16), "s16": ("i16", 16), "f16": ("half", 16), "bf16": ("bfloat", 16),
    "b32": ("i32", 32), "u32": ("i32", 32), "s32": ("i32", 32), "f32": ("float", 32),
    "f16x2": ("<2 x half>", 32), "bf16x2": ("<2 x bfloat>", 32),
    "b64": ("i64", 64), "u64": ("i64", 64), "s64": ("i64", 64), "f64": ("double", 64),
    "b128": ("i128", 128),
}  # fmt: skip

#: PTX type -> bytes in memory
BYTES = {name: max(bits // 8, 1) for name, (_, bits) in TYPES.items()}

LLVM_BITS = {llvm: bits for llvm, bits in TYPES.values()}

#: C type of a shared-state field -> (LLVM type, NumPy dtype)
FIELDS = {
    "int": ("i32", "i4"),
    "unsigned": ("i32", "u4"),
    "unsigned short": ("i16", "u2"),
    "unsigned long long": ("i64", "u8"),
}


def llvm_type(ptx_type: str) -> str:
    return TYPES[ptx_type][0]


def is_float(ptx_type: str) -> bool:
    return "f" in ptx_type


def is_signed(ptx_type: str) -> bool:
    return ptx_type[0] == "s"
