"""Processes taken over by kernels: their parent bounds how long it waits and how much it reads, and trusts no
result."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from backwarp.devices import child as children
from backwarp.devices import open_device
from backwarp.devices.child import Child, Damaged
from backwarp.devices.launching import Launch
from backwarp.devices.virtual import confined_process
from backwarp.devices.virtual.answers import CODEC, is_sound
from backwarp.devices.virtual.explain.metrics import Request
from backwarp.devices.virtual.run import workers
from backwarp.devices.virtual.runtime.abi import DTYPES
from backwarp.errors import DeviceError, KernelFault, LaunchError, Place
from tests.devices.virtual.launches import K

LIMIT = 1.0  # seconds; detecting what a child does takes no longer


@pytest.fixture
def liar():
    made = []

    def start(how: str, **options) -> Child:
        made.append(Child("tests.attacks.a_liar", how, codec=CODEC, most=1 << 20, **options))
        made[-1].questions = 5
        return made[-1]

    yield start
    for child in made:
        if child._child.returncode is None:
            child.end()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("silent", TimeoutError),
        ("half a length", TimeoutError),
        ("half a message", TimeoutError),
        ("a drop at a time", TimeoutError),
        ("words", TimeoutError),
        ("a promise of an exabyte", Damaged),
        ("a gigabyte", Damaged),
        ("noise", Damaged),
        ("questions", Damaged),
        ("another question", Damaged),
    ],
)
def test_an_answer_that_does_not_come(liar, how, error):
    child = liar(how)
    with pytest.raises(error):
        child.ask("anything", (), LIMIT if error is TimeoutError else 60, {"more": lambda: None})
    started = time.monotonic()
    assert len(child.end()) < 400
    assert time.monotonic() - started < 30


def test_a_child_that_reads_nothing(liar, monkeypatch):
    monkeypatch.setattr(children, "PATIENCE", 0.3)
    with pytest.raises(TimeoutError):
        liar("silent").ask("anything", (bytes(1 << 24),), 60)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system has no /proc")
def test_a_child_that_takes_memory(liar):
    with pytest.raises(MemoryError):
        liar("memory", memory=200 << 20).ask("anything", (), 60)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system has no /proc")
def test_children_that_take_memory_together(liar, monkeypatch):
    """Each stays within its own limit, but not within the common one: the one that is working is stopped,
    unless it was granted more."""
    monkeypatch.setattr(children, "TOGETHER", 400 << 20)
    monkeypatch.setattr(children.Child, "_alive", set())  # other tests have children, too
    first, second, third = (liar(how, memory=1 << 30) for how in ("holds memory", "memory", "memory"))
    first.ask("anything", (), 60)
    with pytest.raises(MemoryError):
        second.ask("anything", (), 60)
    second.end()
    third.granted = 1 << 30
    with pytest.raises(TimeoutError):
        third.ask("anything", (), LIMIT)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit another process")
def test_a_child_that_nobody_waits_for_runs_out_of_time(liar):
    child = liar("time")
    child.allow(0.1)
    child.post("anything")
    child._child.wait(timeout=60)
    assert child.end() == "SIGXCPU"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
def test_what_a_child_has_started_ends_with_it(liar):
    child = liar("children")
    pids = child.ask("anything", (), 60)
    assert len(pids) == 3 and all(map(runs, pids))
    child.end()
    end = time.monotonic() + 30
    while any(map(runs, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(map(runs, pids))


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# -- forged results ----------------------------------------------------------------------------------------------

FAULT = KernelFault(
    "race", "headline", "explanation", line=3, thread=(0, 0, 0), other=Place("k.cu", 1, None, None)
)


def with_(value, **fields):
    changed = dataclasses.replace(value)
    for name, field in fields.items():
        setattr(changed, name, field)
    return changed


RECORD = {
    **{"rows": np.zeros(1, DTYPES["Row"]), "points": [("enter", 1, "f", -1, "f")], "sources": [(0, ())]},
    **{
        "arrays": [],
        "shared": [],
        "printed": [],
        "grid": [1, 1, 1],
        "block": [1, 1, 1],
        "full": False,
        "slots": 0,
        "text": "",
    },
}
FORGED = {
    "nothing": None,
    "a number": 5,
    "too few": (True, None),
    "text": "ok",
    "a launch that is a text": (True, None, "fine"),
    "a line that is a text": (True, None, with_(FAULT, line="x" * 100)),
    "a thread of two": (True, None, with_(FAULT, thread=(1, 2))),
    "a block of texts": (True, None, with_(FAULT, block=("a", "b", "c"))),
    "a headline that is a list": (True, None, with_(FAULT, headline=[1] * 1000)),
    "another side of numbers": (True, None, with_(FAULT, other=5)),
    "more that are numbers": (True, None, with_(FAULT, more=[1, 2])),
    "a launch of a fault": (True, None, with_(FAULT, launch=7)),
    "output that is a number": (True, None, Launch(stdout=3)),
    "notes of text": (True, None, Launch(notes=["all is well"])),
    "counters that are a list": (True, None, Launch(counters=[1])),
    "requests of text": (True, None, Launch(requests=["all of them"])),
    "requests of few lanes": (
        True,
        None,
        Launch(requests=[Request(1, "load", "global", 4, 0, 0, np.zeros(3, np.int64))]),
    ),
    "a record of text": (True, None, Launch(record={"rows": "all"})),
    "a record of unknown points": (True, None, Launch(record=RECORD | {"rows": np.ones(1, DTYPES["Row"])})),
    "turns of text": (True, None, Launch(turns=("a",))),
    "steps without lines": (1, "lines", Launch()),
    "an error without a text": (True, None, LaunchError(5)),
}


@pytest.fixture(scope="module")
def confined():
    with open_device("cpu", checks="memory", confined=True) as device:
        device.quick = True
        yield device, device.compile(f"{K}f(int* x) {{ x[0] = 1; }}").get_function("f")


#: sent to a device, which starts a new process each time; every night, all of them
TOLD = "nothing", "a number", "too few", "text", "a thread of two", "notes of text", "steps without lines"


@pytest.mark.sampled
@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[pytest.mark.soak] * (how not in TOLD)) for how in FORGED]
)
def test_a_forged_result_is_nonsense(how, confined, monkeypatch):
    device, kernel = confined
    x = device.empty(1, np.int32)
    x.get()
    believed = device.process.generation
    forged = CODEC.loads(CODEC.dumps(("ok", FORGED[how])))
    monkeypatch.setattr(device.process._child, "receive", lambda limit: forged)
    with pytest.raises(DeviceError, match="answers nonsense"):
        kernel(1, 1, (x,))
    monkeypatch.undo()
    again = device.empty(1, np.int32)
    kernel(1, 1, (again,))
    assert again.get() == [1] and device.process.generation > believed


def test_what_a_process_may_say():
    parts = [
        found[2] for found in FORGED.values() if isinstance(found, tuple) and len(found) > 2 and not found[1]
    ]
    assert len(parts) == 17
    assert not any(is_sound(CODEC.loads(CODEC.dumps(part))) for part in parts)
    assert is_sound(FAULT) and is_sound(Launch(notes=[FAULT])) and is_sound(LaunchError("no", "code"))
    assert is_sound(with_(FAULT, more=[FAULT], launch=Launch())) and is_sound(Launch(record=RECORD))


# -- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system has no /proc")
def test_a_launch_that_takes_memory_beside_its_arrays(monkeypatch):
    monkeypatch.setattr(confined_process, "MEMORY", 320 << 20)
    source = f"""__device__ int big[1 << 26];
    {K}f(int* x) {{ for (int k = 0; k < 1000; k++) for (int i = threadIdx.x; i < 1 << 26; i += 1024) big[i] = i + k; }}
    {K}g(int* x) {{ x[0] = 1; }}"""
    with open_device("cpu", checks="memory", confined=True) as device:
        device.quick, device.time_limit = True, 20.0
        module = device.compile(source)
        with pytest.raises(LaunchError, match="takes more than 320 MiB of memory beside its arrays"):
            module.get_function("f")(1, 1024, (device.empty(1, np.int32),))
        x = device.empty(1, np.int32)
        module.get_function("g")(1, 1, (x,))
        assert x.get() == [1]


def test_threads_that_keep_more_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(workers, "MOST_FRAMES", 1 << 16)
    with open_device("cpu", checks="memory") as device:
        device.quick = True
        kernel = device.compile(f"""{K}f(int* x) {{
            __shared__ int s[1024];
            int a = x[threadIdx.x], b = a * a, c = b * a;
            s[threadIdx.x] = a;
            __syncthreads();
            x[threadIdx.x] = s[1023 - threadIdx.x] + b * c;
        }}""").get_function("f")
        x = device.array(np.ones(1024, np.int32))
        kernel(1, 32, (x,))
        with pytest.raises(KernelFault, match="What the threads of a block keep while they wait"):
            kernel(1, 1024, (x,))
        kernel(1, 32, (x,))
