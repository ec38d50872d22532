"""A figures.BenchResult as text: what was launched, times or counts, and the upper bound on a GPU."""

from __future__ import annotations

import statistics
import sys
from dataclasses import asdict
from typing import TextIO

from ..devices.virtual.explain import metrics as c
from ..measure.figures import RIGHT, WRONG, BenchResult, Measured, bound, chained, intensities, least_times
from .profile import bulk, percent, scaled, wrap
from .terminal import terminal_width
from .text import show_verdict

CAVEAT = "Counts refer to the PTX; bytes moved are summed over the requests, before any cache."


def show_bench(report: BenchResult, stream: TextIO | None = None) -> None:
    """Writes the report."""
    stream = stream or sys.stdout
    if not report.kernels:
        show_verdict(report.verdict, stream)
        return
    width = terminal_width(stream)
    for line in lines(report):
        stream.writelines(part.rstrip() + "\n" for part in wrap(line, width))


def lines(report: BenchResult) -> list[str]:
    v = report.verdict
    found = [
        f"{v.puzzle}: {v.file}",
        f"  {'on':10}{v.device}{'' if v.device_kind == 'gpu' else ': counts, no times'}",
    ]
    found.append(f"  {'shape':10}{' '.join(f'{name}={n}' for name, n in report.dims.items())}")
    if report.unused:
        found.append(f"  {'':10}not needed here: {', '.join(report.unused)}")
    for m in report.kernels:
        found += ["", *(f"  {name:10}{text}" if name else text for name, text in kernel_rows(m, report))]
    found.append("")
    if any(m.counters for m in report.kernels):
        found.append(CAVEAT)
    return found + v.lines + ([f"Next: {v.next}"] if v.next else [])


def kernel_rows(m: Measured, report: BenchResult) -> list[tuple[str, str]]:
    """(label, text) for one kernel; the heading has an empty label."""
    grid, block = (" x ".join(map(str, shape)) for shape in (trimmed(m.grid), trimmed(m.block)))
    rows = [("", f"{m.kernel}   grid {grid}, blocks of {block}")]
    if m.flops is not None:
        rows.append(("work", f"{scaled(m.flops, 'FLOP')} by the formula" + formula_and_count(m)))
    elif m.counters:
        rows.append(("work", f"{scaled(c.flops(m.counters), 'FLOP') or 'no FLOP'} counted"))
    rows.append(("least", f"{scaled(m.least_bytes, 'B')}, if every array is moved once"))
    rows += counts(m) if m.counters else []
    rows += limits(m, report) if m.counters else []
    rows += times(m, report) if m.milliseconds else []
    rows.append(
        ("result", {RIGHT: "right", WRONG: "WRONG: the figures mean nothing"}.get(m.result, m.result))
    )
    return rows


def trimmed(shape: tuple[int, int, int]) -> tuple[int, ...]:
    """The shape without trailing ones."""
    return shape[: max([i + 1 for i, n in enumerate(shape) if n > 1], default=1)]


def formula_and_count(m: Measured) -> str:
    return f", {scaled(c.flops(m.counters), 'FLOP') or 'no FLOP'} counted" if m.counters else ""


# ---- the virtual GPU -----------------------------------------------------------------------------------


def counts(m: Measured) -> list[tuple[str, str]]:
    n = m.counters
    if m.sampled:
        rows = [("counted", f"{m.ran:,} of {m.blocks:,} blocks; the rest is extrapolated, an estimate")]
    else:
        rows = [("counted", f"all {m.blocks:,} blocks: exact" if m.blocks > 1 else "the one block: exact")]
    kinds = [
        f"{c.sectors_per_request(n, k):.1f} per {k}" for k in ("load", "store") if n[f"global_{k}_requests"]
    ]
    rows.append(
        (
            "global",
            f"{scaled(c.global_sectors(n))} sectors ({', '.join(kinds)}), "
            f"{scaled(c.SECTOR * c.global_sectors(n), 'B')} moved",
        )
    )
    if n["bulk_copies"]:
        rows.append(("TMA", bulk(n)))
    waves = n["shared_load_wavefronts"] + n["shared_store_wavefronts"]
    if waves:
        rows.append(
            (
                "shared",
                f"{scaled(waves)} wavefronts, {percent(c.shared_conflicts(n) / waves)} by bank conflicts",
            )
        )
    return rows


