"""Records of small kernels, read: moments, variables, memory, and the ways through them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from backwarp.devices import open_device
from backwarp.devices.virtual.replay.expressions import Expression
from backwarp.devices.virtual.replay.record import Record
from backwarp.devices.virtual.replay.replay import Replay
from backwarp.devices.virtual.replay.session import KEYS, Session
from backwarp.errors import KernelFault
from tests.devices.virtual.launches import K, Quick

SOURCE = (
    """
struct P { int a; float b[2]; };
__device__ float twice(float x) {
    float y = x + x;
    return y;
}
__device__ __noinline__ int sum_to(int n) {
    if (n == 0) return 0;
    int rest = sum_to(n - 1);
    return rest + n;
}
"""
    + f"""
{K}diverging(int* out) {{
    int i = threadIdx.x;
    if (i < 3)
        out[i] = 1;
    else
        out[i] = 2;
    out[i] += 1;
}}
{K}barriers(int* out) {{
    __shared__ int tile[2][64];
    for (int k = 0; k < 3; k++) {{
        tile[k % 2][threadIdx.x] = k + threadIdx.x;
        __syncthreads();
        out[threadIdx.x] = tile[k % 2][63 - threadIdx.x];
    }}
}}
{K}variables(int* out) {{
    P p[2];
    p[1].b[0] = twice(1.5f);
    int x = 1;
    for (int k = 0; k < 2; k++) {{
        int x = 10 + k;
        out[k] = x;
    }}
    out[2] = x + sum_to(3);
    p[1].a = x;
    out[3] = p[1].a + (int)p[1].b[0];
}}
{K}racing(int* out) {{
    __shared__ int seen;
    if (threadIdx.x == 0) seen = 1;
    if (threadIdx.x == 40) out[0] = seen;
}}
{K}outside(int* out) {{
    int i = threadIdx.x;
    i += 7;
    out[i] = 5;
}}
{K}adding(int* out) {{
    atomicAdd(&out[threadIdx.x % 2], threadIdx.x);
}}
{K}turning(volatile int* out) {{
    volatile int* rest = out + 1;
    if (threadIdx.x == 0) out[0] = 7;
    __syncthreads();
    if (threadIdx.x == 33) rest[0] = out[0];
}}
{K}endless(int* out) {{
    for (int k = 0; k < 10; k += 0) out[0] += 1;
}}
"""
)
LINES = SOURCE.split("\n")
ROWS = 1 << 16


@cache
def device(confined: bool = False):
    made = open_device("cpu", confined=True) if confined else Quick("full")
    made.quick, made.keep_rows = True, ROWS
    return made


@cache
def module(confined: bool = False):
    return device(confined).compile(SOURCE)


@cache
def run(
    kernel: str, threads: int = 64, size: int = 64, confined: bool = False
) -> tuple[dict, np.ndarray, object]:
    """(record, what `out` holds at the end, the fault)."""
    out, fault = device(confined).array(np.full(size, -1, np.int32), name="out", axes="i"), None
    try:
        launch = module(confined).get_function(kernel)(1, threads, (out,))
    except KernelFault as error:
        launch, fault = error.launch, error
    return launch.record, out.get(), fault


def replay(kernel: str, threads: int = 64, **how) -> Replay:
    record, _, fault = run(kernel, threads, **how)
    return Replay(Record(record), fault)


def line(text: str, kernel: str = "") -> int:
    """The number of the line with a text, after the kernel's beginning."""
    start = next((i for i, each in enumerate(LINES) if f"void {kernel}(" in each), 0) if kernel else 0
    return next(i for i, each in enumerate(LINES, 1) if i > start and text in each)


def test_lanes_that_diverge_come_together_again():
    r = replay("diverging", 32)
    lanes = [(m.line, len(m.steps)) for m in r.moments if m.line > line("int i", "diverging")]
    first = line("if (i < 3)")
    assert lanes[:4] == [(first, 32), (first + 1, 3), (first + 3, 29), (first + 4, 32)]
    session = Session(r)
    session.to_line(str(first + 1), 1)
    assert session.lanes() == "#" * 3 + "-" * 29 and session.standing() == {first + 1: 3, first: 29}


