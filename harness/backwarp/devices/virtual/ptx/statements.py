"""Splits PTX text into statements. This module knows only where lines, braces and labels end.

Source: PTX ISA, section 4 (syntax).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_DIRECTIVE = re.compile(r"\.(loc|file|version|target|address_size|pragma)\b")
_SIMPLE = re.compile(r"[^;{}]*;")
_MARK = re.compile(r"[;{}]")
_BRACE = re.compile(r"[{}]")
_FLAT = re.compile(r"[^()\[\]{}]*(?:\[[^,()\[\]{}]*\][^()\[\]{}]*)*")  # no comma within brackets
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', re.S)  # or a string, which is kept
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_TABLE = (".branchtargets", ".callprototype", ".calltargets")
HEADER = re.compile(r"^(?:\.(?:visible|weak|extern|common)\s+)*\.(?:entry|func)\b")
_DEFINITION = re.compile(
    HEADER.pattern + r"\s*(?:\.noreturn\s*)?(?:\([^()]*\)\s*)?([A-Za-z_$][\w$]*+)[^;{}]*+(?=\{)", re.M
)
_INITIALISER = re.compile(r"=[^;]*;")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")


def statements(text: str, whole: bool) -> Iterator[tuple[str, str]]:
    """(kind, text) of each statement. whole: the text must end with a complete one.

    Kinds: "directive" (a line such as `.loc`), "label", "statement" (without its `;`), "open" (`{`, possibly
    with a function's header), "close" (`}`); "unfinished" if the text ends within a statement, and
    "unmatched" for a brace left open or closed at the end.
    """
    if "/*" in text:
        text = _COMMENT.sub(_blank, text)
    buffer: list[str] = []
    blocks = braces = 0  # braces around statements; braces within one (vector operands, initialisers)
    for line in text.splitlines():
        if "//" in line:
            line = _COMMENT.sub(_blank, line)
        line = line.strip()
        if not line:
            continue
        if line[0] == "." and _DIRECTIVE.match(line):
            yield "directive", line
            continue
        if braces == 0 and not buffer and _SIMPLE.fullmatch(line):  # nearly all lines
            text = line[:-1].rstrip()
            if text and ":" not in text:
                yield "statement", text
            else:
                yield from _labelled(text, blocks)
            continue
        start = 0
        for match in _MARK.finditer(line):
            mark, end = match[0], match.start()
            if mark == ";" and braces == 0:
                yield from _labelled(" ".join([*buffer, line[start:end]]).strip(), blocks)
            elif mark == "{":
                labels, so_far = _labels(" ".join([*buffer, line[start:end]]).strip(), blocks)
                yield from labels
                if braces or so_far and not HEADER.match(so_far):
                    buffer, start, braces = [so_far], end, braces + 1
                    continue
                yield "open", so_far
                blocks += 1
            elif mark == "}" and not braces:
                yield from _labelled(" ".join([*buffer, line[start:end]]).strip(), blocks, "unfinished")
                yield "close", ""
                blocks = max(blocks - 1, 0)
            else:
                braces -= mark == "}"
                continue
            buffer.clear()
            start = end + 1
        rest = line[start:].strip()
        if rest and not buffer and not braces:
            labels, rest = _labels(rest, blocks)
            yield from labels
        if rest:
            buffer.append(rest)
    if whole:
        yield from _labelled(" ".join(buffer), blocks, "unfinished")
    if braces:
        yield "unmatched", ""


def of_kernel(text: str, kernel: str) -> str:
    """The text without functions that a kernel does not reach; unchanged if it cannot be split into parts.

    A function is reached if a reached function, or a variable's initialiser, names it.
    """
    around, bodies, named = _parted(text)
    if kernel not in bodies:
        return text
    reach, work = set(), [kernel, *named]
    while work:
        reach.add(name := work.pop())
        work += (set(_WORD.findall(bodies[name])) & bodies.keys()) - reach
    kept = [body if name in reach else "" for name, body in bodies.items()]
    return "".join(part for pair in zip(around, (*kept, "")) for part in pair)


@lru_cache(2)
def _parted(text: str) -> tuple[list[str], dict[str, str], set[str]]:
    """(what stands around the functions, the functions by name, those that initialisers name); no functions if the text
    cannot be split."""
    code, section, sections = text.partition("\n\t.section")
    around: list[str] = []
    bodies: dict[str, str] = {}
    at = 0
    for found in _DEFINITION.finditer(code):
        start, end = found.start(), _end_of_block(code, found.end())
        if end is None or found[1] in bodies:
            return [], {}, set()
        around.append(code[at:start])
        bodies[found[1]], at = code[start:end], end
    if "/*" in code:
        return [], {}, set()
    around.append(code[at:])
    values = [value for part in around for value in _INITIALISER.findall(part)]
    named = {word for value in values for word in _WORD.findall(value)} & bodies.keys()
    around[-1] += section + sections
    return around, bodies, named


def _end_of_block(text: str, start: int) -> int | None:
    """The position after the brace that closes the one at `start`."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return None


def _labelled(text: str, blocks: int, kind: str = "statement") -> Iterator[tuple[str, str]]:
    """A statement, and the labels before it."""
    labels, rest = _labels(text, blocks)
    yield from labels
    if rest:
        yield kind, rest


def _labels(text: str, blocks: int) -> tuple[list[tuple[str, str]], str]:
    """Splits leading labels off a statement within a function; also returns the rest."""
    found = []
    while blocks and (match := _LABEL.match(text)):
        rest = text[match.end() :].strip()
        if rest.startswith(_TABLE):
            break
        found.append(("label", match[1]))
        text = rest
    return found, text


def _blank(comment: re.Match) -> str:
    """A comment replaced by blanks and newlines; a string unchanged."""
    text = comment[0]
    return text if text[0] == '"' else "\n" * text.count("\n") or " "


def split_operands(text: str) -> list[str]:
    """Split at commas outside (), [] and {}; `a|b` stays one operand."""
    if _FLAT.fullmatch(text):
        return [part.strip() for part in text.split(",")] if text.strip() else []
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last or parts else []
