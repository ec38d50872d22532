"""The kernel's printf formats as C does: compared with the C library of this machine."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from backwarp.devices.virtual.run import printf as module_under_test
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import FLAVOURS, K, device, run

SOURCE = f"""
{K}print_i(const char* f, int i) {{ printf(f, i); }}
{K}print_wi(const char* f, int w, int i) {{ printf(f, w, i); }}
{K}print_wpi(const char* f, int w, int p, int i) {{ printf(f, w, p, i); }}
{K}print_l(const char* f, long long l) {{ printf(f, l); }}
{K}print_d(const char* f, double d) {{ printf(f, d); }}
{K}print_wpd(const char* f, int w, int p, double d) {{ printf(f, w, p, d); }}
{K}print_s(const char* f, const char* s) {{ printf(f, s); }}
{K}print_ws(const char* f, int w, const char* s) {{ printf(f, w, s); }}
{K}print_ildi(const char* f, int i, long long l, double d, int j) {{ printf(f, i, l, d, j); }}
"""

_libc = ctypes.CDLL(None)


def c_text(template: str, *values) -> str:
    """What snprintf of the C library gives."""
    buffer = ctypes.create_string_buffer(4096)
    converted = []
    for value in values:
        if isinstance(value, float):
            converted.append(ctypes.c_double(value))
        elif isinstance(value, str):
            converted.append(ctypes.c_char_p(value.encode()))
        else:
            converted.append(
                ctypes.c_longlong(int(value)) if isinstance(value, np.int64) else ctypes.c_int(int(value))
            )
    _libc.snprintf(buffer, ctypes.c_size_t(len(buffer)), template.encode(), *converted)
    return buffer.value.decode("utf-8", "replace")


def text(dev, value: str):
    return dev.array(np.frombuffer(value.encode() + b"\0", np.uint8).copy(), name="text")


@pytest.fixture(scope="module")
def module():
    return device("memory").compile(SOURCE)


def printed(module, pattern: str, template: str, *values) -> str:
    dev = device("memory")
    given = []
    for value in values:
        if isinstance(value, str):
            given.append(text(dev, value))
        else:
            given.append(np.float64(value) if isinstance(value, float) else value)
    args = (text(dev, template), *(np.int32(v) if isinstance(v, int) else v for v in given))
    return module.get_function(f"print_{pattern}")(1, 1, args).stdout


INTEGERS = (0, 1, -1, 42, -1234, 2**31 - 1, -(2**31))
INTEGER_FORMATS = (
    "%d",
    "%i",
    "%5d",
    "%-5d|",
    "%05d",
    "%+d",
    "% d",
    "%+6d",
    "%-+6d|",
    "%.3d",
    "%8.3d",
    "%-8.3d|",
    "%.0d",
    "%08.3d",
    "%u",
    "%10u",
    "%x",
    "%X",
    "%#x",
    "%#X",
    "%08x",
    "%#010x",
    "%o",
    "%#o",
    "%.5x",
    "%#.5x",
    "%+u",
    "% x",
    "%hd",
    "%hhd",
    "%hu",
    "%hhx",
    "a%db%%c",
    "%%",
    "%3c|",
    "%-3c|",
    "%c",
)


@pytest.mark.parametrize("template", INTEGER_FORMATS)
def test_integers(module, template):
    for value in INTEGERS:
        if "c" in template.replace("%%c", ""):
            value = 33 + value % 90
        assert printed(module, "i", template, value) == c_text(template, value), value


@pytest.mark.parametrize(
    "template",
    [
        "%lld",
        "%ld",
        "%llu",
        "%lu",
        "%llx",
        "%#llX",
        "%20lld|",
        "%-20lld|",
        "%020ld",
        "%zu",
        "%zd",
        "%jd",
        "%td",
    ],
)
def test_long_integers(module, template):
    for value in (0, -1, 2**40, -(2**63), 2**63 - 1):
        assert printed(module, "l", template, np.int64(value)) == c_text(template, np.int64(value))


FLOAT_FORMATS = (
    "%f",
    "%.2f",
    "%10.3f|",
    "%-10.1f|",
    "%+.1f",
    "% f",
    "%08.2f",
    "%.0f",
    "%#.0f",
    "%e",
    "%.3e",
    "%E",
    "%12.4e|",
    "%g",
    "%G",
    "%.3g",
    "%#g",
    "%10g|",
    "%a",
    "%A",
    "%.2a",
    "%lf",
    "%F",
)
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -2.5,
    0.1,
    1 / 3,
    123456.789,
    1e-10,
    6.02e23,
    1e300,
    5e-324,
    float("inf"),
    float("-inf"),
)


@pytest.mark.parametrize("template", FLOAT_FORMATS)
def test_floats(module, template):
    for value in FLOATS:
        assert printed(module, "d", template, value) == c_text(template, value), value


def test_not_a_number(module):
    assert [printed(module, "d", f, float("nan")) for f in ("%f", "%5.1f", "%E", "%-6g|")] == [
        "nan",
        "  nan",
        "NAN",
        "nan   |",
    ]


@pytest.mark.parametrize("template", ["%*d|", "%-*d|", "%0*d|", "%*x|"])
def test_width_as_an_argument(module, template):
    for width in (0, 1, 6, -6):
        assert printed(module, "wi", template, width, 42) == c_text(template, width, 42)


def test_width_and_precision_as_arguments(module):
    for width, precision in ((8, 3), (-8, 3), (0, 0), (12, -1), (3, 9)):
        assert printed(module, "wpi", "%*.*d|", width, precision, -7) == c_text(
            "%*.*d|", width, precision, -7
        )
        assert printed(module, "wpd", "%*.*f|", width, precision, 3.14159) == c_text(
            "%*.*f|", width, precision, 3.14159
        )
    assert printed(module, "wi", "%.*d|", 4, 9) == "0009|"


@pytest.mark.parametrize("template", ["%s", "%10s|", "%-10s|", "%.3s|", "%10.3s|", "[%s]%%"])
def test_strings(module, template):
    for value in ("", "abc", "a longer text", "wörld"):
        if "." not in template and not value.isascii() and any(c.isdigit() for c in template):
            continue  # C counts bytes
        assert printed(module, "s", template, value) == c_text(template, value)


def test_string_precision_as_an_argument(module):
    assert printed(module, "ws", "%.*s|", 2, "abc") == "ab|"
    assert printed(module, "ws", "%*s|", 5, "abc") == "  abc|"


def test_huge_widths_are_cut(module):
    for width in (2**31 - 1, -(2**31) + 1, 100_000):
        assert 4 <= len(printed(module, "wi", "%*d|", width, 42)) < 10_000
    assert len(printed(module, "wpd", "%*.*f", 5, 2**31 - 1, 1.5)) < 10_000
    assert len(printed(module, "i", "%99999999999d", 1)) < 10_000


def test_strange_strings(module):
    dev = device("memory")
    print_s = module.get_function("print_s")
    assert print_s(1, 1, (text(dev, "[%s]"), np.uint64(0))).stdout == "[(null)]"
    assert (
        print_s(1, 1, (text(dev, "[%s]"), np.uint64(0x1234567890))).stdout == "[]"
    )  # nobody's memory is read
    unterminated = dev.array(np.full(10, ord("x"), np.uint8))
    assert print_s(1, 1, (text(dev, "[%s]"), unterminated)).stdout == f"[{'x' * 10}]"
    raw = dev.array(np.array([0xFF, ord("a"), 0], np.uint8))
    assert print_s(1, 1, (text(dev, "[%s]"), raw)).stdout == "[\ufffda]"


def test_pointers(module):
    dev = device("memory")
    print_s = module.get_function("print_s")
    assert print_s(1, 1, (text(dev, "%p|"), np.uint64(0xABC0))).stdout == "0xabc0|"
    assert print_s(1, 1, (text(dev, "%p|"), np.uint64(0))).stdout == "(nil)|"
    assert print_s(1, 1, (text(dev, "%10p|"), np.uint64(0xABC0))).stdout == "    0xabc0|"


def test_what_is_no_conversion(module):
    for template in ("100%", "%", "%q", "% ", "%5", "%n"):
        assert printed(module, "i", template, 7) == template


def test_arguments_are_aligned_in_their_buffer(module):
    assert printed(module, "ildi", "%d %lld %.1f %d", 1, np.int64(-(2**40)), 2.5, 4) == f"1 {-(2**40)} 2.5 4"


def test_fewer_conversions_than_arguments_and_more(module):
    assert printed(module, "ildi", "%d", 5, np.int64(6), 7.0, 8) == "5"
    assert printed(module, "i", "%d", 3).startswith("3")
    printed(module, "i", "%d %s %f %d %s", 3)  # whatever it gives


# --- in kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("checks", FLAVOURS)
def test_types_of_a_kernel(checks):
    source = f"""{K}k(float x, const float* a) {{
      signed char c = -3; unsigned char u = 250; short s = -300; bool b = true;
      float f = x / 3; size_t n = 1ull << 40;
      printf("%d %u %d %d %f %g %zu ", c, u, s, b, f, (double)x, n);
      printf("%c%c %s|%5.1f|%-4d|\\n", 'o', 107, b ? "yes" : "no", a[1], 7);
      printf("plain\\n");
      printf("tab\\tquote\\" backslash\\\\ percent%% unicode \u00e9 \u4f60\\n");
    }}"""
    out = run(source, np.float32(1.5), np.array([0, 2.25], np.float32), block=1, checks=checks).stdout
    assert out == (
        "-3 250 -300 1 0.500000 1.5 1099511627776 ok yes|  2.2|7   |\nplain\n"
        'tab\tquote" backslash\\ percent% unicode \u00e9 \u4f60\n'
    )


@pytest.mark.parametrize("checks", FLAVOURS)
def test_every_thread_prints_in_the_order_it_runs(checks):
    source = f"""{K}k() {{
      printf("%d:%d ", blockIdx.x, threadIdx.x);
      __syncthreads();
      if (threadIdx.x == 0) printf("\\n");
    }}"""
    done = run(source, grid=2, block=3, checks=checks)
    assert done.stdout == "0:0 0:1 0:2 \n1:0 1:1 1:2 \n" and done.stdout_dropped == 0


def test_the_result_is_the_number_of_arguments():
    source = f"""{K}k(int* out) {{
      out[0] = printf("x");
      out[1] = printf("%d %s %f\\n", 1, "a", 2.0);
      out[2] = printf("%*d", 3, 4);
    }}"""
    dev = device("memory")
    out = dev.array(np.zeros(3, np.int32))
    run(source, out, block=1, checks="memory")
    assert out.get().tolist() == [0, 3, 2]


def test_assert_has_a_message_and_printf_before_it_is_kept():
    source = f'{K}k(int n) {{ printf("before\\n"); assert(n == 3); printf("after\\n"); }}'
    for checks in FLAVOURS:
        with pytest.raises(KernelFault) as caught:
            run(source, np.int32(2), block=1, checks=checks)
        assert caught.value.launch.stdout == "before\n"


# --- output without end ------------------------------------------------------------------------------


def test_many_lines_are_cut_and_counted():
    source = f'{K}k(int n) {{ for (int i = 0; i < n; i++) printf("line %d\\n", i); }}'
    done = run(source, np.int32(5000), block=1, checks="memory")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["line 0", "line 1"] and len(lines) == module_under_test.MAX_LINES
    assert done.stdout_dropped == 5000 - len(lines)


def test_long_lines_are_cut():
    source = f'{K}k(const char* s, int n) {{ for (int i = 0; i < n; i++) printf("%s", s); }}'
    dev = device("memory")
    done = run(source, text(dev, "x" * 3000), np.int32(200), block=1, checks="memory")
    assert module_under_test.MAX_CHARACTERS <= len(done.stdout) < module_under_test.MAX_CHARACTERS + 3001
    assert done.stdout_dropped == 200 - len(done.stdout) // 3000


def test_a_launch_starts_with_no_output():
    source = f'{K}k(int n) {{ for (int i = 0; i < n; i++) printf("%d\\n", i); }}'
    kernel = device("memory").compile(source).get_function("k")
    assert kernel(1, 1, (np.int32(3000),)).stdout_dropped > 0
    again = kernel(1, 1, (np.int32(2),))
    assert (again.stdout, again.stdout_dropped) == ("0\n1\n", 0)


def test_all_cores_print():
    source = f'{K}k() {{ printf("%d\\n", blockIdx.x); }}'
    done = run(source, grid=900, block=32, checks="memory")
    kept = done.stdout.count("\n")
    assert (
        module_under_test.MAX_LINES <= kept < module_under_test.MAX_LINES + 64
    )  # others were printing just then
    assert kept + done.stdout_dropped == 900 * 32
    assert all(line.isdigit() and int(line) < 900 for line in done.stdout.split())


def test_ctrl_c_while_printing(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module_under_test.Output, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(f'{K}k() {{ while (true) printf("again\\n"); }}', block=1, checks="memory")


def test_a_huge_width_is_cut():
    launch = run(f'{K}f(int w) {{ printf("%*c|%*d|\\n", w, 65, -w, 7); }}', np.int32(2**31 - 1), block=1)
    assert "A|7" in launch.stdout and len(launch.stdout) < 20_000
