"""Blocks of few threads are tried first, where the file says how many there are."""

from backwarp.course.declare import Kernel, Launch
from backwarp.course.parameters import In, Out
from backwarp.grading.repair.variants import has_barriers, renamed, with_small_blocks

SOURCE = "constexpr int TILE = 16;\nconstexpr int DEPTH = 32;\n"


def test_numbers_that_make_blocks_smaller_are_changed_and_places_stay():
    kernel = Kernel(
        "k", (Out("x", i="n"),), lambda d, t: Launch(1, (t["TILE"], t["TILE"])), reference=lambda a, d: None
    )
    small = with_small_blocks(SOURCE, kernel, {"n": 1})
    assert "TILE = 4 ;" in small and "DEPTH = 32;" in small and len(small) == len(SOURCE)
    fixed = Kernel("k", (Out("x", i="n"),), lambda d, t: Launch(1, 256), reference=lambda a, d: None)
    assert with_small_blocks(SOURCE, fixed, {"n": 1}) == SOURCE


def test_numbers_that_differ_go_on_to_differ():
    kernel = Kernel(
        "k", (Out("x", i="n"),), lambda d, t: Launch(1, (t["DEPTH"], t["TILE"])), reference=lambda a, d: None
    )
    small = with_small_blocks(SOURCE, kernel, {"n": 1})
    assert "TILE = 4 ;" in small and "DEPTH = 8 ;" in small
    swapped = with_small_blocks(SOURCE.replace("16", "64"), kernel, {"n": 1})
    assert "TILE = 8 ;" in swapped and "DEPTH = 4 ;" in swapped


WARPS = """
constexpr int THREADS = 128;
extern "C" __global__ void k(float* x) { x[0] = __shfl_down_sync(-1, x[0], 1); }
extern "C" __global__ void other(float* x) { x[threadIdx.x] = 0; }
"""


def test_blocks_keep_whole_warps_where_these_matter():
    threads = {"k": "THREADS = 32 ;", "other": "THREADS = 4  ;"}
    for name, wanted in threads.items():
        kernel = Kernel(
            name, (Out("x", i="n"),), lambda d, t: Launch(1, t["THREADS"]), reference=lambda a, d: None
        )
        assert wanted in with_small_blocks(WARPS, kernel, {"n": 1}) and has_barriers(WARPS, name) == (
            name == "k"
        )


def test_sizes_have_the_names_that_the_file_gives_the_parameters():
    array = In("x", b="batch", h="H - F + 1", s=2)
    sizes = [size for _, size in renamed(array, {"batch": "N", "H": "rows"}).axes]
    assert sizes == ["N", "rows - F + 1", "2"]
