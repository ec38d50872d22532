"""Whether a kernel file may have host code, so that `host_code` need be loaded at all."""

from __future__ import annotations

import re

#: headers of host libraries, which are of no use to a kernel
HEADERS = frozenset(
    """
    iostream fstream sstream iomanip ostream istream iosfwd ios streambuf cwchar cctype ctype.h string string_view
    vector map unordered_map set unordered_set list forward_list deque queue stack memory memory_resource any variant
    chrono random thread mutex shared_mutex condition_variable future execution filesystem regex locale codecvt
    stdexcept exception system_error typeinfo typeindex iterator valarray csignal signal.h csetjmp setjmp.h cerrno
    errno.h ctime time.h unistd.h fcntl.h getopt.h pthread.h sched.h dirent.h sys/time.h sys/stat.h sys/mman.h
    sys/resource.h malloc.h windows.h omp.h mpi.h gtest/gtest.h benchmark/benchmark.h
    helper_cuda.h helper_functions.h helper_timer.h helper_string.h helper_image.h exception.h wb.h
    cuda_gl_interop.h cudaGL.h cuda_egl_interop.h cudaEGL.h cuda_vdpau_interop.h cudaVDPAU.h cudaTypedefs.h cuda_profiler_api.h cudaProfiler.h nvToolsExt.h nvtx3/nvToolsExt.h nvtx3/nvtx3.hpp nvml.h cupti.h nvrtc.h
    cudnn.h curand.h nccl.h npp.h nvjpeg.h
    """.split()
)
# all of Thrust's headers except those with something for kernels, and CUB's functions that launch kernels
# all of Thrust's headers except those with something for kernels, and CUB's functions that launch kernels
_THRUST = re.compile(r"thrust/(?!(?:pair|tuple|complex|functional|swap|extrema|detail/.*)\.h)|cub/device/")
PROGRAM = re.compile(r"<<<|\bmain\s*\(|\bcuda[A-Z]\w*\s*\(")
_INCLUDED = re.compile(r"#\s*include\s*[<\"]([^>\"\n]*)")
#: a literal `(T){1, 2}`, which nvcc allows; not `if (t) {`
_COMPOUND = re.compile(r"(?:[^\w\s]|\breturn)\s*\((?:struct\s+)?[A-Za-z_][\w:]*\)\s*\{")
#: an option for what `host_code.without` has gone through, together with its headers
PARTED = "-DBACKWARP_PARTED"


def is_host(header: str) -> bool:
    """Whether a header belongs to a host library."""
    return header in HEADERS or bool(_THRUST.match(header))


def has_sign(source: str) -> bool:
    """Whether it may have code for the host."""
    if "__CUDACC_RTC__" in source or PROGRAM.search(source):
        return True
    return any(name in HEADERS or name.startswith("thrust/") for name in _INCLUDED.findall(source))


def has_literals(source: str) -> bool:
    """Whether it may have compound literals."""
    return bool(_COMPOUND.search(source))
