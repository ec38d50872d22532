"""The output of `backwarp exec` beside the program's own: its mistakes, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.text import Text

from ..errors import CourseError
from ..grading import compile_errors, sentences
from ..programs import mistakes
from ..programs.mistakes import Mistake
from ..programs.process import MOST_OUTPUT
from ..programs.run import Asked, Outcome
from .terminal import body_lines, printable, terminal_width, wants_colour

_CALLERS = 2  # lines from which a function with a mistake was called
MOST_NOTES = 5


def show_outcome(done: Outcome, asked: Asked, stream: TextIO | None = None) -> None:
    """Writes the report: nothing for a program without mistakes."""
    stream = stream or sys.stderr
    width = terminal_width(stream)
    how = dict(highlight=False, force_terminal=wants_colour(stream), no_color=not wants_colour(stream))
    console = Console(file=stream, width=width, force_jupyter=False, **how)

    def head(mark: str, style: str, place: str, rest: str = "") -> None:
        console.print(Text.assemble((mark, style), (printable(place), "bold"), rest), soft_wrap=True)

    def say(lines: Sequence[str]) -> None:
        for line in lines:
            for part in body_lines(line, width):
                console.print(Text.assemble(*part), soft_wrap=True)

    if done.error:
        head("x ", "bold red", done.file, "   does not compile")
        say(compile_errors.compile_error(done.error, done.texts.get(done.file, "")))
        return
    if why := ending(done, asked):
        head("x ", "bold red", done.file, f"   {why}")
    named = [m for m in done.mistakes if not m.is_note]
    for mistake in named:
        fault = mistake.fault if mistake.kind == "kernel" and mistake.fault.line else None  # else in PTX
        head(
            "x ", "bold red", f"{fault.file}:{fault.line}" if fault else at(done, mistake.frames) or done.file
        )
        say(body(done, mistake))
    notes = [m for m in done.mistakes if m.is_note and m.kind != "leak"]
    for note in notes[:MOST_NOTES]:
        say([f"Note: {place_of(done, note)}{' '.join(mistakes.sentences(note, lambda f: at(done, f)))}"])
    if not named and not done.status:  # else a program often ends before it would free
        say(_leaks(done))
    if len(notes) > MOST_NOTES:
        say([f"Note: and {len(notes) - MOST_NOTES} more."])
    say(spared(done, asked))


def _leaks(done: Outcome) -> list[str]:
    """All of them as one note."""
    leaks = [m for m in done.mistakes if m.kind == "leak"]
    if len(leaks) < 2:
        return [
            f"Note: {place_of(done, m)}{' '.join(mistakes.sentences(m, lambda f: at(done, f)))}"
            for m in leaks
        ]
    pieces = [f"{m.facts['memory'].name or 'memory'} ({at(done, m.frames)})" for m in leaks[:MOST_NOTES]]
    more = [f"{len(leaks) - MOST_NOTES} more"] if len(leaks) > MOST_NOTES else []
    nbytes = sum(m.facts["nbytes"] for m in leaks)
    return [f"Note: never freed: {', '.join([*pieces, *more])}: {nbytes:,} bytes."]


def show_timeline(done: Outcome, asked: Asked, path: Path, stream: TextIO | None = None) -> None:
    """Writes the picture, and the text to standard error."""
    from . import timeline
    from .pictures.kinds import save

    stream = stream or sys.stderr
    for line in timeline.text(
        done.operations, asked.model, lambda frames: at(done, frames), terminal_width(stream)
    ):
        print(printable(line), file=stream)
    try:
        save([timeline.picture(done.operations, asked.model, done.file)], path)
    except OSError as error:
        raise CourseError(f"{path} cannot be written ({error.strerror})") from None


def ending(done: Outcome, asked: Asked) -> str:
    """Why the program was ended; "" if it ended by itself."""
    if done.ended == "time":
        return f"was ended after {asked.seconds:g} s (--time-limit)"
    if done.ended == "flood":
        return f"was ended: it printed more than {MOST_OUTPUT >> 20} MB"
    return f"was ended: {done.ended}" if done.ended else ""


def at(done: Outcome, frames: Sequence[int]) -> str:
    """The place of a call, as prog.cu:9."""
    return str(next(iter(done.places(frames)), ""))


def spared(done: Outcome, asked: Asked) -> list[str]:
    """Which launches had no full checks."""
    if not done.spared:
        return []
    each = [
        f"{kernel}: {full:,} of {all_:,} launches in full" for kernel, (full, all_) in done.spared.items()
    ]
    more = [f"and {len(each) - MOST_NOTES} more kernels"] * (len(each) > MOST_NOTES)
    return [
        f"Note: after {asked.full_seconds:g} s of full checks of a kernel, its memory accesses alone were checked"
        f" ({'; '.join([*each[:MOST_NOTES], *more])}). --checks full checks everything."
    ]


def place_of(done: Outcome, mistake: Mistake) -> str:
    place = at(done, mistake.frames)
    return f"{place}: " if place else ""


def body(done: Outcome, mistake: Mistake) -> list[str]:
    """The line, what happened, what to do, and from where a function was called."""
    return list(_body(done, mistake))


def _body(done: Outcome, mistake: Mistake) -> Iterator[str]:
    places, fault = done.places(mistake.frames), mistake.fault
    if places and mistake.kind != "kernel":
        lines = done.texts[places[0].file].split("\n")
        line = lines[places[0].line - 1] if places[0].line <= len(lines) else ""
        yield from sentences.source_line(places[0].line, line, places[0].column)
    yield from mistakes.sentences(mistake, lambda frames: at(done, frames))
    if fault:
        yield from sentences.fault(fault, done.texts.get(fault.file, done.texts[done.file]))
        if places and mistake.kind == "kernel":
            yield f"Launched at {places[0]}."
    for place in [p for p in dict.fromkeys(places[1:]) if p != places[0]][:_CALLERS]:
        yield f"Called from {place}."


def faults(done: Outcome, asked: Asked) -> list[dict]:
    """What was found, as report.sarif takes it."""
    found = []

    def add(kind: str, message: str, file: str, line: int, level: str = "error") -> None:
        path = asked.file if file in ("", done.file) else asked.file.parent / file
        found.append(
            {"kind": kind, "message": message, "file": str(path), "line": max(line, 1), "level": level}
        )

    if done.error:
        told = [d for d in done.error.diagnostics if d.severity == "error"]
        for d in told:
            add("compile-error", d.message, d.file if d.file in done.texts else "", d.line)
        if not told:
            add("compile-error", str(done.error), "", 1)
    if why := ending(done, asked):
        add("ended", f"The program {why}.", "", 1)
    for m in done.mistakes:
        places = done.places(m.frames)
        file, line = (places[0].file, places[0].line) if places else ("", 1)
        said = mistakes.sentences(m, lambda f: at(done, f))
        if m.fault:
            said += sentences.fault(m.fault, "")
            if m.kind == "kernel" and m.fault.line:
                file, line = m.fault.file, m.fault.line
        kind = m.fault.kind if m.kind == "kernel" else m.kind
        add(kind, " ".join(said), file, line, "note" if m.is_note else "error")
    for said in spared(done, asked):
        add("spared", said.removeprefix("Note: a").join(("A", "")), "", 1, "note")
    return found


def document(done: Outcome, asked: Asked) -> dict:
    """For `--json`."""
    return {
        "format": 1,
        "file": done.file,
        "status": done.status,
        "ended": ending(done, asked),
        "launches": done.launches,
        "seconds": done.seconds,
        "spared": [{"kernel": k, "full": full, "launches": n} for k, (full, n) in done.spared.items()],
        "errors": compile_errors.compile_error(done.error, done.texts.get(done.file, ""))
        if done.error
        else [],
        "mistakes": [
            {
                "kind": m.fault.kind if m.fault else m.kind,
                "note": m.is_note,
                "places": [{"file": p.file, "line": p.line} for p in done.places(m.frames)],
                "text": body(done, m),
            }
            for m in done.mistakes
        ],
    }
