"""Which kernels a single change can affect."""

from __future__ import annotations

import re
from collections.abc import Collection

from ...cuda.text import read


def is_one_place(source: str, kernels: Collection[str]) -> bool:
    """Whether a single change can affect all of these kernels: there is only one, or all use something,
    directly or not, that is declared outside the kernels."""
    if len(kernels) < 2:
        return True
    file = read(source)
    inside = [(k.whole.start, k.whole.end) for k in file.kernels]
    helpers = {f.name: f.whole.code for f in file.functions if not f.is_kernel}
    helpers |= {macro.name: macro.value for macro in file.macros}
    shared = helpers.keys() | {v.name for v in file.variables if not any(a <= v.start < b for a, b in inside)}
    for kernel in file.kernels:
        if kernel.name in kernels:
            shared &= _used(kernel.whole.code, helpers)
    return bool(shared)


def _used(code: str, helpers: dict[str, str]) -> set[str]:
    """The names in a text, and in the declarations that it uses."""
    names, new = set(), _names(code)
    while new:
        names |= new
        new = set().union(*(_names(helpers[name]) for name in new & helpers.keys())) - names
    return names


def _names(code: str) -> set[str]:
    return set(re.findall(r"\b[A-Za-z_]\w*", code))
