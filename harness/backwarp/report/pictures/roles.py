"""A timeline of puzzle 36's kernels: what each role of threads does, when copies and products are under way, and where they wait.

It is drawn from runs in which the functions of hopper.cuh print what they do, in the order of the run; durations are not known,
and copies arrive as late as they may: when a thread waits for them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from backwarp.course.declare import Case, Kernel, Puzzle
from backwarp.course.inputs import make_inputs
from backwarp.cuda.values import tunables
from backwarp.errors import CourseError

from .canvas import of_case
from .timeline import UNDER_WAY, UNUSED, USE, WAITS, Row, Span, timeline_picture

CASE, GROUP = "filter_1x1", 128  # GROUP: threads of a warp group
WIDTHS = {"copy": 1.2, "product": 1.6, "wait": 0.9}  # in the drawing
WATCHED = """#include "hopper.cuh"
__device__ inline void tell(const char* what, unsigned a, unsigned b = 0) {
    if (blockIdx.x + blockIdx.y == 0) printf("%d %s %u %u\\n", threadIdx.x, what, a, b);
}
__device__ inline bool leads() { return threadIdx.x % 32 == 0; }
__device__ inline void told_wait(Barrier* b, unsigned parity) {
    if (leads()) tell("wait", in_shared(b));
    wait_for_phase(b, parity);
    if (leads()) tell("over", in_shared(b));
}
template <class... More> __device__ inline void told_pixels(void* to, More... more) {
    tell("copy", in_shared(to), in_shared((more, ...)));
    copy_pixels(to, more...);
}
template <class... More> __device__ inline void told_box(void* to, More... more) {
    tell("copy", in_shared(to), in_shared((more, ...)));
    copy_box(to, more...);
}
__device__ inline void told_product(float (&d)[32], Descriptor a, Descriptor b) {
    if (leads()) tell("product", (a & 0x3fff) << 4);
    wgmma_m64n64k16(d, a, b);
}
__device__ inline void told_commit() {
    if (leads()) tell("commit", 0);
    commit_products();
}
template <int Newest> __device__ inline void told_products() {
    wait_products<Newest>();
    if (leads()) tell("complete", Newest);
}
#define wait_for_phase told_wait
#define copy_pixels told_pixels
#define copy_box told_box
#define wgmma_m64n64k16 told_product
#define commit_products told_commit
#define wait_products told_products
"""


@dataclass(frozen=True)
class Event:
    """what: as WATCHED has it. a, b: addresses in shared memory, of a tile and its barrier, or of a barrier; for "complete",
    how many groups may be late."""

    thread: int
    what: str
    a: int
    b: int


def events(device, puzzle: Puzzle, case: Case, kernel: Kernel, source: str) -> list[Event]:
    """What the first thread of each warp group of block 0 does, and who copies, in the order of the run."""
    dims, inputs = puzzle.full_dims(case), make_inputs(puzzle, case, kernel)
    arrays = {
        p.name: device.array(inputs[p.name], name=p.name)
        if p.name in inputs
        else device.empty(p.shape(dims), p.dtype, name=p.name)
        for p in kernel.passed
    }
    function = device.compile(WATCHED + source, include_dirs=puzzle.include_dirs).get_function(kernel.name)
    launch = kernel.launch(dims, tunables(source))
    printed = map(str.split, launch.of(function, kernel.arguments(arrays, dims)).stdout.splitlines())
    found = [Event(int(thread), what, int(a), int(b)) for thread, what, a, b in printed]
    copying = {e.thread for e in found if e.what == "copy"}
    return [e for e in found if e.thread % GROUP == 0 or e.thread in copying]


@dataclass
class Timeline:
    """Spans of rows. A fill is what copies bring for one phase of a barrier: its pair of tiles, for one step."""

    end: float = 0
    threads: dict[int, list[Span]] = field(default_factory=lambda: defaultdict(list))
    ways: dict[tuple[int, int], tuple[float, float]] = field(
        default_factory=dict
    )  # (barrier, step) -> from, to
    uses: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)

    def add(self, thread: int, kind: str, text: str, start: float | None = None) -> float:
        """What a thread does next; returns where it begins. start: of a wait that began earlier."""
        begins = self.end if start is None else start
        self.end += WIDTHS[kind]
        colour = {"copy": UNDER_WAY, "product": USE, "wait": WAITS}[kind]
        self.threads[thread].append(Span(begins, self.end, colour, text))
        return begins

    def rows(self) -> list[Row]:
        barriers = sorted({barrier for barrier, _ in self.ways})
        pairs = {b: [Span(0, self.end, UNUSED)] for b in barriers}
        for found, colour in ((self.ways, UNDER_WAY), (self.uses, USE)):
            for (barrier, step), (left, right) in found.items():
                pairs[barrier].append(Span(left, right, colour, str(step)))
        threads = [(f"thread {t}", self.threads[t]) for t in sorted(self.threads)]
        return [*threads, *((f"pair {n}", pairs[b]) for n, b in enumerate(barriers))]


def timeline(found: list[Event]) -> Timeline:
    line, full, tiles = Timeline(), {e.b for e in found if e.what == "copy"}, {}
    coming: dict[int, tuple[int, float]] = {}  # barrier -> step, where its copies begin
    there: dict[int, int] = {}  # barrier -> the step that has arrived
    waits: dict[int, float] = {}  # thread -> where its wait begins
    begun: dict[int, dict] = defaultdict(
        dict
    )  # thread -> (barrier, step) of products without a group -> where they begin
    groups: dict[int, list[dict]] = defaultdict(list)
    for e in found:
        if e.what == "copy":
            tiles[e.a] = e.b
            if e.b not in coming:
                step = len(line.ways) + len(coming)
                coming[e.b] = step, line.add(e.thread, "copy", f"c{step}")
        elif e.what == "wait":
            waits[e.thread] = line.end
        elif e.what == "over":
            line.add(e.thread, "wait", "f" if e.a in full else "e", waits[e.thread])
            if e.a in coming:
                there[e.a], start = coming.pop(e.a)
                line.ways[e.a, there[e.a]] = start, line.end
        elif e.what == "product":
            barrier = tiles[max(t for t in tiles if t <= e.a)]
            use = barrier, there[barrier]
            if use not in begun[e.thread]:
                begun[e.thread][use] = line.add(e.thread, "product", str(use[1]))
        elif e.what == "commit":
            groups[e.thread].append(begun.pop(e.thread, {}))
        elif e.what == "complete":
            line.add(e.thread, "wait", "p")
            while len(groups[e.thread]) > e.a:
                for use, start in groups[e.thread].pop(0).items():
                    line.uses[use] = min(start, line.uses.get(use, (start,))[0]), line.end
    return line


def draw(puzzle: Puzzle, source: str) -> Figure:
    """Errors: CourseError if no kernel copies anything."""
    from backwarp.devices import confined_device

    case = next(c for c in puzzle.cases if c.name == CASE)
    panels = {}
    with confined_device("cpu", checks="memory") as device:
        device.quick = True
        for kernel in puzzle.kernels[:3]:
            if rows := timeline(events(device, puzzle, case, kernel, source)).rows():
                panels[kernel.name] = rows
    if not panels:
        raise CourseError("the kernels do not copy anything yet")
    says = "numbers: the step; c3: start the copies of step 3; wait at f: full, e: empty, p: for products"
    legend = {"copies under way": UNDER_WAY, "products under way": USE, "waits": WAITS, "not in use": UNUSED}
    return timeline_picture(
        "What threads do, and their tiles: the order of events, not their times",
        of_case(case.name, says),
        panels,
        legend,
    )
