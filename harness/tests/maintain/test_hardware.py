"""The run of everything that needs a GPU, on stand-ins: CuPy's kernels run on the virtual GPU, NVIDIA's tools report
what a program tells of itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from backwarp.devices.nvrtc import library
from backwarp.errors import CourseError, DeviceError
from backwarp.maintain.check_mutants import wrong_ones
from backwarp.maintain.hardware import __main__ as program
from backwarp.maintain.hardware import agreement, guarded, layers, machine, page, steps, tools, work
from backwarp.maintain.hardware.collect import collect
from backwarp.maintain.hardware.journal import Journal
from backwarp.measure import ladder
from tests import SOURCES

FAKES = Path(__file__).parents[1] / "fakes"
STAND_INS = [FAKES / "running_cupy", FAKES / "fake_torch", SOURCES]


@pytest.fixture
def stand_ins(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, STAND_INS)))
    monkeypatch.setenv("PATH", f"{FAKES / 'cuda_tools'}{os.pathsep}{os.environ['PATH']}")


# ---- the journal and its calls -----------------------------------------------------------------------------


def test_half_a_line_is_not_a_result(tmp_path):
    Journal(tmp_path).add("grade", "01", "done", results=[])
    with open(tmp_path / "results.jsonl", "a") as file:
        file.write('{"step": "grade", "it')
    journal = Journal(tmp_path)
    journal.add("grade", "02", "failed", reason="why")
    assert list(Journal(tmp_path).latest("grade")) == ["01", "02"] == list(journal.latest("grade"))


def test_a_command_is_ended_with_all_that_it_has_started(tmp_path):
    script = "import subprocess, time; print('begun', flush=True); subprocess.Popen(['sleep', '1000']); time.sleep(1000)"
    finished = guarded.run([sys.executable, "-c", script], 1.0)
    assert finished.status is None and finished.out == "begun\n" and finished.seconds < 20
    assert (
        guarded.run([sys.executable, "-c", "print('x'); raise SystemExit('no room')"], 20).reason
        == "status 1: no room"
    )
    assert guarded.run(["/no/such/program"], 1).status == 127
    command = [sys.executable, "-c", f"open({str(tmp_path / 'report')!r}, 'w').write('found')"]
    assert guarded.run(command, 20, tmp_path / "report").told == "found"


def own_steps(monkeypatch, tmp_path, hangs: float = 1000) -> Path:
    """A step of three items in place of the real ones: one counts its runs, one fails, one hangs."""
    runs = tmp_path / "runs"
    scripts = {
        "good": f"open({str(runs)!r}, 'a').write('x'); print('{{\"n\": 1}}')",
        "bad": "print('{\"n\": 2}'); raise SystemExit('it broke')",
        "slow": f"print('{{\"n\": 3}}', flush=True); import time; time.sleep({hangs})",
    }
    first = 'print(\'{"device": "Stand-in", "missing": []}\')'
    own = steps.Step(
        "own",
        "",
        lambda: list(scripts),
        lambda i, r, j: [sys.executable, "-c", scripts[i]],
        25,
        3,
        steps.results,
    )
    look = steps.Step(
        "machine",
        "",
        lambda: ["machine"],
        lambda i, r, j: [sys.executable, "-c", first],
        20,
        1,
        steps.results,
    )
    monkeypatch.setattr(program, "STEPS", (look, own))
    return runs


def call(out: Path, *options: str):
    return CliRunner().invoke(program.main, ["--out", str(out), *options], catch_exceptions=False)


def test_what_fails_is_written_down_and_nothing_is_done_twice(monkeypatch, tmp_path):
    runs = own_steps(monkeypatch, tmp_path, hangs=0)
    done = call(tmp_path / "out")
    assert done.exit_code == 0 and "own bad: failed, " in done.output and "status 1: it broke" in done.output
    assert "== own (): 3 done, 1 of them failed; 0 left" in done.output
    found = Journal(tmp_path / "out").latest("own")
    assert {name: r["results"] for name, r in found.items()} == {
        "good": [{"n": 1}],
        "bad": [{"n": 2}],
        "slow": [{"n": 3}],
    }
    assert "it broke" in found["bad"]["tail"]
    call(tmp_path / "out")
    assert runs.read_text() == "x" and len(Journal(tmp_path / "out").records) == 5
    call(tmp_path / "out", "--again")
    assert runs.read_text() == "x" and [r["item"] for r in Journal(tmp_path / "out").records[-1:]] == ["bad"]
    broken = replace(program.STEPS[1], command=lambda *_: 1 / 0)
    assert not program.Call(Journal(tmp_path / "broken"), 9, False).go(broken)  # none is left
    assert "ZeroDivisionError" in Journal(tmp_path / "broken").latest("own")["good"]["reason"]
    monkeypatch.setattr(program, "machine_of", lambda journal: {"device": "Another"})
    with pytest.raises(Exception, match="holds the results of Another, and this is Stand-in"):
        program.one_machine(Journal(tmp_path / "out"))


def test_without_a_gpu_nothing_is_begun(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(SOURCES))
    done = call(tmp_path)
    assert done.exit_code == 1 and "CuPy cannot be loaded" in done.output and not Journal(tmp_path).records


def test_what_hangs_is_left_to_the_next_call_once_and_then_written_down(monkeypatch, tmp_path):
    own_steps(monkeypatch, tmp_path)
    monkeypatch.setattr(program, "_SHORT", 0.0)
    done = call(tmp_path / "out", "--minutes", "0.05")
    assert done.exit_code == program.LEFT and "slow" not in Journal(tmp_path / "out").latest("own")
    look, own = program.STEPS
    monkeypatch.setattr(program, "STEPS", (look, replace(own, limit=1.0)))
    done = call(tmp_path / "out")
    slow = Journal(tmp_path / "out").latest("own")["slow"]
    assert done.exit_code == 0 and slow["status"] == "timeout" and slow["results"] == [{"n": 3}]


@pytest.mark.soak
def test_a_call_that_is_killed_goes_on_where_it_was(stand_ins, tmp_path):
    """Real items, in a process that is killed as soon as the first of them is written down."""
    refused = [name for name in machine.metrics() if "surface" in name]
    Journal(tmp_path).add("metrics", "ncu", "done", results=[{"unknown": refused}])
    command = [
        sys.executable,
        "-m",
        "backwarp.maintain.hardware",
        "--out",
        str(tmp_path),
        "--only",
        "counters",
    ]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path)
    for line in first.stdout:
        if line.startswith("counters 01: done"):
            break
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    journal = Journal(tmp_path)
    before = [r["item"] for r in journal.records if r["step"] == "counters"]
    todo = program.Call(journal, 9, False).todo(next(s for s in steps.STEPS if s.name == "counters"))
    assert before and todo and before + todo == steps.puzzles()


# ---- what NVIDIA's tools report ----------------------------------------------------------------------------

HEAD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
ROW = '"7","python3","127.0.0.1","void k<16>(float *, int)","1","7","(256, 1, 1)","(4, 1, 1)","0","9.0",'


UNITS = '"",' * 11


def test_launches_are_read_from_the_raw_page_and_from_others():
    names = '"smsp__inst_executed.sum","launch__x"'
    raw = f'{HEAD}{names}\n{UNITS}"inst","n"\n"0",{ROW}"1,234","2"\n"1",{ROW}"5","n/a"\n'
    found = [
        {"kernel": "k<16>", "smsp__inst_executed.sum": 1234.0, "launch__x": 2.0},
        {"kernel": "k<16>", "smsp__inst_executed.sum": 5.0},
    ]
    assert tools.launches(f"==PROF== Connected to process 7\n{raw}") == found
    details = f'{HEAD}"Section Name","Metric Name","Metric Unit","Metric Value"\n"0",{ROW}"Command line profiler metrics","smsp__inst_executed.sum","inst","1,234"\n'
    assert tools.launches(details) == [{"kernel": "k<16>", "smsp__inst_executed.sum": 1234.0}]
    with pytest.raises(ValueError, match="ERR_NVGPUCTRPERM"):
        tools.launches("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\n")


AT = "=========     at k(float *, int)+0x90 in /tmp/kernel.cu:8\n=========     by thread (1,0,0) in block (0,0,0)\n"


@pytest.mark.parametrize(
    "report, found",
    [
        ("========= ERROR SUMMARY: 0 errors\n", {"errors": 0, "warnings": 0}),
        ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", {"errors": 0, "warnings": 0}),
        (
            f"========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n{AT}========= ERROR SUMMARY: 1 error\n",
            {"errors": 1, "warnings": 0, "first": "Invalid __global__ write of size 4 bytes", "line": "kernel.cu:8", "only_api": False},
        ),
        (
            "========= Error: Race reported between Write access at k(int *)+0x90 in /a/kernel.cu:41\n"
            "=========     and Read access at k(int *)+0x100 in /a/kernel.cu:51 [508 hazards]\n"
            "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n",
            {"errors": 1, "warnings": 0, "line": "kernel.cu:41", "only_api": False},
        ),
        (
            f"========= Barrier error detected. Divergent thread(s) in block.\n{AT}========= ERROR SUMMARY: 31 errors\n"
            "========= ERROR SUMMARY: 11 errors were not printed. Use --print-limit option to adjust the number\n",
            {"errors": 31, "first": "Barrier error detected. Divergent thread(s) in block", "line": "kernel.cu:8"},
        ),
        (
            f"========= Uninitialized __global__ memory read of size 4 bytes\n{AT}========= ERROR SUMMARY: 1 error\n",
            {"errors": 1, "first": "Uninitialized __global__ memory read of size 4 bytes"},
        ),
        (
            '========= Program hit cudaErrorIllegalAddress (error 700) due to "an illegal memory access" on CUDA API call\n'
            "========= ERROR SUMMARY: 1 error\n",
            {"errors": 1, "only_api": True},
        ),
    ],
)  # fmt: skip
def test_findings_of_the_sanitizer(report, found):
    assert found.items() <= tools.findings(report).items()
    assert page.finds(tools.findings(report)) == bool(found["errors"] and not found.get("only_api"))


def test_a_report_without_an_end_is_none():
    with pytest.raises(ValueError, match="Device not supported"):
        tools.findings("========= COMPUTE-SANITIZER\n========= Error: Device not supported\n")


def test_what_pytest_says():
    told = "PASSED a/test_b.py::test_c\nFAILED a/test_b.py::test_d[x] - assert 1 == 2\nSKIPPED [2] a.py:1: no GPU\n"
    found = steps.tested(guarded.Finished(1, told, "", 1.0))
    assert found == {
        "tests": {"test_c": "passed", "test_d[x]": "failed: assert 1 == 2"},
        "skipped": {"a.py:1: no GPU": 2},
    }
    with pytest.raises(ValueError, match="status 4"):
        steps.tested(guarded.Finished(4, "", "usage", 1.0))


# ---- the items ---------------------------------------------------------------------------------------------


def test_every_step_has_items_and_a_command(tmp_path):
    for step in steps.STEPS:
        items = step.items()
        assert len(items) == len(set(items)) > 0
        assert all(isinstance(part, str) for part in step.command(items[-1], "report", Journal(tmp_path)))
    assert set(work.VERBS) < {step.name for step in steps.STEPS}
    assert "devices/gpu/test_device.py" in steps.test_files()
    assert {"memcheck", "racecheck"} <= {item.split("/")[1] for item in steps.zoo()}
    wanted = sum(len(wrong_ones(p, work.MUTANTS)) for p in work.course().puzzles() if not p.program)
    assert work.CHUNK * len(steps.mistakes()) >= wanted


def test_every_layer_has_kernels_of_the_course():
    for item in layers.items():
        name, direction = item.split("/")
        found = layers.kernels(work.course(), name, direction)
        assert found and all("depthwise" not in k.name or name.startswith("depthwise") for _, k in found)
        assert all(
            work.baseline.job_of(
                k, p.full_dims(work.bench.shapes.shape_of(p, layers.LAYERS.get(name, layers.PRODUCT)).case)
            )
            for p, k in found
        )


def test_metrics_that_the_gpu_does_not_have_are_left_out(stand_ins, monkeypatch, tmp_path):
    few = [
        "smsp__inst_executed.sum",
        "smsp__inst_executed_op_surface_ld.sum",
        "smsp__inst_executed_op_surface_st.sum",
    ]
    monkeypatch.setattr(machine, "metrics", lambda: few)
    unknown = machine.unknown()
    assert unknown == few[1:]
    journal = Journal(tmp_path)
    journal.add("metrics", "ncu", "done", results=[{"unknown": unknown}])
    command = steps.profile_command("01", "report", journal)
    assert command[command.index("--metrics") + 1] == few[0]
    assert command[command.index("--clock-control") + 1] == "none"  # the machine is somebody else's


def test_a_machine_without_headers_is_used_for_what_needs_none(stand_ins, monkeypatch):
    monkeypatch.setattr(library, "cuda_headers", lambda: (_ for _ in ()).throw(DeviceError("no headers")))
    found = machine.look()
    assert found["device"] == "Stand-in" and found["headers"] == "no headers"
    assert found["missing"][-1] == "CUDA's headers" and found["nvidia_smi"]["compute_mode"] == "Default"


CHOSEN = {"counters": ["20"], "zoo": ["after_the_last/memcheck"]}
HERE = {
    "metrics": "ncu",
    "grade": "01",
    "mistakes": "01:0",
    "layers": "tiny/data",
    "ceilings": "ceilings",
}


@pytest.mark.soak
def test_a_rehearsal_becomes_a_data_file_and_a_page(stand_ins, monkeypatch, tmp_path):
    """Items of the steps that run NVIDIA's tools, and in this process an item of the others."""
    monkeypatch.setitem(layers.LAYERS, "tiny", "N=2,C=2,H=6,W=6,K=2,R=3,S=3")
    for step, item in HERE.items():
        Journal(tmp_path / "out").add(step, item, "done", results=list(work.VERBS[step](item)))
    few = [replace(s, items=lambda s=s: CHOSEN[s.name]) for s in steps.STEPS if s.name in CHOSEN]
    monkeypatch.setattr(program, "STEPS", (steps.STEPS[0], *few))
    done = call(tmp_path / "out")
    assert done.exit_code == 0 and "failed, " not in done.output, done.output
    data = json.loads(collect(tmp_path / "out", tmp_path).read_text())
    assert data["device"] == "Stand-in" and data["machine"]["nvidia_smi"]["driver_version"] == "580.159.04"
    assert data["grade"] == [{"puzzle": "01_vector_add", "passed": True, "cases": 8}] and not data["failed"]
    (mistakes,) = data["mistakes"]
    assert mistakes["run"] > 1 and all(m["virtual_gpu"] != "passed" for m in mistakes["passed"])
    (layer,) = data["layers"]
    assert {row["arithmetic"] for row in layer["rows"]} == {"float32", "tf32", "half"} and layer["flop"]
    assert all((k["ms"], k["result"]) == (1.0, "right") for k in layer["kernels"])
    assert [k["puzzle"][:2] for k in layer["kernels"]] == ["10", "13", "14", "15", "31"]
    (launch,) = data["counters"]["20_bias_warp"]
    assert launch["bits"] and launch["ulp"] == 0 and launch["counters"]["warp_instructions"][1] == 1000
    assert data["zoo"]["after_the_last"]["memcheck"]["line"] == "kernel.cu:8"
    text = (tmp_path / page.PAGE).read_text()
    assert "| out-of-bounds | 1 | 1 | 0 | 0 | 0 |" in text
    assert "2.15 TB/s by a copy, 1.1e+03 TFLOP/s float32 by a product" in text
    assert "| tiny, data | 1 | 10 | 1 | 100% | 0.5 | 0.25 | 4 |" in text


