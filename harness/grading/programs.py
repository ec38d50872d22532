"""The student's Python files: reads one and says what is wrong with it, by line and without a traceback."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Mapping

from ..course.checkout import broken_line
from ..errors import BackwarpError, KernelFault
from .sentences import nth_line, source_line


class ProgramError(BackwarpError):
    """A Python file is wrong. kind: as in Verdict; lines: sentences, and the line it is about."""

    def __init__(self, kind: str, lines: Iterable[str]):
        self.kind, self.lines = kind, list(lines)
        super().__init__("\n".join(self.lines))

    def __reduce__(self):
        return ProgramError, (self.kind, self.lines)


def load_program(source: str, name: str, signatures: Iterable[str]) -> dict[str, Callable]:
    """Runs the file and returns its functions. signatures: of the functions it must define, such as
    `forward(net)`.

    Errors: ProgramError.
    """
    namespace: dict = {"__name__": name.removesuffix(".py"), "__file__": name}
    guarded(source, name, lambda: exec(compile(source, name, "exec"), namespace))
    found = {}
    for signature in signatures:
        function, wanted = signature.split("(")[0], parameters(signature)
        if not callable(namespace.get(function)):
            raise ProgramError("missing-function", missing(signature, namespace, name))
        found[function] = namespace[function]
        code = getattr(found[function], "__code__", None)
        if code and (code.co_argcount != len(wanted) or code.co_kwonlyargcount):
            line = code.co_firstlineno
            raise ProgramError(
                "signature",
                [
                    f"{name}:{line}: {function} takes {code.co_argcount} parameters; it must be {signature}",
                    *source_line(line, nth_line(source, line)),
                ],
            )
    return found


def parameters(signature: str) -> list[str]:
    return [a.arg for a in ast.parse(f"def {signature}: pass").body[0].args.args]


def missing(signature: str, namespace: Mapping, name: str) -> list[str]:
    """Two sentences: the function that the file `name` does not define, and what to do about it."""
    function = signature.split("(")[0]
    defined = [n for n, value in namespace.items() if callable(value) and not n.startswith("_")]
    near = difflib.get_close_matches(function, defined, n=1, cutoff=0.6)
    remedy = f"Rename {near[0]} to {function}." if near else f"It must have: def {signature}:"
    return [f"{name} does not define the function {function}.", remedy]


def guarded(source: str, name: str, work: Callable):
    """The result of `work`, which runs the student's code. Whatever it raises becomes a ProgramError."""
    try:
        return work()
    except ProgramError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ProgramError(kind_of(error), explained(error, source, name)) from None


class OutOfTime(BaseException):
    """Raised in the student's code when its time is up; no `except Exception` of theirs catches it."""


def kind_of(error: BaseException) -> str:
    """The kind as in Verdict: an error of the harness is about a launch or a kernel's fault."""
    kinds = (SyntaxError, "syntax"), (OutOfTime, "timeout"), (KernelFault, "fault"), (BackwarpError, "launch")
    return next((kind for type_, kind in kinds if isinstance(error, type_)), "exception")


def explained(error: BaseException, source: str, name: str) -> list[str]:
    """`step.py:23: NameError: name 'conv2' is not defined`, and the line."""
    line = broken_line(error, name)
    column = (error.offset or 0) if isinstance(error, SyntaxError) and error.filename == name else 0
    says = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())[:400]
    what = says if isinstance(error, (BackwarpError, OutOfTime)) else f"{type(error).__name__}: {says}"
    if isinstance(error, SystemExit):
        what = "the program ends itself here; it has to return instead"
    where = f"{name}:{line}: " if line else f"{name}: "
    return [where + what.rstrip(": "), *source_line(line, nth_line(source, line), column)]
