"""Hostile Python files: each ends in a message, and none can decide its verdict."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from backwarp.reference import lenet

from backwarp.devices.confine import supported
from backwarp.grading.programs import program as programs
from backwarp.grading.programs.data import CODEC
from backwarp.grading.programs.program import Program, ProgramError
from backwarp.grading.programs.worker import OutOfTime, WholeMessages
from backwarp.lenet import checks
from backwarp.lenet.requests import REQUESTS
from backwarp.maintain import check_mistakes
from tests.devices.virtual.launches import device
from tests.lenet.small import DIGITS, ROOT

COURSE = checks.this_course()
STEP, TRAINING = COURSE.load("37"), COURSE.load("38")
confined = pytest.mark.skipif(not supported().complete, reason="this system has no Landlock or no seccomp")


@pytest.fixture(scope="module")
def program():
    with Program(REQUESTS) as made:
        yield made


@pytest.fixture(scope="module")
def net():
    made = checks.solution_net(device("memory"), {}, lenet.initial(1))
    made.load(DIGITS.train_images[:2], DIGITS.train_labels[:2])
    return made


def indented(body):
    return "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))


@pytest.fixture
def run(program, net):
    """What a function `attack(net)` with this body returns."""

    def run(body, seconds=30.0):
        source = f"import os, sys\nimport numpy as np\ndef attack(net):\n{indented(body)}"
        attack = program.load(source, "step.py", ["attack(net)"], 30)["attack"]
        program.allow(seconds)
        return attack(net)

    return run


@pytest.fixture
def message(run):
    """The message in which it ends."""

    def message(body, seconds=30.0):
        with pytest.raises(ProgramError) as error:
            run(body, seconds)
        return "\n".join(error.value.lines)

    return message


# ---- files, processes, memory ------------------------------------------------------------------------------


@confined
@pytest.mark.parametrize(
    "body",
    [
        f"open({str(STEP.solution_path)!r})",
        f"os.listdir({str(ROOT)!r})",
        "import backwarp.lenet.checks",
        f"open({str(ROOT / 'reference' / 'lenet.py')!r})",
        "open('/tmp/backwarp_trace', 'w')",
        "open(f'/proc/{os.getppid()}/mem', 'rb')",
        "open(f'/proc/{os.getppid()}/environ')",
        "open('/proc/self/fd/0')",
        "os.remove('/etc/hostname')",
        "os.fork()",
        "import subprocess; subprocess.run(['true'])",
        "os.execv('/bin/true', ['true'])",
        "import multiprocessing; multiprocessing.Process(target=print).start()",
        "os.kill(os.getppid(), 9)",
        "os.setsid()",
        "import socket; socket.socket()",
        "import socket; socket.socketpair()",
        "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.ptrace(16, os.getppid(), 0, 0) < 0: raise OSError(ctypes.get_errno(), 'ptrace')",
        f"import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
        f"if libc.open({str(STEP.solution_path).encode()!r}, 0) < 0: raise OSError(ctypes.get_errno(), 'open')",
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.prctl(1, 0, 0, 0, 0) < 0: raise OSError(ctypes.get_errno(), 'prctl')",
    ],
)
def test_nothing_outside_can_be_reached(body, message):
    text = message(body)
    assert text.startswith(("step.py:4: PermissionError: ", "step.py:5: PermissionError: "))
    assert "has no access to files, other processes and the network" in text


@pytest.mark.parametrize(
    "body",
    ["os._exit(0)", "os.abort()", "import ctypes; ctypes.string_at(0)"],
)
def test_what_ends_its_process_is_told_so(body, message):
    assert "The process of step.py ended unexpectedly (" in message(body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("def f(): f()\nf()", "step.py:4: RecursionError"),
        ("x = bytearray(1 << 40)", "step.py:4: MemoryError"),
        ("np.ones(1 << 40)", "step.py:4: "),
        (
            "import threading\nwhile True: threading.Thread(target=threading.Event().wait, daemon=True).start()",
            "step.py:5: ",
        ),
        ("input()", "step.py:4: "),
        ("exit()", "step.py:4: the program ends itself here"),
        ("raise KeyboardInterrupt", "step.py:4: KeyboardInterrupt"),
        ("class E(Exception):\n    def __str__(self): 1 / 0\nraise E", "ended unexpectedly"),
        (r"raise ValueError('\x1b[2J \ud800 ' + 'x' * 10 ** 7)", "step.py:4: ValueError"),
        (
            "print('x' * 10 ** 8); os.write(1, b'x' * 10 ** 7); os.write(2, b'x' * 10 ** 7); return 1 / 0",
            "ZeroDivision",
        ),
    ],
)
def test_what_goes_too_far_ends_in_a_message(body, says, message, program):
    text = message(body)
    assert says in text and len(text) < 1000 and len(program.printed) <= programs.MOST_PRINTED
    text.encode()


def test_what_is_asked_for_in_time_may_take_longer(program):
    ends = []

    def work(net):
        while time.monotonic() == started:
            pass
        program.until = time.monotonic()
        ends.append(program.until)
        while time.monotonic() == ends[0]:
            pass

    started = time.monotonic()
    program._answer(object(), work)
    later = program.until
    program._answer(object(), lambda net: None)
    assert ends[0] < later == program.until


@pytest.mark.parametrize(
    "body", ["while True: pass", "while True: net.launch('relu_forward', net.conv1, net.relu1)"]
)
def test_what_never_ends_is_stopped_at_its_line(body, message):
    assert "step.py:4: its time is up here" in message(body, seconds=0.3)


def test_a_message_is_sent_whole_though_the_time_is_up_meanwhile():
    class Connection:
        def sendall(self, part):
            sent.append(part)
            signal.raise_signal(signal.SIGALRM)

    def out_of_time(*_):
        raise OutOfTime

    sent, before = [], signal.signal(signal.SIGALRM, out_of_time)
    try:
        with pytest.raises(OutOfTime):
            WholeMessages(Connection(), CODEC).send("ask", "loss", [])
    finally:
        signal.signal(signal.SIGALRM, before)
    length, data = b"".join(sent)[:8], b"".join(sent)[8:]
    assert int.from_bytes(length, "little") == len(data) and CODEC.loads(data) == ("ask", "loss", [])


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "while True:\n    try: net.loss.get(1)\n    except BaseException: pass",
        # half a message
        "import gc, time; from backwarp.devices.child import Channel\n"
        "[o._connection.send(b'9' + bytes(7) + b'half') for o in gc.get_objects() if isinstance(o, Channel)]; time.sleep(999)",
    ],
)
def test_what_does_not_stop_is_ended(body, message, program, monkeypatch):
    monkeypatch.setattr(programs, "GRACE", 0.1)
    deaf = "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\ndef f(): pass"
    program.load(deaf, "deaf.py", ["f()"], 30)
    assert "step.py is still running after 0.1 s, and was ended." in message(body, seconds=0.1)


def test_nothing_is_left_of_it():
    program = Program(REQUESTS)
    pid = program._child.pid
    functions = program.load(
        "import threading\ndef f():\n threading.Thread(target=threading.Event().wait).start()",
        "x.py",
        ["f()"],
        30,
    )
    program.allow(30)
    functions["f"]()
    program.end()
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


# ---- the connection ----------------------------------------------------------------------------------------

WIRE = """
import gc
from backwarp.devices.child import Channel
(channel,) = [o for o in gc.get_objects() if isinstance(o, Channel)]
codec = channel._codec
"""


@pytest.mark.parametrize(
    "sent",
    [
        "channel._connection.send(b'\\x08' + bytes(7) + b'nonsense')",
        "channel._connection.send(bytes(100))",
        "import pickle; channel._codec = pickle; channel.send('ok', 5)",
        "channel._connection.send(b'\\xff' * 8)",
        "channel.send('ok', 5)",
        "channel.send('ok', (None, 5, 'x'))",
        "channel.send('error', codec._classes['Refused']('launch', 'x'), False)",
        "channel.send('ask', 'eval', ('1',))",
        "channel.send('ask', '__class__', ())",
        "channel.send('ask', 'launch', ('relu_forward', ['conv1', 'relu1']))",
        "channel.send('ask', 'launch', (['relu_forward'], ['conv1', 'relu1'], {}))",
        "channel.send('ask', 'launch', ('relu_forward', [3, 'relu1'], {}))",
        "channel.send('ask', 'launch', ('relu_forward', ['conv1', 'relu1'], {'x': 'y'}))",
        "channel.send('ask', 'launch', ('r' * 10 ** 7, ['conv1', 'relu1'], {}))",
        "channel.send('ask', 'load', ([1], [2]))",
        "channel.send('ask', 'load', (np.zeros((1, 1, 28, 28), 'M8[s]'), np.zeros(1, np.int32)))",
        "channel.send('ask', 'load', (np.zeros((1, 1, 28, 28), np.float32), np.array(['x'])))",
        "channel.send('ask', 'get', ())",
        "channel.send('ask', 'get', (['conv1'],))",
        "channel.send('post', 'get', ('conv1',))",
    ],
)
def test_what_net_would_not_send_ends_the_process(sent, message):
    assert "sent what no net sends" in message(WIRE.strip() + "\n" + sent)


def test_a_forged_answer_is_no_more_than_returning_early(program):
    """The function is said to have returned; the arrays tell."""
    forged = (
        WIRE
        + "def forward(net):\n    channel.send('ok', (None, '', 0))\n    channel.send('ok', (None, '', 0))\n"
    )
    found = check_mistakes.finding(STEP, forged + "def backward(net): pass\n", device("memory"), program)
    assert found.kind == "unwritten" and "No launch in forward stores net.conv1." in found.lines
    program.end()  # it has said more than it was asked


def test_what_the_file_changes_is_changed_for_itself_alone(program):
    changed = """
