"""The course in a notebook: `%load_ext backwarp.notebook`.

%%kernel ID [--save [--force]]          grades the cell's code; --save also writes it into your file, unless that one
                                        passes and the cell does not (--force: even then)
%check ID                               an error unless the last cell that this notebook graded passes
%kernel_from ID [--solution | --stub]   puts your file (or a solved puzzle's solution, or the stub) into the next cell
%predict ID [NUMBER]                    compares my_guess with what a run of the course's kernel shows; the second
                                        wrong guess is told the answer
%step ID [--to fault] [--break 38:i==3]  a run of your kernel, a failing one if there is one, moment by moment
%trace ID [--element r=0,s=1]           what an element of the output is the sum of, beside what belongs in it
%explore ID --solution     %picture ID [--kind NAME] [--thread 1,0]     %profile ID     %counters ID     %hint ID
%%cuda [KERNEL] --block 32 --arg ...    runs any kernel, as `backwarp run` does

Kernels are graded in a separate process, so a crash or an endless loop does not take the notebook down.
Magics that inspect a kernel use the puzzle's last graded cell, or else your file.
"""

from __future__ import annotations

import argparse
import atexit
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import display

from .system import elsewhere

if says := elsewhere():
    raise UsageError(says)  # which IPython shows as one line

from .begin import installed
from .course import walkthrough
from .course.cells import in_cell, in_file, is_stub
from .course.checkout import Course, open_course, source_hash
from .course.declare import Puzzle
from .course.progress import Progress
from .course.stubs import stub_text
from .errors import BackwarpError, NoCourse
from .grading.verdict import Verdict
from .grading.worker import GradingProcess
from .report import predictions
from .report.html import as_html, lines_of, recorder
from .report.overview import debrief
from .report.pictures import explore
from .report.pictures.kinds import save_picture, verdict_picture
from .report.shown import WIDTH, Page, Picture, Shown, png, report, told
from .report.text import verdict_lines

GUESSES = 2  # wrong ones, before the answer is told


def options(line: str, *flags: str, optional: str = "", **values: str) -> argparse.Namespace:
    """`ID --flag --name value`. Errors: UsageError, which IPython shows as one line."""

    parser = UsageParser(add_help=False)
    parser.add_argument("id")
    if optional:
        parser.add_argument(optional, nargs="?", default="")
    for flag in flags:
        parser.add_argument(f"--{flag}", action="store_true")
    for name, default in values.items():
        parser.add_argument(f"--{name}", default=default)
    return parsed(parser, line)


class UsageParser(argparse.ArgumentParser):
    """A parser that reports errors as one line in a notebook."""

    def error(self, message):
        raise UsageError(f"{message}; write for example: 09")


def parsed(parser: UsageParser, line: str) -> argparse.Namespace:
    try:
        return parser.parse_args(shlex.split(line))
    except ValueError as error:
        raise UsageError(str(error)) from None


def sizes(text: str) -> tuple[int, ...]:
    """`16` or `16,4`."""
    return tuple(map(int, text.replace("x", ",").split(",")))


