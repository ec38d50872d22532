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
    // BEGIN SOLUTION
    __shared__ float grads[TILE][TILE], windows[TILE][TILE + 1];
    int columns = C_in * R * S;
    int across = (columns + TILE - 1) / TILE;
    int k = blockIdx.x / across * TILE + y;
    int j = blockIdx.x % across * TILE + y;
    int s = j % S, r = j / S % R, c = j / (S * R);
    int positions = batch * H_out * W_out;
    int length = (positions + splits - 1) / splits;
    int first = split * length, last = min(first + length, positions);
    // END SOLUTION

    // TODO(2): for every stretch of TILE positions, fill both tiles, with x along the positions and 0
    //          for what does not exist; wait; add up TILE products; wait.
    // BEGIN SOLUTION
    float sum = 0.0f;
    for (int start = first; start < last; start += TILE) {
        int i = start + x;
        int q = i % W_out, p = i / W_out % H_out, b = i / (W_out * H_out);
        int h = p * stride_h - pad_h + r * dilation_h;
        int w = q * stride_w - pad_w + s * dilation_w;
        bool inside = j < columns && h >= 0 && h < H && w >= 0 && w < W;
        grads[y][x] = i < last && k < C_out ? grad_output[((b * C_out + k) * H_out + p) * W_out + q] : 0.0f;
        windows[y][x] = i < last && inside ? input[((b * C_in + c) * H + h) * W + w] : 0.0f;
        __syncthreads();  // both tiles are full
        for (int n = 0; n < TILE; n++) {
            sum += grads[y][n] * windows[x][n];
        }
        __syncthreads();  // nobody needs them any more
    }
    // END SOLUTION

    // TODO(3): store the sum in this split's part of the workspace, if there is such a weight.
    // BEGIN SOLUTION
    int column = j - y + x;
    if (k < C_out && column < columns) partial[(split * C_out + k) * columns + column] = sum;
    // END SOLUTION
}

extern "C" __global__ void add_splits(
    const float* partial,  // [splits, C_out, C_in, R, S]
    float* grad_weights,   // [C_out, C_in, R, S], yours to fill
    int splits, int weights) {
    // TODO(4): a thread adds up the splits of one weight; weights is C_out * C_in * R * S.
    // BEGIN SOLUTION
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= weights) return;
    float sum = 0.0f;
    for (int split = 0; split < splits; split++) {
        sum += partial[split * weights + idx];
    }
    grad_weights[idx] = sum;
    // END SOLUTION
}
