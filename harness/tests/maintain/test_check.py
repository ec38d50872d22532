"""The course checks itself: an author's checks find nothing wrong with its puzzles, and find what is.

Everything starts from the solutions, so this holds in a checkout where a student has edited or deleted the stubs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from backwarp.course.checkout import Course
from backwarp.course.mistakes import Mistake
from backwarp.maintain import check
from backwarp.maintain.check_mistakes import impatient
from backwarp.maintain.check_mutants import TOGETHER
from tests import ROOT

PUZZLES = Course(ROOT).puzzles()
#: puzzle 39's large kernels take as long as those of ten other puzzles: every night
AFTER = {p.id: [pytest.mark.soak] * (p.part == 6) for p in PUZZLES}
KERNELS = [
    pytest.param(p, k, id=f"{p.number}-{k.name}", marks=AFTER[p.id]) for p in PUZZLES for k in p.kernels
]
ADD, STEP = PUZZLES[0], next(p for p in PUZZLES if p.program)
each = pytest.mark.parametrize("puzzle", PUZZLES, ids=lambda p: p.id)
PROGRAMS = [p for p in PUZZLES if p.program]


def needs_what_is_there(puzzle):
    if puzzle.program and puzzle.program.missing:
        pytest.skip(f"{puzzle.program.needs[0]} is not installed")


@each
def test_lesson_hints_and_sentences(puzzle):
    assert [*check.lesson(puzzle), *check.listed(puzzle), *check.hints(puzzle)] == []


@each
def test_the_stub_says_what_to_do_and_cases_catch_what_kernels_can_get_wrong(puzzle):
    assert [*check.tasks(puzzle), *check.cases(puzzle)] == []


@pytest.mark.parametrize("opener", [impatient, pytest.param(None, marks=pytest.mark.soak, id="confined")])
@pytest.mark.parametrize("puzzle", [pytest.param(p, id=p.id, marks=AFTER[p.id]) for p in PUZZLES])
def test_the_stub_fails_and_the_solution_passes(puzzle, opener):
    needs_what_is_there(puzzle)
    assert [*check.stub(puzzle, opener), *check.solution(puzzle, opener)] == []


@each
def test_mistakes_change_the_solution_and_expect_what_there_is(puzzle):
    assert [*check.declared(puzzle)] == []


@pytest.mark.parametrize(("puzzle", "kernel"), KERNELS)
def test_every_mistake_fails_with_its_diagnosis(puzzle, kernel):
    """In the build that finds it; every night `backwarp check` runs it in all, as a student's file."""
    assert [*check.wrong_kernels(puzzle, kernel, shortly=True)] == []


@pytest.mark.parametrize("all_", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["some", "all"])
@pytest.mark.parametrize(("puzzle", "kernel"), KERNELS)
def test_mutants_fail(puzzle, kernel, all_):
    """By day fewer of large kernels, which take longer: about 12 of a puzzle, with its declared mistakes."""
    few = TOGETHER if puzzle.part == 1 else max((12 - len(puzzle.mistakes)) // len(puzzle.kernels), 5)
    most = 0 if all_ else few
    assert [*check.wrong_mutants(puzzle, kernel, most)] == []


@pytest.mark.parametrize("puzzle", PROGRAMS, ids=lambda p: p.id)
def test_every_mistake_in_python_fails_with_its_diagnosis(puzzle):
    needs_what_is_there(puzzle)
    assert [*check.wrong_programs(puzzle)] == []


def adding(*edit, **rest):
    """Puzzle 01 with one mistake."""
    return replace(ADD, mistakes=(Mistake("new", edit, **rest),))


SUM = "a[i] + b[i];"


@pytest.mark.parametrize(
    ("mistake", "problem"),
    [
        (adding(SUM, "b[i] + a[i];"), "found 'passed', expected 'wrong'"),
        (adding(SUM, "a[i] - b[i];", expect="race"), "found 'wrong', expected 'race'"),
        (adding(SUM, "a[i] + b[i + 1];", says="It is shifted."), "found 'out-of-bounds', expected 'new'"),
        (adding(SUM, "a[i] - b[i];", line="no such line"), "'no such line' is not in"),
    ],
    ids=["passes", "another", "faults", "line"],
)
def test_a_mistake_that_is_not_what_it_says_is_a_problem(mistake, problem):
    for shortly in (False, True):
        (found,) = check.wrong_kernels(mistake, mistake.kernels[0], shortly)
        assert found.startswith("mistake 'new'") and problem in found


def test_only_all_builds_tell_what_checks_find_in_a_mistake_that_is_named_by_its_output():
    look = adding(SUM, "b[i]; if (i && c[i - 1] == 1.5e30f) c[i] = 0.0f;", says="a is missing.")
    assert [*check.wrong_kernels(look, ADD.kernels[0], shortly=True)] == []
    (found,) = check.wrong_kernels(look, ADD.kernels[0])
    assert "found 'race', expected 'new'" in found


def test_two_mistakes_with_one_output_must_have_one_sentence():
    one, two = (Mistake(n, (SUM, new), says=f"{n}.") for n, new in (("A", "a[i];"), ("B", "a[i] + 0.0f;")))
    same = replace(two, says=one.says, expect="A")
    problems = [*check.wrong_kernels(replace(ADD, mistakes=(one, two)), ADD.kernels[0])]
    assert len(problems) == 2 and "found 'wrong', expected 'A'" in problems[0]
    assert [*check.wrong_kernels(replace(ADD, mistakes=(one, same)), ADD.kernels[0])] == []


def test_texts_that_give_the_solution_away_are_a_problem():
    line = next(line for line in check.solution_lines(ADD) if "[" in line)
    told = replace(ADD, hints=(*ADD.hints[:2], f"{ADD.hints[2]} {line}"))
    assert [p for p in check.hints(told) if line in p] and [*check.hints(ADD)] == []
    assert [*check.hints(replace(ADD, hints=ADD.hints[:1] * 3))] == [
        "there must be three different hints of 15 words or more"
    ]


def test_a_declared_mistake_has_to_change_something_and_to_expect_what_there_is():
    assert [*check.declared(adding(SUM, SUM))] == ["mistake 'new' changes nothing"]
    assert [*check.declared(adding(SUM, "1;", expect="rase"))] == [
        "mistake 'new' expects rase, which there is not"
    ]
    assert [*check.declared(replace(ADD, mistakes=()))] == []
    assert [*check.declared(replace(STEP, mistakes=()))] == [
        "there are no mistakes, and a program has no mutants"
    ]


def test_a_solution_that_fails_and_a_stub_that_passes_are_problems(tmp_path):
    text, path = check.solution_text(ADD), tmp_path / "solutions" / ADD.id / "kernel.cu"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace(SUM, "a[i];"))
    (found,) = check.solution(replace(ADD, root=tmp_path, mistakes=()))
    assert found.startswith("the solution is")
    path.write_text(
        text.replace("// BEGIN SOLUTION", "").replace("// END SOLUTION", "")
        + "// BEGIN SOLUTION\n// END SOLUTION\n"
    )
    assert [*check.stub(replace(ADD, root=tmp_path))] == ["the stub should compile and fail, but is right"]


