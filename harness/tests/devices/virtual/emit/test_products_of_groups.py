"""wgmma: products of four warps, of all types, from shared memory and registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from backwarp.errors import KernelFault, Unsupported
from tests.devices.virtual.launches import device, line_of
from tests.devices.virtual.tensor_model import BITS, swizzled

MODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}  # in a descriptor
SIZES = dict(f16=2, bf16=2, tf32=4, e4m3=1, e5m2=1, s8=1, u8=1)
_HEAD = r"""
typedef unsigned u32; typedef unsigned long long u64;
__device__ u32 in_shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }
"""


@dataclass(frozen=True)
class Product:
    """flags: satfinite. trans: of A (of B alone if A is in registers) and B. scale: of A and B."""

    n: int
    d: str
    a: str
    b: str
    registers: bool = False
    trans: tuple[int, ...] = ()
    scale: tuple[int, ...] = (1, 1)
    flags: str = ""

    @property
    def k(self) -> int:
        return 32 // SIZES[self.a]

    @property
    def count(self) -> int:
        """Registers of a thread's part of D."""
        return self.n // 4 if self.d == "f16" else self.n // 2

    @property
    def is_transposed(self) -> tuple[bool, bool]:
        """A, B"""
        if not self.trans:
            return False, False
        return (False, bool(self.trans[0])) if self.registers else (bool(self.trans[0]), bool(self.trans[1]))

    @property
    def text(self) -> str:
        """A kernel: D's registers are in `d`, a row of 128 threads for each; A's in `a` if it has any."""
        count, kind = self.count, "f" if self.d == "f32" else "r"
        names = [f"%{i}" for i in range(count)]
        a = [f"%{count + i}" for i in range(4 if self.registers else 1)]
        more = [*(self.scale if self.d != "s32" else ()), *self.trans]
        opcode = f"wgmma.mma_async.sync.aligned.m64n{self.n}k{self.k}{self.flags}.{self.d}.{self.a}.{self.b}"
        first = f"{{{','.join(a)}}}" if self.registers else a[0]
        last = count + len(a)
        operands = [f"{{{','.join(names)}}}", first, f"%{last}", "p", *map(str, more)]
        outputs = ", ".join(f'"+{kind}"(d[{i}])' for i in range(count))
        inputs = ", ".join(f'"r"(a[{i}])' for i in range(4)) if self.registers else '"l"(da)'
        type_ = "float" if kind == "f" else "u32"
        return f"""{_HEAD}
extern "C" __global__ void k({type_}* D, const u32* A, const u32* B, const u32* R, u64 da, u64 db, int scaled) {{
    __shared__ alignas(1024) u32 sa[4096], sb[8192];
    for (int i = threadIdx.x; i < 4096; i += 128) sa[i] = A[i];
    for (int i = threadIdx.x; i < 8192; i += 128) sb[i] = B[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    {type_} d[{count}];
    u32 a[4];
    for (int i = 0; i < {count}; i++) d[i] = D[i * 128 + threadIdx.x];
    for (int i = 0; i < 4; i++) a[i] = R[i * 128 + threadIdx.x];
    da += in_shared(sa) >> 4;
    db += in_shared(sb) >> 4;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{{.reg .pred p; setp.ne.b32 p, %{last + 1}, 0; {opcode} {", ".join(operands)};}}"
        : {outputs} : {inputs}, "l"(db), "r"(scaled) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < {count}; i++) D[i * 128 + threadIdx.x] = d[i];
}}"""


#: what one byte says: rows of the model, from the bits
def _of_bits(bits: np.ndarray, type_: str) -> np.ndarray:
    if type_ == "f16":
        return bits.view(np.float16).astype(np.float64)
    if type_ == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if type_ == "tf32":
        return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if type_ == "e5m2":
        return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    if type_ == "e4m3":
        sign = np.where(bits & 128, -1.0, 1.0)
        exponent, fraction = (bits >> 3 & 15).astype(int), (bits & 7).astype(float)
        value = np.where(exponent > 0, (8 + fraction) * 2.0 ** (exponent - 10), fraction * 2.0**-9)
        return sign * value
    return bits.view(np.int8 if type_ == "s8" else np.uint8).astype(np.float64)


