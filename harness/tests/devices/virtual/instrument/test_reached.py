"""How large numbers become that are kept in few bits: what is inserted, and what a launch leaves."""

import numpy as np

from backwarp.devices import open_device
from backwarp.devices.virtual.instrument import notes, reached
from backwarp.devices.virtual.ptx import parse

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
BODY = """.visible .entry k() {
    .reg .b16 %rs<2>; .reg .b32 %r<3>;
    .loc 1 7 0
    mov.u32 %r1, %tid.x;
    cvt.u16.u32 %rs1, %r1;
    ret;
}
.file 1 "k.cu"
"""
KERNEL = """
extern "C" __global__ void k(float* y, int n) {
    short s = n * 100000;
    char c = threadIdx.x % 8;
    if ((int)(float)(n + 5) == 3 || c == 9) y[s] = 1;
    for (unsigned short r = 0; r < n; r++)
        if (n < 0) y[(short)r] = 2;
}
"""


def body_of(text: str) -> list[str]:
    module = parse.parse(text, "k.cu")
    reached.run(module)
    return [str(ins) for ins in module.functions["k"].body]


def test_the_number_is_noted_before_it_is_kept_in_fewer_bits():
    numbers = f".visible .global .align 8 .b8 {reached.NAME}[{8 * reached.LINES}];\n"
    found = body_of(HEAD + numbers + f".visible .global .align 1 .b8 {reached.NAME}_7;\n" + BODY)
    at = next(i for i, text in enumerate(found) if text.startswith("cvt.u16"))
    assert found[at - 3 : at] == [
        "cvt.s64.s32 %reached.value, %r1",
        "abs.s64 %reached.value, %reached.value",
        f"atom.global.max.s64 %reached.old, [{reached.NAME}+56], %reached.value",
    ]
    for other in ("", numbers, numbers + f".visible .global .align 1 .b8 {reached.NAME}_8;\n"):
        assert not any("reached" in text for text in body_of(HEAD + other + BODY))


def test_a_launch_leaves_the_largest_number_of_each_line():
    with open_device("cpu", checks=notes.BUILD) as device:
        module = device.compile(KERNEL + reached.declaration(range(2, 8)))
        numbers = module.get_global(reached.NAME, np.int64)
        numbers.set(-1)
        module.get_function("k")(2, 32, (device.empty(4, name="y"), np.int32(40)))
        assert numbers.get()[2:8].tolist() == [-1, 4_000_000, 7, 45, 40, -1]
