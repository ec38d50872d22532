"""Kernels that epochs prove free of races; the same with one barrier or cast less, which are rerun with
records."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests.devices.virtual.launches import device, zeros

K = 'extern "C" __global__ void k('

#: a kernel without a race; what is taken out of it to make one
KERNELS = {
    "own element": (
        f"{K}int* x) {{ int i = blockIdx.x * 64 + threadIdx.x; x[i] += 1; x[i] *= 2; }}",
        "blockIdx.x * 64 + ",
    ),
    "row of a tile": (
        f"""{K}int* x) {{
    __shared__ int tile[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    for (int n = 0; n < 3; n++) {{
        tile[t] = x[i] + n;
        __syncthreads();
        x[i] = tile[63 - t] + tile[0];
        __syncthreads(); //
    }}
}}""",
        "__syncthreads(); //",
    ),
    "between barriers in global memory": (
        f"""{K}int* x) {{
    int i = blockIdx.x * 64 + threadIdx.x;
    x[i] = i;
    __syncthreads();
    int other = x[i ^ 33];
    __syncthreads(); //
    x[i] = other;
}}""",
        "__syncthreads(); //",
    ),
    "atomics of all blocks": (f"{K}int* x) {{ atomicAdd(&x[threadIdx.x % 7], 1); }}", None),
    "atomics before a barrier": (
        f"""{K}int* x) {{
    __shared__ int bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads(); //
    atomicAdd(&bins[threadIdx.x % 8], 1);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&x[threadIdx.x], bins[threadIdx.x]);
}}""",
        "__syncthreads(); //",
    ),
    "atomics, then a plain read": (
        f"""{K}int* x) {{
    atomicAdd(&x[64 * blockIdx.x], 1);
    __syncthreads();
    if (threadIdx.x == 5) x[64 * blockIdx.x + 1] = x[64 * blockIdx.x];
}}""",
        "64 * ",
    ),
    "bytes of one word": (
        f"{K}unsigned char* x) {{ int i = blockIdx.x * 64 + threadIdx.x; x[i] = x[i] + 1; }}",
        "blockIdx.x * 64 + ",
    ),
    "halves of one word, then all of it": (
        f"""{K}short* x) {{
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    x[i] = t;
    __syncthreads(); //
    if (t < 32) ((int*)x)[blockIdx.x * 32 + t] += 1;
}}""",
        "__syncthreads(); //",
    ),
    "vectors": (
        f"""{K}int* x) {{
    int t = threadIdx.x;
    if (t < 16) ((int4*)(x + 64 * blockIdx.x))[t] = make_int4(t, t, t, t);
    __syncthreads(); //
    if (t < 32) ((int2*)(x + 64 * blockIdx.x))[t].x += 1;
}}""",
        "__syncthreads(); //",
    ),
    "lanes of a warp": (
        f"""{K}int* x) {{
    __shared__ int row[64];
    int t = threadIdx.x;
    for (int n = 0; n < 3; n++) {{
        row[t] = t + n;
        __syncwarp();
        x[64 * blockIdx.x + t] = row[t ^ 1] + row[t & 32];
        __syncwarp(); //
    }}
}}""",
        "__syncwarp(); //",
    ),
    "what all blocks read": (
        f"{K}int* x) {{ int i = threadIdx.x, n = x[i] + x[i / 2]; if (n < 0) x[64] = i; }}",
        "if (n < 0)",
    ),
}


def launched(module, seed: int, name: str = "k") -> set[str]:
    """The kernels whose accesses were recorded."""
    dev = device()
    dev.schedule = seed
    module.recorded.clear()
    try:
        module.get_function(name)(4, 64, (zeros(256, np.int32, name="x"),))
    finally:
        dev.schedule = 0
    return module.recorded


@pytest.fixture(scope="module")
def module():
    """Of KERNELS, as they are and with a race."""
    text = ""
    for n, (source, less) in enumerate(KERNELS.values()):
        text += source.replace("k(", f"right{n}(", 1)
        text += source.replace("k(", f"wrong{n}(", 1).replace(less, "") if less else ""
    return device().compile(text)


def number(name: str) -> int:
    return list(KERNELS).index(name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_without_a_race_runs_once(module, name, seed):
    assert not launched(module, seed, f"right{number(name)}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", [name for name, (_, less) in KERNELS.items() if less])
def test_one_with_a_race_is_run_again_and_reported(module, name, seed):
    with pytest.raises(KernelFault) as caught:
        launched(module, seed, kernel := f"wrong{number(name)}")
    assert caught.value.kind in ("race", "warp-race") and module.recorded == {kernel}


@pytest.mark.parametrize("lanes", ["0x0000ffff", "0xffffffff"])
def test_what_only_looks_like_a_race_is_none(lanes):
    """Half a warp meets: epochs know only meetings of whole ones."""
    half = f"""{K}int* x) {{
    __shared__ int row[64];
    int t = threadIdx.x;
    if ({lanes} >> t % 32 & 1) {{
        row[t] = t;
        __syncwarp({lanes});
        x[64 * blockIdx.x + t] = row[t ^ 1];
    }}
}}"""
    assert bool(launched(device().compile(half), 0)) == (lanes == "0x0000ffff")


LEAVES = {
    "after a store": f"""{K}int* x) {{
    if (threadIdx.x == 3) {{
        x[64 * blockIdx.x] = 1;
        return;
    }}
    __syncthreads();
    x[64 * blockIdx.x + threadIdx.x + (threadIdx.x == 0)] = x[64 * blockIdx.x];
}}""",
    "after a read that others make too": f"""{K}int* x) {{
    __shared__ int one;
    int t = threadIdx.x;
    if (t == 0) one = 1;
    __syncthreads();
    x[64 * blockIdx.x + t] = one;
    if (t == 40) {{
        x[64 * blockIdx.x + 40] += one;
        return;
    }}
    __syncthreads();
    if (t == 0) one = 2;
}}""",
}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("source", LEAVES.values(), ids=LEAVES)
def test_an_access_that_no_later_barrier_orders(source, seed):
    """A thread ends; the others go on to a barrier."""
    module = device().compile(source)
    with pytest.raises(KernelFault) as caught:
        launched(module, seed)
    assert caught.value.kind == "race" and module.recorded == {"k"}


UNSET = """
    __shared__ int row[64];
    int t = threadIdx.x;
    if (t > 8) row[t] = t;
    __syncthreads();
"""


@pytest.mark.parametrize(
    "reads",
    [
        "x[t] = ((char*)row)[4 * (t + 9)]; x[t] = row[t + 9 - 1] > 2;",
        "int4 some = ((int4*)row)[2]; x[t] = some.w; if (row[8] > 3) x[t] = 2;",
        "for (int i = 63; i >= 8; i--) if (row[i] > 5) x[t] = 2;",
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_what_several_read_has_been_written(reads, seed):
    """An element is unset; others have read it without using it, or read what lies beside it."""
    module = device().compile(f"{K}int* x) {{ {UNSET} x += 64 * blockIdx.x; if (t < 32) {{ {reads} }} }}")
    with pytest.raises(KernelFault) as caught:
        launched(module, seed)
    assert caught.value.kind == "uninitialised-read"
