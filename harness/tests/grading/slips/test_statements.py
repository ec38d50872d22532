"""Code that cannot be intended: found where it is, and in no right kernel of the course and its tests."""

from __future__ import annotations

import pytest

from backwarp.course.checkout import open_course
from backwarp.cuda.text import read
from backwarp.devices import confined_device
from backwarp.grading.grade import Options
from backwarp.grading.slips.statements import slips
from backwarp.maintain.check_mistakes import graded
from tests.grading.first_cases import small
from tests.lenet.small import ROOT

KERNEL = 'extern "C" __global__ void k(const float* a, float* c, int n, int F) {{\n{}\n}}\n'


def found(body):
    return slips(KERNEL.format(body), "k")


@pytest.mark.parametrize(
    ("body", "kind", "line"),
    [
        ("if (threadIdx.x < n);\nc[0] = 1;", "ends_at_once", 2),
        ("for (int i = 0; i < n; i++);\n{ c[0] = 1; }", "ends_at_once", 2),
        ("if (n < n) c[0] = 1;", "compares_with_itself", 2),
        *(
            (f"int y = n;\n{body}", "stores_in_a_condition", 3)
            for body in (
                "if (y = F) c[0] = 1;",
                "for (; y = F; y++) c[0] = 1;",
                "do c[0] = 1; while (y = F);",
                "while (y = F || n) c[0] = 1;",
                "if (n < F && (y = F)) c[0] = 1;",
                "if (!(n < F || !(y = F))) c[0] = 1;",
                "c[0] = (y = F) ? 1.0f : 0.0f;",
                "float x = y = F ? 1.0f : 0.0f;",
            )
        ),
        (
            "float s = 0;\nfor (int i = 0; i < n; i++) { float x = a[i];\n s = x * 2; }\nc[0] = s;",
            "keeps_only_the_last",
            4,
        ),
    ],
)
def test_a_slip_is_named(body, kind, line):
    (finding,) = found(body)
    assert (finding.kind, finding.lines) == (kind, (line,))


ADD = "for (int i = 0; i < n; i++) {{\n{}\n{} }}\nc[0] = {};"


@pytest.mark.parametrize(
    ("first", "reset", "adds", "used"),
    [
        ("float s;", "s = 0.0f;", "for (int j = 0; j < F; j++) s += a[i + j];", "s"),
        (
            "float s[4];",
            "s[0] = s[1] = s[2] = s[3] = 0.f;",
            "for (int j = 0; j < F; j++) s[j] += a[i + j];",
            "s[1]",
        ),
        ("float4 s;", "s = make_float4(0, 0, 0, 0);", "s.x += a[i];", "s.x"),
        ("float s[2];", "for (int j = 0; j < 2; j++) s[j] = 0;", "plus(s, a[i]);", "s[0]"),
        ("float s;", "s = 0;", "s = fmaf(a[i], a[i], s);", "s"),
    ],
)
def test_a_sum_that_begins_again_in_every_iteration(first, reset, adds, used):
    helper = "__device__ void plus(float* to, float x) { to[0] += x; }\n"
    wrong = slips(helper + KERNEL.format(f"{first}\n" + ADD.format(reset, adds, used)), "k")
    assert [(f.kind, f.lines, f.facts["name"]) for f in wrong] == [("begins_again", (5, 4), "s")]
    for meant in (f"if (i == F) {{ {reset} }}", f"{reset} c[i] = {used};"):
        assert not slips(helper + KERNEL.format(f"{first}\n" + ADD.format(meant, adds, used)), "k")
    assert not slips(helper + KERNEL.format(f"{first}\n" + ADD.format(reset, adds, "1")), "k")


