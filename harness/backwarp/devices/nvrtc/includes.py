"""Which files a kernel may include; decided before the compiler runs.

NVRTC opens any file that an ``#include`` names and quotes it in its messages. A kernel may include
the course's own headers (``puzzles/include``), CUDA's, and the shims for the C and C++ headers that
NVRTC lacks; every other name is refused, and so is what this scan cannot decide.

The scan decides what the compiler may open, so it must not miss a directive. A parser that recovers from
errors (`cuda/text.py`) cannot guarantee that; this scan parses as little as possible. It is a lexer
for C++ translation phases 2 and 3 (line splices, comments, raw strings). From the first conditional
directive, malformed literal or strange character on, where compilers differ in what they skip, it errs on the
safe side: a directive in a comment or a string counts too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from backwarp.cuda.tree import MAX_SOURCE
from backwarp.errors import CompileError, Diagnostic

_REACH = 200  # characters examined between a # and its directive
# Only single characters are repeated possessively: with groups, Python 3.11.2, Debian's, finds wrong matches.
_SPACE = r"(?:[ \t\v\f\r]|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/)*"
_HASH = r"(?:\#|%:)"
#: plain: as much as there is of what is none of the others, which are looked at one by one
_TOKEN = re.compile(
    r"""
    (?P<plain> (?: [ \t\v\f\r\n!&*()+,\-:;<=>?\[\]^{|}~]++ | /(?![/*]) | %(?!:) | \.(?![0-9])
              | (?!__has_) [A-Za-z_][A-Za-z_0-9]*+ (?!")
              | \.?[0-9](?:[eEpP][+-]|'[0-9a-fA-F]|(?![eEpP][+-])[\w.])* (?![\w.']) )+ )
  | (?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<raw> \b(?:u8|[uUL])?R" )
  | (?P<literal> "(?:\\[^\n]|[^"\\\n])*(?P<end>"?) | '(?:\\[^\n]|[^'\\\n])*(?P<end2>'?) )
  | (?P<number> \.?[0-9](?:[eEpP][+-]|'[0-9a-fA-F]|[\w.])* )
  | (?P<word> [A-Za-z_][A-Za-z_0-9]* )
  | (?P<hash> \#|%: )
  | (?P<strange> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_RAW = re.compile(r'"([^ ()\\\t\v\f\n"]{0,16})\((?:.*?)\)\1"', re.DOTALL)
_DIRECTIVE = re.compile(rf"{_HASH}{_SPACE}(?P<name>[^\W\d]\w*|\d+)?{_SPACE}", re.DOTALL)
_HEADER = re.compile(r'"(?P<quoted>[^"\n]*)"|<(?P<angled>[^>\n]*)>')
_HAS = re.compile(rf"__has_(?:include|embed)\w*{_SPACE}\(?{_SPACE}", re.DOTALL)
_JUDGED = re.compile(rf"{_HASH}{_SPACE}(?:include\w*|import|embed|line|\d+)\b", re.DOTALL)
# However the text is read, a directive is first on its line or follows the end of a comment.
_ANYWHERE = re.compile(r"(?:^|\*/)[ \t\v\f\r]*(?=\#|%:)|(?P<has>__has_(?:include|embed))", re.MULTILINE)
_LEAD = re.compile(rf"{_HASH}{_SPACE}", re.DOTALL)
_IN_DIRECTIVE = re.compile(rf"{_SPACE}{_HASH}", re.DOTALL)
_SPELLS = re.compile(r"#|%:|\?\?|\\\r?\n|__has_")  # a text without any of these has no directive
_CONDITIONAL = ("if", "ifdef", "ifndef")


@dataclass(frozen=True)
class Include:
    """One header that a source names, and where."""

    name: str
    quoted: bool
    line: int
    column: int
    directive: bool = True  # not __has_include


class Refused(CompileError):
    """The kernel is refused before it is compiled."""


class _Text:
    """The source with its line splices removed, and a mapping back to lines and columns."""

    def __init__(self, source: str, name: str):
        self.source, self.name = source, name
        pieces, starts, origins = [], [0], [0]
        at = length = 0
        for splice in re.finditer(r"\\\r?\n", source):
            pieces.append(source[at : splice.start()])
            length += splice.start() - at
            at = splice.end()
            starts.append(length)
            origins.append(at)
        pieces.append(source[at:])
        self.text = "".join(pieces)
        self._starts, self._origins = starts, origins
        self._lines = [0] + [m.end() for m in re.finditer("\n", source)]

    def origin(self, position: int) -> int:
        i = bisect_right(self._starts, position) - 1
        return self._origins[i] + position - self._starts[i]

    def spliced(self, origin: int) -> int:
        i = bisect_right(self._origins, origin) - 1
        return self._starts[i] + origin - self._origins[i]

    def place(self, position: int) -> tuple[int, int]:
        origin = self.origin(position)
        line = bisect_right(self._lines, origin)
        return line, origin - self._lines[line - 1] + 1

    def refuse(self, position: int, message: str) -> Refused:
        line, column = self.place(position)
        source = self.source.split("\n")[line - 1].rstrip("\r")
        diagnostic = Diagnostic("error", message, self.name, line, column, source)
        return Refused(f"{self.name}:{line}: {message}", (diagnostic,))


def scan(source: str, name: str = "kernel.cu", most: int = MAX_SOURCE) -> list[Include]:
    """The headers that a source of at most so many characters names, in order.

    Raises Refused for what cannot be decided or would change the student's line numbers: computed includes,
    #include_next, #import, #embed, #line.
    """
    if len(source) > most:
        raise Refused(f"{name} has {len(source) >> 10} KB; more than {most >> 10} KB is not a kernel")
    text = _Text(source, name)
    if "\0" in source:
        raise text.refuse(text.spliced(source.index("\0")), "the file contains a NUL character")
    found: list[Include] = []
    if not _SPELLS.search(source):
        return found
    careful_from = _lex(text, found)
    if careful_from is not None:
        starts = list(_directives(text.text, careful_from))
        if re.search(r"\\\r?\n", source):  # a raw string keeps its splices
            starts += [
                (text.spliced(at), clear) for at, clear in _directives(source, text.origin(careful_from))
            ]
        for position, clear in starts:
            if not clear:
                raise text.refuse(position, "there is a long comment between # and the directive's name")
            _check(text, position, found)
    return sorted(set(found), key=lambda i: (i.line, i.column))


def _directives(s: str, start: int) -> Iterator[tuple[int, bool]]:
    """(where each possible directive begins, whether it can be decided), erring on the safe side."""
    for match in _ANYWHERE.finditer(s, start):
        if match["has"]:
            yield match.start(), True
            continue
        at, end = match.end(), match.end() + _REACH
        lead = _LEAD.match(s, at, end).end()
        clear = lead < end - len("include_next") and not s.startswith("/*", lead)
        if not clear or _JUDGED.match(s, at, end):
            yield at, clear


def _lex(text: _Text, found: list[Include]) -> int | None:
    """Reads directives up to the point where certainty ends; returns that position, or None at the end."""
    position, at_line_start, s = 0, True, text.text
    while position < len(s):
        token = _TOKEN.match(s, position)
        end = token.end()
        if token["plain"]:
            _, newline, rest = token["plain"].rpartition("\n")
            at_line_start = bool(newline or at_line_start) and not rest.strip(" \t\v\f\r")
            position = end
            continue
        if token["raw"]:
            end = _raw_end(text, end - 1)
            if end is None:
                return position
        elif token["strange"] or token["literal"] and not (token["end"] or token["end2"]):
            return position
        elif token["number"] and s[end : end + 1] == "'":
            return position
        elif token["hash"] and at_line_start:
            directive = _DIRECTIVE.match(s, position)
            word = directive["name"] or ""
            if word in _CONDITIONAL:
                return position
            if _JUDGED.match(s, position):
                end = _check(text, position, found)
        elif token["word"] and _HAS.match(s, position):
            end = _check(text, position, found)
        if (token["raw"] or token["literal"]) and re.match(r"\w", s[end : end + 1]):
            return position  # a user-defined suffix, or the prefix of a raw string
        if "\n" in s[position:end]:
            at_line_start = True
        elif not token["comment"]:
            at_line_start = False
        position = max(end, position + 1)
    return None


def _raw_end(text: _Text, quote: int) -> int | None:
    """Where the raw string that opens at this quote ends; None if compilers might differ."""
    origin = text.origin(quote)
    match = _RAW.match(text.source, origin)
    prefix = text.source[max(origin - 3, 0) : origin]
    if not match or not prefix.endswith("R") or "\\\n" in match[0] or "\\\r\n" in match[0]:
        return None
    line_start = text.text.rfind("\n", 0, quote) + 1
    if _IN_DIRECTIVE.match(text.text, line_start, quote):
        return None
    return text.spliced(match.end())


def _check(text: _Text, position: int, found: list[Include]) -> int:
    """Checks one directive or __has_include; returns where it ends."""
    s = text.text
    directive = _DIRECTIVE.match(s, position)
    word = (directive["name"] or "") if directive else "__has_include"
    if directive and (word == "line" or word.isdigit()):
        raise text.refuse(position, "#line is refused: messages must name your own lines")
    if directive and word != "include":
        raise text.refuse(position, f"#{word} is refused: use #include and the header's name")
    start = directive.end() if directive else _HAS.match(s, position).end()
    header = _HEADER.match(s, start)
    if not header:
        what = "#include" if directive else "__has_include"
        raise text.refuse(position, f'{what} needs a plain "header" or <header> here, not a macro')
    quoted = header["quoted"] is not None
    line, column = text.place(start)
    found.append(
        Include(header["quoted"] if quoted else header["angled"], quoted, line, column, bool(directive))
    )
    return header.end()


def refuse(source: str, name: str, include: Include, remedy: str) -> Refused:
    """The message for a header that is neither the course's nor CUDA's."""
    message = f'"{include.name}" is not a header that a kernel may include. {remedy}'
    line = source.split("\n")[include.line - 1].rstrip("\r")
    diagnostic = Diagnostic("error", message, name, include.line, include.column, line)
    return Refused(f"{name}:{include.line}: {message}", (diagnostic,))


def is_plain(name: str) -> bool:
    """Whether a header name stays inside the directory it is looked up in."""
    if not name or name.startswith(("/", "~")) or "\\" in name or ":" in name:
        return False
    return not any(part in ("", ".", "..") for part in name.split("/"))
