"""Names of arrays for messages: where a pointer came from, what compiler and source say of variables."""

from __future__ import annotations

import re

import numpy as np
import pytest

from backwarp.cuda.text import CudaText
from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.devices.virtual.analyse import debuginfo
from backwarp.devices.virtual.analyse.pointers import WHOLE, Likely, Origin
from backwarp.devices.virtual.explain.declarations import declared_shape, local_arrays, template_values
from backwarp.devices.virtual.explain.owners import local_name
from backwarp.devices.virtual.ptx import parse as ptx
from backwarp.devices.virtual.rewrite import split_depots
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import FLAVOURS, K, device, run, zeros

# --- the compiler's description ----------------------------------------------------------------------

DECLARATIONS = """
struct Tap { float w[3]; int n; };
typedef const unsigned char byte;
constexpr int TILE = 4;
__constant__ float weights[TILE][TILE - 1];
__device__ float4 vectors[5];
__device__ int counter;
extern __shared__ float pool[];
template <int N> __device__ __noinline__ float f(float x, int j) {
  float row[N];
  double pair[2];
  for (int q = 0; q < N; q++) row[q] = x * q;
  pair[j & 1] = x;
  return row[j] + pair[1];
}
extern "C" __global__ void k(float* b, int n) {
  Tap taps[3];
  Tap one;
  float grid[2][4];
  float* pointers[4] = {b, b, b, b};
  unsigned char large[70000];
  int taken = n;
  int* address = &taken;
  address[0] = 4;
  taps[n].w[n] = one.w[n] = grid[n][n] = large[n] = 2;
  taps[1].n = one.n = counter = 1;
  b[n] = f<6>(b[0], n) + taps[n].w[n] + grid[n][1] + pointers[n][2] + large[n] + one.w[1] + pool[n] + one.n;
  b[0] = weights[n][1] + vectors[n].x;
}
"""


def test_variables_as_the_compiler_describes_them():
    found = {d.name: d for d in debuginfo.variables(compile_ptx(DECLARATIONS, "kernel.cu", "debug").text)}
    expected = {
        "weights": (48, (4, 3), 4),
        "vectors": (80, (5,), 16),
        "counter": (4, (), 4),
        "pool": (0, (0,), 4),
        "taps": (48, (3,), 16),
        "one": (16, (), 16),
        "grid": (32, (2, 4), 4),
        "pointers": (32, (4,), 8),
        "large": (70000, (70000,), 1),
        "taken": (4, (), 4),
        "row": (24, (6,), 4),
        "pair": (16, (2,), 8),
    }
    assert {n: (d.nbytes, d.shape, d.itemsize) for n, d in found.items() if n in expected} == expected
    assert found["weights"].symbol == "weights" and found["grid"].line == 19
    assert found["row"].symbol != found["grid"].symbol == found["taps"].symbol
    places = sorted(
        (found[n].offset, found[n].nbytes) for n in ("taps", "one", "grid", "pointers", "large", "taken")
    )
    assert all(a + size <= b for (a, size), (b, _) in zip(places, places[1:], strict=False))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\t.section .debug_info {\n.b8 1\n}",
        "\t.section .debug_info {\n.b32 9\n}\n\t.section .debug_abbrev {\n.b8 1,2\n}",
    ],
)
def test_no_description_and_a_damaged_one(text):
    assert debuginfo.variables(text) == ()


# --- the source's --------------------------------------------------------------------------------------

SOURCE = """
#define ROWS 8
constexpr int TILE = 16;  // int TILE = 4
// float commented[2];
__constant__ float weights[TILE * 2][3];
extern "C" __global__ void k(float* b, const float param[4]) {
  __shared__ float tile[TILE][TILE + 1];
  const double acc[2][ROWS] = {};
  float a[4], c[4], odd[2][TILE + 3];
  const char* s = "float quoted[7];";
  int unknown[sizeof(int)];
  for (int i = 0; i < 3; i++) { short z[5]; z[i] = 1; }
  return;
}
__device__ float weights2[99999999];
float name[2]; int name[3]; float other[4]; int other[4];
"""


@pytest.mark.parametrize(
    "name, nbytes, expected",
    [
        ("weights", 384, ((32, 3), 4)),
        ("tile", 16 * 17 * 4, ((16, 17), 4)),
        ("acc", 128, ((2, 8), 8)),
        ("odd", 152, ((2, 19), 4)),  # the third of its declaration
        ("weights", 100, ((), 4)),  # not these bytes: not believed
        ("commented", 8, ((), 4)),
        ("quoted", 28, ((), 4)),
        ("missing", 7, ((), 1)),
        ("name", 8, ((2,), 4)),  # the one that fits
        ("other", 16, ((4,), 4)),  # two types, one size
    ],
)
def test_shape_of_a_declaration(name, nbytes, expected):
    assert declared_shape(SOURCE, name, nbytes) == expected


