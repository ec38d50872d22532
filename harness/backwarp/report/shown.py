"""What notebooks show: coloured text, pages and pictures, each with a plain-text version."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from html import escape

from ..grading.verdict import Verdict
from .html import DARKENS, lines_html
from .terminal import body_lines
from .text import verdict_lines

WIDTH = 96  # columns


class Shown:
    """Text with colours: HTML in a notebook, plain elsewhere."""

    def __init__(self, lines, **fields):
        self.lines = lines
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        return "\n".join("".join(text for text, _ in line).rstrip() for line in self.lines)

    def _repr_html_(self) -> str:
        return lines_html(self.lines)


class Page(Shown):
    """HTML, with a text to show in its place."""

    def __init__(self, html: str, text: str):
        super().__init__([[(line, "")] for line in text.splitlines()])
        self.html = html

    def _repr_html_(self) -> str:
        return self.html


class Picture:
    """A picture, with a text that describes it; dark where its surroundings are."""

    def __init__(self, data: bytes, says: str, format: str = "png"):
        self.data, self.says, self.format = data, says, format

    def __repr__(self) -> str:
        return f"<picture: {self.says}>"

    def _repr_html_(self) -> str:
        code = base64.b64encode(self.data).decode()
        source = f"data:image/{self.format};base64,{code}"
        return f'{DARKENS}<img class="backwarp-drawn" style="max-width:100%" alt="{escape(self.says)}" src="{source}">'


def report(verdict: Verdict, more: Iterable[str] = ()) -> Shown:
    """A verdict, and paragraphs below it."""
    return Shown([*verdict_lines(verdict, WIDTH), *told(more)], verdict=verdict)


def png(figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def told(paragraphs: Iterable[str]) -> list:
    return [line for text in paragraphs for line in body_lines(text, WIDTH)]
