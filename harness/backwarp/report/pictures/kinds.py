"""The kinds of pictures by name: what `backwarp picture ID --kind NAME` draws.

The lessons' pictures are drawn the same way, with `--solution -o FILE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import CompileError, CourseError, KernelFault, LaunchError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...course.declare import Case, Kernel, Puzzle
    from ...grading.verdict import Verdict

FORMATS = (".png", ".svg", ".pdf", ".gif")


@dataclass(frozen=True)
class Kind:
    """A row of the table.

    says: the text for the help. draw: "module:function" of this package; its parameters are named like the
    attributes of Ask, and it returns a Figure, or None if there is nothing to draw, which `nothing` explains.
    puzzles: the numbers of the puzzles it applies to; empty for all. frames: like draw, but returns a list of
    Figures for a GIF. first: drawn instead of access if no kind is named.
    """

    name: str
    says: str
    draw: str
    puzzles: tuple[str, ...] = ()
    nothing: str = ""
    frames: str = ""
    first: bool = False


# Moving pictures come first: they are the default for a .gif.
KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "walk",
            "the tiles of a block over the virtual matrices, step by step",
            "tilewalk:walk_picture",
            ("30", "31", "32"),
            frames="tilewalk:walk_frames",
        ),
        Kind("access", "what one thread reads and writes, or a block with --thread all", "canvas:draw"),
        Kind(
            "warp",
            "what a warp touches together, pass by pass of its loop",
            "warpwalk:warp_picture",
            frames="warpwalk:warp_frames",
        ),
        Kind(
            "race",
            "two threads at one element, in order of time",
            "race:race_picture",
            nothing="this kernel has no race",
        ),
        Kind(
            "heat",
            "which elements of an output are wrong",
            "heatmap:error_picture",
            nothing="no output of this kernel is wrong, or it is too large to draw",
        ),
        Kind("sectors", "the sectors that one read of a warp moves", "maps:sectors_of_a_read", ("23",)),
        Kind("halo", "how often a block reads each element", "maps:reads_of_a_block", ("24",)),
        Kind("banks", "the banks that one read of a warp touches", "maps:banks_of_a_column", ("25",)),
        Kind("tiles", "what a block reads in each step, and writes", "maps:tiles", ("26", "30", "32")),
        Kind(
            "square", "what one thread takes from the tiles, and writes", "maps:square_of_a_thread", ("27",)
        ),
        Kind("classes", "the classes of elements that a stride makes", "maps:classes_of_a_stride", ("31",)),
        Kind("groups", "which group writes what, and the tiles of a group", "maps:groups_and_rows", ("33",)),
        Kind(
            "streams",
            "when copies and kernels are done, in streams and one after the other",
            "streams:draw",
            ("44",),
        ),
        Kind("pipeline", "when copies are under way, and when they are used", "timeline:draw", ("34",)),
        Kind(
            "fragments",
            "which lane holds which element in a product of tensor cores",
            "fragments:fragment_picture",
            ("35",),
            first=True,
        ),
        Kind(
            "tma",
            "which pixels a copy by TMA brings, and where their channels lie",
            "tma:pixels_and_chunks",
            ("36",),
            first=True,
        ),
        Kind("roles", "what each role does while copies and products are under way", "roles:draw", ("36",)),
        Kind(
            "units",
            "how long the units of a multiprocessor are busy",
            "units:units_picture",
            ("27", "30", "34", "39"),
            nothing="this kernel cannot be counted",
        ),
        Kind(
            "steps", "the numbers that threads hold while they add up", "steps:steps_of_a_block", ("19", "20")
        ),
        Kind("impulse", "where one element of the input goes", "impulse:one_pixel", ("13", "14", "16", "28")),
    )
}


@dataclass
class Ask:
    """What to draw. block, thread: "x,y", or ""; thread may be "all"."""

    puzzle: Puzzle
    path: Path
    kernel: Kernel
    case: Case
    block: str = ""
    thread: str = ""

    @property
    def of_solution(self) -> bool:
        return self.puzzle.has_solution and self.path == self.puzzle.solution_path

    @cached_property
    def source(self) -> str:
        from ...course.checkout import read_source

        return read_source(self.path, self.path.name)

    @cached_property
    def verdict(self) -> Verdict:
        from ...grading.grade import Options, grade_file

        return grade_file(self.puzzle, self.path, Options(device="cpu"))


def listed() -> str:
    """The table, for the help."""
    width = max(map(len, KINDS))
    lines = ["Kinds, and the puzzles they are for:"]
    for k in KINDS.values():
        lines.append(f"  {k.name:{width}}  {k.says}" + (f" ({', '.join(k.puzzles)})" if k.puzzles else ""))
    return "\n".join(lines)


def kinds_of(puzzle: Puzzle) -> list[Kind]:
    return [k for k in KINDS.values() if puzzle.number in k.puzzles or not (k.puzzles or puzzle.program)]


def chosen_kind(ask: Ask, name: str, moving: bool) -> Kind:
    """The requested kind; without a name, a moving one for a GIF, else a race, else what a thread touches.

    Errors: CourseError if a kind is for other puzzles, or does not move.
    """
    offered = kinds_of(ask.puzzle)
    if name and name not in (k.name for k in offered):
        raise CourseError(
            f"{ask.puzzle.id} has no picture {name!r}; it has {', '.join(k.name for k in offered)}"
        )
    if moving:
        offered = [k for k in offered if k.frames]
        if not offered or name and name not in (k.name for k in offered):
            raise CourseError(f"{name or ask.puzzle.id}: this picture does not move; write it to a .png file")
    if name:
        return KINDS[name]
    if moving:
        return offered[0]
    if ask.puzzle.program:
        return offered[0]
    if ask.block or ask.thread:
        return KINDS["access"]
    if not ask.of_solution and ask.verdict.timeline:
        return KINDS["race"]
    return next((k for k in offered if k.first), KINDS["access"])


def draw(ask: Ask, kind: Kind, moving: bool = False) -> list[Figure]:
    """One figure, or the frames if moving. Errors: CourseError."""
    module, name = (kind.frames if moving else kind.draw).split(":")
    function = getattr(import_module(f".{module}", __package__), name)
    try:
        found = function(**{p: getattr(ask, p) for p in signature(function).parameters if hasattr(ask, p)})
    except (CompileError, KernelFault, LaunchError) as error:
        says = f"the kernel must run to be drawn ({str(error).splitlines()[0]})"
        raise CourseError(f"{says}; `backwarp grade {ask.puzzle.number}` says more") from None
    except (LookupError, StopIteration, ValueError):
        if not kind.puzzles or ask.of_solution:
            raise
        instead = "; --solution draws the course's own" if ask.puzzle.has_solution else ""
        raise CourseError(f"this kernel does not do what the picture {kind.name!r} shows{instead}") from None
    if not found:
        raise CourseError(
            f"{ask.puzzle.id}: {kind.nothing}; the verdict is: {ask.verdict.diagnosis or 'passed'}"
        )
    return list(found) if moving else [found]


def require_place(target: Path, moving: bool = True) -> None:
    """Errors: CourseError if no picture can be written there. moving: whether it may move."""
    if target.suffix not in FORMATS or target.suffix == ".gif" and not moving:
        and_moving = ", and .gif where something moves" * moving
        raise CourseError(f"{target.name}: pictures are .png, .svg or .pdf files{and_moving}")
    if not target.parent.is_dir():
        raise CourseError(f"{target} cannot be written: there is no folder {target.parent}")


def save_picture(
    puzzle: Puzzle,
    path: Path,
    target: Path,
    kind: str = "",
    kernel: str = "",
    case: str = "",
    block: str = "",
    thread: str = "",
) -> str:
    """`backwarp picture`; returns the kind drawn. Errors: CourseError, including for a kernel that does not
    run."""
    require_place(target)
    moving = target.suffix == ".gif"
    ask = Ask(puzzle, path, *what_to_draw(puzzle, path, kernel, case), block, thread)
    found = chosen_kind(ask, kind or ("access" if (kernel or case) and not puzzle.program else ""), moving)
    figures = draw(ask, found, moving)
    try:
        save(figures, target)
    except OSError as error:
        raise CourseError(f"{target} cannot be written: {error.strerror or error}") from None
    return found.name


def what_to_draw(puzzle: Puzzle, path: Path, kernel: str, case: str) -> tuple[Kernel | None, Case]:
    """The named case, with the sizes derived from the file; the first case if the name is "". A program has no kernel.
    Errors: CourseError."""
    from ...course.checkout import read_source, seed_of

    if puzzle.program and not kinds_of(puzzle):
        raise CourseError(f"{puzzle.id} has no kernel to draw; `backwarp train` draws the training")
    if puzzle.program and kernel:
        raise CourseError(f"{puzzle.id} has no kernels of its own")
    chosen = None if puzzle.program else puzzle.kernel(kernel) if kernel else puzzle.kernels[0]
    cases = [
        c for c in puzzle.cases if (puzzle.program or chosen in puzzle.kernels_of(c)) and case in ("", c.name)
    ]
    if not cases:
        names, of = ", ".join(c.name for c in puzzle.cases), f" for {chosen.name}" if chosen else ""
        raise CourseError(f"{puzzle.id} has no case {case!r}{of}; it has {names}")
    return chosen, cases[0].drawn(seed_of(read_source(path, path.name)))


def save(figures: Sequence[Figure], target: Path) -> None:
    """Saves one figure, or the frames of a GIF. PNG and GIF files describe their contents in their
    metadata."""
    if target.suffix == ".gif":
        save_gif(figures, target)
    elif target.suffix == ".png":
        figures[0].savefig(target, metadata={"Description": described(figures)})
    else:
        figures[0].savefig(target)


def described(figures: Sequence[Figure]) -> str:
    """The texts of figures, and a digest of their shapes and colours: the same wherever they are drawn."""
    lines = []
    for figure in figures:
        axes = figure.axes[0]
        lines += [t.get_text() for t in axes.texts]
        shapes = [
            (p.get_facecolor(), [round(float(x), 1) for x in p.get_bbox().bounds]) for p in axes.patches
        ]
        lines.append(sha256(repr(shapes).encode()).hexdigest()[:16])
    return "\n".join(lines)


def save_gif(figures: Sequence[Figure], target: Path, seconds: float = 1.2) -> None:
    """The figures, all of one size, in an endless loop; the last stays for twice as long."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    images = []
    for figure in figures:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
        images[-1] = images[-1].quantize(64, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    lasts = [int(1000 * seconds)] * (len(images) - 1) + [int(2000 * seconds)]
    how = {"append_images": images[1:], "duration": lasts, "comment": described(figures).encode()}
    images[0].save(target, save_all=True, loop=0, optimize=True, **how)


def verdict_picture(verdict: Verdict) -> tuple[Figure, str] | None:
    """The picture that belongs to a verdict, and a text that describes it; None if there is none."""
    from .heatmap import error_picture
    from .race import race_picture

    if figure := error_picture(verdict):
        return figure, "which elements are wrong"
    if figure := race_picture(verdict):
        return figure, "what the two threads of the race did, in order of time"
    return None
