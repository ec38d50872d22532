"""A few mutants of hostile.py; `python -m tests.soak.hostile` tries as many as you like."""

from __future__ import annotations

import pytest

from tests.soak import hostile


@pytest.mark.soak
@pytest.mark.parametrize("kernels", [False, True])
def test_hostile_text_is_refused_in_a_sentence_or_lowered(kernels):
    found = {seed: hostile.examine(seed, kernels, 0.0, guarded=False) for seed in range(8)}
    assert not [(seed, *end) for seed, end in found.items() if end[2]]
    assert {outcome.partition(": ")[2] for _, outcome, _ in found.values()} >= {"lowered"}


def test_what_ends_the_process_is_tried_again_as_in_grading(monkeypatch):
    asked, ends = [], [("", "EOFError", "SIGPROF"), ("fft", "full: CompileError", "")]
    examiner = hostile.Examiner(kernels=True, share=0.0)
    monkeypatch.setattr(examiner, "_ask", lambda seed, guarded: asked.append(guarded) or ends[guarded])
    assert examiner(7) == ends[1] and asked == [False, True]


def test_a_refused_file_is_compiled_once():
    runs = []

    def run(api, source, name, options, headers, expressions):
        runs.append(options)
        return None, {}, "refused"

    once = hostile.compile_once(run)
    assert [once(None, "", "k.cu", options, {}, ())[2] for options in (hostile.nvrtc._SOONER, ())] == [
        "refused"
    ] * 2
    assert len(runs) == 1
