// Puzzle 34: async_pipeline, the implicit product of puzzle 30 with the next tiles on their way.
//
// What to do: puzzle 30 again, but no thread carries an element through a register:
// cp.async copies it from global to shared memory while the threads multiply. There
// are STAGES pairs of tiles: one is multiplied, the next ones are being filled, and
// one barrier per step is enough. You will write about 29 lines.
//
// Check: backwarp grade 34    Stuck: backwarp hint 34    Start again: backwarp reset 34

#include "async.cuh"

constexpr int TILE = 16;   // a block has TILE x TILE threads: TILE filters at TILE positions
constexpr int STAGES = 3;  // pairs of tiles in shared memory

extern "C" __global__ void implicit_gemm_async(
    const float* input,    // [batch, C_in, H, W]
    const float* weights,  // [C_out, C_in, R, S]
    const float* bias,     // [C_out]
    float* output,         // [batch, C_out, H_out, W_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int rows = C_in * R * S, width = batch * H_out * W_out;  // of the matrix
    int x = threadIdx.x, y = threadIdx.y;
    int k = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;  // this thread's filter and position
    int q = column % W_out, p = column / W_out % H_out, b = column / (W_out * H_out);
    int top = p * stride_h - pad_h, left = q * stride_w - pad_w;  // the upper left corner of its patch

    // TODO(1): declare the tiles. Split row y into (c, r, s), and TILE as well: the step from stretch to stretch.

    // TODO(2): start the copies of the first STAGES - 1 steps. Then, in every step: wait for the pair of
    //          this step, start the copies of another, and add up the products. Copy with zero-fill,
    //          and find the next (c, r, s) without a division.

    // TODO(3): store the sum and the bias, if there is such an output.
}
