"""The output of a training run: before, during and after."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict

import numpy as np

from .choices import ROLES, UNSOLVED, YOURS, Choice
from .program import LeNetProgram
from .train import Training

Say = Callable[[str], None]


def introduction(
    training: Training, choices: Mapping[str, Choice], program: LeNetProgram, device
) -> list[str]:
    """Lines about what is trained, on which data, with whose kernels."""
    s, data = training.settings, training.data
    lines = [
        f"LeNet on the {device.name}, seed {s.seed}",
        f"{s.data}: {len(data.train_labels):,} images to learn from, {len(data.test_labels):,} to test with",
        f"{s.epochs} epoch{'s' * (s.epochs != 1)} of {training.steps_per_epoch} steps, batch {s.batch}",
        *whose(choices, program),
    ]
    if training.step:
        lines.append(f"Goes on {where(training)}.")
    return lines


def whose(choices: Mapping[str, Choice], program: LeNetProgram) -> list[str]:
    """`Kernels: yours 04, 07; the solution's 03, ...`, and why the others are not the student's."""
    groups: dict[str, dict[str, None]] = {}
    for choice in choices.values():
        groups.setdefault(choice.whose, {})[choice.origin.replace(f" {choice.whose}", "")] = None
    for part in program.parts:
        groups.setdefault(part.whose, {})[part.number] = None
    told = "; ".join(f"{who} {', '.join(sorted(groups[who]))}" for who in sorted(groups, reverse=True))
    notes = dict.fromkeys(p.note for p in (*choices.values(), *program.parts) if p.note)
    unsolved = [note for note in notes if not note.endswith(UNSOLVED)]
    return [f"Kernels and Python: {told}", *(f"note: {note}" for note in unsolved)]


def where(training: Training) -> str:
    """`in epoch 3, step 12 of 45`."""
    epoch, step = divmod(training.step, training.steps_per_epoch)
    if epoch == training.settings.epochs:
        return "after the last epoch"
    return f"in epoch {epoch + 1}, step {step} of {training.steps_per_epoch}"


# ---- while it runs -------------------------------------------------------------------------------------


@contextmanager
def live(training: Training, say: Say) -> Iterator[Callable[[Training], None]]:
    """A function to call after every step: it shows a progress bar on a terminal, else a line per epoch."""
    if sys.stderr.isatty():
        with bar(training) as report:
            yield report
    else:
        yield lambda t: epoch_line(t, say)


def epoch_line(training: Training, say: Say) -> None:
    epochs, done = len(training.history.accuracies), training.step // training.steps_per_epoch
    if training.step % training.steps_per_epoch or epochs != done:
        return
    say(f"epoch {epochs:3} of {training.settings.epochs}  {progress(training)}")
    sys.stdout.flush()


def progress(training: Training) -> str:
    """`loss 0.031  test 98.3%  1,200 images/s`; the loss is the mean of the last epoch's steps."""
    recent, parts = training.history.losses[-training.steps_per_epoch :], []
    if recent:
        parts.append(f"loss {np.mean(recent):6.4f}")
    if training.history.accuracies:
        parts.append(f"test {training.history.accuracies[-1]:6.1%}")
    if training.seconds:
        parts.append(f"{training.trained / training.seconds:6,.0f} images/s")
    return "  ".join(parts)


