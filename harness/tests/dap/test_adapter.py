"""Requests of all sorts, and what follows: places to stop, ways to move, what is refused."""

from __future__ import annotations

import io

import pytest

from backwarp.cli.editors import started
from backwarp.dap.adapter import REQUESTS, Adapter
from backwarp.dap.stops import counter
from backwarp.dap.wire import Garbled, Inbox, Refused
from tests.test_watch import course  # noqa: F401 (a fixture)

from .client import ARGS, FILE

SOURCE = {"path": str(FILE)}


class Asked:
    """An adapter in this process, and what it sends."""

    def __init__(self, start, **how):
        self.sent: list[dict] = []
        self.adapter = Adapter(self.sent.append, Inbox(io.BytesIO()), start)
        self.adapter.inbox.urgent.clear()
        self.adapter.inbox._over.clear()
        self.ask("initialize", **how)
        self.ask("launch", file=str(FILE), args=ARGS)

    def reply(self, command, arguments) -> dict:
        del self.sent[:]
        self.adapter.answer({"seq": 1, "type": "request", "command": command, "arguments": arguments})
        return self.sent[0]

    def ask(self, command, **arguments) -> dict:
        reply = self.reply(command, arguments)
        assert reply["success"], reply
        return reply["body"]

    def events(self, name) -> list[dict]:
        return [m["body"] for m in self.sent[1:] if m["event"] == name]

    def stopped(self, command, **arguments) -> tuple[str, int, int]:
        """(reason, thread, line)"""
        self.ask(command, **arguments)
        (body,) = self.events("stopped")
        frames = self.ask("stackTrace", threadId=body["threadId"])["stackFrames"]
        return body["reason"], body["threadId"], frames[0]["line"]

    def breaks(self, *breakpoints, source=SOURCE) -> list[dict]:
        return self.ask("setBreakpoints", source=source, breakpoints=list(breakpoints))["breakpoints"]


@pytest.fixture(scope="module")
def recorded():
    return started({"file": str(FILE), "args": ARGS})


@pytest.fixture
def editor(recorded):
    found = Asked(lambda _: recorded)
    found.ask("configurationDone")
    found.ask("reverseContinue", threadId=1)
    return found


def test_how_often_a_line_was_reached_counts_from_the_start(editor):
    def times(**asks):
        editor.breaks({"line": 19} | asks)
        editor.ask("reverseContinue", threadId=1)
        found = 0
        while editor.stopped("continue", threadId=1)[0] == "breakpoint":
            found += 1
        back = 0
        while editor.stopped("reverseContinue", threadId=1)[0] == "breakpoint":
            back += 1
        assert back == found
        return found

    assert times() == 16
    assert (
        times(hitCondition="15") == 2 and times(hitCondition="% 4") == 4 and times(hitCondition="== 3") == 1
    )
    assert times(condition="i == 3") == 4 and times(condition="i == 3", hitCondition="> 2") == 2
    assert times(condition="nothing == 1") == 0


@pytest.mark.parametrize("text", ["x", "3 4", "% 0", "=> 3", "-1", ""])
def test_what_is_no_number_of_times(text):
    with pytest.raises(Refused):
        counter(text)


def test_a_log_point_does_not_stop(editor):
    editor.breaks(
        {"line": 19, "condition": "i >= 14 && k == 1", "logMessage": "{i}: {sum} {tile[1][k]} {what}"}
    )
    assert editor.stopped("continue", threadId=1)[0] == "pause"
    editor.ask("reverseContinue", threadId=1)
    editor.ask("continue", threadId=1)
    said = [body["output"] for body in editor.events("output") if body["category"] == "console"]
    assert said == [f"{i}: 1 1 (there is no 'what' here)\n" for i in (14, 15)]


@pytest.mark.parametrize(("kind", "line"), [("write", 12), ("read", 13), ("readWrite", 12)])
def test_accesses_of_an_element(editor, kind, line):
    about = editor.ask("dataBreakpointInfo", name="tile[0][5]")
    assert about["description"] == "tile[0,5]"
    editor.ask("setDataBreakpoints", breakpoints=[{"dataId": about["dataId"], "accessType": kind}])
    assert editor.stopped("continue", threadId=1) == ("data breakpoint", 6, line)


