"""LeNet on chosen kernels: their origin, later puzzles in place of earlier ones, mismatches."""

from __future__ import annotations

import re
from contextlib import nullcontext

import numpy as np
import pytest
from backwarp.reference import lenet

from backwarp.course.checkout import Course, source_hash
from backwarp.course.progress import Entry
from backwarp.devices.virtual.kernel import Kernel
from backwarp.errors import CompileError, CourseError, KernelFault, LaunchMistake
from backwarp.lenet import count, kernels, requests
from backwarp.lenet.choices import ROLES, SOLUTION, YOURS, choose
from backwarp.lenet.kernels import Kernels
from backwarp.lenet.model import LeNet
from backwarp.lenet.program import choose_program
from backwarp.lenet.show import traffic, whose
from tests.devices.virtual.launches import device
from tests.lenet.small import DIGITS, ROOT, course_in

START = {name: values + np.float32(0.01) for name, values in lenet.initial(5).items()}

LATER = """\
from backwarp.course import Case, In, Int, InOut, Kernel, Launch, Out, Puzzle, ceil_div

def launch(d, t):
    return Launch(ceil_div(d["C_out"] * d["C_in"] * d["F"] ** 2, t["THREADS"]), t["THREADS"])

def kernel(name, output):
    return Kernel(name, (Int("C_out"), Int("C_in"), Int("F"), output, Int("stride"),
                         In("input", b="batch", c="C_in", h="H", w="W"),
                         In("grad_output", b="batch", k="C_out", p="H_out", q="W_out"),
                         Int("batch"), Int("H"), Int("W")), launch, lambda a, d: a)

SHAPE = dict(k="C_out", c="C_in", r="F", s="F")
PUZZLE = Puzzle(title="Later", part=3, teaches="The same, later.", lines=9, hints=("h",),
    kernels=(NAMES),
    dims=lambda d: {"H_out": d["H"] - d["F"] + 1, "W_out": d["W"] - d["F"] + 1, **d},
    cases=(Case("tiny", dict(batch=1, C_in=1, H=3, W=3, C_out=1, F=2, stride=1)),))
"""
LATER_KERNEL = """\
constexpr int THREADS = 32;
extern "C" __global__ void NAME(int C_out, int C_in, int F, float* grad_weights, int stride, const float* input,
                                const float* grad_output, int batch, int H, int W) {
    int idx = blockIdx.x * THREADS + threadIdx.x, P = H - F + 1, Q = W - F + 1;
    if (idx >= C_out * C_in * F * F) return;
    int s = idx % F, r = idx / F % F, c = idx / (F * F) % C_in, k = idx / (F * F * C_in);
    float sum = INITIAL;
    for (int i = 0; i < batch * P * Q; i++) {
        int b = i / (P * Q), p = i / Q % P, q = i % Q;
        sum += stride * grad_output[((b * C_out + k) * P + p) * Q + q] * input[((b * C_in + c) * H + p + r) * W + q + s];
    }
    grad_weights[idx] = sum;
}
"""


@pytest.fixture
def course(tmp_path):
    return course_in(tmp_path)


def add(course, name, declaration, kernel):
    for folder in ("puzzles", "solutions"):
        (course.root / folder / name).mkdir()
        (course.root / folder / name / "kernel.cu").write_text(kernel)
    (course.root / "puzzles" / name / "puzzle.py").write_text(declaration)


def later(name="weights_of_conv", output="Out", initial="0.0f"):
    made = (
        'InOut("grad_weights", values="zeros", **SHAPE)'
        if output == "zeros"
        else f'{output}("grad_weights", **SHAPE)'
    )
    declaration = LATER.replace("NAMES", f'kernel("{name}", {made}),')
    return declaration, LATER_KERNEL.replace("NAME", name).replace("INITIAL", initial)


def net_on(choices):
    dev = device("memory")
    return LeNet(dev, Kernels(dev, choices), choose_program(Course(ROOT), {}, mine=False).functions, START)


def step(net, batch=3):
    net.load(DIGITS.train_images[:batch], DIGITS.train_labels[:batch])
    net.forward()
    net.backward()


# ---- whose -------------------------------------------------------------------------------------------------


def test_all_values_and_gradients_are_those_of_float64():
    net = net_on(choose(Course(ROOT), {}, mine=False))
    for batch in (3, 1):
        step(net, batch)
        expected = lenet.step_values(START, DIGITS.train_images[:batch], DIGITS.train_labels[:batch])
        for name, values in expected.items():
            error = np.abs(net[name].get() - values).max()
            assert error <= 2e-6 * np.abs(values).max(), name  # what checks.RTOL allows 50 times of


