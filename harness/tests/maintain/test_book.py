"""The book: pages from lessons and notebooks, and the site that Sphinx makes of them."""

from __future__ import annotations

import html
import json
import re
import shutil
import sys

import pytest

from backwarp.course.checkout import Course, open_course
from backwarp.errors import CourseError
from backwarp.maintain import book_pages as pages
from backwarp.maintain.book import book
from backwarp.maintain.export import squeezed, telling_lines

WHOLE = open_course()
NUMBERS = {"07": "07_conv2d_forward.md", "09": "09_conv2d_backward_weights.md"}


# ---- pages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("In puzzle 07.", "In puzzle [07](a/07_conv2d_forward.md)."),
        (
            "lessons 07, 09 and 99",
            "lessons [07](a/07_conv2d_forward.md), [09](a/09_conv2d_backward_weights.md) and 99",
        ),
        (
            "`07_conv2d_forward` is `puzzle 07`",
            "[`07_conv2d_forward`](a/07_conv2d_forward.md) is `puzzle 07`",
        ),
        ("[puzzle 07](x) in 07, 2007", "[puzzle 07](x) in 07, 2007"),
        ("# Puzzle 07\n```\npuzzle 07\n```\n", "# Puzzle 07\n```\npuzzle 07\n```\n"),
    ],
)
def test_a_puzzle_that_prose_names_is_a_link(text, found):
    assert pages.linked(text, NUMBERS, "a/") == found


def test_code_gets_the_colours_of_its_language():
    text = "```\nC[m, n]\n```\nand\n```sh\nls;\n```\nand\n```\n1 2\n```\n"
    assert pages.in_colour(text) == ("```text\nC[m, n]\n```\nand\n```sh\nls;\n```\nand\n```text\n1 2\n```\n")
    assert pages.in_colour("```\nint i = 0;\n```") == "```cuda\nint i = 0;\n```"


def test_a_lesson_has_its_stub_and_links_of_the_book():
    puzzle = WHOLE.load("09")
    text = pages.lesson(puzzle, NUMBERS, moving=True)
    assert (
        "](09_conv2d_backward_weights/access.png)" in text
        and "](09_conv2d_backward_weights/moving.gif)" in text
    )
    assert "[07](07_conv2d_forward.md)" in text and "```cuda\n// Puzzle 09" in text
    assert "moving.gif" not in pages.lesson(puzzle, NUMBERS, moving=False)


def test_the_front_page_has_every_puzzle():
    text = pages.start(WHOLE, {"1 Part": ["lessons/01_vector_add"]})
    assert all(f"](lessons/{name}.md) | " in text for name in WHOLE.ids())
    assert ":caption: 1 Part\n\nlessons/01_vector_add\n```" in text and "](.github" not in text
    assert "backwarp doctor" in text and "pytest" not in text


def test_a_notebook_links_to_lessons():
    cells = [
        {
            "cell_type": "markdown",
            "source": ["![a](../puzzles/07_conv2d_forward/access.png) puzzle 09,\n", "```\nx;\n```"],
        },
        {"cell_type": "markdown", "source": "[it](../puzzles/07_conv2d_forward/README.md)"},
        {"cell_type": "markdown", "source": "[on](../puzzles/beyond/occupancy.md)"},
        {"cell_type": "code", "source": ["%hint 07"], "outputs": []},
    ]
    made = json.loads(pages.notebook(json.dumps({"cells": cells, "metadata": {}}), NUMBERS))
    picture, link, beyond, code = (cell["source"] for cell in made["cells"])
    assert picture.startswith("![a](../lessons/07_conv2d_forward/access.png) puzzle [09](../lessons/09_")
    assert picture.endswith("```cuda\nx;\n```") and link == "[it](../lessons/07_conv2d_forward.md)"
    assert beyond == "[on](../lessons/beyond/occupancy.md)"
    assert code == "%hint 07" and made["metadata"]["language_info"]["pygments_lexer"] == "course"


# ---- the site ----------------------------------------------------------------------------------------------


