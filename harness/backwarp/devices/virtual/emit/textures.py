"""Textures and surfaces: the runtime reads texels, and finds the addresses of a surface's elements.

Source: PTX ISA, sections 9.7.10 (textures) and 9.7.11 (surfaces).
"""

from __future__ import annotations

from ..ptx.ir import Vector
from ..runtime.abi import BOUNDARIES, GEOMETRIES
from .control import DEAD
from .table import statement

_KINDS = ("s32", "u32", "f32")  # in the order of abi.TEXELS
_COMPONENTS = "rgba"


def emit(e, ins) -> None:
    """tex, tld4. There are no mipmaps, so levels and gradients are ignored."""
    op, texel = ins.op, ins.named["t"]
    for i, coordinate in enumerate(texel.coordinates):
        value = e.resize(e.value(coordinate, "b32"), "i32", "i64")
        e.line(f"store i64 {value}, ptr {e.state.pointer('Extra', 'data', 8 * i)}")
    gather = _COMPONENTS.index(op.operation) + 1 if op.base == "tld4" else 0
    fetch = op.types[-1] == "s32"
    how = GEOMETRIES.index(op.geometry) | _KINDS.index(op.types[0]) << 4 | fetch << 8 | gather << 12
    e.module.declare("rt_texture")
    result = e.state.call("rt_texture", e.value(texel.handle, "b64"), str(how), site=e.sites.of(ins))
    good = e.fresh_label("fetched")
    e.branch(e.op("icmp ne i32", result, 0), good, DEAD)
    e.label(good)
    texels, *resident = (d,) if isinstance(d := ins.named["d"], Vector) else d.parts
    for target in resident:  # as everything is that has memory
        e.set(target, "true", "pred")
    for i, target in enumerate(texels.parts):
        value = e.emit(f"load i64, ptr {e.state.pointer('Extra', 'data', 8 * i)}")
        e.set(target, e.cast("trunc", "i64", value, "i32"), "b32")


@statement("surface.(ld|st).<flat>.<boundary>")
def _surface(e, ins, mods, d, texel, nbytes):
    """Where an element is. The coordinate in x counts bytes."""
    op, parts = ins.op, ["0"] * 4
    for letter, coordinate in zip(op.coordinates, texel.coordinates, strict=True):
        if letter != "_":
            parts["xyzl".index(letter)] = e.resize(e.value(coordinate, "b32"), "i32", "i64")
    x, y, z, layer = parts
    third = layer if "l" in op.coordinates else z
    how = GEOMETRIES.index(op.geometry) | BOUNDARIES.index(mods[-1]) << 4 | ("st" in mods) << 8
    e.module.declare("rt_surface")
    at = e.state.call(
        "rt_surface",
        e.value(texel.handle, "b64"),
        str(how | nbytes.value << 16),
        e.op("or i64", x, e.op("shl i64", y, 32)),
        third,
        site=e.sites.of(ins),
    )
    good = e.fresh_label("found")
    e.branch(e.op("icmp ne i64", at, -1), good, DEAD)
    e.label(good)
    e.set(d, at, "b64")