import gc, sys
import numpy as np
for module in list(sys.modules.values()):
    for name in ("compare", "weigh", "allclose", "array_equal", "isclose"):
        if hasattr(module, name):
            setattr(module, name, lambda *a, **k: None)
sys.modules["__main__"].Worker.raised = lambda *a: None
def forward(net):
    frame = sys._getframe()
    while frame:
        frame.f_locals.update(found=None, expected={}, wrong=None)
        frame = frame.f_back
    assert not any(type(o).__name__ in ("LeNet", "Failure", "Verdict") for o in gc.get_objects())
def backward(net): pass
"""
    found = check_mistakes.finding(STEP, changed, device("memory"), program)
    assert found.kind == "unwritten"
    program.end()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("value", ["10 ** 400", "[10 ** 400] * 60", "np.zeros(60, 'M8[s]')", "{'codes': 1}"])
def test_an_answer_that_no_process_of_ours_gives_is_judged(value, program):
    forged = f"""{WIRE}
import numpy as np
def learning_rate(step, steps): channel.send('ok', ({value}, '', 0)); gc.collect()
def update(net, rate): pass
def train(net, batches): channel.send('ok', ({value}, '', 0))
def accuracy(net, batches): channel.send('ok', ({value}, '', 0))
"""
    for first in ("learning_rate", "overfit", "accuracy", "six_steps"):
        found = check_mistakes.finding(TRAINING, forged, device("memory"), program, first=first)
        assert found.kind in ("wrong", "exception") and len("\n".join(found.lines)) < 1000
        program.end()


# ---- values from the host ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("net.conv1.set(np.zeros(net.conv1.shape))", "net.conv1 is stored by launches"),
        ("net.conv1 = np.zeros(3)", "net.conv1 cannot be set"),
        ("net['conv1'] = np.zeros(3)", "net.conv1 cannot be set"),
        (
            "net.launch('relu_forward', np.zeros(3), net.relu1)",
            "array 1 is a ndarray, not an array on the device",
        ),
        (
            "net.launch('sgd_step', net.fc3_bias, net.velocity_fc3_bias, net.grad_fc3_bias, learning_rate='x')",
            "learning_rate is a str, not a number",
        ),
        ("net.load(np.zeros((2, 3)), np.zeros(2))", "a batch has images"),
        ("net.load(np.zeros((0, 1, 28, 28)), np.zeros(0))", "a batch has images"),
        ("net.device", "LeNet has no array 'device'"),
        ("net.restore({})", "LeNet has no array 'restore'"),
    ],
)
def test_an_array_holds_what_launches_store(body, says, message):
    assert says in message(body)


def test_a_copy_of_an_array_is_only_a_copy(run, net):
    before = net["conv1_weights"].get()
    run("net.conv1_weights.get()[:] = 7")
    assert np.array_equal(net["conv1_weights"].get(), before)


def test_a_step_may_not_load_another_batch(program):
    source = STEP.solution_path.read_text().replace(
        "def backward(net):", "def backward(net):\n    net.load(net.images.get(), net.labels.get())"
    )
    found = check_mistakes.finding(STEP, source, device("memory"), program)
    assert found.kind == "launch" and "the batch is loaded already" in found.lines[0]


@pytest.mark.parametrize("case", ["overfit_10_images", "train_digits"])
def test_success_that_is_only_claimed_is_none(case, program):
    claimed = """
