"""The verbs of the `backwarp` command. Exit status: 0 passed, 1 not passed, 2 usage or environment."""

from __future__ import annotations

import gc
import os
import sys

from ..process import as_process, silence_output
from . import classroom, course, editors, grading, running  # noqa: F401 (they add their verbs to the group)
from .group import STATUS, cli

COMPLETION = "_BACKWARP_COMPLETE"  # set by the script of `_BACKWARP_COMPLETE=bash_source backwarp`


def main(arguments: list[str] | None = None) -> None:
    """The command `backwarp`: runs a verb and exits."""
    if COMPLETION in os.environ:  # a shell asks what could come next
        cli.main(prog_name="backwarp")
    gc.set_threshold(1 << 16)  # loaded modules stay, and what a command creates is rarely part of a cycle
    as_process(lambda: run_verb(list(sys.argv[1:] if arguments is None else arguments)))


def run_verb(arguments: list[str]) -> int:
    """Runs one verb; its exit status."""
    with cli.make_context("backwarp", arguments) as context:
        try:
            cli.invoke(context)
        except BrokenPipeError:  # the reader closed the pipe; the verdict still counts
            silence_output()
        return context.meta.get(STATUS, 0)
