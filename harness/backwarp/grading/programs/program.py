"""Runs a student's Python file in a separate process, and reports what is wrong with it, by line and without
a traceback."""

from __future__ import annotations

import ast
import difflib
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ...devices.child import ENVIRONMENT, Child, Damaged
from ...devices.emulated import patience
from ...errors import BackwarpError, DeviceError, KernelFault
from ..sentences import nth_line, source_line
from .data import CODEC, MOST_PRINTED, MOST_TOLD, Raised, Refused

START_LIMIT, GRACE = 60.0, 3.0  # seconds for the process to start; seconds beyond its own time limit
#: bytes of address space, enforced by its own process; all processes together may use as much memory
MEMORY = 1 << 30
LIBRARIES = 1 << 30  # further bytes for a driver's libraries, such as PyTorch for CUDA
MOST_BYTES = 64 << 20  # bytes per message
KINDS = ("syntax", "timeout", "launch", "fault")


class _Process(Child):
    """The child; every message must arrive before the program's time is up."""

    def __init__(self, program: Program):
        worker = "backwarp.grading.programs.worker"
        driver = [program.driver] if program.driver else []
        self.granted = LIBRARIES if driver else 0
        bounds = dict(most=MOST_BYTES, memory=MEMORY + self.granted)
        super().__init__(worker, *driver, environment=ENVIRONMENT, codec=CODEC, **bounds)
        self._program = program

    def receive(self, *_):
        return super().receive(max(self._program.until + GRACE - time.monotonic(), 0.0))


class ProgramError(BackwarpError):
    """A Python file is wrong. kind: as in Verdict; lines: sentences, and the source line."""

    def __init__(self, kind: str, lines: Iterable[str]):
        self.kind, self.lines = kind, list(lines)
        super().__init__("\n".join(self.lines))

    def __reduce__(self):
        return ProgramError, (self.kind, self.lines)


