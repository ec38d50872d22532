// Puzzle 32: the gradient of the weights as a matrix product, one of whose matrices is never stored.
//
// What to do: a block of the first kernel computes a tile of grad_weights, as in puzzle 26, over one
// split of the positions. The tile of grad_output is copied; the tile of windows is gathered from the
// input, element by element, by the relation of puzzle 13. The second kernel adds up the splits,
// always in the same order. You will write about 31 lines.
//
// Check: backwarp grade 32    Stuck: backwarp hint 32    Start again: backwarp reset 32

constexpr int TILE = 16;  // a block has TILE x TILE threads and computes TILE x TILE sums

extern "C" __global__ void conv2d_backward_weights_split(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    const float* input,        // [batch, C_in, H, W]
    float* partial,            // [splits, C_out, C_in, R, S], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int splits) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int x = threadIdx.x, y = threadIdx.y, split = blockIdx.y;
    // TODO(1): declare the tiles. In tile blockIdx.x, find the row k and the column j that this thread
    //          fills, j's channel and tap, and of the split the first position and the one after its last.

    // TODO(2): for every stretch of TILE positions, fill both tiles, with x along the positions and 0
    //          for what does not exist; wait; add up TILE products; wait.

    // TODO(3): store the sum in this split's part of the workspace, if there is such a weight.
}

extern "C" __global__ void add_splits(
    const float* partial,  // [splits, C_out, C_in, R, S]
    float* grad_weights,   // [C_out, C_in, R, S], yours to fill
    int splits, int weights) {
    // TODO(4): a thread adds up the splits of one weight; weights is C_out * C_in * R * S.
}
