"""The zoo: small kernels that each do one wrong thing, and exactly what is said about them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from harness.errors import KernelFault
from harness.tests.virtual import FLAVOURS, K, device, line_of
from harness.tests.zoo import ZOO

SOURCE = (Path(__file__).parent / "kernels" / "zoo.cu").read_text()


@pytest.fixture(scope="module")
def modules():
    return {checks: device(checks).compile(SOURCE) for checks in FLAVOURS}


def arguments(dev, names: str) -> dict:
    def kept(name: str):
        alive.append(made[name]())
        return alive[-1]

    made = {
        "a": lambda: dev.array(np.arange(10, dtype=np.float32), name="a", axes="i", readonly=True),
        "b": lambda: dev.array(np.zeros(10, np.float32), name="b", axes="i"),
        "input": lambda: dev.array(np.ones((2, 3, 4, 5), np.float32), "input", "bchw", readonly=True),
        "bytes": lambda: dev.array(np.zeros(10, np.uint8), name="bytes"),
        "d": lambda: dev.array(np.zeros(5), name="d"),
        "pair": lambda: np.array((3, 0, kept("b").pointer), "i4, i4, u8")[()],
        "pointers": lambda: dev.array(np.array([kept(x).pointer for x in "ab"], np.uint64), name="pointers"),
        "n": lambda: np.int32(10),
        "null": lambda: np.uint64(0),
        "wild": lambda: np.uint64(0x123456789AB8),
    }
    return {name: made[name]() for name in names.split()}


alive = []  # arrays that only the device points to


def launch(modules, checks: str, name: str) -> KernelFault:
    case, dev = ZOO[name], device(checks)
    before = {key: getattr(dev, key) for key in case.settings}
    for key, value in case.settings.items():
        setattr(dev, key, value)
    try:
        with pytest.raises(KernelFault) as caught:
            modules[checks].get_function(name)(
                case.grid, case.block, tuple(arguments(dev, case.args).values()), case.shared
            )
    finally:
        for key, value in before.items():
            setattr(dev, key, value)
    return caught.value


@pytest.mark.parametrize("name, checks", [(n, f) for n, c in ZOO.items() for f in c.flavours])
def test_zoo(modules, name, checks):
    case, fault = ZOO[name], launch(modules, checks, name)
    assert fault.kind == case.kind
    says = case.says
    if f"// OTHER {name}" in SOURCE:
        other = line_of(SOURCE, f"OTHER {name}")
        assert fault.other.line == other and fault.other.block == (0, 0, 0)
        says = says.format(other=other)
    assert fault.explanation.endswith(says)
    if case.headline:
        assert fault.headline == case.headline
    assert (fault.file, fault.line) == ("kernel.cu", line_of(SOURCE, f"FAULT {name}"))
    assert fault.source == SOURCE.splitlines()[fault.line - 1]
    assert fault.severity == "error"
    assert (fault.array, fault.shape) == (case.array, case.shape)
    assert case.index in (None, fault.index)
    assert case.thread in (None, fault.thread) and case.block_index in (None, fault.block)
    if case.count is not None:
        assert fault.count == case.count
    assert tuple(f.kind for f in fault.more) == case.more
    assert fault.launch.notes == []  # beside a fault they are only its consequence
    assert "\n" not in fault.explanation and len(fault.explanation) < 180


@pytest.mark.parametrize("checks", FLAVOURS)
def test_barrier_after_an_early_return_is_a_note(checks):
    """Since Volta a barrier does not wait for threads that have returned; older rules, and readers, may."""
    source = f"""{K}early(float* b, int n) {{
      int i = threadIdx.x;
      if (i >= n) return;
      __syncthreads();  // NOTE
      b[i] = 1;
    }}"""
    dev = device(checks)
    b = arguments(dev, "b")["b"]
    done = dev.compile(source).get_function("early")(1, 32, (b, np.int32(10)))
    assert b.get().tolist() == [1] * 10
    if checks == "memory":
        assert done.notes == []
        return
    (note,) = done.notes
    assert (note.kind, note.severity, note.line) == ("barrier-divergence", "note", line_of(source, "NOTE"))
    assert note.headline == "Divergent thread(s) in block"
    assert note.explanation == ("22 threads had returned before this barrier: it does not wait for them.")


def test_deep_recursion_of_a_large_function_does_not_exhaust_the_stack():
    """A frame of many kilobytes, a thousand deep: a fault, not the end of the process."""
    values = "\n".join(f"  float v{j} = p[(unsigned)(x + {j}) % 10] * {j};" for j in range(500))
    total = " + ".join(f"v{j} * v{j * 7 % 500}" for j in range(500))
    source = f"""__device__ __noinline__ float f(int x, const float* p) {{
    {values}
      float rest = x < -100000 ? 0 : f(x - 1, p);
      return rest + {total};
    }}
    {K}k(const float* a, float* b) {{ b[0] = f(1, a); }}"""
    dev = device("full")
    arrays = arguments(dev, "a b")
    with pytest.raises(KernelFault) as caught:
        dev.compile(source).get_function("k")(1, 1, (arrays["a"], arrays["b"]))
    assert caught.value.kind == "stack-overflow" and "does the recursion end?" in caught.value.explanation


def test_a_fault_survives_a_trip_between_processes(modules):
    fault = launch(modules, "full", "two_faults")
    copy = pickle.loads(pickle.dumps(fault))
    assert str(copy) == str(fault) and copy.more[0].kind == fault.more[0].kind


def test_the_schedule_changes_no_message(modules):
    dev, said = device("memory"), set()
    for dev.schedule in range(6):
        fault = launch(modules, "memory", "no_bounds_check")
        said.add((str(fault), fault.thread, fault.block))
    dev.schedule = 0
    assert len(said) == 1
