"""`backwarp book [DIR]`: lessons, pictures, animations and notebooks as a static site with search, by Sphinx.

Nothing is fetched from the network. Solutions and hints are not in it.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from .. import install
from ..course.checkout import Course
from ..course.declare import Puzzle
from ..errors import BackwarpError, CourseError
from . import book_pages as pages
from .export import telling_anywhere, unrevealing

MARK = ".buildinfo"  # Sphinx leaves it in its output
STYLE = "course.css"
_DARK = "filter: invert(0.93) hue-rotate(180deg);"
#: lines of 100 columns fit; what is drawn for a white page becomes dark with the page, its hues stay
RULES = f"""
.content {{ width: 54em; max-width: 100vw; }}
.highlight pre, .literal-block-wrapper pre {{ font-size: 0.8em; }}
.cell_output {{ overflow-x: auto; padding: 0.3em 0.5em; }}
.math {{ overflow-x: auto; margin: 1em 0; }}
body[data-theme="dark"] .content img, body[data-theme="dark"] .backwarp-drawn {{ {_DARK} }}
@media (prefers-color-scheme: dark) {{
  body[data-theme="auto"] .content img, body[data-theme="auto"] .backwarp-drawn {{ {_DARK} }}
}}
"""
CONFIG = {
    "project": "Backwarp",
    "extensions": ["myst_nb"],
    "html_theme": "furo",
    "html_title": "Backwarp",
    "html_show_sourcelink": False,
    "html_copy_source": False,
    "html_css_files": [STYLE],
    "html_show_copyright": False,
    "nb_execution_mode": "off",
    "nb_merge_streams": True,
    "nb_ipywidgets_js": {},
    "nb_mime_priority_overrides": [("html", "image/gif", 15)],
    "highlight_language": "text",
    "pygments_style": "friendly",
    "suppress_warnings": ["myst.header"],
}


def book(course: Course, target: Path, animations: bool, tell: Callable[[str], None]) -> list[str]:
    """Builds or replaces the site; returns Sphinx's warnings. Errors: CourseError."""
    if target.is_file() or target.is_dir() and any(target.iterdir()) and not (target / MARK).is_file():
        raise CourseError(f"{target} is not a book that could be replaced: name a new folder")
    if not target.absolute().parent.is_dir():
        raise CourseError(f"{target} cannot be made: there is no folder {target.absolute().parent}")
    sphinx, apart = the_library()
    with apart(), tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        write_pages(course, source, animations, tell)
        tell("writing pages")
        warnings = io.StringIO()
        try:
            app = sphinx(
                source, None, target, Path(folder, "doctrees"), "html", CONFIG, None, warnings, freshenv=True
            )
            app.add_lexer("course", lexer())
            app.build()
            (target / "_static" / STYLE).write_text(RULES, encoding="utf-8")
            (target / ".nojekyll").touch()  # GitHub Pages leaves out _static otherwise
        except OSError as error:
            raise CourseError(f"{target} cannot be made: {error.strerror or error}") from None
        found = re.sub(r"\x1b\[[\d;]*m", "", warnings.getvalue()).replace(f"{source}/", "")
        return [line for line in found.splitlines() if line.strip()]


def the_library() -> tuple[type, Callable]:
    """(Sphinx, a context that undoes its side effects). Errors: CourseError if the extra is not installed."""
    try:
        import furo  # noqa: F401
        import myst_nb  # noqa: F401
        from sphinx.application import Sphinx
        from sphinx.util.docutils import docutils_namespace
    except ImportError as error:
        raise CourseError(
            f"the book needs {error.name or 'Sphinx'}, which is not installed: {install('book')}"
        ) from None
    return Sphinx, docutils_namespace


def lexer() -> type:
    """A lexer for notebook cells: IPython, and CUDA or Python below a cell magic."""
    from IPython.lib.lexers import IPython3Lexer
    from pygments.lexer import Lexer
    from pygments.lexers import CudaLexer, PythonLexer
    from pygments.token import Comment

    class Cell(Lexer):
        name = "Course"

        def get_tokens_unprocessed(self, text):
            first, newline, rest = text.partition("\n")
            if not first.startswith("%%"):
                yield from IPython3Lexer().get_tokens_unprocessed(text)
                return
            yield 0, Comment.Preproc, first + newline
            language = CudaLexer if "__global__" in rest else PythonLexer
            for index, token, part in language().get_tokens_unprocessed(rest):
                yield index + len(first) + 1, token, part

    return Cell


