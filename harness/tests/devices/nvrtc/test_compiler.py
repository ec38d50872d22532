from __future__ import annotations

import os
import pickle
import platform
import subprocess
import sys
import threading

import pytest

from backwarp.devices.nvrtc import includes, library
from backwarp.devices.nvrtc.compiler import _FROM_CUDA, SHIMS, compile_ptx
from backwarp.errors import CompileError, DeviceError, LaunchError

KERNEL = 'extern "C" __global__ void k(float* a) { a[0] = 1; }\n'


def failure(source: str, **options) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compile_ptx(source, **options)
    return caught.value


@pytest.mark.parametrize("machine", ["as it is", "aarch64"])
def test_a_plain_char_has_a_sign_on_every_machine(machine, monkeypatch):
    """On ARM's it has none otherwise."""
    if machine == "aarch64":
        monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    text = compile_ptx(
        f'extern "C" __global__ void k(int* a) {{ a[0] = (char)-1 < 0 ? 77 : 88; }} // {machine}'
    ).text
    assert "77" in text and "88" not in text


# --- flavours and names --------------------------------------------------------------------------


def test_both_flavours_mark_lines():
    debug, fast = (compile_ptx("\n\n" + KERNEL, flavour=f) for f in ("debug", "fast"))
    for ptx in (debug, fast):
        assert ".target sm_80" in ptx.text and ".entry k(" in ptx.text
        assert ".loc\t1 3" in ptx.text.replace(".loc 1", ".loc\t1")
    assert "debug" in debug.text and ", debug" not in fast.text


def test_an_error_in_another_flavour_is_a_plain_key_error():
    with pytest.raises(KeyError):
        compile_ptx(KERNEL, flavour="slow")


def test_kernels_are_found_by_plain_name():
    ptx = compile_ptx(
        KERNEL + "__global__ void tile(float* a, int n, double* d) { a[n] = *d; }\n"
        "namespace a::b { __global__ void c(int* x) { *x = 1; } }\n"
    )
    assert set(ptx.kernels) == {"k", "tile", "c"}
    assert ptx.find("k") == "k"
    assert ptx.find("tile") == "_Z4tilePfiPd"
    assert ptx.find("c") == ptx.find("a::b::c") == "_ZN1a1b1cEPi"


def test_a_missing_name_lists_what_there_is():
    with pytest.raises(LaunchError, match="no kernel called conv; the file defines k") as caught:
        compile_ptx(KERNEL).find("conv")
    assert caught.value.code == "cudaErrorInvalidDeviceFunction"
    with pytest.raises(LaunchError, match="defines none .a kernel is __global__ void"):
        compile_ptx("").find("conv")


def test_overloads_are_kept_and_ambiguous():
    ptx = compile_ptx("__global__ void f(int* a) { *a = 1; }\n__global__ void f(float* a) { *a = 1; }\n")
    assert ptx.overloads["f"] == ("_Z1fPi", "_Z1fPf") or set(ptx.overloads["f"]) == {"_Z1fPi", "_Z1fPf"}
    with pytest.raises(LaunchError, match="2 kernels are called f"):
        ptx.find("f")


def test_templates_by_name_expression():
    source = "template <int N, class T> __global__ void tile(T* a) { a[0] = N; }\n"
    ptx = compile_ptx(source, name_expressions=("tile<16, float>", "tile<8, double>"))
    assert ptx.find("tile<16, float>") != ptx.find("tile<8, double>")
    assert set(ptx.overloads["tile"]) == {ptx.find("tile<16, float>"), ptx.find("tile<8, double>")}
    assert ptx.kernels == ("tile",)


# --- what nvcc users take for granted ------------------------------------------------------------