def test_files_that_are_missing_and_functions_that_fail_are_problems(tmp_path):
    (tmp_path / "solutions").mkdir()
    nowhere = replace(ADD, root=tmp_path)
    assert [*check.problems(nowhere)] == [
        f"there is no puzzles/{ADD.id}/README.md",
        f"there is no solutions/{ADD.id}/kernel.cu",
        f"there is no puzzles/{ADD.id}/kernel.cu; `backwarp reset 01` makes it from the solution",
    ]
    source = (ADD.folder / "puzzle.py").read_text(encoding="utf-8")
    scope = {"__name__": "puzzle"}
    wrong = source.replace('reference=lambda a, d: a["a"] + a["b"]', "reference=lambda a, d: a + 1")
    exec(compile(wrong, str(ADD.folder / "puzzle.py"), "exec"), scope)
    broken = replace(ADD, kernels=scope["PUZZLE"].kernels)
    line = 1 + source[: source.index("reference=lambda")].count("\n")
    assert [p for p in check.problems(broken) if p.startswith(f"puzzle.py fails in line {line}: TypeError: ")]


def test_cases_that_let_wrong_kernels_pass_are_a_problem():
    tiny = replace(ADD, cases=ADD.cases[:1], lines=7)
    found = [*check.tasks(tiny), *check.cases(tiny)]
    assert found == [
        "`lines` is 7, but the solution adds 3",
        "the stub does not say: You will write about 7 lines",
        "there is no case that draws its sizes: Case(..., draw=lambda pick: dict(n=pick(300, 3000)))",
        'there is no case with values="integers", whose sums are exact',
    ]


def test_a_sentence_of_the_stub_may_go_on_in_the_next_line(tmp_path):
    text, path = check.solution_text(ADD), tmp_path / "solutions" / ADD.id / "kernel.cu"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace("You will write about", "You will\n// write about"))
    assert [*check.tasks(replace(ADD, root=tmp_path))] == []


def test_references_that_give_no_tolerance_are_a_problem():
    def problem(reference):
        kernel = replace(ADD.kernels[0], reference=reference)
        (found,) = check.references(replace(ADD, kernels=(kernel,), cases=ADD.cases[1:2]))
        return found

    where = "in c of vector_add in case odd_block"
    assert f"NaN or infinity {where}" in problem(lambda a, d: a["a"] * float("inf"))
    assert f"exceed the reference of |inputs| {where}" in problem(lambda a, d: a["a"] - a["b"])


def test_a_puzzle_that_nobody_finds_is_a_problem(tmp_path):
    there, without = (replace(ADD, id="41_nowhere", root=root) for root in (ADD.root, tmp_path))
    assert (
        [*check.listed(there)]
        == [*check.listed(without)]
        == [
            "the ladder in README.md does not have **41 nowhere**",
            "no notebook links to the lesson: `python -m backwarp.maintain.notebooks` makes them again",
        ]
    )


def test_a_program_that_is_right_is_a_problem():
    (old, new), *_ = STEP.mistakes[0].edits
    right = Mistake("right", (old, old), kernel="forward", expect="launch")
    (found,) = check.wrong_programs(replace(STEP, mistakes=(right,)))
    assert "found nothing, expected launch" in found