def test_barrier_intervals_follow_one_another():
    r = replay("barriers")
    assert [m.interval for m in r.moments] == sorted(m.interval for m in r.moments)
    there, back = r.barrier(r.start(40), 40), r.barrier(r.end(40), 40, -1)
    assert r.moments[there].interval == 1 and r.moments[back].interval == 2
    assert r.barrier(r.end(40), 40) == -1


def test_memory_is_what_it_was_then():
    r, (_, after, _) = replay("barriers"), run("barriers")
    assert (r.memory("out", len(r.moments))[0] == after).all() and (r.memory("out", -1)[0] == -1).all()
    written = r.find(0, 1, lambda t: r.moments[t].line == line("out[threadIdx.x] =", "barriers"))
    tile, known = r.memory("tile", written)
    assert (
        tile.shape == (2, 64)
        and tile[0].tolist() == list(range(64))
        and known[0].all()
        and not known[1].any()
    )


def test_inner_variables_hide_outer_ones():
    r = replay("variables", 1)
    at = [t for t in range(len(r.moments)) if r.moments[t].line == line("out[k] = x")]
    assert [r.variables(0, t)["x"] for t in at] == [10, 11] and [r.variables(0, t)["k"] for t in at] == [0, 1]
    after = r.variables(
        0, r.find(0, 1, lambda t: r.moments[t].line == line("out[2] = x") and r.depth(t, 0) == 1)
    )
    assert after["x"] == 1 and "k" not in after


def test_structs_and_arrays_show_what_is_unset():
    r = replay("variables", 1)
    then = r.variables(0, r.find(0, 1, lambda t: r.moments[t].line == line("int x = 1")))
    assert then["p"] == [{"a": None, "b": [None, None]}, {"a": None, "b": [3.0, None]}]
    assert r.variables(0, r.end(0))["p"][1] == {"a": 1, "b": [3.0, None]}


def test_functions_called_and_expanded_have_their_own_variables():
    r = replay("variables", 1)
    inner = r.find(0, 1, lambda t: r.moments[t].line == line("float y"))
    assert r.variables(0, inner) == {"x": 1.5, "y": 3.0}
    depths = [(r.depth(t, 0), r.variables(0, t).get("rest")) for t in _at(r, "return rest + n")]
    assert depths == [(5, None), (4, 0), (3, 1), (2, 3)]


def _at(r: Replay, text: str) -> list[int]:
    return [s.at for s in r.steps[0] if s.line == line(text)]


def test_over_and_out_of_functions():
    session = Session(replay("variables", 1))
    while session.replay.moments[session.t].line != line("p[1].b[0] ="):
        session.press("n")
    before = session.t
    session.press("n")
    assert session.replay.depth(session.t, 0) == 2
    session.press("u")
    assert session.replay.depth(session.t, 0) == 1
    session.go(before)
    session.press("o")
    assert session.replay.depth(session.t, 0) == 1 and session.t > before + 1
    session.press("O")
    assert session.replay.depth(session.t, 0) == 1


def test_a_race_is_shown_as_it_happened():
    r = replay("racing")
    assert r.fault.kind == "race"
    who, t = r.to_fault()
    assert who == r.record.who_of(r.fault.thread, (0, 0, 0)) and r.moments[t].line == r.fault.line
    for access in r.accesses_at(t, who):
        if r.record.element(access) == "seen[0]":
            values, known = r.memory("seen", t - 1, 0)
            assert not known[0] or values[0] == r.record.values(access)[0]


def test_a_fault_is_the_last_that_its_thread_does():
    r = replay("outside", 4, size=8)
    who, t = r.to_fault()
    assert (who, r.moments[t].line) == (1, line("out[i] = 5")) and t == r.end(1)
    assert r.variables(1, t)["i"] == 8 and [r.said(a) for a in r.accesses_at(t, 1)] == ["writes out[8]: 5"]


def test_atomics_add_up():
    r, (_, after, _) = replay("adding"), run("adding")
    assert (r.memory("out", len(r.moments))[0] == after).all()
    assert len(r.touching("out", 1, 0)) == 32 and r.said(r.touching("out", 1, 0)[0]) == "adds to out[1]: 1"


def test_of_several_orders_the_last_is_recorded():
    record, after, _ = run("turning")
    r = Replay(Record(record))
    assert after[1] == 7 and (r.memory("out", len(r.moments))[0] == after).all()


