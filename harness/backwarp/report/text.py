"""A Verdict as text: the fact, the place, the remedy; at most a dozen lines and the place of a repair, colour
only on a terminal.

Text is built as lines of (text, style) spans, so that it is the same with and without colour.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import TextIO

from ..grading.findings import Finding
from ..grading.repair.telling import code_at, elsewhere, summary
from ..grading.sentences import source_line
from ..grading.verdict import ERROR, FAILED, PASSED, SKIPPED, Verdict
from .terminal import WIDTH, Line, body_lines, is_source, printable, rows, seconds, show, terminal_width, wrap

MOST_LINES, MOST_NARROW = 12, 18  # of WIDTH columns; narrower ones may be more, to hold the same text
LONG = 3  # lines of a cause that may leave no room for the other facts
LEAST = 3  # lines that are always kept: what is wrong, and where
MOST_PRINTED = 4  # lines of the kernel's own output
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


def verdict_lines(verdict: Verdict, width: int = WIDTH) -> list[Line]:
    """The whole report on one file: at most a dozen lines, and the repair."""
    report = parts(verdict, width)
    return report.above + with_repair(verdict, width, report) + report.below


@dataclass(frozen=True)
class Parts:
    """above: what is wrong and why; suspected: each suspicion, with its lines; below: how many cases pass,
    notes, and what to do next."""

    above: list[Line]
    suspected: dict[str, list[Line]]
    below: list[Line]


def parts(verdict: Verdict, width: int) -> Parts:
    """The report without the repair, in at most a dozen lines, or more where they are narrow."""
    head = wrapped_spans(headline(verdict), width)
    tail = onward(verdict, width)
    room = most_lines(width) - len(head) - len(tail)
    asked = [str(f) for f in verdict.findings if f.is_suspicion and f.asks]
    body = shortened(replace(verdict, lines=[t for t in verdict.lines if t not in asked]), width, room)
    room -= sum(len(lines) for _, lines in body)
    output = printed(verdict, room)
    room -= len(output)
    below: list[Line] = []
    for extra in (*tally(verdict, width), notes(verdict, width)):
        if len(below) + len(extra) <= room:
            below += extra
    facts = [line for text, lines in body if text not in verdict.suspicions for line in lines]
    suspected = {text: lines for text, lines in body if text in verdict.suspicions}
    suspected |= {text: body_lines(text, width) for text in asked}
    return Parts(head + facts, suspected, output + below + tail)


def onward(verdict: Verdict, width: int) -> list[Line]:
    """What to do next, and the command that shows more, in one line if there is room."""
    both = (("  Next: ", verdict.next), ("  Look: ", verdict.look))
    found: list[Line] = [[(says, ""), (printable(what), "bold cyan")] for says, what in both if what]
    if len(found) == 2 and sum(len(text) for line in found for text, _ in line) < width:
        return [[part for line in found for part in line]]
    return found


def most_lines(width: int) -> int:
    return max(MOST_LINES, min(MOST_LINES * WIDTH // width, MOST_NARROW))


def with_repair(verdict: Verdict, width: int, report: Parts) -> list[Line]:
    """The suspicions about its lines, and the repair."""
    hidden = {str(f) for f in unconfirmed(verdict)}
    first = [line for text, lines in report.suspected.items() if text not in hidden for line in lines]
    return first + (repair_lines(verdict, width, report.above + first) if verdict.repair else [])


def unconfirmed(verdict: Verdict) -> list[Finding]:
    """The suspicions that are not told, since the line may well be right: those about lines that a repair leaves as they
    are, and questions unless a repair changes what they are about."""
    edits = [edit for repair in verdict.repair for edit in repair.get("edits", [repair])]
    changed = [(edit["line"], words(edit["before"])) for edit in edits]
    asked = [f for f in verdict.findings if f.is_suspicion and f.asks]
    open_ = [f for f in asked if not any(n in f.all_lines and code <= words(f.code) for n, code in changed)]
    return [*open_, *elsewhere(verdict)]


def words(text: str) -> set[str]:
    """The names, numbers and operators in a text, without those of types."""
    return set(re.findall(r"\w+|[<>!=]=|[-+*/%<>&|!]", text)) - {"const", "int", "float", "bool"}


def repair_lines(verdict: Verdict, width: int, above: Iterable[Line] = ()) -> list[Line]:
    """Where the change is, and the lines of the file there, unless they are shown above."""
    numbers = {number_of("".join(text for text, _ in line)) for line in above}
    code = [source_line(n, *at)[:1] for n, at in code_at(verdict).items() if n not in numbers]
    return [line for text in (summary(verdict), *chain(*code)) for line in body_lines(text, width)]


def shortened(verdict: Verdict, width: int, room: int) -> list[tuple[str, list[Line]]]:
    """The sentences of a verdict, each with its lines; if there are too many, the causes are kept."""
    texts, known = verdict.lines, {str(f): f for f in verdict.findings}
    causes = {text: f for text, f in known.items() if f.row.explains}
    lines: list[list[Line]] = []
    for text in texts:  # a caret belongs to its source line
        lines.append([] if re.match(r" {4,}\| ", text) and lines else body_lines(text, width))
        if not lines[-1]:
            next(some for some in reversed(lines[:-1]) if some).extend(body_lines(text, width))
    if sum(map(len, lines)) <= room:
        return list(zip(texts, lines))
    every = range(len(texts))
    above = next((i for i in every if texts[i] not in causes), 0)  # sentences from which the rest follows
    least = LEAST + above
    first = [i for i in every if i < least and lines[i]]
    facts = [i for i in every if texts[i] in causes and not causes[texts[i]].asks]
    cause = next((text for text, f in causes.items() if not f.asks), "")
    # the cause, then rather several short ones than one that is long
    facts.sort(key=lambda i: (texts[i] != cause or len(lines[i]) > LONG, len(lines[i])))
    element = [i for i in every if i >= least and i not in facts and not is_source(texts[i])][:1]
    values = [i for i in every if texts[i] in known and texts[i] not in causes]
    others = sorted(every, key=lambda i: texts[i] in known and known[texts[i]].asks)
    kept: defaultdict[int, list[Line]] = defaultdict(list)
    left = room - 1
    for n, i in enumerate((*first, *element, *facts, *values, *others)):
        most = left + len(kept[i])
        text = sentences_of(texts[i])[0] if [i] == element and n < len(first) + 1 else texts[i]
        some = lines[i] if text == texts[i] and len(lines[i]) <= most else whole_sentences(text, width, most)
        some = some or (lines[i][:most] if i in first else [])
        if len(some) > len(kept[i]):
            kept[i], left = some, most - len(some)
    kept[min(i for i in every if lines[i] and kept[i] != lines[i])] += [[("  ...", "")]]
    return [(texts[i], kept[i]) for i in sorted(kept)]


def number_of(text: str) -> int:
    """Of a source line; 0 for other text."""
    found = re.match(r" *(\d+) \| ", text)
    return int(found[1]) if found else 0


def sentences_of(text: str) -> list[str]:
    return re.split(r"(?<=\.) (?=[A-Z])", text)


def whole_sentences(text: str, width: int, most: int) -> list[Line]:
    """As many sentences, from the first, as fit in so many lines."""
    parts = [] if is_source(text) else sentences_of(text)
    some = (body_lines(" ".join(parts[:count]), width) for count in range(len(parts), 0, -1))
    return next((lines for lines in some if len(lines) <= most), [])


def headline(verdict: Verdict) -> Line:
    mark, style = MARKS[verdict.status]
    line = [(f"{mark} ", style), (verdict.puzzle, "bold")]
    if verdict.passed:
        cases = f"{verdict.case_total} case{'s' * (verdict.case_total != 1)}"
        return [*line, (f"   {cases} on {verdict.device}, {seconds(verdict.seconds)}", "")]
    if not verdict.case:
        return [*line, (f"   {HEADS.get(verdict.kind, verdict.kind)}", "")]
    dims = " ".join(f"{name}={size}" for name, size in verdict.dims.items())
    if verdict.kind == "slow":
        return [*line, (f"   {HEADS['slow']}   {verdict.case}: {dims}", "")]
    return [*line, (f"   case {verdict.case_number} of {verdict.case_total}  {verdict.case}: {dims}", "")]


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


def show_verdict(verdict: Verdict, stream: TextIO | None = None, brief: bool = False) -> None:
    """Writes the report on one file; brief: only its headline."""
    stream = stream or sys.stdout
    show([headline(verdict)] if brief else verdict_lines(verdict, terminal_width(stream)), stream)


def show_verdict_around(verdict: Verdict, look: Callable[[], None]) -> None:
    """Writes the report on one file while `look` searches for a repair. On a terminal, suspicions are shown
    in the meantime, and replaced where the repair says more."""
    width, out = terminal_width(sys.stdout), sys.stdout
    report = parts(verdict, width)
    early = with_repair(verdict, width, report) if out.isatty() and os.environ.get("TERM") != "dumb" else []
    show(report.above + early)
    out.flush()
    try:
        look()
    finally:
        found = with_repair(verdict, width, report)
        same = found[: len(early)] == early
        if not same:
            out.write(f"\x1b[{rows(early, width)}A\x1b[J")
        show((found[len(early) :] if same else found) + report.below)
        out.flush()
