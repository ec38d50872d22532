"""A timeline of puzzle 34's pipeline: when each pair of tiles is being filled, and when it is used.

It is drawn from runs whose threads print what they are about to do, in the order of thread 0; durations are
not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from backwarp.course.declare import Case, Puzzle

from .canvas import COLOURS, FAINT, INK, LETTER, WIDTH, Pen, of_case
from .counted import small_tiles, solved
from .steps import run, watched

TILE, BUFFERS = 4, (2, 3)
#: what is printed before which statement: 1000 times its place in this list, plus a number
STATEMENTS = (
    ("start", r"copy_async\(&filters[^;]*;", "next"),  # the step
    ("commit", r"commit_copies\(\);", "0"),
    ("wait", r"wait_copies<STAGES - 2>\(\);", "STAGES - 2"),  # newest groups not waited for
    ("barrier", r"__syncthreads\(\);", "0"),
    ("multiply", r"sum \+= [^;]*;", "step"),
)
WIDTHS = {"start": 1, "wait": 0.8, "barrier": 0.8, "multiply": 2.5}  # in the drawing; a commit takes no room
EDGE, TOP, ROW, PANEL = 84, 92, 30, 40  # pixels: left; above panel 1; row height; between panels


@dataclass(frozen=True)
class Event:
    """kind: of STATEMENTS. number: the step, or for a wait how many groups may be late."""

    kind: str
    number: int


@dataclass(frozen=True)
class Bar:
    """From event to event, inclusive. what: "way" (the copies are under way) | "use"."""

    what: str
    step: int
    first: int
    last: int


def events(device, puzzle: Puzzle, case: Case, source: str) -> list[Event]:
    """What thread 0 of block 0 does, in order."""
    for place, (_, statement, number) in enumerate(STATEMENTS):
        source = watched(source, statement, f"{place * 1000.0} + {number}")
    printed = [int(row[0]) for row in run(device, puzzle, case, puzzle.kernels[0], source)]
    found = [Event(STATEMENTS[code // 1000][0], code % 1000) for code in printed]
    return [event for event, _ in groupby(found)]  # a step's many products count as one


def bars(found: list[Event]) -> list[Bar]:
    """When the copies of each step are under way (until the wait for them), and when it is multiplied."""
    result, groups, open_ = [], [], []
    for i, event in enumerate(found):
        if event.kind == "start":
            open_.append((event.number, i))
        elif event.kind == "commit":
            groups.append(open_)
            open_ = []
        elif event.kind == "wait":
            while len(groups) > event.number:
                result += [Bar("way", step, first, i) for step, first in groups.pop(0)]
        elif event.kind == "multiply":
            result.append(Bar("use", event.number, i, i))
    return result


def timeline_picture(title: str, note: str, runs: dict[int, list[Event]]) -> Figure:
    """One panel for each number of buffers: a row for the thread, and one for each pair of tiles."""
    bottom = TOP + sum((stages + 1) * ROW + PANEL for stages in runs)
    pen = Pen(bottom + 10, ROW)
    pen.text(20, 24, title, "title")
    pen.text(20, 50, note, "label", FAINT)
    longest = max(places(found)[-1] for found in runs.values())
    unit = (WIDTH - EDGE - 12) / longest
    y = float(TOP)
    for stages, found in runs.items():
        pen.text(20, y - 14, f"STAGES = {stages}", "label")
        draw_panel(pen, found, stages, y, unit)
        y += (stages + 1) * ROW + PANEL
    x = 20.0
    for colour, says in (
        (COLOURS["read"], "copies under way"),
        (COLOURS["write"], "tiles multiplied"),
        ("#ffffff", "not in use"),
    ):
        pen.cell(x, bottom - 22, colour, side=16)
        pen.text(x + 22, bottom - 14, says, "label")
        x += 22 + LETTER * len(says) + 24
    return pen.figure


def places(found: list[Event]) -> list[float]:
    """The start of each event, and the end of the last."""
    result = [0.0]
    for event in found:
        result.append(result[-1] + WIDTHS.get(event.kind, 0))
    return result


def draw_panel(pen: Pen, found: list[Event], stages: int, y: float, unit: float) -> None:
    at = [EDGE + unit * place for place in places(found)]
    names = {"start": "c{}", "wait": "w", "barrier": "b", "multiply": "{}"}
    for row in range(stages + 1):
        name = f"pair {row - 1}" if row else "thread"
        pen.text(EDGE - 8, y + (row + 0.5) * ROW, name, "axis", FAINT, "right")
        if row:
            bar(pen, at[0], at[-1], y + row * ROW, "#ffffff")
    for i, event in enumerate(found):
        if event.kind in names:
            colour = COLOURS["write"] if event.kind == "multiply" else "#eeeeee"
            bar(pen, at[i], at[i + 1], y, colour, names[event.kind].format(event.number))
    for drawn in bars(found):
        row = y + (1 + drawn.step % stages) * ROW
        colour = COLOURS["read" if drawn.what == "way" else "write"]
        bar(pen, at[drawn.first], at[drawn.last + 1], row, colour, f"{drawn.step}")


def bar(pen: Pen, left: float, right: float, y: float, colour: str, text: str = "") -> None:
    style = {"facecolor": colour, "edgecolor": "#999999", "linewidth": 0.8}
    pen.axes.add_patch(Rectangle((left, y + 2), right - left, ROW - 4, **style))
    pen.text((left + right) / 2, y + 0.53 * ROW, text, "axis", INK, "center")


def draw(puzzle: Puzzle, source: str = "") -> Figure:
    """Errors: CourseError if the kernel lacks the watched statements."""
    from backwarp.devices import confined_device

    case = next(c for c in puzzle.cases if c.name == "drawn")
    source = small_tiles(source or solved(puzzle), TILE)
    with confined_device("cpu", checks="memory") as device:
        device.quick = True
        sources = {n: small_tiles(source, n, "STAGES") for n in BUFFERS}
        runs = {n: events(device, puzzle, case, text) for n, text in sources.items()}
    says = f"tiles of {TILE} x {TILE}; numbers: the step. w: wait, b: barrier, c3: start the copies of step 3"
    note = of_case(case.name, says, ", ")
    return timeline_picture(f"{puzzle.kernels[0].name}: what a thread does, and its tiles", note, runs)
