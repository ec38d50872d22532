"""Loads and stores of surfaces as plain ones: PTX in, PTX out."""

from __future__ import annotations

from backwarp.devices.virtual.rewrite import surfaces
from tests.devices.virtual.ptx_text import lines, module, printed


def rewritten(body: str) -> str:
    parsed = module(
        f".visible .entry k()\n{{\n.reg .b64 %rd<2>; .reg .b32 %r<6>; .reg .b16 %h<2>;\n{body}\n}}\n"
    )
    surfaces.run(parsed)
    return printed(parsed.functions["k"])


def test_an_access_is_made_at_the_address_of_its_element():
    assert rewritten(
        "suld.b.2d.v2.b32.trap {%r1, %r2}, [%rd1, {%r3, %r4}]; sust.b.a1d.b8.clamp [%rd1, {%r3, %r4}], {%h1}; ret;"
    ) == lines("""
        surface.ld.2d.trap %surface.at, [%rd1, {%r3, %r4}], 8;
        ld.global.v2.b32 {%r1, %r2}, [%surface.at];
        surface.st.a1d.clamp %surface.at, [%rd1, {%r3, %r4}], 1;
        st.global.b8 [%surface.at], %h1;
        ret;
    """)


def test_zeros_outside():
    assert rewritten(
        "suld.b.1d.b16.zero {%h1}, [%rd1, {%r1}]; sust.b.1d.b32.zero [%rd1, {%r1}], {5}; ret;"
    ) == lines("""
        surface.ld.1d.zero %surface.at, [%rd1, {%r1}], 2;
        setp.ne.b64 %surface.in, %surface.at, 0;
        mov.b16 %h1, 0;
        @!%surface.in bra.skip $surface.0;
        ld.global.b16 %h1, [%surface.at];
        $surface.0:
        surface.st.1d.zero %surface.at, [%rd1, {%r1}], 4;
        setp.ne.b64 %surface.in, %surface.at, 0;
        @!%surface.in bra.skip $surface.1;
        st.global.b32 [%surface.at], 5;
        $surface.1:
        ret;
    """)
