"""Full checks of arrays that are known: what is found in local arrays and in shared ones, however the code is compiled."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from backwarp.devices import open_device
from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.devices.virtual.analyse.pointers import Pointers, Values, rooted
from backwarp.devices.virtual.analyse.private_arrays import private, short_loops
from backwarp.devices.virtual.ptx import parse as ptx
from backwarp.devices.virtual.rewrite import drop_identities, split_depots
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import K, line_of

TILE = f"""
__device__ float4& four(float& first) {{ return reinterpret_cast<float4&>(first); }}
{K}k(const float* a, const float* b, float* c, int n) {{
    __shared__ __align__(16) float tile[64];
    float sum[4][4] = {{}}, p[4], q[4];
    int t = threadIdx.x;
    for (int k = 0; k < n; k += 4) {{
        if (t < 16) four(tile[4 * t]) = *reinterpret_cast<const float4*>(&a[4 * t]);
        __syncthreads();
        for (int m = 0; m < 4; m++) {{
            four(p[0]) = four(tile[16 * m + 4 * (t % 4)]);
            for (int j = 0; j < 4; j++) q[j] = b[(k + m) * 32 + t] + j;
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sum[i][j] += p[i] * q[j];
        }}
        __syncthreads();
    }}
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) c[(i * 4 + j) * 32 + t] = sum[i][j];
}}
"""


@cache
def device(quick: bool):
    made = open_device("cpu", checks="full")
    made.quick, made.step_budget = quick, 1 << 16
    return made


def launch(source: str, quick: bool, *args, block: int = 32):
    dev = device(quick)
    given = tuple(dev.array(a, name=n) if isinstance(a, np.ndarray) else a for n, a in zip("abcd", args))
    kernel = dev.compile(source).get_function("k")
    kernel(1, block, given)
    return given


def fault_of(source: str, quick: bool, *args, block: int = 32) -> KernelFault:
    with pytest.raises(KernelFault) as caught:
        launch(source, quick, *args, block=block)
    return caught.value


#: what is private is found alike in both; optimised, it is in registers as well
@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.soak)], ids=["quick", "optimised"])
def quick(request) -> bool:
    return request.param


def small(body: str, parameters: str = "float* a, int n") -> str:
    return f"{K}k({parameters}) {{\n{body}\n}}\n"


@pytest.mark.parametrize("quick", [pytest.param(True, marks=pytest.mark.soak), False])
def test_a_register_tile_adds_up(quick):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, 64).astype(np.float32), rng.integers(-4, 5, 8 * 32).astype(np.float32)
    out = launch(TILE, quick, a, b, np.zeros(16 * 32, np.float32), np.int32(8))[2].get().reshape(4, 4, 32)
    t, want = np.arange(32), np.zeros((4, 4, 32), np.float32)
    for k in range(0, 8, 4):
        for m in range(4):
            for i in range(4):
                for j in range(4):
                    want[i, j] += a[16 * m + 4 * (t % 4) + i] * (b[(k + m) * 32 + t] + j)
    assert np.array_equal(out, want)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "source, wrong, array, index, kind",
    [
        pytest.param(
            "float sum[4][4] = {}", "float sum[4][4]", "sum", "0,0", "uninitialised-read", id="no zeros"
        ),
        pytest.param(
            "q[j] = b[(k + m) * 32 + t] + j",
            "if (j != 2) q[j] = b[(k + m) * 32 + t]",
            "q",
            "2",
            "uninitialised-read",
            id="a gap",
        ),
        pytest.param("j < 4; j++) sum", "j < 5; j++) sum", "q", "4", "out-of-bounds", id="a step too far"),
        pytest.param(
            "i < 4; i++)\n        for (int j = 0; j < 4; j++) c",
            "i < 5; i++)\n        for (int j = 0; j < 4; j++) c",
            "sum",
            "4,0",
            "out-of-bounds",
            id="a row too many",
        ),
        pytest.param(
            "four(tile[16 * m + 4 * (t % 4)])",
            "four(tile[16 * m + 4 * (t % 4) + 1])",
            "tile",
            "64",
            "out-of-bounds",
            id="one on",
        ),
        pytest.param(
            "four(tile[16 * m + ", "four(tile[16 * m + 700 + ", "tile", "700", "out-of-bounds", id="far away"
        ),
    ],
)
def test_what_goes_wrong_in_a_register_tile(source, wrong, array, index, kind, quick):
    assert source in TILE
    a, b, c = np.ones(64, np.float32), np.ones(8 * 32, np.float32), np.zeros(20 * 32, np.float32)
    fault = fault_of(TILE.replace(source, wrong), quick, a, b, c, np.int32(8))
    assert (fault.kind, fault.array, fault.index) == (kind, array, index), fault


def test_an_index_that_lands_in_another_shared_array(quick):
    """An index past the end of one array never counts as an access to another, wherever that lies."""
    body = """\
    __shared__ float x[256], y[2048];
    for (int i = threadIdx.x; i < 2048; i += 32) y[i] = x[i % 256] = i;
    __syncthreads();
    a[threadIdx.x] = x[threadIdx.x + n];  // FAULT"""
    source = small(body)
    fault = fault_of(source, quick, np.zeros(32, np.float32), np.int32(1100))
    assert (fault.kind, fault.array, fault.index, fault.line) == (
        "out-of-bounds",
        "x",
        "1100",
        line_of(source),
    )


