"""A session of an editor, word for word: what it asked for and what it was answered. `python -m tests.dap.test_session` writes it again,
to be read before it is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from .client import ARGS, FILE, Editor, plain

MOVES = "configurationDone continue reverseContinue next stepBack stepIn stepOut goto"
FOLLOWS = {"launch": "initialized"} | dict.fromkeys(MOVES.split(), "stopped")
TRANSCRIPT = Path(__file__).with_name("session.jsonl")


def asked() -> Iterator[tuple[str, dict]]:
    """The requests. Frames and references have the numbers of the answers."""
    source = {"path": str(FILE)}
    yield "initialize", {"adapterID": "backwarp", "supportsVariablePaging": True}
    yield "launch", {"file": str(FILE), "args": ARGS}
    at = {"line": 16}, {"line": 19, "condition": "i == 3 && k == 2"}, {"line": 26}, {"line": 99}
    yield "setBreakpoints", {"source": source, "breakpoints": [*at, {"line": 19, "condition": "i =="}]}
    yield "setExceptionBreakpoints", {"filters": ["fault", "wrong"]}
    yield "configurationDone", {}
    yield "threads", {}
    yield "setBreakpoints", {"source": source, "breakpoints": [at[1]]}
    yield "continue", {"threadId": 1}
    yield "stackTrace", {"threadId": 4}
    yield "scopes", {"frameId": 1}
    yield "variables", {"variablesReference": 2}
    yield "variables", {"variablesReference": 3}
    yield "variables", {"variablesReference": 5}
    yield "variables", {"variablesReference": 9, "filter": "indexed", "start": 0, "count": 2}
    yield "variables", {"variablesReference": 11, "filter": "indexed", "start": 2, "count": 2}
    yield "evaluate", {"expression": "sum + tile[1][k] / 2", "frameId": 1, "context": "watch"}
    yield "evaluate", {"expression": "nothing", "frameId": 1, "context": "hover"}
    yield "stepBack", {"threadId": 4}
    yield "next", {"threadId": 4}
    yield "dataBreakpointInfo", {"name": "tile[1][k]"}
    yield "setDataBreakpoints", {"breakpoints": [{"dataId": "tile[18] 0", "accessType": "write"}]}
    yield "setBreakpoints", {"source": source, "breakpoints": []}
    yield "reverseContinue", {"threadId": 4}
    yield "stepBack", {"threadId": 3}
    yield "stepIn", {"threadId": 3}
    yield "setBreakpoints", {"source": source, "breakpoints": [{"line": 5, "condition": "v == 2"}]}
    yield "continue", {"threadId": 3}
    yield "stackTrace", {"threadId": 3}
    yield "stepOut", {"threadId": 3}
    yield "gotoTargets", {"source": source, "line": 19}
    yield "goto", {"threadId": 3, "targetId": 1}
    yield "evaluate", {"expression": ":t y[3]", "context": "repl"}
    yield "setDataBreakpoints", {"breakpoints": []}
    yield "continue", {"threadId": 4}
    yield "disconnect", {}


def written() -> Iterator[dict]:
    """The messages of both sides, in the order in which they came."""
    with Editor() as editor:
        for number, (command, arguments) in enumerate(asked(), 1):
            request = {"seq": number, "type": "request", "command": command, "arguments": arguments}
            editor.send(request)
            yield request
            wanted = {"response", FOLLOWS.get(command, "response")}
            while wanted:
                yield (message := editor.receive())
                if not message or message.get("success") is False:
                    break
                wanted -= {message["type"], message.get("event")}
        assert editor.receive() is None and editor.ends() == 0


def test_a_session(runtime):
    kept = [json.loads(line) for line in TRANSCRIPT.read_text().splitlines()]
    found = [plain(message) for message in written()]
    assert found == kept


if __name__ == "__main__":
    TRANSCRIPT.write_text("".join(json.dumps(plain(message)) + "\n" for message in written()))
