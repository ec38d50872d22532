"""Kernels of the kinds that real code is made of, each with the answers that NumPy gives.

`NAME.cu` holds the kernels; a function NAME in one of the modules beside it, marked with `@sample`, makes a
Job: what is launched, with which arguments, and what has to come out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np

MODULES = ("scans", "sorting", "products", "images", "physics", "rows", "hashes", "graphs")


@dataclass(frozen=True)
class Launch:
    """args: names of the job's arrays and scalars, in order."""

    kernel: str
    grid: object
    block: object
    args: str
    shared: int = 0


@dataclass
class Job:
    """inputs may only be read. outputs: what is expected; they start as poison. state: (before, expected after);
    None is not looked at. Whole numbers have to be exact, others to lie within atol + rtol * |expected|.
    """

    launches: list[Launch]
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: dict[str, np.ndarray] = field(default_factory=dict)
    state: dict[str, tuple] = field(default_factory=dict)
    scalars: dict[str, object] = field(default_factory=dict)
    rtol: float = 1e-5
    atol: float = 1e-6
    check: Callable[[dict], None] | None = None  # more to ask of the results

    @property
    def expected(self) -> dict[str, np.ndarray]:
        after = {name: after for name, (_, after) in self.state.items()}
        return {name: values for name, values in (self.outputs | after).items() if values is not None}


@dataclass(frozen=True)
class Sample:
    """cases: keywords of `make(rng, **case) -> Job`. expressions: template instances to compile."""

    name: str
    make: Callable[..., Job]
    cases: tuple[dict, ...]
    expressions: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return (Path(__file__).parent / f"{self.name}.cu").read_text()

    def job(self, case: dict, seed: int = 0) -> Job:
        return self.make(np.random.default_rng(seed), **case)


SAMPLES: dict[str, Sample] = {}


def sample(*cases: dict, expressions: tuple[str, ...] = ()):
    def register(make):
        SAMPLES[make.__name__] = Sample(make.__name__, make, cases, expressions)
        return make

    return register


def compile_sample(device, entry: Sample, source: str = ""):
    return device.compile(source or entry.source, name=f"{entry.name}.cu", name_expressions=entry.expressions)


def run(job: Job, device, module) -> tuple[dict[str, np.ndarray], list]:
    """Launch everything; returns the outputs and the state afterwards, and the notes."""
    arrays = {name: device.array(x, name=name, readonly=True) for name, x in job.inputs.items()}
    arrays |= {name: device.empty(x.shape, x.dtype, name=name) for name, x in job.outputs.items()}
    arrays |= {name: device.array(before, name=name) for name, (before, _) in job.state.items()}
    notes = []
    for launch in job.launches:
        args = tuple((arrays | job.scalars)[name] for name in launch.args.split())
        notes += module.get_function(launch.kernel)(launch.grid, launch.block, args, launch.shared).notes
    return {name: arrays[name].get() for name in (*job.outputs, *job.state)}, notes


def compare(job: Job, got: dict[str, np.ndarray]) -> None:
    """AssertionError where the results are not those expected."""
    for name, expected in job.expected.items():
        if expected.dtype.kind in "iub":
            np.testing.assert_array_equal(got[name], expected, err_msg=name)
        else:
            np.testing.assert_allclose(got[name], expected, rtol=job.rtol, atol=job.atol, err_msg=name)
    if job.check:
        job.check(got)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def i32(**values: int) -> dict[str, np.int32]:
    """Scalars of C's int."""
    return {name: np.int32(value) for name, value in values.items()}


for _name in MODULES:
    import_module(f"{__name__}.{_name}")
