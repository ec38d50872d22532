"""Runs a command as a process: every exception becomes one line and an exit status, never a traceback."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click

from .errors import BackwarpError, CourseError

INTERRUPTED = 130  # exit status, as in shells
MOST_SAID = 2000  # characters of an error message, which may quote anything


def as_process(work: Callable[[], int | None]) -> NoReturn:
    """Exits with the status of `work`, never with a traceback."""
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    status = guarded(work)
    sys.exit(max(status, guarded(flush_output)))


def guarded(work: Callable[[], int | None]) -> int:
    """The exit status of `work`; every exception becomes one line on standard error and a status."""
    try:
        return _guarded(work)
    except (KeyboardInterrupt, click.Abort):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        print("interrupted", file=sys.stderr)  # plain print: other modules may be half loaded
        return INTERRUPTED


def _guarded(work: Callable[[], int | None]) -> int:
    """Handles everything except Ctrl-C."""
    try:
        return work() or 0
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.ClickException as e:
        from .report.terminal import printable

        e.message = printable(e.message)  # it quotes arguments
        e.show()
        return 2
    except click.Abort:
        raise
    except BrokenPipeError:
        silence_output()
        return 0
    except BackwarpError as e:
        complain(f"backwarp: {e}")
        return 2
    except OSError as e:
        if e.errno == errno.ENOSPC:  # /dev/full, for example
            silence_output()
            complain(f"backwarp: the output cannot be written: {e.strerror}")
            return 2
        return unexpected()
    except Exception:
        return unexpected()


def write(text: str, path: str) -> None:
    """Writes to a file, or to standard output for "-". Errors: CourseError."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as e:
        raise CourseError(f"{path} cannot be written: {e.strerror}") from None


def complain(text: str) -> None:
    from .report.terminal import printable, show_text

    if len(text) > MOST_SAID:
        text = f"{text[:MOST_SAID]} ..."
    if sys.stderr.isatty():
        show_text(text.splitlines(), indent="", stream=sys.stderr)
    else:
        print(printable(text), file=sys.stderr)


def unexpected() -> int:
    """Handles an exception that is not a message for the student, but a bug in the harness."""
    if os.environ.get("BACKWARP_DEBUG"):
        raise
    return internal_error()


def internal_error() -> int:
    """One line; the traceback goes to a file."""
    kind, value, _ = sys.exc_info()
    text, where = traceback.format_exc(), ""
    try:
        from .course.checkout import open_course
        from .course.progress import make_state_folder

        folder = open_course().root / ".backwarp"
        make_state_folder(folder)
        (folder / "last-error.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
        where = " with .backwarp/last-error.txt"
    except (BackwarpError, OSError):
        pass
    summary = " ".join(f"{kind.__name__}: {value}".split())[:200]
    complain(f"backwarp: internal error ({summary}); please report it{where}.")
    return 2


def flush_output() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def silence_output() -> None:
    """The pipe is closed: later writes and the flush at exit must not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
