"""PyTorch's convolution operators, with ATen's arguments, on the kernels of puzzles 13 to 16.

    from backwarp import ops
    grad_input, grad_weight, grad_bias = ops.convolution_backward(
        grad_output, input, weight, bias_sizes=[4], stride=2, padding=1, dilation=1, transposed=False,
        output_padding=0, groups=1, output_mask=(True, True, True))

Arrays may be NumPy arrays or anything that supports DLPack, such as PyTorch tensors; all float64, all
float32, or all float16 (summed in float32). Arrays in host memory are copied to the device of the
`Operators`, and the results are NumPy arrays; CUDA arrays stay where they are, and the results are CuPy
arrays. `torch.from_dlpack` takes both.

Puzzle 13 computes 2-D convolutions, 14 grouped ones, 16 transposed ones, 15 all kinds with one or three
spatial dimensions, and 13 every bias gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from backwarp.reference.conv_plan import (
    Plan,
    aten_plan,
    check_backward,
    check_same,
    convolution_plan,
    per_dimension,
)

from .course.checkout import Course
from .measure.kernel_calls import KernelCalls, library, together

# The kernels of a convolution, in the terms of reference.conv: what the sum produces (grid, image or weights)
# -> (the array that the kernel writes, the names of the kernel's inputs).
CONVOLUTION = {
    "grid": ("output", {"image": "input", "weights": "weights"}),
    "image": ("grad_input", {"grid": "grad_output", "weights": "weights"}),
    "weights": ("grad_weights", {"grid": "grad_output", "image": "input"}),
}
TRANSPOSED = {
    "image": ("output", {"grid": "input", "weights": "weights"}),
    "grid": ("grad_input", {"image": "grad_output", "weights": "weights"}),
    "weights": ("grad_weights", {"grid": "input", "image": "grad_output"}),
}


class Operators:
    """The operators on one device.

    device: for arrays in host memory: "cpu" (the virtual GPU), "gpu", "auto", or an open device. mine: use
    the student's kernels instead of the solutions' wherever they have passed (always true in a student's
    course). Kernels are compiled when first needed, and kept.
    """

    def __init__(self, device="auto", mine: bool = False, course: Course | None = None):
        self.kernels = KernelCalls(device, mine, course)

    def convolution(self, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
        """aten::convolution: the output (N, K, ...) of input (N, C, ...), weight (K, C / groups, ...), or
        (C, K / groups, ...) if transposed, and bias (K,) or None.

        Errors: ValueError for sizes, parameters or types that do not match; CompileError and KernelFault if a
        student's kernel has a mistake; DeviceError.
        """
        input, weight, bias = together(input=input, weight=weight, bias=bias)
        options = stride, padding, dilation, transposed, output_padding, groups
        plan = aten_plan(tuple(input.shape), tuple(weight.shape), *options)
        sums = Sums(self.kernels, plan, transposed, output_padding)
        output, source = ("image", "grid") if transposed else ("grid", "image")
        if bias is not None:
            check_same("bias.shape", tuple(bias.shape), (sums.shape(output)[1],))
        return sums.make(output, bias, weights=weight, **{source: input})

    def convolution_backward(
        self,
        grad_output,
        input,
        weight,
        bias_sizes,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask: Sequence[bool],
    ):
        """aten::convolution_backward: (grad_input, grad_weight, grad_bias), shaped like input, weight and
        bias.

        output_mask: three booleans; a gradient that was not requested is None. Errors: as for `convolution`.
        """
        input, weight, grad = together(input=input, weight=weight, grad_output=grad_output)
        options = stride, padding, dilation, transposed, output_padding, groups
        plan = aten_plan(tuple(input.shape), tuple(weight.shape), *options)
        wanted = check_backward(plan, transposed, tuple(grad.shape), bias_sizes, output_mask)
        sums = Sums(self.kernels, plan, transposed, output_padding)
        output, source = ("image", "grid") if transposed else ("grid", "image")
        return (
            sums.make(source, weights=weight, **{output: grad}) if wanted[0] else None,
            sums.make("weights", **{source: input, output: grad}) if wanted[1] else None,
            self._grad_bias(grad) if wanted[2] else None,
        )

    def _grad_bias(self, grad):
        """The bias gradient; the spatial dimensions are merged into one row of an image."""
        (count, channels), length = grad.shape[:2], math.prod(grad.shape[2:])
        plan = aten_plan((count, 1, 1, length), (channels, 1, 1, 1), 1, 0, 1, False, 0, 1)
        return self.kernels.run("13", "grad_bias", sizes_of(plan), {"grad_output": grad})


class Sums:
    """The three sums of one convolution, computed by the kernels of one puzzle."""

    def __init__(self, kernels: KernelCalls, plan: Plan, transposed, output_padding):
        dims = len(plan.stride)
        self.kernels, self.plan, self.sizes = kernels, plan, sizes_of(plan)
        self.puzzle = "15" if dims != 2 else "16" if transposed else "13" if plan.groups == 1 else "14"
        self.roles, self.grid_shape = CONVOLUTION, plan.grid_shape
        if self.puzzle == "16":
            self.roles = TRANSPOSED
            self.sizes |= dict(zip(("batch", "C_in", "H", "W"), plan.grid_shape))
            self.sizes["C_out"] = plan.image_shape[1]
            extra = per_dimension("output_padding", output_padding, dims, at_least=0)
            self.sizes |= dict(zip(("out_pad_h", "out_pad_w"), extra))
        elif transposed:  # its kernels find more positions where output_padding is at least the stride
            options = plan.stride, plan.padding, plan.dilation, plan.groups
            self.grid_shape = convolution_plan(plan.image_shape, plan.weight_shape, *options).grid_shape

    def shape(self, name: str) -> tuple[int, ...]:
        plan = self.plan
        return {"grid": plan.grid_shape, "image": plan.image_shape, "weights": plan.weight_shape}[name]

    def make(self, name: str, bias=None, **inputs):
        """Computes the grid, image or weights from the other two; a bias is added to its channels."""
        writes, names = self.roles[name]
        arrays = {names[role]: self.whole(role, array) for role, array in inputs.items()}
        if writes == "output" and self.puzzle != "15":
            none = library(arrays["weights"]).zeros(self.shape(name)[1], arrays["weights"].dtype)
            arrays["bias"], bias = none if bias is None else bias, None
        made = self.kernels.run(self.puzzle, writes, self.sizes, arrays)
        made = made.reshape(self.grid_shape if name == "grid" else self.shape(name))
        made = made[tuple(map(slice, self.shape(name)))]
        return made if bias is None else made + bias.reshape(-1, *[1] * (made.ndim - 2))

    def whole(self, role: str, array):
        """The grid, padded with zeros at the positions that only the kernels have."""
        if role != "grid" or array.shape == self.grid_shape:
            return array
        return library(array).pad(array, [(0, n - m) for n, m in zip(self.grid_shape, array.shape)])


def sizes_of(plan: Plan) -> dict[str, int]:
    """What the puzzles call the sizes and parameters of a convolution: image to input, grid to output."""
    sizes = dict(batch=plan.image_shape[0], C_in=plan.image_shape[1], C_out=plan.grid_shape[1])
    absent = 3 - len(plan.stride)
    for names, values, usual in (
        ("DHW", plan.image_shape[2:], 1),
        ("TRS", plan.weight_shape[2:], 1),
        (("stride_d", "stride_h", "stride_w"), plan.stride, 1),
        (("pad_d", "pad_h", "pad_w"), [before for before, _ in plan.padding], 0),
        (("dilation_d", "dilation_h", "dilation_w"), plan.dilation, 1),
    ):
        sizes |= dict(zip(names, (*[usual] * absent, *values)))
    return {**sizes, "groups": plan.groups}


@lru_cache(maxsize=1)
def default() -> Operators:
    """The solutions' kernels, on a GPU if there is one."""
    return Operators()


def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """See Operators.convolution."""
    options = stride, padding, dilation, transposed, output_padding, groups
    return default().convolution(input, weight, bias, *options)


def convolution_backward(
    grad_output,
    input,
    weight,
    bias_sizes,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    output_mask,
):
    """See Operators.convolution_backward."""
    options = stride, padding, dilation, transposed, output_padding, groups
    return default().convolution_backward(grad_output, input, weight, bias_sizes, *options, output_mask)
