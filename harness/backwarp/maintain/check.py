"""An author's checks of a puzzle: does it do what it declares? For `backwarp check ID` and the test suite.

Every check is a generator of problems: sentences without a final full stop. No problems means it passed.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from ..course.declare import Puzzle
from ..course.stubs import solution_lines, stub_text
from ..grading.grade import Options
from ..grading.results.naming import GENERIC
from .check_cases import cases, flat, references, tasks
from .check_mistakes import FAULTS, KINDS, PYTHON, graded, solution_text, wrong_kernels, wrong_programs
from .check_mutants import wrong_mutants
from .targets import TRANSCRIPT, without_targets


def problems(puzzle: Puzzle) -> Iterator[str]:
    """The problems found by all checks."""
    missing = [p for p in (puzzle.lesson_path, puzzle.solution_path, puzzle.stub_path) if not p.is_file()]
    for path in missing:
        made = f"; `backwarp reset {puzzle.number}` makes it from the solution" * (path == puzzle.stub_path)
        yield f"there is no {path.relative_to(puzzle.root)}{made}"
    if missing:
        return
    for check in (lesson, listed, hints, tasks, cases, references, stub, solution, mistakes):
        try:
            yield from check(puzzle)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [f.lineno for f in frames if Path(f.filename) == puzzle.folder / "puzzle.py"]
            if not lines:
                raise
            yield f"puzzle.py fails in line {lines[-1]}: {type(error).__name__}: {error}"
            return


# ---- texts -----------------------------------------------------------------------------------------------


def lesson(puzzle: Puzzle) -> Iterator[str]:
    """The lesson's length, and its required contents."""
    text = puzzle.lesson_path.read_text(encoding="utf-8")
    written = TRANSCRIPT.sub(
        "", without_targets(text)
    )  # and not what programs print, nor a passage's other version
    written = re.sub(r"<!-- STUDENT\n.*?-->\n", "", written, flags=re.DOTALL)
    if not 60 <= (count := len(written.splitlines())) <= 150:
        yield f"the lesson has {count} lines, not 60 to 150"
    if not text.startswith(f"# {puzzle.number} "):
        yield f"the lesson does not begin with `# {puzzle.number} `"
    for kernel in puzzle.kernels:
        if kernel.signature not in flat(text):
            yield f"the lesson does not give the signature {kernel.signature}"
    if puzzle.cases[0].name not in text:
        yield f"the lesson does not name the case done by hand, {puzzle.cases[0].name}"
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    if not pictures:
        yield "the lesson has no picture"
    for link in pictures + re.findall(r"(?<!!)\[[^\]]+\]\(([^)#:]+)\)", text):
        if not (puzzle.folder / link).is_file():
            yield f"the lesson links to {link}, which does not exist"


def listed(puzzle: Puzzle) -> Iterator[str]:
    """The puzzle is in the README's ladder, and in the notebook of its part."""
    name = f"**{puzzle.number} {puzzle.id[len(puzzle.number) + 1 :]}**"
    readme = puzzle.root / "README.md"
    if not readme.is_file() or name not in readme.read_text(encoding="utf-8"):
        yield f"the ladder in README.md does not have {name}"
    notebooks = (puzzle.root / "notebooks").glob("*.ipynb")
    if not any(f"{puzzle.id}/README.md" in path.read_text(encoding="utf-8") for path in notebooks):
        yield "no notebook links to the lesson: `python -m backwarp.maintain.notebooks` makes them again"


def hints(puzzle: Puzzle) -> Iterator[str]:
    """There are three different hints, and no text for students contains a line of the solution."""
    if len(set(puzzle.hints)) != 3 or any(len(hint.split()) < 15 for hint in puzzle.hints):
        yield "there must be three different hints of 15 words or more"
    says = [m.says for m in puzzle.mistakes if m.says]
    yield from (
        f"not one sentence that ends with a full stop: {s!r}" for s in says if "\n" in s or s[-1] != "."
    )
    texts = [puzzle.lesson_path.read_text(encoding="utf-8"), stub_text(puzzle), *puzzle.hints, *says]
    squeezed = ["".join(text.split()) for text in texts]
    for line in solution_lines(puzzle):
        code = "".join(re.split("//|#", line)[0].split())
        described = re.fullmatch(
            r"net\.\w+\([^()]*\)", code
        )  # a call from the interface described in the lesson
        if re.search(r"[\[(]", code) and not described and any(code in text for text in squeezed):
            yield f"a hint, a sentence, the stub or the lesson gives a line of the solution away: {line}"


# ---- verdicts --------------------------------------------------------------------------------------------


def stub(puzzle: Puzzle, opener: Callable | None = None) -> Iterator[str]:
    """The stub compiles, and fails. opener: see grade_file."""
    text, slashes = stub_text(puzzle), "#" if puzzle.program else "//"
    kind = graded(puzzle, text, Options("cpu", 0)).kind
    if kind != "untouched" and not puzzle.repair:
        yield f"the stub as it is should be `untouched`, but is {kind or 'right'}"
    # in the first cases that fail, and without an explanation
    shortly = Options("cpu", 0, patience=0, foresee=lambda *_: None, again=False, unnamed=False)
    kind = graded(puzzle, f"{slashes} mine\n{text}", shortly, opener).kind
    if kind not in ("unwritten", "wrong", "fault", "launch"):
        yield f"the stub should compile and fail, but is {kind or 'right'}"


def solution(puzzle: Puzzle, opener: Callable | None = None) -> Iterator[str]:
    """The solution passes every case in both builds, and every gate. opener: see grade_file."""
    verdict = graded(puzzle, solution_text(puzzle), Options("cpu"), opener)
    if not verdict.passed:
        yield f"the solution is {verdict.diagnosis}: {' '.join(verdict.lines)}"
    elif left := [c.name for c in verdict.cases if c.status != "passed"]:
        yield f"the solution did not run in {', '.join(left)}"


def mistakes(puzzle: Puzzle) -> Iterator[str]:
    """Each mutant fails, and each mistake: with the diagnosis it expects, and its own sentence if it has one."""
    yield from declared(puzzle)
    if puzzle.program:
        yield from wrong_programs(puzzle)
    for kernel in puzzle.kernels:
        yield from wrong_kernels(puzzle, kernel)
        yield from wrong_mutants(puzzle, kernel)


def declared(puzzle: Puzzle) -> Iterator[str]:
    """Checks the mistakes' declarations without running anything."""
    if puzzle.program and not puzzle.mistakes:
        yield "there are no mistakes, and a program has no mutants"
    solution = solution_text(puzzle)
    known = (
        {m.name for m in puzzle.mistakes if m.says}
        | (FAULTS | KINDS | GENERIC)
        | (PYTHON if puzzle.program else set())
    )
    for m in puzzle.mistakes:
        if m.apply(solution) == solution:
            yield f"mistake {m.name!r} changes nothing"
        if unknown := sorted(set(m.expected) - known):
            yield f"mistake {m.name!r} expects {', '.join(unknown)}, which there is not"