def train(net, batches):
    net.load(*batches[0]); net.forward(); net.backward()
    for step in range(len(batches)):
        update(net, learning_rate(step, len(batches)))
    return [1.0 / (1 + i) ** 2 for i in range(len(batches))]
def accuracy(net, batches): return 1.0
"""
    claimed = check_mistakes.solution_text(TRAINING) + claimed
    found = check_mistakes.finding(TRAINING, claimed, device("memory"), program, first=case)
    assert found.kind == "wrong" and "was expected" in "\n".join(found.lines)
    found = check_mistakes.finding(
        TRAINING, claimed.replace("update(net, learn", "(net, learn"), device("memory"), program, first=case
    )
    assert "is updated 0 times in" in found.lines[0]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "value",
    [
        "None",
        "'x'",
        "[None]",
        "{'a': net}",
        "b'x'",
        "10 ** 5000",
        "net.conv1",
        "np.array(['x'])",
        "iter(int, 1)",
        "object()",
        "[[1]] * 60",
        "float('nan')",
        "np.ones(60) * 1j",
    ],
)
def test_whatever_a_function_returns_is_judged(value, program):
    returned = f"""
import numpy as np
def learning_rate(step, steps): return 0.0
def update(net, rate): pass
def train(net, batches): return {value}
def accuracy(net, batches): return {value}
"""
    endless = value.startswith("iter")  # a million items are read of it, which is enough once
    for first in ("accuracy",) if endless else ("overfit", "accuracy", "six_steps"):
        found = check_mistakes.finding(TRAINING, returned, device("memory"), program, first=first)
        assert found.kind in ("wrong", "launch") and len("\n".join(found.lines)) < 500


# ---- what is allowed ---------------------------------------------------------------------------------------


def test_numpy_helpers_printing_and_generators(run, program, net):
    value = run(
        "print('seen', file=sys.stderr)\ndef half(x): return x / 2\nyield from map(half, np.arange(3.0))"
    )
    assert value == [0.0, 0.5, 1.0] and program.printed
    got = run(
        "return float(np.linalg.norm(net.conv1_weights.get())), net.parameters, net.loss.shape, net.images.nbytes"
    )
    assert got[0] == pytest.approx(np.linalg.norm(net["conv1_weights"].get()))
    assert got[1:] == [list(net.parameters), [1], 2 * 784 * 4]


def test_threads_may_launch(run, net):
    body = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda i: net.launch("relu_forward", net.conv1, net.relu1), range(40)))
net.launch("conv2d_forward", net.images, net.conv1_weights, net.conv1_bias, net.conv1)
net.launch("relu_forward", net.conv1, net.relu1)
"""
    run(body)
    assert np.array_equal(net["relu1"].get(), np.maximum(net["conv1"].get(), 0))


def test_a_refusal_can_be_caught(run):
    assert "no array" in run("try: net.nothing\nexcept Exception as e: return str(e)")
