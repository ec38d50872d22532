"""The texture and surface objects of a device, in a table that its runtime reads."""

from __future__ import annotations

import weakref

import numpy as np

from ....errors import DeviceError
from ..runtime import abi


class Textures:
    """One row per object, which lives as long as the array it reads; identical objects share a row."""

    def __init__(self):
        self.rows = abi.array("Texture", abi.TEXTURES)
        self._known: dict[tuple, int] = {}
        self._free = list(reversed(range(abi.TEXTURES)))
        self._made = 0

    def bind(self, array, fields: dict[str, object]) -> int:
        """The object's number, as passed to kernels. fields: those of a Texture; "offset", bytes of the array before it;
        "made", which tells objects apart that are the same otherwise. Errors: DeviceError if there are too many."""
        key = id(array), *sorted(fields.items())
        if key in self._known:
            return self._known[key]
        if not self._free:
            raise DeviceError(f"more than {abi.TEXTURES} textures and surfaces at a time")
        i, self._made = self._free.pop(), self._made + 1
        row = self.rows[i]
        self.rows[i] = np.zeros((), self.rows.dtype)
        for name in fields.keys() - {"offset", "made"}:
            row[name] = fields[name]
        row["data"], row["handle"] = (
            array.pointer + fields.get("offset", 0),
            abi.TEXTURE_TAG | self._made % (1 << 32) * abi.TEXTURES | i,
        )
        self._known[key] = int(row["handle"])
        weakref.finalize(array, self._unbind, i, key)
        return self._known[key]

    def _unbind(self, i: int, key: tuple) -> None:
        if self._known.pop(key, None):
            self.rows[i]["handle"] = 0
            self._free.append(i)

    def unbind(self, handle: int) -> None:
        """The object is none any more."""
        for key in [key for key, known in self._known.items() if known == handle]:
            self._unbind(handle % abi.TEXTURES, key)

    def are_of(self, start: int) -> bool:
        """Whether any object belongs to the CUDA array that starts there (rather than to linear memory)."""
        rows = self.rows[self.rows["data"] == start]
        return bool(((rows["handle"] != 0) & (rows["dimensions"] > 0)).any())

    def find(self, handle: int) -> np.void | None:
        row = self.rows[handle % abi.TEXTURES]
        return row if handle and int(row["handle"]) == handle else None