def test_without_any_include():
    compile_ptx("""
        constexpr float inf = INFINITY, nan_ = NAN; constexpr double huge = HUGE_VAL;
        static_assert(sizeof(int64_t) == 8 && sizeof(uint8_t) == 1 && UINT32_MAX == 0xffffffffu, "");
        __global__ void k(float* a, size_t n, int64_t m, uint32_t* u) {
            assert(n < INT_MAX);
            printf("%d\\n", int(n));
            a[0] = FLT_MAX + FLT_EPSILON + M_PI + inf + nan_ + huge + DBL_MAX;
            a[1] = min(int(n), 3) + max(a[2], 1.0f) + std::sqrt(a[3]) + std::abs(a[4]) + std::isnan(a[5]);
            u[0] = INT8_MIN + LLONG_MAX + SIZE_MAX + CHAR_BIT + (a == nullptr) + (a == NULL);
            a[6] = offsetof(float4, z);
        }""")


CUDAS_OWN = (
    *("cuda_fp16.h", "cuda_bf16.h", "mma.h", "cooperative_groups.h", "cuda_pipeline.h"),
    *("cuda/atomic", "cuda/barrier"),
)


#: libcu++ is slow to compile
SOME = [name for name in SHIMS if name not in _FROM_CUDA or name in ("limits", "type_traits", "array")]


@pytest.mark.parametrize(
    "headers",
    [(*CUDAS_OWN[:5], *SOME), pytest.param((*CUDAS_OWN, *SHIMS), marks=pytest.mark.soak)],
    ids=["some", "all"],
)
def test_every_shim_compiles_beside_cudas_headers(headers):
    text = "".join(f"#include <{name}>\n" for name in headers)
    ptx = compile_ptx(
        text
        + """__global__ void k(float* a, half* h, uint64_t n) {
        h[n] = __hadd(h[0], h[1]);
        a[0] = std::max(a[0], std::numeric_limits<float>::infinity());
        std::array<int, 3> x = {1, 2, 3}; std::swap(x[0], x[1]);
        a[1] = std::is_same<float, decltype(a[0] + 1)>::value + x[0] + std::min(1, 2) + std::sqrt(2.0);
    }"""
    )
    assert ptx.kernels == ("k",) and not ptx.warnings


@pytest.mark.parametrize("header", CUDAS_OWN[:4])
def test_cudas_own_headers(header):
    ptx = compile_ptx(f"#include <{header}>\n{KERNEL}")
    assert ptx.kernels == ("k",) and not ptx.warnings


@pytest.mark.soak
def test_cooperative_groups_bring_libcu_only_where_it_is_named():
    """It takes NVRTC ten times as long."""
    groups = "#include <cooperative_groups.h>\n"
    assert len(compile_ptx(groups + KERNEL).text) < 100_000
    named = "__global__ void k(int* out) { *out = cuda::std::is_same<int, int>::value; }"
    assert len(compile_ptx(groups + named).text) > 100_000


def test_a_header_in_the_working_directory_does_not_stand_in(tmp_path, monkeypatch):
    (tmp_path / "cuda_fp16.h").write_text("#error SHADOW\n")
    (tmp_path / "conv.cuh").write_text("#error SHADOW\n")
    course = tmp_path / "include"
    course.mkdir()
    (course / "conv.cuh").write_text('#pragma once\n#include "sub/x.cuh"\n#define C 2\n')
    (course / "sub").mkdir()
    (course / "sub" / "x.cuh").write_text("#define X 3\n")
    monkeypatch.chdir(tmp_path)
    source = '#include "cuda_fp16.h"\n#include "conv.cuh"\n__global__ void k(half* a) { *a = C + X; }\n'
    assert compile_ptx(source, include_dirs=(course,)).kernels == ("k",)


def test_a_changed_course_header_is_seen(tmp_path):
    header = tmp_path / "c.cuh"
    source = '#include "c.cuh"\n__global__ void k(int* a) { *a = C; }\n'
    texts = []
    for value in ("77777", "88888"):
        header.write_text(f"#define C {value}\n")
        texts.append(compile_ptx(source, include_dirs=(tmp_path,)).text)
    assert "77777" in texts[0] and "88888" in texts[1]


