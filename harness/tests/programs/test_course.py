"""The course's own programs: what its lessons print, the exercise and its solution, and the ten mistakes."""

from __future__ import annotations

import pytest

from backwarp.course.stubs import strip_solution
from backwarp.lenet.checks import this_course
from backwarp.maintain.transcripts import renewed
from backwarp.programs.model import Model

from .test_pairs import found, needs_compiler, run

COURSE = this_course()
FOLDER, LAYER = COURSE.root / "puzzles" / "beyond", COURSE.root / "solutions" / "beyond" / "first_layer.cu"
#: by number: the mistake's kind, what is wrong, and what is right
BUGS = {
    1: ("direction", "cudaMemcpy(h.data(), d, bytes, cudaMemcpyHostToDevice);", "cudaMemcpy(h.data(), d, bytes, cudaMemcpyDeviceToHost);"),
    2: ("too-long", "cudaMalloc(&d, n);", "cudaMalloc(&d, bytes);"),
    3: ("on-device", 'printf("%g\\n", d[0]);', 'printf("%g\\n", h[0]);'),
    4: ("launch", "<<<n / 1024, 1024>>>", "<<<(n + 1023) / 1024, 1024>>>"),
    5: ("host-pointer", ", float*) {\n    twice<<<(n + 255) / 256, 256>>>(h.data(), n);", ", float* d) {\n    cudaMemcpy(d, h.data(), bytes, cudaMemcpyDefault);\n    twice<<<(n + 255) / 256, 256>>>(d, n);"),
    6: ("freed", "    cudaFree(d);\n    cudaMemcpy(h.data(), d, bytes, cudaMemcpyDeviceToHost);\n", "    cudaMemcpy(h.data(), d, bytes, cudaMemcpyDeviceToHost);\n    cudaFree(d);\n"),
    7: ("freed-twice", "    cudaFree(a);\n    cudaFree(a);\n", "    cudaFree(a);\n    cudaFree(b);\n"),
    8: ("under-way", '    printf("%g\\n", m[1]);\n    cudaDeviceSynchronize();\n', '    cudaDeviceSynchronize();\n    printf("%g\\n", m[1]);\n'),
    9: ("under-way", "(d, n);\n    }\n", "(d, n);\n        cudaDeviceSynchronize();\n    }\n"),
    10: ("race", "    cudaEventRecord(copied, copies);\n", ""),
}  # fmt: skip


def mistaken(done) -> set[str]:
    return {kind for _, kind in found(done) if kind not in ("leak", "unset")}


@needs_compiler
@pytest.mark.parametrize("number", BUGS)
def test_each_mistake_is_named(number):
    assert mistaken(run(FOLDER / "host_bugs.cu", str(number))) == {BUGS[number][0]}


@needs_compiler
def test_the_mended_ones_are_silent(tmp_path):
    text = (FOLDER / "host_bugs.cu").read_text()
    for _, wrong, right in BUGS.values():
        assert text.count(wrong) == 1, wrong
        text = text.replace(wrong, right)
    copy = "cudaMemcpyAsync(d, pinned, bytes, cudaMemcpyHostToDevice, copies);\n"
    (tmp_path / "bugs.cu").write_text(text.replace(copy, f"{copy}    cudaEventRecord(copied, copies);\n"))
    for number in BUGS:
        done = run(tmp_path / "bugs.cu", str(number))
        assert (number, found(done), done.exit_status) == (number, set(), 0)


@needs_compiler
def test_the_first_layer(tmp_path):
    done = run(LAYER)
    assert found(done) == set() and done.exit_status == 0
    assert run(FOLDER / "first_layer.cu").exit_status == 1
    text = LAYER.read_text()
    for right, wrong in {
        "bias.size() * sizeof(float), cudaMemcpy": "bias.size(), cudaMemcpy",
        "(x, w, b, y, BATCH,": "(x, w, b, y, BATCH - 1,",
        "{x, w, b, y}": "{x, w, b}",
    }.items():
        assert text.count(right) == 1
        (tmp_path / "layer.cu").write_text(text.replace(right, wrong))
        done = run(tmp_path / "layer.cu")
        assert done.exit_status or found(done), wrong


def test_the_stub_is_the_solution_without_its_parts():
    assert (FOLDER / "first_layer.cu").read_text() == strip_solution(LAYER.read_text(), "first_layer.cu")


@needs_compiler
@pytest.mark.parametrize("way", ["one", "alternate", "engines"])
def test_how_long_each_way_takes(way):
    done = run(FOLDER / "streams.cu", way, model=Model())
    assert found(done) == set() and done.exit_status == 0
    took = max(o.finish for o in done.operations) / 1000
    assert f"| {way} | {took:.1f} |" in (FOLDER / "streams.md").read_text()


@needs_compiler
@pytest.mark.parametrize("name", ["host_bugs.md", "streams.md"])
def test_lessons_print_what_programs_do(name):
    text = (FOLDER / name).read_text()
    assert renewed(COURSE, text, programs=True) == text, (
        "run them again: python -m backwarp.maintain.transcripts"
    )
