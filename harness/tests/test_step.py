"""`backwarp step`: the screen, the text, and a session at a terminal."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from backwarp.course.checkout import open_course
from backwarp.devices import confined_device
from backwarp.devices.virtual.replay.record import Record
from backwarp.devices.virtual.replay.replay import Replay
from backwarp.devices.virtual.replay.session import KEYS
from backwarp.errors import CourseError
from backwarp.grading.recorded import _Run, record_file
from backwarp.report.step import screen, text
from backwarp.step import begin
from tests import ROOT
from tests.test_watch import Terminal, course  # noqa: F401 (a fixture)


@pytest.fixture(scope="module")
def recorded():
    puzzle = open_course(ROOT).load("24")
    return record_file(puzzle, puzzle.solution_path)


def shown(lines) -> str:
    return "\n".join("".join(part for part, _ in line) for line in lines)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 12)])
def test_a_screen_fits(recorded, width, height):
    session = begin(recorded)
    for key in ("", *KEYS):
        if key:
            session.press(key, "tile[33]")
        lines = shown(screen(recorded, session, width, height)).splitlines()
        assert len(lines) < height and max(map(len, lines)) <= width
        assert any(line[4:5] == ">" for line in lines)


def test_a_screen_shows_lanes_variables_and_memory(recorded):
    session = begin(recorded, to="tile[35]")
    said = shown(screen(recorded, session, 80, 24))
    line = next(
        i for i, each in enumerate(recorded.source.split("\n"), 1) if "tile[i * across + j] =" in each
    )
    assert f"  3 >{line:>4} |" in said and "lanes ###" in said
    assert "writes tile[35]: 6" in said and "[6]" in said and "i = 1" in said


def test_the_text_has_the_lines_up_to_a_place(recorded):
    session = begin(recorded, to="tile[35]", watch="tile[35]")
    said = shown(text(recorded, session, 3))
    assert said.count(" | ") == 3 and "3 of the warp's 32 lanes are here" in said
    assert "tile[35], accessed" in said and "reads tile[35]: 6" in said
    assert session.t == begin(recorded, to="tile[35]").t


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (dict(to="fault"), "no thread has a fault"),
        (dict(to="999"), "line 999 is never reached"),
        (dict(to="nothing[1]"), "there is no nothing"),
        (dict(to="bias[0]"), "no thread writes bias"),
        (dict(to="here"), "here is not an element"),
        (dict(thread=(99,)), "no such thread"),
        (dict(watch="tile[1,2,3]"), "tile has 1 axes"),
        (dict(stops=["x"]), "x is not a line"),
        (dict(stops=["41: )"]), "not an expression"),
        (dict(stops=["41:i == 77", "1"]), "no thread comes to 41:i == 77 or to 1"),
    ],
)
def test_a_place_that_is_none_is_said(recorded, how, says):
    with pytest.raises(CourseError, match=says):
        begin(recorded, **how)


def test_a_stop_is_where_a_thread_comes_to_a_line(recorded):
    line = next(
        i for i, each in enumerate(recorded.source.split("\n"), 1) if "tile[i * across + j] =" in each
    )
    first = begin(recorded, stops=[str(line)])
    session = begin(recorded, stops=[f"{line}:i == 1 && j == 2"])
    assert first.replay.moments[first.t].line == line and first.t < session.t
    assert session.replay.variables(session.who, session.t) | {"i": 1, "j": 2} == session.replay.variables(
        session.who, session.t
    )
    session.press("G")
    assert session.said and session.t > first.t
    session.press("k", str(line))
    session.press("G")
    assert not session.said and session.replay.moments[session.t].line == line
    (x, y, _), _ = session.replay.record.thread_of(session.who)
    mine = begin(recorded, thread=(x, y), stops=[str(line)])
    assert mine.who == session.who


def test_what_is_printed_stands_at_its_moment(tmp_path):
    puzzle = open_course(ROOT).load("01")
    text = puzzle.solution_path.read_text().replace("c[i] = ", 'printf("%d\\nof it\\n", i); c[i] = ')
    assert "printf" in text
    (tmp_path / "kernel.cu").write_text(text)
    recorded = record_file(puzzle, tmp_path / "kernel.cu")
    session = begin(recorded, to="c[3]")
    printed = session.replay.printed
    assert printed(session.t, session.who) == ["3\nof it\n"]
    assert "3\nof it\n" not in printed(session.t - 1) and "3\nof it\n" in printed(session.t)
    said = shown(screen(recorded, session, 80, 24))
    assert f"the last of {2 * len(printed(session.t))} lines" in said
    session.go(len(session.replay.moments) - 1)
    assert sorted(printed(session.t)) == sorted(f"{i}\nof it\n" for i in range(10))


def test_what_other_blocks_print_is_marked():
    with confined_device("cpu") as device:
        device.quick, device.keep_rows, device.rows_first, device.rows_blocks = True, 1 << 12, 1, 1
        code = '#include <cstdio>\n__global__ void k() { printf("%d of it\\n", blockIdx.x); }'
        launch = device.compile(code).get_function("k")(3, 1, ())
    replay = Replay(Record(launch.record))
    said = replay.printed(len(replay.moments))
    assert sorted(said) == ["1 of it\n", "[another block] 0 of it\n", "[another block] 2 of it\n"]
    assert [text.split()[-3] for text in said] == [line[0] for line in launch.stdout.splitlines()]
    assert replay.printed(replay.end(1 << 10), 1 << 10) == ["1 of it\n"]


@pytest.mark.parametrize(
    ("line", "who", "says"),
    [
        ("y[threadIdx.x] = 3 * x[threadIdx.x];", 0, r"y\[n=0\] is .*, and should be "),
        ("if (threadIdx.x < 2) y[threadIdx.x] = 2 * x[threadIdx.x];", 2, "no thread writes .*; this thread"),
        ("y[threadIdx.x] = 2 * x[threadIdx.x];", 0, "this run is right"),
    ],
)
def test_it_begins_where_something_is_wrong_and_says_what(course, line, who, says):  # noqa: F811
    path = course / "puzzles" / "01_twice" / "kernel.cu"
    path.write_text(path.read_text().replace("}", f"    {line}\n}}"))
    recorded = record_file(open_course(course).load("1"), path)
    session = begin(recorded)
    assert session.who == who and re.match(says, session.said), session.said
    wide = len(line) + 30
    whole = " ".join(
        part.split("|")[-1].strip() for part in shown(screen(recorded, session, 50, 24)).split("\n")
    )
    assert line in whole or says == "this run is right"
    assert line in shown(screen(recorded, session, wide, 24))


@pytest.mark.parametrize(
    ("grid", "wrong", "block"),
    [([12, 1, 1], "out[h=1,w=0]", (6, 0, 0)), ([2, 3, 1], "out[h=1,w=3]", (1, 2, 0)), ([5, 1, 1], "", (0,))],
)
def test_which_block_may_write_an_element(grid, wrong, block):
    kernel = SimpleNamespace(arrays=[SimpleNamespace(name="out", shape=lambda dims: (2, 4))])
    trial = SimpleNamespace(dims={}, outcome=SimpleNamespace(record={"grid": grid}))
    assert _Run((None, kernel), trial, None, wrong).likely_block() == block


def test_a_session_at_a_terminal(course, runtime):  # noqa: F811
    path = course / "puzzles" / "01_twice" / "kernel.cu"
    path.write_text(
        path.read_text().replace("}", "    int i = threadIdx.x;\n    if (i < N) y[i] = 3 * x[i];\n}")
    )
    terminal = Terminal(course, "1", verb="step")
    try:
        first = terminal.expect("writes y[0]", "next line", "q quit")
        assert "twice, case tiny" in first and "lanes ###" in first
        terminal.press("p")
        terminal.expect("*i = 0", "q quit")
        terminal.press("t")
        terminal.expect("who writes it:")
        terminal.press("y[2]x\x7f\n")
        terminal.expect("thread 2,0,0", "y[0..2]", "q quit")
        terminal.press("q")
        terminal.child.wait(60)
        assert terminal.child.returncode == 0
    finally:
        terminal.close()
