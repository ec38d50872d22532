"""Programs with streams: a race is named exactly where legal orders of operations differ, as a reference that enumerates them says."""

from __future__ import annotations

import random

import pytest

from backwarp.programs import mistakes
from tests.soak.orders import CELL, CELLS, NULL, THREAD, Part, Step, disagreement, draw, judged

from .calls import MIB, Program, found_in
from .test_pairs import needs_compiler, run

A, B, FREE, FREER = 1, 2, 3, 4  # two blocking streams, and two that are not
D, E, M, P, Q, H = (Part(name, 0, CELLS) for name in "dempqh")


def of(part: Part, first: int, count: int = 1, pitch: int = 0, rows: int = 1) -> Part:
    return Part(part.memory, first, count, pitch, rows)


def copy(to: Part, source: Part, stream: int | None = None) -> Step:
    return Step("copy", stream or NULL, to, source, later=stream is not None)


def fill(to: Part, stream: int | None = None) -> Step:
    return Step("fill", stream or NULL, to, later=stream is not None)


def work(to: Part, source: Part, stream: int) -> Step:
    return Step("work", stream, to, source)


def record(stream: int, event: int = 0) -> Step:
    return Step("record", stream, event=event)


def follow(stream: int, event: int = 0) -> Step:
    return Step("follow", stream, event=event)


def read(part: Part) -> Step:
    return Step("read", to=part)


def write(part: Part) -> Step:
    return Step("write", to=part)


def call(part: Part, stream: int, writes: bool = True) -> Step:
    return Step("call", stream, part, later=writes)


def free(part: Part, stream: int) -> Step:
    return Step("free", stream, part)


COLUMNS = of(D, 0, 2, 4, 2), of(D, 2, 2, 4, 2)  # the left and the right half of a matrix
RIGHT = {
    "one stream": [copy(D, P, A), work(E, D, A), copy(Q, E, A)],
    "an event": [copy(D, P, A), record(A), follow(B), work(E, D, B)],
    "events through a third stream": [
        copy(D, P, A),
        record(A),
        follow(FREE),
        record(FREE, 1),
        follow(B, 1),
        work(E, D, B),
    ],
    "a kernel in the null stream between": [copy(D, P, A), work(E, D, NULL), copy(Q, E, B)],
    "a mark in the null stream between": [copy(D, P, A), record(NULL, 1), work(E, D, B)],
    "a wait of the null stream between": [copy(D, P, A), record(FREE), follow(NULL), work(E, D, B)],
    "the host waits for the null stream": [copy(D, H), Step("stream", NULL), work(E, D, FREE)],
    "a copy of pinned memory has ended": [copy(D, P), work(E, D, FREE)],
    "halves of an array": [work(of(E, 0, 4), of(D, 0, 4), A), work(of(E, 4, 4), of(D, 4, 4), B)],
    "columns of a matrix": [copy(COLUMNS[0], of(P, 0, 2, 4, 2), A), copy(COLUMNS[1], of(P, 2, 2, 4, 2), B)],
    "the rest of a page": [copy(of(D, 0, 2), of(P, 0, 2), A), write(of(P, 3)), Step("all"), write(of(P, 0))],
    "a copy to pageable memory waits": [copy(H, D, A), fill(D, FREE)],
    "managed memory, set": [fill(M), read(of(M, 0))],
    "both only read": [work(E, D, A), copy(P, D, B)],
    "the thread's own stream after the null stream": [copy(D, H), work(E, D, THREAD)],
    "a function after the copy that it reads": [
        copy(P, D, A),
        call(of(P, 3), A, False),
        Step("stream", A),
        read(of(P, 3)),
    ],
    "a function before the copy that it prepares": [
        call(of(P, 2), A),
        copy(D, P, A),
        record(A),
        follow(B),
        work(E, D, B),
    ],
    "freed after its last use": [work(E, D, A), record(A), follow(B), free(D, B)],
}
WRONG = {
    "two streams": [copy(D, P, A), work(E, D, B)],
    "overwritten while it is read": [work(E, D, A), copy(D, P, B)],
    "an event recorded too early": [record(A), copy(D, P, A), follow(B), work(E, D, B)],
    "an event never recorded": [copy(D, P, A), follow(B), work(E, D, B)],
    "an event recorded again in another stream": [copy(D, P, A), record(A), record(B), follow(FREE), work(E, D, FREE)],
    "a chain that lacks a link": [copy(D, P, A), record(A), record(FREE, 1), follow(FREE), follow(B, 1), work(E, D, B)],
    "the null stream and one that does not wait for it": [work(D, E, NULL), work(P, D, FREE)],
    "pageable memory may still be on its way": [copy(D, H), work(E, D, FREE)],
    "a copy within the device": [copy(D, E), work(E, D, FREE)],
    "the host waits for the other stream": [copy(D, P, A), Step("stream", B), work(E, D, FREE)],
    "parts that overlap": [work(of(E, 0, 5), of(D, 0, 5), A), work(of(E, 4, 4), of(D, 4, 4), B)],
    "columns that overlap": [copy(COLUMNS[0], of(P, 0, 2, 4, 2), A), fill(of(D, 1, 2, 4, 2), B)],
    "the thread's own stream": [copy(D, P, A), work(E, D, THREAD)],
    "pinned memory is overwritten": [copy(D, P, A), write(of(P, 5))],
    "pinned memory is read too early": [copy(P, D, A), read(of(P, 0))],
    "managed memory under a kernel": [work(M, D, A), Step("stream", FREE), read(of(M, 7))],
    "managed memory, set in a stream": [fill(M, A), read(of(M, 0))],
    "a function in another stream": [copy(P, D, A), call(of(P, 3), B, False)],
    "a function is not waited for": [call(of(P, 3), A), read(of(P, 3))],
    "a function may still write": [call(of(P, 3), A), copy(D, P, B)],
    "a function does not end what is before it": [copy(P, D, A), call(of(Q, 3), A), read(of(P, 1))],
    "freed while another stream uses it": [work(E, D, A), free(D, B)],
}  # fmt: skip