def test_the_times_of_a_ladder_are_those_that_are_drawn(stand_ins, monkeypatch, capsys):
    """One rung, timed in its process's code, as ladder.load reads it."""
    (wanted,) = (one for one in ladder.LADDERS if one.name == "product")
    asked = {}
    monkeypatch.setattr(ladder, "timed", lambda *a: asked.setdefault(a[2], {"milliseconds": 1.0}))
    found = list(work.rungs("product"))
    assert [r["puzzle"][:2] for r in found] == [n for n, _ in wanted.rungs] == list(asked)
    assert all(r["ladder"] == "product" and r["milliseconds"] == 1.0 for r in found)
    monkeypatch.setattr(ladder, "timed", lambda *a: (_ for _ in ()).throw(CourseError("it does not run")))
    assert [r["problem"] for r in work.rungs("product")] == ["it does not run"] * len(wanted.rungs)


def test_distances_are_counted_in_numbers_between():
    import numpy as np

    from backwarp.maintain.hardware.launcher import summary

    one = np.float32([1.0, -0.0, 2.0])
    other = np.float32([np.nextafter(np.float32(1), np.float32(2)), 0.0, 2.0])
    assert (
        agreement.apart(summary(one), summary(other)) == 1
        and agreement.apart(summary(one), summary(one)) == 0
    )
    assert agreement.apart(summary(np.float32([-1e-45])), summary(np.float32([1e-45]))) == 2
