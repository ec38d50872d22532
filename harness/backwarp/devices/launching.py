"""What both devices check before a launch, in CUDA's terms, and what a launch returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy

from backwarp.errors import KernelFault, LaunchError

from .tensor_map import NBYTES, TensorMap
from .texture import SurfaceObject

OUTPUT_CHARACTERS = 16_384  # of a kernel's printf output to keep
QUICK = 0.5  # seconds that a launch of quickly compiled code may take before the code is optimised


@dataclass
class Launch:
    """The record of a successful launch.

    stdout: the kernel's printf output, truncated; stdout_dropped: lines cut off. counters: exact on the
    virtual GPU, empty on a GPU. notes: findings that do not fail a kernel. requests: the first accesses of
    warps, limited by the virtual GPU's `keep_requests` (metrics.Request). record: what threads did, limited
    by its `keep_rows` (see virtual/run/record). turns: lines that read what other threads may change without a
    race, if the virtual GPU has let others run in between (see its `turns`). spared: whether only its accesses to memory were
    checked, see the virtual GPU's `full_seconds`.
    """

    stdout: str = ""
    stdout_dropped: int = 0
    counters: dict = field(default_factory=dict)
    notes: list[KernelFault] = field(default_factory=list)
    requests: list = field(default_factory=list)
    record: dict | None = None
    turns: tuple[int, ...] = ()
    spared: bool = False


class CompiledFile:
    """What the modules of all devices have in common. compiled: nvrtc's Ptx; request: the arguments of the
    device's `compile`."""

    def get_function(self, name: str):
        """A kernel by its plain name, or an instance of a template, such as `tile<16>`, for which the file is
        compiled once more, with its own variables, unless the instance was requested before. Errors:
        LaunchError; CompileError for such an instance.
        """
        if "<" not in name or name in self.compiled.names or not self.request:
            return self._kernel(name)
        instances = self.__dict__.setdefault("instances", {})
        if name not in instances:
            source, file, directories, expressions, options = self.request
            instances[name] = self.device.compile(source, file, directories, (*expressions, name), options)
        return instances[name].get_function(name)

    @property
    def functions(self) -> tuple[str, ...]:
        """Plain names of the kernels."""
        return self.compiled.kernels

    @property
    def constants(self) -> dict[str, int]:
        """Bytes of each __constant__ variable, by its plain name."""
        return {name: nbytes for name, (_, nbytes) in self.compiled.constants.items()}

    @property
    def variables(self) -> dict[str, int]:
        """Bytes of each __device__, __managed__ and __constant__ variable; see `get_global`."""
        return {name: nbytes for name, (_, nbytes) in self.compiled.variables.items()}

    @property
    def warnings(self):
        return self.compiled.warnings


@dataclass(frozen=True)
class Limits:
    """What a device accepts; the defaults are those of compute capability 8.0 to 9.0."""

    threads_per_block: int = 1024
    block: tuple[int, int, int] = (1024, 1024, 64)
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    shared_per_block: int = 48 << 10  # unless more is requested
    shared_per_block_optin: int = 163 << 10
    constant: int = 64 << 10  # __constant__ memory of a file


def limits_of(target: str) -> Limits:
    """Of the virtual GPU, which is what PTX was compiled for: see `nvrtc.Ptx.target`."""
    return Limits(shared_per_block_optin=227 << 10) if target == "sm_90a" else Limits()


def poison(shape, dtype) -> numpy.ndarray:
    """What an array holds that nothing was written to: NaN with all bits set, or 0x7f in every byte."""
    made = numpy.empty(shape, dtype)
    made.reshape(-1).view(numpy.uint8).fill(0xFF if made.dtype.kind in "fc" else 0x7F)
    return made


