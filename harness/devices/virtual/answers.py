"""What travels between a device, the process that compiles and the process that runs kernels; what is cached."""

from __future__ import annotations

from ... import errors
from ..launching import Launch
from ..nvrtc.compiler import HeadersLost, Job, Ptx
from ..plain import Codec
from .compile.modules import Built, KernelInfo, Lowered, Parameter
from .explain.metrics import Request
from .instrument.segments import CountedAccess, CountedSegment
from .ptx.parse import Location, Variable

#: attributes of a device that are sent with each launch
DEVICE_SETTINGS = (
    "schedule",
    "time_limit",
    "step_budget",
    "sample_blocks",
    "turns",
    "keep_requests",
    "keep_steps",
)


CODEC = Codec(
    (
        errors.CompileError,
        errors.Diagnostic,
        errors.DeviceError,
        errors.KernelFault,
        errors.LaunchError,
        errors.Place,
        errors.Unsupported,
        HeadersLost,
        Job,
        Built,
        CountedAccess,
        CountedSegment,
        KernelInfo,
        Launch,
        Location,
        Lowered,
        Parameter,
        Ptx,
        Request,
        Variable,
    )
)
