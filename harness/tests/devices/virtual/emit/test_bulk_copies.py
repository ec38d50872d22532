"""Copies of many bytes and of tensors, and the barriers that count their bytes."""

from __future__ import annotations

import contextlib
from functools import cache

import numpy as np
import pytest

from backwarp.errors import KernelFault, LaunchError
from tests.devices.virtual import tensor_model as model
from tests.devices.virtual.launches import device, line_of

_HEAD = r"""
typedef unsigned u32; typedef unsigned long long u64;
__device__ u32 in_shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u64* b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(in_shared(b)), "r"(n) : "memory"); }
__device__ void expect(u64* b, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(in_shared(b)), "r"(bytes) : "memory"); }  // EXPECTED
__device__ void arrive(u64* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(in_shared(b)) : "memory"); }
__device__ void wait(u64* b, u32 parity) {
    asm volatile("{\n.reg .pred p;\nL:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra L;\nD:\n}" :: "r"(in_shared(b)), "r"(parity) : "memory");  // WAITED
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void arrived() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
"""
_LOAD = "cp.async.bulk.tensor.{n}d.shared::cluster.global.{mode}mbarrier::complete_tx::bytes"


def _coordinates(first: int, n: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(n)) + "}"


def _operands(name: str, n: int, kind: str = '"r"') -> str:
    return ", ".join(f"{kind}({name}{i})" for i in range(n))


def _arguments(name: str, n: int, type_: str = "int") -> str:
    return ", ".join(f"{type_} {name}{i}" for i in range(n))


def _kernel(name: str, arguments: str, copy: str) -> str:
    """Copies into shared memory, and from there all its bytes to y."""
    return f"""
extern "C" __global__ void {name}(const __grid_constant__ CUtensorMap map, unsigned char* y, int bytes, {arguments}) {{
    __shared__ alignas(1024) unsigned char tile[32768];
    __shared__ u64 bar;
    if (threadIdx.x == 0) {{
        init(&bar, 1);
        fence_init();
        expect(&bar, bytes);
        {copy}
    }}
    __syncthreads();
    wait(&bar, 0);
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) y[i] = tile[i];
}}"""


def _loads() -> str:
    text = _HEAD
    for n in range(1, 6):
        copy = f"{_LOAD.format(n=n, mode='tile.')} [%0], [%1, {_coordinates(3, n)}], [%2];"
        given = f'"r"(in_shared(tile)), "l"(&map), "r"(in_shared(&bar)), {_operands("x", n)}'
        text += _kernel(f"load{n}", _arguments("x", n), f'asm volatile("{copy}" :: {given} : "memory");')
    for n in range(3, 6):
        copy = f"{_LOAD.format(n=n, mode='im2col.')} [%0], [%1, {_coordinates(3, n)}], [%2], {_coordinates(3 + n, n - 2)};"
        given = f'"r"(in_shared(tile)), "l"(&map), "r"(in_shared(&bar)), {_operands("x", n)}, '
        given += _operands("o", n - 2, '"h"')
        arguments = f"{_arguments('x', n)}, {_arguments('o', n - 2, 'unsigned short')}"
        text += _kernel(f"im2col{n}", arguments, f'asm volatile("{copy}" :: {given} : "memory");')
    return text


def _stores() -> str:
    """The tile comes from x by ordinary stores."""
    text = _HEAD
    for n in range(1, 6):
        for name, opcode in (("store", "cp.async.bulk"), ("add", "cp.reduce.async.bulk")):
            how = ".add.tile" if name == "add" else ".tile"
            copy = (
                f"{opcode}.tensor.{n}d.global.shared::cta{how}.bulk_group [%0, {_coordinates(2, n)}], [%1];"
            )
            given = f'"l"(&map), "r"(in_shared(tile)), {_operands("x", n)}'
            text += f"""
extern "C" __global__ void {name}{n}(const __grid_constant__ CUtensorMap map, const unsigned char* from, int bytes, {_arguments("x", n)}) {{
    __shared__ alignas(1024) unsigned char tile[32768];
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) tile[i] = from[i];
    fence_async();
    __syncthreads();
    if (threadIdx.x) return;
    asm volatile("{copy}" :: {given} : "memory");
    commit();
    arrived();
}}"""
    return text


