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
UNDER_WAY, USE, WAITS, UNUSED = COLOURS["read"], COLOURS["write"], "#eeeeee", "#ffffff"


@dataclass(frozen=True)
class Span:
    """What is drawn in a row: left and right in units of its picture."""

    left: float
    right: float
    colour: str
    text: str = ""


Row = tuple[str, list[Span]]  # with its name


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


def timeline_picture(title: str, note: str, panels: dict[str, list[Row]], legend: dict[str, str]) -> Figure:
    """A panel for each run. All are as wide: units differ. legend: text -> colour."""
    bottom = TOP + sum(len(rows) * ROW + PANEL for rows in panels.values())
    pen = Pen(bottom + 10, ROW)
    pen.text(20, 24, title, "title")
    pen.text(20, 50, note, "label", FAINT)
    y = float(TOP)
    for heading, rows in panels.items():
        pen.text(20, y - 14, heading, "label")
        unit = (WIDTH - EDGE - 12) / max(s.right for _, spans in rows for s in spans)
        for name, spans in rows:
            pen.text(EDGE - 8, y + 0.5 * ROW, name, "axis", FAINT, "right")
            for s in spans:
                bar(pen, EDGE + unit * s.left, EDGE + unit * s.right, y, s.colour, s.text)
            y += ROW
        y += PANEL
    x = 20.0
    for says, colour in legend.items():
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


def panel(found: list[Event], stages: int) -> list[Row]:
    """A row for the thread, and one for each pair of tiles."""
    at = places(found)
    names = {"start": "c{}", "wait": "w", "barrier": "b", "multiply": "{}"}
    thread = [
        Span(at[i], at[i + 1], WAITS if e.kind != "multiply" else USE, names[e.kind].format(e.number))
        for i, e in enumerate(found)
        if e.kind in names
    ]
    pairs = [[Span(0, at[-1], UNUSED)] for _ in range(stages)]
    for drawn in bars(found):
        colour = UNDER_WAY if drawn.what == "way" else USE
        pairs[drawn.step % stages].append(Span(at[drawn.first], at[drawn.last + 1], colour, f"{drawn.step}"))
    return [("thread", thread), *((f"pair {i}", spans) for i, spans in enumerate(pairs))]


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
        panels = {
            f"STAGES = {n}": panel(events(device, puzzle, case, text), n) for n, text in sources.items()
        }
    says = f"tiles of {TILE} x {TILE}; numbers: the step. w: wait, b: barrier, c3: start the copies of step 3"
    note = of_case(case.name, says, ", ")
    title = f"{puzzle.kernels[0].name}: what a thread does, and its tiles"
    legend = {"copies under way": UNDER_WAY, "tiles multiplied": USE, "not in use": UNUSED}
    return timeline_picture(title, note, panels, legend)
