"""Training LeNet: batches by seed, steps, evaluation, checkpoints. Nothing here prints.

All randomness is derived from (seed, epoch), so a run that is stopped and resumed takes the same steps as an
uninterrupted one.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from backwarp.reference.lenet import PARAMETERS

from ..errors import BackwarpError
from .data import Data
from .model import LeNet

FORMAT = 1
STATE = {name: shape for p, shape in PARAMETERS.items() for name in (p, f"velocity_{p}")}  # in a checkpoint


class TrainingError(BackwarpError):
    """Training cannot start or continue: a checkpoint does not fit, or the loss is not a number."""


class Stopped(Exception):
    """The run was asked to stop; the checkpoint holds the last complete step."""


@dataclass(frozen=True)
class Settings:
    """What a run depends on, besides the kernels. shift: the largest shift of images, in pixels."""

    data: str = "digits"
    epochs: int = 30
    batch: int = 32
    seed: int = 0
    shift: int = 1


@dataclass
class History:
    """The results so far: the loss of every step, and the test accuracy after every epoch."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)


def batches(
    data: Data, settings: Settings, epoch: int, first: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The batches (images, labels) of an epoch from number `first` on, shuffled, with the images shifted a
    little."""
    random = np.random.default_rng((settings.seed, epoch))
    count = len(data.train_labels)
    order = random.permutation(count)
    shifts = random.integers(0, 2 * settings.shift + 1, (count, 2))
    cut = shifted(data.train_images, settings.shift, data.background)
    for start in range(first * settings.batch, count, settings.batch):
        chosen = slice(start, start + settings.batch)
        yield cut[order[chosen], :, *shifts[chosen].T], data.train_labels[order[chosen]]


def shifted(images: np.ndarray, margin: int, background: float) -> np.ndarray:
    """The images (N, 1, H, W), surrounded by `margin` pixels of background, and then cut out at each corner: a view
    (N, 1, 2 margin + 1, 2 margin + 1, H, W)."""
    wide = np.pad(images, [(0, 0)] * 2 + [(margin, margin)] * 2, constant_values=background)
    return np.lib.stride_tricks.sliding_window_view(wide, images.shape[2:], axis=(2, 3))


class Training:
    """One run: its state and how to continue it.

    learning_rate(step, steps) and the net's program are puzzle 38's and 37's.
    """

    def __init__(self, net: LeNet, data: Data, settings: Settings, checkpoint: Path | None = None):
        self.net, self.data, self.settings, self.checkpoint = net, data, settings, checkpoint
        self.history = History()
        self.seconds, self.trained = 0.0, 0  # time and images of this process's training steps

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.data.train_labels) / self.settings.batch)

    @property
    def steps(self) -> int:
        return self.steps_per_epoch * self.settings.epochs

    @property
    def step(self) -> int:
        """Steps done."""
        return len(self.history.losses)

    def run(
        self, report: Callable[[Training], None] = lambda _: None, stop: Callable[[], bool] = lambda: False
    ):
        """Trains to the end, with a checkpoint after every epoch. report: called after every step and epoch.

        Errors: Stopped if `stop()` says so, after writing the checkpoint. TrainingError, KernelFault.
        """
        while self.step < self.steps:
            epoch, done = divmod(self.step, self.steps_per_epoch)
            for images, labels in batches(self.data, self.settings, epoch, done):
                if stop():
                    self.save()
                    raise Stopped
                self.one_step(images, labels)
                report(self)
            self.history.accuracies.append(self.accuracy())
            self.save()
            report(self)

    def one_step(self, images: np.ndarray, labels: np.ndarray) -> None:
        """Errors: TrainingError if the loss is not finite; KernelFault."""
        started, net = time.perf_counter(), self.net
        self._load(images, labels, len(self.data.train_labels))
        with net.together():
            net.forward()
            net.backward()
            net.program["update"](net, net.program["learning_rate"](self.step, self.steps))
        loss = float(net.loss.get()[0])
        self.seconds += time.perf_counter() - started
        self.trained += len(labels)
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss} in step {self.step + 1}: the steps are too large, or a kernel is wrong; "
                "`backwarp grade --all` finds a wrong kernel"
            )
        self.history.losses.append(loss)

    def _load(self, images: np.ndarray, labels: np.ndarray, of: int) -> None:
        """Loads a batch of a set of `of` images. As many batches of its size as the set has follow in each epoch to
        come."""
        epochs = self.settings.epochs - 1 - self.step // self.steps_per_epoch
        whole = of // self.settings.batch if len(labels) == self.settings.batch else 1
        self.net.again = max(0, epochs * whole)
        self.net.load(images, labels)

    # ---- evaluation --------------------------------------------------------------------------------------

    def predictions(self) -> np.ndarray:
        """LeNet's answer for every test image; not included in the net's timing."""
        timing, found = self.net.timing, []
        self.net.timing = {kernel: [0, 0.0] for kernel in timing}
        images, labels = self.data.test_images, self.data.test_labels
        for start in range(0, len(labels), self.settings.batch):
            chosen = slice(start, start + self.settings.batch)
            self._load(images[chosen], labels[chosen], len(labels))
            with self.net.together():
                self.net.forward()
            found.append(self.net.logits.get().argmax(axis=1))
        self.net.timing = timing
        return np.concatenate(found)

    def accuracy(self) -> float:
        return float((self.predictions() == self.data.test_labels).mean())

    # ---- checkpoints ---------------------------------------------------------------------------------------

    def save(self) -> None:
        """Writes the checkpoint atomically."""
        if self.checkpoint is None:
            return
        about = {"format": FORMAT, "settings": asdict(self.settings)}
        history = {name: np.array(values) for name, values in asdict(self.history).items()}
        write_atomically(
            self.checkpoint, {"about": np.array(json.dumps(about)), **history, **self.net.state()}
        )

    def restore(self, stored: Checkpoint) -> None:
        """Restores the state saved in the checkpoint."""
        self.history = History(stored.losses.tolist(), stored.accuracies.tolist())
        self.net.restore(stored.state)


@dataclass(frozen=True)
class Checkpoint:
    """What `Training.save` wrote."""

    settings: Settings
    losses: np.ndarray
    accuracies: np.ndarray
    state: dict[str, np.ndarray]


def read_checkpoint(path: Path) -> Checkpoint:
    """Errors: TrainingError if there is no checkpoint, or the file is not one."""
    try:
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        about = json.loads(str(arrays.pop("about")))
        if about["format"] != FORMAT:
            raise TrainingError(f"another version of the course wrote {path}; start without --resume")
        settings = Settings(**about["settings"])
        losses, accuracies = arrays.pop("losses"), arrays.pop("accuracies")
        shapes = {name: array.shape for name, array in arrays.items()}
        if shapes != STATE or losses.ndim != 1 or accuracies.ndim != 1:
            raise ValueError("other arrays than those of a checkpoint")
    except FileNotFoundError:
        raise TrainingError(f"there is no checkpoint {path}; start without --resume") from None
    except OSError as e:
        raise TrainingError(f"the checkpoint {path} cannot be read: {e.strerror or e}") from None
    except TrainingError:
        raise
    except Exception as e:  # whatever a damaged zip file can raise
        raise TrainingError(f"{path} is damaged, or no checkpoint; start without --resume") from e
    return Checkpoint(settings, losses, accuracies, arrays)


def write_atomically(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Errors: TrainingError if it cannot be written."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        try:
            with open(new, "wb") as file:
                np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
        finally:
            new.unlink(missing_ok=True)
    except OSError as e:
        raise TrainingError(f"the checkpoint {path} cannot be written: {e.strerror or e}") from None
