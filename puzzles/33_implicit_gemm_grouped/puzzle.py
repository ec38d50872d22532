"""Puzzle 33: the weight gradient of a convolution in groups, in one launch; depthwise, in one pass."""

from __future__ import annotations

from dataclasses import replace

from backwarp.course import Case, Gate, Gradient, Launch, Puzzle, ceil_div
from backwarp.course.conv_cases import ints, output_sizes, own_sizes, size
from backwarp.course.convolutions import backward_weights, loss_of_weights
from backwarp.course.mistakes import Mistake, mistakes_in, slow
from backwarp.course.sizes import by_hand, gradient_check, only, with_inputs
from backwarp.course.tile_limits import tile_limits

GROUPED, DEPTHWISE = "conv2d_backward_weights_grouped", "conv2d_backward_weights_depthwise"
TILE = 16


def tiles(d, side=TILE):
    """Rows and columns of the tiles of one group's gradient."""
    return ceil_div(d["C_out"] // d["groups"], side), ceil_div(d["C_group"] * d["R"] * d["S"], side)


def positions(d):
    return d["batch"] * d["H_out"] * d["W_out"]


def must_move(d):
    """Bytes of the first kernel: for each column of tiles grad_output, for each row the windows; the sums."""
    (down, across), taps = tiles(d), d["R"] * d["S"]
    reads = across * d["C_out"] + down * d["C_in"] * taps
    return 4 * (positions(d) * reads + d["C_out"] * d["C_group"] * taps)


def flops_in_tiles(d):
    """What the first kernel computes, idle places included."""
    down, across = tiles(d)
    return 2 * d["groups"] * down * across * TILE * TILE * ceil_div(positions(d), TILE) * TILE


def sectors_read_once(d):
    return (d["batch"] * d["C_in"] * d["H"] * d["W"] + positions(d) * d["C_out"]) / 8


LOOP = "for (int start = 0; start < positions; start += TILE) {"
ZERO = "for (int i = 0; i < weights; i++) sums[i * THREADS + thread] = 0.0f;"
A_WEIGHT_EACH = """for (int i = 0, own = j - y + x; i < positions && k < filters && own < columns; i++) {
        int q = i % W_out, p = i / W_out % H_out, b = i / (W_out * H_out);
        int h = p * stride_h - pad_h + own / S % R * dilation_h;
        int w = q * stride_w - pad_w + own % S * dilation_w;
        if (h < 0 || h >= H || w < 0 || w >= W) continue;
        float grad = grad_output[((b * C_out + group * filters + k) * H_out + p) * W_out + q];
        float pixel = input[((b * C_in + group * channels + own / (S * R)) * H + h) * W + w];
        sum += grad * pixel;
    }
    """
ONE_CHANNEL_EACH = """for (int i = thread; i < weights; i += THREADS) {
        float sum = 0.0f;
        for (int n = 0; n < batch * H_out * W_out; n++) {
            int q = n % W_out, p = n / W_out % H_out, b = n / (W_out * H_out);
            int h = p * stride_h - pad_h + i / S % R * dilation_h;
            int w = q * stride_w - pad_w + i % S * dilation_w;
            if (h < 0 || h >= H || w < 0 || w >= W) continue;
            float grad = grad_output[((b * C_out + c * filters + i / (S * R)) * H_out + p) * W_out + q];
            float pixel = input[((b * C_in + c) * H + h) * W + w];
            sum += grad * pixel;
        }
        grad_weights[c * weights + i] = sum;
    }
    return;
    """

MISTAKES = (
    *mistakes_in(
        GROUPED,
        slow(
            "a thread per weight, as in puzzle 14",
            "float pixel = input[((b * C_in + group * channels",
            (LOOP, A_WEIGHT_EACH + LOOP.replace("start = 0", "start = positions")),
        ),
        slow(
            "tiles larger than the groups", "sum += grads[y][n] * windows[x][n];", ("TILE = 16", "TILE = 32")
        ),
        slow("windows not padded", "sum += grads[y][n] * windows[x][n];", ("TILE + 1", "TILE")),
    ),
    *mistakes_in(
        DEPTHWISE,
        slow(
            "depthwise: a thread per weight, as in puzzle 14",
            "float pixel = input[((b * C_in + c) * H + h) * W + w];",
            (ZERO, ONE_CHANNEL_EACH + ZERO),
        ),
        slow(
            "rows that two stretches need fetched twice",
            "pixels[i % (keep * W)] = input[",
            ("next, top", "0, top"),
        ),
        slow(
            "depthwise: sums of the threads far apart",
            "passes over the banks of shared memory",
            ("i * THREADS + thread", "thread * weights + i"),
            ("(f * R + r) * S * THREADS + thread", "thread * weights + (f * R + r) * S"),
            ("s * THREADS", "s"),
            ("i * THREADS + n", "n * weights + i"),
        ),
        Mistake(
            "rows fetched over those still needed",
            ("__syncthreads();  // nobody needs the oldest rows any more", ""),
            expect="race",
        ),
        Mistake(
            "the first image's rows for all",
            (
                ("int next = 0;  // the first row that is not in the ring", ""),
                (ZERO, ZERO + "\n    int next = 0;"),
            ),
            says="An image starts with rows of the one before: at its start none of its own rows are in the "
            "ring, so fetch from its first row on.",
        ),
        Mistake(
            "rows put where the stretch has them",
            (("h % keep * W", "(h - top) * W"), ("i % (keep * W)", "i - top * W")),
            says="Rows are stored and looked up at their distance from the stretch's first row, so those "
            "from the previous stretch are not found again: row h belongs at h % keep.",
        ),
        hint=2,
    ),
)


def grouped_launch(d, t):
    """Blocks in x: the tiles of one group, row of tiles after row; in y: the groups."""
    down, across = tiles(d, t["TILE"])
    return Launch(grid=(down * across, d["groups"]), block=(t["TILE"], t["TILE"]))


def depthwise_launch(d, t):
    """A block for every channel; shared memory for `keep` rows and for a sum per weight and thread."""
    threads, weights = t["THREADS"], d["C_out"] // d["C_in"] * d["R"] * d["S"]
    keep = (t["ROWS"] - 1) * d["stride_h"] + (d["R"] - 1) * d["dilation_h"] + 1
    return Launch(grid=d["C_in"], block=threads, shared_mem=4 * (keep * d["W"] + weights * threads))


def weights(d):
    return d["C_out"] * d["R"] * d["S"]


def taps(d):
    """Products of the second kernel, those with padding too."""
    return weights(d) * positions(d)


def of_groups(d):
    """Rows, columns and depth of the product of every group."""
    return [(d["C_out"] // d["groups"], d["C_group"] * d["R"] * d["S"], positions(d))] * d["groups"]


PUZZLE = Puzzle(
    title="Gradient of the weights in groups, and depthwise",
    part=4,
    teaches="How one launch multiplies the matrices of all groups, and what to do where tiles are too large.",
    practice="cuDNN computes all groups in one call as well: their number belongs to its description.",
    lines=62,
    kernels=(
        backward_weights(GROUPED, grouped_launch, ints("groups")),
        backward_weights(DEPTHWISE, depthwise_launch, ints(), "C_group"),
    ),
    dims=lambda d: {**output_sizes(d), "C_group": d["C_in"] // d["groups"], **d},
    bench=size(64, 144, 56, 56, 144, 3, 3, pad=(1, 1), groups=144),
    gradient_of={GROUPED: Gradient(loss_of_weights), DEPTHWISE: Gradient(loss_of_weights)},
    cases=(
        with_inputs(
            "implicit_grouped_tiny",
            size(1, 4, 1, 2, 4, 1, 1, groups=2),
            "the numbers of puzzle 14; done by hand in the lesson",
            kernels=(GROUPED,),
            grad_output=[[[[1, 2]], [[3, -1]], [[1, 1]], [[2, 0]]]],
            input=[[[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]]],
        ),
        by_hand(
            "implicit_depthwise_tiny",
            size(1, 1, 3, 3, 1, 2, 2, groups=1),
            grad_output=[[[[1, 2], [3, -1]]]],
            input=[[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]],
        ),
        Case(
            "two_stretches",
            size(1, 1, 10, 2, 1, 2, 1, groups=1),
            "9 rows of grad_output: the ring goes round",
            kernels=(DEPTHWISE,),
        ),
        Case("output_1x1", size(3, 2, 5, 3, 4, 3, 2, dilation=(2, 2), groups=2), "two filters a channel"),
        Case("one_channel", size(2, 1, 4, 7, 3, 2, 3, groups=1), "one channel, three filters; W > H"),
        *only(
            (GROUPED,),
            Case(
                "one_group",
                size(2, 4, 5, 4, 18, 4, 2, groups=1),
                "an ordinary convolution; two full tiles of columns",
            ),
            Case(
                "filter_1x1_stride_2",
                size(1, 34, 5, 3, 4, 1, 1, stride=(2, 2), groups=2),
                "groups of 17 channels, one more than a tile",
            ),
            Case(
                "seventeen_filters",
                size(1, 2, 3, 6, 34, 3, 5, pad=(1, 0), groups=2),
                "groups of 17 filters, one more than a tile, and of 15 columns, one less",
            ),
            gradient_check(
                "grouped_numerical_gradient_check",
                size(2, 4, 5, 4, 6, 2, 2, stride=(2, 1), pad=(1, 0), groups=2),
            ),
            Case(
                "grouped_integers",
                size(2, 6, 6, 5, 4, 3, 2, stride=(1, 2), pad=(2, 1), dilation=(2, 1), groups=2),
                "exact sums",
                values="integers",
            ),
        ),
        *only(
            (DEPTHWISE,),
            gradient_check(
                "depthwise_numerical_gradient_check",
                size(2, 2, 10, 4, 4, 3, 2, stride=(1, 2), pad=(2, 1), dilation=(2, 1), groups=2),
            ),
            Case(
                "stride_larger_than_filter",
                size(2, 2, 37, 5, 2, 2, 1, stride=(4, 3), pad=(1, 0), groups=2),
                "rows of the input that no filter meets",
            ),
            Case(
                "depthwise_integers",
                size(2, 2, 25, 9, 2, 3, 4, stride=(2, 1), pad=(2, 3), dilation=(3, 2), groups=2),
                "12 rows of grad_output",
                values="integers",
            ),
        ),
        Case("drawn", size(1, 4, 3, 4, 6, 1, 3, groups=2), "the picture", kernels=(GROUPED,)),
        *only(
            (DEPTHWISE,),
            Case("drawn_depthwise", size(1, 1, 7, 6, 1, 3, 3, pad=(1, 1), groups=1), "the picture"),
            Case(
                "counted_depthwise",
                size(2, 4, 16, 16, 8, 3, 3, stride=(1, 2), pad=(1, 1), groups=4),
                "two filters for each channel: the case of the gates",
                again=lambda pick: size(
                    3, 6, pick(18, 21), 32, 18, 5, 5, stride=(1, 2), pad=(2, 2), groups=6
                ),
            ),
            Case(
                "large_image",
                size(1, 1, 263, 259, 1, 2, 2, groups=1),
                "more pixels than 16 bits can count",
                stress=True,
            ),
        ),
        replace(own_sizes(C_in=(3, 9, 3), C_out=(3, 9, 3), groups=3), kernels=(GROUPED,)),
        replace(
            own_sizes(C_in=3, C_out=(3, 9, 3), groups=3), name="own_sizes_depthwise", kernels=(DEPTHWISE,)
        ),
        Case(
            "counted",
            size(2, 16, 8, 8, 16, 3, 3, pad=(1, 1), groups=4),
            "4 groups of 4 channels and 4 filters: the case of the gates",
            kernels=(GROUPED,),
            again=lambda pick: size(3, 24, 4, 16, 24, 5, 5, pad=(2, 2), groups=3),
        ),
    ),
    mistakes=MISTAKES,
    gates=(
        Gate(
            "global_bytes",
            lambda d: int(1.5 * must_move(d)),
            kernels=(GROUPED,),
            below=893_440,
            says="A tile of 16 x 16 needs each element of its rows of grad_output and of its columns of "
            "windows once: let the block read them into shared memory, as in puzzle 32.",
        ),
        Gate(
            "flops",
            flops_in_tiles,
            kernels=(GROUPED,),
            says="Where a tile is larger than the product of its group, threads multiply zeros: choose a "
            "TILE nearer to the filters and the columns of a group.",
        ),
        Gate(
            "global_load_sectors",
            lambda d: int(1.02 * sectors_read_once(d)),
            kernels=(DEPTHWISE,),
            below=7_150,
            hint=2,
            says="No element is needed by two blocks: read each once, and keep the rows of the input that "
            "the next stretch needs too. A sector has 8 elements.",
        ),
        *tile_limits(GROUPED, of_groups, but="flops"),
        # each product takes a pixel and reads and writes a sum in shared memory; at the end a warp adds up its sums
        *Gate.limits(
            DEPTHWISE,
            flops=lambda d: 1.05 * (2 * taps(d) + (d["THREADS"] + 5 * 32) * weights(d)),
            global_requests=lambda d: 1.25 * 8 * sectors_read_once(d) / 32 + weights(d),
            shared_wavefronts=lambda d: 1.25 * (4 * taps(d) + 2 * d["THREADS"] * weights(d)) / 32,
        ),
    ),
    hints=(
        "Within a group the first kernel is puzzle 32's: rows are filters of the group, columns its channels "
        "and taps, and all positions are one split. Filters and channels of a group start at the group's "
        "number times how many a group has; in the weights, slices count from 0 in every group. Incomplete "
        "tiles end with the group, not with the array: row `filters` of a tile belongs to another block.",
        "Go through grad_output in stretches of ROWS rows. The first row of the input that it meets is the "
        "position's row times the stride, less the padding; it needs `keep` rows from there on, as far as "
        "they exist. Rows that the previous stretch has fetched are in the ring: remember the first that is "
        "not, starting over for every image. Rows lie one after another in both, so element i of an image "
        "belongs at i modulo keep * W. Then each thread takes elements of the stretch, and for each filter "
        "of the channel one of grad_output, for all taps.",
        "The barrier before the products is for the new rows, the one after them for those that will be "
        "overwritten. A thread's sums are its own until the end. Then each warp takes a weight: its lanes "
        "add up the THREADS sums 32 apart, then as in puzzle 20. The weights of channel c are filters * R * "
        "S numbers in a row.",
    ),
)