@contextmanager
def bar(training: Training) -> Iterator[Callable[[Training], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as shown:
        task = shown.add_task("", total=training.steps, completed=training.step, epoch="", text="")

        def report(t: Training) -> None:
            epoch = min(t.step // t.steps_per_epoch + 1, t.settings.epochs)
            shown.update(task, completed=t.step, epoch=f"{epoch}/{t.settings.epochs}", text=progress(t))

        report(training)
        yield report


# ---- afterwards ----------------------------------------------------------------------------------------


def result(training: Training, choices: Mapping[str, Choice], program: LeNetProgram, device) -> dict:
    """Everything known after a run, in JSON's types; times are those of this process."""
    labels, predicted = training.data.test_labels, training.predictions()
    confusion = np.zeros((10, 10), int)
    np.add.at(confusion, (labels, predicted), 1)
    wrong = np.flatnonzero(labels != predicted)
    steps = training.net.timing["mean_loss"][0] or 1
    kernels = [
        {
            "kernel": role,
            "puzzle": c.puzzle.id,
            "function": role if c.then else c.kernel.name,
            "whose": c.whose,
            "launches_per_step": round(training.net.timing[role][0] / steps, 3),
            "ms_per_step": round(training.net.timing[role][1] / steps * 1e3, 4),
        }
        for role, c in choices.items()
    ]
    return {
        "format": 1,
        "settings": asdict(training.settings),
        "device": device.name,
        "kernels": kernels,
        "program": [{"puzzle": part.number, "whose": part.whose} for part in program.parts],
        "train_images": len(training.data.train_labels),
        "test_images": len(labels),
        "steps": training.step,
        "losses": training.history.losses,
        "accuracies": training.history.accuracies,
        "test_accuracy": float((labels == predicted).mean()),
        "confusion": confusion.tolist(),
        "misclassified": [
            {"index": int(i), "label": int(labels[i]), "predicted": int(predicted[i])} for i in wrong
        ],
        "seconds": round(training.seconds, 3),
        "images_per_second": round(training.trained / training.seconds, 1) if training.seconds else 0.0,
        "ms_per_step": round(training.seconds / steps * 1e3, 4),
    }


def summary(found: dict) -> list[str]:
    """The result as text: accuracy, then time per step by kernel."""
    right, epochs = found["test_images"] - len(found["misclassified"]), found["settings"]["epochs"]
    lines = [
        f"Test accuracy {found['test_accuracy']:.1%} ({right:,} of {found['test_images']:,}) "
        f"after {epochs} epoch{'s' * (epochs != 1)}."
    ]
    lines += traffic(found["moved"], found["kernels"]) if found.get("moved") else []
    if not found["seconds"]:
        return lines
    total = found["ms_per_step"]
    lines.append(
        f"Time per step: {total:.2f} ms ({found['seconds']:.1f} s of training, "
        f"{found['images_per_second']:,.0f} images/s)"
    )
    rows = sorted(found["kernels"], key=lambda row: -row["ms_per_step"])
    rest = total - sum(row["ms_per_step"] for row in rows)
    for row in rows:
        home = ROLES[row["kernel"]]
        name = row["function"] if row["puzzle"].startswith(home) else f"{row['function']} for {home}"
        mark = "yours" if row["whose"] == YOURS else "solution"
        lines.append(
            f"  {row['puzzle'][:2]} {name:32} {mark:9} {row['launches_per_step']:3.0f} x "
            f"{row['ms_per_step']:8.3f} ms {row['ms_per_step'] / total:6.1%}"
        )
    lines.append(f"     {'copies, Python':32} {'':9} {'':5} {rest:8.3f} ms {rest / total:6.1%}")
    return lines


def traffic(moved: dict, kernels: list[dict]) -> list[str]:
    """Bytes moved by a step, and by the kernels that replace others."""
    ours, usual = sum(moved["bytes"].values()), sum(moved["usual_bytes"].values())
    lines = [
        f"Global memory in a step of {moved['images']} images, counted: "
        f"{ours / 1e6:.1f} MB; without --use {usual / 1e6:.1f} MB."
    ]
    puzzles = {row["kernel"]: row["puzzle"] for row in kernels}
    for role in moved["replaced"]:
        now, before = (moved[key][role] / 1e6 for key in ("bytes", "usual_bytes"))
        home, name = ROLES[role], f"{puzzles[role][:2]} {role}"
        lines.append(f"  {f'{name} for {home}':41} {now:8.2f} MB; {home}: {before:8.2f} MB")
    return lines