def test_a_loop_over_an_array_that_never_ends_is_stopped(quick):
    body = """\
    float p[4] = {};
    int i = 0;
    while (i < 4) {  // FAULT
        p[i] += 1;
        if (a[0] == 0) continue;
        i++;
    }
    a[threadIdx.x] = p[n];"""
    assert fault_of(small(body), quick, np.zeros(32, np.float32), np.int32(1)).kind == "timeout"


@pytest.mark.parametrize("last", [4, 5], ids=["inside", "outside"])
def test_a_thread_that_dies_in_a_function_does_not_come_back(last, quick):
    source = f"""
__device__ void add(float* p, int last) {{ for (int i = 0; i <= last; i++) p[i] += 1; }}
{K}k(float* a, float* b, int last) {{
    float p[5] = {{}};
    add(p, last);
    b[threadIdx.x] = p[4];
}}"""
    a, b = (
        device(quick).array(np.zeros(32, np.float32)),
        device(quick).array(np.zeros(32, np.float32), name="b"),
    )
    kernel = device(quick).compile(source).get_function("k")
    try:
        kernel(1, 32, (a, b, np.int32(last)))
    except KernelFault as fault:
        assert (fault.kind, fault.array, fault.count) == ("out-of-bounds", "p", 32)
    assert (b.get() == (last == 4)).all()


def test_functions_that_call_each_other_without_end_are_stopped(quick):
    """Each level calls twice: there is no loop, and too much to do."""
    source = f"""
__device__ __noinline__ float tree(int n, float x) {{ return n == 0 ? x : tree(n - 1, x + 1) + tree(n - 1, x - 1); }}
{K}k(float* a, int n) {{ a[threadIdx.x] = tree(n, a[0]); }}"""
    dev = device(quick)
    before, dev.time_limit = dev.time_limit, 0.3
    try:
        assert fault_of(source, quick, np.zeros(32, np.float32), np.int32(40)).kind == "timeout"
    finally:
        dev.time_limit = before


@pytest.mark.parametrize(
    "read", ["float4 v = *reinterpret_cast<float4*>(&x[0]); out += v.z;", "out += x[2];"]
)
def test_a_wide_read_of_what_is_partly_quiet_is_noted(read, quick):
    """Threads have read the first of four words; one reads all four, and another writes the third."""
    body = f"""\
    __shared__ __align__(16) float x[4];
    if (threadIdx.x < 4) x[threadIdx.x] = 1;
    __syncthreads();
    float out = x[0];
    if (threadIdx.x == 40) {{ {read} }}
    if (threadIdx.x == 80) x[2] = 7;
    a[threadIdx.x] = out;"""
    fault = fault_of(small(body), quick, np.zeros(96, np.float32), np.int32(0), block=96)
    assert (fault.kind, fault.array, fault.index) == ("race", "x", "2")


# -- what is known of the code -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use, arrays",
    [
        ("add.s64 %rd3, %rd1, 8; ld.u32 %r1, [%rd3];", "a b"),
        ("sub.s64 %rd3, %rd1, 8; st.u32 [%rd3], %r1;", "a b"),
        ("sub.s64 %rd3, %rd1, %rd2; st.u32 [%rd3], %r1;", ""),  # with which b could be found from a
        ("mad.lo.s64 %rd3, %rd1, 4, %rd2; ld.u32 %r1, [%rd3];", "b"),
        ("selp.b64 %rd3, %rd1, %rd2, %p1; ld.u32 %r1, [%rd3];", ""),
        ("and.b64 %rd3, %rd1, -8; ld.u32 %r1, [%rd3];", "b"),
        ("xor.b64 %rd3, %rd1, 1;", "b"),
        ("st.global.u64 [%rd3], %rd2;", "a"),
    ],
)
def test_an_array_is_private_while_its_address_is_only_computed_with(use, arrays):
    text = f"""
        .visible .entry k() {{
        .local .align 8 .b8 a[32]; .local .align 8 .b8 b[32];
        .reg .b64 %rd<4>; .reg .b32 %r<2>; .reg .pred %p<2>;
        mov.u64 %rd1, a; mov.u64 %rd2, b; {use} ret;
        }}"""
    module = ptx.parse(text, "k.cu")
    function = module.functions["k"]
    assert private(function, Values(Pointers(module), function).found).keys() == set(arrays.split())


