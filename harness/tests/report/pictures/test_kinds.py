"""Pictures by name: every kind is drawn of a kernel it is for, and says where it does not apply."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from PIL import Image

from backwarp.course.checkout import load_puzzle, open_course
from backwarp.devices import open_device
from backwarp.errors import CourseError
from backwarp.report.pictures import counted, kinds, maps
from backwarp.report.pictures.kinds import KINDS, Ask, chosen_kind, kinds_of, save_picture
from tests.devices.virtual.launches import K
from tests.test_cli import DECLARATION, SOLUTION, backwarp, course  # noqa: F401

COURSE = open_course(Path(__file__).resolve().parent)
RACE = SOLUTION.replace("y[threadIdx.x]", "y[0]")


def ask(number: str, path: Path | None = None, **more) -> Ask:
    puzzle = COURSE.load(number)
    return Ask(puzzle, path or puzzle.solution_path, puzzle.kernels[0], puzzle.cases[0], **more)


def test_the_table_names_functions_that_are_there_and_puzzles_that_are():
    from importlib import import_module

    for kind in KINDS.values():
        for where in filter(None, (kind.draw, kind.frames)):
            module, name = where.split(":")
            assert callable(getattr(import_module(f"backwarp.report.pictures.{module}"), name))
        assert set(kind.puzzles) <= {p.number for p in COURSE.puzzles()}
        assert len(f"    {kind.name:8}  {kind.says} ({', '.join(kind.puzzles)})") <= 90
    drawn = {number for kind in KINDS.values() if kind.draw.startswith("maps:") for number in kind.puzzles}
    assert drawn == set(maps.MAPS)


def test_the_help_lists_all(backwarp):  # noqa: F811
    _, out, _ = backwarp("picture", "--help")
    assert all(f"{kind.name}  " in out and kind.says in out for kind in KINDS.values())


def test_what_does_not_apply_is_one_line(course, backwarp):  # noqa: F811
    for words, said in (
        (("1", "--kind", "banks"), "01_twice has no picture 'banks'; it has access, warp, race, heat"),
        (("1", "--solution", "--kind", "race"), "01_twice: this kernel has no race; the verdict is: passed"),
        (("1", "--solution", "--kind", "heat"), "no output of this kernel is wrong"),
        (("1", "--kind", "race"), "the verdict is: untouched"),
        (("1", "--kind", "access", "-o", "x.gif"), "access: this picture does not move"),
        (("1", "-o", "x.jpg"), "pictures are .png, .svg or .pdf files"),
    ):
        status, out, err = backwarp("picture", *words)
        assert (status, out) == (2, "") and said in err and err.count("\n") == 1
    assert backwarp("picture", "1", "--kind", "what")[0] == 2


def test_a_kernel_that_races_is_drawn_so(course, backwarp, monkeypatch):  # noqa: F811
    monkeypatch.setattr("backwarp.devices.open_device", open_device)  # the fixture has a fake in its place
    load_puzzle.cache_clear()
    own, drawn = course / "puzzles" / "01_twice" / "kernel.cu", {}
    (own.parent / "puzzle.py").write_text(DECLARATION.replace("Launch(1, 32)", "Launch(1, 3)"))
    for text, name in ((RACE, "race"), (SOLUTION, "access")):
        own.write_text(text)
        picture = course / ".backwarp" / "01_twice.png"
        assert backwarp("picture", "1") == (0, f"{picture}\n", "")
        drawn[text] = sha256(picture.read_bytes()).hexdigest()
        assert backwarp("picture", "1", "--kind", name, "-o", "named.png")[0] == 0
        assert sha256((course / "named.png").read_bytes()).hexdigest() == drawn[text]
    assert drawn[RACE] != drawn[SOLUTION]


def test_a_kernel_of_ones_own_is_what_is_drawn(tmp_path):
    puzzle = COURSE.load("24")
    own = tmp_path / "kernel.cu"
    own.write_text(counted.with_mistake(puzzle, "no tile, as in puzzle 07"))
    figure = kinds.draw(ask("24", own), KINDS["halo"])[0]
    texts = [t.get_text() for t in figure.axes[0].texts]
    assert texts.count("108 reads for 12 outputs") == 2 and "your kernel" in texts
    own.write_text(puzzle.stub_path.read_text(encoding="utf-8"))
    with pytest.raises(CourseError, match="conv2d_forward touches no memory"):
        kinds.draw(ask("24", own), KINDS["halo"])
    own.write_text(COURSE.load("19").solution_path.read_text(encoding="utf-8").replace("part", "sums"))
    with pytest.raises(CourseError, match=r"shows part\[tid\]; this kernel does not have it"):
        kinds.draw(ask("19", own), KINDS["steps"])
    kernel = (
        f"{K}transpose(const float* input, float* output, int rows, int columns) {{ output[0] = input[0]; }}"
    )
    own.write_text(f"constexpr int TILE = 32;\nconstexpr int HEIGHT = 8;\n{kernel}\n")
    with pytest.raises(CourseError, match="does not do what the picture 'banks' shows; --solution"):
        kinds.draw(ask("25", own), KINDS["banks"])


def test_which_kind_is_drawn_without_a_name(monkeypatch):
    assert chosen_kind(ask("30"), "", False).name == "access"
    assert chosen_kind(ask("35"), "", False).name == "fragments"
    monkeypatch.setitem(KINDS, "tiles", replace(KINDS["tiles"], first=True))
    assert (
        chosen_kind(ask("30"), "", False).name == "tiles"
        and chosen_kind(ask("30", thread="1"), "", False).name == "access"
    )
    assert chosen_kind(ask("09", block="1"), "", False).name == "access"
    assert chosen_kind(ask("30"), "", True).name == "walk"
    with pytest.raises(CourseError, match="this picture does not move"):
        chosen_kind(ask("30"), "tiles", True)
    assert [k.name for k in kinds_of(COURSE.load("30"))] == [
        "walk",
        "access",
        "warp",
        "race",
        "heat",
        "tiles",
        "units",
    ]


def test_a_gif_has_a_frame_for_every_step(tmp_path):
    puzzle, target = COURSE.load("31"), tmp_path / "walk.gif"
    assert save_picture(puzzle, puzzle.solution_path, target) == "walk"
    assert target.stat().st_size < 500_000
    with Image.open(target) as image:
        assert image.n_frames == 2 and image.info["loop"] == 0
        frames = []
        for i in range(2):
            image.seek(i)
            frames.append(image.convert("RGB").tobytes())
    assert frames[0] != frames[1]