def own(course, puzzle_id, source):
    """The student's file of a puzzle."""
    folder = course.root / "puzzles" / puzzle_id
    origin = folder.resolve()
    folder.unlink()
    folder.mkdir()
    for file in origin.iterdir():
        (folder / file.name).symlink_to(file)
    (folder / "kernel.cu").unlink()
    (folder / "kernel.cu").write_text(source)


def test_solved_kernels_are_the_students(course):
    relu = (ROOT / "solutions" / "04_relu" / "kernel.cu").read_text()
    own(course, "04_relu", relu + "// mine\n")
    own(course, "08_max_pool2d", "// begun, but it does not pass\n")
    solved = {"when": "2026-01-01", "device": "cpu", "hash": source_hash(relu + "// mine\n")}
    entries = {"04_relu": Entry(solved=solved), "08_max_pool2d": Entry(attempts=3)}
    chosen = choose(course, entries)
    assert {role for role, c in chosen.items() if c.whose == YOURS} == {"relu_forward", "relu_backward"}
    assert chosen["relu_forward"].source.endswith("// mine\n") and chosen["relu_forward"].origin == "04 yours"
    told = whose(chosen, choose_program(course, entries))
    assert told == ["Kernels and Python: yours 04; the solution's 03, 05, 06, 07, 08, 09, 10, 11, 37, 38"]
    assert not any(c.whose == YOURS for c in choose(course, entries, mine=False).values())


def test_a_file_that_has_changed_since_it_passed_is_not_used(course):
    own(course, "04_relu", "__global__ void changed() {}\n")
    entries = {"04_relu": Entry(solved={"when": "2026-01-01", "device": "cpu", "hash": "0"})}
    chosen = choose(course, entries)
    assert chosen["relu_forward"].whose == SOLUTION
    notes = whose(chosen, choose_program(course, entries))[1:]
    assert notes == ["note: your 04 has changed since it passed; `backwarp grade 04`"]


# ---- a later puzzle's kernel -------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    "parts",
    [later(), later("conv2d_backward_weights"), later(output="zeros", initial="grad_weights[idx]")],
    ids=["another name", "the same name", "one that adds to zeros"],
)
def test_a_later_puzzle_stands_in(course, parts):
    add(course, "97_later", *parts)
    chosen = choose(course, {}, mine=False, use=["9=97"])
    assert chosen["conv2d_backward_weights"].origin == "97 the solution's for 09"
    assert {role for role, c in chosen.items() if c.puzzle.number == "97"} == {"conv2d_backward_weights"}
    assert "97 for 09" in whose(chosen, choose_program(course, {}, mine=False))[0]
    usual, net = net_on(choose(course, {}, mine=False)), net_on(chosen)
    for used in (usual, net, net):  # twice: what it adds to has to be zero again
        step(used)
    for layer in ("conv1", "conv2"):
        ours, theirs = (n[f"grad_{layer}_weights"].get() for n in (net, usual))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6 * np.abs(theirs).max())


PART_4 = ["07=30", "09=32", "10=31", "03=23", "09=20"]  # and what part 3 has for the rest


@pytest.mark.parametrize("use", [PART_4, pytest.param(["09=22", "07=39"], marks=pytest.mark.soak)])
@pytest.mark.soak
def test_kernels_of_later_parts_give_the_same_gradients(use):
    """Puzzles 22 and 32 are two launches: the sums of parts, then their sum. Of those of 39, one stores images as LeNet."""
    chosen = choose(Course(ROOT), {}, mine=False, use=use)
    from_later = {role: c.puzzle.number for role, c in chosen.items() if " for " in c.origin}
    weights = chosen["conv2d_backward_weights"]
    assert weights.then.name in ("add_splits", "add_parts") and len(from_later) == len(use)
    net = net_on(chosen)
    for batch in (3, 1, 3):
        with net.together():
            step(net, batch)
        expected = lenet.step_values(START, DIGITS.train_images[:batch], DIGITS.train_labels[:batch])
        for name, values in expected.items():
            assert np.abs(net[name].get() - values).max() <= 2e-6 * np.abs(values).max(), name
    # of conv1
    last = [bound for (role, *_), bound in net._bound.items() if role == "conv2d_backward_weights"][-1]
    last.compile_for_sizes()
    assert all(bound.total < 0 for bound in last.passes)
    step(net, 3)
    assert np.abs(net.grad_conv1_weights.get() - expected["grad_conv1_weights"]).max() < 1e-5