# --- messages ------------------------------------------------------------------------------------


def test_a_syntax_error_has_line_column_and_caret():
    error = failure("__global__ void k(float* a) {\n\ta[0] = 1\n}\n", name="puzzles/09/kernel.cu")
    first = error.diagnostics[0]
    assert (first.severity, first.message) == ("error", 'expected a ";"')
    assert (first.file, first.line, first.column, first.source) == ("puzzles/09/kernel.cu", 3, 1, "}")
    assert str(first).splitlines()[-1] == "    ^"
    assert str(error) == 'puzzles/09/kernel.cu does not compile: 1 error in line 3: expected a ";"'


def test_columns_count_characters_not_bytes():
    first = failure("__global__ void k(float* a) { /* größe */\ta[0] = b; }").diagnostics[0]
    assert first.source[first.column - 1] == "b"
    assert str(first).splitlines()[-1].endswith("\t       ^")


def test_many_messages_and_long_lines_are_cut():
    error = failure("".join(f"__device__ int f{i}() {{ return y{i}; }}\n" for i in range(300)))
    assert len(error.diagnostics) <= 20
    long = " + 1" * 400 + " + b + " + "1 + " * 400
    first = failure(f"__global__ void k(float* a) {{ a[0] = 1{long}1; }}").diagnostics[0]
    assert len(first.source) <= 160 and first.source[first.column - 1] == "b"


def test_template_context_is_kept():
    error = failure(
        "template <class T> __device__ T f(T x) { return x.foo(); }\n"
        "__global__ void k(float* a) {\n  a[0] = f(1.0f);\n}\n"
    )
    first = error.diagnostics[0]
    assert first.line == 1 and "class type" in first.message and "at line 3" in first.message


def test_notes_follow_their_error():
    error = failure("__device__ void f(int a, float* b) {}\n__global__ void k(float* a) { f(a, a); }\n")
    assert [d.severity for d in error.diagnostics] == ["error"]
    error = failure(
        "__device__ void f(int a) {}\n__device__ void f(float a, int b) {}\n"
        "__global__ void k(float* a) { f(a, a); }\n"
    )
    assert [(d.severity, d.line) for d in error.diagnostics] == [("error", 3), ("note", 2), ("note", 1)]
    assert "argument types are: (float *, float *)" in error.diagnostics[0].message


def test_functions_that_a_call_may_mean_are_counted():
    error = failure("__global__ void k(float* a) { a[0] = max(0, a[1]); a[1] = pow(a[2], 2, 3); }")
    several, none, note = error.diagnostics
    assert several.message.splitlines() == [
        'more than one instance of overloaded function "max" matches the argument list: 4 fit',
        "    argument types are: (int, float)",
    ]
    assert "argument types are: (float, int, int)" in none.message
    assert note.message == "none of the 4 functions of this name fits"


def test_a_host_function_says_what_to_write():
    error = failure("float f(float x) { return x; }\n" + KERNEL)
    assert "host function" in error.diagnostics[0].message and "-default-device" not in str(error)
    assert "__device__" in error.diagnostics[1].message and error.diagnostics[1].severity == "note"


def test_the_end_of_the_file_has_a_place():
    error = failure("__global__ void k(float* a) {\n  a[0] = 1;\n")
    assert error.diagnostics[0].line == 3 or error.diagnostics[0].line == 2


def test_an_error_in_a_course_header_points_at_the_include(tmp_path):
    (tmp_path / "c.cuh").write_text("\n\nint 3x;\n")
    error = failure('\n#include "c.cuh"\n' + KERNEL, include_dirs=(tmp_path,))
    first = error.diagnostics[0]
    assert first.line == 2 and first.message.startswith("in c.cuh(3): ") and "c.cuh" in first.source