def test_arguments_of_a_template():
    source = (
        "template <typename T, int N = 3, bool FULL = true>\n__device__ void f(T* out) { __shared__ T s[N]; }"
    )
    symbol = "_ZZ1fIdLi20ELb1EEvPT_E1s"
    assert template_values(CudaText(source), symbol) == {"T": "double", "N": "20", "FULL": "1"}
    assert declared_shape(source, "s", 160, symbol) == ((20,), 8)
    assert declared_shape(source, "s", 160, access=8) == ((), 8)
    assert template_values(CudaText(source), "_ZZ1fI6__halfLin2EEvPT_E1s") == {"T": "__half", "N": "-2"}
    assert (
        template_values(CudaText(source), "_ZZ1gPfE1s")
        == template_values(CudaText(source), "_ZZ1fIP3odd")
        == {}
    )


ODD = f"""
typedef double real;
#define HALF (N / 2)
constexpr int N = 8, M = 2 * N;
struct Tap {{ float x, y, z; }};
template <typename T, int COUNT> __device__ void fill(float* out) {{
    __shared__ T s[COUNT][COUNT + 1]; s[threadIdx.x + COUNT][1] = 1; out[0] = s[0][0];
}}
{K}alias(float* out) {{ __shared__ real s[64]; s[threadIdx.x + 63] = 1; out[0] = s[0]; }}
{K}in_template(float* out) {{ fill<short, 8>(out); }}
{K}macro(float* out) {{ __shared__ int s[M][HALF]; s[threadIdx.x + M][1] = 1; out[0] = s[0][0]; }}
{K}record(float* out) {{ __shared__ Tap s[N]; s[threadIdx.x].y = 1; out[0] = s[0].y; }}
{K}dynamic(float* out) {{ extern __shared__ real pool[]; pool[threadIdx.x] = 1; }}
{K}unknown(float* out) {{ __shared__ decltype(1.0) s[64]; s[threadIdx.x + 62] = 1; out[0] = s[0]; }}
{K}local(float* out) {{ real s[N / 2]; for (int i = 0; i < 4; i++) s[i] = i; s[out[0] == 0 ? 5 : 0] = 1; out[1] = s[int(out[1])]; }}
"""


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("alias", "s[64], just past its end; s has 64 elements."),
        ("in_template", "s[8,1], 2 past its last element; s has 72 elements, shape 8 x 9."),
        ("macro", "s[16,1], 2 past its last element; s has 64 elements, shape 16 x 4."),
        ("record", "s[8], just past its end; s has 8 elements."),
        ("dynamic", "pool[8], just past its end; pool has 8 elements"),
        ("unknown", "s[64], just past its end; s has 64 elements."),
        ("local", "s[5], 2 past its last element; s has 4 elements."),
    ],
)
def test_an_index_counts_elements_of_the_declared_type(name, says, flavour):
    with pytest.raises(KernelFault) as caught:
        run(
            ODD,
            zeros(4, checks=flavour),
            name=name,
            checks=flavour,
            shared_mem=64 if name == "dynamic" else 0,
        )
    assert f"This writes {says}" in caught.value.explanation


def test_local_arrays_of_a_function():
    found = local_arrays(SOURCE, 6, 14)
    assert found == [
        ("acc", (2, 8), 8),
        ("a", (4,), 4),
        ("c", (4,), 4),
        ("odd", (2, 19), 4),
        ("unknown", (4,), 4),
        ("z", (5,), 2),
    ]


def test_names_in_symbols():
    assert local_name("_ZZ4tilePfiE1t") == "t" and local_name("_ZZ1fILi4EEffiE4tile") == "tile"
    assert local_name("pool") == "pool" and local_name("_ZN1a5countE") == "count"


# --- where a pointer came from -------------------------------------------------------------------------

POINTERS = f"""
struct View {{ int n; float* p; }};
__device__ float table[7];
__device__ float* choose(float* p, float* q, int n) {{ return n > 3 ? p : q; }}
__device__ __noinline__ float get(const float* p, int j) {{
  return p[j];  // GET
}}
{K}k(const float* a, float* b, View view, float** many, int n) {{
  __shared__ float tile[8];
  float local[6];
  float other[3];
  int i = threadIdx.x;
  local[i] = 1;  // LOCAL
  other[i] = 2;
  b[i * 7 + n] = 3;  // STORE
  tile[i - 1] = 4;  // TILE
  table[i] = 5;  // TABLE
  view.p[i] = 6;  // VIEW
  many[n][i] = 7;  // MANY
  const float* walk = a;
  for (int j = 0; j < n; j++)
    b[0] += *walk++;  // WALK
  atomicAdd(b + n, 1.f);  // ATOMIC
  choose((float*)a, b, n)[i] = 8;  // CHOOSE
  (n > 5 ? (float*)a : many[0])[i] = 9;  // MAYBE
  b[n] = get(a, i) + local[n] + other[n] + tile[n];
}}
"""


