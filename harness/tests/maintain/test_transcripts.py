"""What commands in lessons print is what they print now."""

from __future__ import annotations

from pathlib import Path

import pytest

from backwarp.course.checkout import open_course
from backwarp.maintain.transcripts import HIDDEN, pages, renewed
from tests import sampled

COURSE = open_course(Path(__file__).resolve().parent)
PAGES = [str(page.relative_to(COURSE.root)) for page in pages(COURSE)]


def test_lessons_about_stepping_have_transcripts():
    assert {name[8:10] for name in PAGES} == {"09", "12", "19", "20", "26", "30", "be"}


@pytest.mark.parametrize("name", sampled(PAGES, every=4))
def test_a_transcript_is_fresh(name, monkeypatch):
    monkeypatch.chdir(COURSE.root)
    text = (COURSE.root / name).read_text(encoding="utf-8")
    assert renewed(COURSE, text) == text, "run them again: python -m backwarp.maintain.transcripts"


def test_lines_of_a_solution_are_left_out(monkeypatch):
    monkeypatch.chdir(COURSE.root)
    new = renewed(COURSE, "```\n$ backwarp step 02 --print 3 --to 'C[0]'\nold\n```\n")
    assert "old" not in new and f"| {HIDDEN}" in new and "writes C[m=0,n=0]" in new
    assert "C[row" not in new
