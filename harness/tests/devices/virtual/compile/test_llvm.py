import llvmlite.binding as binding

from backwarp.devices.virtual.compile import llvm
from backwarp.devices.virtual.compile.recipes import recipe

_BLOCK = """
define internal i64 @"next.function"(i64 %value) {
  %next = add i64 %value, 1
  ret i64 %next
}
define internal i1 @"k.lanes"(i64 %env, i64 %thr) {
  %place = alloca i64
  store i64 %thr, ptr %place
  %value = load i64, ptr %place
  %next = call i64 @"next.function"(i64 %value)
  %found = icmp eq i64 %next, %env
  ret i1 %found
}
define i1 @"k.block"(i64 %env) {
  %found = call i1 @"k.lanes"(i64 %env, i64 7)
  ret i1 %found
}
"""


def test_lanes_and_short_functions_become_part_of_the_loop_that_runs_a_block_and_slots_registers():
    llvm._initialise()
    module = binding.parse_assembly(_BLOCK)
    _, builder = llvm._prepared(module, 3, 1)
    llvm._simplify_each(module, builder, llvm._short(_BLOCK.split("\ndefine ")))
    (block,) = (function for function in module.functions if not function.is_declaration)
    assert block.name == "k.block" and "icmp eq i64 %env, 8" in str(block)
    assert "alloca" not in str(block) and "call" not in str(block)


def test_functions_that_double_take_the_place_of_few_calls():
    doubling = [f'internal i64 @"f{n}.function"(i64 %x) {{\n' for n in range(60)]
    for n in range(1, 60):
        doubling[n] += f'  %a = call i64 @"f{n - 1}.function"(i64 %x)\n' * 2
    doubling.append('internal i64 @"g.function"(i64 %x) {\n  %a = call i64 @"g.function"(i64 %x)\n')
    short = llvm._short(doubling[::-1])
    assert {"f0.function", "f8.function"} < short and not {"f9.function", "g.function"} & short


def test_a_function_that_is_too_long_to_optimise_is_still_simplified_where_code_is_made_quickly():
    copies = (llvm._HUGE + 1000) // 3
    lines = ["define i64 @k(i64 %v0) {", *(f"%p{i} = alloca i64" for i in range(copies))]
    for i in range(copies):
        lines += [f"store i64 %v{i}, ptr %p{i}", f"%v{i + 1} = load i64, ptr %p{i}"]
    text = "\n".join([*lines, f"ret i64 %v{copies}", "}", ""])
    assert text.count("\n") > llvm._HUGE
    assert len(llvm.compile_object(text, recipe("draft"))) < copies
