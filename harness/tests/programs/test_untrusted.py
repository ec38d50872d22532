"""Programs of strangers: what they may not do fails, what never ends is ended, and each gets one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from backwarp.programs import process
from backwarp.programs.run import Asked, run_program
from backwarp.report.program import ending

from .test_pairs import needs_compiler

pytestmark = needs_compiler

HOSTILE = r"""
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char** argv) {
    if (argc > 1 && argv[1][0] == 'p') for (;;) puts("again");
    if (argc > 1 && argv[1][0] == 'e') for (volatile int i = 0;; i = i + 1) {}
    std::string line, own;
    std::getline(std::ifstream("/etc/passwd"), line);
    std::getline(std::ifstream("beside.txt"), own);
    printf("%d %d %d %d ", fork(), kill(getppid(), SIGKILL), socket(AF_INET, SOCK_STREAM, 0), (int)line.size());
    printf("%d %d ", (int)!!std::ofstream("new.txt"), (int)!!std::ofstream("out/new.txt"));
    printf("%s %d %d ", own.c_str(), (int)!!getenv("SECRET"), system("true") == 0);
    void* volatile large = malloc(1ull << 45);
    printf("%d ", large == nullptr);
    int word;
    printf("%d\n", scanf("%d", &word));
    return 7;
}
"""


def run(folder: Path, text: str, *arguments: str, **how):
    (folder / "prog.cu").write_text(text)
    with open(folder / "printed", "w+b") as printed:
        done = run_program(Asked(folder / "prog.cu", arguments, **how), output=(printed.fileno(),) * 2)
        printed.seek(0)
        return done, printed.read().decode()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET", "1")
    (tmp_path / "beside.txt").write_text("own\n")
    (tmp_path / "out").mkdir()
    return tmp_path


def test_what_a_program_may_do(folder):
    done, printed = run(folder, HOSTILE, writable=(folder / "out",))
    assert printed.split() == "-1 -1 -1 0 0 1 own 0 0 1".split() + printed.split()[-1:]
    assert done.exit_status == done.status == 7 and (folder / "out/new.txt").exists()


def test_what_never_ends(folder, monkeypatch):
    monkeypatch.setattr(process, "MOST_OUTPUT", 1 << 20)
    done, printed = run(folder, HOSTILE, "p")
    assert done.ended == "flood" and "MB" in ending(done, Asked(folder)) and len(printed) < 2 << 20
    done, _ = run(folder, HOSTILE, "e", seconds=0.5)
    assert done.ended == "time" and done.exit_status == 124


PROGRAMS = {
    "two mains": ("int main() {}\nint main() {}\n", "redefinition of 'main'"),
    "no main": ("__global__ void k() {}\n", "no main"),
    "a header that is nowhere": ("#include <nowhere.h>\nint main() {}\n", "is not beside the file"),
    "a function that is nowhere": ("void f(); int main() { f(); }\n", "f()"),
    "a library that is not here": ("#include <gtest/gtest.h>\nint main() {}\n", "GoogleTest"),
    "a file in the assembler": ('asm(".incbin \\"/etc/passwd\\""); int main() {}\n', "/etc/passwd"),
    "a file of the system": ('#include "/etc/passwd"\nint main() {}\n', "/etc/passwd"),
    "a wrong kernel": ("__global__ void k() { x = 1; }\nint main() { k<<<1, 1>>>(); }\n", '"x" is undefined'),
}


@pytest.mark.parametrize("text, says", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_what_does_not_compile(folder, text, says):
    done, _ = run(folder, text)
    shown = str(done.error) + "".join(map(str, done.error.diagnostics))
    assert says in shown and "root:" not in shown and done.exit_status == 2


OWN = r"""
#include <cstdio>
__global__ void hello() { printf("from the device\n"); }
int main() {
    char* large;
    printf("%s\n", cudaGetErrorName(cudaMalloc(&large, 8ull << 30)));
    unsigned low, high;
    asm("rdtsc" : "=a"(low), "=d"(high));
    hello<<<1, 1>>>();
    printf("from the host\n");
    cudaDeviceSynchronize();
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    printf("%d %d %d\n", p.major, p.clockRate > 0, low + high > 0);
    return 3 * (cudaGetLastError() == cudaSuccess);
}
"""


def test_output_is_in_order_and_what_does_not_fit_is_a_note(folder):
    done, printed = run(folder, OWN)
    assert printed.split("\n")[:4] == [
        "cudaErrorMemoryAllocation",
        "from the host",
        "from the device",
        "8 1 1",
    ]
    assert [m.kind for m in done.mistakes] == ["full"] and done.exit_status == 0 == done.status


def test_a_program_that_damages_its_own_runtime(folder):
    wild = "int main() { for (long i = 3; i < 64; i++) __builtin_memset((void*)(i << 20), 1, 4096); }\n"
    done, _ = run(folder, f"#include <unistd.h>\n{wild}")
    assert done.status == 139
