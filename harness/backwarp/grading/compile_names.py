"""What an undefined name in a kernel probably means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ..cuda.pieces import Piece
from ..cuda.text import read

#: what a misspelt name may stand for, beside the names of the file: what follows it -> names
KNOWN = {
    r"\s+[\w*]": """
        __global__ __device__ __constant__ __shared__ __restrict__ __forceinline__ extern static constexpr const float double
        int unsigned bool char short long void float2 float4 int4 int32_t int64_t uint32_t size_t return else
    """.split(),
    r"\s*\(": """
        __syncthreads __syncwarp __threadfence __threadfence_block __launch_bounds__ __shfl_sync __shfl_up_sync
        __shfl_down_sync __shfl_xor_sync __any_sync __all_sync __ballot_sync __activemask atomicAdd atomicMax atomicMin
        atomicCAS atomicExch expf logf log1pf sqrtf rsqrtf powf tanhf fabsf fmaxf fminf fmodf floorf isnan isinf min max
        printf assert make_float2 make_float4 while for if
    """.split(),
    r"\s*\.": ["threadIdx", "blockIdx", "blockDim", "gridDim"],
    r"\s*;": ["return", "continue", "break", "INFINITY", "NAN", "FLT_MAX", "true", "false"],
    r"": ["warpSize", "INFINITY", "FLT_MAX", "FLT_MIN"],
}
#: names of Python, and what C++ has in their place
PYTHON = {
    "print": 'printf("%f\\n", x) prints a float and printf("%d\\n", i) an int.',
    "len": "An array does not know its length here: the kernel has its sizes as parameters.",
    "range": "A loop is written for (int i = 0; i < n; i++) { ... }.",
    "elif": "It is written else if (...) in C++.",
    "None": "C++ has no None: a sum begins at 0.0f.",
    "True": "It is written true in C++.",
    "False": "It is written false in C++.",
    "float32": "It is written float in C++.",
    "np": "There is no NumPy in a kernel: write the loop, and functions such as expf and fmaxf.",
}


def similar(name: str, line: int, source: str, stub: str = "", folders: Sequence[Path] = ()) -> str:
    """The name probably meant by an undefined one; "" if none is similar. folders: those of the course's headers."""
    if re.fullmatch(r"__(shfl(_up|_down|_xor)?|any|all|ballot)", name):
        return f"It needs a mask of the lanes that take part: {name}_sync(0xffffffff, ...)."
    if name in PYTHON:
        return PYTHON[name]
    file, offered = read(source), offered_by(tuple(folders))
    if header := header_of(name, source, stub, offered):
        return f"It is declared by #include {header}, at the top of the file."
    visible = file.names_at(file.line_start(line) if 0 < line <= len(file.lines) else 0)
    own = [*visible, *(f.name for f in file.functions), *(m.name for m in file.macros)]
    own += [n for n, header in offered.items() if header in included(source)]
    text = file.lines[line - 1] if 0 < line <= len(file.lines) else ""
    if any(n.lower() == name.lower() for n in visible):
        return nearest(name, own, text)
    typed = f"A variable is declared with its type where it is first set, as in int {name} = ..."
    if re.match(rf"\s*for\s*\(\s*{name}\s*=[^=]", text):
        return typed
    here = file.function_at(line)
    later = [v for v in file.variables if v.name == name and file.function_at(v.line) in (here, None)]
    if later:
        ended = [v for v in later if v.line <= line]
        if ended and (loop := file.piece(ended[-1].scope)).kind == "for_statement" and unbraced(loop):
            return f"{name} belongs to the loop in line {loop.line}, which has no braces: only one statement is in it."
        if ended:
            where = f"The block in which line {ended[-1].line} declares {name} ends before line {line}"
            return f"{where}: declare it before that block."
        return f"{name} is declared only in line {later[0].line}."
    if given := declared_by(stub, name, here.name if here else ""):
        return f"The stub declares {name} here, and this file does not: put back `{given}`."
    if others := [v for v in file.variables if v.name == name]:
        return f"The {name} of line {others[0].line} belongs to another function: each declares its own."
    if near := nearest(name, own, text):
        return near
    if re.match(rf"\s*{name}\s*=[^=]", text):
        return typed
    if re.match(rf"\s*{name}\s*[-+*/]=", text):
        return f"Declare it before the loop, with its type and first value: float {name} = 0.0f;"
    return ""


@lru_cache
def offered_by(folders: tuple[Path, ...]) -> dict[str, str]:
    """Which of the course's headers, as an #include names it, declares a function or a type."""
    found = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.cuh"))):
        header = read(path.read_text(encoding="utf-8"))
        types = (p.part("name").code for p in header.whole.all("alias_declaration", "struct_specifier"))
        found |= dict.fromkeys((*types, *(f.name for f in header.functions)), f'"{path.name}"')
    return found


def included(text: str) -> list[str]:
    return [p.part("path").code for p in read(text).whole.all("preproc_include")]


def header_of(name: str, source: str, stub: str, offered: dict[str, str]) -> str:
    """The header that declares a name, and that a file lacks; that of halves only if none of the stub's is missing."""
    missing = [h for h in included(stub) if h in offered.values() and h not in included(source)]
    if re.fullmatch(r"(__)?half2?|__(float2half|half2float)\w*", name):
        return next(iter(missing), "<cuda_fp16.h>")
    declared = offered.get(name, "")
    return "" if declared in included(source) or read(source).function(name) else declared


def nearest(name: str, own: list[str], text: str) -> str:
    """Asks for the most similar name of the file or of CUDA; "" if there is none. text: the line where it stands."""
    after = text.partition(name)[2]
    cuda = [n for follows, names in KNOWN.items() if re.match(follows, after) for n in names]
    for known in (own, cuda):
        same = [n for n in known if n.lower() == name.lower() and n != name]
        near = same or difflib.get_close_matches(name, [n for n in known if len(n) > 2], n=1, cutoff=0.75)
        if near:
            how = ": capital and small letters are different" if same else ""
            return f"Do you mean {near[0]}{how}?"
    bare = [n for n in cuda if n.strip("_") == name.strip("_")]
    return f"Do you mean {bare[0]}?" if bare else ""


def declared_by(stub: str, name: str, function: str) -> str:
    """What declares a name in a function of the stub, or outside of all; "" if nothing does."""
    file = read(stub)
    for v in file.variables:
        inside = file.function_at(v.line)
        if v.name == name and (inside is None or inside.name == function):
            is_parameter = v.outer.kind == "parameter_declaration"
            return v.outer.code if is_parameter else file.lines[v.line - 1].partition("//")[0].strip()
    return ""


def unbraced(loop: Piece) -> bool:
    body = loop.part("body")
    kind = body.kind if body else ""
    return kind == "expression_statement" or kind == "for_statement" and unbraced(body)
