"""`backwarp bench`: shapes in the libraries' words, counts of big cases, times on a pretended GPU."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from backwarp import cli
from backwarp.course import least_work
from backwarp.course.checkout import load_puzzle, open_course, read_source
from backwarp.course.declare import Array
from backwarp.cuda.values import tunables
from backwarp.devices.gpu.device import GPU
from backwarp.devices.nvrtc import ptxas
from backwarp.devices.virtual.explain import metrics
from backwarp.devices.virtual.run.workers import spread_order
from backwarp.errors import CourseError
from backwarp.measure import baseline, bench, figures, peaks, shapes
from backwarp.measure.bench import BenchOptions
from backwarp.measure.figures import RIGHT, WRONG
from backwarp.process import guarded
from backwarp.report.bench import bulk, document, lines
from tests.devices.virtual import launches as virtual

HERE = Path(__file__).parents[1] / "fakes"
COURSE = open_course(HERE)
LAYER = "N=128,C=128,H=71,W=71,K=256,R=3,S=3,stride=2,pad=1"


def dims(number, text):
    return shapes.shape_of(COURSE.load(number), text).case.dims


# ---- shapes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text", "wanted"),
    [
        (
            "32",
            LAYER,
            dict(
                batch=128,
                C_in=128,
                H=71,
                W=71,
                C_out=256,
                R=3,
                S=3,
                stride_h=2,
                stride_w=2,
                pad_h=1,
                pad_w=1,
                dilation_h=1,
            ),
        ),
        ("13", "N=2,C=3,H=9,W=8,K=4,R=3,S=2,stride_h=2", dict(stride_h=2, stride_w=1, pad_h=0)),
        ("14", "N=2,C=6,K=12,groups=3,H=9,W=9", dict(C_in=6, C_out=12, groups=3, R=3)),
        ("09", "N=2,C=3,H=12,W=9,K=4,R=3,S=3,stride=1,pad=0", dict(batch=2, C_in=3, H=12, W=9, C_out=4, F=3)),
        (
            "15",
            "N=2,C=4,W=50,K=6,S=5,stride=2,pad=2",
            dict(
                W=50, S=5, H=1, R=1, D=1, T=1, stride_w=2, stride_h=1, stride_d=1, pad_w=2, pad_h=0, pad_d=0
            ),
        ),
        (
            "15",
            "N=2,C=4,H=9,W=8,K=6,R=3,S=3,stride=2,pad=1",
            dict(D=1, T=1, R=3, stride_h=2, stride_d=1, pad_h=1, pad_d=0),
        ),
        ("15", "N=2,C=4,D=5,H=9,W=8,K=6,T=2,R=3,S=3,stride=2,pad=1", dict(D=5, T=2, stride_d=2, pad_d=1)),
        ("26", "M=64,N=32,K=16", dict(M=64, N=32, K=16)),
        ("06", "M=8,N=10,K=84", dict(batch=8, n_out=10, n_in=84)),
        ("06", "N=8,C=84,K=10", dict(batch=8, n_out=10, n_in=84)),
        ("25", "M=64,N=96", dict(rows=64, columns=96)),
        ("19", LAYER, dict(batch=128, C_out=256, H_out=36, W_out=36)),
        ("01", "N=1000", dict(n=1000)),
        ("22", "N=8,parts=4", dict(batch=8, parts=4, F=3)),
        ("18", "N=2,C=8,H=4,W=4,K=3", dict(batch=2, C=8, K=3)),
    ],
)
def test_a_shape_in_the_words_of_the_libraries(number, text, wanted):
    found = dims(number, text)
    assert wanted.items() <= found.items() and found.keys() == shapes.big_case(COURSE.load(number)).keys()


@pytest.mark.parametrize(
    ("number", "text", "says"),
    [
        ("32", "N=two", "'N=two' is not NAME=NUMBER"),
        ("32", "N", "'N' is not NAME=NUMBER"),
        ("32", "N=-3", "is not NAME=NUMBER"),
        ("32", "N=1,N=2", "gives N twice"),
        ("32", "H=0", "H is 0; it is at least 1"),
        ("32", "N=1,X=2", "has no X; its sizes are batch, C_in"),
        ("32", "M=64,N=32,K=16", "has no M"),
        ("09", "stride=2", "stride is 1, and none of its kernels accepts another"),
        ("31", "dilation=2", "dilation_h is 1"),
        ("09", "R=3,S=2", "square"),
        ("13", "N=1,C=1,H=2,W=9,K=1,R=3,S=3", "is the filter larger than the image?"),
        ("14", "C=7,K=8,groups=2", "2 groups do not divide C_in, 7"),
        ("24", "N=1,C=64,K=64", "room for 4,096"),
        ("01", "N=3000000000", "more than the 2,147,483,647 elements"),
    ],
)
def test_a_shape_that_cannot_be_is_one_line(number, text, says, capsys):
    status = guarded(lambda: cli.run_verb(["bench", number, "--shape", text]))
    error = capsys.readouterr().err
    assert status == 2 and error.startswith("backwarp: --shape") and says in error and error.count("\n") == 1


def test_every_puzzle_has_a_big_case_or_says_why_not():
    for puzzle in COURSE.puzzles():
        if puzzle.program:
            with pytest.raises(CourseError, match="bench_lenet"):
                bench.bench(puzzle, puzzle.solution_path, BenchOptions())
            continue
        case = shapes.shape_of(puzzle).case
        full = puzzle.full_dims(case)
        moved = [least_work.least_bytes(kernel, full) for kernel in puzzle.kernels]
        assert not puzzle.bench or max(moved) > 10e6, f"{puzzle.id} is small"
        t = tunables(read_source(puzzle.solution_path))
        assert all(kernel.launch(full, t).grid for kernel in puzzle.kernels)


def test_operations_are_those_of_the_formula():
    def found(number, name, text):
        puzzle = COURSE.load(number)
        return least_work.flops(puzzle.kernel(name), puzzle.full_dims(shapes.shape_of(puzzle, text).case))

    layer = 2 * 128 * 128 * 256 * 9 * 36 * 36
    assert found("13", "conv2d_forward", LAYER) == found("13", "conv2d_backward_input", LAYER) == layer
    assert (
        found("32", "conv2d_backward_weights_split", LAYER) == layer
        and found("32", "add_splits", LAYER) is None
    )
    assert found("14", "conv2d_forward", "N=2,C=6,H=5,W=5,K=12,R=3,S=3,groups=3") == 2 * 2 * 12 * 2 * 9 * 9
    assert (
        found("15", "conv_nd_forward", "N=2,C=4,D=5,H=9,W=8,K=6,T=2,R=3,S=3")
        == 2 * 2 * 4 * 6 * 18 * 4 * 7 * 6
    )
    assert (
        found("16", "conv_transpose2d_forward", "N=2,C=3,H=4,W=5,K=6,R=2,S=2,stride=2")
        == 2 * 2 * 3 * 6 * 4 * 20
    )
    assert found("06", "fc_backward_input", "M=8,N=10,K=84") == 2 * 8 * 10 * 84
    assert (
        found("27", "matmul", "M=8,N=10,K=84") == 2 * 8 * 10 * 84 and found("01", "vector_add", "N=9") is None
    )


# ---- the virtual GPU ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counting():
    device = virtual.device("count")
    device.__class__.__exit__, kept = lambda *_: None, device.__class__.__exit__  # it is used again
    yield lambda *_, **__: device
    device.__class__.__exit__ = kept


def run(number, counting, path=None, **settings):
    puzzle = COURSE.load(number)
    return bench.bench(puzzle, path or puzzle.solution_path, BenchOptions(**settings), counting)


def test_a_launch_is_counted_and_compared(counting):
    report = run("09", counting, shape="N=2,C=3,H=12,W=12,K=4,R=3,S=3")
    weights, bias = report.kernels
    assert (
        weights.flops == 2 * 2 * 3 * 4 * 9 * 100 == weights.counters["flops_fp32"] and weights.result == RIGHT
    )
    assert weights.least_bytes == 4 * (2 * 4 * 100 + 2 * 3 * 144 + 4 * 3 * 9) and not weights.sampled
    assert bias.flops is None and bias.work == 800 and report.verdict.exit_status == 0
    text = "\n".join(lines(report))
    assert (
        "all 2 blocks: exact" in text
        and "memory on H200 (66.9 TFLOP/s float32, 4.8 TB/s: 13.9 FLOP per byte)" in text
    )
    moved = 32 * sum(weights.counters[f"global_{kind}_sectors"] for kind in ("load", "store"))
    least = moved / 4.8e9  # milliseconds
    assert f"{least:.3g} ms at least without a cache, {weights.flops / least / 1e9:.3g} TFLOP/s" in text
    assert f"{weights.flops / moved:.2f} FLOP per byte moved" in text and "counts, no times" in text


def test_needless_arithmetic_is_no_gain():
    """A kernel that computes ten times what the formula says is slower, not nearer to the peak."""
    counters = {"flops_fp32": 10**10, "global_load_sectors": 10**6}
    m = figures.Measured("k", (1, 1, 1), (1, 1, 1), 10**9, 10**6, counters=counters)
    least = figures.least_times(m, peaks.named("H200"))
    assert math.isclose(least["memory"], 32e6 / 4.8e9) and math.isclose(least["arithmetic"], 10 / 66.9)
    assert figures.intensities(m) == (10**9 / 32e6, 1000)


def test_a_large_launch_is_counted_in_some_blocks_and_says_so(counting, monkeypatch):
    shape = "N=4,C=3,H=14,W=14,K=64,R=3,S=3"
    whole = run("21", counting, shape=shape).kernels[0]
    monkeypatch.setattr(bench, "BUDGET", whole.counters["thread_instructions"] // 8)
    report = run("21", counting, shape=shape)
    part = report.kernels[0]
    assert part.sampled and whole.blocks // 10 < part.ran < whole.blocks // 6 and not whole.sampled
    for name in ("flops_fp32", "global_load_sectors", "global_store_sectors", "thread_instructions"):
        assert math.isclose(part.counters[name], whole.counters[name], rel_tol=0.03), name
    text = "\n".join(lines(report))
    assert f"{part.ran} of 1,728 blocks; the rest is extrapolated, an estimate" in text
    assert "result    right with batch=2; not compared as a whole" in text and "exact" not in text
    assert document(report)["kernels"][0]["exact"] is False
    assert counting().sample_blocks == 0  # the next launch is whole again


@pytest.mark.parametrize("blocks", [2, 7, 1000, 18432, 36864])
def test_some_blocks_lie_evenly_over_the_grid(blocks):
    multiplier, offset = spread_order(blocks)
    order = [(i * multiplier + offset) % blocks for i in range(blocks)]
    assert sorted(order) == list(range(blocks))
    some = sorted(order[-max(2, blocks // 50) :])
    gaps = np.diff([*some, some[0] + blocks])
    assert gaps.max() < 2.7 * blocks / len(some)


def test_arrays_without_room_are_refused_with_the_batch_that_goes(counting):
    text = "N={},C=64,H=224,W=224,K=64,R=3,S=3"
    with pytest.raises(CourseError, match="the largest that fits is batch=") as refused:
        run("32", counting, shape=text.format(512))
    most = int(str(refused.value).rpartition("=")[2])
    puzzle, room = COURSE.load("32"), counting().room // 2
    cases = (shapes.shape_of(puzzle, text.format(n)).case for n in (most, most + 1))
    taken = [least_work.array_bytes(puzzle.kernels[0], puzzle.full_dims(case)) for case in cases]
    assert taken[0] <= room < taken[1]


def test_a_block_that_takes_too_long_is_refused_with_a_size_that_does_not(counting, monkeypatch):
    monkeypatch.setattr(bench, "LIMIT", 0.05)
    with pytest.raises(CourseError, match=r"takes more than 0.05 seconds to count; it works with batch=\d+$"):
        run("09", counting, shape="N=262144,C=1,H=5,W=5,K=1,R=3,S=3")


def test_a_wrong_kernel_is_said_to_be_wrong(counting, tmp_path):
    path = tmp_path / "kernel.cu"
    path.write_text(COURSE.load("01").solution_path.read_text().replace("a[i] + b[i]", "a[i] - b[i]"))
    assert "a[i] - b[i]" in path.read_text()
    report = run("01", counting, path, shape="N=1000")
    assert report.verdict.exit_status == 1 and report.kernels[0].result == WRONG
    assert lines(report)[-1] == "Next: backwarp grade 01" and "mean nothing" in "\n".join(lines(report))
    unasked = run("01", counting, path, shape="N=1000", verify=False)
    assert unasked.verdict.exit_status == 0 and unasked.kernels[0].result == "not compared, as asked for"


def test_what_is_too_large_to_compare_is_compared_with_a_smaller_batch(counting, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "AFFORDABLE", 100 * 1000)
    found = run("01", counting, shape="N=5000").kernels[0]
    assert found.result == "right with n=625; not compared as a whole"
    found = run("26", counting, shape="M=4,N=64,K=20").kernels[0]
    assert found.result == "right with M=1 N=32; not compared as a whole"
    path = tmp_path / "kernel.cu"
    text = COURSE.load("01").solution_path.read_text()
    path.write_text(text.replace("c[i] = a[i] + b[i];", "c[i] = a[i];"))
    assert run("01", counting, path, shape="N=5000").verdict.exit_status == 1
    monkeypatch.setattr(bench, "AFFORDABLE", 0)
    found = run("01", counting, path, shape="N=5000").kernels[0]
    assert found.result.startswith("not compared: the reference would")


@pytest.mark.parametrize(("init", "product"), [("zeros", 0), ("integer", None)])
def test_inputs_as_asked_for(init, product):
    puzzle = COURSE.load("01")
    made = bench.inputs(puzzle, shapes.shape_of(puzzle, "N=50", init).case, puzzle.kernels[0], 0)
    values = np.concatenate([made["a"], made["b"]])
    assert (
        (values == np.round(values)).all()
        and (abs(values) <= 4).all()
        and bool(values.any()) is (product is None)
    )


def test_a_stub_is_not_measured(counting):
    report = run("09", counting, COURSE.load("09").stub_path)
    assert report.verdict.kind == "untouched" and report.verdict.exit_status == 1 and not report.kernels


# ---- a pretended GPU ---------------------------------------------------------------------------------------

PUZZLE = """\
from backwarp.course import Case, Float, In, InOut, Int, Kernel, Launch, Out, Puzzle
PUZZLE = Puzzle(title="Scale", part=1, teaches="", lines=1, hints=("hint",), bench={"n": 4096},
    kernels=(Kernel("scale", (InOut("a", n="n"), Int("n"), Float("f", 3.0)), lambda d, t: Launch(4, 32),
                    lambda a, d: 3 * a["a"], flops=lambda d: 10**9),),
    cases=(Case("tiny", {"n": 3}),))