@pytest.mark.parametrize(
    ("accesses", "unit"),
    [
        ("st.u32 [%rd1], %r1; st.v2.u64 [%rd1+16], {%rd1, %rd1};", None),
        ("st.u32 [%rd1], %r1; ld.v2.u32 {%r1, %r2}, [%rd1+8];", 4),
        ("st.u32 [%rd1], %r1; ld.v2.u8 {%r1, %r2}, [%rd1+8];", 2),
        ("st.u16 [%rd1], %r1; ld.u8 %r1, [%rd1+1];", 1),
    ],
)
def test_it_is_known_of_the_least_that_is_accessed_whether_it_is_written(accesses, unit):
    text = f".visible .entry k() {{ .local .align 8 .b8 a[32]; .reg .b64 %rd<4>; .reg .b32 %r<3>; mov.u64 %rd1, a; {accesses} ret; }}"
    module = ptx.parse(text, "k.cu")
    function = module.functions["k"]
    assert private(function, Values(Pointers(module), function).found) == ({"a": unit} if unit else {})


def looked_at(source: str) -> tuple[set[str], int]:
    """The names of the private arrays (`p` if there is only one), and how many loops are unrolled."""
    text = compile_ptx(source, "k.cu", "debug", (), ()).text
    module = ptx.parse(text, "k.cu")
    drop_identities.run(module)
    names = split_depots.run(module)
    function = module.functions["k"]
    came_from = Values(Pointers(module), function).found
    found = private(function, came_from)
    return {names[n].name if n in names else "p" for n in found}, len(
        short_loops(function, rooted(came_from), found.keys())
    )


_FILL = "float p[8]; for (int i = 0; i < 8; i++) p[i] = i; "


@pytest.mark.parametrize(
    "body, arrays, loops",
    [
        pytest.param(_FILL + "a[0] = p[n];", {"p"}, 1, id="elements"),
        pytest.param(_FILL + "float* q = p + 1; a[0] = q[n];", {"p"}, 1, id="an address computed from it"),
        pytest.param(
            _FILL + "float* q = n ? p : a; a[0] = q[1];", set(), 0, id="an address that may be another's"
        ),
        pytest.param(_FILL + "a[0] = p - a;", set(), 0, id="an address compared"),
        pytest.param(_FILL + "atomicAdd(&p[1], 1.0f); a[0] = p[n];", set(), 0, id="given to a function"),
        pytest.param("float* volatile q; " + _FILL + "q = p; a[0] = q[n];", set(), 0, id="an address kept"),
        pytest.param(
            "__shared__ float* s; " + _FILL + "s = p; a[0] = s[n];",
            set(),
            0,
            id="an address in shared memory",
        ),
        pytest.param("volatile " + _FILL + "a[0] = p[n];", set(), 0, id="volatile"),
        pytest.param(
            "float p[1000]; for (int i = 0; i < 8; i++) p[i] = i; a[0] = p[n];", set(), 0, id="large"
        ),
        pytest.param(
            "float p[8]; for (int i = 0; i < n; i++) p[i] = i; a[0] = p[0];",
            {"p"},
            0,
            id="as long as is asked for",
        ),
        pytest.param(
            "float p[8]; for (int i = 0; i < 8; i += 2) p[i] = p[i + 1] = i; a[0] = p[0];",
            {"p"},
            1,
            id="in steps",
        ),
        pytest.param(
            "float p[8]; for (int i = 0; i < 8; i++) { p[i] = i; if (a[i] == 0) i--; } a[0] = p[0];",
            {"p"},
            0,
            id="a counter that is changed",
        ),
        pytest.param(
            "float p[8]; int i = 0; while (i < 8) { p[i] = i; if (a[i] == 0) continue; i++; } a[0] = p[0];",
            {"p"},
            0,
            id="a way round the addition",
        ),
        pytest.param(
            "float p[8]; for (int i = 0; i < 8; i++) { p[i] = i; __syncthreads(); } a[0] = p[0];",
            {"p"},
            0,
            id="barriers",
        ),
    ],
)
def test_which_arrays_are_private_and_which_loops_short(body, arrays, loops):
    assert looked_at(small(body)) == (arrays, loops)


def test_not_all_loops_are_unrolled_where_there_are_many():
    """Compile time is bounded."""
    loops = "for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) p[i][j] += n * i + j;"
    arrays, few = looked_at(small(f"float p[8][8]; {2 * loops} a[0] = p[n][0];"))
    assert arrays == {"p"} and few == 4
    assert looked_at(small(f"float p[8][8]; {40 * loops} a[0] = p[n][0];"))[1] < 40
