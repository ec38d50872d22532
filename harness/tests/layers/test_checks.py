"""Puzzle 40: the messages, what a file may do, and what happens without PyTorch.

That the solution passes and the mistakes fail is checked in maintain/test_check.
"""

from __future__ import annotations

import re

import numpy
import pytest

from backwarp.cli.grading import chosen_ids
from backwarp.course import declare
from backwarp.course.stubs import stub_text
from backwarp.grading.grade import Options, grade_file
from backwarp.grading.programs.program import Program
from backwarp.layers.answers import VALID
from backwarp.layers.checks import LAYERS
from backwarp.lenet.checks import this_course
from backwarp.maintain import check_mistakes
from tests.devices.virtual.launches import device

PUZZLE = this_course().load("40")
SOLUTION = PUZZLE.solution_path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def program():
    pytest.importorskip("torch")
    with Program(PUZZLE.program.requests, PUZZLE.program.driver) as made:
        yield made


@pytest.fixture
def told(program):
    """What grading says of the solution with one text replaced; first: the case to begin with."""

    def run(old, new, first="linear"):
        assert SOLUTION.count(old) == 1
        found = check_mistakes.finding(PUZZLE, SOLUTION.replace(old, new), device("memory"), program, first)
        return " ".join(found.lines) if found else ""

    return run


def test_the_stub_says_what_to_do():
    stub, lesson = stub_text(PUZZLE), PUZZLE.lesson_path.read_text(encoding="utf-8")
    numbers = [int(n) for n in re.findall(r"# TODO\((\d+)\):", stub)]
    assert numbers == [1, 2, 3, 4, 5] and f"You will write about {PUZZLE.lines} lines" in stub
    assert all(signature in lesson for signature in PUZZLE.program.functions)
    assert all(f"def {name}(" in stub for name in LAYERS)


def test_an_operator_that_lacks_something_is_told_what(told):
    fake = "@linear.register_fake\ndef _(x, weight, bias):\n    return x.new_empty(len(x), len(weight))\n"
    assert told(fake, "") == "linear has no fake: linear.register_fake is missing."
    registered = "linear.register_autograd(linear_gradient, setup_context=linear_keeps)"
    assert told(registered, "") == "Nothing flows back through linear: register_autograd is missing."
    bare = '@custom_op("backwarp::conv2d", mutates_args=())\n'
    assert "layers.py:" in told(bare, "")  # a function has no register_fake


def test_a_backward_that_launches_by_itself_cannot_be_traced(program):
    operator = '@custom_op("backwarp::max_pool2d_backward", mutates_args=())\n'
    fake = "@max_pool2d_backward.register_fake\ndef _(grad_y, places, shape):\n    return grad_y.new_empty(shape)\n"
    assert SOLUTION.count(operator) == SOLUTION.count(fake) == 1
    source = SOLUTION.replace(operator, "").replace(fake, "")
    found = check_mistakes.finding(PUZZLE, source, device("memory"), program, "max_pool2d")
    assert found.lines[0] == "torch.library.opcheck(max_pool2d, ...): test_aot_dispatch_dynamic fails."
    assert "PyTorch only traces here" in found.lines[1]


def test_values_that_no_kernel_has_stored_do_not_count(told):
    own = '    launch("fc_forward", x.contiguous(), weight, bias, y)\n'
    says = told(own, own + "    y = torch.addmm(bias, x, weight.T)\n")
    assert says.startswith("linear: y is right, but no launch of fc_forward has stored it.")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("open('/etc/passwd')", "layers.py:62: PermissionError"),
        ("import os; os.fork()", "layers.py:62: PermissionError"),
        ("x = bytearray(1 << 40)", "layers.py:62: MemoryError"),
        ("raise ValueError('mine')", "layers.py:62: ValueError: mine"),
        ("launch('relu_forward', x, y.T)", "layers.py:62: relu_forward: array 2 is not stored row by row"),
    ],
)
def test_a_file_can_only_compute_and_launch(told, body, says):
    own = '    launch("fc_forward", x.contiguous(), weight, bias, y)\n'
    assert says in told(own, f"{own}    {body}\n")