"""
SOURCE = """\
extern "C" __global__ void scale(float* a, int n, float f) {
    // BEGIN SOLUTION
    a[0] *= f;
    // END SOLUTION
}
"""


@pytest.fixture
def scale(tmp_path, monkeypatch):
    """A puzzle whose kernel the stand-in for CuPy knows."""
    for folder, name, text in (("puzzles", "puzzle.py", PUZZLE), ("solutions", "kernel.cu", SOURCE)):
        (tmp_path / folder / "01_scale").mkdir(parents=True)
        (tmp_path / folder / "01_scale" / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{HERE / 'fake_cupy'}:{HERE / 'fake_torch'}")
    return load_puzzle(tmp_path, "01_scale")


def test_times_on_a_gpu_leave_the_flush_out(scale, monkeypatch):
    def opened(kind, checks, seed):
        return GPU(checks, seed)

    report = bench.bench(scale, scale.solution_path, BenchOptions(repeat=3), opened)
    m = report.kernels[0]
    assert m.milliseconds == [1.0, 1.0, 1.0] and m.result == RIGHT and m.tflops == 1.0
    assert math.isclose(m.gigabytes, 2 * 4 * 4096 / 1e6) and report.peak is None
    assert "no published peaks for Fake H200" in "\n".join(lines(report))
    monkeypatch.setattr(peaks, "PEAKS", (peaks.Peak("Fake", 4.0, 0, 0, 1e-5, 1, "none", ("Fake H200",)),))
    report = bench.bench(scale, scale.solution_path, BenchOptions(repeat=1, gpu="Fake"), opened)
    text = "\n".join(lines(report))
    assert "25% of its 4 TFLOP/s float32" in text and "1 ms, median of 1 (1 to 1); L2 flushed" in text
    found = document(report)["kernels"][0]
    assert found["share_of_peak"] == 0.25 and math.isclose(
        found["share_of_roofline"], 1 / (1e9 / 32768 * 1e-5)
    )
    assert json.dumps(found)


def test_what_a_library_is_asked_to_do():
    """Every kernel of a convolution or product: the stand-in checks shapes, one gradient alone, options."""
    asked = 0
    for puzzle in COURSE.puzzles():
        full = puzzle.full_dims(shapes.shape_of(puzzle).case) if puzzle.kernels else {}
        for kernel in puzzle.kernels:
            takes = {p.name for p in kernel.params if not isinstance(p, Array)}
            job = baseline.job_of(kernel, full)
            if puzzle.number < "33" and least_work.flops(kernel, full):
                assert job, f"{puzzle.id} {kernel.name}"
            if job and job["operation"] != "matmul":
                assert {"C_in", "C_out"} <= takes and len(job["stride"]) == len(job["input"]) - 2
            asked += bool(job)
    assert asked > 25


def test_the_baseline_is_timed_in_every_arithmetic_and_layout(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE / "fake_torch"))
    transposed = COURSE.load("16")
    text = "N=2,C=4,H=5,W=6,K=6,R=3,S=3,stride=2,pad=1,groups=2"
    full = transposed.full_dims(shapes.shape_of(transposed, text).case)
    for kernel in transposed.kernels:
        found = baseline.measure({**baseline.job_of(kernel, full), "repeat": 2})
        assert found["software"] == "cuDNN 91002 through PyTorch 2.9.9", found
        rows = {
            (row["arithmetic"], row["library"], row["layout"]): row["milliseconds"] for row in found["rows"]
        }
        assert rows == {
            (arithmetic, "cuDNN", layout): [milliseconds] * 2
            for arithmetic, milliseconds in (("float32", 1.0), ("tf32", 0.5), ("half", 0.25))
            for layout in ("NCHW", "channels_last")
        } | {("float32", "PyTorch", "NCHW"): [4.0] * 2}
        assert figures.library_time(found, "tf32") == 0.5 and not figures.library_time({}, "tf32")


def test_the_baseline_of_other_kernels(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE / "fake_torch"))
    for number, name in (
        ("15", "conv_nd_backward_weights"),
        ("14", "conv2d_backward_input"),
        ("27", "matmul"),
    ):
        puzzle = COURSE.load(number)
        job = baseline.job_of(puzzle.kernel(name), puzzle.full_dims(shapes.shape_of(puzzle).case))
        found = baseline.measure({**job, "repeat": 1})
        assert len(found.get("rows", ())) == (3 if number == "27" else 7), found


@pytest.mark.parametrize(
    ("state", "says"), [("absent", "PyTorch is not installed"), ("no gpu", "finds no GPU")]
)
def test_without_a_baseline_the_reason_is_said(state, says, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE / "fake_torch"))
    monkeypatch.setenv("FAKE_TORCH", state)
    assert says in baseline.measure({"operation": "matmul", "m": 1, "k": 1, "n": 1, "repeat": 1})["problem"]


def test_a_second_pass_belongs_to_the_first_when_weighed_against_a_library():
    puzzle = COURSE.load("32")
    first, second = (
        figures.Measured(k.name, (1, 1, 1), (1, 1, 1), 10**9, 1, milliseconds=[t])
        for k, t in zip(puzzle.kernels, (3.0, 1.0))
    )
    first.baseline = {
        "software": "cuDNN",
        "rows": [{"arithmetic": "float32", "library": "cuDNN", "layout": "NCHW", "milliseconds": [2.0]}],
    }
    report = figures.BenchResult(
        puzzle, bench.Verdict("32", "kernel.cu", device_kind="gpu"), {}, [first, second], peaks.PEAKS[0]
    )
    assert figures.chained(report, first) == 4.0 and figures.chained(report, second) == 1.0
    assert any("cuDNN   float32  NCHW" in line and "50% of its speed" in line for line in lines(report))


def test_tensor_cores_are_told_by_the_instructions():
    ptx = ".visible .entry plain(\n) { fma.rn.f32 }\n.visible .entry _Z4fastPf(\n) "
    ptx += "{ mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 }"
    ptx += "\n.entry halves(\n) { wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16 }"
    assert [bench.arithmetic(ptx, name) for name in ("plain", "fast", "halves")] == [
        "float32",
        "tf32",
        "half",
    ]


def test_peaks():
    h200 = peaks.named("h200")
    assert peaks.of_device("NVIDIA H200") is h200 and peaks.of_device("NVIDIA H100 PCIe") is None
    assert (h200.float32, h200.tf32, h200.half, h200.memory) == (66.9, 494.7, 989.4, 4.8) and all(
        p.source for p in peaks.PEAKS
    )
    assert h200.limit(1.0) == 4.8 and h200.limit(1e3) == 66.9 and round(h200.ridge(), 1) == 13.9
    with pytest.raises(CourseError, match="known: H200"):
        peaks.named("H201")


def test_copies_by_tma_are_bytes_that_move():
    """Puzzle 36's second kernel in the case `counted`, and what it is assembled for."""
    counts = {name: 0 for name in metrics.METRICS}
    counts |= dict(global_store_sectors=4096, bulk_copies=144, bulk_bytes=1_179_648)
    counts |= dict(flops_tensor=37_748_736, flops_tensor_overlapped=35_651_584)
    assert metrics.global_bytes(counts) == 32 * 4096 + 1_179_648
    assert round(metrics.arithmetic_intensity(counts), 1) == 28.8
    assert bulk(counts) == "144 copies, 1.18 MB moved; one was on its way for 94% of the tensor FLOP"
    assert bulk(counts | dict(bulk_boxes=100)).startswith("144 copies (100 of boxes), ")
    assert ptxas.target(".version 9.5\n.target sm_90a\n") == "sm_90a"
    assert ptxas.target(".version 9.0\n.target sm_80, debug\n") == "sm_80"
    assert ptxas.occupancy(ptxas.Resources(168, 64, 0, 0, 0), 384, 0, "sm_90a").arch == "sm_90"
