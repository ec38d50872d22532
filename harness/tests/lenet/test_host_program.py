"""The program for nvcc: it parses, its kernels run with all checks, and its host code trains LeNet.

There is no compiler for host code here. As the host code is C++ that NVRTC understands, it runs as a single thread on the
virtual GPU, in which every access is checked, with the kernels called in loops over the grid and the block.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from backwarp.reference import lenet
from backwarp.reference.lenet import PARAMETERS

from backwarp.cuda import tree as cuda_tree
from backwarp.devices.nvrtc.compiler import compile_ptx
from backwarp.lenet import data, host_program
from backwarp.lenet.checks import this_course
from backwarp.lenet.training_checks import MOMENTUM, WEIGHT_DECAY, schedule
from tests.devices.virtual.launches import device

BATCH, TRAINED, TESTED = 2, 5, 3  # two steps, an image is left over; the last batch of the test is not full
EMULATED = Path(__file__).with_name("emulated_host.h").read_text(encoding="utf-8")
MAIN = """
extern "C" __global__ void run_host(const unsigned char* file, long long bytes, int* left) {
    emu_file = file;
    emu_bytes = bytes;
    *left = host_main(0, nullptr);
    *left += emu_allocated + 1000 * emu_exits;
}
"""


@pytest.fixture(scope="module")
def text():
    return host_program.program(this_course(), solutions=True, batch=BATCH, epochs=1)


def emulated(text: str) -> str:
    """The program as device code of one thread."""
    text = re.sub(r"^#include[^\n]*\n", "", text, flags=re.MULTILINE)
    text = text.replace("__global__ void", "__device__ void")
    text = re.sub(r"\b(thread|block)Idx\b", r"emu_\1", text)
    text = text.replace("blockDim", "emu_threads").replace("gridDim", "emu_blocks")
    text = re.sub(r"([\w:]+)<<<(.*?)>>>(\(.*?\));", r"emu_launch(\2, [&] { \1\3; });", text)
    text = re.sub(r"\bcuda(?=[A-Z])", "emu", text)
    text = re.sub(r"^static ", "static __device__ ", text, flags=re.MULTILINE)
    text = text.replace("int main(", "__device__ int host_main(")
    return EMULATED + text + MAIN


def small_file(trained: int = TRAINED) -> bytes:
    """The data file with a few of its images."""
    whole = host_program.data_file()
    count, known, tests = struct.unpack_from("<3i", whole)
    at, parts = 12, [struct.pack("<3i", count, trained, TESTED), whole[12 : 12 + 4 * count]]
    at += 4 * count
    for size, kept, total in (
        (784, trained, known),
        (1, trained, known),
        (784, TESTED, tests),
        (1, TESTED, tests),
    ):
        parts.append(whole[at : at + 4 * size * kept])
        at += 4 * size * total
    assert at == len(whole)
    return b"".join(parts)


def run_host(text: str, file: bytes) -> tuple[str, int]:
    """(what it prints, what main returns and leaves behind)."""
    there = device("memory")
    function = there.compile(emulated(text), name="lenet.cu").get_function("run_host")
    left = there.empty((1,), np.int32, name="left")
    values = there.array(np.frombuffer(file, np.uint8), name="file")
    launch = function(1, 1, (values, np.int64(len(file)), left))
    return launch.stdout, int(left.get()[0])


@pytest.mark.soak
def test_it_trains_as_the_reference_does_and_frees_what_it_has_taken(text):
    printed, left = run_host(text, small_file())
    digits, order = data.load("digits"), np.random.default_rng(0).permutation(1438)[:TRAINED]
    images, labels = digits.train_images[order], digits.train_labels[order]
    pairs = [(images[i : i + BATCH], labels[i : i + BATCH]) for i in (0, BATCH)]
    p = {name: values.astype(np.float64) for name, values in lenet.initial().items()}
    losses = [*lenet.train(p, pairs, [schedule(step, 2) for step in (0, 1)], MOMENTUM, WEIGHT_DECAY)]
    answers = lenet.forward(p, digits.test_images[:TESTED])["logits"].argmax(1)
    right = int((answers == digits.test_labels[:TESTED]).sum())
    assert (
        printed == f"epoch 1: mean loss {np.mean(losses):.4f}, {right} of {TESTED} right, 0.500 ms per step\n"
    )
    assert left == 0


def test_it_parses_and_names_no_place_that_is_left(text):
    assert not cuda_tree.parse(text).has_error and not re.search(r"@[A-Z]", text)
    assert text.count("<<<") == 13 + 21 + len(PARAMETERS)


def test_its_kernels_compile_without_the_host_code(text):
    compiled = compile_ptx(text, "lenet.cu")
    assert {"conv2d_forward", "sgd_step", "mean_loss"} <= set(compiled.kernels)
    assert any("Host code" in warning.message for warning in compiled.warnings)


def test_files_may_use_the_same_names_and_headers():
    own = "#include <cstdint>\n#define N {0}\n__device__ int helper() {{ return N; }}\n"
    own += 'extern "C" __global__ void kernel_{0}(int* x) {{ *x = helper(); }}\n'
    puzzles = [this_course().load(number) for number in ("03", "04")]
    sources = [own.format(puzzle.number) for puzzle in puzzles]
    header = next(path for path in sorted(puzzles[0].include_dirs[0].iterdir()) if path.is_file())
    sources[0] = f'#include "{header.name}"\n' + sources[0]
    choices = [SimpleNamespace(puzzle=p, source=s) for p, s in zip(puzzles, sources)]
    includes, kernels = host_program.files(choices)
    assert "#include" not in kernels and f'"{header.name}"' not in includes and "<cstdint>" in includes
    compiled = compile_ptx(includes + kernels, "lenet.cu")
    assert {"kernel_03", "kernel_04"} <= set(compiled.kernels) and not compiled.warnings


def test_files_are_written_beside_one_another(tmp_path):
    made = host_program.export(this_course(), tmp_path / "net.cu", solutions=True)
    assert [p.name for p in made] == ["net.cu", "net.bin"]
    assert "./net net.bin" in made[0].read_text() and made[1].read_bytes() == host_program.data_file()
