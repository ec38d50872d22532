"""Which kernels LeNet runs on.

A kernel of LeNet comes from a puzzle of part 1: the student's file if that version passed, else the solution.
A kernel of a later puzzle can replace it if it is declared with the same arrays; so can two kernels if the
second reads only what the first writes, such as partial sums and their total.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..course.checkout import Course, read_source, source_hash
from ..course.declare import Array, Kernel, Puzzle
from ..course.progress import Entry
from ..errors import CourseError, NoSolution

#: kernel -> the puzzle in which it is written
ROLES = {
    "conv2d_forward": "07",
    "relu_forward": "04",
    "max_pool2d_forward": "08",
    "fc_forward": "03",
    "softmax_cross_entropy_forward": "05",
    "mean_loss": "05",
    "softmax_cross_entropy_backward": "05",
    "fc_backward_weights": "06",
    "fc_backward_bias": "06",
    "fc_backward_input": "06",
    "relu_backward": "04",
    "max_pool2d_backward": "08",
    "conv2d_backward_weights": "09",
    "conv2d_backward_bias": "09",
    "conv2d_backward_input": "10",
    "sgd_step": "11",
}
SOLUTION, YOURS = "the solution's", "yours"
UNSOLVED = "is not solved yet"


@dataclass(frozen=True)
class Choice:
    """Where the kernel for a role comes from. whose: SOLUTION or YOURS; note: why it is not the student's."""

    role: str
    home: Kernel  # as declared in part 1; determines the order of the arrays
    puzzle: Puzzle
    kernel: Kernel
    source: str
    whose: str
    note: str = ""
    then: Kernel | None = None  # launched after `kernel`, on its output

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that come from outside: all except what the first of two kernels passes to the
        second."""
        if not self.then:
            return self.kernel.arrays
        return *(a for a in self.kernel.arrays if not a.is_output), *self.then.outputs

    @property
    def origin(self) -> str:
        """`09 yours`, or `21 the solution's for 09` if another puzzle's kernel stands in."""
        home = ROLES[self.role]
        instead = "" if self.puzzle.number == home else f" for {home}"
        return f"{self.puzzle.number} {self.whose}{instead}"


def choose(
    course: Course,
    entries: Mapping[str, Entry],
    mine: bool = True,
    use: Iterable[str] = (),
    roles: Iterable[str] = tuple(ROLES),
) -> dict[str, Choice]:
    """The kernel for every role, or for some. entries: the progress; use: "09=21" for puzzle 21's kernels instead of 09's.

    If several puzzles replace the same one, each provides the kernels it has; the last one named takes
    precedence.

    Errors: CourseError if a puzzle is missing or nothing fits; NoSolution, naming all unsolved puzzles.
    """
    stands_in = [substitution(course, text) for text in use]
    files: dict[str, tuple[str, str, str]] = {}
    missing: list[str] = []
    chosen, used = {}, set()
    for role in roles:
        home = course.load(ROLES[role])
        puzzle, kernel, then = home, home.kernel(role), None
        for pair in stands_in:
            other = course.load(pair[1])
            match = (counterpart(home.kernel(role), other), None)
            match = match if match[0] else two_passes(home.kernel(role), other)
            if pair[0] == home.id and match:
                puzzle, kernel, then = other, *match
                used.add(pair)
        if puzzle.id not in files:
            try:
                files[puzzle.id] = chosen_source(puzzle, entries.get(puzzle.id), mine)
            except NoSolution as e:
                if not mine:
                    raise
                files[puzzle.id] = "", SOLUTION, ""
                missing.append(str(e))
        chosen[role] = Choice(role, home.kernel(role), puzzle, kernel, *files[puzzle.id], then)
    for home_id, other_id in stands_in:
        if (home_id, other_id) not in used:
            raise CourseError(no_counterpart(course.load(home_id), course.load(other_id)))
    if missing:
        raise nothing_instead(missing)
    return chosen


