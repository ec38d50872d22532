"""What the driver's encoder is given for a tensor map; the encoder itself runs on a GPU alone."""

from __future__ import annotations

import numpy as np
import pytest
from cuda.bindings import driver

from backwarp.devices.gpu.tensor_maps import encoded
from backwarp.devices.tensor_map import TYPES
from backwarp.errors import LaunchError
from tests.devices.virtual.launches import device


@pytest.fixture
def calls(monkeypatch):
    found = []

    def encoder(name: str, code: int = 0):
        def encode(*arguments):
            found.append((name, arguments))
            made = driver.CUtensorMap()
            made.opaque = [driver.cuuint64_t(n) for n in range(16)]
            return driver.CUresult(code), made

        return encode

    for name in ("cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col"):
        monkeypatch.setattr(driver, name, encoder(name))
    found.append(lambda code: monkeypatch.setattr(driver, "cuTensorMapEncodeTiled", encoder("", code)))
    return found


def plain(value):
    if isinstance(value, list):
        return [plain(each) for each in value]
    return int(value)


def test_tiles_are_described_innermost_first(calls):
    dev = device("memory")
    x = dev.array(np.zeros((3, 5, 64), np.float16), "x")
    made = encoded(4096, dev.tensor_map(x, (1, 4, 64), "128B", (2, 1, 1), "nan").fields)
    name, (type_, rank, address, *rest) = calls[1]
    assert (name, plain(type_), rank, address) == ("cuTensorMapEncodeTiled", 6, 3, 4096)
    wanted = [[64, 5, 3], [128, 640], [64, 4, 1], [1, 1, 2], 0, 3, 2, 1]
    assert plain(rest) == wanted  # extents, strides, box, steps; interleave, swizzle, L2, what lies outside
    assert np.frombuffer(made.tobytes(), np.uint64).tolist() == list(range(16))


def test_so_are_pixels(calls):
    dev = device("memory")
    x = dev.array(np.zeros((2, 9, 8, 16), np.float32), "x")
    encoded(4096, dev.tensor_map_im2col(x, 16, 32, (-1, -2), (0, 1), "64B", (2, 3)).fields)
    name, (_, rank, _, extents, strides, lower, upper, *rest) = calls[1]
    assert (name, rank, plain(extents), plain(strides)) == (
        "cuTensorMapEncodeIm2col",
        4,
        [16, 8, 9, 2],
        [64, 512, 4608],
    )
    assert (lower, upper, plain(rest)) == ([-2, -1], [1, 0], [16, 32, [1, 3, 2, 1], 0, 2, 2, 0])


def test_what_the_driver_refuses_is_told(calls):
    calls[0](1)
    dev = device("memory")
    with pytest.raises(LaunchError, match="CUDA_ERROR_INVALID_VALUE"):
        encoded(4096, dev.tensor_map(dev.array(np.zeros((8, 8), np.float32), "x"), (8, 8)).fields)


def test_the_types_are_numbered_as_the_driver_does():
    names = [each.name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_") for each in driver.CUtensorMapDataType]
    assert list(TYPES.values()) == names[: len(TYPES)]
