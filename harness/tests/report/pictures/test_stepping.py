"""A recorded run as a page: its data lead to the variables and arrays of every moment, and it stays small."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from backwarp.grading.recorded import record_file
from backwarp.report.pictures import stepping
from backwarp.step import begin
from tests import sampled
from tests.grading.test_recorded import course, wrong_kernel


def view_of(recorded, session) -> dict:
    """Of the session's warp. The others of its block can be chosen, as many as there is room for."""
    page = stepping.stepping(recorded, session)
    assert len(page) < stepping.MOST_BYTES + 30_000 and "</script>" in page and "src=" not in page
    views = json.loads(re.search(r"VIEWS = (\[.*?\]);\n", page, re.DOTALL)[1])
    warps = [(*view["of"], view["warp"]) for view in views]
    assert warps == sorted(set(warps), key=lambda w: (w[2::-1], w[3])) and len(warps) > 1
    (view,) = (view for view in views if view["chosen"])
    assert view["warp"] == session.who >> 5 & 31
    return view


@pytest.mark.parametrize("name", sampled(["no barrier", "outside", "tile"], always=["no barrier"], every=0))
def test_what_changes_adds_up_to_what_was_there(name, tmp_path):
    _, source = wrong_kernel(name)
    puzzle, path = wrong_kernel(name)[0], tmp_path / "kernel.cu"
    path.write_text(source)
    recorded = record_file(puzzle, path)
    session = begin(recorded)
    view, replay = view_of(recorded, session), session.replay
    times = [t for t, m in enumerate(replay.moments) if m.warp == session.who >> 5]
    times = times[view["first"] :][: len(view["moments"])]
    known: dict[int, dict[str, str]] = {lane: {} for lane, *_ in view["lanes"]}
    held = [list(a.get("values", ())) for a in view["arrays"]]
    for n in range(len(times) + 1):
        for mask, variable, text in view["sets"][n]:
            for lane in known:
                if mask >> lane & 1:
                    known[lane][view["names"][variable]] = view["texts"][text] if text >= 0 else ""
        for number, flat, text in view["writes"][n - 1] if n else ():
            held[number][flat] = text
    for lane, variables in known.items():
        now = dict(stepping._flat(replay.variables((session.who & ~31) + lane, times[-1])))
        assert {n: v for n, v in variables.items() if v} == {n: stepping.short(v) for n, v in now.items()}
    for array, values in zip(view["arrays"], held, strict=True):
        if values:
            now, is_known = replay.memory(array["name"], times[-1], session.who >> 10)
            for text, value, there in zip(
                values, now.ravel().tolist(), is_known.ravel().tolist(), strict=True
            ):
                assert (
                    not there or text < 0 and np.isnan(value) or view["texts"][text] == stepping.short(value)
                )
    here, lane = view["at"]
    assert times[here] == session.t and lane == session.who & 31
    if recorded.fault:
        assert view["fault"][:2] == [here, lane] and view["fault"][2].startswith(recorded.fault.headline)


def test_a_long_run_is_cut_around_where_one_is():
    puzzle = course().load("09")
    recorded = record_file(puzzle, puzzle.solution_path)
    session = begin(recorded, to="grad_weights[0]")
    stepping_of = stepping._View(recorded, session, 8)
    assert len(stepping_of.times) == 8 and stepping_of.times[stepping_of.here] == session.t
