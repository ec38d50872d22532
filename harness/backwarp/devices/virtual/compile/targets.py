"""Target processors: this machine's, or another's, for measurements or to inspect the code it would run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

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
    """name: "" for this machine, "avx2" for this machine without AVX-512, "neon" for a 64-bit ARM processor."""
    if name == "neon":
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        return Target("aarch64-unknown-linux-gnu", "generic", "+neon", 4, "i32", "")
    features = llvm.get_host_cpu_features()
    if name == "avx2":
        for feature in features:
            features[feature] &= not feature.startswith(_BEYOND_AVX2)
    wide = features.get("avx512f")
    # two AVX2 vectors side by side, to hide the latency of products
    lanes = 16 if wide or features.get("avx2") else 4
    given = features.flatten()
    names = llvm.get_default_triple(), llvm.get_host_cpu_name(), given
    # AVX2 has too few registers to keep live values across a call
    keeping = f'"no_caller_saved_registers" "target-features"="{given},-vzeroupper"'
    return Target(*names, lanes, *(("i1", keeping) if wide else ("i32", "")))
