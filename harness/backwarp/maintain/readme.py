"""Draws the README's pictures, all from real runs: `python -m backwarp.maintain.readme`.

To add one, add a line to PICTURES: its path, and a function of the course that returns a Console whose record
is saved, or the figures of a picture (several: the frames of a GIF).
"""

from __future__ import annotations

import html
import re
import tempfile
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console
from rich.text import Text

from ..course.checkout import Course, open_course
from ..grading.grade import Options, grade_file
from ..report.html import recorder
from ..report.pictures.kinds import KINDS, Ask, described, draw, save
from ..report.text import verdict_lines

MISTAKES = ("one row too far", "loop over the batch stops after image 0")
WIDTH = 104


def verdicts(course: Course) -> Console:
    """The terminal's output for two wrong kernels of puzzle 09."""
    puzzle, console = course.load("09"), recorder(WIDTH)
    for name in MISTAKES:
        mistake = next(m for m in puzzle.mistakes if m.name == name)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernel.cu")
            path.write_text(mistake.apply(puzzle.solution_path.read_text(encoding="utf-8")), encoding="utf-8")
            verdict = grade_file(puzzle, path, Options(device="cpu"))
            verdict.look = verdict.look.replace(f" --file {path}", "")  # as of the student's own file
        console.print(Text.assemble(("$ ", "bold green"), ("backwarp grade 09", "bold")))
        for line in verdict_lines(verdict, WIDTH):
            console.print(Text.assemble(*line))
        console.print()
    return console


def of_solution(course: Course, number: str, kind: str, moving: bool = False) -> list[Figure]:
    puzzle = course.load(number)
    ask = Ask(puzzle, puzzle.solution_path, puzzle.kernels[0], puzzle.cases[0])
    return draw(ask, KINDS[kind], moving)


PICTURES = {
    ".github/verdict.svg": verdicts,
    "puzzles/30_implicit_gemm_forward/walk.gif": lambda course: of_solution(
        course, "30", "walk", moving=True
    ),
    "puzzles/09_conv2d_backward_weights/access.png": lambda course: of_solution(course, "09", "access"),
}


def write(drawn: Console | list[Figure], target: Path) -> None:
    if isinstance(drawn, Console):
        drawn.save_svg(str(target), title="backwarp", clear=False)
    else:
        save(drawn, target)


def content(drawn: Console | list[Figure]) -> str:
    """A picture's contents, independent of the library version that drew it."""
    if isinstance(drawn, Console):
        return " ".join(drawn.export_text(clear=False).split())
    return described(drawn)


def content_of_file(path: Path) -> str:
    """`content` of the picture a file was saved from. Errors: OSError, KeyError if the file does not say."""
    if path.suffix == ".svg":
        # the first text is the window's title
        texts = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))[1:]
        return " ".join("".join(map(html.unescape, texts)).split())
    from PIL import Image

    with Image.open(path) as image:
        if path.suffix == ".gif":
            return image.info["comment"].decode()
        return image.info["Description"]


def main() -> None:
    course = open_course()
    for name, function in PICTURES.items():
        write(function(course), course.root / name)
        print(name)


if __name__ == "__main__":
    main()
