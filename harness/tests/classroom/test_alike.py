"""Which files are alike."""

from __future__ import annotations

import re

import pytest

from backwarp.classroom.alike import alike, pairs_of
from backwarp.classroom.find import File, Found
from backwarp.classroom.pages import pairs_page
from backwarp.course.checkout import Course
from backwarp.course.stubs import stub_text
from backwarp.errors import CourseError
from tests import KERNELS, ROOT

COURSE, ID = Course(ROOT), "20_bias_warp"
OWN = (KERNELS / "20_right_xor.cu").read_text()
SOLUTION = (ROOT / "solutions" / ID / "kernel.cu").read_text()
COPY = re.sub(r"\bsum\b", "acc", OWN).replace("//", "// all my own work,")


def found(puzzle: str = ID, **texts: str) -> Found:
    return Found({(person, puzzle): [File(person, "k.cu", text.encode())] for person, text in texts.items()})


def test_other_names_and_comments_hide_nothing():
    pytest.importorskip("copydetect")
    other = (KERNELS / "20_right_last_thread.cu").read_text()
    (pair,) = alike(COURSE, found(ada=OWN, bob=COPY, eve=other))
    assert set(pair.people) == {"ada", "bob"} and pair.share > 0.9
    page = pairs_page([pair])
    assert page.count("<mark>") >= 2 and "ada" in page


def test_stubs_and_what_is_in_the_solution_are_nobodys():
    pytest.importorskip("copydetect")
    stub = stub_text(COURSE.load(ID))
    assert not alike(COURSE, found(ada=SOLUTION + "//", bob=SOLUTION + "// mine", cy=stub, di=stub))


def test_equal_texts_are_found_without_a_library():
    assert [p.people for p in pairs_of(COURSE.load(ID), {OWN: ["ada", "bob"]})] == [("ada", "bob")]


def test_parts_one_and_two_are_not_compared():
    assert not alike(COURSE, found("09_conv2d_backward_weights", ada=OWN, bob=OWN))


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "copydetect", None)
    with pytest.raises(CourseError, match=r"backwarp\[class\]"):
        alike(COURSE, found(ada=OWN, bob=COPY))
