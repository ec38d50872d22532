"""`backwarp init`: a course from the package, made once and brought up to date later."""

from __future__ import annotations

import importlib.util
import json
import os
import zipfile
from pathlib import Path

import pytest

import backwarp.begin
from backwarp import COURSE
from backwarp.begin import MANIFEST, begin, manifest, packaged
from backwarp.cli import main
from backwarp.course.checkout import Course, open_course
from backwarp.errors import CourseError
from tests import ROOT, SOURCES

LESSON, KERNEL, HELD = "puzzles/01_a/README.md", "puzzles/01_a/kernel.cu", "puzzles/.stubs/01_a/kernel.cu"


@pytest.fixture
def shipped(monkeypatch):
    """What the package brings; a test changes it as a newer version would."""
    files = {LESSON: b"lesson", KERNEL: b"stub", HELD: b"stub"}
    monkeypatch.setattr(backwarp.begin, "without_solutions", lambda course: dict(files))
    return files


def read(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in (LESSON, KERNEL, HELD)}


def test_a_new_course_has_all_files_and_is_found_from_inside(tmp_path, shipped):
    root = tmp_path / "my course é"
    begun = begin(root)
    assert sorted(begun.new) == sorted(shipped) and not begun.kept
    assert read(root) == shipped and open_course(root / "puzzles").root == root


def test_a_newer_package_updates_what_was_not_changed_and_nothing_else(tmp_path, shipped):
    begin(tmp_path / "c")
    (tmp_path / "c" / KERNEL).write_bytes(b"mine")
    shipped |= {LESSON: b"newer lesson", KERNEL: b"newer stub", HELD: b"newer stub"}
    begun = begin(tmp_path / "c")
    assert sorted(begun.updated) == sorted([LESSON, HELD]) and begun.kept == [KERNEL]
    assert read(tmp_path / "c") == {**shipped, KERNEL: b"mine"}
    (tmp_path / "c" / KERNEL).write_bytes(b"newer stub")  # reset: from now on it is the package's again
    begin(tmp_path / "c")
    shipped[KERNEL] = b"newest stub"
    assert begin(tmp_path / "c").updated == [KERNEL]


def test_a_file_that_was_deleted_comes_back(tmp_path, shipped):
    begin(tmp_path / "c")
    (tmp_path / "c" / LESSON).unlink()
    assert begin(tmp_path / "c").new == [LESSON]


def test_links_are_neither_followed_nor_replaced(tmp_path, shipped):
    begin(tmp_path / "c")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"stub")
    kernel = tmp_path / "c" / KERNEL
    kernel.unlink()
    kernel.symlink_to(elsewhere)
    shipped[KERNEL] = b"newer stub"
    assert KERNEL in begin(tmp_path / "c").kept
    assert elsewhere.read_bytes() == b"stub" and kernel.is_symlink()


def test_a_folder_with_other_things_is_refused(tmp_path, shipped):
    (tmp_path / "thesis.tex").write_text("all my work")
    with pytest.raises(CourseError, match="neither empty nor a course"):
        begin(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("damage", ["[]", "{", '{"files": 3}', ""])
def test_a_damaged_manifest_loses_nothing(tmp_path, shipped, damage):
    begin(tmp_path / "c")
    (tmp_path / "c" / MANIFEST).write_text(damage)
    (tmp_path / "c" / KERNEL).write_bytes(b"mine")
    assert manifest(tmp_path / "c") == {}
    shipped |= {LESSON: b"newer lesson", KERNEL: b"newer stub"}
    assert sorted(begin(tmp_path / "c").kept) == sorted([LESSON, KERNEL])
    assert read(tmp_path / "c") == {LESSON: b"lesson", KERNEL: b"mine", HELD: b"stub"}


@pytest.mark.parametrize(
    ("answers", "made"), [("y\ny\n", True), ("y\nn\n", False), ("n\n", False), ("", False)]
)
def test_solutions_are_asked_for_twice(tmp_path, monkeypatch, answers, made):
    import io

    monkeypatch.setattr(backwarp.begin, "with_solutions", lambda course: {LESSON: b"lesson"})
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    target = tmp_path / "c"
    try:
        main(["init", str(target), "--with-solutions"])
    except SystemExit as end:
        assert bool(end.code) != made
    assert target.exists() == made
    if made:
        assert json.loads((target / MANIFEST).read_text())["solutions"] is True


# ---- the archive in the wheel ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """The archive as the build makes it."""
    specification = importlib.util.spec_from_file_location("archive", SOURCES / "archive.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    path = tmp_path_factory.mktemp("archive") / COURSE.name
    module.archive(ROOT, str(path))
    return path


def test_the_archive_has_what_a_course_needs_and_no_more(archive):
    names = zipfile.ZipFile(archive).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {"puzzles", "solutions", "notebooks", "README.md"} <= tops and not tops & {"harness", "reference"}
    assert not [name for name in names if "__pycache__" in name or ".bak-" in name or "/workflows/" in name]
    assert archive.stat().st_size < 6 << 20


def test_an_installed_package_makes_the_course_from_its_archive(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(backwarp.begin, "CHECKOUT", None)
    monkeypatch.setattr(backwarp.begin, "COURSE", archive)
    with packaged() as course:
        assert course.ids() == Course(ROOT).ids() and course.has_solutions
        files = backwarp.begin.with_solutions(course)
    assert not course.root.exists()
    assert not [name for name in files if name.startswith(("harness", "reference", "pyproject"))]
    assert b"pip install -e" not in files["README.md"] and "solutions/01_vector_add/kernel.cu" in files


def test_what_a_release_made_for_students_is_the_same_course(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(backwarp.begin, "CHECKOUT", None)
    monkeypatch.setattr(backwarp.begin, "COURSE", archive)
    with packaged() as course:
        texts = {LESSON: b"for students", "LICENSE": (ROOT / "LICENSE").read_bytes()}
        with monkeypatch.context() as patch:
            patch.setattr(backwarp.begin, "without_solutions", lambda course: texts)
            made = backwarp.begin.made_for_students(course)
        for name, data in made.items():
            (course.root / name).parent.mkdir(parents=True, exist_ok=True)
            (course.root / name).write_bytes(data)
        assert len(made) == 2 and backwarp.begin.without_solutions(course) == texts


def test_a_damaged_archive_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(backwarp.begin, "CHECKOUT", None)
    monkeypatch.setattr(backwarp.begin, "COURSE", tmp_path / "course.zip")
    (tmp_path / "course.zip").write_bytes(b"not an archive")
    with pytest.raises(CourseError, match="install backwarp again"):
        begin(tmp_path / "c")
