"""A student's step.py and train.py in a training: apart from it, with messages that name their lines."""

from __future__ import annotations

import numpy as np
import pytest
from backwarp.reference import lenet

from backwarp.course.checkout import source_hash
from backwarp.course.progress import Entry
from backwarp.errors import KernelFault
from backwarp.grading.programs.program import ProgramError
from backwarp.lenet import program
from backwarp.lenet.checks import solution_kernels
from backwarp.lenet.choices import SOLUTION, YOURS
from backwarp.lenet.model import LeNet
from backwarp.lenet.program import choose_program
from backwarp.lenet.train import Settings, Training
from tests.devices.virtual.launches import device
from tests.lenet.small import FEW, ROOT, course_in

SOLUTIONS = {"37_lenet_step": "step.py", "38_lenet_training": "train.py"}


@pytest.fixture
def trained(tmp_path):
    """The losses of three steps with these files, by puzzle, as the ones that have passed; whose all files were."""

    def trained(files):
        course, entries = course_in(tmp_path), {}
        for puzzle, text in files.items():
            folder = course.root / "puzzles" / puzzle
            shared = list(folder.resolve().iterdir())
            folder.unlink()
            folder.mkdir()
            for file in shared:
                if file.name != SOLUTIONS[puzzle]:
                    (folder / file.name).symlink_to(file)
            (folder / SOLUTIONS[puzzle]).write_text(text)
            entries[puzzle] = Entry(solved={"when": "2026-01-01", "device": "cpu", "hash": source_hash(text)})
        with choose_program(course, entries) as chosen:
            net = LeNet(
                device("memory"), solution_kernels(device("memory")), chosen.functions, lenet.initial(3)
            )
            run = Training(net, FEW, Settings(epochs=1, batch=8, seed=3))
            run.run()
            return run.history.losses, [part.whose for part in chosen.parts]

    return trained


def text(puzzle):
    return (ROOT / "solutions" / puzzle / SOLUTIONS[puzzle]).read_text(encoding="utf-8")


def test_it_trains_as_the_solutions_do(trained, tmp_path_factory):
    losses, whose = trained({puzzle: f"{text(puzzle)}# mine\n" for puzzle in SOLUTIONS})
    assert whose == [YOURS, YOURS]
    with choose_program(course_in(tmp_path_factory.mktemp("other")), {}) as chosen:
        assert [part.whose for part in chosen.parts] == [SOLUTION, SOLUTION]
        net = LeNet(device("memory"), solution_kernels(device("memory")), chosen.functions, lenet.initial(3))
        run = Training(net, FEW, Settings(epochs=1, batch=8, seed=3))
        run.run()
    assert np.array_equal(losses, run.history.losses)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('net.lauch("relu_forward", net.conv1, net.relu1)', "step.py:14: LeNet has no array 'lauch'"),
        ('open("/etc/passwd")', "step.py:14: PermissionError"),
        ("while True: pass", "step.py:14: its time is up"),
        ("import os; os._exit(0)", "ended unexpectedly"),
        ("net.logits.set(0)", "step.py:14: net.logits is stored by launches"),
    ],
)
def test_what_goes_wrong_names_its_line(line, says, trained, monkeypatch):
    monkeypatch.setattr(program, "SECONDS", 0.3 if "while" in line else 60)
    first = '    net.launch("conv2d_forward", net.images'
    with pytest.raises(ProgramError) as error:
        trained({"37_lenet_step": text("37_lenet_step").replace(first, f"    {line}\n{first}", 1)})
    assert says in str(error.value)


def test_a_fault_of_a_kernel_is_its_own(trained):
    """The file passes labels that are no classes: the kernel reads past its logits, and past all arrays."""
    wrong = text("38_lenet_training").replace(
        "def update(net, rate):",
        "def update(net, rate):\n    net.load(net.images.get(), net.labels.get() + 10 ** 8)\n    net.forward()",
    )
    with pytest.raises(KernelFault) as error:
        trained({"38_lenet_training": wrong})
    assert error.value.kind == "out-of-bounds" and error.value.file.endswith("kernel.cu")
