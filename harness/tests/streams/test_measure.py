"""The solution with CuPy's names as they are elsewhere: on the virtual GPU of this process, which does everything in order."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from backwarp import cupy, streams
from backwarp.lenet.checks import this_course
from backwarp.streams.checks import launches_on
from backwarp.streams.measure import main
from tests.devices.virtual.launches import device


@pytest.fixture
def backward(monkeypatch):
    """The solution's function, with `import cupy` as on a GPU."""
    launches = launches_on(device("memory"))

    def launch(kernel, arrays):
        for position, values in launches(kernel, [a.get() for a in arrays], {}).items():
            arrays[position].set(values)

    cupy.install()
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(empty_pinned=np.empty))
    monkeypatch.setattr(streams, "elsewhere", launch)
    names: dict = {"__name__": "streams"}
    exec(this_course().load("44").solution_path.read_text(encoding="utf-8"), names)
    yield names["backward"]
    cupy.uninstall()


def test_it_is_measured_beside_its_parts(backward, capsys):
    main(backward, ["--images", "20", "--chunk", "8"])
    told = [line.rsplit(maxsplit=2)[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert told == ["copies in", "kernels", "copies out", "one after the other", "backward"]


def test_wrong_gradients_are_not_measured(backward):
    def without_the_last(images, grad_output, weights, grad_images, grad_weights, chunk):
        backward(images[:-1], grad_output[:-1], weights, grad_images[:-1], grad_weights, chunk)
        grad_weights *= 2

    with pytest.raises(SystemExit, match="the gradients are wrong"):
        main(without_the_last, ["--images", "20", "--chunk", "8"])
