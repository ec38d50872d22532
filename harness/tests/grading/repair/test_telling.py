"""What a verdict says about a repair besides the causes it has named; nothing is run."""

import pytest

from harness.grading.repair.schemata import Schemata
from harness.grading.repair.telling import KINDS, lines_named, told
from harness.grading.verdict import Verdict
from harness.report.json import repairs
from harness.report.text import verdict_lines
from harness.tests.grading.repair.test_insertions import BESIDE, MISSING, SEVERAL

ORDER = "These are the expected values of y, reversed along i."
SUM = "In this case, it adds x[i] to y[i]: in x, i should be i + 1, not i."
HERE = "Line 7: does w really run up to H?"
THERE = "Line 3 adds p in n + p: is that the right sign?"
BOTH = "Lines 7 and 9 give r what belongs to s, and s what belongs to r."


def change(line, before="H"):
    return {"line": line, "column": 1, "before": before, "after": "W", "kind": "another value"}


@pytest.mark.parametrize(
    ("causes", "lines", "paragraph", "dropped"),
    [
        ([], (7,), "One change in line 7 makes all 4 cases pass.", []),
        ([ORDER], (7,), f"{ORDER[:-1]}: one change in line 7 makes all 4 cases pass.", []),
        ([SUM], (7, 9), f"{SUM} One change in line 7 or in line 9 makes all 4 cases pass.", []),
        ([ORDER, HERE], (7,), f"{HERE} One change in that line (7) makes all 4 cases pass.", []),
        ([BOTH], (7,), f"{BOTH[:-1]}: one change in line 7 makes all 4 cases pass.", []),
        ([ORDER, THERE], (7,), f"{ORDER[:-1]}: one change in line 7 makes all 4 cases pass.", [THERE]),
        ([THERE], (7,), "One change elsewhere, in line 7, makes all 4 cases pass.", [THERE]),
        ([THERE], (7, 9), "One change elsewhere, in line 7 or in line 9, makes all 4 cases pass.", [THERE]),
        ([BOTH], (3,), "One change elsewhere, in line 3, makes all 4 cases pass.", []),
    ],
)
def test_a_repair_is_told_with_the_cause_that_it_removes(causes, lines, paragraph, dropped):
    found = Verdict("01", "kernel.cu", lines=["y[i=0] = 1, expected 2", *causes], causes=causes, case_total=4)
    found.repair = [change(line) for line in lines]
    says = told(found)
    assert says.paragraph == paragraph
    shown = says.beside(found.lines)
    assert says.paragraph in shown and [c for c in causes if c[:-1] not in " ".join(shown)] == dropped
    agreed = {r["cause"] for r in repairs(found)}
    assert agreed <= {*causes, ""} and says.cause in agreed


def test_the_lines_that_a_sentence_names():
    assert lines_named("Line 25, and lines 3 to 5, for 7 elements") == {25, 3, 4, 5}
    assert lines_named("the loop of line 30 and 31 others") == {30, 31}
    assert not lines_named("Every line is 4 elements long.")


def test_of_a_long_verdict_the_causes_are_kept():
    texts = ["Invalid read", "    7 | x", "      | ^", *(f"Value {i}." for i in range(12)), ORDER]
    found = Verdict("01", "kernel.cu", lines=texts, causes=[ORDER], case_total=4, repair=[change(7)])
    shown = ["".join(text for text, _ in line).strip() for line in verdict_lines(found, 100)]
    assert len(shown) == 12 and shown[-2] == "..." and "Value 5." in shown and "Value 6." not in shown
    assert shown[-1] == f"{ORDER[:-1]}: one change in line 7 makes all 4 cases pass."


@pytest.mark.parametrize("races", [None, range(99)])
def test_there_is_a_sentence_for_every_kind_of_edit(races):
    made = [Schemata(text, "k", races=races) for text in (BESIDE, MISSING, SEVERAL)]
    says = {o.says for schemata in made for site in schemata.sites for o in site.operations}
    assert len(says) > 20 or races and "a barrier" in says
    assert says <= KINDS.keys()


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("a", "b", "in line 3"),
        ("a\nb\nc", "x\nb\ny", "in lines 3 and 5"),
        ("a\nb\nc", "x\ny\nz", "in lines 3 to 5"),
        ("a\nb\nc\nd", "x\nb\ny\nz", "in lines 3, 5 and 6"),
        ("a\nb", "x", "in lines 3 and 4"),
    ],
)
def test_only_lines_that_change_are_named(before, after, place):
    repair = {"line": 3, "column": 1, "before": before, "after": after, "kind": "a term"}
    found = Verdict("01", "kernel.cu", case_total=4, repair=[repair])
    assert told(found).says == f"One change {place} makes all 4 cases pass."
