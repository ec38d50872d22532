"""An emulator is told by what the kernel says of the processor, which is of another kind."""

import pytest

from backwarp.devices import emulated

X86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2\n"
ARM = "processor\t: 0\nBogoMIPS\t: 48.00\nFeatures\t: fp asimd atomics\nCPU implementer\t: 0x61\n"
ROSETTA = (
    "processor\t: 0\nvendor_id\t: VirtualApple\nmodel name\t: VirtualApple @ 2.50GHz\nflags\t\t: fpu sse4_2\n"
)


@pytest.mark.parametrize(
    ("machine", "cpuinfo", "found"),
    [
        ("x86_64", X86, False),
        ("x86_64", ARM, True),
        ("x86_64", ROSETTA, True),
        ("aarch64", ARM, False),
        ("aarch64", X86, True),
        ("x86_64", "", False),
        ("aarch64", "", False),
        ("riscv64", "processor\t: 0\nisa\t\t: rv64imafdc\n", False),
    ],
)
def test_who_runs_this_process(machine, cpuinfo, found):
    assert emulated.is_emulated(machine, cpuinfo, "/usr/bin/python3.12") == found
    for program in ("/usr/bin/qemu-x86_64-static", "/usr/bin/qemu-aarch64", "/run/rosetta/rosetta"):
        assert emulated.is_emulated(machine, cpuinfo, program)