@cache
def _module(checks: str, stores: bool = False):
    return device(checks).compile(_stores() if stores else _loads())


def _launch(checks: str, name: str, tensor, given: np.ndarray, coordinates, offsets=()):
    dev = device(checks)
    data = dev.array(given.view(np.uint8).reshape(-1), "data")
    numbers = [np.int32(x) for x in reversed(coordinates)] + [np.uint16(x) for x in reversed(offsets)]
    kernel = _module(checks, not name.startswith(("load", "im2col"))).get_function(name)
    kernel(1, 64, (tensor, data, np.int32(given.nbytes), *numbers))
    return data.get()


def _shape(rng, rank: int, size: int) -> tuple[int, ...]:
    """The innermost axis takes a multiple of 16 bytes."""
    outer = [int(n) for n in rng.integers(2, 7, rank - 1)]
    return (*outer, int(rng.integers(1, 9)) * max(16 // size, 1))


def _numbers(rng, shape, dtype) -> np.ndarray:
    return rng.integers(1, 100, shape).astype(dtype)


SWIZZLES = ("none", "32B", "64B", "128B")
TYPES = (np.uint8, np.uint16, np.int32, np.float16, np.float32, np.float64, np.int64)


def _box(rng, shape, size: int, swizzle: str) -> tuple[int, ...]:
    """Boxes larger than the tensor overhang. Swizzled ones fill whole patterns."""
    rank = len(shape)
    if swizzle == "none" or rank == 1:
        return (*(int(n) for n in rng.integers(1, 5, rank - 1)), int(rng.integers(1, 5)) * 16 // size)
    outer = [int(n) for n in rng.integers(1, 4, rank - 2)]
    return (*outer, 8, int(swizzle[:-1]) // size)


@pytest.mark.parametrize("checks", ["full", "memory"])
@pytest.mark.parametrize("rank", range(1, 6))
def test_a_tile_is_what_the_model_says(rank, checks):
    rng = np.random.default_rng(rank)
    for case in range(8):
        dtype, swizzle = TYPES[(case + rank) % len(TYPES)], SWIZZLES[case % 4 * (rank > 1)]
        size = np.dtype(dtype).itemsize
        shape = _shape(rng, rank, size)
        x, box = _numbers(rng, shape, dtype), _box(rng, shape, size, swizzle)
        steps = (*(int(n) for n in rng.integers(1, 4 if swizzle == "none" else 2, rank - 1)), 1)
        start = [int(rng.integers(-3, n + 2)) for n in shape]
        oob = "nan" if np.dtype(dtype).kind == "f" and case % 2 else "zeros"
        wanted = model.tile(x, start, box, steps, np.nan if oob == "nan" else 0)
        tensor = device(checks).tensor_map(device(checks).array(x, "x"), box, swizzle, steps, oob)
        found = _launch(checks, f"load{rank}", tensor, np.zeros(wanted.nbytes, np.uint8), start)
        at = model.swizzled(np.arange(wanted.nbytes), swizzle)
        np.testing.assert_array_equal(found[at].view(dtype).reshape(wanted.shape), wanted)


@pytest.mark.parametrize("checks", ["full", "memory"])
@pytest.mark.parametrize("rank", range(3, 6))
def test_pixels_are_what_the_model_says(rank, checks):
    """As a convolution with padding, strides and dilation reads them, from one image to the next."""
    rng = np.random.default_rng(rank)
    for case in range(6):
        spatial = rank - 2
        extents = [int(n) for n in rng.integers(3, 7, spatial)]
        x = _numbers(rng, (3, *extents, 16), np.float16)
        filters, dilation = rng.integers(1, 4, spatial), rng.integers(1, 3, spatial)
        padding, steps = rng.integers(0, 3, spatial), [int(n) for n in rng.integers(1, 4, spatial)]
        lower = [-int(p) for p in padding]
        upper = [int(p - (f - 1) * d) for p, f, d in zip(padding, filters, dilation)]
        if any(n + u - l < 1 for n, u, l in zip(extents, upper, lower)):
            continue
        swizzle = ("none", "32B")[case % 2]
        offsets = [int(rng.integers(f) * d) for f, d in zip(filters, dilation)]
        start = [int(rng.integers(2)), *lower, int(rng.integers(0, 9))]
        wanted = model.im2col(x, start, offsets, 16, 24, lower, upper, steps)
        dev = device(checks)
        tensor = dev.tensor_map_im2col(dev.array(x, "x"), 16, 24, lower, upper, swizzle, steps)
        given = np.zeros(wanted.nbytes, np.uint8)
        found = _launch(checks, f"im2col{rank}", tensor, given, start, offsets)
        at = model.swizzled(np.arange(wanted.nbytes), swizzle)
        np.testing.assert_array_equal(found[at].view(x.dtype).reshape(wanted.shape), wanted)


@pytest.mark.parametrize("checks", ["full", "memory"])
@pytest.mark.parametrize("rank", range(1, 6))
def test_a_stored_tile_changes_what_is_inside_alone(rank, checks):
    rng = np.random.default_rng(rank)
    for case, name in enumerate(("store", "add") * 3):
        dtype, swizzle = TYPES[(case + rank) % len(TYPES)], SWIZZLES[case % 4 * (rank > 1)]
        if name == "add" and np.dtype(dtype).itemsize < 4 and dtype is not np.float16:
            dtype = np.float32
        size = np.dtype(dtype).itemsize
        shape = _shape(rng, rank, size)
        x, box = _numbers(rng, shape, dtype), _box(rng, shape, size, swizzle)
        start = [int(rng.integers(-2, n)) for n in shape]
        brought = _numbers(rng, box, dtype)
        wanted = x.copy()
        for index in np.ndindex(*box):
            at = tuple(s + i for s, i in zip(start, index))
            if all(0 <= a < n for a, n in zip(at, shape)):
                wanted[at] = brought[index] + (x[at] if name == "add" else 0)
        dev = device(checks)
        target = dev.array(x, "x")
        tensor = dev.tensor_map(target, box, swizzle)
        _launch(checks, f"{name}{rank}", tensor, model.in_memory(brought, swizzle), start)
        np.testing.assert_array_equal(target.get(), wanted)


# -- wrong kernels ------------------------------------------------------------------------------------------

_PLAIN = (
    _HEAD
    + r"""
#define COPY "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, float* y) {
    __shared__ alignas(1024) float tile[32 * 32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 1); fence_init(); }
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&bar, sizeof tile);
        asm volatile(COPY :: "r"(in_shared(tile)), "l"(&map), "r"(0), "r"(0), "r"(in_shared(&bar)) : "memory");  // COPIED
    }
    wait(&bar, 0);
    for (int i = threadIdx.x; i < 32 * 32; i += blockDim.x) y[i] = tile[i];  // READ
}
"""
)


def _plain(*changes: tuple[str, str], checks: str = "full", box=(32, 32), array=None):
    """Runs the kernel with some of its text changed."""
    source = _PLAIN
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    dev = device(checks)
    x = dev.array(np.arange(1024, dtype=np.float32).reshape(32, 32), "x", "mk") if array is None else array
    y = dev.empty((32, 32), name="y")
    dev.compile(source).get_function("k")(1, 128, (dev.tensor_map(x, box), y))
    return y.get(), source


def test_a_tile_that_is_waited_for_has_arrived():
    for checks in ("full", "memory", "none"):
        assert (_plain(checks=checks)[0].reshape(-1) == np.arange(1024)).all()


@pytest.mark.parametrize("wait", ["", "wait(&bar, 1);"])
def test_without_the_wait_nothing_has_arrived(wait):
    """With the other parity, too: that phase is over at once."""
    with pytest.raises(KernelFault) as caught:
        _plain(("wait(&bar, 0);", wait))
    fault = caught.value
    assert (fault.kind, fault.array, fault.line) == ("race", "tile", line_of(_PLAIN, "READ"))
    assert fault.other.line == line_of(_PLAIN, "COPIED")
    assert np.isnan(_plain(("wait(&bar, 0);", wait), checks="memory")[0]).all()


@pytest.mark.parametrize(
    "changes, says",
    [
        ([("sizeof tile)", "2 * sizeof tile)")], ("8,192 bytes", "4,096 bytes are under way")),
        ([("sizeof tile)", "sizeof tile / 2)")], ("2,048 bytes", "4,096 bytes are under way")),
        ([("init(&bar, 1)", "init(&bar, 2)")], ("1 arrival",)),
        ([("init(&bar, 1)", "init(&bar, 130)")], ("129 arrivals",)),
    ],
)
def test_a_phase_that_never_ends_is_told_at_once(changes, says):
    with pytest.raises(KernelFault) as caught:
        _plain(*changes)
    fault, source = caught.value, _PLAIN
    assert (fault.kind, fault.line) == ("stuck-at-phase", line_of(source, "WAITED"))
    assert fault.other.line == line_of(source, "EXPECTED")
    assert all(each in fault.explanation for each in says)


def test_an_arrival_that_a_phase_does_not_expect_is_named():
    """The bytes of the first are still under way, so its phase is not over."""
    again = "expect(&bar, sizeof tile);\n        arrive(&bar);"
    with pytest.raises(KernelFault) as caught:
        _plain(("expect(&bar, sizeof tile);", again))
    fault = caught.value
    assert (fault.kind, fault.array) == ("too-many", "bar")
    assert fault.other.line == line_of(_PLAIN, "EXPECTED") and "has 1 arrival, and" in fault.explanation


@pytest.mark.parametrize(
    "changes, kind",
    [
        ([("in_shared(tile)", "in_shared(tile + 4)")], "misaligned"),
        ([("in_shared(tile)", "in_shared(tile + 32)")], "out-of-bounds"),
        ([('"l"(&map)', '"l"(y)')], "invalid-map"),
        ([("tensor.2d", "tensor.3d"), ("{%2, %3}", "{%2, %3, %3}")], "invalid-map"),
    ],
)
def test_a_copy_is_checked_where_it_is_started(changes, kind):
    with pytest.raises(KernelFault) as caught:
        _plain(*changes)
    assert (caught.value.kind, caught.value.line) == (kind, line_of(_PLAIN, "COPIED"))


_FORGED = (
    _HEAD
    + r"""
struct Copied { u64 words[16]; };
extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, float* y, Copied* own, int word, u64 value, bool wrecked) {
    __shared__ alignas(1024) float tile[32 * 32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) {
        *own = *(const Copied*)&map;
        if (word >= 0) own->words[word] = value;
        init(&bar, 1);
        fence_init();
        expect(&bar, sizeof tile);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];"
            :: "r"(in_shared(tile)), "l"(own), "r"(0), "r"(in_shared(&bar)) : "memory");
        for (int i = 0; wrecked && i < 16; i++) own->words[i] = ~0ull;
    }
    __syncthreads();
    wait(&bar, 0);
    for (int i = threadIdx.x; i < 32 * 32; i += blockDim.x) y[i] = tile[i];
}
"""
)


def _forged(word: int = -1, value: int = 0, wrecked: bool = False, checks: str = "full"):
    dev = device(checks)
    x = dev.array(np.arange(1024, dtype=np.float32).reshape(32, 32), "x")
    y, own = dev.empty((32, 32), name="y"), dev.array(np.zeros(16, np.uint64), "own")
    forged = dev.compile(_FORGED).get_function("k")
    forged(1, 128, (dev.tensor_map(x, (32, 32)), y, own, np.int32(word), np.uint64(value), np.bool_(wrecked)))
    return y.get()


@pytest.mark.parametrize("checks", ["full", "memory"])
def test_a_copy_has_the_map_as_it_was_when_it_began(checks):
    """A kernel may copy a map, and change the copy while it is in use."""
    assert (_forged(wrecked=True, checks=checks).reshape(-1) == np.arange(1024)).all()


@pytest.mark.parametrize("checks", ["full", "memory"])
@pytest.mark.parametrize("word", [*range(2), *range(7, 15)])
def test_a_map_that_a_kernel_has_changed_leads_nowhere(word, checks):
    """Its type, address, size of elements, box, steps and kind: for each a fault, or the numbers of a smaller tile."""
    for value in (0, ~0, 0x0000010000000100):
        with contextlib.suppress(KernelFault):
            _forged(word, value & (1 << 64) - 1, checks=checks)
    assert (_forged(checks=checks).reshape(-1) == np.arange(1024)).all()


def test_a_tile_may_not_be_overwritten_while_others_read_it():
    source = (
        _HEAD
        + r"""
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ alignas(16) float tile[128];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 1); fence_init(); }
    __syncthreads();
    float sum = 0;
    for (int n = 0; n < 4; n++) {
        if (threadIdx.x == 0) {
            expect(&bar, sizeof tile);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                :: "r"(in_shared(tile)), "l"(x + 128 * n), "n"(512), "r"(in_shared(&bar)) : "memory");
        }
        wait(&bar, n & 1);
        sum += tile[threadIdx.x];  // READ
        __syncthreads();  // ALL HAVE READ
    }
    y[threadIdx.x] = sum;
}"""
    )
    dev = device()
    x = dev.array(np.arange(512, dtype=np.float32), "x")
    y = dev.empty(128, name="y")
    dev.compile(source).get_function("k")(1, 128, (x, y))
    assert (y.get() == x.get().reshape(4, 128).sum(0)).all()
    with pytest.raises(KernelFault) as caught:
        dev.compile(source.replace("__syncthreads();  // ALL", "// ALL")).get_function("k")(1, 128, (x, y))
    assert caught.value.kind == "race" and caught.value.array == "tile"


def test_a_store_is_waited_for_before_the_block_ends():
    source = (
        _HEAD
        + r"""
extern "C" __global__ void k(float* y) {
    __shared__ alignas(16) float tile[128];
    tile[threadIdx.x] = threadIdx.x;
    fence_async();
    __syncthreads();
    if (threadIdx.x) return;
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" :: "l"(y), "r"(in_shared(tile)) : "memory");  // STORED
    commit();
    arrived();
}"""
    )
    dev = device()
    y = dev.empty(128, name="y")
    dev.compile(source).get_function("k")(1, 128, (y,))
    assert (y.get() == np.arange(128)).all()
    with pytest.raises(KernelFault) as caught:
        dev.compile(source.replace("arrived();\n}", "}")).get_function("k")(1, 128, (y,))
    assert (caught.value.kind, caught.value.line) == ("under-way", line_of(source, "STORED"))


def test_one_lane_is_elected_not_always_the_first():
    source = """extern "C" __global__ void k(int* y) {
    unsigned leader, mine;
    asm volatile("{.reg .pred p; elect.sync %0|p, 0xffffffff; selp.u32 %1, 1, 0, p;}" : "=r"(leader), "=r"(mine));
    if (mine) atomicAdd(&y[0], 1);
    y[1 + threadIdx.x] = leader == threadIdx.x == mine;
}"""
    for seed in (0, 1):
        dev = device("memory")
        dev.schedule = seed
        y = dev.array(np.zeros(33, np.int32), "y")
        dev.compile(source).get_function("k")(1, 32, (y,))
        dev.schedule = 0
        assert y.get().tolist() == [1] * 33


# -- maps that the driver would refuse ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape, arguments, says",
    [
        ((8, 6), dict(box=(8, 4)), "multiple of 16"),
        ((8, 8), dict(box=(8, 3)), "multiple of 16"),
        ((8, 8), dict(box=(257, 4)), "1 to 256"),
        ((8, 8), dict(box=(8, 8), element_strides=(9, 1)), "1 to 8"),
        ((8, 64), dict(box=(8, 64), swizzle="128B"), "at most 128"),
        ((8, 8), dict(box=(8,)), "1 numbers for 2 axes"),
        ((2,) * 5 + (4,), dict(box=(1,) * 6), "1 to 5 axes"),
        ((8, 8), dict(box=(8, 8), oob="nothing"), "one of"),
        ((8, 8), dict(box=(8, 8), shape=(9, 8)), "reaches"),
        ((8, 8), dict(box=(8, 8), dtype="bfloat16"), "uint16"),
    ],
)
def test_what_the_encoder_refuses_is_refused(shape, arguments, says):
    dev = device("memory")
    with pytest.raises(LaunchError, match=says):
        dev.tensor_map(dev.array(np.zeros(shape, np.float32), "x"), **arguments)


@pytest.mark.parametrize(
    "shape, arguments, says",
    [
        ((8, 8), dict(channels=8, pixels=8, lower=(), upper=()), "3 to 5 axes"),
        ((2, 8, 8, 8), dict(channels=8, pixels=1025, lower=(0, 0), upper=(0, 0)), "1 to 1024"),
        ((2, 8, 8, 8), dict(channels=257, pixels=8, lower=(0, 0), upper=(0, 0)), "1 to 256"),
        ((2, 8, 8, 8), dict(channels=8, pixels=8, lower=(-129, 0), upper=(0, 0)), "-128 to 127"),
        ((2, 8, 8, 8), dict(channels=8, pixels=8, lower=(0, 0), upper=(-8, 0)), "empty"),
        ((2, 8, 8, 8), dict(channels=6, pixels=8, lower=(0, 0), upper=(0, 0)), "multiple of 16"),
    ],
)
def test_so_it_is_for_pixels(shape, arguments, says):
    dev = device("memory")
    with pytest.raises(LaunchError, match=says):
        dev.tensor_map_im2col(dev.array(np.zeros(shape, np.float32), "x"), **arguments)


def test_boxes_are_counted_apart_from_plain_copies_and_waits_by_what_they_find():
    source = (
        _HEAD
        + r"""
extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, const float* x, float* y, int again) {
    __shared__ alignas(128) float box[32], plain[32];
    __shared__ u64 full, other;
    if (threadIdx.x == 0) {
        init(&full, 1);
        init(&other, 1);
        fence_init();
        expect(&full, 256);
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];"  // BOX
                     :: "r"(in_shared(box)), "l"(&map), "r"(0), "r"(in_shared(&full)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"  // PLAIN
                     :: "r"(in_shared(plain)), "l"(x), "r"(in_shared(&full)) : "memory");
    }
    __syncthreads();
    wait(&full, 0);  // not before both have landed
    for (int i = 0; i < again; i++) wait(&full, 0);
    if (threadIdx.x < 5) wait(&other, 1);  // before the first phase is over
    if (threadIdx.x < 32) y[threadIdx.x] = box[threadIdx.x] + plain[threadIdx.x];
}"""
    )
    for blocks, threads, again in ((1, 32, 0), (2, 96, 1), (3, 64, 3)):
        gpu = device("count")
        x = gpu.array(np.arange(32, dtype=np.float32))
        y = gpu.empty(32, np.float32)
        kernel = gpu.compile(source).get_function("k")
        counts = kernel(blocks, threads, (gpu.tensor_map(x, (32,)), x, y, np.int32(again))).counters
        assert (y.get() == 2 * np.arange(32)).all()
        assert (counts["bulk_copies"], counts["bulk_boxes"]) == (2 * blocks, blocks)
        assert counts["lines"][line_of(source, "BOX")]["bulk_boxes"] == blocks
        assert "bulk_boxes" not in counts["lines"][line_of(source, "PLAIN")]
        waits = blocks * (threads * (1 + again) + 5)
        assert counts["phase_waits"] == counts["lines"][line_of(source, "WAITED")]["phase_waits"] == waits
        complete = counts["lines"][line_of(source, "WAITED")].get("phase_waits_complete", 0)
        assert counts["phase_waits_complete"] == complete == waits - blocks * threads
