"""LLVM text -> an object file for this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import islice

import llvmlite.binding as llvm

from ....errors import Unsupported
from .recipes import Check, Recipe
from .targets import target

#: lines of LLVM in a function above which optimising, and even quick simplification, takes too long; full checks gain more
_HUGE, _HUGE_FULL, _HUGE_QUICK = 16_000, 18_000, 64_000
#: lines of LLVM below which a device function is inlined; the second includes the functions inlined into it
_SHORT, _WITH_CALLS = 240, 2_000
_BRIEF = 60  # instructions of a function of the runtime that is inlined
_FUNCTION = re.compile(r'internal \S+ @"([^"]+\.function)"')
_CALL = re.compile(r'\bcall \S+ @"([^"]+\.function)"')
_RESUME = re.compile(r'^(define [^@\n]*@\S+\.resume"?\(ptr )', re.MULTILINE)


def compile_object(text: str, recipe: Recipe, simple: bool = False) -> bytes:
    """LLVM text -> an object file. simple: code that gains nothing from the expensive passes, such as that of
    lanes. They do not help threads that wait either, or code that checks each access, unless it keeps arrays
    in registers.

    Lanes are inlined before any other pass, and then each function is simplified once, in three quarters of
    the time of the module passes. Not so with AVX2's 16 registers, where a loop may then keep its sum in
    memory (puzzle 09).

    At level 0 an object takes a sixth of the time to make and runs up to four times as long. The runtime gets
    as few passes, but good code for each function, and short ones inlined. Coroutines are split before they are simplified, which
    takes three quarters of the time for equally good code; `own_frames` improves it.
    """
    _initialise()
    functions = text.split("\ndefine ")
    most = _HUGE_QUICK if not recipe.llvm else _HUGE_FULL if Check.RACES in recipe else _HUGE
    huge = max(function.count("\n") for function in functions) > most
    level = 0 if huge else recipe.llvm
    plain, own_frames = recipe.runtime or level == 0, recipe.own_frames
    coroutines, unroll = " presplitcoroutine " in text, "!llvm.loop " in text
    inlined = simple and not plain and not coroutines and target(recipe.target).masks == "i1"
    # sums of one thread, or of several side by side, may be vectorised
    vectors = level == 3 and not simple and (unroll or not own_frames)
    cheap = simple or coroutines or own_frames
    speed = 0 if plain else 2 if inlined or unroll else 1 if cheap else level
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:  # PTX that was not written by a compiler
        reason = next((line.strip() for line in str(error).splitlines()[1:] if line.strip()), str(error))
        raise Unsupported(f"this kernel, whose PTX is not consistent ({reason})") from error
    if not plain and (coroutines or unroll):
        _split(module, unroll)
        if own_frames:
            module = llvm.parse_assembly(_with_own_frames(module))
    machine, builder = _prepared(module, level, speed, vectors, recipe.target)
    if recipe.runtime:
        _inline(module, builder, (f for f in module.functions if _is_brief(f)))
    if inlined or not plain and not vectors and (coroutines or own_frames):
        _simplify_each(module, builder, _short(functions))
    else:
        builder.getModulePassManager().run(module, builder)
    if plain and not huge:
        passes = llvm.create_new_module_pass_manager()
        (_simplify if level else _simplify_quickly)(passes)
        passes.run(module, builder)
    return machine.emit_object(module)


def _prepared(module, level: int, speed: int, vectors: bool = False, for_: str = ""):
    """(target machine, pass builder) for a module, whose target is set. level: for code generation. speed:
    for the passes before it. vectors: vectorise adjacent operations."""
    machine = target_machine(level, for_)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=speed)
    options.loop_vectorization = False  # the loops of a single thread gain nothing
    options.slp_vectorization = vectors
    return machine, llvm.create_pass_builder(machine, options)


def _split(module, unroll: bool) -> None:
    """Splits the module's coroutines: each gets a function that resumes a frame. Before that, only the cheap
    simplifications run.

    Loops are unrolled beforehand, so that arrays need not live in the frame.
    """
    _, builder = _prepared(module, 1, 0)
    passes = llvm.create_new_module_pass_manager()
    _simplify(passes)
    if unroll:
        passes.add_loop_rotate_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_loop_unroll_pass()
        _simplify(passes)
    passes.run(module, builder)
    builder.getModulePassManager().run(module, builder)


def _simplify_each(module, builder, short: set[str]) -> None:
    """Simplifies each function, after inlining short functions, and the code of lanes into the loop that runs
    a block."""
    simplify = builder.getFunctionPassManager()
    for function in module.functions:
        if function.name in short:
            simplify.run(function, builder)
    wanted = (f for f in module.functions if f.name in short or f.name.endswith(".lanes"))
    _inline(module, builder, wanted)
    for function in module.functions:
        if not function.is_declaration:
            simplify.run(function, builder)


def _inline(module, builder, functions: Iterable) -> None:
    """Inlines these functions wherever they are called."""
    for function in functions:
        function.add_function_attribute("alwaysinline")
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.run(module, builder)


def _is_brief(function) -> bool:
    """Whether it is a function of the runtime alone, of a few instructions."""
    if function.is_declaration or function.linkage != llvm.Linkage.internal:
        return False
    return sum(1 for block in function.blocks for _ in islice(block.instructions, _BRIEF + 1)) <= _BRIEF


def _short(functions: list[str]) -> set[str]:
    """The names of short device functions, none of them recursive. functions: their texts."""
    texts = {match[1]: text for text in functions if (match := _FUNCTION.match(text))}
    calls = {name: _CALL.findall(text) for name, text in texts.items()}
    lines: dict[str, int] = {}  # including inlined functions
    short = set()
    while ready := [name for name in texts if name not in lines and lines.keys() >= set(calls[name])]:
        for name in ready:
            own = texts[name].count("\n")
            lines[name] = own + sum(lines[called] for called in calls[name] if called in short)
            if own < _SHORT and lines[name] < _WITH_CALLS:
                short.add(name)
    return short


def _simplify(passes) -> None:
    """Moves values to registers and removes the obvious dead code."""
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()


def _simplify_quickly(passes) -> None:
    """Simplifies without instruction combining, which takes as long as all the rest, and without joining
    blocks, which gains nothing in code that is not optimised."""
    passes.add_sroa_pass()
    passes.add_sccp_pass()
    passes.add_dead_code_elimination_pass()


def _with_own_frames(module) -> str:
    """Marks frames as touched only by their coroutine's own code, so that their contents can stay in
    registers."""
    return _RESUME.sub(r"\1noalias ", str(module))


@cache
def _initialise() -> None:
    # with the default, the register allocator takes minutes for a kernel with a thousand branches
    llvm.set_option("backwarp", "-grow-region-complexity-budget=1000")
    # do not sink code past a suspension point: its operands would have to be kept in the frame
    llvm.set_option("backwarp", "-instcombine-code-sinking=false")
    llvm.set_option("backwarp", "-capture-tracking-max-uses-to-explore=5000")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def target_machine(level: int, for_: str = ""):
    """A new one each time, because the caller takes ownership. for_: see `targets.target`."""
    _initialise()
    found = target(for_)
    return llvm.Target.from_triple(found.triple).create_target_machine(
        cpu=found.cpu, features=found.features, opt=level, reloc="pic", codemodel="small", jit=True
    )