def limits(m: Measured, report: BenchResult) -> list[tuple[str, str]]:
    """What would limit the kernel on the chosen GPU."""
    moved, best = intensities(m)
    told = f"{moved:.2f} FLOP per byte moved, {best:.1f} if every array moved once"
    rows = [("intensity", told)] if c.flops(m.counters) else []
    if not (peak := report.peak):
        return rows
    ridge = peak.ridge(m.arithmetic)
    what = m.arithmetic.replace("tf32", "TF32")
    rates = f"{getattr(peak, m.arithmetic):g} TFLOP/s {what}, {peak.memory:g} TB/s"
    told = f"{peak.name} ({rates}: {ridge:.1f} FLOP per byte)"
    if not c.flops(m.counters):
        shortest = m.least_bytes / peak.memory / 1e9
        return [*rows, ("bound", f"memory: no arithmetic; at best {shortest:.3g} ms on {told}")]
    least = least_times(m, peak)
    as_it_is, at_best = max(least, key=least.get), bound(best, peak, m.arithmetic)
    slowest = least[as_it_is]
    text = f"{as_it_is} on {told}: {slowest:.3g} ms at least without a cache"
    text += f", {m.work / slowest / 1e9:.3g} TFLOP/s"
    if as_it_is != at_best:
        text += f"; {at_best} with every array moved once"
    return [*rows, ("bound", text)]


# ---- a GPU -----------------------------------------------------------------------------------------------


def times(m: Measured, report: BenchResult) -> list[tuple[str, str]]:
    low, high = min(m.milliseconds), max(m.milliseconds)
    rows = [
        (
            "time",
            f"{m.median:.4g} ms, median of {len(m.milliseconds)} ({low:.4g} to {high:.4g}); "
            "L2 flushed before each",
        )
    ]
    rate = f"{m.tflops:.3g} TFLOP/s, " if m.flops else ""
    rows.append(("rate", f"{rate}{m.gigabytes:.3g} GB/s of the least bytes"))
    if report.peak is None:
        rows.append(
            (
                "share",
                f"not known: there are no published peaks for {report.verdict.device} in harness/backwarp/measure/peaks.py",
            )
        )
    else:
        rows.append(("share", shares(m, report.peak)))
    if m.baseline:
        rows += library(m, chained(report, m))
    return rows


def shares(m: Measured, peak) -> str:
    memory = f"{percent(m.gigabytes / 1e3 / peak.memory)} of its {peak.memory:g} TB/s"
    if not m.flops:
        return f"{peak.name}: {memory}"
    _, best = intensities(m)
    compute, roof = getattr(peak, m.arithmetic), peak.limit(best, m.arithmetic)
    share = f"{percent(m.tflops / compute)} of its {compute:g} TFLOP/s {m.arithmetic}"
    return (
        f"{peak.name}: {share}, {memory}; "
        f"roofline at {best:.1f} FLOP per byte: {roof:.3g} TFLOP/s ({bound(best, peak, m.arithmetic)}), "
        f"of which {percent(m.tflops / roof)}"
    )


def library(m: Measured, milliseconds: float) -> list[tuple[str, str]]:
    """The baseline; milliseconds: of the kernel and of any kernels that finish its work."""
    if problem := m.baseline.get("problem"):
        return [("library", f"no comparison: {problem}")]
    rows = [("library", m.baseline["software"])]
    for row in m.baseline["rows"]:
        variant = f"{row['library']:7} {row['arithmetic']:8} {row['layout']:13}"
        if "problem" in row:
            rows.append(("", f"  {'':10}{variant} {row['problem']}"))
            continue
        median = statistics.median(row["milliseconds"])
        speed = percent(median / milliseconds)
        rows.append(("", f"  {'':10}{variant} {median:.4g} ms; this kernel runs at {speed} of its speed"))
    return rows


# ---- JSON ------------------------------------------------------------------------------------------------


def document(report: BenchResult) -> dict:
    """For --json: everything measured, and everything derived from it."""
    kernels = []
    for m in report.kernels:
        moved, best = intensities(m)
        entry = {
            **asdict(m),
            "blocks": m.blocks,
            "exact": bool(m.counters) and not m.sampled,
            "flop": m.work,
            "flop_per_byte_moved": moved,
            "flop_per_least_byte": best,
        }
        if m.median:
            entry |= {"median_ms": m.median, "tflops": m.tflops, "gigabytes_per_second": m.gigabytes}
        if report.peak and m.work:
            least = least_times(m, report.peak) if m.counters else {}
            entry["bound"] = max(least, key=least.get) if least else bound(best, report.peak, m.arithmetic)
            entry["least_ms"] = least
        if report.peak and m.median:
            peak = report.peak
            entry["share_of_peak"] = m.tflops / getattr(peak, m.arithmetic)
            entry["share_of_memory"] = m.gigabytes / 1e3 / peak.memory
            entry["share_of_roofline"] = m.tflops / peak.limit(best, m.arithmetic) if best else None
        kernels.append(entry)
    v = report.verdict
    return {
        "format": 1,
        "puzzle": v.puzzle,
        "file": v.file,
        "status": v.status,
        "kind": v.kind,
        "lines": v.lines,
        "device": v.device,
        "device_kind": v.device_kind,
        "dims": report.dims,
        "peak": asdict(report.peak) if report.peak else None,
        "kernels": kernels,
    }
