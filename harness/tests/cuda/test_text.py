"""Parsing the text of CUDA files, valid and invalid."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from backwarp.cuda import tree as cuda_tree
from backwarp.cuda.pieces import Piece
from backwarp.cuda.text import CudaText, edited, read
from backwarp.cuda.tree import LOOPS, MAX_SOURCE
from backwarp.cuda.values import Values, tunables
from tests import ROOT

SOLUTIONS = sorted(ROOT.glob("solutions/*/kernel.cu"))

FILE = CudaText("""\
// é, so that bytes and characters differ
#include <cuda_fp16.h>
#define LOOP(n) for (int q = 0; q < n; q++)
constexpr int TILE = 16;
__constant__ float weights[TILE * 2][3];
extern __shared__ __align__(16) unsigned char pool[];
__global__ void later(float* x);
template <typename T, int N = 3, class... More>
__device__ __forceinline__ T twice(T x) { return x + x; }
namespace inner {
extern "C" __global__ void __launch_bounds__(TILE * (TILE + 1), 2) scale(  // the kernel's name: "scale"
    const float* __restrict__ a, float4 const* b, int (*rows)[4], unsigned long long n = 4) {
  __shared__ alignas(16) float2 tile[TILE][TILE + 1], other[3];
  int i = blockIdx.x * blockDim.x + threadIdx.x, *p = nullptr;  // return;
  if (i >= n) return;
#pragma unroll
  for (int k = 0, m = 1; k < 4; ++k) {
    float sum = 0.f;
    for (auto& w : weights) { sum += w[k]; }
    tile[i][k].x += sum * a[i + k] +
                    tile[k][i].x;  // tile[9][9]
    __syncthreads();
  }
  const char* s = R"(} tile[1] /* )", c = '"';
  auto f = [&](int z) { return z + i; };
  asm volatile("bar.sync %0;" :: "r"(1) : "memory");
  twice<float>(inner::twice(s[0]));
  later<<<1, 32>>>(nullptr);
}
}
struct Pair { int low, high[2]; };
enum Kind { FIRST, LAST };
""")


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(FILE.lines, 1) if text in line)


def test_functions():
    assert [f.name for f in FILE.functions] == ["twice", "scale"]
    twice, scale = FILE.functions
    assert FILE.kernels == (scale,) and FILE.function("scale") is not None and FILE.function("later") is None
    assert twice.templates == ("T", "N", "More") and twice.words == ("__device__", "__forceinline__")
    assert (twice.whole.line, twice.line, twice.name_line) == (8, 9, 9)
    assert (scale.whole.line, scale.name_line, scale.last_line) == (11, 11, 29)
    assert scale.whole.code.startswith('extern "C" __global__') and scale.body.code.endswith("\n}")
    assert [(p.name, p.type, p.pointer, p.words) for p in scale.parameters] == [
        ("a", "float", True, ("const",)),
        ("b", "float4", True, ("const",)),
        ("rows", "int", True, ()),
        ("n", "unsigned long long", False, ()),
    ]
    assert [name for name, _ in scale.calls()] == ["__syncthreads", "twice", "twice", "later"]


def test_variables_and_their_extents():
    found = {v.name: v for v in FILE.variables}
    values = Values(FILE)
    shapes = {
        name: (v.type, values.extents(v)) for name, v in found.items() if v.extents and v.name != "pool"
    }
    assert shapes == {
        "weights": ("float", (32, 3)),
        "tile": ("float2", (16, 17)),
        "other": ("float2", (3,)),
        "rows": ("int", (4,)),
        "high": ("int", (2,)),
    }
    assert found["pool"].words == ("extern", "__shared__") and found["pool"].extents == (None,)
    assert found["i"].value.code == "blockIdx.x * blockDim.x + threadIdx.x" and found["p"].pointer
    assert "alignas(16)" in found["tile"].words and found["LAST"].type == "enum" and found["s"].type == "char"


def test_places_are_those_of_the_text():
    assert FILE.lines[0].startswith("// é")
    for v in FILE.variables:
        assert FILE.text[v.start : v.end] == v.code and v.name in v.code
        assert FILE.lines[v.line - 1][v.column - 1 :].startswith(v.code.split("\n")[0])
    (comment,) = (c for c in FILE.comments if "characters" in c.code)
    assert comment.code == FILE.lines[0]


def test_what_is_around_a_line():
    line = line_of("sum += w[k]")
    assert FILE.function_at(line).name == "scale" and FILE.function_at(2) is None
    assert [p.line for p in FILE.around(FILE.text.index("w[k]"), *LOOPS)] == [line, line - 2]
    assert [p.part("condition").code for p in FILE.around(FILE.text.index("return;\n#"), "if_statement")] == [
        "(i >= n)"
    ]


def test_the_names_at_a_place():
    inside = FILE.names_at(FILE.text.index("sum += w[k]"))
    assert {"TILE", "weights", "pool", "a", "b", "n", "tile", "i", "p", "k", "m", "sum", "w"} <= set(inside)
    assert not {"x", "s", "z", "low", "high", "q", "FIRST"} & set(inside)
    assert inside["k"].line == line_of("int k = 0") and inside["tile"].type == "float2"
    assert {"z", "i"} <= set(FILE.names_at(FILE.text.index("z + i")))
    assert set(FILE.names_at(FILE.text.index("return x + x"))) == {"TILE", "weights", "pool", "x", "N"}


def test_elements_named_in_a_line():
    line = line_of("tile[i][k].x +=")
    assert [p.code for p in FILE.subscripts("tile", line)] == ["tile[i][k]"]
    assert [p.is_updated for p in FILE.subscripts("tile", line)] == [False]  # its member x is
    assert [p.code for p in FILE.subscripts("a", line)] == ["a[i + k]"]
    assert [p.code for p in FILE.subscripts("tile", line + 1)] == ["tile[k][i]"]
    assert FILE.subscripts("", line) == FILE.subscripts("tile", 999) == []
    nested = CudaText("void f() { a[b[i]][b[j]] += b[a[0][1]]; b[0]++; c[0] = b[1]; }")
    assert [p.code for p in nested.subscripts("a", 1)] == ["a[b[i]][b[j]]", "a[0][1]"]
    assert [p.code for p in nested.subscripts("b", 1)] == ["b[i]", "b[j]", "b[a[0][1]]", "b[0]", "b[1]"]
    assert [p.is_updated for p in nested.subscripts("b", 1)] == [False, False, False, True, False]
    assert [p.is_updated for p in nested.subscripts("a", 1)] == [True, False]


def test_tokens_are_outside_of_comments_and_directives():
    words = [t.code for t in FILE.tokens]
    assert (
        words.count("tile") == 3
        and words.count("return") == 3
        and "LOOP" not in words
        and "unroll" not in words
    )
    assert 'R"(} tile[1] /* )"' in words and "'\"'" in words and words.count("{") == words.count("}")


@pytest.mark.parametrize(
    ("code", "compared"),
    [
        ("x[0] = (y >= 0 && y < H && x0 >= 0 && x0 < W) ? 1 : 0;", ["y >= 0", "y < H", "x0 >= 0", "x0 < W"]),
        ("if (y < H || x0 > (W)) x[0] = 1;", ["y < H", "x0 > (W)"]),
    ],
)
def test_comparisons_are_no_arguments_of_a_template(code, compared):
    file = read(f"__global__ void k(int* x, int y, int x0, int H, int W) {{ {code} }}")
    signs = ("<", ">", ">=")
    found = [e for e in file.whole.all("binary_expression") if e.part("operator").code in signs]
    assert [e.code for e in found] == compared


def test_arguments_of_a_template_stay():
    file = read("template <bool A, bool B> __device__ int f(); __device__ int g() { return f<1 && 2, 3>(); }")
    assert [call.part("function").code for call in file.whole.all("call_expression")] == ["f<1 && 2, 3>"]


def test_macros():
    file = CudaText("#define A 1 // one\n#define F(x, y) x \\\n + y\n#define EMPTY\nint a = F(A, 2);\n")
    assert [(m.name, m.value.split(), m.parameters) for m in file.macros] == [
        ("A", ["1", "//", "one"], None),
        ("F", ["x", "+", "y"], ("x", "y")),
        ("EMPTY", [], None),
    ]


def test_macros_that_stand_for_specifiers_or_statements():
    file = CudaText("""\
