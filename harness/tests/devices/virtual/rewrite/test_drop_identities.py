"""Calls of functions that return their argument become copies, however the compiler spells the parameters' places."""

from __future__ import annotations

import pytest

from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.devices.virtual.ptx import parse
from backwarp.devices.virtual.ptx.ir import Instruction
from backwarp.devices.virtual.rewrite import drop_identities

REFERENCES = """
__device__ __noinline__ float4& four(float& x) { return reinterpret_cast<float4&>(x); }
extern "C" __global__ void k(float4* out, const float4* in) {
    __align__(16) float a[8];
    four(a[4]) = in[threadIdx.x];
    out[threadIdx.x] = four(a[4]);
}
"""


def opcodes(text: str) -> list[str]:
    module = parse.parse(text)
    drop_identities.run(module)
    return [i.opcode for i in module.functions["k"].body if isinstance(i, Instruction)]


@pytest.mark.parametrize("place", ["+0", ""])
def test_a_call_of_an_identity_becomes_a_copy(place):
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b64 r) same(.param .b64 p) {{ .reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; st.param.b64 [r{place}], %rd1; ret; }}
.visible .entry k() {{
.reg .b64 %rd<4>;
{{ .param .b64 param0; .param .b64 retval0;
st.param.b64 [param0{place}], %rd1;
call (retval0), same, (param0);
ld.param.b64 %rd2, [retval0{place}]; }}
ret;
}}
"""
    assert opcodes(text) == ["mov.b64", "ret"]


def test_references_of_unoptimised_code_are_no_calls():
    text = compile_ptx(REFERENCES, flavour="debug").text
    assert "call" in text and "call" not in {opcode.split(".")[0] for opcode in opcodes(text)}
