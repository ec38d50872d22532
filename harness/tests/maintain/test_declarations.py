"""puzzle.py without the parts that students do not get."""

from __future__ import annotations

import re

import pytest

from backwarp.errors import CourseError
from backwarp.maintain.declarations import for_students

KERNELS = """\
    title="t",
    part=1,
    teaches="x",
    hints=("h",),
    kernels=(
        Kernel(
            "k",
            (In("x", n="N"), Out("y", n="N"), Int("N")),
            lambda d, t: Launch(1, 32),
            lambda a, d: a["x"],
        ),
    ),
"""
WHOLE = '''\
"""Puzzle 01: a copy."""

from __future__ import annotations

import math
import re

from backwarp.course import Case, In, Int, Kernel, Launch, Mistake, Out, Puzzle

SIZE = 3

# the line of the solution
STORE = "y[i] = x[i];"
STORE += "  // é"
LATE = Mistake("late", (STORE, "y[i + 1] = x[i];"))


def edit(text):
    return re.sub("y", "z", text)


def large(*names):
    return (Case(name, {"N": math.prod((300, 300))}, stress=True) for name in names)


PUZZLE = Puzzle(
'''
WHOLE += (
    KERNELS
    + """\
    cases=(
        Case("small", {"N": SIZE}),  # stays
        # is hidden
        Case("odd", {"N": 7}, hidden=True),  # and this
        *large("rows", "columns"),
        Case("last", {"N": 5}),
    ),
    mistakes=(
        LATE,
        Mistake("never", (STORE, edit(""))),
    ),
)
"""
)
LEFT = '''\
"""Puzzle 01: a copy."""

from __future__ import annotations

from backwarp.course import Case, In, Int, Kernel, Launch, Out, Puzzle

SIZE = 3

PUZZLE = Puzzle(
'''
LEFT += (
    KERNELS
    + """\
    cases=(
        Case("small", {"N": SIZE}),  # stays
        Case("last", {"N": 5}),
    ),
)
"""
)


def changed(*pairs):
    text = WHOLE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_mistakes_and_hidden_cases_go_with_all_that_only_they_need():
    found = for_students(WHOLE, "puzzle.py")
    assert re.sub(r"\n\n+", "\n\n", found).strip() == LEFT.strip()
    assert for_students(found, "puzzle.py") == found


def test_mistakes_that_something_else_names_are_none():
    text = for_students(changed(("lambda d, t: Launch(1, 32)", "lambda d, t: Launch(1, len([LATE]))")), "p")
    assert "LATE = ()\n" in text and "STORE" not in text


def test_on_one_line():
    line = 'Case("small", {"N": SIZE}),  # stays\n        # is hidden\n        Case("odd", {"N": 7}, hidden=True),'
    text = for_students(
        changed((line, 'Case("small", {"N": SIZE}), Case("odd", {"N": 7}, hidden=True),')), "p"
    )
    assert 'Case("small", {"N": SIZE}),   # and this\n' in text


def test_in_a_call_that_returns_its_cases():
    wrapped = '*tuple((Case("a", {"N": 2}), *large("rows"), Case("b", {"N": 4}, hidden=True))),'
    with pytest.raises(CourseError):
        for_students(changed(('*large("rows", "columns"),', wrapped)), "p")
    own = "def these(n, *cases):\n    return cases\n\n\nPUZZLE = "
    wrapped = '*these(1, Case("a", {"N": 2}), *large("rows"), Case("b", {"N": 4}, hidden=True)),'
    text = for_students(changed(("PUZZLE = ", own), ('*large("rows", "columns"),', wrapped)), "p")
    assert '*these(1, Case("a", {"N": 2}),  ),' in text and "large" not in text


def test_what_cannot_be_taken_out_is_refused():
    text = changed(('*large("rows", "columns"),', '*(*large("rows"), Case("a", {"N": 2})),'))
    with pytest.raises(
        CourseError, match="puzzle.py: the case 'rows' cannot be left out where it is written"
    ):
        for_students(text, "puzzle.py")
