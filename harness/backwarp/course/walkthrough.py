"""The texts of the notebooks, `notebooks/source/NAME.md`.

They are Markdown. A heading that is only a puzzle's number opens the puzzle, and fences of these kinds become
cells:

    cell      code of the notebook itself
    predict   a question whose answer is counted: `answer: EXPRESSION`, `case: NAME`, `kernel: NAME`, `why: TEXT`
    explore   the sliders over a run of the course's kernel; its text are further options, such as --case NAME
    kernel    the cell that the reader fills in, and the pictures and counters of what they wrote

The answer to a prediction stays in this file: the notebook has only the question. One outside of a puzzle has a number as
its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import CourseError

FENCES = ("cell", "predict", "explore", "kernel")
_FENCE = re.compile(rf"^```({'|'.join(FENCES)})\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
_PUZZLE = re.compile(r"^## (\d\d)$\n?", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """kind: "text" or one of FENCES. puzzle: the number of the puzzle it belongs to, or ""."""

    kind: str
    puzzle: str
    text: str
    opens: bool = False  # the first block of its puzzle


@dataclass(frozen=True)
class Prediction:
    """answer: an expression, evaluated on a run of the course's kernel, see report/predictions.py."""

    answer: str
    why: str = ""
    case: str = ""
    kernel: str = ""


def sources(root: Path) -> list[Path]:
    return sorted((root / "notebooks" / "source").glob("*.md"))


def blocks(text: str) -> Iterator[Block]:
    """A notebook's text, block by block."""
    numbers = _PUZZLE.split(text)  # text, number, text, number, ...
    for number, part in zip(["", *numbers[1::2]], numbers[::2], strict=True):
        # a heading that is not a puzzle's ends the puzzle
        own, _, after = part.partition("\n## ") if number else ("", "", part)
        opens = bool(number)
        for puzzle, piece in ((number, own), ("", f"## {after}" if number and after else after)):
            at = 0
            for found in _FENCE.finditer(piece):
                if prose := piece[at : found.start()].strip():
                    yield Block("text", puzzle, prose, opens)
                    opens = False
                yield Block(found[1], puzzle, found[2].strip())
                at = found.end()
            if prose := piece[at:].strip():
                yield Block("text", puzzle, prose, opens)
            opens = False


def prediction(text: str) -> Prediction:
    """Errors: CourseError."""
    try:
        fields = [line.split(":", 1) for line in re.sub(r"\n\s+", " ", text).splitlines()]
        return Prediction(**{name.strip(): value.strip() for name, value in fields})
    except (TypeError, ValueError) as error:
        raise CourseError(f"a prediction is malformed ({error}): {text}") from None


def part_of(path: Path) -> str:
    """What `%predict` calls the predictions of a notebook that belong to no puzzle: `part6`."""
    return f"part{int(path.stem[:2])}"


def predictions(root: Path, asked_in: str) -> list[Prediction]:
    """The predictions of a puzzle, by its number, or of the rest of a notebook, in order."""
    return [
        prediction(block.text)
        for path in sources(root)
        for block in blocks(path.read_text(encoding="utf-8"))
        if block.kind == "predict" and (block.puzzle or part_of(path)) == asked_in
    ]


def kept_run(line: str) -> str:
    """The file in a student's course with the output of `%explore ID --solution ...`; `line` is `ID ...`."""
    words = [word for word in line.split() if word != "--solution"]
    return f"notebooks/runs/{'_'.join(words).replace('--', '')}.html"
