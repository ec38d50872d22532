"""The course in a notebook: `%load_ext harness.notebook`.

%%kernel ID [--save]                     grades the cell's CUDA code; --save also writes it into your file
%kernel_from ID [--solution]            puts your file (or a solved puzzle's solution) into the next cell
%hint ID     %profile ID     %counters ID     %picture ID [--kind NAME] [--thread 1,0]     %walk ID

Kernels are graded in a process of their own, so one that crashes or never ends leaves the notebook alive.
%hint, %profile and %picture look at the last cell that was graded for the puzzle, or else at your file.
"""

from __future__ import annotations

import argparse
import atexit
import io
import re
import shlex
from pathlib import Path

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import HTML, Image, display

from .course.checkout import Course, open_course
from .course.declare import Puzzle
from .course.progress import Progress
from .errors import BackwarpError
from .grading.verdict import Verdict
from .grading.worker import GradingProcess
from .report.html import as_html, lines_html, recorder
from .report.pictures.kinds import save_picture, verdict_picture
from .report.text import verdict_lines

WIDTH = 96  # columns


class Shown:
    """Text with colours: HTML in a notebook, plain elsewhere."""

    def __init__(self, lines, **fields):
        self.lines = lines
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        return "\n".join("".join(text for text, _ in line).rstrip() for line in self.lines)

    def _repr_html_(self) -> str:
        return lines_html(self.lines)


def report(verdict: Verdict) -> Shown:
    return Shown(verdict_lines(verdict, WIDTH), verdict=verdict)


def png(figure) -> Image:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return Image(buffer.getvalue())


def options(line: str, *flags: str, optional: str = "", **values: str) -> argparse.Namespace:
    """`ID --flag --name value`. Errors: UsageError, which IPython shows as one line."""

    class Parser(argparse.ArgumentParser):
        def error(self, message):
            raise UsageError(f"{message}; write for example: 09")

    parser = Parser(add_help=False)
    parser.add_argument("id")
    if optional:
        parser.add_argument(optional, nargs="?", default="")
    for flag in flags:
        parser.add_argument(f"--{flag}", action="store_true")
    for name, default in values.items():
        parser.add_argument(f"--{name}", default=default)
    try:
        return parser.parse_args(shlex.split(line))
    except ValueError as error:
        raise UsageError(str(error)) from None


