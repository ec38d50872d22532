"""A run of the course's kernel, counted and without its code: sliders over block, warp, thread and time, in one piece of HTML.

The page needs no server and no library: it contains the requests, which `explore.js` draws.
Where scripts do not run, on a code host for example, it shows one line of text instead.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import numpy as np

from ...course.declare import Array, Case, Kernel, Puzzle
from ...course.inputs import make_inputs
from ...devices.virtual.explain.metrics import SECTOR, Request
from ...errors import CourseError, KernelFault
from ..html import DARKENS
from .counted import CountedRun, counted_run

SMALL = 700  # most elements, over all arrays, of a case that can be shown
MOST_REQUESTS = 600  # of a run; later ones are left out
MOST_CASES = 2  # for a single kernel; with several kernels, one case each
BANKS, WORD = 32, 4  # of shared memory; bytes
KINDS = {"load": 0, "store": 1, "atomic": 2}
SHARED = -1  # takes the place of an array number
STILL = (
    "Run this cell to move through the run: block, warp, thread and time are sliders (they need JavaScript)."
)
PAGE = """{darkens}<div class="backwarp-run" id="{name}" style="padding:.6em;max-width:52em">
<p style="margin:0">{still}</p></div>
<script>{script}</script>"""


def explore(puzzle: Puzzle, source: str, kernel: str = "", case: str = "") -> str:
    """HTML. source: the kernels to run. Errors: CourseError if nothing can be shown; CompileError, KernelFault."""
    if puzzle.program:
        raise CourseError(f"{puzzle.id} has no kernel to run step by step")
    chosen = [puzzle.kernel(kernel)] if kernel else puzzle.kernels
    most = MOST_CASES if len(chosen) == 1 else 1
    views, problems = [], []
    for k, c in ((k, c) for k in chosen for c in cases(puzzle, k, case)[:most]):
        try:
            views.append(view(puzzle, source, k, c))
        except (CourseError, KernelFault) as problem:  # other kernels may still have something to show
            problems.append(problem)
    if not views and problems:
        raise problems[0]
    if not views:
        names = ", ".join(c.name for c in puzzle.cases if elements(puzzle, puzzle.kernels[0], c) <= SMALL)
        raise CourseError(f"{puzzle.id} has no case small enough to show by that name; it has {names}")
    name, script = scripted("explore.js", json.dumps(views, separators=(",", ":")))
    return PAGE.format(name=name, still=STILL, darkens=DARKENS, script=script)


def scripted(file: str, data: str) -> tuple[str, str]:
    """(the name of what is drawn, the script of a file with its data in it, a text in JSON)."""
    text = data.replace("<", "\\u003c")
    name = f"run-{sha256(text.encode()).hexdigest()[:10]}"
    script = Path(__file__).with_name(file).read_text(encoding="utf-8")
    code = (re.sub(r"(^|  )//.*", "", line).strip() for line in script.splitlines())
    script = "\n".join(filter(None, code))
    return name, script.replace("RUN_NAME", name).replace("RUN_VIEWS", text)


def elements(puzzle: Puzzle, kernel: Kernel, case: Case) -> int:
    dims = puzzle.full_dims(case)
    return sum(int(np.prod(p.shape(dims))) for p in kernel.arrays)


def cases(puzzle: Puzzle, kernel: Kernel, name: str) -> list[Case]:
    """The case of that name, else the first small ones of a kernel."""
    of_kernel = [c for c in puzzle.cases if kernel in puzzle.kernels_of(c) and not c.draw and not c.stress]
    small = [c for c in of_kernel if name in ("", c.name) and elements(puzzle, kernel, c) <= SMALL]
    return small[:1] + [c for c in small[1:] if elements(puzzle, kernel, c) <= SMALL // 4]


def view(puzzle: Puzzle, source: str, kernel: Kernel, case: Case) -> dict:
    """What explore.js draws of one launch, in JSON's types."""
    found = counted_run(puzzle, case.name, kernel, source)
    steps: dict[str, list] = {}
    patterns: dict[str, int] = {}  # many steps touch the same elements with the same lanes
    for request in found.requests[:MOST_REQUESTS]:
        for array, lanes, cost in touched(found, kernel, request):
            pattern = patterns.setdefault(json.dumps(lanes), len(patterns))
            of_warp = steps.setdefault(f"{request.block}.{request.warp}", [])
            of_warp.append([KINDS[request.kind], array, cost, pattern])
    before = make_inputs(puzzle, case, kernel)
    sizes = " ".join(f"{n}={v}" for n, v in case.dims.items())
    return {
        "kernel": kernel.name,
        "case": case.name,
        "sizes": sizes,
        "grid": extents(found.launch.grid),
        "block": extents(found.launch.block),
        "arrays": [array_view(p, before.get(p.name), found.values[p.name]) for p in kernel.passed],
        "shared": shared_rows(found.requests[:MOST_REQUESTS]),
        "lanes": [json.loads(text) for text in patterns],
        "steps": steps,
        "cut": len(found.requests) > MOST_REQUESTS,
    }


