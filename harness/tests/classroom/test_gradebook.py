"""Points, tables and pages."""

from __future__ import annotations

import csv
import io
import re

import pytest

from backwarp.classroom import gradebook as books
from backwarp.classroom import pages
from backwarp.classroom.find import File, Found
from backwarp.classroom.rules import DAY, Points, Rules, rules_of
from backwarp.classroom.statistics import nearest, statistics
from backwarp.classroom.tasks import Task
from backwarp.course.checkout import Course
from backwarp.course.progress import Entry as Progress
from tests import ROOT

COURSE, NINE, TWO = Course(ROOT), "09_conv2d_backward_weights", "02_matmul"
RIGHT = {
    "status": "passed",
    "kind": "",
    "share": 1.0,
    "lines": [],
    "shown": [],
    "findings": [],
    "seconds": 1.0,
}
SLOW = RIGHT | {"status": "failed", "kind": "slow", "lines": ["reads too much"], "shown": ["reads too much"]}
WRONG = SLOW | {
    "kind": "wrong",
    "share": 0.25,
    "lines": ["secret case H=7"],
    "shown": ["It fails in a case that is not shown (wrong)."],
    "findings": [{"kind": "values", "lines": [3], "text": "the sum over the batch is missing"}],
    "hint": 2,
}


def made(rules: Rules, *handed_in: tuple[str, str, dict], when: float = 0.0) -> books.Gradebook:
    """handed_in: (person, puzzle, outcome), in order."""
    found, outcomes = Found(people=sorted({p for p, *_ in handed_in})), {}
    for number, (person, puzzle, outcome) in enumerate(handed_in):
        file = File(person, f"{person}/{number}.cu", f"text {number}".encode(), when + number, puzzle)
        found.graded.setdefault((person, puzzle), []).append(file)
        for seed in rules.seeds():
            one = outcome[seed] if seed in outcome else outcome
            outcomes[Task(str(ROOT), puzzle, file.data, seed).key] = one
    return books.gradebook(found, rules, str(ROOT), outcomes)


def test_points_are_for_what_is_right_what_is_slow_and_the_share_of_cases():
    rules = Rules(points=Points(10, 7, 4), of={TWO: Points(20, 1, 0)})
    book = made(
        rules,
        ("ada", NINE, RIGHT),
        ("bob", NINE, SLOW),
        ("eve", NINE, WRONG),
        ("ada", TWO, RIGHT),
        ("eve", TWO, WRONG),
    )
    rows = list(csv.reader(io.StringIO(books.as_csv(book))))
    assert rows == [
        ["person", TWO, NINE, "total"],
        ["ada", "20", "10", "30"],
        ["bob", "", "7", "7"],
        ["eve", "0", "1", "1"],
    ]


@pytest.mark.parametrize(("attempt", "points"), [("last", 0.0), ("first", 0.5), ("best", 1.0)])
def test_of_several_files_the_rules_say_which_counts(attempt, points):
    book = made(Rules(attempt=attempt), ("ada", NINE, SLOW), ("ada", NINE, RIGHT), ("ada", NINE, WRONG))
    assert book.entries["ada", NINE].points == points and book.entries["ada", NINE].files == 3


@pytest.mark.parametrize(
    ("days", "share"), [(-1, 1.0), (0, 1.0), (0.01, 0.9), (1, 0.9), (1.5, 0.8), (3.5, 0.0)]
)
def test_a_day_that_has_begun_costs_its_share(days, share):
    rules = Rules(due=1e9, late=0.1, latest=3)
    book = made(rules, ("ada", NINE, RIGHT), when=1e9 + days * DAY)
    assert book.entries["ada", NINE].points == pytest.approx(share)


def test_with_further_seeds_the_worst_run_counts():
    rules = Rules(seed=5, again=2)
    assert rules.seeds() == (5, 6, 7)
    book = made(rules, ("ada", NINE, {5: RIGHT, 6: RIGHT, 7: WRONG}), ("bob", NINE, RIGHT))
    assert [book.total(p) for p in book.people] == [0.0, 1.0]


def test_puzzles_that_do_not_count_are_listed():
    book = made(Rules(puzzles=(TWO,)), ("ada", NINE, RIGHT), ("bob", TWO, RIGHT))
    assert book.puzzles == [TWO] and [(f.person, f.why) for f in book.left] == [
        ("ada", "its puzzle does not count")
    ]


