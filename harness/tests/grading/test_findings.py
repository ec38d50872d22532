"""Findings: what they are as data, in what order, and that the table has a row for all of them and no other."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from backwarp.grading import findings, kinds
from backwarp.grading.findings import Finding, distinct, in_order
from backwarp.grading.kinds import KINDS
from backwarp.report.json import plain

SOURCES = {
    path: path.read_text(encoding="utf-8")
    for path in Path(findings.__file__).parent.rglob("*.py")
    if path.parent != Path(kinds.__file__).parent
}
GUARD = Finding.of("guard_passes", 4, test="i <= n", numbers="3 <= 3")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_found_by_something(kind):
    assert any(f'"{kind}"' in text for text in SOURCES.values())


def test_there_is_a_row_for_all_that_is_found():
    named = re.compile(r'Finding(?:\.of)?\(\s*"(\w+)"')
    assert {kind for text in SOURCES.values() for kind in named.findall(text)} <= KINDS.keys()


def test_a_finding_is_a_sentence_and_data():
    whole = replace(GUARD, where="In this case", also=Finding.of("whole", array="y"))
    assert str(whole).startswith(
        "In this case, Line 4 lets it through: i <= n is 3 <= 3 here. Every element of y "
    )
    found = json.loads(json.dumps(plain(whole.as_dict())))
    assert (found["kind"], found["lines"], found["asks"]) == ("guard_passes", [4], False)
    assert found["facts"] == {"test": "i <= n", "numbers": "3 <= 3"} and found["text"] == str(whole)
    assert whole.code.split() == "i <= n 3 <= 3 y".split()


def test_what_says_the_same_is_said_once_and_what_leads_comes_first():
    order = Finding.of("other_order", 1, declared=["x", "n"], number=1, is_="x", taken="n")
    assert distinct([GUARD, order, GUARD]) == [GUARD, order]
    assert in_order([GUARD, order], "wrong") == [replace(order, leads=True), GUARD]
    assert order.is_suspicion and not replace(order, leads=True).is_suspicion and not GUARD.is_suspicion