def test_an_error_instantiated_in_a_header_points_at_the_use(tmp_path):
    (tmp_path / "c.cuh").write_text("template <class T> __device__ float f(T x) { return x.y; }\n")
    source = '#include "c.cuh"\n\n__global__ void k(float* a) {\n  a[0] = f(a);\n}'
    error = failure(source, include_dirs=(tmp_path,))
    assert error.diagnostics[0].line == 4 and "in c.cuh(1)" in error.diagnostics[0].message


def test_warnings_are_the_students_own():
    kernel = "__global__ void k(float* a) {\n  int x = 1;\n  if (x = 2) a[0] = x;\n}"
    ptx = compile_ptx("#include <cuda_fp16.h>\n" + kernel)
    assert [(w.severity, w.line) for w in ptx.warnings] == [("warning", 4)]
    assert "==" in ptx.warnings[0].message


def test_template_recursion_ends():
    error = failure(
        "template <int N> struct A { static const int v = A<N + 1>::v; };\n"
        "__global__ void k(int* a) { *a = A<0>::v; }\n"
    )
    assert "excessive recursion" in str(error)


def test_a_nul_character_is_named():
    assert "NUL" in str(failure(KERNEL + "\0" + KERNEL))


def test_results_and_errors_can_be_pickled():
    ptx = compile_ptx(KERNEL)
    assert pickle.loads(pickle.dumps(ptx)) == ptx
    error = failure("int")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)


# --- containment ---------------------------------------------------------------------------------

SECRET = "TOPSECRET"


@pytest.fixture
def secret(tmp_path, monkeypatch):
    (tmp_path / "secret.txt").write_text(f"{SECRET} value;\n#error {SECRET}\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return str(tmp_path / "secret.txt")


ATTEMPTS = {
    "absolute": '#include "{path}"\n',
    "angled": "#include <{path}>\n",
    "relative": '#include "../secret.txt"\n',
    "dots after a real folder": "#include <cuda/../../../../../../../../../../../../..{path}>\n",
    "digraph": '%:include "{path}"\n',
    "spliced": '#inc\\\nlude "{path}"\n',
    "spliced with a carriage return": '#inc\\\r\nlude "{path}"\n',
    "spliced hash": '#\\\ninclude\\\n"{path}"\n',
    "spliced in the name": '#include "{half}\\\n{rest}"\n',
    "comments inside": '/* a */ # /* b */ include /* c\n */ "{path}"\n',
    "form feed": '\f\v#\finclude\v"{path}"\n',
    "macro": '#define X "{path}"\n#include X\n',
    "angled macro": "#define X <{path}>\n#include X\n",
    "include_next": '#include_next "{path}"\n',
    "import": '#import "{path}"\n',
    "embed": '__device__ char x[] = {{\n#embed "{path}"\n}};\n',
    "has_include": '#if __has_include("{path}")\n#error yes\n#endif\n',
    "has_include by macro": '#define H __has_include\n#if H("{path}")\n#error yes\n#endif\n',
    "has_include of a macro": '#define P "{path}"\n#if __has_include(P)\n#error yes\n#endif\n',
    "line": '#line 1 "{path}"\nint 3x;\n',
    "line marker": '# 1 "{path}"\nint 3x;\n',
    "after a digit separator": "__device__ int a = 1'000;\n#include \"{path}\"\n// '\n",
    "after a character": '__device__ char a = \'"\';\n#include "{path}"\n// "\n',
    "after an escaped quote": '__device__ const char* a = "\\\\";\n#include "{path}"\n// "\n',
    "after a spliced comment": '/\\\n* */\n#include "{path}"\n/* */\n',
    "after a comment in a header name": '#include <cuda_fp16.h> // /*\n#include "{path}"\n/* */\n',
    "after no raw string": '#define FOOR\n__device__ const char* a = FOOR"(";\n#include "{path}"\n// )"\n',
    "after a raw string": '__device__ const char* a = R"(")";\n#include "{path}"\n// "\n',
    "after a spliced raw prefix": '__device__ const char* a = R\\\n"(\n";\n#include "{path}"\n// )"\n',
    "skipped quote": "#if 0\n 1'a/*'\n#endif\n#include \"{path}\"\n/* */\n",
    "skipped apostrophe": "#if 0\n don't /* '\n#endif\n#include \"{path}\"\n/* */\n",
    "skipped raw string": '#if 0\n R"(\n#endif\n#include "{path}"\n#if 0\n)"\n#endif\n',
    "raw string in a macro": '#define X R"(\n#include "{path}"\n)"\n',
    "unterminated raw string": '__device__ const char* a = R"x(\n#include "{path}"\n',
    "comment end in the safe part": '#ifdef X\n#endif\n/* "*/ #include "{path}"\n',
    "unterminated string": '#error "\n#include "{path}"\n',
    "home": '#include "~/secret.txt"\n',
    "backslash": '#include "..\\secret.txt"\n',
    "in a macro argument": '#define ID(x) x\n#include ID("{path}")\n',
    "after a comment that ends on its line": 'int a; /*\n*/ #include "{path}"\n',
    "after a number and an apostrophe": 'int a = 0x1\'"\'; /*\n#include "{path}"\n*/\n',
    "after a character's suffix": 'char a = \'"\'R"(\n#include "{path}"\n)"\'\n',
    "after a backslash, splice and newline": '"\\\\\r\n\n#include "{path}"\n// "\n',
    "after a universal character name": '\\u8R"(\n#include "{path}"\n)"\n',
    "after a dollar sign": '$R"(\n#include "{path}"\n)"\n',
    "utf-8 prefix": '#include u8"{path}"\n',
}


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=list(ATTEMPTS))
def test_no_file_outside_the_course_is_read(attempt, secret, monkeypatch):
    """It is refused before the compiler runs, and no message contains the file's text."""
    source = ATTEMPTS[attempt].format(path=secret, half=secret[:9], rest=secret[9:]) + KERNEL
    monkeypatch.setattr(library, "run", lambda *a: pytest.fail("the compiler ran"))
    error = failure(source)
    assert isinstance(error, includes.Refused)
    assert error.diagnostics[0].line > 0
    shown = str(error) + "".join(str(d) for d in error.diagnostics)
    assert SECRET not in shown


