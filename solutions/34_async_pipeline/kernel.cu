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
    // BEGIN SOLUTION
    __shared__ float filters[STAGES][TILE][TILE], patches[STAGES][TILE][TILE];
    int s = y % S, r = y / S % R, c = y / (S * R);
    int add_s = TILE % S, add_r = TILE / S % R, add_c = TILE / (S * R);
    // END SOLUTION

    // TODO(2): start the copies of the first STAGES - 1 steps. Then, in every step: wait for the pair of
    //          this step, start the copies of another, and add up the products. Copy with zero-fill,
    //          and find the next (c, r, s) without a division.
    // BEGIN SOLUTION
    int steps = (rows + TILE - 1) / TILE;
    float sum = 0.0f;
    for (int step = 1 - STAGES; step < steps; step++) {
        if (step >= 0) {
            wait_copies<STAGES - 2>();  // what this thread copied for this step has arrived
            __syncthreads();  // so has all else, and nobody reads the pair before any more
        }
        int next = step + STAGES - 1, to = next % STAGES;
        if (next < steps) {
            int i = next * TILE + x, h = top + r * dilation_h, w = left + s * dilation_w;
            bool inside = c < C_in && column < width && h >= 0 && h < H && w >= 0 && w < W;
            copy_async(&filters[to][y][x], &weights[k * rows + i], k < C_out && i < rows);
            copy_async(&patches[to][y][x], &input[((b * C_in + c) * H + h) * W + w], inside);
            s += add_s, r += add_r, c += add_c;
            if (s >= S) s -= S, r++;
            if (r >= R) r -= R, c++;
        }
        commit_copies();  // also where there is nothing to copy: groups are counted
        if (step < 0) continue;
        for (int i = 0; i < TILE; i++) {
            sum += filters[step % STAGES][y][i] * patches[step % STAGES][i][x];
        }
    }
    // END SOLUTION

    // TODO(3): store the sum and the bias, if there is such an output.
    // BEGIN SOLUTION
    if (k < C_out && column < width) output[((b * C_out + k) * H_out + p) * W_out + q] = bias[k] + sum;
    // END SOLUTION
}
