"""A few mutants of fuzz.py; `python -m tests.soak.fuzz` tries as many as you like."""

from __future__ import annotations

import pytest

from backwarp.errors import DeviceError
from tests.soak import fuzz
from tests.soak.mutate import mutate_cuda, mutate_ptx
from tests.soak.operands import mutate as mutate_operands

COUNT = 8
#: compile quickly: no large headers, no loop unrolled a hundred times
QUICK = tuple(
    name
    for name, subject in fuzz.subjects().items()
    if "#include <c" not in subject.source and name not in ("binomial_options", "flash_attention", "nbody")
)


@pytest.mark.soak  # the fuzzer itself tries thousands then; test_verify changes operands each time
def test_mutants_end_with_a_result_or_an_error_that_is_described():
    with fuzz.Trials() as trials:
        results = {seed: trials.result(seed, QUICK, by_operand=seed % 4 == 0) for seed in range(COUNT)}
    for seed, result in results.items():
        assert not result.found, f"seed {seed}, {result.subject}: {result.found}"
        assert not result.suspect, f"seed {seed}, {result.subject}: {result.suspect}"
    outcomes = " ".join(result.outcome for result in results.values())
    for expected in ("full: ran", "memory: ran", "out-of-bounds", "CompileError", "Unsupported"):
        assert expected in outcomes


def test_a_seed_makes_the_same_mutant_again():
    texts = [fuzz.mutant(seed, QUICK)[2] for seed in range(20)]
    assert texts == [fuzz.mutant(seed, QUICK)[2] for seed in range(20)]
    changed = [fuzz.mutant(seed, QUICK) for seed in range(20)]
    same = [
        text == (subject.source if kind == "cuda" else fuzz.original(subject, kind).text)
        for subject, kind, text, _ in changed
    ]
    assert not any(same) and len(set(texts)) == 20


@pytest.mark.parametrize("change", [mutate_cuda, mutate_ptx, mutate_operands])
def test_a_text_without_anything_to_change_stays(change):
    assert change("// nothing here\n", fuzz.Random(1)) == "// nothing here\n"


@pytest.mark.soak
def test_what_the_fuzzer_looks_for():
    """A disagreement between builds, an undescribed error, and something that a launch leaves behind."""
    a = {"x": fuzz.np.array([1.0, fuzz.np.nan]), "n": fuzz.np.array([3])}
    assert fuzz.disagreement(a, {"x": a["x"] * 1.0001, "n": a["n"]}) == ""
    assert fuzz.disagreement(a, {"x": a["x"], "n": a["n"] + 1}).startswith("n[0]")
    assert fuzz.disagreement(a, {"x": fuzz.np.array([1.0, 2.0]), "n": a["n"]}).startswith("x[1]")
    with pytest.raises(fuzz.Wrong):
        fuzz.described(DeviceError("no memory"), "")
    bed = fuzz.beds()["memory"]
    bed.check()
    left = bed.device.empty(3)
    with pytest.raises(fuzz.Wrong, match="1 allocations are left behind"):
        bed.check()
    del left
    bed.kept.set(bed.values + 1)
    with pytest.raises(fuzz.Wrong, match="a launch after this one is not right"):
        bed.check()
    bed.kept.set(bed.values)
    bed.check()