def extents(size: int | tuple[int, ...]) -> list[int]:
    return [size] if isinstance(size, int) else list(size)


def array_view(parameter: Array, before: np.ndarray | None, after: np.ndarray) -> dict:
    """values: what the elements hold at first; after: once all is written, of outputs."""
    return {
        "name": parameter.name,
        "axes": parameter.letters,
        "shape": list(after.shape),
        "values": texts(before) if before is not None else [],
        "after": texts(after) if parameter.is_output else [],
    }


def texts(values: np.ndarray) -> list[str]:
    return [number(v) for v in values.astype(np.float64).ravel()] if values.size <= SMALL else []


def number(value: float) -> str:
    """As many digits as fit into a cell; "" for NaN, which marks memory that was never written."""
    if np.isnan(value):
        return ""
    texts = [f"{value:.{digits}g}" for digits in (3, 2, 1)]
    return next((text for text in texts if len(text) <= 5), texts[-1])


def touched(found: CountedRun, kernel: Kernel, r: Request) -> list[tuple[int, list, int]]:
    """(number of the array, lanes, cost) of a request. Lanes are [first, element, count, step, width] for
    each run of consecutive lanes whose elements are a constant step apart; the cost is in sectors, or in
    turns of shared memory."""
    lanes = np.flatnonzero(r.addresses >= 0)
    if not lanes.size:
        return []
    if r.space == "shared":
        words = r.addresses[lanes] // WORD
        return [(SHARED, in_rows(lanes, words, max(1, r.size // WORD)), turns(words))]
    if r.space != "global":
        return []
    for number, p in enumerate(kernel.passed):
        at = found.elements(p.name, r)
        lanes = np.flatnonzero(at >= 0)
        if lanes.size:
            width = max(1, r.size // found.values[p.name].itemsize)
            cost = len(np.unique(r.addresses[lanes] // SECTOR))
            return [(number, in_rows(lanes, at[lanes], width), cost)]
    return []


def turns(words: np.ndarray) -> int:
    """The largest number of different words in one bank."""
    return int(np.bincount(np.unique(words) % BANKS).max())


def in_rows(lanes: np.ndarray, at: np.ndarray, width: int) -> list[list[int]]:
    """[first lane, its element, how many lanes, the step between elements, elements of each lane]."""
    found: list[list[int]] = []
    for lane, element in zip(lanes.tolist(), at.tolist(), strict=True):
        if found and lane == found[-1][0] + found[-1][2]:
            first, start, many, step, _ = found[-1]
            if many == 1 or element == start + many * step:
                found[-1][2:4] = many + 1, element - start if many == 1 else step
                continue
        found.append([lane, element, 1, 0, width])
    return found


def shared_rows(requests: list[Request]) -> list[int]:
    """The rows of 32 words of shared memory that are touched."""
    found: set[int] = set()
    for r in requests:
        if r.space == "shared":
            first = r.addresses[r.addresses >= 0] // (BANKS * WORD)
            found.update(first.tolist())  # no access crosses 128 bytes
    return sorted(found)
