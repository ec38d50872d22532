"""Branches that lead on, and code that is not reached: PTX in, PTX out."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.rewrite import straighten
from tests.devices.virtual.ptx_text import lines, module, printed


def straightened(body: str) -> str:
    text = f".visible .entry k()\n{{\n.reg .b32 %r<9>;\n.reg .pred %p<9>;\n{body}\n}}"
    function = module(text).functions["k"]
    straighten.run(function)
    return printed(function)


@pytest.mark.parametrize(
    "before, after",
    [
        (  # of an exit
            """@%p1 bra $L_2; bra.uni $L_1;
            $L_1: bra.uni $L_3;
            $L_2: add.s32 %r1, %r2, 1; bra.uni $L_3;
            $L_3: ret;""",
            """@!%p1 bra $L_3;
            add.s32 %r1, %r2, 1;
            $L_3:
            ret;""",
        ),
        (  # of a loop
            """bra.uni $L_1;
            $L_1: @!%p1 bra $L_4; bra.uni $L_2;
            $L_2: add.s32 %r1, %r2, 1; bra.uni $L_3;
            $L_3: add.s32 %r2, %r2, 1; bra.uni $L_1;
            $L_4: ret;""",
            """$L_1:
            @!%p1 bra $L_4;
            add.s32 %r1, %r2, 1;
            add.s32 %r2, %r2, 1;
            bra.uni $L_1;
            $L_4:
            ret;""",
        ),
        (  # a loop that never ends keeps its branch
            "add.s32 %r1, %r2, 1; $L_1: bra.uni $L_1; ret;",
            """add.s32 %r1, %r2, 1;
            $L_1:
            bra.uni $L_1;""",
        ),
        (  # a branch reads its guard, wherever it leads
            "@%p1 bra $L_1; $L_1: ret;",
            """@%p1 bra $L_1;
            $L_1:
            ret;""",
        ),
    ],
)
def test_straightened(before, after):
    assert straightened(before) == lines(after)
