"""Special registers: each has a value, of its type, or is refused by its name."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from backwarp.devices.virtual.compile import pipeline
from backwarp.devices.virtual.compile.recipes import RECIPES
from backwarp.devices.virtual.ptx.special import ROWS
from backwarp.errors import Unsupported

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def lowered(*names: str) -> str:
    types = {row.type: "pred" if row.type == "pred" else f"b{row.type[1:]}" for row in ROWS.values()}
    moves = "\n".join(f"mov.{types[ROWS[n].type]} %r{i}, {n};" for i, n in enumerate(names))
    regs = "\n".join(f".reg .{types[ROWS[n].type]} %r{i};" for i, n in enumerate(names))
    body = f".visible .entry k()\n{{\n{regs}\n{moves}\nret;\n}}\n"
    return pipeline.lower(HEAD + body, "kernel.cu", RECIPES["none"], 1 << 30).text


def test_every_value_has_the_type_of_its_register():
    names = [row.name for row in ROWS.values() if row.value]
    assert len(names) > 35
    llvm.parse_assembly(lowered(*names)).verify()


@pytest.mark.parametrize(
    "name, words", [("%pm3", "special register %pm3"), ("%aggr_smem_size", "aggr_smem_size")]
)
def test_what_the_virtual_gpu_does_not_have_is_refused(name, words):
    with pytest.raises(Unsupported, match=words):
        lowered(name)


def test_what_neighbouring_threads_share():
    shared = {row.name for row in ROWS.values() if row.of_neighbours and row.value}
    assert {"%tid.y", "%ctaid.x", "%nwarpid", "%tid.w", "%gridid"} < shared
    assert not {"%tid.x", "%laneid", "%warpid", "%lanemask_lt", "%clock64"} & shared
