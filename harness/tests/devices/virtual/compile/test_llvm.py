import llvmlite.binding as binding

from harness.devices.virtual.compile import llvm

_BLOCK = """
define internal i1 @"k.lanes"(i64 %env, i64 %thr) {
  %place = alloca i64
  store i64 %thr, ptr %place
  %value = load i64, ptr %place
  %found = icmp eq i64 %value, %env
  ret i1 %found
}
define i1 @"k.block"(i64 %env) {
  %found = call i1 @"k.lanes"(i64 %env, i64 7)
  ret i1 %found
}
"""


def test_lanes_become_part_of_the_loop_that_runs_a_block_and_their_slots_registers():
    llvm._initialise()
    module = binding.parse_assembly(_BLOCK)
    _, builder = llvm._prepared(module, 3, 1)
    llvm._simplify_lanes(module, builder)
    (block,) = (function for function in module.functions if not function.is_declaration)
    assert block.name == "k.block" and "icmp eq i64 %env, 7" in str(block)
    assert "alloca" not in str(block) and "call" not in str(block)
