"""When the copies and kernels of a program with streams are done: puzzle 44's, in the time of its machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from matplotlib.figure import Figure

from backwarp.course.declare import Case, Puzzle
from backwarp.errors import CourseError

from ...grading.programs.program import Program, ProgramError
from ...streams.checks import allowed, inputs, machine_for, run, shown, sizes
from ...streams.machine import Machine
from ...streams.order import COMPUTE, IN, OUT
from .canvas import COLOURS, FAINT, IDLE, LETTER, WIDTH, Pen, of_case

NAMES = {IN: "copies in", COMPUTE: "kernels", OUT: "copies out"}
EDGE, TOP, ROW, PANEL = 84, 96, 30, 58  # pixels: left; above panel 1; row height; between panels


@dataclass(frozen=True)
class Bar:
    """chunk: None where it belongs to no chunk. Times in ns."""

    engine: str
    chunk: int | None
    start: int
    stop: int


def draw(puzzle: Puzzle, source: str, case: Case) -> Figure:
    """Errors: CourseError if the program does not run."""
    from ...devices import confined_device

    declared = puzzle.program
    with (
        Program(declared.requests, declared.driver) as program,
        confined_device("cpu", checks="memory") as device,
    ):
        try:
            functions = program.load(source, puzzle.file, declared.functions, declared.seconds)
            arrays = inputs(case, 0)
            machine = machine_for(device, case.dims, arrays)
            run(functions, machine, arrays, case.dims)
        except ProgramError as error:
            says = f"the program must run to be drawn ({error.lines[0]})"
            raise CourseError(f"{says}; `backwarp grade {puzzle.number}` says more") from None
    order = machine.order
    took, operations = order.end(), order.operations
    if not operations:
        raise CourseError("the program does nothing yet")
    chunks = chunks_of(machine, case)
    overlapped = [Bar(o.engine, chunks[o.number], o.start, o.finish) for o in operations]
    alone, now = [], 0
    for o in operations:
        alone.append(Bar(o.engine, chunks[o.number], now, now + o.time))
        now += o.time
    most = f", at most {shown(allowed(case.dims))}" if case.dims.get("timed") else ""
    panels = {f"one after the other: {shown(now)}": alone, f"in streams: {shown(took)}{most}": overlapped}
    note = of_case(
        case.name, f"{case.dims['batch']} images, {case.dims['chunk']} in a chunk; numbers: the chunk", ", "
    )
    return streams_picture("backward: when each engine works", note, panels)


def chunks_of(machine: Machine, case: Case) -> list[int | None]:
    """By operation, the chunk whose images or gradients it works on."""
    holds: dict[int, int | None] = {}
    found = []
    for operation in machine.order.operations:
        work, chunk = operation.what, None
        if work.host and (
            size := {"images": "image", "grad_images": "image", "grad_output": "grad"}.get(work.host[0])
        ):
            chunk = work.host[1] // (case.dims["chunk"] * sizes(case.dims)[size])
        elif not work.host:
            known = [holds.get(a.memory) for a in operation.accesses if not a.stores]
            chunk = max((k for k in known if k is not None), default=None)
        found.append(chunk)
        holds |= {a.memory: chunk for a in operation.accesses if a.stores and not isinstance(a.memory, str)}
    return found


def streams_picture(title: str, note: str, panels: dict[str, list[Bar]]) -> Figure:
    """A panel for each way to do the work: a row for each engine."""
    bottom = TOP + len(panels) * (len(NAMES) * ROW + PANEL)
    pen = Pen(bottom + 6, ROW)
    pen.text(20, 24, title, "title")
    pen.text(20, 50, note, "label", FAINT)
    unit = (WIDTH - EDGE - 14) / max(bar.stop for bars in panels.values() for bar in bars)
    y = float(TOP)
    for says, bars in panels.items():
        pen.text(20, y - 14, says, "label")
        draw_panel(pen, bars, y, unit)
        y += len(NAMES) * ROW + PANEL
    x = 20.0
    for colour, says in (
        (COLOURS["read"], "chunks 0, 2, ..."),
        (COLOURS["write"], "chunks 1, 3, ..."),
        (IDLE, "weights"),
    ):
        pen.cell(x, bottom - 34, colour, side=16)
        pen.text(x + 22, bottom - 26, says, "label")
        x += 22 + LETTER * len(says) + 24
    return pen.figure


def draw_panel(pen: Pen, bars: Iterable[Bar], y: float, unit: float) -> None:
    rows = {engine: y + i * ROW for i, engine in enumerate(NAMES)}
    for engine, top in rows.items():
        pen.text(EDGE - 8, top + 0.5 * ROW, NAMES[engine], "axis", FAINT, "right")
        pen.box(EDGE, top + 2, WIDTH - EDGE - 14, ROW - 4, COLOURS[""])
    for bar in bars:
        colour = IDLE if bar.chunk is None else COLOURS[("read", "write")[bar.chunk % 2]]
        left, width = EDGE + unit * bar.start, unit * (bar.stop - bar.start)
        pen.box(left, rows[bar.engine] + 2, width, ROW - 4, colour)
        if bar.chunk is not None and width > LETTER + 2:
            pen.text(left + width / 2, rows[bar.engine] + 0.53 * ROW, str(bar.chunk), "axis", align="center")
