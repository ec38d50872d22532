"""The timeline of a race: its threads, lines and element are those of the fault, its order that of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from backwarp.course.checkout import open_course
from backwarp.devices.virtual.device import VirtualGPU
from backwarp.devices.virtual.replay.record import Record
from backwarp.errors import KernelFault
from backwarp.grading.grade import Options, grade_file
from backwarp.grading.race_timeline import from_fault
from backwarp.grading.verdict import Verdict
from backwarp.grading.worker import GradingProcess
from backwarp.report.html import section
from backwarp.report.pictures.race import INKS, advice, excerpt, race_picture
from tests.devices.virtual.launches import K, line_of
from tests.report.pictures.test_pictures import no_text_overlaps
from tests.test_notebooks import magics, shell  # noqa: F401

COURSE = open_course(Path(__file__).resolve().parent)
TREE = f"""{K}tree(float* out) {{
    __shared__ float part[64];
    int t = threadIdx.x;
    part[t] = t;  // FILL
    BEFORE
    for (int n = 64; n > 1; n /= 2) {{
        if (t < n / 2) part[t] += part[t + n / 2];  // FAULT
        IN
    }}
    if (t == 0) out[0] = part[0];  // OUT
}}"""
COPY = f"""{K}copy(float* out) {{
    __shared__ float tile[64];
    int t = threadIdx.x;
    for (int i = 0; i < 3; i++) {{
        tile[t] = i + t;  // FILL
        __syncthreads();  // OPENS
        out[64 * i + t] = tile[63 - t];  // USE
    }}
}}"""


@pytest.fixture(scope="module")
def noting():
    device = VirtualGPU("full", seed=1)
    device.keep_rows = 100_000
    yield device
    device.close()


def raced(device, source: str, grid=1, block=64) -> tuple[KernelFault, dict]:
    name = source.split("(")[0].split()[-1]
    function = device.compile(source).get_function(name)
    with pytest.raises(KernelFault) as caught:
        function(grid, block, (device.empty((192,), name="out"),))
    return caught.value, from_fault(caught.value, source, Record(caught.value.launch.record))


def racing(found: dict) -> list[tuple]:
    return sorted((e["who"], e["access"], e["line"]) for e in found["events"] if e["race"])


def test_a_barrier_that_is_missing_once(noting):
    source = TREE.replace("BEFORE", "").replace("IN", "__syncthreads();")
    fault, found = raced(noting, source)
    fill, use = line_of(source, "FILL"), line_of(source)
    assert racing(found) == [(0, "write", fill), (1, "read", use)]
    assert found["threads"] == [list(fault.other.thread), list(fault.thread)] == [[32, 0, 0], [0, 0, 0]]
    assert (found["array"], found["index"], found["begins"], found["ends"]) == ("part", "32", 0, use + 1)
    assert found["missing"] == {"kind": "barrier", "after": fill, "before": use, "again": False}
    assert advice(found) == [f"A __syncthreads() belongs after line {fill}, before line {use}."]
    assert {e["text"] for e in found["events"] if e["line"] == fill} == {"part[t] = t;  // FILL"}


def test_a_barrier_that_is_missing_in_every_pass(noting):
    source = TREE.replace("BEFORE", "__syncthreads();").replace("IN", "")
    _, found = raced(noting, source)
    line = line_of(source)
    assert found["missing"] == {"kind": "barrier", "after": line, "before": line, "again": True}
    assert found["begins"] == line_of(source, "FILL") + 1 and found["same_warp"]
    assert (
        "__syncwarp(), or __syncthreads(), belongs after line 7, before the loop reaches" in advice(found)[0]
    )


def test_a_barrier_that_is_missing_at_the_end_of_a_loop(noting):
    _, found = raced(noting, COPY)
    fill, opens, use = (line_of(COPY, name) for name in ("FILL", "OPENS", "USE"))
    assert racing(found) == [(0, "write", fill), (1, "read", use)]
    assert found["missing"] == {"kind": "barrier", "after": use, "before": fill, "again": True}
    assert found["begins"] == found["ends"] == opens


def test_a_barrier_after_the_wait_for_a_copy(noting):
    """Before the wait, it would be a race again."""
    source = f"""#include <cuda_pipeline.h>
{K}copied(float* out) {{
    __shared__ float tile[64];
    int t = threadIdx.x;
    out[t] = t;
    __pipeline_memcpy_async(&tile[t], &out[t], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);  // WAIT
    out[64 + t] = tile[63 - t];  // USE
}}"""
    fault, found = raced(noting, source)
    wait, use = line_of(source, "WAIT"), line_of(source, "USE")
    assert found["missing"] == {"kind": "barrier", "after": wait, "before": use, "again": False}
    assert f"the wait for the copy (line {wait})" in fault.explanation
    late = source.replace("    out[64", "    __syncthreads(); out[64")
    function = noting.compile(late).get_function("copied")
    assert not function(1, 64, (noting.empty((192,), name="out"),)).notes


def test_fences_around_a_signal(noting):
    source = f"""{K}signalled(float* out) {{
    __shared__ int x, flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 0) {{
        x = 1;
        atomicExch(&flag, 1);
    }}
    if (threadIdx.x == 32) {{
        while (!atomicAdd(&flag, 0)) {{}}
        out[0] = x;
    }}
}}"""
    fault, found = raced(noting, source)
    assert found["missing"] == {"kind": "signal", "signal": True} and fault.array == "x"
    assert "__threadfence()" in advice(found)[0]


def test_what_no_barrier_orders(noting):
    source = f"{K}both(float* out) {{\n    out[threadIdx.x / 2] = threadIdx.x;\n}}"
    assert raced(noting, source)[1]["missing"] == {"kind": "one thread", "lines": [2], "updates": False}
    source = (
        f"{K}more(float* out) {{\n    out[threadIdx.x] = 0; __syncthreads();\n    out[0] += threadIdx.x;\n}}"
    )
    _, found = raced(noting, source)
    assert found["missing"] == {"kind": "one thread", "lines": [3], "updates": True}
    assert advice(found)[1] == "give each element a thread of its own, or an atomic."
    source = f"{K}within(float* out) {{\n int i = threadIdx.x; out[i] = 0; __syncthreads();\n out[i] = out[i + 1];\n}}"
    assert raced(noting, source, block=40)[1]["missing"] == {"kind": "within", "line": 3}
    source = f"{K}blocks(float* out) {{\n    out[threadIdx.x] = blockIdx.x;\n}}"
    _, found = raced(noting, source, grid=3)
    assert (
        found["missing"] == {"kind": "blocks", "updates": False} and found["blocks"][0] != found["blocks"][1]
    )
    assert racing(found) == [(0, "write", 2), (1, "write", 2)]


@pytest.fixture(scope="module")
def verdict(tmp_path_factory) -> Verdict:
    """Of a wrong kernel. Its fault depends on which reads racecheck may skip: noting them changes nothing."""
    puzzle = COURSE.load("26")
    mistake = next(m for m in puzzle.mistakes if m.name == "tiles not waited for")
    path = tmp_path_factory.mktemp("race") / "kernel.cu"
    path.write_text(mistake.apply(puzzle.solution_path.read_text(encoding="utf-8")))
    return grade_file(puzzle, path, Options("cpu"))


def test_the_picture_says_what_the_fault_says(verdict):
    fault, figure = verdict.fault, race_picture(verdict)
    texts = [t.get_text() for t in figure.axes[0].texts]
    name = f"{fault['array']}[{fault['index']}]"
    assert texts[0].startswith(f"{name}: two threads") and f"case {verdict.case};" in texts[1]
    for side, who in ((fault["other"], 0), (fault, 1)):
        thread, block = (",".join(map(str, side[key])) for key in ("thread", "block"))
        assert texts[2 + who] == f"thread ({thread}) of block ({block})"
        assert any(text.startswith(f"line {side['line']} ") and name in text for text in texts)
    assert "nothing orders these two" in texts and advice(verdict.timeline)[0] in texts
    no_text_overlaps(figure)
    boxes = [p for p in figure.axes[0].patches if p.get_linewidth() == 2.0 and p.get_width() > 100]
    wanted = [INKS[e["access"]] for e in verdict.timeline["events"] if e["race"]]
    from matplotlib.colors import to_hex

    assert [to_hex(b.get_facecolor()) for b in boxes] == wanted
    left = [b.get_x() for b in boxes]
    assert [x > min(left) for x in left] == [bool(e["who"]) for e in verdict.timeline["events"] if e["race"]]


def test_the_page_has_it(verdict):
    text = section(verdict, COURSE.load("26"))
    assert 'alt="what the two threads of the race did' in text and "data:image/png;base64," in text


def test_a_cell_that_races_shows_it(magics, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setattr(GradingProcess, "repair", lambda *_: [])  # there is none, and seconds to look for it
    text = (
        'extern "C" __global__ void twice(const float* x, float* y, int n) {\n    y[0] = x[threadIdx.x];\n}\n'
    )
    magics.kernel("01", text)
    shown = capsys.readouterr().out
    assert "Race reported" in shown and "<picture: " in shown


def test_no_race_no_timeline():
    assert race_picture(Verdict("09_x", "kernel.cu", kind="wrong")) is None


def test_code_is_cut_around_the_array():
    assert excerpt("short", "a[") == "short"
    code = "if (row < rows && column < columns) tile[i][threadIdx.x] = input[row * columns + column];"
    cut = excerpt(code, "tile[")
    assert len(cut) <= 48 and "tile[" in cut and cut.startswith("...") and cut.endswith("...")
    assert excerpt("x" * 60 + " tile[i];", "tile[").endswith("tile[i];")
