"""PTX text as text: what belongs to one kernel of a file."""

from __future__ import annotations

import re

from backwarp.devices.virtual.ptx.parse import parse
from backwarp.devices.virtual.ptx.statements import of_kernel

TEXT = """.version 7.0
.target sm_80
.address_size 64
.func later(.param .b32 p);
.global .align 8 .u64 table[1] = {taken};
.global .u32 count;
.func inner() { ret; }
.visible .func (.param .b32 r) outer(.param .b32 p)
{
{ // a call
call.uni inner, ();
}
ret;
}
.func taken() { ret; }
.visible .entry a() { call.uni outer, (); ret; }
.visible .entry b(.param .u64 p) { .reg .u32 %r<2>; { .reg .u32 t; mov.u32 t, 1; } ret; }
.func later(.param .b32 p) { ret; }
\t.section .debug_info { .b8 1 }
"""


def bodies(text: str) -> list[str]:
    return [f.name for f in parse(text).functions.values() if f.body is not None]


def test_what_one_kernel_reaches_is_its_text_and_instructions_print_as_in_the_whole():
    assert bodies(of_kernel(TEXT, "a")) == [
        "inner",
        "outer",
        "taken",
        "a",
    ]  # taken: a variable has its address
    part = of_kernel(TEXT, "b")
    assert bodies(part) == ["taken", "b"]
    whole, alone = parse(TEXT), parse(part)
    assert alone.variables == whole.variables and alone.debug == whole.debug != ""
    assert [str(i) for i in alone.functions["b"].body] == [str(i) for i in whole.functions["b"].body]


def test_text_whose_functions_cannot_be_told_apart_stays_whole():
    for text in (
        TEXT.replace("} ret; }", "} ret;", 1),
        TEXT.replace("ret; }\n", "ret; /* } */ }\n", 1),
        re.sub("inner", "a", TEXT),
    ):
        assert of_kernel(text, "a") == text
    assert of_kernel(TEXT, "nowhere") == TEXT
