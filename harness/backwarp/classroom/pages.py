"""A page and a text for each person, which reveal no hidden case, and an overview for the teacher."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..course.checkout import Course
from ..report.html import STYLE
from ..report.terminal import printable, wrap
from .alike import Pair
from .find import File
from .gradebook import Entry, Gradebook, number
from .tasks import as_row

WIDTH = 88  # columns of a text
_STYLE = (
    STYLE
    + """
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem } summary { cursor: pointer; padding: .2rem 0 }
@media (max-width: 700px) { .pair { grid-template-columns: 1fr } }
td.text, th.text { text-align: left; min-width: 14rem }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0 } .wide { overflow-x: auto }
td.passed { color: #1a7f37 } td.slow { color: #8a6a00 } td.none { color: #777 }
@media (prefers-color-scheme: dark) {
  body { background: #16181c; color: #ddd } a { color: #6cb6ff } article { border-color: #444; border-left-color: #f85149 }
  article.passed { border-left-color: #3fb950 } td.passed { color: #3fb950 } td.slow { color: #d29922 }
}
"""
)


def file_name(person: str) -> str:
    """A name for a person's page: readable, and different for different people."""
    plain = re.sub(r"[^\w-]+", "_", person, flags=re.ASCII).strip("_")[:40]
    return f"{plain or 'person'}-{hashlib.sha256(person.encode()).hexdigest()[:6]}"


def points(value: float) -> str:
    return f"{number(value)} point{'s' * (value != 1)}"


# ---- for its author --------------------------------------------------------------------------------------


def sentences(puzzle: str, e: Entry) -> list[str]:
    """What a person reads about one file."""
    late = f", {e.days_late} day{'s' * (e.days_late > 1)} late" if e.days_late else ""
    share = f", {e.outcome['share']:.0%} of the cases pass" if e.outcome["status"] != "passed" else ""
    head = f"{puzzle}: {as_row(e.outcome)}{share}; {number(e.points)} of {points(e.of)}{late}"
    return [head, *([] if e.outcome["status"] == "passed" else e.outcome["shown"])]


def not_graded(book: Gradebook, person: str) -> list[File]:
    return [f for f in book.left if f.person == person]


def text_of(book: Gradebook, person: str) -> str:
    lines = [f"{printable(person)}: {points(book.total(person))}", ""]
    for puzzle, e in book.of(person).items():
        head, *rest = sentences(puzzle, e)
        lines += [*wrap(printable(head), WIDTH)]
        for line in rest:
            source = line.startswith("    ")
            lines += (
                [printable(line)] if source else ["  " + part for part in wrap(printable(line), WIDTH - 2)]
            )
        lines.append("")
    lines += [f"not graded: {printable(f.name)}: {printable(f.why)}" for f in not_graded(book, person)]
    return "\n".join(lines).rstrip() + "\n"


def page_of(book: Gradebook, course: Course, person: str) -> str:
    parts = [f"<h1>{shown(person)}</h1><p>{points(book.total(person))}</p>"]
    for puzzle, e in book.of(person).items():
        head, *rest = sentences(puzzle, e)
        kind = "passed" if e.outcome["status"] == "passed" else "failed"
        title = shown(course.heading(puzzle)[1])
        said = f"<pre>{shown(chr(10).join(rest))}</pre>" if rest else ""
        parts.append(f'<article class="{kind}"><div>{title}</div><b>{shown(head)}</b>{said}</article>')
    if left := not_graded(book, person):
        rows = "".join(f"<li>{shown(f.name)}: {shown(f.why)}</li>" for f in left)
        parts.append(f"<h2>Not graded</h2><ul>{rows}</ul>")
    return document(f"{person}: {points(book.total(person))}", parts)


# ---- for the teacher -------------------------------------------------------------------------------------


def overview(
    book: Gradebook, counted: Mapping[str, Any], done: int, of: int, alike: Sequence[Pair] = ()
) -> str:
    """counted: statistics. done, of: how many gradings; while some are missing, the page loads itself again."""
    running = done < of
    parts = [f"<h1>{len(book.people)} people</h1>"]
    if running:
        share = 100 * done / of
        parts.append(f"<p>{done} of {of} gradings are done; this page loads itself again.</p>")
        parts.append(f'<div class="bar"><div style="width:{share:.1f}%"></div></div>')
    if alike:
        parts.append(
            f'<p><a href="alike.html">{len(alike)} pairs of files are alike</a>: look at them yourself.</p>'
        )
    parts += [puzzles_table(counted), findings_table(counted), people_table(book)]
    if book.left:
        rows = "".join(
            f'<tr><td>{shown(f.person or "(nobody)")}</td><td class="text">{shown(f.name)}</td><td class="text">{shown(f.why)}</td></tr>'
            for f in book.left
        )
        parts.append(f'<h2>Not graded</h2><div class="wide"><table>{rows}</table></div>')
    return document("Grades", parts, refresh=5 if running else 0)


def puzzles_table(counted: Mapping[str, Any]) -> str:
    heads = ("puzzle", "handed in", "pass", "files", "attempts", "seconds")
    head = "".join(f"<th>{name}</th>" for name in heads)
    rows = [f'<tr>{head}<th class="text">found most</th></tr>']
    for puzzle, s in counted.items():
        found = [f"{f['finding']} {f['people']}" for f in s["findings"][:3]]
        found += [f"{kind} {n}" for kind, n in s["results"].items() if kind != "passed"][:3]
        attempts = "" if s["attempts"] is None else number(s["attempts"])
        cells = (shown(puzzle), s["handed in"], s["passed"], s["files"], attempts, s["seconds"])
        numbers = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr>{numbers}<td class="text">{shown(", ".join(found))}</td></tr>')
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def findings_table(counted: Mapping[str, Any]) -> str:
    """What to talk about: per puzzle what most people have wrong, and where the course speaks of it."""
    parts = []
    for puzzle, s in counted.items():
        rows = [
            f"<tr><td>{shown(f['finding'])}</td><td>{f['people']}</td><td>{f['line'] or ''}</td>"
            f'<td class="text">{shown(f["lesson"] or "")}</td></tr>'
            for f in s["findings"]
        ]
        rows += [
            f'<tr><td>hint {h["hint"]}</td><td>{h["named"] or h["shown"]}</td><td></td><td class="text">{shown(h["says"])}</td></tr>'
            for h in s["hints"]
            if h["named"] or h["shown"]
        ]
        head = '<tr><th>found</th><th>people</th><th>line</th><th class="text">the lesson or hint</th></tr>'
        if rows:
            table = f'<div class="wide"><table>{head}{"".join(rows)}</table></div>'
            parts.append(f"<details><summary>{shown(puzzle)}</summary>{table}</details>")
    return f"<h2>What was found, and where the course speaks of it</h2>{''.join(parts)}" if parts else ""


def people_table(book: Gradebook) -> str:
    head = "".join(f"<th>{shown(puzzle.split('_')[0])}</th>" for puzzle in book.puzzles)
    rows = [f"<tr><th>person</th>{head}<th>total</th></tr>"]
    for person in book.people:
        own = book.of(person)
        cells = "".join(cell(own[p]) if p in own else '<td class="none">-</td>' for p in book.puzzles)
        link = f'<a href="people/{file_name(person)}.html">{shown(person)}</a>'
        rows.append(f"<tr><td>{link}</td>{cells}<td>{number(book.total(person))}</td></tr>")
    return f'<h2>People</h2><div class="wide"><table>{"".join(rows)}</table></div>'


def cell(e: Entry) -> str:
    row = as_row(e.outcome)
    kind = row if row in ("passed", "slow") else "wrong"
    return f'<td class="{kind}" title="{shown(row)}">{number(e.points)}</td>'


def pairs_page(pairs: Sequence[Pair]) -> str:
    """Pairs of texts that are alike, side by side, with what they share marked."""
    parts = [
        "<h1>Files that are alike</h1>",
        "<p>In these pairs much is the same beyond the stub and the course's solution. That is no proof of anything: short "
        "kernels have few ways to be right. Read both.</p>",
    ]
    for pair in pairs:
        titles = (f"<b>{shown(person)}</b>" for person in pair.people)
        texts = (
            f"<pre>{marked(text, pieces)}</pre>" for text, pieces in zip(pair.texts, pair.slices, strict=True)
        )
        sides = "".join(f"<div>{title}{text}</div>" for title, text in zip(titles, texts, strict=True))
        head = f"{shown(pair.puzzle)}: {pair.share:.0%}, {shown(pair.people[0])} and {shown(pair.people[1])}"
        parts.append(f'<details><summary>{head}</summary><div class="pair">{sides}</div></details>')
    return document("Files that are alike", parts)


def marked(text: str, pieces: Sequence[tuple[int, int]]) -> str:
    done, parts = 0, []
    for start, end in sorted(pieces):
        start = max(start, done)
        if end > start:
            parts += [shown(text[done:start]), f"<mark>{shown(text[start:end])}</mark>"]
            done = end
    return "".join([*parts, shown(text[done:])])


def shown(text: str) -> str:
    return html.escape(printable(str(text)))


def document(title: str, parts: Iterable[str], refresh: int = 0) -> str:
    again = f'<meta http-equiv="refresh" content="{refresh}">' if refresh else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{shown(title)}</title>{again}'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )
