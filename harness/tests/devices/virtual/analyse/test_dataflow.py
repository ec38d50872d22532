"""The engine on graphs small enough to solve by hand."""

from __future__ import annotations

from backwarp.devices.virtual.analyse.assigned import maybe_undefined
from backwarp.devices.virtual.analyse.dataflow import (
    computed_from,
    dominators,
    reached,
    solve,
    through_blocks,
)
from backwarp.devices.virtual.ptx.cfg import basic_blocks
from tests.devices.virtual.ptx_text import module

#: 1 -> (2 | 3) -> 4 -> 2 again; nothing leads to 0
LOOP = {0: [3], 1: [2, 3], 2: [4], 3: [4], 4: [2, 5], 5: []}


def test_what_can_be_reached():
    assert reached([1], LOOP.get) == {1, 2, 3, 4, 5}
    assert reached([2, 3], LOOP.get) == {2, 3, 4, 5} and reached([], LOOP.get) == set()


def test_a_node_dominates_those_that_every_path_reaches_through_it():
    found = dominators(1, LOOP.__getitem__)
    assert found == {1: {1}, 2: {1, 2}, 3: {1, 3}, 4: {1, 4}, 5: {1, 4, 5}}


def test_states_are_joined_until_none_changes():
    """The longest distance, up to 9, from a node: what a loop adds goes around it until the limit."""
    longest = solve({1: 0}, lambda n, found: ((t, min(found[n] + 1, 9)) for t in LOOP[n]), max)
    assert longest == {1: 0, 2: 9, 3: 1, 4: 9, 5: 9}


KERNEL = """
.visible .entry k()
{
    .reg .b32 %r<8>; .reg .pred %p<2>;
    @%p1 bra $L_two;
    mov.u32 %r1, 1;
    mov.u32 %r2, 2;
    bra $L_join;
$L_two:
    mov.u32 %r2, 3;
$L_join:
    add.u32 %r3, %r1, %r2;
    mov.u32 %r4, %r1;
    mov.u32 %r5, %r4;
    @%p1 mov.u32 %r6, 0;
    xor.b32 %r7, %r6, %r3;
    ret;
}
"""


def test_what_holds_on_all_paths_to_a_block_and_on_any():
    body = module(KERNEL).functions["k"].body
    blocks = basic_blocks(body)

    def written_behind(block, state):
        items = body[block : blocks[block][0]]
        return state.union(*(i.writes for i in items if hasattr(i, "writes")))

    join = max(blocks, key=lambda b: len(blocks[b][1]) == 0 and blocks[b][0] > b)
    every = through_blocks(blocks, frozenset(), written_behind, frozenset.intersection)
    some = through_blocks(blocks, frozenset(), written_behind, frozenset.union)
    assert every[join] == {"%r2"} and some[join] == {"%r1", "%r2"}


def test_a_register_counts_as_assigned_only_if_it_is_on_every_path():
    function = module(KERNEL).functions["k"]
    # %r4 and %r5 get copies; what is computed from it does not count
    assert maybe_undefined(function.body, function.regs) == {"%p1", "%r1", "%r4", "%r5", "%r6"}


def test_what_is_computed_from_a_register():
    body = module(KERNEL).functions["k"].body
    assert computed_from(body, ["%r1"], lambda ins: True) == {"%r1", "%r3", "%r4", "%r5", "%r7"}
    assert computed_from(body, ["%r1"], lambda ins: ins.base == "mov") == {"%r1", "%r4", "%r5"}
