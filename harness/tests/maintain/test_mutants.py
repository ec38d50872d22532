"""Mistakes that are made from a solution, and what is said of those that pass. That the course's own fail is checked in
test_check."""

from __future__ import annotations

from dataclasses import replace

from backwarp.course.checkout import Course
from backwarp.maintain import check_mutants
from backwarp.maintain.check_mutants import LIST, equivalent, passed, wrong_mutants, wrong_ones
from backwarp.maintain.mutants import Mutant, mutants, of_program
from tests import ROOT

ADD = Course(ROOT).load("01")
TEXT = ADD.solution_path.read_text(encoding="utf-8")
KERNEL = """
extern "C" __global__ void k(const float* a, const float* b, float* out, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // BEGIN SOLUTION
    if (i >= n) return;
    float sum = 0.0f;  // from here on
    for (int j = 0; j < m; j++) sum += a[i * m + j];
    __syncthreads();
    out[i] = i > 0 && m > 0 ? sum : b[i];
    // END SOLUTION
}
extern "C" __global__ void other(int* p) { p[0] = 1; }
"""
MADE = """
    if (i > n) return;
    if (i >= i) return;
    without if (i >= n) return;
    float sum = 1.0f;
    float sum;
    without __syncthreads();
    for (int j = 0; j <= m; j++) sum += a[i * m + j];
    for (int j = 1; j < m; j++) sum += a[i * m + j];
    for (int j = 0; j < n; j++) sum += a[i * m + j];
    for (int j = 0; j < m; j++) sum = a[i * m + j];
    for (int j = 0; j < m; j++) sum += a[i * m - j];
    for (int j = 0; j < m; j++) sum += a[i + m + j];
    for (int j = 0; j < m; j++) sum += a[i + j];
    for (int j = 0; j < m; j++) sum += b[i * m + j];
    for (int j = 0; j < m; j++) ;
    out[i] = i > 0 || m > 0 ? sum : b[i];
    out[i] = m > 0 ? sum : b[i];
    out[i] = sum;
"""


def test_a_mistake_in_one_place_is_made_of_what_a_student_writes():
    found = [m.name for m in mutants(KERNEL, "k")]
    assert not {line.strip() for line in MADE.strip().split("\n")} - {*found}
    assert len(found) == len(set(found)) and not any("blockIdx" in name for name in found)


def test_a_larger_array_is_no_mistake():
    declared = KERNEL.replace("float sum = 0.0f;", "float sums[M / 2 + 1][N % 4];")
    lines = [m.name for m in mutants(declared, "k") if m.name.startswith("float sums")]
    assert lines == ["float sums[M / 2 - 1][N % 4];"]


def test_a_mutant_is_the_solution_with_one_other_line():
    for m in mutants(KERNEL, "k"):
        changed = [a for a, b in zip(KERNEL.split("\n"), m.apply(KERNEL).split("\n"), strict=True) if a != b]
        assert len(changed) == 1 and m.kernel == "k"


def test_calls_of_a_program_are_left_out_and_arguments_exchanged():
    text = "def f(net):\n    g(net, 1)\n    # BEGIN SOLUTION\n    g(net, 2)\n    h()\n    # END SOLUTION\n"
    found = {m.name for m in of_program(text)}
    assert found == {"line 4 as pass", "line 4 as g(2, net)", "line 5 as pass"}


def test_mutants_that_pass_are_a_problem_unless_they_are_listed(monkeypatch, tmp_path):
    right = Mutant("c[i] = b[i] + a[i];", (27, "    c[i] = b[i] + a[i];"), kernel="vector_add")
    broken = Mutant("c[i] = ;", (27, "    c[i] = ;"), kernel="vector_add")
    wrong = next(m for m in mutants(TEXT, "vector_add") if "a[i] - b[i]" in m.name)
    assert passed(ADD, ADD.kernels[0], [wrong, right, broken]) == [
        right
    ]  # one that does not compile hides none
    monkeypatch.setattr(check_mutants, "mutants", lambda *_: (wrong, right))
    (problem,) = wrong_mutants(ADD, ADD.kernels[0])
    assert "line 27" in problem and right.name in problem and LIST in problem
    (tmp_path / "solutions").mkdir()
    (tmp_path / LIST).write_text(f'[01.vector_add]\n"a sum" = ["{right.name}", "gone"]\n')
    monkeypatch.setattr(check_mutants, "solution_text", lambda _: TEXT)
    known = replace(ADD, root=tmp_path)
    assert equivalent(known, ADD.kernels[0]) == {right.name, "gone"}
    assert equivalent(known, replace(ADD.kernels[0], name="other")) == set()


def test_all_that_must_fail_has_a_name_of_its_own():
    found = wrong_ones(ADD)
    assert len({m.name for m in found}) == len(found) > len(ADD.mistakes)
    assert all(m.apply(TEXT) != TEXT for m in found) and len(wrong_ones(ADD, 8)) < len(found)
