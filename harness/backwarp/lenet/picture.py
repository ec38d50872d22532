"""Pictures of a training run, and of what one image becomes in LeNet's layers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .data import Data

INK, FAINT, BLUE, ORANGE = ("#222222", "#777777", "#0072b2", "#e69f00")  # safe for colour-blind readers
MOST_WRONG = 24


def training_picture(result: Mapping, filters: np.ndarray, data: Data) -> Figure:
    """Loss curve, first-layer filters, confusion matrix, misclassified digits. filters: (6, 1, 5, 5).

    Everything has its place: searching for one takes longer than an epoch.
    """
    figure = Figure(figsize=(11, 8.4), dpi=100)
    loss = figure.add_axes((0.065, 0.72, 0.56, 0.19))
    draw_curves(loss, figure.add_axes((0.065, 0.56, 0.56, 0.11), sharex=loss), result)
    draw_filters(
        figure.add_axes((0.66, 0.56, 0.26, 0.35)), figure.add_axes((0.935, 0.58, 0.01, 0.3)), filters
    )
    draw_confusion(figure.add_axes((0.065, 0.055, 0.35, 0.42)), np.array(result["confusion"]))
    draw_wrong(figure.add_axes((0.46, 0.02, 0.53, 0.455)), result, data)
    s = result["settings"]
    figure.suptitle(
        f"LeNet, {s['data']}: test accuracy {result['test_accuracy']:.1%} "
        f"after {s['epochs']} epoch{'s' * (s['epochs'] != 1)} "
        f"(batch {s['batch']}, seed {s['seed']})",
        color=INK,
    )
    return figure


def draw_curves(loss, accuracy, result: Mapping) -> None:
    """The loss of every step, smoothed too, and the accuracy after every epoch."""
    losses, epochs = np.array(result["losses"]), len(result["accuracies"])
    per_epoch = len(losses) / max(epochs, 1)
    at = np.arange(1, len(losses) + 1) / per_epoch
    loss.semilogy(at, losses, color=BLUE, alpha=0.3, linewidth=0.7, label="of every step")
    width = max(1, round(per_epoch))
    if len(losses) > width:
        smooth = np.convolve(losses, np.ones(width) / width, "valid")
        loss.semilogy(at[width - 1 :], smooth, color=BLUE, label="mean of an epoch")
    loss.yaxis.set_major_formatter("{x:g}")
    loss.minorticks_off()
    loss.tick_params(labelbottom=False)
    loss.set_title("Loss on the training images", loc="left")
    loss.legend(
        frameon=False, loc="lower right", bbox_to_anchor=(1, 0.96), ncols=2
    )  # beside the title: on no curve
    accuracy.plot(np.arange(1, epochs + 1), 100 * np.array(result["accuracies"]), ".-", color=ORANGE)
    accuracy.set_title("Accuracy on the test images, in %", loc="left")
    accuracy.set_xlabel("epochs")
    for axes in (loss, accuracy):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)


def draw_filters(axes, bar, filters: np.ndarray) -> None:
    largest = np.abs(filters).max()
    shown = draw_tiles(axes, filters[:, 0], 3, gap=1, cmap="PuOr", vmin=-largest, vmax=largest)
    axes.set_title("The six filters of conv1")
    axes.figure.colorbar(shown, cax=bar)


def draw_tiles(axes, images: np.ndarray, columns: int, gap: float, titles=(), **style):
    """Draws images (N, H, W) in rows of `columns`, `gap` pixels apart, each below its title; returns the last one as
    Matplotlib's image."""
    height, width = images.shape[1:]
    for i, image in enumerate(images):
        x, y = i % columns * (width + gap), i // columns * (height + gap)
        shown = axes.imshow(image, extent=(x, x + width, y + height, y), **style)
        axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=FAINT, linewidth=0.6))
        if titles:
            at = x + width / 2, y - gap / 8
            axes.text(*at, titles[i], ha="center", va="bottom", fontsize=10, color=INK)
    rows = -(-len(images) // columns)
    axes.set_xlim(-1, columns * (width + gap) - gap + 1)
    axes.set_ylim(rows * (height + gap) - gap + 1, -gap if titles else -1)
    axes.set_axis_off()
    return shown


def draw_confusion(axes, confusion: np.ndarray) -> None:
    """Rows are labels, columns LeNet's answers. Colour: the share of the row."""
    share = confusion / np.maximum(confusion.sum(1, keepdims=True), 1)
    axes.imshow(share**0.5, cmap="Blues", vmin=0, vmax=1)
    for (row, column), count in np.ndenumerate(confusion):
        if count:
            colour = "white" if share[row, column] > 0.4 else INK
            axes.text(column, row, count, ha="center", va="center", color=colour, fontsize=8)
    axes.set_xticks(range(10))
    axes.set_yticks(range(10))
    axes.set_xlabel("LeNet says")
    axes.set_ylabel("label")
    axes.set_title("Test images")


def draw_wrong(axes, result: Mapping, data: Data) -> None:
    """The test images that LeNet gets wrong, at most MOST_WRONG."""
    wrong = result["misclassified"]
    some = f", {MOST_WRONG} of them" if len(wrong) > MOST_WRONG else ""
    axes.set_title(f"{len(wrong)} of {result['test_images']:,} are wrong{some}: label, then what LeNet says")
    axes.set_axis_off()
    wrong = wrong[:MOST_WRONG]
    if wrong:
        columns = next(n for n in (3, 4, 6) if n * (n - 1) >= len(wrong) or n == 6)
        titles = [f"{item['label']} \N{RIGHTWARDS ARROW} {item['predicted']}" for item in wrong]
        images = data.test_images[[item["index"] for item in wrong], 0]
        draw_tiles(axes, images, columns, gap=10, titles=titles, cmap="gray_r")


# ---- one image through LeNet -----------------------------------------------------------------------------

LAYERS = (
    "images",
    "conv1",
    "relu1",
    "pool1",
    "conv2",
    "relu2",
    "pool2",
    "fc1",
    "relu3",
    "fc2",
    "relu4",
    "logits",
)


def layers_picture(values: Mapping[str, np.ndarray], says: str) -> Figure:
    """What an image becomes in every layer (left), and the gradients that come back (right); see LAYERS."""
    shapes = [strip_of(values[name][0]).shape for name in LAYERS]
    heights = [0.06 if rows == 1 else min(rows / columns, 0.2) for rows, columns in shapes]
    figure = Figure(figsize=(11, 6.2 * sum(heights)), dpi=100, layout="constrained")
    grid = figure.subplots(len(LAYERS), 2, height_ratios=heights)
    for row, name in enumerate(LAYERS):
        for column, key in enumerate((name, f"grad_{name}")):
            axes = grid[row, column]
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(False)
            if key not in values:
                continue
            strip = strip_of(values[key][0])
            largest = np.nanmax(np.abs(strip)) or 1.0
            aspect = "equal" if values[key].ndim == 4 else "auto"
            axes.imshow(
                strip, cmap="PuOr", vmin=-largest, vmax=largest, aspect=aspect, interpolation="nearest"
            )
            axes.set_ylabel(key, rotation=0, ha="right", va="center", fontsize=9, color=INK)
    grid[0, 0].set_title(f"forward: {says}", fontsize=11, color=INK)
    grid[0, 1].set_title("backward", fontsize=11, color=INK)
    return figure


def strip_of(values: np.ndarray) -> np.ndarray:
    """Channels side by side with a gap; a vector as one row of numbers."""
    if values.ndim == 1:
        return values[np.newaxis]
    gap = np.full((values.shape[1], 1), np.nan)
    return np.hstack([part for channel in values for part in (channel, gap)][:-1])