def test_what_a_step_moves_is_counted_and_less_with_later_kernels(monkeypatch):
    monkeypatch.setattr(count, "IMAGES", 2)
    usual, later_ones = (choose(Course(ROOT), {}, mine=False, use=use) for use in ((), PART_4))
    functions = choose_program(Course(ROOT), {}, mine=False).functions
    found = count.comparison(later_ones, usual, functions, DIGITS)
    assert found["replaced"] == [role for role, c in later_ones.items() if " for " in c.origin]
    for role in found["replaced"]:
        assert found["bytes"][role] < found["usual_bytes"][role], role
    others = found["bytes"].keys() - set(found["replaced"])
    assert all(found["bytes"][role] == found["usual_bytes"][role] > 0 for role in others)
    lines = traffic(found, [{"kernel": role, "puzzle": c.puzzle.id} for role, c in later_ones.items()])
    totals = re.fullmatch(
        r"Global memory in a step of 2 images, counted: (.+) MB; without --use (.+) MB\.", lines[0]
    )
    assert float(totals[1]) < float(totals[2]) / 2 and max(map(len, lines)) <= 80
    assert any(line.startswith("  32 conv2d_backward_weights for 09") for line in lines[1:])


@pytest.mark.parametrize(
    ("use", "says"),
    [
        ("09", "--use '09': write it like --use 09=21, the kernels of 21 in place of those of 09"),
        ("09=", "write it like --use 09=21"),
        ("09=96", "there is no puzzle 96 yet; `backwarp list` shows the available puzzles"),
        ("01=97", "--use 01=97: LeNet has no kernel from 01_vector_add"),
        (
            "09=04",
            r"no kernel of 04_relu has the arrays of one of 09_conv2d_backward_weights \(conv2d_backward_weights "
            r"with grad_output, input, grad_weights; .*\), so it cannot stand in",
        ),
        ("10=97", "no kernel of 97_later has the arrays of one of 10_conv2d_backward_input"),
    ],
)
def test_what_cannot_stand_in_is_refused_in_a_sentence(course, use, says):
    add(course, "97_later", *later())
    with pytest.raises(CourseError, match=says) as told:
        choose(course, {}, mine=False, use=[use])
    assert "\n" not in str(told.value)


def test_an_array_that_is_updated_is_no_output(course):
    add(course, "97_later", *later(output="InOut"))
    with pytest.raises(CourseError, match="so it cannot stand in"):
        choose(course, {}, mine=False, use=["09=97"])


def test_a_size_that_no_array_shows_is_named(course):
    declaration, kernel = later()
    add(
        course,
        "97_later",
        declaration.replace('"stride"', '"splits"').replace("stride=1", "splits=1"),
        kernel,
    )
    net = net_on(choose(course, {}, mine=False, use=["09=97"]))
    with pytest.raises(
        LaunchMistake, match="weights_of_conv of 97_later needs the size 'splits', which LeNet's arrays"
    ):
        step(net)


# ---- what does not fit -------------------------------------------------------------------------------------


def test_every_role_is_a_kernel_of_its_puzzle():
    for role, number in ROLES.items():
        assert Course(ROOT).load(number).kernel(role).name == role


@pytest.fixture(scope="module")
def net():
    net = net_on(choose(Course(ROOT), {}, mine=False))
    net.load(DIGITS.train_images[:2], DIGITS.train_labels[:2])
    return net


@pytest.mark.parametrize(
    ("kernel", "arrays", "says"),
    [
        ("relu_forwards", "conv1 relu1", "there is no kernel 'relu_forwards'; did you mean relu_forward?"),
        ("relu_forward", "conv1", r"relu_forward takes 2 arrays \(input, output\); 1 were given"),
        ("relu_forward", "conv1 relu2", "relu2 as output makes n 2048, but it is 6912 in conv1 as input"),
        (
            "max_pool2d_forward",
            "relu1 pool1 pool1",
            "max_pool2d_forward: argmax holds int32, but pool1 holds float32",
        ),
        (
            "fc_forward",
            "pool2 fc2_weights fc1_bias fc1",
            "fc2_weights as weights makes n_in 120, but it is 256 in pool2",
        ),
        (
            "conv2d_forward",
            "fc1 conv1_weights conv1_bias conv1",
            r"input has 4 axes; fc1 has the shape \(2, 120\)",
        ),
        (
            "conv2d_forward",
            "images conv1_weights conv1_bias pool1",
            "the other arrays make H_out 24, but it is 12 in pool1",
        ),
    ],
)
def test_launches_that_do_not_fit(net, kernel, arrays, says):
    with pytest.raises(LaunchMistake, match=says):
        net.launch(kernel, *(net[name] for name in arrays.split()))


