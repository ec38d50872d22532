"""The kernels of `collection`, and those of the neighbouring tests, as NVIDIA's assembler takes them."""

from __future__ import annotations

import os
import subprocess
from functools import cache

import numpy as np
import pytest

from backwarp.devices.nvrtc import ptxas
from backwarp.errors import KernelFault
from tests.devices.virtual.emit.test_bulk_copies import _loads, _stores
from tests.devices.virtual.emit.test_products_of_groups import F32
from tests.devices.virtual.hopper import rings
from tests.devices.virtual.hopper.collection import RIGHT, WRONG, source
from tests.devices.virtual.launches import device

SOLUTION = rings.INCLUDE.parents[1] / "solutions" / "36_hopper" / "kernel.cu"
_RIGHT = source({name: kernel.body for name, kernel in RIGHT.items()})


@cache
def _wrong() -> tuple[str, dict[str, str]]:
    bodies = {}
    for number, wrong in enumerate(WRONG.values()):
        right = RIGHT[wrong.of].body
        assert right.count(wrong.old), wrong
        bodies[f"wrong_{number}"] = right.replace(wrong.old, wrong.new)
    return source(bodies), dict(zip(WRONG, bodies))


def _run(text: str, name: str, order: int, checks: str) -> KernelFault | tuple[np.ndarray, np.ndarray]:
    """The fault, or (x, y)."""
    dev = device(checks)
    before, dev.schedule = dev.schedule, order
    try:
        x, y = (
            dev.array(values.astype(np.float32), n)
            for n, values in zip("xy", (np.arange(4096), np.zeros(4096)))
        )
        maps = (dev.tensor_map(array, (16, 32), shape=(16, 32)) for array in (x, y))
        dev.compile(text, include_dirs=(rings.INCLUDE,)).get_function(name)(1, 128, (y, x, *maps))
        return x.get(), y.get()
    except KernelFault as fault:
        return fault
    finally:
        dev.schedule = before


@pytest.mark.parametrize(
    "checks", ["full", pytest.param("memory", marks=pytest.mark.soak)]
)  # a second compilation
def test_right_kernels_are_exact_and_silent(checks):
    for name, kernel in RIGHT.items():
        for order in (0, 1, 2):
            found = _run(_RIGHT, name, order, checks)
            assert not isinstance(found, KernelFault), f"{name}: {found}"
            wanted = kernel.wanted(found[0])
            np.testing.assert_array_equal(found[1][: len(wanted)], wanted, name)


@pytest.mark.parametrize("name", WRONG)
def test_what_breaks_a_rule_is_named_by_line(name):
    text, names = _wrong()
    wrong, lines = WRONG[name], ["", *text.splitlines()]
    for order in wrong.orders:
        found = _run(text, names[name], order, "full")
        assert isinstance(found, KernelFault) and found.kind in wrong.kinds.split()
        others = [found.other.line] if found.other else []
        assert any(wrong.line in lines[line] for line in (found.line, *others))


@pytest.mark.soak  # compiles all of them once more
def test_the_assembler_takes_them_and_repairs_nothing(tmp_path):
    """Its notes C75xx say where it puts waits between products."""
    program, taken = ptxas.find(), 0
    texts = [
        _RIGHT,
        _loads(),
        _stores(),
        rings.SOURCE.read_text(),
        SOLUTION.read_text(),
        *(p.text for p in F32),
    ]
    for number, text in enumerate(texts):
        module = device("memory").compile(text, include_dirs=(rings.INCLUDE,))
        path = tmp_path / f"{number}.ptx"
        path.write_text(module.compiled.text)
        command = [program or "ptxas", "-v", "-arch=sm_90a", str(path), "-o", os.devnull]
        if (
            not program
            or "Unsupported .version"
            in (done := subprocess.run(command, capture_output=True, text=True)).stderr
        ):
            pytest.skip("no ptxas, or an old one")
        assert done.returncode == 0, done.stderr
        assert "C75" not in done.stderr + done.stdout
        taken += len(module.functions)
    assert taken >= 60