#define EXPORT extern "C" __device__ __noinline__
#define BEGIN int i = threadIdx.x; \\
              int r = 0;
#define END a[i] = r; }
#define TEST(name) __global__ void name(int* a)
EXPORT int f(int x) { return x; }
TEST(first) {
  BEGIN
  int p[2], q;
  if (i) return;
}
EXPORT float g() { return 0; }
""")
    assert not file.root.has_error and [f.name for f in file.functions] == ["f", "TEST", "g"]
    assert [v.name for v in file.variables if v.line == 9] == ["p", "q"]


def test_what_is_left_out_by_the_preprocessor():
    file = CudaText("""\
#if 0
__global__ void off() { }
#elif 1
__global__ void on() { }
#else
__global__ void neither() { }
#endif
#ifdef FAST /* } */
constexpr int A = 1;
#else
constexpr int A = 2;
#endif
""")
    assert [f.name for f in file.functions] == ["on", "neither"]
    assert [v.name for v in file.variables] == ["A", "A"] and "FAST" not in [t.code for t in file.tokens]


def test_pieces_are_replaced():
    text = "int a = b; // b\nint c = b;"
    words = [t for t in CudaText(text).tokens if t.code == "b"]
    assert edited(text, [(w, "(b + 1)") for w in words]) == "int a = (b + 1); // b\nint c = (b + 1);"


# ---- texts that are no C++ ---------------------------------------------------------------------------------


def ask_everything(text: str) -> CudaText:
    """Asks every question about every line: each result lies within the text."""
    file = CudaText(text)
    pieces = [*file.functions, *file.variables, *file.comments, *file.tokens]
    values = Values(file, {"N": "3"})
    for f in file.functions:
        pieces += [f.whole, f.body, *f.parameters, *(call for _, call in f.calls())]
    for v in file.variables:
        values.extents(v), values.size_of(v.type), values.integer(v.value)
    tunables(text)
    for line in range(len(file.lines) + 2):
        pieces += [p for p in [file.function_at(line)] if p]
        pieces += [p for name in ("a", "tile") for p in file.subscripts(name, line)]
        assert all(p.is_updated in (True, False) for p in file.subscripts("a", line))
    place = len(text) // 2
    file.names_at(place), file.around(place)
    for piece in pieces:
        assert 0 <= piece.start <= piece.end <= len(text) and 1 <= piece.line <= piece.last_line <= len(
            file.lines
        )
    return file


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n",
        "}",
        "{",
        '"',
        "'",
        "/*",
        "//\\",
        "\\",
        "#",
        "#if",
        "#if 0",
        "#endif",
        "#define",
        "#define A(",
        'R"(',
        "__global__",
        "__global__ void",
        "__global__ void k(",
        "__global__ void k() {",
        "int a[",
        "int a[] = {",
        "enum {",
        "enum { A = }; int a[A];",
        "a ? b :",
        "- = +",
        "sizeof(",
        "f<<<",
        "template <",
        "template <> <",
        "\0int a;\0",
        "\r\nint a;\r\n",
        "\x0c\x0b\u2028int a;",
        "int é[é];",
        "\U0001f600 int a[2];",
        "\ufeffint a;",
        "__align__(",
        "__align__((((",
        "#pragma",
        "#pragma once \\",
        "/*\n#pragma x */ int a[2];",
        "#define A A B\n#define B B A\nint a[A];",
        "#define M {\n#define W }\nvoid f() M W\nint a[1];",
        "constexpr int = 3; constexpr 3; constexpr int a; constexpr int b = ; constexpr int c(2), d{3}, e{};",
        "using T = ; typedef ; typedef int; using A = B; using B = A; A a[sizeof(A)];",
        "template <template <int> class C, int> __global__ void k(C<3>& a) {}",
        "struct S { enum { A, B } e; union { int a; float b[A]; }; S(int a) : a(a) {} ~S() {} operator int(); };",
        "void f(int a, ...) { goto x; x: switch (a) { case 1: default: ; } do ; while (a); try {} catch (int e) {} }",
        "auto [a, b] = c; int (*f)(int), (&r)[3] = a, *p[2][3], S::*m; int operator()(int);",
    ],
)
def test_odd_texts(text):
    ask_everything(text)


def test_files_with_pieces_cut_out_moved_and_doubled():
    rng = random.Random(1)
    for path in SOLUTIONS[::9]:
        text = path.read_text(encoding="utf-8")
        for _ in range(4):
            a, b, c = sorted(rng.randrange(len(text)) for _ in range(3))
            ask_everything(
                rng.choice([text[:a] + text[b:], text[:a] + text[b:c] + text[a:], text[:b] + '"' + text[b:]])
            )


def test_a_file_with_an_error_keeps_its_other_functions():
    text = "__global__ void a(int n) { int i = ; }\n__global__ void b(int n) { if (n == ) { n++; } }\n__global__ void c() {}\n"
    assert {"a", "c"} <= {f.name for f in ask_everything(text).functions}


def test_threads_parse_side_by_side():
    """As `watch` does, which explains one text while the next is read."""
    texts = [path.read_text(encoding="utf-8") for path in SOLUTIONS[:12]]
    expected, interval = [str(cuda_tree.parse(text)) for text in texts], sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(lambda text: str(cuda_tree.parse(text)), texts * 3)) == expected * 3
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.parent.name)
def test_every_solution_is_parsed(path):
    file = read(path.read_text(encoding="utf-8"))
    assert not file.root.has_error and file.kernels
    assert all(f.whole.code.count("{") == f.whole.code.count("}") for f in file.functions)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "{",
        "a<",
        "a[",
        "#if 1\n",
        "f(int a, ",
        "struct a{",
        "if(",
        "/*",
        "#define A B\n",
        "a(){",
        "x*y;",
        "a[0]",
    ],
)
def test_a_large_text_is_read_in_bounded_time(piece):
    """It may be as deep as it is long; then, or if it is larger than a kernel file may be, it is not read at
    all."""
    text = piece * (20_000 // len(piece))
    file = CudaText(text)
    (
        file.functions,
        file.variables,
        file.subscripts("a", 1),
        file.around(1),
        file.names_at(len(text) // 2),
    )
    assert CudaText(text + " " * MAX_SOURCE).tokens == ()


def test_a_text_that_takes_too_long_to_parse_is_nothing(monkeypatch):
    monkeypatch.setattr(cuda_tree, "_SECONDS", 0.05)
    assert not cuda_tree.parse("/*\"'(" * 3000).children
    assert cuda_tree.parse("int f() { return 1; }").children


@pytest.mark.parametrize("text", ["int x = 1" + "+1" * 300 + ";", "{" * 300 + "}" * 300, "int x;" * 20_000])
def test_a_text_that_nobody_writes_by_hand_is_nothing(text):
    """Readers of a tree recurse into it, and walk all of it more than once."""
    assert CudaText(text).tokens == ()
    assert len(CudaText(text[: len(text) // 20]).tokens) > 10


def test_parts_are_those_of_a_walk_in_its_order():
    """Also in broken text, where the parser inserts empty tokens, and under `#if 0`."""
    text = "#if 0\nint z = 9;\n#endif\nvoid f(int a) { if (a > 1) g(a, b[a + 1]); int x = ; for (;;) h(a) }\n"
    file, kinds = read(text), ("identifier", "call_expression", "binary_expression", "number_literal")
    nodes, left_out = [*cuda_tree.walk(file.root)], file.around(text.index("z"))[0]
    for piece in [left_out, *(Piece(file, node) for node in nodes)]:
        below = [n.id for n in cuda_tree.walk(piece.node) if n.type in kinds]
        assert [p.node.id for p in piece.all(*kinds)] == below
        assert [t.code for t in piece.tokens] == [t.code for t in file.tokens if piece.holds(t)]
    assert left_out.kind == "identifier" and [*left_out.all("identifier")] == [left_out]
