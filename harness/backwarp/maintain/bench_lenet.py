"""How fast LeNet trains on the virtual GPU: `python -m backwarp.maintain.bench_lenet [--batch 64] [--json FILE|-]`.

Measures one step (copy a batch to the device, forward, backward, update, copy the loss back) with the
solutions' kernels on all cores, kernel by kernel, and the cost of an empty launch. If PyTorch is installed,
its step is measured alternately, on the same cores with the same parameters and images. Each figure is the
best of several runs, in wall time and in processor time over all cores, which depends less on how busy the
machine is.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import click
import numpy as np

from backwarp.reference import lenet

from ..devices.virtual.device import VirtualGPU
from ..devices.virtual.run.workers import available_cores
from ..lenet.checks import solution_net
from ..lenet.data import load
from ..lenet.training_checks import MOMENTUM, PEAK, WEIGHT_DECAY

ROUNDS, LAUNCHES = 30, 300

_EMPTY = 'extern "C" __global__ void empty(const float* a, float* b, int n) {}'
#: multiply-adds per image and launch: LeNet's two convolutions and three fully connected layers
CONV1, CONV2, FC = 24 * 24 * 6 * 25, 8 * 8 * 16 * 6 * 25, (256 * 120, 120 * 84, 84 * 10)
MULTIPLY_ADDS = {
    "conv2d_forward": CONV1 + CONV2,
    "conv2d_backward_weights": CONV1 + CONV2,
    "conv2d_backward_input": CONV2,
    "fc_forward": sum(FC),
    "fc_backward_weights": sum(FC),
    "fc_backward_input": sum(FC),
}


class LeNetOnVirtualGPU:
    """LeNet on the kernels of part 1; `step()` trains one batch and returns its loss."""

    def __init__(self, cores: int, images: np.ndarray, labels: np.ndarray):
        self.device = VirtualGPU("none", cores=cores)
        self.net, self.batch = solution_net(self.device, {}, lenet.initial()), (images, labels)

    def step(self) -> float:
        net = self.net
        net.load(*self.batch)
        with net.together():
            net.forward()
            net.backward()
            net.program["update"](net, PEAK)
        return float(net.loss.get()[0])


class InPyTorch:
    """The same network in PyTorch, eager, on the CPU. Errors: ImportError where there is no PyTorch."""

    def __init__(self, cores: int, images: np.ndarray, labels: np.ndarray):
        # otherwise its idle threads would spin while ours work
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        import torch

        torch.set_num_threads(cores)
        self.torch, self.name = torch, f"PyTorch {torch.__version__}"
        self.p = {name: torch.tensor(values, requires_grad=True) for name, values in lenet.initial().items()}
        self.images, self.labels = torch.tensor(images), torch.tensor(labels).long()
        self.optimiser = torch.optim.SGD(self.p.values(), PEAK, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)

    def step(self) -> float:
        f, p = self.torch.nn.functional, self.p
        self.optimiser.zero_grad()
        x = self.images
        for layer in ("conv1", "conv2"):
            x = f.max_pool2d(f.relu(f.conv2d(x, p[f"{layer}_weights"], p[f"{layer}_bias"])), 2)
        x = x.flatten(1)
        for layer in ("fc1", "fc2"):
            x = f.relu(f.linear(x, p[f"{layer}_weights"], p[f"{layer}_bias"]))
        loss = f.cross_entropy(f.linear(x, p["fc3_weights"], p["fc3_bias"]), self.labels)
        loss.backward()
        self.optimiser.step()
        return loss.item()


class Timer:
    """The best time and the best processor time of a piece of work, both in milliseconds."""

    def __init__(self, work: Callable):
        self.work, self.wall, self.processor = work, float("inf"), float("inf")

    def run(self) -> None:
        wall, processor = time.perf_counter(), time.process_time()
        self.work()
        self.wall = min(self.wall, 1e3 * (time.perf_counter() - wall))
        self.processor = min(self.processor, 1e3 * (time.process_time() - processor))

    def figures(self) -> dict:
        return {"ms": self.wall, "processor_ms": self.processor}


def measure(batch: int, cores: int) -> dict:
    """The figures of one run, in JSON's types."""
    data = load()
    images, labels = data.train_images[:batch], data.train_labels[:batch]
    ours = LeNetOnVirtualGPU(cores, images, labels)
    runners = {"virtual_gpu": ours}
    with suppress(ImportError):
        runners["pytorch"] = InPyTorch(cores, images, labels)
    losses = {name: [runner.step() for _ in range(3)] for name, runner in runners.items()}
    if not all(np.allclose(found, losses["virtual_gpu"], rtol=1e-3) for found in losses.values()):
        raise SystemExit(f"the first losses do not agree: {losses}")
    ours.net.compile_for_sizes()
    kernels = kernel_times(ours)
    timers = {name: Timer(runner.step) for name, runner in runners.items()}
    for _ in range(ROUNDS):
        for timer in timers.values():
            timer.run()
    report = {"batch": batch, "cores": cores, **{name: timer.figures() for name, timer in timers.items()}}
    if "pytorch" in timers:
        report["pytorch"]["version"] = runners["pytorch"].name
        for key in ("ms", "processor_ms"):
            report[f"times_pytorch_{key}"] = report["virtual_gpu"][key] / report["pytorch"][key]
    return {**report, "kernels": kernels, "launch_us": launch_costs(ours.device, cores)}


