"""`backwarp export --student DIR`: the course without its answers.

Solutions, mistakes (which are edits of solutions), hidden cases, tests and material for teachers are left
out; the stubs, normally derived from the solutions, are included. Nothing is written before every file has
been searched for lines of solutions.
"""

from __future__ import annotations

import html
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath

from ..course import walkthrough
from ..course.checkout import Course
from ..course.declare import PRISTINE, Puzzle
from ..course.stubs import solution_lines, stub_text
from ..errors import CourseError, NoSolution
from ..report.predictions import answer
from .declarations import for_students

GOES_ALONG = ("puzzles", "reference", "harness", "notebooks", ".github", ".devcontainer", ".gitignore")
GOES_ALONG += (".vscode", "LICENSE", "README.md", "pyproject.toml")
STAYS = (
    "harness/tests",
    ".github/workflows",
    ".github/actions",
    ".github/CONTRIBUTING.md",
    ".github/TEACHING.md",
)
STAYS += (".github/verdict.svg",)  # it shows wrong kernels, which reveal much of the right one
STATE = (
    "__pycache__",
    ".backwarp",
    ".ipynb_checkpoints",
    "*.bak-*",
    "cases.toml",
    "*.egg-info",
    "*.pyc",
    ".stubs",
)
LEAST_TELLING = 24  # characters without spaces: a shorter line reveals nothing
LEAST_OWN = 12  # within the puzzle's own folder
WITHIN = re.compile(r"(?<=\W)\w+(?=\W)")  # words of a line that stay whole words in any context

Files = Mapping[str, bytes]  # by path in the course


def export(course: Course, target: Path) -> int:
    """Creates the folder; returns the number of files. Errors: CourseError."""
    if not course.has_solutions:
        raise NoSolution(f"{course.root} has no solutions: it is a course for students already")
    if os.path.lexists(target):
        raise CourseError(f"{target} exists already: name a folder that does not")
    parent = target.absolute().parent
    if not parent.is_dir():
        raise CourseError(f"{target} cannot be made: there is no folder {parent}")
    files = exported(course)
    if found := next(revealed(course, files), ""):
        raise CourseError(f"{found}: move or change it, and export again")
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix=f".{target.name}.") as folder:
            course_folder = Path(folder, "course")
            for name, data in files.items():
                path = course_folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            os.rename(course_folder, target)
    except OSError as error:
        raise CourseError(f"{target} cannot be made: {error.strerror or error}") from None
    return len(files)


def exported(course: Course) -> Files:
    """Every file of the students' course. Errors: CourseError."""
    files = {name: (course.root / name).read_bytes() for name in files_of(course.root)}
    files["README.md"] = of_students(files["README.md"].decode()).encode()
    for puzzle in course.puzzles():
        folder = f"puzzles/{puzzle.id}"
        lesson = files[f"{folder}/README.md"].decode()
        files[f"{folder}/README.md"] = of_students(lesson).replace(" --solution", "").encode()
        text = files[f"{folder}/puzzle.py"].decode()
        files[f"{folder}/puzzle.py"] = for_students(text, f"{folder}/puzzle.py").encode()
        stub = stub_text(puzzle).encode()
        files[f"{folder}/{puzzle.file}"] = stub
        files[(PRISTINE / puzzle.id / puzzle.file).as_posix()] = stub
    telling = telling_anywhere(course)
    for name in [name for name in files if name.startswith("notebooks/")]:
        if name.endswith(".md"):
            files[name] = answered(course, files[name].decode()).encode()
        if name.endswith(".ipynb"):
            files[name] = unrevealing(files[name], telling)
            files |= dict(kept_runs(files[name]))
    return files


def files_of(root: Path, tops: Sequence[str] = GOES_ALONG, stays: Sequence[str] = STAYS) -> Iterator[str]:
    """The names of the files to include, unchanged or edited."""
    for top in tops:
        found = [root / top] if (root / top).is_file() else sorted((root / top).rglob("*"))
        for path in found:
            name = path.relative_to(root)
            if path.is_dir() and path.is_symlink():
                raise CourseError(f"{name} is a link to a folder: put the folder itself there")
            state = any(fnmatch(part, pattern) for part in name.parts for pattern in STATE)
            if path.is_file() and not state and not any(PurePosixPath(name).is_relative_to(s) for s in stays):
                yield name.as_posix()


def of_students(readme: str) -> str:
    """The README, or a lesson, without the text between `<!-- TEACHER -->` and `<!-- END TEACHER -->`, with
    the text of its comments `<!-- STUDENT ... -->`, and without the table rows about what is left out."""
    readme = re.sub(
        r"^\| `(?:solutions/|backwarp (?:solution|check|export --student)\b).*\n",
        "",
        readme,
        flags=re.MULTILINE,
    )
    readme = re.sub(r" *<!-- TEACHER -->\n.*?<!-- END TEACHER -->\n", "", readme, flags=re.DOTALL)
    return re.sub(r" *<!-- STUDENT\n(.*?) *-->\n", r"\1", readme, flags=re.DOTALL)


