"""The program that draws the ladder."""

import shutil

from click.testing import CliRunner

from backwarp.course.checkout import Course
from backwarp.maintain import ladder
from backwarp.report.pictures.ladder import PAGE
from tests.lenet.small import ROOT


def test_the_stored_figures_become_two_pictures_and_a_table(tmp_path, monkeypatch):
    (tmp_path / ".github").mkdir()
    shutil.copy(ROOT / PAGE, tmp_path / PAGE)
    monkeypatch.setattr(ladder, "open_course", lambda _: Course(tmp_path))
    done = CliRunner().invoke(ladder.main, catch_exceptions=False)
    written = [tmp_path / name for name in (".github/ladder.png", ".github/roofline.png", PAGE)]
    assert done.exit_code == 0 and done.output.splitlines() == [str(path) for path in written]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written[:2])
    assert written[2].read_bytes() == (ROOT / PAGE).read_bytes()