def kernel_times(ours: LeNetOnVirtualGPU) -> list[dict]:
    """Per kernel: launches per step, their best time in ms, and 10^9 multiply-adds per second."""
    net, best = ours.net, {}
    for _ in range(ROUNDS):
        net.timing = {role: [0, 0.0] for role in net.timing}
        ours.step()
        best = {role: min(seconds, best.get(role, seconds)) for role, (_, seconds) in net.timing.items()}
    rows = []
    for role, seconds in best.items():
        row = {"kernel": role, "launches": net.timing[role][0], "ms": 1e3 * seconds}
        if role in MULTIPLY_ADDS:
            row["gmacs"] = MULTIPLY_ADDS[role] * len(ours.batch[1]) / seconds / 1e9
        rows.append(row)
    return rows


def launch_costs(device: VirtualGPU, cores: int) -> dict:
    """Microseconds of an empty launch: with one block, and with blocks for every core."""
    kernel = device.compile(_EMPTY).get_function("empty")
    arrays = device.array(np.zeros(1, np.float32)), device.empty((1,))
    costs = {}
    for name, grid in (("one block", 1), ("all cores", 32 * cores)):
        timer = Timer(partial(kernel, grid, 128, (*arrays, np.int32(1))))
        for _ in range(LAUNCHES):
            timer.run()
        costs[name] = 1e3 * timer.wall
    return costs


def lines(report: dict) -> list[str]:
    """The report as text."""
    told = [f"One step of LeNet at batch {report['batch']}, {report['cores']} cores: best of {ROUNDS}"]
    for name, title in (("virtual_gpu", "virtual GPU"), ("pytorch", "PyTorch")):
        if name in report:
            row = report[name]
            name = row.get("version", title)
            told.append(f"  {name:24} {row['ms']:8.2f} ms   processor {row['processor_ms']:8.2f} ms")
    if "pytorch" in report:
        wall, processor = report["times_pytorch_ms"], report["times_pytorch_processor_ms"]
        told.append(f"  {wall:.1f} times PyTorch's time, {processor:.1f} times its processor time")
    else:
        told.append("  PyTorch is not installed")
    told.append("Kernel by kernel, all its launches of a step together")
    for row in sorted(report["kernels"], key=lambda row: -row["ms"]):
        rate = f"{row['gmacs']:6.2f} x 10^9 multiply-adds/s" if "gmacs" in row else ""
        told.append(f"  {row['kernel']:32} {row['launches']:3} x {row['ms']:8.3f} ms {rate}")
    rest = report["virtual_gpu"]["ms"] - sum(row["ms"] for row in report["kernels"])
    told.append(f"  {'copies, Python':32} {'':5} {rest:8.3f} ms")
    costs = ", ".join(f"{cost:.0f} microseconds ({name})" for name, cost in report["launch_us"].items())
    told.append(f"A launch of an empty kernel: {costs}")
    return told


@click.command()
@click.option("--batch", default=64, show_default=True, type=click.IntRange(1, 1438))
@click.option(
    "--json", "target", metavar="FILE|-", help="Write the figures as JSON to FILE, or to standard output."
)
def main(batch: int, target: str | None) -> None:
    """Measure LeNet's training step on this machine."""
    report = {
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        **measure(batch, available_cores()),
    }
    if target == "-":
        json.dump(report, sys.stdout, indent=2)
        print()
        return
    if target:
        Path(target).write_text(json.dumps(report, indent=2) + "\n")
    print("\n".join(lines(report)))


if __name__ == "__main__":
    main()