def test_a_full_record_ends_the_launch():
    record, _, _ = run("endless", 1)
    assert record["full"] and len(record["rows"]) == ROWS and Replay(Record(record)).moments


@pytest.mark.parametrize("kernel", ["barriers", "variables", "outside"])
def test_a_confined_launch_has_the_same_record(kernel):
    here, there = run(kernel, size=70), run(kernel, size=70, confined=True)
    for name in ("point", "who"):
        assert (here[0]["rows"][name] == there[0]["rows"][name]).all()
    assert (Record(here[0]).accesses == Record(there[0]).accesses).all()
    assert here[0]["points"] == there[0]["points"] and (here[1] == there[1]).all()
    assert str(here[2]) == str(there[2])


def test_only_some_blocks_are_recorded():
    chosen = Quick("full")
    chosen.keep_rows, chosen.rows_first, chosen.rows_blocks = ROWS, 2, 1
    out = chosen.array(np.zeros(64, np.int32), name="out")
    record = chosen.compile(SOURCE).get_function("adding")(4, 32, (out,)).record
    assert set((record["rows"]["who"] >> 10).tolist()) == {2} and not record["full"]
    assert [a.name for a in Record(record).arrays] == ["out"] and out.get()[1] == 4 * 256


# -- ways ---------------------------------------------------------------------------------------------


def test_every_key_goes_somewhere_or_says_why():
    for key in KEYS:
        session = Session(replay("barriers"))
        for text in ("", "tile[1,2]", "3", "k == 2", "nonsense"):
            session.press(key, text)
            assert 0 <= session.t < len(session.replay.moments)
            assert session.replay.has(session.who, session.t) or key == "t"


def test_forth_and_back_leads_to_where_one_was():
    session = Session(replay("barriers"))
    there = []
    while not session.said:
        there.append(session.t)
        session.press("n")
    back = [session.t]
    session.said = ""
    while session.t != there[0]:
        session.press("p")
        back.append(session.t)
    assert back == there[::-1] and back[-1] == session.replay.start(session.who)


def test_accesses_of_an_element_by_whichever_thread():
    session = Session(replay("barriers"))
    session.press("w", "tile[1][5]")
    assert session.said == "tile[1,5] is written once and read once"
    session.press("a")
    assert session.who == 5 and session.changed() == {} and session.replay.moments[session.t].interval == 1
    session.press("a")
    assert session.who == 58 and session.replay.moments[session.t].interval == 2
    session.press("a")
    assert session.said == "there is none on that side"
    session.press("A")
    assert session.who == 5


def test_where_a_condition_holds():
    session = Session(replay("barriers"))
    session.press("c", "k == 2 && tile[0][63 - threadIdx.x] == 63")
    assert (
        session.replay.variables(session.who, session.t)["k"] == 2
        and session.replay.moments[session.t].interval == 2
    )
    session.press("x", "k * 10 / 3")
    assert session.said == "k * 10 / 3 = 6"
    session.press("x", "missing")
    assert session.said == "there is no 'missing' here"
    assert session.replay.evaluate(Expression("blockDim.x"), 0, session.t) == 64


def test_the_thread_that_writes_an_element():
    session = Session(replay("barriers"))
    session.press("t", "out[17]")
    assert session.who == 17 and session.replay.moments[session.t].interval == 3
    session.press("t", "41")
    assert session.who == 41
    session.press("t", "64")
    assert session.said == "there is no such thread" and session.who == 41


def test_an_element_may_be_named_by_a_pointer():
    r = replay("turning")
    assert r.flat("rest[2]", 33, r.end(33)) == ("out", 3)
    with pytest.raises(LookupError):
        r.flat("nothing[2]", 33, r.end(33))
    with pytest.raises(ValueError):
        r.flat("rest[1,2]", 33, r.end(33))


@pytest.mark.parametrize("kernel", ["barriers", "turning", "adding", "variables"])
def test_an_element_is_what_its_array_holds(kernel):
    r = replay(kernel)
    for held in r.record.arrays:
        for t in range(0, len(r.moments), 3):
            values, known = r.memory(held.name, t)
            for flat in range(0, values.size, 7):
                text = Expression(f"{held.name}[{flat}]")
                if known.ravel()[flat]:
                    assert r.evaluate(text, 0, t) == values.ravel()[flat]
                else:
                    with pytest.raises(LookupError):
                        r.evaluate(text, 0, t)