def text_of(path: Path) -> str:
    """The text of a file, "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


class Graded:
    """What a cell gives whose verdict is shown already."""

    def __init__(self, verdict: Verdict):
        self.verdict = verdict

    def _ipython_display_(self) -> None:
        """Nothing more is shown."""


@magics_class
class CourseMagics(Magics):
    """See the module docstring."""

    def __init__(self, shell, course: Course):
        super().__init__(shell)
        self.course = course
        self.progress = Progress(self.course.root)
        self.process = GradingProcess()
        self.verdicts: dict[str, Verdict] = {}  # of the last cell for each puzzle
        self.guesses: dict[tuple[str, int], set[float]] = {}  # the wrong ones
        self.unstarted = ("", 0)  # of which puzzle that was said last, and in which cell
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

    def keep_cell(self, path: Path, text: str) -> None:
        """A blank line takes the place of the magic's, so that lines are numbered as in the cell."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"\n{text}", encoding="utf-8")

    def newest(self, puzzle: Puzzle) -> Path:
        """The last cell that was graded, or the student's file if that is newer and another text."""
        cell, own = self.cell_path(puzzle), puzzle.stub_path
        if not cell.exists():
            return own
        same = text_of(cell) == f"\n{text_of(own)}"
        return cell if same or not own.exists() or cell.stat().st_mtime >= own.stat().st_mtime else own

    def not_started(self, puzzle: Puzzle) -> Shown | None:
        """Says so, once in a cell."""
        before, self.unstarted = self.unstarted, (puzzle.id, self.shell.execution_count)
        if self.unstarted == before:
            return None
        says = f"{puzzle.id} is not started yet: here you will see what its threads do, and what it costs."
        return Shown(told([says]))

    @cell_magic
    def kernel(self, line: str, cell: str) -> Shown | Graded:
        """%%kernel ID [--save [--force]]: grades the cell; what it returns has the `verdict`."""
        chosen = options(line, "save", "force")
        puzzle = self.load(chosen.id)
        cell = in_file(puzzle, cell)
        self.verdicts.pop(puzzle.id, None)
        if is_stub(puzzle, cell) or self.mended_elsewhere(puzzle, cell):
            return self.not_begun(puzzle, line)
        path = self.cell_path(puzzle)
        before = text_of(path)[1:]
        verdict = self.verdicts[puzzle.id] = self.graded(puzzle, cell, "this cell")
        more = []
        if chosen.save and (said := self.save(puzzle, cell, before, verdict, chosen.force)):
            more.append(said)
        if verdict.passed:
            own = f"%kernel_from {puzzle.number} --solution"
            said = [t.replace(f"backwarp solution {puzzle.number}", own) for t in debrief(puzzle)]
            more += [re.sub(r"\bbackwarp (hint|profile|picture|step|trace)\b", r"%\1", t) for t in said]
        shown = report(verdict, more)
        searched, picture = verdict.is_repairable and not puzzle.program, verdict_picture(verdict)
        if not searched and not picture:
            return shown
        place = display(shown, display_id=True)
        if picture:
            display(Picture(png(picture[0]), picture[1]))
        if searched and (found := self.process.repair(puzzle, path, verdict)):
            verdict.repair = found
            place.update(report(verdict, more))
        self.progress.keep_repair(verdict)
        return Graded(verdict)

    def graded(self, puzzle: Puzzle, text: str, called: str) -> Verdict:
        """The verdict on a text, in the notebook's words, and counted as an attempt at the file with this text."""
        path = self.cell_path(puzzle)
        self.keep_cell(path, text)
        verdict = self.process.grade(puzzle, path)
        verdict.file = called
        for verb, magic in (("hint", "%hint"), ("profile", "%profile")):
            verdict.next = verdict.next.replace(f"backwarp {verb}", magic)
        verdict.next = re.sub(r"`?backwarp grade \d+`?", "run the cell again", verdict.next)
        verdict.look = verdict.look.replace(f" {shlex.join(['--file', str(path)])}", "").replace(
            "backwarp ", "%"
        )
        self.progress.record(replace(verdict, source_hash=source_hash(text)))
        return verdict

    def mended_elsewhere(self, puzzle: Puzzle, cell: str) -> bool:
        """Is a cell still the stub of a bug hunt, which is graded like any kernel, while the file has another text?"""
        stub = stub_text(puzzle).split()
        return (
            bool(puzzle.repair)
            and cell.split() == stub
            and text_of(puzzle.stub_path).split() not in ([], stub)
        )

    def not_begun(self, puzzle: Puzzle, line: str) -> Shown:
        """The cell is still the stub: replace it with the student's file if that contains more."""
        own = text_of(puzzle.stub_path)
        if not own.strip() or is_stub(puzzle, own):
            says = f"{puzzle.id} is not started yet: write your code at the TODOs of this cell, and run it (Shift+Enter)."
            return Shown(told([says]))
        self.shell.set_next_input(f"%%kernel {line}\n{in_cell(puzzle, own)}", replace=True)
        verdict = self.graded(puzzle, own, f"puzzles/{puzzle.id}/{puzzle.file}")
        says = f"This cell was the stub. It now has your file, puzzles/{puzzle.id}/{puzzle.file}:"
        return Shown([*told([says]), *verdict_lines(verdict, WIDTH)])

    def save(self, puzzle: Puzzle, cell: str, before: str, verdict: Verdict, force: bool) -> str:
        """Writes the cell into the student's file; returns what there is to say. before: the last cell."""
        from .course.reset import keep

        own, name = text_of(puzzle.stub_path), f"puzzles/{puzzle.id}/{puzzle.file}"
        if own == cell:
            return ""
        if not (verdict.passed or force) and self.passes(puzzle, own):
            return f"Not saved: {name} passes, and this cell does not. `%%kernel {puzzle.number} --save --force` saves it."
        backup = None if own == before or is_stub(puzzle, own) else keep(puzzle.stub_path)
        puzzle.stub_path.write_text(cell, encoding="utf-8")
        return f"Saved to {name}{f'; the previous version is kept as {backup.name}' if backup else ''}."

    def passes(self, puzzle: Puzzle, text: str) -> bool:
        """Does the student's file, which has this text, pass?"""
        if is_stub(puzzle, text) or not text.strip():
            return False
        solved = self.progress.entry(puzzle.id).solved
        if solved and solved["hash"] == source_hash(text):
            return True
        return self.process.grade(puzzle, puzzle.stub_path).passed

    @line_magic
    def check(self, line: str) -> None:
        """%check ID: an error unless the last cell that this notebook graded passes. For graders of notebooks: files of whoever
        runs them do not count, nor cells of other notebooks. It prints and returns nothing, as they compare both."""
        puzzle = self.load(options(line).id)
        verdict = self.verdicts.get(puzzle.id)
        if verdict is None:
            raise AssertionError(f"{puzzle.id}: no cell of this notebook was graded that is not the stub")
        if not verdict.passed:
            raise AssertionError(repr(report(verdict, [])))

    @line_magic
    def kernel_from(self, line: str) -> None:
        """%kernel_from ID: the text of your file, as a cell to edit."""
        chosen = options(line, "solution", "stub")
        puzzle = self.load(chosen.id)
        path = puzzle.stub_path
        try:
            if chosen.solution:
                path = puzzle.solution_path
                if not self.progress.entry(puzzle.id).solved:
                    raise UsageError(f"{puzzle.id} is not solved yet")
            text = stub_text(puzzle) if chosen.stub else path.read_text(encoding="utf-8")
        except BackwarpError as error:
            raise UsageError(str(error)) from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{path.name} cannot be read: {error}") from None
        self.shell.set_next_input(f"%%kernel {puzzle.number}\n{in_cell(puzzle, text)}")

    @line_magic
    def hint(self, line: str) -> Shown:
        """%hint ID [NUMBER]: one more hint each time, or hint NUMBER."""
        chosen = options(line, optional="number")
        puzzle = self.load(chosen.id)
        total = len(puzzle.hints)
        if chosen.number and not (chosen.number.isdecimal() and 1 <= int(chosen.number) <= total):
            raise UsageError(f"{puzzle.id} has hints 1 to {total}")
        if not chosen.number:
            from .grading.repair import telling

            level, paragraphs = telling.next_hint(puzzle, self.progress, self.newest(puzzle))
            if paragraphs:
                head = [(f"{puzzle.id}, hint {level} of {telling.LEVELS} about your kernel", "bold")]
                return Shown([head, *told(paragraphs)])
        seen = int(chosen.number or min(self.progress.entry(puzzle.id).hints + 1, total))
        self.progress.update(puzzle.id, lambda e: setattr(e, "hints", max(e.hints, seen)))
        from .report.terminal import wrap

        head = [(f"{puzzle.id}, hint {seen} of {total}", "bold")]
        return Shown(
            [head, *([(f"  {part}", "")] for part in wrap(puzzle.hints[seen - 1], WIDTH - 2, hang=""))]
        )

    @line_magic
    def profile(self, line: str) -> Shown | None:
        """%profile ID: counters, line by line."""
        chosen = options(line, "solution", case="")
        puzzle = self.load(chosen.id)
        from .measure.profile import profile_file
        from .report.profile import print_profile

        try:
            path = puzzle.solution_path if chosen.solution else self.newest(puzzle)
            if not chosen.solution and is_stub(puzzle, text_of(path)):
                return self.not_started(puzzle)
            found = profile_file(puzzle, path, chosen.case)
        except BackwarpError as error:
            raise UsageError(str(error)) from None
        if not found.kernels:
            found.verdict.next = found.verdict.next.replace("backwarp hint", "%hint")
            return report(found.verdict)
        console = recorder(WIDTH)
        print_profile(found, console, f"%%kernel {puzzle.number}", f"%counters {puzzle.number}")
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
    def picture(self, line: str) -> Picture:
        """%picture ID [--kind NAME] [--moving]: as `backwarp picture`; moving: a GIF."""
        chosen = options(line, "solution", "moving", kind="", thread="", block="", kernel="", case="")
        puzzle = self.load(chosen.id)
        target = self.cell_path(puzzle).with_suffix(".gif" if chosen.moving else ".png")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            path = puzzle.solution_path if chosen.solution else self.newest(puzzle)
            save_picture(
                puzzle, path, target, chosen.kind, chosen.kernel, chosen.case, chosen.block, chosen.thread
            )
        except BackwarpError as error:
            raise UsageError(str(error)) from None
        return Picture(target.read_bytes(), f"{puzzle.id}: what its threads touch", target.suffix[1:])

    @line_magic
    def explore(self, line: str) -> None:
        """%explore ID --solution: sliders over a run of the course's kernel, without its code: block, warp, thread and time."""
        chosen = options(line, "solution", kernel="", case="")
        puzzle = self.load(chosen.id)
        if not chosen.solution:
            raise UsageError(
                f"%step {puzzle.number} goes through a run of your kernel; --solution: the course's, counted"
            )
        kept = self.course.root / walkthrough.kept_run(line)
        try:
            if not puzzle.has_solution and kept.is_file():
                html = kept.read_text(encoding="utf-8")
            else:
                source = puzzle.solution_path.read_text(encoding="utf-8")
                html = explore.explore(puzzle, source, chosen.kernel, chosen.case)
            display(Page(html, f"{puzzle.id}: sliders over a run"))
        except BackwarpError as error:
            display(Shown(told([str(error)])))

    def recorded(self, line: str, *names: str):
        """(what the options are, the recorded run that they ask for), or None after saying that there is nothing yet."""
        from .grading.recorded import record_file

        chosen = options(line, "solution", kernel="", case="", **dict.fromkeys(names, ""))
        puzzle = self.load(chosen.id)
        try:
            block = sizes(chosen.block) if "block" in names and chosen.block else ()
            path = puzzle.solution_path if chosen.solution else self.newest(puzzle)
            if not chosen.solution and is_stub(puzzle, text_of(path)):
                if shown := self.not_started(puzzle):
                    display(shown)
                return chosen, None
            return chosen, record_file(puzzle, path, chosen.case, chosen.kernel, block)
        except (BackwarpError, ValueError) as error:
            raise UsageError(str(error)) from None

    @line_magic
    def step(self, line: str) -> None:
        """%step ID [--to fault|LINE|ELEMENT] [--break LINE[:CONDITION]] [--thread X,Y] [--block X,Y]: a run of your kernel, a failing
        one if there is one, moment by moment."""
        chosen, recorded = self.recorded(line, "to", "thread", "block", "break")
        if not recorded:
            return
        from .report.pictures.stepping import stepping
        from .report.step import text
        from .step import begin

        try:
            places = [sizes(text) if text else () for text in (chosen.thread, chosen.block)]
            stops = list(filter(None, [getattr(chosen, "break")]))
            session = begin(recorded, chosen.to, *places, stops=stops)
        except (BackwarpError, ValueError) as error:
            raise UsageError(str(error)) from None
        display(Page(stepping(recorded, session), repr(Shown(text(recorded, session, 8)))))

    @line_magic
    def trace(self, line: str) -> None:
        """%trace ID [--element r=0,s=1]: what an element of the output is the sum of, beside what belongs in it."""
        chosen, recorded = self.recorded(line, "element")
        if not recorded:
            return
        from .report.trace import lines_of
        from .step import traced

        try:
            lines = lines_of(recorded, *traced(recorded, chosen.element))
        except BackwarpError as error:
            raise UsageError(str(error)) from None
        display(
            Shown(
                [[(part.replace("backwarp step", "%step"), style) for part, style in line] for line in lines]
            )
        )

    @line_magic
    def predict(self, line: str) -> Shown:
        """%predict ID [NUMBER]: the variable my_guess against a run of the course's kernel. part6: not about a puzzle."""
        chosen = options(line, optional="number")
        puzzle = None if chosen.id.startswith("part") else self.load(chosen.id)
        asked_in = puzzle.number if puzzle else chosen.id
        known = walkthrough.predictions(self.course.root, asked_in)
        number = int(chosen.number or 1) if (chosen.number or "1").isdecimal() else 0
        if not 1 <= number <= len(known):
            raise UsageError(f"{puzzle.id if puzzle else asked_in} has {len(known)} predictions")
        guess = self.shell.user_ns.get("my_guess", ...)
        if guess is ... or guess is None:
            return Shown(told(["Put your guess in place of the dots, and run the cell again."]))
        try:
            right, says = predictions.judge(puzzle, known[number - 1], guess)
        except BackwarpError as error:
            raise UsageError(str(error)) from None
        wrong = self.guesses.setdefault((asked_in, number), set())
        if not right and len(wrong | {float(guess)}) < GUESSES:
            wrong.add(float(guess))
            return Shown(told([f"It is not {float(guess):,g}. Guess once more: then the answer is shown."]))
        return Shown([[(says[0], "bold green" if right else "bold")], *told(says[1:])])

    @cell_magic
    def cuda(self, line: str, cell: str) -> Shown:
        """%%cuda [KERNEL] [--grid N] [--block N] [--arg NAME=VALUE]...: any kernel, with all checks."""
        from .report.run import print_run
        from .run import Asked, run_file

        parser = UsageParser(add_help=False)
        parser.add_argument("kernel", nargs="?", default="")
        parser.add_argument("--arg", action="append", default=[])
        for name in ("grid", "block"):
            parser.add_argument(f"--{name}", default=(1,), type=sizes)
        chosen = parsed(parser, line)
        path = self.course.root / ".backwarp" / "notebook" / "cell.cu"
        self.keep_cell(path, cell)
        try:
            asked = Asked(path, chosen.kernel, chosen.grid, chosen.block, tuple(chosen.arg), count=False)
            console = recorder(WIDTH)
            print_run(console, run_file(asked, self.process.device), WIDTH)  # times differ from run to run
        except BackwarpError as error:
            raise UsageError(str(error)) from None
        return Shown(lines_of(console))


def load_ipython_extension(shell) -> None:
    """What `%load_ext backwarp.notebook` calls."""
    try:
        try:
            course = open_course()
        except NoCourse as error:
            course = installed()
            print(f"Note: {error}. Cells are graded with the installed one; no progress is kept.")
        shell.register_magics(CourseMagics(shell, course))
    except BackwarpError as error:
        raise UsageError(str(error)) from None

    def tell(shell, kind, error, trace, tb_offset=None) -> None:
        """Shows an error's message without the harness's traceback."""
        print(error, file=sys.stderr)

    shell.set_custom_exc((BackwarpError,), tell)
