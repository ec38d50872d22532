"""Target processors: this machine's, or another's, for measurements or to inspect the code it would run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from .levels import LEVELS

_BEYOND_AVX2 = ("avx512", "avx10", "evex512", "amx")


@dataclass(frozen=True)
class Target:
    """A target in LLVM's terms. lanes: threads per vector. masks: the type of a vector mask's elements: bits
    if the processor has mask registers, else integers with all bits set or clear. keeping: attributes of a
    function that preserves all its caller's registers, including full vector registers; "" if there are none.
    """

    triple: str
    cpu: str
    features: str
    lanes: int
    masks: str
    keeping: str


@cache
def target(name: str = "") -> Target:
    """name: "" for this machine, "avx2" for this machine without AVX-512, "neon" for a 64-bit ARM processor,
    or one of LEVELS."""
    if name == "neon":
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        return Target("aarch64-unknown-linux-gnu", "generic", "+neon", 4, "i32", "")
    if name in LEVELS:
        features = ",".join(f"+{feature}" for feature in LEVELS[name].split())
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        return _x86("x86_64-unknown-linux-gnu", name, features, "avx512f" in LEVELS[name])
    features = llvm.get_host_cpu_features()
    if name == "avx2":
        for feature in features:
            features[feature] &= not feature.startswith(_BEYOND_AVX2)
    triple, cpu, given = llvm.get_default_triple(), llvm.get_host_cpu_name(), features.flatten()
    if features.get("avx512f") or features.get("avx2"):
        return _x86(triple, cpu, given, bool(features.get("avx512f")))
    return Target(triple, cpu, given, 4, "i32", "")


def _x86(triple: str, cpu: str, features: str, wide: bool) -> Target:
    # AVX2 has too few registers to keep live values across a call; two of its vectors side by side hide the latency of
    # products
    keeping = f'"no_caller_saved_registers" "target-features"="{features},-vzeroupper"'
    return Target(triple, cpu, features, 16, *(("i1", keeping) if wide else ("i32", "")))
