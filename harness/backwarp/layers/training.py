"""The training at the end of puzzle 40's file: `python layers.py`, on the virtual GPU or, with `--device
cuda`, a GPU."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from ..lenet import data
from ..lenet.train import Settings, batches
from ..tensors import chosen

RATES = (0.05, 0.05, 0.03, 0.02, 0.01, 0.005)  # per epoch; the last one continues


def main(lenet: Callable, train: Callable, arguments: list[str] | None = None) -> float:
    """Trains lenet() with train(model, batches, rate); prints and returns the share of unseen digits it reads."""
    parser = argparse.ArgumentParser(description="Train LeNet on your own layers.")
    parser.add_argument("--device", default="cpu", help="cpu (the virtual GPU) or cuda; default: cpu")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    chosen_by_user = parser.parse_args(arguments)
    device, digits = torch.device(chosen_by_user.device), data.load("digits")
    settings = Settings(batch=chosen_by_user.batch, seed=chosen_by_user.seed)
    print("kernels:", ", ".join(sorted({choice.origin for choice in chosen().values()})))
    torch.manual_seed(settings.seed)
    model, share = lenet().to(device), 0.0
    for epoch in range(chosen_by_user.epochs):
        started, rate = time.perf_counter(), RATES[min(epoch, len(RATES) - 1)]
        losses = train(model, [on(device, *pair) for pair in batches(digits, settings, epoch)], rate)
        share = accuracy(model, *on(device, digits.test_images, digits.test_labels))
        print(
            f"epoch {epoch + 1}: mean loss {sum(losses) / max(len(losses), 1):.3f}, "
            f"test accuracy {share:.1%}, {time.perf_counter() - started:.1f} s",
            flush=True,
        )
    return share


def on(device: torch.device, images, labels) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(images, device=device), torch.tensor(labels, device=device, dtype=torch.int64)


def accuracy(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()
