"""Links that lead elsewhere, caches filled by others, and text with control characters."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import unicodedata
from dataclasses import replace

import numpy as np
import pytest

from backwarp import cli, devices, notebook
from backwarp.course.checkout import Course
from backwarp.devices import confine, open_device
from backwarp.devices.store import Store
from backwarp.devices.virtual import confined_process
from backwarp.devices.virtual.answers import CODEC
from backwarp.devices.virtual.compile import build
from backwarp.grading import grade as grading
from backwarp.grading.grade import Options, grade_file
from backwarp.report.html import page
from tests import ROOT

COURSE = Course(ROOT)
PUZZLE = COURSE.load("01")
PUZZLE = replace(PUZZLE, cases=PUZZLE.cases[:2])
RIGHT = PUZZLE.solution_path.read_text(encoding="utf-8")

# -- other people's files --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A class's submissions, and a file outside the folder that is not theirs."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kernel.cu").write_text('#error "the password is 12345"\n')
    made = tmp_path / "class"
    for name in ("ann", "bob", "eve", "pipe", "tree", "zero"):
        (made / name).mkdir(parents=True)
    (made / "ann" / "kernel.cu").write_text(RIGHT)
    (made / "bob" / "kernel.cu").symlink_to(tmp_path / "mine" / "kernel.cu")
    (made / "eve" / "kernel.cu").symlink_to("kernel.cu")
    os.mkfifo(made / "pipe" / "kernel.cu")
    (made / "tree" / "kernel.cu").mkdir()
    (made / "zero" / "kernel.cu").symlink_to("/dev/zero")
    (made / "dan").symlink_to(tmp_path / "mine")
    return made


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bob", "is a link, or lies behind one"),
        ("dan", "is a link, or lies behind one"),
        ("eve", "is a link, or lies behind one"),
        ("zero", "is a link, or lies behind one"),
        ("pipe", "is not a regular file"),
        ("tree", "is a folder, not a kernel file"),
        ("nobody", "does not exist"),
    ],
)
def test_no_link_in_a_folder_of_others_is_followed(folder, name, says):
    verdict = grade_file(PUZZLE, folder / name / "kernel.cu", Options("cpu", within=folder))
    assert not verdict.passed and verdict.kind == "source" and says in verdict.lines[0]
    assert "12345" not in "".join(verdict.lines)


def test_one_of_ones_own_may_lead_anywhere_but_in_a_circle(folder, capsys):
    quoted = grade_file(PUZZLE, folder / "bob" / "kernel.cu", Options("cpu"))
    assert "12345" in "".join(quoted.lines)
    with pytest.raises(SystemExit) as done:
        cli.main(["grade", "01", "--file", str(folder / "eve" / "kernel.cu")])
    assert done.value.code == 2
    said = " ".join("".join(capsys.readouterr()).split())  # wherever its lines end
    assert "cannot be read: Too many levels of symbolic links" in said and "internal" not in said


@pytest.mark.skipif(not confine.supported().complete, reason="this system has no Landlock or no seccomp")
@pytest.mark.parametrize(
    "name", ["-DM=N.cu", "kernel.cu(3): error: x.cu", "two\nlines.cu", "\udcff.cu", "a b'c.cu"]
)
def test_a_right_file_passes_whatever_its_name(name, tmp_path):
    (tmp_path / name).write_text(RIGHT)
    assert grade_file(PUZZLE, tmp_path / name, Options("cpu")).passed


def test_a_named_file_is_no_link_out_of_its_project(folder, capsys):
    def said(*words) -> str:
        with pytest.raises(SystemExit) as done:
            cli.main(list(map(str, words)))
        return " ".join(f"{done.value.code} {''.join(capsys.readouterr())}".split())  # long names are wrapped

    (folder / "ann" / "link.cu").symlink_to("kernel.cu")
    bob, inside = folder / "bob" / "kernel.cu", folder / "ann" / "link.cu"
    for words in (("grade", "01", "--file"), ("run",)):
        text = said(*words, bob)
        assert text.startswith("2") and "is a link out of its project" in text and "12345" not in text
    assert said("grade", "01", "--file", inside).startswith("0")
    assert "is a link, or lies behind one" in said("grade", "01", "--file", inside, "--within", folder)
    assert "--within goes with --file" in said("grade", "01", "--file", inside, "--within", folder / "bob")


def test_no_process_serves_two_of_them(folder):
    """Neither the compiling nor the running process: one that has been taken over would see the next file."""
    assert grade_file(PUZZLE, folder / "ann" / "kernel.cu", Options("cpu", within=folder)).passed
    assert confined_process.PROCESS._child is None and not build._idle


def test_where_kernels_cannot_be_confined_only_trusted_files_of_others_are_graded(folder, monkeypatch):
    monkeypatch.setattr(grading, "supported", lambda: confine.Confinement(False, True, ("no Landlock",)))
    path = folder / "ann" / "kernel.cu"
    verdict = grade_file(PUZZLE, path, Options("cpu", within=folder))
    assert verdict.status == "error" and "no Landlock" in verdict.lines[0]
    assert grade_file(PUZZLE, path, Options("cpu", within=folder, trusted=True)).passed
    assert grade_file(PUZZLE, path, Options("cpu")).passed


@pytest.fixture
def ordinary_user():
    """Makes root subject to file modes while a test runs."""
    if os.geteuid() != 0:
        yield
        return
    libc, header, data = ctypes.CDLL(None, use_errno=True), struct.pack("=Ii", 0x20080522, 0), bytearray(24)
    held = (ctypes.c_char * 24).from_buffer(data)
    assert libc.capget(header, held) == 0
    words = struct.unpack("=6I", data)
    assert libc.capset(header, struct.pack("=6I", words[0] & ~confine._CAP_READ_FILES, *words[1:])) == 0
    yield
    assert libc.capset(header, struct.pack("=6I", *words)) == 0


@pytest.mark.parametrize("missing", ["kernel.cu", ""])
def test_missing_rights_are_a_message(missing, folder, capsys, ordinary_user):
    path = folder / "ann" / "kernel.cu"
    (folder / "ann" / missing).chmod(0)
    try:
        with pytest.raises(SystemExit) as done:
            cli.main(["grade", "01", "--file", str(path)])
    finally:
        (folder / "ann" / missing).chmod(0o700)
    said = "".join(capsys.readouterr())
    assert done.value.code == 2 and "chmod u+r" in said and "internal" not in said


# -- the cache -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    [b"", b"\0" * 64, bytes(range(256)) * 9, CODEC.dumps(5), CODEC.dumps({"text": "x"}), CODEC.dumps(("ok", None)), b"\x80\x05."],
)  # fmt: skip
def test_an_entry_that_is_something_else_is_made_again(entry, tmp_path, monkeypatch):
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "digest", lambda *parts: "abc")
    Store("modules").put("abc", entry)
    with open_device("cpu", checks="memory", confined=True) as device:
        device.quick = True
        x = device.empty(1, np.int32)
        device.compile('extern "C" __global__ void f(int* x) { x[0] = 7; }').get_function("f")(1, 1, (x,))
        assert x.get() == [7]


def test_an_entry_that_was_cut_or_changed_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("BACKWARP_CACHE", str(tmp_path))
    Store("s").put("abc", b"machine code")
    path = tmp_path / "s" / "ab" / "abc"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:10], whole + b"x", whole[:-1] + b"X", b""):
        path.write_bytes(damaged)
        assert Store("s").get("abc") is None
    path.unlink()
    path.symlink_to(tmp_path / "s" / "ab" / "gone")
    assert Store("s").get("abc") is None


# -- text ------------------------------------------------------------------------------------------------------------

LOUD = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2066\u200b\r\x08<script>alert(1)</script><img src=x onerror=alert(2)>"
KERNEL = 'extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n)'
SHOWN = {
    "in an error": f"{KERNEL} {{ int i = undefined; }} // {LOUD}\n",
    "in a warning": f"{KERNEL} {{ int unused; /* {LOUD} */ c[9999999] = 1; }}\n",
    "in a name": f"{KERNEL} {{ int a\u202eb = \u0435; }}\n",
    "in #error": f"#error {LOUD}\n",
    "in an include": f'#include "{LOUD}"\n{KERNEL} {{}}\n',
    "in assembly": f'{KERNEL} {{ asm volatile("foo.bar {LOUD.split(chr(7))[0]};"); }} // {LOUD}\n',
    "in a pragma": f'#pragma message("{LOUD}")\n{KERNEL} {{}}\n',
    "printed": KERNEL + ' { if (threadIdx.x == 0) printf("\\033[2J\\033]0;owned\\007\\u202e\\r\\b<script>alert(1)</script>\\n"); c[0] = 1; }\n',
    "in an assertion": "#include <cassert>\n" + KERNEL + ' { assert(n == 0 && "\\033[2J<script>alert(1)</script>"); }\n',
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("how", SHOWN)
def test_text_of_a_kernel_is_shown_as_text(how, tmp_path, capsys):
    path, report = tmp_path / "kernel.cu", tmp_path / "report.html"
    path.write_text(SHOWN[how], encoding="utf-8")
    with pytest.raises(SystemExit):
        cli.main(["grade", "01", "--file", str(path), "--device", "cpu", "--html", str(report)])
    said = "".join(capsys.readouterr())
    strange = {c for c in said if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t"}
    assert not strange and "internal" not in said
    verdict = grade_file(PUZZLE, path, Options("cpu"))
    for text in (report.read_text(encoding="utf-8"), notebook.report(verdict)._repr_html_()):
        assert not re.search(r"<script|<img src=x", text)
        assert not {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t"}


def test_the_name_of_a_file_is_shown_as_text(tmp_path, capsys):
    path = tmp_path / f"k{LOUD.replace('/', '')}.cu"
    path.write_text(f"{KERNEL} {{ x }}\n")
    with pytest.raises(SystemExit):
        cli.main(["grade", "01", "--file", str(path), "--device", "cpu"])
    said = "".join(capsys.readouterr())
    assert not {c for c in said if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t"}
    verdict = grade_file(PUZZLE, path, Options("cpu"))
    assert "<script>alert" not in page([verdict], [PUZZLE], "today")


def test_the_processes_can_be_ended_at_any_time():
    devices.end_processes()
    devices.end_processes()
    with open_device("cpu", checks="memory", confined=True) as device:
        assert device.array(np.ones(3)).get().tolist() == [1, 1, 1]
