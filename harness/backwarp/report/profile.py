"""A Profile as text: a table of the source lines that matter, the totals, and notes on the counts."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..devices.virtual.explain import metrics as c
from ..grading.gates import Measure, per_cent, sentence
from ..measure.profile import KernelProfile, Profile
from .terminal import printable, terminal_width, wants_colour
from .terminal import wrap as wrap_text

_LEAST_SOURCE = 10  # columns
_GAP = 2  # between two columns
CAVEAT = "The counts are exact for the PTX; ptxas may still merge or drop accesses and instructions."


def show_profile(profile: Profile, stream: TextIO | None = None, metrics: bool = False) -> None:
    """Writes the report. metrics: also every counter, with its name in Nsight Compute."""
    stream = stream or sys.stdout
    colour = wants_colour(stream)
    console = Console(
        file=stream, width=terminal_width(stream), highlight=False, force_terminal=colour, no_color=not colour
    )
    grade = f"backwarp grade {profile.verdict.puzzle.split('_')[0]}"
    print_profile(profile, console, grade, "" if metrics else "--metrics", metrics)


def print_profile(
    profile: Profile, console: Console, grade: str, counters: str, metrics: bool = False
) -> None:
    """grade: the command for a verdict; counters: what shows every counter, or ""."""
    for kernel in profile.kernels:
        for part in kernel_parts(kernel, profile.source, console.width):
            console.print(part, soft_wrap=True)
        if metrics:
            console.print(metric_table(kernel.counters), "")
    for kernel in profile.endless:
        says = f"{kernel} took too long, so that it was not counted: {grade}"
        console.print(Text(says, "bold red"), soft_wrap=True)
    if not profile.kernels:
        return
    if profile.targets:
        console.print(f"To pass {grade}:")
        for measure in filter(lambda m: m.is_shown, profile.targets):
            mark, style = ("ok  ", "green") if measure.passed else ("over", "yellow")
            first, *rest = wrap_text(sentence(measure) + worst_line(measure), console.width - 7, hang="")
            console.print(Text.assemble("  ", (mark, style), f" {first}"), soft_wrap=True)
            for part in rest:
                console.print(f"       {part}", soft_wrap=True)
        console.print()
    if not profile.verdict.passed and not profile.endless:
        console.print(Text(f"The results are wrong: {grade}", "bold red"))
    notes = [CAVEAT]
    if any(k.counters["split"] for k in profile.kernels):
        notes.append("Memory ran short: requests by divergent lanes may be counted more than once.")
    if profile.no_resources:
        notes.append(f"Registers and occupancy {profile.no_resources}")
    if counters:
        notes.append(f"Every counter, with its name in Nsight Compute: {counters}")
    for part in (line for note in notes for line in wrap_text(note, console.width, hang="")):
        console.print(part, soft_wrap=True)


def worst_line(measure: Measure) -> str:
    """The line that contributes most to a count that is too high."""
    if measure.passed or not measure.line:
        return ""
    return f"; line {measure.line} has {percent(measure.line_share)} of {measure.of}"


def kernel_parts(kernel: KernelProfile, source: str, width: int) -> list:
    dims = " ".join(f"{name}={size}" for name, size in kernel.dims.items())
    head = Text.assemble((kernel.kernel, "bold"), f"   {kernel.case}: {dims}")
    lines = [f"  {name:10}{text}" for name, text in totals(kernel)]
    return [
        head,
        line_table(kernel.counters, source, width),
        "",
        *(part for x in lines for part in wrap(x, width)),
        "",
    ]


# -- the table -----------------------------------------------------------------------------------------------


def line_table(counters: dict, source: str, width: int) -> Table:
    """One row for each source line that touches memory, computes in floating point, diverges or waits."""
    lines = {n: counts for n, counts in counters["lines"].items() if counts_for_something(counts)}
    texts = source.split("\n")
    columns = [(head, [cell(counts) for counts in lines.values()]) for head, cell in CELLS]
    columns = [(head, cells) for head, cells in columns if any(cells)]
    columns = fitting(columns, width - 4 - _LEAST_SOURCE - _GAP)
    widths = [breadth(column) for column in columns]
    code = [
        printable(texts[n - 1].strip()) if 0 < n <= len(texts) else "(no line of this file)" for n in lines
    ]
    room = max(_LEAST_SOURCE, width - sum(widths) - 4 - _GAP * (len(widths) + 1))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("\nline", justify="right", no_wrap=True, min_width=4)
    table.add_column(
        "\nsource", no_wrap=True, overflow="ellipsis", width=min(room, max(map(len, code), default=0))
    )
    for (head, _), most in zip(columns, widths, strict=True):
        table.add_column(head, justify="right", no_wrap=True, min_width=most)
    for i, (n, counts) in enumerate(lines.items()):
        cells = (
            Text(cells[i], "yellow" if head in COSTLY and COSTLY[head](counts) else "")
            for head, cells in columns
        )
        table.add_row(str(n), Text(code[i]), *cells)
    return table


def breadth(column: tuple[str, list[str]]) -> int:
    head, cells = column
    return max(map(len, head.split("\n") + cells))


def fitting(columns: list[tuple[str, list[str]]], room: int) -> list[tuple[str, list[str]]]:
    """Without those that others imply, as many as it takes to fit."""
    for spare in SPARE:
        if sum(breadth(column) + _GAP for column in columns) <= room:
            break
        columns = [column for column in columns if column[0] != spare]
    return columns


def counts_for_something(counts: dict) -> bool:
    return any(
        name.endswith("_requests") or name in ("barriers", "divergent_branches", "phase_waits")
        for name in counts
    ) or bool(c.flops(counts))


def requests(counts: dict) -> str:
    return number(c.global_requests(counts))


def sectors(counts: dict) -> str:
    n = c.global_requests(counts)
    return f"{c.global_sectors(counts) / n:.1f}" if n else ""


def ideal(counts: dict) -> int:
    """The fewest sectors possible for loads and stores; atomic updates cannot do better."""
    return sum(
        counts.get(f"global_{kind}", 0)
        for kind in ("load_sectors_ideal", "store_sectors_ideal", "atomic_sectors")
    )


def ideal_sectors(counts: dict) -> str:
    n = c.global_requests(counts)
    return f"{ideal(counts) / n:.1f}" if n else ""


def shared_requests(counts: dict) -> str:
    return number(sum(counts.get(f"shared_{kind}_requests", 0) for kind in ("load", "store", "atomic")))


def conflicts(counts: dict) -> str:
    n = sum(counts.get(f"shared_{kind}_requests", 0) for kind in ("load", "store"))
    return f"{c.shared_conflicts(counts) / n:.1f}" if n else ""


def local_requests(counts: dict) -> str:
    return number(counts.get("local_load_requests", 0) + counts.get("local_store_requests", 0))


def moved(counts: dict) -> str:
    return nbytes(c.global_bytes(counts))


def work(counts: dict) -> str:
    return scaled(c.flops(counts))


def divergence(counts: dict) -> str:
    if not counts.get("divergent_branches"):
        return ""
    return percent(counts["divergent_branches"] / counts["branches"])


def barriers(counts: dict) -> str:
    return number(counts.get("barriers", 0))


def waits(counts: dict) -> str:
    """Waits at mbarriers that did not find their phase complete, of all."""
    n = counts.get("phase_waits", 0)
    return f"{n - counts.get('phase_waits_complete', 0)}/{n}" if n else ""


#: column headings and contents; an empty column is left out
CELLS = (
    ("global\nreq.", requests),
    ("sect./\nreq.", sectors),
    ("\nideal", ideal_sectors),
    ("bytes\nmoved", moved),
    ("shared\nreq.", shared_requests),
    ("confl./\nreq.", conflicts),
    ("local\nreq.", local_requests),
    ("\nFLOP", work),
    ("diver-\ngent", divergence),
    ("bar-\nriers", barriers),
    ("waited/\nphases", waits),
)
SPARE = CELLS[2][0], CELLS[8][0], CELLS[1][0]  # columns that a narrow terminal goes without, the first first


def wrap(line: str, width: int) -> list[str]:
    """Wraps a long line below its text."""
    head, text = line[:12], line[12:]
    first, *rest = wrap_text(text, width - 12, hang="")
    return [head + first, *(" " * 12 + part for part in rest)]


#: what to highlight: more than 1.5 times the ideal, bank conflicts, divergence
COSTLY = {
    CELLS[1][0]: lambda counts: 2 * c.global_sectors(counts) > 3 * ideal(counts),
    CELLS[5][0]: lambda counts: c.shared_conflicts(counts) > 0,
    CELLS[8][0]: lambda counts: counts.get("divergent_branches", 0) * 10 >= counts.get("branches", 0) > 0,
}


# -- totals --------------------------------------------------------------------------------------------------


def totals(kernel: KernelProfile) -> list[tuple[str, str]]:
    """(what, text) for each line of the summary."""
    counts = kernel.counters
    shape = f"grid {' x '.join(map(str, kernel.grid))}, blocks of {' x '.join(map(str, kernel.block))}"
    found = [
        (
            "launch",
            f"{shape}: {scaled(counts['warp_instructions'])} warp instructions, "
            f"{c.lanes_per_instruction(counts):.1f} of 32 lanes active",
        )
    ]
    if c.global_requests(counts):
        asked = sum(counts[f"global_{kind}_bytes"] for kind in ("load", "store"))
        parts = [
            f"{c.sectors_per_request(counts, k):.1f} sectors per {k} "
            f"(ideal {c.ideal_sectors_per_request(counts, k):.1f})"
            for k in ("load", "store")
            if counts[f"global_{k}_requests"]
        ]
        amounts = (
            f"threads asked for {nbytes(asked) or '0 B'}, {nbytes(c.SECTOR * c.global_sectors(counts))} moved"
        )
        found.append(("global", f"{', '.join(parts)}; {amounts}"))
    found += asynchronous(counts)
    if counts["shared_load_requests"] or counts["shared_store_requests"]:
        parts = [
            f"{c.conflicts_per_request(counts, k):.1f} conflicts per {k}"
            for k in ("load", "store")
            if counts[f"shared_{k}_requests"]
        ]
        found.append(("shared", ", ".join(parts)))
    for space in ("global", "shared"):
        if n := counts[f"{space}_atomic_requests"]:
            updates = number(counts[f"{space}_atomic_operations"])
            in_a_row = counts[f"{space}_atomic_serial"] / n
            text = f"{updates} updates of {space} memory in {number(n)} requests"
            found.append(("atomics", f"{text}; {in_a_row:.1f} in a row at one address"))
    local = counts["local_load_bytes"] + counts["local_store_bytes"]
    if local:
        found.append(
            ("local", f"{nbytes(local)} loaded and stored: an array whose index is not known at compile time")
        )
    if c.flops(counts):
        types = [
            f"{scaled(counts[f'flops_{t}'])} {t}"
            for t in ("fp16", "fp32", "fp64", "tensor")
            if counts[f"flops_{t}"]
        ]
        intensity = f", {c.arithmetic_intensity(counts):.2f} per byte moved" if c.global_bytes(counts) else ""
        found.append(("FLOP", ", ".join(types) + intensity))
    if counts["branches"]:
        share = f" ({percent(1 - c.branch_efficiency(counts))})" if counts["divergent_branches"] else ""
        divergent = number(counts["divergent_branches"]) or "none"
        found.append(("branches", f"{number(counts['branches'])}, {divergent} divergent{share}"))
    if kernel.resources:
        found += hardware(kernel)
    return found


def asynchronous(counts: dict) -> list[tuple[str, str]]:
    """The lines of copies by TMA and of waits at mbarriers, if there are any."""
    found = [("TMA", bulk(counts))] if counts["bulk_copies"] else []
    if n := counts["phase_waits"]:
        complete = number(counts["phase_waits_complete"]) or "none"
        found.append(("mbarriers", f"{number(n)} waits of threads, {complete} found the phase complete"))
    return found


def bulk(counts: dict) -> str:
    """What copies by TMA moved, and for how much of the arithmetic of tensor cores one was on its way."""
    boxes = f" ({number(n)} of boxes)" if 0 < (n := counts["bulk_boxes"]) < counts["bulk_copies"] else ""
    text = f"{number(counts['bulk_copies'])} copies{boxes}, {nbytes(counts['bulk_bytes'])} moved"
    if n := counts["flops_tensor"]:
        text += f"; one was on its way for {percent(counts['flops_tensor_overlapped'] / n) or '0%'} of the tensor FLOP"
    return text


def hardware(kernel: KernelProfile) -> list[tuple[str, str]]:
    needs, fits = kernel.resources, kernel.occupancy
    limit = f", limited by {fits.limit}" if fits.limit else ""
    spills = needs.spill_stores + needs.spill_loads
    spilled = f", {spills} bytes spilled" if spills else ""
    warps = f"{fits.warps} of {fits.of} warps ({100 * fits.share:.0f}%) on {fits.arch}{limit}"
    return [("registers", f"{needs.registers} per thread{spilled}"), ("occupancy", warps)]


def metric_table(counts: dict) -> Table:
    """Every counter that is not 0."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("counter", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("in Nsight Compute", overflow="fold")
    for name, metric in c.METRICS.items():
        if counts[name]:
            table.add_row(name, f"{counts[name]:,}", Text(metric.ncu))
    return table


# -- numbers -------------------------------------------------------------------------------------------------


def number(n: int) -> str:
    """`12,345`, or nothing for 0."""
    return (f"{n:,}" if n < 1_000_000 else scaled(n)) if n else ""


def percent(share: float) -> str:
    return "<1%" if 0 < share < 0.005 else per_cent(share).replace(" ", "")


def scaled(n: float, unit: str = "") -> str:
    """Three digits with a decimal prefix: `1.23 M`; nothing for 0."""
    if not n:
        return ""
    for prefix in ("", "k", "M", "G", "T"):
        if n < 1000 or prefix == "T":
            break
        n /= 1000
    text = f"{n:.0f}" if n >= 100 or not prefix else f"{n:.1f}" if n >= 10 else f"{n:.2f}"
    return f"{text} {prefix}{unit}".rstrip()


def nbytes(n: int) -> str:
    return scaled(n, "B")
