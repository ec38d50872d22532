"""PTX text in and out, for the tests of passes."""

from __future__ import annotations

import textwrap

from backwarp.devices.virtual.ptx import parse
from backwarp.devices.virtual.ptx.ir import Function, Label, Module


def module(text: str) -> Module:
    return parse.parse(textwrap.dedent(text), "kernel.cu")


def printed(function: Function) -> str:
    """A body, an item a line."""
    return "\n".join(f"{i.name}:" if isinstance(i, Label) else f"{str(i).strip()};" for i in function.body)


def lines(text: str) -> str:
    """What `printed` gives for a body that is written with indentation."""
    return "\n".join(line.strip() for line in text.strip().splitlines())