class Program:
    """A Python file in its own process, which can only compute and make requests (see worker.py).

    requests: what it may request from the `net` passed to its functions: verb -> work(net, ...). driver: a
    module whose functions are called in place of the file's, see declare.Program.
    """

    def __init__(self, requests: Mapping[str, Callable], driver: str = ""):
        self._requests, self.driver, self._child, self._busy = requests, driver, None, False
        self._refused: BackwarpError | None = None  # the last request that failed
        self.source = self.name = ""
        self.until = self.seconds = 0.0  # when its time is up; the length of its time
        self.printed, self.dropped = "", 0  # the beginning of its output, and the number of lines cut
        self.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_) -> None:
        self.end()

    def start(self) -> None:
        """Starts it without waiting for it to be ready."""
        if not self._child:
            self._child = _Process(self)

    def end(self) -> str:
        """Stops it; returns how it ended."""
        child, self._child = self._child, None
        return child.end() if child else ""

    def allow(self, seconds: float) -> None:
        """Sets the time for everything until the next `allow`."""
        seconds *= patience()
        self.until, self.seconds = time.monotonic() + seconds, seconds

    def load(self, source: str, name: str, signatures: Iterable[str], seconds: float) -> dict[str, Callable]:
        """Runs the file and returns its functions, or "call", which calls one of the driver's. signatures:
        the functions it must define, such as `forward(net)`.

        Errors: ProgramError.
        """
        self.source, self.name = source, name
        self.start()
        self.allow(seconds)
        self.until += START_LIMIT * patience()
        names = [signature.split("(")[0] for signature in signatures]
        match self._ask(None, "load", source, name, names):
            case {"defined": list() as defined, "codes": dict() as codes}:
                for signature in signatures:
                    self._check_function(signature, [str(n)[:60] for n in defined[:1000]], codes)
            case _:
                raise self._nonsense()
        if self.driver:
            return {"call": self.call}
        return {function: partial(self.call, function) for function in names}

    def call(self, function: str, *arguments, valid: Callable[[object], bool] = lambda found: True) -> object:
        """Calls a function and returns its result. A net argument is not sent: the function gets a proxy that
        makes requests. valid: checks a driver's result.

        Errors: ProgramError, caused by a launch's error if there was one.
        """
        nets = [a for a in arguments if hasattr(a, "handle")]
        sent = [a.handle() if hasattr(a, "handle") else a for a in arguments]
        found = self._ask(nets[0] if nets else None, "call", function, sent)
        if not valid(found):
            raise self._nonsense()
        return found

    def _ask(self, net, verb: str, *arguments) -> object:
        """The answer to a request, serving the file's own requests meanwhile."""
        seconds = max(min(self.until - time.monotonic(), self.seconds), 0.001)
        verbs = {name: partial(self._answer, net, work) for name, work in self._requests.items()}
        self._refused = None
        if not self._child:
            raise ProgramError("exception", [f"The process of {self.name} has ended."])
        self._child.allow(seconds + START_LIMIT * patience())
        try:
            match self._child.ask(verb, (seconds, *arguments), verbs=verbs):
                case found, str() as printed, int() as dropped:
                    pass
                case _:
                    raise Damaged
        except TimeoutError:
            self.end()
            what = f"{self.name} is still running after {self.seconds:g} s, and was ended."
            raise ProgramError("timeout", [what]) from None
        except MemoryError:
            self.end()
            what = f"{self.name} takes more memory than a program here may have, and was ended."
            raise ProgramError("exception", [what]) from None
        except (Damaged, Refused):
            raise self._nonsense() from None
        except (EOFError, ConnectionError):
            raise self._gone() from None
        except BaseException:  # Ctrl-C leaves an answer unread
            self.end()
            raise
        if not self.printed:
            self.printed, self.dropped = _clean(printed[:MOST_PRINTED]), dropped
        if isinstance(found, Raised):
            if found.kind == "timeout":  # an answer may be unread
                self.end()
            known = found.text == str(self._refused)[:MOST_TOLD]
            raise self._error(found) from self._refused if known else None
        return found

    def _answer(self, net, work: Callable, *arguments) -> object:
        """Serves a request from the file. Errors: Damaged, Refused."""
        try:
            inspect.signature(work).bind(net, *arguments)
        except TypeError:
            raise Damaged from None
        if net is None:
            raise Refused("launch", "net can be used in a function that gets it, until it returns")
        if self._busy:  # serving a request that calls the file again
            raise Damaged
        self._busy, started = True, time.monotonic()
        try:
            return work(net, *arguments)
        except BackwarpError as error:
            self._refused = error
            raise Refused("fault" if isinstance(error, KernelFault) else "launch", str(error)) from None
        finally:
            self._busy, now = False, time.monotonic()
            if started < self.until < now:  # time passed here: it must still be able to say so
                self.until = now

    def _error(self, raised: Raised) -> ProgramError:
        """`step.py:23: NameError: name 'conv2' is not defined`, and the line."""
        if not all(isinstance(n, int) for n in (raised.line, raised.column)):
            return self._nonsense()
        says = _clean(" ".join(str(raised.text).split())[:400])
        name, kind = _clean(str(raised.type))[:60], raised.kind if raised.kind in KINDS else "exception"
        what = says if kind in ("launch", "fault", "timeout") else f"{name}: {says}"
        if name == "SystemExit":
            what = "the program ends itself here; it has to return instead"
        where = f"{self.name}:{raised.line}: " if raised.line else f"{self.name}: "
        lines = [where + what.rstrip(": ")]
        lines += source_line(raised.line, nth_line(self.source, raised.line), max(raised.column, 0))
        if name == "PermissionError":
            lines.append("A program here has no access to files, other processes and the network.")
        return ProgramError(kind, lines)

    def _nonsense(self) -> ProgramError:
        self.end()
        what = f"The process of {self.name} sent what no net sends, and was ended."
        return ProgramError("exception", [what, "Use net only as the lesson shows."])

    def _gone(self) -> ProgramError | DeviceError:
        child, how = self._child, self.end()
        if not (child and child.ready):
            return DeviceError(f"the process for {self.name} cannot be started ({how})")
        what = f"The process of {self.name} ended unexpectedly ({how})."
        why = "A function has to return: os._exit, os.abort and what crashes Python end the process."
        return ProgramError("exception", [what, why])

    def _check_function(self, signature: str, defined: list[str], codes: dict) -> None:
        """ProgramError if a function that the file must have is missing, or has other parameters."""
        function, wanted = signature.split("(")[0], parameters(signature)
        if function not in codes:
            raise ProgramError("missing-function", missing(signature, defined, self.name))
        match codes[function]:
            case (int() as given, int() as by_name, int() as line) if given != len(wanted) or by_name:
                takes = f"takes {given} parameters; it must be {signature}"
                where = source_line(line, nth_line(self.source, line))
                raise ProgramError("signature", [f"{self.name}:{line}: {function} {takes}", *where])


def parameters(signature: str) -> list[str]:
    return [a.arg for a in ast.parse(f"def {signature}: pass").body[0].args.args]


def missing(signature: str, defined: Iterable[str], name: str) -> list[str]:
    """Two sentences: the function that the file `name` does not define, and what to do about it."""
    function = signature.split("(")[0]
    near = difflib.get_close_matches(function, list(defined), n=1, cutoff=0.6)
    remedy = f"Rename {near[0]} to {function}." if near else f"It must have: def {signature}:"
    return [f"{name} does not define the function {function}.", remedy]


def _clean(text: str) -> str:
    """Text that can be encoded: a program may print halves of characters."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
