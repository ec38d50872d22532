"""Whose file is for which puzzle."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest

from backwarp.classroom.find import Known, find
from backwarp.course.checkout import Course
from backwarp.errors import CourseError
from tests import ROOT

COURSE = Course(ROOT)
TEXT = (ROOT / "solutions" / "09_conv2d_backward_weights" / "kernel.cu").read_text()
NINE, TWO = "09_conv2d_backward_weights", "02_matmul"


def put(root: Path, name: str, text: str = TEXT, when: float = 0) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if when:
        os.utime(path, (when, when))
    return path


def found_in(source: Path, tmp_path: Path):
    (tmp_path / "scratch").mkdir(exist_ok=True)
    return find(COURSE, source, tmp_path / "scratch")


@pytest.mark.parametrize(
    ("names", "people"),
    [
        ([f"ada/{NINE}/kernel.cu", f"bob/puzzles/{NINE}/kernel.cu"], ["ada", "bob"]),  # folders
        (["ada/09.cu", "bob/my_09_final.cu"], ["ada", "bob"]),
        (["J.O. Smith/09.cu", "j.o/09.cu", "o.zip.md/a.o/09.cu"], ["J.O. Smith", "j.o", "o.zip.md"]),
        (["ada/kernel.cu", "bob/conv2d_backward_weights.txt"], ["ada", "bob"]),  # by its kernels; by its name
        (["ada_09.cu", "bob smith_09.cu"], ["ada", "bob smith"]),  # a flat list
        (
            ["Ada Lovelace_4711_assignsubmission_file_/kernel.cu", "Bob_12_assignsubmission_file_/09.cu"],
            ["Ada Lovelace 4711", "Bob 12"],
        ),  # Moodle
        (
            ["lovelaceada_4711_990_09.cu", "smithbob_LATE_12_991_kernel.cu"],
            ["lovelaceada 4711", "smithbob 12"],
        ),  # Canvas
        ([f"hw-3-ada/{NINE}/kernel.cu", f"hw-3-bob-smith/{NINE}/kernel.cu"], ["ada", "bob-smith"]),  # clones
    ],
)
def test_people_and_puzzles_are_found_as_course_systems_name_them(tmp_path, names, people):
    for name in names:
        put(tmp_path / "in", name)
    found = found_in(tmp_path / "in", tmp_path)
    assert sorted(found.graded) == [(person, NINE) for person in people] and not found.left
    assert found.people == people


@pytest.mark.parametrize("nested", [False, True])
def test_archives_are_unpacked(tmp_path, nested):
    put(tmp_path / "in", f"{NINE}/kernel.cu")
    inner = tmp_path / "out" / "ada.zip"
    inner.parent.mkdir()
    with zipfile.ZipFile(inner, "w") as held:
        held.write(
            tmp_path / "in" / NINE / "kernel.cu", f"{NINE}/kernel.cu" if nested else f"ada/{NINE}/kernel.cu"
        )
    found = found_in(inner.parent if nested else inner, tmp_path)
    if not nested:  # the whole class in one archive, with a single person
        assert [puzzle for _, puzzle in found.graded] == [NINE]
    else:
        assert list(found.graded) == [("ada", NINE)]


def test_nothing_in_an_archive_gets_out_of_its_folder(tmp_path):
    path = tmp_path / "in" / "eve.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as held:
        held.writestr("../../outside_09.cu", TEXT)
        link = zipfile.ZipInfo("09_link.cu")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        held.writestr(link, "/etc/passwd")
        held.writestr("09/kernel.cu", TEXT)
        held.writestr("10/kernel.cu", "x" * (1 << 20))
    found = found_in(path.parent, tmp_path)
    assert list(found.graded) == [("eve", NINE)]
    assert not (tmp_path / "outside_09.cu").exists() and not list(tmp_path.glob("**/*outside*"))


@pytest.mark.parametrize("data", [b"not an archive", b"PK\x03\x04 damaged"])
def test_a_damaged_archive_is_left_with_its_reason(tmp_path, data):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "eve.zip").write_bytes(data)
    (left,) = found_in(tmp_path / "in", tmp_path).left
    assert left.person == "eve" and "cannot be unpacked" in left.why


def zipped(path: Path, **files: bytes) -> bytes:
    with zipfile.ZipFile(path, "w") as held:
        for name, data in files.items():
            held.writestr(name, data)
    return path.read_bytes()


def test_archives_beside_each_other_are_kept_apart_and_those_in_archives_left(tmp_path):
    inner = zipped(tmp_path / "x.zip", **{"09.cu": b"inner"})
    (tmp_path / "in" / "ada").mkdir(parents=True)
    zipped(tmp_path / "in" / "ada" / "a.zip", **{"09.cu": b"first", "more.zip": inner})
    zipped(tmp_path / "in" / "ada" / "b.zip", **{"09.cu": b"second"})
    put(tmp_path / "in", "bob/09.cu")
    found = found_in(tmp_path / "in", tmp_path)
    assert sorted(f.data for f in found.graded["ada", NINE]) == [b"first", b"second"]
    assert [(f.name, f.why) for f in found.left] == [("ada/a.zip/more.zip", "an archive in an archive")]


def test_a_name_of_any_bytes_can_be_written(tmp_path):
    for name in (b"\xff", b"\xfe"):
        folder = os.fsencode(tmp_path / "in") + b"/" + name
        os.makedirs(folder)
        Path(os.fsdecode(folder + b"/09.cu")).write_text(TEXT)
    found = found_in(tmp_path / "in", tmp_path)
    assert found.people == ["\\xfe", "\\xff"] == sorted(person for person, _ in found.graded)


def test_a_persons_archive_has_its_limits(tmp_path, monkeypatch):
    monkeypatch.setattr("backwarp.classroom.find.OF_A_PERSON", (2, 100))
    (tmp_path / "in").mkdir()
    zipped(tmp_path / "in" / "ada.zip", **{f"{n:02}.cu": b"" for n in range(1, 4)})
    zipped(tmp_path / "in" / "bob.zip", **{"09.cu": b"x" * 101})
    assert [f.why for f in found_in(tmp_path / "in", tmp_path).left] == [
        "ada.zip is larger than any hand-in",
        "bob.zip is larger than any hand-in",
    ]


@pytest.mark.parametrize(
    "text",
    [
        f'{{"puzzles": {{"{NINE}": {{"attempts": 7}}}}}}',
        "{",
        '{"puzzles": 3}',
        f'{{"puzzles": {{"{NINE}": {{"hints": {"9" * 400}}}}}}}',
    ],
)
def test_attempts_are_read_where_a_whole_course_is_handed_in(tmp_path, text):
    put(tmp_path / "in", f"ada/puzzles/{NINE}/kernel.cu")
    put(tmp_path / "in", "ada/.backwarp/progress.json", text)
    put(tmp_path / "in", "bob/09.cu")
    found = found_in(tmp_path / "in", tmp_path)
    assert sorted(found.graded) == [("ada", NINE), ("bob", NINE)] and not found.left
    own = found.progress.get("ada", {})
    assert {id: e.attempts for id, e in own.items()} == ({NINE: 7} if "attempts" in text else {})


def test_links_are_not_followed(tmp_path):
    secret = put(tmp_path, "secret.cu")
    for name in ("ada/09.cu", "eve_09.cu"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).symlink_to(secret)
    (tmp_path / "in" / "ada" / "folder").symlink_to(tmp_path)
    found = found_in(tmp_path / "in", tmp_path)
    assert not found.graded and all("link" in f.why for f in found.left)
    assert sorted((f.person, f.name) for f in found.left) == [
        ("ada", "ada/09.cu"),
        ("ada", "ada/folder"),
        ("eve", "eve_09.cu"),
    ]


def test_what_belongs_to_no_puzzle_or_to_several_is_left(tmp_path):
    put(tmp_path / "in", "ada/notes.cu", "int x;")
    puzzle = COURSE.load("19").kernels[0]
    names = ", ".join(p.declaration for p in puzzle.params)
    put(tmp_path / "in", "ada/kernel.cu", f'extern "C" __global__ void {puzzle.name}({names}) {{}}')
    put(tmp_path / "in", "bob/09.cu")
    found = found_in(tmp_path / "in", tmp_path)
    reasons = {f.name: f.why for f in found.left}
    assert reasons["ada/notes.cu"] == "for no puzzle"
    assert "19" in reasons["ada/kernel.cu"] and "20" in reasons["ada/kernel.cu"]


def test_of_several_files_for_a_puzzle_the_latest_comes_last(tmp_path):
    put(tmp_path / "in", "ada/b/09.cu", "old", 1e9)
    put(tmp_path / "in", "ada/a/09.cu", "new", 1.1e9)
    put(tmp_path / "in", "bob/09.cu")
    files = found_in(tmp_path / "in", tmp_path).graded["ada", NINE]
    assert [f.data for f in files] == [b"old", b"new"]


def test_a_table_names_the_files(tmp_path):
    put(tmp_path, "x/one.cu")
    table = tmp_path / "class.csv"
    table.write_text("person,path,puzzle,when\nada,x/one.cu,9,2026-01-02T03:04:05+00:00\nbob,x/none.cu,,\n")
    found = found_in(table, tmp_path)
    assert [f.when for f in found.graded["ada", NINE]] == [1767323045.0]
    assert [(f.person, "does not exist" in f.why) for f in found.left] == [("bob", True)]
    table.write_text("person,path,puzzle\nada,x/one.cu,nonsense\n")
    with pytest.raises(CourseError, match="line 2: .*nonsense"):
        found_in(table, tmp_path)
    table.write_text("name,path\nada,x/one.cu\n")
    with pytest.raises(CourseError, match="line 2: it needs the columns person and path"):
        found_in(table, tmp_path)


def test_what_is_no_submission_is_one_sentence(tmp_path):
    with pytest.raises(CourseError, match="neither a folder nor a zip"):
        found_in(tmp_path / "nowhere", tmp_path)


def test_every_solution_is_known_by_its_text():
    known = Known(COURSE)
    for puzzle in COURSE.puzzles():
        text = puzzle.solution_path.read_text()
        assert known.by_content(text, puzzle.file) == [puzzle.id]