def test_an_element_that_is_unfolded_can_be_watched(editor):
    frame = editor.ask("stackTrace", threadId=1)["stackFrames"][0]["id"]
    shared = next(s for s in editor.ask("scopes", frameId=frame)["scopes"] if s["name"] == "Shared memory")
    tile = editor.ask("variables", variablesReference=shared["variablesReference"])["variables"][0]
    row = editor.ask("variables", variablesReference=tile["variablesReference"])["variables"][1]
    about = editor.ask("dataBreakpointInfo", variablesReference=row["variablesReference"], name="[7]")
    assert about["description"] == "tile[1,7]"
    assert editor.ask("dataBreakpointInfo", name="n")["dataId"] is None


def test_data_breakpoints_that_cannot_be(editor):
    wanted = [{"dataId": d} for d in ("", "tile", "nothing[0] 0", "tile[99] 0", "x[0] 0")]
    found = editor.ask("setDataBreakpoints", breakpoints=wanted)["breakpoints"]
    assert not any(each["verified"] for each in found) and all(each["message"] for each in found)


def test_only_the_file_has_lines(editor, tmp_path):
    (other := tmp_path / "stepped.cu").write_text("")
    assert not editor.breaks({"line": 19}, source={"path": str(other)})[0]["verified"]
    assert not editor.breaks({"line": 19}, source={"path": "a\0b"})[0]["verified"]
    assert editor.breaks({"line": 19}, source={"name": "stepped.cu"})[0]["verified"]


def test_lines_and_columns_from_zero_and_files_as_uris(recorded):
    editor = Asked(lambda _: recorded, linesStartAt1=False, columnsStartAt1=False, pathFormat="uri")
    source = {"path": FILE.as_uri()}
    assert editor.breaks({"line": 15}, source=source)[0]["line"] == 16  # 16, and 17 as others count
    assert editor.stopped("configurationDone") == ("breakpoint", 1, 16)
    frame = editor.ask("stackTrace", threadId=1)["stackFrames"][0]
    assert (frame["column"], frame["source"]["path"]) == (0, FILE.as_uri())
    assert editor.ask("gotoTargets", source=source, line=18)["targets"][0]["line"] == 18


def test_the_variables_of_a_caller_are_those_of_now(editor):
    editor.breaks({"line": 5, "condition": "v == 3"})
    assert editor.stopped("continue", threadId=1) == ("breakpoint", 4, 5)
    inner, outer = editor.ask("stackTrace", threadId=4)["stackFrames"]
    assert [inner["name"], outer["name"]] == ["squared", "sums"]

    def value(text, frame):
        return editor.ask("evaluate", expression=text, frameId=frame["id"])["result"]

    assert value("v", inner) == "3" and value("i + 1", outer) == "4"
    assert not editor.reply("evaluate", {"expression": "v", "frameId": outer["id"]})["success"]
    found = editor.ask("completions", text="1 + ti", column=7, frameId=outer["id"])["targets"]
    assert found == [{"label": "tile", "start": 4, "length": 2}]


def test_going_by_the_keys_of_step(editor):
    editor.ask("evaluate", expression=":t y[5]")
    assert [body["threadId"] for body in editor.events("stopped")] == [6]
    assert "y[5]" in editor.ask("evaluate", expression=":w y[5]")["result"] and not editor.events("stopped")
    assert ":n" in editor.ask("evaluate", expression=":?")["result"]


def test_a_thread_ends_and_begins(editor):
    last = 23  # the closing brace
    assert editor.stopped("continue", threadId=1)[0] == "pause"
    assert editor.stopped("next", threadId=5) == ("step", 5, last) and editor.events("stopped") == []
    for _ in range(9):
        reason, thread, line = editor.stopped("stepBack", threadId=1)
    assert (reason, thread) == ("step", 1) and line < 19
    editor.ask("continue", threadId=1)
    editor.ask("continue", threadId=1)
    assert len(editor.events("terminated")) == 1


