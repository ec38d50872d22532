"""Commands in lessons, with what they print: `python -m backwarp.maintain.transcripts` runs them again.

A transcript is a fence whose first line is `$ backwarp ...` of step, trace or exec. One about a student's own kernel shows the course's, of which the
lines that are to be found are left out.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from ..course.checkout import Course, open_course
from ..course.stubs import solution_lines
from .targets import TRANSCRIPT

HIDDEN = "..."


def pages(course: Course) -> Iterator[Path]:
    """Those with transcripts."""
    for path in sorted((course.root / "puzzles").glob("*/*.md")):
        if TRANSCRIPT.search(path.read_text(encoding="utf-8")):
            yield path


def renewed(course: Course, text: str, programs: bool = False) -> str:
    """A page with what its commands print now. programs: also `backwarp exec`, which needs a compiler."""

    def again(fence: re.Match) -> str:
        indent, command = fence[1], fence[2]
        if command.startswith("backwarp exec") and not programs:
            return fence[0]
        printed = output(course, command).rstrip("\n").split("\n")
        lines = ["```", f"$ {command}", *printed, "```"]
        return "\n".join(f"{indent}{line}".rstrip() for line in lines)

    return TRANSCRIPT.sub(again, text)


def output(course: Course, command: str) -> str:
    """What a command prints in the course's folder; its lines of solutions left out."""
    from .. import cli  # which has a verb that checks lessons

    words = shlex.split(command)[1:]
    if words[0] == "exec":  # the program's output comes first, then what is wrong in it
        wide = os.environ | {"COLUMNS": "100"}
        command = [sys.executable, "-m", "backwarp", *words]
        done = subprocess.run(command, cwd=course.root, env=wide, capture_output=True, text=True)
        return done.stdout + done.stderr
    puzzle = course.load(words[1])
    own = "--file" not in words and not puzzle.repair
    done = CliRunner().invoke(cli.cli, words + ["--solution"] * own)
    if done.exit_code or done.exception:
        raise RuntimeError(f"{command}: {done.output or done.exception}")
    hidden = {line.strip() for line in solution_lines(puzzle)} if own else set()

    def shown(line: str) -> str:
        place, bar, code = line.partition(" | ")
        return f"{place}{bar}{HIDDEN}" if place.strip().isdecimal() and code.strip() in hidden else line

    return "\n".join(map(shown, done.output.split("\n")))


def main() -> None:
    course = open_course()
    for path in pages(course):
        text = path.read_text(encoding="utf-8")
        if (new := renewed(course, text, programs=True)) != text:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(course.root))


if __name__ == "__main__":
    sys.exit(main())
