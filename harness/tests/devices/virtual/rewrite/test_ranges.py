"""Ranges as unsigned comparisons: PTX in, PTX out. What they compare is tested with lanes, in test_body."""

from __future__ import annotations

import re

from backwarp.devices.virtual.rewrite import ranges
from tests.devices.virtual.ptx_text import lines, module, printed

KERNEL = """
.visible .entry k()
{
    .reg .b32 %r<9>;
    .reg .pred %p<9>;
    BODY
}
"""


def rewritten(body: str) -> str:
    """New registers are numbered from 1."""
    text = printed(ranges.run(module(KERNEL.replace("BODY", body)).functions["k"]))
    names = dict.fromkeys(re.findall(r"%range\.\d+", text))
    for number, name in enumerate(names, 1):
        text = re.sub(rf"{re.escape(name)}\b", f"%new{number}", text)
    return text


def test_below_zero_or_beyond_a_limit():
    body = "setp.lt.s32 %p1, %r1, 0;\nsetp.gt.s32 %p2, %r1, %r2;"
    assert rewritten(f"{body} or.pred %p3, %p1, %p2; ret;") == lines(f"""
        {body}
        max.s32 %new1, %r2, -1;
        add.u32 %new2, %new1, 1;
        setp.lt.u32 %new3, %r1, %new2;
        not.pred %new4, %new3;
        mov.pred %p3, %new4;
        ret;
    """)


def test_at_least_zero_and_below_a_limit():
    body = "setp.gt.s32 %p1, %r1, -1;\nsetp.lt.s32 %p2, %r1, %r2;\nsetp.le.s32 %p4, %r3, 7;\nsetp.ge.s32 %p5, %r3, 0;"
    tree = "and.pred %p3, %p1, %p2; and.pred %p6, %p3, %p4; and.pred %p7, %p6, %p5; ret;"
    text = rewritten(body + tree).splitlines()
    assert "setp.lt.u32 %new2, %r1, %new1;" in text and "max.s32 %new1, %r2, 0;" in text
    assert "setp.lt.u32 %new3, %r3, 8;" in text and text[-2:] == ["mov.pred %p7, %new4;", "ret;"]


def test_numbers_whose_signs_are_asked_for_together_are_compared_alone():
    body = "or.b32 %r3, %r1, %r2;\nsetp.lt.s32 %p1, %r3, 0;\nsetp.gt.s32 %p2, %r1, 5;"
    assert rewritten(f"{body} or.pred %p3, %p1, %p2; ret;") == lines(f"""
        {body}
        setp.lt.u32 %new1, %r1, 6;
        not.pred %new2, %new1;
        setp.lt.s32 %new3, %r2, 0;
        or.pred %new4, %new2, %new3;
        mov.pred %p3, %new4;
        ret;
    """)


def test_another_predicate_stays():
    body = (
        "setp.lt.s32 %p1, %r1, 0; setp.ge.s32 %p2, %r1, 5; or.pred %p3, %p1, %p8; or.pred %p4, %p3, %p2; ret;"
    )
    text = rewritten(body)
    assert (
        "or.pred %new3, %new2, %p8;" in text
        and "mov.pred %p4, %new3;" in text
        and "or.pred %p3, %p1, %p8;" in text
    )


UNCHANGED = (
    # no limit; another number; unsigned already; a limit on the wrong side
    "setp.lt.s32 %p1, %r1, 0; setp.lt.s32 %p2, %r2, 0; or.pred %p3, %p1, %p2; ret;",
    "setp.lt.s32 %p1, %r1, 0; setp.gt.s32 %p2, %r2, 5; or.pred %p3, %p1, %p2; ret;",
    "setp.lt.u32 %p1, %r1, 0; setp.gt.u32 %p2, %r1, 5; or.pred %p3, %p1, %p2; ret;",
    "setp.lt.s32 %p1, %r1, 0; setp.lt.s32 %p2, %r1, 5; or.pred %p3, %p1, %p2; ret;",
    # the number changes in between
    "setp.lt.s32 %p1, %r1, 0; add.s32 %r1, %r1, 1; setp.gt.s32 %p2, %r1, 5; or.pred %p3, %p1, %p2; ret;",
    # or the limit, on one of the ways
    """setp.lt.s32 %p1, %r1, 0; setp.gt.s32 %p2, %r1, %r2; @%p5 bra $L_1; mov.u32 %r2, 3;
    $L_1: or.pred %p3, %p1, %p2; ret;""",
    # the comparison is that of the iteration before
    "setp.gt.s32 %p2, %r1, 5; $L_1: or.pred %p3, %p1, %p2; add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 0; @%p3 bra $L_1; ret;",
    # a predicate that is written twice
    """setp.lt.s32 %p1, %r1, 0; setp.gt.s32 %p2, %r1, 5; @%p5 bra $L_1; setp.gt.s32 %p2, %r1, 6;
    $L_1: or.pred %p3, %p1, %p2; ret;""",
)


def test_what_is_no_range_stays():
    for body in UNCHANGED:
        function = module(KERNEL.replace("BODY", body)).functions["k"]
        assert ranges.run(function) is function


def test_a_comparison_before_a_loop_serves_in_it():
    text = rewritten("""
        sub.s32 %r1, %r2, %r3; setp.gt.s32 %p2, %r1, 5;
        $L_1: setp.lt.s32 %p1, %r1, 0; or.pred %p3, %p1, %p2; @%p3 bra $L_1; ret;""")
    assert "setp.lt.u32 %new1, %r1, 6;" in text
