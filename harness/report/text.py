"""A Verdict as text: the fact, the place, the remedy; at most a dozen lines, colour only on a terminal.

Text is built as lines of (text, style) spans, so that it is the same with and without colour.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TextIO

from ..grading.repair.telling import told
from ..grading.verdict import ERROR, FAILED, PASSED, SKIPPED, Verdict

MOST_LINES = 12
LEAST = 3  # lines that are always kept: what is wrong, and where
MOST_PRINTED = 4  # lines of the kernel's own output
WIDTH = 100  # if the output is not a terminal
MARKS = {PASSED: ("ok", "bold green"), FAILED: ("x", "bold red"), ERROR: ("!", "bold yellow")}
HEADS = {
    "source": "there is no kernel to grade",
    "encoding": "the file is not UTF-8 text",
    "untouched": "not started yet",
    "compile": "does not compile",
    "unsupported": "uses a feature that the virtual GPU does not have",
    "missing-kernel": "a kernel is missing",
    "missing-constant": "a __constant__ variable is missing, or too small",
    "missing-function": "a function is missing",
    "syntax": "is not Python",
    "exception": "does not run",
    "timeout": "does not end",
    "signature": "a kernel has the wrong parameters",
    "device": "no device to run on",
    "kernels": "runs on kernels that are not solved yet",
    "printing": "prints too much",
    "slow": "right, not yet fast",
}

Span = tuple[str, str]
Line = list[Span]


def verdict_lines(verdict: Verdict, width: int = WIDTH, most: int = MOST_LINES) -> list[Line]:
    """The whole report on one file, in at most `most` lines."""
    above, below = parts(verdict, width, most)
    return above + below


def parts(verdict: Verdict, width: int, most: int) -> tuple[list[Line], list[Line]]:
    """What is wrong and why; and how many cases pass, notes, and what to do next."""
    head = wrapped_spans(headline(verdict), width)
    tail = [[("  Next: ", ""), (verdict.next, "bold cyan")]] if verdict.next else []
    room = most - len(head) - len(tail)
    body = shortened(verdict, width, room)
    body += printed(verdict, room - len(body))
    room -= len(body)
    below: list[Line] = []
    for extra in (*tally(verdict, width), notes(verdict, width)):
        if len(below) + len(extra) <= room:
            below += extra
    return head + body, below + tail


def shortened(verdict: Verdict, width: int, room: int) -> list[Line]:
    """The sentences of a verdict; if there are too many, the causes and the repair are kept."""
    repair = told(verdict) if verdict.repair else None
    texts = repair.beside(verdict.lines) if repair else verdict.lines
    lines = [body_lines(text, width) for text in texts]
    if sum(map(len, lines)) <= room:
        return [line for some in lines for line in some]
    changed = [i for i, text in enumerate(texts) if repair and repair.is_in(text)]
    causes = [i for i, text in enumerate(texts) if text in verdict.causes]
    causes.sort(key=lambda i: len(lines[i]))  # prefer several short causes to one long one
    kept: defaultdict[int, list[Line]] = defaultdict(list)
    left = room - 1
    for i in dict.fromkeys([*range(len(texts))[:LEAST], *changed, *causes, *range(len(texts))]):
        if len(lines[i]) <= left:
            kept[i] = lines[i]
            left -= len(lines[i])
        elif i not in causes:
            kept[i] = lines[i][:left]
            break
    kept[min(i for i in range(len(texts)) if kept.get(i) != lines[i])] += [[("  ...", "")]]
    return [line for i in sorted(kept) for line in kept[i]]


def headline(verdict: Verdict) -> Line:
    mark, style = MARKS[verdict.status]
    line = [(f"{mark} ", style), (verdict.puzzle, "bold")]
    if verdict.passed:
        cases = f"{verdict.case_total} case{'s' * (verdict.case_total != 1)}"
        return [*line, (f"   {cases} on {verdict.device}, {verdict.seconds:.2g} s", "")]
    if not verdict.case:
        return [*line, (f"   {HEADS.get(verdict.kind, verdict.kind)}", "")]
    dims = " ".join(f"{name}={size}" for name, size in verdict.dims.items())
    if verdict.kind == "slow":
        return [*line, (f"   {HEADS['slow']}   {verdict.case}: {dims}", "")]
    return [*line, (f"   case {verdict.case_number} of {verdict.case_total}  {verdict.case}: {dims}", "")]


def body_lines(text: str, width: int) -> list[Line]:
    """A sentence, wrapped, or a source line, left as it is."""
    text = printable(text)
    if re.match(r" {4,}(\d+ )?\| ", text):
        style = "bold red" if text.lstrip(" |").strip("~") == "^" else "dim"
        return [[("  " + text, style)]]
    return [[("  " + part, "")] for part in wrap(text, width - 2)]


def wrap(text: str, width: int, hang: str = "  ") -> list[str]:
    """Lines of at most `width` columns, unless a word is longer; `hang` indents all but the first."""
    return textwrap.wrap(
        text, width, break_long_words=False, break_on_hyphens=False, subsequent_indent=hang
    ) or [""]


def wrapped_spans(line: Line, width: int) -> list[Line]:
    """A headline that is too long continues on a second line; the first spans keep their style."""
    parts = wrap(printable("".join(text for text, _ in line)), width)
    kept = "".join(text for text, _ in line[:-1])
    first = [*line[:-1], (parts[0][len(kept) :], "")] if parts[0].startswith(kept) else [(parts[0], "")]
    return [first, *([("  " + part, "")] for part in parts[1:])]


def printed(verdict: Verdict, room: int) -> list[Line]:
    """What the kernel or the program printed, cut to `room` lines."""
    lines = verdict.stdout.splitlines()
    if not lines or room < 1:
        return []
    shown = lines[: max(0, min(MOST_PRINTED, room - 2))]
    left = len(lines) - len(shown) + verdict.stdout_dropped
    who = "program" if verdict.file.endswith(".py") else "kernel"
    if not shown:
        return [[(f"  The {who} printed {left:,} lines, not shown.", "")]]
    found = [
        [(f"  The {who} printed:", "")],
        *([("    " + printable(line)[:WIDTH], "dim")] for line in shown),
    ]
    return found + ([[(f"    ... and {left:,} more lines, cut", "dim")]] if left else [])


def tally(verdict: Verdict, width: int) -> list[list[Line]]:
    """How many cases pass, per kernel; nothing if grading did not get that far."""
    kernels = dict.fromkeys(c.kernel for c in verdict.cases)
    if (
        verdict.passed
        or verdict.kind == "slow"
        or any(c.status == SKIPPED for c in verdict.cases)
        or not kernels
    ):
        return []
    counts = {k: [c.status == PASSED for c in verdict.cases if c.kernel == k] for k in kernels}
    if len(kernels) == 1:
        good = next(iter(counts.values()))
        return with_seed([[(f"  {sum(good)} of {len(good)} cases pass.", "")]], verdict, width)
    told = [
        f"{k} passes {'all' if all(good) else f'{sum(good)} of'} {len(good)} cases"
        for k, good in counts.items()
    ]
    return with_seed(body_lines("; ".join(told) + ".", width), verdict, width)


def with_seed(lines: list[Line], verdict: Verdict, width: int) -> list[list[Line]]:
    """Appends the seed to the last line, or puts it on its own line if it does not fit."""
    seed = f"  seed {verdict.seed}"
    *above, last = lines
    if len("".join(text for text, _ in last)) + 1 + len(seed) > width:
        return [lines, [[(seed, "dim")]]]
    return [[*above, [*last, (" " + seed, "dim")]]]


def notes(verdict: Verdict, width: int) -> list[Line]:
    return [line for note in verdict.notes for line in body_lines(f"Note: {note}", width)]


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


def show_verdict(verdict: Verdict, stream: TextIO | None = None, brief=False, most=MOST_LINES) -> None:
    """Writes the report on one file, in at most `most` lines; brief: only its headline."""
    stream = stream or sys.stdout
    show([headline(verdict)] if brief else verdict_lines(verdict, terminal_width(stream), most), stream)


def show_verdict_around(verdict: Verdict, look: Callable[[], None]) -> None:
    """Writes the report on one file while `look` searches for a repair, which is then added below the
    causes."""
    width = terminal_width(sys.stdout)
    above, below = parts(verdict, width, MOST_LINES - 1)
    show(above)
    sys.stdout.flush()
    try:
        look()
        if verdict.repair:
            show_text([told(verdict).says])
    finally:
        show(below)
        sys.stdout.flush()
