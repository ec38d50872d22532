"""Lines on a terminal or elsewhere: wrapped to its width, in colour where it wants that, with nothing that deceives."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

WIDTH = 100  # if the output is not a terminal

Span = tuple[str, str]
Line = list[Span]


def seconds(time: float) -> str:
    """With two digits, or as a whole number: .2g gives 1.2e+02 for 123."""
    return f"{time:.2g} s" if time < 99.5 else f"{time:.0f} s"


def is_source(text: str) -> bool:
    return bool(re.match(r" {4,}(\d+ )?\| ", text))


def body_lines(text: str, width: int) -> list[Line]:
    """A sentence, wrapped, or a source line, left as it is; its number is pale, its code is not."""
    text = printable(text)
    if is_source(text):
        number, bar, code = text.partition("|")
        style = "bold red" if code.strip(" ~") == "^" else "bold"
        return [[("  " + number + bar, "dim"), (code, style)]]
    return [[("  " + part, "")] for part in wrap(text, width - 2)]


def wrap(text: str, width: int, hang: str = "  ") -> list[str]:
    """Lines of at most `width` columns, unless a word is longer; `hang` indents all but the first."""
    return textwrap.wrap(
        text, width, break_long_words=False, break_on_hyphens=False, subsequent_indent=hang
    ) or [""]


_UNSEEN = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def printable(text: str) -> str:
    """Text that cannot deceive: control characters, with which a kernel's output or source could control the terminal,
    become ?; direction marks and zero-width characters, which disguise text, become their numbers."""
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "?", text.expandtabs(4))
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def terminal_width(stream: TextIO) -> int:
    """The terminal's width; COLUMNS or WIDTH if the output is not a terminal."""
    if stream.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return max(40, shutil.get_terminal_size((WIDTH, 24)).columns)
    return WIDTH


def show_text(paragraphs: Iterable[str], indent: str = "  ", stream: TextIO | None = None) -> None:
    """Writes paragraphs, each indented and wrapped to the terminal."""
    stream = stream or sys.stdout
    width = terminal_width(stream) - len(indent)
    for paragraph in paragraphs:
        stream.writelines(
            f"{indent}{line}".rstrip() + "\n" for line in wrap(printable(paragraph), width, hang="")
        )
    stream.flush()


def wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show(lines: Iterable[Line], stream: TextIO | None = None) -> None:
    """Writes lines to a stream (default stdout), with colour if it is a terminal that wants it."""
    stream = stream or sys.stdout
    if not wants_colour(stream):
        stream.writelines("".join(text for text, _ in line).rstrip() + "\n" for line in lines)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*line))


def rows(lines: Sequence[Line], width: int) -> int:
    """On a terminal of this width."""
    return sum(max(1, -(-sum(len(text) for text, _ in line) // width)) for line in lines)
