"""Texels against a model in NumPy of what the programming guide says; and what is wrong with objects and coordinates."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from backwarp.devices import texture as tx
from backwarp.devices.texture import ChannelFormatDescriptor, CUDAarray, ResourceDescriptor, TextureDescriptor
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import FLAVOURS, K, device, zeros

SOURCE = f"""
{K}one(float* out, cudaTextureObject_t image, const float* at) {{ out[threadIdx.x] = tex1D<float>(image, at[threadIdx.x]); }}
{K}two(float* out, cudaTextureObject_t image, const float* at) {{
    out[threadIdx.x] = tex2D<float>(image, at[threadIdx.x], at[(threadIdx.x + 7) % 32]);
}}
{K}three(float* out, cudaTextureObject_t image, const float* at) {{
    int i = threadIdx.x;
    out[i] = tex3D<float>(image, at[i], at[(i + 7) % 32], at[(i + 14) % 32]);
}}
{K}fetch(float* out, cudaTextureObject_t line, int first) {{ out[threadIdx.x] = tex1Dfetch<float>(line, first + int(threadIdx.x)); }}
{K}whole(int* out, cudaTextureObject_t image) {{ out[threadIdx.x] = tex2D<int>(image, threadIdx.x, 0); }}
{K}gather(float* out, cudaTextureObject_t image) {{ out[threadIdx.x] = tex2Dgather<float4>(image, 1, 1).x; }}
{K}copy(cudaSurfaceObject_t to, cudaSurfaceObject_t from, int step) {{
    int x = step * int(threadIdx.x);
    float value;
    surf2Dread(&value, from, x, 1);
    surf2Dwrite(value, to, x, 1);
}}
{K}turn(cudaSurfaceObject_t image) {{
    int x = threadIdx.x;
    float value = surf2Dread<float>(image, 4 * x, 0);
    surf2Dwrite(value, image, 4 * ((x + 1) % 8), 0);
}}
"""
SOURCE += f"""
{K}stale(float* line, cudaTextureObject_t texture, float* out) {{
    int i = threadIdx.x;
    line[i] = i;
    __syncthreads();
    out[i] = tex1Dfetch<float>(texture, 31 - i);
}}
{K}hasty(float* line, cudaTextureObject_t texture, float* out) {{
    int i = threadIdx.x;
    line[i] = i;
    out[i] = tex1Dfetch<float>(texture, 31 - i);
}}
"""
FETCHES = (
    "tex1Dfetch(&x, texture, i + 32);",
    'asm("tex.1d.v4.f32.s32 {%0, _, _, _}, [%1, {%2}];" : "=f"(x) : "l"(texture), "r"(i + 32));',
)
for name, how in zip(("early", "early_in_ptx"), FETCHES, strict=True):
    SOURCE += f"""
{K}{name}(float* line, cudaTextureObject_t texture, float* out) {{
    int i = threadIdx.x;
    float x;
    if (i < 32) {{
        {how}
        if (x > 1) out[i] = x;
        return;
    }}
    __syncthreads();
    line[i] = i;
}}
"""
N = (5, 4, 3)  # in x, y and z
DATA = np.random.default_rng(7).integers(-100, 100, N[::-1]).astype(np.float32)
AT = np.linspace(-7.3, 11.1, 32, dtype=np.float32)


def image(dimensions: int = 2, flags: int = 0, checks: str = "full", written: bool = True) -> CUDAarray:
    shape = (*N[:dimensions], 0, 0)[:3]
    made = CUDAarray(ChannelFormatDescriptor.of("f4"), *shape, flags, device=device(checks), name="image")
    if written:
        made.copy_from(DATA[(0,) * (3 - dimensions)])
    return made


def texture(array: CUDAarray, **how) -> tx.TextureObject:
    return tx.TextureObject(ResourceDescriptor(tx.ARRAY, cuArr=array), TextureDescriptor(**how))


def surface(array: CUDAarray) -> tx.SurfaceObject:
    return tx.SurfaceObject(ResourceDescriptor(tx.ARRAY, cuArr=array))


@cache
def module(checks: str):
    return device(checks).compile(SOURCE)


def launch(name: str, *args, checks: str = "full", block: int = 32):
    return module(checks).get_function(name)(1, block, args)


# -- the model ---------------------------------------------------------------------------------------------


def axis(x: float, n: int, mode: int, linear: bool, normalised: bool) -> list[tuple[int, float]]:
    """The texels in one direction, -1 outside, with their weights."""
    if not normalised and mode in (tx.WRAP, tx.MIRROR):
        mode = tx.CLAMP
    if normalised:
        whole = np.floor(x)
        x = x - whole if mode == tx.WRAP else x
        if mode == tx.MIRROR:
            x = 1 - (x - whole) if whole % 2 else x - whole
        x = x * n
    if linear:
        at = round_half_up(256 * (x - 0.5)) / 256
        first, part = int(np.floor(at)), at - np.floor(at)
        found = [(first, 1 - part), (first + 1, part)]
    else:
        found = [(int(np.floor(x)), 1.0)]

    def placed(i: int) -> int:
        if 0 <= i < n or mode == tx.BORDER:
            return i if 0 <= i < n else -1
        return i % n if mode == tx.WRAP else min(max(i, 0), n - 1)

    return [(placed(i), weight) for i, weight in found]


def round_half_up(x: float) -> float:
    return np.floor(x + 0.5)


def modelled(dimensions: int, mode: int, linear: bool, normalised: bool, border: float) -> np.ndarray:
    data, found = DATA[(0,) * (3 - dimensions)], []
    for i in range(32):
        axes = [axis(float(AT[(i + 7 * a) % 32]), N[a], mode, linear, normalised) for a in range(dimensions)]
        total = 0.0
        for corner in itertools.product(*axes):
            place = tuple(at for at, _ in corner)[::-1]
            total += np.prod([w for _, w in corner]) * (border if -1 in place else float(data[place]))
        found.append(total)
    return np.array(found, np.float32)


HOW = list(
    itertools.product((1, 2, 3), (tx.WRAP, tx.CLAMP, tx.MIRROR, tx.BORDER), (False, True), (False, True))
)


@pytest.mark.parametrize("checks", FLAVOURS)
def test_texels_are_found_and_filtered_as_the_guide_says(checks):
    at = device(checks).array(AT, name="at")
    for dimensions, mode, linear, normalised in HOW:
        how = dict(addressModes=(mode,) * 3, filterMode=int(linear), normalizedCoords=int(normalised))
        out = zeros(32, checks=checks)
        name = ("one", "two", "three")[dimensions - 1]
        launch(
            name, out, texture(image(dimensions, checks=checks), borderColors=(9,), **how), at, checks=checks
        )
        expected = modelled(dimensions, mode, linear, normalised, 9)
        assert np.allclose(out.get(), expected, rtol=1e-6, atol=1e-5), how


# -- what is wrong -----------------------------------------------------------------------------------------


def fault(name: str, *args, block: int = 1) -> KernelFault:
    with pytest.raises(KernelFault) as caught:
        launch(name, *args, block=block)
    return caught.value


def test_objects_that_do_not_fit():
    out, plain, line = zeros(32), image(), device("full").array(DATA[0, 0], name="line")
    whole = zeros(32, np.int32)
    line_object = tx.TextureObject(
        ResourceDescriptor(tx.LINEAR_MEMORY, arr=line, chDesc=plain.desc, sizeInBytes=20), TextureDescriptor()
    )
    at = device("full").array(AT)
    said = {
        "surf2Dread() is given a texture object of image": (
            "copy",
            texture(plain),
            texture(plain),
            np.int32(4),
        ),
        "tex2D() is given a surface object of image": ("two", out, surface(image(flags=tx.SURFACE)), at),
        "tex1D() does not fit image, which is 5 x 4 texels of float32": ("one", out, texture(plain), at),
        "tex2D() reads a CUDA array, and line is linear memory": ("two", out, line_object, at),
        "image is 5 x 4 texels of float32: read it with tex2D()": ("fetch", out, texture(plain), np.int32(0)),
        "tex2D() is to return integers here; image has texels of float32": ("whole", whole, texture(plain)),
        "tex2Dgather() needs a CUDA array made for it": ("gather", out, texture(plain)),
        "This is the address of line": ("fetch", out, line, np.int32(0)),
        "The object is 0": ("fetch", out, np.uint64(0), np.int32(0)),
        "0x5 is no texture or surface object": ("fetch", out, np.uint64(5), np.int32(0)),
    }
    for words, (name, *args) in said.items():
        found = fault(name, *args)
        assert found.kind == "invalid-texture" and words in found.explanation, found
    gone = texture(image()).ptr
    assert "or its array is gone" in fault("two", out, np.uint64(gone), at).explanation


def test_coordinates_outside_a_surface():
    given, taken = surface(image(flags=tx.SURFACE)), surface(image(flags=tx.SURFACE))
    found = fault("copy", given, taken, np.int32(4), block=8)
    assert (found.kind, found.array, found.count, found.thread) == ("out-of-bounds", "image", 3, (5, 0, 0))
    assert "surf2Dread() reads image at x = 20 bytes, y = 1" in found.explanation
    assert "so x goes from 0 to 16: it counts bytes" in found.explanation
    found = fault("copy", given, taken, np.int32(1), block=8)  # the size was forgotten
    assert (found.kind, found.thread) == ("misaligned", (1, 0, 0))
    assert "x counts bytes: it must be a multiple of 4" in found.explanation


def test_texels_that_were_never_written():
    at = device("full").array(np.float32([0.5] * 32))
    found = fault("two", zeros(32), texture(image(written=False)), at)
    assert (found.kind, found.array, found.index) == ("uninitialised-read", "image", "y=0,x=0")
    fresh = surface(image(flags=tx.SURFACE, written=False))
    found = fault("copy", surface(image(flags=tx.SURFACE)), fresh, np.int32(4))
    assert (found.kind, found.array, found.index) == ("uninitialised-read", "image", "y=1,x=0")


def test_threads_that_race_in_a_surface():
    wide = CUDAarray(
        ChannelFormatDescriptor.of("f4"), 8, 1, 0, tx.SURFACE, device=device("full"), name="image"
    )
    wide.copy_from(np.zeros((1, 8), np.float32))
    found = fault("turn", surface(wide), block=8)
    assert (found.kind, found.array) == ("race", "image")


def test_textures_of_what_the_launch_stores():
    """Whatever the order of the threads."""
    line = device("full").array(np.zeros(32, np.float32), name="line")
    resource = ResourceDescriptor(tx.LINEAR_MEMORY, arr=line, chDesc=image().desc, sizeInBytes=128)
    given = line, tx.TextureObject(resource, TextureDescriptor()), zeros(32)
    found = fault("stale", *given, block=32)
    assert (found.kind, found.array, found.count) == ("stale-texel", "line", 32)
    assert found.other.line == found.line - 2
    for seed in range(4):
        device("full").schedule = seed
        found = fault("hasty", *given, block=32)
        assert (found.kind, found.array, [f.kind for f in found.more]) == ("race", "line", [])
    device("full").schedule = 0


@pytest.mark.parametrize("name", ["early", "early_in_ptx"])
def test_a_thread_that_leaves_early_is_not_ordered_by_barriers(name):
    line = device("full").array(np.zeros(64, np.float32), name="line")
    resource = ResourceDescriptor(tx.LINEAR_MEMORY, arr=line, chDesc=image().desc, sizeInBytes=256)
    found = fault(name, line, tx.TextureObject(resource, TextureDescriptor()), zeros(32), block=64)
    assert (found.kind, found.array) == ("race", "line")


def test_a_texture_of_no_more_than_its_memory():
    out, line = zeros(32), device("full").array(np.arange(8, dtype=np.float32))
    resource = ResourceDescriptor(tx.LINEAR_MEMORY, arr=line, chDesc=image().desc, sizeInBytes=20)
    launch("fetch", out, tx.TextureObject(resource, TextureDescriptor()), np.int32(-1))
    assert out.get()[:8].tolist() == [0, 0, 1, 2, 3, 4, 0, 0]  # zero outside
