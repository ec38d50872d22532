"""Insertions of missing code: an assignment, the 0 beside an element, another form of a call."""

from __future__ import annotations

import pytest

from harness.grading.repair.repair import Repair
from harness.grading.repair.schemata import Schemata
from harness.tests.devices.virtual.launches import K
from harness.tests.grading.repair.test_schemata import RIGHT, WRONG, judged, outputs

MISSING = """
template <int N> __device__ void plus(float* x) { x[0] += N; }
__device__ void put(float* to, int at, const float* from) { to[at] = from[0]; }
__device__ int half(int n) { return n / 2; }
extern "C" __global__ void k(const float* a, float* out, int n) {
    int t = threadIdx.x, x = t % 3, y = t / 3, step = n - 1, at;
    at = 0;
    if (t >= 9) return;
    float sum = 0.0f, best = 0.0f;
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
        ("        at += step;\n", ""),
        ("            best = v;\n", ""),
        ("float own = x < y ? a[t] : 0.0f;", "float own = a[t];"),
        ("plus<1>(&sum)", "plus<2>(&sum)"),
        ("(n + t * x)", "(n + t + x)"),
        ("return n / 2", "return n * 2"),
    ],
)
def test_the_edit_exists_and_computes_what_the_edited_text_does(right, wrong):
    text = MISSING.replace(right, wrong)
    assert text != MISSING
    made, chosen = found(text, MISSING, right)
    assert judged(made, [(chosen,), ()], outputs(MISSING)) == [RIGHT, WRONG]


BESIDE = """
extern "C" __global__ void k(const float* a, float* out, int n) {
    int t = threadIdx.x, x = t % 3, y = t / 3, even = 0;
    int s = 0, S = 1, r = 0, R = 2, c = 0;
    if (t >= 9) return;
    float sum = 0.0f, best = a[t];
    for (int i = 0; i < n; i++) {
        s++;
        if (s >= S) s -= S, r++;
        if (r >= R) r -= R, c++;
        int down = i + x, right = i + y;
        if (down % 2 == 1) continue;
        if (right % 2 == 1) continue;
        best = fmaxf(best, 3.0f * i);
        sum += 10 * best;
        best = fmaxf(best, 3.0f * i);
        if (i == x) {
            sum += t;
            even += 2;
        }
        even += t;
    }
    out[t] = sum + even + 100 * c;
}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "right, wrong",
    [
        ("        if (down % 2 == 1) continue;\n", ""),  # it stands there for columns
        ("        best = fmaxf(best, 3.0f * i);\n        sum", "        sum"),  # it stands elsewhere
        ("        if (s >= S) s -= S, r++;\n", ""),  # it carries as the next one does
        ("        }\n        even += t;\n", "        even += t;\n        }\n"),  # out of a branch
    ],
)
def test_a_statement_is_missing_that_stands_beside_its_place(right, wrong):
    text = BESIDE.replace(right, wrong)
    assert text != BESIDE
    made, chosen = found(text, BESIDE, right)
    assert judged(made, [(chosen,), ()], outputs(BESIDE)) == [RIGHT, WRONG]


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "right, wrong",
    [
        ("a + y * n", "a"),  # a pointer lacks its offset
        ("continue;", "break;"),  # another way to leave
        ("    parts[2] = sum;\n", ""),  # the last of a series
        ("    parts[1] = sum;\n", ""),  # one in its middle
        ("    rest /= n;\n", ""),  # a remainder that is not divided away
    ],
)
def test_an_offset_a_way_to_leave_or_one_of_a_series_is_missing(right, wrong):
    text = SEVERAL.replace(right, wrong)
    made, chosen = found(text, SEVERAL, right)
    assert judged(made, [(chosen,), ()], outputs(SEVERAL)) == [RIGHT, WRONG]


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


WALK = """
extern "C" __global__ void k(const float* a, float* out, int n) {
    int t = threadIdx.x, wide = n, some = n - 1;
    if (t >= 9) return;
    const float* p = a;
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < some; j++) sum += *p++ * (t + i);
        p += wide - some;
    }
    out[t] = sum;
}
"""


def test_a_pointer_goes_on_to_the_next_row():
    wrong = WALK.replace("        p += wide - some;\n", "")
    made, chosen = found(wrong, WALK, "p += wide - some;")
    assert judged(made, [(chosen,), ()], outputs(WALK)) == [RIGHT, WRONG]


OF_ONES_OWN = """
extern "C" __global__ void k(const float* a, float* out, int n) {
    int t = threadIdx.x, m = 2 * n;
    int places[3] = {t, m, 2};
    const float* p = a;
    float sum = 0.0f, more = a[t % 9];
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < 2; j++) {
            sum += p[j] * i;
        }
        p += n;
    } sum += more * t;
    sum += 10 * places[0] + 100 * places[1] + 1000 * places[2];
    sum = __shfl_down_sync(0xffff, sum, 1);
    if (t < 9) out[t] = sum;
}
"""


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("{t, m, 2}", "{t, 2, m}"),
        ("        p += n;\n", "        p++;\n"),
        ("__shfl_down_sync", "__shfl_xor_sync"),
        ("    } sum += more * t;\n", "    }\n"),
    ],
)
def test_a_kernel_of_ones_own_is_right_with_one_change(right, wrong):
    """Values of a list, the step of a pointer, a shuffle, and what stands in two loops and belongs behind them."""
    text = OF_ONES_OWN.replace(right, wrong)
    if "more" in right:
        text = text.replace(
            "            sum += p[j]", "            sum += more * t;\n            sum += p[j]"
        )
    place = "more * t" if "more" in right else wrong.strip()
    made = Schemata(text, "k", only=[n for n, line in enumerate(text.split("\n"), 1) if place in line])
    choices = (c for s in made.sites for c in s.choices())
    chosen = next(c for c in choices if plain(repaired(c, text)) == plain(OF_ONES_OWN))
    assert judged(made, [(chosen,), ()], outputs(OF_ONES_OWN)) == [RIGHT, WRONG]


@pytest.mark.parametrize("body", ["int t = threadIdx.x;\n atomicAdd(x, f(t));", "atomicAdd(x, f(1));"])
def test_what_one_thread_or_one_lane_adds_is_guarded_early(body):
    helper = "__device__ int f(int n) { return __shfl_down_sync(0xffffffff, n, 1); }\n"
    sites = Schemata(f"{helper}{K}k(int* x) {{\n {body}\n}}\n", "k").sites
    likely = {c.edit.after for s in sites if s.is_guard for c in s.likely if c.cost < 1.0}
    t = "t" if "t =" in body else "threadIdx.x"
    assert {f"if ({t} == 0) ", f"if ({t} % 32 == 0) "} <= likely
