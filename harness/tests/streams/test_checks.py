"""Puzzle 44: what is accepted, what is reported with which lines, and what a file may do.

That the solution passes and the mistakes fail is checked in maintain/test_check.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import replace

import pytest

from backwarp.course.stubs import stub_text
from backwarp.devices.child import Damaged
from backwarp.errors import CourseError
from backwarp.grading.programs.grade import judged
from backwarp.grading.programs.program import Program
from backwarp.grading.verdict import Verdict
from backwarp.lenet.checks import this_course
from backwarp.report.pictures.kinds import save_picture
from backwarp.streams import machine
from backwarp.streams.checks import inputs, machine_for
from tests.devices.virtual.launches import device

PUZZLE = this_course().load("44")
SOLUTION = PUZZLE.solution_path.read_text(encoding="utf-8")
BEFORE = SOLUTION[: SOLUTION.index("    copy_in, compute")]
CONV2 = next(c for c in PUZZLE.cases if c.name == "lenet_conv2")
LOOP = "    for i, start"


@pytest.fixture(scope="module")
def program():
    PUZZLE.program.prepare(device("memory"))
    with Program(PUZZLE.program.requests, PUZZLE.program.driver) as made:
        yield made


@pytest.fixture
def verdict(program):
    """On the solution with texts replaced, or on a body of backward. cases: how many are run."""

    def grade(*edits, body="", cases=4, timed=False):
        source = BEFORE + textwrap.indent(textwrap.dedent(body), "    ") if body else SOLUTION
        for old, new in edits:
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        chosen = (
            [replace(CONV2, dims=CONV2.dims | dict(batch=26, chunk=3, C_in=2, H=5, W=5, C_out=2, F=2))]
            if timed
            else PUZZLE.cases[:cases]
        )
        puzzle, seed = replace(PUZZLE, cases=tuple(chosen)), 0
        return judged(
            puzzle, program, source, PUZZLE.file, device("memory"), seed, Verdict(PUZZLE.id, PUZZLE.file)
        )

    return grade


def lines_shown(verdict) -> list[str]:
    return [line.split("|", 1)[1].strip() for line in verdict.lines if re.match(r" +\d+ \|", line)]


def test_the_stub_says_what_to_do():
    stub = stub_text(PUZZLE)
    assert [int(n) for n in re.findall(r"# TODO\((\d+)\):", stub)] == [1, 2, 3, 4]
    assert f"You will write about {PUZZLE.lines} lines" in stub
    ast.parse(stub)


A_STREAM_FOR_EACH = """
streams = [cp.cuda.Stream({how}) for _ in range({count})]
added = cp.cuda.Event()
with streams[0]:
    w, total = cp.asarray(weights), cp.zeros(weights.shape, cp.float32)
    added.record()
for i, start in enumerate(range(0, len(images), chunk)):
    stop = min(start + chunk, len(images))
    n = stop - start
    with streams[i % {count}] as stream:
        if i < {count}:
            stream.wait_event(added)
            arrays = [cp.empty((chunk, *a.shape[1:]), cp.float32) for a in (images, grad_output, images)]
            places = [*(places if i else []), (*arrays, cp.empty_like(w))]
        x, grad, grad_x, part = places[i % {count}]
        x[:n].set(images[start:stop])
        grad[:n].set(grad_output[start:stop])
        launch("conv2d_backward_weights", grad[:n], x[:n], part)
        {wait}
        total += part
        added = stream.record()
        launch("conv2d_backward_input", grad[:n], w, grad_x[:n])
        grad_x[:n].get(out=grad_images[start:stop], blocking=False)
streams[0].wait_event(added)
total.get(stream=streams[0], out=grad_weights)
cp.cuda.Device().synchronize()
"""


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("how", ["", "non_blocking=True"])
def test_a_stream_for_each_place_is_accepted(verdict, count, how):
    body = A_STREAM_FOR_EACH.format(count=count, how=how, wait="stream.wait_event(added)")
    assert verdict(body=body, timed=count == 2).passed


def test_sums_of_two_streams_without_an_event_race(verdict):
    found = verdict(body=A_STREAM_FOR_EACH.format(count=2, how="non_blocking=True", wait="pass"))
    assert found.kind == "race" and lines_shown(found) == ["total += part"]
    assert "streams[1]" in found.lines[1] and "In the order of this run, grad_weights" in " ".join(
        found.lines
    )


@pytest.mark.parametrize(
    "edits",
    [
        [("range(2)] for _ in range(3)", "range(3)] for _ in range(3)"), ("i % 2", "i % 3")]
        + [
            (
                f"{a} = [cp.empty((chunk, *{b}.shape[1:]), cp.float32) for _ in range(2)]",
                f"{a} = [cp.empty((chunk, *{b}.shape[1:]), cp.float32) for _ in range(3)]",
            )
            for a, b in (("    x", "images"), ("    grad", "grad_output"), ("grad_x", "images"))
        ],
        [("        compute.wait_event(filled[p])\n", "        filled[p].synchronize()\n")],
        [("non_blocking=True", "")],
        [(LOOP, "    chunk = max(1, chunk // 2)\n" + LOOP)],
        [("            total += part\n", "            total[:] += part[:]\n")],
    ],
    ids=["three arrays", "the host waits for the copies", "blocking streams", "smaller chunks", "parts"],
)
def test_other_right_programs_are_accepted(verdict, edits):
    assert verdict(*edits).passed


STAGED = """    import cupyx
    stage = [cupyx.empty_pinned((chunk, *images.shape[1:]), cp.float32) for _ in range(2)]