def test_a_link_is_refused_outside_and_allowed_inside_the_course(tmp_path, monkeypatch):
    (tmp_path / "outside.h").write_text("#define C 1\n")
    course = tmp_path / "include"
    course.mkdir()
    os.symlink(tmp_path / "outside.h", course / "inside.h")
    os.symlink(tmp_path / "outside.h", tmp_path / "link.h")
    monkeypatch.chdir(tmp_path)
    compile_ptx('#include "inside.h"\n' + KERNEL, include_dirs=(course,))
    assert isinstance(failure('#include "link.h"\n' + KERNEL, include_dirs=(course,)), includes.Refused)


@pytest.mark.parametrize(
    "source",
    [
        '// #include "/etc/passwd"\n',
        '/*\n#include "/etc/passwd"\n*/\n',
        '// splice \\\n#include "/etc/passwd"\n',
        '__device__ const char* s = "#include </etc/passwd>";\n',
        '__device__ const char* s = R"(\n#include "/etc/passwd"\n)";\n',
        '__device__ const char* s = R"x(\n#include "/etc/passwd" )" \n)x";\n',
        "__device__ char c = '\"';\n// don't #include \"/etc/passwd\"\n",
        "#if 1\n// see #1 and #line, as #include says\n#endif\n",
        "#define F(x) #x\n__device__ const char* s = F(include </etc/passwd>);\n",
        "#define F(include) #include\n__device__ const char* s = F(x);\n",
        "__device__ int big = 1'000'000;\n",
        "#" + "/**/" * 40 + "define X 1\n",
        "#ifndef X\n#" + "/**/" * 40 + "define X 1\n#endif\n",
    ],
)
def test_what_is_no_include_is_not_refused(source):
    compile_ptx(source + KERNEL)


