"""Grades puzzle 44: whether the order of copies and kernels is certain, its results right, and how much overlaps.

The student's program asks for work, and the machine does it here: what is judged is what it has stored. The checks return
a Failure, or None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from backwarp.reference import conv

from ..course.declare import Case, Mistake
from ..course.inputs import derive_seed
from ..grading import sentences
from ..grading.programs.program import ProgramError
from ..grading.verdict import Failure
from ..lenet.checks import chosen_kernels, weigh
from ..tensors import Launches
from . import KERNELS
from .machine import BLOCK, Machine, Memory, Race
from .order import COMPUTE, IN, OUT, Operation, Order, computed, copied, filled

FILLED = {"grad_images": "images", "grad_weights": "weights"}  # the results, and what they are gradients of
STORED_BY = {"grad_images": ("conv2d_backward_input",), "grad_weights": ("conv2d_backward_weights", "add")}
LATELY = 3  # operations: an event often stands for a few, one of which is needed
CHUNKS = 3  # that the device has room for
SLACK = 1.05  # what the allowed time is, to that of two streams
ENGINES = {IN: "copies to the device", COMPUTE: "kernels", OUT: "copies to the host"}


def check_streams(
    functions: Mapping[str, Callable], case: Case, device, seed: int, mistakes: Sequence[Mistake] = ()
) -> Failure | None:
    arrays = inputs(case, seed)
    machine = machine_for(device, case.dims, arrays)
    try:
        run(functions, machine, arrays, case.dims)
    except ProgramError:
        if not machine.race:
            raise
        return raced(machine, "")
    known = machine.order.known
    machine.finish()
    wrong = [w for name in STORED_BY if (w := differs(machine, name, arrays))]
    if machine.race:
        return raced(machine, sentences.mismatch(wrong)[0] if wrong else "")
    return not_waited(machine, known) or not_stored(machine) or differing(wrong) or slow(machine, case.dims)


def run(functions: Mapping[str, Callable], machine: Machine, arrays: Mapping, d: Mapping[str, int]) -> None:
    """Calls the program's function. Errors: ProgramError."""
    shapes = {name: list(arrays[like].shape) for name, like in FILLED.items()}
    functions["call"]("run", machine, arrays, shapes, d["chunk"], valid=lambda found: found is None)


def inputs(case: Case, seed: int) -> dict[str, np.ndarray]:
    d, random = case.dims, np.random.default_rng(derive_seed(seed, "44", case.name))
    shapes = {
        "images": (d["batch"], d["C_in"], d["H"], d["W"]),
        "grad_output": (d["batch"], d["C_out"], d["H"] - d["F"] + 1, d["W"] - d["F"] + 1),
        "weights": (d["C_out"], d["C_in"], d["F"], d["F"]),
    }
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@lru_cache(maxsize=1)
def launches_on(device) -> Launches:
    """The kernels, compiled: that does not count as the program's time."""
    device.quick = True
    launches = Launches(device, chosen_kernels(KERNELS))
    launches.kernels(())
    return launches


def machine_for(device, d: Mapping[str, int], arrays: Mapping[str, np.ndarray]) -> Machine:
    host = {name: Memory.given(name, a) for name, a in arrays.items()}
    for name, like in FILLED.items():
        host[name] = Memory.unset(name, arrays[like].nbytes)
    return Machine(launches_on(device), room(d), host)


def sizes(d: Mapping[str, int]) -> dict[str, int]:
    """Bytes of an image, of the gradient of its output, and of the weights; FLOP of a kernel for an image."""
    places = (d["H"] - d["F"] + 1) * (d["W"] - d["F"] + 1)
    weights = d["C_in"] * d["C_out"] * d["F"] ** 2
    return {
        "image": 4 * d["C_in"] * d["H"] * d["W"],
        "grad": 4 * d["C_out"] * places,
        "weights": 4 * weights,
        "flops": 2 * weights * places,
    }


