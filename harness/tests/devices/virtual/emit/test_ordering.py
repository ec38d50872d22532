"""What a kernel's fences, atomics and volatile accesses order, on processors that keep no order of their own too."""

from __future__ import annotations

import re
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.devices.virtual.compile import llvm as objects
from backwarp.devices.virtual.compile import pipeline
from backwarp.devices.virtual.compile.recipes import recipe
from backwarp.devices.virtual.device import VirtualGPU
from tests.devices.virtual.launches import K

LOAD, STORE = r"ldr\s+\w", r"str\s+w"
ALL, LOADS = r"dmb\s+ish$", r"dmb\s+ishld"
#: a kernel of (int* a, int* b) -> what stands in ARM's code in this order
KERNELS = {
    "volatile_load": ("b[0] = *(volatile int*)a;", [LOAD, LOADS, STORE]),
    "volatile_store": ("b[0] = 9; *(volatile int*)a = 7;", [STORE, ALL, STORE]),
    "acquire": (
        'int x; asm volatile("ld.acquire.gpu.b32 %0, [%1];" : "=r"(x) : "l"(a) : "memory"); b[0] = x;',
        [LOAD, LOADS, STORE],
    ),
    "release": (
        'b[0] = 9; asm volatile("st.release.gpu.b32 [%0], %1;" :: "l"(a), "r"(7) : "memory");',
        [STORE, ALL, STORE],
    ),
    "fence": ("b[0] = 9; __threadfence(); a[0] = 7;", [STORE, ALL, STORE]),
    "update": ("b[0] = 9; atomicAdd(a, 7);", [STORE, r"ldaxr\s+w", r"stlxr\s+w"]),
    "swap": ("b[0] = 9; atomicCAS(a, 7, 8);", [STORE, r"ldaxr\s+w", r"stlxr\s+w"]),
}


@cache
def assembly() -> dict[str, str]:
    """ARM's code of each kernel's accesses to the arena, with the bounds of each access checked."""
    source = "".join(f"{K}{name}(int* a, int* b) {{ {body} }}\n" for name, (body, _) in KERNELS.items())
    text = compile_ptx(source, "kernel.cu", "fast").text
    module = llvm.parse_assembly(
        pipeline.lower(text, "kernel.cu", recipe("memory", target="neon"), 1 << 30).text
    )
    machine, builder = objects._prepared(module, 2, 1, for_="neon")
    builder.getModulePassManager().run(module, builder)
    found, name = {}, ""
    for line in machine.emit_assembly(module).splitlines():
        if label := re.match(r'"?([a-z_]+)\b[\w."]*:', line):
            name = label[1]
        found[name] = f"{found.get(name, '')}{line.strip()}\n"
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_a_barrier_of_arms_stands_where_x86_needs_none(name):
    pattern = r"[\s\S]*?".join(f"^{part}" for part in KERNELS[name][1])
    assert re.search(pattern, assembly()[name], re.MULTILINE)


MESSAGES = f"""
{K}messages(int* data, volatile int* flag, int* wrong, int n) {{
    for (int i = 0; i < n; i++)
        if (blockIdx.x == 0) {{
            data[i] = i + 1;
            *flag = i + 1;
        }} else {{
            int last = *flag;
            if (last && data[last - 1] != last) atomicAdd(wrong, 1);
        }}
}}
{K}fenced(int* data, int* flag, int* wrong, int n) {{
    for (int i = 0; i < n; i++)
        if (blockIdx.x == 0) {{
            data[i] = i + 1;
            __threadfence();
            atomicExch(flag, i + 1);
        }} else {{
            int last = atomicAdd(flag, 0);
            __threadfence();
            if (last && data[last - 1] != last) atomicAdd(wrong, 1);
        }}
}}
"""


@pytest.mark.parametrize("name", ["messages", "fenced"])
def test_a_message_is_there_when_its_flag_is(name):
    """On a processor with several cores. (One of ARM's would show a missing barrier; x86 and emulators do not.)"""
    n = 100_000
    with VirtualGPU("memory", cores=4) as device:
        kernel = device.compile(MESSAGES).get_function(name)
        data, flag, wrong = (device.array(np.zeros(count, np.int32)) for count in (n, 1, 1))
        kernel(4, 1, (data, flag, wrong, np.int32(n)))
        assert wrong.get() == [0] and (data.get() == np.arange(1, n + 1)).all()
