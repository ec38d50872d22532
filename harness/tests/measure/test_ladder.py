"""The ladder in numbers: the stored figures, one of them counted again, and what is drawn and written from them."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import pytest

from backwarp.course.checkout import Course, open_course
from backwarp.errors import CourseError
from backwarp.measure import ladder, peaks
from backwarp.measure.ladder import LADDERS, moved, rungs_of
from backwarp.report.pictures import ladder as drawn
from backwarp.report.pictures import roofline
from tests.devices.virtual import launches as virtual
from tests.lenet.small import ROOT

COURSE = open_course(Path(__file__).parent)
DATA = ladder.load(hardware=Path("nowhere"))  # the counts alone


@pytest.fixture
def opener(monkeypatch):
    device = virtual.device("count")
    monkeypatch.setattr(type(device), "__exit__", lambda *_: None)  # it is used again
    return lambda *_, **__: device


# ---- the figures -------------------------------------------------------------------------------------------


def test_every_rung_is_stored_and_below_the_one_before():
    assert (
        DATA["date"] and DATA["command"] == ladder.COMMAND and set(DATA["versions"]) == set(ladder.SOFTWARE)
    )
    for wanted in LADDERS:
        found = rungs_of(DATA, wanted.name)
        assert [(drawn.number(rung), rung["shape"]) for rung in found] == list(wanted.rungs)
        assert all(rung["exact"] for rung in found)
        nbytes = [moved(rung) for rung in found]
        assert nbytes == sorted(nbytes, reverse=True) and len(set(nbytes)) == len(nbytes)
        assert nbytes[-1] > found[-1]["least_bytes"]
        assert len({rung["formula_flop"] for rung in found}) == 1  # the same work


def test_tiles_move_at_most_half_as_much_again_as_they_must():
    found = [rung for rung in DATA["rungs"] if rung["puzzle"].startswith("32")]
    assert len(found) == 2 and all(0 < rung["gated_bytes"] <= rung["gate_bytes"] for rung in found)


def test_a_stored_rung_counted_again(opener):
    """Bytes and FLOP do not depend on the compiler's version, as instructions may."""
    (stored,) = (rung for rung in rungs_of(DATA, "lenet_conv2") if rung["puzzle"].startswith("32"))
    now = ladder.counted(COURSE, LADDERS[0], "32", stored["shape"], opener)
    assert (
        moved(now) == moved(stored) == 5_211_520
        and now["counters"]["flops_fp32"] == stored["counters"]["flops_fp32"]
    )
    assert {
        name: now[name] for name in ("kernels", "least_bytes", "gate_bytes", "gated_bytes", "formula_flop")
    } == {
        name: stored[name] for name in ("kernels", "least_bytes", "gate_bytes", "gated_bytes", "formula_flop")
    }


@pytest.mark.soak
def test_rungs_with_few_images(opener):
    shape = ladder.LADDERS[0].rungs[0][1].replace("N=64", "N=4")
    found = [ladder.counted(COURSE, LADDERS[0], number, shape, opener) for number, _ in LADDERS[0].rungs]
    nbytes = [moved(rung) for rung in found]
    assert nbytes == sorted(nbytes, reverse=True) and nbytes[0] > 5 * nbytes[-1]
    assert found[-1]["gated_bytes"] <= found[-1]["gate_bytes"]
    assert found[2]["kernels"] == ["conv2d_backward_weights_partial", "add_parts"]
    assert found[2]["least_bytes"] == found[0]["least_bytes"] == 4 * (4 * 6 * 144 + 4 * 16 * 64 + 16 * 6 * 25)


# ---- the pictures ------------------------------------------------------------------------------------------


def texts(axes):
    return [text.get_text().strip() for text in axes.texts]


def test_bars_are_as_long_as_the_bytes():
    figure = drawn.picture(DATA)
    assert len(figure.axes) == len(LADDERS)
    for axes, wanted in zip(figure.axes, LADDERS):
        found = rungs_of(DATA, wanted.name)
        assert [patch.get_width() for patch in axes.patches] == [moved(rung) for rung in found]
        assert [label.get_text() for label in axes.get_yticklabels()] == [drawn.name(rung) for rung in found]
        assert axes.get_title(loc="left") == wanted.title and axes.get_xlim()[1] > moved(found[0])
    assert texts(figure.axes[0]) == ["113 MB", "101 MB", "69.7 MB", "5.21 MB"]
    assert DATA["date"] in figure.texts[0].get_text()


