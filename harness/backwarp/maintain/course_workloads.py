"""Kernels of the course as workloads of bench_virtual: LeNet's, on its layers, and those of parts 3 and 4, on the same ones.

One table lists puzzle and kernels, the operation they compute, and its sizes. An operation has loops in C and
an operator in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from tests import samples

from ..course.checkout import open_course
from ..course.declare import Array, Case
from ..course.inputs import make_inputs
from ..cuda.values import tunables
from .workloads import Workload

C = """
#include <math.h>
#define FOR(i, n) for (int i = 0; i < (n); i++)
#define LAYER int N, int C, int H, int W, int K, int R, int S
#define IN(b, c, h, w) input[(((b) * C + (c)) * H + (h)) * W + (w)]
#define OUT(x, b, k, p, q) x[(((b) * K + (k)) * P + (p)) * Q + (q)]
#define FILTER(x, k, c, r, s) x[(((k) * C + (c)) * R + (r)) * S + (s)]
void convolution(const float* input, const float* weights, const float* bias, float* output, LAYER) {
    int P = H - R + 1, Q = W - S + 1;
    FOR(b, N) FOR(k, K) FOR(p, P) FOR(q, Q) {
        float sum = bias[k];
        FOR(c, C) FOR(r, R) FOR(s, S) sum += IN(b, c, p + r, q + s) * FILTER(weights, k, c, r, s);
        OUT(output, b, k, p, q) = sum;
    }
}
void gradient_of_weights(const float* grad_output, const float* input, float* grad_weights, LAYER) {
    int P = H - R + 1, Q = W - S + 1;
    FOR(k, K) FOR(c, C) FOR(r, R) FOR(s, S) {
        float sum = 0;
        FOR(b, N) FOR(p, P) FOR(q, Q) sum += OUT(grad_output, b, k, p, q) * IN(b, c, p + r, q + s);
        FILTER(grad_weights, k, c, r, s) = sum;
    }
}
void gradient_of_input(const float* grad_output, const float* weights, float* grad_input, LAYER) {
    int P = H - R + 1, Q = W - S + 1;
    FOR(b, N) FOR(c, C) FOR(h, H) FOR(w, W) {
        float sum = 0;
        FOR(k, K) FOR(r, R) FOR(s, S)
            if (h >= r && h - r < P && w >= s && w - s < Q)
                sum += OUT(grad_output, b, k, h - r, w - s) * FILTER(weights, k, c, r, s);
        grad_input[((b * C + c) * H + h) * W + w] = sum;
    }
}
void gradient_of_bias(const float* grad_output, float* grad_bias, int N, int K, int P, int Q) {
    FOR(k, K) {
        float sum = 0;
        FOR(b, N) FOR(i, P * Q) sum += grad_output[(b * K + k) * P * Q + i];
        grad_bias[k] = sum;
    }
}
void columns(const float* input, float* columns, LAYER) {
    int P = H - R + 1, Q = W - S + 1;
    FOR(c, C) FOR(r, R) FOR(s, S) FOR(b, N) FOR(p, P) FOR(q, Q)
        columns[((((c * R + r) * S + s) * N + b) * P + p) * Q + q] = IN(b, c, p + r, q + s);
}
void fully_connected(const float* x, const float* w, const float* bias, float* y, int N, int in, int out) {
    FOR(b, N) FOR(o, out) {
        float sum = bias[o];
        FOR(i, in) sum += x[b * in + i] * w[o * in + i];
        y[b * out + o] = sum;
    }
}
void connected_weights(const float* grad, const float* x, float* grad_w, int N, int in, int out) {
    FOR(o, out) FOR(i, in) {
        float sum = 0;
        FOR(b, N) sum += grad[b * out + o] * x[b * in + i];
        grad_w[o * in + i] = sum;
    }
}
void connected_input(const float* grad, const float* w, float* grad_x, int N, int in, int out) {
    FOR(b, N) FOR(i, in) {
        float sum = 0;
        FOR(o, out) sum += grad[b * out + o] * w[o * in + i];
        grad_x[b * in + i] = sum;
    }
}
void relu(const float* x, float* y, int n) { FOR(i, n) y[i] = x[i] > 0 ? x[i] : 0; }
void relu_gradient(const float* grad, const float* x, float* grad_x, int n) { FOR(i, n) grad_x[i] = x[i] > 0 ? grad[i] : 0; }
void pooling(const float* input, float* output, int* argmax, int N, int C, int H, int W) {
    FOR(i, N * C) FOR(p, H / 2) FOR(q, W / 2) {
        int at = 2 * p * W + 2 * q;
        FOR(r, 2) FOR(s, 2) {
            int here = (2 * p + r) * W + 2 * q + s;
            if (input[i * H * W + here] > input[i * H * W + at]) at = here;
        }
        output[(i * (H / 2) + p) * (W / 2) + q] = input[i * H * W + at];
        argmax[(i * (H / 2) + p) * (W / 2) + q] = at;
    }
}
void pooling_gradient(const float* grad, const int* argmax, float* grad_x, int N, int C, int H, int W) {
    FOR(i, N * C * H * W) grad_x[i] = 0;
    FOR(i, N * C) FOR(j, H / 2 * (W / 2)) grad_x[i * H * W + argmax[i * (H / 2 * (W / 2)) + j]] = grad[i * (H / 2 * (W / 2)) + j];
}
void transposed(const float* x, float* y, int rows, int columns) { FOR(i, rows) FOR(j, columns) y[j * rows + i] = x[i * columns + j]; }
void product(const float* a, const float* b, float* c, int M, int N, int K) {
    FOR(i, M) {
        FOR(j, N) c[i * N + j] = 0;
        FOR(k, K) FOR(j, N) c[i * N + j] += a[i * K + k] * b[k * N + j];
    }
}
"""


@dataclass(frozen=True)
class Operation:
    """arguments, torch: see Workload; multiply_adds: the sizes whose product is the number of
    multiply-adds."""

    arguments: str
    torch: Callable[[object, Mapping, Mapping], dict] | None
    multiply_adds: str = ""


def gradients(t, a, d, which: int):
    """PyTorch's gradient of a convolution's input (0) or weights (1)."""
    shape = dict(
        input=(d["batch"], d["C_in"], d["H"], d["W"]), weights=(d["C_out"], d["C_in"], d["R"], d["S"])
    )
    given = (a[name] if name in a else t.zeros(shape[name]) for name in ("input", "weights"))
    wanted = [which == 0, which == 1, False]
    options = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    return t.ops.aten.convolution_backward(a["grad_output"], *given, None, *options, wanted)[which]


def pool(t, a, d):
    output, argmax = t.nn.functional.max_pool2d(a["input"], 2, return_indices=True)
    return dict(output=output, argmax=argmax)


def pool_gradient(t, a, d):
    sides = d["H"], d["W"]
    return dict(
        grad_input=t.nn.functional.max_unpool2d(a["grad_output"], a["argmax"].long(), 2, output_size=sides)
    )


LAYER, DENSE = "batch C_in H W C_out R S", "batch n_in n_out"
CONV = "batch C_out H_out W_out C_in R S"
OPERATIONS = {
    "convolution": Operation(
        f"input weights bias output {LAYER}",
        lambda t, a, d: dict(output=t.conv2d(a["input"], a["weights"], a["bias"])),
        CONV,
    ),
    "gradient_of_weights": Operation(
        f"grad_output input grad_weights {LAYER}",
        lambda t, a, d: dict(grad_weights=gradients(t, a, d, 1)),
        CONV,
    ),
    "gradient_of_input": Operation(
        f"grad_output weights grad_input {LAYER}",
        lambda t, a, d: dict(grad_input=gradients(t, a, d, 0)),
        CONV,
    ),
    "gradient_of_bias": Operation(
        "grad_output grad_bias batch C_out H_out W_out",
        lambda t, a, d: dict(grad_bias=a["grad_output"].sum((0, 2, 3))),
    ),
    "columns": Operation(
        f"input columns {LAYER}",
        lambda t, a, d: dict(
            columns=t.nn.functional.unfold(a["input"], (d["R"], d["S"])).transpose(0, 1).reshape(-1).clone()
        ),
    ),
    "fully_connected": Operation(
        f"input weights bias output {DENSE}",
        lambda t, a, d: dict(output=t.nn.functional.linear(a["input"], a["weights"], a["bias"])),
        DENSE,
    ),
    "connected_weights": Operation(
        f"grad_output input grad_weights {DENSE}",
        lambda t, a, d: dict(grad_weights=a["grad_output"].T @ a["input"]),
        DENSE,
    ),
    "connected_input": Operation(
        f"grad_output weights grad_input {DENSE}",
        lambda t, a, d: dict(grad_input=a["grad_output"] @ a["weights"]),
        DENSE,
    ),
    "relu": Operation("input output n", lambda t, a, d: dict(output=t.relu(a["input"]))),
    "relu_gradient": Operation(
        "grad_output input grad_input n", lambda t, a, d: dict(grad_input=a["grad_output"] * (a["input"] > 0))
    ),
    "pooling": Operation("input output argmax batch C H W", pool),
    "pooling_gradient": Operation("grad_output argmax grad_input batch C H W", pool_gradient),
    "transposed": Operation(
        "input output rows columns", lambda t, a, d: dict(output=a["input"].T.contiguous())
    ),
    "product": Operation("A B C M N K", lambda t, a, d: dict(C=a["A"] @ a["B"]), "M N K"),
}

#: LeNet's second layer, for part 1 and for puzzles with non-square filters; its first fully connected layer
SECOND = dict(batch=16, C_in=6, H=12, W=12, C_out=16, F=5)
GENERAL = {k: v for k, v in SECOND.items() if k != "F"} | dict(
    R=5, S=5, stride_h=1, stride_w=1, pad_h=0, pad_w=0, dilation_h=1, dilation_w=1
)
FIRST_DENSE, OUTPUTS = dict(batch=64, n_in=256, n_out=120), dict(batch=16, C_out=16, H_out=8, W_out=8)
ELEMENTS, IMAGES = dict(n=16 * 6 * 24 * 24, threads=256), dict(batch=16, C=6, H=24, W=24)
SQUARE = dict(M=256, N=256, K=256)
#: (puzzle, kernels in their order, operation, sizes)
TABLE = (
    ("03", "fc_forward", "fully_connected", FIRST_DENSE),
    ("04", "relu_forward", "relu", ELEMENTS),
    ("04", "relu_backward", "relu_gradient", ELEMENTS),
    ("06", "fc_backward_weights", "connected_weights", FIRST_DENSE),
    ("06", "fc_backward_input", "connected_input", FIRST_DENSE),
    ("07", "conv2d_forward", "convolution", SECOND),
    ("08", "max_pool2d_forward", "pooling", IMAGES),
    ("08", "max_pool2d_backward", "pooling_gradient", IMAGES),
    ("09", "conv2d_backward_weights", "gradient_of_weights", SECOND),
    ("09", "conv2d_backward_bias", "gradient_of_bias", SECOND),
    ("10", "conv2d_backward_input", "gradient_of_input", SECOND),
    ("19", "conv2d_backward_bias", "gradient_of_bias", OUTPUTS),
    ("20", "conv2d_backward_bias", "gradient_of_bias", OUTPUTS),
    ("21", "conv2d_backward_weights", "gradient_of_weights", SECOND),
    ("22", "conv2d_backward_weights_partial add_parts", "gradient_of_weights", SECOND | dict(parts=4)),
    ("23", "fc_forward", "fully_connected", FIRST_DENSE),
    ("24", "conv2d_forward", "convolution", SECOND),
    ("25", "transpose", "transposed", dict(rows=384, columns=400)),
    ("26", "matmul", "product", SQUARE),
    ("27", "matmul", "product", SQUARE),
    ("28", "im2col", "columns", GENERAL),
    ("30", "implicit_gemm_forward", "convolution", GENERAL),
    ("31", "conv2d_backward_input", "gradient_of_input", GENERAL),
    ("32", "conv2d_backward_weights_split add_splits", "gradient_of_weights", GENERAL | dict(splits=4)),
    ("33", "conv2d_backward_weights_grouped", "gradient_of_weights", GENERAL | dict(groups=1)),
    ("34", "implicit_gemm_async", "convolution", GENERAL),
)


#: kernels of the other puzzles, whose full checks are compared with memory checks alone; their sizes where they have these
OTHERS = (
    *(("01", "vector_add"), ("02", "matmul"), ("05", "softmax_cross_entropy_forward"), ("11", "sgd_step")),
    *(("13", "conv2d_forward"), ("13", "conv2d_backward_input"), ("13", "conv2d_backward_weights")),
    *(("14", "conv2d_forward"), ("14", "conv2d_backward_weights"), ("15", "conv_nd_forward")),
    *(("16", "conv_transpose2d_forward"), ("17", "avg_pool2d_forward"), ("17", "avg_pool2d_backward")),
    *(
        ("18", "nchw_to_nhwc"),
        ("29", "col2im"),
        ("35", "conv2d_backward_weights_tf32"),
        ("35", "matmul_half"),
    ),
    *(("39", "conv2d_forward_float"), ("39", "conv2d_forward_tf32")),
)
SMALL = GENERAL | dict(n=ELEMENTS["n"], M=128, N=128, K=128, C=6, F=5, classes=10, D=6, T=3, groups=2)


def other(number: str, kernel: str) -> Workload:
    """A kernel of another puzzle."""
    dims = dict(open_course().load(number).bench)
    return workload(number, kernel, "", {name: n for name, n in SMALL.items() if name in dims})


def workload(number: str, kernels: str, operation: str, sizes: Mapping[str, int]) -> Workload:
    """The solution's kernels on random arrays. operation: "" where nothing else computes the same."""
    puzzle, op = open_course().load(number), OPERATIONS.get(operation, Operation("", None))
    source = puzzle.solution_path.read_text(encoding="utf-8")
    base = dict(puzzle.bench) or dict(puzzle.cases[0].dims)
    case = Case("bench", {**base, **sizes})
    dims, t = puzzle.full_dims(case), tunables(source)
    inputs, outputs, state, scalars, launches, constants = {}, {}, {}, {}, [], []
    for name in kernels.split():
        kernel, names = puzzle.kernel(name), []
        made = make_inputs(puzzle, case, kernel)
        for p in kernel.arrays:
            known = inputs.keys() | outputs.keys() | state.keys()
            empty = np.zeros(p.shape(dims), p.dtype)
            if p.name in known:
                continue
            if p.is_output:
                (state if p.is_input else outputs)[p.name] = (empty, empty) if p.is_input else empty
            else:
                inputs[p.name] = made[p.name]
        for p in kernel.params:
            names.append(p.name)
            if not isinstance(p, Array):
                scalars[p.name] = np.dtype(p.dtype).type(p.resolve(dims))
        constants += [p.name for p in kernel.constants]
        launch = kernel.launch(dict(dims), t)
        launches.append(samples.Launch(name, launch.grid, launch.block, " ".join(names), launch.shared_mem))
    dims = {"R": dims.get("F"), "S": dims.get("F"), **dims}
    count = prod(dims[name] for name in op.multiply_adds.split()) if op.multiply_adds else 0
    job = samples.Job(launches, inputs, outputs, state, scalars)
    title = f"{number} {kernels.split()[0]}"
    names = tuple(dict.fromkeys(constants))
    folders = puzzle.include_dirs
    return Workload(title, source, job, count, operation, op.arguments, op.torch, dims, names, folders)


WORKLOADS = {f"{row[0]} {row[1].split()[0]}": partial(workload, *row) for row in TABLE}
