"""The README's pictures are those that the course draws now."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.course.checkout import open_course
from harness.maintain.readme import PICTURES, content, content_of_file, verdicts, write

COURSE = open_course(Path(__file__).resolve().parent)
README = (COURSE.root / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_fresh_and_in_the_readme(name):
    assert f"({name})" in README
    found, drawn = content_of_file(COURSE.root / name), content(PICTURES[name](COURSE))
    assert len(found) > 200 and found == drawn, "draw them again: python -m harness.maintain.readme"
    assert (COURSE.root / name).stat().st_size < 500_000


@pytest.mark.soak
def test_a_file_says_what_it_was_drawn_from(tmp_path, monkeypatch):
    from harness.maintain import readme

    monkeypatch.setattr(readme, "MISTAKES", readme.MISTAKES[:1])
    console = verdicts(COURSE)
    write(console, tmp_path / "x.svg")
    assert (
        content_of_file(tmp_path / "x.svg")
        == content(console)
        != content_of_file(COURSE.root / ".github/verdict.svg")
    )
