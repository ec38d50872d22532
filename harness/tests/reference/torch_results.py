"""PyTorch's results for 300 convolutions, for tests where PyTorch is not installed.

`python -m tests.reference.torch_results`, where it is, writes `torch_results.npz`. The arrays hold small
integers, so every sum is exact in float32 and the results are kept as integers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import numpy as np

from backwarp.course.inputs import small_integers
from tests.convolutions import Layer, layer, mask

FILE = Path(__file__).with_name("torch_results.npz")
OF_A_KIND = 150  # convolutions, and as many transposed ones

Mask = tuple[bool, bool, bool]


def arrays(layer: Layer, output_shape: tuple[int, ...], seed: int) -> list[np.ndarray]:
    """input, weight, bias, grad_output."""
    rng = np.random.default_rng(seed)
    shapes = layer.input, layer.weight, (layer.output_channels,), output_shape
    return [small_integers(rng, shape, "float32") for shape in shapes]


def stored() -> Iterator[tuple[Layer, Mask, int, list[np.ndarray | None]]]:
    """(layer, output_mask, seed, [output, grad_input, grad_weight, grad_bias]), float32; None: not wanted."""
    with np.load(FILE) as file:
        table, values = json.loads(file["layers"].tobytes()), file["values"].astype(np.float32)
    start = 0
    for seed, (fields, wanted, shapes) in enumerate(table):
        one = Layer(*(tuple(f) if isinstance(f, list) else f for f in fields))
        results = []
        for shape in shapes:
            size = int(np.prod(shape)) if shape else 0
            results.append(values[start : start + size].reshape(shape) if shape else None)
            start += size
        yield one, tuple(wanted), seed, results


def drawn() -> list[tuple[Layer, Mask]]:
    rng = np.random.default_rng(0)
    return [(layer(rng, transposed), mask(rng)) for transposed in (False, True) for _ in range(OF_A_KIND)]


def main() -> None:
    import torch

    table, values = [], []
    for seed, (one, wanted) in enumerate(drawn()):
        x, w, b, _ = (torch.from_numpy(a) for a in arrays(one, (1,), seed))
        output = torch.ops.aten.convolution(x, w, b, *one.aten)
        shape = tuple(output.shape)
        grad = torch.from_numpy(arrays(one, shape, seed)[3])
        options = [one.output_channels], *one.aten, wanted
        results = [output, *torch.ops.aten.convolution_backward(grad, x, w, *options)]
        results = [None if r is None or not want else r.numpy() for r, want in zip(results, (True, *wanted))]
        table.append((astuple(one), wanted, [None if r is None else r.shape for r in results]))
        values += [r.ravel() for r in results if r is not None]
    whole = np.concatenate(values).astype(np.int16)
    assert np.array_equal(whole, np.concatenate(values))
    text = np.frombuffer(json.dumps(table, separators=(",", ":")).encode(), np.uint8)
    np.savez_compressed(FILE, layers=text, values=whole)
    print(f"{FILE}: {len(table)} convolutions, {whole.size} numbers, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
