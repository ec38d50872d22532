"""`python streams.py` on a GPU: how long backward takes, beside its copies and kernels one after the other."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from backwarp.reference import conv

from ..errors import DeviceError


def main(backward: Callable, arguments: list[str] | None = None) -> None:
    """Prints the milliseconds; fails if the results are wrong."""
    parser = argparse.ArgumentParser(
        description="Measure puzzle 44's program on a GPU, on LeNet's second layer."
    )
    parser.add_argument("--images", type=int, default=16384)
    parser.add_argument("--chunk", type=int, default=2048)
    asked = parser.parse_args(arguments)
    try:
        import cupy as cp
        import cupyx
    except ImportError:
        raise SystemExit(str(DeviceError("this needs a GPU and CuPy: run `backwarp doctor`"))) from None
    from . import launch

    random, n = np.random.default_rng(0), asked.images
    shapes = {"images": (n, 6, 12, 12), "grad_output": (n, 16, 8, 8), "weights": (16, 6, 5, 5)}
    given = {name: cupyx.empty_pinned(shape, np.float32) for name, shape in shapes.items()}
    for array in given.values():
        array[...] = random.standard_normal(array.shape, np.float32)
    filled = [cupyx.empty_pinned(shapes[name], np.float32) for name in ("images", "weights")]

    def timed(work: Callable) -> float:
        """Milliseconds; the best of three, after one that compiles."""
        times = []
        for _ in range(4):
            cp.cuda.Device().synchronize()
            started = time.perf_counter()
            work()
            cp.cuda.Device().synchronize()
            times.append(1e3 * (time.perf_counter() - started))
        return min(times[1:])

    x, grad, w = (cp.empty(shape, cp.float32) for shape in shapes.values())
    grad_x, grad_w = cp.empty_like(x), cp.empty_like(w)
    parts = {
        "copies in": lambda: [a.set(b) for a, b in zip((x, grad, w), given.values())],
        "kernels": lambda: [
            launch("conv2d_backward_weights", grad, x, grad_w),
            launch("conv2d_backward_input", grad, w, grad_x),
        ],
        "copies out": lambda: [a.get(out=b) for a, b in zip((grad_x, grad_w), filled)],
    }
    times = {name: timed(work) for name, work in parts.items()}
    times["one after the other"] = sum(times.values())
    for array in filled:
        array[...] = np.nan
    times["backward"] = timed(lambda: backward(*given.values(), *filled, asked.chunk))
    for name, milliseconds in times.items():
        print(f"{name:20} {milliseconds:8.2f} ms")
    some = given["grad_output"][:64].astype(float)
    expected = conv.backward_input(some, given["weights"].astype(float), (len(some), 6, 12, 12))
    right = np.allclose(filled[0][:64], expected, rtol=1e-3, atol=1e-3)
    right &= np.allclose(filled[1], cp.asnumpy(grad_w), rtol=1e-2, atol=1e-2 * np.abs(filled[1]).max())
    if not right:
        raise SystemExit("the gradients are wrong")
