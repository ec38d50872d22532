"""Mistakes of a program's host part, as data, and the one table of their sentences: what happened, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import KernelFault

_DIRECTIONS = {
    0: "host to host",
    1: "host to device",
    2: "device to host",
    3: "device to device",
    4: "default",
}
_NAMES = {0: "HostToHost", 1: "HostToDevice", 2: "DeviceToHost", 3: "DeviceToDevice"}
#: kinds that are no mistakes: what one should know
NOTES = {"leak", "left", "unset", "full", "no-device", "slow"}
MOST = 20  # of a program
#: what an undefined operation was, by the number that the compiler's trap carries (SanitizerHandler in clang's CodeGen)
TRAPS = {
    1: "reaches what was declared unreachable",
    3: "divides an integer by zero",
    11: "leaves a function that has to return a value without one",
    16: "passes a null pointer where none may be",
    18: "uses an index outside a local array",
    22: "uses a null pointer",
    24: "makes an array whose length is not positive",
}


@dataclass(frozen=True)
class Mistake:
    """frames: of the call, or where the program was stopped. facts: for its sentence; Frames among them become places."""

    kind: str
    frames: tuple[int, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    fault: KernelFault | None = None

    @property
    def is_note(self) -> bool:
        return self.kind in NOTES


class Mistakes(list):
    """What was found, each kind once at a place."""

    def name(self, kind: str, frames: Sequence[int], fault: KernelFault | None = None, **facts) -> None:
        same = [m for m in self if m.kind == kind and m.frames[:1] == frames[:1]]
        if not same and len(self) < MOST:
            self.append(Mistake(kind, tuple(frames), facts, fault))


class Frames(tuple):
    """Where something was called; "" if nowhere."""


@dataclass(frozen=True)
class Memory:
    """How a sentence calls a piece of memory. kind: "device", "managed", "pinned", "array", "host" or "null"."""

    kind: str
    name: str = ""
    made: Frames = Frames()

    def said(self, at: Callable[[tuple], str]) -> str:
        if self.kind in ("host", "null"):
            return {"host": "host memory", "null": "a null pointer"}[self.kind]
        about = [self.name] if self.name else []
        about += [f"allocated at {place}"] if (place := at(self.made)) else []
        what = {"managed": "managed memory", "pinned": "pinned host memory", "array": "a CUDA array"}.get(
            self.kind, "device memory"
        )
        return f"{what} ({', '.join(about)})" if about else what


def sentences(mistake: Mistake, at: Callable[[tuple], str]) -> list[str]:
    """What happened, and what to do. at: the place of frames, as prog.cu:9."""
    facts = {
        k: v.said(at) if isinstance(v, Memory) else at(v) if isinstance(v, Frames) else v
        for k, v in mistake.facts.items()
    }
    found = _SENTENCES[mistake.kind]
    return list(filter(None, found(facts) if callable(found) else [part.format(**facts) for part in found]))


def _direction(f: Mapping) -> list[str]:
    right = {(True, False): 1, (False, True): 2, (True, True): 3, (False, False): 0}[
        f["to_device"], f["from_device"]
    ]
    return [
        f"The copy says {_DIRECTIONS[f['said']]}, but its destination is {f['to']} and its source {f['from']}.",
        f"This is cudaMemcpy{_NAMES[right]}" + (", with the first two arguments in this order." if f["said"] in (1, 2) and right in (1, 2) else "."),
    ]  # fmt: skip


def _too_long(f: Mapping) -> list[str]:
    verb = "writes" if f["stores"] else "reads"
    left = f"only {f['left']:,} are left" if f["left"] else "none are left"
    of = f" of the {f['nbytes']:,} of {f['memory']}" if f["left"] != f["nbytes"] else f" in {f['memory']}"
    says = [f"This {verb} {f['wanted']:,} bytes, but {left}{of}."]
    if f["wanted"] == 4 * f["left"] or f["wanted"] == 8 * f["left"]:
        return [*says, "Is the memory allocated with a number of elements where bytes are meant?"]
    if f["left"] and f["wanted"] * 4 == f["left"]:
        return [*says, "Sizes are bytes: n * sizeof(float)."]
    return [*says, "Sizes are bytes, of the same number of elements in the allocation and in every copy."]


def _stopped(f: Mapping) -> list[str]:
    if f["deep"]:
        return [
            "The host's stack overflows: a function calls itself without end, or a local array is too large."
        ]
    does = "writes to" if f["writes"] else "reads"
    if f["signal"] == "FPE":
        return ["The host divides an integer by zero."]
    if f["trap"]:
        return [f"The host {f['trap']}."]
    if f["signal"] == "ABRT":
        return []
    if f["code"] > 0x7F:  # the system does not say which
        return ["The host uses a pointer that is no address at all: it was computed wrongly, or never set."]
    if f["address"] < 4096:
        return [
            f"The host {does} memory through a null pointer.",
            "Was it set, and did the call that sets it succeed?",
        ]
    return [
        f"The host {does} memory that it does not have (at {f['address']:#x}): the pointer or its index is wrong."
    ]


def _array_part(f: Mapping) -> list[str]:
    does = "writes" if f["stores"] else "reads"
    if f["axis"] == "x" and f["linear"]:
        return [
            f"This {does} {f['count']:,} bytes from byte {f['at']:,} on, but {f['memory']} has {f['most']:,}."
        ]
    if f["axis"] == "x":
        says = f"This {does} {f['count']:,} bytes of a row from byte {f['at']:,} on, but a row of {f['memory']} has {f['most']:,}: {f['texels']:,} texels."
        return [says, "Widths and offsets of rows are bytes, except those of cudaMemcpy3D, which are texels."]
    what = {"y": "rows", "z": "slices"}[f["axis"]]
    return [
        f"This {does} {f['count']:,} {what} from {what[:-1]} {f['at']:,} on, but {f['memory']} has {f['most']:,}."
    ]


_SENTENCES: dict[str, tuple[str, ...] | Callable[[Mapping], list[str]]] = {
    "direction": _direction,
    "too-long": _too_long,
    "outside": ("This uses an address of the device that is in no allocation; the nearest before it is {memory}, {past:,} bytes away.",),
    "freed": ("This uses {memory}, which was freed at {freed}.", "Free memory after its last use."),
    "null": ("The {which} of the copy is a null pointer{because}.",),
    "freed-twice": ("This frees {memory} a second time; the first was at {freed}.",),
    "free-host": ("{call} is given {memory}: it frees what {what} has returned.", "{remedy}"),
    "free-inside": ("This frees an address {past:,} bytes inside {memory}; only the address that the allocation returned can be freed.",),
    "on-device": ("The host {does} device memory: byte {past:,} of {memory}.", "Copy it with cudaMemcpy first, or allocate it with cudaMallocManaged."),
    "under-way": (
        "The host {does} byte {past:,} of {memory} while the {what} at {since}, which {uses} it, may still be running.",
        "Wait first: cudaDeviceSynchronize(), or cudaStreamSynchronize() of its stream.",
    ),
    "launch": lambda f: [
        f"The launch of {f['kernel']} fails: {f['why']}.",
        f["remedy"],
        "The program never asks: call cudaGetLastError() after a launch." if f.get("unasked") else "",
    ],
    "unasked": ("{what} failed with {name}, and the program never asked.", "Call cudaGetLastError() after a launch, and look at what every call returns."),
    "kernel": (),
    "host-pointer": ("The kernel {kernel}, launched here, uses its argument {number}{named}, which is an address of the host ({address}).", "Pass memory of cudaMalloc, filled by cudaMemcpy."),
    "freed-pointer": ("The kernel {kernel}, launched here, uses {memory}, which was freed at {freed}.", "Free memory after its last use."),
    "stopped": _stopped,
    "index": ("{said}.",),
    "symbol": ("This is no __device__ or __constant__ variable: pass the variable itself, not its name or a pointer to it.",),
    "overrun": (
        "The host writes byte {past:,} of the {size:,} bytes allocated here, which have the numbers from 0; it was noticed at {freed}.",
    ),
    "handle": ("This {what} was never created, or is destroyed.",),
    "event": ("cudaEventElapsedTime needs two recorded events: {why}.",),
    "race": (
        "The {later} here {does} {memory}, and the {earlier} at {before} {did} the same bytes: nothing orders the two.",
        "Put both in one stream, or record an event after the one and let the other's stream wait for it.",
    ),
    "library": ("The library's {called} is given {memory}; it needs memory of the device.",),
    "in-call": ("This is called by a function that a stream calls (at {at}), which must not ask for anything of CUDA.", "It may tell another thread to ask."),
    "image": ("{what}: {why}.",),
    "no-array": ("A CUDA array is needed here, which cudaMallocArray has returned; this is {memory}.",),
    "array-plain": (
        "This uses {memory} like other memory; its elements have no addresses.",
        "Copy it with cudaMemcpy2DToArray or cudaMemcpy2DFromArray; kernels read it through a texture or a surface.",
    ),
    "array-part": _array_part,
    "destroyed-twice": ("This destroys a {what} object a second time; the first was at {ended}.",),
    "gone-image": (
        "The kernel {kernel}, launched here, uses a {what} object of {memory}; {gone} at {ended}.",
        "Destroy it, and free its memory, after the last kernel that uses it has ended.",
    ),
    "no-driver": ("{name} needs the driver, which nothing has started.", "Call cuInit(0) first."),
    "no-context": ("{name} needs a context, and this thread has none.", "Create one by cuCtxCreate() after cuInit(0), or make one current by cuCtxSetCurrent()."),
    "no-file": ("{name} cannot be read, nor its text with the ending .cu: the working folder is where the program was started.",),
    "no-ptx": lambda f: [f"{f['name']} is {'more than 4 MB long' if f['large'] else 'machine code for a GPU (a cubin or a fatbin)'}, which does not run here.", "Give the module as PTX, as nvcc -ptx writes it."],
    "no-function": lambda f: [
        f"{f['module']} has no {f['name']}" + (f"; it has {', '.join(f['known'])}." if f["known"] else "."),
        f"In C++ its name there is {f['same'][0]}: ask for that, or declare the kernel extern \"C\"." if f["same"] else "",
    ],
    "module": ("{name} cannot be compiled: {why}",),
    "left": ("This {what} object is never destroyed.",),
    "leak": ("{memory} is never freed: {nbytes:,} bytes.",),
    "unset": ("{count:,} of the {total:,} bytes that this copies from {memory} were never written; the first is byte {first:,}.",),
    "full": ("The virtual GPU has {room:,} bytes of memory, of which {used:,} are in use: {wanted:,} more do not fit{more}.",),
    "slow": (
        "{kernel}, launched here, was ended after {seconds:g} s, in line {line}: it has an endless loop, or much to do. Smaller sizes, or"
        " --checks memory, take less.",
    ),
    "no-device": ("There is one device here, number 0: {wanted} is none.",),
    "recording": (
        "{name} is not allowed while a stream is captured: the capture ends with cudaErrorStreamCaptureInvalidated.",
        "What waits or allocates comes before cudaStreamBeginCapture() or after cudaStreamEndCapture().",
    ),
    "refused": ("{name} is not supported here: it returns cudaErrorNotSupported.",),
}  # fmt: skip
