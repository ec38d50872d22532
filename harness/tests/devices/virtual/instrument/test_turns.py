"""Where a thread lets others run: PTX in, PTX out."""

from __future__ import annotations

from backwarp.devices.virtual.analyse.facts import ModuleFacts
from backwarp.devices.virtual.instrument import turns
from tests.devices.virtual.ptx_text import lines, module, printed

TEXT = """
.file 1 "kernel.cu"
.visible .entry k()
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    .loc 1 3 0
    ld.volatile.u32 %r1, [%rd1];
    ld.u32 %r2, [%rd1];
    atom.add.u32 %r2, [%rd1], 1;
    st.u32 [%rd1], %r1;
    ret;
}
"""


def test_others_come_after_a_read_of_what_they_change():
    parsed = module(TEXT)
    facts = ModuleFacts(parsed, interleaved=True, threads=True)
    turns.run(facts.waits)
    assert printed(parsed.functions["k"]) == lines("""
        pause;
        pause.generic [%rd1];
        ld.volatile.u32 %r1, [%rd1];
        turn;
        ld.u32 %r2, [%rd1];
        atom.add.u32 %r2, [%rd1], 1;
        pause;
        st.u32 [%rd1], %r1;
        ret;
    """)
    assert facts.waits.turn_lines("k") == (3,)


def test_nobody_comes_between_where_that_is_not_asked_for():
    parsed = module(TEXT)
    turns.run(ModuleFacts(parsed, interleaved=False, threads=True).waits)
    assert printed(parsed.functions["k"]) == printed(module(TEXT).functions["k"])
