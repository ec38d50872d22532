"""The README's pictures are those that the course draws now."""

from __future__ import annotations

from pathlib import Path

import pytest

from backwarp.course.checkout import open_course
from backwarp.maintain import readme
from backwarp.maintain.readme import PICTURES, content, content_of_file, verdicts, write
from tests import sampled

COURSE = open_course(Path(__file__).resolve().parent)
README = (COURSE.root / "README.md").read_text(encoding="utf-8")


VERDICTS = ".github/verdict.svg"


#: two gradings: by day the first of them, below
@pytest.mark.parametrize("name", sampled(PICTURES, [p for p in PICTURES if p != VERDICTS], every=0))
def test_a_picture_is_fresh_and_in_the_readme(name):
    assert f"({name})" in README
    found, drawn = content_of_file(COURSE.root / name), content(PICTURES[name](COURSE))
    assert len(found) > 200 and found == drawn, "draw them again: python -m backwarp.maintain.readme"
    assert (COURSE.root / name).stat().st_size < 500_000


def test_a_file_says_what_it_was_drawn_from(tmp_path, monkeypatch):
    """Also that the first of two verdicts is fresh."""
    monkeypatch.setattr(readme, "MISTAKES", readme.MISTAKES[:1])
    console, whole = verdicts(COURSE), content_of_file(COURSE.root / VERDICTS)
    write(console, tmp_path / "x.svg")
    found = content_of_file(tmp_path / "x.svg")
    assert len(found) > 200 and found == content(console)
    assert found != whole and whole.startswith(found), "draw it again: python -m backwarp.maintain.readme"
    assert f"({VERDICTS})" in README
