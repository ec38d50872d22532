"""NVIDIA's tools: their command lines, and what they report.

Sources: Nsight Compute CLI manual (raw page as CSV), Compute Sanitizer manual (reports of its four tools).
"""

from __future__ import annotations

import csv
import io
import re

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) errors?$", re.MULTILINE)
_RACES = re.compile(r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)")
#: the first line of a report; the lines that say where follow it
_REPORT = re.compile(
    r"^========= ((?:Invalid|Barrier|Uninitialized|Unused|Error|Warning|Misaligned|Out-of-range|Stack|Device|Program hit"
    r"|Race|Potential|Host|Illegal)\b[^\n]*)",
    re.MULTILINE,
)
_LINE = re.compile(r"^=========\s+(?:at|and)?.*? in \S*?([\w.]+\.cuh?):(\d+)", re.MULTILINE)


def profiled(command: list[str], metrics: list[str], report: str) -> list[str]:
    """Counts every launch of a command. The clocks are left as they are."""
    return [
        *("ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"),
        *("--metrics", ",".join(metrics), "--log-file", report, *command),
    ]


def sanitised(command: list[str], tool: str, report: str) -> list[str]:
    options = ("--tool", tool, "--print-limit", "20", "--target-processes", "application-only")
    return ["compute-sanitizer", *options, "--log-file", report, *command]


def launches(report: str) -> list[dict]:
    """Nsight Compute's counts: {"kernel": name, metric: number} for each launch, in order.

    The raw page has a column per metric and, below the names, a row of units; other pages have a row per
    metric. ValueError if there is neither.
    """
    lines = [line for line in report.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    if not rows or "Kernel Name" not in rows[0]:
        said = [line for line in report.splitlines() if "==" in line and "PROF" not in line]
        raise ValueError(" ".join(said)[:300] or "Nsight Compute reports no launch")
    found: dict[str, dict] = {}
    for row in rows:
        if not row["ID"]:  # units
            continue
        launch = found.setdefault(row["ID"], {"kernel": row["Kernel Name"].split("(")[0].split()[-1]})
        pairs = [(row["Metric Name"], row["Metric Value"])] if "Metric Name" in row else row.items()
        for name, text in pairs:
            if "__" in name and (value := number(text)) is not None:
                launch[name] = value
    return list(found.values())


def number(text: str | None) -> float | None:
    """`1,234` -> 1234.0; None for n/a."""
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def findings(report: str) -> dict:
    """compute-sanitizer's findings: the number of errors, and the first report. ValueError if it did not
    reach its summary."""
    races, errors = _RACES.search(report), _SUMMARY.search(report)
    if not races and not errors:
        raise ValueError((report.strip().splitlines() or ["compute-sanitizer reports nothing"])[-1][:300])
    found = {"errors": int(races[1] if races else errors[1]), "warnings": int(races[2]) if races else 0}
    reports = [match for match in _REPORT.finditer(report) if "SUMMARY" not in match[1]]
    own = [match for match in reports if not match[1].startswith(("Program hit", "Host"))]
    if reports:
        first = (own or reports)[0]
        found["first"] = first[1].rstrip(".")
        if line := _LINE.search(report, first.start()):
            found["line"] = f"{line[1]}:{line[2]}"
        found["only_api"] = not own
    return found
