"""NVRTC's log -> Diagnostics in the student's file, in NVRTC's own words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from backwarp.errors import Diagnostic

from .includes import Include

MOST = 20  # diagnostics kept per compilation
_WIDTH = 160  # columns kept of a source line
_HEAD = re.compile(
    r"(?:(?P<file>\S.*?)\((?P<line>\d+)\): )?(?:At end of source: )?"
    r"(?P<severity>(?:catastrophic |internal |command-line )?error|[Ww]arning|[Nn]ote|[Rr]emark)"
    r"(?P<number>(?: #\d+(?:-D)?)?): (?P<message>.*)"
)
_EXPRESSIONS = "__nv_name_map"  # NVRTC's name for the list of requested template instances
_CARET = re.compile(r"\s*\^\s*")
_CLOSING = re.compile(
    r"(?: and )?\d+ (?:catastrophic )?errors?(?: detected|\b.*limit)|Compilation terminated|Remark: "
)
# The overloads that the compiler tried, in the message itself or in notes after it.
_CANDIDATE = re.compile(r'(?:number of parameters of )?function (?:template )?".*"')
_AT_LINE = re.compile(r"at line (\d+)(?: of (\S+))?")
# Advice about an option that a student cannot set; the second message is what nvcc users need.
_FLAG_ADVICE = re.compile(r" Consider using -default-device flag .*")
_REMEDIES = (
    (
        "A function without execution space annotations",
        "write __device__ before a function that a kernel calls; host code (main, <<<>>>) does not belong "
        "here",
    ),
    (
        "A namespace scope variable without memory space annotations",
        "write __device__, __constant__ or constexpr before a variable outside a function",
    ),
    (
        "device-side kernel launch could not be processed",
        "a kernel that launches kernels (dynamic parallelism) is not supported here",
    ),
    *(
        (
            f'identifier "{name}" is undefined',
            f"GPUs since Volta have no {name}(): write {name}_sync(0xffffffff, ...)",
        )
        for name in ("__shfl", "__shfl_up", "__shfl_down", "__shfl_xor")
    ),
    *(
        (
            f"{what} is not a template",
            f"CUDA 12 has no {what} references: pass a cuda{what.title()}Object_t to the kernel",
        )
        for what in ("texture", "surface")
    ),
    (
        'identifier "cuda',
        "CUDA's runtime functions are for the host: a kernel cannot call them here (dynamic parallelism is "
        "not supported)",
    ),
    *(
        (
            f'identifier "curandState{name}',
            "cuRAND has two generators here: XORWOW (curandState) and Philox4_32_10",
        )
        for name in ("MRG32k3a", "Mtgp32", "Sobol", "Scrambled")
    ),
    (
        'identifier "alloca" is undefined',
        "NVRTC has no alloca(): write an array of the largest size that is needed",
    ),
    (
        "expression must have a constant value",
        "the length of an array and the arguments of a template are known when the file is compiled: a literal, constexpr"
        " or a parameter of a template; write the largest length that is needed",
    ),
    (
        'identifier "CUDA_has_no_dynamic_cast',
        "CUDA has no run-time type information on the device: write a virtual function, or keep what the type is in the"
        " object",
    ),
    *(
        (f"{name} is not supported for this GPU", f"{what} compute capability 9.0; the virtual GPU has 8.0")
        for name, what in (("__cluster_dims__", "clusters of blocks need"), ("__block_size__", "it needs"))
    ),
    (
        "<typeinfo> must be included",
        "CUDA has no run-time type information on the device: typeid cannot be used",
    ),
)


def parse_log(
    log: str, source: str, name: str, found: Sequence[Include] = (), allowed: tuple[str, ...] = ()
) -> tuple[Diagnostic, ...]:
    """The diagnostics of a log, errors first in the compiler's order.

    found: the student's #include directives, for attributing messages in headers. allowed: names of headers
    and directories whose text may be quoted; no other file is quoted.
    """
    blocks: list[tuple[re.Match, list[str]]] = []
    for line in log.splitlines():
        head = _HEAD.fullmatch(line)
        if head and not line.startswith("Remark: "):
            blocks.append((head, []))
        elif _CLOSING.match(line) or not line.strip():
            continue
        elif blocks:
            blocks[-1][1].append(line)
    lines = source.split("\n")
    result = []
    for head, body in blocks:
        diagnostic = _diagnostic(head, body, lines, name, found, allowed)
        if diagnostic is None:
            continue
        result.append(diagnostic)
        for start, remedy in _REMEDIES:
            if diagnostic.message.startswith(start):
                result.append(Diagnostic("note", remedy))
    # A note belongs to the message before it; whole groups move, errors before warnings.
    groups: list[list[Diagnostic]] = []
    for diagnostic in result:
        if diagnostic.severity == "note" and groups:
            groups[-1].append(diagnostic)
        else:
            groups.append([diagnostic])
    groups.sort(key=lambda g: g[0].severity != "error")
    return tuple(d for group in groups for d in counted(group)[:4])[:MOST]


def counted(group: list[Diagnostic]) -> list[Diagnostic]:
    """A message and its notes, with a single note in place of all of CUDA's overloads that do not fit."""
    unfit = [d for d in group[1:] if not d.line and _CANDIDATE.match(d.message)]
    if len(unfit) < 2:
        return group
    told = Diagnostic("note", f"none of the {len(unfit)} functions of this name fits")
    return [d for d in group if d not in unfit] + [told]


