"""Explains faults of texture and surface objects, and of coordinates in a surface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.abi import GEOMETRIES, MISFITS, TEXELS
from .owners import element
from .wording import named

if TYPE_CHECKING:
    from .faults import Diagnosis

_FUNCTIONS = ("1D", "2D", "3D", "1DLayered", "2DLayered", "Cubemap", "CubemapLayered")  # as GEOMETRIES
_KINDS = ("int", "uint", "float")  # as TEXELS
_GATHER, _FETCH, _STORE = 7 << 12, 1 << 8, 1 << 8  # bits of `how`, see emit/textures


def misfit(d: Diagnosis, record) -> dict:
    """An object used in a way that it does not support."""
    handle, how = int(record["address"]), int(record["extra"]) >> 8
    what = MISFITS[int(record["extra"]) & 255]
    row = d.run.device.textures.find(handle)
    called = _called(
        how, surface=what == "texture" or bool(row is not None and row["surface"] and what != "surface")
    )
    if row is None:
        headline, why = "Invalid texture or surface object", _unknown(d, handle, how)
        return dict(headline=headline, explanation=why)
    name, texels = _name(d, row), _texels(row)
    wanted = TEXELS[how >> 4 & 15]
    why = {
        "surface": f"{called}() is given a surface object of {name}: it needs a texture object.",
        "texture": f"{called}() is given a texture object of {name}: it needs a surface object.",
        "geometry": f"{called}() does not fit {name}, which is {_described(row)}.",
        "memory": f"{called}() reads a CUDA array, and {name} is linear memory: read it with tex1Dfetch().",
        "fetch": f"tex1Dfetch() reads linear memory, and {name} is {_described(row)}: read it with tex{_suitable(row)}().",
        "type": (
            f"{called}() is to return {'floats' if wanted == 'float' else 'integers'} here; {name} has {texels} and"
            f" returns {'integers' if wanted == 'float' else 'floats'}: its type is that of the texels, or float where the"
            " texture is read as cudaReadModeNormalizedFloat."
        ),
        "gather": f"tex2Dgather() needs a CUDA array made for it (cudaArrayTextureGather), which {name} is not.",
    }[what]
    return dict(
        headline=f"Invalid use of a {'surface' if row['surface'] else 'texture'} object",
        array=name,
        explanation=why,
    )


def outside(d: Diagnosis, record) -> dict:
    """Coordinates outside a surface, or between two of its elements."""
    how, row = int(record["extra"]) >> 32, d.run.device.textures.find(int(record["address"]))
    x, y = (_signed(int(record["other_block"]) >> shift & 0xFFFFFFFF) for shift in (0, 32))
    third, size = _signed(int(record["extra"]) & 0xFFFFFFFF), how >> 16 & 255
    name, bytes_, geometry = _name(d, row), int(row["channels"] * row["bytes"]), GEOMETRIES[how & 15]
    width, height, depth = (int(n) for n in row["extent"])
    places = {"x": (x, width * bytes_ - size), "y": (y, height - 1), "z": (third, depth - 1)}
    letters = geometry.removeprefix("a")
    places = {axis: places[axis] for axis in "xyz"[: int(letters[0])]}
    if geometry[0] == "a":
        places["layer"] = third, int(row["layers"]) - 1
    where = ", ".join(f"{axis} = {at}" + " bytes" * (axis == "x") for axis, (at, _) in places.items())
    done = "writes" if how & _STORE else "reads"
    headline = f"Invalid surface {done[:-1]} of size {size} bytes"
    fields = dict(array=name, shape=_extents(row))
    wrong = next((axis for axis, (at, most) in places.items() if not 0 <= at <= most), "")
    text = f"{_called(how, surface=True)}() {done} {name} at {where}"
    if not wrong:
        return fields | dict(
            kind="misaligned",
            headline=f"{headline}: misaligned address",
            explanation=f"{text}, and x counts bytes: it must be a multiple of {size}, the element's number times its size.",
        )
    most = places[wrong][1]
    hint = ": it counts bytes" if wrong == "x" else ""
    return fields | dict(
        kind="out-of-bounds",
        headline=headline,
        explanation=f"{text}; {name} is {_described(row)}, so {wrong} goes from 0 to {most}{hint}.",
    )


def stale(d: Diagnosis, record) -> dict:
    """A read of a texel that the same launch has stored."""
    other = d.place(record["other_site"], record["other_thread"], record["other_block"])
    owner = d.run.arena.nearest(int(record["address"]))
    return named(owner, int(record["address"])) | dict(
        headline="Stale texture read",
        other=other,
        explanation=(
            f"This reads {element(owner, int(record['address']))} through a texture after line {other.line} of the same"
            " launch has stored there, which texture caches need not show: read it in the next launch, or by pointer."
        ),
    )


def _called(how: int, surface: bool) -> str:
    """The CUDA function that a kernel calls."""
    if surface:
        return f"surf{_FUNCTIONS[how & 15]}{'write' if how & _STORE else 'read'}"
    if how & _GATHER:
        return "tex2Dgather"
    return "tex1Dfetch" if how & _FETCH else f"tex{_FUNCTIONS[how & 15]}"


def _unknown(d: Diagnosis, handle: int, how: int) -> str:
    if not handle:
        return "The object is 0: it was never made."
    owner = d.run.arena.nearest(handle) if 0 < handle < d.run.arena.size else None
    if owner and owner.contains(handle):
        return f"This is the address of {owner.name}, where a texture or a surface object is needed: make one of it."
    return f"{handle:#x} is no texture or surface object of this device, or its array is gone."


def _name(d: Diagnosis, row) -> str:
    owner = d.run.arena.nearest(int(row["data"]))
    return owner.name if owner else "the array"


def _extents(row) -> str:
    return " x ".join(str(int(n)) for n in row["extent"][: max(int(row["dimensions"]), 1)])


def _texels(row) -> str:
    channels = int(row["channels"])
    kind = f"{_KINDS[int(row['texel'])]}{8 * int(row['bytes'])}"
    return f"texels of {f'{channels} x ' * (channels > 1)}{kind}"


def _described(row) -> str:
    """`a CUDA array of 8 x 4 texels of float32`"""
    layers = (
        f" in {int(row['layers'])} {'faces of cubes' if row['cube'] else 'layers'}" if row["layers"] else ""
    )
    return f"{_extents(row)} {_texels(row)}{layers}"


def _suitable(row) -> str:
    if row["cube"]:
        return _FUNCTIONS[4 + int(row["cube"])]
    return _FUNCTIONS[int(row["dimensions"]) - 1 + 3 * bool(row["layers"])]


def _signed(number: int) -> int:
    return number - (1 << 32) * (number >> 31)
