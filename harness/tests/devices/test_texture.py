"""What textures and surfaces are made of: CuPy's arguments, and CUDA's rules."""

from __future__ import annotations

import numpy as np
import pytest

from backwarp.devices import texture as tx
from backwarp.devices.texture import ChannelFormatDescriptor, CUDAarray, ResourceDescriptor, TextureDescriptor
from backwarp.errors import LaunchError
from tests.devices.virtual.launches import device

FLOATS = ChannelFormatDescriptor(32, 0, 0, 0, tx.FLOAT)
BYTES = ChannelFormatDescriptor(8, 8, 8, 8, tx.UNSIGNED)


def array(desc=FLOATS, *extents, flags=0) -> CUDAarray:
    return CUDAarray(desc, *extents, flags=flags, device=device("memory"))


def test_what_is_copied_in_comes_out():
    """In the shapes that CuPy asks for, and in those of texels."""
    image = array(BYTES, 3, 2)
    numbers = np.arange(24, dtype=np.uint8)
    for shape in ((2, 12), (2, 3, 4)):
        image.copy_from(numbers.reshape(shape))
        back = np.zeros(shape, np.uint8)
        image.copy_to(back)
        assert np.array_equal(back.ravel(), numbers)
    assert image.memory.shape == (2, 3, 4)
    assert array(FLOATS, 4, 4, 6, flags=tx.CUBE_MAP).memory.shape == (6, 4, 4)
    volume = CUDAarray.of(np.zeros((5, 4, 3, 2), np.float16), device=device("memory"), vector=True)
    assert (volume.width, volume.height, volume.depth, volume.desc.channels) == (3, 4, 5, 2)


def test_objects_that_are_the_same_have_one_number_and_others_have_not():
    image = array(FLOATS, 4, 4, flags=tx.SURFACE)
    resource = ResourceDescriptor(tx.ARRAY, cuArr=image)
    point, linear = (tx.TextureObject(resource, TextureDescriptor(filterMode=mode)).ptr for mode in (0, 1))
    again = tx.TextureObject(resource, TextureDescriptor()).ptr
    assert point == again != linear != tx.SurfaceObject(resource).ptr


def linear(nbytes: int = 64, restype: int = tx.LINEAR_MEMORY, **more) -> ResourceDescriptor:
    memory = device("memory").array(np.zeros(16, np.float32))
    return ResourceDescriptor(restype, None, memory, FLOATS, nbytes, **more)


def texture(desc, **how):
    return tx.TextureObject(ResourceDescriptor(tx.ARRAY, cuArr=array(desc, 4)), TextureDescriptor(**how))


REFUSED = {
    "a texel has 1, 2 or 4 channels": lambda: ChannelFormatDescriptor(32, 32, 32, 0, tx.FLOAT),
    "a floating-point one of 16 or 32": lambda: ChannelFormatDescriptor(8, 0, 0, 0, tx.FLOAT),
    "kind -1": lambda: ChannelFormatDescriptor.of(np.complex64),
    "it is too large, or has none": lambda: array(FLOATS, 0),
    "it has layers, or three extents": lambda: array(FLOATS, 4, 0, 4),
    "six square faces": lambda: array(FLOATS, 4, 4, 5, flags=tx.CUBE_MAP),
    "no sparse or deferred": lambda: array(FLOATS, 4, flags=64),
    "24 elements of float32 for a CUDA array of 4 of float32": lambda: array(FLOATS, 4).copy_from(
        np.zeros(24, np.float32)
    ),
    "needs cuArr": lambda: ResourceDescriptor(tx.ARRAY),
    "no mipmapped arrays": lambda: ResourceDescriptor(1),
    "needs arr, an array of the device": lambda: ResourceDescriptor(tx.LINEAR_MEMORY),
    "takes 68 bytes; its array has 64": lambda: linear(68),
    "a pitch of 20 bytes": lambda: linear(restype=tx.PITCH_2D, width=4, height=2, pitchInBytes=20),
    "takes 80 bytes": lambda: linear(restype=tx.PITCH_2D, width=4, height=3, pitchInBytes=32),
    "address modes": lambda: TextureDescriptor((7,)),
    "filtered by POINT or LINEAR": lambda: TextureDescriptor(filterMode=2),
    "sRGB": lambda: TextureDescriptor(sRGB=1),
    "linear filtering needs": lambda: texture(BYTES, filterMode=tx.LINEAR),
    "cannot be read as normalised floats": lambda: texture(
        ChannelFormatDescriptor.of("i4"), readMode=tx.NORMALIZED_FLOAT
    ),
    "cudaArraySurfaceLoadStore": lambda: tx.SurfaceObject(
        ResourceDescriptor(tx.ARRAY, cuArr=array(FLOATS, 4))
    ),
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_cuda_does_not_have(says):
    with pytest.raises(LaunchError, match=says):
        REFUSED[says]()