def test_rules_are_read_and_mistakes_in_them_named():
    read = rules_of(
        {"puzzles": ["9", "matmul"], "points": {"passed": 4, "02": {"passed": 9}}, "late": 10}, COURSE
    )
    assert read.puzzles == (NINE, TWO) and read.late == 0.1
    assert read.points_of(TWO) == Points(9, 0.5, 0.0) and read.points_of(NINE) == Points(4, 0.5, 0.0)
    for wrong, says in (
        ({"point": 1}, "'point' is not known"),
        ({"points": {"pased": 1}}, "pased"),
        ({"due": "tomorrow"}, "a date"),
    ):
        with pytest.raises(ValueError, match=says):
            rules_of(wrong, COURSE)


def test_a_person_cannot_write_in_the_teachers_spreadsheet_or_page():
    evil = "=cmd()<script>alert(1)</script>\x1b[31m"
    book = made(Rules(), (evil, NINE, WRONG | {"shown": [evil], "diagnosis": evil}))
    book.left.append(File(evil, evil, why=evil))
    assert books.as_csv(book).splitlines()[1].startswith("'=")
    texts = (
        pages.overview(book, statistics(book, COURSE), 0, 0),
        pages.page_of(book, COURSE, evil),
        pages.text_of(book, evil),
    )
    assert not any("\x1b" in text for text in texts) and not any("<script" in text for text in texts[:2])


def test_a_persons_pages_reveal_no_hidden_case():
    book = made(Rules(points=Points(1, 0.5, 1)), ("ada", NINE, WRONG))
    for page in (pages.page_of(book, COURSE, "ada"), pages.text_of(book, "ada")):
        assert "secret" not in page and "a case that is not shown" in page and "0.25 of 1 point" in page
    assert books.as_json(book)["people"][0]["puzzles"][NINE]["lines"] == ["secret case H=7"]


def test_pages_of_different_people_have_different_names():
    assert len({pages.file_name(p) for p in ("a b", "a_b", "a/b", "../a", "", "ä", "ö")}) == 7
    assert not any(set("/.\\") & set(pages.file_name(p)) for p in ("../../x", "a/b"))


def test_statistics_have_no_names():
    book = made(Rules(), ("ada", NINE, RIGHT), ("bob", NINE, WRONG), ("eve", NINE, WRONG))
    found = statistics(book, COURSE)[NINE]
    assert (found["handed in"], found["passed"], found["attempts"]) == (3, 1, None)
    (values,) = found["findings"]
    assert (values["finding"], values["people"], values["line"]) == ("values", 2, 3)
    assert not {"ada", "bob", "eve"} & set(re.findall(r"\w+", repr(found)))


def test_statistics_count_hints_and_attempts_of_those_who_handed_them_in():
    book = made(Rules(), ("ada", NINE, RIGHT), ("bob", NINE, WRONG), ("eve", NINE, WRONG))
    book.progress = {"ada": {NINE: Progress(attempts=9, hints=3)}, "bob": {NINE: Progress(attempts=2)}}
    found = statistics(book, COURSE)[NINE]
    assert found["attempts"] == 5.5
    assert [(h["named"], h["shown"]) for h in found["hints"]] == [(0, 1), (2, 1), (0, 1)]
    assert found["hints"][1]["says"] in pages.overview(book, {NINE: found}, 0, 0).replace("&#x27;", "'")


def test_a_finding_is_near_the_sentence_of_the_lesson_that_speaks_of_it():
    lesson = "# Sums\n\nEach thread owns one weight. The loop over the batch comes first. A filter slides over rows. Each output is one sum.\n\n```\nbatch\n```\n<!-- ```\nThe first loop, over the batch, ends early.\n``` -->\n"
    assert (
        nearest(lesson, "The first loop, over the batch, ends early.")
        == "The loop over the batch comes first."
    )
    assert not nearest(lesson, "Something else entirely.")


def test_the_overview_loads_itself_again_while_gradings_run():
    book = made(Rules(), ("ada", NINE, RIGHT))
    assert "refresh" in pages.overview(book, {}, 1, 2) and "refresh" not in pages.overview(book, {}, 0, 0)