def constant_bytes(compiled, name: str, values) -> tuple[str, numpy.ndarray]:
    """(name in the PTX, bytes) to fill a variable from its start with values or a device array; the rest of a
    __constant__ variable is poison.

    compiled: nvrtc.Ptx. Errors: LaunchError if there is no such variable, or not enough room.
    """
    values = values.get() if hasattr(values, "get") else values
    data = numpy.ascontiguousarray(values).view(numpy.uint8).reshape(-1)
    symbol, (nbytes,), _ = variable_array(compiled, name, numpy.uint8)
    if data.size > nbytes:
        raise LaunchError(f"{name} has {nbytes} bytes; {data.size} do not fit", "cudaErrorInvalidValue")
    if name not in compiled.constants:
        return symbol, data
    return symbol, numpy.pad(data, (0, nbytes - data.size), constant_values=0xFF)


def variable_array(compiled, name: str, dtype) -> tuple[str, tuple[int], numpy.dtype]:
    """(name in the PTX, shape, dtype) of a module's variable as an array. Errors: LaunchError."""
    dtype = numpy.dtype(dtype)
    if name not in compiled.variables:
        known = (
            ", ".join(sorted(n for n in compiled.variables if n.isidentifier() and n[0] != "_"))
            or "none that a kernel uses"
        )
        raise LaunchError(f"there is no variable {name}; the file has {known}", "cudaErrorInvalidSymbol")
    symbol, nbytes = compiled.variables[name]
    if nbytes % dtype.itemsize:
        raise LaunchError(f"{name} has {nbytes} bytes, which is not a whole number of {dtype} elements")
    return symbol, (nbytes // dtype.itemsize,), dtype


def triple(value, what: str) -> tuple[int, int, int]:
    """One to three ints as (x, y, z)."""
    if type(value) is int:
        return value, 1, 1
    values = value if isinstance(value, tuple | list) else (value,)
    try:
        numbers = [n.__index__() for n in values]
    except AttributeError:
        raise LaunchError(f"the {what} must be whole numbers, not {value!r}", _CONFIGURATION) from None
    if not 1 <= len(numbers) <= 3:
        raise LaunchError(f"the {what} has 1 to 3 dimensions, not {len(numbers)}", _CONFIGURATION)
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


_CONFIGURATION = "cudaErrorInvalidConfiguration"


def check_shape(grid, block, shared: int, limits: Limits = Limits()) -> None:
    """LaunchError for a grid or block that CUDA refuses. shared: static and dynamic bytes together."""
    for what, size, most in (("grid", grid, limits.grid), ("block", block, limits.block)):
        for axis, n, limit in zip("xyz", size, most):
            if n < 1:
                raise LaunchError(f"{what}.{axis} is {n}; it is at least 1", _CONFIGURATION)
            if n > limit:
                raise LaunchError(f"{what}.{axis} is {n}; the limit is {limit}", _CONFIGURATION)
    threads = block[0] * block[1] * block[2]
    if threads > limits.threads_per_block:
        shape = " x ".join(str(n) for n in block if n > 1)
        raise LaunchError(
            f"a block of {shape} = {threads} threads; the limit is {limits.threads_per_block}", _CONFIGURATION
        )
    if shared > limits.shared_per_block_optin:
        raise LaunchError(
            f"{shared} bytes of shared memory per block; the limit is {limits.shared_per_block_optin}",
            "cudaErrorInvalidValue",
        )


PORTABLE_CLUSTER, LARGEST_CLUSTER = 8, 16  # blocks; of devices of compute capability 9.0


def check_cluster(kernel: str, grid, cluster, large: bool) -> None:
    """LaunchError for a grid that is not made of whole clusters, or clusters that are too large. large: portable ones are not all
    that the kernel allows."""
    blocks, most = prod(cluster), LARGEST_CLUSTER if large else PORTABLE_CLUSTER
    if blocks > most:
        remedy = f" ({LARGEST_CLUSTER} where the kernel sets non_portable_cluster_size_allowed)" * (not large)
        raise LaunchError(
            f"{kernel} has clusters of {blocks} blocks; the limit is {most}{remedy}",
            "cudaErrorInvalidClusterSize",
        )
    for axis, n, size in zip("xyz", grid, cluster):
        if n % size:
            raise LaunchError(
                f"grid.{axis} is {n}; {kernel} has clusters of {size} blocks there, so it must be a multiple of {size}",
                _CONFIGURATION,
            )


def cluster_of(kernel: str, cluster, own: tuple[int, int, int]) -> tuple[int, int, int]:
    """The cluster that a launch asks for. own: what the source says, (1, 1, 1) if nothing. LaunchError if they differ."""
    cluster = triple(cluster, "cluster")
    for axis, n in zip("xyz", cluster):
        if n < 1:
            raise LaunchError(f"cluster.{axis} is {n}; it is at least 1", _CONFIGURATION)
    if own not in ((1, 1, 1), cluster):
        raise LaunchError(
            f"the launch asks for clusters of {cluster}; {kernel} has __cluster_dims__{own} in its source, which no launch changes",
            "cudaErrorInvalidClusterSize",
        )
    return cluster


class InClusters:
    """A kernel that launches may run in clusters that its source does not name. non_portable_cluster_size_allowed: as CUDA's
    attribute of a function, clusters may have 16 blocks."""

    non_portable_cluster_size_allowed = False
    _given: tuple[int, int, int] | None = None

    @property
    def cluster(self) -> tuple[int, int, int]:
        """Blocks of a cluster in x, y and z."""
        return self._given or self.info.cluster

    def in_clusters(self, cluster):
        """The kernel for launches in clusters of this shape. Errors: LaunchError."""
        cluster = cluster_of(self.name, cluster, self.info.cluster)
        kinds = self.__dict__.setdefault("_kinds", {})
        if cluster not in kinds:
            kinds[cluster] = type(self)(self.module, self._symbol, self.name)
        found = kinds[cluster]
        found._given = cluster
        found.max_dynamic_shared_size_bytes = self.max_dynamic_shared_size_bytes
        found.non_portable_cluster_size_allowed = self.non_portable_cluster_size_allowed
        return found


def check_arguments(kernel: str, sizes: tuple[int, ...], args: tuple, array_type: type, device) -> None:
    """LaunchError if the arguments do not match the kernel's signature.

    sizes: bytes of each parameter. args: device arrays and NumPy scalars.
    """
    if len(args) != len(sizes):
        raise LaunchError(f"{kernel} takes {len(sizes)} arguments; {len(args)} were given")
    for position, (size, argument) in enumerate(zip(sizes, args), 1):
        where = f"argument {position} of {kernel}"
        if isinstance(argument, array_type | SurfaceObject | TensorMap):
            given = NBYTES if isinstance(argument, TensorMap) else 8
            if argument.device is not device:
                raise LaunchError(f"{where} belongs to another device")
        elif isinstance(argument, bool | int | float | complex) and not isinstance(argument, numpy.generic):
            kind = type(argument).__name__
            raise LaunchError(
                f"{where} is a Python {kind}, whose size is not known: pass numpy.int32(...) or the like"
            )
        elif isinstance(argument, numpy.ndarray) and argument.ndim:
            raise LaunchError(f"{where} is a NumPy array; copy it to the device with dev.array(...)")
        elif isinstance(argument, numpy.generic | numpy.ndarray):
            given = argument.dtype.itemsize
        else:
            kind = type(argument).__name__
            raise LaunchError(f"{where} is a {kind}; pass a device array or a NumPy scalar")
        if given != size:
            kind = (
                "a tensor map"
                if isinstance(argument, TensorMap)
                else f"a {argument.dtype}"
                if isinstance(argument, numpy.generic | numpy.ndarray)
                else "an array (a pointer)"
            )
            raise LaunchError(f"{where} is {kind} of {given} bytes; the kernel takes {size} bytes there")


def cut_output(text: str, limit: int = OUTPUT_CHARACTERS) -> tuple[str, int]:
    """(the first whole lines of a text, the number of dropped lines)."""
    if len(text) <= limit:
        return text, 0
    end = text.rfind("\n", 0, limit) + 1 or limit
    rest = text[end:]
    return text[:end], rest.count("\n") + (not rest.endswith("\n"))