# ---- what runs of solutions have shown -------------------------------------------------------------------


def answered(course: Course, text: str) -> str:
    """The text of a notebook, with the answers to its predictions filled in."""
    for block in walkthrough.blocks(text):
        if block.kind == "predict":
            asked = walkthrough.prediction(block.text)
            puzzle = course.load(block.puzzle) if block.puzzle else None
            fields = replace(asked, answer=repr(answer(puzzle, asked)))
            written = "\n".join(f"{name}: {value}" for name, value in asdict(fields).items() if value)
            text = text.replace(block.text, written)
    return text


def kept_runs(notebook: bytes) -> Iterator[tuple[str, bytes]]:
    """(file, page) for each run that it shows; see walkthrough.kept_run."""
    for cell in json.loads(notebook)["cells"]:
        line = re.fullmatch(r"%explore (.* --solution\b.*)", "".join(cell["source"]).strip())
        pages = [o["data"]["text/html"] for o in cell.get("outputs", ()) if "text/html" in o.get("data", {})]
        if line and pages:
            yield walkthrough.kept_run(line[1]), texts_of(pages[0]).encode()


# ---- lines of solutions ----------------------------------------------------------------------------------


def squeezed(text: str) -> str:
    return "".join(text.split())


def telling_lines(puzzle: Puzzle, least: int = LEAST_TELLING) -> list[str]:
    """Lines of the solution, without spaces and comments, that nobody would write without knowing it.

    A call of the interface that the lesson describes is in every table of LeNet's layers.
    """
    lines = [squeezed(re.split("//|#", line)[0]) for line in solution_lines(puzzle)]
    lines = [
        line for line in lines if re.search(r"[\[(]", line) and not re.fullmatch(r"net\.\w+\([^()]*\)", line)
    ]
    return [line for line in lines if len(line) >= least]


def telling_anywhere(course: Course) -> list[str]:
    """The telling lines of all puzzles, except those in a stub, which may continue an earlier kernel."""
    given = "\n".join(squeezed(stub_text(puzzle)) for puzzle in course.puzzles())
    return [line for puzzle in course.puzzles() for line in telling_lines(puzzle) if line not in given]


def words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


@cache
def words_within(line: str) -> frozenset[str]:
    return frozenset(WITHIN.findall(line))


def has(text: str, words: set[str], line: str) -> bool:
    """Whether a text, which has these words, has the line: few texts have all of its words; only those are searched."""
    return words_within(line) <= words and line in text


def unrevealing(notebook: bytes, telling: list[str]) -> bytes:
    """A notebook without the cells and outputs that contain one of these lines."""

    def reveals(part: object) -> bool:
        plain = texts_of(part)
        texts = {text: words_of(text) for text in map(squeezed, (plain, untagged(plain)))}
        return any(has(text, words, line) for text, words in texts.items() for line in telling)

    content = json.loads(notebook)
    content["cells"] = [cell for cell in content["cells"] if not reveals(cell["source"])]
    for cell in content["cells"]:
        if "outputs" in cell:
            cell["outputs"] = [output for output in cell["outputs"] if not reveals(output)]
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def texts_of(part: object) -> str:
    """All texts of a part of a notebook, where a text is a string or a list of its lines."""
    if isinstance(part, dict):
        return "\n".join(map(texts_of, part.values()))
    return "".join(map(texts_of, part)) if isinstance(part, list) else str(part)


def untagged(page: str) -> str:
    return html.unescape(re.sub(r"<[^<>]*>", "", page))


def revealed(course: Course, files: Files) -> Iterator[str]:
    """The lines of solutions that these files contain.

    The code that checks a Python puzzle may contain the same lines as its solution.
    """
    texts = {name: squeezed(data.decode("utf-8", "replace")) for name, data in files.items()}
    words = {name: words_of(text) for name, text in texts.items()}
    anywhere = set(telling_anywhere(course))
    for puzzle in course.puzzles():
        own = (f"puzzles/{puzzle.id}/", f"{PRISTINE.as_posix()}/{puzzle.id}/")
        here = {name: text for name, text in texts.items() if name.startswith(own)}
        for line in telling_lines(puzzle, LEAST_OWN):
            for name, text in (texts if line in anywhere and not puzzle.program else here).items():
                if has(text, words[name], line):
                    yield f"{name} has a line of the solution of {puzzle.id} ({line})"