def room(d: Mapping[str, int]) -> int:
    """Bytes of the device: arrays of three chunks, and eight of the weights'."""

    def blocks(size: int) -> int:
        return -(-size // BLOCK) * BLOCK

    s, n = sizes(d), d["chunk"]
    return CHUNKS * (2 * blocks(n * s["image"]) + blocks(n * s["grad"])) + 8 * blocks(s["weights"])


# ---- what is wrong ---------------------------------------------------------------------------------------


def differs(machine: Machine, name: str, arrays: Mapping[str, np.ndarray]):
    expected = {
        "grad_images": lambda: conv.backward_input(
            arrays["grad_output"].astype(float), arrays["weights"].astype(float), arrays["images"].shape
        ),
        "grad_weights": lambda: conv.backward_weights(
            arrays["grad_output"].astype(float), arrays["images"].astype(float), arrays["weights"].shape
        ),
    }[name]()
    got = machine.host[name].data.view(np.float32).reshape(expected.shape)
    return weigh(name, got, expected, name == "grad_weights")


def differing(wrong: list) -> Failure | None:
    return Failure("wrong", sentences.mismatch(wrong[:1]), mismatches=wrong) if wrong else None


def raced(machine: Machine, wrong: str) -> Failure:
    """Two operations that are not ordered, or one and the host: what is missing."""
    race: Race = machine.race
    first, own = race.earlier, race.later
    does = ["stores to" if stores else "reads" for stores in race.stores]
    if own is None:
        lines = [
            f"The program {does[1]} {race.name} while {named(first)}, which {does[0]} it, may be under way: the host has not "
            "waited for it. Call synchronize() of an event after it, or of its stream, before."
        ]
        return Failure("race", lines, hint=3, places=(first.line, race.line))
    lines = [
        f"{upper(named(own))} {does[1]} {race.name}, and {named(first)} {does[0]} it: nothing orders the two."
    ]
    streams = [o.what.stream or f"stream {o.stream}" for o in (own, first)]
    lines.append(f"The one is in {streams[0]}, the other in {streams[1]}.")
    if 0 in (own.stream, first.stream):
        lines.append("Streams with non_blocking=True do not wait for the null stream, nor it for them.")
    elif race.stores == (False, True):
        lines.append("The array is used again: let the stream wait for an event after its last use.")
    else:
        before, after = sorted((own, first), key=lambda operation: operation.number)
        lines.append(
            f"Record an event after {named(before)}, and let {after.what.stream or f'stream {after.stream}'} wait for it before"
            f" {named(after)}."
        )
    if wrong:
        lines.append(f"In the order of this run, {wrong}")
    return Failure("race", lines, hint=2, places=tuple(dict.fromkeys((first.line, own.line))))


def named(operation: Operation) -> str:
    return f"{operation.what.called} (line {operation.line})"


def upper(text: str) -> str:
    """A sentence's beginning; a kernel keeps its name."""
    return text[0].upper() + text[1:] if text.startswith("the ") else text


def results(machine: Machine) -> list[Operation]:
    """The copies to the arrays that are to be filled."""
    copies = (o for o in machine.order.operations if o.what.kind == "get" and o.what.host)
    return [o for o in copies if o.what.host[0] in STORED_BY]


def not_waited(machine: Machine, known: int) -> Failure | None:
    """Copies to the host that may be under way when the function returns. known: what the host knows to have ended."""
    for copy in results(machine):
        if not known >> copy.number & 1:
            says = (
                f"backward returns, but {named(copy)} to {copy.what.host[0]} may be under way: the host has not waited for "
                "it. Call synchronize() of its stream, or of an event after it, first."
            )
            return Failure("race", [says], hint=3, places=(copy.line,))
    return None


def not_stored(machine: Machine) -> Failure | None:
    """Results that no copy fills, or that were not computed by a kernel."""
    for name in STORED_BY:
        missing = int((machine.host[name].stored == 0).sum())
        if missing:
            total = machine.host[name].stored.size
            return Failure("unwritten", [f"No copy fills {missing:,} of the {total:,} elements of {name}."])
    for copy in results(machine):
        name = copy.what.host[0]
        if others := copy.what.made_by.difference(STORED_BY[name]):
            kernel = STORED_BY[name][0]
            other = {"set": "a copy", "fill": "a fill"}.get(min(others), min(others))
            says = f"{upper(named(copy))} takes to {name} what {other} has stored, not {kernel}."
            return Failure("launch", [says], places=(copy.line,))
    return None


# ---- how long it takes -----------------------------------------------------------------------------------


def slow(machine: Machine, d: Mapping[str, int]) -> Failure | None:
    """Whether it takes longer than with one stream for each of two chunks; if not, how long it takes."""
    took, most = machine.order.end(), allowed(d)
    if not d.get("timed"):
        return None
    alone = sum(o.time for o in machine.order.operations)
    lines = [
        f"It takes {shown(took)}; at most {shown(most)} are allowed. One after the other, all work takes {shown(alone)}."
    ]
    if took <= most:
        return Failure("", lines)
    says, places = held_back(machine)
    return Failure("slow", [*lines, *says], hint=3, places=places)


def shown(time: float) -> str:
    return f"{time / 1000:,.1f} us"


def allowed(d: Mapping[str, int]) -> float:
    """Nanoseconds: those of two streams, each with the copies and kernels of every other chunk, and SLACK."""
    order, s = Order(), sizes(d)
    first, second = order.stream(False), order.stream(False)
    order.issue(IN, copied(s["weights"]), first)
    order.issue(COMPUTE, filled(s["weights"]), first)
    event = order.event()
    order.record(event, first)
    for i, start in enumerate(range(0, d["batch"], d["chunk"])):
        stream, n = (first, second)[i % 2], min(d["chunk"], d["batch"] - start)
        order.issue(IN, copied(n * s["image"]), stream)
        order.issue(IN, copied(n * s["grad"]), stream)
        order.wait_event(stream, event)
        order.issue(COMPUTE, computed(n * s["flops"]), stream)
        order.issue(COMPUTE, computed(s["weights"] // 4), stream)
        order.record(event, stream)
        order.issue(COMPUTE, computed(n * s["flops"]), stream)
        order.issue(OUT, copied(n * s["image"]), stream)
    order.wait_event(stream, event)
    order.issue(OUT, copied(s["weights"]), stream)
    return SLACK * order.end()


def held_back(machine: Machine) -> tuple[list[str], tuple[int, ...]]:
    """What most often makes an operation wait for another that it does not need; else, for an array to be free."""
    order, idle, reused = machine.order, Counter(), Counter()
    for earlier, later, edge in order.critical():
        if edge.how == "engine" or earlier.engine == later.engine:
            continue
        lately = [o for o in order.operations[: earlier.number + 1] if o.stream == earlier.stream]
        lately = lately[-LATELY if edge.how == "event" else -1 :]
        needs = [(a, b) for o in lately for a in o.accesses for b in later.accesses if a.meets(b)]
        pair = f"{named(later)} waits for {named(earlier)}", (earlier.line, later.line)
        if not needs:
            idle[edge.how, edge.line, later.what.stream, *pair] += 1
        elif not any(a.stores for a, _ in needs):
            reused[pair] += 1
    if idle:
        (how, line, stream, says, lines), count = idle.most_common(1)[0]
        says = upper(f"{says}, {f'{count} times' if count > 1 else 'once'}, and does not need it: ")
        if how == "host":
            return [f"{says}the host waits in line {line} before it asks for more."], (line,)
        if how == "event":
            return [f"{says}its stream waits for an event in line {line}."], (line,)
        return [f"{says}both are in {stream or 'one stream'}, which does one after the other."], lines
    if reused:
        says, lines = reused.most_common(1)[0][0]
        return [upper(f"{says}, which uses the same array: two arrays can take turns.")], lines
    return [
        f"Most of the time goes to {ENGINES[busiest(machine)]}: are there more of them than necessary?"
    ], ()


def busiest(machine: Machine) -> str:
    spent = Counter()
    for operation in machine.order.operations:
        spent[operation.engine] += operation.time
    return spent.most_common(1)[0][0]
