"""HARDWARE.md: a GPU's data file as tables."""

from __future__ import annotations

import statistics
from pathlib import Path

from ...report.profile import percent
from .tools import TOOLS

PAGE = ".github/HARDWARE.md"
#: arithmetic, and whether it is PyTorch's own kernel
COLUMNS = (("float32", False), ("tf32", False), ("half", False), ("float32", True))
_FEW = 20  # problems listed at most


def write(data: dict, root: Path) -> Path:
    path = root / PAGE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text(data)) + "\n", encoding="utf-8")
    return path


def text(data: dict) -> list[str]:
    machine = data["machine"]
    smi, packages = machine["nvidia_smi"], machine["packages"]
    versions = ", ".join(f"{name} {version}" for name, version in packages.items())
    return [
        f"# On {data['device']}",
        "",
        f"{data['date']}, `{data['command']}`; driver {smi.get('driver_version', '?')}, SM clock "
        f"{smi.get('clocks.sm', '?')} of {smi.get('clocks.max.sm', '?')}; {versions}.",
        "",
        *("## Right and wrong kernels", "", *judged(data), ""),
        *("## Layers beside cuDNN", "", *ceilings(data["ceilings"]), "", *layers(data["layers"]), ""),
        *("## Counters beside Nsight Compute", "", *counters(data["counters"]), ""),
        *("## compute-sanitizer", "", *solutions(data["sanitizer"]), "", *zoo(data["zoo"])),
    ]


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


# ---- the sections ------------------------------------------------------------------------------------------


def judged(data: dict) -> list[str]:
    tests, grade = data["tests"], data["grade"]
    bad = [f"test {name}: {how}" for name, how in tests.items() if how != "passed"]
    bad += [f"solution {g['puzzle']}: {g['kind']} {g['says']}" for g in grade if not g["passed"]]
    run = sum(m["run"] for m in data["mistakes"])
    passed = [(m["puzzle"], p) for m in data["mistakes"] for p in m["passed"]]
    unseen = [f"mistake {puzzle}, {p['mistake']}" for puzzle, p in passed if p["virtual_gpu"] == "passed"]
    bad += [f"{name}: nobody finds it" for name in unseen] + [
        f"{f['step']} {f['item']}: {f['reason']}" for f in data["failed"]
    ]
    told = f"{len(tests)} tests, {len(grade)} solutions, {run} wrong kernels; {len(passed)} of these pass on the GPU"
    return [
        f"{told}, {len(passed) - len(unseen)} of which the virtual GPU finds.",
        "",
        *(f"* {b}" for b in bad[:_FEW]),
    ]


def ceilings(found: list[dict]) -> list[str]:
    """One line: the measured rates of a copy and of large products."""
    told = []
    for one in found:
        for row in (row for row in one["rows"] if "ms" in row):
            if one["what"] == "copy":
                told.append(f"{one['bytes'] / row['ms'] / 1e9:.3g} TB/s by a copy")
            else:
                told.append(
                    f"{one['flop'] / row['ms'] / 1e9:.3g} TFLOP/s {row['arithmetic']} by a product of cuBLAS"
                )
    return [f"Measured ceilings: {', '.join(told)}."] if told else []


def layers(found: list[dict]) -> list[str]:
    head = ["", "our best, ms", "", "cuDNN float32", "of it", "TF32", "half", "without cuDNN"]
    return table(head, [row for layer in found if (row := layer_row(layer))])


def layer_row(layer: dict) -> list[str]:
    right = [k for k in layer["kernels"] if "ms" in k and k["result"].startswith("right")]
    if not right:
        return []
    best = min(right, key=lambda k: k["ms"])
    rows = [row for row in layer["rows"] if "ms" in row]
    times = {key: least(rows, *key) for key in COLUMNS}
    float32, *_ = times.values()
    share = percent(float32 / best["ms"]) if float32 else ""
    shown = [f"{t:.3g}" if t else "" for t in times.values()]
    name = f"{layer['layer'].replace('_', ' ')}, {layer['direction']}"
    by = f"{best['puzzle'][:2]}{' ' + best['arithmetic'] if best['arithmetic'] != 'float32' else ''}"
    return [name, f"{best['ms']:.3g}", by, shown[0], share, *shown[1:]]


def least(rows: list[dict], arithmetic: str, own: bool) -> float:
    """Milliseconds in the better layout; 0 if it was not timed. own: of PyTorch's kernel."""
    found = (r["ms"] for r in rows if r["arithmetic"] == arithmetic and (r["library"] == "PyTorch") == own)
    return min(found, default=0.0)


def counters(found: dict[str, list[dict]]) -> list[str]:
    launches = [launch for all_of in found.values() for launch in all_of if "counters" in launch]
    pairs: dict[str, list[tuple[float, float]]] = {}
    for launch in launches:
        for name, pair in launch["counters"].items():
            pairs.setdefault(name, []).append(tuple(pair))
    rows = []
    for name, counted in pairs.items():
        ratios = [theirs / ours for ours, theirs in counted if ours]
        if ratios:
            same = sum(ours == theirs for ours, theirs in counted)
            spread = [f"{f(ratios):.3g}" for f in (min, statistics.median, max)]
            rows.append([name.replace("_", " "), f"{same} of {len(counted)}", *spread])
    bits = sum(launch["bits"] for launch in launches)
    told = f"Of {len(launches)} launches {bits} give the virtual GPU's results to the last bit."
    head = ["the GPU's count in units of ours", "equal", "least", "median", "most"]
    return [told, "", *table(head, rows)]


def solutions(found: dict[str, dict[str, dict]]) -> list[str]:
    bad = [
        f"* {name}, {tool}: {r.get('first') or r.get('reason', '')} {r.get('line', '')}".rstrip()
        for name, tools in found.items()
        for tool, r in tools.items()
        if r.get("errors", 1) or r.get("warnings")
    ]
    return [f"Solutions: {len(found)} with four tools each, {len(bad)} reports.", "", *bad[:_FEW]]


def zoo(found: dict[str, dict[str, dict]]) -> list[str]:
    """Kinds of faults: how many kernels have one, and how many each tool finds."""
    from tests.devices.virtual.explain.zoo import ZOO

    kinds: dict[str, list[dict[str, dict]]] = {}
    for name, tools in found.items():
        kinds.setdefault(ZOO[name].kind, []).append(tools)
    rows = [
        [kind, str(len(all_of)), *(str(sum(finds(one.get(tool, {})) for one in all_of)) for tool in TOOLS)]
        for kind, all_of in kinds.items()
    ]
    return table(["faulty kernels, which the virtual GPU finds all", "kernels", *TOOLS], rows)


def finds(report: dict) -> bool:
    """Whether the tool itself found the fault: a CUDA call that fails because the kernel faulted does not
    count."""
    return bool(report.get("errors") or report.get("warnings")) and not report.get("only_api")
