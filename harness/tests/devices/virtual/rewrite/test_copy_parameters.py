"""Parameters whose address is taken: PTX in, PTX out; and structs that functions index, on the device."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices.virtual.rewrite import copy_parameters
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import FLAVOURS, K, device, run
from tests.devices.virtual.ptx_text import lines, module, printed

FUNCTION = """
.func f(.param .align 4 .b8 p[15], .param .b32 n)
{
    .reg .b64 %rd<3>;
    BODY
}
"""


def test_a_copy_is_made_of_a_parameter_whose_address_is_taken():
    parsed = module(
        FUNCTION.replace("BODY", "mov.b64 %rd1, p; cvta.local.u64 %rd2, %rd1; mov.u64 %rd1, p+4;")
    )
    copy_parameters.run(parsed)
    function = parsed.functions["f"]
    assert printed(function) == lines("""
        ld.param.b32 %copy.4, [p];
        st.local.b32 [p.copy], %copy.4;
        ld.param.b32 %copy.4, [p+4];
        st.local.b32 [p.copy+4], %copy.4;
        ld.param.b32 %copy.4, [p+8];
        st.local.b32 [p.copy+8], %copy.4;
        ld.param.b16 %copy.2, [p+12];
        st.local.b16 [p.copy+12], %copy.2;
        ld.param.b8 %copy.1, [p+14];
        st.local.b8 [p.copy+14], %copy.1;
        mov.b64 %rd1, p.copy;
        cvta.local.u64 %rd2, %rd1;
        mov.u64 %rd1, p.copy+4;
    """)
    copy = function.variables["p.copy"]
    assert (copy.space, copy.size, copy.align) == ("local", 15, 4)


@pytest.mark.parametrize("body", ["ld.param.b32 %r1, [p+4];", "mov.b64 %rd1, q;", "ret;"])
def test_others_stay(body):
    parsed = module(FUNCTION.replace("BODY", body))
    before = printed(parsed.functions["f"])
    copy_parameters.run(parsed)
    assert printed(parsed.functions["f"]) == before and not parsed.functions["f"].variables


SOURCE = f"""
struct Big {{ float w[40]; char q[3]; }};
__device__ __noinline__ float at(const Big b, int i) {{ return b.w[i] + b.q[i % 3]; }}
__device__ __noinline__ float sum(Big b, int i) {{ b.w[i] = 100; float s = b.w[0]; return i ? s + sum(b, i - 1) : s; }}
{K}k(float* out, int i, int set) {{
    Big b;
    for (int j = 0; j < set; j++) b.w[j] = j;
    b.q[0] = b.q[1] = b.q[2] = 1;
    out[threadIdx.x] = at(b, i + threadIdx.x);
}}
{K}recursive(float* out) {{
    Big b = {{}};
    out[threadIdx.x] = sum(b, 4) + b.w[4];
}}"""


@pytest.mark.parametrize("checks", FLAVOURS)
def test_functions_index_structs(checks):
    out = device(checks).array(np.zeros(8, np.float32))
    run(SOURCE, out, np.int32(20), np.int32(40), block=8, checks=checks, name="k")
    assert out.get().tolist() == [21 + i for i in range(8)]
    run(SOURCE, out, block=8, checks=checks, name="recursive")
    assert out.get().tolist() == [100] * 8
    with pytest.raises(KernelFault, match="outside a local array"):
        run(SOURCE, out, np.int32(41), np.int32(40), block=8, checks=checks, name="k")


def test_what_was_not_set_before_is_not_set_in_the_copy():
    out = device("full").array(np.zeros(8, np.float32))
    with pytest.raises(KernelFault, match=r"b\[20\], which was never written"):
        run(SOURCE, out, np.int32(19), np.int32(20), block=8, name="k")
