"""Constants, extents and tunables of CUDA files."""

import pytest

from backwarp.cuda.text import CudaText
from backwarp.cuda.values import Values, tunables
from backwarp.errors import CourseError


def test_tunables_are_read_from_the_source():
    source = """
    constexpr int TILE = 16;  // constexpr int COMMENTED = 1;
    /* constexpr int ALSO = 2; */
    const char* text = "/*";
    static constexpr unsigned int THREADS = TILE * TILE / 2;
    constexpr long long BIG = 1'000'000LL, other;
    constexpr int MASK = 0x1Fu, FLOATS[2] = {1, 2};
    constexpr int HALF = -7 / 2;
    constexpr int SIZE = sizeof(float);
    constexpr float RATE = 2;
    constexpr bool FAST = true;
    const int NOT_ONE = 3;
    struct Shape { static constexpr int ROWS = 4; };
    """
    expected = {"TILE": 16, "THREADS": 128, "BIG": 1000000, "MASK": 31, "HALF": -3, "SIZE": 4, "FAST": 1}
    assert tunables(source) == expected
    with pytest.raises(CourseError, match="constexpr int ROWS"):
        tunables(source)["ROWS"]


def test_a_tunable_of_the_file_comes_before_one_of_a_function():
    source = (
        "__device__ void f() { constexpr int TILE = 8, OWN = 2; }\n#if 0\nconstexpr int TILE = 4;\n#endif\n"
    )
    assert tunables(source + "constexpr int TILE = 16;") == {"TILE": 16, "OWN": 2}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("SIDE * 2", 6),  # 4 + 1 * 2: a macro is its text
        ("SQUARE(SIDE) + PLAIN(1 + 1)", 28),
        ("ceil_div(7, WIDTH) == 1 ? 'a' : 0", 97),
        ("(unsigned)int(5) % static_cast<int>(3)", 2),
        ("Colour::GREEN + BLUE + Shape::ROWS", 6 + 7 + 4),
        ("0b101 | 017 ^ ~0 & !0", 0b101 | 0o17 ^ 1),
        ("sizeof(float4) >> (true && 1 <= 2)", 8),
        ("", None),
        ("n + 1", None),
        ("ODD(1)", None),
        ("SELF + AGAIN(1)", None),
        ("1.5f", None),
        ("1 << 64", None),
        ("-1 / 0", None),
        ("1 % (WIDTH - 16)", None),
        ("(((1)", None),
        ("f()", None),
    ],
)
def test_values_of_expressions(expression, value):
    source = f"""
#define SIDE 4 + 1  // at the end of a line
#define SQUARE(x) ((x) * (x))
#define PLAIN(x) x * \\
                 x
#define ODD(x) 3;
#define SELF SELF
#define AGAIN(x) AGAIN(x)
enum class Colour : int {{ RED = 5, GREEN, BLUE }};
enum {{ BLUE = 7 }};
struct Shape {{ static constexpr int ROWS = 4; }};
constexpr int WIDTH{{16}};
__host__ __device__ constexpr int ceil_div(int a, int b) {{ return (a + b - 1) / b; }}
__device__ int f() {{ return 1; }}
__global__ void k(int n) {{ constexpr int FOUND = {expression}; }}
"""
    if expression.startswith("Colour"):
        source = source.replace("enum { BLUE = 7 };", "")
    assert tunables(source).get("FOUND") == value


EXTENTS = """
constexpr int TILE = 16, WIDTH = TILE + 1;
#define ROWS (WIDTH)
enum Q { FIRST = 5, LAST };
typedef double number; using real = number;
const int TWICE = 1; static constexpr unsigned TWICE{2};
const int LOOP = LOOP + 1;
"""