"""
INTO = "        {wait}stage[p][:n] = images[start:stop]\n        x[p][:n].set(stage[p][:n], stream=copy_in)\n"
COPY = "        x[p][:n].set(images[start:stop], stream=copy_in)\n"


def test_pinned_memory_of_its_own_is_used_again_only_after_its_copy(verdict):
    waits = INTO.format(wait="filled[p].synchronize(); ")
    assert verdict((LOOP, STAGED + LOOP), (COPY, waits)).passed
    found = verdict((LOOP, STAGED + LOOP), (COPY, INTO.format(wait="")))
    assert found.kind == "race" and "stores to" in found.lines[0]
    assert lines_shown(found) == [line.strip() for line in reversed(INTO.format(wait="").splitlines())]


@pytest.mark.parametrize(
    ("use", "stores"),
    [
        ("grad_weights[0, 0, 0, 0]", False),
        ("grad_weights.sum()", False),
        ("float(np.linalg.norm(grad_weights))", False),
        ("grad_weights + 1", False),
        ("grad_weights.fill(0)", True),
        ("grad_weights.__imul__(2)", True),
        ("np.copyto(grad_weights, 0)", True),
        ("grad_weights.__setitem__(0, 0)", True),
        ("grad_weights.tolist()", False),
        (
            "np.asarray(grad_weights)[0]",
            None,
        ),  # NumPy's own view: not seen, and the result is not changed by it
    ],
)
def test_what_the_host_does_before_it_has_waited_is_seen(verdict, use, stores):
    waits = "    compute.synchronize()\n"
    found = verdict((waits, f"    import numpy as np; {use}\n{waits}"), cases=1)
    assert found.passed if stores is None else ("stores to" if stores else "reads") in found.lines[0]
    after = verdict((waits, f"{waits}    import numpy as np; {use}\n"), cases=1)
    assert after.passed  # what counts is what the copies have brought


@pytest.mark.parametrize("store", ["np.asarray(images)[start] = 0", "np.asarray(stage[p])[...] = 0"])
def test_what_goes_around_pinned_memory_is_seen_when_the_copy_has_ended(verdict, store):
    into = INTO.format(wait="filled[p].synchronize(); ")
    found = verdict(
        (LOOP, "    import numpy as np\n" + STAGED + LOOP),
        (COPY, into + COPY),
        ("        filled[p].record(copy_in)\n", f"        {store}\n        filled[p].record(copy_in)\n"),
    )
    assert found.kind == "race" and "stores to" in found.lines[0]


def test_a_sum_may_be_a_new_array(verdict):
    assert verdict(("            total += part\n", "            total = total + part\n")).passed


def test_memory_given_back_is_given_out_again_in_its_stream_alone(verdict):
    """As by CuPy's pool: an array made anew for each chunk has the memory of the last one."""
    anew = "            x[p] = None\n            x[p] = cp.empty((chunk, *images.shape[1:]), cp.float32)\n"
    found = verdict((COPY, "        with copy_in:\n" + anew + COPY))
    assert found.passed
    waits = "        copy_in.wait_event(used[p])\n"
    found = verdict((COPY, "        with copy_in:\n" + anew + COPY), (waits, ""))
    assert found.kind == "race"


