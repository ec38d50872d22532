"""Puzzle 44: copies and kernels in streams, ordered by events, for a batch larger than the device's memory."""

from __future__ import annotations

from backwarp.course import Case, Mistake, Program, Puzzle, mistakes_in
from backwarp.course.mistakes import slow
from backwarp.course.sizes import by_hand, drawn
from backwarp.streams.checks import check_streams, launches_on
from backwarp.streams.machine import REQUESTS

WAIT_FILLED = "        compute.wait_event(filled[p])\n"
WAIT_USED = "        copy_in.wait_event(used[p])\n"
FILLED = "        filled[p].record(copy_in)\n"
USED = "        used[p].record(compute)\n"
COPIED = "        copied[p].record(copy_out)\n"
TOTAL = "total = cp.zeros(weights.shape, cp.float32)\n"
INPUT = '            launch("conv2d_backward_input", grad[p][:n], w, grad_x[p][:n])\n'
WITH = "    with compute:  #"
STREAMS = "(cp.cuda.Stream(non_blocking=True) for _ in range(3))"


def race(name, *edits):
    return Mistake(name, edits, expect="race")


MISTAKES = mistakes_in(
    "backward",
    race("kernels do not wait for the copies", (WAIT_FILLED, "")),
    race("a chunk overwrites the last but one", (WAIT_USED, "")),
    race(
        "the event speaks for one of two copies",
        (FILLED, ""),
        ("        grad[p][:n].set", FILLED + "        grad[p][:n].set"),
    ),
    race("the event speaks for all kernels but the last", (USED, ""), (INPUT, "    " + USED + INPUT)),
    race("an event of the wrong place", ("(filled[p])", "(filled[1 - p])")),
    race("an event recorded in the stream that waits", ("(copy_in)", "(compute)")),
    race("set to 0 in the null stream", ("        " + TOTAL, ""), (WITH, "    " + TOTAL + WITH)),
    race(
        "kernels in the null stream",
        ('        with compute:\n            launch("', '        if True:\n            launch("'),
    ),
    race("the sum is taken in the null stream", (", stream=compute, blocking=False", "")),
    race("the host does not wait", ("    copy_out.synchronize()\n", "")),
    race(
        "the host looks too early",
        ("    compute.synchronize()\n", "    print(grad_weights.max())\n    compute.synchronize()\n"),
    ),
    race("the host changes what is being copied", (FILLED, FILLED + "        images[start:stop] = 0\n")),
    slow("one stream", "", (STREAMS, "[cp.cuda.Stream(non_blocking=True)] * 3")),
    slow("copies in and out in one stream", "", (WITH, "    copy_out = copy_in\n" + WITH)),
    slow("copies out behind the kernels", "", (WITH, "    copy_out = compute\n" + WITH)),
    slow("one array for each purpose", "", ("i % 2, min", "0, min")),
    slow("the host waits for each chunk", "", (COPIED, COPIED + "        copy_out.synchronize()\n")),
    slow("the copy out blocks", "", ("copy_out, blocking=False", "copy_out")),
    slow("waits for both places", "", (WAIT_USED, WAIT_USED + "        copy_in.wait_event(used[1 - p])\n")),
    Mistake("the last chunk is as large as the others", ("x[p][:n].set", "x[p].set"), expect="exception"),
    Mistake("the sum begins with anything", ("cp.zeros", "cp.empty"), expect="launch"),
    Mistake(
        "the whole batch at once",
        (
            "x = [cp.empty((chunk, *images.shape[1:]), cp.float32) for _ in range(2)]\n    grad =",
            "x = [cp.empty(images.shape, cp.float32) for _ in range(2)]\n    grad =",
        ),
        expect="launch",
    ),
    Mistake("the gradient of the last chunk", ("total +=", "total[...] ="), expect=("wrong", "launch")),
    Mistake(
        "only the first images of a chunk go back",
        ("n].get(out=grad_images[start:stop", "1].get(out=grad_images[start : start + 1"),
        expect="unwritten",
    ),
)
LENET_CONV2 = dict(C_in=6, H=12, W=12, C_out=16, F=5)

PUZZLE = Puzzle(
    title="Copies and kernels overlapped",
    part=6,
    teaches="Streams, events and pinned memory: what order they make certain, and how much time overlapping saves.",
    practice="PyTorch's loaders copy the next batch from pinned memory, with non_blocking=True, while kernels work on this one.",
    lines=17,
    kernels=(),
    program=Program(
        "streams.py",
        ("backward(images, grad_output, weights, grad_images, grad_weights, chunk)",),
        check_streams,
        REQUESTS,
        seconds=20,
        prepare=launches_on,
        driver="backwarp.streams.driver",
    ),
    cases=(
        by_hand("three_chunks", dict(batch=6, chunk=2, C_in=1, H=3, W=3, C_out=1, F=2)),
        Case("one_chunk", dict(batch=2, chunk=5, C_in=2, H=4, W=5, C_out=3, F=2), "smaller than a chunk"),
        Case("image_by_image", dict(batch=5, chunk=1, C_in=2, H=5, W=4, C_out=3, F=3)),
        Case(
            "own_sizes",
            draw=drawn(batch=(9, 20), chunk=(2, 4), C_in=(2, 4), H=(6, 9), W=(6, 9), C_out=(2, 5), F=(2, 3)),
        ),
        Case("lenet_conv2", dict(batch=250, chunk=32, **LENET_CONV2, timed=1), "LeNet's second layer, timed"),
        Case(
            "own_times",
            draw=drawn(
                batch=(201, 330),
                chunk=(24, 36),
                C_in=(5, 7),
                H=(11, 13),
                W=(11, 13),
                C_out=(14, 18),
                F=(5, 5),
            ),
            note="the same with sizes that belong to your file",
        ),
    ),
    mistakes=MISTAKES,
    hints=(
        "Within a stream everything happens in order, so only what crosses from one stream to another needs "
        "an event. For each array ask two questions: after what may it be read, and after what may it be "
        "stored to again? An event is recorded in the stream that does the work and waited for by the stream "
        "that needs it. Waiting for an event that has never been recorded is no waiting, so the first two "
        "chunks need no special case.",
        "There are four pairs. Kernels wait for the copies in of their chunk. The copies in of chunk i + 2 "
        "wait for the kernels of chunk i, which read the same arrays. The copy out waits for the kernels. "
        "The kernels of chunk i + 2 wait for the copy out of chunk i, as they store to the same array. Three "
        "events for each of the two places are enough, since one after the last kernel serves both those who "
        "copy in and those who copy out.",
        "The host should ask for everything and wait once, at the end, for both streams that copy to it. "
        "Every synchronize() in the loop, every get() that blocks, and every copy from memory that is not "
        "pinned makes the host wait, and while it waits it asks for nothing. Copies in and copies out have "
        "engines of their own, but only if they are in different streams.",
    ),
)
