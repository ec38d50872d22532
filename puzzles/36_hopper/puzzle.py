"""Puzzle 36: a convolution whose tiles are copied by TMA and multiplied by wgmma, on compute capability 9.0."""

from __future__ import annotations

import numpy as np
from backwarp.reference import conv

from backwarp.course import Case, Gate, In, Kernel, Launch, Out, Puzzle, ceil_div, require
from backwarp.course.mistakes import Mistake, mistakes_in, slow
from backwarp.course.sizes import Ints, drawn, integers, own_sizes, with_inputs

ONE, RING, SPECIALISED, CLUSTERED = "one_tile", "ring", "specialised", "clustered"
TILE = 64


def convolution(a, d):
    """y [b, p, q, k] of images [b, h, w, c] and filters [k, r, s, c]."""
    x, w = (np.moveaxis(a[name], -1, 1) for name in "xw")
    return np.moveaxis(conv.forward(x, w, stride=d["stride"], padding=d["pad"]), 1, -1)


def pixels(count):
    """The map of the images: `count` pixels that neighbouring outputs read at one tap."""

    def made(x, d):
        lower, upper = (-d["pad"], -d["pad"]), (d["pad"] - d["R"] + 1, d["pad"] - d["S"] + 1)
        strides = d["stride"], d["stride"]
        return x.device.tensor_map_im2col(x, TILE, count, lower, upper, "128B", strides)

    return made


def filters(w, d):
    """The map of the filters: a matrix with a row for each."""
    return w.device.tensor_map(w, (TILE, TILE), "128B", shape=(d["K"], d["R"] * d["S"] * d["C"]))


def kernel(name, rows, threads, copied=None, together=1):
    """copied: pixels that one copy brings. together: blocks with the same pixels in a cluster."""

    def launch(d, t):
        require(d["C"] % TILE == 0, "C is a multiple of 64")
        require(max(d["R"], d["S"]) <= 128 and d["stride"] <= 8, "no map has such corners or strides")
        pairs = 0 if name == ONE else t["STAGES"]
        grid = ceil_div(d["M"], rows), ceil_div(d["K"], TILE * together) * together
        return Launch(grid, threads, pairs * 2 * TILE * (rows + TILE))

    return Kernel(
        name,
        params=(
            Out("y", b="batch", p="P", q="Q", k="K"),
            *Ints("batch C P Q K R S stride pad"),
            In("x", dtype="float16", b="batch", h="H", w="W", c="C").mapped(pixels(copied or rows)),
            In("w", dtype="float16", k="K", r="R", s="S", c="C").mapped(filters),
        ),
        launch=launch,
        reference=convolution,
        short=("batch", "H", "W", "P", "Q", "C", "K", "R", "S"),
    )