@magics_class
class CourseMagics(Magics):
    """See the module's text."""

    def __init__(self, shell, course: Course | None = None):
        super().__init__(shell)
        self.course = course or open_course()
        self.progress = Progress(self.course.root)
        self.process = GradingProcess()
        atexit.register(self.process.end)

    def load(self, text: str) -> Puzzle:
        """Errors: UsageError."""
        try:
            return self.course.load(text)
        except BackwarpError as error:
            raise UsageError(str(error)) from None

    def cell_path(self, puzzle: Puzzle) -> Path:
        """Where the last graded cell of a puzzle is kept."""
        return self.course.root / ".backwarp" / "notebook" / puzzle.id / puzzle.file

    def newest(self, puzzle: Puzzle) -> Path:
        """The last cell that was graded, or the student's file, whichever is newer."""
        cell, own = self.cell_path(puzzle), puzzle.stub_path
        if cell.exists() and (not own.exists() or cell.stat().st_mtime >= own.stat().st_mtime):
            return cell
        return own

    @cell_magic
    def kernel(self, line: str, cell: str) -> Shown:
        """%%kernel ID [--save]: grades the cell."""
        chosen = options(line, "save")
        puzzle = self.load(chosen.id)
        path = self.cell_path(puzzle)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(cell, encoding="utf-8")
        verdict = self.process.grade(puzzle, path)
        verdict.file = "this cell"
        for verb, magic in (("hint", "%hint"), ("profile", "%profile")):
            verdict.next = verdict.next.replace(f"backwarp {verb}", magic)
        verdict.next = re.sub(r"`?backwarp grade \d+`?", "run the cell again", verdict.next)
        self.progress.record(verdict)
        if chosen.save:
            self.save(puzzle, cell)
        if found := verdict_picture(verdict):
            display(report(verdict), png(found[0]))
            return None
        return report(verdict)

    def save(self, puzzle: Puzzle, text: str) -> None:
        from .course.reset import keep

        if puzzle.stub_path.exists() and puzzle.stub_path.read_bytes() != text.encode():
            keep(puzzle.stub_path)
        puzzle.stub_path.write_text(text, encoding="utf-8")

    @line_magic
    def kernel_from(self, line: str) -> None:
        """%kernel_from ID: the text of your file, as a cell to edit."""
        chosen = options(line, "solution")
        puzzle = self.load(chosen.id)
        path = puzzle.stub_path
        if chosen.solution:
            if not self.progress.entry(puzzle.id).solved:
                raise UsageError(f"{puzzle.id} is not solved yet")
            path = puzzle.solution_path
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"{path.name} cannot be read: {error}") from None
        self.shell.set_next_input(f"%%kernel {puzzle.number}\n{text}")

    @line_magic
    def hint(self, line: str) -> Shown:
        """%hint ID [NUMBER]: one hint more each time, or the one asked for."""
        chosen = options(line, optional="number")
        puzzle = self.load(chosen.id)
        total = len(puzzle.hints)
        if chosen.number and not (chosen.number.isdecimal() and 1 <= int(chosen.number) <= total):
            raise UsageError(f"{puzzle.id} has hints 1 to {total}")
        if not chosen.number:
            from .grading.repair import telling
            from .report.text import body_lines

            level, paragraphs = telling.next_hint(puzzle, self.progress)
            if paragraphs:
                head = [(f"{puzzle.id}, hint {level} of {telling.LEVELS} about your file", "bold")]
                return Shown([head, *(line for text in paragraphs for line in body_lines(text, WIDTH))])
        seen = int(chosen.number or min(self.progress.entry(puzzle.id).hints + 1, total))
        self.progress.update(puzzle.id, lambda e: setattr(e, "hints", max(e.hints, seen)))
        from .report.text import wrap

        head = [(f"{puzzle.id}, hint {seen} of {total}", "bold")]
        return Shown(
            [head, *([(f"  {part}", "")] for part in wrap(puzzle.hints[seen - 1], WIDTH - 2, hang=""))]
        )

    @line_magic
    def profile(self, line: str) -> HTML | Shown:
        """%profile ID: counters, line by line."""
        chosen = options(line, "solution", case="")
        puzzle = self.load(chosen.id)
        from .measure.profile import profile_file
        from .report.profile import CAVEAT, kernel_parts

        try:
            path = puzzle.solution_path if chosen.solution else self.newest(puzzle)
            found = profile_file(puzzle, path, chosen.case)
        except BackwarpError as error:
            raise UsageError(str(error)) from None
        if not found.kernels:
            return report(found.verdict)
        console = recorder(120)
        for kernel in found.kernels:
            for part in kernel_parts(kernel, found.source, console.width):
                console.print(part, soft_wrap=True)
        console.print(CAVEAT)
        text = console.export_text(clear=False)
        return Page(as_html(console).replace("pre-wrap", "pre"), text)

    @line_magic
    def counters(self, line: str) -> dict:
        """%counters ID: every counter of the first kernel, as a dict."""
        chosen = options(line, "solution", case="")
        puzzle = self.load(chosen.id)
        from .measure.profile import profile_file

        try:
            found = profile_file(
                puzzle, puzzle.solution_path if chosen.solution else self.newest(puzzle), chosen.case
            )
        except BackwarpError as error:
            raise UsageError(str(error)) from None
        return {k.kernel: {n: v for n, v in k.counters.items() if v and n != "lines"} for k in found.kernels}

    @line_magic
    def picture(self, line: str) -> Image:
        """%picture ID [--kind NAME] [--moving]: as `backwarp picture`; moving: a GIF."""
        chosen = options(line, "solution", "moving", kind="", thread="", block="", kernel="", case="")
        puzzle = self.load(chosen.id)
        target = self.cell_path(puzzle).with_suffix(".gif" if chosen.moving else ".png")
        target.parent.mkdir(parents=True, exist_ok=True)
        path = puzzle.solution_path if chosen.solution else self.newest(puzzle)
        try:
            save_picture(
                puzzle, path, target, chosen.kind, chosen.kernel, chosen.case, chosen.block, chosen.thread
            )
        except BackwarpError as error:
            raise UsageError(str(error)) from None
        return Image(target.read_bytes(), format=target.suffix[1:])

    @line_magic
    def walk(self, line: str):
        """%walk ID: a slider over the threads of a block, with the picture of each; needs ipywidgets."""
        chosen = options(line, "solution", block="0", kernel="", case="")
        puzzle = self.load(chosen.id)
        try:
            import ipywidgets
        except ImportError:
            raise UsageError("%walk needs ipywidgets: %pip install ipywidgets") from None
        try:
            threads = self.threads(puzzle, chosen)
        except BackwarpError as error:
            raise UsageError(str(error)) from None
        slider = ipywidgets.IntSlider(0, 0, threads - 1, description="thread", continuous_update=False)
        more = " --solution" * chosen.solution + "".join(
            f" --{name} {getattr(chosen, name)}"
            for name in ("block", "kernel", "case")
            if getattr(chosen, name)
        )

        def show(thread: int) -> None:
            try:
                display(self.picture(f"{puzzle.number} --kind access --thread {thread}{more}"))
            except UsageError as error:
                print(error)

        return ipywidgets.interactive(show, thread=slider)

    def threads(self, puzzle: Puzzle, chosen: argparse.Namespace) -> int:
        """How many threads a block of the chosen kernel has. Errors: CourseError."""
        from .course.checkout import read_source
        from .course.cuda_values import tunables
        from .report.pictures.kinds import what_to_draw
        from .report.pictures.probe import count

        path = puzzle.solution_path if chosen.solution else self.newest(puzzle)
        kernel, case = what_to_draw(puzzle, path, chosen.kernel, chosen.case)
        return count(kernel.launch(puzzle.full_dims(case), tunables(read_source(path, path.name))).block)


class Page(Shown):
    """HTML and the text it stands for."""

    def __init__(self, html: str, text: str):
        super().__init__([[(line, "")] for line in text.splitlines()])
        self.html = html

    def _repr_html_(self) -> str:
        return self.html


def load_ipython_extension(shell) -> None:
    """What `%load_ext harness.notebook` calls."""
    try:
        shell.register_magics(CourseMagics(shell))
    except BackwarpError as error:
        raise UsageError(str(error)) from None