def test_launches_with_other_things_than_arrays_or_other_numbers(net):
    with pytest.raises(LaunchMistake, match="relu_forward: input is a ndarray, not an array on the device"):
        net.launch("relu_forward", np.zeros(3, np.float32), net.relu1)
    with pytest.raises(LaunchMistake, match="takes these numbers by name: learning_rate=..., momentum="):
        net.launch("sgd_step", net.fc1_bias, net.velocity_fc1_bias, net.grad_fc1_bias, rate=1)
    with pytest.raises(LaunchMistake, match="LeNet has no array 'conv'; did you mean net.conv"):
        net.conv  # noqa: B018
    with pytest.raises(LaunchMistake, match=r"a batch has images \(N, 1, 28, 28\) and labels \(N,\)"):
        net.load(np.zeros((2, 28, 28)), np.zeros(2))


def test_a_fault_in_training_names_the_puzzle(course):
    relu = (ROOT / "solutions" / "04_relu" / "kernel.cu").read_text()
    own(course, "04_relu", relu.replace("output[i] =", "output[i + n] =", 1))
    assert "output[i + n]" in (course.root / "puzzles" / "04_relu" / "kernel.cu").read_text()
    source = course.load("04").stub_path.read_text()
    entries = {"04_relu": Entry(solved={"when": "2026-01-01", "device": "cpu", "hash": source_hash(source)})}
    net = net_on(choose(course, entries))
    told = []
    for _ in range(3):  # the first time one by one, then as a graph
        with pytest.raises(KernelFault, match=r"^04_relu/kernel.cu:\d+: Invalid __global__ write") as fault:
            with net.together():
                step(net)
        told.append(str(fault.value))
    assert len(set(told)) == 1 and fault.value.node == 1


def test_launches_together_give_the_same_bits():
    chosen = choose(Course(ROOT), {}, mine=False)
    states = []
    for whole in (False, True):
        net = net_on(chosen)
        for rate, batch in enumerate(
            (3, 1, 3, 3, 1, 1)
        ):  # each size: one by one, as a new graph, as a known one
            with net.together() if whole else nullcontext():
                step(net, batch)
                net.program["update"](net, 0.01 * rate)
        assert (len(net._steps), net.timing["sgd_step"][0]) == (2 * whole, 60)
        states.append({**net.state(), "loss": net.loss.get()})
    assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])
    with net.together():
        net.forward()
        before = net.loss.get()
        assert requests.get(net, "loss") != before  # a program that looks gets what it has launched


def test_a_launch_that_takes_long_is_compiled_for_its_sizes(monkeypatch):
    results = []
    for seconds, told in ((1e9, False), (1e9, True), (0, False)):
        monkeypatch.setattr(kernels, "WORTH_COMPILING", seconds)
        net = net_on(choose(Course(ROOT), {}, mine=False))
        net.load(DIGITS.train_images[:2], DIGITS.train_labels[:2])
        net.logits.set(np.arange(20, dtype=np.float32).reshape(2, 10) % 7)
        for _ in range(2):
            net.launch("softmax_cross_entropy_backward", net.logits, net.labels, net.grad_logits)
        (bound,) = net._bound.values()
        if told:
            bound.total = 0.002
            net.compile_for_sizes()
            net.launch("softmax_cross_entropy_backward", net.logits, net.labels, net.grad_logits)
        results.append((len(bound.function.module.lowered.kernels), net.grad_logits.get().tobytes()))
    assert [count for count, _ in results] == [3, 1, 1] and len({values for _, values in results}) == 1


@pytest.mark.parametrize(
    "again, seconds, compiled",
    [
        (1000, (9, 0.2, 0.2), True),
        (10, (9, 0.2, 0.2), False),
        (1000, (9,), False),
        (1000, (9, 0.2, 0.01), False),
    ],
)
def test_a_launch_that_will_take_long_in_all_is_compiled_at_once(monkeypatch, again, seconds, compiled):
    monkeypatch.setattr(kernels, "WORTH_COMPILING", 100)
    monkeypatch.setattr(LeNet, "_took", lambda *_: None)
    net = net_on(choose(Course(ROOT), {}, mine=False))
    net.load(DIGITS.train_images[:1], DIGITS.train_labels[:1])
    net.launch("relu_forward", net.conv1, net.relu1)
    (bound,) = net._bound.values()
    for each in seconds:
        bound.took(each, again)
    assert (bound.total < 0) == compiled


def test_a_compiler_that_fails_then_changes_nothing(monkeypatch):
    def fail(*_):
        raise CompileError("the compiler did not finish within 10 seconds")

    monkeypatch.setattr(kernels, "WORTH_COMPILING", -1)
    monkeypatch.setattr(Kernel, "fixed", fail)
    net = net_on(choose(Course(ROOT), {}, mine=False))
    step(net, 1)
    step(net, 1)
    assert np.isfinite(net.loss.get()).all()
