"""Edits of statements and of what they hold: computed as the edited text computes them."""

from __future__ import annotations

import pytest

from backwarp.grading.repair.repair import Repair
from backwarp.grading.repair.schemata import Schemata
from tests.devices.virtual.launches import K
from tests.grading.repair.test_schemata import RIGHT, WRONG, judged, outputs

MISSING = """
template <int N> __device__ void plus(float* x) { x[0] += N; }
__device__ void put(float* to, int at, const float* from) { to[at] = from[0]; }
__device__ int half(int n) { return n / 2; }
extern "C" __global__ void k(const float* a, float* out, int n) {
    int t = threadIdx.x, x = t % 3, y = t / 3, step = n - 1, at;
    if (t >= 9) return;
    float sum = 0.0f, best = 0.0f;
    at = 0;
    for (int i = 0; i < n; i++) {
        int j = i + x;
        sum += j;
        j = i + y;
        sum += 10 * j * half(t);
        at += step;
        float v = a[at];
        if (v > best) {
            sum += 1;
            best = v;
        }
    }
    if (x % 2 == 0 && y % 2 == 0) sum += 5;
    float own = x < y ? a[t] : 0.0f;
    plus<1>(&sum);
    float four[4] = {sum, own, 2.0f, best};
    put(out, t, four);
    sum += 2 * out[t] + best;
    out[t] = sum + 3 * own + at + (n + t * x);
}
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    "right, wrong",
    [
        ("(n + t * x)", "(n + t + x)"),
        ("return n / 2", "return n * 2"),
        ("        sum += j;\n        j = i + y;\n", "        j = i + y;\n        sum += j;\n"),
        (
            "    at = 0;\n    for (int i = 0; i < n; i++) {\n",
            "    for (int i = 0; i < n; i++) {\n    at = 0;\n",
        ),
        ("if (x % 2 == 0 && y % 2 == 0)", "if (x % 2 == 0)"),
    ],
)
def test_the_edit_exists_and_computes_what_the_edited_text_does(right, wrong):
    text = MISSING.replace(right, wrong)
    assert text != MISSING
    made, chosen = found(text, MISSING, right)
    assert judged(made, [(chosen,), ()], outputs(MISSING)) == [RIGHT, WRONG]


SEVERAL = """
extern "C" __global__ void k(const float* a, float* out, int n) {
    int t = threadIdx.x, y = t / n;
    if (t >= 9) return;
    int rest = t;
    const int low = rest % n;
    rest /= n;
    const int high = rest % 3;
    float sum = 0.0f, parts[3] = {};
    const float* row = a + y * n;
    for (int i = 0; i < n; i++) {
        if (i == t % n) continue;
        sum += row[i];
    }
    parts[0] = sum;
    parts[1] = sum;
    parts[2] = sum;
    out[t] = sum + parts[0] + 2 * parts[1] + 3 * parts[2] + 10 * low + 100 * high;
}
"""


def test_a_loop_is_left_in_another_way():
    text = SEVERAL.replace("continue;", "break;")
    made, chosen = found(text, SEVERAL, "continue;")
    assert judged(made, [(chosen,), ()], outputs(SEVERAL)) == [RIGHT, WRONG]


def test_a_value_is_made_of_the_one_declared_before_it():
    made, chosen = found(SEVERAL.replace("y = t / n", "y = 1 / n"), SEVERAL, "y = t / n")
    assert judged(made, [(chosen,), ()], outputs(SEVERAL)) == [RIGHT, WRONG]


def test_parts_between_commas_are_changed():
    source = f"{K}k(int* x, int n, int W) {{\n for (int i = 0, p = 0; i < n; i++, p += W) x[p] = i;\n}}\n"
    assert {
        c.edit.after for s in Schemata(source, "k").sites if s.piece.code == "W" for c in s.choices()
    } >= {"n"}


def test_a_helper_may_lack_the_number_of_the_block():
    helper = "__device__ int f() { return blockDim.x + threadIdx.x; }\n"
    sites = Schemata(f"{helper}{K}k(int* x) {{ x[f()] = 0; }}\n", "k").sites
    assert "blockDim.x * blockIdx.x" in {
        c.edit.after for s in sites if s.piece.line == 1 for c in s.choices()
    }


def test_a_table_has_another_value():
    text = SEVERAL.replace("parts[3] = {}", "parts[3] = {2.0f, sum}").replace("    parts[1] = sum;\n", "")
    made, chosen = found(text.replace("{2.0f, sum}", "{2.0f, 1.0f}"), text, "{2.0f, sum}")
    assert judged(made, [(chosen,), ()], outputs(text)) == [RIGHT, WRONG]


def found(text: str, wanted: str, right: str):
    """The lines about a place with their edits, and the one that makes the text the wanted one."""
    line = wanted[: wanted.index(right)].count("\n") + 1
    made = Schemata(text, "k", only=range(line - 1, line + 2))  # fewer take less time to compile
    choices = sorted((c for s in made.sites for c in s.choices()), key=lambda c: c.cost)
    return made, next(c for c in choices if plain(repaired(c, text)) == plain(wanted))


def repaired(choice, text: str) -> str:
    return Repair(choice.edits, 0.0, text).text


def plain(text: str) -> str:
    return "".join(text.split())


def test_only_the_lines_asked_for_are_changed():
    source = f"{K}k(float* x, int n) {{\n int a = n;\n int b = a;\n x[b] = 0;\n}}\n"
    some = Schemata(source, "k", only=[3])
    assert {s.piece.line for s in some.sites} == {3}
    assert {s.piece.line for s in Schemata(source, "k").sites} > {3}
