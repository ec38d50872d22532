"""One person's results in the words of the systems that teachers use: `backwarp class DIR --format NAME`.

Sources: gradescope-autograders.readthedocs.io/en/latest/specs; PrairieLearn's page on external grading; Classroom 50's wiki,
Advanced-Autograding (classroom50/result/v1); Autolab's guide for lab authors; the JUnit schema as Jenkins reads it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any
from xml.etree import ElementTree

from ..report.terminal import printable
from .gradebook import Gradebook, number
from .pages import sentences
from .rules import Rules

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MOST = 16_000  # characters about one puzzle: PrairieLearn takes 1 MB in all
NONE = "Nothing was handed in for this puzzle."


def tests_of(book: Gradebook, person: str, rules: Rules) -> list[dict[str, Any]]:
    """A test per puzzle: name, points, most, passed, text."""
    own, found = book.of(person), []
    for puzzle in book.puzzles:
        if puzzle in own:
            e = own[puzzle]
            text = "\n".join(map(printable, sentences(puzzle, e)))[:MOST]
            passed = e.outcome["status"] == "passed"
            found.append({"name": puzzle, "points": e.points, "most": e.of, "passed": passed, "text": text})
        else:
            most = rules.points_of(puzzle).passed
            found.append({"name": puzzle, "points": 0.0, "most": most, "passed": False, "text": NONE})
    return found


def left_of(book: Gradebook) -> str:
    return "\n".join(f"not graded: {printable(f.name)}: {printable(f.why)}" for f in book.left)[:MOST]


def gradescope(tests: list[dict[str, Any]], left: str) -> dict[str, Any]:
    return {
        "output": left,
        "output_format": "text",
        "stdout_visibility": "hidden",
        "tests": [
            {
                "name": t["name"],
                "score": t["points"],
                "max_score": t["most"],
                "status": "passed" if t["passed"] else "failed",
                "output": t["text"],
                "output_format": "text",
            }
            for t in tests
        ],
    }


def prairielearn(tests: list[dict[str, Any]], left: str) -> dict[str, Any]:
    most = sum(t["most"] for t in tests)
    return {
        "gradable": True,
        "score": sum(t["points"] for t in tests) / most if most else 0.0,
        "message": left,
        "tests": [
            {"name": t["name"], "points": t["points"], "max_points": t["most"], "output": t["text"]}
            for t in tests
        ],
    }


def classroom50(
    tests: list[dict[str, Any]], left: str, given: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Points are whole numbers there: hundredths, where the rules have fractions."""
    whole = all(float(value).is_integer() for t in tests for value in (t["points"], t["most"]))
    scale = 1 if whole else 100
    scored = [
        {
            "test-name": t["name"],
            "passed": t["passed"],
            "score": round(t["points"] * scale),
            "max-score": round(t["most"] * scale),
            "output": t["text"],
        }
        for t in tests
    ]
    return {
        "schema": "classroom50/result/v1",
        "classroom": given.get("CLASSROOM", ""),
        "assignment": given.get("ASSIGNMENT", ""),
        "submission": given.get("SUBMISSION_TAG", ""),
        "commit": given.get("COMMIT_URL", ""),
        "release": given.get("RELEASE_URL", ""),
        "review": given.get("REVIEW_URL") or given.get("COMMIT_URL", ""),
        "datetime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "score": sum(t["score"] for t in scored),
        "max-score": sum(t["max-score"] for t in scored),
        "tests": scored,
    }


def autolab(tests: list[dict[str, Any]], left: str) -> str:
    """The texts, and as the last line the scores by problem."""
    scores = json.dumps({"scores": {t["name"]: t["points"] for t in tests}})
    return "\n\n".join([*(t["text"] for t in tests), *([left] if left else []), scores]) + "\n"


def junit(tests: list[dict[str, Any]], left: str) -> str:
    """As Artemis, CodeGrade and most servers read it."""
    failures = str(sum(not t["passed"] for t in tests))
    suite = ElementTree.Element(
        "testsuite", name="backwarp", tests=str(len(tests)), failures=failures, errors="0"
    )
    for t in tests:
        case = ElementTree.SubElement(suite, "testcase", classname="backwarp", name=t["name"])
        if not t["passed"]:
            points = f"{number(t['points'])} of {number(t['most'])} points"
            ElementTree.SubElement(case, "failure", message=points).text = _NOT_XML.sub("?", t["text"])
    if left:
        ElementTree.SubElement(suite, "system-out").text = _NOT_XML.sub("?", left)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def as_text(write: Callable[..., Any], *arguments: object) -> str:
    return json.dumps(write(*arguments), indent=1) + "\n"


FORMATS: dict[str, Callable[[list[dict[str, Any]], str], str]] = {
    "gradescope": partial(as_text, gradescope),
    "prairielearn": partial(as_text, prairielearn),
    "classroom50": partial(as_text, classroom50),
    "autolab": autolab,
    "junit": junit,
}


def results(book: Gradebook, rules: Rules, name: str) -> str:
    """The whole file, for a hand-in of one person."""
    return FORMATS[name](tests_of(book, next(iter(book.people), ""), rules), left_of(book))
