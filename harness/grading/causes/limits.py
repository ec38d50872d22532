"""Which comparison of a kernel ends where its sums do: `h < H_out`, where the sums have only the products with h<=3."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...course.declare import Kernel
from ...cuda.evaluate import computed
from ...cuda.parts import shown, sign_of
from ...cuda.text import read
from .too_few import Known, values_of

ONLY = re.compile(r" have only the .* with (.+)\.$")
LIMIT = re.compile(r"(\w+)<=(\d+)")


def ends_there(kernel: Kernel, source: str, dims: Mapping[str, int], says: str) -> str:
    """` Line 26 compares h with Ho, which is 4 there.` The lines whose bounds are where the sums end; "" if there are none, or
    several for one letter. says: the sentence on the sums, with limits as h<=3."""
    file, found = read(source), ONLY.search(says)
    own, limits = file.function(kernel.name), LIMIT.findall(found[1]) if found else []
    if not own or not limits or len(limits) != found[1].count(" and ") + 1:
        return ""
    sizes = [a.shape(dims)[a.letters.index(x)] for x, _ in limits for a in kernel.arrays if x in a.letters]
    told = []
    for letter, last in limits:
        same = {}
        for e in own.body.all("binary_expression"):
            bound = e.part("right")
            worth = computed(bound, Known(values_of(kernel, own, dims)))
            if sign_of(e) == "<" and bound.kind == "identifier" and worth == int(last) + 1 not in sizes:
                same[shown(e)] = f"line {e.line} asks whether {shown(e)}, and {bound.code} is {worth} there"
        own_name = [text for test, text in same.items() if test.startswith(f"{letter} < ")]
        told += own_name or list(same.values()) if len(same) == 1 or own_name else []
    says = "; ".join(told)
    return f" {says[0].upper()}{says[1:]}." if says else ""
