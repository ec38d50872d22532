"""Bodies of kernels run as vector lanes and one thread at a time: both must give the same bits and fail
alike."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest

from backwarp.devices.virtual.device import VirtualGPU
from backwarp.errors import KernelFault
from tests import ROOT
from tests.devices.virtual.launches import K, Quick, line_of

INCLUDE = (ROOT / "puzzles" / "include",)
THREADS = 128
STEPS = 1 << 14
_SIGNATURE = "(const float* x, const int* j, float* out, int n)"
#: LLVM's optimiser takes most of the time of a build, and is not what is tested
BUILDS = pytest.mark.parametrize(
    "optimised", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["quick", "optimised"]
)


@cache
def opened(width: int, checks: str = "memory", optimised: bool = False) -> VirtualGPU:
    made = (VirtualGPU if optimised else Quick)(checks, cores=1)
    made.lanes, made.step_budget = width, STEPS
    made.target = "avx2" if width in (4, 8) else ""  # whose masks are other than those of AVX-512
    return made


class Bodies:
    """lifted: bodies by name, of 512 elements each, those of j in 0..255, that run as lanes. alone: that do not. start: what
    stands before them. n: the kernels' last argument. few: so many are compiled together, to be done in time.
    """

    def __init__(self, lifted: Mapping[str, str], alone: Mapping[str, str], n: int, start="", few=99):
        self.lifted, self.all, self.start = lifted, list((lifted | alone).items()), start
        self.n, self.few = np.int32(n), few
        self._kernels, self._bits = {}, {}

    def kernels(self, width: int, optimised: bool) -> dict[str, object]:
        if (width, optimised) not in self._kernels:
            found = self._kernels[width, optimised] = {}
            for first in range(0, len(self.all), self.few):
                some = self.all[first : first + self.few]
                texts = (f"{K}k{m}{_SIGNATURE} {{ {body} }}" for m, (_, body) in enumerate(some))
                dev = opened(width, optimised=optimised)
                module = dev.compile(self.start + "\n".join(texts), include_dirs=INCLUDE)
                found |= {name: module.get_function(f"k{m}") for m, (name, _) in enumerate(some)}
        return self._kernels[width, optimised]

    def bits(self, width: int, block: tuple[int, int], optimised=False, schedule=0) -> dict[str, bytes]:
        """What each body leaves in `out`."""
        if (key := (width, block, optimised, schedule)) not in self._bits:
            dev, rng, found = opened(width, optimised=optimised), np.random.default_rng(1), {}
            x = dev.array(rng.standard_normal(512).astype(np.float32), name="x")
            j = dev.array(rng.integers(0, 256, 512, np.int32), name="j")
            for name, kernel in self.kernels(width, optimised).items():
                assert (kernel.info.lanes > 1) == (width > 1 and name in self.lifted), name
                out, dev.schedule = dev.array(np.zeros(512, np.float32), name="out"), schedule
                kernel(THREADS // (block[0] * block[1]), block, (x, j, out, self.n))
                found[name] = out.get().tobytes()
            self._bits[key] = found
        return self._bits[key]

    def check(self, width: int, blocks, optimised: bool) -> None:
        for block in blocks:
            alone = self.bits(1, block)
            for name, found in self.bits(width, block, optimised).items():
                assert found == alone[name] and any(found), (name, block)

    def check_fault(self, body: str, optimised: bool) -> None:
        """The kernel faults in the line that ends in FAULT, for the same thread and element."""
        source = f"{self.start}{K}k{_SIGNATURE} {{\n{body}\n}}"
        told = [self._fault(source, width, optimised) for width in (1, 16)]
        assert told[0] == told[1] and told[0][0] == line_of(source, "FAULT")

    def _fault(self, source: str, width: int, optimised: bool) -> tuple:
        kinds = {"x": np.float32, "j": np.int32, "out": np.float32}
        dev = opened(width, optimised=optimised and width > 1)
        dev.schedule = 0
        arrays = [dev.array(np.arange(512).astype(t), name=name) for name, t in kinds.items()]
        kernel = dev.compile(source, include_dirs=INCLUDE).get_function("k")
        assert (kernel.info.lanes > 1) == (width > 1)
        with pytest.raises(KernelFault) as caught:
            kernel(1, THREADS, (*arrays, self.n))
        told = caught.value
        return told.line, told.kind, told.thread, told.block, told.array, told.index