@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
def test_what_orders_leave_open(name):
    steps = (RIGHT | WRONG)[name]
    races, early, differ = judged(steps)
    assert (bool(races or early), differ) == (name in WRONG,) * 2
    assert not disagreement(steps, found_in(steps))


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_programs(first):
    for seed in range(first, first + 50):
        steps = draw(seed, random.Random(seed).randint(4, 8))
        assert not disagreement(steps, found_in(steps)), (seed, steps)


def test_a_program_that_asks_once_has_not_waited():
    p = Program()
    d, pinned, stream = p.malloc_(), p.malloc_(kind=2), p.stream()
    p.move(pinned, d, stream=stream, later=1)
    assert p.query_stream(stream) == 600
    p.touch(pinned, False)
    assert p.found == ["under-way"]
    p.move(pinned, d, stream=stream, later=1)
    assert [p.query_stream(stream), p.query_stream(stream)] == [600, 0]
    p.touch(pinned + 1, False)
    assert p.found == ["under-way"]


def test_many_short_rows_are_compared_quickly():
    p = Program()
    d, n = p.malloc_(MIB), MIB // 4
    s, t, u = p.stream(), p.stream(), p.stream()
    p.fill(d, 4, 1, n, 0, s, 1)
    p.fill(d + 1, 4, 2, n, 0, t, 1)
    assert not p.found
    p.fill(d + 2, 4, 1, n, 0, u, 1)
    assert p.found == ["race"]


# ---- the same programs as CUDA ------------------------------------------------------------------------------

