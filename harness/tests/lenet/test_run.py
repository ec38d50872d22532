"""`backwarp train`: what it prints and writes, on a terminal and in a pipe; Ctrl-C; going on."""

from __future__ import annotations

import io
import json
import os
import signal
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from backwarp.course.progress import Progress
from backwarp.errors import BackwarpError, CourseError, DeviceError
from backwarp.lenet import run
from backwarp.lenet.model import LeNet
from backwarp.lenet.run import TrainOptions, resuming
from backwarp.lenet.train import Training, TrainingError, read_checkpoint
from tests import sampled
from tests.devices.virtual.launches import device
from tests.lenet.small import FEW, course_in

SHORT = {"kernels": "solutions", "epochs": 2, "batch": 8, "device": "cpu"}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return course_in(tmp_path_factory.mktemp("course"))


@pytest.fixture
def train(course, monkeypatch, tmp_path):
    """Runs a training on a few digits; the exit status."""

    array = LeNet.__getitem__

    def closed(*_):
        raise DeviceError("the arrays are gone, as they are where a device is confined")

    @contextmanager
    def opened(name, checks, confined):
        train.checks = checks
        monkeypatch.setattr(LeNet, "__getitem__", array)
        yield device("memory")
        monkeypatch.setattr(LeNet, "__getitem__", closed)

    monkeypatch.setattr(run, "open_device", opened)
    monkeypatch.setattr(run.data_sets, "load", lambda *_: FEW)
    monkeypatch.chdir(course.root)

    def train(picture=None, **options):
        if not picture:  # they take a second each
            monkeypatch.setattr(run, "draw", lambda *_: None)
        options["picture"] = None if picture is True else picture
        return run.main(course, Progress(course.root), TrainOptions(**{**SHORT, **options}))

    return train


def checkpoint(course):
    return read_checkpoint(course.root / ".backwarp" / "lenet.npz")


# ---- what it says ------------------------------------------------------------------------------------------


def test_a_run_in_a_pipe(train, course, capsys, tmp_path):
    assert train(picture=True, json=str(tmp_path / "result.json")) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("LeNet on the virtual GPU (") and lines[0].endswith("seed 0")
    assert lines[1] == "digits: 20 images to learn from, 9 to test with"
    assert lines[2] == "2 epochs of 3 steps, batch 8"
    assert lines[3] == "Kernels and Python: the solution's 03, 04, 05, 06, 07, 08, 09, 10, 11, 37, 38"
    assert [line[:14] for line in lines[4:6]] == ["epoch   1 of 2", "epoch   2 of 2"] and not err
    assert max(map(len, lines)) <= 80 and "\x1b" not in out
    result = json.loads((tmp_path / "result.json").read_text())
    wrong, confusion = result["misclassified"], np.array(result["confusion"])
    assert f"({9 - len(wrong)} of 9) after 2 epochs." in lines[6]
    assert confusion.sum() == 9 and np.trace(confusion) == 9 - len(wrong) and len(result["losses"]) == 6
    for item in wrong:
        assert FEW.test_labels[item["index"]] == item["label"] != item["predicted"]
        assert confusion[item["label"], item["predicted"]]
    launches = {row["kernel"]: row["launches_per_step"] for row in result["kernels"]}
    assert launches["conv2d_forward"] == 2 and launches["sgd_step"] == 10 and sum(launches.values()) == 44
    table = lines[8:-1]
    assert len(table) == 17 and "copies, Python" in table[-1] and table[-1].split()[-1].endswith("%")
    times = [float(line.split(" x ")[1].split()[0]) for line in table[:-1]]
    assert times == sorted(times, reverse=True) and sum(times) <= float(lines[7].split()[3])
    assert lines[-1] == "The picture is .backwarp/lenet.png."
    assert (course.root / ".backwarp" / "lenet.png").read_bytes().startswith(b"\x89PNG")