@pytest.mark.parametrize(
    ("brackets", "expected"),
    [
        ("[3]", (3,)),
        ("[TILE][TILE + 1]", (16, 17)),
        ("[2 * (TILE - 1)]", (30,)),
        ("[0x10]", (16,)),
        ("[N]", ()),
        ("[]", ()),
        ("[3u / 2 + (1 << 3) % 5]", (4,)),
        ("[ROWS][LAST]", (17, 6)),
        ("[sizeof(real)][Q::FIRST + 1]", (8, 6)),
        ("[TWICE]", ()),  # two definitions
        ("[LOOP]", ()),
        ("[1 / 0]", ()),
        ("[0]", ()),
        ("[-2][-2]", ()),
        ("[1 << 1 << 39 << 39]", ()),
        ("[9**9**9]", ()),
        ("[__import__('os')]", ()),
        ("[" + "(" * 90 + "]", ()),
    ],
)
def test_extents(brackets, expected):
    file = CudaText(f"{EXTENTS}int array{brackets};")
    found = [v for v in file.variables if v.name == "array"]
    assert [Values(file).extents(v) for v in found] == [expected] or not found and not expected


def test_a_name_means_what_it_is_where_it_is_used():
    file = CudaText("""
constexpr int N = 4;
template <int N, typename T> __global__ void k() { T s[N]; { constexpr int N = 2; T t[N]; } }
__global__ void plain() { float u[N]; for (const int N = 8; ;) { float v[N]; } float w[N]; }
""")
    shapes = {v.name: Values(file, {"M": "3"}).extents(v) for v in file.variables if v.extents}
    assert shapes == {"s": (), "t": (2,), "u": (4,), "v": (8,), "w": (4,)}
    (s,) = (v for v in file.variables if v.name == "s")
    values = Values(file, {"N": "6", "T": "double"})
    assert values.extents(s) == (6,) and values.size_of(s.type) == 8


@pytest.mark.parametrize(
    "source",
    [
        "constexpr" + " " * 200_000 + "/*" * 20_000 + "constexpr int A = " + "9" * 20_000 + ";",
        "constexpr int A = " + "(" * 50_000 + "1" + ")" * 50_000 + ";",
        "constexpr int A = " + "-" * 390 + "1;",
        "constexpr int A = " + "9" * 20_000 + ";",
        "#define A0 1\n"
        + "".join(f"#define A{i + 1} A{i} + A{i}\n" for i in range(60))
        + "constexpr int A = A60;",
        "constexpr int f0(int a) { return a; }\n"
        + "".join(f"constexpr int f{i + 1}(int a) {{ return f{i}(a) + f{i}(a); }}\n" for i in range(60))
        + "constexpr int A = f60(1);",
        "constexpr int f(int a) { return f(a); }\nconstexpr int A = f(1);",
    ],
)
def test_hostile_text_is_given_up(source):
    assert "A" not in tunables(source)


def test_macros_are_expanded_no_further_than_an_expression_may_be_long():
    names = "".join(f"#define A{i + 1} (A{i} + A{i})\n" for i in range(30))
    values = Values(CudaText(f"#define A0 1\n{names}"))
    assert values.named("A5") == 32 and values.named("A30") is None
    assert values.steps < 1000


def test_a_chain_of_constants_is_followed_once():
    names = "".join(f", A{i + 1} = A{i} + A{i}" for i in range(60))
    assert tunables(f"constexpr long long A0 = 1{names};")["A60"] == 1 << 60


@pytest.mark.parametrize("line", ["#define TILE (2 * 4)", "const int TILE = 8;", "enum { TILE = 8 };"])
def test_a_tunable_may_be_any_constant_of_the_file(line):
    assert tunables(line + "\nvoid f() { const int TILE = 3, OWN = 4; }")["TILE"] == 8


@pytest.mark.parametrize(
    "line", ["int TILE = 8;", "#define TILE blockDim.x", "#define TILE(x) 8", "#define TILE TILE"]
)
def test_what_changes_is_no_tunable(line):
    with pytest.raises(CourseError, match="constexpr int TILE"):
        tunables(line + "\nvoid f() { const int TILE = 3; }")["TILE"]
