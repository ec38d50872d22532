"""A program's timeline: what overlaps on a model of a card, as text and as a picture; no compiler is needed."""

from __future__ import annotations

import pytest

from backwarp.measure.peaks import named
from backwarp.programs.model import Model
from backwarp.report import timeline
from backwarp.streams.order import COMPUTE, IN

from .calls import MIB, Program

A100 = Model(named("A100"))


@pytest.fixture
def overlapping():
    """Copies to the device and back in two streams, a MiB each way."""
    p = Program()
    d, h = [p.malloc_(2 * MIB) for _ in range(2)], [p.malloc_(2 * MIB, 2) for _ in range(2)]
    for i in range(2):
        s = p.stream()
        p.move(d[i], h[i], MIB, stream=s, later=1)
        p.move(h[i], d[i], MIB, stream=s, later=1)
    p.wait_all()
    return p.session.streams.order.operations


def test_times_are_those_of_the_data_sheet():
    assert A100.copied(32_000_000) == 1000 + 1_000_000
    assert A100.moved(2_039_000) == 1000 + 2000
    assert A100.computed({"flops_fp32": 19_500_000, "global_load_sectors": 1}) == 1000 + 1000
    assert A100.computed({"flops_tensor": 312_000_000}) == 1000 + 1000
    assert A100.computed({"global_load_sectors": 2_039_000 // 32}) == pytest.approx(2000, abs=2)


def test_a_copy_overlaps_with_one_in_the_other_direction(overlapping):
    each = A100.copied(MIB)
    assert [(o.start, o.finish) for o in overlapping] == [
        (0, each),
        (each, 2 * each),
        (each, 2 * each),
        (2 * each, 3 * each),
    ]
    lines = list(timeline.text(overlapping, A100, lambda frames: f"prog.cu:{frames[0]}"))
    assert all(len(line) <= 80 for line in lines)
    assert lines[0] == f"{3 * each / 1000:.1f} us in streams, {4 * each / 1000:.1f} us one after the other."
    bars = [line.partition("|")[2] for line in lines if "|" in line]
    assert [(bar.count(">"), bar.count("<")) for bar in bars] == [(22, 22), (22, 22)]
    assert bars[0].index("<") == bars[1].index(">")


def test_the_picture_has_a_row_for_each_stream_and_engine(overlapping):
    texts = [t.get_text() for t in timeline.picture(overlapping, A100, "prog.cu").axes[0].texts]
    assert {"stream 1", "stream 2", "copies in", "kernels", "copies out", "prog.cu"} <= {*texts}
    assert texts.count("1.05 MB") == 8


def test_nothing_to_draw():
    assert [*timeline.text([], A100, str)] == ["Nothing was copied or launched."]
    assert timeline.picture([], A100, "prog.cu").axes


def test_copies_within_the_device_are_its_own_work():
    p = Program()
    d, e = p.malloc_(), p.malloc_()
    p.move(d, e)
    p.move(d, 0x7F00_0000_0000)
    assert [o.engine for o in p.session.streams.order.operations] == [COMPUTE, IN]
