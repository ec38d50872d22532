"""A process gives up what it does not need before it runs a stranger's code: files, programs, processes, sockets.

Two features of the Linux kernel that need neither privileges nor packages: Landlock (which files) and seccomp
(which system calls). Both are permanent and inherited by everything the process starts. Threads that are
already running keep their access to files, so a process confines itself before it, or any library, starts
one.

A system may lack any of this: an old kernel, an emulator, a container's own filter. Then the process goes on with
what there is, and says so; where it runs other people's files it ends instead (STRICT).

Source: landlock(7), seccomp(2), Linux's include/uapi/linux/{landlock,seccomp,filter}.h. The numbers of the system
calls: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .. import CHECKOUT, COURSE, PACKAGE, SOURCES

#: variables that keep NumPy's libraries from starting threads when they are loaded
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
#: the variable with which a process ends rather than be confined in part
STRICT = "BACKWARP_STRICT"
_TRIAL = "from backwarp.devices import confine; confine.trial()"
_PATIENCE = 60  # seconds for a trial

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # the same on every architecture
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
#: the file rights that each version of Landlock knows: bits 0 to N - 1
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_TCP, _SCOPES = 0b11, 0b11  # bind and connect, from version 4; abstract sockets and signals, from version 6
_READING = _READ_FILE | _READ_DIR
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE  # rights that a rule for a single file may grant

_CAPABILITIES_VERSION = 0x20080522
_CAP_READ_FILES = 0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_PR_SET_NO_NEW_PRIVS, _SET_MODE_FILTER, _ALL_THREADS = 38, 1, 1
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_CLONE_THREAD = 0x10000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # instructions of a filter
# offsets in struct seccomp_data; an argument has two words
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 32


@dataclass(frozen=True)
class _Machine:
    """audit: the kernel's constant for the architecture. The others: system call numbers."""

    column: int  # of _CALLS
    audit: int
    seccomp: int
    clone: int
    prlimit: int


_MACHINES = {
    "x86_64": _Machine(1, 0xC000003E, seccomp=317, clone=56, prlimit=302),
    "aarch64": _Machine(2, 0xC00000B7, seccomp=277, clone=220, prlimit=261),
}
_CLONE3 = 435
#: system calls that Python, NumPy, LLVM and their threads need once running, numbered for x86-64 and aarch64
_CALLS = """
    read 0 63, write 1 64, open 2 -, close 3 57, stat 4 -, fstat 5 80, lstat 6 -, poll 7 -, lseek 8 62,
    mmap 9 222, mprotect 10 226, munmap 11 215, brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135,
    rt_sigreturn 15 139, pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, access 21 -,
    pipe 22 -, select 23 -, pselect6 270 72, sched_yield 24 124, mremap 25 216, msync 26 227,
    mincore 27 232, madvise 28 233, dup 32 23, dup2 33 -, dup3 292 24, pipe2 293 59, nanosleep 35 101,
    clock_nanosleep 230 115, getitimer 36 102, setitimer 38 103, alarm 37 -, getpid 39 172,
    getppid 110 173, gettid 186 178, getuid 102 174, getgid 104 176, geteuid 107 175, getegid 108 177,
    sendto 44 206, recvfrom 45 207, sendmsg 46 211, recvmsg 47 212, shutdown 48 210, exit 60 93,
    exit_group 231 94, wait4 61 260, uname 63 160, fcntl 72 25, getcwd 79 17, readlink 89 -,
    readlinkat 267 78, getdents64 217 61, gettimeofday 96 169, time 201 -, times 100 153,
    clock_gettime 228 113, clock_getres 229 114, getrlimit 97 163, getrusage 98 165,
    sigaltstack 131 132, futex 202 98, set_robust_list 273 99, set_tid_address 218 96,
    sched_getaffinity 204 123, getcpu 309 168, arch_prctl 158 -, epoll_wait 232 -, epoll_pwait 281 22,
    epoll_ctl 233 21, ppoll 271 73, openat 257 56, newfstatat 262 79, fstatfs 138 44, faccessat 269 48,
    faccessat2 439 439, statx 332 291, getrandom 318 278, membarrier 324 283, rseq 334 293
"""


