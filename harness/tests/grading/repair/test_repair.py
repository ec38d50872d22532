"""Where a change is in a file; nothing is run."""

import pytest

from backwarp.grading.repair.edits import Edit
from backwarp.grading.repair.repair import Place, Repair, places
from backwarp.grading.repair.telling import changed_lines, hint, summary
from backwarp.grading.verdict import Verdict

SOURCE = """\
__global__ void k(const float* x, float* y, int n) {
    int i = threadIdx.x;
    float sum = 0;
    for (int j = 0; j < n; j++) {
        sum += x[j];  // all

        y[i] = 0;
    }
    y[i] = sum;
    if (i < n) y[i] *= 2;
}
"""


def edits(*pairs):
    """The edits that replace each text, which is in the file once; ^ in a text: all after it is replaced."""
    found = []
    for text, after in pairs:
        before, _, inner = text.rpartition("^")
        assert SOURCE.count(before + inner) == 1
        start = SOURCE.index(before + inner) + len(before)
        found.append(Edit(start, start + len(inner), after, "a term"))
    return tuple(sorted(found, key=lambda e: e.start))


def test_a_line_goes_behind_the_loop_that_it_is_in():
    start = SOURCE.index("        y[i] = 0;")
    end = SOURCE.index("    y[i] = sum")
    found = (Edit(start + 8, start + 17, "", "a term"), Edit(end - 1, end - 1, " y[i] = 0;", "a term"))
    assert places(SOURCE, found) == [Place("moved", 7, 7, below=8)]
    braces = "void k() {\nfor (;;) {\n{\nx = 1;\n}\n}\n}\n"
    start, end = braces.index("x = 1;"), braces.index("}\n") + 1
    found = (Edit(start, start + 6, "", "a term"), Edit(end, end, "\nx = 1;", "a term"))
    assert places(braces, found) == [Place("moved", 4, 4, below=5)]


@pytest.mark.parametrize(
    ("pairs", "found", "says"),
    [
        ([("j < ^n", "n - 1")], [Place("changed", 4, 4)], "One change in line 4"),
        ([("j < ^n", "2"), ("x[^j", "i")], [Place("changed", 4, 5)], "One change in lines 4 and 5"),
        (
            [("threadIdx.x", "3"), ("*= ^2", "3")],
            [Place("changed", 2, 2), Place("changed", 10, 10)],
            "One change in lines 2 and 10",
        ),
        (
            [
                (
                    SOURCE[SOURCE.index("float sum") : SOURCE.index("if")],
                    SOURCE[SOURCE.index("float sum") : SOURCE.index("if")].replace("x[j]", "x[i]"),
                )
            ],
            [Place("changed", 5, 5)],
            "One change in line 5",
        ),
        ([("sum = 0;^", " sum += 1;")], [Place("added", 3, 4, 1)], "Adding a line between lines 3 and 4"),
        (
            [("    ^y[i] = 0", "__syncthreads(); y[i] = 0")],
            [Place("added", 5, 7, 1)],
            "Adding a line between lines 5 and 7",
        ),
        ([("sum += x[j];^", " sum *= 2;")], [Place("added", 5, 7, 1)], "Adding a line between lines 5 and 7"),
        (
            [("y[i] = sum;^", "\n    a = 1;\n    b = 1;")],
            [Place("added", 9, 10, 2)],
            "Adding lines between lines 9 and 10",
        ),
        (
            [("^y[i] = sum;", "__syncthreads(); y[i] = sum;"), ("*= 2;^", " sum = 0;")],
            [Place("added", 8, 9, 1), Place("added", 10, 11, 1)],
            "Adding a line between lines 8 and 9 and between lines 10 and 11",
        ),
        ([("^y[i] = 0;", "")], [Place("removed", 7, 7)], "Removing line 7"),
        (
            [("^float sum = 0;", ""), ("j++) {^", "\n    float sum = 0;")],
            [Place("moved", 3, 3, below=4)],
            "Moving line 3 below line 4",
        ),
        (
            [("^y[i] = sum;", ""), ("^sum += x[j];", "y[i] = sum; sum += x[j];")],
            [Place("moved", 9, 9, above=5)],
            "Moving line 9 above line 5",
        ),
        (
            [("x[^j", "i"), ("*= 2;^", " sum = 0;")],
            [Place("changed", 5, 5), Place("added", 10, 11, 1)],
            "One change in line 5 and between lines 10 and 11",
        ),
        ([("if (i < n) ^y", "if (i > 0) y")], [Place("changed", 10, 10)], "One change in line 10"),
    ],
)
def test_the_fewest_lines_and_what_becomes_of_them(pairs, found, says):
    own = edits(*pairs)
    assert places(SOURCE, own) == found
    repair = Repair(own, 1.0, SOURCE).as_dict()
    assert (
        summary(Verdict("01", "kernel.cu", case_total=4, repair=[repair]))
        == f"{says} makes all 4 cases pass."
    )
    assert changed_lines(repair) == [line for place in found for line in place.lines]
    assert [code["text"] for code in repair["code"]] == [
        SOURCE.split("\n")[n - 1] for n in changed_lines(repair)
    ]


def test_a_change_of_nothing_but_space_has_a_place():
    (place,) = Repair(edits(("= 0;^\n    for", " ")), 1.0, SOURCE).as_dict()["places"]
    assert place["how"] == "changed" and place["first"] == 3


def test_hints_go_line_by_line():
    repair = Repair(
        edits(("x[^j", "i"), ("x[j^]", "+ 1]"), ("*= ^2", "3"), ("sum = 0;^", " sum = 1;")),
        1.0,
        SOURCE,
    )
    found = repair.as_dict()
    assert (found["line"], found["before"].count("\n")) == (3, 7)
    assert [(e["line"], e["before"], e["after"]) for e in found["edits"]] == [
        (3, "", " sum = 1;"),
        (5, "j]", "i+ 1]"),
        (10, "2", "3"),
    ]
    first, second = (hint(found, level, SOURCE) for level in (1, 3))
    assert (
        len(first) == 9 and first[3] == "Line 5: part of the change that makes every case pass is to this: j]"
    )
    assert second[6] == "Line 10: 2 becomes 3" and second[7] == "    10 |     if (i < n) y[i] *= 2;"
