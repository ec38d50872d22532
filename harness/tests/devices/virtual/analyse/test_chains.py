"""Where the sums of products of four warps are, and which of them are computed together."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.analyse import chains
from backwarp.devices.virtual.runtime.abi import MAX_CHAIN
from tests.devices.virtual.analyse.test_inflight import _COMMIT, _FENCE, _P, _R, _SECOND, _WAIT
from tests.devices.virtual.ptx_text import module

_NEXT, _ADD = "add.s64 %rd1, %rd1, 2;", "add.f32 %f5, %f1, %f1;"
_OVERLAP = _P.replace("%f1,%f2,%f3,%f4", "%f4,%f5,%f6,%f7")


def _plan(*code: str) -> chains.Plan:
    text = f".visible .entry k() {{ .reg .f32 %f<20>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; {' '.join(code)} ret; }}"
    return chains.run(module(text).functions["k"])


@pytest.mark.parametrize(
    "lengths, code",
    [
        ([3], (_P, _NEXT, _P, _FENCE, _R)),
        ([1, 1], (_P, _COMMIT, _P)),
        ([1, 1], (_P, _WAIT, _P)),
        ([1, 1], (_P, _ADD, _P)),  # they are seen in between
        ([1, 1], (_P, "bar.sync 0;", _P)),
        ([2, 1], (_P, _P, "L:", _P)),
        ([2, 2], (_P, _P, _SECOND, _SECOND)),
        ([MAX_CHAIN, 2], (_P,) * (MAX_CHAIN + 2)),
    ],
)
def test_products_that_are_computed_together(lengths, code):
    places = [(p.place, p.last) for p in _plan(*code).products.values()]
    assert places == [(i, i + 1 == n) for n in lengths for i in range(n)]


@pytest.mark.parametrize(
    "stores, back, code",
    [
        (["always", "never"], [], (_P, _WAIT, _P)),
        (["maybe"], [("add", True)], ("L:", _P, _COMMIT, _WAIT, "@%p1 bra L;", _ADD, _ADD)),
        (["always"], [("add", True)], ("L:", _P, _ADD, "@%p1 bra L;")),
        (["always"], [("add", False)], ("@%p1 bra L;", _P, "L:", _ADD)),
        (["always", "always"], [("wgmma", True)], (_P, _OVERLAP)),  # they share a register
        (["always", "always", "never"], [], (_P, _SECOND, _P)),
    ],
)
def test_where_sums_are(stores, back, code):
    plan = _plan(*code)
    assert [p.stores for p in plan.products.values()] == stores
    assert [(ins.base, certain) for ins, lists in plan.back.items() for _, certain in lists] == back
