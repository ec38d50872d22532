"""Makes the notebooks from `notebooks/source/`, runs them and keeps their outputs:
`python -m backwarp.maintain.notebooks [NAME...]`.

They run in a copy of the course, so that the student's files and progress are left alone.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from .. import SOURCES
from ..course import walkthrough
from ..course.cells import in_cell
from ..course.checkout import Course, open_course
from ..course.stubs import stub_text

FOLDERS = ("puzzles", "solutions", "reference", "notebooks")
SECONDS = 300  # for one cell
BRANCH = "main"
SETUP = """\
# Run this cell first, and again after a restart: it brings %%kernel, %predict and the others.
import importlib.util, pathlib, subprocess, sys

{clone}if importlib.util.find_spec("backwarp") is None:  # install the checkout this notebook is in
    if not pathlib.Path("../pyproject.toml").is_file():
        sys.exit("This notebook needs the package backwarp in its Python, or a checkout of the course around it.")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "-e", ".."], check=True)
    sys.path.append(str(pathlib.Path("../harness").resolve()))  # this process started without it
    importlib.invalidate_caches()
%load_ext backwarp.notebook"""
CLONE = """\
if not pathlib.Path("../puzzles").is_dir():  # opened alone, as Colab does
    import os

    if not pathlib.Path("course").is_dir():
        subprocess.run(["git", "clone", "-q", "--depth", "1", "{address}", "course"], check=True)
    os.chdir("course/notebooks")

"""
METADATA = {
    "kernelspec": {"display_name": "Backwarp", "language": "python", "name": "backwarp"},
    "language_info": {"name": "python"},
}


def address(root: Path) -> str:
    """Where the course is published, for the badges: `Repository` in the project's URLs; "" if unset."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project.get("urls", {}).get("Repository", "").removesuffix("/").removesuffix(".git")


def badges(where: str, name: str) -> str:
    """Links that open a notebook in Colab or Codespaces, if the repository is on GitHub."""
    path = where.removeprefix("https://github.com/")
    if path == where:
        return ""
    colab = f"https://colab.research.google.com/github/{path}/blob/{BRANCH}/notebooks/{name}.ipynb"
    return (
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab}) "
        f"[![Open in Codespaces](https://github.com/codespaces/badge.svg)](https://codespaces.new/{path})"
    )


def setup(where: str) -> str:
    """The first cell of code. where: see `address`."""
    return SETUP.format(clone=CLONE.format(address=where) if where else "")


def made(course: Course, source: Path, where: str = "") -> nbformat.NotebookNode:
    """A notebook without outputs. where: see `address`."""
    cells: list = []

    def add(cell, name: str) -> None:
        same = sum(re.sub(r"-\d+$", "", c["id"]) == name for c in cells)
        cell["id"] = f"{name}-{same + 1}"
        cells.append(cell)

    for block in walkthrough.blocks(source.read_text(encoding="utf-8")):
        for kind, text in cells_of(course, block, walkthrough.part_of(source)):
            after = ""
            if not cells:  # the first section belongs to the cells after the set-up
                text, heading, after = text.partition("\n\n## ")
                text, after = (
                    "\n\n".join(filter(None, (text, badges(where, source.stem)))),
                    heading[2:] + after,
                )
            new = new_markdown_cell if kind == "text" else new_code_cell
            add(new(text), f"p{block.puzzle}-{kind}" if block.puzzle else kind)
            if len(cells) == 1:
                add(new_code_cell(setup(where)), "setup")
            if after:
                add(new_markdown_cell(after), kind)
    add(new_markdown_cell(onward(course.root, source)), "next")
    return new_notebook(cells=cells, metadata=METADATA)


def cells_of(course: Course, block: walkthrough.Block, part: str) -> Iterator[tuple[str, str]]:
    """(kind, source) of the cells for a block. part: what the notebook's own predictions are called."""
    text = block.text
    if block.kind == "predict":
        asked_in = block.puzzle or part
        which = walkthrough.predictions(course.root, asked_in).index(walkthrough.prediction(text)) + 1
        yield "predict", f"my_guess = ...\n%predict {asked_in}{f' {which}' if which > 1 else ''}"
        return
    if not block.puzzle:
        if found := re.search(r"^\{puzzles (\d)\}$", text, re.MULTILINE):
            text = text.replace(found[0], table(course, int(found[1])))
        yield block.kind, text
        return
    puzzle, number = course.load(block.puzzle), block.puzzle
    folder = f"../puzzles/{puzzle.id}"
    if block.kind == "text":
        text = re.sub(r"\]\((\w+\.(?:png|gif))\)", rf"]({folder}/\1)", text)
        if block.opens:
            text = f"## {number} {puzzle.title}\n\n[The whole lesson]({folder}/README.md)\n\n{text}"
        yield "text", text
    elif block.kind == "explore":
        yield "explore", " ".join(f"%explore {number} --solution {text}".split())
    elif block.kind == "kernel":
        yield "kernel", f"%%kernel {number} --save\n{in_cell(puzzle, stub_text(puzzle)).rstrip()}"
        if not puzzle.program:
            yield "look", f"%step {number}\n%profile {number}"
    else:
        yield "cell", text


def table(course: Course, part: int) -> str:
    rows = [
        f"| [{p.number} {p.title}](../puzzles/{p.id}/README.md) | {p.teaches} |"
        for p in course.puzzles()
        if p.part == part
    ]
    return "\n".join(["| puzzle | what you learn |", "| --- | --- |", *rows])


def onward(root: Path, source: Path) -> str:
    names = [path.stem for path in walkthrough.sources(root)]
    later = names[names.index(source.stem) + 1 :]
    home = "`backwarp` in a terminal shows where you are; your files and your progress are the same there."
    return f"Next notebook: [{later[0]}]({later[0]}.ipynb). {home}" if later else home


def copy_course(root: Path, target: Path) -> None:
    """Copies what a notebook needs from a checkout, with untouched stubs."""
    for name in FOLDERS:
        shutil.copytree(
            root / name, target / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        )
    for puzzle in Course(target).puzzles():
        puzzle.stub_path.write_text(stub_text(puzzle), encoding="utf-8")


def executed(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """The notebook with outputs. folder: where it runs. Errors: nbclient's CellExecutionError."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])
    }
    client = NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=environment)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata = nbformat.from_dict(METADATA)
    return notebook


def main(names: list[str]) -> None:
    course = open_course()
    where = address(course.root)
    for source in walkthrough.sources(course.root):
        if names and source.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            copy_course(course.root, Path(folder))
            notebook = executed(made(course, source, where), Path(folder) / "notebooks")
        path = course.root / "notebooks" / f"{source.stem}.ipynb"
        nbformat.write(notebook, path)
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
