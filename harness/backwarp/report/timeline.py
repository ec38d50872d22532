"""`backwarp exec --timeline`: when each stream's copies and kernels run, on a model of a card; as text and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..programs.model import Model
from ..streams.order import COMPUTE, IN, NULL, OUT, Operation

NAMES = {IN: "copies to the device", COMPUTE: "kernels", OUT: "copies to the host"}
MARKS = {IN: ">", COMPUTE: "#", OUT: "<"}
MOST_STREAMS, MOST_ROWS, EDGE = 12, 12, 12
CALM = 3  # letters that a picture has room for beside a name


def stream_name(stream: int) -> str:
    return {NULL: "default", 1: "per-thread"}.get(stream, f"stream {stream - 1}")


def kind(operation: Operation) -> str:
    """What an operation is called: a kernel's name, or the copy's direction."""
    what = operation.what
    if what.name:
        return what.name
    if what.what == "copy":
        return {IN: "copy to the device", OUT: "copy to the host", COMPUTE: "copy within the device"}[
            operation.engine
        ]
    return what.what


def microseconds(ns: float) -> str:
    return f"{ns / 1000:,.1f}"


def by_stream(operations: Sequence[Operation]) -> dict[int, list[Operation]]:
    streams = sorted({o.stream for o in operations})[:MOST_STREAMS]
    return {s: [o for o in operations if o.stream == s] for s in streams}


def head(operations: Sequence[Operation], model: Model) -> list[str]:
    """What is drawn, and that it is a model."""
    ends, alone = max(o.finish for o in operations), sum(o.time for o in operations)
    return [
        f"{microseconds(ends)} us in streams, {microseconds(alone)} us one after the other.",
        f"A model by data sheet, {model}.",
        "Each operation takes 1 us more; the host's own work takes no time.",
    ]


def text(operations: Sequence[Operation], model: Model, place, width: int = 80) -> Iterator[str]:
    """Lines of at most `width` characters. place(frames): a call's place."""
    if not operations:
        yield "Nothing was copied or launched."
        return
    yield from head(operations, model)
    columns = min(width, 80) - EDGE - 2
    unit = max(o.finish for o in operations) / columns
    for stream, own in by_stream(operations).items():
        line = [" "] * columns
        for o in own:
            first = min(int(o.start / unit), columns - 1)
            for i in range(first, max(min(int(o.finish / unit), columns), first + 1)):
                line[i] = MARKS[o.engine]
        yield f"{stream_name(stream):{EDGE}}|{''.join(line)}|"
    yield f"{'':{EDGE}} " + "  ".join(f"{mark} {NAMES[e]}" for e, mark in MARKS.items())
    yield from table(operations, place)


def table(operations: Sequence[Operation], place) -> Iterator[str]:
    """What took longest: each line of the program that asks for work, with how often, its bytes, FLOP and time."""
    rows: dict[tuple[str, str], list[Operation]] = {}
    for o in operations:
        rows.setdefault((kind(o), place(o.what.frames)), []).append(o)
    yield f"{'':27} {'at':16} {'times':>6} {'MB':>9} {'MFLOP':>9} {'us':>8}"
    longest = sorted(rows.items(), key=lambda row: -sum(o.time for o in row[1]))
    for (name, at), own in longest[:MOST_ROWS]:
        moved, flops = sum(o.what.nbytes for o in own) / 1e6, sum(o.what.flops for o in own) / 1e6
        time = microseconds(sum(o.time for o in own))
        yield f"{name[:27]:27} {at[-16:]:16} {len(own):6,} {moved:9,.3g} {flops:9,.3g} {time:>8}"
    if len(longest) > MOST_ROWS:
        yield f"and {len(longest) - MOST_ROWS} more lines"


def picture(operations: Sequence[Operation], model: Model, title: str):
    """A matplotlib Figure: a panel of streams, and one of what the card does."""
    from .pictures.canvas import COLOURS, IDLE, LETTER, WIDTH
    from .pictures.timeline import EDGE as LEFT
    from .pictures.timeline import Span, timeline_picture

    colours = {IN: COLOURS["read"], COMPUTE: COLOURS["write"], OUT: IDLE}
    end = max((o.finish for o in operations), default=1)
    room = (WIDTH - LEFT - 12) / end

    def spans(own: Sequence[Operation]) -> list[Span]:
        found = [Span(0, end, COLOURS[""])]
        for o in own:
            letters = int(room * o.time / LETTER)
            name = kind(o) if o.engine == COMPUTE else f"{o.what.nbytes / 1e6:.3g} MB"
            shown = name if len(name) < letters else name[: letters - 2] + ".." if letters > CALM + 2 else ""
            found.append(Span(o.start, o.finish, colours[o.engine], shown))
        return found

    says = head(operations, model) if operations else ["nothing was copied or launched", "", ""]
    streams = [(stream_name(s), spans(own)) for s, own in by_stream(operations).items()]
    engines = [
        (short, spans([o for o in operations if o.engine == e]))
        for e, short in ((IN, "copies in"), (COMPUTE, "kernels"), (OUT, "copies out"))
    ]
    panels = {says[0]: streams, "what the card does, one of each at a time": engines}
    legend = {NAMES[e]: colours[e] for e in NAMES}
    return timeline_picture(title, says[1], {k: v for k, v in panels.items() if v}, legend)
