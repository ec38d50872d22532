"""Training LeNet: against float64, by seed, interrupted and resumed, with damaged checkpoints."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
from backwarp.reference import lenet

from backwarp.lenet import checks, kernels, train, training_checks
from backwarp.lenet.train import Settings, Stopped, Training, TrainingError, batches, read_checkpoint
from tests import sampled
from tests.devices.virtual.launches import device
from tests.lenet.small import DIGITS, FEW, ROOT

SHORT = Settings(epochs=2, batch=8, seed=3)  # 3 steps an epoch, the last one of 4 images


@pytest.fixture(scope="module")
def dev():
    return device("memory")


def training(dev, path=None, settings=SHORT, some=FEW):
    net = checks.solution_net(dev, {}, lenet.initial(settings.seed))
    return Training(net, some, settings, path)


# ---- what is learned ---------------------------------------------------------------------------------------


def test_losses_of_20_steps_are_those_of_float64(dev, monkeypatch):
    """The default run's first steps, with small batches to be quick.

    Not every seed agrees for long: where a value is within rounding of 0, a ReLU in float32 can be open that is closed
    in float64, and from there on the runs part.
    """
    monkeypatch.setattr(kernels, "WORTH_COMPILING", math.inf)  # for their sizes
    settings = Settings(batch=8)
    run = training(dev, settings=settings, some=DIGITS)
    steps = list(islice(batches(DIGITS, settings, 0), 20))
    for images, labels in steps:
        run.one_step(images, labels)
    rates = [training_checks.schedule(step, run.steps) for step in range(20)]
    _, expected = training_checks.numpy_losses(lenet.initial(0), steps, rates)
    np.testing.assert_allclose(run.history.losses, expected, rtol=1e-4)
    assert expected[-1] < expected[0]


def test_a_seed_gives_the_same_batches_and_every_image_once_an_epoch():
    images = [list(batches(FEW, SHORT, epoch)) for epoch in (0, 0, 1)]
    for (a, labels_a), (b, labels_b) in zip(images[0], images[1], strict=True):
        assert np.array_equal(a, b) and np.array_equal(labels_a, labels_b)
    first, other = (np.concatenate([labels for _, labels in epoch]) for epoch in (images[0], images[2]))
    assert sorted(first) == sorted(other) == sorted(FEW.train_labels) and not np.array_equal(first, other)
    assert [len(labels) for _, labels in images[0]] == [8, 8, 4]
    later = list(batches(FEW, SHORT, 0, first=1))
    assert len(later) == 2 and np.array_equal(later[0][0], images[0][1][0])


def test_how_often_the_launches_of_a_batch_come_again(dev):
    """In the other epoch: two whole batches to learn from and a smaller one."""
    run, again = training(dev), []
    for images, labels in batches(FEW, SHORT, 0):
        run.one_step(images, labels)
        again.append(run.net.again)
    assert again == [2, 2, 1]


def test_images_are_moved_by_a_pixel_at_most_and_nothing_is_lost():
    image = np.zeros((1, 1, 4, 4), np.float32)
    image[0, 0, 1, 2] = 1
    for corner in np.ndindex(3, 3):
        moved = train.shifted(image, 1, -5.0)[0, 0, *corner]
        assert moved[2 - corner[0], 3 - corner[1]] == 1 and moved.sum() == 1 - 5 * (moved == -5).sum()
        assert (moved == -5).sum() == {0: 0, 1: 4, 2: 7}[(corner[0] != 1) + (corner[1] != 1)]


def test_a_loss_that_is_no_number_stops_the_run(dev):
    run = training(dev)
    run.net["fc3_bias"].set(np.full(10, np.nan, np.float32))
    with pytest.raises(TrainingError, match="the loss is nan in step 1: .*backwarp grade --all"):
        run.run()
    assert run.step == 0


# ---- stopped, and gone on with -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(dev, tmp_path_factory):
    """A run without interruption."""
    run = training(dev, tmp_path_factory.mktemp("whole") / "lenet.npz")
    run.run()
    return run, run.net.state()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("steps", sampled([0, 2, 3, 5]))
def test_a_run_that_was_stopped_goes_on_bit_by_bit(whole, dev, tmp_path, steps):
    path = tmp_path / "lenet.npz"
    first = training(dev, path)
    with pytest.raises(Stopped):
        first.run(stop=lambda: first.step == steps)
    second = training(dev, path)
    stored = read_checkpoint(path)
    assert stored.settings == SHORT
    second.restore(stored)
    assert second.step == steps
    second.run()
    assert second.history == whole[0].history
    state = second.net.state()
    assert all(np.array_equal(state[name], values) for name, values in whole[1].items())


def test_a_run_that_has_ended_has_nothing_to_go_on_with(whole, dev):
    run = training(dev, whole[0].checkpoint)
    run.restore(read_checkpoint(run.checkpoint))
    run.run(report=lambda _: pytest.fail("a step was taken"))
    assert run.step == 6 and run.accuracy() == whole[0].history.accuracies[-1]


# ---- checkpoints -------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(whole, tmp_path):
    path = tmp_path / "lenet.npz"
    path.write_bytes(whole[0].checkpoint.read_bytes())
    return path


def damage(path, change):
    raw = bytearray(path.read_bytes())
    changed = change(raw)
    path.write_bytes(raw if changed is None else changed)


def flipped(raw, place):
    raw[place] ^= 4


DAMAGE = {
    "empty": lambda raw: b"",
    "cut in the middle": lambda raw: raw[: len(raw) // 2],
    "cut at the end": lambda raw: raw[:-1],
    "a bit of a weight": lambda raw: flipped(raw, len(raw) // 2),
    "a way of packing that is not known": lambda raw: flipped(raw, raw.rindex(b"PK\x01\x02") + 10),
    "text": lambda raw: b"not a checkpoint\n",
    "another kind of NumPy file": lambda raw: b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'shape': (1,)}\n",
    "a pickle": lambda raw: b"\x80\x04K\x01.",
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_checkpoint_is_refused_in_a_sentence(checkpoint, change):
    damage(checkpoint, change)
    with pytest.raises(TrainingError, match="lenet.npz is damaged, or no checkpoint; start without --resume"):
        read_checkpoint(checkpoint)


def rewritten(path, **changes):
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez(path, **{name: values for name, values in (arrays | changes).items() if values is not None})


@pytest.mark.parametrize(
    "changes",
    [
        dict(conv1_bias=None),
        dict(conv1_bias=np.zeros(7, np.float32)),
        dict(more=np.zeros(1)),
        dict(losses=np.zeros(())),
    ],
)
def test_other_arrays_are_no_checkpoint(checkpoint, changes):
    rewritten(checkpoint, **changes)
    with pytest.raises(TrainingError, match="is damaged, or no checkpoint"):
        read_checkpoint(checkpoint)


def test_a_checkpoint_of_another_version_says_so(checkpoint):
    rewritten(checkpoint, about=np.array('{"format": 99}'))
    with pytest.raises(TrainingError, match="another version of the course wrote"):
        read_checkpoint(checkpoint)


def test_a_checkpoint_that_is_not_there_or_not_readable(tmp_path):
    with pytest.raises(TrainingError, match="there is no checkpoint .*lenet.npz; start without --resume"):
        read_checkpoint(tmp_path / "lenet.npz")
    with pytest.raises(TrainingError, match="cannot be read: Is a directory"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("broken", ["os.replace", "os.fsync", "np.savez"])
def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(checkpoint, monkeypatch, broken):
    before = checkpoint.read_bytes()

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"backwarp.lenet.train.{broken}", fail)
    with pytest.raises(TrainingError, match="lenet.npz cannot be written: No space left on device"):
        train.write_atomically(checkpoint, {"losses": np.zeros(3)})
    assert checkpoint.read_bytes() == before and list(checkpoint.parent.iterdir()) == [checkpoint]


WRITER = """
import sys
import numpy as np
from pathlib import Path
from backwarp.lenet.train import write_atomically
path = Path(sys.argv[1])
with np.load(path) as stored:
    arrays = {name: stored[name] for name in stored.files}
print("ready", flush=True)
while True:
    write_atomically(path, arrays)
    print("written", flush=True)
"""


def test_a_writer_that_is_killed_leaves_a_whole_checkpoint(checkpoint):
    command = [sys.executable, "-c", WRITER, str(checkpoint)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        for _ in range(4):
            assert writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    assert read_checkpoint(checkpoint).losses.size == 6
