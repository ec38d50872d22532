"""The filter of system calls, run in a model of the kernel's interpreter: for x86-64 and for ARM, on any machine.

Source: Linux's Documentation/networking/filter.rst; include/uapi/linux/seccomp.h.
"""

from __future__ import annotations

import errno
import re
import struct
from itertools import product
from pathlib import Path

import pytest

from backwarp.devices import confine

ALLOW, REFUSED, UNKNOWN, KILL = "allow", "EPERM", "ENOSYS", "kill"
RESULTS = {
    0x7FFF0000: ALLOW,
    0x00050000 | errno.EPERM: REFUSED,
    0x00050000 | errno.ENOSYS: UNKNOWN,
    0x80000000: KILL,
}
#: what starts programs and processes, or reaches files, other processes, the network or the kernel: x86-64, aarch64
HARMFUL = """
    fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, socket 41 198, socketpair 53 199, connect 42 203, bind 49 200,
    accept 43 202, listen 50 201, kill 62 129, tkill 200 130, tgkill 234 131, ptrace 101 117, process_vm_readv 310 270,
    process_vm_writev 311 271, creat 85 -, mkdir 83 -, mkdirat 258 34, unlink 87 -, unlinkat 263 35, rename 82 -,
    renameat2 316 276, linkat 265 37, symlinkat 266 36, chmod 90 -, fchmodat 268 53, fchownat 260 54, truncate 76 45,
    ftruncate 77 46, mknodat 259 33, memfd_create 319 279, openat2 437 437, open_by_handle_at 304 265, io_uring_setup 425 425,
    io_uring_enter 426 426, bpf 321 280, userfaultfd 323 282, perf_event_open 298 241, mount 165 40, chroot 161 51,
    unshare 272 97, setns 308 268, pidfd_open 434 434, pidfd_getfd 438 438, pidfd_send_signal 424 424, prctl 157 167,
    seccomp 317 277, setrlimit 160 164, setpriority 141 140, sched_setaffinity 203 122, setuid 105 146, setsid 112 157,
    getsid 124 156, keyctl 250 219, shmget 29 194, shmat 30 196, mq_open 240 180, fanotify_init 300 262, inotify_init1 294 26,
    init_module 175 105, kexec_load 246 104, reboot 169 142
"""
MACHINES = confine._MACHINES
I386, ARM = 0x40000003, 0x40000028
THREAD, PROCESS = 0x3D0F00, 0x1200011  # flags of clone, as glibc gives them for a thread, and for fork()


def table(rows: str, machine: str) -> dict[str, int]:
    split = (row.split() for row in rows.split(","))
    column = MACHINES[machine].column
    return {row[0]: int(row[column]) for row in split if row[column] != "-"}


def run(program: list[bytes], audit: int, number: int, arguments: tuple[int, ...]) -> str:
    """What the filter answers to a call."""
    data = struct.pack("<IIQ6Q", number, audit, 0, *(*arguments, *[0] * 6)[:6])
    accumulator, at = 0, 0
    for _ in range(len(program)):  # jumps only go forward
        code, if_true, if_false, value = struct.unpack("=HBBI", program[at])
        at += 1
        if code == 0x06:
            return RESULTS[value]
        if code == 0x20:
            assert value % 4 == 0 and value < len(data)
            (accumulator,) = struct.unpack_from("<I", data, value)
        else:
            holds = {0x15: accumulator == value, 0x45: bool(accumulator & value)}[code]
            at += if_true if holds else if_false
    raise AssertionError("the filter does not end")


@pytest.fixture(params=product(MACHINES, (False, True)), ids=lambda p: f"{p[0]}{' limits' * p[1]}")
def call(request):
    """Makes a call of a machine: call(number, *arguments, audit=...)."""
    machine, limits = request.param
    program = confine._filter(MACHINES[machine], limits)
    assert len(program) <= 4096  # BPF_MAXINSNS

    def make(number: int, *arguments: int, audit: int = MACHINES[machine].audit) -> str:
        return run(program, audit, number, arguments)

    make.machine, make.limits = machine, limits
    return make


def test_each_listed_call_is_allowed_and_no_other(call):
    listed = set(table(confine._CALLS, call.machine).values())
    special = {MACHINES[call.machine].clone, MACHINES[call.machine].prlimit, confine._CLONE3}
    assert not listed & special
    for number in range(600):
        if number not in special:
            assert call(number, 1, 2, 3, 4, 5, 6) == (ALLOW if number in listed else REFUSED)


def test_nothing_harmful_is_listed(call):
    for name, number in table(HARMFUL, call.machine).items():
        assert (name, call(number)) == (name, REFUSED)


def test_a_thread_may_be_started_and_a_process_not(call):
    clone = MACHINES[call.machine].clone
    assert call(clone, THREAD) == ALLOW
    assert call(clone, PROCESS) == REFUSED
    assert call(clone, 0x4111) == REFUSED  # vfork, as posix_spawn calls it
    assert call(confine._CLONE3, 1 << 40, 88) == UNKNOWN  # so that glibc tries clone


def test_the_limits_of_this_process_alone_may_be_read(call):
    prlimit, there = MACHINES[call.machine].prlimit, 0x7F12_0000_0000
    assert call(prlimit, 0, 7, 0, there) == ALLOW
    for new in (there, 1 << 32, 4096):
        assert call(prlimit, 0, 7, new, there) == (ALLOW if call.limits else REFUSED)
    for process in (1, 4321):
        assert call(prlimit, process, 7, 0, there) == REFUSED
        assert call(prlimit, process, 7, there, 0) == REFUSED


def test_calls_of_another_architecture_end_the_process(call):
    others = {I386, ARM, *(m.audit for m in MACHINES.values())} - {MACHINES[call.machine].audit}
    for audit, number in product(others, (0, 1, 11, 63, 120, confine._CLONE3)):
        assert call(number, audit=audit) == KILL
    for number in table(confine._CALLS, call.machine).values():  # of x32, which has the same architecture
        assert call(number | 0x40000000) == REFUSED


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_the_kernels(machine):
    if not HEADERS[machine].exists():
        pytest.skip("Linux's headers are not installed")
    text = HEADERS[machine].read_text()
    numbers = {n: int(v) for n, v in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\n", text)}
    numbers |= {"newfstatat": numbers.get("newfstatat", numbers.get("fstatat"))}
    own = {name: getattr(MACHINES[machine], name) for name in ("seccomp", "clone")}
    own |= {"prlimit64": MACHINES[machine].prlimit, "clone3": confine._CLONE3}
    for name, number in (table(confine._CALLS, machine) | table(HARMFUL, machine) | own).items():
        assert (name, numbers[name]) == (name, number)