README = """\
# Backwarp

Products, from puzzle 02 on: see [all figures](.github/LADDER.md).

## The ladder

| part | puzzles |
| --- | --- |
| 1 | 02 |

![Bytes moved](.github/ladder.png) [Licence](LICENSE)
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Two lessons and a notebook with a cell that shows a line of a solution."""
    root = tmp_path_factory.mktemp("course")
    for name in ("02_matmul", "26_gemm_tiled"):
        for part in ("puzzles", "solutions"):
            shutil.copytree(WHOLE.root / part / name, root / part / name)
    shutil.copytree(WHOLE.root / ".github", root / ".github")
    shutil.copy(WHOLE.root / "LICENSE", root)
    (root / "README.md").write_text(README)
    given = {"cell_type": "code", "metadata": {}, "execution_count": 1, "outputs": []}
    shown = {
        "output_type": "stream",
        "name": "stdout",
        "text": ["  sum += A[row * K + k] * B[k * N + col];\n"],
    }
    cells = [
        {
            "cell_type": "markdown",
            "metadata": {},
            "source": "# Products\n\nSee puzzle 26.\n\n$$\nC = \\sum_k A_k\n$$\n",
        },
        {**given, "source": "%%kernel 02\n__global__ void k() {}"},
        {**given, "source": "1 + 1", "outputs": [shown, {**shown, "text": ["two\n"]}]},
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    beyond = root / "puzzles" / "beyond"
    beyond.mkdir()
    (beyond / "README.md").write_text(
        "# Beyond\n\nAfter [02](../02_matmul/README.md): [more](more.md), [file](a.cu).\n"
    )
    (beyond / "more.md").write_text("# More\n\nBack to [the list](README.md) and puzzle 26.\n")
    (beyond / "a.cu").write_text("__global__ void a() {}\n")
    (root / "notebooks").mkdir()
    (root / "notebooks" / "01_products.ipynb").write_text(json.dumps(notebook))
    return Course(root)


@pytest.fixture(scope="module")
def site(small, tmp_path_factory):
    pytest.importorskip("furo", reason="the extra `book` is not installed")
    target, told = tmp_path_factory.mktemp("site") / "book", []
    assert book(small, target, True, told.append) == []
    assert told[:2] == ["drawing 02_matmul", "drawing 26_gemm_tiled"]
    return target


def pages_of(site):
    return {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


def test_every_link_of_the_site_leads_somewhere(site):
    checked = 0
    for path, text in pages_of(site).items():
        for link in re.findall(r'(?:href|src)="([^"#]+)[^"]*"', text):
            if not re.match(r"[a-z]+:|//", link):
                assert (path.parent / html.unescape(link).partition("?")[0]).exists(), (path, link)
                checked += 1
    assert checked > 100


def test_what_the_pages_show(site, small):
    lesson = (site / "lessons" / "26_gemm_tiled.html").read_text()
    assert 'href="02_matmul.html"' in lesson and "highlight-cuda" in lesson
    assert "moving.gif" in (site / "lessons" / "02_matmul.html").read_text()
    beyond = (site / "lessons" / "beyond" / "README.html").read_text()
    assert 'href="../02_matmul.html"' in beyond and 'href="more.html"' in beyond and "a.cu" in beyond
    assert 'href="../26_gemm_tiled.html"' in (site / "lessons" / "beyond" / "more.html").read_text()
    notebook = (site / "notebooks" / "01_products.html").read_text()
    assert 'href="../lessons/26_gemm_tiled.html"' in notebook and "two\n" in notebook
    assert re.search(r'<span class="kt">void</span>', notebook)
    assert re.search(r'<math [^>]*display="block"', notebook) and "$$" not in notebook
    assert 'body[data-theme="dark"] .content img' in (site / "_static" / "course.css").read_text()
    assert "threadidx" in (site / "searchindex.js").read_text().lower()
    for text in pages_of(site).values():
        plain = squeezed(html.unescape(re.sub(r"<[^>]*>", "", text)))
        assert not [line for p in small.puzzles() for line in telling_lines(p) if line in plain]


def test_nothing_is_fetched(site):
    for text in pages_of(site).values():
        assert not re.search(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//', text)


def test_a_book_is_renewed_in_its_place(site, small):
    (site / "CNAME").write_text("mine")
    (site / "index.html").write_text("old")
    assert book(small, site, False, lambda _: None) == []
    assert (site / "CNAME").read_text() == "mine" and "Backwarp" in (site / "index.html").read_text()


def test_a_folder_that_is_no_book_is_left_alone(small, tmp_path):
    (tmp_path / "file").write_text("mine")
    for target in (tmp_path, tmp_path / "file"):
        with pytest.raises(CourseError, match="is not a book that could be replaced"):
            book(small, target, False, lambda _: None)
    with pytest.raises(CourseError, match="there is no folder"):
        book(small, tmp_path / "absent" / "book", False, lambda _: None)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_without_the_extra_one_sentence_says_so(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "furo", None)
    with pytest.raises(
        CourseError, match=r"^the book needs furo, which is not installed: pip install -e '\.\[book\]'$"
    ):
        book(small, tmp_path / "book", False, lambda _: None)
    assert not list(tmp_path.iterdir())
