"""Verdicts as one self-contained page: `backwarp grade --all --html report.html`."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from ..course.declare import PARTS, Puzzle
from ..grading.verdict import PASSED, Verdict
from .pictures.kinds import verdict_picture
from .terminal import Line
from .text import verdict_lines

WIDTH = 88  # columns
PRE = '<pre style="font-family:monospace;line-height:1.35;white-space:pre-wrap;word-break:normal;margin:0">{code}</pre>'
MOVED = "white-space:pre;overflow-x:auto"
HANGING = "padding-left:2ch;text-indent:-2ch;max-width:94ch;min-height:1.35em"
#: as dark as they can be on black and as light as they can be on white: a page does not know where it is shown
_COLOURS = [(0, 0, 0), (212, 59, 52), (35, 136, 60), (147, 114, 11)]
_COLOURS += [(61, 115, 214), (169, 79, 192), (13, 128, 160), (118, 118, 118)]
THEME = TerminalTheme((236, 236, 236), (0, 0, 0), _COLOURS, _COLOURS)  # dim text is in their middle
#: what is drawn for a white page becomes dark where a notebook is: in JupyterLab, VS Code and Colab
DARKENS = """<style>
body[data-jp-theme-light="false"] .backwarp-drawn, body.vscode-dark .backwarp-drawn, html[theme="dark"] .backwarp-drawn
{ filter: invert(0.93) hue-rotate(180deg); }
</style>"""
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222 }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
.bar { background: #ddd; height: .8rem } .bar div { background: #1a7f37; height: 100% }
article { border: 1px solid #ccc; border-left: .4rem solid #b3261e; padding: .6rem 1rem; margin: .6rem 0 }
article { overflow-x: auto }
article.passed { border-left-color: #1a7f37 } .untouched { color: #666 }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0 }
td, th { padding: .1rem .8rem .1rem 0; text-align: right }
td:first-child, th:first-child { text-align: left } img { max-width: 100% } a { color: #00688b }
@media print { article { break-inside: avoid } }
"""


def recorder(width: int = WIDTH) -> Console:
    """A console that prints nothing but can be exported as HTML."""
    how = {"force_terminal": True, "force_jupyter": False, "color_system": "truecolor", "highlight": False}
    return Console(record=True, width=width, file=io.StringIO(), **how)


def as_html(console: Console) -> str:
    """Everything printed to the console, with its colours."""
    return console.export_html(inline_styles=True, code_format=PRE, theme=THEME)


def lines_html(lines: Sequence[Line]) -> str:
    """Lines of a report, in colours that are readable on white and on black. Where there is little room, sentences are
    wrapped anew, and source lines can be moved with their carets."""
    found = []
    for moves, group in groupby(lines, key=is_code):
        for block in [list(group)] if moves else [[line] for line in joined(group)]:
            console, style = recorder(), MOVED
            if not moves and block[0]:
                (text, of), *rest = block[0]
                style = f"{HANGING};margin-left:{len(text) - len(text.lstrip(' '))}ch"
                block = [[(text.lstrip(" "), of), *rest]]
            for line in block:
                console.print(Text.assemble(*line), soft_wrap=True)
            found.append(as_html(console).replace("margin:0", f"margin:0;{style}"))
    return "".join(found)


def lines_of(console: Console) -> list[Line]:
    """What was printed to a recorder, as lines of a report."""
    printed = Text.from_ansi(console.export_text(clear=False, styles=True).rstrip("\n"))
    return [
        [
            (part.text, str(part.style) if part.style else "")
            for part in line.render(console)
            if part.text != "\n"
        ]
        for line in printed.split("\n")
    ]


def is_code(line: Line) -> bool:
    return bool(line) and line[0][1] == "dim" and line[0][0].endswith("|")


def joined(lines: Iterable[Line]) -> list[Line]:
    """Sentences as one line each: what was wrapped goes on with two more spaces."""
    found: list[Line] = []
    for line in lines:
        goes_on = len(line) == 1 and not line[0][1] and line[0][0].startswith("    ")
        if goes_on and found and found[-1] and not found[-1][-1][1]:
            found[-1] = [*found[-1][:-1], (f"{found[-1][-1][0].rstrip()} {line[0][0].lstrip()}", "")]
        else:
            found.append(line)
    return found


def page(verdicts: Sequence[Verdict], puzzles: Sequence[Puzzle], when: str) -> str:
    """The whole page. puzzles: one per verdict, in the same order. when: the date to show."""
    passed = sum(v.passed for v in verdicts)
    share = 100 * passed / max(len(verdicts), 1)
    device = next((f", {v.device}" for v in verdicts if v.device), "")
    body = [
        "<h1>Backwarp</h1>",
        f"<p>{passed} of {len(verdicts)} puzzles pass. {html.escape(when + device)}</p>",
        f'<div class="bar" role="img" aria-label="{share:.0f} per cent">'
        f'<div style="width:{share:.1f}%"></div></div>',
    ]
    pairs = zip(verdicts, puzzles, strict=True)
    for part, group in groupby(pairs, key=lambda pair: pair[1].part):
        body.append(f"<h2>Part {part}: {html.escape(PARTS.get(part, ''))}</h2>")
        group = list(group)
        body += [section(verdict, puzzle) for verdict, puzzle in group if verdict.kind != "untouched"]
        if waiting := [puzzle.id for verdict, puzzle in group if verdict.kind == "untouched"]:
            body.append(f'<p class="untouched">Not started: {html.escape(", ".join(waiting))}</p>')
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Backwarp</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n<body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def section(verdict: Verdict, puzzle: Puzzle) -> str:
    """One puzzle: its verdict, its counts, and where the output is wrong."""
    kind = "passed" if verdict.status == PASSED else "failed"
    parts = [f'<article class="{kind}" id="{verdict.puzzle}">', f"<div>{html.escape(puzzle.title)}</div>"]
    parts.append(lines_html(verdict_lines(verdict, WIDTH)))
    if verdict.gates:
        parts.append(gates_table(verdict))
    if found := verdict_picture(verdict):
        figure, says = found
        parts.append(f'<img alt="{html.escape(says)}" src="{png(figure)}">')
    return "\n".join([*parts, "</article>"])


def gates_table(verdict: Verdict) -> str:
    from ..grading.gates import number
    from ..grading.quantities import quantity

    rows = ["<tr><th>counted</th><th>yours</th><th>target</th><th>one rung below</th></tr>"]
    for gate in verdict.gates:
        if not (gate["value"] or gate["most"]):
            continue  # there is none, as there should be
        below = "" if gate["below"] is None else number(gate["below"])
        cells = (quantity(gate["quantity"]).noun, number(gate["value"]), number(gate["most"]), below)
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    return f"<table>{''.join(rows)}</table>"


def png(figure) -> str:
    """A figure as a data URL, so that the image is part of the page."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
