"""A report where there is little room: sentences are wrapped anew, and carets stay below what they point at."""

from __future__ import annotations

import re

from rich.text import Text

from backwarp.report.html import lines_html, lines_of, recorder
from backwarp.report.terminal import body_lines

LONG = "Thread (32,0,0) writes part[32] (line 4), and this thread reads it; there is no __syncthreads() between them."
LINES = [
    [("x ", "bold red"), ("swap", "bold"), ("   one block", "")],
    *body_lines(LONG, 60),
    *body_lines("    5 |     y[i] = part[i];", 60),
    *body_lines("      |            ^", 60),
    [("    printed by the kernel", "dim")],
    *body_lines("Another sentence.", 60),
]


def blocks(html: str) -> list[tuple[bool, str]]:
    """(whether it is moved rather than wrapped, its text)."""
    found = re.findall(r'<pre style="([^"]*)">(.*?)</pre>', html, re.S)
    return [("white-space:pre;" in style, re.sub("<[^>]*>", "", text).rstrip("\n")) for style, text in found]


def test_sentences_are_blocks_and_source_lines_are_moved_with_their_carets():
    code = "      5 |     y[i] = part[i];\n        |            ^"
    assert blocks(lines_html(LINES)) == [
        (False, "x swap   one block"),
        (False, LONG),
        (True, code),
        (False, "printed by the kernel"),
        (False, "Another sentence."),
    ]


def test_what_was_printed_to_a_recorder_becomes_the_same_lines():
    console = recorder()
    for line in LINES:
        console.print(Text.assemble(*line), soft_wrap=True)
    assert blocks(lines_html(lines_of(console))) == blocks(lines_html(LINES))
