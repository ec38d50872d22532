"""The processors that code is made for: this machine's, or another's, to measure or to look at what it would run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

_BEYOND_AVX2 = ("avx512", "avx10", "evex512", "amx")


@dataclass(frozen=True)
class Target:
    """As LLVM calls them. lanes: how many threads are a vector. masks: what says in vectors which lanes take part: a bit, where
    there are registers for that, else a number of all bits or none. keeping: attributes of a function that leaves its caller
    all registers, those of vectors whole; "" where there are none.
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
    # two vectors of AVX2, side by side: while one waits for a product, the other goes on
    lanes = 16 if wide or features.get("avx2") else 4
    given = features.flatten()
    names = llvm.get_default_triple(), llvm.get_host_cpu_name(), given
    # AVX2's registers are too few to keep what is needed after a call
    keeping = f'"no_caller_saved_registers" "target-features"="{given},-vzeroupper"'
    return Target(*names, lanes, *(("i1", keeping) if wide else ("i32", "")))
