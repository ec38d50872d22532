"""Steps of another axis than the one that is counted through."""

import pytest

from harness.cuda.text import read
from harness.grading.slips.counted_axes import steps_of_other_axes
from harness.tests.grading.slips.test_misuses import COURSE

TEXT = """
__global__ void im2col(
    const float* input, float* columns,
    int batch, int C_in, int H, int W, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int positions = H_out * W_out, width = batch * positions;
    int tid = threadIdx.x + blockIdx.x * blockDim.x;
    if (tid < C_in * width) {
        int ch = tid / width;
        int col = tid - ch * width;
        int n = col / positions;
        const float* img = input + (n * C_in + ch) * H * W;
        float* out = columns + ch * R * S * width + col;
        for (int r = 0; r < R; ++r) for (int s = 0; s < S; ++s) { *out = img[r * W + s]; out += width; }
    }
}
"""
SHAPE = "in columns, which is [C_in, R, S, batch, H_out, W_out]: there the step along"


@pytest.mark.parametrize(
    "edits, says",
    [
        ([], ""),
        (
            [("ch * R * S * width + col", "ch * width + col")],
            f"takes width elements for the step along ch {SHAPE} c is R * S",
        ),
        (
            [("out += width", "out += positions")],
            f"takes positions elements as the step of out {SHAPE} s is batch * H_out",
        ),
        # it counts through nothing that is known
        ([("ch * R * S * width + col", "ch * width + col"), ("tid < C_in * width", "tid < batch")], ""),
        ([("out += width", "out += positions"), ("tid - ch * width", "tid - ch")], ""),
        # no other array says that it is a channel
        ([("ch * R * S * width + col", "ch * width + col"), ("(n * C_in + ch)", "(n * C_in)")], ""),
        # another loop, in which it may be meant
        ([("out += width", "out += positions"), ("s < S", "s < batch")], ""),
    ],
)
def test_a_step_of_another_axis_than_is_counted_through(edits, says):
    puzzle, text = COURSE.load("28"), TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    kernel = puzzle.kernels[0]
    dims = [puzzle.full_dims(c) for c in puzzle.cases if not c.stress]
    found = [str(slip) for slip in steps_of_other_axes(kernel, read(text).function(kernel.name), dims)]
    assert len(found) == bool(says) and (not says or says in found[0]), found
