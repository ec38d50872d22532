"""Runs of puzzles' kernels, recorded: they are what they are without a record, and the record leads to what they wrote."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from backwarp.course.checkout import open_course, seed_of
from backwarp.cuda.values import tunables
from backwarp.devices.virtual.replay import memory
from backwarp.devices.virtual.replay.record import LOAD, WRITING, Record
from backwarp.devices.virtual.replay.replay import Replay
from backwarp.errors import CourseError
from backwarp.grading.recorded import ROWS, Recorded, record_file
from backwarp.grading.runs import Outcome, Pace, Setup, Trial, in_order, run_once
from backwarp.step import begin
from tests import ROOT, sampled
from tests.devices.virtual.launches import Quick

BARRIER = "        __syncthreads();  // the tile is full\n"
#: what is wrong -> (puzzle, text, the text in its place)
WRONG = {
    "no barrier": ("24", BARRIER, "        \n"),
    "outside": ("24", " && left + j < W; j", "; j"),
    "unset": ("09", "float sum = 0.0f", "float sum"),
    "race": ("19", "        __syncthreads();\n    }\n", "    }\n"),
    "diverging": ("24", BARRIER, "        if (has_output) __syncthreads();\n"),
    "endless": ("07", "s < F; s++", "s < F; s += 0"),
    "stride": ("24", "tile[i * across + j] =", "tile[i * WIDTH + j] ="),
    "index": ("07", "* H + p + r) * W + q + s]", "* H + p + r) * H + q + s]"),
    "bound": ("02", "k < K; k++", "k < K - 1; k++"),
    "channel": ("09", "((b * C_in + c) * H + p + r)", "((b + c) * H + p + r)"),
    "fragment": ("35", "ldmatrix_x4_trans(y,", "ldmatrix_x4(y,"),
    "tile": ("26", "a[y][k] * b[k][x]", "a[k][y] * b[k][x]"),
    "second barrier": ("26", "        __syncthreads();  // nobody needs them any more\n", "\n"),
}
SOLVED = [f"{n:02}" for n in range(1, 36)]


@cache
def course():
    return open_course(ROOT)


def wrong_kernel(name: str) -> tuple[object, str]:
    number, text, other = WRONG[name]
    puzzle = course().load(number)
    source = puzzle.solution_path.read_text()
    assert text in source
    return puzzle, source.replace(text, other, 1)


@cache
def device(rows: int) -> Quick:
    made = Quick("full")
    made.keep_rows = rows
    return made


def ran(puzzle, source: str, rows: int, most: int = 100):
    """(outcome, results) of each kernel in its first case, up to the first that fails."""
    seed = seed_of(source)
    puzzle, setup = puzzle.drawn(seed), Setup(device(rows), (2 * seed + 1,))
    setup.module = setup.device.compile(source, name="kernel.cu", include_dirs=puzzle.include_dirs)
    first = {k.name: (c, k) for c in reversed(in_order(puzzle)) for k in puzzle.kernels_of(c)}
    for case, kernel in list(first.values())[:most]:
        setup.kernels[kernel.name] = setup.module.get_function(kernel.name)
        trial = Trial(Outcome(case, kernel), Pace())
        trial.begin(puzzle, tunables(source), seed)
        result = run_once(trial, setup, setup.schedules[0])
        yield trial.outcome, {} if result is None else result.results


def check_loads(replay: Replay) -> int:
    """That what is read is what is there, of everything that is read in global and shared memory; how much that is."""
    record, held, loads = replay.record, {}, 0
    a = record.accesses
    for access in a[np.lexsort((a["row"], replay.time[a["row"]]))]:
        if access["array"] < 0:
            continue
        about = record.arrays[access["array"]]
        key = int(access["array"]), int(access["who"]) >> 10 if about.space == "shared" else -1
        before = np.zeros(about.nbytes, np.uint8) if about.before is None else about.before.copy()
        data, known = held.setdefault(key, (before, np.full(about.nbytes, about.before is not None)))
        if access["how"] == LOAD:
            got, at = record.moved(access, "got"), int(access["offset"])
            assert bytes(data[at : at + len(got)]) == got
            loads += 1
        elif access["how"] in WRITING:
            memory.apply(replay, access, data, known)
    return loads


def walked(session, key: str) -> list[int]:
    """The moments that a key leads to, until it leads no further."""
    found, session.said = [session.t], ""
    while not session.said:
        session.press(key)
        found += [session.t] * (not session.said)
    return found


@pytest.mark.parametrize("number", sampled(SOLVED, every=8))
def test_the_record_of_a_solution_leads_from_what_was_there_to_what_it_wrote(number):
    puzzle = course().load(number)
    source = puzzle.solution_path.read_text()
    plain = {outcome.kernel.name: results for outcome, results in ran(puzzle, source, 0)}
    for outcome, results in ran(puzzle, source, ROWS):
        assert not outcome.kind and not outcome.record["full"]
        replay = Replay(Record(outcome.record))
        assert replay.lockstep and check_loads(replay) > 0
        for name, values in results.items():
            assert values.tobytes() == plain[outcome.kernel.name][name].tobytes()
            assert replay.memory(name, len(replay.moments))[0].tobytes() == values.tobytes()
        for held in replay.record.arrays:
            if held.space == "global":
                assert replay.memory(held.name, -1)[0].tobytes() == held.before.tobytes()
        session = begin(Recorded(puzzle, outcome.kernel, outcome.case, source, outcome.record, {}))
        assert session.t == replay.start(session.who)
        there, back = walked(session, "n"), walked(session, "p")
        assert there[-1] == replay.end(session.who) and back == there[::-1] and len(there) > 1


@pytest.mark.parametrize("name", sampled([n for n in WRONG if n != "endless"], every=4))
def test_a_wrong_kernel_fails_as_it_does_without_a_record(name):
    puzzle, source = wrong_kernel(name)
    for (a, x), (b, y) in zip(ran(puzzle, source, ROWS, 1), ran(puzzle, source, 0, 1), strict=True):
        assert a.kind == b.kind and str(a.error) == str(b.error)
        assert x.keys() == y.keys() and all(x[n].tobytes() == y[n].tobytes() for n in x)
        replay = Replay(Record(a.record), a.error)
        if a.error:
            who, t = replay.to_fault()
            assert replay.moments[t].line == a.error.line and replay.has(who, t)


@pytest.mark.parametrize("name", sampled(WRONG, always=["bound"], every=0))
def test_the_failing_run_is_found(name, tmp_path):
    puzzle, source = wrong_kernel(name)
    path = tmp_path / "kernel.cu"
    path.write_text(source)
    found = record_file(puzzle, path)
    assert found.error or found.wrong
    session = begin(found)
    if found.fault:
        assert (session.who, session.t) == session.replay.to_fault()
    else:
        assert session.name == found.wrong


def test_what_cannot_be_recorded_is_said():
    puzzle = course().load("09")
    for how in (dict(case="none"), dict(kernel="none"), dict(block=(999,))):
        with pytest.raises(CourseError, match="none|no block 999"):
            record_file(puzzle, puzzle.solution_path, **how)