def test_json_alone_on_standard_output(train, capsys):
    assert train(json="-", epochs=1) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["steps"] == 3 and "epoch   1 of 1" in err


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_run_on_a_terminal_of_80_columns(train, monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")  # no colours in the text that is measured
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert train(epochs=1) == 0
    shown = [line for line in terminal.getvalue().replace("\r", "\n").splitlines() if line.strip()]
    assert shown and max(map(len, shown)) <= 80
    assert (
        "epoch 1/1" in shown[-1] and "loss" in shown[-1] and "images/s" in shown[-1] and "test" in shown[-1]
    )
    assert "epoch   1" not in capsys.readouterr().out


@pytest.mark.parametrize(("whose", "checks"), [("the solution's", "none"), ("yours", "memory")])
def test_accesses_are_checked_where_a_kernel_is_the_students(train, monkeypatch, whose, checks, course):
    seen = []

    def refuse(name, checks, confined):
        seen.append(checks)
        raise BackwarpError("enough")

    def chosen(*arguments):
        return {"relu_forward": type("Choice", (), {"whose": whose})}

    monkeypatch.setattr(run, "choose", chosen)
    monkeypatch.setattr(run, "open_device", refuse)
    with pytest.raises(BackwarpError, match="enough"):
        train()
    assert seen == [checks]


def test_a_picture_or_a_file_that_cannot_be_written(train, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("backwarp.lenet.picture.training_picture", lambda *_: Figure())
    assert train(epochs=1, picture=tmp_path / "no" / "picture.png") == 0
    assert "note: the picture" in capsys.readouterr().out
    with pytest.raises(CourseError, match="result.json cannot be written: No such file"):
        train(resume=True, epochs=None, batch=None, json=str(tmp_path / "no" / "result.json"))


def test_a_folder_for_checkpoints_that_cannot_be_made(train, course, monkeypatch):
    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run, "make_state_folder", refuse)
    with pytest.raises(
        TrainingError, match=r"\.backwarp cannot be written, and checkpoints go there: Permission"
    ):
        train()


# ---- Ctrl-C ------------------------------------------------------------------------------------------------


@pytest.fixture
def interrupted(monkeypatch):
    """Presses Ctrl-C in the middle of that step, as often as is said."""

    def press(at, times=1):
        usual = Training.one_step

        def one_step(self, *batch):
            if self.step == at:
                for _ in range(times):
                    os.kill(os.getpid(), signal.SIGINT)
            usual(self, *batch)

        monkeypatch.setattr(Training, "one_step", one_step)
        return lambda: monkeypatch.setattr(Training, "one_step", usual)

    return press


@pytest.mark.parametrize("step", sampled([2, 1, 4]))
def test_ctrl_c_keeps_the_checkpoint_and_resume_ends_as_if_nothing_had_been(
    train, course, capsys, interrupted, step
):
    assert train() == 0
    whole = checkpoint(course)
    capsys.readouterr()
    handler = signal.getsignal(signal.SIGINT)
    release = interrupted(step)
    assert train() == run.INTERRUPTED == 130
    release()
    assert signal.getsignal(signal.SIGINT) is handler
    out, err = capsys.readouterr()
    epoch, done = divmod(step + 1, 3)
    said = f"Interrupted in epoch {epoch + 1}, step {done} of 3. To go on: backwarp train --resume --kernels solutions"
    assert out.splitlines()[-1] == said and not err
    assert checkpoint(course).losses.size == step + 1
    assert train(resume=True, epochs=None, batch=None) == 0
    out = capsys.readouterr().out
    assert f"Goes on in epoch {epoch + 1}, step {done} of 3." in out and "after 2 epochs." in out
    again = checkpoint(course)
    assert np.array_equal(again.losses, whole.losses) and np.array_equal(again.accuracies, whole.accuracies)
    assert all(np.array_equal(again.state[name], values) for name, values in whole.state.items())


def test_ctrl_c_twice_ends_at_once(train, interrupted):
    handler = signal.getsignal(signal.SIGINT)
    interrupted(1, times=2)
    with pytest.raises(KeyboardInterrupt):
        train()
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (TrainOptions(), "backwarp train --resume"),
        (
            TrainOptions(kernels="solutions", use=("09=21", "07=26")),
            "backwarp train --resume --kernels solutions --use 09=21 --use 07=26",
        ),
        (
            TrainOptions(data="mnist", data_dir=Path("my data")),
            "backwarp train --resume --data-dir 'my data'",
        ),
    ],
)
def test_the_command_that_goes_on(options, command):
    assert resuming(options) == command


# ---- going on ----------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"epochs": 3}, "--epochs 2, not 3"),
        ({"seed": 1}, "--seed 0, not 1"),
        ({"data": "mnist"}, "--data digits, not mnist"),
    ],
)
def test_other_settings_than_those_of_the_checkpoint(train, options, says):
    assert train(epochs=2) == 0
    with pytest.raises(
        TrainingError, match=f"the checkpoint is of a run with {says}; leave it out, or start again"
    ):
        train(resume=True, **options)


def test_nothing_to_go_on_with(train, course):
    (course.root / ".backwarp" / "lenet.npz").unlink(missing_ok=True)
    with pytest.raises(TrainingError, match="there is no checkpoint .*; start without --resume"):
        train(resume=True)


def test_a_run_that_has_ended_shows_its_result_again(train, capsys):
    assert train(epochs=1) == 0
    capsys.readouterr()
    assert train(resume=True, epochs=None, batch=None) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Goes on after the last epoch." in lines and lines[-2].endswith("after 1 epoch.")


def test_the_defaults():
    assert run.decide(TrainOptions(), None) == run.Settings("digits", 30, 32, 0, 1)
    assert run.decide(TrainOptions(data="mnist"), None).epochs == 3