def test_a_launch_while_the_file_is_loaded_is_refused(told):
    own = "# ---- LeNet ----\n"
    says = told(own, own + 'launch("relu_forward", torch.ones(3), torch.ones(3))\n')
    assert "layers.py:" in says and "until it returns" in says


def test_without_pytorch_the_puzzle_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(declare, "find_spec", lambda name: None)
    path = tmp_path / "layers.py"
    path.write_text(SOLUTION)
    verdict = grade_file(PUZZLE, path, Options("cpu"))
    assert verdict.exit_status == 2 and verdict.next == "pip install -e '.[torch]'"
    assert verdict.lines == ["Puzzle 40 needs torch, which is not installed."]


def test_without_pytorch_all_puzzles_are_all_but_this_one(monkeypatch, capsys):
    course = this_course()
    assert PUZZLE.id in course.ids()
    monkeypatch.setattr(declare, "find_spec", lambda name: None)
    assert chosen_ids(course, None, (), True) == [i for i in course.ids() if i != PUZZLE.id]
    assert "40_own_layers is left out: it needs torch (pip install -e '.[torch]')." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("function", "found"),
    [
        ("apply", {}),
        ("apply", "y"),
        ("apply", dict(outputs=[1], gradients=None, fakes=[])),
        ("apply", dict(outputs=[], gradients=0, fakes=[])),
        ("apply", dict(outputs=[], gradients=None, fakes=[["relu", None, [[1, 2]]]])),
        ("schema", []),
        ("opcheck", {"test_schema": 1}),
        ("gradcheck", None),
        ("step", dict(logits=0, gradients={})),
        ("step", dict(logits=numpy.ones(3), gradients={})),
        ("fit", dict(parameters={}, losses=[])),
    ],
)
def test_what_no_driver_returns_is_not_valid(function, found):
    assert not VALID[function](found)


def test_a_lenet_with_other_parameters_is_told(told):
    renamed = told(
        "        self.fc3 = torch.nn.Linear(84, 10)\n",
        "        self.last = torch.nn.Linear(84, 10)\n",
        "lenet",
    )
    assert "LeNet has other parameters than the stub's; look at fc3_bias, fc3_weights, last_bias" in renamed
    resized = told(
        "        self.fc3 = torch.nn.Linear(84, 10)\n",
        "        self.fc3 = torch.nn.Linear(84, 11)\n",
        "lenet",
    )
    assert "fc3.weight has the shape (11, 84), not (10, 84) as in the stub" in resized


def test_memory_without_end_is_refused(told):
    own = '    launch("fc_forward", x.contiguous(), weight, bias, y)\n'
    says = told(own, f"{own}    kept = [bytearray(1 << 26) for _ in range(64)]\n")
    assert "MemoryError" in says or "takes more memory than a program here may have" in says


def test_gradcheck_tells_what_pytorch_finds():
    torch = pytest.importorskip("torch")
    from backwarp.layers import driver

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return 2 * x

        @staticmethod
        def backward(context, grad):
            return grad

    file, arrays = {"wrong": Doubled.apply, "right": lambda x: 2 * x}, [numpy.ones(3)]
    assert "Jacobian mismatch" in driver.gradcheck(file, None, "wrong", arrays)
    assert driver.gradcheck(file, None, "right", arrays) == ""


# ---- what ends the process, and PyTorch takes long to load again ---------------------------------------------


def test_a_file_that_ends_its_process_is_told(told):
    own = '    launch("fc_forward", x.contiguous(), weight, bias, y)\n'
    assert "ended unexpectedly" in told(own, f"{own}    import os; os._exit(0)\n")


def test_what_no_driver_returns_is_refused(told):
    """Of all that is not valid, see above, one is sent."""
    own = "# ---- LeNet ----\n"
    patch = "import backwarp.layers.driver as d\ndef apply(*_, **__): return {}\nd.apply = apply\n"
    assert "sent what no net sends" in told(own, own + patch)
