"""The zoo: small kernels with one fault each, and the exact messages about them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from backwarp.devices.virtual.explain import faults
from backwarp.devices.virtual.runtime.abi import FAULTS
from backwarp.errors import KernelFault
from tests import KERNELS
from tests.devices.virtual.explain.zoo import ZOO
from tests.devices.virtual.launches import K, chosen, device, in_each_build, line_of, only, run, zeros

SOURCE = (KERNELS / "zoo.cu").read_text()


@pytest.fixture(scope="module")
def modules(request):
    some = chosen(request, checks="memory") | {"no_bounds_check"}
    return {"full": device("full").compile(SOURCE), "memory": device("memory").compile(only(SOURCE, some))}


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


@pytest.mark.parametrize("name, checks", in_each_build({name: case.flavours for name, case in ZOO.items()}))
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


# How many hazards a sum of 128 ints by a tree has, counted by hand. Element e is written in line LOAD by thread e, and,
# for e < 64, in line ADD by thread e in every step above e. In line ADD it is read by thread e, which is no hazard, and
# by one other thread: e - step in the step with step <= e < 2 * step. So for each e = 1 ... 127 there is one pair
# (write in LOAD by e, read in ADD by e - step): 127 elements of 4 bytes, 508 hazards. And for each e = 1 ... 63 one
# pair of lines (write in ADD by e, read in ADD by e - step): 63 elements, 252 hazards.
# A barrier after LOAD leaves the 252. A barrier after each step, but none after LOAD, leaves what LOAD writes and the
# first step reads, e = 64 ... 127: 64 elements, 256 hazards.
# The first thread that reads what another warp writes is thread 0: from thread 32 (in step 32) and thread 64 (step 64).
TREE = f"""{K}tree(const int* x, int* y) {{
  __shared__ int s[128];
  int i = threadIdx.x;
  s[i] = x[i];  // LOAD
  AFTER_LOAD
  for (int step = 64; step > 0; step /= 2) {{
    if (i < step) s[i] += s[i + step];  // ADD
    AFTER_STEP
  }}
  if (i == 0) y[blockIdx.x] = s[0];
}}"""


@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize(
    "after_load, after_step, hazards",
    [
        ("", "", [("LOAD", 508, 32), ("ADD", 252, 32)]),
        ("__syncthreads();", "", [("ADD", 252, 32)]),
        ("", "__syncthreads();", [("LOAD", 256, 64)]),
        ("__syncthreads();", "__syncthreads();", []),
    ],
)
def test_hazards_of_a_tree_without_its_barriers(after_load, after_step, hazards, grid):
    """The same under every schedule: the count, the lines, the threads and the element that is named."""
    source = TREE.replace("AFTER_LOAD", after_load).replace("AFTER_STEP", after_step)
    dev, line = device(), {mark: line_of(source, mark) for mark in ("LOAD", "ADD")}
    kernel = dev.compile(source).get_function("tree")
    for dev.schedule in range(5):
        x, y = dev.array(np.arange(128, dtype=np.int32), readonly=True), dev.array(np.zeros(grid, np.int32))
        found = []
        try:
            kernel(grid, 128, (x, y))
        except KernelFault as fault:
            found = [fault, *fault.more]
        assert [f.headline for f in found] == [
            f"Race reported between Write access at kernel.cu:{line[mark]} and Read access at kernel.cu:{line['ADD']}"
            f" [{grid * count} hazards]"
            for mark, count, _ in hazards
        ]
        for fault, (mark, _, writer) in zip(found, hazards, strict=True):
            assert (fault.kind, fault.severity, fault.line, fault.other.line) == (
                "race",
                "error",
                line["ADD"],
                line[mark],
            )
            assert (fault.thread, fault.other.thread, fault.block) == ((0, 0, 0), (writer, 0, 0), (0, 0, 0))
            assert (fault.array, fault.index) == ("s", str(writer))
    dev.schedule = 0


def test_a_byte_is_one_hazard_however_often_it_is_touched():
    """Thread 0 reads three times what 128 threads wrote twice; its own element is no hazard."""
    source = f"""{K}k(const int* x, int* y) {{
      __shared__ int s[128];
      s[threadIdx.x] = x[threadIdx.x];  // LOAD
      s[threadIdx.x] *= 2;  // TWICE
      if (threadIdx.x == 0)
        for (int j = 0; j < 384; j++) *y += s[j % 128];
    }}"""
    dev = device()
    kernel = dev.compile(source).get_function("k")
    for dev.schedule in range(4):
        with pytest.raises(KernelFault) as caught:
            kernel(1, 128, (dev.array(np.ones(128, np.int32)), dev.array(np.zeros(1, np.int32))))
        found = [caught.value, *caught.value.more]
        assert [f.other.line for f in found] == [line_of(source, "LOAD"), line_of(source, "TWICE")]
        assert all(f.headline.endswith(f"[{127 * 4} hazards]") for f in found)
    dev.schedule = 0


@pytest.mark.parametrize("missing", ["FIRST", "SECOND"])
def test_a_barrier_that_is_missing_on_the_way_round_a_loop(missing):
    source = """extern "C" __global__ void k(const int* a, int* out) {
    __shared__ int tile[64];
    for (int i = 0; i < 128; i += 64) {
        tile[threadIdx.x] = a[i + threadIdx.x];  // STORED
        __syncthreads();  // FIRST
        out[threadIdx.x] += tile[63 - threadIdx.x];  // USED
        __syncthreads();  // SECOND
    }
}"""
    stored, used = line_of(source, "STORED"), line_of(source, "USED")
    arrays = np.ones(128, np.int32), zeros(64, np.int32)
    with pytest.raises(KernelFault) as caught:
        run(source.replace(f"__syncthreads();  // {missing}", ""), *arrays, block=64)
    says = {
        "FIRST": "there is no __syncthreads() between them.",
        "SECOND": f"after the barrier in line {stored + 1}, there is no __syncthreads() on the path from line"
        f" {used} around the loop to line {stored}.",
    }
    assert caught.value.explanation.endswith(says[missing])


def test_deep_recursion_of_a_large_function_does_not_exhaust_the_stack():
    """A frame of many kilobytes, a thousand deep: a fault, not the end of the process."""
    values = "\n".join(f"  float v{j} = p[(unsigned)(x + {j}) % 10] * {j};" for j in range(200))
    total = " + ".join(f"v{j} * v{j * 7 % 200}" for j in range(200))
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


def test_every_kind_of_record_is_described():
    """Races and endless waits are told of several records together."""
    assert set(FAULTS) == {"none", "stuck-at-phase", *faults.RACES, *faults._DESCRIBE}


@pytest.mark.soak  # lanes are compiled for seconds; test_scouts has a kernel of each kind
def test_zoo_in_which_lanes_look_first(modules):
    scouting = device("full").compile(SOURCE)
    scouting.scouted = False
    scouting.scout()
    assert sum(kernel.scouts for kernel in scouting.lowered.kernels.values()) > 30
    for name in (name for name, case in ZOO.items() if "full" in case.flavours):
        said = []
        for module in (modules["full"], scouting):
            module.recorded.clear()
            fault = launch({"full": module}, "full", name)
            said.append((str(fault), fault.line, fault.thread, fault.block, [str(x) for x in fault.more]))
        assert said[0] == said[1], name
