"""CUDA arrays, textures and surfaces of a program: what they are made of, and when a kernel uses one that is gone."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..devices import texture as tx
from ..errors import DeviceError, LaunchError
from . import errors, memory
from .memory import ARRAY, Allocation, Memory
from .mistakes import Frames, Mistakes

Answer = tuple
_CHANNELS = struct.Struct("=5i")  # cudaChannelFormatDesc
_RESOURCE = struct.Struct(
    "=i4xQ5i4x3Q"
)  # cudaResourceDesc: its kind, an address, and how linear memory is read
_DESCRIPTION = 144  # bytes of a cudaResourceDesc, after which a cudaTextureDesc comes
_TEXTURE = struct.Struct("=3i2ii4fiI")
_ALIGNED = 512  # bytes: where a texture of linear memory may begin
STORES, TEXELS, LINEAR = 1, 2, 4  # of on_array_part


@dataclass
class Object:
    """A texture or a surface. of: its memory. ended: the frames of the call that destroyed it."""

    called: str
    of: Allocation
    made: Frames
    ended: Frames | None = None


class Images:
    """allocate: makes memory of so many bytes by a function, or names what is wrong and returns None."""

    def __init__(self, device, memory: Memory, mistakes: Mistakes, allocate: Callable):
        self.device, self.memory, self.mistakes, self._allocate = device, memory, mistakes, allocate
        self._objects: dict[int, Object] = {}  # also those that are gone
        self._arrays: dict[int, tx.CUDAarray] = {}
        self._made = itertools.count(1)

    # -- arrays

    def on_array(self, frames, words, extra) -> Answer:
        width, height, depth, flags = words[:4]
        made: list[tx.CUDAarray] = []

        def make(name: str):
            made.append(tx.CUDAarray(texel, width, height, depth, flags, device=self.device, name=name))
            return made[-1].memory

        try:
            texel = tx.ChannelFormatDescriptor(*_CHANNELS.unpack(extra))
            nbytes = texel.nbytes * width * (height or 1) * (depth or 1)
            start = self._allocate(frames, nbytes, ARRAY, make)
        except LaunchError as error:
            return self._failed(frames, "A CUDA array cannot be made", error), 0
        if start is None:
            return 2, 0
        self._arrays[start] = made[-1]
        return 0, start

    def _failed(self, frames, what: str, error: LaunchError) -> int:
        self.mistakes.name("image", frames, what=what, why=str(error).rstrip("."))
        return errors.number(error.code)

    def _array(self, frames, address: int) -> tuple[Allocation, tx.CUDAarray] | None:
        """The CUDA array of a handle."""
        a = self.memory.find(address)
        if a is None or a.start != address or a.kind != ARRAY:
            self.mistakes.name("no-array", frames, memory=self.memory.described(address))
            return None
        if a.freed is not None:
            self.mistakes.name("freed", frames, memory=a.described, freed=Frames(a.freed))
            return None
        return a, self._arrays[address]

    def on_array_info(self, frames, words, extra) -> Answer:
        if (found := self._array(frames, words[0])) is None:
            return (400,)
        array, texel = found[1], found[1].desc
        packed = sum(bits << 8 * i for i, bits in enumerate((texel.x, texel.y, texel.z, texel.w, texel.f)))
        return 0, packed, array.width, array.height, array.depth, array.flags

    def on_array_part(self, frames, words, extra) -> Answer:
        """Where a part of an array is: its address, the bytes from row to row, the rows from slice to slice, and a texel's bytes.
        Of x and the width, whether they are texels or bytes is in `how`; LINEAR: rows follow each other without a gap."""
        address, x, y, z, width, height, depth, how = words[:8]
        if (found := self._array(frames, address)) is None:
            return (400,)
        a, array = found
        scale = array.desc.nbytes if how & TEXELS else 1
        row, rows, slices = array.width * array.desc.nbytes, array.height or 1, array.depth or 1
        first, nbytes = x * scale, width * scale
        if how & LINEAR:
            slices, rows, row, first = 1, 1, a.nbytes, first + y * row
            y = 0
        for axis, at, count, most in (
            ("z", z, depth, slices),
            ("y", y, height, rows),
            ("x", first, nbytes, row),
        ):
            if at + count > most:
                facts = dict(
                    axis=axis,
                    at=at,
                    count=count,
                    most=most,
                    stores=how & STORES,
                    texels=array.width,
                    linear=how & LINEAR,
                )
                self.mistakes.name("array-part", frames, memory=a.described, **facts)
                return (1,)
        return 0, a.start + (z * rows + y) * row + first, row, rows, array.desc.nbytes

    # -- textures and surfaces

    def on_image(self, frames, words, extra) -> Answer:
        """A surface, or a texture if there is more than a resource."""
        kind, address, *rest = _RESOURCE.unpack_from(extra)
        surface = len(extra) == _DESCRIPTION
        called = "surface" if surface else "texture"
        more = {"made": next(self._made)}  # no two are the same
        try:
            if (resource := self._resource(frames, kind, address, rest, more)) is None:
                return 1, 0
            a, resource = resource
            if surface:
                made = tx.SurfaceObject(resource, more)
            else:
                modes, about = (fields := _TEXTURE.unpack_from(extra, _DESCRIPTION))[:3], fields[3:]
                how = tx.TextureDescriptor(modes, *about[:3], about[3:7], *about[7:])
                made = tx.TextureObject(resource, how, more)
        except LaunchError as error:
            return self._failed(frames, f"A {called} object cannot be made", error), 0
        except DeviceError as error:  # too many
            self.mistakes.name("image", frames, what=f"A {called} object cannot be made", why=str(error))
            return 2, 0
        self._objects[made.ptr] = Object(called, a, Frames(frames))
        return 0, made.ptr

    def _resource(self, frames, kind: int, address: int, rest, more: dict) -> tuple | None:
        if kind == tx.ARRAY:
            found = self._array(frames, address)
            return found and (found[0], tx.ResourceDescriptor(tx.ARRAY, found[1]))
        if kind not in (tx.LINEAR_MEMORY, tx.PITCH_2D):
            tx.ResourceDescriptor(kind)  # says that there is none
        texel, sizes = tx.ChannelFormatDescriptor(*rest[:5]), rest[5:]
        nbytes = sizes[0]
        if kind == tx.PITCH_2D:
            nbytes = max(sizes[1] - 1, 0) * sizes[2] + sizes[0] * texel.nbytes
        if (a := memory.held(self.memory, self.mistakes, frames, address, nbytes, False)) is None:
            return None
        more["offset"] = address - a.start
        if more["offset"] % _ALIGNED:
            raise LaunchError(
                f"its memory begins {more['offset']} bytes inside the allocation, which is no multiple of {_ALIGNED}",
                "cudaErrorMisalignedAddress",
            )
        if kind == tx.PITCH_2D:
            shape = dict(width=sizes[0], height=sizes[1], pitchInBytes=sizes[2])
            return a, tx.ResourceDescriptor(kind, None, a.array, texel, **shape)
        return a, tx.ResourceDescriptor(kind, None, a.array, texel, nbytes)

    def on_image_end(self, frames, words, extra) -> Answer:
        handle, surface = words[:2]
        found, called = self._objects.get(handle), "surface" if surface else "texture"
        if found is None or found.called != called:
            self.mistakes.name("handle", frames, what=f"{called} object")
            return (1,)
        if found.ended is not None:
            self.mistakes.name("destroyed-twice", frames, what=called, ended=found.ended)
            return (1,)
        found.ended = Frames(frames)
        if found.of.freed is None:
            self.device.unbind_texture(handle)
        return (0,)

    def retire(self, freed: Allocation) -> None:
        """What reads freed memory is no texture any more."""
        self._arrays.pop(freed.start, None)
        for handle, made in self._objects.items():
            if made.of is freed and made.ended is None:
                self.device.unbind_texture(handle)

    def among(self, words: Iterator[int]) -> Iterator[Object]:
        """The objects that are among a launch's arguments."""
        return (self._objects[word] for word in words if word in self._objects)

    def left(self) -> Iterator[Object]:
        return (made for made in self._objects.values() if made.ended is None)
