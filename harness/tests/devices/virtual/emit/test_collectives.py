"""Barriers, shuffles, votes, match, redux: against a model of the PTX manual's text."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests import KERNELS
from tests.devices.virtual.launches import FLAVOURS, K, chosen, device, in_each_build, line_of, only

WARPS = 2
N = 32 * WARPS
LANE = np.arange(N) % 32
WIDTHS = (1, 2, 4, 8, 16, 32)
RNG = np.random.default_rng(11)
FULL_MASK = 0xFFFFFFFF

SHUFFLES = {
    "up": "__shfl_up_sync",
    "down": "__shfl_down_sync",
    "bfly": "__shfl_xor_sync",
    "idx": "__shfl_sync",
}
SHUFFLE_SOURCE = "\n".join(
    f"{K}{kind}(int* out, const int* v, const int* b, int width, unsigned mask) {{\n"
    f"  int i = threadIdx.x;\n  out[i] = {call}(mask, v[i], b[i], width);\n}}\n"
    f"{K}{kind}_predicate(int* out, const int* v, const int* b, int c, unsigned mask) {{\n"
    f"  int i = threadIdx.x, r, p;\n"
    f'  asm volatile("{{ .reg .pred q; shfl.sync.{kind}.b32 %0|q, %2, %3, %4, %5; selp.s32 %1, 1, 0, q; }}"\n'
    f'    : "=r"(r), "=r"(p) : "r"(v[i]), "r"(b[i]), "r"(c), "r"(mask));\n  out[i] = 2 * r + p;\n}}'
    for kind, call in SHUFFLES.items()
)


def shuffle(kind: str, values, b, c: int):
    """PTX ISA 9.7.9.6, word for word: (results, predicates) of one warp."""
    results, predicates = [], []
    for lane in range(32):
        bval, cval, mask = int(b[lane]) & 31, c & 31, c >> 8 & 31
        max_lane = (lane & mask) | (cval & ~mask & 31)
        min_lane = lane & mask
        if kind == "up":
            j = lane - bval
            p = j >= max_lane
        elif kind == "down":
            j = lane + bval
            p = j <= max_lane
        elif kind == "bfly":
            j = lane ^ bval
            p = j <= max_lane
        else:
            j = min_lane | (bval & ~mask & 31)
            p = j <= max_lane
        results.append(values[j if p else lane])
        predicates.append(int(p))
    return np.array(results), np.array(predicates)


@pytest.fixture(scope="module")
def shuffles():
    return {checks: device(checks).compile(SHUFFLE_SOURCE) for checks in FLAVOURS}


@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize("kind", SHUFFLES)
def test_shuffles_of_all_widths(shuffles, kind, checks):
    dev = device(checks)
    v = RNG.integers(-(10**9), 10**9, N).astype(np.int32)
    for width in WIDTHS:
        b = RNG.integers(0, 40, N).astype(np.int32)
        out = dev.array(np.zeros(N, np.int32))
        shuffles[checks].get_function(kind)(
            1, N, (out, dev.array(v), dev.array(b), np.int32(width), np.uint32(FULL_MASK))
        )
        c = (32 - width) << 8 | (0 if kind == "up" else 31)  # as CUDA's header has it
        expected = [shuffle(kind, v[w : w + 32], b[w : w + 32], c)[0] for w in range(0, N, 32)]
        np.testing.assert_array_equal(out.get(), np.concatenate(expected))


@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize("kind", SHUFFLES)
def test_shuffles_with_any_clamp_and_their_predicates(shuffles, kind, checks):
    dev = device(checks)
    for c in (0, 31, 0x1F00, 0x1F1F, 0x181F, 0x1003, 0x0C07, 0x071F, 0x1C1C, int(RNG.integers(0, 0x2000))):
        v, b = RNG.integers(0, 1000, N).astype(np.int32), RNG.integers(-5, 70, N).astype(np.int32)
        out = dev.array(np.zeros(N, np.int32))
        shuffles[checks].get_function(f"{kind}_predicate")(
            1, N, (out, dev.array(v), dev.array(b), np.int32(c), np.uint32(FULL_MASK))
        )
        expected = []
        for w in range(0, N, 32):
            results, predicates = shuffle(kind, v[w : w + 32], b[w : w + 32], c)
            expected.append(2 * results + predicates)
        np.testing.assert_array_equal(out.get(), np.concatenate(expected), err_msg=hex(c))


# --- everything else, one kernel each ---------------------------------------------------------------

VALUES = RNG.integers(-4, 5, N).astype(np.int32)
ODD, LOW = 0xAAAAAAAA, 0x0000FFFF


def warp_of(i: int) -> np.ndarray:
    return VALUES[i // 32 * 32 : i // 32 * 32 + 32]


def members(i: int, mask: int) -> np.ndarray:
    return warp_of(i)[[lane for lane in range(32) if mask >> lane & 1]]


def mask_where(i: int, condition) -> int:
    return sum(1 << lane for lane, value in enumerate(warp_of(i)) if condition(value))


def signed(value: int) -> int:
    return int(np.uint32(value & FULL_MASK).view(np.int32))


#: the kernels of kernels/collectives.cu: what each leaves for (i, a[i])
MODELS = {
    "all": lambda i, v: 10 + all(warp_of(i) > 0),
    "any": lambda i, v: 10 * any(warp_of(i) == 4),
    "ballot": lambda i, v: mask_where(i, lambda x: x > 0),
    "ballot_of_some": lambda i, v: mask_where(i, lambda x: x > 0) & ODD if i & 1 else 7,
    "uniform": lambda i, v: 2 + (len(set(warp_of(i) > 0)) == 1),
    "active_mask": lambda i, v: 1,
    "match_any": lambda i, v: mask_where(i, lambda x: x == v),
    "match_any_64": lambda i, v: mask_where(i, lambda x: x == v),
    "match_all": lambda i, v: 12,
    "redux_add": lambda i, v: int(warp_of(i).sum()),
    "redux_add_unsigned": lambda i, v: 32 + int(warp_of(i).sum()),
    "redux_min": lambda i, v: int(warp_of(i).min()) * 1000,
    "redux_max": lambda i, v: int(warp_of(i).max()) * 1000,
    "redux_min_unsigned": lambda i, v: int(warp_of(i).astype(np.uint32).min()),
    "redux_max_unsigned": lambda i, v: int(warp_of(i).astype(np.uint32).max()),
    "redux_and": lambda i, v: reduce(lambda p, q: p & q, (int(x) | 6 for x in warp_of(i))),
    "redux_or": lambda i, v: reduce(lambda p, q: p | q, (int(x) & 12 for x in warp_of(i))),
    "redux_xor": lambda i, v: reduce(lambda p, q: p ^ q, map(int, warp_of(i))),
    "redux_of_some": lambda i, v: (
        int(members(i, LOW).sum()) if i % 32 < 16 else int(members(i, ~LOW & FULL_MASK).max())
    ),
    "shuffle_float": lambda i, v: int(warp_of(i)[min(i % 32 + 3, 31)] if i % 32 < 29 else v),
    "shuffle_double": lambda i, v: 2 * int(warp_of(i)[i % 32 ^ 5]),
    "shuffle_long_long": lambda i, v: 2 * int(warp_of(i)[7]),
    "shuffle_of_halves": lambda i, v: int(warp_of(i)[3 if i % 32 < 16 else 20]),
    "shuffle_in_a_loop": lambda i, v: int(warp_of(i).sum()),
    "shuffle_scan": lambda i, v: int(warp_of(i)[: i % 32 + 1].sum()),
    "shuffle_in_a_function": lambda i, v: int(warp_of(i).sum()) + sum(range(i // 32 * 32, i // 32 * 32 + 32)),
    "two_halves_take_turns": lambda i, v: int(warp_of(i)[1 if i & 1 else 2]) + i // 32 * 32 + 4,
    "exchange_through_shared_memory": lambda i, v: int(VALUES[i ^ 1]) * 100 + (i ^ 3),
    "syncthreads_count": lambda i, v: int((VALUES > 0).sum()) * 100 + 5,
    "syncthreads_and": lambda i, v: 2,
    "syncthreads_or": lambda i, v: 2,
    "barrier_twice": lambda i, v: sum(int(VALUES[(i + k) % 64]) + k for k in range(5)),
    "named_barriers": lambda i, v: int(VALUES[i ^ 31]),
    "named_barrier_at_two_places": lambda i, v: int(VALUES[i ^ 31]),
    "named_barrier_of_all_at_two_places": lambda i, v: int(VALUES[i ^ 31]),
    "producer_and_consumer": lambda i, v: 1 if i < 32 else int(VALUES[63 - i]),
    "barrier_number_in_a_register": lambda i, v: int(VALUES[i ^ 1]),
    "named_barrier_that_counts": lambda i, v: int((VALUES > 0).sum()),
    "barrier_in_a_function": lambda i, v: int(VALUES[63 - i]) + 63 - i,
    "barriers_between_warps_in_turn": lambda i, v: 10,
}
SOURCE = (KERNELS / "collectives.cu").read_text()


@pytest.fixture(scope="module")
def modules(request):
    return {c: device(c).compile(only(SOURCE, chosen(request, checks=c))) for c in FLAVOURS}


@pytest.mark.parametrize("name, checks", in_each_build(dict.fromkeys(MODELS, FLAVOURS)))
def test_collective(modules, name, checks):
    dev, kernel = device(checks), modules[checks].get_function(f"t_{name}")
    expected = [signed(int(MODELS[name](int(i), int(VALUES[i])))) for i in range(N)]
    for dev.schedule in (0, 1, 2):
        out = dev.array(np.zeros(N, np.int32))
        kernel(1, N, (out, dev.array(VALUES, readonly=True)))
        np.testing.assert_array_equal(out.get(), expected)
    dev.schedule = 0


# --- blocks of every shape -------------------------------------------------------------------------

SHAPES = f"""
{K}reverse(int* out, int n) {{
  __shared__ int s[1024];
  int i = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  s[i] = i + 1000 * blockIdx.x;
  __syncthreads();
  out[blockIdx.x * n + i] = s[n - 1 - i];
}}
{K}lane_sum(int* out, int n) {{
  int i = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  unsigned mask = n - i / 32 * 32 >= 32 ? ~0u : (1u << n % 32) - 1;
  int lanes = __popc(mask), v = i;
  for (int d = 16; d; d /= 2) {{
    int u = __shfl_down_sync(mask, v, d);
    if (i % 32 + d < lanes) v += u;
  }}
  out[i] = __shfl_sync(mask, v, 0);
}}
{K}early(int* out, int n) {{
  int i = threadIdx.x;
  if (i >= n) return;
  unsigned mask = __activemask();
  __syncthreads();
  out[i] = __syncthreads_count(1) + 0 * mask;
}}
"""


@pytest.fixture(scope="module")
def shapes():
    return {checks: device(checks).compile(SHAPES) for checks in FLAVOURS}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("checks", FLAVOURS)
@pytest.mark.parametrize("block", [1, 2, 31, 32, 33, 100, 1024, (8, 4), (3, 5, 7), (1, 1, 64), (16, 8, 8)])
def test_barriers_and_shuffles_in_blocks_of_every_shape(shapes, block, checks):
    dev, n = device(checks), int(np.prod(block))
    out = dev.array(np.zeros((3, n), np.int32))
    shapes[checks].get_function("reverse")(3, block, (out, np.int32(n)))
    np.testing.assert_array_equal(out.get(), np.arange(n)[::-1] + 1000 * np.arange(3)[:, None])
    sums = dev.array(np.zeros(n, np.int32))
    shapes[checks].get_function("lane_sum")(1, block, (sums, np.int32(n)))
    i = np.arange(n)
    np.testing.assert_array_equal(sums.get(), np.bincount(i // 32, i)[i // 32])


@pytest.mark.parametrize("checks", FLAVOURS)
def test_threads_that_have_returned_do_not_block_a_barrier(shapes, checks):
    dev = device(checks)
    for threads, n in ((64, 40), (100, 33), (32, 1)):
        out = dev.array(np.zeros(threads, np.int32))
        shapes[checks].get_function("early")(1, threads, (out, np.int32(n)))
        assert out.get().tolist() == [n] * n + [0] * (threads - n)


def test_many_blocks_with_barriers_on_all_cores():
    source = f"""{K}block_sum(const int* a, int* out, int n) {{
      __shared__ int s[128];
      s[threadIdx.x] = a[(blockIdx.x * 128 + threadIdx.x) % n];
      for (int d = 64; d; d /= 2) {{
        __syncthreads();
        if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
      }}
      if (threadIdx.x == 0) out[blockIdx.x] = s[0];
    }}"""
    a = RNG.integers(0, 9, 1000).astype(np.int32)
    for checks in FLAVOURS:
        dev = device(checks)
        out = dev.array(np.zeros(300, np.int32))
        dev.compile(source).get_function("block_sum")(300, 128, (dev.array(a), out, np.int32(1000)))
        np.testing.assert_array_equal(out.get(), a[np.arange(300 * 128) % 1000].reshape(300, 128).sum(1))


# --- what an inactive lane gives -----------------------------------------------------------------------


def test_a_shuffle_from_a_lane_that_is_not_there_gives_poison():
    """Undefined in CUDA: never a plausible value here."""
    source = f"""{K}k(float* out) {{
      int i = threadIdx.x;
      if (i < 16) out[i] = __shfl_sync(0xffff, (float)i, i + 16, 32);
    }}"""
    dev = device("memory")
    out = dev.array(np.zeros(16, np.float32))
    dev.compile(source).get_function("k")(1, 32, (out,))
    assert np.isnan(out.get()).all()


def test_an_exited_lane_completes_a_vote_of_the_rest():
    source = (
        f"{K}k(int* out) {{ if (threadIdx.x & 1) return; out[threadIdx.x] = __ballot_sync(0x55555555, 1); }}"
    )
    for checks in FLAVOURS:
        dev = device(checks)
        out = dev.array(np.zeros(32, np.uint32))
        dev.compile(source).get_function("k")(1, 32, (out,))
        assert set(out.get()[::2]) == {0x55555555}


MASKS = f"""
{K}another_mask(int n) {{
  int lane = threadIdx.x % 32;
  __syncwarp(lane < 16 ? 0x00ffffff : 0xffffffff);  // FAULT another_mask
}}
{K}smaller_mask(int n) {{
  int lane = threadIdx.x % 32;
  __syncwarp(lane < 16 ? 0xffffffff : 0xffff0000);  // FAULT smaller_mask
}}
{K}returned(int n) {{
  int lane = threadIdx.x % 32;
  if (lane == 7) return;
  if (lane < 7 || lane > 9) __syncwarp(0xfffffcff);  // FAULT returned
}}
{K}both(int n) {{
  int lane = threadIdx.x % 32;
  if (lane == 7) return;
  if (lane < 8) __syncwarp(0x1ff);  // FAULT both
}}
"""


@pytest.mark.parametrize(
    "name, says",
    [
        (
            "another_mask",
            "differs from that of thread (16,0,0), 0xffffffff: all lanes that a mask names must pass the same mask.",
        ),
        ("smaller_mask", "names lanes 16-31, which take no part in this call."),
        ("returned", "names lane 7, which has returned before this call."),
        ("both", "names lane 8, which takes no part in this call."),
    ],
)
def test_what_is_said_of_lanes_that_a_mask_names(name, says):
    with pytest.raises(KernelFault) as caught:
        device().compile(MASKS).get_function(name)(1, 32, (np.int32(1),))
    assert caught.value.kind == "shuffle-mask" and caught.value.explanation.endswith(says)
    assert caught.value.line == line_of(MASKS, f"FAULT {name}")


def test_a_barrier_among_too_few_never_opens():
    source = f"""{K}k(int n) {{
      if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
      else asm volatile("bar.sync 2, 64;");
    }}"""
    for checks in FLAVOURS:
        dev = device(checks)
        with pytest.raises(KernelFault) as caught:
            dev.compile(source).get_function("k")(1, 64, (np.int32(1),))
        assert caught.value.kind == "barrier-divergence"


@pytest.mark.parametrize("checks", FLAVOURS)
def test_cooperative_groups(checks):
    source = f"""#include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    namespace cg = cooperative_groups;
    {K}k(int* out) {{
      auto block = cg::this_thread_block();
      auto tile = cg::tiled_partition<8>(block);
      __shared__ int s[32];
      int i = block.thread_rank();
      s[i] = i;
      block.sync();
      int sum = cg::reduce(tile, s[31 - i], cg::plus<int>());
      bool nine = tile.any(i == 9);
      out[i] = sum + 1000 * nine + 10000 * tile.thread_rank() + 100000 * tile.shfl(i, 2);
    }}"""
    dev = device(checks)
    out = dev.array(np.zeros(32, np.int32))
    dev.compile(source).get_function("k")(1, 32, (out,))
    i = np.arange(32)
    tile = i // 8
    expected = 8 * 31 - (64 * tile + 28) + 1000 * (tile == 1) + 10000 * (i % 8) + 100000 * (8 * tile + 2)
    np.testing.assert_array_equal(out.get(), expected)


GROUPS = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
"""
TILES = f"""{GROUPS}
{K}rank(int* out, const int* a) {{
  auto tile = cg::tiled_partition<64>(cg::this_thread_block());
  out += blockIdx.x * blockDim.x;
  out[threadIdx.x] = a[threadIdx.x] + 1000 * tile.thread_rank() + 100000 * tile.meta_group_rank();
  tile.sync();
}}
{K}votes(int* out, const int* a) {{
  auto tile = cg::tiled_partition<128>(cg::this_thread_block());
  int i = threadIdx.x;
  out += blockIdx.x * blockDim.x;
  out[i] = 100000 * tile.any(a[i] == 77) + 200000 * tile.all(a[i] < 300) + 1000000 * tile.shfl(a[i], 70);
}}
{K}sums(int* out, const int* a) {{
  auto tile = cg::tiled_partition<128>(cg::this_thread_block());
  int i = threadIdx.x;
  out += blockIdx.x * blockDim.x;
  out[i] = cg::reduce(tile, a[i], cg::plus<int>()) + cg::inclusive_scan(tile, a[i], cg::plus<int>());
}}
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    "checks, name", [*((c, n) for c in FLAVOURS for n in ("rank", "votes")), ("memory", "sums")]
)
def test_tiles_of_several_warps(checks, name):
    """They meet in shared memory that is reserved for them. (Sums are many of the same meetings: 60,000 lines of LLVM
    with full checks.)"""
    dev, i = device(checks), np.arange(256, dtype=np.int32)
    kernel = dev.compile(only(TILES, [name])).get_function(name)
    tile = i.reshape(2, 128)
    votes = 0 * tile + 100000 * (tile == 77).any(1, keepdims=True) + 200000 + 1000000 * tile[:, 70:71]
    sums = tile.sum(1, keepdims=True) + tile.cumsum(1)
    expected = {
        "rank": i + 1000 * (i % 64) + 100000 * (i // 64),
        "votes": votes.ravel(),
        "sums": sums.ravel(),
    }[name]
    for dev.schedule in (0, 1, 2):
        out = dev.array(np.zeros((2, 256), np.int32))
        assert kernel(2, 256, (out, dev.array(i, readonly=True))).notes == []
        np.testing.assert_array_equal(out.get(), [expected] * 2)
    dev.schedule = 0


# --- lanes that are not there -----------------------------------------------------------------------------

ABSENT = f"""
{K}fine_guarded(float* out, const float* in) {{
  int lane = threadIdx.x % 32;
  float sum = in[threadIdx.x], other = __shfl_down_sync(0xffffffff, sum, 8);
  if (lane < 8) sum += other;
  out[threadIdx.x] = lane < 8 ? other : sum;
}}
{K}fine_lane_0(float* out, const float* in) {{
  float sum = in[threadIdx.x];
  for (int step = 8; step > 0; step /= 2) sum += __shfl_down_sync(0xffff, sum, step);
  out[threadIdx.x] = __shfl_sync(0xffff, sum, 0);
}}
{K}branch(float* out, const float* in) {{
  int other = __shfl_down_sync(0xffff, (int)in[threadIdx.x], 8);  // branch
  if (other > 3) out[threadIdx.x] = 1;
}}
{K}address(float* out, const float* in) {{
  int other = __shfl_sync(0xffff, threadIdx.x, 20);  // address
  out[other] = 1;
}}
{K}atomic(float* out, const float* in) {{
  float other = __shfl_xor_sync(0xffff, in[threadIdx.x], 16);  // atomic
  atomicAdd(out, other * 2);
}}
{K}shared(float* out, const float* in) {{
  __shared__ float s[32];
  s[threadIdx.x] = __shfl_xor_sync(0xffff, in[threadIdx.x], 16) + 1;  // shared
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x ^ 1];
}}
{K}wide(double* out, const float* in) {{
  double other = __shfl_down_sync(0xffff, (double)in[threadIdx.x], 8);  // wide
  out[threadIdx.x] = other;
}}
{K}chain(float* out, const float* in) {{
  float other = __shfl_down_sync(0xffff, in[threadIdx.x], 8);  // chain
  out[threadIdx.x] = __shfl_sync(0xffff, other, 12);
}}
{K}last_warp(float* out, const float* in) {{
  float sum = in[threadIdx.x];
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_down_sync(0xffffffff, sum, step);  // last_warp
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = sum;
}}
{K}mask(float* out, const float* in) {{
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_down_sync(0xffff, in[threadIdx.x], 8);  // mask
}}
"""


@pytest.mark.parametrize(
    "name, block, says",
    [
        ("fine_guarded", 16, ""),
        ("fine_lane_0", 16, ""),
        (
            "branch",
            16,
            "lane 16, which does not exist: the block has 16 threads. Which way the thread goes at line",
        ),
        ("address", 16, "lane 20, which does not exist: the block has 16 threads. An address at line"),
        (
            "atomic",
            16,
            "lane 16, which does not exist: the block has 16 threads. The atomic operation at line",
        ),
        (
            "shared",
            16,
            "lane 17, which does not exist: the block has 16 threads. It goes into out[0], which line",
        ),
        (
            "wide",
            16,
            "lane 16, which does not exist: the block has 16 threads. It goes into out[8], which line",
        ),
        (
            "chain",
            16,
            "lane 20, which does not exist: the block has 16 threads. It goes into out[0], which line",
        ),
        (
            "last_warp",
            48,
            "lane 16, which does not exist: the block has 48 threads. It goes into out[1], which line",
        ),
        ("mask", 32, "lane 16, which its mask leaves out."),
    ],
)
def test_a_lane_that_is_not_there(name, block, says):
    """Computing with its value is allowed; using it where it matters is a fault."""
    dev = device()
    kernel = dev.compile(ABSENT).get_function(name)
    out = dev.array(np.zeros(64, np.float64 if name == "wide" else np.float32), name="out")
    arguments = 1, block, (out, dev.array(np.arange(64, dtype=np.float32), readonly=True))
    if not says:
        assert kernel(*arguments).notes == []
        return
    with pytest.raises(KernelFault) as caught:
        kernel(*arguments)
    fault = caught.value
    assert (fault.kind, fault.line) == ("uninitialised-read", line_of(ABSENT, name))
    assert f"This shuffle asks for the value of {says}" in fault.explanation