HEAD = f"""
__global__ void work(char* to, int to_pitch, const char* from, int pitch) {{
    int row = blockIdx.y, i = blockIdx.x * {CELL} + 4 * threadIdx.x;
    *(float*)(to + row * to_pitch + i) = *(const float*)(from + row * pitch + i);
}}
static char h[{CELL * CELLS}];
static void read(void* p) {{ (void)*(volatile char*)p; }}
static void write(void* p) {{ *(volatile char*)p = 1; }}
int main() {{
    char *d, *e, *m, *p, *q;
    cudaMalloc(&d, sizeof h); cudaMalloc(&e, sizeof h); cudaMallocManaged(&m, sizeof h); cudaMallocHost(&p, sizeof h); cudaMallocHost(&q, sizeof h);
    for (char* all : {{d, e, m, p, q}}) cudaMemset(all, 0, sizeof h);
    cudaStream_t s[6] = {{0, 0, 0, 0, 0, cudaStreamPerThread}};
    for (int i = 1; i < 5; i++) cudaStreamCreateWithFlags(&s[i], i < 3 ? cudaStreamDefault : cudaStreamNonBlocking);
    cudaEvent_t v[2];
"""
BETWEEN = "    cudaDeviceSynchronize(); cudaEventCreate(&v[0]); cudaEventCreate(&v[1]);"


def statement(step: Step) -> str:
    def at(part: Part) -> str:
        return f"{part.memory} + {CELL * part.first}"

    def with_pitch(part: Part) -> str:
        return f"{at(part)}, {CELL * (part.pitch if part.rows > 1 else part.count)}"

    stream, event, part = f"s[{step.stream}]", f"v[{step.event}]", step.to
    later, given = ("Async", f", {stream}") if step.later else ("", "")
    size = part and f"{CELL * part.count}, {part.rows}"
    match step.do:
        case "copy":
            return f"cudaMemcpy2D{later}({with_pitch(part)}, {with_pitch(step.source)}, {size}, cudaMemcpyDefault{given});"
        case "fill":
            return f"cudaMemset2D{later}({with_pitch(part)}, 0, {size}{given});"
        case "work":
            grid = f"dim3({part.count}, {part.rows}), {CELL // 4}, 0, {stream}"
            return f"work<<<{grid}>>>({with_pitch(part)}, {with_pitch(step.source)});"
        case "record":
            return f"cudaEventRecord({event}, {stream});"
        case "follow":
            return f"cudaStreamWaitEvent({stream}, {event}, 0);"
        case "call":
            return f"cudaLaunchHostFunc({stream}, {'write' if step.later else 'read'}, {at(part)});"
        case "free":  # the next program has it again
            again = f"cudaMalloc(&{part.memory}, sizeof h); cudaMemset({part.memory}, 0, sizeof h);"
            return f"cudaFreeAsync({part.memory}, {stream}); cudaDeviceSynchronize(); {again}"
        case "read":
            return f"(void)*(volatile char*)({at(part)});"
        case "write":
            return f"*(volatile char*)({at(part)}) = 1;"
    return {"stream": f"cudaStreamSynchronize({stream});", "event": f"cudaEventSynchronize({event});"}.get(
        step.do, "cudaDeviceSynchronize();"
    )


@needs_compiler
def test_the_same_as_cuda(tmp_path, monkeypatch):
    monkeypatch.setattr(mistakes, "MOST", 1000)
    programs = [*RIGHT.values(), *WRONG.values(), *(draw(seed) for seed in range(40))]
    lines, places = HEAD.splitlines(), {}
    for number, steps in enumerate(programs):
        lines.append(BETWEEN)
        for step in steps:
            lines.append(f"    {statement(step)}")
            places[len(lines)] = number, step
    (tmp_path / "orders.cu").write_text("\n".join([*lines, "    cudaDeviceSynchronize();", "}", ""]))
    done = run(tmp_path / "orders.cu")
    assert done.error is None and not done.ended
    named = [(m.kind, places[done.places(m.frames)[0].line]) for m in done.mistakes if not m.is_note]
    for number, steps in enumerate(programs):
        own = [(kind, steps.index(step)) for kind, (n, step) in named if n == number]
        found = {i for kind, i in own if kind == "race"}, any(kind == "under-way" for kind, _ in own)
        assert not disagreement(steps, found), (number, steps)
