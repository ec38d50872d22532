"""Writes what a class gets: tables, pages and texts. Each file is replaced whole, so that whoever reads it finds one version."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from ..course.checkout import Course
from ..course.reset import write_whole
from ..errors import CourseError
from . import gradebook, pages
from .alike import Pair
from .gradebook import Gradebook, safe
from .statistics import statistics


def folder(target: Path) -> Path:
    """The output's folder. Errors: CourseError."""
    try:
        (target / "people").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CourseError(f"{target} cannot be made: {error.strerror}") from None
    return target


def put(path: Path, text: str) -> None:
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise CourseError(f"{path} cannot be written: {error.strerror}") from None


def overview(
    book: Gradebook, course: Course, target: Path, done: int = 0, of: int = 0, pairs: Sequence[Pair] = ()
) -> None:
    put(target / "index.html", pages.overview(book, statistics(book, course), done, of, pairs))


def everything(book: Gradebook, course: Course, target: Path, pairs: Sequence[Pair] = ()) -> None:
    put(target / "gradebook.csv", gradebook.as_csv(book))
    put(target / "gradebook.json", json.dumps(gradebook.as_json(book), indent=1, ensure_ascii=False) + "\n")
    put(target / "statistics.json", json.dumps(statistics(book, course), indent=1, ensure_ascii=False) + "\n")
    left = io.StringIO()
    table = csv.writer(left, lineterminator="\n")
    table.writerow(["person", "file", "why"])
    table.writerows([safe(f.person), safe(f.name), f.why] for f in book.left)
    put(target / "not_graded.csv", left.getvalue())
    for person in book.people:
        name = pages.file_name(person)
        put(target / "people" / f"{name}.html", pages.page_of(book, course, person))
        put(target / "people" / f"{name}.txt", pages.text_of(book, person))
    if pairs:
        put(target / "alike.html", pages.pairs_page(pairs))
    overview(book, course, target, pairs=pairs)