def test_the_time_that_is_too_long_has_its_reason(verdict):
    host = verdict(
        (
            "        copied[p].record(copy_out)\n",
            "        copied[p].record(copy_out)\n        copy_out.synchronize()\n",
        ),
        cases=5,
    )
    assert host.kind == "slow" and lines_shown(host) == ["copy_out.synchronize()"]
    stream = verdict(("    with compute:  #", "    copy_out = copy_in\n    with compute:  #"), timed=True)
    assert stream.kind == "slow" and "both are in copy_in" in stream.lines[1]
    places = verdict(("p, stop = i % 2", "p, stop = 0"), timed=True)
    assert places.kind == "slow" and "two arrays can take turns" in places.lines[1]
    waits = "        copy_in.wait_event(used[p])\n"
    event = verdict((waits, waits + "        copy_in.wait_event(used[1 - p])\n"), timed=True)
    assert event.kind == "slow" and lines_shown(event) == ["copy_in.wait_event(used[1 - p])"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("open('/etc/passwd')", "PermissionError"),
        ("cp.cuda.Graph", "cupy.cuda has no Graph here"),
        ("cp.einsum", "cupy has no einsum here"),
        ("copy_in.begin_capture()", "a stream here has no begin_capture"),
        ("cp.zeros(3)", "float32 or int32, not float64"),
        ("cp.empty(1 << 40, cp.float32)", "more do not fit"),
        ("cp.empty((3, 0), cp.float32)", "has no elements"),
        ("w[9].fill(0)", "IndexError: index 9 is out of bounds"),
        ("w.set(images)", "cannot be set to"),
        ("w.get(out=images, stream=compute)", "out is float32"),
        ("w.get(out=weights, stream=compute)", "weights is an input"),
        ("launch('conv2d_backward_input', w, w)", "takes 3 arrays"),
        ("launch('conv2d_backward_input', weights, w, w)", "not an array on the device"),
        ("launch('relu_forward', w, w)", "there is no kernel"),
        ("import numpy as np; np.add(w, 1)", "TypeError"),
        ("cp.cuda.get_elapsed_time(filled[0], used[0])", None),
        ("[cp.cuda.Event() for _ in range(99)]", "more than 50 events"),
        ("[w.fill(0) for _ in range(99)]", "more than 50 operations"),
        ("[copy_in.wait_event(filled[0]) for _ in range(99)]", None),
        ("w.reshape(-1).reshape(weights.shape)[0][0].set(weights[0][0])", None),
        ("cp.asnumpy(w, stream=compute)", None),
        ("w[:, 0]", "takes an index, or a slice"),
        ("copy_in.done and filled[0].done and cp.cuda.get_current_stream().synchronize()", None),
    ],
)
def test_what_is_not_there_or_not_allowed_is_said(verdict, line, says, monkeypatch):
    monkeypatch.setattr(machine, "MOST", 50)
    found = verdict((LOOP, f"    with compute:\n        {line}\n{LOOP}"), cases=1)
    assert found.passed if says is None else says in " ".join(found.lines)


ARRAY = [0, 0, [4], "float32", ""]


@pytest.mark.parametrize(
    ("verb", "sent"),
    [
        ("issue", (1, 0, "", "set", [ARRAY], None, False)),
        ("issue", (1, 0, "", "get", [[0, 1 << 40, [4], "float32", ""]], None, True)),
        ("issue", (1, 0, "", "fill", [[0, 0, [-4], "float32", ""]], 0.0, False)),
        ("issue", (1, 0, "", "fill", [[0, 2, [4], "float32", ""]], 0.0, False)),
        ("issue", (1, 0, "", "fill", [[0, 0, [4], "object", ""]], 0.0, False)),
        ("issue", (1, 0, "", "fill", [], 0.0, False)),
        ("issue", (1, 99, "", "fill", [ARRAY], 0.0, False)),
        ("issue", (1, 0, "", "set", [ARRAY], ["images", -16], False)),
        ("issue", (1, 0, "", "set", [ARRAY], ["images", 1 << 20], False)),
        ("issue", (1, 0, "", "set", [ARRAY], ["secret", 0], False)),
        ("issue", (1, 0, "", "copy", [ARRAY], None, False)),
        ("issue", ("x", 0, "", "fill", [ARRAY], 0.0, False)),
        ("free", (99,)),
        ("wait", (1, "stream", True)),
        ("wait", (1, "event", 0.5)),
        ("wait", (1, "world", 0)),
        ("record", (0, -1)),
        ("allocate", (1, "", -1, 0)),
        ("host", (1, "x", 10**30, True)),
    ],
)
def test_what_no_driver_sends_is_refused(verb, sent):
    case = PUZZLE.cases[0]
    made = machine_for(device("memory"), case.dims, inputs(case, 0))
    assert machine.REQUESTS["allocate"](made, 1, "", 16, 0) == 0
    with pytest.raises(Damaged):
        machine.REQUESTS[verb](made, *sent)


def test_what_no_driver_sends_ends_the_process(verdict):
    found = verdict(
        (LOOP, "    import backwarp.streams.driver as d; d.session.send('free', -1)\n" + LOOP), cases=1
    )
    assert "sent what no net sends" in found.lines[0]


def test_results_that_no_kernel_has_computed_do_not_count(verdict):
    fill = '            launch("conv2d_backward_input", grad[p][:n], w, grad_x[p][:n])\n'
    found = verdict((fill, "            grad_x[p][:n] = 0\n"))
    assert found.kind in ("launch", "wrong") and "a fill" in " ".join(found.lines)


def test_a_picture_shows_engines_and_chunks(tmp_path):
    assert save_picture(PUZZLE, PUZZLE.solution_path, tmp_path / "x.png") == "streams"
    assert b"in streams: 14.0 us" in (tmp_path / "x.png").read_bytes()  # as by hand in the lesson


def test_a_program_that_does_not_run_has_no_picture(tmp_path):
    path = tmp_path / "streams.py"
    path.write_text(SOLUTION.replace("range(2)]\n", "range(2)\n", 1))
    with pytest.raises(CourseError, match="must run to be drawn"):
        save_picture(PUZZLE, path, tmp_path / "x.png")
