"""Accesses to the shared memory of a cluster as those at generic addresses: PTX in, PTX out."""

from __future__ import annotations

from backwarp.devices.virtual.rewrite import clusters
from tests.devices.virtual.ptx_text import lines, module, printed


def test_accesses_are_made_at_generic_addresses():
    body = """
        ld.shared::cluster.u32 %r1, [%r2+8]; atom.relaxed.cluster.shared::cluster.add.u32 %r1, [%rd1], 1;
        mbarrier.arrive.shared::cluster.b64 _, [%r2]; st.shared::cluster.u32 [tile], %r1; mapa.shared::cluster.u32 %r1, %r2, 1; ret;
    """
    text = f".shared .align 4 .b8 tile[64];\n.visible .entry k()\n{{\n.reg .b64 %rd<2>; .reg .b32 %r<6>;\n{body}\n}}\n"
    parsed = module(text)
    clusters.run(parsed)
    assert printed(parsed.functions["k"]) == lines("""
        cvt.s64.s32 %cluster.at, %r2;
        add.s64 %cluster.at, %cluster.at, 8;
        cvta.shared.u64 %cluster.at, %cluster.at;
        ld.u32 %r1, [%cluster.at];
        mov.b64 %cluster.at, %rd1;
        cvta.shared.u64 %cluster.at, %cluster.at;
        atom.relaxed.cluster.add.u32 %r1, [%cluster.at], 1;
        cvt.s64.s32 %cluster.at, %r2;
        cvta.shared.u64 %cluster.at, %cluster.at;
        mbarrier.arrive.b64 _, [%cluster.at];
        st.shared::cta.u32 [tile], %r1;
        mapa.shared::cluster.u32 %r1, %r2, 1;
        ret;
    """)
