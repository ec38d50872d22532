"""What the table of opcodes has, the emitter lowers: nothing is refused later than by the verifier."""

from __future__ import annotations

import contextlib
from random import Random

import llvmlite.binding as llvm
import pytest

from backwarp.devices.virtual.compile import pipeline
from backwarp.devices.virtual.compile.recipes import recipe
from backwarp.devices.virtual.emit import body
from backwarp.devices.virtual.ptx import parse, verify
from backwarp.devices.virtual.ptx.spellings import find, rows
from backwarp.errors import Unsupported
from tests.soak.operands import Scope, spelling

REGISTERS = {
    f"%{type_}_{i}": type_
    for type_ in "pred b16 b32 b64 u16 s16 u32 s32 u64 s64 f16 f16x2 bf16 bf16x2 f32 f64".split()
    for i in range(4)
}
ADDRESSES = (
    "[%b64_1] [%u64_2+8] [%b32_3+-16] [64] [tile+16] [table] [limits+4] [k_param_0] [own] [many+16]".split()
)
KERNEL = """.version 8.0
.target sm_80
.address_size 64
.global .align 16 .b8 table[64];
.const .align 16 .b8 limits[64];
.shared .align 16 .b8 tile[64];
.func (.param .b32 result) f(.param .b32 given) {{ st.param.b32 [result+0], 5; ret; }}
.visible .entry k(.param .align 16 .b8 k_param_0[64]) {{
{registers}
.local .align 16 .b8 own[64]; .param .b32 one; .param .align 16 .b8 many[64];
targets: .branchtargets L;
{body}
L: ret;
}}
.file 1 "kernel.cu"
"""


def kernel(lines: list[str]) -> str:
    registers = "".join(f".reg .{type_} {name};" for name, type_ in REGISTERS.items())
    body = "\n".join(f".loc 1 {i} 1\n{line};" for i, line in enumerate(lines, 1))
    return KERNEL.format(registers=registers, body=body)


def written(pattern: str, rng: Random) -> str:
    """An instruction of a row that the verifier lets through."""
    scope = Scope(REGISTERS, ADDRESSES, ["L"], ["targets"])
    for _ in range(200):
        opcode = spelling(pattern, rng)
        text = f"{opcode} (one), f, (one)" if find(opcode).flow == "call" else scope.made(opcode, rng)
        with contextlib.suppress(Unsupported):
            verify.run(parse.parse(kernel([text])), "kernel.cu")
            return text
    raise AssertionError(f"the verifier lets nothing through that {pattern} stands for")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(2))
def test_each_row_can_be_written_and_is_lowered_in_every_build(seed):
    rng = Random(seed)
    text = kernel([written(pattern, rng) for pattern, _, facts in rows() if "mark" not in facts.split()])
    for made in (recipe("full"), recipe("full", tracking=True), recipe("memory"), recipe("count")):
        llvm.parse_assembly(pipeline.lower(text, "kernel.cu", made, 1 << 34).text).verify()


def test_a_row_that_nothing_lowers_is_named(monkeypatch):
    """Rather than taken for a `mov`."""
    monkeypatch.setattr(body.opcodes, "emit", lambda e, ins: False)
    with pytest.raises(NotImplementedError, match="isa.py has not.b32, but no module of emit/ lowers it"):
        pipeline.lower(kernel(["not.b32 %b32_1, %b32_2"]), "kernel.cu", recipe("none", lanes=1), 1 << 34)
