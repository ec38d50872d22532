"""Unset values may be copied; where they matter, the variable is reported, with its line and the line that
uses it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from backwarp.errors import KernelFault
from tests import KERNELS, samples
from tests.devices.virtual.launches import chosen, device, line_of, only

SOURCE = (KERNELS / "unset.cu").read_text()
NAMES = re.findall(r"KERNEL (\w+)\(", SOURCE)

#: kernel -> (variable, index of the element, the end of what is said)
WRONG = {
    "wrong_branch": (
        "x",
        "",
        "x has no value here: it was never assigned on the path this thread took.",
    ),
    "wrong_loop": ("end", "", ""),
    "wrong_switch": ("x", "", ""),
    "wrong_index": ("j", "", ""),
    "wrong_index_from_memory": ("from", "5", "An address at line {other} is computed from it."),
    "wrong_copy": ("v", "1", "It goes into out[0], which line {other} stores."),
    "wrong_argument": ("v", "1", ""),
    "wrong_result": ("v", "1", "Which way the thread goes at line {other} depends on it."),
    "wrong_scalar_argument": ("x", "", ""),
    "wrong_pointer": ("v", "1", ""),
    "wrong_exchange": ("b", "", "It goes into out[0], which line {other} stores."),
    "wrong_through_shared": ("x", "", "It goes into out[0], which line {other} stores."),
    "wrong_atomic": ("x", "", ""),
    "wrong_counter": ("count", "", ""),
    "wrong_vote": ("x", "", ""),
    "wrong_mask": ("mask", "", ""),
    "wrong_output": ("sum", "", "It goes into out[3], which line {other} stores."),
    "wrong_print": ("x", "", ""),
    "wrong_lanes": ("", "", "This shuffle asks for the value of lane 16, which its mask leaves out."),
    "wrong_last_warp": ("", "", "It goes into out[0], which line {other} stores."),
    "wrong_half": ("h", None, "It goes into out[0], which line {other} stores."),
    "wrong_bits": ("b", None, ""),
    "wrong_flag": ("done", "", ""),
    "wrong_byte": ("some", "32", "This reads some[32], which was never written."),
    "wrong_short": ("some", "32", ""),
    "wrong_double": ("some", "32", ""),
    "wrong_dynamic": ("pool", "32", ""),
    "wrong_left_over": ("x", "", ""),
    "wrong_async_copy": ("out", "0", "It goes into out[0], which line {other} stores."),
    "wrong_async_index": ("j", "", ""),
    "wrong_carry": ("low", "", "It goes into out[0], which line {other} stores."),
    "wrong_local_array": ("sum", "3", "It goes into out[0], which line {other} stores."),
    "wrong_member_in_an_array": ("v", None, ""),
    "wrong_field_in_an_array": ("v", "1", "This reads v[1], which was never written."),
    "wrong_field_as_floats": ("v", "0", "This reads v[0], which was never written."),
    "wrong_inner_field_in_an_array": ("v", None, ""),
    "wrong_tail_in_an_array": ("v", None, ""),
    "wrong_bit_field_in_an_array": ("v", None, ""),
    "wrong_product": ("a", "1", "It goes into out[0], which line {other} stores."),
    "wrong_tile": ("a", "255", "It goes into out[16], which line {other} stores."),
}


@pytest.fixture(scope="module")
def module(request):
    return device().compile(only(SOURCE, chosen(request)))


def launch(module, name: str, n: int = 4):
    dev = device()
    out = dev.empty(32, np.uint64 if "carry" in name else np.float32, name="out")
    if "in_an_array" in name:
        out = dev.empty(32 * 24, np.uint8, name="out")
    given = out, dev.array(np.arange(32, dtype=np.float32), name="in", readonly=True), np.int32(n)
    result = module.get_function(name)(
        1, 40 if "last_warp" in name else 32, given, 33 * 4 if "dynamic" in name or "as_floats" in name else 0
    )
    return out.get(), result


def test_every_kernel_is_expected():
    assert {n for n in NAMES if n.startswith("wrong")} == WRONG.keys()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("right")])
def test_unset_values_may_be_copied(module, name):
    for _ in range(2):
        out, result = launch(module, name)
        assert result.notes == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WRONG)
def test_unset_values_are_told_where_they_matter(module, name):
    with pytest.raises(KernelFault) as caught:
        launch(module, name)
    fault, (array, index, says) = caught.value, WRONG[name]
    assert (fault.kind, fault.array) == ("uninitialised-read", array)
    assert index in (None, fault.index)
    if f"// {name}\n" in SOURCE:
        assert fault.line == line_of(SOURCE, name)
    if f"// OTHER {name}\n" in SOURCE and says:
        assert fault.other.line == line_of(SOURCE, f"OTHER {name}")
        says = says.format(other=fault.other.line)
    assert fault.explanation.endswith(says)
    assert fault.source == SOURCE.splitlines()[fault.line - 1]


def test_an_element_of_which_only_padding_counts_as_written_has_not_been_written():
    source = """struct Near { float distance; bool inside; };
    extern "C" __global__ void k(Near* out) { out[1].inside = true; }"""
    out = device().empty(6, np.float32, name="out")
    device().compile(source).get_function("k")(1, 1, (out,))
    assert out.written.tolist() == [False, False, False, True, False, False]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", ["axpy_half2", "md5", "block_scan", "lookback_scan", "int8_product", "spin_lock"]
)
def test_code_that_follows_values_computes_the_same(name):
    """Where nothing is unset, nothing is said."""
    entry = samples.SAMPLES[name]
    module, job = samples.compile_sample(device(), entry), entry.job(entry.cases[0])
    module.track()
    samples.compare(job, samples.run(job, device(), module)[0])