def test_an_unknown_library_has_its_own_remedy():
    error = failure("#include <boost>\n" + KERNEL)
    assert "no host library" in str(error) and error.diagnostics[0].line == 1


def test_the_course_headers_are_offered(tmp_path):
    (tmp_path / "conv.cuh").write_text("")
    assert "conv.cuh" in str(failure('#include "cnv.cuh"\n' + KERNEL, include_dirs=(tmp_path,)))


def test_should_a_foreign_file_be_read_after_all_nothing_of_it_is_quoted(secret, monkeypatch):
    monkeypatch.setattr(includes, "scan", lambda source, name: [])
    error = failure(f'#include "{secret}"\n' + KERNEL)
    assert SECRET not in str(error) + "".join(str(d) for d in error.diagnostics)


# --- the cache -----------------------------------------------------------------------------------


def test_a_cached_result_needs_no_compiler(monkeypatch):
    source = KERNEL + "// cached\n__global__ void w(float* a) { int x; a[0] = 2; }\n"
    first = compile_ptx(source)
    assert first.warnings
    monkeypatch.setattr(library, "run", lambda *a: pytest.fail("compiled again"))
    assert compile_ptx(source) == first


def test_a_damaged_entry_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path))
    first = compile_ptx(KERNEL)
    (entry,) = (p for p in (tmp_path / "ptx").rglob("*") if p.is_file())
    for damage in (b"", entry.read_bytes()[:-9], b"x" * 500):
        entry.write_bytes(damage)
        assert compile_ptx(KERNEL) == first


def test_headers_that_are_not_installed_are_named(monkeypatch):
    monkeypatch.setattr(library, "_HEADERS", ("never.h",))
    library.cuda_headers.cache_clear()
    try:
        with pytest.raises(
            DeviceError, match="pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl"
        ):
            compile_ptx("#include <mma.h>\n" + KERNEL)
    finally:
        library.cuda_headers.cache_clear()


def test_headers_of_a_toolkit_do_as_well(monkeypatch, tmp_path):
    """As on a machine with the compiler as a package and the headers in /usr/local/cuda."""
    installed = library.cuda_headers()
    (tmp_path / "include").symlink_to(installed)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if not installed.is_relative_to(p)])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    library.cuda_headers.cache_clear()
    try:
        assert library.cuda_headers() == tmp_path / "include"
    finally:
        library.cuda_headers.cache_clear()


def test_without_a_cache(monkeypatch, tmp_path):
    for setting in ("off", str(tmp_path / "file" / "below")):
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("BACKWARP_CACHE", setting)
        assert compile_ptx("#include <cuda_fp16.h>\n" + KERNEL).kernels == ("k",)


def test_processes_in_parallel_share_one_cache(tmp_path):
    program = """from backwarp.devices.nvrtc.compiler import compile_ptx
print(compile_ptx('#include <cuda_fp16.h>\\n__global__ void k(half* a) {}').kernels)"""
    environment = os.environ | {"BACKWARP_CACHE": str(tmp_path)}
    runs = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for run in runs:
        assert run.communicate(timeout=60)[0].strip() == b"('k',)" and run.returncode == 0


def test_threads_in_parallel():
    results = []
    threads = [
        threading.Thread(target=lambda i=i: results.append(compile_ptx(f"// {i}\n{KERNEL}")))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(r.kernels == ("k",) for r in results)


def test_types_of_the_runtime_and_textures_are_known():
    """NVRTC leaves them out at first."""
    body = "cudaError_t e = cudaErrorInvalidValue; cudaTextureObject_t t = 0; *out = e + (int)t;"
    assert compile_ptx(f'extern "C" __global__ void k(int* out) {{ {body} }}').kernels == ("k",)