@pytest.mark.parametrize(
    "body",
    [
        "if (n) ; else c[0] = 1;",
        "int i = 0; for (; i < n && a[i] > 0; i++);\nc[0] = i;",
        "c[0] = (n < F) == (F < 3);",
        "if (a[0] != a[0]) c[0] = 1;",
        "int y; if ((y = n)) c[0] = 1;",
        "int y; while ((y = n) != 0) c[0] = 1;",
        "int y; if (F < n && ((y = n))) c[0] = 1;",
        "int y; for (; (y = n); ) c[0] = 1;",
        "while (n = n / 2) c[0] = 1;",
        "int y; while (y = atomicExch(&lock, 1)) ;",
        "if (int y = n) c[0] = y;",
        "int y; float x = y = F < n ? 1.0f : 0.0f;",
        "int y; int x = y = F ? 1 : 0;",
        "float s = 1;\nfor (int i = 0; i < n; i++) if (a[i] > 0) s = 2 * a[i];\nc[0] = s;",
        "float s = 0;\nfor (int i = 0; i < n; i++) { s = 0; for (int j = 0; j < F; j++) s += a[i + j]; c[i] = s; }",
        "float s = 0;\nfor (int i = 0; i < n; i++) { s = 2 * a[i]; c[i] = s; }\nc[0] = s;",
        "float s[4];\nfor (int i = 0; i < 4; i++) { s[i] = 0; for (int j = 0; j < F; j++) s[i] += a[j]; }\nc[0] = s[1];",
        "float s[4]; int i = 0;\nwhile (i < 4) { s[i] = 0; s[i] += a[i]; i++; }\nc[0] = s[1];",
    ],
)
def test_what_may_be_meant_is_not(body):
    assert not found(body)


def test_helpers_that_the_kernel_calls_are_looked_at_and_others_not():
    helper = "__device__ float {}(float x, int n) {{ if (n < n); return x; }}\n"
    source = helper.format("used") + helper.format("spare") + KERNEL.format("c[0] = used(a[0], n);")
    assert {slip.lines for slip in slips(source, "k")} == {(1,)}


@pytest.mark.soak
def test_no_right_kernel_has_one():
    folders = (
        "solutions",
        "harness/tests/samples",
        "harness/tests/kernels",
        "harness/backwarp/devices/virtual/runtime",
    )
    files = [p for folder in folders for p in (ROOT / folder).rglob("*.cu") if p.name != "zoo.cu"]
    texts = [p.read_text(encoding="utf-8") for p in files]
    kernels = [(text, kernel.name) for text in texts for kernel in read(text).kernels]
    assert len(kernels) > 200
    assert not [slip for text, name in kernels for slip in slips(text, name)]


LABEL = "float right = k == labels[b] ? 1.0f : 0.0f;"
ENDLESS = "float right = 0.0f; if (k = labels[b]) right = 1.0f;"
COPY = "int y = labels[b];\n        float right = 0.0f;\n        if ({}) right = 1.0f;"


def few_steps(*given, **more):
    """The grader's device, with less patience for what never ends."""
    device = confined_device(*given, **more)
    device.step_budget = 1 << 16
    return device


@pytest.mark.parametrize(
    ("new", "line", "leads"),
    [
        (ENDLESS, 62, True),
        (COPY.format("y = k"), 64, True),
        (COPY.format("y = 0"), 64, True),  # a mistake of the puzzle as well
        ("float right = 0.0f; if (k = batch * classes) right = 1.0f;", 62, False),
        (COPY.format("(y = labels[b]) == k"), 0, False),
    ],
)
def test_a_condition_that_stores_comes_first_where_the_run_follows_from_it(new, line, leads):
    puzzle = small(open_course().load("05"))
    right = puzzle.solution_path.read_text(encoding="utf-8")
    assert LABEL in right
    verdict = graded(puzzle, right.replace(LABEL, new), Options("cpu"), opener=few_steps)
    stored = [(*f.lines, f.leads) for f in verdict.findings if f.kind == "stores_in_a_condition"]
    assert stored == ([(line, leads)] if line else []) and verdict.passed == (not line)