def points(axes, marker):
    return [tuple(line.get_xydata()[0]) for line in axes.lines if line.get_marker() == marker]


def test_rungs_stand_under_the_roof():
    figure, h200 = roofline.picture(DATA), peaks.named("H200")
    for axes, wanted in zip(figure.axes, LADDERS):
        *found, best = points(axes, "o")
        rungs = rungs_of(DATA, wanted.name)
        assert (
            [x for x, _ in found]
            == [rung["formula_flop"] / moved(rung) for rung in rungs]
            == sorted(x for x, _ in found)
        )
        assert all(y == min(66.9, 4.8 * x) for x, y in [*found, best]) and best[0] > found[-1][0]
        assert set(texts(axes)) >= {drawn.number(rung) for rung in rungs} | {
            "66.9 TFLOP/s float32",
            "4.8 TB/s",
        }
        roof = axes.lines[0].get_xydata()
        assert tuple(roof[1]) == (h200.ridge(), 66.9) and not points(axes, "s")
    assert "Nothing here is timed" in figure.texts[0].get_text()


@pytest.fixture
def timed():
    """The figures with one rung measured on a GPU (made up for the test)."""
    data = copy.deepcopy(DATA)
    data["rungs"][0]["gpu"] = {
        "device": "NVIDIA A100-SXM4-80GB",
        "date": "2026-01-02",
        "milliseconds": 1.0,
        "tflops": 0.25,
        "library": "cuDNN 9",
        "share_of_library": 0.125,
    }
    return data


def test_times_come_from_the_data_file_of_a_gpu(tmp_path, timed):
    rung = timed["rungs"][0]
    found = {"ladder": [{"ladder": rung["ladder"], "puzzle": rung["puzzle"], **rung["gpu"]}]}
    (tmp_path / "nvidia_a100.json").write_text(json.dumps(found))
    loaded = ladder.load(hardware=tmp_path)
    assert [r["puzzle"] for r in loaded["rungs"] if "gpu" in r] == [rung["puzzle"]]
    assert loaded["rungs"][0]["gpu"]["tflops"] == 0.25
    kept = ladder.measure(Course(tmp_path), loaded, only="nothing")["rungs"]  # no time gets among the counts
    assert len(kept) == len(loaded["rungs"]) and not any("gpu" in r for r in kept)


def test_what_was_timed_is_drawn_as_well(timed):
    assert texts(drawn.picture(timed).axes[0])[:2] == ["113 MB, 1 ms", "101 MB"]
    figure = roofline.picture(timed)
    assert [y for _, y in points(figure.axes[0], "s")] == [0.25] and not points(figure.axes[1], "s")
    assert (
        figure.texts[0].get_text().startswith("A100: ") and "Squares: measured" in figure.texts[0].get_text()
    )


# ---- the table ---------------------------------------------------------------------------------------------


def test_the_page_has_the_table_and_the_pictures():
    text = (ROOT / drawn.PAGE).read_text(encoding="utf-8")
    between = text.split(drawn.BEGIN)[1].split(drawn.END)[0]
    assert between.strip().splitlines() == drawn.table(ladder.load())
    for path in (drawn.PICTURE, roofline.PICTURE):
        assert f"({Path(path).name})" in text and (ROOT / path).read_bytes().startswith(b"\x89PNG")


def test_a_column_stands_where_something_was_timed(timed):
    plain, with_times = drawn.table(DATA), drawn.table(timed)
    assert "TFLOP/s" not in "\n".join(plain)
    assert with_times[0].endswith("| ms | TFLOP/s | of cuDNN, cuBLAS |")
    assert with_times[3].endswith("| 1 | 0.25 | 12% |")
    assert with_times[-1] == "Times: NVIDIA A100-SXM4-80GB, 2026-01-02."
    columns = {line.count("|") for line in with_times if line.startswith("|")}
    assert columns == {9}


def test_the_table_is_put_between_its_marks(tmp_path, timed):
    page = tmp_path / drawn.PAGE
    page.parent.mkdir()
    shutil.copy(ROOT / drawn.PAGE, page)
    before = page.read_text()
    drawn.to_page(ladder.load(), tmp_path)
    assert page.read_text() == before
    drawn.to_page(timed, tmp_path)
    after = page.read_text()
    assert after != before and after.split(drawn.END)[1] == before.split(drawn.END)[1]
    page.write_text("no marks")
    with pytest.raises(CourseError, match="once each"):
        drawn.to_page(DATA, tmp_path)
