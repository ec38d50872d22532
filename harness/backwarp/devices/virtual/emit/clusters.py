"""Clusters of blocks: addresses in the shared memory of each, and their barrier.

An address in shared::cluster is relative to the block's own shared memory; blocks of a cluster run in neighbouring slots.

Source: PTX ISA, sections 9.7.9.23 (mapa), 9.7.9.24 (getctarank) and 9.7.13.4 (barrier.cluster).
"""

from __future__ import annotations

from ..ptx.ir import Symbol
from ..ptx.types import llvm_type
from ..runtime.abi import SHARED_WINDOW, SLOT_BYTES
from .table import statement


def emit(e, ins) -> None:
    """Lower barrier.cluster: a thread that waits suspends, unless all have arrived."""
    if ins.op.operation == "arrive":
        e.state.call("rt_cluster_arrive", str(int("relaxed" in ins.op.mods)), site=e.sites.of(ins))
        return
    wait, done = e.fresh_label("cluster"), e.fresh_label("crossed")
    e.branch(e.op("icmp ne i32", e.state.call("rt_cluster_wait", site=e.sites.of(ins)), 0), done, wait)
    e.label(wait)
    e.control.suspend()
    e.line(f"br label %{done}")
    e.label(done)


def distance(e, operand, type_: str, generic: bool) -> str:
    """How far an address is from the block's own shared memory: an i64."""
    if isinstance(operand, Symbol):
        return e.variables.symbol(operand.name, True, operand.offset)
    value = e.value(operand, type_)
    if llvm_type(type_) == "i32":
        value = e.cast("sext", "i32", value, "i64")
    return e.op("sub i64", value, "%sharedbase") if generic else value


@statement("mapa{.shared::cluster}.(u32|u64)")
def _mapa(e, ins, mods, d, a, b):
    """The same place in another block's shared memory; with a rank that no block has, in nobody's."""
    type_, generic = ins.op.type, "shared::cluster" not in mods
    rank, mine = e.value(b, "u32"), e.state.load("Env", "cluster_rank", invariant=True)
    inside = e.op("and i64", distance(e, a, type_, generic), SLOT_BYTES - 1)
    apart = e.cast("sext", "i32", e.op("sub i32", rank, mine), "i64")
    there = e.op("add i64", inside, e.op("mul i64", apart, SLOT_BYTES))
    nowhere = e.op("add i64", inside, SHARED_WINDOW)
    known = e.op("icmp ult i32", rank, e.state.load("Launch", "cluster", invariant=True))
    found = e.emit(f"select i1 {known}, i64 {there}, i64 {nowhere}")
    if generic:
        found = e.op("add i64", found, "%sharedbase")
    e.set(d, e.resize(found, "i64", llvm_type(type_)), type_)


@statement("getctarank{.shared::cluster}.(u32|u64)")
def _rank(e, ins, mods, d, a):
    apart = distance(e, a, ins.op.type, "shared::cluster" not in mods)
    slots = e.cast("trunc", "i64", e.op("ashr i64", apart, SLOT_BYTES.bit_length() - 1), "i32")
    e.set(d, e.op("add i32", slots, e.state.load("Env", "cluster_rank", invariant=True)), "u32")
