"""wmma's fragments as plain accesses: PTX in, PTX out."""

from __future__ import annotations

from backwarp.devices.virtual.rewrite import fragments
from tests.devices.virtual.ptx_text import lines, module, printed

KERNEL = """
.shared .align 16 .b8 tile[512];
.visible .entry k()
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .f64 %fd<9>;
    BODY
}
"""


def rewritten(body: str) -> str:
    parsed = module(KERNEL.replace("BODY", body))
    kernel = parsed.functions["k"]
    fragments.run(kernel, parsed.variables)
    assert all(type_ for item in kernel.body for type_ in map(kernel.regs.get, item.writes))
    return printed(kernel)


def test_a_lane_stores_its_elements():
    assert rewritten("wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%rd1+8], {%fd1, %fd2}, %r3;") == lines("""
        mov.b64 %wmma.base, %rd1;
        add.s64 %wmma.base, %wmma.base, 8;
        cvt.u64.u32 %wmma.stride, %r3;
        mul.lo.u32 %wmma.lane, %laneid, 2;
        cvt.u64.u32 %wmma.first, %wmma.lane;
        add.u64 %wmma.number, %wmma.first, 0;
        shr.u64 %wmma.row, %wmma.number, 3;
        and.b64 %wmma.column, %wmma.number, 7;
        mul.lo.u64 %wmma.at, %wmma.row, %wmma.stride;
        add.u64 %wmma.at, %wmma.at, %wmma.column;
        mul.lo.u64 %wmma.at, %wmma.at, 8;
        add.u64 %wmma.at, %wmma.base, %wmma.at;
        st.global.b64 [%wmma.at], %fd1;
        add.u64 %wmma.number, %wmma.first, 1;
        shr.u64 %wmma.row, %wmma.number, 3;
        and.b64 %wmma.column, %wmma.number, 7;
        mul.lo.u64 %wmma.at, %wmma.row, %wmma.stride;
        add.u64 %wmma.at, %wmma.at, %wmma.column;
        mul.lo.u64 %wmma.at, %wmma.at, 8;
        add.u64 %wmma.at, %wmma.base, %wmma.at;
        st.global.b64 [%wmma.at], %fd2;
    """)


def test_small_elements_share_registers_and_may_be_repeated():
    """B has 128 elements, four a lane, in two registers of the eight. Its address is one of them."""
    registers = "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}"
    text = rewritten(f"wmma.load.b.sync.aligned.col.m32n8k16.shared.f16 {registers}, [%r1];")
    assert text.startswith(
        "cvt.s64.s32 %wmma.base, %r1;\ncvt.u64.u32 %wmma.stride, 16;\nmul.lo.u32 %wmma.lane, %laneid, 4;"
    )
    assert "mul.lo.u64 %wmma.at, %wmma.column, %wmma.stride;\nadd.u64 %wmma.at, %wmma.at, %wmma.row;" in text
    assert text.endswith(
        lines("""
        ld.shared.b16 %wmma.e3, [%wmma.at];
        mov.b32 %wmma.word, {%wmma.e0, %wmma.e1};
        mov.b32 %r1, %wmma.word;
        mov.b32 %r3, %wmma.word;
        mov.b32 %r5, %wmma.word;
        mov.b32 %r7, %wmma.word;
        mov.b32 %wmma.word, {%wmma.e2, %wmma.e3};
        mov.b32 %r2, %wmma.word;
        mov.b32 %r4, %wmma.word;
        mov.b32 %r6, %wmma.word;
        mov.b32 %r8, %wmma.word;
    """)
    )


def test_the_name_of_shared_memory_is_a_generic_address_where_one_is_meant():
    load = "wmma.load.a.sync.aligned.row.m16n16k16{}.s8 {{%r1, %r2}}, [tile], 16;"
    address = "mov.b64 %wmma.base, tile;\ncvta.shared.u64 %wmma.base, %wmma.base;\n"
    assert rewritten(load.format("")).startswith(address)
    assert "cvta" not in rewritten(load.format(".shared"))
    assert "mov.b32 %wmma.word, {%wmma.e4, %wmma.e5, %wmma.e6, %wmma.e7};" in rewritten(load.format(""))
