"""Textures and surfaces with CuPy's interface (`cupy.cuda.texture`): the same names, arguments and constants.

    channel = ChannelFormatDescriptor(32, 0, 0, 0, FLOAT)
    image = CUDAarray(channel, width=64, height=48, device=dev)
    image.copy_from(numbers)                            # a NumPy array, height x width
    texture = TextureObject(ResourceDescriptor(ARRAY, cuArr=image), TextureDescriptor((CLAMP, CLAMP), LINEAR))
    kernel((4, 3), (16, 16), (texture, out))

The only difference: a CUDAarray takes its device.

Source: CUDA Runtime API, texture and surface object management; CUDA C++ Programming Guide, "Texture Memory".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ..arrays import Empty
from ..errors import LaunchError

SIGNED, UNSIGNED, FLOAT = range(3)  # cudaChannelFormatKind...
ARRAY, LINEAR_MEMORY, PITCH_2D = 0, 2, 3  # cudaResourceType...
WRAP, CLAMP, MIRROR, BORDER = range(4)  # cudaAddressMode...
POINT, LINEAR = range(2)  # cudaFilterMode...
ELEMENT_TYPE, NORMALIZED_FLOAT = range(2)  # cudaReadMode...
LAYERED, SURFACE, CUBE_MAP, GATHER = 1, 2, 4, 8  # cudaArray...
_PITCH = 32  # bytes; the pitch of a two-dimensional texture is a multiple of this
_LETTERS = {SIGNED: "i", UNSIGNED: "u", FLOAT: "f"}


@dataclass(frozen=True)
class ChannelFormatDescriptor:
    """A texel: the bits of each channel, and their kind. Errors: LaunchError for formats that CUDA does not
    have."""

    x: int
    y: int
    z: int
    w: int
    f: int

    def __post_init__(self):
        sizes = [n for n in (self.x, self.y, self.z, self.w) if n]
        good = (self.x, self.y, self.z, self.w) == (*sizes, *[0] * (4 - len(sizes)))
        good &= len(sizes) in (1, 2, 4) and len(set(sizes)) == 1 and self.f in _LETTERS
        if not good or sizes[0] not in ((16, 32) if self.f == FLOAT else (8, 16, 32)):
            raise _invalid(
                "a texel has 1, 2 or 4 channels of 8, 16 or 32 bits each, a floating-point one of 16 or 32;"
                f" this one is ({self.x}, {self.y}, {self.z}, {self.w}), kind {self.f}"
            )

    @property
    def channels(self) -> int:
        return sum(1 for n in (self.x, self.y, self.z, self.w) if n)

    @property
    def dtype(self) -> np.dtype:
        """The type of a channel."""
        return np.dtype(f"{_LETTERS[self.f]}{self.x // 8}")

    @property
    def nbytes(self) -> int:
        return self.channels * self.dtype.itemsize

    @classmethod
    def of(cls, dtype, channels: int = 1) -> ChannelFormatDescriptor:
        """Texels with this many channels of a NumPy type."""
        dtype = np.dtype(dtype)
        kind = {letter: kind for kind, letter in _LETTERS.items()}.get(dtype.kind, -1)
        return cls(*[8 * dtype.itemsize if i < channels else 0 for i in range(4)], kind)


class CUDAarray:
    """Device memory for textures and surfaces, whose texels a kernel cannot address directly. Initially
    unset.

    flags: LAYERED, CUBE_MAP, SURFACE (what surfaces need), GATHER (what tex2Dgather() needs). name: for messages.
    """

    def __init__(self, desc, width, height=0, depth=0, flags=0, *, device, name="array"):
        if not 0 < width < 1 << 17 or not 0 <= height < 1 << 17 or not 0 <= depth < 1 << 14:
            raise _invalid(
                f"a CUDA array of {width} x {height} x {depth} texels: it is too large, or has none"
            )
        layered = bool(flags & LAYERED)
        if flags & ~(LAYERED | SURFACE | CUBE_MAP | GATHER):
            raise _invalid("the virtual GPU has no sparse or deferred CUDA arrays")
        if depth and not (height or layered) or layered and not depth:
            raise _invalid("the depth of a CUDA array: it has layers, or three extents")
        if flags & CUBE_MAP and (width != height or depth % 6 or not depth or depth > 6 and not layered):
            raise _invalid("a cube map has six square faces, and layers of cube maps six each")
        layered |= bool(flags & CUBE_MAP)
        self.desc, self.width, self.height, self.depth, self.flags = desc, width, height, depth, flags
        self.layers = depth if layered else 0
        extents = {"z": 0 if layered else depth, "y": height, "x": width}
        self.ndim = sum(map(bool, extents.values()))
        axes = "l" * layered + "".join(axis for axis, n in extents.items() if n)
        shape = [n for n in (self.layers, *extents.values()) if n]
        if desc.channels > 1:
            axes, shape = axes + "c", [*shape, desc.channels]
        self.memory = device.empty(tuple(shape), desc.dtype, name=name, axes=axes)

    @classmethod
    def of(cls, data: np.ndarray, flags=0, *, device, name="array", vector: bool = False) -> CUDAarray:
        """A CUDA array holding `data`, of one to three dimensions; with LAYERED, layers come first. vector:
        the last axis holds a texel's channels.
        """
        *shape, channels = data.shape if vector else (*data.shape, 1)
        depth, height, width = (*[0] * (3 - len(shape)), *shape)[-3:]
        if flags & (LAYERED | CUBE_MAP) and not depth:
            depth, height = height, 0
        made = cls(
            ChannelFormatDescriptor.of(data.dtype, channels),
            width,
            height,
            depth,
            flags,
            device=device,
            name=name,
        )
        if not isinstance(data, Empty):
            made.copy_from(data)
        return made

    def copy_from(self, in_arr, stream=None) -> None:
        """Copies from a NumPy array with as many elements, a texel's channels side by side: `height x
        (channels * width)`."""
        self.memory.set(np.reshape(_of_size(in_arr, self.memory), self.memory.shape))

    def copy_to(self, out_arr, stream=None) -> None:
        """Copies into such an array."""
        _of_size(out_arr, self.memory)[...] = self.memory.get().reshape(out_arr.shape)


@dataclass(frozen=True)
class ResourceDescriptor:
    """The memory of a texture: a CUDA array (ARRAY), or a device array as linear memory for tex1Dfetch()
    (LINEAR_MEMORY) or row by row (PITCH_2D)."""

    restype: int
    cuArr: CUDAarray | None = None  # noqa: N815
    arr: object = None
    chDesc: ChannelFormatDescriptor | None = None  # noqa: N815
    sizeInBytes: int = 0  # noqa: N815
    width: int = 0
    height: int = 0
    pitchInBytes: int = 0  # noqa: N815

    def __post_init__(self):
        if self.restype == ARRAY:
            if not isinstance(self.cuArr, CUDAarray):
                raise _invalid("a resource of CUDA array type needs cuArr, a CUDAarray")
            return
        if self.restype not in (LINEAR_MEMORY, PITCH_2D):
            raise _invalid(f"resource type {self.restype}: the virtual GPU has no mipmapped arrays")
        if self.arr is None or self.chDesc is None:
            raise _invalid("a resource of linear memory needs arr, an array of the device, and chDesc")
        nbytes, row = self.sizeInBytes, self.width * self.chDesc.nbytes
        if self.restype == PITCH_2D:
            nbytes = (self.height - 1) * self.pitchInBytes + row
            if self.pitchInBytes % _PITCH or self.pitchInBytes < row:
                raise _invalid(
                    f"a pitch of {self.pitchInBytes} bytes: at least the {row} of a row, and a multiple of {_PITCH}"
                )
        if not 0 < nbytes <= self.arr.nbytes or self.restype == PITCH_2D and min(self.width, self.height) < 1:
            raise _invalid(f"the texture takes {nbytes} bytes; its array has {self.arr.nbytes}")

    @property
    def desc(self) -> ChannelFormatDescriptor:
        return self.cuArr.desc if self.cuArr else self.chDesc

    @property
    def memory(self):
        """The device array."""
        return self.cuArr.memory if self.cuArr else self.arr

    def fields(self) -> dict[str, object]:
        """Of a Texture (state.h)."""
        desc, array = self.desc, self.cuArr
        found = {"texel": desc.f, "channels": desc.channels, "bytes": desc.dtype.itemsize}
        if array:
            extent = (array.width, array.height or 1, 1 if array.layers else array.depth or 1)
            row = array.width * desc.nbytes
            found |= {"extent": extent, "layers": array.layers, "dimensions": array.ndim}
            if array.flags & CUBE_MAP:
                found["cube"] = 2 if array.flags & LAYERED else 1
            return found | {"row": row, "slice": row * extent[1], "gather": int(bool(array.flags & GATHER))}
        if self.restype == PITCH_2D:
            return found | {"extent": (self.width, self.height, 1), "dimensions": 2, "row": self.pitchInBytes}
        return found | {"extent": (self.sizeInBytes // desc.nbytes, 1, 1)}


@dataclass(frozen=True)
class TextureDescriptor:
    """How a texture is read. addressModes: one per dimension; maxAnisotropy has no effect without mipmaps."""

    addressModes: Sequence[int] | None = None  # noqa: N815
    filterMode: int = POINT  # noqa: N815
    readMode: int = ELEMENT_TYPE  # noqa: N815
    sRGB: int | None = None  # noqa: N815
    borderColors: Sequence[float] | None = None  # noqa: N815
    normalizedCoords: int | None = None  # noqa: N815
    maxAnisotropy: int | None = None  # noqa: N815

    def __post_init__(self):
        modes = tuple(self.addressModes or ())
        if len(modes) > 3 or not {WRAP, CLAMP, MIRROR, BORDER}.issuperset(modes):
            raise _invalid(f"address modes {modes}: up to three of WRAP, CLAMP, MIRROR, BORDER")
        if self.filterMode not in (POINT, LINEAR) or self.readMode not in (ELEMENT_TYPE, NORMALIZED_FLOAT):
            raise _invalid(
                "a texture is filtered by POINT or LINEAR, and read as ELEMENT_TYPE or NORMALIZED_FLOAT"
            )
        if self.sRGB:
            raise _invalid("the virtual GPU does not convert from sRGB")

    def fields(self) -> dict[str, object]:
        """Of a Texture (state.h)."""
        modes = (*(self.addressModes or ()), 0, 0, 0)[:3]
        border = np.array((*(self.borderColors or ()), 0, 0, 0, 0)[:4], np.float32).view(np.uint32)
        return {
            "address": tuple(map(int, modes)),
            "border": tuple(map(int, border)),
            "linear": int(self.filterMode == LINEAR),
            "normalised": int(bool(self.normalizedCoords)),
            "as_float": int(self.readMode == NORMALIZED_FLOAT),
        }


class SurfaceObject:
    """The value of a kernel's cudaSurfaceObject_t. ptr: its number. more: for the device, see Textures.bind."""

    def __init__(self, ResDesc, more=None):  # noqa: N803
        if ResDesc.cuArr is None or not ResDesc.cuArr.flags & SURFACE:
            raise _invalid(
                "a surface needs a CUDA array made with the flag cudaArraySurfaceLoadStore (SURFACE)"
            )
        self._bind(ResDesc, {"surface": 1} | (more or {}))

    def get(self) -> np.ndarray:
        """A host copy of its texels."""
        return self.ResDesc.memory.get()

    def _bind(self, resource: ResourceDescriptor, fields: dict) -> None:
        self.ResDesc, self.device = resource, resource.memory.device
        self.ptr = self.device.bind_texture(resource.memory, resource.fields() | fields)


class TextureObject(SurfaceObject):
    """The value of a kernel's cudaTextureObject_t. ptr: its number."""

    def __init__(self, ResDesc, TexDesc, more=None):  # noqa: N803
        desc = ResDesc.desc
        as_float = TexDesc.readMode == NORMALIZED_FLOAT
        if as_float and desc.f != FLOAT and desc.x == 32:
            raise _invalid("32-bit integers cannot be read as normalised floats: read them as ELEMENT_TYPE")
        if TexDesc.filterMode == LINEAR and desc.f != FLOAT and not as_float:
            raise LaunchError(
                "linear filtering needs a texture that returns floats: of floats, or with NORMALIZED_FLOAT",
                "cudaErrorInvalidFilterSetting",
            )
        self.TexDesc = TexDesc
        self._bind(ResDesc, TexDesc.fields() | (more or {}))


def _of_size(array, memory):
    if array.size != prod(memory.shape) or array.dtype != memory.dtype:
        raise _invalid(
            f"{array.size} elements of {array.dtype} for a CUDA array of {prod(memory.shape)} of {memory.dtype}"
        )
    return array


def _invalid(message: str) -> LaunchError:
    return LaunchError(message, "cudaErrorInvalidValue")
