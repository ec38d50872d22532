"""An array of the virtual GPU."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING

import numpy as np

from ..graphs import refuse_while_recording
from .compile.recipes import Check
from .run.arena import Owner
from .runtime.abi import BOUNDS

if TYPE_CHECKING:
    from .device import VirtualGPU


class Array:
    """An array in device memory."""

    def __init__(self, device: VirtualGPU, owner: Owner, shape, dtype):
        self.device, self._owner = device, owner
        self.shape, self.dtype, self.nbytes, self.name = shape, dtype, owner.nbytes, owner.name
        self.size = math.prod(map(int, shape))
        self.address = owner.start.to_bytes(8, "little")  # as a kernel's argument
        end = owner.start + owner.nbytes
        self.bounds = BOUNDS.pack(owner.start, end, owner.start if owner.readonly else end)
        weakref.finalize(self, device.arena.release, owner)

    @property
    def pointer(self) -> int:
        """The device address."""
        return self._owner.start

    def present(self, name: str, shape: tuple[int, ...] | None = None) -> None:
        """From now on messages call it by this name, and give its elements by their indices in this shape."""
        self.name = self._owner.name = name
        self._owner.shape = (self.size,) if shape is None else shape

    def _view(self) -> np.ndarray:
        memory = self.device.arena.bytes[self._owner.start : self._owner.start + self.nbytes]
        return memory.view(self.dtype).reshape(self.shape)

    def get(self) -> np.ndarray:
        """A copy on the host."""
        refuse_while_recording(self.device)
        return self._view().copy()

    def set(self, values) -> None:
        """Overwrite it from the host; shape and dtype stay the same."""
        if self.device.recording:
            self.device.recording.copy(self, values)
        else:
            self._fill(values)

    def _fill(self, values) -> None:
        self._view()[...] = values
        self.device.arena.mark(self._owner.start, self.nbytes, not self._owner.readonly)

    @property
    def written(self) -> np.ndarray | None:
        """Which elements have been stored to; None if stores were not tracked."""
        if Check.INITIALISED not in self.device.recipe:
            return None
        return (
            self.device.arena.written(self._owner.start, self.nbytes)
            .reshape(self.size, -1)
            .all(1)
            .reshape(self.shape)
        )

    def intact(self) -> str | None:
        """Always None: a write outside an array has already raised a KernelFault."""
        return None