def _bits(rng, shape, type_: str) -> np.ndarray:
    """Random numbers whose sums of products a double holds exactly."""
    if type_ in ("s8", "u8"):
        return rng.integers(0, 256, shape).astype(np.uint8)
    if type_ in ("e4m3", "e5m2"):
        found = rng.integers(0, 120 if type_ == "e4m3" else 116, shape) | rng.integers(0, 2, shape) << 7
        return found.astype(np.uint8)
    numbers = (rng.integers(-64, 65, shape) / 8).astype(np.float32)
    if type_ == "f16":
        return numbers.astype(np.float16).view(np.uint16)
    bits = numbers.view(np.uint32)
    return (bits >> 16).astype(np.uint16) if type_ == "bf16" else bits | 0x1234  # which tf32 does not have


def _in_shared(bits: np.ndarray, size: int, words: int, mode: str, transposed: bool, start: int = 0):
    """(words of shared memory that hold a matrix, rows of M or N by K, and its descriptor)"""
    memory = np.zeros(4 * words, np.uint8)
    rows, k = np.mgrid[: bits.shape[0], : bits.shape[1]]
    wide, each = 1 << BITS[mode], 16 // size
    if not transposed:
        lbo, sbo = (128, 256) if mode == "none" else (16, 128 * wide)
        if mode == "none":
            at = rows % 8 * 16 + rows // 8 * sbo + k // each * lbo + k % each * size
        else:
            at = rows % 8 * 16 * wide + rows // 8 * sbo + k // each * 16 + k % each * size
    elif mode == "none":
        lbo, sbo = 128 * (bits.shape[0] // each), 128
        at = rows % each * size + k % 8 * 16 + rows // each * sbo + k // 8 * lbo
    else:
        chunks = -(-bits.shape[0] // (each * wide))
        lbo, sbo = 128 * wide, 128 * wide * chunks
        at = rows % each * size + rows // each % wide * 16 + rows // (each * wide) * lbo
        at += k % 8 * 16 * wide + k // 8 * sbo
    at = swizzled(at + start, mode)
    raw = np.ascontiguousarray(bits).view(np.uint8).reshape(*bits.shape, size)
    for byte in range(size):
        memory[at + byte] = raw[..., byte]
    descriptor = start >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | MODES[mode] << 62
    return memory.view(np.uint32), np.uint64(descriptor)


def _places(n: int):
    """Row and column of each accumulator: of register i (or half of one) of a thread."""
    i, t = np.mgrid[: n // 2, :128]
    return 16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (t % 4) + i % 2


def _a_registers(bits: np.ndarray, size: int) -> np.ndarray:
    each = 4 // size
    e, t = np.mgrid[: 4 * each, :128]
    register, sub = e // each, e % each
    rows = 16 * (t // 32) + t % 32 // 4 + 8 * (register % 2)
    k = each * (t % 4) + sub + 4 * each * (register // 2)
    found = bits[rows, k].reshape(4, each, 128).transpose(0, 2, 1)
    return np.ascontiguousarray(found).view(np.uint32).reshape(4, 128)


def _result(product: Product, values: np.ndarray) -> np.ndarray:
    """What the registers hold, from D as doubles."""
    rows, columns = _places(product.n)
    found = values[rows, columns]
    if product.d == "f32":
        return found.astype(np.float32)
    if product.d == "s32":
        if product.flags:
            found = np.clip(found, -(2.0**31), 2.0**31 - 1)
        return found.astype(np.int64).astype(np.uint32)
    with np.errstate(over="ignore"):  # of halves, infinity is what a product gives
        halves = found.astype(np.float16).view(np.uint16).reshape(-1, 2, 128).astype(np.uint32)
    return halves[:, 0] | halves[:, 1] << 16


@cache
def _module(product: Product, checks: str):
    return device(checks).compile(product.text)


def _multiply(
    product: Product, checks: str = "memory", mode: str = "128B", start: int = 0, scaled: bool = True
):
    rng = np.random.default_rng(product.n + product.k)
    a, b = _bits(rng, (64, product.k), product.a), _bits(rng, (product.n, product.k), product.b)
    high = 2**31 - 1 if product.d == "s32" else 64
    before = rng.integers(-high, high, (64, product.n)).astype(np.float64)
    given = _result(product, before)
    size, (of_a, of_b) = SIZES[product.a], product.is_transposed
    sa, da = _in_shared(a, size, 4096, mode, of_a, start)
    sb, db = _in_shared(b, size, 8192, mode, of_b, start)
    registers = _a_registers(a, size) if product.registers else np.zeros((4, 128), np.uint32)
    dev = device(checks)
    d = dev.array(given, "D")
    arrays = (dev.array(x, name) for x, name in ((sa, "A"), (sb, "B"), (registers, "R")))
    _module(product, checks).get_function("k")(1, 128, (d, *arrays, da, db, np.int32(scaled)))
    signs = product.scale[0] * product.scale[1]
    wanted = signs * _of_bits(a, product.a) @ _of_bits(b, product.b).T + before * scaled
    np.testing.assert_array_equal(d.get(), _result(product, wanted))


F32 = [
    Product(8, "f32", "f16", "f16", trans=(0, 0)),
    Product(256, "f32", "f16", "f16", trans=(0, 0)),
    Product(64, "f16", "f16", "f16", trans=(0, 0)),
    Product(24, "f32", "bf16", "bf16", trans=(0, 0), scale=(-1, 1)),
    Product(16, "f32", "tf32", "tf32", scale=(-1, -1)),
    Product(32, "f32", "e4m3", "e5m2"),
    Product(40, "f16", "e5m2", "e4m3", scale=(1, -1)),
    Product(8, "s32", "s8", "u8"),
    Product(48, "s32", "u8", "s8", flags=".satfinite"),
    Product(64, "f32", "f16", "f16", registers=True, trans=(1,)),
    Product(16, "f32", "tf32", "tf32", registers=True),
    Product(32, "s32", "s8", "s8", registers=True),
    Product(32, "f32", "e4m3", "e4m3", registers=True),
]


@pytest.mark.parametrize("product", F32, ids=str)
def test_a_product_is_exact(product):
    _multiply(product)
    _multiply(product, scaled=False)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trans", [(0, 0), (1, 1)])
def test_each_layout_of_an_operand(mode, trans):
    """K fastest, or M and N; swizzled or not; from the middle of a pattern on."""
    product = Product(64, "f32", "f16", "f16", trans=trans)
    _multiply(product, mode=mode)
    if mode == "128B" and not any(trans):
        _multiply(product, mode=mode, start=32)


def test_with_full_checks_it_is_the_same():
    _multiply(Product(8, "f32", "f16", "f16", trans=(0, 0)), "full")


# -- wrong kernels ----------------------------------------------------------------------------------------------

_WRONG = (
    _HEAD
    + r"""
extern "C" __global__ void k(float* D, u64 unused) {
    __shared__ alignas(1024) unsigned short a[64 * 64], b[64 * 64];
    for (int i = threadIdx.x; i < 64 * 64; i += 128) a[i] = b[i] = 0x3c00;  // ONES
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    float d[4] = {};
    u64 da = in_shared(a) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62, db = in_shared(b) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
    BEFORE
    asm volatile(MULTIPLY : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(da), "l"(db) : "memory");  // MULTIPLIED
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");  // COMMITTED
    DURING
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");  // AWAITED
    for (int i = 0; i < 4; i++) D[i * 128 + threadIdx.x] = d[i];
}"""
).replace(
    "MULTIPLY",
    '"{.reg .pred p; setp.eq.b32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, p, 1, 1, 0, 0;}"',
    1,
)


def _wrong(
    before: str = "", during: str = "", *changes: tuple[str, str], checks: str = "full", threads: int = 128
):
    source = _WRONG.replace("BEFORE", before).replace("DURING", during)
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    dev = device(checks)
    d = dev.empty((4, 128), name="D")
    dev.compile(source).get_function("k")(1, threads, (d, np.uint64(0)))
    return d.get()


def test_the_kernel_that_is_changed_is_right():
    assert (_wrong() == 16).all()


@pytest.mark.parametrize(
    "leading, stride, swizzle, said",
    [
        (1, 64, 1, ""),  # 64 elements of M are one block with a swizzle of 128 bytes
        (32, 64, 2, ""),
        (16, 64, 2, "32 elements of M or N begin 256 bytes"),
        (1, 32, 1, "8 elements of K begin 512 bytes"),
    ],
)
def test_the_strides_of_a_transposed_operand_fit_its_swizzle(leading, stride, swizzle, said):
    fields = f"{leading}ull << 16 | {stride}ull << 32 | {swizzle}ull << 62"
    changes = (
        ("1ull << 16 | 64ull << 32 | 1ull << 62, db", f"{fields}, db"),
        ("p, 1, 1, 0, 0", "p, 1, 1, 1, 0"),
    )
    if not said:
        assert (_wrong("", "", *changes) == 16).all()
        return
    with pytest.raises(KernelFault) as caught:
        _wrong("", "", *changes)
    assert caught.value.kind == "descriptor" and said in caught.value.explanation


@pytest.mark.parametrize(
    "arguments, kind, mark",
    [
        (("", "a[threadIdx.x] = 0;"), "overwritten", "MULTIPLIED"),
        (("if (threadIdx.x >= 96) return;", ""), "group-incomplete", "MULTIPLIED"),
        (("if (threadIdx.x >= 96) da += 2;", ""), "shuffle-mask", "MULTIPLIED"),
        (
            ("", "", ('asm volatile("wgmma.commit', 'if (threadIdx.x == 0) asm volatile("wgmma.commit')),
            "shuffle-mask",
            "COMMITTED",
        ),
        (
            ("", "", ('asm volatile("wgmma.wait', 'if (threadIdx.x % 32 < 31) asm volatile("wgmma.wait')),
            "shuffle-mask",
            "AWAITED",
        ),
        (("", "", ("i < 64 * 64; i", "i < 32 * 64; i")), "unlanded", "MULTIPLIED"),
        (("", "", ("    __syncthreads();\n", "")), "race", "ONES"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_is_wrong_is_named(arguments, kind, mark):
    with pytest.raises(KernelFault) as caught:
        _wrong(*arguments)
    fault = caught.value
    assert fault.kind == kind
    assert line_of(_WRONG, mark) in (fault.line, fault.other.line if fault.other else 0)


def test_a_block_of_three_warps_is_too_small():
    with pytest.raises(KernelFault) as caught:
        _wrong(threads=96)
    assert caught.value.kind == "group-incomplete" and "96 threads" in caught.value.explanation


@pytest.mark.parametrize(
    "opcode",
    [
        "m64n12k16.f32.f16.f16",
        "m64n264k16.f32.f16.f16",
        "m64n8k8.f32.f16.f16",
        "m64n8k16.f16.bf16.bf16",
        "m64n40k32.s32.s8.s8",
    ],
)
def test_what_the_assembler_refuses_is_refused(opcode):
    source = _WRONG.replace("m64n8k16.f32.f16.f16", opcode).replace("BEFORE", "").replace("DURING", "")
    with pytest.raises(Unsupported):
        device("memory").compile(source)


FENCE = '    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n'
SYNC = "    __syncthreads();\n"


@pytest.mark.parametrize("fences", [(FENCE, SYNC), (SYNC, FENCE)], ids=["who stores", "who reads"])
def test_ordinary_stores_are_fenced_on_either_side_of_the_barrier(fences):
    assert (_wrong("", "", (FENCE + SYNC, "".join(fences))) == 16).all()


@pytest.mark.parametrize("instead", [SYNC, SYNC + SYNC])
def test_without_the_fence_a_product_may_not_see_ordinary_stores(instead):
    with pytest.raises(KernelFault) as caught:
        _wrong("", "", (FENCE + SYNC, instead))
    fault = caught.value
    assert (fault.kind, fault.array, fault.other.line) == ("unfenced", "a", line_of(_WRONG, "ONES"))


def test_a_fence_before_the_store_is_too_early():
    with pytest.raises(KernelFault) as caught:
        _wrong(FENCE + "    a[threadIdx.x] = 0x3c00;  // LATE\n" + SYNC)
    fault = caught.value
    assert fault.kind == "unfenced" and fault.other.line == line_of(_WRONG, "ONES") + 6


def test_a_copy_may_not_fill_what_a_product_still_reads():
    bulk = (
        "if (threadIdx.x == 0) asm volatile("
        '"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"'
        ' :: "r"(in_shared(a)), "l"(D + 512), "r"(in_shared(&bar)) : "memory");  // COPIED'
    )
    source = _WRONG.replace("BEFORE", "").replace(
        "unsigned short a[", "unsigned long long bar;\n__shared__ alignas(1024) unsigned short a["
    )
    wait = 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'
    dev = device()
    for during, kind in ((bulk, "refilled"), (f"{wait}\n{bulk}", "under-way")):
        text = source.replace("DURING", during)
        with pytest.raises(KernelFault) as caught:
            dev.compile(text).get_function("k")(
                1, 128, (dev.array(np.zeros((5, 128), np.float32), "D"), np.uint64(0))
            )
        assert (caught.value.kind, caught.value.line) == (kind, line_of(text, "COPIED"))
