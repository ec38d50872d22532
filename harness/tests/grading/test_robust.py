"""Kernels that attack the grader: each ends in a short report, and the next file is graded correctly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backwarp import cli
from backwarp.course.checkout import Course
from backwarp.cuda.accesses import access_at
from backwarp.cuda.text import read
from backwarp.devices.virtual.compile import build
from backwarp.grading import runs
from backwarp.grading.grade import Options, grade_file
from backwarp.grading.probes.outside_axis import varies
from backwarp.grading.slips.causes import causes
from tests import ROOT

COURSE = Course(ROOT)
PUZZLE = COURSE.load("01")
NEXT = replace(PUZZLE, cases=PUZZLE.cases[:1])
KERNEL = 'extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n)'
START = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
END = "if (i < n) c[i] = a[i] + b[i];"
IN_LOOP = "the launch timed out and was terminated at kernel.cu:"
SECONDS = 0.25  # of the processor, for what never compiles
TOO_LONG = f"the compiler did not finish within {SECONDS} seconds"


def doubling(first: str, step: str, count: int) -> str:
    """Definitions 0 to `count`, each in terms of the one before it (`before`)."""
    steps = (step.format(n=n, before=n - 1) for n in range(1, count + 1))
    return "\n".join([first.format(n=0), *steps]) + "\n"


def kernel(body: str, before: str = "") -> str:
    return f"{before}\n{KERNEL} {{\n{START}\n{body}\n{END}\n}}\n"


#: what the compiler is to choke on -> (source, what is said)
BUILDS = {
    "templates that double": (
        kernel(
            "i += F<30, 0>::v & 0;",
            "template <int N, int M> struct F { static const int v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v; };\n"
            "template <int M> struct F<0, M> { static const int v = M; };",
        ),
        TOO_LONG,
    ),
    "a template without an end": (
        kernel("i += F<0>::v & 0;", "template <int N> struct F { static const int v = F<N + 1>::v; };"),
        "excessive recursion",
    ),
    "macros that double": (
        kernel("M30", doubling("#define M{n} i += i;", "#define M{n} M{before} M{before}", 30)),
        TOO_LONG,
    ),
    "functions that double, in place": (
        kernel(
            "i += f30(i) & 0;",
            doubling(
                "__device__ int f{n}(int x) {{ return 3 * x; }}",
                "__device__ __forceinline__ int f{n}(int x) {{ return f{before}(x) + f{before}(x + 1); }}",
                30,
            ),
        ),
        TOO_LONG,
    ),
    "functions with a barrier that double": (
        kernel(
            "f30();",
            doubling(
                "__device__ void f{n}() {{ __syncthreads(); }}",
                "__device__ __noinline__ void f{n}() {{ f{before}(); f{before}(); }}",
                30,
            ),
        ),
        TOO_LONG,
    ),
    "a huge array with values": (kernel("i += t[i] & 0;", "__device__ int t[100000000] = {1};"), TOO_LONG),
    "ifs in ifs": (kernel("if (i > 0) {" * 3000 + "i++;" + "}" * 3000), TOO_LONG),
    "too much __constant__": (
        kernel("i += t[i] & 0;", "__constant__ int t[16385];"),
        "kernel.cu uses too much global constant data (65540 bytes, 65536 max)",
    ),
    "more memory than there is": (
        kernel("i += t[i] & 0;", "__device__ int t[1ull << 30];"),
        "the __device__ variables of kernel.cu take 4294967296 bytes",
    ),
    "too much shared memory": (
        kernel("s[i] = i;", "__shared__ int s[1ull << 40];"),
        "vector_add uses too much shared data (4398046511104 bytes, 49152 max)",
    ),
    "a file that includes itself": (
        kernel("", '#include "kernel.cu"'),
        "is not a header that a kernel may include",
    ),
    "comments between # and a name": (
        kernel("") + "#if 0\n#endif\n" + "\n#/*" * 40_000 + "*/",
        "there is a long comment between # and the directive's name",
    ),
    "thousands of errors": (kernel("q;\n" * 5_000), "does not compile"),
}

#: what never ends, or takes more than there is -> (source, what is said)
LAUNCHES = {
    "an endless loop in a function": (
        kernel("i += f(i) & 0;", "__device__ __noinline__ int f(int x) { while (x < 9) x /= 2; return x; }"),
        IN_LOOP,
    ),
    "an endless loop while the others wait": (
        kernel("while (i == 3 && n > 0) c[3] = n; __syncthreads();"),
        IN_LOOP,
    ),
    "a flag that nobody sets": (
        kernel("while (atomicAdd(&flag, 0) == 0) {}", "__device__ int flag;"),
        "memory that no thread ever changes",
    ),
    "a sum that becomes NaN": (
        kernel("float x = n; x = (x - x) / (x - x); while (!(x > 1)) x += 1; i += (int)x * 0;"),
        IN_LOOP,
    ),
    "halves of the smallest number": (
        kernel("for (float x = 1; x >= 0; x /= 2) c[i] = x;"),
        IN_LOOP,
    ),
    "short loops in short loops, by calls": (
        kernel(
            "i += f9(i) & 0;",
            doubling(
                "__device__ __noinline__ int f{n}(int x) {{ return x; }}",
                "__device__ __noinline__ int f{n}(int x) {{ for (int j = 0; j < 3000; j++) x += f{before}(x); return x; }}",
                9,
            ),
        ),
        IN_LOOP,
    ),
    "calls that double, without a loop": (
        kernel(
            "i += f60(i, n) & 0;",
            doubling(
                "__device__ __noinline__ int f{n}(int x, int y) {{ return x * y; }}",
                "__device__ __noinline__ int f{n}(int x, int y) {{ return f{before}(x, y) + f{before}(y, x); }}",
                60,
            ),
        ),
        "a thread was in the function called here",
    ),
    "a recursion that doubles": (
        kernel("i += f(80) & 0;", "__device__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }"),
        "a thread was in the function called here",
    ),
    "a recursion without an end": (
        kernel(
            "i += f(i, c) & 0;",
            "__device__ int f(int n, float* c) { return n < -9 ? 0 : f(n + 1, c) + (int)c[0] * n; }",
        ),
        "Calls are nested more than 1024 deep: does the recursion end?",
    ),
    "a local array of forty megabytes": (
        kernel("float x[10000000]; for (int j = 0; j < 10000000; j++) x[j] = j; i += (int)x[i] * 0;"),
        "The local arrays of this thread do not fit into its local memory.",
    ),
    "variables that double": (
        kernel(doubling("int v{n} = i;", "int v{n} = v{before} + v{before} * 2;", 30) + "c[v30] += 1;"),
        "Invalid __global__ read of size 4 bytes at kernel.cu:",
    ),
    "functions that double": (  # and never get the same arguments
        kernel(
            "c[n + f30(i)] += 1;",
            doubling(
                "__device__ int f{n}(int x) {{ return 3 * x ^ x * x; }}",
                "__device__ __noinline__ int f{n}(int x) {{ return f{before}(2 * x) + f{before}(2 * x + 1); }}",
                30,
            ),
        ),
        IN_LOOP,
    ),
    "arguments that double": (
        kernel(f"c[n + {'f(' * 28}i{')' * 28}] += 1;", "__device__ int f(int x) { return x + x; }"),
        "Invalid __global__ read of size 4 bytes at kernel.cu:",
    ),
    "a branch to itself in assembly": (kernel('asm volatile("L: bra L;");'), IN_LOOP),
    "printf without an end": (
        kernel('while (true) printf("%d: the quick brown fox jumps over the lazy dog\\n", i);'),
        IN_LOOP,
    ),
}

ROWS = "__shared__ float s[64]; s[i * v30 + i] = i; __syncthreads(); i += s[i * v30 + i + 1] * 0;"
CALL_TWICE = "__device__ void f{n}(float* p, int x) {{ if (x > 0) f{before}(p, x); else f{before}(p, x); }}"
#: what takes long, or is nested too deep, for a reader who follows every name to its end
TEXTS = {
    "auto variables that double": kernel(
        doubling("auto v{n} = i;", "auto v{n} = v{before} + v{before} * 2;", 30) + "if (v30 == v30) i++;"
    ),
    "a row of variables that double": kernel(
        doubling("int v{n} = n;", "int v{n} = v{before} % 5 + v{before} % 3;", 30) + ROWS
    ),
    "squares of squares": kernel(
        doubling("float v{n} = i;", "float v{n} = v{before} * v{before} + v{before};", 40)
    ),
    "a product of many sums": kernel(
        "".join(f"int v{n} = i + n + i * {n};" for n in range(40))
        + f"i += {' * '.join(f'v{n}' for n in range(40))};"
    ),
    "hundreds of variables in a row": kernel(
        doubling("auto v{n} = i;", "auto v{n} = v{before} + 1;", 400) + "if (v400 == v400) i++;"
    ),
    "parentheses and variables": kernel(
        doubling(
            "bool v{n} = i < n;",
            f"bool v{{n}} = {'(' * 90}v{{before}} && i < {{n}}{')' * 90};",
            19,
        )
        + "if (!v19) return;"
    ),
    "an expression of variables, both deep": kernel(
        doubling("auto v{n} = i;", f"auto v{{n}} = {'(' * 20}v{{before}} + 1{')' * 20};", 4)
        + f"i += {'(' * 190}v4 == v4{')' * 190};"
    ),
    "calls of a macro that never close": kernel(
        f"FOR(j, 1) i += j; // {'FOR(' * 20_000}", "#define FOR(i, n) for (int i = 0; i < n; i++)"
    ),
    "helpers that call each twice": kernel(
        "f30(c, n);",
        doubling("__device__ void f{n}(float* p, int x) {{ p[x] = 1; }}", CALL_TWICE, 30),
    ),
    "helpers that call each other": kernel(
        "f(c, n);",
        "__device__ void g(float* p, int x);\n__device__ void f(float* p, int x) { if (x > 0) g(p, x); else p[x] = 1; }\n"
        "__device__ void g(float* p, int x) { f(p, x); }",
    ),
    "helpers that call each many times": kernel(
        "f4(c, n);",
        "__device__ void f0(float* p, int x) { p[x] = 1; }\n"
        + "".join(
            f"__device__ void f{n}(float* p, int x) {{ {f'f{n - 1}(p, x); ' * 60}}}" for n in (1, 2, 3, 4)
        ),
    ),
}


@pytest.fixture
def report(tmp_path, monkeypatch, capsys):
    """Grades a file with the command, with little time for what never ends; gives its output."""
    monkeypatch.setattr(runs.Pace, "limit", lambda self, nbytes: 0.2)
    monkeypatch.setattr(build, "BUSY", 1)

    def graded(source: str, bomb: bool) -> str:
        monkeypatch.setattr(build, "SECONDS", SECONDS if bomb else 60)
        # it is the limit on the processor's time that ends a bomb
        monkeypatch.setattr(build, "PATIENCE", 1000)
        path = tmp_path / "kernel.cu"
        path.write_text(source)
        with pytest.raises(SystemExit) as done:
            cli.main(["grade", "01", "--file", str(path), "--device", "cpu", "--no-repair"])
        output = "".join(capsys.readouterr())
        assert done.value.code == 1, output
        assert "Traceback" not in output and len(output.splitlines()) <= 15  # at 80 columns
        return " ".join(output.split())

    return graded


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*BUILDS, *LAUNCHES])
def test_hostile_kernel(name, report):
    source, says = (BUILDS | LAUNCHES)[name]
    assert says in report(source, bomb=says == TOO_LONG)
    assert grade_file(NEXT, PUZZLE.solution_path, Options("cpu")).passed


def test_a_file_of_ten_megabytes_is_not_read(tmp_path):
    (tmp_path / "kernel.cu").write_text("//" * 5_000_000)
    verdict = grade_file(PUZZLE, tmp_path / "kernel.cu", Options("cpu"))
    assert verdict.kind == "source" and "9765 KB; more than 256 KB is not a kernel" in verdict.lines[0]


@pytest.mark.parametrize("source", TEXTS.values(), ids=TEXTS)
def test_hostile_text(source):
    own, file = PUZZLE.kernels[0], read(source)
    failed = [PUZZLE.full_dims(PUZZLE.cases[0])]
    assert len(causes(PUZZLE, own, source, failed)) <= 2
    innermost = file.functions[0]
    access_at(file, innermost.line, "c", "write")
    assert varies(file, innermost, innermost.parameters[-1].name, innermost.end - 1) in (False, True)
