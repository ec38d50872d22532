"""What a verdict says about a repair besides the causes it has named; nothing is run."""

import pytest

from backwarp.grading.repair.schemata import Schemata
from backwarp.grading.repair.telling import KINDS, summary
from backwarp.grading.verdict import Verdict
from backwarp.report.json import repairs
from backwarp.report.json import shown as told_as_data
from backwarp.report.text import verdict_lines
from tests.grading.repair.test_statements import MISSING, SEVERAL
from tests.grading.said import cause, suspicion

ORDER = "These are the expected values of y, reversed along i."
SUM = "In this case, it adds x[i] to y[i]: in x, i should be i + 1, not i."
HERE = suspicion("Line 7: does w really run up to H?", 7)
OPERATOR = suspicion("Line 7: is a >= b also right where a is equal to b?", 7)
THERE = suspicion("Line 3 adds p in n + p: is that the right sign?", 3)
BOTH = suspicion("Lines 7 and 9 give r what belongs to s, and s what belongs to r.", 7, 9)
ELSEWHERE = suspicion("Line 3 compares n with p.", 3)
FAULT = "Line 3 lets threads return before the first barrier."


def change(line, how="changed", last=0, **more):
    place = {"how": how, "first": line, "last": last or line} | more
    lines = range(line, (last or line) + 1)
    code = [{"line": n, "text": f"    line({n});"} for n in lines]
    made = {"line": line, "column": 1, "before": "H", "after": "W", "kind": "another value"}
    return made | {"places": [place], "code": code}


def wrong(*causes, suspected=(), lines=(7,), first="y[i=0] = 1, expected 2"):
    findings = [*map(cause, causes), *suspected]
    found = Verdict("01", "kernel.cu", lines=[first, *map(str, findings)], findings=findings, case_total=4)
    found.repair = [*map(change, lines)]
    return found


def shown(verdict):
    return ["".join(text for text, _ in line).strip() for line in verdict_lines(verdict, 100)][1:]


ONE = "One change in line 7 makes all 4 cases pass."
CODE = "7 |     line(7);"


@pytest.mark.parametrize(
    ("causes", "suspected", "expected"),
    [
        ([], [], [ONE, CODE]),
        ([ORDER], [], [ORDER, ONE, CODE]),
        ([FAULT], [], [FAULT, ONE, CODE]),
        ([ORDER], [HERE], [ORDER, HERE, ONE, CODE]),
        ([ORDER], [OPERATOR], [ORDER, ONE, CODE]),
        ([ORDER], [THERE], [ORDER, ONE, CODE]),
        ([ORDER], [ELSEWHERE], [ORDER, ONE, CODE]),
        ([], [THERE, ELSEWHERE, BOTH], [BOTH, ONE, CODE]),
    ],
)
def test_facts_then_suspicions_about_its_lines_then_the_repair(causes, suspected, expected):
    found = wrong(*causes, suspected=suspected)
    first, *rest = shown(found)
    assert rest == [*map(str, expected)]
    found.repair = []
    facts = [*causes, *(str(f) for f in suspected if not f.asks)]
    assert shown(found) == [first, *facts] == told_as_data(found)["lines"]


def test_a_question_about_two_values_is_confirmed_by_their_exchange():
    asked = "Line 7 gives k the value z / C, and b the value z % C: is it the other way round?"
    found = wrong(suspected=[suspicion(asked, 7)])
    found.repair[0]["before"] = "int k = z / C, b = z % C;"
    assert shown(found)[1] == asked
    found.repair[0]["before"] = "int k = z / D;"
    assert asked not in shown(found)


def test_each_repair_is_with_the_cause_that_it_removes():
    found = wrong(ORDER, suspected=[THERE, BOTH], lines=(7, 3, 5))
    assert [r["cause"] for r in repairs(found)] == [str(BOTH), str(THERE), ORDER]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([change(7), change(9)], "One change in line 7 or in line 9 makes all 4 cases pass."),
        (
            [change(7), change(9), change(3, last=4)],
            "One change in lines 3 and 4, in line 7 or in line 9 makes all 4 cases pass.",
        ),
        (
            [change(3, "added", 4, count=1), change(9)],
            "Adding a line between lines 3 and 4 or one change in line 9 makes all 4 cases pass.",
        ),
        (
            [change(2, last=6), change(9)],
            "One change in line 9 or in lines 2 to 6, which belong together, makes all 4 cases pass.",
        ),
        ([change(7), change(7)], ONE),
    ],
)
def test_several_repairs(changes, says):
    found = Verdict("01", "kernel.cu", case_total=4, repair=changes)
    assert summary(found) == says


def test_of_many_lines_the_first_are_shown_and_none_twice():
    found = wrong(lines=())
    found.lines = ["a fault", "    8 |     line(8);", "      |     ^"]
    found.repair = [change(7, last=12)]
    assert [line[:4] for line in shown(found) if "|" in line] == ["8 | ", "|   ", "7 | ", "9 | "]


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ([("x[i]", "x[j]"), ("i + 1", "j")], ", which belong together and are all about i,"),
        ([("x", "y"), ("x", "y")], ", the same in each,"),
        ([("x", "y"), ("z", "")], ", which belong together,"),
        ([("x + y", "y")], ", which belong together,"),
    ],
)
def test_what_the_changes_of_many_lines_have_in_common(edits, says):
    made = change(7, last=10) | {"edits": [{"line": 7, "before": a, "after": b} for a, b in edits]}
    found = Verdict("01", "kernel.cu", case_total=4, repair=[made])
    assert summary(found) == f"One change in lines 7 to 10{says} makes all 4 cases pass."
    made["places"] = change(7, last=9)["places"]
    assert summary(found) == "One change in lines 7 to 9 makes all 4 cases pass."


def test_the_repair_takes_no_room_from_what_is_told_without_it():
    texts = ["Invalid read", "    7 | x", "      | ^", *(f"Value {i}." for i in range(12)), ORDER]
    found = Verdict("01", "kernel.cu", lines=texts, findings=[cause(ORDER)], case_total=4)
    alone = shown(found)
    found.repair = [change(6)]
    assert len(alone) == 11 and "..." in alone and alone[-1] == ORDER
    assert shown(found) == [*alone, ONE.replace("7", "6"), "6 |     line(6);"]


@pytest.mark.parametrize("races", [None, range(99)])
def test_there_is_a_sentence_for_every_kind_of_edit(races):
    made = [Schemata(text, "k", races=races) for text in (MISSING, SEVERAL)]
    says = {o.says for schemata in made for site in schemata.sites for o in site.operations}
    assert len(says) > 12 or races and "a barrier" in says
    assert says <= KINDS.keys()


def test_a_repair_after_which_the_kernel_is_right_but_slow_says_so():
    found = wrong()
    found.repair[0]["is_fast"] = False
    assert summary(found) == (
        "One change in line 7 makes all 4 cases pass. All results of the kernel are right then, so that it is judged for "
        "speed, and it is not fast enough yet."
    )