def derived(d):
    P, Q = ((d[n] + 2 * d["pad"] - d[f]) // d["stride"] + 1 for n, f in ("HR", "WS"))
    return {"P": P, "Q": Q, "M": d["batch"] * P * Q}


def size(batch, H, W, C, K, R, S, stride=1, pad=0):
    return dict(batch=batch, H=H, W=W, C=C, K=K, R=R, S=S, stride=stride, pad=pad)


def first_channel(values):
    """All channels but the first are 0."""
    return lambda rng, a, d: np.pad(np.array(values)[..., None], [(0, 0)] * 3 + [(0, TILE - 1)])


def steps(d):
    return d["R"] * d["S"] * d["C"] // TILE


def blocks(d, rows=64, together=1):
    return ceil_div(d["M"], rows) * ceil_div(d["K"], TILE * together) * together


PRODUCT = "wgmma_m64n64k16(d, tile_at(x + c, 1024), tile_at(w + c, 1024));"
FULL = "wait_for_phase(&full[step % STAGES], step / STAGES % 2);"

MISTAKES = (
    *mistakes_in(
        ONE,
        Mistake("parity never flipped", ("step % 2", "0"), expect="unlanded", line=PRODUCT),
        Mistake("bytes of one tile", ("sizeof(pair)", "sizeof(pair.x)"), expect="unlanded", line=PRODUCT),
        Mistake(
            "stride of another swizzle",
            ("1024), tile_at(w + c, 1024", "512), tile_at(w + c, 512"),
            expect="descriptor",
            line=PRODUCT.replace("1024", "512"),
        ),
        Mistake(
            "windows begin in the image",
            ("stride - pad, p * stride - pad", "stride, p * stride"),
            says="The first window begins at its pixel, not before it: take the padding off both "
            "coordinates, also where that makes them negative.",
        ),
        Mistake(
            "row of the window before its column",
            ("q * stride - pad, p * stride - pad", "p * stride - pad, q * stride - pad"),
            says="The window's coordinates are exchanged: the innermost axis comes first, q's, then p's.",
        ),
        Mistake(
            "channels last in the filters",
            ("w, (r * S + s) * C + c", "w, c * R * S + r * S + s"),
            says="The filters are read as if a channel had all its taps together: they lie the other way "
            "round, all channels of a tap together.",
        ),
        Mistake(
            "columns as in A",
            ("4 * 2 + i % 2", "4 + i % 2 * 4"),
            says="A lane's two sums of a row are stored 4 columns apart; they are neighbours.",
        ),
    ),
    *mistakes_in(
        RING,
        Mistake(
            "released before it is read",
            ("            wait_products<1>();  // all but those just begun\n", ""),
            expect="refilled",
            line=PRODUCT,
            hint=2,
        ),
        slow(
            "all meet in every step",
            "__syncthreads();",
            (
                "            arrive(&empty[(step - 1) % STAGES]);",
                "            arrive(&empty[(step - 1) % STAGES]);\n            __syncthreads();",
            ),
        ),
        slow(
            "copies only what it waits for",
            PRODUCT,
            ("STAGES - 1;", "0;"),
            (FULL, "copy(step);\n        " + FULL),
            ("        copy(step + STAGES - 1);\n", ""),
            ("if (step > 0) {", "{"),
            ("wait_products<1", "wait_products<0"),
            ("(step - 1)", "step"),
        ),
    ),
    *mistakes_in(
        SPECIALISED,
        Mistake(
            "released before it is read, too",
            (
                ("        wait_products<0>();\n        arrive(&empty[i]);", "        arrive(&empty[i]);"),
                ("    store(d, y, m + first", "    wait_products<0>();\n    store(d, y, m + first"),
            ),
            expect="refilled",
            line=PRODUCT,
            hint=3,
        ),
        Mistake(
            "filters once for each group",
            (
                ("sizeof(Wide)", "sizeof(Wide) + 8192"),
                (
                    "(r * S + s) * C + c, k, &full[i]);\n                }",
                    "(r * S + s) * C + c, k, &full[i]);\n                    copy_box(pair[i].w, &w, (r * S + s) * C + c, k, &full[i]);\n                }",
                ),
            ),
            expect=("race", "slow"),
            line="copy_",
        ),
    ),
    *mistakes_in(
        CLUSTERED,
        Mistake(
            "ends while others still arrive",
            ("    meet_cluster();  // nothing arrives any more in a block that ends\n", ""),
            expect="ended-block",
            line="arrive_in(",
        ),
        Mistake(
            "released in one block",
            (
                (
                    "            arrive_in(0, &empty[i]);\n            arrive_in(1, &empty[i]);",
                    "            arrive(&empty[i]);",
                ),
                ("[i], 512", "[i], 256"),
            ),
            expect=("refilled", "race"),
            line=PRODUCT,
        ),
        Mistake(
            "copied for itself alone",
            ("3, pair[i]", "1 << own, pair[i]"),
            expect="stuck-at-phase",
            line="wait_for_phase(&full[i]",
        ),
        Mistake(
            "stored where it copies",
            ("store(d, y, m - first + row,", "store(d, y, m + row,"),
            says="m is the first pixel that this block copies. Those that it multiplies begin at "
            "blockIdx.x * 128 in both blocks.",
        ),
        Mistake(
            "only its own block has barriers",
            ("meet_cluster();  // from here on there are barriers in both blocks", "__syncthreads();"),
            expect="unstarted-block",
            line="copy_pixels_to(",
        ),
        slow(
            "each block copies all pixels",
            "copy_pixels_to(",
            ("3, pair[i]", "1 << own, pair[i]"),
            (
                "copy_box(pair[i].w, &w, (r * S + s) * C + c, k, &full[i]);",
                "int other = m + 64 - 2 * first;\n                    copy_pixels_to(1 << own, pair[i].x + (64 - first) * 64, &x, c, other % Q * stride - pad, other / Q % P * stride - pad, other / (P * Q), s, r, &full[i]);\n                    copy_box(pair[i].w, &w, (r * S + s) * C + c, k, &full[i]);",
            ),
        ),
        hint=3,
    ),
)

PLANE, TAPS = dict(H=(5, 9), W=(5, 9)), dict(R=(1, 3), S=(1, 3), stride=(1, 2), pad=(0, 1))

PUZZLE = Puzzle(
    title="Hopper",
    part=4,
    teaches="How one thread has tiles copied, 128 threads multiply them, and barriers count bytes in between.",
    practice="CUTLASS and cuDNN run convolutions like this on Hopper: TMA im2col, wgmma, and a warp group that only copies.",
    lines=137,
    kernels=(
        kernel(ONE, 64, 128),
        kernel(RING, 64, 128),
        kernel(SPECIALISED, 128, 384),
        kernel(CLUSTERED, 128, 384, copied=64, together=2),
    ),
    dims=derived,
    bench=size(64, 56, 56, 128, 128, 3, 3, pad=1),
    cases=(
        with_inputs(
            "hopper_tiny",
            size(1, 2, 3, 64, 1, 1, 2),
            "done by hand in the lesson; two steps",
            x=first_channel([[[1, 2, 3], [4, 5, 6]]]),
            w=first_channel([[[2, -1]]]),
        ),
        Case("one_step", size(2, 5, 3, 64, 3, 1, 1), "fewer steps than pairs"),
        Case("small_images", size(9, 3, 2, 64, 5, 2, 2, pad=1), "a tile has pixels of six images"),
        integers(size(2, 8, 8, 64, 64, 3, 3, pad=1), "exact sums; whole tiles"),
        Case("filter_1x1", size(1, 9, 8, 320, 7, 1, 1, stride=2), "a step is a slice of the channels"),
        Case("stride_2", size(4, 9, 12, 128, 6, 3, 2, stride=2, pad=1), "R unlike S, H < W"),
        Case("wide", size(1, 2, 20, 64, 4, 1, 7, stride=3, pad=2), "padding of two, stride three"),
        Case("nothing_divides", size(3, 7, 9, 128, 70, 3, 3, pad=1), "189 pixels, 70 filters"),
        own_sizes(batch=(1, 3), **PLANE, C=(64, 128, 64), K=(60, 70), **TAPS),
        Case(
            "counted",
            size(2, 8, 8, 128, 128, 3, 3, pad=1),
            "18 steps; 4 blocks of one tile, or 2",
            again=drawn(
                batch=(3, 4), H=10, W=(6, 7), C=(192, 256, 64), K=(64, 192, 128), R=2, S=4, stride=1, pad=1
            ),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate("scalar_share", 0, says="Every product belongs to the tensor cores: use wgmma_m64n64k16."),
        Gate(
            "flops_without_bulk",
            lambda d: 100 * 2 / steps(d),
            kernels=(RING, SPECIALISED, CLUSTERED),
            below=100,
            hint=2,
            says="While these products are computed, no copy is on its way: start those of a later step "
            "before the products of this one are waited for.",
        ),
        Gate(
            "barriers",
            lambda d: 8 * blocks(d),
            kernels=(RING,),
            below=304,
            hint=2,
            says="No __syncthreads() in the loop: full says that a pair may be read, empty that it may be filled.",
        ),
        Gate(
            "bulk_bytes_per_flop",
            1 / 40,
            kernels=(SPECIALISED,),
            below=1 / 32,
            hint=3,
            says="Two warp groups use the same filters: one copy of them is enough for 128 pixels.",
        ),
        Gate(
            "bulk_bytes_per_flop",
            0.016,
            kernels=(CLUSTERED,),
            below=3 / 128,
            hint=3,
            says="Both blocks of a cluster multiply the same pixels: each copies half of them, for both.",
        ),
        *Gate.limits(
            ONE,
            flops=lambda d: 2 * 64**3 * steps(d) * blocks(d),
            bulk_copies=lambda d: 2 * steps(d) * blocks(d),
            bulk_bytes=lambda d: 2 * 8192 * steps(d) * blocks(d),
            barriers=lambda d: 4 * (2 * steps(d) + 2) * blocks(d),
        ),
        *Gate.limits(
            RING,
            flops=lambda d: 2 * 64**3 * steps(d) * blocks(d),
            bulk_copies=lambda d: 2 * steps(d) * blocks(d),
            bulk_bytes=lambda d: 2 * 8192 * steps(d) * blocks(d),
        ),
        *Gate.limits(
            SPECIALISED,
            flops=lambda d: 4 * 64**3 * steps(d) * blocks(d, 128),
            bulk_copies=lambda d: 3 * steps(d) * blocks(d, 128),
            barriers=lambda d: 24 * blocks(d, 128),
        ),
        *Gate.limits(
            CLUSTERED,
            flops=lambda d: 4 * 64**3 * steps(d) * blocks(d, 128, 2),
            bulk_copies=lambda d: 2 * steps(d) * blocks(d, 128, 2),
        ),
    ),
    hints=(
        "Start with one_tile. Thread 0 alone makes the barrier, and a __syncthreads() shows it to the rest. "
        "In a step it arrives with the bytes of both tiles together, and starts the two copies; everybody "
        "waits for the phase, whose parity is that of the step's number. The first output of the block is "
        "the pixel q of row p of image n: its window begins at that times the stride, less the padding. The "
        "filters are a matrix with a row for each, in which a tap's channels follow those of the tap before. "
        "The 16 channels of a product begin 16 halves further on in both tiles.",
        "In the ring, step number i uses pair i % STAGES, for the (i / STAGES)th time: its parity is that of "
        "this number. Count from 1 - STAGES, as in puzzle 34, and in each turn do, as far as there is such a "
        "step: wait until the pair is full, begin its products; wait for the products before these, and "
        "arrive at the empty barrier of theirs; wait until the pair of the step STAGES - 1 later is empty, "
        "and copy. A barrier waited for with the parity that comes before its first phase lets you pass, so "
        "that the first round needs no special case.",
        "In specialised, group 0 is one thread with three loops, over r, s and the channels, that waits "
        "for empty pairs and fills them; groups 1 and 2 have a loop over the steps that waits for full ones. "
        "All 256 of them arrive when their products are complete. The pixels of group 2 begin at row 64 of "
        "the tile, 64 times 64 halves further on; each group stores its own. In a cluster, the two "
        "blocks have the same pixels and other filters, so each copies 64 pixels to both, and a pair that it "
        "fills is one of both: all 512 threads that multiply arrive in both blocks. Barriers must be made "
        "before the other block uses them, and be there until it has: meet before the first copy, and after "
        "the last arrival.",
    ),
)
