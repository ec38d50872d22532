"""What travels between a device and the process that runs its kernels (see confined.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ... import errors
from ..launching import Launch
from ..nvrtc.compiler import Ptx
from ..plain import Codec
from .compile.build import Built
from .compile.modules import KernelInfo, Lowered, Parameter
from .explain.metrics import Request
from .instrument.segments import CountedAccess, CountedSegment
from .ptx.parse import Location, Variable

#: attributes of a device that each launch is told of
DEVICE_SETTINGS = (
    "schedule",
    "time_limit",
    "step_budget",
    "sample_blocks",
    "turns",
    "keep_requests",
    "keep_steps",
)


@dataclass
class Loaded:
    """A build, without what only compiling needs."""

    compiled: Ptx
    lowered: Lowered
    code: bytes

    @classmethod
    def of(cls, built: Built) -> Loaded:
        return cls(replace(built.compiled, cubin=b""), replace(built.lowered, text=""), built.code)


CODEC = Codec(
    (
        errors.CompileError, errors.Diagnostic, errors.DeviceError, errors.KernelFault, errors.LaunchError,
        errors.Place, errors.Unsupported,
        CountedAccess, CountedSegment, KernelInfo, Launch, Loaded, Location, Lowered, Parameter, Ptx, Request, Variable,
    )
)  # fmt: skip
