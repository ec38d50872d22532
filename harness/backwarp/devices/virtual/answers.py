"""The data exchanged between a device, the compiling process and the process that runs kernels; also what is
cached."""

from __future__ import annotations

import numpy as np

from ... import errors
from ..launching import Launch
from ..nvrtc.compiler import Job, Ptx
from ..plain import Codec
from .analyse.padding import Padding, Pointed
from .compile.modules import Built, CountedAccess, CountedSegment, KernelInfo, Lowered, Parameter
from .explain.metrics import Request
from .ptx.declared import Location, Variable
from .runtime.abi import DTYPES

#: attributes of a device that are sent with each launch
DEVICE_SETTINGS = (
    "schedule",
    "time_limit",
    "step_budget",
    "sample_blocks",
    "turns",
    "several_orders",
    "agree",
    "keep_requests",
    "keep_rows",
    "rows_first",
    "rows_blocks",
    "rows_pair",
    "full_seconds",
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
        Job,
        Built,
        CountedAccess,
        Padding,
        Pointed,
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


def is_sound(found: object) -> bool:
    """Whether the parts of a launch's result have the types that a report relies on."""
    if isinstance(found, errors.LaunchError):
        return _are(str, (*found.args, getattr(found, "code", "")))
    if isinstance(found, Launch):
        plain = _are(str, (found.stdout,)) and _are(int, (found.stdout_dropped, *found.turns, found.spared))
        lists = isinstance(found.requests, list) and all(map(_is_request, found.requests))
        recorded = found.record is None or _is_record(found.record)
        return plain and lists and recorded and isinstance(found.counters, dict) and _all_sound(found.notes)
    if not isinstance(found, errors.KernelFault):
        return False
    texts = (
        "kind",
        "headline",
        "explanation",
        "file",
        "array",
        "index",
        "shape",
        "severity",
        "source",
        "access",
        "space",
    )
    places = [p for p in (found, found.other) if p is not None]
    if not all(isinstance(p, errors.KernelFault | errors.Place) for p in places):
        return False
    return (
        _are(
            str,
            [getattr(found, name) for name in texts] + [text for p in places for text in (p.file, p.access)],
        )
        and _are(bool, [found.follows, found.same_value, found.asks_index, found.endless])
        and _are(
            int,
            [
                found.line,
                found.count,
                found.size,
                found.before,
                found.absent,
                found.node or 0,
                *(p.line for p in places),
            ],
        )
        and all(_is_place(at) for p in places for at in (p.thread, p.block))
        and _all_sound(found.more)
        and (found.launch is None or isinstance(found.launch, Launch) and is_sound(found.launch))
    )


def _are(kind: type, values) -> bool:
    return all(isinstance(value, kind) or kind is int and isinstance(value, np.integer) for value in values)


def _is_request(found) -> bool:
    if not isinstance(found, Request) or not isinstance(found.addresses, np.ndarray):
        return False
    lanes = found.addresses.shape == (32,) and found.addresses.dtype == np.int64
    return (
        lanes
        and _are(str, (found.kind, found.space))
        and _are(int, (found.line, found.size))
        and found.size > 0
    )


def _is_record(found) -> bool:
    """See run/record."""
    match found:
        case {
            "rows": np.ndarray() as rows,
            "points": list() as points,
            "sources": list() as sources,
            "arrays": list() as arrays,
            "shared": list() as shared,
            "printed": list() as printed,
            "grid": [int(), int(), int()],
            "block": [int(), int(), int()],
            "full": bool(),
            "slots": int(),
            "text": str(),
        } if rows.dtype == DTYPES["Row"] and (not len(rows) or rows["point"].max() < len(points)):
            return (
                all(_are_of(p[:4], str, int, str, int) for p in points)
                and all(_are_of(s, int, tuple) for s in sources)
                and all(_are_of(a, str, int, int, list, str, str, np.ndarray) for a in arrays)
                and all(_are_of(s, str, int, int, list, int, str) for s in shared)
                and all(_are_of(p, int, str) and -len(rows) - 2 < p[0] < len(rows) for p in printed)
            )
    return False


def _are_of(values, *kinds: type) -> bool:
    return len(values) == len(kinds) and all(map(isinstance, values, kinds))


def _is_place(at) -> bool:
    return at is None or isinstance(at, tuple) and len(at) == 3 and _are(int, at)


def _all_sound(found) -> bool:
    return isinstance(found, list) and all(isinstance(f, errors.KernelFault) and is_sound(f) for f in found)
