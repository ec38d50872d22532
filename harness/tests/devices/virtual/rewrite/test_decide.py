"""What the shape of blocks decides: PTX in, PTX out; and random sums, whose ranges hold what each thread computes."""

from __future__ import annotations

import random

import pytest

from backwarp.devices.virtual.analyse.numbers import follow, read_as
from backwarp.devices.virtual.rewrite import decide
from tests.devices.virtual.ptx_text import lines, module, printed

HEAD = """
.visible .entry k(.param .u32 n)
{
    .reg .b32 %r<40>;
    .reg .b64 %rd<40>;
    .reg .pred %p<40>;
"""


def decided(body: str, block=(32, 1, 1)) -> str:
    function = module(f"{HEAD}{body}\n}}").functions["k"]
    decide.run(function, block)
    return printed(function)


def test_a_branch_that_no_thread_takes():
    assert decided("""
        mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; setp.gt.s32 %p1, %r2, 127; @%p1 bra $L_1;
        add.s32 %r3, %r2, 1; st.global.u32 [%rd1], %r3;
        $L_1: ret;""") == lines("""
        mov.u32 %r1, %tid.x;
        shl.b32 %r2, %r1, 2;
        add.s32 %r3, %r2, 1;
        st.global.u32 [%rd1], %r3;
        ret;""")


def test_a_loop_that_each_thread_passes_twice():
    """As compilers write `for (i = t; i < 128; i += 64)`: with a branch for each of up to four remaining rounds."""
    text = decided(
        """
        mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; shl.b32 %r3, %r2, 3; add.s32 %r4, %r3, %r1;
        max.s32 %r5, %r4, 64; add.s32 %r6, %r5, 63; sub.s32 %r7, %r6, %r4; shr.u32 %r8, %r7, 6; add.s32 %r9, %r8, 1;
        and.b32 %r10, %r9, 3; setp.eq.s32 %p1, %r10, 0; @%p1 bra $L_4;
        st.global.u32 [%rd1], 1; setp.eq.s32 %p2, %r10, 1; @%p2 bra $L_4;
        st.global.u32 [%rd1], 2; setp.eq.s32 %p3, %r10, 2; @%p3 bra $L_4;
        st.global.u32 [%rd1], 3;
        $L_4: setp.lt.u32 %p4, %r7, 192; @%p4 bra $L_5;
        st.global.u32 [%rd1], 4;
        $L_5: ret;""",
        (8, 8, 1),
    )
    assert [line for line in text.splitlines() if line[:2] in ("st", "@%")] == [
        "st.global.u32 [%rd1], 1;",
        "st.global.u32 [%rd1], 2;",
    ]


KEPT = {
    "some threads": "mov.u32 %r1, %tid.x; setp.gt.s32 %p1, %r1, 30; @%p1 bra $L_1;",
    "another launch": "ld.param.u32 %r1, [n]; setp.gt.s32 %p1, %r1, 30; @%p1 bra $L_1;",
    "a sum that grows": "mov.u32 %r1, 0; $L_2: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 0; @%p1 bra $L_1;",
    "a sum that overflows": "mov.u32 %r1, %tid.x; add.s32 %r2, %r1, 2147483640; setp.lt.s32 %p1, %r2, 0; @%p1 bra $L_1;",
    "a negative number, unsigned": "mov.u32 %r1, %tid.x; sub.s32 %r2, %r1, 9; setp.lt.u32 %p1, %r2, 32; @%p1 bra $L_1;",
    "a number as large as a negative one": "mov.u32 %r1, %tid.x; sub.s32 %r2, %r1, 9; setp.lt.s32 %p1, %r2, 4294967295; @%p1 bra $L_1;",
    "not assigned before": "setp.gt.s32 %p1, %r1, 5; @%p1 bra $L_1; mov.u32 %r1, 3;",
    "one of two values": "mov.u32 %r1, 3; @%p3 mov.u32 %r1, 9; setp.gt.s32 %p1, %r1, 5; @%p1 bra $L_1;",
    "half of a number": "mov.u32 %r1, 300; ld.param.u32 %r3, [n]; and.b32 %r3, %r3, 1; add.s32 %r1, %r1, %r3; cvt.u8.u32 %r2, %r1; setp.gt.s32 %p1, %r2, 255; @%p1 bra $L_1;",
}


