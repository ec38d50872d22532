"""`backwarp train`: chooses kernels, data and device, trains, and reports the result."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np

from backwarp.reference import lenet

from ..course.checkout import Course
from ..course.progress import Progress, make_state_folder
from ..devices import open_device
from ..errors import BackwarpError
from ..process import write
from . import data as data_sets
from . import show
from .choices import SOLUTION, choose
from .kernels import Kernels
from .model import LeNet
from .program import choose_program
from .train import Settings, Stopped, Training, TrainingError, read_checkpoint

EPOCHS = {"digits": 30, "mnist": 3}
INTERRUPTED = 130


@dataclass(frozen=True)
class TrainOptions:
    """The command line; None for options that were not given."""

    kernels: str = "mine"
    data: str | None = None
    data_dir: Path | None = None
    epochs: int | None = None
    batch: int | None = None
    seed: int | None = None
    device: str = "auto"
    use: tuple[str, ...] = ()
    resume: bool = False
    json: str | None = None
    picture: Path | None = None


def main(course: Course, progress: Progress, options: TrainOptions) -> int:
    """Trains and reports; the exit status. Errors: BackwarpError."""
    say = (lambda text: print(text, file=sys.stderr)) if options.json == "-" else print
    folder = course.root / ".backwarp"
    checkpoint, picture = folder / "lenet.npz", options.picture or folder / "lenet.png"
    stored = read_checkpoint(checkpoint) if options.resume else None
    settings = decide(options, stored.settings if stored else None)
    mine = options.kernels == "mine"
    entries = progress.all() if mine else {}
    choices = choose(course, entries, mine, options.use)
    data = data_sets.load(settings.data, options.data_dir)
    make_state(folder)
    trusted = all(choice.whose == SOLUTION for choice in choices.values())
    with (
        choose_program(course, entries, mine) as program,
        open_device(options.device, checks="none" if trusted else "memory", confined=not trusted) as device,
    ):
        net = LeNet(device, Kernels(device, choices), program.functions, lenet.initial(settings.seed))
        training = Training(net, data, settings, checkpoint)
        if stored:
            training.restore(stored)
        for line in show.introduction(training, choices, program, device):
            say(line)
        # importing Matplotlib takes as long as half an epoch; kernels run meanwhile
        Thread(target=import_module, args=(f"{__package__}.picture",), daemon=True).start()
        with interruptible() as interrupt, show.live(training, say) as report:
            try:
                training.run(report, lambda: interrupt.asked)
            except Stopped:
                stopped = show.where(training)
            else:
                stopped = ""
        if stopped:
            say(f"Interrupted {stopped}. To go on: {resuming(options)}")
            return INTERRUPTED
        result, filters = show.result(training, choices, program, device), net["conv1_weights"].get()
        if options.use:
            result["moved"] = moved(
                choices, lambda: choose(course, entries, mine), program.functions, data, say
            )
    draw(result, filters, data, picture, say)
    for line in show.summary(result):
        say(line)
    say(f"The picture is {shown(picture)}.")
    if options.json:
        write(json.dumps(result, indent=1) + "\n", options.json)
    return 0


def decide(options: TrainOptions, stored: Settings | None) -> Settings:
    """The settings of the run: the user's, else the checkpoint's, else the defaults.

    Errors: TrainingError if the two disagree.
    """
    name = options.data or "digits"
    base = stored or Settings(data=name, epochs=EPOCHS[name])
    given = {f.name: getattr(options, f.name, None) for f in fields(Settings)}
    given = {key: value for key, value in given.items() if value is not None}
    for key, value in given.items():
        if stored and getattr(stored, key) != value:
            raise TrainingError(
                f"the checkpoint is of a run with --{key} {getattr(stored, key)}, not {value}; "
                "leave it out, or start again without --resume"
            )
    return replace(base, **given)


def resuming(options: TrainOptions) -> str:
    """The command that continues a run with these options."""
    words = ["backwarp", "train", "--resume"]
    if options.kernels != TrainOptions.kernels:
        words += ["--kernels", options.kernels]
    for use in options.use:
        words += ["--use", use]
    if options.data_dir:
        words += ["--data-dir", str(options.data_dir)]
    return shlex.join(words)


def make_state(folder: Path) -> None:
    try:
        make_state_folder(folder)
    except OSError as e:
        raise TrainingError(
            f"{folder} cannot be written, and checkpoints go there: {e.strerror or e}"
        ) from None


@contextmanager
def interruptible() -> Iterator[SimpleNamespace]:
    """The first Ctrl-C sets `.asked`; a second one interrupts at once. Only where signals can be caught."""
    state = SimpleNamespace(asked=False)

    def ask(*_):
        if state.asked:
            raise KeyboardInterrupt
        state.asked = True

    try:
        before = signal.signal(signal.SIGINT, ask)
    except ValueError:  # not in the main thread
        yield state
        return
    try:
        yield state
    finally:
        signal.signal(signal.SIGINT, before)


def draw(result: dict, filters: np.ndarray, data: data_sets.Data, path: Path, say: Callable) -> None:
    from .picture import training_picture

    try:
        training_picture(result, filters, data).savefig(path)
    except (OSError, ValueError) as e:  # ValueError: an unknown format
        say(f"note: the picture {path} cannot be written: {e}")


def moved(choices, usual: Callable, functions, data: data_sets.Data, say: Callable) -> dict | None:
    """The bytes of a step with the replaced kernels, and with the `usual()` ones; None if they cannot be
    counted."""
    from .count import comparison

    try:
        return comparison(choices, usual(), functions, data)
    except BackwarpError as error:
        say(f"note: a step cannot be counted: {error}")
        return None


def shown(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