def test_launches_that_fail_can_be_followed_by_others(tmp_path, recorded):
    (tmp_path / "broken.cu").write_text("__global__ void f() { int x = ; }")
    editor = Asked(lambda _: recorded)
    editor.adapter.started, editor.adapter.start = None, started
    for fields, says in (
        ({}, "file or a puzzle"),
        ({"file": 3}, "must be a text"),
        ({"file": "a\0b"}, "zero byte"),
        ({"file": str(tmp_path / "none" / "x.cu")}, "none"),
        ({"file": str(tmp_path / "broken.cu")}, "broken.cu:1: error"),
        ({"file": str(FILE)}, "say which kernel"),
        ({"file": str(FILE), "args": "sums"}, "a list"),
        ({"file": str(FILE), "args": ["--nonsense"]}, "--nonsense"),
        ({"file": str(FILE), "args": ["--help"]}, "args are those"),
        ({"puzzle": "99"}, "no puzzle 99"),
        ({"puzzle": "24", "args": ["--solution", "--case", "none"]}, "has no none"),
    ):
        reply = editor.reply("launch", fields)
        assert not reply["success"] and says in reply["message"], reply
        assert not editor.reply("threads", {})["success"]


WRONG = [None, 3, "x", [], {}, -1, 1e300, True, "\0", [None], {"path": 3}]
NAMES = "threadId frameId variablesReference expression name source breakpoints line lines start count text column args"
NAMES += " filters filterOptions targetId linesStartAt1 pathFormat startFrame levels filter stopOnEntry"


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_arguments_of_any_type_are_answered(editor, value):
    for command in REQUESTS:
        editor.reply(command, value)
        assert "internal" not in editor.sent[0].get("message", ""), editor.sent[0]
        if command != "launch":
            fields = dict.fromkeys(NAMES.split(), value) | {
                "breakpoints": [dict.fromkeys(NAMES.split(), value)]
            }
            editor.reply(command, fields)
            assert "internal" not in editor.sent[0].get("message", ""), editor.sent[0]


@pytest.mark.parametrize(
    "message",
    [
        Garbled("x"),
        {},
        {"type": "event"},
        {"type": "request", "command": ["x"]},
        {"type": "request", "command": "no"},
    ],
)
def test_what_is_no_request_is_refused(editor, message):
    del editor.sent[:]
    editor.adapter.answer(message)
    assert [m["success"] for m in editor.sent] == [False] and editor.sent[0]["message"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(" * 500,
        "-" * 50_000 + "1",
        "\0",
        "1 << 99",
        "x * 3",
        "n % 0",
        "tile[-1]",
        "tile[5][0]",
        "i.x",
        "tile",
    ],
)
def test_expressions_of_all_kinds(editor, text):
    reply = editor.reply("evaluate", {"expression": text})
    assert reply["success"] == (text == "tile") and "internal" not in reply.get("message", "")


@pytest.mark.parametrize(
    ("line", "reason", "category"),
    [
        ("y[threadIdx.x] = 3 * x[threadIdx.x];", "exception", "wrong result"),
        ("y[threadIdx.x + 1] = 2 * x[threadIdx.x];", "exception", "out-of-bounds"),
        ("", "pause", None),
    ],
)
def test_a_puzzle_stops_where_it_fails(course, line, reason, category):  # noqa: F811
    path = course / "puzzles" / "01_twice" / "kernel.cu"
    path.write_text(
        path.read_text().replace("}", f"    {line or 'y[threadIdx.x] = 2 * x[threadIdx.x];'}\n}}")
    )
    editor = Asked(lambda _: started({"file": str(path)}))
    assert "twice, case tiny" in editor.sent[1]["body"]["output"]
    at = editor.stopped("configurationDone")
    assert at[0] == reason
    if category:
        assert path.read_text().splitlines()[at[2] - 1].strip() == line
        found = editor.ask("exceptionInfo", threadId=at[1])
        assert found["exceptionId"] == category and found["description"] in editor.adapter.started.verdict
        editor.ask("setExceptionBreakpoints", filters=[])
        editor.ask("reverseContinue", threadId=1)
        assert editor.stopped("continue", threadId=1)[0] == "pause"
