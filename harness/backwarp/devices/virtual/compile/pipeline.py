"""PTX -> machine code, step by step. `recipes` defines the steps of each build."""

from __future__ import annotations

from dataclasses import replace

from ....errors import Unsupported
from ..analyse import inflight
from ..analyse.facts import ModuleFacts
from ..analyse.packs import packs
from ..emit import module as emit
from ..emit.function import NotAsLanes
from ..instrument import (
    accesses,
    barriers,
    bounds,
    checked,
    initialised,
    notes,
    races,
    reached,
    registers,
    segments,
    steps,
    turns,
    watchdog,
)
from ..ptx import parse, verify
from ..ptx.ir import Module
from ..rewrite import (
    bases,
    clusters,
    copy_parameters,
    decide,
    drop_identities,
    drop_labels,
    fragments,
    inline,
    predicates,
    promote,
    scouts,
    specialise,
    split_depots,
    surfaces,
    unroll,
)
from . import llvm
from .modules import Lowered
from .recipes import Check, Recipe, Rewrite
from .targets import target

_REWRITES = {
    Rewrite.IDENTITIES: drop_identities.run,
    Rewrite.DEPOTS: split_depots.run,
    Rewrite.STEPS: steps.note,
    Rewrite.LABELS: drop_labels.run,
}
#: the instrumentation passes, in order
_CHECKS = {
    Check.RACES: races.run,
    Check.BARRIERS: barriers.run,
    Check.REGISTERS: registers.run,
    Check.SEGMENTS: segments.run,
}
#: those of them that tell what is wrong, which lanes with full checks do not
_TELLING = {Check.RACES, Check.BARRIERS}


class TooLong(Exception):
    """The PTX would take too long to compile, usually because loops are unrolled."""


def compile_ptx(
    text: str, name: str, recipe: Recipe, arena_size: int, fixed=(), longest: int = 0
) -> tuple[Lowered, bytes]:
    """The lowered module, without its text, and an object file; none if lanes were to find out whether anything may be
    wrong, and no kernel has any. fixed: see `Kernel.fixed`. longest: the most instructions in a function; 0: no limit.

    Errors: Unsupported, with the line, for anything that has no exact translation; TooLong.
    """
    lowered = lower(text, name, recipe, arena_size, fixed, longest)
    kernels = lowered.kernels.values()
    if Check.RACES in recipe and _width(recipe) > 1 and not any(kernel.scouts for kernel in kernels):
        return replace(lowered, text=""), b""
    simple = bool(kernels) and all(kernel.lanes > 1 for kernel in kernels)
    code = llvm.compile_object(lowered.text, recipe, simple)
    return replace(lowered, text=""), code


def lower(text: str, name: str, recipe: Recipe, arena_size: int, fixed=(), longest: int = 0) -> Lowered:
    """PTX -> LLVM text. Errors: as `compile_ptx`."""
    try:
        return _lower(text, name, recipe, arena_size, fixed, longest)
    except NotAsLanes:
        return _lower(text, name, replace(recipe, lanes=1), arena_size, fixed, longest)
    except RecursionError:  # passes follow calls recursively
        raise Unsupported("functions whose calls are nested hundreds deep", name) from None


def _width(recipe: Recipe) -> int:
    """How many threads run as lanes."""
    return (recipe.lanes or target(recipe.target).lanes) if recipe.coarsen else 1


def _specialised(module: Module, fixed) -> tuple[int, ...]:
    """The shape of the blocks that a module is for, if for only one; in place."""
    if not fixed:
        return ()
    kernel, values, block = fixed
    specialise.run(module, kernel, values)
    if block:
        decide.run(module.functions[kernel], block)
        if packs(module.functions[kernel]):
            unroll.short_loops(module.functions[kernel])
            bases.run(module.functions[kernel])
    return block


def _lower(text: str, name: str, recipe: Recipe, arena_size: int, fixed, longest: int) -> Lowered:
    module = parse.parse(text, name)
    copy_parameters.run(module)
    verify.run(module, name)
    for change in (predicates, surfaces, clusters, notes, reached):
        change.run(module)
    for step, rewrite in _REWRITES.items():
        if step in recipe:
            rewrite(module)
    processor, block, width = target(recipe.target), _specialised(module, fixed), _width(recipe)
    facts = ModuleFacts(
        module, Check.RACES in recipe, not recipe.runtime, width, processor.masks, processor.keeping, block
    )
    turns.run(facts.waits)
    inline.run(facts.waits)
    if Check.RACES in recipe and width > 1:
        scouts.run(facts)
    elif Check.RACES in recipe and recipe.checks.isdisjoint({Check.UNSET, Check.STEPS}):
        inline.run_short(facts)
        for function in (f for f in facts.emitted if not facts.waits.may_wait(f.name)):
            promote.in_place(function)
    products = {} if recipe.ptx == "debug" else _products(facts)
    for function in facts.emitted:
        held = Check.BOUNDS in recipe and Check.UNSET not in recipe
        facts.of(function).settle(Check.BOUNDS in recipe, held, recipe.coarsen)
    length = 0
    for function in facts.emitted:
        found = facts.of(function)
        for check, instrument in _CHECKS.items():
            if check in recipe and not (found.lanes and check in _TELLING):
                instrument(function, found)
        fragments.run(function, module.variables)
        length += len(function.body)
        if longest and length > longest:
            raise TooLong
        if Check.UNSET in recipe:
            initialised.run(function, found)
    if not recipe.runtime:
        for function in facts.emitted:
            watchdog.run(function, facts.of(function), recipe.checks)
    points, sources = steps.run(facts.emitted, module, facts.of) if Check.STEPS in recipe else ([], [])
    for function in facts.emitted:
        found = facts.of(function)
        if Check.BOUNDS in recipe:
            accesses.run(function, found, recipe.checks)
        elif Check.GROUPED_BOUNDS in recipe:
            bounds.run(function, found)
        if recipe.checks:
            checked.verify(function, found.coarsening)
    lowered = replace(emit.run(facts, name, arena_size), points=points, sources=sources)
    for kernel, found in products.items():
        lowered.kernels[kernel] = replace(lowered.kernels[kernel], products=found)
    return lowered


def _products(facts: ModuleFacts) -> dict[str, tuple]:
    """Of each kernel, see analyse/inflight.py."""
    found = {f.name: inflight.of_kernel(facts.waits.graph, f.name) for f in facts.emitted if f.entry}
    return {kernel: products for kernel, products in found.items() if products}
