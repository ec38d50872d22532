"""The lines that are likely to have the mistake, according to the verdict."""

from __future__ import annotations

import re
from collections.abc import Collection

from ...cuda.pieces import Piece
from ...cuda.text import read
from ...cuda.tree import LOOPS
from ..verdict import Verdict
from .terms import are_counterparts

_HEADS = ("if_statement", "for_statement", "while_statement")
NAMED = 0.2  # bonus of edits in a line that the verdict names
FEW, SHARE = 70, 0.6  # names in the lines that are tried alone, and their share of the function's


def suspected(source: str, verdict: Verdict) -> dict[int, float]:
    """How much likelier edits of a line are: the verdict names it, or it sets what is used there, or uses what is set there."""
    found = dict.fromkeys(sorted(named_lines(verdict)), NAMED)
    if fault := verdict.fault:
        found |= setters(source, fault["line"], NAMED)
        if fault["kind"] == "timeout":
            file = read(source)
            heads = file.around(file.line_start(fault["line"]), *LOOPS)
            found |= dict.fromkeys((head.line for head in heads), NAMED)
    for near in (setters, users):
        for line, more in list(found.items()):
            for other, less in near(source, line, more / 2).items():
                found[other] = max(found.get(other, 0.0), less)
    return found


def named_lines(verdict: Verdict) -> set[int]:
    """The lines that a verdict is about: those of its findings, and of what else went wrong in a launch with a fault."""
    fault = verdict.fault or {}
    others = [fault.get("other") or {}, *fault.get("more", ())]
    lines = {other["line"] for other in others if other and other["line"] != fault["line"]}
    return lines.union(*(f.all_lines for f in verdict.findings))


def stated_lines(verdict: Verdict) -> set[int]:
    """Those of known causes."""
    return set().union(*(f.all_lines for f in verdict.findings if f.row.explains and not f.asks))


def conditions_around(source: str, lines: Collection[int]) -> set[int]:
    """The lines of the conditions of every `if` around these."""
    file = read(source)
    around = (p for line in lines for p in file.around(file.line_start(line), "if_statement"))
    return {p.part("condition").line for p in around}


def alone(source: str, kernel: str, suspected: dict[int, float]) -> list[int]:
    """The most suspected lines, if they are a small part of the kernel; none if it is short."""
    function = read(source).function(kernel)
    names = _names_by_line(function.body) if function else {}
    families = _families(source, names)
    found, left = [], min(FEW, SHARE * sum(map(len, names.values())))
    for line in sorted(suspected, key=lambda line: -suspected[line]):
        family = [one for one in families.get(line, [line]) if one not in found]
        if (size := sum(len(names.get(one, ())) for one in family)) <= left:
            left -= size
            found += family
    return found if sum(map(len, names.values())) > FEW else []


def stretches(source: str, kernel: str, but: Collection[int]) -> list[list[int]]:
    """The other lines that the kernel may run, in stretches with about as many names as are tried alone."""
    file, names, lines = read(source), {}, []
    for function in sorted(file.functions, key=lambda f: f.whole.start):
        if function.name == kernel or not function.is_kernel:
            names |= _names_by_line(function.body)
            lines += range(function.whole.line, function.whole.last_line + 1)
    lines = [line for line in dict.fromkeys(lines) if line not in but]
    families = _families(source, names)
    size = sum(len(names.get(line, ())) for line in lines)
    parts = max(1, round(size / FEW)) if lines else 0
    found: list[list[int]] = [[] for _ in range(parts)]
    before, placed = 0, set()
    for line in lines:
        family = [one for one in families.get(line, [line]) if one not in placed and one not in but]
        placed.update(family)
        before += sum(len(names.get(one, ())) for one in family)
        found[min(before * parts // (size + 1), parts - 1)] += family
    return found


def _families(source: str, names: Collection[int]) -> dict[int, list[int]]:
    """Neighbouring lines that do the same for several directions, by each of them: they are changed together."""
    text, found = source.split("\n"), {}
    for line in sorted(names):
        if line - 1 in names and _say_the_same(text[line - 2].strip(), text[line - 1].strip()):
            family = found.setdefault(line - 1, [line - 1])
            family.append(line)
            found[line] = family
    return found


def _say_the_same(one: str, other: str) -> bool:
    """`p += r;` and `q += s;`, or what declares p and q."""
    declared = [re.match(r"[\w ]+\b(\w+) = ", text) for text in (one, other)]
    return are_counterparts(one, other) or all(declared) and are_counterparts(*(d[1] for d in declared))


def _names_by_line(body: Piece) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name in body.all("identifier"):
        found.setdefault(name.line, []).append(name.code)
    return found


def is_one_place(source: str, kernels: Collection[str]) -> bool:
    """Whether one change can affect all of these kernels: there is only one, or all use something declared outside."""
    if len(kernels) < 2:
        return True
    file = read(source)
    inside = [(k.whole.start, k.whole.end) for k in file.kernels]
    helpers = {f.name: f.whole.code for f in file.functions if not f.is_kernel}
    helpers |= {macro.name: macro.value for macro in file.macros}
    shared = helpers.keys() | {v.name for v in file.variables if not any(a <= v.start < b for a, b in inside)}
    for kernel in file.kernels:
        if kernel.name in kernels:
            shared &= _used(kernel.whole.code, helpers)
    return bool(shared)


def _used(code: str, helpers: dict[str, str]) -> set[str]:
    """The names in a text, and in the declarations that it uses."""
    names, new = set(), _names(code)
    while new:
        names |= new
        new = set().union(*(_names(helpers[name]) for name in new & helpers.keys())) - names
    return names


def _names(code: str) -> set[str]:
    return set(re.findall(r"\b[A-Za-z_]\w*", code))


def setters(source: str, line: int, most: float, elements: bool = True) -> dict[int, float]:
    """A line, and those that set what it uses, or with elements its elements; half as much at each step."""
    function = read(source).function_at(line)
    found, now = {line: most}, {line}
    while function and now and (most := most / 2) > 0.02:
        tokens = [t for t in function.body.all("identifier") if t.line in now]
        names = {t.code for t in tokens}
        sets_ = function.body.all("init_declarator", "assignment_expression")
        targets = ((p.line, p.part("declarator") or p.part("left")) for p in sets_)
        now = {line for line, t in targets if (_root(t) if elements else t.code) in names} - found.keys()
        found |= dict.fromkeys(now, most)
    return found


def users(source: str, line: int, most: float) -> dict[int, float]:
    """The lines that use what a line sets, or fills by a call, transitively: half as much at each step."""
    function = read(source).function_at(line)
    found: dict[int, float] = {}
    now = {line}
    while function and now and most > 0.02:
        sets_ = function.body.all("init_declarator", "assignment_expression", "call_expression")
        names = {_root(t) for p in sets_ if p.line in now for t in _targets(p)}
        now = {t.line for t in function.body.all("identifier") if t.code in names} - found.keys() - {line}
        found |= dict.fromkeys(now, most)
        most /= 2
    return found


def _targets(p: Piece) -> list[Piece]:
    """The targets: the left side, or the first argument of a call that is a statement."""
    if p.kind == "call_expression":
        is_statement = p.outer is not None and p.outer.kind == "expression_statement"
        return p.part("arguments").parts[:1] if is_statement else []
    return [p.part("declarator") or p.part("left")]


def _root(target: Piece) -> str:
    names = (n.code for n in target.all("identifier"))
    return next((name for name in names if not name.endswith("_cast")), target.code)