# ---- what Sphinx reads -----------------------------------------------------------------------------------


def write_pages(course: Course, source: Path, animations: bool, tell: Callable[[str], None]) -> None:
    """The lessons in lessons/, the notebooks in notebooks/, the README's pictures in about/."""
    lessons, notebooks = source / "lessons", source / "notebooks"
    for folder in (lessons, notebooks, source / "about"):
        folder.mkdir(parents=True)
    puzzles = course.puzzles()
    numbers = {p.number: f"{p.id}.md" for p in puzzles}
    for puzzle in puzzles:
        folder = lessons / puzzle.id
        folder.mkdir()
        for picture in pictures_in(puzzle.folder):
            shutil.copy(picture, folder)
        moves = animations and puzzle.has_solution and animate(puzzle, folder / "moving.gif", tell)
        (lessons / f"{puzzle.id}.md").write_text(pages.lesson(puzzle, numbers, moves), encoding="utf-8")
    chapters = {part: [pages.page_of(p) for p in found] for part, found in pages.parts_of(course).items()}
    for folder in (path.parent for path in sorted((course.root / "puzzles").glob("*/README.md"))):
        if not (folder / "puzzle.py").is_file():
            title, found = write_lessons(folder, lessons / folder.name, numbers)
            part = next((part for part in chapters if title in part), title)
            chapters.setdefault(part, []).extend(found)
    telling = telling_anywhere(course) if course.has_solutions else []
    for path in sorted((course.root / "notebooks").glob("*.ipynb")):
        text = pages.notebook(unrevealing(path.read_bytes(), telling), numbers)
        (notebooks / path.name).write_text(text, encoding="utf-8")
        chapters.setdefault("Notebooks", []).append(f"notebooks/{path.stem}")
    about = course.root / ".github"
    for picture in pictures_in(about):
        shutil.copy(picture, source / "about")
    shutil.copy(course.root / "LICENSE", source / "about")
    if (about / "LADDER.md").is_file():
        text = pages.linked((about / "LADDER.md").read_text(encoding="utf-8"), numbers, "../lessons/")
        (source / "about" / "LADDER.md").write_text(text, encoding="utf-8")
        chapters["Figures"] = ["about/LADDER"]
    (source / "index.md").write_text(pages.start(course, chapters), encoding="utf-8")


def write_lessons(folder: Path, target: Path, numbers: dict[str, str]) -> tuple[str, list[str]]:
    """(title, pages) of the lessons without a puzzle; also copies the files they link to."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("__pycache__", ".*", "*.bak-*"))
    for page in target.glob("*.md"):
        text = re.sub(
            r"\]\(\.\./(\d\d_\w+)/(?:README\.md)?\)", r"](../\1.md)", page.read_text(encoding="utf-8")
        )
        page.write_text(pages.in_colour(pages.linked(text, numbers, "../")), encoding="utf-8")
    first = (target / "README.md").read_text(encoding="utf-8")
    listed = [name for name in re.findall(r"\]\((\w+)\.md\)", first) if (target / f"{name}.md").is_file()]
    others = sorted(page.stem for page in target.glob("*.md"))
    names = dict.fromkeys(["README", *listed, *others])
    return first.partition("\n")[0].lstrip("# "), [f"lessons/{folder.name}/{name}" for name in names]


def pictures_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*")) if path.suffix in (".png", ".svg", ".gif")]


def animate(puzzle: Puzzle, target: Path, tell: Callable[[str], None]) -> bool:
    """Draws what a warp or a block of the solution does, if it takes more than one step."""
    from PIL import Image

    from ..report.pictures.kinds import save_picture

    if puzzle.program:
        return False
    tell(f"drawing {puzzle.id}")
    try:
        save_picture(puzzle, puzzle.solution_path, target)
    except BackwarpError:
        return False
    with Image.open(target) as picture:
        return picture.n_frames > 1
