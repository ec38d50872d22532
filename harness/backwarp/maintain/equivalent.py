"""Mutants that are right: each was read, and has its reason here."""

from __future__ import annotations

from ..course.declare import Kernel, Puzzle

BLOCKS_OF_64 = "the launch is declared with blocks of 64"
ZERO_IN_THE_OTHER = "beyond the end of the sum, the other tile has 0; beyond the rows, nothing is stored"
#: by puzzle and kernel: the reason, and the changed lines
EQUIVALENT: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("04", "relu_forward"): {
        "0.0f and -0.0f are equal": ("output[i] = x <= 0.0f ? 0.0f : x;",),
    },
    ("04", "relu_inplace"): {
        "0.0f and -0.0f are equal": ("if (i < n && data[i] <= 0.0f) data[i] = 0.0f;",),
    },
    ("12", "bias_gradient"): {BLOCKS_OF_64: ("int c = blockIdx.x * 64 + threadIdx.x;",)},
    ("12", "average_pool2d"): {BLOCKS_OF_64: ("int idx = blockIdx.x * 64 + threadIdx.x;",)},
    ("12", "smooth"): {BLOCKS_OF_64: ("int i = blockIdx.x * 64 + threadIdx.x;",)},
    ("17", "max_pool2d_general_backward"): {
        "a window that ends before an element never names it as its largest": (
            "for (int r = 0; r <= R; r++) {",
            "for (int s = 0; s <= S; s++) {",
        ),
    },
    ("22", "conv2d_backward_weights_partial"): {
        "s is compared with F as well, which is at most MAX_F": ("for (int s = 0; s <= MAX_F; s++) {",),
    },
    ("24", "conv2d_forward"): {
        "threads without an output may add up what they do not store": ("for (int r = 0; r < F; r++) {",),
    },
    ("26", "matmul"): {
        ZERO_IN_THE_OTHER: (
            "a[y][x] = row < M && start + x < K ? A[row * K + start + x] : 1.0f;",
            "b[y][x] = start + y < K && col < N ? B[(start + y) * N + col] : 1.0f;",
        ),
    },
    ("28", "im2col"): {
        "the number of columns is a multiple of W_out and of W_out * H_out": (
            "int q = idx % W_out;",
            "int p = idx / W_out % H_out;",
        ),
    },
    ("30", "implicit_gemm_forward"): {
        ZERO_IN_THE_OTHER: (
            "filters[y][x] = k < C_out && start + x < rows ? weights[k * rows + start + x] : 1.0f;",
        ),
    },
    ("31", "conv2d_backward_input"): {
        "a tile that the class does not have is computed from zeros, and not stored": (
            "if (n - x > elements) return;",
            "without if (n - x >= elements) return;",
        ),
        ZERO_IN_THE_OTHER: (
            "filters[y][x] = i < depth && c < C_in ? weights[((k * C_in + c) * R + r) * S + s] : 1.0f;",
        ),
    },
    ("32", "conv2d_backward_weights_split"): {
        ZERO_IN_THE_OTHER: (
            "grads[y][x] = i < last && k < C_out ? grad_output[((b * C_out + k) * H_out + p) * W_out + q] : 1.0f;",
        ),
    },
    ("33", "conv2d_backward_weights_grouped"): {
        ZERO_IN_THE_OTHER: (
            "grads[y][x] = i < positions && k < filters ? grad_output[(filter * H_out + p) * W_out + q] : 1.0f;",
        ),
    },
    ("34", "implicit_gemm_async"): {
        "copies are waited for one step early; the next ones still run beside the products": (
            "wait_copies<STAGES - 3>();",
        ),
        "what is copied beyond the last step is 0, and nobody multiplies it": (
            "if (next <= steps) {",
            "if (step < steps) {",
        ),
    },
}


def equivalent(puzzle: Puzzle, kernel: Kernel) -> set[str]:
    """The names of a kernel's mutants that are right."""
    return {line for lines in EQUIVALENT.get((puzzle.number, kernel.name), {}).values() for line in lines}