def describe(name: str, messages: tuple[Diagnostic, ...], log: str) -> str:
    """One line for the whole compilation."""
    errors = [m for m in messages if m.severity == "error"]
    if not errors:
        return f"{name} does not compile: {log.strip()[:200] or 'the compiler gave no reason'}"
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors, the first"
    place = f" in line {errors[0].line}" if errors[0].line else ""
    return f"{name} does not compile: {count}{place}: {errors[0].message.splitlines()[0]}"


def _diagnostic(head, body, lines, name, found, allowed) -> Diagnostic | None:
    severity = head["severity"].lower().split()[-1]
    file, line = head["file"], int(head["line"] or 0)
    message = _FLAG_ADVICE.sub("", head["message"])
    caret = next((i for i, text in enumerate(body) if _CARET.fullmatch(text)), None)
    before = body[: max(caret - 1, 0)] if caret is not None else body
    after = body[caret + 1 :] if caret is not None else []
    context = [text.strip() for text in (*before, *after)]
    message, context = chosen_from(message, context)
    message = "\n    ".join([message[:500], *(c[:300] for c in context[:4])])
    if file == _EXPRESSIONS:
        asked = re.search(r"#pragma nv_mangled_name (.*)", body[0]) if body else None
        if message.startswith("Error in parsing name expression") or not asked:
            return None  # the previous message says why
        return Diagnostic(
            severity, f"in {asked[1].strip()}: {head['message'].split('. Input name')[0]}", name
        )
    if file is None:
        return Diagnostic(severity, message, name, len(lines) if head[0].startswith("At end") else 0)
    if file == name:
        quoted = lines[line - 1].rstrip("\r") if 0 < line <= len(lines) else ""
        column = _column(body[caret], quoted) if caret is not None else 0
        return Diagnostic(severity, message, name, line, *_window(column, quoted))
    if severity != "error":
        return None  # warnings inside CUDA's headers are not the student's
    if not any(file == a or file.startswith(a + "/") for a in allowed):
        message = "a file outside the course was read"
    else:
        message = f"in {_short(file, allowed)}({line}): {message}"
    at = _including_line(file, context, name, found)
    quoted = lines[at - 1].rstrip("\r") if 0 < at <= len(lines) else ""
    return Diagnostic(severity, message, name, at, 0, quoted)


def chosen_from(message: str, context: list[str]) -> tuple[str, list[str]]:
    """A message about an ambiguous call, with the number of candidates instead of a line for each."""
    fit = [text for text in context if _CANDIDATE.match(text)]
    if len(fit) < 2:
        return message, context
    return f"{message.removesuffix(':')}: {len(fit)} fit", [text for text in context if text not in fit]


def _column(caret: str, source: str) -> int:
    """The 1-based column of a caret line. NVRTC counts bytes, after an indentation of two."""
    column = caret.index("^") - 2
    return len(source.encode()[:column].decode("utf-8", "ignore")) + 1


def _window(column: int, source: str) -> tuple[int, str]:
    """(column, source), cut to the part around the column if the line is very long."""
    if len(source) <= _WIDTH:
        return column, source
    start = max(0, min(column - _WIDTH // 2, len(source) - _WIDTH))
    cut = source[start : start + _WIDTH]
    return max(column - start, 0), cut


def _short(file: str, allowed: tuple[str, ...]) -> str:
    for directory in allowed:
        if file.startswith(directory + "/"):
            return file[len(directory) + 1 :].removeprefix("cccl/")
    return file


def _including_line(file: str, context: list[str], name: str, found: Sequence[Include]) -> int:
    """The student's line responsible for a message in a header: where it was instantiated or included."""
    for text in reversed(context):
        match = _AT_LINE.search(text)
        if match and match[2] == name:
            return int(match[1])
    for include in found:
        if file == include.name or file.endswith("/" + include.name):
            return include.line
    return found[0].line if found else 0
