"""Programs for the device part of the CUDA C++ Programming Guide, one for each feature: each runs in both flavours
with the result expected, or is refused in one sentence.

`guide/*.cu` contain the kernels, by the guide's chapters (`//# ...`). A comment above each says what it shows
and what the result is:

    //: feature = values            `out` holds these, in NumPy's terms; t numbers the threads
    //: feature prints text         of printf
    //: feature faults kind
    //: feature refused "words"     which the message contains
    //: feature @ grid, block, bytes of shared memory = values
    //: feature <- texture(numbers), 3 = values      the kernel's other arguments (see GIVEN)

`guide/table.md` says the same by chapters; `python -m tests.conformance.test_guide` writes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from backwarp.devices.texture import (
    ARRAY,
    LINEAR_MEMORY,
    PITCH_2D,
    SURFACE,
    ChannelFormatDescriptor,
    CUDAarray,
    ResourceDescriptor,
    SurfaceObject,
    TextureDescriptor,
    TextureObject,
)
from backwarp.errors import CompileError, KernelFault
from tests.devices.virtual.launches import FLAVOURS, device

FOLDER = Path(__file__).parent / "guide"
MACROS = """
#define TEST(T, name, ...) extern "C" __global__ void name(T* out, ##__VA_ARGS__)
#define t int(blockDim.x * blockIdx.x + threadIdx.x)
"""
TYPES = {
    "int": "i4",
    "unsigned": "u4",
    "float": "f4",
    "double": "f8",
    "long long": "i8",
    "unsigned long long": "u8",
}


def _texture(dev, numbers, flags=0, vector=False, **how):
    """A texture of a CUDA array that holds these."""
    array = CUDAarray.of(np.asarray(numbers), flags, device=dev, vector=vector)
    return TextureObject(
        ResourceDescriptor(ARRAY, cuArr=array), TextureDescriptor(**{"addressModes": (1, 1, 1)} | how)
    )


def _linear(dev, numbers, channels=1, height=0, **how):
    """One of linear memory, row by row if it has a height."""
    array, texel = (
        dev.array(np.asarray(numbers)),
        ChannelFormatDescriptor.of(np.asarray(numbers).dtype, channels),
    )
    resource = ResourceDescriptor(LINEAR_MEMORY, arr=array, chDesc=texel, sizeInBytes=array.nbytes)
    if height:
        pitch = array.nbytes // height
        resource = ResourceDescriptor(PITCH_2D, None, array, texel, 0, pitch // texel.nbytes, height, pitch)
    return TextureObject(resource, TextureDescriptor(**{"addressModes": (1, 1, 1)} | how))


def _surface(dev, numbers, flags=0, vector=False):
    array = CUDAarray.of(np.asarray(numbers), SURFACE | flags, device=dev, vector=vector)
    return SurfaceObject(ResourceDescriptor(ARRAY, cuArr=array))


GIVEN = {"texture": _texture, "linear": _linear, "surface": _surface}
_HEAD = re.compile(
    r'(?P<what>.*?)(?: @ (?P<launch>.*?))?(?: <- (?P<given>.*?))?(?: = (?P<values>.*)| (?P<verb>prints|faults|refused) "?(?P<words>.*?)"?)'
)
_KERNEL = re.compile(r"TEST\((?P<type>[\w ]+), (?P<name>\w+)|(?P<plain>\w+)\(int\* out\) ")


@dataclass(frozen=True)
class Program:
    """One feature. name, type: of the kernel and its output. values: the expression; verb, words: otherwise."""

    chapter: str
    what: str
    code: str
    name: str
    type: str
    launch: tuple = (1, 32, 0)
    given: str = ""
    values: str = ""
    verb: str = ""
    words: str = ""

    @property
    def expected(self) -> np.ndarray:
        threads = prod(np.ravel(self.launch[0])) * prod(np.ravel(self.launch[1]))
        return np.ravel(eval(self.values or "t", {"np": np, "t": np.arange(threads)})).astype(self.type)


def programs(text: str) -> list[Program]:
    found, chapter = [], ""
    for block in re.split(r"^(?=//[#:] )", text, flags=re.MULTILINE)[1:]:
        head, _, code = block.partition("\n")
        if head.startswith("//#"):
            chapter = head[4:]
            continue
        parts = _HEAD.fullmatch(head[4:])
        kernel = list(_KERNEL.finditer(code))[-1]
        launch = eval(parts["launch"]) if parts["launch"] else Program.launch
        more = {name: parts[name] or "" for name in ("given", "values", "verb", "words")}
        name, type_ = kernel["name"] or kernel["plain"], TYPES[kernel["type"] or "int"]
        found.append(Program(chapter, parts["what"], code, name, type_, launch, **more))
    return found


def head(text: str) -> str:
    return text[: text.index("//# ")] + MACROS


def run(program: Program, dev, module) -> str:
    """Runs it; returns what is wrong, "" if nothing."""
    expected = program.expected
    out = dev.array(np.zeros(expected.size, program.type), name="out")
    names = {name: partial(make, dev) for name, make in GIVEN.items()} | {"np": np}
    given = eval(f"({program.given},)", names) if program.given else ()
    try:
        launch = module.get_function(program.name)(*program.launch[:2], (out, *given), program.launch[2])
    except KernelFault as fault:
        return "" if (program.verb, program.words) == ("faults", fault.kind) else str(fault)
    if told := [n for n in launch.notes if n.kind != "cooperative-launch"]:
        return str(told[0])
    if program.verb:
        return (
            ""
            if (program.verb, launch.stdout) == ("prints", program.words + "\n")
            else launch.stdout or "runs"
        )
    return "" if np.array_equal(out.get(), expected) else f"{out.get()}, not {expected}"


#: full checks see more where it is about memory, and otherwise take three times as long; the headers of libcu++ and
#: cooperative groups take seconds
BY_DAY = dict.fromkeys(("language", "memory", "spaces"), "full")
BY_DAY |= dict.fromkeys(("hints", "mathematics", "textures", "vectors", "warps"), "memory")
RUNNING = sorted(path.stem for path in FOLDER.glob("*.cu") if path.stem != "refused")


@pytest.mark.parametrize(
    ("file", "checks"),
    [
        pytest.param(file, checks, marks=[pytest.mark.soak] * (BY_DAY.get(file) != checks))
        for file, checks in product(RUNNING, FLAVOURS)
    ],
)
def test_what_runs(file, checks):
    text, dev = (FOLDER / f"{file}.cu").read_text(), device(checks)
    module = dev.compile(head(text) + text[text.index("//# ") :], name=f"{file}.cu")
    wrong = {p.what: said for p in programs(text) if (said := run(p, dev, module))}
    assert not wrong


REFUSED = programs((FOLDER / "refused.cu").read_text())


@pytest.mark.parametrize("program", REFUSED, ids=lambda p: p.name)
def test_what_is_refused(program):
    for checks in FLAVOURS:
        with pytest.raises(CompileError) as caught:
            device(checks).compile(MACROS + program.code)
        said = [str(caught.value), *(d.message for d in caught.value.diagnostics)]
        assert any(program.words in sentence for sentence in said), said


def table() -> str:
    """All programs by chapter, in Markdown."""
    chapters: dict[str, list[Program]] = {}
    for path in sorted(FOLDER.glob("*.cu")):
        for program in programs(path.read_text()):
            chapters.setdefault(program.chapter, []).append(program)
    lines = ["| chapter | runs | is refused |", "| --- | --- | --- |"]
    for chapter, members in chapters.items():
        runs = "; ".join(p.what for p in members if p.verb != "refused")
        refused = "; ".join(f'{p.what} ("{p.words}")' for p in members if p.verb == "refused")
        lines.append(f"| {chapter} | {runs} | {refused} |")
    return "\n".join(lines) + "\n"


def test_the_table_is_of_these_programs():
    assert (FOLDER / "table.md").read_text() == table()
    assert table().count(";") > 150


if __name__ == "__main__":
    (FOLDER / "table.md").write_text(table())
