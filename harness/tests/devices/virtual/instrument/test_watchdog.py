"""What the watchdog inserts in loops and functions: PTX in, PTX out."""

from __future__ import annotations

import pytest

from backwarp.devices.virtual.analyse.facts import ModuleFacts
from backwarp.devices.virtual.compile.recipes import RECIPES
from backwarp.devices.virtual.instrument import watchdog
from backwarp.devices.virtual.runtime import abi
from tests.devices.virtual.ptx_text import lines, module, printed

KERNEL = """
.file 1 "kernel.cu"
.visible .entry k()
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<3>;
    .reg .pred %p<3>;
    .loc 1 3 0
    BODY
}
"""
STEP = "sub.u32 %watch.steps, %watch.steps, 1;\nsetp.ne.u32 %watch.go, %watch.steps, 0;\n"
SLICE = "@%watch.go bra.likely $L_top;\nslice %watch.steps, {};\n"


def watched(body: str, build: str = "memory", before: str = ""):
    parsed = module(before + KERNEL.replace("BODY", body))
    facts = ModuleFacts(parsed, interleaved=build == "full", threads=True)
    for function in parsed.functions.values():
        watchdog.run(function, facts.of(function), RECIPES[build].checks)
    return parsed


def text(body: str, build: str = "memory") -> str:
    return printed(watched(body, build).functions["k"])


def test_a_loop_takes_steps_from_the_slice_and_gives_the_rest_back():
    assert text("$L_top: add.u32 %r1, %r1, 1; @!%p1 bra $L_top; ret;") == lines(f"""
        fetch %watch.steps, Env.slice;
        $L_top:
        add.u32 %r1, %r1, 1;
        @%p1 bra.skip $on.1;
        {STEP}
        {SLICE.format(abi.SLICE)}
        @!%p1 bra $L_top;
        $on.1:
        note Env.slice, %watch.steps;
        ret;
    """).replace("\n\n", "\n")


def test_without_a_loop_there_is_nothing_to_watch():
    assert text("@%p1 bra $L_end; mov.u32 %r1, 0; $L_end: ret;").count("watch") == 0


def test_in_a_loop_that_waits_others_run_and_with_races_at_every_turn_in_vain():
    body = "$L_top: ld.volatile.u32 %r1, [%rd1]; bra $L_top;"
    assert SLICE.format(abi.SPIN_SLICE) + "suspend;\nbra $L_top;" in text(body)
    full = text(body, "full")
    assert "fetch %watch.vain, Extra.in_vain;\nsetp.eq.and.u32 %watch.go, %watch.vain, 0, %watch.go;" in full


@pytest.mark.parametrize("turn, size", [("turn; ", abi.TURN_SLICE), ("", abi.SPIN_SLICE)])
def test_a_loop_that_looks_at_what_others_change_has_slices_of_its_own(turn, size):
    body = "ld.volatile.u32 %r1, [%rd1]; $L_top: red.add.u32 [%rd1], 1; " + turn + "@%p1 bra $L_top; ret;"
    assert f"slice %watch.steps, {size};" in text(body, "full")


def test_lanes_that_are_counted_have_a_slice_each_and_wait_for_each_other():
    found = text("$L_top: add.u32 %r1, %r1, 1; @%p1 bra $L_top; ret;", "count")
    assert found.startswith(f"mov.u32 %watch.steps, {abi.COUNT_SLICE};") and "Env.slice" not in found
    assert f"slice %watch.steps, {abi.COUNT_SLICE};\nsuspend;\n@%p1 bra $L_top;" in found


def test_a_call_is_a_step_of_its_own_and_draws_on_the_same_slice():
    others = ".func g()\n{\nret;\n}\n.func f()\n{\ncall.uni g, ();\nret;\n}\n"
    parsed = watched("$L_top: call.uni f, (); bra $L_top;", before=others)
    called = "note Env.slice, %watch.steps;\ncall.uni f, ();\nfetch %watch.steps, Env.slice;"
    assert called in printed(parsed.functions["k"])
    function = parsed.functions["f"]
    assert printed(function) == lines(f"""
        fetch %watch.calls, Env.calls;
        sub.u32 %watch.calls, %watch.calls, 1;
        note Env.calls, %watch.calls;
        setp.ne.u32 %watch.go, %watch.calls, 0;
        @%watch.go bra.likely $counted.0;
        slice _, {abi.SLICE}, 1;
        $counted.0:
        call.uni g, ();
        ret;
    """)
    assert printed(parsed.functions["g"]) == "ret;"  # what calls nothing does not go on for ever
    assert not function.body[5].at.line  # the place is that of the call


def test_each_way_back_of_a_switch_is_a_step():
    parsed = watched("$L_top: ts: .branchtargets $L_top, $L_end, $L_top; brx.idx %r1, ts; $L_end: ret;")
    kernel = parsed.functions["k"]
    assert kernel.tables["ts.0.1"] == ("$back.1.0", "$L_end", "$back.1.0")
    assert lines(f"""
        brx.idx %r1, ts.0.1;
        $back.1.0:
        {STEP}
        {SLICE.format(abi.SLICE)}
        bra $L_top;
        $L_end:
    """).replace("\n\n", "\n") in printed(kernel)


def test_a_thread_that_ends_gives_the_slice_back():
    assert "note Env.slice, %watch.steps;\nexit;" in text("$L_top: @%p1 bra $L_top; exit;")