@pytest.mark.parametrize("case", KEPT)
def test_branches_that_are_not_decided(case):
    assert "@%p1 bra" in decided(f"{KEPT[case]} st.global.u32 [%rd1], 1; $L_1: ret;")


_BINARY = "add.s32 sub.s32 mul.lo.s32 and.b32 or.b32 xor.b32 min.s32 max.s32 min.u32 max.u32 div.s32 rem.u32 add.u32".split()
_NUMBERS = 0, 1, 2, 3, 7, 8, 31, 63, 255, -1, -8, -255, 65536, 2147483647, -2147483648, 4294967295


def drawn(rng: random.Random) -> list[str]:
    """A program of sums of a thread's numbers."""
    found = ["mov.u32 %r1, %tid.x;", "mov.u32 %r2, %tid.y;", "mov.u32 %r3, %ntid.x;"]
    for n in range(4, 30):
        a, b = (f"%r{rng.randrange(1, n)}" for _ in range(2))
        number = rng.choice(_NUMBERS)
        kind = rng.randrange(7)
        if kind == 0:
            found.append(
                f"{rng.choice(('shl.b32', 'shr.s32', 'shr.u32'))} %r{n}, {a}, {rng.choice((0, 1, 4, 28, 31, 33))};"
            )
        elif kind == 1:
            found.append(f"mad.lo.s32 %r{n}, {a}, {number}, {b};")
        elif kind == 2:
            found.append(
                f"setp.{rng.choice(('lt', 'le', 'gt', 'ge', 'eq', 'ne'))}.{rng.choice('su')}32 %p{n}, {a}, {rng.choice((b, number))};"
            )
            found.append(f"selp.b32 %r{n}, {a}, {b}, %p{n};")
        elif kind == 3:
            found.append(f"{rng.choice(('neg.s32', 'not.b32', 'mov.u32'))} %r{n}, {a};")
        elif kind == 4:
            widened = rng.choice(
                (f"cvt.{'{0}'}64.{'{0}'}32 %rd{n}, {a};", f"mul.wide.{'{0}'}32 %rd{n}, {a}, {b};")
            )
            found.append(widened.format(rng.choice("su")))
            found.append(f"cvt.{rng.choice('su')}32.{rng.choice('su')}64 %r{n}, %rd{n};")
        else:
            found.append(f"{rng.choice(_BINARY)} %r{n}, {a}, {rng.choice((b, number))};")
    return found


@pytest.mark.parametrize("seed", range(40))
def test_ranges_hold_what_each_thread_computes(seed):
    block = random.Random(seed).choice(((8, 4, 1), (32, 1, 1), (5, 3, 1), (1, 1, 1)))
    function = module(f"{HEAD}{' '.join(drawn(random.Random(seed)))} ret;\n}}").functions["k"]
    ranges = decide.Ranges(function, block)
    ranges.find()
    narrow = 0
    for x in range(block[0]):
        for y in range(block[1]):
            known = {"%r1": x, "%r2": y, "%r3": block[0]}
            for ins in function.body[3:-1]:
                if ins.base == "selp":  # which constants do not know
                    if ins.operands[3] in known:
                        chosen = ins.operands[1 if known[ins.operands[3]] else 2]
                        known |= {ins.operands[0]: known[chosen]} if chosen in known else {}
                else:
                    follow([ins], known)
            for name, value in known.items():
                held = (
                    value if name.startswith("%p") else read_as(value, f"s{'64' if name[2] == 'd' else '32'}")
                )
                found = ranges.of.get(name)
                narrow += found is not None
                assert found is None or found[0] <= held <= found[1], (name, held, found)
    assert narrow > 3 * block[0] * block[1]
