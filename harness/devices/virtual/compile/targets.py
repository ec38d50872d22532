"""The processors that code is made for: this machine's, or another's, to measure or to look at what it would run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

_BEYOND_AVX2 = ("avx512", "avx10", "evex512", "amx")


@dataclass(frozen=True)
class Target:
    """As LLVM calls them. lanes: how many 32-bit numbers a vector register holds."""

    triple: str
    cpu: str
    features: str
    lanes: int


@cache
def target(name: str = "") -> Target:
    """name: "" for this machine, "avx2" for this machine without AVX-512, "neon" for a 64-bit ARM processor."""
    if name == "neon":
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        return Target("aarch64-unknown-linux-gnu", "generic", "+neon", 4)
    features = llvm.get_host_cpu_features()
    if name == "avx2":
        for feature in features:
            features[feature] &= not feature.startswith(_BEYOND_AVX2)
    lanes = 16 if features.get("avx512f") else 8 if features.get("avx2") else 4
    return Target(llvm.get_default_triple(), llvm.get_host_cpu_name(), features.flatten(), lanes)
