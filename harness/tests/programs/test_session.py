"""What is a mistake in a program's calls; no compiler is needed."""

from __future__ import annotations

import pytest

from backwarp.programs import mistakes
from backwarp.programs.process import Ended

from .calls import MIB, Program

H = 0x7F00_0000_0000
TO_DEVICE, TO_HOST, WITHIN, ANY = 1, 2, 3, 4


def told(p: Program) -> list[str]:
    return [
        line
        for m in p.session.mistakes
        for line in mistakes.sentences(m, lambda f: f"prog.cu:{f[0]}" if f else "")
    ]


WRONG = {
    "a copy that says the other direction": ("direction", lambda p, d: p.move(d, H, kind=TO_HOST)),
    "and one from device memory": ("direction", lambda p, d: p.move(H, d, kind=TO_DEVICE)),
    "host memory within the device": ("direction", lambda p, d: p.move(d, H, kind=WITHIN)),
    "a fill of host memory": ("direction", lambda p, d: p.fill(H, 400, 400, 1, 0)),
    "a copy that is too long": ("too-long", lambda p, d: p.move(d, H, 404)),
    "and one that begins too late": ("too-long", lambda p, d: p.move(H, d + 4)),
    "rows that are too long": ("too-long", lambda p, d: p.copy(d, 200, H, 100, 100, 4, ANY)),
    "a null pointer": ("null", lambda p, d: p.move(0, H)),
    "memory between allocations": ("outside", lambda p, d: p.move(d + MIB // 2, H)),
    "freed memory": ("freed", lambda p, d: (p.free(d), p.move(H, d))),
    "freed twice": ("freed-twice", lambda p, d: (p.free(d), p.free(d))),
    "host memory freed": ("free-host", lambda p, d: p.free(H)),
    "freed from the middle": ("free-inside", lambda p, d: p.free(d + 8)),
    "pinned memory freed as the device's": ("free-host", lambda p, d: p.free(p.malloc_(kind=2))),
    "no stream": ("handle", lambda p, d: p.move(d, H, stream=77, later=1)),
    "no event": ("handle", lambda p, d: p.record(77, 0)),
    "an event that never was": ("event", lambda p, d: p.elapsed(p.event(), p.event())),
    "two streams": (
        "race",
        lambda p, d: [p.move(d, p.malloc_(kind=2), stream=p.stream(), later=1) for _ in range(2)],
    ),
    "device memory on the host": ("on-device", lambda p, d: p.stopped(11, d + 12, 1, 0, 0, 2)),
    "an array of no channels": ("image", lambda p, d: p.array_(texel=(0, 0, 0, 0, 2))),
    "an array without a width": ("image", lambda p, d: p.array_(0)),
    "rows that an array does not have": (
        "array-part",
        lambda p, d: p.array_part(p.array_(), 0, 2, 0, 32, 3, 1, 1),
    ),
    "bytes for texels": ("array-part", lambda p, d: p.array_part(p.array_(), 0, 0, 0, 32, 1, 1, 2)),
    "a part that begins nowhere": (
        "array-part",
        lambda p, d: p.array_part(p.array_(), (1 << 64) - 4, 0, 0, 4, 1, 1, 1),
    ),
    "memory for an array": ("no-array", lambda p, d: p.array_part(d, 0, 0, 0, 4, 1, 1, 1)),
    "no array": ("no-array", lambda p, d: p.image_(0)),
    "an array for memory": ("array-plain", lambda p, d: p.move(p.array_(), H, 8)),
    "an array freed as memory": ("free-host", lambda p, d: p.free(p.array_())),
    "memory freed as an array": ("free-host", lambda p, d: p.free(d, 4)),
    "a texture of a freed array": ("freed", lambda p, d: (p.free(a := p.array_(), 4), p.image_(a))),
    "a texture longer than its memory": ("too-long", lambda p, d: p.image_(d, 2, 404)),
    "a texture of texels that are none": ("image", lambda p, d: p.image_(d, 1)),
    "a surface of an array without": ("image", lambda p, d: p.image_(p.array_(), texture=False)),
    "a texture destroyed as a surface": ("handle", lambda p, d: p.image_end(p.image_(p.array_()), 1)),
    "destroyed twice": ("destroyed-twice", lambda p, d: [p.image_end(i) for i in [p.image_(p.array_())] * 2]),
    "an undefined operation": ("stopped", lambda p, d: p.stopped(4, 0, 0, 23, 0, 2)),
}


@pytest.mark.parametrize("kind, does", WRONG.values(), ids=WRONG.keys())
def test_a_mistake_is_named_at_its_line(kind, does):
    p = Program()
    does(p, p.malloc_())
    assert p.found == [kind] and p.session.mistakes[0].frames[0] == p.line
    assert told(p) and all("{" not in line for line in told(p))


@pytest.mark.parametrize("huge", [lambda p: p.malloc_(1 << 62), lambda p: p.array_(1 << 40, 1 << 40)])
def test_more_than_there_is(huge):
    p = Program()
    assert huge(p) == 0 and p.code == 2 and [m.kind for m in p.session.mistakes] == ["full"]


def test_a_right_program_is_silent():
    p = Program()
    d, pinned, stream, event = p.malloc_(), p.malloc_(kind=2), p.stream(), p.event()
    p.move(d, pinned, kind=TO_DEVICE, stream=stream, later=1)
    p.record(event, stream)
    other = p.stream()
    p.stream_waits(other, event)
    p.move(pinned, d, kind=TO_HOST, stream=other, later=1)
    p.wait_stream(other)
    p.move(H, d, 100, TO_HOST)
    p.fill(d, 400, 400, 1, 0)
    p.elapsed(event, event)
    for memory, kind in ((d, 0), (pinned, 2)):
        assert p.free(memory, kind) == 0
    assert p.bye() == 0 and not p.session.mistakes


def test_pinned_memory_is_protected_until_it_is_waited_for():
    p = Program()
    d, pinned, stream = p.malloc_(), p.malloc_(8192, 2), p.stream()
    p.fill(d, 400, 400, 1, 0)
    p.move(d, pinned, stream=stream, later=1)
    assert (pinned, 4096, 1) in p.changes  # it may be read, not written
    p.move(pinned, d, stream=stream, later=1)
    assert (pinned, 4096, 0) in p.changes
    assert p.stopped(11, pinned + 40, 0, 0, 0, 2) == 0 and p.found == ["under-way"]
    assert (pinned, 4096, 3) in p.changes  # named once, the program goes on


def test_notes_are_no_mistakes():
    p = Program()
    p.move(H, p.malloc_(), kind=TO_HOST)
    p.malloc_(1 << 31)
    p.bye()
    assert [m.kind for m in p.session.mistakes] == ["unset", "full", "leak"] and not p.found
    assert p.session.mistakes[0].facts["count"] == 400


def test_what_was_freed_is_used_again_only_when_room_is_needed():
    p = Program()
    d = p.malloc_()
    p.free(d)
    assert (
        p.session.memory.holding(d).freed and p.session.memory.drop() and p.session.memory.holding(d) is None
    )


def test_rows_do_not_overlap():
    p = Program()
    d = p.malloc_()
    assert p.copy(d, 0, H, 0, 100, 1 << 60, ANY) == p.fill(d, 0, 100, 1 << 60) == 12 and not p.found
    assert p.copy(d, 0, H, 0, 100, 1, ANY) == 0


def test_requests_that_no_runtime_makes_end_the_program():
    p = Program()
    p.malloc_(kind=77)
    with pytest.raises(Ended, match="bye: KeyError"):
        p.bye()