#: those that a program needs beside them: to be executed, and for its files; and to send signals, to itself
_OF_PROGRAMS = """,
    execve 59 221, mkdir 83 -, mkdirat 258 34, unlink 87 -, unlinkat 263 35, rmdir 84 -, rename 82 -, renameat 264 38,
    renameat2 316 276, ftruncate 77 46, truncate 76 45, fsync 74 82, fdatasync 75 83, getdents 78 -, sysinfo 99 179,
    sched_setaffinity 203 122, creat 85 -, statfs 137 43, chdir 80 49, mlock 149 228, munlock 150 229, utimensat 280 88
"""
_OWN_SIGNALS = "kill 62 129, tgkill 234 131"


@dataclass(frozen=True)
class Confinement:
    """What is in force, for all threads. files: no files but those allowed. calls: no processes, programs or
    sockets. lacks: why not, in the system's words."""

    files: bool
    calls: bool
    lacks: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return self.files and self.calls


@cache
def supported() -> Confinement:
    """What this machine supports: tried in a process of its own, since asking the system is not enough. A container's
    filter or an emulator may know a call and refuse it."""
    if sys.platform != "linux":
        return Confinement(False, False)
    paths = os.pathsep.join(filter(None, (str(SOURCES), os.environ.get("PYTHONPATH"))))
    variables = os.environ | ONE_THREAD | {"PYTHONPATH": paths}
    variables.pop(STRICT, None)
    try:
        tried = subprocess.run(
            [sys.executable, "-P", "-c", _TRIAL],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
        )
        files, calls, lacks = json.loads(tried.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Confinement(False, False, (f"a trial failed: {error}",))
    return Confinement(files, calls, tuple(lacks))


def trial() -> None:
    """Confines this process, and prints what came of it."""
    held = confine(python_folders())
    print(json.dumps([held.files, held.calls, held.lacks]), flush=True)


def confine(
    readable: Iterable[Path | str] = (),
    writable: Iterable[Path | str] = (),
    hidden: Iterable[Path] = (),
    limits: bool = False,
    programs: Iterable[Path | str] = (),
    calls: bool = True,
) -> Confinement:
    """Confine this process permanently. readable, writable: files and folders it keeps, with their contents. programs: files
    that it may execute; it is still confined then. calls: confine its system calls, too.
    hidden: those in readable folders that it cannot read all the same. limits: it may change its own resource
    limits, up to the hard ones.

    Open files stay open. Returns what is in force: a machine that lacks one of the two features still uses
    the other. Errors: PermissionError if that is not all, and STRICT is set.
    """
    lacks: list[str] = []
    files, kept = False, not calls
    if sys.platform == "linux":
        libc, alone = ctypes.CDLL(None, use_errno=True), _threads() == 1
        given_up = _done(lacks, _give_up_privileges, libc)
        rights = readable, writable, tuple(hidden), programs
        files = _done(lacks, _confine_files, libc, *rights) and given_up
        if files and not alone:
            files, _ = False, lacks.append("other threads of the process keep their access")
        kept = kept or _done(lacks, _confine_calls, libc, limits, bool(programs)) and given_up
    held = Confinement(files, kept, tuple(lacks))
    if not held.complete:
        _insist(f"this process cannot be confined ({', '.join(lacks)})")
    return held


def _done(lacks: list[str], step: Callable, *given) -> bool:
    try:
        step(*given)
        return True
    except OSError as error:
        lacks.append(error.strerror or str(error))
        return False


def _insist(what: str) -> None:
    if STRICT in os.environ:
        raise PermissionError(errno.EPERM, what)


def _give_up_privileges(libc) -> None:
    """Gain no privileges from now on. Drop root's capabilities (in a container, for example), except those for reading
    files, which Landlock governs."""
    _expect(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    header = struct.pack("=Ii", _CAPABILITIES_VERSION, 0)
    data = ctypes.create_string_buffer(24)
    _expect(libc.capget(header, data), "capget")
    effective, permitted = (word & _CAP_READ_FILES for word in struct.unpack("=6I", data.raw)[:2])
    _expect(libc.capset(header, struct.pack("=6I", effective, permitted, 0, 0, 0, 0)), "capset")


def limit(
    addresses: int | None = None,
    memory: int | None = None,
    seconds: int | None = None,
    file_size: int | None = None,
    processes: int | None = None,
) -> None:
    """Permanent limits for this process; None: unchanged. addresses: bytes of address space. memory: bytes of
    private writable memory. seconds: processor time. file_size: the largest file it may write, in bytes.
    processes: once the user has this many processes and threads, this one starts no more; root's are not
    counted. No core dump is written."""
    bounds = {
        resource.RLIMIT_AS: addresses,
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: file_size,
        resource.RLIMIT_NPROC: processes,
        resource.RLIMIT_CORE: 0,
    }
    for what, bound in bounds.items():
        if bound is None:
            continue
        try:
            known = [n for n in resource.getrlimit(what) if n != resource.RLIM_INFINITY]
            resource.setrlimit(what, (min(bound, *known), min(bound, *known)) if known else (bound, bound))
        except (OSError, ValueError) as error:
            _insist(f"a limit cannot be set ({error})")


def python_folders(harness: bool = True) -> list[Path]:
    """What Python reads when it imports a module, and the machine's shared libraries. harness: include the
    harness's own modules. The rest of a checkout, kernels and solutions above all, is left out. Where the package
    is installed, it and they are among all other packages: see `kept_from`."""
    folders = {Path(p) for p in (*sys.path, sys.prefix, sys.base_prefix) if p and Path(p).is_dir()}
    if CHECKOUT:
        folders = {f for f in folders if not PACKAGE.is_relative_to(f.resolve())}
        if harness:
            folders |= {PACKAGE, CHECKOUT / "reference"}
    return [*folders, *(Path(p) for p in ("/usr/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/urandom"))]


def kept_from(harness: bool = True) -> list[Path]:
    """What a student's file cannot read in `python_folders`: the course's archive, which has the solutions; without
    `harness` the whole package."""
    return [COURSE if harness else PACKAGE]


# -- Landlock -----------------------------------------------------------------------------------------


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def _confine_files(libc, readable, writable, hidden, programs=()) -> None:
    version = libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    _expect(version, "Landlock")
    every = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    handled = [every, *([_TCP] if version >= 4 else []), *([_SCOPES] if version >= 6 else [])]
    attributes = struct.pack(f"={len(handled)}Q", *handled)
    rules = libc.syscall(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    _expect(rules, "landlock_create_ruleset")
    try:
        for path in readable:
            _allow_reading(libc, rules, Path(path), hidden)
        for path in writable:
            _allow_path(libc, rules, path, every & ~_EXECUTE)
        for path in programs:
            _allow_path(libc, rules, path, _READ_FILE | _EXECUTE)
        _expect(libc.syscall(_LANDLOCK_RESTRICT, rules, 0), "landlock_restrict_self")
    finally:
        os.close(rules)


def _allow_reading(libc, rules: int, path: Path, hidden: tuple[Path, ...]) -> None:
    """Grant reading a path, except what is hidden in it: then only the names there, and one by one the rest."""
    real = path.resolve()
    if any(real.is_relative_to(h) for h in hidden):
        return
    if not any(h.is_relative_to(real) for h in hidden):
        return _allow_path(libc, rules, path, _READING)
    _allow_path(libc, rules, path, _READ_DIR)
    for part in real.iterdir():
        _allow_reading(libc, rules, part, hidden)


def _allow_path(libc, rules: int, path: Path | str, rights: int) -> None:
    """Grant rights on a path; one that does not exist, or cannot be reached, is skipped."""
    try:
        at = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _OF_A_FILE
        rule = struct.pack("=Qi", rights, at)
        _expect(libc.syscall(_LANDLOCK_ADD, rules, 1, rule, 0), f"landlock_add_rule for {path}")
    finally:
        os.close(at)


# -- seccomp ------------------------------------------------------------------------------------------


def _confine_calls(libc, limits: bool, programs: bool) -> None:
    machine = _MACHINES.get(platform.machine())
    if machine is None or sys.maxsize < 1 << 32:  # a 32-bit Python's calls have other numbers
        raise OSError(errno.ENOSYS, f"no filter for {platform.machine()}")
    filter_ = _filter(machine, limits, programs)
    text = ctypes.create_string_buffer(b"".join(filter_))
    program = struct.pack("@HP", len(filter_), ctypes.addressof(text))

    def install(flags: int = 0) -> None:
        found = libc.syscall(machine.seccomp, _SET_MODE_FILTER, flags, program)
        _expect(found, "seccomp")
        if found:  # the id of a thread that it could not be set for
            raise OSError(errno.EAGAIN, "seccomp: another thread has its own filter")

    _try_in_a_child(install)
    install(_ALL_THREADS)


def _try_in_a_child(install: Callable) -> None:
    """Where an emulator hands calls on under other numbers, a filter is accepted and then ends the process."""
    child = os.fork()
    if not child:
        with suppress(OSError):  # the caller will meet it too
            install()
            os.getppid()
        os._exit(0)
    if how := os.waitpid(child, 0)[1]:
        raise OSError(errno.ENOSYS, f"seccomp: a process with the filter ends at once ({how})")


def _filter(machine: _Machine, limits: bool, programs: bool = False) -> list[bytes]:
    """A filter in classic BPF: calls on the list are allowed, others fail.

    Starting a thread is allowed, starting a process is not; a process may read its own resource limits and,
    with `limits`, change them. With `programs`, it may execute another, manage files that Landlock grants, and send signals
    to itself. glibc tries clone3 first, whose flags a filter cannot see, and falls back to
    clone if the kernel does not have it. An instruction is (code, jump if true, jump if false, value); the
    jumps count instructions to skip.
    """
    refuse, unknown = (_RETURN, 0, 0, _ERRNO | errno.EPERM), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    allow, argument = (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FIRST_ARGUMENT)
    # the process (0: this one), and the pointer to the new limit (null for a mere read)
    words = _FIRST_ARGUMENT, *(() if limits else (_THIRD_ARGUMENT, _THIRD_ARGUMENT + 4))
    zeros = [
        part
        for left, word in zip(reversed(range(len(words))), words, strict=True)
        for part in ((_LOAD, 0, 0, word), (_EQUAL, 0, 2 * left + 1, 0))
    ]
    found = [
        *((_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, machine.audit)),
        (_RETURN, 0, 0, _KILL),  # a 32-bit system call, which is numbered differently
        (_LOAD, 0, 0, _NUMBER),
        *((_EQUAL, 0, 1, _CLONE3), unknown),
        *((_EQUAL, 0, 4, machine.clone), argument, (_ANY_BIT, 0, 1, _CLONE_THREAD), allow, refuse),
        *((_EQUAL, 0, len(zeros) + 2, machine.prlimit), *zeros, allow, refuse),
    ]
    own = os.getpid()  # which it keeps when it executes a program
    for number in _numbers(machine, _OWN_SIGNALS) if programs else ():
        found += [(_EQUAL, 0, 4, number), argument, (_EQUAL, 0, 1, own), allow, refuse]
    for number in _numbers(machine, _CALLS + (_OF_PROGRAMS if programs else "")):
        found += [(_EQUAL, 0, 1, number), allow]
    return [struct.pack("=HBBI", *instruction) for instruction in (*found, refuse)]


def _numbers(machine: _Machine, calls: str = _CALLS) -> list[int]:
    rows = (row.split() for row in calls.split(","))
    return [int(row[machine.column]) for row in rows if row[machine.column] != "-"]


def _expect(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
