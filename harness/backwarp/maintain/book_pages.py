"""The pages of the book, as Markdown and notebooks: lessons with their stubs, the start page, links between them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ..course.checkout import Course
from ..course.declare import PARTS, Puzzle
from ..course.stubs import stub_text
from .export import of_students

_NOT_PROSE = re.compile(
    r"(^(`{3,}|~{3,}).*?^\2[ \t]*$|`[^`\n]*`|!?\[[^\]]*\]\([^)]*\)|^#.*?$|<[^>]*>)", re.M | re.S
)
_MENTION = re.compile(r"\b(?:[Pp]uzzles?|[Ll]essons?) \d\d(?:(?:,| and|, and| or|, or| to) \d\d)*\b")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_C = re.compile(r"__\w+__|^\s*#(?:include|define)|;[ \t]*(?://.*)?$|^\w+\((?:const )?(?:float|int)\b", re.M)


def page_of(puzzle: Puzzle) -> str:
    """The path of a lesson's page, without suffix."""
    return f"lessons/{puzzle.id}"


# ---- lessons ---------------------------------------------------------------------------------------------


def lesson(puzzle: Puzzle, pages: dict[str, str], moving: bool) -> str:
    """The lesson's text with links to other lessons, its stub, and a moving picture. pages: see `linked`."""
    text = puzzle.lesson_path.read_text(encoding="utf-8")
    text = re.sub(r"\]\(\.\./(\d\d_\w+)/(?:README\.md)?(#[^)]*)?\)", r"](\1.md\2)", text)
    text = re.sub(r"\]\((?![a-z]+:|#|\d\d_\w+\.md)([^)]+)\)", rf"]({puzzle.id}/\1)", text)
    others = {number: page for number, page in pages.items() if number != puzzle.number}
    parts = [in_colour(linked(text, others, "")).rstrip()]
    if moving:
        parts += [
            "## In motion",
            "A run of the course's own kernel, step by step; lines are those of that kernel.",
            f"![What a run touches, step by step]({puzzle.id}/moving.gif)",
        ]
    language = "python" if puzzle.program else "cuda"
    parts += [
        "## Your file",
        f"`puzzles/{puzzle.id}/{puzzle.file}`, about {puzzle.lines} lines to write; `backwarp grade {puzzle.number}` "
        f"grades it, and each `backwarp hint {puzzle.number}` gives one more hint.",
        f"```{language}\n{stub_text(puzzle).rstrip()}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def linked(text: str, pages: dict[str, str], folder: str) -> str:
    """Adds a link wherever the prose says `puzzle 07` or `puzzles 07 and 09`, or has a puzzle's name as code.

    pages: number -> file in `folder`, whose name is the puzzle's.
    """

    def number(found: re.Match) -> str:
        page = pages.get(found[0])
        return f"[{found[0]}]({folder}{page})" if page else found[0]

    def name(code: str) -> str:
        page = pages.get(code[1:3])
        return f"[{code}]({folder}{page})" if page == f"{code[1:-1]}.md" else code

    parts = _NOT_PROSE.split(text)
    prose, others = parts[::3], [*map(name, parts[1::3]), ""]  # parts[2::3] are the fence markers
    prose = [_MENTION.sub(lambda found: re.sub(r"\d\d", number, found[0]), part) for part in prose]
    return "".join(part for both in zip(prose, others, strict=True) for part in both)


def in_colour(text: str) -> str:
    """Adds a language to code blocks that have none."""
    return _FENCE.sub(lambda f: f"```{f[1] or ('cuda' if _C.search(f[2]) else 'text')}\n{f[2]}```", text)


# ---- other pages -----------------------------------------------------------------------------------------


def start(course: Course, chapters: dict[str, list[str]]) -> str:
    """The students' README as the front page, with a table of all puzzles, and the contents of the sidebar.

    chapters: heading -> pages.
    """
    text = of_students((course.root / "README.md").read_text(encoding="utf-8"))
    text = text.replace("](.github/", "](about/").replace("](LICENSE)", "](about/LICENSE)")
    text = text.replace("The puzzles in bold are available. ", "")  # all of the table that takes its place
    text = re.sub(r"(?<=\n## The ladder\n\n)\|.*?\n\n", lambda _: f"{ladder(course)}\n\n", text, flags=re.S)
    text = re.sub(r"\]\(puzzles/([^)]+)\)", r"](lessons/\1)", text)
    text = linked(text, {p.number: f"{p.id}.md" for p in course.puzzles()}, "lessons/")
    return "\n\n".join([in_colour(text).rstrip(), *contents(chapters)]) + "\n"


def ladder(course: Course) -> str:
    rows = ["| puzzle | what you learn |", "| --- | --- |"]
    for part, puzzles in parts_of(course).items():
        rows.append(f"| **{part}** | |")
        rows += [f"| [{p.number} {p.title}]({page_of(p)}.md) | {p.teaches} |" for p in puzzles]
    return "\n".join(rows)


def parts_of(course: Course) -> dict[str, list[Puzzle]]:
    found: dict[str, list[Puzzle]] = {}
    for puzzle in course.puzzles():
        found.setdefault(f"{puzzle.part} {PARTS.get(puzzle.part, '')}".strip(), []).append(puzzle)
    return found


def contents(chapters: dict[str, list[str]]) -> Iterator[str]:
    for heading, pages in chapters.items():
        yield "\n".join(["```{toctree}", ":hidden:", f":caption: {heading}", "", *pages, "```"])


def with_formulas(text: str) -> str:
    """Formulas between lines of $$ become MathML, which browsers show without a script."""
    block = '<math display="block"'

    def formula(found: re.Match) -> str:
        from docutils.utils.math.latex2mathml import tex2mathml  # comes with Sphinx

        return f'<div class="math">\n{tex2mathml(found[1].strip()).replace("<math", block, 1)}\n</div>'

    return re.sub(r"^\$\$\n(.*?)^\$\$$", formula, text, flags=re.M | re.S)


def notebook(text: str | bytes, pages: dict[str, str]) -> str:
    """A notebook with links to lessons, and CUDA cells highlighted."""
    content = json.loads(text)
    for cell in content["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            source = re.sub(r"\]\(\.\./puzzles/(\d\d_\w+)/(?:README\.md)?\)", r"](../lessons/\1.md)", source)
            source = re.sub(r"\]\(\.\./puzzles/(\w+)/([^)]+)\)", r"](../lessons/\1/\2)", source)
            source = source.replace("](../.github/", "](../about/")
            source = with_formulas(in_colour(linked(source, pages, "../lessons/")))
        cell["source"] = source
    content["metadata"]["language_info"] = {"name": "python", "pygments_lexer": "course"}
    return json.dumps(content)
