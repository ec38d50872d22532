"""Runs the notebooks and keeps their outputs: `python -m harness.maintain.notebooks [NAME...]`.

They run in a copy of the course, so that the student's files and progress are left alone.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from ..course.checkout import Course, open_course
from ..course.stubs import stub_text

FOLDERS = ("puzzles", "solutions", "reference", "notebooks")
SECONDS = 300  # for one cell
PACKAGE = Path(__file__).resolve().parents[2]


def copy_course(root: Path, target: Path) -> None:
    """What a notebook needs of a checkout, with the stubs as they were."""
    for name in FOLDERS:
        shutil.copytree(
            root / name, target / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        )
    for puzzle in Course(target).puzzles():
        puzzle.stub_path.write_text(stub_text(puzzle), encoding="utf-8")


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook with new outputs. folder: where it runs. Errors: nbclient's CellExecutionError."""
    notebook = nbformat.read(path, 4)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])
    }
    client = NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=environment)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def main(names: list[str]) -> None:
    root = open_course().root
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            copy_course(root, Path(folder))
            nbformat.write(executed(path, Path(folder) / "notebooks"), path)
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
