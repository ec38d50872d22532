"""A file with all its edits built in: without an edit it computes what the file does, with one what the
edited file does."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from backwarp.cuda.text import read
from backwarp.devices.virtual.variants import FAULTS, RIGHT, WRONG, Wanted
from backwarp.grading.repair.edits import ATOMIC, BINARY, FLOAT, INTEGER, TOO_MANY, filled, replaced
from backwarp.grading.repair.pairs import Families, declared, exchanged
from backwarp.grading.repair.repair import Repair
from backwarp.grading.repair.schemata import Schemata, rows
from backwarp.grading.repair.suspicion import setters
from backwarp.grading.repair.terms import are_akin, are_counterparts, of_one_direction, turned
from tests.devices.virtual.launches import K, Quick

SOURCE = """
constexpr int SIDE = 4;
#define TWICE(x) (2 * (x))
__device__ float weight(int n) { return n % 3 == 0 ? 1.5f : -0.5f; }
__device__ void put(float& to, float what) { to = what; }
extern "C" __global__ void k(const float* a, float* out, int n) {
    __shared__ float tile[SIDE][SIDE + 1];
    int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    if (x >= n || y >= n) return;
    float own[2] = {0.0f, 1.0f};
    unsigned steps = 0u;
    tile[y][x] = a[y * n + x];
    for (int i = 0; i < n; i++) {
        if (i == y) continue;
        for (int j = n; j > 0; j /= 2) steps += TWICE(1);
        own[i & 1] += weight(i) * tile[y][x];
    }
    int left = n;
    while (left > 1) left >>= 1;
    do left--; while (left > 0);
    const float* row = a + y * n;
    float sum = fmaxf(own[0], own[1]) + (float)steps + -row[x] * left;
    put(out[y * n + x], sum);
}
extern "C" __global__ void other(int* p) { p[0] = 1; }
"""


@cache
def limited() -> Quick:
    """A device that stops endless loops early."""
    dev = Quick("memory")
    dev.step_budget = 1 << 15
    return dev


def outputs(source: str) -> np.ndarray:
    """What the kernel writes."""
    return launched(source, lambda kernel, out, *how: (kernel(*how), out.get())[1])


def judged(schemata: Schemata, edits, wanted: np.ndarray, apart: bool = False) -> list[int]:
    """What becomes of the kernel with each of these edits, where that is to be written."""
    return launched(
        schemata.text,
        lambda kernel, out, *how: kernel.variants(
            "backwarp",
            rows(edits, len(schemata.sites)),
            *how,
            [Wanted(out, wanted, wanted * 0 + 1e-5)],
            0,
            100,
            apart,
        ).tolist(),
    )


def launched(source: str, way):
    dev = limited()
    a, out = dev.array(np.arange(9, dtype=np.float32) + 1), dev.array(np.zeros(9, np.float32))
    return way(dev.compile(source).get_function("k"), out, 1, 16, (a, out, np.int32(3)))


def about(source: str, *texts: str) -> Schemata:
    """The edits of the lines with these texts: fewer take less time to compile."""
    lines = enumerate(source.split("\n"), 1)
    return Schemata(source, "k", only=[n for n, line in lines if any(text in line for text in texts)])


@pytest.fixture(scope="module")
def schemata():
    return Schemata(SOURCE, "k")


def test_every_edit_computes_what_the_edited_text_does(schemata):
    chosen = [c for s in schemata.sites for c in list(s.choices(0, 9))[:: max(len(s.operations) // 2, 9)]]
    chosen = [c for c in chosen if c.site.piece.line > 8][::23]
    before, *after = judged(schemata, [(), *((c,) for c in chosen)], outputs(SOURCE))
    texts = [(c, Repair(c.edits, 0.0, SOURCE).text) for c, what in zip(chosen, after) if what == WRONG]
    assert before == RIGHT and FAULTS in after and len(chosen) > 20 and len(texts) > 4
    for c, text in texts[:3]:
        for apart in (False, True):
            assert judged(schemata, [(c,), ()], outputs(text), apart) == [RIGHT, WRONG], text


SLIPS = """
__device__ unsigned first(float x) { return __float_as_uint(x); }
__device__ unsigned second(float x) { return __float_as_uint(x) + 1; }
extern "C" __global__ void k(const float* a, float* out, int n) {
    int t = threadIdx.x;
    if (t >= 9) return;
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        sum += n;
        out[t] = sum + (t + n) * i;
    }
    sum = n + expf(n) - t;
    if (t < n) out[t] = sum + (first(a[t]) == second(a[t]));
}
"""
#: a text, and what stands there after the edit of a kind
OTHERWISE = {
    "a choice": ("if (t < n) out[t] = sum", "out[t] = t < n ? sum"),
    "an order of operations": ("(t + n) * i", "(t * i + n)"),
}


def test_slips_of_statements_groups_and_calls():
    made = Schemata(SLIPS, "k")
    for kind, (old, new) in OTHERWISE.items():
        chosen = [c for s in made.sites if s.operations[0].says == kind for c in s.choices()]
        texts = {c: "".join(e.after for e in c.edits) for c in chosen}
        repaired = {c: Repair(c.edits, 0.0, SLIPS).text for c in chosen}
        c = next(c for c, text in repaired.items() if old not in text and new in text)
        assert judged(made, [(c,), ()], outputs(repaired[c])) == [RIGHT, WRONG], texts[c]


def test_an_argument_of_a_function_that_may_be_another_is_written_once():
    for source in (SOURCE, SLIPS):
        sites = Schemata(source, "k").sites
        places = [(s.piece.start, s.piece.end, s.operations) for s in sites if s.made is None]
        assert places and len(set(places)) == len(places)


def test_other_kernels_are_left_out_and_lines_keep_their_numbers(schemata):
    lines = schemata.text.split("\n")[schemata.before :]
    assert len(lines) == len(SOURCE.split("\n")) and "void other" not in schemata.text
    assert "weight" in lines[3] and "while" in lines[18]


def test_what_the_compiler_must_know_is_not_changed(schemata):
    places = {s.piece.code for s in schemata.sites if s.piece.line in (2, 3, 7)}
    assert not places and "SIDE + 1" in schemata.text


@pytest.mark.parametrize(
    "text, piece, a, b, code, wanted",
    [
        ("x * (y + z)", "y + z", "p", "q", "e * a", "x * ((y + z) * p)"),
        ("x * y", "y", "p", "q", "e + a", "x * (y + p)"),
        ("x + y", "x", "p", "q", "a * b + e", "p * q + x + y"),
        ("x - y", "y", "p", "q", "e - a", "x - (y - p)"),
        ("x + y * z", "y * z", "p", "q", "l", "x + y"),
        ("x + -y", "-y", "p", "q", "-e", "x + y"),
        ("-y", "y", "p", "q", "-e", "-(-y)"),
    ],
)
def test_an_edit_has_the_parentheses_it_needs(text, piece, a, b, code, wanted):
    source = f"void f() {{ v = {text}; }}"
    found = [
        p
        for p in read(source).whole.all("binary_expression", "identifier", "unary_expression")
        if p.code == piece
    ]
    operation = next(o for o in (*INTEGER, *BINARY, *FLOAT) if o.code == code)
    assert replaced(found[0], operation, a, b).apply(source) == f"void f() {{ v = {wanted}; }}"
    assert filled("e", {"e": ("x", 12)}) == ("x", 12)


def test_names_are_exchanged_and_rows_have_columns_for_counterparts():
    body = "int r = n / 3;\n int s = n % 3;\n out[r * H + s] = pad_h * p + pad_w * q;\n"
    source = f"{K}k(float* out, int n, int H, int W, int p, int q, int pad_h, int pad_w) {{\n{body}}}\n"
    sites = Schemata(source, "k").sites
    texts = {tuple(c.edit.after for c in pair) for pair in exchanged(sites)}
    assert {("s", "r"), ("pad_w", "pad_h"), ("q", "p")} <= texts
    families = Families(sites)
    pairs = [f for s in sites for c in s.choices(0, 1.6) for f in families.of(c) if c.site.piece.code == "p"]
    assert ("p + pad_h", "q + pad_w") in {tuple(c.edit.after.strip("()") for c in pair) for pair in pairs}


def test_names_are_exchanged_in_several_lines():
    body = "int h = down * pad_h + stride_h;\n int w = right * pad_w + stride_w;\n out[h] = w % stride_h;"
    names = "float* out, int down, int right, int stride_h, int stride_w, int pad_h, int pad_w"
    sites = Schemata(f"{K}k({names}) {{\n{body}\n}}\n", "k").sites
    texts = {tuple(c.edit.after for c in some) for some in exchanged(sites)}
    assert ("stride_w", "stride_h", "stride_w") in texts
    assert ("stride_h", "pad_h", "stride_w", "pad_w", "pad_h") in texts


def test_a_family_keeps_its_direction():
    body = "int h = p;\n int w = q;\n out[0] = h + w;"
    names = "float* out, int p, int q, int d, int stride_d, int stride_h, int stride_w"
    sites = Schemata(f"{K}k({names}) {{\n{body}\n}}\n", "k").sites
    families = Families(sites)
    texts = {tuple(c.edit.after for c in f) for s in sites for c in s.choices() for f in families.of(c)}
    assert ("p * stride_h", "q * stride_w") in texts and ("p * stride_h", "q * stride_d") not in texts


def test_names_of_rows_and_columns():
    assert are_counterparts("pad_h * H", "pad_w * W") and not are_counterparts("pad_h", "pad_x")
    assert not are_counterparts("p", "p")
    assert of_one_direction("p", "stride_h") and not of_one_direction("p", "stride_w")
    assert list(turned("p * stride_h", {"p", "q", "stride_h", "stride_w"})) == ["q * stride_w"]
    assert are_counterparts("t / S * pad_h", "t % S * pad_w") and not are_counterparts("t / S", "t / S")
    assert are_counterparts("HEIGHT", "WIDTH") and are_counterparts("tileRow", "tileCol")
    assert are_counterparts("h < Ho", "w < Wo") and not are_counterparts("acc", "act")
    assert list(turned("p < Ho", {"p", "q", "Ho", "Wo"})) == ["q < Wo"]
    assert are_akin("C_in", "C_out") and are_akin("Ho", "H") and not are_akin("n", "x")


def test_short_names_of_rows_and_columns():
    for row, column in (
        ("sh", "sw"),
        ("OH", "OW"),
        ("Ho", "Wo"),
        ("ty", "tx"),
        ("gy0", "gx0"),
        ("g.sh", "g.sw"),
    ):
        assert are_counterparts(row, column) and are_counterparts(column, row)
    for one, other in (("th", "tn"), ("sh", "ws"), ("shape", "swape"), ("at", "as")):
        assert not are_counterparts(one, other)
    assert list(turned("p * sh - ph", {"q", "sw", "pw"})) == ["q * sw - pw"]


def test_a_long_function_is_compiled_once_and_not_for_each_call():
    helper = "__forceinline__ __device__ int f(int n) { int m = 2 * n + 1; m += n; return m * n; }\n"
    text = Schemata(f"{helper}{K}k(int* x) {{ x[0] = f(x[1]); }}\n", "k").text
    assert "__device__ __noinline__ int f" in text and "__forceinline__ __device__" not in text
    waits = helper.replace("m += n;", "__syncthreads();")
    assert "__noinline__ int f" not in Schemata(f"{waits}{K}k(int* x) {{ x[0] = f(x[1]); }}\n", "k").text


def test_a_parameter_that_need_not_be_used_is_not_likely_to_be_missing():
    source = f"{K}k(int* x, int n, int batch) {{ x[n] = n; }}\n"
    ranks = [
        {e.text: e.rank for s in Schemata(source, "k", idle=idle).sites for e in s.pool}["batch"]
        for idle in ((), ["batch"])
    ]
    assert ranks[0] < ranks[1] == 0.0


def test_a_value_that_a_function_returns_at_its_end_is_not_guarded():
    returns = "__device__ int f(int n) {\n if (n > 3) return 3;\n return n;\n}\n"
    sites = Schemata(f"{returns}{K}k(int* x) {{ x[0] = f(x[1]); }}\n", "k").sites
    lines = {s.piece.line for s in sites if s.operations == (TOO_MANY,)}
    assert 2 in lines and 3 not in lines


def test_lines_are_suspected_that_set_what_faults():
    source = f"{K}k(float* x, int n) {{\n int a = n;\n int b = a;\n int c = n;\n x[b] = 0;\n}}\n"
    assert setters(source, 5, 0.2) == {5: 0.2, 3: 0.1, 2: 0.05}


ROWS = """
extern "C" __global__ void k(const float* a, float* out, int n) {
    int t = threadIdx.x, top = t / 3 * 2, left = t % 3, H = n + 1, W = n;
    if (t >= 9) return;
    float sum = 0.0f;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3 && left + j < W; j++) sum += i + 2 * j;
    }
    out[t] = sum;
}
"""


def test_a_loop_may_end_by_what_its_own_variable_is_now():
    """`top + i < H`, as `left + j < W` says it of columns."""
    made = about(ROWS, "i < 3")
    (c,) = [
        c
        for s in made.sites
        if s.piece.code == "i < 3"
        for c in s.choices()
        if c.edit.after == "i < 3 && top + i < H"
    ]
    assert judged(made, [(c,), ()], outputs(c.edit.apply(ROWS))) == [RIGHT, WRONG]


MEMBERS = """
struct Grid {
    int rows, cols;
    __device__ int at(int r, int c) const { return r * rows + c; }
    __device__ bool has(int r, int n) const { return r <= cols; }
};
extern "C" __global__ void k(const float* a, float* out, int n) {
    int t = threadIdx.x;
    if (t >= 9) return;
    Grid g = {n, n + 1};
    bool first = a[t] > 2.0f;
    float sum = (t & (n - 1)) + g.rows;
    while (true) {
        sum += 1.0f;
        if (sum > n) break;
    }
    if (g.has(t, 1)) sum += a[g.at(1, t % 2)];
    out[t] = first ? sum : 1.0f;
}
"""


@pytest.mark.parametrize(
    "old, new",
    [
        ("t & (n - 1)", "t % n"),
        ("return r <= cols", "return r <= cols && r < n"),
    ],
)
def test_masks_and_conditions_that_are_values(old, new):
    made = about(MEMBERS, old)
    wanted = MEMBERS.replace(old, new)
    c = next(c for s in made.sites for c in s.choices() if Repair(c.edits, 0.0, MEMBERS).text == wanted)
    assert judged(made, [(c,), ()], outputs(wanted)) == [RIGHT, WRONG]


def test_names_of_two_declarations_are_exchanged_with_their_extents():
    body = "int w = i % W;\n int c = i / W % C;\n x[c] = w;"
    source = f"{K}k(int* x, int i, int W, int C) {{\n{body}\n}}\n"
    changed = (tuple(e for c in some for e in c.edits) for some in declared(Schemata(source, "k").sites))
    texts = {Repair(edits, 0.0, source).text for edits in changed}
    assert source.replace("w = i % W;\n int c = i / W % C", "c = i % C;\n int w = i / C % W") in texts


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("own", "meant"),
    [
        ("a[t] - a[1] / n", "(a[t] - a[1]) / n"),
        ("a[t] * (n - a[1])", "a[t] * n - a[1]"),
        ("fmaxf(a[t], a[1])", "a[t] + a[1]"),
        ("min(t, n)", "t * n"),
    ],
)
def test_what_is_grouped_otherwise_and_what_needs_no_function(own, meant):
    source = (
        f"{K}k(const float* a, float* out, int n) {{ int t = threadIdx.x; if (t < 9) out[t] = {own}; }}\n"
    )
    made = Schemata(source, "k")
    c = next(c for s in made.sites for c in s.choices() if c.edit.apply(source) == source.replace(own, meant))
    assert judged(made, [(c,), ()], outputs(source.replace(own, meant))) == [RIGHT, WRONG]


def test_a_variable_of_the_block_is_not_read_beside_what_the_kernel_does():
    body = (
        "__shared__ float sum;\n if (threadIdx.x == 0) sum = 0;\n __syncthreads();\n sum += x[threadIdx.x];"
    )
    source = f"{K}k(float* x) {{\n{body}\n}}\n"
    made = Schemata(source, "k", races={5})
    c = next(c for s in made.sites for c in s.choices() if s.operations[c.operation] is ATOMIC)
    dev = Quick("full")
    x = dev.array(np.ones(64, np.float32))
    module = dev.compile(made.text)
    module.set_constant("backwarp", rows([(c,)], len(made.sites))[0])
    module.get_function("k")(1, 64, (x,))  # without a fault
    assert c.edit.apply(source) == source.replace("sum += x[threadIdx.x]", "atomicAdd(&sum, x[threadIdx.x])")