def substitution(course: Course, text: str) -> tuple[str, str]:
    """`09=21` as two puzzle ids."""
    home, equals, other = text.partition("=")
    if not equals or not home.strip() or not other.strip():
        raise CourseError(
            f"--use {text!r}: write it like --use 09=21, the kernels of 21 in place of those of 09"
        )
    ids = course.resolve(home), course.resolve(other)
    if ids[0] not in {course.resolve(number) for number in ROLES.values()}:
        raise CourseError(f"--use {text}: LeNet has no kernel from {ids[0]}")
    return ids


def counterpart(kernel: Kernel, other: Puzzle) -> Kernel | None:
    """The kernel of `other` that does the same: the one with the same name, or the only one with the same
    arrays, or among those the only one that stores them in the same order."""
    alike = [k for k in other.kernels if kinds(k.arrays) == kinds(kernel.arrays)]
    named = [k for k in alike if k.name == kernel.name]
    stored = [k for k in alike if orders(k.arrays) == orders(kernel.arrays)]
    only = next((found for found in (alike, stored) if len(found) == 1), [None])
    return (named or only)[0]


def two_passes(kernel: Kernel, other: Puzzle) -> tuple[Kernel, Kernel] | None:
    """The two kernels of `other` that do the same in succession, if there is exactly one such pair."""
    pairs = [(first, then) for first in other.kernels for then in other.followers(first)]
    outside = {p: Choice("", kernel, other, p[0], "", "", then=p[1]).arrays for p in pairs}
    alike = [pair for pair in pairs if kinds(outside[pair]) == kinds(kernel.arrays)]
    return alike[0] if len(alike) == 1 else None


def kinds(arrays: Iterable[Array]) -> set:
    """What must match for one kernel to replace another."""
    roles = {"constant": "in"}  # a constant is filled from the array
    return {
        (a.name, "out" if to_be_cleared(a) else roles.get(a.role, a.role), a.dtype, len(a.axes))
        for a in arrays
    }


def orders(arrays: Iterable[Array]) -> set:
    """The axes of arrays, slowest first."""
    return {(a.name, a.letters) for a in arrays}


def to_be_cleared(array: Array) -> bool:
    """Whether a kernel adds to an array that must be zero beforehand."""
    return array.role == "inout" and array.values == "zeros"


def no_counterpart(home: Puzzle, other: Puzzle) -> str:
    wanted = "; ".join(
        f"{k.name} with {', '.join(a.name for a in k.arrays)}" for k in home.kernels if k.name in ROLES
    )
    return f"no kernel of {other.id} has the arrays of one of {home.id} ({wanted}), so it cannot stand in"


def chosen_source(puzzle: Puzzle, entry: Entry | None, mine: bool) -> tuple[str, str, str]:
    """(source, whose, note) of a puzzle: the student's file if that version passed, else the solution.

    Errors: NoSolution in a student's course.
    """
    note = ""
    if mine:
        note = f"{puzzle.number} {UNSOLVED}"
        if entry and entry.solved:
            note = f"your {puzzle.number} has changed since it passed; `backwarp grade {puzzle.number}`"
            try:
                source = read_source(puzzle.stub_path)
                if source_hash(source) == entry.solved["hash"]:
                    return source, YOURS, ""
            except CourseError as e:
                note = str(e)
    if note and not puzzle.has_solution:
        raise NoSolution(note)
    return read_source(puzzle.solution_path), SOLUTION, note


def nothing_instead(missing: list[str]) -> NoSolution:
    """The error about unsolved puzzles, each with the reason, in a student's course."""
    unsolved = sorted(note.split()[0] for note in missing if note.endswith(UNSOLVED))
    lines = [note for note in missing if not note.endswith(UNSOLVED)]
    if unsolved:
        lines.insert(0, f"{', '.join(unsolved)} {'are' if unsolved[1:] else 'is'} not solved yet")
    return NoSolution("\n".join([*lines, "This copy of the course has no solutions to use instead."]))
