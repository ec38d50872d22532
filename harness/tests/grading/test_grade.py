"""Grading, on a device whose kernels are Python functions: what is run, in which order, and the messages."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from backwarp.course.declare import Case, In, InOut, Int, Kernel, Launch, Mistake, Out, Puzzle, ceil_div
from backwarp.errors import Coordinates, DeviceError, KernelFault, LaunchError
from backwarp.grading.grade import Options, grade_file
from backwarp.report.json import dumps
from tests.fakes.device import fake_opener, stub_of

CASES = (
    Case("large", {"N": 40}),
    Case("tiny", {"N": 3}, inputs={"x": [1, 2, 3]}),
    Case("exact", {"N": 8}, values="integers"),
)
DOUBLE = Kernel(
    "twice",
    (In("x", n="N"), Out("y", n="N"), Int("N")),
    launch=lambda d, t: Launch(ceil_div(d["N"], t.get("THREADS", 32)), 32),
    reference=lambda a, d: 2 * a["x"],
)
SQUARE = Kernel(
    "square",
    (In("x", n="N"), Out("z", n="N"), Int("N")),
    lambda d, t: Launch(1, 32),
    lambda a, d: a["x"] ** 2,
)
ONCE = Mistake("not doubled", ("2 * x", "x"), says="This is x itself.", hint=2, kernel="twice")


def make_puzzle(tmp_path, kernels=(DOUBLE,), **changes):
    fields = {"title": "t", "part": 1, "teaches": "x", "hints": ("a", "b"), "lines": 4, "cases": CASES}
    fields |= {"mistakes": (ONCE,) if DOUBLE in kernels else ()}
    puzzle = Puzzle(kernels=kernels, id="01_a", root=tmp_path, **fields | changes)
    puzzle.folder.mkdir(parents=True)
    (puzzle.root / "solutions" / puzzle.id).mkdir(parents=True)
    stub = "// TODO(1): double x\n" + stub_of(puzzle)
    puzzle.solution_path.write_text(stub + "// BEGIN SOLUTION\n// END SOLUTION\n")
    puzzle.stub_path.write_text("// mine\n" + stub)
    return puzzle


@pytest.fixture
def puzzle(tmp_path):
    return make_puzzle(tmp_path)


def twice(a, device):
    a["y"][:] = 2 * a["x"]


def square(a, device):
    a["z"][:] = a["x"] ** 2


def grade(puzzle, twice=twice, square=square, options=Options(seed=0), **opener):
    options = replace(options, foresee=lambda mistake, seen: {"y": seen.arrays["x"]})
    return grade_file(
        puzzle, puzzle.stub_path, options, fake_opener({"twice": twice, "square": square}, puzzle, **opener)
    )


def test_a_right_kernel_passes_every_case(puzzle):
    verdict = grade(puzzle)
    assert (verdict.status, verdict.exit_status, verdict.kind) == ("passed", 0, "")
    names = ["tiny", "small_values", "large_values", "exact", "large", "great_N"]
    assert sorted(c.name for c in verdict.cases) == sorted(names)
    assert {c.status for c in verdict.cases} == {"passed"}
    assert verdict.file == "puzzles/01_a/kernel.cu" and verdict.device == "fake cpu"


def test_both_builds_run_and_each_is_compiled_once(puzzle):
    opened = []
    grade(puzzle, opened=opened)
    assert [d.checks for d in opened] == ["full", "memory"]
    assert [d.compiled for d in opened] == [1, 1] and all(d.closed for d in opened)
    assert [d.launches for d in opened] == [3, 6 + 3]  # the derived cases run once


def test_what_is_wrong_in_the_first_build_is_not_compiled_again(puzzle):
    opened = []
    verdict = grade(puzzle, lambda a, device: np.copyto(a["y"], a["x"]), opened=opened)
    assert verdict.kind == "wrong" and [c.status for c in verdict.cases] == ["failed"] * 3
    assert [d.compiled for d in opened] == [1, 0]
    assert [d.launches for d in opened] == [6, 0]  # each case under two schedules


def test_quick_code_that_takes_long_is_optimised_and_gets_its_time(puzzle):
    limits = []

    def slow(a, device):
        limits.append(device.time_limit)
        if device.module.quick:
            raise KernelFault("timeout", "the launch timed out", "It takes long.", "kernel.cu", 3)
        twice(a, device)

    def opener(kind, **options):
        device = fake_opener({"twice": slow}, puzzle)(kind, **options)
        real = device.compile

        def compile(*args, **options):
            device.module = real(*args, **options)
            device.module.quick = True
            device.module.optimise = lambda: setattr(device.module, "quick", False)
            return device.module

        device.compile = compile
        return device

    assert grade_file(puzzle, puzzle.stub_path, Options(), opener).passed
    assert limits[:3] == [0.5, 3.0, 3.0]


def test_the_smallest_failing_case_is_explained_and_all_run(puzzle):
    verdict = grade(
        puzzle,
        lambda a, device: a["y"].__setitem__(slice(None), 2 * a["x"] + (len(a["x"]) > 3) * a["x"] ** 2),
    )
    assert (verdict.case, verdict.case_number, verdict.case_total) == ("exact", 2, 3)
    assert [c.status for c in verdict.cases] == ["passed", "failed", "failed"]
    assert verdict.lines[0].startswith("y[n=0] = ")


def test_a_mistake_is_named_with_its_hint(puzzle):
    verdict = grade(puzzle, lambda a, device: np.copyto(a["y"], a["x"]))
    assert (verdict.kind, verdict.mistake, verdict.hint) == ("wrong", "not doubled", 2)
    assert verdict.lines == ["y[n=0] = 1, expected 2   (3 of 3 elements differ)", "This is x itself."]
    assert verdict.next == "backwarp hint 01 2" and verdict.diagnosis == "not doubled"


def test_the_pattern_is_said_where_no_name_fits(puzzle):
    def last_missing(a, device):
        a["y"][:] = 2 * a["x"]
        a["y"][-1] = 7

    assert grade(puzzle, last_missing).lines[1] == "Wrong: exactly the elements with n=2 (the last)."


def test_elements_that_nothing_wrote_are_called_so(puzzle):
    verdict = grade(puzzle, lambda a, device: a["y"].__setitem__(slice(0, 2), 2 * a["x"][:2]))
    assert verdict.kind == "unwritten"
    assert verdict.lines == [
        "y[n=2] was never written   (1 of 3 elements: exactly the elements with n=2 (the last))"
    ]
    puzzle.stub_path.write_text(
        puzzle.stub_path.read_text().replace("{}", "{\n  if (threadIdx.x > N + blockIdx.x) y[0] = 1;\n}")
    )
    assert grade(puzzle, lambda a, device: None).lines == [
        "y[n=0] was never written   (3 of 3 elements)",
        "No thread reached a store to it: does an `if`, a `return` or an empty loop keep them all away?",
    ]


def test_a_kernel_that_is_still_the_stub_is_called_empty(puzzle):
    assert grade(puzzle, lambda a, device: None).lines[1] == "twice is still empty: line 3."


def test_nan_that_was_computed_is_wrong(puzzle):
    verdict = grade(puzzle, lambda a, device: a["y"].fill(-np.nan))
    assert verdict.kind == "wrong" and "nan" in verdict.lines[0]


def test_a_changed_input_is_found(puzzle):
    def spoil(a, device):
        twice(a, device)
        a["x"][1] = -1

    verdict = grade(puzzle, spoil)
    assert verdict.kind == "input-changed"
    assert verdict.lines[0] == "The kernel changed its input: x[n=1] was 2 and is -1 now."


def test_an_array_updated_in_place_may_change(tmp_path):
    add = Kernel("add", (InOut("x", n="N"), Int("N")), lambda d, t: Launch(1, 32), lambda a, d: a["x"] + 1)
    puzzle = make_puzzle(tmp_path, (add,), cases=CASES[:1])
    right = {"add": lambda a, device: a["x"].__setitem__(slice(None), a["x"] + 1)}
    assert grade_file(puzzle, puzzle.stub_path, Options(), fake_opener(right, puzzle)).passed
    idle = {"add": lambda a, device: None}
    assert grade_file(puzzle, puzzle.stub_path, Options(), fake_opener(idle, puzzle)).kind == "unwritten"
    zeros = (Case("zeros", {"N": 4}, inputs={"x": [0, 0, 0, 0]}),)
    puzzle = replace(puzzle, cases=zeros)
    half = {"add": lambda a, device: a["x"].__setitem__(slice(0, 4, 2), 1)}
    verdict = grade_file(puzzle, puzzle.stub_path, Options(), fake_opener(half, puzzle))
    assert verdict.lines[0] == "x[n=1] = 0, expected 1   (2 of 4 elements differ)", (
        "a 0 may have been computed"
    )
    assert grade_file(puzzle, puzzle.stub_path, Options(), fake_opener(idle, puzzle)).kind == "unwritten"


def test_damaged_guard_bands_are_found(puzzle):
    def overrun(a, device):
        twice(a, device)
        device.handles["y"].damage = "a guard band of y was written to"

    verdict = grade(puzzle, overrun)
    assert (verdict.kind, verdict.lines) == ("fault", ["a guard band of y was written to"])


@pytest.mark.parametrize("bad_value", [np.nan, 1e9])
def test_a_result_that_depends_on_the_schedule_fails(puzzle, bad_value):
    def unlucky(a, device):
        a["y"][:] = bad_value if device.checks == "memory" and device.schedule == 2 else 2 * a["x"]

    verdict = grade(puzzle, unlucky)
    assert verdict.kind == "schedule" and not verdict.mistake
    assert "order in which warps" in verdict.lines[-1]


def test_what_the_text_says_stands_beside_results_that_differ(puzzle):
    body = "{\n  int i = blockIdx.x * 48 + threadIdx.x; y[i] = i < N;\n}"
    puzzle.stub_path.write_text(puzzle.stub_path.read_text().replace("{}", body))
    found = grade(puzzle, lambda a, device: a["y"].__setitem__(slice(None), device.schedule)).findings
    assert [f.kind for f in found] == ["schedule", "blocks_of_another_size"]


def test_wrong_in_two_ways_is_reported_as_schedule_too(puzzle):
    def unlucky(a, device):
        a["y"][:] = device.schedule

    assert grade(puzzle, unlucky).kind == "schedule"


def test_a_build_that_differs_is_undefined_behaviour(puzzle):
    def undefined(a, device):
        a["y"][:] = 2 * a["x"] if device.checks == "full" else 0

    verdict = grade(puzzle, undefined)
    assert verdict.kind == "schedule" and "leaves undefined" in verdict.lines[-1]


def test_rounding_that_differs_between_schedules_is_fine(puzzle):
    def rounded(a, device):
        a["y"][:] = 2 * a["x"]
        if len(a["x"]) != 8:  # not in the case of integers
            a["y"][:] *= np.float32(1 + 1e-6 * device.schedule)

    assert grade(puzzle, rounded).passed


def test_rounding_in_a_sum_that_should_be_0_is_no_schedule(tmp_path):
    def rounded(a, device):
        a["y"][:] = 1 + 1e-6 * device.schedule

    zero = make_puzzle(tmp_path, cases=(Case("zero", {"N": 3}, inputs={"x": [0, 0, 0]}),))
    assert grade(zero, rounded).kind == "wrong"


def fault(kind, **more):
    def kernel(a, device):
        where: Coordinates = (3, 0, 0)
        raise KernelFault(
            kind,
            "Invalid __global__ read of size 4 bytes",
            "It reads outside.",
            "kernel.cu",
            3,
            where,
            where,
            **more,
        )

    return kernel


def test_a_fault_has_its_line_and_the_other_cases_run(puzzle):
    verdict = grade(puzzle, fault("out-of-bounds", array="x", index="n=3", shape="[n=3]"))
    assert (verdict.kind, verdict.diagnosis, verdict.fault["line"]) == ("fault", "out-of-bounds", 3)
    assert (
        verdict.lines[0]
        == "Invalid __global__ read of size 4 bytes at kernel.cu:3 by thread (3,0,0) of block (3,0,0)"
    )
    assert verdict.lines[1].startswith("    3 | __global__ void twice")
    assert "x[n=3]" in " ".join(verdict.lines) and [c.status for c in verdict.cases] == ["failed"] * 3


def test_beside_a_fault_stands_what_the_completed_cases_show(puzzle):
    def strays(a, device):
        if a["x"].size == 3:
            fault("out-of-bounds")(a, device)
        a["y"][:] = a["x"]

    verdict = grade(puzzle, strays)
    assert (verdict.kind, verdict.diagnosis, verdict.case) == ("fault", "out-of-bounds", "tiny")
    assert verdict.lines[-1] == "In case exact, y gets 0.5 times as much of x as it should."


@pytest.mark.parametrize(
    ("first", "later", "shown"),
    [("warning", "error", "exact"), ("warning", "warning", "tiny"), ("error", "error", "tiny")],
)
def test_a_race_between_warps_is_shown_before_one_inside_a_warp(puzzle, first, later, shown):
    """What is said of the smaller block, a __syncwarp(), is not enough for the larger."""

    def races(a, device):
        fault("race", severity=first if a["x"].size == 3 else later)(a, device)

    assert grade(puzzle, races).case == shown


def test_a_kernel_that_never_ends_is_run_once(puzzle):
    opened = []
    verdict = grade(puzzle, fault("timeout"), opened=opened)
    assert sum(d.launches for d in opened) == 1
    assert [c.status for c in verdict.cases] == ["failed", "skipped", "skipped"]
    assert verdict.lines[-1] == "The other cases were not run."


def test_a_launch_that_cuda_refuses(puzzle):
    def refuse(a, device):
        raise LaunchError("2048 threads per block are more than 1024.", "cudaErrorInvalidConfiguration")

    verdict = grade(puzzle, refuse)
    assert verdict.kind == "launch"
    assert verdict.lines == [
        "twice cannot be launched: cudaErrorInvalidConfiguration",
        "2048 threads per block are more than 1024.",
    ]


def test_a_tunable_that_no_launch_can_be_computed_with(puzzle):
    puzzle.stub_path.write_text("constexpr int THREADS = 0;\n" + puzzle.stub_path.read_text())
    verdict = grade(puzzle)
    assert verdict.kind == "tunable" and "THREADS = 0" in verdict.lines[0]


def test_a_syntax_error_shows_the_line(puzzle):
    puzzle.stub_path.write_text("int syntax error")
    verdict = grade(puzzle)
    assert verdict.kind == "compile" and verdict.diagnostics[0]["line"] == 1
    assert verdict.lines == ['kernel.cu:1: error: expected a ";"', "    1 | int syntax error", "      |    ^"]


def test_a_missing_kernel_names_what_is_there(puzzle):
    puzzle.stub_path.write_text("__global__ void twise(int n) {}")
    verdict = grade(puzzle)
    assert verdict.kind == "missing-kernel"
    assert "defines twise" in verdict.lines[0] and "Rename twise to twice" in verdict.lines[1]
    puzzle.stub_path.write_text("int x;")
    assert "no __global__ function" in grade(puzzle).lines[0]


def test_wrong_parameters_show_the_signature(puzzle):
    for params, says in (
        ((8, 4, 4), "Parameter 2 of twice has 4 bytes"),
        ((8, 8), "2 parameters instead of 3"),
    ):

        def opener(kind, params=params, **options):
            device = fake_opener({"twice": twice}, puzzle)(kind, **options)
            real = device.function

            def function(*args):
                kernel = real(*args)
                kernel.params = params
                return kernel

            device.function = function
            return device

        verdict = grade_file(puzzle, puzzle.stub_path, Options(), opener)
        assert verdict.kind == "signature" and says in verdict.lines[0]
        assert "twice(const float* x, float* y, int N)" in verdict.lines[1]


def test_the_untouched_stub_says_what_to_do_first(puzzle):
    puzzle.stub_path.write_text(puzzle.stub_path.read_text().replace("// mine", "  \n"))
    verdict = grade(puzzle)
    assert (verdict.kind, verdict.exit_status) == ("untouched", 1)
    told = " ".join(verdict.lines)
    for part in (
        "puzzles/01_a/kernel.cu",
        "line 3",
        "TODO(1): double x",
        "puzzles/01_a/README.md",
        "4 lines",
        "hint 01",
    ):
        assert part in told


def test_another_encoding_is_named(puzzle):
    puzzle.stub_path.write_bytes(b"\xff\xfei\x00")
    verdict = grade(puzzle)
    assert (verdict.kind, verdict.exit_status, verdict.next) == ("encoding", 2, "backwarp grade 01")
    assert "UTF-16" in verdict.lines[0]


@pytest.mark.parametrize("data", [None, b""])
def test_a_file_that_cannot_be_read_is_a_verdict(puzzle, data):
    puzzle.stub_path.unlink()
    if data is not None:
        puzzle.stub_path.write_bytes(data)
    verdict = grade(puzzle)
    assert (verdict.kind, verdict.exit_status, verdict.next) == ("source", 1, "backwarp reset 01")


def test_two_kernels_are_both_graded(tmp_path):
    puzzle = make_puzzle(tmp_path, (DOUBLE, SQUARE))
    assert grade(puzzle).passed
    verdict = grade(puzzle, square=lambda a, device: a["z"].fill(1))
    assert verdict.kernel == "square" and verdict.lines[0].startswith("z[n=1] = 1, expected 4")
    assert [c.status for c in verdict.cases if c.kernel == "twice"] == ["passed"] * 3


def test_printf_output_of_the_failing_case_is_kept(puzzle):
    assert grade(puzzle, lambda a, device: twice(a, device) or "hello\n").stdout == "hello\n"
    assert grade(puzzle, lambda a, device: f"N={len(a['x'])}\n").stdout == "N=3\n"


def test_no_device_is_an_error_of_the_machine(puzzle):
    def nothing(*args, **options):
        raise DeviceError("There is no GPU.")

    verdict = grade_file(puzzle, puzzle.stub_path, Options("gpu"), nothing)
    assert (verdict.status, verdict.exit_status, verdict.lines) == ("error", 2, ["There is no GPU."])


def test_the_gpu_needs_no_second_build(puzzle):
    opened = []
    assert grade(puzzle, kinds=("gpu",), opened=opened).passed
    assert [(d.kind, d.launches) for d in opened] == [("gpu", 6 + 3)]


def test_what_fails_on_the_gpu_is_explained_by_the_virtual_gpu(puzzle):
    def kernel(a, device):
        if device.kind == "gpu":
            raise KernelFault("invalid-address", "cudaErrorIllegalAddress", "Somewhere.")
        fault("out-of-bounds")(a, device)

    verdict = grade(puzzle, kernel, kinds=("gpu",))
    assert (verdict.diagnosis, verdict.device) == ("out-of-bounds", "fake gpu")
    assert "Failed on fake gpu: cudaErrorIllegalAddress" in verdict.notes[-1]


def test_what_fails_on_the_gpu_only_stays_failed(puzzle):
    def kernel(a, device):
        a["y"][:] = 2 * a["x"] + (device.kind == "gpu")

    verdict = grade(puzzle, kernel, kinds=("gpu",))
    assert (verdict.status, verdict.kind) == ("failed", "wrong") and "on the GPU only" in verdict.notes[-1]


def test_a_gpu_whose_launches_disagree(puzzle):
    def kernel(a, device):
        a["y"][:] = 2 * a["x"] + (device.kind == "gpu" and device.schedule == 2)

    verdict = grade(puzzle, kernel, kinds=("gpu",))
    assert verdict.kind == "schedule" and "Two launches" in verdict.lines[-1]


def test_the_seed_is_that_of_the_text_or_the_one_given(tmp_path):
    cases = (*CASES, Case("own", draw=lambda pick: {"N": pick(50, 5000)}))
    puzzle, seen = make_puzzle(tmp_path, cases=cases), {}

    def graded(**options):
        runs = []
        verdict = grade(puzzle, lambda a, device: runs.append(a["x"].copy()), options=Options(**options))
        seen[verdict.seed] = {c.name: c.dims["N"] for c in verdict.cases}, {x.size: x for x in reversed(runs)}
        return verdict.seed

    first, text = graded(), puzzle.stub_path.read_text()
    again, given = graded(), graded(seed=first)
    assert first == again == given and len(seen) == 1
    puzzle.stub_path.write_text(text + "// another text\n")
    sizes, inputs = zip(*(seen[seed] for seed in (first, graded(), graded(seed=1))))
    assert len(seen) == 3 and len({s["own"] for s in sizes}) == 3
    for x, y in zip(inputs, inputs[1:]):
        assert (x[3] == y[3]).all() and not (x[40] == y[40]).any(), "given values stay, others are drawn"


def test_a_verdict_survives_pickle_and_json(puzzle):
    for kernel in (twice, fault("race"), lambda a, device: a["y"].fill(np.nan)):
        verdict = grade(puzzle, kernel)
        assert pickle.loads(pickle.dumps(verdict)) == verdict or kernel is not twice
        document = json.loads(dumps([verdict]))
        assert document["passed"] == verdict.passed and document["verdicts"][0]["puzzle"] == "01_a"


def test_a_kernel_that_prints_all_the_time_is_stopped(puzzle):
    def talkative(a, device):
        twice(a, device)
        device.dropped = 5000
        return "line\n" * 1000

    verdict = grade(puzzle, talkative, options=Options(seed=0, patience=-1.0))
    assert (verdict.status, verdict.kind) == ("failed", "printing")
    assert "6,000 lines" in verdict.lines[0] and [c.status for c in verdict.cases].count("skipped") == 2


def test_after_a_failure_the_other_cases_get_little_time(puzzle):
    verdict = grade(puzzle, lambda a, device: a["y"].fill(1), options=Options(seed=0, patience=-1.0))
    assert (
        verdict.case == "tiny"
        and verdict.kind == "wrong"
        and verdict.lines[-1] == "The other cases were not run."
    )


def test_a_device_that_fails_while_compiling_is_an_error_of_the_machine(puzzle):
    def opener(kind, **options):
        device = fake_opener({"twice": twice}, puzzle)(kind, **options)

        def compile(*args, **options):
            raise DeviceError("NVIDIA's compiler cannot be loaded.")

        device.compile = compile
        return device

    verdict = grade_file(puzzle, puzzle.stub_path, Options(), opener)
    assert (verdict.exit_status, verdict.kind, verdict.next) == (2, "device", "backwarp doctor")


def test_what_only_great_sizes_break_is_told_by_them(tmp_path):
    great = Case("great", {"N": 300}, stress=True, note="more elements than a byte can count")
    puzzle = make_puzzle(tmp_path, cases=(*CASES, great))
    byte = lambda a, device: np.copyto(a["y"], 2 * a["x"][np.arange(a["x"].size) % 256])  # noqa: E731
    verdict = grade(puzzle, byte)
    assert verdict.case == "great" and "has more elements than a byte can count: does" in verdict.lines[-1]
    assert grade(puzzle, lambda a, device: np.copyto(a["y"], a["x"])).mistake == "not doubled"
