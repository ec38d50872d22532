"""Maps of memory: single requests of a counted launch, and the pictures that are drawn from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backwarp.course.checkout import open_course
from backwarp.report.pictures import maps
from tests import sampled
from tests.devices.virtual.launches import K, device
from tests.report.pictures.test_pictures import no_text_overlaps

COURSE = open_course(Path(__file__).resolve().parent)
SOURCE = f"""{K}swap(const float* a, float* b) {{
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = a[t ^ 1];
    __syncthreads();
    if (t % 2) b[t] = tile[63 - t];
}}
"""


@pytest.fixture
def counting():
    yield device("count")
    device("count").keep_requests = 0


def swapped(dev):
    a, b = dev.array(np.zeros(64, np.float32)), dev.empty((64,))
    return dev.compile(SOURCE).get_function("swap")(1, 64, (a, b)), a.pointer, b.pointer


def test_requests_are_listed_warp_by_warp_with_the_addresses_of_the_lanes(counting):
    counting.keep_requests = 100
    launch, a, b = swapped(counting)
    assert len(launch.requests) == 8
    for warp in (0, 1):
        load, store, again, out = (r for r in launch.requests if r.warp == warp)
        assert [(r.line, r.kind, r.space) for r in (load, store, again, out)] == [
            (4, "load", "global"),
            (4, "store", "shared"),
            (6, "load", "shared"),
            (6, "store", "global"),
        ]
        threads = np.arange(32) + 32 * warp
        assert np.array_equal(load.addresses, a + 4 * (threads ^ 1)) and load.size == 4
        odd = threads % 2 == 1
        assert np.array_equal(out.addresses, np.where(odd, b + 4 * threads, -1))
        assert np.array_equal(again.addresses == -1, ~odd)
        first = store.addresses[0] - 4 * threads[0]  # where the tile begins
        assert np.array_equal(again.addresses[odd], first + 4 * (63 - threads[odd]))
    assert [r.warp for r in launch.requests[:2]] == [launch.requests[0].warp] * 2


def test_only_as_many_are_kept_as_asked_for_and_counts_stay(counting):
    counting.keep_requests = 100
    everything = swapped(counting)[0]
    counting.keep_requests = 3
    launch = swapped(counting)[0]
    assert len(launch.requests) == 3 and launch.counters == everything.counters
    counting.keep_requests = 0
    assert swapped(counting)[0].requests == []


HEADINGS = {
    "23": ["32 sectors for 128 bytes", "4 sectors for 128 bytes"],
    "24": ["108 reads for 12 outputs", "30 reads for 12 outputs"],
    "25": ["32 wavefronts for 32 words", "1 wavefront for 32 words"],
    "26": ["m x k = 9 x 11", "k x n = 11 x 10", "m x n = 9 x 10"],
    "27": ["a[8][36], step k=3", "b[8][32], step k=3", "C, m x n = 30 x 36"],
}


# all are drawn with the same pens, and change with their lesson
@pytest.mark.sampled
@pytest.mark.parametrize("number", sampled(maps.MAPS))
def test_a_map_says_what_it_shows_and_nothing_overlaps(number):
    picture = maps.MAPS[number](COURSE.load(number))
    texts = [t.get_text() for t in picture.axes[0].texts]
    assert [text for text in texts if text in HEADINGS.get(number, ())] == HEADINGS.get(number, [])
    assert min(t.get_fontsize() for t in picture.axes[0].texts) >= 6  # points; smaller is not read on a phone
    no_text_overlaps(picture)
