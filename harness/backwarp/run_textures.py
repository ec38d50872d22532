"""Textures and surfaces of `backwarp run`, given as text: `texture,linear,border:random:64x48:float32`.

After the first colon comes an array, as for a pointer; the words before it say how it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .devices import texture as tx
from .errors import CourseError, LaunchError

HOW = "texture[,linear][,wrap|clamp|mirror|border][,normalized][,float][,vector][,layered][,cube][,gather][,memory]:ARRAY"
HOW_SURFACES = "surface[,vector][,layered][,cube]:ARRAY"
_MODES = {"wrap": tx.WRAP, "clamp": tx.CLAMP, "mirror": tx.MIRROR, "border": tx.BORDER}
_OF_ARRAYS = {"vector", "layered", "cube"}
_WORDS = {
    "texture": {*_MODES, *_OF_ARRAYS, "linear", "normalized", "float", "gather", "memory"},
    "surface": _OF_ARRAYS,
}
_TYPES = {"cudaTextureObject_t": "texture", "cudaSurfaceObject_t": "surface"}


@dataclass(frozen=True)
class Image:
    """What a texture or a surface is made from. words: those before the array."""

    name: str
    kind: str
    words: frozenset[str]
    data: np.ndarray

    def on(self, device) -> tx.SurfaceObject:
        """The object. Errors: CourseError for combinations that CUDA does not have."""
        try:
            resource = self._resource(device)
            if self.kind == "surface":
                return tx.SurfaceObject(resource)
            mode = next((number for word, number in _MODES.items() if word in self.words), tx.CLAMP)
            how = tx.TextureDescriptor(
                (mode,) * 3,
                tx.LINEAR if "linear" in self.words else tx.POINT,
                tx.NORMALIZED_FLOAT if "float" in self.words else tx.ELEMENT_TYPE,
                normalizedCoords=int("normalized" in self.words),
            )
            return tx.TextureObject(resource, how)
        except LaunchError as error:
            raise CourseError(f"--arg {self.name}: {error}") from None

    def _resource(self, device) -> tx.ResourceDescriptor:
        vector = "vector" in self.words
        if "memory" in self.words:
            texel = tx.ChannelFormatDescriptor.of(self.data.dtype, self.data.shape[-1] if vector else 1)
            array = device.array(self.data, name=self.name)
            return tx.ResourceDescriptor(tx.LINEAR_MEMORY, None, array, texel, self.data.nbytes)
        flags = tx.SURFACE * (self.kind == "surface") | tx.LAYERED * ("layered" in self.words)
        flags |= tx.GATHER * ("gather" in self.words) | tx.CUBE_MAP * ("cube" in self.words)
        if not vector < self.data.ndim <= 3 + vector:
            raise LaunchError(
                f"an array of {self.data.ndim} dimensions; a texture has 1 to 3, and layers count as one"
            )
        array = tx.CUDAarray.of(self.data, flags, device=device, name=self.name, vector=vector)
        return tx.ResourceDescriptor(tx.ARRAY, cuArr=array)


def kind_of(type_: str) -> str:
    """What a C++ type is: "texture", "surface" or ""."""
    return next((kind for name, kind in _TYPES.items() if re.search(rf"\b{name}\b", type_)), "")


def image(name: str, text: str, wanted: str, array: Callable[[str], np.ndarray]) -> Image | None:
    """The image that an argument's text describes; None if it is no texture or surface.

    wanted: what the parameter is. array: reads the part after the colon. Errors: CourseError.
    """
    head, _, rest = text.partition(":")
    kind, *words = head.split(",")
    if kind not in _WORDS:
        if wanted:
            how = HOW if wanted == "texture" else HOW_SURFACES
            raise CourseError(f"--arg {name}={text}: {name} is a {wanted} object; write {name}={how}")
        return None
    if wanted != kind:
        raise CourseError(
            f"--arg {name}={text}: {name} is {f'a {wanted} object' if wanted else f'no {kind} object'}"
        )
    if unknown := [word for word in words if word not in _WORDS[kind]]:
        raise CourseError(
            f"--arg {name}: {unknown[0]} is not an option of a {kind}: {', '.join(sorted(_WORDS[kind]))}"
        )
    return Image(name, kind, frozenset(words), array(rest))