@pytest.mark.parametrize("flavour", ["debug", "fast"])
def test_where_pointers_came_from(flavour):
    module = ptx.parse(compile_ptx(POINTERS, "kernel.cu", flavour).text, "kernel.cu")
    pointers = Likely(module, "k")
    lines = {n: text.split("// ")[1] for n, text in enumerate(POINTERS.splitlines(), 1) if "// " in text}
    found: dict[str, set] = {}
    for function in module.functions.values():
        for ins in function.body or ():
            if not isinstance(ins, ptx.Instruction) or ins.at.line not in lines or ".param" in ins.opcode:
                continue
            mark = lines[ins.at.line]
            is_write = ins.base in ("st", "red", "atom")
            if is_write and "%SP" not in ins.operands[0] or mark in ("GET", "WALK") or ins.base == "call":
                found.setdefault(mark, set()).update(pointers.origins(ins.at, str(ins)))

    def param(number: int, offset: int = 0) -> Origin:
        return Origin("param", f"k_param_{number}", offset, "k")

    assert found["STORE"] == found["ATOMIC"] == {param(1)}
    assert found["VIEW"] == {param(2, 8)}
    assert found["GET"] == {param(0)}
    assert found["WALK"] == {param(0), param(1)}  # it reads a and writes b
    assert found["CHOOSE"] >= {param(0), param(1)}
    assert found["MANY"] == {Origin("unknown")}
    assert Origin("unknown") in found["MAYBE"] and param(0) in found["MAYBE"]
    assert {o.name for o in found["TILE"]} == {"_ZZ1kE4tile"} and {o.name for o in found["TABLE"]} == {
        "table"
    }
    (local,) = found["LOCAL"]
    assert local.kind == "local" and local.function == "k" and local.offset != WHOLE


def test_an_instruction_that_is_not_there():
    module = ptx.parse(compile_ptx(POINTERS, "kernel.cu", "fast").text, "kernel.cu")
    assert Likely(module, "k").origins(ptx.Location("kernel.cu", 3), "ld.f32 %f1, [%rd1]") == set()


# --- local variables taken apart -------------------------------------------------------------------------

LOCALS = f"""
struct Tap {{ int a; float w[3]; double d; }};
__device__ __noinline__ void fill(float* p, float* end) {{ while (p != end) *p++ = 1; }}
{K}several(float* b, int n) {{
  float head[4], tail[2][3];
  Tap tap{{}}, copy = tap;
  fill(head, head + 4);
  fill(&tail[1][0], &tail[2][0]);
  fill(copy.w, &copy.w[3]);
  memcpy(head + 2, tail[1], 8);
  for (auto& v : tap.w) v = n;
  b[0] = head[1] + tail[n][1] + copy.w[n] + tap.w[2];
  if (n > 9) printf("%d %f\\n", n, b[0]);
}}
{K}one(float* b, int n) {{ float only[5]; only[n] = 1; b[0] = only[n - 1]; }}
{K}none(float* b) {{ b[0] = 1; }}
"""


def test_every_local_variable_gets_memory_of_its_own():
    text = compile_ptx(LOCALS, "kernel.cu", "debug").text
    module = ptx.parse(text, "kernel.cu")
    found = split_depots.run(module)
    several = module.functions["several"]
    sizes = {found[v.name].name: v.size for v in several.variables.values() if v.name in found}
    assert sizes.items() >= {("head", 16), ("tail", 24), ("tap", 24), ("copy", 24)}
    assert not any("%SP" in " ".join(i.operands) for i in several.body if isinstance(i, ptx.Instruction))
    assert [v.size for v in module.functions["one"].variables.values() if v.space == "local"] == [20]
    assert not module.functions["none"].variables


def test_a_depot_that_is_not_understood_stays_as_it_is():
    text = compile_ptx(LOCALS, "kernel.cu", "debug").text
    damaged = (
        text.replace("add.u64 \t%rd", "sub.u64 \t%rd"),  # a use that the compiler does not make
        re.sub(r"add\.u64 \t(%rd\d+), %SP, (\d+)", r"add.u64 \t\1, %SP, 4", text),  # a part of a variable
        re.sub(r"\[%SP\+\d+\]", "[%SP+4000]", text),  # outside
    )
    for changed in damaged:
        module = ptx.parse(changed, "kernel.cu")
        before = list(module.functions["several"].body)
        split_depots.run(module)
        assert module.functions["several"].body == before
    module = ptx.parse(text.partition("\n\t.section")[0], "kernel.cu")  # no debugging sections
    assert split_depots.run(module) == {}


@pytest.mark.parametrize("checks", FLAVOURS)
def test_taken_apart_they_work_as_before(checks):
    dev = device(checks)
    b = dev.array(np.zeros(1, np.float32))
    dev.compile(LOCALS).get_function("several")(1, 1, (b, np.int32(1)))
    assert b.get()[0] == 1 + 1 + 1 + 1


def test_a_static_variable_of_a_function_has_its_name():
    source = f"{K}k(float* out) {{\n    static float sum = 0;\n    sum += 1;  // FAULT\n    out[threadIdx.x] = sum;\n}}"
    with pytest.raises(KernelFault) as caught:
        run(source, zeros(32))
    assert (
        caught.value.kind == "race"
        and "both update sum" in str(caught.value)
        and "_Z" not in str(caught.value)
    )
