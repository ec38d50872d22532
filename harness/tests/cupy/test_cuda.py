"""Devices, streams and events, which do everything at once and in order; and `import cupy`."""

from __future__ import annotations

import sys

import pytest

from backwarp.cupy import errors


def test_streams_and_events(cp):
    seen = []
    with cp.cuda.Device(0) as device, cp.cuda.Stream(non_blocking=True) as stream:
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        x = cp.arange(4) + 1
        stream.launch_host_func(seen.append, int(x.sum()))
        end.record(stream)
        stream.wait_event(end)
        stream.synchronize()
        end.synchronize()
        device.synchronize()
    assert seen == [10] and start.done and cp.cuda.get_elapsed_time(start, end) >= 0
    assert cp.cuda.Stream.null.record().done and cp.cuda.get_current_stream().ptr == 0
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError):
        cp.cuda.get_elapsed_time(start, cp.cuda.Event())


def test_one_device(cp):
    runtime = cp.cuda.runtime
    assert cp.is_available() and cp.cuda.is_available() and runtime.getDeviceCount() == 1
    assert cp.cuda.Device().compute_capability == "80" and cp.ones(1).device == cp.cuda.Device(0)
    assert runtime.getDeviceProperties(0)["warpSize"] == 32
    assert cp.cuda.Device(0).attributes["MultiProcessorCount"] > 0
    with pytest.raises(runtime.CUDARuntimeError):
        cp.cuda.Device(1).use()


def test_memory(cp):
    pool = cp.get_default_memory_pool()
    x = cp.zeros(1000, cp.float64)
    assert pool.used_bytes() >= x.nbytes == 8000
    pool.free_all_blocks()
    assert cp.cuda.runtime.memGetInfo()[1] > 1 << 20
    with pytest.raises(cp.cuda.memory.OutOfMemoryError):
        cp.empty(1 << 50, cp.uint8)


@pytest.fixture
def installed(cp):
    assert "cupy" not in sys.modules
    cp.install()
    yield cp
    cp.uninstall()
    assert "cupy" not in sys.modules


def test_install(installed):
    import cupy
    import cupy.cuda.runtime
    from cupy.cuda import Stream
    from cupy.cuda.memory import OutOfMemoryError
    from cupy.lib.stride_tricks import as_strided
    from cupy.linalg import norm
    from cupy.random import rand
    from cupy.testing import assert_allclose

    assert (
        cupy is installed and Stream is installed.cuda.Stream and OutOfMemoryError is errors.OutOfMemoryError
    )
    x = rand(3, dtype=cupy.float32)
    assert x.dtype == "float32" and as_strided(x, (2, 2), (4, 4))[1, 1] == x[2]
    assert_allclose(norm(x) ** 2, (x * x).sum(), rtol=1e-5)
    with pytest.raises(AssertionError):
        assert_allclose(x, x + 1)
    with pytest.raises(RuntimeError):
        installed.install("memory")


def test_what_is_not_there(cp):
    with pytest.raises(AttributeError, match="jit"):
        cp.jit  # noqa: B018
